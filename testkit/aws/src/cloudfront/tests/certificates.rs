//! Certificates: who proves a domain, and how a managed one comes and goes.

use http::Method;
use rstest::rstest;
use serde_json::{Value, json};

use super::{create, desk, domains, get, refused, tenant, update};
use crate::desk::{Answer, Desk};

fn request(host: &str, primary: &str) -> String {
    format!(
        "<ManagedCertificateRequest><ValidationTokenHost>{host}</ValidationTokenHost>\
         <PrimaryDomainName>{primary}</PrimaryDomainName></ManagedCertificateRequest>"
    )
}

fn attached(arn: &str) -> String {
    format!("<Customizations><Certificate><Arn>{arn}</Arn></Certificate></Customizations>")
}

/// A desk whose distribution has only CloudFront's own certificate.
fn bare() -> Desk {
    let mut desk = desk();
    desk.mutate("cloudfront", json!({ "distribution": { "id": "E1" } }));
    desk
}

/// A tenant with a pending self-hosted certificate.
fn pending(desk: &mut Desk) -> Answer {
    let asked = request("self-hosted", "a.example.com");
    create(desk, "acme", &["a.example.com", "b.example.com"], &asked).ok()
}

fn details(desk: &mut Desk) -> Answer {
    get(desk, "managed-certificate/acme")
}

fn issue(desk: &mut Desk) {
    let managed = json!({ "tenant": "acme", "status": "issued" });
    desk.mutate("cloudfront", json!({ "managed": managed }));
}

#[test]
fn a_domain_nobody_proves_is_refused_in_the_words_for_it() {
    let mut desk = bare();
    let answer = create(&mut desk, "acme", &["a.example.com"], "");
    assert_eq!(answer.error(), refused(400, "InvalidArgument"));
    let told = answer.text("Message");
    assert!(
        told.contains("Could not verify Domain Name ownership"),
        "{told}"
    );
}

#[test]
fn with_the_token_at_cloudfront_the_domain_must_lead_to_the_group() {
    let mut desk = bare();
    let asked = request("cloudfront", "a.example.com");
    let answer = create(&mut desk, "acme", &["a.example.com"], &asked);
    assert_eq!(answer.error(), refused(400, "InvalidArgument"));
    let put =
        json!([{ "name": "a.example.com", "type": "CNAME", "values": ["d0.cloudfront.net"] }]);
    desk.mutate(
        "route53",
        json!({ "records": { "zone": "Z1", "put": put } }),
    );
    let made = create(&mut desk, "acme", &["a.example.com"], &asked).ok();
    assert_eq!(made.texts("Status")[0], "inactive");
}

#[test]
fn a_record_proves_a_domain_only_once_it_is_in_sync() {
    let mut desk = bare();
    desk.switch("route53", json!({ "insyncDelay": 30 }));
    let record = crate::route53::tests::cname("CREATE", "a.example.com", "d0.cloudfront.net");
    crate::route53::tests::batch(&mut desk, "Z1", &[record]).ok();
    let asked = request("cloudfront", "a.example.com");
    let early = create(&mut desk, "acme", &["a.example.com"], &asked);
    assert_eq!(early.error(), refused(400, "InvalidArgument"));
    desk.advance(30);
    create(&mut desk, "acme", &["a.example.com"], &asked).ok();
}

#[test]
fn a_self_hosted_request_is_pending_and_tells_where_the_tokens_lie() {
    let mut desk = bare();
    pending(&mut desk);
    let told = details(&mut desk).ok();
    assert_eq!(told.root(), "ManagedCertificateDetails");
    assert_eq!(told.text("CertificateStatus"), "pending-validation");
    assert_eq!(told.text("ValidationTokenHost"), "self-hosted");
    assert_eq!(told.texts("Domain"), ["a.example.com", "b.example.com"]);
    assert!(told.texts("RedirectFrom")[0].starts_with("http://a.example.com/.well-known/"));
    assert!(told.texts("RedirectTo")[1].contains("b.example.com"));
    let wrong = request("self-hosted", "x.example.com");
    let refusal = create(&mut desk, "other", &["c.example.com"], &wrong);
    assert_eq!(refusal.error(), refused(400, "InvalidArgument"));
}

