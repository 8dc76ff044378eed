//! What the oracle holds against a caller.

use http::Method;
use rstest::rstest;
use serde_json::{Value, json};

use super::{MARKER, call, create, delete, desk, document, domains, get, tenant, update};
use crate::desk::Desk;

const OFF: &str = "<Enabled>false</Enabled>";

/// A desk with acme, a tenant of ours, deployed.
fn ours() -> (Desk, String) {
    let mut desk = desk();
    let made = create(&mut desk, "acme", &["a.example.com"], MARKER).ok();
    desk.advance(10);
    (desk, made.etag)
}

fn tag(desk: &mut Desk, arn: &str) {
    let path = format!("tagging?Operation=Tag&Resource={arn}");
    let tags = MARKER.replace("<Tags>", "").replace("</Tags>", "");
    call(desk, Method::POST, &path, None, &document("Tags", &tags)).ok();
}

fn seeded(desk: &mut Desk, tags: &Value) -> String {
    let tenant =
        json!({ "name": "acme", "distribution": "E1", "domains": ["a.example.com"], "tags": tags });
    let made = desk.mutate("cloudfront", json!({ "tenant": tenant }));
    made["arn"].as_str().expect("an ARN").to_owned()
}

#[test]
fn the_whole_life_of_ones_own_tenant_is_right() {
    let (mut desk, etag) = ours();
    let off = update(&mut desk, "acme", &etag, OFF).ok();
    desk.advance(10);
    delete(&mut desk, "acme", &off.etag).ok();
    assert_eq!(desk.broken(), Vec::<String>::new());
}

#[rstest]
#[case::of_nobody(json!({}))]
#[case::of_another_cluster(json!({ "pontoon.io/cluster": "c2", "pontoon.io/object": "web/acme" }))]
fn a_foreign_tenant_is_left_alone(#[case] tags: Value) {
    let mut desk = desk();
    desk.declare(json!({ "clusters": ["c1"] }));
    seeded(&mut desk, &tags);
    let etag = tenant(&mut desk, "acme").etag;
    let off = update(&mut desk, "acme", &etag, OFF).ok();
    desk.advance(10);
    delete(&mut desk, "acme", &off.etag).ok();
    assert_eq!(desk.broken(), ["foreignChanged", "foreignDeleted"]);
}

#[test]
fn an_adoption_is_right_where_a_test_said_so() {
    let mut desk = desk();
    let arn = seeded(&mut desk, &json!({}));
    tag(&mut desk, &arn);
    assert_eq!(desk.broken(), ["foreignChanged"]);

    let mut desk = super::desk();
    let arn = seeded(&mut desk, &json!({}));
    desk.declare(json!({ "owned": ["acme"] }));
    tag(&mut desk, &arn);
    assert_eq!(desk.broken(), Vec::<String>::new());
}

#[test]
fn one_object_has_one_tenant() {
    let (mut desk, _) = ours();
    create(&mut desk, "acme-2", &["b.example.com"], MARKER).ok();
    assert_eq!(desk.broken(), ["twoForOneObject"]);

    let mut desk = super::desk();
    for name in ["edge", "edge-2"] {
        let body = format!("<Name>{name}</Name>{MARKER}");
        let root = "CreateConnectionGroupRequest";
        super::post(&mut desk, "connection-group", root, &body).ok();
    }
    assert_eq!(desk.broken(), ["twoForOneObject"]);
}

#[test]
fn an_update_to_what_is_there_is_waste() {
    let (mut desk, etag) = ours();
    let body = format!(
        "<Parameters/><Customizations/>{}",
        domains(&["a.example.com"])
    );
    update(&mut desk, "acme", &etag, &body).ok();
    assert_eq!(desk.broken(), ["updateEqualsLive"]);
}

#[test]
fn an_ineffective_update_is_not_sent_twice() {
    let (mut desk, _) = ours();
    let edit = json!({ "tenant": "acme", "parameters": { "p": "1" } });
    desk.mutate("cloudfront", json!({ "edit": edit }));
    desk.switch("cloudfront", json!({ "update": "deepMerge" }));
    let etag = tenant(&mut desk, "acme").etag;
    let first = update(
        &mut desk,
        "acme",
        &etag,
        "<Parameters/><Enabled>false</Enabled>",
    )
    .ok();
    update(
        &mut desk,
        "acme",
        &first.etag,
        "<Parameters/><Enabled>false</Enabled>",
    )
    .ok();
    assert_eq!(desk.broken(), ["updateEqualsLive", "resentUnchanged"]);
}

