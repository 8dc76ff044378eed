use api::vault::{VaultConnection, VaultPolicy};
use jiff::Timestamp;
use rstest::rstest;
use serde_json::json;

use super::*;

/// The policy `known` is of VaultPolicy found/p, `elsewhere` of VaultPolicy team-b/p.
fn claims() -> Claims {
    let connection: VaultConnection = serde_json::from_value(json!({
        "metadata": {"name": "c"},
        "spec": {"address": "https://v", "auth": {"kubernetes": {"role": "r"}}},
    }))
    .unwrap();
    let mut claims = Claims::new(&connection, None);
    claims.add_connection(&connection, None, "k".into());
    for (namespace, name) in [("found", "known"), ("team-b", "elsewhere")] {
        let path = format!("sys/policies/acl/{name}");
        let policy: VaultPolicy = serde_json::from_value(json!({
            "metadata": {"name": "p", "namespace": namespace},
            "spec": {"connectionRef": "c"},
            "status": {"binding": {"vaultPath": path}},
        }))
        .unwrap();
        claims.add(&policy);
    }
    claims
}

fn made(live: Value, family: RoleFamily) -> Result<Object, String> {
    let origin = Origin {
        connection: "c",
        namespace: "found",
        name: "r",
        external_name: "R",
        since: Timestamp::UNIX_EPOCH,
    };
    let claims = claims();
    let around = Surroundings {
        family,
        audiences: &[],
        claims: &claims,
    };
    role(live.as_object().unwrap(), &around, &origin)
}

/// The kind, and the spec without what all have.
fn spec(live: Value, family: RoleFamily) -> (&'static str, Value) {
    let (kind, mut spec) = match made(live, family).unwrap() {
        Object::Policy(_) => panic!("a role was found"),
        Object::Role(role) => ("VaultRole", serde_json::to_value(role.spec).unwrap()),
        Object::ClusterRole(role) => {
            assert_eq!(role.metadata.namespace, None);
            ("VaultClusterRole", serde_json::to_value(role.spec).unwrap())
        }
    };
    let fields = spec.as_object_mut().unwrap();
    for (field, value) in [
        ("connectionRef", "c"),
        ("conflictPolicy", "Adopt"),
        ("deletionPolicy", "Retain"),
        ("driftMode", "detect"),
        ("externalName", "R"),
    ] {
        assert_eq!(fields.remove(field), Some(json!(value)), "{field}");
    }
    (kind, spec)
}

fn kubernetes(namespaces: &[&str]) -> Value {
    json!({
        "bound_service_account_names": ["b", "a"],
        "bound_service_account_namespaces": namespaces,
        "bound_service_account_namespace_selector": "",
        "alias_name_source": "serviceaccount_uid",
        "token_policies": ["known", "other"],
        "token_ttl": 3600,
        "token_max_ttl": 0,
        "token_type": "default",
        "token_no_default_policy": false,
        "token_num_uses": 0,
        "token_bound_cidrs": [],
        "alias_metadata": null,
    })
}

#[test]
fn a_role_for_the_namespace_alone_is_a_role_there() {
    let (kind, spec) = spec(kubernetes(&["found"]), RoleFamily::Kubernetes);
    assert_eq!(kind, "VaultRole");
    assert_eq!(
        spec,
        json!({
            "serviceAccounts": ["a", "b"],
            "policies": [
                {"kind": "VaultPolicy", "name": "p", "namespace": "found"},
                {"kind": "External", "name": "other"},
            ],
            "tokenTTL": "1h",
            "aliasNameSource": "serviceaccount_uid",
            "tokenType": "default",
        })
    );
}

#[test]
fn a_role_for_others_too_is_a_cluster_role() {
    let (kind, spec) = spec(kubernetes(&["found", "x"]), RoleFamily::Kubernetes);
    assert_eq!(kind, "VaultClusterRole");
    assert_eq!(
        spec["serviceAccounts"],
        json!([
            {"namespace": "found", "name": "a"}, {"namespace": "found", "name": "b"},
            {"namespace": "x", "name": "a"}, {"namespace": "x", "name": "b"},
        ])
    );
}

#[rstest]
#[case::its_own_namespaces(&["found"], "known", "VaultPolicy")]
#[case::another_namespaces(&["found"], "elsewhere", "External")]
#[case::another_namespaces_to_a_cluster_role(&["x"], "elsewhere", "VaultPolicy")]
#[case::nobodys(&["x"], "other", "External")]
fn a_policy_is_referred_to_as_far_as_that_holds(
    #[case] namespaces: &[&str],
    #[case] policy: &str,
    #[case] kind: &str,
) {
    let mut live = kubernetes(namespaces);
    live["token_policies"] = json!([policy]);
    let (_, spec) = spec(live, RoleFamily::Kubernetes);
    assert_eq!(spec["policies"][0]["kind"], kind);
}

