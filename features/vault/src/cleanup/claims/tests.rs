use std::convert::Infallible;
use std::sync::Arc;

use engine::{Hub, Kind, Metrics, Tasks, WatchKey};
use http::{Request, Response};
use kernel::TestClock;
use kube::Client;
use kube::client::Body;
use rstest::rstest;
use serde_json::{Value, json};
use vault_client::ServerState;

use super::*;

const POLICY: &str = "sys/policies/acl/vao.kubernetes.team-a.app";
const ROLE: &str = "auth/kubernetes/role/vao.kubernetes.team-a.app";
const PARTED: &str = "auth/kubernetes/role/vao.kubernetes._.app";

/// `c`, `twin` and, by another address, `alias` lead to one Vault, `far` to another, `low` to a namespace of the first. `short`
/// leads to the first and derives names from namespace and name alone.
fn connection(name: &str) -> Option<VaultConnection> {
    let (address, namespace) = match name {
        "c" => ("https://vault", None),
        "twin" => ("https://vault/", None),
        "short" => ("https://vault", None),
        "far" => ("https://far", None),
        "alias" => ("https://10.0.0.1", None),
        "low" => ("https://vault", Some("low")),
        _ => return None,
    };
    let mut whole = json!({
        "apiVersion": "vault.platform.io/v1alpha1",
        "kind": "VaultConnection",
        "metadata": {"name": name},
        "spec": {"address": address, "auth": {"kubernetes": {"role": "r"}}},
    });
    if let Some(namespace) = namespace {
        whole["spec"]["vaultNamespace"] = json!(namespace);
    }
    if name == "short" {
        whole["spec"]["defaults"] = json!({"nameFormat": "NamespaceName"});
    }
    Some(serde_json::from_value(whole).unwrap())
}

/// As the server behind a connection last answered.
fn health(name: &str) -> Option<Health> {
    connection(name)?;
    let cluster_id = if name == "far" { "far" } else { "vault" };
    Some(Health {
        state: ServerState::Active,
        version: "1.21.1".to_owned(),
        enterprise: Some(false),
        cluster_id: Some(cluster_id.to_owned()),
    })
}

fn object<K: DeserializeOwned>(kind: &str, changes: Value) -> K {
    let mut whole = json!({
        "apiVersion": "vault.platform.io/v1alpha1",
        "kind": kind,
        "metadata": {"name": "app", "generation": 2},
        "spec": {"connectionRef": "c", "policies": [], "rules": []},
        "status": {},
    });
    if !kind.contains("Cluster") {
        whole["metadata"]["namespace"] = json!("team-a");
    }
    for (part, fields) in changes.as_object().unwrap() {
        for (field, value) in fields.as_object().unwrap() {
            whole[part][field] = value.clone();
        }
    }
    serde_json::from_value(whole).unwrap()
}

fn policy(changes: Value) -> VaultPolicy {
    object("VaultPolicy", changes)
}

fn parted(changes: Value) -> VaultClusterRole {
    object("VaultClusterRole", changes)
}

fn claim_at<K: Claims>(object: &K, path: &str, namespace: Option<&str>) -> Claim {
    let path = VaultPath::parse(path).unwrap();
    let located = Located {
        path: &path,
        realm: Realm::at("https://vault", health("c"), namespace.map(str::to_owned)),
        left_by: ("VaultPolicy", "team-a/app"),
    };
    let facts = ConnectionFacts {
        connection: &connection,
        health: &health,
        identity: &|connection| {
            names::identity(None, names::login_mount(&connection.spec.auth).as_ref())
        },
    };
    claim(object, &located, &facts)
}

#[rstest]
#[case::derived(json!({}), POLICY, Claim::Yes)]
#[case::derived_from_namespace_and_name(
    json!({"spec": {"connectionRef": "short"}}), "sys/policies/acl/team-a-app", Claim::Yes)]
#[case::not_as_a_namesake_of_who_left_it(
    json!({"metadata": {"namespace": "team", "name": "a-app"}, "spec": {"connectionRef": "short"}}),
    "sys/policies/acl/team-a-app", Claim::No)]
#[case::not_by_the_other_format(json!({"spec": {"connectionRef": "short"}}), POLICY, Claim::No)]
#[case::in_any_case(json!({}), "sys/policies/acl/VAO.kubernetes.team-a.app", Claim::Yes)]
#[case::over_another_connection_to_the_same_vault(
    json!({"spec": {"connectionRef": "twin"}}), POLICY, Claim::Yes)]
