//! VaultPolicy and VaultClusterPolicy: what holders of a token may do.

use std::collections::BTreeMap;

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::schema::{
    LITERAL, PATH, SINGLE_LINE, VISIBLE, fixed, lists_of_literals, never_null, path_rules, rule,
};
use super::{
    Capability, ConflictPolicy, DeletionPolicy, DriftMode, Duration, NamespaceChoice, SyncStatus,
};

const ONE_TEXT: &str = "has(self.rules) != has(self.rawHCL)";
const WITHIN_BOUNDARY: &str = r"!self.enforceNamespaceBoundary || !has(self.rules) ||
    self.rules.all(rule, rule.capabilities.all(one, one == 'deny') ||
    rule.path.matches('^([a-zA-Z0-9_.-]+/)*\\{\\{namespace\\}\\}(/.*)?$'))";
const ONE_FORM: &str = "!(has(self.parameters) \
    && (has(self.parameters.allowed) || has(self.parameters.denied)) \
    && (has(self.allowedParameters) || has(self.deniedParameters)))";

/// What a namespace's policy and a cluster's policy say alike.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = never_null)]
pub struct PolicySpec {
    /// The connection it is written through.
    pub connection_ref: String,
    /// What happens when Vault already has an unmarked policy of this name.
    #[serde(default)]
    pub conflict_policy: ConflictPolicy,
    /// Whether it goes from Vault with the object.
    #[serde(default)]
    pub deletion_policy: DeletionPolicy,
    /// What is done about changes that others made in Vault; unset: as the connection says.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub drift_mode: Option<DriftMode>,
    /// What it grants.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(min = 1, max = 500))]
    pub rules: Vec<PolicyRule>,
    /// Or its text in Vault's policy language. In a namespace the connection has to allow it.
    #[serde(rename = "rawHCL", skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 65536))]
    pub raw_hcl: Option<String>,
    /// Its name in Vault, where it is not the one that follows from the object's.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(
        length(min = 1, max = 512),
        regex(pattern = SINGLE_LINE),
        extend("x-kubernetes-validations" = [not_ours(), not_vaults()])
    )]
    pub external_name: Option<String>,
    /// The Vault namespace it is in: the connection's or one below.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 512), regex(pattern = VISIBLE))]
    pub vault_namespace: Option<String>,
    /// The namespaces whose roles may bind it, where the connection asks for such a grant.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bindable_from: Option<NamespaceChoice>,
}

/// What holders of a token may do, declared by a namespace.
#[derive(CustomResource, Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "vault.platform.io",
    version = "v1alpha1",
    kind = "VaultPolicy",
    doc = "What holders of a token may do in Vault, declared by a namespace.",
    plural = "vaultpolicies",
    shortname = "vp",
    namespaced,
    status = "PolicyStatus",
    printcolumn = r#"{"name":"Vault Name","type":"string","jsonPath":".status.vaultName"}"#,
    printcolumn = r#"{"name":"Phase","type":"string","jsonPath":".status.phase"}"#,
    printcolumn = r#"{"name":"Rules","type":"integer","jsonPath":".status.rulesCount"}"#,
    printcolumn = r#"{"name":"Age","type":"date","jsonPath":".metadata.creationTimestamp"}"#
)]
#[serde(rename_all = "camelCase")]
#[schemars(
    transform = never_null,
    extend("x-kubernetes-validations" = [
        rule(ONE_TEXT, "set exactly one of rules and rawHCL"),
        rule(
            WITHIN_BOUNDARY,
            "{{namespace}} must be a whole segment after literal segments only"
        ),
        fixed("externalName"),
        fixed("vaultNamespace"),
    ])
)]
pub struct VaultPolicySpec {
    /// What every policy says.
    #[serde(flatten)]
    pub policy: PolicySpec,
    /// Whether every path must name the namespace as a whole segment.
    #[serde(default)]
    pub enforce_namespace_boundary: bool,
}

