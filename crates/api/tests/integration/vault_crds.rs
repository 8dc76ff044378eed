//! The kinds of vault.platform.io as a real API server takes them: what it accepts, what it refuses
//! and with which words, what it fills in, and that objects of vault-access-operator stay whole.

use api::vault::{
    self, VaultClusterPolicy, VaultClusterRole, VaultConnection, VaultKVSecret, VaultPolicy,
    VaultRole,
};
use assert_json_diff::assert_json_eq;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, DynamicObject, Patch, PatchParams, PostParams};
use kube::{Client, ResourceExt};
use rstest::rstest;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use testkit::stories::merge;
use testkit::{ControlPlane, Result, objects_of, until_served};
use tokio::sync::OnceCell;

const CLUSTER_OBJECTS: &str = include_str!("../fixtures/vault/cluster-objects.yaml");
const TEAM_OBJECTS: &str = include_str!("../fixtures/vault/team-a-objects.yaml");

const CONNECTION: &str = "VaultConnection";
const POLICY: &str = "VaultPolicy";
const CLUSTER_POLICY: &str = "VaultClusterPolicy";
const ROLE: &str = "VaultRole";
const CLUSTER_ROLE: &str = "VaultClusterRole";
const SEED: &str = "VaultKVSecret";

/// A client of the shared API server, which serves the six kinds.
async fn served() -> Result<Client> {
    static APPLIED: OnceCell<()> = OnceCell::const_new();
    let plane = ControlPlane::shared().await?;
    let client = plane.admin();
    let apply = async || -> Result<()> {
        plane.ensure_namespace("team-a").await?;
        let definitions = Api::<CustomResourceDefinition>::all(client.clone());
        for crd in vault::crds() {
            definitions.create(&PostParams::default(), &crd).await?;
        }
        for crd in vault::crds() {
            until_served(&client, &crd).await?;
        }
        Ok(())
    };
    APPLIED.get_or_try_init(apply).await?;
    Ok(client)
}

fn api(client: &Client, kind: &str) -> Api<DynamicObject> {
    let mut crds = vault::crds().into_iter();
    let crd = crds.find(|crd| crd.spec.names.kind == kind);
    objects_of(client, &crd.expect("one of the six kinds"), "team-a")
}

/// The smallest spec of `kind`, changed by the merge patch `change`.
fn spec(kind: &str, change: &Value) -> Value {
    let policies = json!([{"kind": "VaultClusterPolicy", "name": "shared"}]);
    let mut spec = match kind {
        CONNECTION => {
            json!({"address": "https://vault:8200", "auth": {"token": {"secretRef": secret()}}})
        }
        POLICY | CLUSTER_POLICY => json!({"connectionRef": "c", "rules": [rule(&json!({}))]}),
        ROLE => json!({"connectionRef": "c", "serviceAccounts": ["sa1"], "policies": policies}),
        CLUSTER_ROLE => {
            let account = json!({"name": "a", "namespace": "ns1"});
            json!({"connectionRef": "c", "serviceAccounts": [account], "policies": policies})
        }
        SEED => json!({"connectionRef": "c", "path": "secret/data/team-a/seed"}),
        other => panic!("no kind of ours: {other}"),
    };
    merge(&mut spec, change);
    spec
}

fn secret() -> Value {
    json!({"name": "s", "namespace": "ops", "key": "k"})
}

/// A rule, changed by the merge patch `change`.
fn rule(change: &Value) -> Value {
    let mut rule = json!({"path": "secret/data/{{namespace}}/*", "capabilities": ["read"]});
    merge(&mut rule, change);
    rule
}

/// A policy of this one rule.
fn one_rule(change: &Value) -> Value {
    json!({"rules": [rule(change)]})
}

/// A policy of this one path that keeps to its namespace.
fn bounded(path: &str) -> Value {
    json!({"enforceNamespaceBoundary": true, "rules": [rule(&json!({"path": path}))]})
}

fn refs(reference: Value) -> Value {
    json!({"policies": [reference]})
}

fn tenancy(tenancy: Value) -> Value {
    json!({"tenancy": tenancy})
}

fn object(kind: &str, name: &str, spec: &Value) -> DynamicObject {
    serde_json::from_value(json!({
        "apiVersion": "vault.platform.io/v1alpha1", "kind": kind,
        "metadata": {"name": name}, "spec": spec,
    }))
    .expect("an object")
}

