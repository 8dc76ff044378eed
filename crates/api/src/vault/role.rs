//! VaultRole and VaultClusterRole: who may log in to Vault, and with which policies.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::policy::not_ours;
use super::schema::{SINGLE_LINE, VISIBLE, fixed, never_null, rule};
use super::{ConflictPolicy, DeletionPolicy, DriftMode, Duration, RoleStatus};

const SAY_WHO: &str = "say who may log in: serviceAccounts, selectedServiceAccounts (cluster \
    roles), or a bound subject or claims";
const LISTED: &str = "(has(self.serviceAccounts) && self.serviceAccounts.size() > 0)";
const NAMED_BY_TOKEN: &str = "(has(self.jwt) \
    && ((has(self.jwt.boundSubject) && self.jwt.boundSubject != '') \
    || (has(self.jwt.boundClaims) && self.jwt.boundClaims.size() > 0) \
    || (has(self.jwt.boundClaimsList) && self.jwt.boundClaimsList.size() > 0)))";
const SUBJECT_OR_CLAIMS: &str = "!(has(self.boundSubject) && self.boundSubject != '' \
    && ((has(self.boundClaims) && self.boundClaims.size() > 0) \
    || (has(self.boundClaimsList) && self.boundClaimsList.size() > 0)))";
// CEL reserves the word `namespace`; the API server spells the field `__namespace__` in rules.
const ONLY_POLICIES_HAVE_NAMESPACES: &str =
    "self.kind == 'VaultPolicy' || !has(self.__namespace__) || self.__namespace__ == ''";
const CLUSTER_ROLES_NAME_NAMESPACES: &str = "self.policies.all(one, one.kind != 'VaultPolicy' \
    || (has(one.__namespace__) && one.__namespace__ != ''))";

/// What a namespace's role and a cluster's role say alike.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = never_null)]
pub struct RoleSpec {
    /// The connection it is written through.
    #[schemars(extend("x-kubernetes-validations" = [
        rule("self == oldSelf", "connectionRef cannot change; make another role")
    ]))]
    pub connection_ref: String,
    /// What happens when Vault already has an unmarked role of this name.
    #[serde(default)]
    pub conflict_policy: ConflictPolicy,
    /// Whether it goes from Vault with the object.
    #[serde(default)]
    pub deletion_policy: DeletionPolicy,
    /// What is done about changes that others made in Vault; unset: as the connection says.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub drift_mode: Option<DriftMode>,
    /// The policies that tokens get.
    #[schemars(length(min = 1, max = 256))]
    pub policies: Vec<PolicyReference>,
    /// How long tokens live.
    #[serde(rename = "tokenTTL", skip_serializing_if = "Option::is_none")]
    pub token_ttl: Option<Duration>,
    /// How long tokens live at most, renewals included.
    #[serde(rename = "tokenMaxTTL", skip_serializing_if = "Option::is_none")]
    pub token_max_ttl: Option<Duration>,
    /// What the JWT must say, where the mount checks JWTs itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub jwt: Option<JwtRole>,
    /// Its name in Vault, where it is not the one that follows from the object's.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(
        length(min = 1, max = 512),
        regex(pattern = SINGLE_LINE),
        extend("x-kubernetes-validations" = [not_ours()])
    )]
    pub external_name: Option<String>,
    /// The Vault namespace it is in: the connection's or one below.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 512), regex(pattern = VISIBLE))]
    pub vault_namespace: Option<String>,
    /// The audience the ServiceAccount's token must have.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub audience: Option<String>,
    /// What Vault calls who logs in; unset: by UID.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub alias_name_source: Option<AliasNameSource>,
    /// The networks from which tokens can be used; none: all.
    #[serde(
        rename = "tokenBoundCIDRs",
        default,
        skip_serializing_if = "Vec::is_empty"
    )]
    pub token_bound_cidrs: Vec<String>,
    /// The life that every renewal gives a token anew.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token_period: Option<Duration>,
    /// How long tokens live at most, periods included.
    #[serde(
        rename = "tokenExplicitMaxTTL",
        skip_serializing_if = "Option::is_none"
    )]
    pub token_explicit_max_ttl: Option<Duration>,
    /// How often a token can be used; 0: without limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<i32>", range(min = 0))]
    pub token_num_uses: Option<u32>,
    /// What kind of token.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token_type: Option<TokenType>,
    /// Whether tokens do without Vault's policy `default`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token_no_default_policy: Option<bool>,
}

