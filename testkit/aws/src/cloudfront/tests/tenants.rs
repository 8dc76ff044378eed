//! A tenant from Create to Delete.

use http::Method;
use rstest::rstest;
use serde_json::json;

use super::{call, create, delete, desk, get, refused, tenant, update};

#[test]
fn a_created_tenant_is_told_whole_and_deployed_later() {
    let mut desk = desk();
    let answer = create(&mut desk, "acme", &["a.example.com"], "").ok();
    assert_eq!(
        (answer.status, answer.root().as_str()),
        (201, "DistributionTenant")
    );
    let id = answer.text("Id");
    assert!(id.starts_with("dt_") && id.len() == 30, "{id}");
    assert_eq!(
        answer.text("Arn"),
        format!("arn:aws:cloudfront::000000000000:distribution-tenant/{id}")
    );
    assert_eq!(answer.texts("Status"), ["active", "InProgress"]);
    assert_eq!(answer.text("ConnectionGroupId"), "cg0");
    assert_eq!(answer.text("Enabled"), "true");
    desk.advance(9);
    assert_eq!(tenant(&mut desk, &id).texts("Status")[1], "InProgress");
    desk.advance(1);
    let read = tenant(&mut desk, &id);
    assert_eq!(read.texts("Status")[1], "Deployed");
    assert_eq!(read.etag, answer.etag);
}

#[test]
fn a_write_can_answer_deployed_at_once() {
    let mut desk = desk();
    desk.switch("cloudfront", json!({ "writeAnswers": "Deployed" }));
    let made = create(&mut desk, "acme", &["a.example.com"], "").ok();
    assert_eq!(made.texts("Status"), ["active", "Deployed"]);
    let id = made.text("Id");
    assert_eq!(tenant(&mut desk, &id).texts("Status")[1], "Deployed");
    let off = "<Enabled>false</Enabled>";
    let off = update(&mut desk, &id, &made.etag, off).ok();
    assert_eq!(off.texts("Status")[1], "Deployed");
    assert_eq!(delete(&mut desk, &id, &off.etag).status, 204);
}

#[test]
fn a_tenant_is_found_by_id_name_arn_and_domain() {
    let mut desk = desk();
    let made = create(&mut desk, "acme", &["a.example.com"], "").ok();
    let arn = made.text("Arn").replace('/', "%2F");
    let id = made.text("Id");
    for named in [id.as_str(), "acme", &arn] {
        assert_eq!(tenant(&mut desk, named).text("Id"), id);
    }
    let by_domain = get(&mut desk, "distribution-tenant?domain=A.example.com").ok();
    assert_eq!((by_domain.text("Id"), by_domain.etag), (id, made.etag));
    let missing = get(&mut desk, "distribution-tenant/nobody");
    assert_eq!(missing.error(), refused(404, "EntityNotFound"));
}

#[rstest]
#[case::upper_case("acme", "A.example.com", "", (400, "InvalidArgument"))]
#[case::not_covered("acme", "a.example.org", "", (400, "InvalidArgument"))]
#[case::a_short_name("ab", "a.example.com", "", (400, "InvalidArgument"))]
#[case::a_reserved_tag(
    "acme", "a.example.com",
    "<Tags><Items><Tag><Key>aws:x</Key></Tag></Items></Tags>", (400, "InvalidTagging")
)]
#[case::an_unknown_group(
    "acme", "a.example.com",
    "<ConnectionGroupId>cg9</ConnectionGroupId>", (404, "EntityNotFound")
)]
#[case::an_unknown_certificate(
    "acme", "a.example.com",
    "<Customizations><Certificate><Arn>arn:aws:acm:us-east-1:000000000000:certificate/x</Arn></Certificate></Customizations>",
    (400, "InvalidArgument")
)]
#[case::an_unknown_member("acme", "a.example.com", "<Comment>x</Comment>", (400, "MalformedInput"))]
fn a_create_is_refused_and_changes_nothing(
    #[case] name: &str,
    #[case] domain: &str,
    #[case] more: &str,
    #[case] error: (u16, &str),
) {
    let mut desk = desk();
    let answer = create(&mut desk, name, &[domain], more);
    assert_eq!(answer.error(), refused(error.0, error.1));
    let held = desk.state("cloudfront");
    assert_eq!(held["000000000000"]["tenants"], json!([]));
}

#[rstest]
#[case::unknown("E9", 404, "EntityNotFound")]
#[case::direct("E2", 409, "InvalidAssociation")]
#[case::with_a_required_parameter("E3", 400, "InvalidArgument")]
fn the_distribution_is_looked_at(#[case] id: &str, #[case] status: u16, #[case] code: &str) {
    let mut desk = desk();
    desk.mutate(
        "cloudfront",
        json!({ "distribution": { "id": "E2", "mode": "direct" } }),
    );
    let parameters = json!([{ "name": "p", "required": true }, { "name": "q", "required": true, "default": "1" }]);
    let demanding = json!({ "id": "E3", "certificate": super::ARN, "parameters": parameters });
    desk.mutate("cloudfront", json!({ "distribution": demanding }));
    let body = format!(
        "<DistributionId>{id}</DistributionId><Name>acme</Name>{}",
        super::domains(&["a.example.com"])
    );
    let root = "CreateDistributionTenantRequest";
    let answer = super::post(&mut desk, "distribution-tenant", root, &body);
    assert_eq!(answer.error(), refused(status, code));
    if id == "E3" {
        assert!(answer.text("Message").contains(" p "), "{}", answer.body);
    }
}