#[case::by_another_address_of_the_same_vault(
    json!({"spec": {"connectionRef": "alias"}}), POLICY, Claim::Yes)]
#[case::on_another_vault(json!({"spec": {"connectionRef": "far"}}), POLICY, Claim::No)]
#[case::in_another_vault_namespace(json!({"spec": {"connectionRef": "low"}}), POLICY, Claim::No)]
#[case::over_no_connection(json!({"spec": {"connectionRef": "gone"}}), POLICY, Claim::No)]
#[case::being_deleted(
    json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}), POLICY, Claim::No)]
#[case::of_another_name(json!({}), "sys/policies/acl/vao.kubernetes.team-a.web", Claim::No)]
#[case::by_its_external_name(
    json!({"spec": {"externalName": "Legacy"}}), "sys/policies/acl/legacy", Claim::Yes)]
#[case::not_by_the_derived_name_besides(
    json!({"spec": {"externalName": "legacy"}}), POLICY, Claim::No)]
#[case::on_its_record(
    json!({"status": {"binding": {"vaultPath": "sys/policies/acl/team-a-app"}}}),
    "sys/policies/acl/team-a-app", Claim::Yes)]
#[case::on_its_record_of_another_vault(
    json!({"status": {"binding": {"vaultPath": "sys/policies/acl/old", "connection": "far"}}}),
    "sys/policies/acl/old", Claim::No)]
#[case::kept_as_an_earlier_name(
    json!({"status": {"previousNames": [
        {"vaultPath": "sys/policies/acl/old", "connection": "twin"}]}}),
    "sys/policies/acl/old", Claim::Yes)]
#[case::announced(
    json!({"status": {"intent": {"vaultPath": "sys/policies/acl/next", "kind": "create"}}}),
    "sys/policies/acl/next", Claim::Yes)]
#[case::never_a_role(json!({}), ROLE, Claim::No)]
fn a_policy_claims(#[case] changes: Value, #[case] path: &str, #[case] expected: Claim) {
    assert_eq!(claim_at(&policy(changes), path, None), expected);
}

#[test]
fn a_namespace_of_its_own_leads_elsewhere() {
    let below = policy(json!({"spec": {"vaultNamespace": "low"}}));
    assert_eq!(claim_at(&below, POLICY, None), Claim::No);
    assert_eq!(claim_at(&below, POLICY, Some("low")), Claim::Yes);
    let over_low = policy(json!({"spec": {"connectionRef": "low"}}));
    assert_eq!(claim_at(&over_low, POLICY, Some("low")), Claim::Yes);
}

#[test]
fn a_cluster_wide_object_claims_under_its_own_segment() {
    let shared: VaultClusterPolicy = object("VaultClusterPolicy", json!({}));
    let named = "sys/policies/acl/vao.kubernetes._.app";
    assert_eq!(claim_at(&shared, named, None), Claim::Yes);
    assert_eq!(claim_at(&shared, POLICY, None), Claim::No);
}

#[rstest]
#[case::at_the_role_mount(ROLE, Claim::Yes)]
#[case::at_another_mount("auth/old/role/vao.kubernetes.team-a.app", Claim::No)]
#[case::not_as_a_part("auth/kubernetes/role/vao.kubernetes.team-a.app__b", Claim::No)]
fn a_role_claims(#[case] path: &str, #[case] expected: Claim) {
    let role: VaultRole = object("VaultRole", json!({"spec": {"serviceAccounts": ["sa"]}}));
    assert_eq!(claim_at(&role, path, None), expected);
}

fn synced(generation: i64) -> Value {
    json!({"status": {
        "conditions": [{
            "type": "Synced", "status": "True", "reason": "Succeeded", "message": "",
            "observedGeneration": generation, "lastTransitionTime": "2026-01-01T00:00:00Z",
        }],
        "binding": {"authMount": "kubernetes"},
        "vaultRoleNames": [
            {"namespace": "team-a", "vaultRoleName": "vao.kubernetes._.app__team-a"}],
    }})
}

#[rstest]
#[case::new(json!({}), PARTED, Claim::Maybe)]
#[case::new_and_a_part(json!({}), &format!("{PARTED}__team-a"), Claim::Maybe)]
#[case::edited(synced(1), &format!("{PARTED}__team-b"), Claim::Maybe)]
#[case::synced_and_on_record(synced(2), &format!("{PARTED}__team-a"), Claim::Yes)]
#[case::synced_without_such_a_part(synced(2), &format!("{PARTED}__team-b"), Claim::No)]
#[case::synced_without_a_role_for_all(synced(2), PARTED, Claim::No)]
#[case::of_another_name(json!({}), "auth/kubernetes/role/vao.kubernetes._.apps", Claim::No)]
fn a_role_in_parts_tells_by_its_record(
    #[case] changes: Value,
    #[case] path: &str,
    #[case] expected: Claim,
) {
    assert_eq!(claim_at(&parted(changes), path, None), expected);
}

