use rstest::rstest;
use serde_json::{Value, json};
use vault_client::ServerState;

use super::*;

fn connection(name: &str, address: &str, namespace: Option<&str>) -> VaultConnection {
    let mut spec = json!({"address": address, "auth": {"kubernetes": {"role": "r"}}});
    if let Some(namespace) = namespace {
        spec["vaultNamespace"] = json!(namespace);
    }
    serde_json::from_value(json!({"metadata": {"name": name}, "spec": spec})).unwrap()
}

/// Behind `here`, with `same` and, by another address, `alias` to the same Vault, `other` to another,
/// `parent` to the root of it; `silent` tells no ID, and `unseen` has not answered yet.
fn claims() -> Claims {
    let answered = |id: Option<&str>| {
        Some(Health {
            state: ServerState::Active,
            version: "1.21.1".to_owned(),
            enterprise: Some(false),
            cluster_id: id.map(str::to_owned),
        })
    };
    let here = connection("here", "https://v", Some("team"));
    let mut claims = Claims::new(&here, answered(Some("v")));
    for (name, address, namespace, health) in [
        ("here", "https://v", Some("team"), answered(Some("v"))),
        ("same", "https://v/", Some("/team/"), answered(Some("v"))),
        ("other", "https://w", Some("team"), answered(Some("w"))),
        ("parent", "https://v", None, answered(Some("v"))),
        (
            "alias",
            "https://10.0.0.1",
            Some("team"),
            answered(Some("v")),
        ),
        ("silent", "https://x", Some("team"), answered(None)),
        ("unseen", "https://y", Some("team"), None),
    ] {
        let one = connection(name, address, namespace);
        claims.add_connection(&one, health, "k".into());
    }
    claims
}

fn policy(spec: Value, status: Value) -> VaultPolicy {
    let mut whole = json!({
        "metadata": {"name": "app", "namespace": "team-a"},
        "spec": {"connectionRef": "here"},
        "status": status,
    });
    let spec = spec.as_object().unwrap().clone();
    whole["spec"].as_object_mut().unwrap().extend(spec);
    serde_json::from_value(whole).unwrap()
}

fn place(path: &str) -> Place {
    Place::parse(path).unwrap()
}

const DERIVED: &str = "sys/policies/acl/vao.k.team-a.app";

#[rstest]
#[case::here(json!({}), true)]
#[case::over_another_connection(json!({"connectionRef": "same"}), true)]
#[case::in_another_vault(json!({"connectionRef": "other"}), false)]
#[case::by_another_address(json!({"connectionRef": "alias"}), true)]
#[case::in_a_vault_without_an_id(json!({"connectionRef": "silent"}), false)]
#[case::in_one_that_may_be_this(json!({"connectionRef": "unseen"}), true)]
#[case::above(json!({"connectionRef": "parent"}), false)]
#[case::from_above(json!({"connectionRef": "parent", "vaultNamespace": "team"}), true)]
#[case::below(json!({"vaultNamespace": "x"}), false)]
#[case::over_nothing(json!({"connectionRef": "gone"}), false)]
fn an_object_wants_what_its_name_leads_to(#[case] spec: Value, #[case] wanted: bool) {
    let mut claims = claims();
    claims.add(&policy(spec, json!({})));
    assert_eq!(claims.is_wanted(&place(DERIVED)), wanted);
    assert!(!claims.is_recorded(&place(DERIVED)));
}

#[test]
fn an_external_name_is_wanted_in_any_case() {
    let mut claims = claims();
    claims.add(&policy(json!({"externalName": "App"}), json!({})));
    assert!(claims.is_wanted(&place("sys/policies/acl/aPP")));
    assert!(!claims.is_wanted(&place(DERIVED)));
}

#[rstest]
#[case::bound(json!({"binding": {"vaultPath": "sys/policies/acl/x"}}))]
#[case::bound_over_another(json!({"binding": {"vaultPath": "sys/policies/acl/X", "connection": "same"}}))]
#[case::earlier(json!({"previousNames": [{"vaultPath": "sys/policies/acl/x", "connection": "here"}]}))]
#[case::announced(json!({"intent": {"vaultPath": "sys/policies/acl/x"}}))]
fn what_a_status_names_is_recorded(#[case] status: Value) {
    let mut claims = claims();
    claims.add(&policy(json!({}), status));
    assert!(claims.is_recorded(&place("sys/policies/acl/x")));
}

#[test]
fn what_a_status_names_in_another_vault_is_not_recorded_here() {
    let mut claims = claims();
    let elsewhere = json!({"binding": {"vaultPath": "sys/policies/acl/x", "connection": "other"}});
    claims.add(&policy(json!({}), elsewhere));
    assert!(!claims.is_recorded(&place("sys/policies/acl/x")));
}

#[test]
fn a_cluster_role_wants_its_parts() {
    let mut claims = claims();
    let role: VaultClusterRole = serde_json::from_value(json!({
        "metadata": {"name": "wide"},
        "spec": {"connectionRef": "here", "policies": []},
    }))
    .unwrap();
    claims.add(&role);
    assert!(claims.is_wanted(&place("auth/kubernetes/role/vao.k._.wide")));
    assert!(claims.is_wanted(&place("auth/kubernetes/role/vao.k._.wide__team-a")));
    assert!(!claims.is_wanted(&place("auth/kubernetes/role/vao.k._.wider")));
    assert!(!claims.is_wanted(&place("auth/jwt/role/vao.k._.wide")));
}

#[test]
fn a_recorded_policy_is_known_by_its_object() {
    let mut claims = claims();
    claims.add(&policy(
        json!({}),
        json!({"binding": {"vaultPath": "sys/policies/acl/x"}}),
    ));
    let known = claims.policy("X").unwrap();
    assert_eq!((known.kind, &*known.name), (PolicyKind::VaultPolicy, "app"));
    assert_eq!(known.namespace.as_deref(), Some("team-a"));
}
