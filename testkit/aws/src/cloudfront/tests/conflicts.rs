//! Names and domains that are taken.

use http::Method;
use rstest::rstest;
use serde_json::{Value, json};

use super::{create, desk, document, post, refused, update};
use crate::desk::Desk;

/// A tenant of another account that has this domain.
fn elsewhere(desk: &mut Desk, domain: &str) -> Value {
    let tenant = json!({ "name": "theirs", "distribution": "E8", "domains": [domain] });
    let change = json!({ "account": "222222222222", "tenant": tenant });
    desk.mutate("cloudfront", change)
}

#[test]
fn a_domain_is_taken_over_all_accounts_whatever_its_case() {
    let mut desk = desk();
    elsewhere(&mut desk, "A.Example.com");
    let answer = create(&mut desk, "acme", &["a.example.com"], "");
    assert_eq!(answer.error(), refused(409, "CNAMEAlreadyExists"));
    let made = create(&mut desk, "acme", &["b.example.com"], "").ok();
    let hosts = super::domains(&["a.example.com"]);
    let answer = update(&mut desk, "acme", &made.etag, &hosts);
    assert_eq!(answer.error(), refused(409, "CNAMEAlreadyExists"));
}

#[test]
fn a_name_is_taken_in_its_account_only() {
    let mut desk = desk();
    create(&mut desk, "acme", &["a.example.com"], "").ok();
    let answer = create(&mut desk, "acme", &["b.example.com"], "");
    assert_eq!(answer.error(), refused(409, "EntityAlreadyExists"));
    let tenant = json!({ "name": "acme", "distribution": "E8", "domains": ["c.example.com"] });
    desk.mutate(
        "cloudfront",
        json!({ "account": "222222222222", "tenant": tenant }),
    );
}

#[rstest]
#[case::the_name("name", "EntityAlreadyExists")]
#[case::the_domain("domain", "CNAMEAlreadyExists")]
fn where_both_are_taken_the_switch_says_what_is_told(#[case] order: &str, #[case] code: &str) {
    let mut desk = desk();
    desk.switch("cloudfront", json!({ "conflictOrder": order }));
    create(&mut desk, "acme", &["a.example.com"], "").ok();
    let answer = create(&mut desk, "acme", &["a.example.com"], "");
    assert_eq!(answer.error(), refused(409, code));
}

fn conflicts(desk: &mut Desk, domain: &str, more: &str) -> crate::desk::Answer {
    let by = "<DomainControlValidationResource><DistributionId>E1</DistributionId></DomainControlValidationResource>";
    let body = format!("<Domain>{domain}</Domain>{by}{more}");
    post(
        desk,
        "domain-conflicts",
        "ListDomainConflictsRequest",
        &body,
    )
}

#[test]
fn conflicts_name_the_holder_and_hide_strangers() {
    let mut desk = desk();
    elsewhere(&mut desk, "a.example.com");
    let made = create(&mut desk, "acme", &["b.example.com"], "").ok();
    let theirs = conflicts(&mut desk, "a.example.com", "").ok();
    assert_eq!(theirs.root(), "ListDomainConflictsResult");
    assert_eq!(theirs.text("ResourceType"), "distribution-tenant");
    assert_eq!(theirs.text("AccountId"), "******222222");
    let own = conflicts(&mut desk, "b.example.com", "").ok();
    assert_eq!(own.text("ResourceId"), made.text("Id"));
    let none = conflicts(&mut desk, "c.example.com", "").ok();
    assert_eq!(none.texts("ResourceId"), Vec::<String>::new());
}

#[test]
fn conflicts_include_wildcards_and_come_page_by_page() {
    let mut desk = desk();
    create(&mut desk, "wild", &["*.example.com"], "").ok();
    create(&mut desk, "acme", &["a.example.com"], "").ok();
    let first = conflicts(&mut desk, "a.example.com", "<MaxItems>1</MaxItems>").ok();
    assert_eq!(first.text("Domain"), "*.example.com");
    let more = format!("<Marker>{}</Marker>", first.text("NextMarker"));
    let rest = conflicts(&mut desk, "a.example.com", &more).ok();
    assert_eq!(rest.text("Domain"), "a.example.com");
    assert_eq!(rest.texts("NextMarker"), Vec::<String>::new());
}

#[test]
fn who_asks_for_conflicts_names_something_of_his() {
    let mut desk = desk();
    let body = document(
        "ListDomainConflictsRequest",
        "<Domain>a.example.com</Domain>",
    );
    let answer = super::call(&mut desk, Method::POST, "domain-conflicts", None, &body);
    assert_eq!(answer.error(), refused(400, "InvalidArgument"));
}

fn verified(desk: &mut Desk) -> (String, Vec<String>) {
    let body = "<Identifier>acme</Identifier>";
    let answer = post(
        desk,
        "verify-dns-configuration",
        "VerifyDnsConfigurationRequest",
        body,
    );
    let answer = answer.ok();
    (answer.text("Status"), answer.texts("Reason"))
}

#[test]
fn dns_is_verified_against_the_emulated_zones() {
    let mut desk = desk();
    create(&mut desk, "acme", &["a.example.com"], "").ok();
    let (status, reason) = verified(&mut desk);
    assert_eq!(
        (status.as_str(), reason.len()),
        ("invalid-configuration", 1)
    );
    let put = |desk: &mut Desk, value: &str| {
        let put = json!([{ "name": "a.example.com", "type": "CNAME", "values": [value] }]);
        desk.mutate(
            "route53",
            json!({ "records": { "zone": "Z1", "put": put } }),
        );
    };
    put(&mut desk, "elsewhere.net");
    let (status, reason) = verified(&mut desk);
    assert_eq!(status, "invalid-configuration");
    assert!(reason[0].contains("elsewhere.net."), "{reason:?}");
    put(&mut desk, "d0.cloudfront.net");
    assert_eq!(
        verified(&mut desk),
        ("valid-configuration".to_owned(), vec![])
    );
    desk.mutate("route53", json!({ "deleteZone": "Z1" }));
    assert_eq!(verified(&mut desk).0, "unknown-configuration");
}