/// What the API server would store, or what it says against it. Nothing is stored.
async fn offered(kind: &str, spec: &Value) -> Result<Result<Value, String>> {
    let client = served().await?;
    let dry_run = PostParams {
        dry_run: true,
        ..PostParams::default()
    };
    let answer = api(&client, kind)
        .create(&dry_run, &object(kind, "x", spec))
        .await;
    Ok(match answer {
        Ok(stored) => Ok(stored.data["spec"].clone()),
        Err(kube::Error::Api(status)) if status.code == 422 => Err(status.message),
        Err(other) => return Err(other.into()),
    })
}

const ONE_METHOD: &str = "set exactly one auth method (bootstrap only beside kubernetes)";
const GIVE_NAMESPACE: &str = "give the namespace of the Secret";
const WHOLE_SEGMENT: &str = "{{namespace}} must be a whole segment after literal segments only";
const ONE_TEXT: &str = "set exactly one of rules and rawHCL";
const SAY_WHO: &str = "say who may log in";

#[rstest]
#[case::two_methods(CONNECTION, json!({"auth": {"appRole": {"roleId": "r", "secretIdRef": secret()}}}), ONE_METHOD)]
#[case::no_method(CONNECTION, json!({"auth": {"token": null}}), ONE_METHOD)]
#[case::bootstrap_alone(CONNECTION, json!({"auth": {"token": null, "bootstrap": {"secretRef": secret()}}}), ONE_METHOD)]
#[case::bootstrap_beside_token(CONNECTION, json!({"auth": {"bootstrap": {"secretRef": secret()}}}), ONE_METHOD)]
#[case::secret_without_namespace(CONNECTION, json!({"auth": {"token": {"secretRef": {"namespace": null}}}}), GIVE_NAMESPACE)]
#[case::secret_with_empty_namespace(CONNECTION, json!({"auth": {"token": {"secretRef": {"namespace": ""}}}}), GIVE_NAMESPACE)]
#[case::certificate_without_namespace(CONNECTION, json!({"tls": {"clientCertSecretRef": {"name": "x"}}}), GIVE_NAMESPACE)]
#[case::address_without_scheme(CONNECTION, json!({"address": "vault:8200"}), "spec.address")]
#[case::ec2(CONNECTION, json!({"auth": {"token": null, "aws": {"role": "r", "authType": "ec2"}}}), "ec2 login is not supported")]
#[case::aws_type(CONNECTION, json!({"auth": {"token": null, "aws": {"role": "r", "authType": "sts"}}}), "Unsupported value: \"sts\"")]
#[case::oidc_without_token(CONNECTION, json!({"auth": {"token": null, "oidc": {"role": "r", "useServiceAccountToken": false}}}), "useServiceAccountToken: false needs jwtSecretRef")]
#[case::renewal(CONNECTION, json!({"auth": {"token": null, "kubernetes": {"role": "r", "renewalStrategy": "never"}}}), "Unsupported value: \"never\"")]
#[case::interval(CONNECTION, json!({"healthCheckInterval": "abc"}), "spec.healthCheckInterval")]
#[case::no_requests(CONNECTION, json!({"rateLimit": {"burst": 0}}), "spec.rateLimit.burst")]
#[case::namespace_of_two_words(CONNECTION, json!({"vaultNamespace": "a b"}), "spec.vaultNamespace")]
#[case::mount_without_family(CONNECTION, json!({"defaults": {"authPath": "my-mount"}}), "needs authType")]
#[case::mount_that_only_begins_alike(CONNECTION, json!({"defaults": {"authPath": "kubernetesx"}}), "needs authType")]
#[case::name_format(CONNECTION, json!({"defaults": {"nameFormat": "Short"}}), "Unsupported value: \"Short\"")]
#[case::family(CONNECTION, json!({"defaults": {"authPath": "x", "authType": "oidc"}}), "Unsupported value: \"oidc\"")]
#[case::open_bracket(CONNECTION, json!({"discovery": {"policyPatterns": ["[a"]}}), "spec.discovery.policyPatterns[0]")]
#[case::empty_bracket(CONNECTION, json!({"discovery": {"rolePatterns": ["a[]"]}}), "spec.discovery.rolePatterns[0]")]
#[case::empty_negation(CONNECTION, json!({"discovery": {"rolePatterns": ["[!]"]}}), "spec.discovery.rolePatterns[0]")]
#[case::bracket_closed_only_by_escape(CONNECTION, json!({"discovery": {"rolePatterns": [r"[a\]"]}}), "spec.discovery.rolePatterns[0]")]
#[case::trailing_backslash(CONNECTION, json!({"discovery": {"policyPatterns": [r"a\"]}}), "spec.discovery.policyPatterns[0]")]
#[case::create_without_target(CONNECTION, json!({"discovery": {"autoCreateCRs": true}}), "autoCreateCRs needs targetNamespace")]
#[case::granted_names(CONNECTION, tenancy(json!({"externalNames": ["[a"]})), "spec.tenancy.externalNames[0]")]
#[case::granted_policies(CONNECTION, tenancy(json!({"externalPolicies": ["[a"]})), "spec.tenancy.externalPolicies[0]")]
#[case::granted_vault_namespaces(CONNECTION, tenancy(json!({"vaultNamespaces": ["[a"]})), "spec.tenancy.vaultNamespaces[0]")]
#[case::seed_paths(CONNECTION, tenancy(json!({"kvPaths": ["a/../b"]})), "must not contain '..'")]
#[case::boundary_with_wildcard(CONNECTION, tenancy(json!({"boundaryPrefixes": ["secret/+/"]})), "spec.tenancy.boundaryPrefixes[0]")]
#[case::ceiling_of_nothing(CONNECTION, tenancy(json!({"ceilings": [{"path": "a", "capabilities": []}]})), "spec.tenancy.ceilings[0].capabilities")]
#[case::ceiling_path(CONNECTION, tenancy(json!({"ceilings": [{"path": "a+*", "capabilities": ["read"]}]})), "must not contain '+*'")]
#[case::permission(CONNECTION, tenancy(json!({"adoption": "Maybe"})), "Unsupported value: \"Maybe\"")]
#[case::references(CONNECTION, tenancy(json!({"crossNamespaceRefs": "None"})), "Unsupported value: \"None\"")]
#[case::template_rule(CONNECTION, tenancy(json!({"templates": [{"name": "t", "namespaceSelector": {}, "serviceAccounts": ["a"], "rules": [{"path": "a..", "capabilities": ["read"]}]}]})), "must not contain '..'")]
#[case::no_connection(POLICY, json!({"connectionRef": null}), "spec.connectionRef: Required value")]
#[case::no_rules(POLICY, json!({"rules": []}), "spec.rules")]
#[case::neither_rules_nor_text(POLICY, json!({"rules": null}), ONE_TEXT)]
#[case::rules_and_text(POLICY, json!({"rawHCL": "path \"a\" {}"}), ONE_TEXT)]
#[case::cluster_rules_and_text(CLUSTER_POLICY, json!({"rawHCL": "path \"a\" {}"}), ONE_TEXT)]
#[case::too_many_rules(POLICY, json!({"rules": vec![rule(&json!({})); 501]}), "spec.rules: Too many")]
#[case::too_much_text(POLICY, json!({"rules": null, "rawHCL": "#".repeat(65537)}), "spec.rawHCL: Too long")]
#[case::capability(POLICY, one_rule(&json!({"capabilities": ["root"]})), "Unsupported value: \"root\"")]
#[case::no_capability(POLICY, one_rule(&json!({"capabilities": []})), "spec.rules[0].capabilities")]
#[case::path_with_space(POLICY, one_rule(&json!({"path": "a b"})), "spec.rules[0].path")]
#[case::path_with_quote(POLICY, one_rule(&json!({"path": "a\"b"})), "spec.rules[0].path")]
#[case::path_upwards(POLICY, one_rule(&json!({"path": "a/../b"})), "must not contain '..'")]
#[case::path_plus_star(POLICY, one_rule(&json!({"path": "a/+*"})), "must not contain '+*'")]
#[case::long_path(POLICY, one_rule(&json!({"path": "a".repeat(513)})), "spec.rules[0].path: Too long")]
#[case::long_description(POLICY, one_rule(&json!({"description": "a".repeat(257)})), "spec.rules[0].description: Too long")]
#[case::description_of_two_lines(POLICY, one_rule(&json!({"description": "a\nb"})), "spec.rules[0].description")]
#[case::interpolated_parameter(POLICY, one_rule(&json!({"parameters": {"allowed": ["${x}"]}})), "spec.rules[0].parameters.allowed[0]")]
#[case::interpolated_after_dollar(POLICY, one_rule(&json!({"parameters": {"denied": ["a$${x}"]}})), "spec.rules[0].parameters.denied[0]")]
#[case::required_with_line_break(POLICY, one_rule(&json!({"parameters": {"required": ["a\n"]}})), "spec.rules[0].parameters.required[0]")]
#[case::interpolated_value(POLICY, one_rule(&json!({"allowedParameters": {"a": ["${x}"]}})), "spec.rules[0].allowedParameters.a[0]")]
#[case::parameter_name(POLICY, one_rule(&json!({"deniedParameters": {"a b": []}})), "names of parameters")]
#[case::many_parameters(POLICY, one_rule(&json!({"allowedParameters": (0..33).map(|n| (n.to_string(), json!([]))).collect::<serde_json::Map<_, _>>()})), "spec.rules[0].allowedParameters: Too many")]
#[case::lists_and_maps(POLICY, one_rule(&json!({"parameters": {"allowed": ["a"]}, "allowedParameters": {"a": []}})), "give parameters as lists")]
#[case::event_types(POLICY, one_rule(&json!({"subscribeEventTypes": ["${x}"]})), "spec.rules[0].subscribeEventTypes[0]")]
#[case::wrapping(POLICY, one_rule(&json!({"minWrappingTTL": "soon"})), "spec.rules[0].minWrappingTTL")]
#[case::boundary_shared(POLICY, bounded("secret/data/shared/*"), WHOLE_SEGMENT)]
#[case::boundary_after_star(POLICY, bounded("*/{{namespace}}/x"), WHOLE_SEGMENT)]
#[case::boundary_after_plus(POLICY, bounded("secret/+/{{namespace}}/x"), WHOLE_SEGMENT)]
#[case::boundary_open_end(POLICY, bounded("secret/data/{{namespace}}*"), WHOLE_SEGMENT)]
#[case::boundary_part_of_segment(POLICY, bounded("a-{{namespace}}/x"), WHOLE_SEGMENT)]
#[case::system_policy(POLICY, json!({"externalName": "default"}), "one of Vault's own policies")]
#[case::system_policy_in_capitals(CLUSTER_POLICY, json!({"externalName": "ROOT"}), "one of Vault's own policies")]
#[case::derived_name(POLICY, json!({"externalName": "vao.x"}), "begin with 'vao.'")]
#[case::derived_name_of_a_role(ROLE, json!({"externalName": "VAO.x"}), "begin with 'vao.'")]
#[case::conflict_policy(POLICY, json!({"conflictPolicy": "Overwrite"}), "Unsupported value: \"Overwrite\"")]
#[case::deletion_policy(POLICY, json!({"deletionPolicy": "Orphan"}), "Unsupported value: \"Orphan\"")]
#[case::drift_mode(POLICY, json!({"driftMode": "Detect"}), "Unsupported value: \"Detect\"")]
#[case::no_policies(ROLE, json!({"policies": []}), "spec.policies")]
#[case::nobody(ROLE, json!({"serviceAccounts": []}), SAY_WHO)]
#[case::nobody_by_token(ROLE, json!({"serviceAccounts": null, "jwt": {"boundSubject": "", "boundClaims": {}}}), SAY_WHO)]
#[case::nobody_of_the_cluster(CLUSTER_ROLE, json!({"serviceAccounts": null}), SAY_WHO)]
#[case::account_with_slash(ROLE, json!({"serviceAccounts": ["ns/sa"]}), "spec.serviceAccounts[0]")]
#[case::account_without_namespace(CLUSTER_ROLE, json!({"serviceAccounts": [{"name": "a"}]}), "spec.serviceAccounts[0].namespace: Required value")]
#[case::cluster_role_needs_namespace(CLUSTER_ROLE, refs(json!({"kind": "VaultPolicy", "name": "app"})), "needs its namespace")]
#[case::cluster_policy_has_none(ROLE, refs(json!({"kind": "VaultClusterPolicy", "name": "a", "namespace": "b"})), "only a reference to a VaultPolicy has a namespace")]
#[case::external_has_none(CLUSTER_ROLE, refs(json!({"kind": "External", "name": "a", "namespace": "b"})), "only a reference to a VaultPolicy has a namespace")]
#[case::reference_kind(ROLE, refs(json!({"kind": "Policy", "name": "a"})), "Unsupported value: \"Policy\"")]
#[case::ttl(ROLE, json!({"tokenTTL": "abc"}), "spec.tokenTTL")]
#[case::max_ttl(ROLE, json!({"tokenMaxTTL": "1h30"}), "spec.tokenMaxTTL")]
#[case::subject_and_claims(ROLE, json!({"jwt": {"boundSubject": "s", "boundClaims": {"a": "b"}}}), "set boundSubject or bound claims")]
#[case::subject_and_claims_list(ROLE, json!({"jwt": {"boundSubject": "s", "boundClaimsList": {"a": ["b"]}}}), "set boundSubject or bound claims")]
#[case::claims_type(ROLE, json!({"jwt": {"boundClaimsType": "regex"}}), "Unsupported value: \"regex\"")]
#[case::periodic_batch(ROLE, json!({"tokenType": "batch", "tokenPeriod": "1h"}), "batch tokens")]
#[case::counted_batch(CLUSTER_ROLE, json!({"tokenType": "batch", "tokenNumUses": 1}), "batch tokens")]
#[case::negative_uses(ROLE, json!({"tokenNumUses": -1}), "spec.tokenNumUses")]
#[case::token_type(ROLE, json!({"tokenType": "root"}), "Unsupported value: \"root\"")]
#[case::alias(ROLE, json!({"aliasNameSource": "name"}), "Unsupported value: \"name\"")]
#[case::selection_without_names(CLUSTER_ROLE, json!({"selectedServiceAccounts": {"namespaceSelector": {}}}), "selectedServiceAccounts.names: Required value")]
#[case::listed_beside_vaults_choice(CLUSTER_ROLE, json!({"selectedServiceAccounts": {"names": ["a"], "namespaceSelector": {}, "resolveBy": "Vault"}}), "resolveBy: Vault")]
#[case::binding(CLUSTER_ROLE, json!({"serviceAccountBinding": "Loose"}), "Unsupported value: \"Loose\"")]
#[case::seed_without_data(SEED, json!({"path": "secret/team-a/seed"}), "spec.path")]
#[case::seed_without_rest(SEED, json!({"path": "secret/data/"}), "spec.path")]
#[tokio::test]
async fn is_refused(#[case] kind: &str, #[case] change: Value, #[case] words: &str) -> Result<()> {
    let answer = offered(kind, &spec(kind, &change)).await?;
    let message = answer.expect_err("the API server accepts it");
    assert!(message.contains(words), "{message}");
    Ok(())
}