#[rstest]
#[case::its_path(json!({}), true)]
#[case::another_path(json!({"spec": {"path": "secret/data/team-a/web"}}), false)]
#[case::another_vault(json!({"spec": {"connectionRef": "far"}}), false)]
#[case::being_deleted(json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}), false)]
fn a_seed_claims(#[case] changes: Value, #[case] expected: bool) {
    let mut all = json!({"spec": {"path": "secret/data/team-a/app"}});
    for (part, fields) in changes.as_object().unwrap() {
        for (field, value) in fields.as_object().unwrap() {
            all[part][field] = value.clone();
        }
    }
    let seed: VaultKVSecret = object("VaultKVSecret", all);
    let path = VaultPath::parse("secret/metadata/team-a/app").unwrap();
    let located = Located {
        path: &path,
        realm: Realm::at("https://vault", health("c"), None),
        left_by: ("VaultPolicy", "team-a/app"),
    };
    let facts = ConnectionFacts {
        connection: &connection,
        health: &health,
        identity: &|_| "kubernetes".to_owned(),
    };
    assert_eq!(
        claim_by_seed(&seed, &located, &facts) == Claim::Yes,
        expected
    );
}

#[rstest]
#[case::by_its_name("team-a", "app", "{}", POLICY, true)]
#[case::by_the_name_of_a_part("", "app", "{}", &format!("{PARTED}__team-a"), true)]
#[case::by_its_text(
    "x",
    "y",
    r#"{"externalName":"LEGACY"}"#,
    "sys/policies/acl/legacy",
    true
)]
#[case::by_the_text_of_the_whole(
    "",
    "y",
    r#"{"externalName":"legacy"}"#,
    "auth/k/role/legacy__team-a",
    true
)]
#[case::with_characters_that_may_be_escaped("x", "y", "{}", "sys/policies/acl/a&b", true)]
#[case::a_mount_with_the_sign_of_parts(
    "team-a",
    "app",
    "{}",
    "auth/k/role/vao.a__b.team-a.app",
    true
)]
#[case::by_namespace_and_name("team-a", "app", "{}", "sys/policies/acl/team-a-app", true)]
#[case::by_its_bare_name("", "app", "{}", "auth/k/role/app__team-a", true)]
#[case::by_nothing("x", "y", "{}", POLICY, false)]
fn a_quick_look_misses_nobody(
    #[case] namespace: &str,
    #[case] name: &str,
    #[case] json: &str,
    #[case] path: &str,
    #[case] expected: bool,
) {
    let key = ObjectKey::of(Some(namespace), name);
    let path = VaultPath::parse(path).unwrap();
    assert_eq!(may_concern(json, &key, &path), expected);
}

/// A server that has no objects, and after a list of them is never heard of again.
fn client() -> Client {
    let server = tower::service_fn(|request: Request<Body>| async move {
        let query = request.uri().query().unwrap_or_default();
        if query.contains("resourceVersion=") {
            std::future::pending::<()>().await;
        }
        let end = json!({"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": "1",
            "annotations": {"k8s.io/initial-events-end": "true"}}}});
        let answer = Body::from(format!("{end}\n").into_bytes());
        Ok::<_, Infallible>(Response::new(answer))
    });
    Client::new(server, "default")
}

#[tokio::test]
async fn a_watch_that_was_silent_for_long_is_not_believed() {
    let (tasks, clock) = (Tasks::default(), Arc::new(TestClock::new()));
    let hub = Hub::new(client(), tasks.clone(), Metrics::default()).with_clock(clock.clone());
    let cache = hub.cache(WatchKey::all(Kind::of::<VaultPolicy>()));
    let path = VaultPath::parse("sys/policies/acl/p").unwrap();
    let located = Located {
        path: &path,
        realm: Realm::at("https://vault", None, None),
        left_by: ("", ""),
    };
    let found = || strongest(&cache, &located, |_: &VaultPolicy| Claim::Yes);
    assert_eq!(found(), Err(Unread), "nothing has been read");
    while !cache.is_settled() {
        tokio::task::yield_now().await;
    }
    assert_eq!(found(), Ok(None));
    clock.advance(FRESH + Duration::from_secs(1));
    assert_eq!(found(), Err(Unread));
    tasks.kill().await;
}