#[test]
fn a_role_without_policies_waits_for_a_person() {
    let mut live = kubernetes(&["found"]);
    live["token_policies"] = json!([]);
    let (_, spec) = spec(live, RoleFamily::Kubernetes);
    assert_eq!(spec["policies"][0]["name"], words::DISCOVERY_PLACEHOLDER);
}

#[test]
fn a_selector_is_left_to_vault() {
    let mut live = kubernetes(&[]);
    live["bound_service_account_namespace_selector"] = json!(r#"{"matchLabels":{"team":"a"}}"#);
    let (kind, spec) = spec(live, RoleFamily::Kubernetes);
    assert_eq!(kind, "VaultClusterRole");
    assert_eq!(
        spec["selectedServiceAccounts"],
        json!({
            "names": ["a", "b"],
            "namespaceSelector": {"matchLabels": {"team": "a"}},
            "resolveBy": "Vault",
        })
    );
}

fn jwt(more: Value) -> Value {
    let mut live = json!({
        "role_type": "jwt",
        "user_claim": "sub",
        "bound_audiences": ["https://kubernetes.default.svc.cluster.local"],
        "bound_claims_type": "string",
        "token_policies": ["known"],
    });
    let more = more.as_object().unwrap().clone();
    live.as_object_mut().unwrap().extend(more);
    live
}

const ACCOUNT: &str = "system:serviceaccount:found:a";

#[rstest]
#[case::one_account(json!({"bound_subject": ACCOUNT}), "VaultRole", json!(["a"]), json!(null))]
#[case::several_accounts(
    json!({"bound_claims": {"sub": [ACCOUNT, "system:serviceaccount:found:b"]}}),
    "VaultRole", json!(["a", "b"]), json!(null)
)]
#[case::an_account_elsewhere(
    json!({"bound_subject": "system:serviceaccount:x:a"}),
    "VaultClusterRole", json!([{"namespace": "x", "name": "a"}]), json!(null)
)]
#[case::other_audiences(
    json!({"bound_subject": ACCOUNT, "bound_audiences": ["vault"]}),
    "VaultRole", json!(["a"]),
    json!({"userClaim": "sub", "boundAudiences": ["vault"], "boundClaimsType": "string"})
)]
#[case::a_subject(
    json!({"bound_subject": "repo:x", "bound_audiences": ["vault"]}),
    "VaultClusterRole", json!(null),
    json!({"userClaim": "sub", "boundAudiences": ["vault"], "boundClaimsType": "string", "boundSubject": "repo:x"})
)]
#[case::claims(
    json!({"bound_claims": {"ref": "refs/*"}, "bound_claims_type": "glob", "bound_audiences": ["vault"]}),
    "VaultClusterRole", json!(null),
    json!({"userClaim": "sub", "boundAudiences": ["vault"], "boundClaimsType": "glob", "boundClaimsList": {"ref": ["refs/*"]}})
)]
fn roles_for_tokens(
    #[case] more: Value,
    #[case] kind: &str,
    #[case] accounts: Value,
    #[case] asked: Value,
) {
    let (found, spec) = spec(jwt(more), RoleFamily::Jwt);
    assert_eq!(found, kind);
    assert_eq!(
        spec.get("serviceAccounts").unwrap_or(&Value::Null),
        &accounts
    );
    assert_eq!(spec.get("jwt").unwrap_or(&Value::Null), &asked);
}

#[test]
fn a_role_that_admits_anybody_waits_for_a_person() {
    let (kind, spec) = spec(jwt(json!({})), RoleFamily::Jwt);
    assert_eq!(kind, "VaultClusterRole");
    assert_eq!(
        spec["serviceAccounts"][0]["name"],
        words::DISCOVERY_PLACEHOLDER
    );
}

#[rstest]
#[case::a_glob_beside_others(kubernetes(&["x-*", "y"]), RoleFamily::Kubernetes, "glob")]
#[case::another_flow(jwt(json!({"role_type": "oidc", "bound_subject": ACCOUNT})), RoleFamily::Jwt, "role_type")]
#[case::no_audience(jwt(json!({"bound_audiences": [], "bound_subject": ACCOUNT})), RoleFamily::Jwt, "bound_audiences")]
#[case::subject_and_claims(jwt(json!({"bound_subject": ACCOUNT, "bound_claims": {"x": "y"}})), RoleFamily::Jwt, "subject and claims")]
#[case::claims_that_are_no_texts(jwt(json!({"bound_claims": {"x": 1}})), RoleFamily::Jwt, "claim x")]
fn what_no_spec_says_is_refused(
    #[case] live: Value,
    #[case] family: RoleFamily,
    #[case] why: &str,
) {
    let refused = made(live, family).unwrap_err();
    assert!(refused.contains(why), "{refused}");
}
