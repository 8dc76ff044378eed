//! VaultConnection: a Vault, how to reach it, and what may be done through it.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::schema::{GLOB, VISIBLE, never_null, rule};
use super::status::lean;
use super::{Auth, DriftMode, Duration, Phase, SecretKey, SecretName, Tenancy};
use crate::stored::lenient;

const FAMILY_IS_TOLD: &str = "!has(self.authPath) || self.authPath == '' || has(self.authType) \
    || self.authPath.matches('^/?(auth/)?(kubernetes|jwt)([-_][^/]*)?(/.*)?$')";

/// A Vault, how to reach it, and what may be done through it.
#[derive(CustomResource, Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "vault.platform.io",
    version = "v1alpha1",
    kind = "VaultConnection",
    doc = "A Vault, how to reach it, and what may be done through it.",
    plural = "vaultconnections",
    status = "VaultConnectionStatus",
    printcolumn = r#"{"name":"Address","type":"string","jsonPath":".spec.address"}"#,
    printcolumn = r#"{"name":"Phase","type":"string","jsonPath":".status.phase"}"#,
    printcolumn = r#"{"name":"Healthy","type":"boolean","jsonPath":".status.healthy"}"#,
    printcolumn = r#"{"name":"Version","type":"string","jsonPath":".status.vaultVersion"}"#,
    printcolumn = r#"{"name":"Age","type":"date","jsonPath":".metadata.creationTimestamp"}"#
)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = never_null)]
pub struct VaultConnectionSpec {
    /// Where Vault listens.
    #[schemars(
        regex(pattern = "^https?://"),
        extend("x-kubernetes-validations" = [rule(
            "self == oldSelf",
            "the address cannot change; make another connection"
        )])
    )]
    pub address: String,
    /// The Vault namespace everything happens in.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 512), regex(pattern = VISIBLE))]
    pub vault_namespace: Option<String>,
    /// How the way there is secured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tls: Option<Tls>,
    /// How Pontoon logs in.
    pub auth: Auth,
    /// How often Vault's health is looked at; below 5s acts as 5s.
    #[serde(default = "thirty_seconds")]
    pub health_check_interval: Duration,
    /// How hard Vault may be pressed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate_limit: Option<RateLimit>,
    /// What objects that use the connection need not say themselves.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub defaults: Option<Defaults>,
    /// How policies and roles that nobody declared are found.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub discovery: Option<Discovery>,
    /// What namespaces may do through the connection; unset: everything that needs no grant.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tenancy: Option<Tenancy>,
}

/// How the way to Vault is secured.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = never_null)]
pub struct Tls {
    /// Whether Vault's certificate is taken as it comes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub skip_verify: Option<bool>,
    /// Where the certificates of Vault's authority are, as PEM.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ca_secret_ref: Option<SecretKey>,
    /// The Secret of type kubernetes.io/tls we show to Vault.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client_cert_secret_ref: Option<SecretName>,
    /// The name Vault's certificate is for, where it is not the address.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server_name: Option<String>,
}

/// How hard Vault may be pressed through one connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(transform = never_null)]
pub struct RateLimit {
    /// Requests a second, in the long run. Unset: from 100 up to 2,000 while Vault answers without
    /// 429, 5xx or growing latency, halved at the first sign of these.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<i32>", range(min = 1))]
    pub requests_per_second: Option<u32>,
    /// Requests at once after a pause.
    #[schemars(with = "i32", range(min = 1))]
    pub burst: u32,
    /// Requests without an answer at one time.
    #[schemars(with = "i32", range(min = 1))]
    pub max_in_flight: u32,
}

impl Default for RateLimit {
    fn default() -> Self {
        Self {
            requests_per_second: None,
            burst: 200,
            max_in_flight: 16,
        }
    }
}

/// What objects that use the connection need not say themselves.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(
    transform = never_null,
    extend("x-kubernetes-validations" = [rule(
        FAMILY_IS_TOLD,
        "authPath begins with neither kubernetes nor jwt, so it needs authType"
    )])
)]
pub struct Defaults {
    /// The mount roles are written to; unset: the login mount.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 512))]
    pub auth_path: Option<String>,
    /// What kind of mount that is, where its name does not tell.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub auth_type: Option<RoleFamily>,
    /// What is done about changes that others made in Vault.
    #[serde(default)]
    pub drift_mode: DriftMode,
    /// How names in Vault are derived from objects. Another format moves everything.
    #[serde(default)]
    pub name_format: NameFormat,
    /// How long an earlier name is kept after a move; unset: the longest max TTL of the roles that
    /// list it, at least 1h and at most 24h.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rename_grace: Option<Duration>,
}

/// How the name of a policy or a role in Vault is derived from its object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub enum NameFormat {
    /// `vao.<identity>.<namespace>.<name>`, with `_` as the namespace of cluster-wide objects. Two
    /// objects never share a name.
    #[default]
    Qualified,
    /// `<namespace>-<name>`, for cluster-wide objects `<name>`. Two objects can derive one name;
    /// the second one is a Conflict.
    NamespaceName,
}

