//! Connection groups.

use http::Method;
use rstest::rstest;
use serde_json::json;

use super::{call, create, delete, desk, document, get, post, refused, update};
use crate::desk::{Answer, Desk};

fn group(desk: &mut Desk, name: &str, more: &str) -> Answer {
    let body = format!("<Name>{name}</Name>{more}");
    post(
        desk,
        "connection-group",
        "CreateConnectionGroupRequest",
        &body,
    )
}

fn change(desk: &mut Desk, id: &str, etag: &str, inside: &str) -> Answer {
    let body = document("UpdateConnectionGroupRequest", inside);
    call(
        desk,
        Method::PUT,
        &format!("connection-group/{id}"),
        Some(etag),
        &body,
    )
}

fn remove(desk: &mut Desk, id: &str, etag: &str) -> Answer {
    call(
        desk,
        Method::DELETE,
        &format!("connection-group/{id}"),
        Some(etag),
        "",
    )
}

#[test]
fn a_group_has_an_endpoint_and_is_deployed_later() {
    let mut desk = desk();
    let made = group(&mut desk, "edge", "<Ipv6Enabled>false</Ipv6Enabled>").ok();
    assert_eq!(
        (made.status, made.root().as_str()),
        (201, "ConnectionGroup")
    );
    let id = made.text("Id");
    assert!(id.starts_with("cg_") && id.len() == 30, "{id}");
    assert!(made.text("RoutingEndpoint").ends_with(".cloudfront.net"));
    assert_eq!(
        (made.text("Ipv6Enabled"), made.text("IsDefault")),
        ("false".into(), "false".into())
    );
    assert_eq!(made.text("Status"), "InProgress");
    desk.advance(10);
    let arn = made.text("Arn").replace('/', "%2F");
    for named in [id.as_str(), "edge", &arn] {
        let read = get(&mut desk, &format!("connection-group/{named}")).ok();
        assert_eq!(
            (read.text("Status").as_str(), &read.etag),
            ("Deployed", &made.etag)
        );
    }
    let twice = group(&mut desk, "edge", "");
    assert_eq!(twice.error(), refused(409, "EntityAlreadyExists"));
    let missing = get(&mut desk, "connection-group/nobody");
    assert_eq!(missing.error(), refused(404, "EntityNotFound"));
}

#[test]
fn a_group_in_use_is_neither_disabled_nor_deleted() {
    let mut desk = desk();
    let made = group(&mut desk, "edge", "").ok();
    let id = made.text("Id");
    let uses = format!("<ConnectionGroupId>{id}</ConnectionGroupId>");
    let acme = create(&mut desk, "acme", &["a.example.com"], &uses).ok();
    desk.advance(10);
    let refusal = change(&mut desk, &id, &made.etag, "<Enabled>false</Enabled>");
    assert_eq!(refusal.error(), refused(409, "ResourceInUse"));
    let off = format!("<Enabled>false</Enabled>{uses}");
    let acme = update(&mut desk, "acme", &acme.etag, &off).ok();
    let off = change(&mut desk, &id, &made.etag, "<Enabled>false</Enabled>").ok();
    let early = remove(&mut desk, &id, &off.etag);
    assert_eq!(early.error(), refused(409, "ResourceNotDisabled"));
    desk.advance(10);
    let used = remove(&mut desk, &id, &off.etag);
    assert_eq!(used.error(), refused(409, "CannotDeleteEntityWhileInUse"));
    assert_eq!(delete(&mut desk, "acme", &acme.etag).status, 204);
    assert_eq!(remove(&mut desk, &id, &off.etag).status, 204);
}

#[test]
fn a_group_can_be_deployed_at_once() {
    let mut desk = desk();
    desk.switch("cloudfront", json!({ "writeAnswers": "Deployed" }));
    let made = group(&mut desk, "edge", "").ok();
    let id = made.text("Id");
    let off = change(&mut desk, &id, &made.etag, "<Enabled>false</Enabled>").ok();
    let states = [made.text("Status"), off.text("Status")];
    assert_eq!(states, ["Deployed", "Deployed"]);
    assert_eq!(remove(&mut desk, &id, &off.etag).status, 204);
}

#[test]
fn the_default_group_stays() {
    let mut desk = desk();
    let read = get(&mut desk, "connection-group/cg0").ok();
    let off = change(&mut desk, "cg0", &read.etag, "<Enabled>false</Enabled>").ok();
    desk.advance(10);
    let refusal = remove(&mut desk, "cg0", &off.etag);
    assert_eq!(
        refusal.error(),
        refused(409, "CannotDeleteEntityWhileInUse")
    );
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
    let body = document("UpdateConnectionGroupRequest", "");
    let answer = call(&mut desk, Method::PUT, "connection-group/cg0", etag, &body);
    assert_eq!(answer.error(), refused(status, code));
    let answer = call(&mut desk, Method::DELETE, "connection-group/cg0", etag, "");
    assert_eq!(answer.error(), refused(status, code));
}

fn groups(desk: &mut Desk) -> Vec<String> {
    call(desk, Method::POST, "connection-groups", None, "")
        .ok()
        .texts("IsDefault")
}

#[test]
fn the_default_group_comes_with_the_first_distribution_for_tenants() {
    let mut desk = Desk::new();
    let direct = json!({ "id": "E1", "mode": "direct" });
    desk.mutate("cloudfront", json!({ "distribution": direct }));
    assert_eq!(groups(&mut desk), Vec::<String>::new());
    desk.mutate("cloudfront", json!({ "distribution": { "id": "E2" } }));
    desk.mutate("cloudfront", json!({ "distribution": { "id": "E3" } }));
    assert_eq!(groups(&mut desk), ["true"]);
}

#[test]
fn the_default_group_comes_with_the_first_tenant_where_the_switch_says_so() {
    let mut desk = Desk::new();
    desk.switch("cloudfront", json!({ "defaultGroup": "withTenant" }));
    let certificate = json!({ "arn": super::ARN, "names": ["*.example.com"] });
    desk.mutate("acm", json!({ "certificate": certificate }));
    let distribution = json!({ "id": "E1", "certificate": super::ARN });
    desk.mutate("cloudfront", json!({ "distribution": distribution }));
    let refusal = create(&mut desk, "acme", &["a.example.org"], "");
    assert_eq!(refusal.error(), refused(400, "InvalidArgument"));
    assert_eq!(groups(&mut desk), Vec::<String>::new());
    create(&mut desk, "acme", &["a.example.com"], "").ok();
    assert_eq!(groups(&mut desk), ["true"]);
}
