//! What namespaces may do through a connection.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::schema::{GLOB, PATH, never_null, path_rules};
use super::{Capability, Duration, NamespaceChoice, PolicyRule};

/// What objects in namespaces may do through a connection. Cluster-wide kinds are not guarded.
///
/// `{{namespace}}` in ceilings, KV paths and globs stands for the object's namespace.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = never_null)]
pub struct Tenancy {
    /// Who may use the connection; unset: every namespace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allowed_namespaces: Option<NamespaceChoice>,
    /// Whether every policy keeps to its namespace, whatever it says itself.
    #[serde(default)]
    pub enforce_namespace_boundary: bool,
    /// The literal texts that may stand before `{{namespace}}`; unset: any that does not begin
    /// with `sys/`, `auth/`, `identity/` or `cubbyhole/`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(
        length(max = 64),
        inner(length(max = 512), regex(pattern = "^([a-zA-Z0-9_.-]+/)*$"))
    )]
    pub boundary_prefixes: Option<Vec<String>>,
    /// The most that policies may grant; unset: anything.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 256))]
    pub ceilings: Option<Vec<Ceiling>>,
    /// Which policies outside its namespace a role may bind.
    #[serde(default)]
    pub cross_namespace_refs: CrossNamespaceRefs,
    /// Whether a role may name subjects or claims instead of ServiceAccounts.
    #[serde(default = "allow")]
    pub jwt_overrides: Permission,
    /// Whether what is in Vault may be taken over.
    #[serde(default = "allow")]
    pub adoption: Permission,
    /// Whether policies may be given as text.
    #[serde(rename = "rawHCL", default = "deny")]
    pub raw_hcl: Permission,
    /// Globs of the `externalName`s that may be used; none: none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 256), inner(length(max = 512), regex(pattern = GLOB)))]
    pub external_names: Vec<String>,
    /// Globs of the External policies that roles may bind; none: none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 256), inner(length(max = 512), regex(pattern = GLOB)))]
    pub external_policies: Vec<String>,
    /// Globs of the `vaultNamespace`s that may be used; none: none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 256), inner(length(max = 512), regex(pattern = GLOB)))]
    pub vault_namespaces: Vec<String>,
    /// The paths that may be seeded, matched like ceilings; unset: any.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 256), extend("items" = a_path()))]
    pub kv_paths: Option<Vec<String>>,
    /// The longest TTL, max TTL and period of tokens; an unset max TTL becomes it.
    #[serde(rename = "maxTokenTTL", skip_serializing_if = "Option::is_none")]
    pub max_token_ttl: Option<Duration>,
    /// What every matching namespace is given.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32))]
    pub templates: Vec<Template>,
}

/// The most that policies may grant at a path.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Ceiling {
    /// The path, in Vault's policy language.
    #[schemars(
        length(min = 1, max = 512),
        regex(pattern = PATH),
        extend("x-kubernetes-validations" = path_rules())
    )]
    pub path: String,
    /// The capabilities.
    #[schemars(length(min = 1, max = 11))]
    pub capabilities: Vec<Capability>,
}

/// Which policies outside its namespace a role may bind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub enum CrossNamespaceRefs {
    /// Any.
    #[default]
    Any,
    /// Those that name the role's namespace in `bindableFrom`.
    Granted,
}

/// Whether something may be done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Permission {
    /// It may.
    Allow,
    /// It may not.
    Deny,
}

/// A policy and a role that every matching namespace is given.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = never_null)]
pub struct Template {
    /// The name of both.
    #[schemars(length(max = 63), regex(pattern = "^[a-z0-9]([a-z0-9-]*[a-z0-9])?$"))]
    pub name: String,
    /// Which namespaces.
    pub namespace_selector: LabelSelector,
    /// What the policy grants.
    #[schemars(length(min = 1, max = 64))]
    pub rules: Vec<PolicyRule>,
    /// Who may log in.
    #[schemars(length(min = 1, max = 64), inner(regex(pattern = "^[^/]+$")))]
    pub service_accounts: Vec<String>,
    /// How long tokens live.
    #[serde(rename = "tokenTTL", skip_serializing_if = "Option::is_none")]
    pub token_ttl: Option<Duration>,
    /// How long tokens live at most.
    #[serde(rename = "tokenMaxTTL", skip_serializing_if = "Option::is_none")]
    pub token_max_ttl: Option<Duration>,
}

fn a_path() -> Value {
    json!({
        "type": "string",
        "maxLength": 512,
        "pattern": PATH,
        "x-kubernetes-validations": path_rules(),
    })
}

fn allow() -> Permission {
    Permission::Allow
}

fn deny() -> Permission {
    Permission::Deny
}