/// Who of a namespace may log in to Vault, and with which policies.
#[derive(CustomResource, Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "vault.platform.io",
    version = "v1alpha1",
    kind = "VaultRole",
    doc = "Who of a namespace may log in to Vault, and with which policies.",
    plural = "vaultroles",
    shortname = "vr",
    namespaced,
    status = "RoleStatus",
    printcolumn = r#"{"name":"Vault Role","type":"string","jsonPath":".status.vaultRoleName"}"#,
    printcolumn = r#"{"name":"Phase","type":"string","jsonPath":".status.phase"}"#,
    printcolumn = r#"{"name":"Policies","type":"string","jsonPath":".status.resolvedPolicies"}"#,
    printcolumn = r#"{"name":"Age","type":"date","jsonPath":".metadata.creationTimestamp"}"#
)]
#[serde(rename_all = "camelCase")]
#[schemars(
    transform = never_null,
    extend("x-kubernetes-validations" = [
        rule(&format!("{LISTED} || {NAMED_BY_TOKEN}"), SAY_WHO),
        batch_tokens_are_short(),
        fixed("externalName"),
        fixed("vaultNamespace"),
    ])
)]
pub struct VaultRoleSpec {
    /// What every role says.
    #[serde(flatten)]
    pub role: RoleSpec,
    /// The ServiceAccounts of this namespace that may log in, by name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(inner(regex(pattern = "^[^/]+$")))]
    pub service_accounts: Vec<String>,
}

/// Who of the cluster may log in to Vault, and with which policies.
#[derive(CustomResource, Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "vault.platform.io",
    version = "v1alpha1",
    kind = "VaultClusterRole",
    doc = "Who of the cluster may log in to Vault, and with which policies.",
    plural = "vaultclusterroles",
    shortname = "vcr",
    status = "RoleStatus",
    printcolumn = r#"{"name":"Vault Role","type":"string","jsonPath":".status.vaultRoleName"}"#,
    printcolumn = r#"{"name":"Phase","type":"string","jsonPath":".status.phase"}"#,
    printcolumn = r#"{"name":"Policies","type":"string","jsonPath":".status.resolvedPolicies"}"#,
    printcolumn = r#"{"name":"Age","type":"date","jsonPath":".metadata.creationTimestamp"}"#
)]
#[serde(rename_all = "camelCase")]
#[schemars(
    transform = never_null,
    extend("x-kubernetes-validations" = [
        rule(
            &format!("{LISTED} || has(self.selectedServiceAccounts) || {NAMED_BY_TOKEN}"),
            SAY_WHO
        ),
        rule(
            CLUSTER_ROLES_NAME_NAMESPACES,
            "a cluster role's reference to a VaultPolicy needs its namespace"
        ),
        rule(
            &format!(
                "!(has(self.selectedServiceAccounts) \
                 && self.selectedServiceAccounts.resolveBy == 'Vault' && {LISTED})"
            ),
            "resolveBy: Vault allows no serviceAccounts beside the selected ones"
        ),
        batch_tokens_are_short(),
        fixed("externalName"),
        fixed("vaultNamespace"),
    ])
)]
pub struct VaultClusterRoleSpec {
    /// What every role says.
    #[serde(flatten)]
    pub role: RoleSpec,
    /// The ServiceAccounts that may log in.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub service_accounts: Vec<ServiceAccount>,
    /// ServiceAccounts that may log in, in namespaces chosen by label.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub selected_service_accounts: Option<SelectedServiceAccounts>,
    /// Whether exactly the listed pairs are admitted; unset: they are, but a role written earlier
    /// that admits more stays until somebody decides.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub service_account_binding: Option<ServiceAccountBinding>,
}

