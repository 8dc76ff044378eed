//! Lists of tenants and groups, and the distribution.

use http::Method;
use serde_json::json;

use super::{call, create, desk, get, post, refused};
use crate::desk::{Answer, Desk};

fn list(desk: &mut Desk, inside: &str) -> Answer {
    post(
        desk,
        "distribution-tenants",
        "ListDistributionTenantsRequest",
        inside,
    )
}

#[test]
fn tenants_come_page_by_page_with_their_etag_and_without_tags_or_parameters() {
    let mut desk = desk();
    let more = format!(
        "{}<Parameters><member><Name>p</Name><Value>1</Value></member></Parameters>",
        super::MARKER
    );
    let first = create(&mut desk, "one", &["a.example.com"], &more).ok();
    create(&mut desk, "two", &["b.example.com"], "").ok();
    create(&mut desk, "three", &["c.example.com"], "").ok();
    desk.switch("cloudfront", json!({ "pageSize": 2 }));
    let page = call(&mut desk, Method::POST, "distribution-tenants", None, "").ok();
    assert_eq!(page.root(), "ListDistributionTenantsResult");
    assert_eq!(page.texts("Name"), ["one", "two"]);
    assert_eq!(page.texts("ETag")[0], first.etag);
    assert_eq!(page.texts("Tag").len() + page.texts("Value").len(), 0);
    let marker = format!("<Marker>{}</Marker>", page.text("NextMarker"));
    let rest = list(&mut desk, &marker).ok();
    assert_eq!(rest.texts("Name"), ["three"]);
    assert_eq!(rest.texts("NextMarker"), Vec::<String>::new());
    let one = list(&mut desk, "<MaxItems>1</MaxItems>").ok();
    assert_eq!(one.texts("Name"), ["one"]);
}

#[test]
fn a_list_can_be_of_one_distribution_or_group() {
    let mut desk = desk();
    let other = json!({ "name": "other", "distribution": "E2", "domains": ["x.example.com"], "group": "cg1" });
    desk.mutate("cloudfront", json!({ "distribution": { "id": "E2" } }));
    desk.mutate(
        "cloudfront",
        json!({ "group": { "name": "edge", "id": "cg1" } }),
    );
    desk.mutate("cloudfront", json!({ "tenant": other }));
    create(&mut desk, "acme", &["a.example.com"], "").ok();
    let mut by = |member: &str, id: &str| {
        let filter = format!("<AssociationFilter><{member}>{id}</{member}></AssociationFilter>");
        list(&mut desk, &filter)
    };
    assert_eq!(by("DistributionId", "E1").ok().texts("Name"), ["acme"]);
    assert_eq!(by("ConnectionGroupId", "cg1").ok().texts("Name"), ["other"]);
    let unknown = by("DistributionId", "E9");
    assert_eq!(unknown.error(), refused(404, "EntityNotFound"));
}

#[test]
fn groups_come_page_by_page() {
    let mut desk = desk();
    desk.mutate(
        "cloudfront",
        json!({ "group": { "name": "edge", "id": "cg1" } }),
    );
    let inside = "<MaxItems>1</MaxItems>";
    let page = post(
        &mut desk,
        "connection-groups",
        "ListConnectionGroupsRequest",
        inside,
    )
    .ok();
    assert_eq!(page.root(), "ListConnectionGroupsResult");
    assert_eq!(page.texts("Id"), ["cg0"]);
    assert_eq!(page.text("RoutingEndpoint"), "d0.cloudfront.net");
    let inside = format!("<Marker>{}</Marker>", page.text("NextMarker"));
    let rest = post(
        &mut desk,
        "connection-groups",
        "ListConnectionGroupsRequest",
        &inside,
    )
    .ok();
    assert_eq!(rest.texts("Name"), ["edge"]);
    assert!(!rest.text("ETag").is_empty());
}

#[test]
fn a_distribution_tells_its_mode_certificate_and_parameters() {
    let mut desk = desk();
    let parameters = json!([{ "name": "p", "required": true, "default": "1" }]);
    let seed = json!({ "id": "E2", "mode": "direct", "parameters": parameters });
    desk.mutate("cloudfront", json!({ "distribution": seed }));
    let answer = get(&mut desk, "distribution/E1").ok();
    assert_eq!(answer.root(), "Distribution");
    assert!(!answer.etag.is_empty());
    assert_eq!(answer.text("ConnectionMode"), "tenant-only");
    assert_eq!(answer.text("ACMCertificateArn"), super::ARN);
    let answer = get(&mut desk, "distribution/E2").ok();
    assert_eq!(answer.text("ConnectionMode"), "direct");
    assert_eq!(answer.text("CloudFrontDefaultCertificate"), "true");
    assert_eq!(
        (answer.text("DefaultValue"), answer.text("Required")),
        ("1".into(), "true".into())
    );
    let missing = get(&mut desk, "distribution/E9");
    assert_eq!(missing.error(), refused(404, "NoSuchDistribution"));
}

#[test]
fn an_account_sees_its_own_things_only() {
    let mut desk = desk();
    create(&mut desk, "acme", &["a.example.com"], "").ok();
    let mut status = |path: &str| {
        let path = format!("/2020-05-31/{path}");
        let key = "AKIA222222222222";
        desk.as_key(key, "cloudfront", Method::GET, &path, &[], "")
            .status
    };
    assert_eq!(status("distribution-tenant/acme"), 404);
    assert_eq!(status("distribution-tenant?domain=a.example.com"), 404);
    assert_eq!(status("distribution/E1"), 404);
    assert_eq!(status("connection-group/cg0"), 404);
}

#[test]
fn too_many_calls_are_throttled() {
    let mut desk = desk();
    desk.switch("cloudfront", json!({ "rate": 1 }));
    get(&mut desk, "distribution/E1").ok();
    let answer = get(&mut desk, "distribution/E1");
    assert_eq!(answer.error(), refused(400, "Throttling"));
    assert_eq!(answer.text("Type"), "Sender");
}
