//! Seeds, console edits, forced states, and reset.

use http::Method;
use rstest::rstest;
use serde_json::{Value, json};

use super::{create, desk, tenant};

#[test]
fn a_console_edit_is_a_write_and_a_tag_is_not() {
    let mut desk = desk();
    let made = create(&mut desk, "acme", &["a.example.com"], "").ok();
    desk.advance(10);
    let tags = json!({ "tenant": "acme", "tags": { "z": "1" } });
    desk.mutate("cloudfront", json!({ "edit": tags }));
    assert_eq!(tenant(&mut desk, "acme").etag, made.etag);
    let edit = json!({ "tenant": "acme", "domains": ["a.example.com", "x.example.com"], "enabled": false });
    desk.mutate("cloudfront", json!({ "edit": edit }));
    let read = tenant(&mut desk, "acme");
    assert_ne!(read.etag, made.etag);
    assert_eq!(read.texts("Domain"), ["a.example.com", "x.example.com"]);
    assert_eq!(
        (read.text("Enabled"), read.texts("Status")[2].as_str()),
        ("false".into(), "InProgress")
    );
    assert_eq!(desk.broken(), Vec::<String>::new());
}

#[test]
fn a_state_can_be_held_and_forced() {
    let mut desk = desk();
    create(&mut desk, "acme", &["a.example.com"], "").ok();
    let mut status = |forced: Option<&str>, wait: u64| {
        if let Some(forced) = forced {
            let state = json!({ "tenant": "acme", "status": forced });
            desk.mutate("cloudfront", json!({ "state": state }));
        }
        desk.advance(wait);
        tenant(&mut desk, "acme").texts("Status")[1].clone()
    };
    assert_eq!(status(Some("Deployed"), 0), "Deployed");
    assert_eq!(status(Some("InProgress"), 100_000), "InProgress");
}

#[test]
fn what_is_there_is_shown_and_forgotten_by_a_reset() {
    let mut desk = desk();
    create(&mut desk, "acme", &["a.example.com"], "").ok();
    let shown = desk.control(Method::GET, "cloudfront/tenants/000000000000", Value::Null);
    let acme = &shown["tenants"][0];
    assert_eq!(
        (&acme["name"], &acme["status"]),
        (&json!("acme"), &json!("InProgress"))
    );
    assert_eq!(acme["domains"], json!(["a.example.com"]));
    let state = desk.state("cloudfront");
    assert_eq!(
        state["000000000000"]["groups"][0]["endpoint"],
        "d0.cloudfront.net"
    );
    desk.control(Method::POST, "reset", Value::Null);
    assert_eq!(desk.state("cloudfront"), json!({}));
}

#[rstest]
#[case::no_such_form(json!({ "tenants": [] }), "unknown variant")]
#[case::a_tenant_without_name(json!({ "tenant": { "distribution": "E1" } }), "a name")]
#[case::a_taken_domain(
    json!({ "tenant": { "name": "x", "distribution": "E1", "domains": ["a.example.com"] } }),
    "is taken"
)]
#[case::an_edit_of_nobody(json!({ "edit": { "tenant": "nobody" } }), "no tenant")]
#[case::a_state_of_nothing(json!({ "state": { "status": "Deployed" } }), "either a tenant or a group")]
#[case::no_certificate_asked_for(
    json!({ "managed": { "tenant": "acme", "status": "issued" } }),
    "no managed certificate"
)]
fn a_wrong_form_says_what_is_right(#[case] change: Value, #[case] told: &str) {
    let mut desk = desk();
    create(&mut desk, "acme", &["a.example.com"], "").ok();
    let refusal = desk.refused("cloudfront", change);
    assert!(refusal.contains(told), "{refusal}");
}
