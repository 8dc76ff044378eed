mod policy;
mod role;

use std::collections::BTreeMap;

use api::vault::{PolicySpec, RoleSpec};
use rstest::rstest;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::*;
use crate::language::Policy;
use crate::language::text::{Header, Names, Rule, from_raw, from_rules};

static NO_LABELS: BTreeMap<String, String> = BTreeMap::new();

fn read<T: DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).unwrap()
}

/// What the connection `{tenancy, discovery}` lets `namespace` do.
fn in_namespace(
    namespace: &str,
    connection: &Value,
    judge: impl FnOnce(Guard<'_>) -> Result<(), Refusal>,
) -> Result<(), String> {
    let tenancy: Option<Tenancy> = read(connection["tenancy"].clone());
    let discovery: Option<Discovery> = read(connection["discovery"].clone());
    let guard = Guard {
        tenancy: tenancy.as_ref(),
        discovery: discovery.as_ref(),
        namespace: Namespace {
            name: namespace,
            labels: &NO_LABELS,
        },
    };
    judge(guard).map_err(|refusal| refusal.to_string())
}

/// A spec with the fields nobody asks for.
fn complete(mut spec: Value) -> Value {
    spec["connectionRef"] = "c".into();
    spec
}

/// What Vault would be given.
fn granted(spec: &PolicySpec, namespace: &str) -> Policy {
    let header = Header {
        auth_mount: None,
        cluster: None,
        resource: format!("{namespace}/app"),
        kind: "VaultPolicy".into(),
    };
    let names = Names {
        namespace,
        name: "app",
    };
    let rules = spec.rules.iter().map(|rule| Rule {
        path: rule.path.clone(),
        capabilities: rule
            .capabilities
            .iter()
            .map(|one| one.as_str().into())
            .collect(),
        ..Rule::default()
    });
    let text = match &spec.raw_hcl {
        Some(raw) => from_raw(&header, raw, names).unwrap(),
        None => from_rules(&header, &rules.collect::<Vec<_>>(), names),
    };
    Policy::parse(&text).unwrap()
}

fn policy_in(namespace: &str, connection: &Value, spec: Value) -> Result<(), String> {
    let spec: PolicySpec = read(complete(spec));
    let granted = granted(&spec, namespace);
    in_namespace(namespace, connection, |guard| guard.policy(&spec, &granted))
}

fn role_in(namespace: &str, connection: &Value, mut spec: Value) -> Result<(), String> {
    if spec["policies"].is_null() {
        spec["policies"] = json!([]);
    }
    let spec: RoleSpec = read(complete(spec));
    in_namespace(namespace, connection, |guard| guard.role(&spec))
}

/// A policy of one rule.
fn rule(path: &str, capabilities: &[&str]) -> Value {
    json!({"rules": [{"path": path, "capabilities": capabilities}]})
}

/// The same rule as text.
fn raw(path: &str, capabilities: &[&str]) -> Value {
    let text = format!(
        "path \"{path}\" {{ capabilities = {} }}",
        json!(capabilities)
    );
    json!({"rawHCL": text})
}

fn discovery_into(namespace: &str) -> Value {
    json!({
        "enabled": true,
        "autoCreateCRs": true,
        "targetNamespace": namespace,
        "policyPatterns": ["app-*"],
        "rolePatterns": ["login-*"],
    })
}

#[rstest]
#[case::nobody_says(json!({}), true)]
#[case::nothing_is_said(json!({"tenancy": {}}), true)]
#[case::by_name(json!({"tenancy": {"allowedNamespaces": {"names": ["team-a"]}}}), true)]
#[case::by_label(json!({"tenancy": {"allowedNamespaces": {"selector": {"matchExpressions": [{"key": "vault", "operator": "DoesNotExist"}]}}}}), true)]
#[case::others(json!({"tenancy": {"allowedNamespaces": {"names": ["team-b"], "selector": {"matchLabels": {"vault": "yes"}}}}}), false)]
#[case::nobody(json!({"tenancy": {"allowedNamespaces": {}}}), false)]
fn only_allowed_namespaces_use_the_connection(#[case] connection: Value, #[case] admitted: bool) {
    let judged = [
        in_namespace("team-a", &connection, |guard| guard.admits()),
        policy_in("team-a", &connection, rule("a/b", &["read"])),
        role_in("team-a", &connection, json!({})),
        in_namespace("team-a", &connection, |guard| guard.seed("kv/data/x")),
    ];
    for judged in judged {
        assert_eq!(judged.is_ok(), admitted, "{judged:?}");
    }
}

#[test]
fn a_refusal_says_what_by_which_field_and_what_to_do() {
    let connection = json!({"tenancy": {"allowedNamespaces": {"names": ["team-b"]}}});
    let refused = in_namespace("team-a", &connection, |guard| guard.admits()).unwrap_err();
    assert_eq!(
        refused,
        "namespace team-a may not use the connection: its tenancy.allowedNamespaces picks it \
         neither by name nor by label; have the namespace listed or labelled"
    );
    let refused = policy_in(
        "team-a",
        &json!({}),
        json!({"externalName": "x", "rules": []}),
    );
    assert_eq!(
        refused.unwrap_err(),
        "externalName x is refused to namespace team-a: no glob of the connection's \
         tenancy.externalNames matches it; have one added, or do without"
    );
}

#[rstest]
#[case::without_a_tenancy(json!({}), "app-x", false)]
#[case::without_globs(json!({"tenancy": {}}), "app-x", false)]
#[case::granted(json!({"tenancy": {"externalNames": ["db-*", "app-*"]}}), "app-x", true)]
#[case::granted_another(json!({"tenancy": {"externalNames": ["app-*"]}}), "db-x", false)]
#[case::of_the_namespace(json!({"tenancy": {"externalNames": ["{{namespace}}-*"]}}), "team-a-x", true)]
#[case::of_another_namespace(json!({"tenancy": {"externalNames": ["{{namespace}}-*"]}}), "team-b-x", false)]
#[case::in_another_case(json!({"tenancy": {"externalNames": ["App-*"]}}), "aPP-x", true)]
#[case::case_opens_no_class(json!({"tenancy": {"externalNames": ["[!r]oot"]}}), "Root", false)]
#[case::a_senseless_glob(json!({"tenancy": {"externalNames": ["[z-a]pp-x"]}}), "app-x", false)]
fn external_names_have_to_be_granted(
    #[case] connection: Value,
    #[case] name: &str,
    #[case] granted: bool,
) {
    let policy = policy_in("team-a", &connection, json!({"externalName": name}));
    let role = role_in("team-a", &connection, json!({"externalName": name}));
    assert_eq!(policy.is_ok(), granted, "{policy:?}");
    assert_eq!(role.is_ok(), granted, "{role:?}");
}

#[rstest]
#[case::a_policy_it_looks_for("app-x", true, false)]
#[case::a_role_it_looks_for("login-x", false, true)]
#[case::neither("db", false, false)]
#[case::what_counts_as_vaults_own("APP-root", false, false)]
fn discovery_grants_the_names_it_looks_for(
    #[case] name: &str,
    #[case] policy: bool,
    #[case] role: bool,
) {
    let mut discovery = discovery_into("team-a");
    discovery["customSystemPolicies"] = json!(["app-root"]);
    let connection = json!({"tenancy": {}, "discovery": discovery});
    let spec = json!({"externalName": name});
    assert_eq!(
        policy_in("team-a", &connection, spec.clone()).is_ok(),
        policy
    );
    assert_eq!(role_in("team-a", &connection, spec.clone()).is_ok(), role);
    assert!(policy_in("team-b", &connection, spec.clone()).is_err());
    assert!(role_in("team-b", &connection, spec).is_err());
}

#[test]
fn discovery_without_patterns_grants_all_names() {
    let connection = json!({"discovery": {"autoCreateCRs": true, "targetNamespace": "team-a"}});
    let spec = json!({"externalName": "anything"});
    assert_eq!(policy_in("team-a", &connection, spec.clone()), Ok(()));
    assert_eq!(role_in("team-a", &connection, spec), Ok(()));
}

#[rstest]
#[case::without_a_tenancy(json!({}), "team", false)]
#[case::without_globs(json!({"tenancy": {}}), "team", false)]
#[case::granted(json!({"tenancy": {"vaultNamespaces": ["teams/*"]}}), "teams/a", true)]
#[case::slashes_at_the_ends_are_nothing(json!({"tenancy": {"vaultNamespaces": ["teams/*/"]}}), "/teams/a/", true)]
#[case::a_star_crosses_no_slash(json!({"tenancy": {"vaultNamespaces": ["teams/*"]}}), "teams/a/b", false)]
#[case::of_the_namespace(json!({"tenancy": {"vaultNamespaces": ["teams/{{namespace}}"]}}), "teams/team-a", true)]
#[case::of_another(json!({"tenancy": {"vaultNamespaces": ["teams/{{namespace}}"]}}), "teams/team-b", false)]
#[case::case_counts(json!({"tenancy": {"vaultNamespaces": ["teams/a"]}}), "teams/A", false)]
#[case::the_root_is_no_match_of_a_star(json!({"tenancy": {"vaultNamespaces": ["*"]}}), "/", false)]
#[case::discovery_grants_none(json!({"discovery": discovery_into("team-a")}), "app-x", false)]
fn vault_namespaces_have_to_be_granted(
    #[case] connection: Value,
    #[case] vault_namespace: &str,
    #[case] granted: bool,
) {
    let spec = json!({"vaultNamespace": vault_namespace});
    let policy = policy_in("team-a", &connection, spec.clone());
    let role = role_in("team-a", &connection, spec);
    assert_eq!(policy.is_ok(), granted, "{policy:?}");
    assert_eq!(role.is_ok(), granted, "{role:?}");
}

#[rstest]
#[case::without_a_tenancy(json!({}), true)]
#[case::by_default(json!({"tenancy": {}}), true)]
#[case::denied(json!({"tenancy": {"adoption": "Deny"}}), false)]
#[case::discovery_does_not_grant_it(json!({"tenancy": {"adoption": "Deny"}, "discovery": discovery_into("team-a")}), false)]
fn adoption_can_be_denied(#[case] connection: Value, #[case] allowed: bool) {
    let judged = in_namespace("team-a", &connection, |guard| guard.adoption());
    assert_eq!(judged.is_ok(), allowed, "{judged:?}");
}

#[rstest]
#[case::any_without_a_tenancy(json!({}), "kv/data/x", true)]
#[case::any_by_default(json!({"tenancy": {}}), "kv/data/x", true)]
#[case::none(json!({"tenancy": {"kvPaths": []}}), "kv/data/x", false)]
#[case::below(json!({"tenancy": {"kvPaths": ["kv/data/{{namespace}}/*"]}}), "kv/data/team-a/x/y", true)]
#[case::of_another_namespace(json!({"tenancy": {"kvPaths": ["kv/data/{{namespace}}/*"]}}), "kv/data/team-b/x", false)]
#[case::just_one(json!({"tenancy": {"kvPaths": ["kv/data/{{namespace}}"]}}), "kv/data/team-a/x", false)]
#[case::by_a_plus(json!({"tenancy": {"kvPaths": ["+/data/{{namespace}}/x"]}}), "other/data/team-a/x", true)]
#[case::a_plus_is_one_segment(json!({"tenancy": {"kvPaths": ["kv/data/+"]}}), "kv/data/a/b", false)]
fn seeds_stay_below_the_kv_paths(
    #[case] connection: Value,
    #[case] path: &str,
    #[case] allowed: bool,
) {
    let judged = in_namespace("team-a", &connection, |guard| guard.seed(path));
    assert_eq!(judged.is_ok(), allowed, "{judged:?}");
}