#[rstest]
#[case::bootstrap_beside_kubernetes(CONNECTION, json!({"auth": {"token": null, "bootstrap": {"secretRef": secret()}, "kubernetes": {"role": "r"}}}))]
#[case::approle(CONNECTION, json!({"auth": {"token": null, "appRole": {"roleId": "r", "secretIdRef": secret()}}}))]
#[case::oidc_with_token(CONNECTION, json!({"auth": {"token": null, "oidc": {"role": "r", "useServiceAccountToken": false, "jwtSecretRef": secret()}}}))]
#[case::globs(CONNECTION, json!({"discovery": {"policyPatterns": ["*", "app-?", "[abc]*", "[!a-c]", "[^!]", "[a!]", r"\[a", "a]", r"[\]]", "", "{{namespace}}-*"]}}))]
#[case::kubernetes_mount(CONNECTION, json!({"defaults": {"authPath": "kubernetes-x"}}))]
#[case::mount_as_path(CONNECTION, json!({"defaults": {"authPath": "auth/kubernetes/"}}))]
#[case::jwt_mount(CONNECTION, json!({"defaults": {"authPath": "jwt_eu/west"}}))]
#[case::mount_with_family(CONNECTION, json!({"defaults": {"authPath": "my-mount", "authType": "jwt"}}))]
#[case::name_format(CONNECTION, json!({"defaults": {"nameFormat": "NamespaceName"}}))]
#[case::create_with_target(CONNECTION, json!({"discovery": {"autoCreateCRs": true, "targetNamespace": "found"}}))]
#[case::whole_tenancy(CONNECTION, tenancy(json!({
    "allowedNamespaces": {"names": ["a"], "selector": {"matchLabels": {"b": "c"}}}, "enforceNamespaceBoundary": true,
    "boundaryPrefixes": ["secret/data/", ""], "ceilings": [{"path": "secret/+/{{namespace}}/*", "capabilities": ["read", "scan"]}],
    "crossNamespaceRefs": "Granted", "jwtOverrides": "Deny", "adoption": "Deny", "rawHCL": "Allow", "externalNames": ["{{namespace}}-*"],
    "externalPolicies": ["*"], "vaultNamespaces": ["teams/{{namespace}}"], "kvPaths": ["secret/data/{{namespace}}/*"], "maxTokenTTL": "8h",
    "templates": [{"name": "t", "namespaceSelector": {}, "rules": [rule(&json!({}))], "serviceAccounts": ["default"], "tokenTTL": "1h", "tokenMaxTTL": "2h"}],
})))]
#[case::boundary_kept(POLICY, bounded("secret/data/{{namespace}}/*"))]
#[case::boundary_itself(POLICY, bounded("kv/{{namespace}}"))]
#[case::pure_deny(POLICY, json!({"enforceNamespaceBoundary": true, "rules": [{"path": "secret/*", "capabilities": ["deny"]}]}))]
#[case::whole_rule(POLICY, one_rule(&json!({
    "capabilities": ["create", "read", "update", "delete", "list", "sudo", "deny", "patch", "subscribe", "recover", "scan"],
    "description": "for ${all} and é", "parameters": {"required": ["v"]}, "allowedParameters": {"a_.*-": ["x", "5$", "$ {"], "*": []},
    "deniedParameters": {"b": ["$$"]}, "minWrappingTTL": "90", "maxWrappingTTL": "1h30m", "subscribeEventTypes": ["kv*"],
})))]
#[case::five_hundred_rules(POLICY, json!({"rules": vec![rule(&json!({})); 500]}))]
#[case::text(POLICY, json!({"rules": null, "rawHCL": "path \"a\" { capabilities = [\"read\"] }"}))]
#[case::external_policy(CLUSTER_POLICY, json!({"externalName": "legacy/app", "vaultNamespace": "teams/a/", "bindableFrom": {"names": ["b"]}}))]
#[case::own_namespace(ROLE, refs(json!({"kind": "VaultPolicy", "name": "app"})))]
#[case::other_namespace(ROLE, refs(json!({"kind": "VaultPolicy", "name": "app", "namespace": "b"})))]
#[case::external_reference(CLUSTER_ROLE, refs(json!({"kind": "External", "name": "legacy"})))]
#[case::named_namespace(CLUSTER_ROLE, refs(json!({"kind": "VaultPolicy", "name": "app", "namespace": "b"})))]
#[case::durations(ROLE, json!({"tokenTTL": "1h30m", "tokenMaxTTL": "1d", "tokenPeriod": "600", "tokenExplicitMaxTTL": "1.5h"}))]
#[case::subject(ROLE, json!({"serviceAccounts": null, "jwt": {"boundSubject": "s", "roleType": "jwt"}}))]
#[case::claims(ROLE, json!({"serviceAccounts": null, "jwt": {"boundClaims": {"a": "b"}, "boundClaimsList": {"c": ["d"]}, "boundClaimsType": "glob", "groupsClaim": "g"}}))]
#[case::token_fields(ROLE, json!({"audience": "a", "aliasNameSource": "serviceaccount_name", "tokenBoundCIDRs": ["10.0.0.0/8"], "tokenNumUses": 3, "tokenType": "service", "tokenNoDefaultPolicy": true}))]
#[case::batch(ROLE, json!({"tokenType": "batch"}))]
#[case::a_role_may_be_called_default(ROLE, json!({"externalName": "default"}))]
#[case::selected(CLUSTER_ROLE, json!({"serviceAccounts": null, "serviceAccountBinding": "Exact", "selectedServiceAccounts": {"names": ["a"], "namespaceSelector": {"matchLabels": {"x": "y"}}, "resolveBy": "Vault"}}))]
#[tokio::test]
async fn is_accepted(#[case] kind: &str, #[case] change: Value) -> Result<()> {
    let offer = spec(kind, &change);
    let stored = offered(kind, &offer).await?.expect("accepted");
    let mut completed = stored.clone();
    merge(&mut completed, &offer);
    assert_json_eq!(completed, stored); // what was given is there: no field is unknown
    Ok(())
}