/// A policy that tokens get.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(
    transform = never_null,
    extend("x-kubernetes-validations" = [rule(
        ONLY_POLICIES_HAVE_NAMESPACES,
        "only a reference to a VaultPolicy has a namespace"
    )])
)]
pub struct PolicyReference {
    /// What it refers to.
    pub kind: PolicyKind,
    /// The object's name; of an External policy, its name in Vault.
    pub name: String,
    /// The VaultPolicy's namespace; unset: the role's own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
}

/// What a role can refer to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum PolicyKind {
    /// A policy that a namespace declares.
    VaultPolicy,
    /// A policy declared for the cluster.
    VaultClusterPolicy,
    /// A policy in Vault that no object declares.
    External,
}

/// One ServiceAccount.
#[derive(
    Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
pub struct ServiceAccount {
    /// Its name.
    pub name: String,
    /// Its namespace.
    pub namespace: String,
}

/// ServiceAccounts of the same names in every namespace that a selector picks.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SelectedServiceAccounts {
    /// Their names.
    #[schemars(length(min = 1, max = 256), inner(regex(pattern = "^[^/]+$")))]
    pub names: Vec<String>,
    /// Which namespaces.
    pub namespace_selector: LabelSelector,
    /// Who looks at the labels.
    #[serde(default)]
    pub resolve_by: ResolveBy,
}

/// Who looks at the labels of namespaces.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub enum ResolveBy {
    /// We do, and write the namespaces' names into the role.
    #[default]
    Operator,
    /// Vault does, at each login.
    Vault,
}

/// Whom a cluster role admits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ServiceAccountBinding {
    /// Exactly the listed pairs, by several roles in Vault if need be.
    Exact,
    /// Every listed name from every listed namespace, by one role in Vault.
    Product,
}

/// What the JWT must say.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(
    transform = never_null,
    extend("x-kubernetes-validations" = [
        rule(SUBJECT_OR_CLAIMS, "set boundSubject or bound claims, not both")
    ])
)]
pub struct JwtRole {
    /// The claim that names who logs in.
    #[serde(default = "sub")]
    pub user_claim: String,
    /// The audiences it may have; none: the connection's.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub bound_audiences: Vec<String>,
    /// The subject it must have.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bound_subject: Option<String>,
    /// The value that each claim must have.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub bound_claims: BTreeMap<String, String>,
    /// The values of which each claim must have one; wins over `boundClaims`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub bound_claims_list: BTreeMap<String, Vec<String>>,
    /// How values are compared.
    #[serde(default)]
    pub bound_claims_type: BoundClaimsType,
    /// What kind of role; there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub role_type: Option<RoleType>,
    /// The claim that lists groups.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub groups_claim: Option<String>,
}

/// How the values of claims are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum BoundClaimsType {
    /// As they are.
    #[default]
    String,
    /// As globs.
    Glob,
}

/// What kind of role a mount that checks JWTs has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum RoleType {
    /// For login with a JWT.
    Jwt,
}

/// What Vault calls a ServiceAccount that logs in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum AliasNameSource {
    /// By its UID: one made anew is somebody else.
    #[serde(rename = "serviceaccount_uid")]
    Uid,
    /// By its namespace and name.
    #[serde(rename = "serviceaccount_name")]
    Name,
}

/// What kind of token Vault gives out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum TokenType {
    /// As the mount is tuned.
    Default,
    /// Stored by Vault; can be renewed and revoked.
    Service,
    /// Not stored; cheap, and ends only by itself.
    Batch,
}

fn batch_tokens_are_short() -> Value {
    rule(
        "!has(self.tokenType) || self.tokenType != 'batch' \
         || (!has(self.tokenPeriod) && !has(self.tokenNumUses))",
        "batch tokens have neither tokenPeriod nor tokenNumUses",
    )
}

fn sub() -> String {
    "sub".into()
}