#[test]
fn an_issued_certificate_makes_domains_active_once_attached() {
    let mut desk = bare();
    let made = pending(&mut desk);
    let arn = details(&mut desk).text("CertificateArn");
    let early = update(&mut desk, "acme", &made.etag, &attached(&arn));
    assert_eq!(early.error(), refused(400, "InvalidArgument"));
    issue(&mut desk);
    assert_eq!(details(&mut desk).text("CertificateStatus"), "issued");
    let read = tenant(&mut desk, "acme");
    assert_eq!(read.texts("Status")[0], "inactive");
    assert_eq!(read.etag, made.etag);
    let answer = update(&mut desk, "acme", &made.etag, &attached(&arn)).ok();
    assert_eq!(answer.texts("Status")[..2], ["active", "active"]);
    let body = json!({ "CertificateArn": arn }).to_string();
    let target = ("x-amz-target", "CertificateManager.DescribeCertificate");
    let acm = desk.as_key("test", "acm", Method::POST, "/", &[target], &body);
    assert_eq!(acm.json()["Certificate"]["Status"], "ISSUED");
}

#[rstest] //            autoAttach  etagOnCertificate  attached  new ETag
#[case::by_hand("off", false, false, false)]
#[case::by_itself("on", false, true, false)]
#[case::by_itself_and_seen("on", true, true, true)]
#[case::issued_and_seen("off", true, false, true)]
fn an_issued_certificate_is_attached(
    #[case] auto: &str,
    #[case] etag: bool,
    #[case] attached: bool,
    #[case] changed: bool,
) {
    let mut desk = bare();
    let settings = json!({ "autoAttach": auto, "etagOnCertificate": etag });
    desk.switch("cloudfront", settings);
    let made = pending(&mut desk);
    issue(&mut desk);
    let read = tenant(&mut desk, "acme");
    assert_eq!(read.texts("Certificate").len() == 1, attached);
    assert_eq!(read.etag != made.etag, changed);
}

#[test]
fn certificates_are_issued_by_themselves_where_the_switch_says_so() {
    let mut desk = bare();
    desk.switch("cloudfront", json!({ "issueDelay": 60 }));
    pending(&mut desk);
    desk.advance(59);
    assert_eq!(
        details(&mut desk).text("CertificateStatus"),
        "pending-validation"
    );
    desk.advance(1);
    assert_eq!(details(&mut desk).text("CertificateStatus"), "issued");
}

#[rstest]
#[case::ignored("ignore", true)]
#[case::taken_for_new("new", false)]
fn the_same_request_again_is(#[case] switch: &str, #[case] same: bool) {
    let mut desk = bare();
    desk.switch("cloudfront", json!({ "certResend": switch }));
    let made = pending(&mut desk);
    let arn = details(&mut desk).text("CertificateArn");
    let asked = request("self-hosted", "a.example.com");
    let again = update(&mut desk, "acme", &made.etag, &asked).ok();
    assert_eq!(details(&mut desk).text("CertificateArn") == arn, same);
    let other = request("self-hosted", "b.example.com");
    update(&mut desk, "acme", &again.etag, &other).ok();
    assert_ne!(details(&mut desk).text("CertificateArn"), arn);
}

#[rstest]
#[case::kept("keep", 200)]
#[case::cancelled("cancel", 404)]
fn a_request_left_out_is(#[case] switch: &str, #[case] status: u16) {
    let mut desk = bare();
    desk.switch("cloudfront", json!({ "certOmit": switch }));
    let made = pending(&mut desk);
    let hosts = domains(&["a.example.com", "b.example.com"]);
    update(&mut desk, "acme", &made.etag, &hosts).ok();
    assert_eq!(details(&mut desk).status, status);
}

#[test]
fn an_attached_certificate_survives_a_request_left_out() {
    let mut desk = bare();
    desk.switch("cloudfront", json!({ "certOmit": "cancel" }));
    let made = pending(&mut desk);
    let arn = details(&mut desk).text("CertificateArn");
    issue(&mut desk);
    // Attaching leaves the request out as well: it is not attached yet, so this one repeats it.
    let body = attached(&arn) + &request("self-hosted", "a.example.com");
    let answer = update(&mut desk, "acme", &made.etag, &body).ok();
    update(&mut desk, "acme", &answer.etag, &attached(&arn)).ok();
    assert_eq!(details(&mut desk).status, 200);
}

#[test]
fn details_can_fail_and_vanish() {
    let mut desk = bare();
    pending(&mut desk);
    let mut stands = |status: Value| {
        let managed = json!({ "tenant": "acme", "status": status });
        desk.mutate("cloudfront", json!({ "managed": managed }));
        let told = details(&mut desk);
        (told.status, told.texts("CertificateStatus"))
    };
    let timed_out = vec!["validation-timed-out".to_owned()];
    assert_eq!(stands(json!("validation-timed-out")), (200, timed_out));
    assert_eq!(stands(json!("none")), (404, vec![]));
}