#[rstest]
#[case::connection(CONNECTION, json!({"auth": {"token": null, "kubernetes": {"role": "r"}, "bootstrap": {"secretRef": secret()}}, "rateLimit": {}, "defaults": {}, "discovery": {}, "tenancy": {}}), json!({
    "healthCheckInterval": "30s", "rateLimit": {"burst": 200, "maxInFlight": 16}, "defaults": {"driftMode": "detect", "nameFormat": "Qualified"},
    "auth": {
        "kubernetes": {"authPath": "kubernetes", "tokenDuration": "1h", "renewalStrategy": "renew", "audience": "vault"},
        "bootstrap": {"autoRevoke": true, "cleanupAuthMount": false, "adoptMount": false},
    },
    "discovery": {"interval": "1h", "excludeSystemPolicies": true},
    "tenancy": {"enforceNamespaceBoundary": false, "crossNamespaceRefs": "Any", "jwtOverrides": "Allow", "adoption": "Allow", "rawHCL": "Deny"},
}))]
#[case::approle(CONNECTION, json!({"auth": {"token": null, "appRole": {"roleId": "r", "secretIdRef": secret()}}}), json!({"healthCheckInterval": "30s", "auth": {"appRole": {"mountPath": "approle"}}}))]
#[case::jwt(CONNECTION, json!({"auth": {"token": null, "jwt": {"role": "r"}}}), json!({"healthCheckInterval": "30s", "auth": {"jwt": {"authPath": "jwt", "audiences": ["vault"], "tokenDuration": "1h"}}}))]
#[case::oidc(CONNECTION, json!({"auth": {"token": null, "oidc": {"role": "r"}}}), json!({"healthCheckInterval": "30s", "auth": {"oidc": {"authPath": "oidc", "useServiceAccountToken": true, "tokenDuration": "1h"}}}))]
#[case::aws(CONNECTION, json!({"auth": {"token": null, "aws": {"role": "r"}}}), json!({"healthCheckInterval": "30s", "auth": {"aws": {"authPath": "aws", "authType": "iam"}}}))]
#[case::gcp(CONNECTION, json!({"auth": {"token": null, "gcp": {"role": "r"}}}), json!({"healthCheckInterval": "30s", "auth": {"gcp": {"authPath": "gcp", "authType": "iam"}}}))]
#[case::policy(POLICY, json!({}), json!({"conflictPolicy": "Fail", "deletionPolicy": "Delete", "enforceNamespaceBoundary": false}))]
#[case::cluster_policy(CLUSTER_POLICY, json!({}), json!({"conflictPolicy": "Fail", "deletionPolicy": "Delete"}))]
#[case::role(ROLE, json!({"jwt": {}}), json!({"conflictPolicy": "Fail", "deletionPolicy": "Delete", "jwt": {"userClaim": "sub", "boundClaimsType": "string"}}))]
#[case::cluster_role(CLUSTER_ROLE, json!({"selectedServiceAccounts": {"names": ["a"], "namespaceSelector": {}}}), json!({"conflictPolicy": "Fail", "deletionPolicy": "Delete", "selectedServiceAccounts": {"resolveBy": "Operator"}}))]
#[case::seed(SEED, json!({}), json!({"data": {}, "deletionPolicy": "Delete", "reseedDeleted": false}))]
#[tokio::test]
async fn gets_exactly_these_defaults(
    #[case] kind: &str,
    #[case] change: Value,
    #[case] defaults: Value,
) -> Result<()> {
    let offer = spec(kind, &change);
    let stored = offered(kind, &offer).await?.expect("accepted");
    let mut expected = offer;
    merge(&mut expected, &defaults);
    assert_json_eq!(stored, expected);
    Ok(())
}