#[rstest]
#[case::while_enabled(false, 10)]
#[case::while_in_progress(true, 0)]
fn a_delete_too_early_is_told(#[case] disable: bool, #[case] wait: u64) {
    let (mut desk, mut etag) = ours();
    if disable {
        etag = update(&mut desk, "acme", &etag, OFF).ok().etag;
    }
    desk.advance(wait);
    delete(&mut desk, "acme", &etag);
    assert_eq!(desk.broken(), ["deletedTooEarly"]);
}

#[rstest]
#[case::without_a_look(&[], true)]
#[case::after_a_read(&["distribution-tenant/acme"], false)]
#[case::after_a_read_by_domain(&["distribution-tenant?domain=a.example.com"], false)]
#[case::after_a_read_of_another(&["connection-group/cg0"], true)]
fn a_write_after_a_stale_one(#[case] reads: &[&str], #[case] wrong: bool) {
    let (mut desk, etag) = ours();
    let effect = json!({ "error": { "status": 412, "code": "PreconditionFailed" } });
    desk.fault(json!({ "operation": "Update*", "times": 1, "effect": effect }));
    assert_eq!(update(&mut desk, "acme", &etag, OFF).status, 412);
    for read in reads {
        get(&mut desk, read).ok();
    }
    update(&mut desk, "acme", &etag, OFF).ok();
    let broken: &[&str] = if wrong { &["writeAfterStale"] } else { &[] };
    assert_eq!(desk.broken(), broken);
}

#[test]
fn a_refused_create_is_not_sent_again_at_once() {
    let mut desk = desk();
    for _ in 0..2 {
        create(&mut desk, "acme", &["a.example.org"], MARKER);
    }
    assert_eq!(desk.broken(), ["resentUnchanged"]);
    desk.advance(240);
    create(&mut desk, "acme", &["a.example.org"], MARKER);
    assert_eq!(desk.broken().len(), 1);
}

#[test]
fn a_steady_world_takes_no_write() {
    let (mut desk, etag) = ours();
    desk.declare(json!({ "steady": true }));
    tenant(&mut desk, "acme");
    assert_eq!(desk.broken(), Vec::<String>::new());
    update(&mut desk, "acme", &etag, OFF).ok();
    assert_eq!(desk.broken(), ["writeWhileSteady"]);
    desk.declare(json!({ "steady": false }));
}

#[test]
fn credentials_of_a_role_do_not_belong_here() {
    let mut desk = desk();
    let role = "arn:aws:iam::000000000000:role/dns";
    desk.mutate("sts", json!({ "roles": [{ "arn": role }] }));
    let form = ("content-type", "application/x-www-form-urlencoded");
    let body = format!(
        "Action=AssumeRole&Version=2011-06-15&RoleSessionName=tests&RoleArn={}",
        role.replace(':', "%3A").replace('/', "%2F")
    );
    let session = desk
        .as_key("test", "sts", Method::POST, "/", &[form], &body)
        .ok();
    let (key, token) = (session.text("AccessKeyId"), session.text("SessionToken"));
    let token = [("x-amz-security-token", token.as_str())];
    let path = "/2013-04-01/hostedzone";
    desk.as_key(&key, "route53", Method::GET, path, &token, "")
        .ok();
    assert_eq!(desk.broken(), Vec::<String>::new());
    let path = "/2020-05-31/distribution/E1";
    desk.as_key(&key, "cloudfront", Method::GET, path, &token, "")
        .ok();
    assert_eq!(desk.broken(), ["roleElsewhere"]);
}

#[test]
fn what_is_left_without_an_object_leaks() {
    let (mut desk, _) = ours();
    let marker = json!({ "pontoon.io/cluster": "c1", "pontoon.io/object": "edge" });
    desk.mutate(
        "cloudfront",
        json!({ "group": { "name": "edge", "tags": marker } }),
    );
    let living = json!({ "objects": ["web/acme"], "groups": ["edge"] });
    assert_eq!(desk.leaked(living), Vec::<String>::new());
    let retained = json!({ "retained": ["acme"], "groups": ["c1/edge"] });
    assert_eq!(desk.leaked(retained), Vec::<String>::new());
    assert_eq!(
        desk.leaked(json!({})),
        ["distributionTenant", "connectionGroup"]
    );
    desk.declare(json!({ "clusters": ["c2"] }));
    assert_eq!(desk.leaked(json!({})), Vec::<String>::new());
}