/// What holders of a token may do, declared for the cluster.
#[derive(CustomResource, Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "vault.platform.io",
    version = "v1alpha1",
    kind = "VaultClusterPolicy",
    doc = "What holders of a token may do in Vault, declared for the cluster.",
    plural = "vaultclusterpolicies",
    shortname = "vcp",
    status = "PolicyStatus",
    printcolumn = r#"{"name":"Vault Name","type":"string","jsonPath":".status.vaultName"}"#,
    printcolumn = r#"{"name":"Phase","type":"string","jsonPath":".status.phase"}"#,
    printcolumn = r#"{"name":"Rules","type":"integer","jsonPath":".status.rulesCount"}"#,
    printcolumn = r#"{"name":"Age","type":"date","jsonPath":".metadata.creationTimestamp"}"#
)]
#[schemars(
    transform = never_null,
    extend("x-kubernetes-validations" = [
        rule(ONE_TEXT, "set exactly one of rules and rawHCL"),
        fixed("externalName"),
        fixed("vaultNamespace"),
    ])
)]
pub struct VaultClusterPolicySpec {
    /// What every policy says.
    #[serde(flatten)]
    pub policy: PolicySpec,
}

/// What a policy grants at one path.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(
    transform = never_null,
    extend("x-kubernetes-validations" = [rule(
        ONE_FORM,
        "give parameters as lists (parameters) or as maps (allowedParameters, deniedParameters)"
    )])
)]
pub struct PolicyRule {
    /// The path; `{{namespace}}` and `{{name}}` stand for the object's.
    #[schemars(
        length(min = 1, max = 512),
        regex(pattern = PATH),
        extend("x-kubernetes-validations" = path_rules())
    )]
    pub path: String,
    /// What may be done there.
    #[schemars(length(min = 1, max = 11))]
    pub capabilities: Vec<Capability>,
    /// What it is for; not sent to Vault.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 256), regex(pattern = SINGLE_LINE))]
    pub description: Option<String>,
    /// Values that every parameter may or may not have, and parameters that must be there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parameters: Option<Parameters>,
    /// The values that each parameter may have; none: any.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(
        extend(
            "maxProperties" = 32,
            "additionalProperties" = lists_of_literals(),
            "x-kubernetes-validations" = [parameter_names()]
        )
    )]
    pub allowed_parameters: BTreeMap<String, Vec<String>>,
    /// The values that each parameter may not have; none: any.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend(
        "maxProperties" = 32,
        "additionalProperties" = lists_of_literals(),
        "x-kubernetes-validations" = [parameter_names()]
    ))]
    pub denied_parameters: BTreeMap<String, Vec<String>>,
    /// The shortest life of a wrapped answer.
    #[serde(rename = "minWrappingTTL", skip_serializing_if = "Option::is_none")]
    pub min_wrapping_ttl: Option<Duration>,
    /// The longest life of a wrapped answer.
    #[serde(rename = "maxWrappingTTL", skip_serializing_if = "Option::is_none")]
    pub max_wrapping_ttl: Option<Duration>,
    /// The events that `subscribe` is for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(inner(regex(pattern = LITERAL)))]
    pub subscribe_event_types: Vec<String>,
}

/// Values that every parameter may or may not have, and parameters that must be there.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct Parameters {
    /// Values that may be given.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(inner(regex(pattern = LITERAL)))]
    pub allowed: Vec<String>,
    /// Values that may not be given.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(inner(regex(pattern = LITERAL)))]
    pub denied: Vec<String>,
    /// Parameters that must be given.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(inner(regex(pattern = LITERAL)))]
    pub required: Vec<String>,
}

/// What is known of a policy.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = never_null)]
pub struct PolicyStatus {
    /// What every kind says.
    #[serde(flatten)]
    pub sync: SyncStatus,
    /// Its name in Vault.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vault_name: Option<String>,
    /// How many rules it has.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rules_count: Option<i64>,
    /// The roles that bind it, `VaultRole/ns/name` or `VaultClusterRole/name`, sorted, at most
    /// 200.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub used_by_roles: Vec<String>,
}

/// No `externalName` begins as the names do that follow from objects.
pub(super) fn not_ours() -> Value {
    rule(
        "!self.lowerAscii().startsWith('vao.')",
        "names that begin with 'vao.' are given by the operator; leave externalName out",
    )
}

fn not_vaults() -> Value {
    let names = super::names::SYSTEM_POLICIES.map(|name| format!("'{name}'"));
    rule(
        &format!("!(self.lowerAscii() in [{}])", names.join(", ")),
        "this is one of Vault's own policies",
    )
}

fn parameter_names() -> Value {
    rule(
        "self.all(name, name.matches('^[A-Za-z0-9_.*-]+$'))",
        "names of parameters consist of letters, digits and _ . * -",
    )
}