const FIXED: &str = "can be neither added, changed nor removed";

#[rstest]
#[case::address(CONNECTION, json!({}), json!({"address": "https://other:8200"}), "the address cannot change; make another connection")]
#[case::name_added(POLICY, json!({}), json!({"externalName": "a"}), FIXED)]
#[case::name_changed(POLICY, json!({"externalName": "a"}), json!({"externalName": "b"}), FIXED)]
#[case::name_removed(CLUSTER_POLICY, json!({"externalName": "a"}), json!({"externalName": null}), FIXED)]
#[case::policy_moved(POLICY, json!({"vaultNamespace": "a"}), json!({"vaultNamespace": "b"}), FIXED)]
#[case::role_renamed(ROLE, json!({"externalName": "a"}), json!({"externalName": "b"}), FIXED)]
#[case::role_moved(CLUSTER_ROLE, json!({}), json!({"vaultNamespace": "b"}), FIXED)]
#[case::role_reconnected(ROLE, json!({}), json!({"connectionRef": "d"}), "connectionRef cannot change")]
#[case::cluster_role_reconnected(CLUSTER_ROLE, json!({}), json!({"connectionRef": "d"}), "connectionRef cannot change")]
#[case::seed_reconnected(SEED, json!({}), json!({"connectionRef": "d"}), "connectionRef cannot change")]
#[case::seed_moved(SEED, json!({}), json!({"path": "secret/data/b"}), "the path cannot change")]
#[tokio::test]
async fn cannot_be_edited(
    #[case] kind: &str,
    #[case] first: Value,
    #[case] edit: Value,
    #[case] words: &str,
) -> Result<()> {
    let api = api(&served().await?, kind);
    let mut named = object(kind, "x", &spec(kind, &first));
    named.metadata.name = None;
    named.metadata.generate_name = Some("edited-".into());
    let name = api.create(&PostParams::default(), &named).await?.name_any();
    let patch = Patch::Merge(json!({"spec": edit}));
    let answer = api.patch(&name, &PatchParams::default(), &patch).await;
    let message = answer.expect_err("the edit is refused").to_string();
    assert!(message.contains(words), "{message}");
    Ok(())
}