#[test]
fn too_many_tenants_are_refused() {
    let mut desk = desk();
    desk.switch("cloudfront", json!({ "tenantLimit": 1 }));
    create(&mut desk, "one", &["a.example.com"], "").ok();
    let answer = create(&mut desk, "two", &["b.example.com"], "");
    assert_eq!(answer.error(), refused(400, "EntityLimitExceeded"));
}

#[test]
fn a_tenant_is_deleted_when_disabled_and_deployed() {
    let mut desk = desk();
    let made = create(&mut desk, "acme", &["a.example.com"], "").ok();
    let id = made.text("Id");
    desk.advance(10);
    let early = delete(&mut desk, &id, &made.etag);
    assert_eq!(early.error(), refused(409, "ResourceNotDisabled"));
    let off = update(&mut desk, &id, &made.etag, "<Enabled>false</Enabled>").ok();
    let early = delete(&mut desk, &id, &off.etag);
    assert_eq!(early.error(), refused(409, "ResourceNotDisabled"));
    desk.advance(10);
    let gone = delete(&mut desk, &id, &off.etag);
    assert_eq!((gone.status, gone.body.as_str()), (204, ""));
    let path = format!("distribution-tenant/{id}");
    assert_eq!(
        get(&mut desk, &path).error(),
        refused(404, "EntityNotFound")
    );
    create(&mut desk, "acme", &["a.example.com"], "").ok(); // name and domain are free again
}

#[test]
fn a_disabled_tenant_need_not_be_deployed_where_the_switch_says_so() {
    let mut desk = desk();
    desk.switch("cloudfront", json!({ "deleteNeedsDeployed": false }));
    let made = create(
        &mut desk,
        "acme",
        &["a.example.com"],
        "<Enabled>false</Enabled>",
    )
    .ok();
    assert_eq!(delete(&mut desk, &made.text("Id"), &made.etag).status, 204);
}

#[rstest]
#[case::missing(None, 400, "InvalidIfMatchVersion")]
#[case::stale(Some("E0"), 412, "PreconditionFailed")]
fn a_write_names_the_version_it_means(
    #[case] etag: Option<&str>,
    #[case] status: u16,
    #[case] code: &str,
) {
    let mut desk = desk();
    let made = create(&mut desk, "acme", &["a.example.com"], "").ok();
    let path = format!("distribution-tenant/{}", made.text("Id"));
    let body = super::document("UpdateDistributionTenantRequest", "");
    let updated = call(&mut desk, Method::PUT, &path, etag, &body);
    assert_eq!(updated.error(), refused(status, code));
    let deleted = call(&mut desk, Method::DELETE, &path, etag, "");
    assert_eq!(deleted.error(), refused(status, code));
    assert_eq!(get(&mut desk, &path).etag, made.etag);
}

#[test]
fn tags_are_echoed_unless_switched_off() {
    let mut desk = desk();
    let made = create(&mut desk, "acme", &["a.example.com"], super::MARKER).ok();
    assert_eq!(
        made.texts("Key"),
        ["pontoon.io/cluster", "pontoon.io/object"]
    );
    desk.switch("cloudfront", json!({ "tagsEchoed": false }));
    let read = tenant(&mut desk, "acme");
    assert_eq!(read.texts("Key"), Vec::<String>::new());
    assert_eq!(read.texts("Tags"), Vec::<String>::new());
}

#[test]
fn reads_are_behind_by_the_read_lag() {
    let mut desk = desk();
    desk.advance(60);
    desk.switch("cloudfront", json!({ "readLag": 5 }));
    create(&mut desk, "acme", &["a.example.com"], "").ok();
    let status = |desk: &mut crate::desk::Desk| get(desk, "distribution-tenant/acme").status;
    assert_eq!(status(&mut desk), 404);
    desk.advance(5);
    assert_eq!(status(&mut desk), 200);
}

#[test]
fn a_stale_read_shows_the_version_before() {
    let mut desk = desk();
    let made = create(&mut desk, "acme", &["a.example.com"], "").ok();
    let off = update(&mut desk, "acme", &made.etag, "<Enabled>false</Enabled>").ok();
    desk.fault(json!({ "operation": "GetDistributionTenant", "times": 1, "effect": "stale" }));
    let old = tenant(&mut desk, "acme");
    assert_eq!(
        (old.etag.as_str(), old.text("Enabled").as_str()),
        (made.etag.as_str(), "true")
    );
    assert_eq!(tenant(&mut desk, "acme").etag, off.etag);
}