/// The kinds of mount that roles can be written to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum RoleFamily {
    /// Vault asks the cluster whose token it is.
    Kubernetes,
    /// Vault checks the token's signature and claims itself.
    Jwt,
}

/// How policies and roles that nobody declared are found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(
    transform = never_null,
    extend("x-kubernetes-validations" = [rule(
        "!has(self.autoCreateCRs) || !self.autoCreateCRs \
         || (has(self.targetNamespace) && self.targetNamespace != '')",
        "autoCreateCRs needs targetNamespace"
    )])
)]
pub struct Discovery {
    /// Whether they are looked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub enabled: Option<bool>,
    /// How often; below 5m acts as 5m.
    #[serde(default = "one_hour")]
    pub interval: Duration,
    /// Globs of policy names; none: all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(inner(regex(pattern = GLOB)))]
    pub policy_patterns: Vec<String>,
    /// Globs of role names; none: all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(inner(regex(pattern = GLOB)))]
    pub role_patterns: Vec<String>,
    /// Whether Vault's own policies are left out.
    #[serde(default = "yes")]
    pub exclude_system_policies: bool,
    /// Further policies that count as Vault's own.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub custom_system_policies: Vec<String>,
    /// Whether objects are made for what is found.
    #[serde(rename = "autoCreateCRs", skip_serializing_if = "Option::is_none")]
    pub auto_create_crs: Option<bool>,
    /// Where they are made.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target_namespace: Option<String>,
}

/// What is known of a Vault.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = never_null)]
pub struct VaultConnectionStatus {
    /// Where the connection stands.
    #[serde(
        default,
        deserialize_with = "lenient",
        skip_serializing_if = "Option::is_none"
    )]
    pub phase: Option<Phase>,
    /// Whether Vault can be used.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub healthy: Option<bool>,
    /// Vault's version.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vault_version: Option<String>,
    /// What there is to say.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Standard conditions.
    #[serde(default, with = "lean", skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Vec<lean::Lean>")]
    pub conditions: Vec<Condition>,
    /// The pass that wrote this status.
    #[serde(rename = "lastReconcileID", skip_serializing_if = "Option::is_none")]
    pub last_reconcile_id: Option<String>,
    /// When Vault last answered us.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_heartbeat: Option<Time>,
    /// When Vault's health was last looked at.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_health_check: Option<Time>,
    /// When Vault was last found healthy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_healthy_time: Option<Time>,
    /// What was wrong when it was not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub health_check_error: Option<String>,
    /// How many looks in a row found it unhealthy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub consecutive_fails: Option<i64>,
    /// How we are logged in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub auth_status: Option<AuthStatus>,
    /// What the last scan found.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub discovery_status: Option<DiscoveryStatus>,
}

/// How we are logged in.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = never_null)]
pub struct AuthStatus {
    /// Whether bootstrap is done.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bootstrap_complete: Option<bool>,
    /// When it was.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bootstrap_completed_at: Option<Time>,
    /// The steps of bootstrap that were done, by name. Of a value only its presence counts.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("additionalProperties" = {"x-kubernetes-preserve-unknown-fields": true}))]
    pub bootstrap_steps: BTreeMap<String, Value>,
    /// The method.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub auth_method: Option<String>,
    /// When our token ends.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token_expiration: Option<Time>,
    /// What names our token without being it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token_accessor: Option<String>,
    /// When our token was last renewed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token_last_renewed: Option<Time>,
    /// How often it was.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token_renewal_count: Option<i64>,
    /// When the mount's reviewer token ends.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token_reviewer_expiration: Option<Time>,
    /// When it was last replaced.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token_reviewer_last_refresh: Option<Time>,
}

/// What the last scan found.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = never_null)]
pub struct DiscoveryStatus {
    /// When it was.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_scan_at: Option<Time>,
    /// How many policies nobody declared.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unmanaged_policies: Option<i64>,
    /// How many roles nobody declared.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unmanaged_roles: Option<i64>,
    /// The first 500 of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub discovered_resources: Vec<DiscoveredResource>,
}

/// A policy or role that nobody declared.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(transform = never_null)]
pub struct DiscoveredResource {
    /// What it is.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// Its name in Vault.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// When it was first seen.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub discovered_at: Option<Time>,
    /// A name for an object that would declare it.
    #[serde(rename = "suggestedCRName", skip_serializing_if = "Option::is_none")]
    pub suggested_cr_name: Option<String>,
    /// Whether such an object exists.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub adoption_status: Option<String>,
}

fn yes() -> bool {
    true
}

fn thirty_seconds() -> Duration {
    Duration::from_secs(30)
}

fn one_hour() -> Duration {
    Duration::from_secs(3600)
}