#[tokio::test]
async fn a_policy_may_change_its_connection() -> Result<()> {
    let api = api(&served().await?, POLICY);
    let moved = object(POLICY, "moved", &spec(POLICY, &json!({})));
    api.create(&PostParams::default(), &moved).await?;
    let patch = Patch::Merge(json!({"spec": {"connectionRef": "d"}}));
    api.patch("moved", &PatchParams::default(), &patch).await?;
    Ok(())
}

/// What vault-access-operator left in a cluster.
fn legacy_objects() -> Vec<Value> {
    let items = [CLUSTER_OBJECTS, TEAM_OBJECTS].map(|yaml| {
        let list: Value = serde_saphyr::from_str(yaml).expect("valid YAML");
        list["items"].as_array().expect("a list").clone()
    });
    items.concat()
}

#[tokio::test]
async fn legacy_objects_are_stored_whole_and_can_be_written_on() -> Result<()> {
    let client = served().await?;
    for legacy in legacy_objects() {
        let kind = legacy["kind"].as_str().expect("a kind");
        let name = legacy["metadata"]["name"].as_str().expect("a name");
        let api = api(&client, kind);
        api.create(&PostParams::default(), &object(kind, name, &legacy["spec"]))
            .await?;
        let status = Patch::Merge(json!({"status": legacy["status"]}));
        api.patch_status(name, &PatchParams::default(), &status)
            .await?;

        // As the first pass of a swap would: a finalizer goes, and nothing else changes.
        let mark = Patch::Merge(json!({"metadata": {"finalizers": [vault::names::FINALIZER]}}));
        api.patch(name, &PatchParams::default(), &mark).await?;
        let free = Patch::Merge(json!({"metadata": {"finalizers": []}}));
        let stored = api.patch(name, &PatchParams::default(), &free).await?;
        assert_json_eq!(stored.data["status"], legacy["status"]);
        let mut completed = stored.data["spec"].clone();
        merge(&mut completed, &legacy["spec"]);
        assert_json_eq!(stored.data["spec"], completed);
    }
    Ok(())
}

