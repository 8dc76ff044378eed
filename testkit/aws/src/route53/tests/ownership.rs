//! Whose records are: what the oracle tells, and what leaks.

use http::Method;
use serde_json::{Value, json};

use super::{batch, cname, desk, owner};

const D0: &str = "d0.cloudfront.net";
const D1: &str = "d1.cloudfront.net";

fn console(name: &str) -> Value {
    let put = json!([{ "name": name, "type": "CNAME", "values": [D1] }]);
    json!({ "records": { "zone": "Z1", "put": put } })
}

#[test]
fn a_record_with_our_owner_beside_it_is_ours() {
    let mut desk = desk();
    let made = [
        cname("CREATE", "a.example.com", D0),
        owner("CREATE", "a.example.com", "web/acme"),
    ];
    batch(&mut desk, "Z1", &made).ok();
    batch(&mut desk, "Z1", &[cname("UPSERT", "a.example.com", D1)]).ok();
    let gone = [
        cname("DELETE", "a.example.com", D1),
        owner("DELETE", "a.example.com", "web/acme"),
    ];
    batch(&mut desk, "Z1", &gone).ok();
    assert_eq!(desk.broken(), Vec::<String>::new());
}

#[test]
fn a_record_of_nobody_or_of_another_cluster_is_foreign() {
    let mut desk = desk();
    desk.mutate("route53", console("a.example.com"));
    batch(&mut desk, "Z1", &[cname("UPSERT", "a.example.com", D0)]).ok();
    batch(&mut desk, "Z1", &[cname("DELETE", "a.example.com", D0)]).ok();
    assert_eq!(desk.broken(), ["foreignChanged", "foreignDeleted"]);

    let mut desk = super::desk();
    desk.declare(json!({ "clusters": ["c2"] }));
    batch(
        &mut desk,
        "Z1",
        &[owner("CREATE", "a.example.com", "web/acme")],
    )
    .ok();
    batch(
        &mut desk,
        "Z1",
        &[owner("UPSERT", "a.example.com", "web/other")],
    )
    .ok();
    assert_eq!(desk.broken(), ["foreignChanged"]);
}

#[test]
fn an_ownership_record_beside_a_foreign_one_is_a_claim() {
    let mut desk = desk();
    desk.mutate("route53", console("*.example.com"));
    let claim = owner("CREATE", "_wildcard.example.com", "web/acme");
    batch(&mut desk, "Z1", &[claim]).ok();
    assert_eq!(desk.broken(), ["foreignClaimed"]);

    let mut desk = super::desk();
    desk.mutate("route53", console("*.example.com"));
    desk.declare(json!({ "owned": ["*.example.com"] }));
    let claim = owner("CREATE", "_wildcard.example.com", "web/acme");
    batch(&mut desk, "Z1", &[claim]).ok();
    assert_eq!(desk.broken(), Vec::<String>::new());
}

#[test]
fn taking_a_record_over_is_right_where_a_test_said_so() {
    let mut desk = desk();
    desk.mutate("route53", console("a.example.com"));
    desk.declare(json!({ "owned": ["a.example.com"] }));
    let taken = [
        cname("UPSERT", "a.example.com", D0),
        owner("CREATE", "a.example.com", "web/acme"),
    ];
    batch(&mut desk, "Z1", &taken).ok();
    assert_eq!(desk.broken(), Vec::<String>::new());
}

#[test]
fn what_is_left_without_an_object_leaks() {
    let mut desk = desk();
    desk.mutate("route53", console("console.example.com"));
    let made = [
        cname("CREATE", "a.example.com", D0),
        owner("CREATE", "a.example.com", "web/acme"),
        cname("CREATE", "b.example.com", D0),
    ];
    batch(&mut desk, "Z1", &made).ok();
    let living = json!({ "objects": ["web/acme"], "retained": ["b.example.com"] });
    assert_eq!(desk.leaked(living), Vec::<String>::new());
    assert_eq!(desk.leaked(json!({ "objects": ["web/acme"] })), ["record"]);
    let all = ["record", "record", "ownerRecord"];
    let mut leaked = desk.leaked(json!({}));
    leaked.sort_by_key(|kind| kind != "record");
    assert_eq!(leaked, all);
}

#[test]
fn what_a_zone_holds_is_told() {
    let mut desk = desk();
    batch(&mut desk, "Z1", &[cname("CREATE", "a.example.com", D0)]).ok();
    let shown = desk.control(Method::GET, "route53/records/Z1", Value::Null);
    let record = &shown["records"][2];
    assert_eq!(
        (
            &record["name"],
            &record["type"],
            &record["ttl"],
            &record["values"]
        ),
        (
            &json!("a.example.com."),
            &json!("CNAME"),
            &json!(300),
            &json!([D0])
        )
    );
    assert_eq!(desk.state("route53")["zones"][0]["id"], "Z1");
    let told = desk.refused("route53", json!({ "deleteZone": "Z9" }));
    assert!(told.contains("Z9"), "{told}");
}