#[test]
fn legacy_objects_read_and_write_back_equal() {
    for legacy in legacy_objects() {
        match legacy["kind"].as_str().expect("a kind") {
            CONNECTION => reads_back::<VaultConnection>(&legacy),
            POLICY => reads_back::<VaultPolicy>(&legacy),
            CLUSTER_POLICY => reads_back::<VaultClusterPolicy>(&legacy),
            ROLE => reads_back::<VaultRole>(&legacy),
            CLUSTER_ROLE => reads_back::<VaultClusterRole>(&legacy),
            SEED => reads_back::<VaultKVSecret>(&legacy),
            other => panic!("no kind of ours: {other}"),
        }
    }
}

fn reads_back<K: DeserializeOwned + Serialize>(legacy: &Value) {
    let object: K = serde_json::from_value(legacy.clone()).expect("it is understood");
    assert_json_eq!(serde_json::to_value(object).expect("JSON"), legacy);
}

#[test]
fn no_field_accepts_null_has_a_list_type_or_an_unknown_format() {
    for crd in vault::crds() {
        let schema = serde_json::to_value(&crd.spec.versions[0].schema).expect("JSON");
        let fields = &schema["openAPIV3Schema"]["properties"];
        for part in ["spec", "status"] {
            let text = fields[part]["properties"].to_string();
            for word in ["nullable", "anyOf", "oneOf", "\"uint", "list-type"] {
                let kind = &crd.spec.names.kind;
                assert!(!text.contains(word), "{word} in the {part} of {kind}");
            }
        }
    }
}
