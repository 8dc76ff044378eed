//! How Pontoon logs in to Vault.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::schema::{VISIBLE, never_null, rule};
use super::{Duration, SecretKey};

/// The audience of tokens made for Vault.
const AUDIENCE: &str = "vault";

const ONE_METHOD: &str = "[has(self.kubernetes), has(self.token), has(self.appRole), \
    has(self.jwt), has(self.oidc), has(self.aws), has(self.gcp)].filter(given, given).size() == 1 \
    && (!has(self.bootstrap) || has(self.kubernetes))";

/// How Pontoon logs in: exactly one method, and `bootstrap` only beside `kubernetes`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(
    transform = never_null,
    extend("x-kubernetes-validations" = [
        rule(ONE_METHOD, "set exactly one auth method (bootstrap only beside kubernetes)")
    ])
)]
pub struct Auth {
    /// Prepares an empty Vault for `kubernetes` login, once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bootstrap: Option<Bootstrap>,
    /// As our ServiceAccount, checked by this cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kubernetes: Option<KubernetesAuth>,
    /// With a token from a Secret.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token: Option<TokenAuth>,
    /// With an AppRole.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub app_role: Option<AppRoleAuth>,
    /// With a JWT.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub jwt: Option<JwtAuth>,
    /// With a JWT at a mount configured for an OIDC provider.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub oidc: Option<OidcAuth>,
    /// As an AWS principal.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub aws: Option<AwsAuth>,
    /// As a Google Cloud service account.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gcp: Option<GcpAuth>,
    /// The Vault namespace of the login mount; unset: the connection's.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 512), regex(pattern = VISIBLE))]
    pub vault_namespace: Option<String>,
}

/// How an empty Vault gets the mount, policy and role that later logins need.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = never_null)]
pub struct Bootstrap {
    /// The token it is done with.
    pub secret_ref: SecretKey,
    /// Whether that token is revoked once a login has worked.
    #[serde(default = "yes")]
    pub auto_revoke: bool,
    /// Whether the mount is disabled with the connection, if we enabled it and all on it is ours.
    #[serde(default)]
    pub cleanup_auth_mount: bool,
    /// Whether a mount that serves another cluster is taken over.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = false))]
    pub adopt_mount: Option<bool>,
}

/// Login as our ServiceAccount, checked by this cluster.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = never_null)]
pub struct KubernetesAuth {
    /// The role in Vault to log in as.
    pub role: String,
    /// The mount.
    #[serde(default = "kubernetes_mount")]
    pub auth_path: String,
    /// The API server's address as Vault sees it, for bootstrap.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kubernetes_host: Option<String>,
    /// How long the ServiceAccount's token lives; below 10m acts as 10m.
    #[serde(default = "one_hour")]
    pub token_duration: Duration,
    /// Whether the mount's reviewer token is kept fresh; unset: only on a mount we enabled.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token_reviewer_rotation: Option<bool>,
    /// What happens when Vault's token runs out.
    #[serde(default)]
    pub renewal_strategy: RenewalStrategy,
    /// The audience of the ServiceAccount's token.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = AUDIENCE))]
    pub audience: Option<String>,
}

impl KubernetesAuth {
    /// The audience of the ServiceAccount's token, its default included.
    pub fn audience(&self) -> &str {
        self.audience.as_deref().unwrap_or(AUDIENCE)
    }
}

/// What happens when Vault's token runs out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum RenewalStrategy {
    /// It is renewed, for as long as Vault lets it.
    #[default]
    Renew,
    /// A new login replaces it.
    Reauth,
}

/// Login with a token that somebody else looks after.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TokenAuth {
    /// Where the token is.
    pub secret_ref: SecretKey,
}

/// Login with an AppRole.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AppRoleAuth {
    /// The role's ID.
    pub role_id: String,
    /// Where the secret ID is.
    pub secret_id_ref: SecretKey,
    /// The mount.
    #[serde(default = "approle_mount")]
    pub mount_path: String,
}

/// Login with a JWT.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = never_null)]
pub struct JwtAuth {
    /// The role in Vault to log in as.
    pub role: String,
    /// The mount.
    #[serde(default = "jwt_mount")]
    pub auth_path: String,
    /// Where the JWT is; unset: one made for our ServiceAccount.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub jwt_secret_ref: Option<SecretKey>,
    /// The audiences of the JWT made for our ServiceAccount.
    #[serde(default = "vault_audiences")]
    pub audiences: Vec<String>,
    /// How long that JWT lives; below 10m acts as 10m.
    #[serde(default = "one_hour")]
    pub token_duration: Duration,
    /// Who must have issued the JWT; checked before it is sent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expected_issuer: Option<String>,
    /// An audience the JWT must have; checked before it is sent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expected_audience: Option<String>,
    /// Accepted and not used: the role in Vault decides.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user_claim: Option<String>,
    /// Accepted and not used: the role in Vault decides.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub groups_claim: Option<String>,
    /// Accepted and not used: the role in Vault decides.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub claims_to_pass: Vec<String>,
}

/// Login with a JWT at a mount configured for an OIDC provider.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(
    transform = never_null,
    extend("x-kubernetes-validations" = [rule(
        "self.useServiceAccountToken || has(self.jwtSecretRef)",
        "useServiceAccountToken: false needs jwtSecretRef"
    )])
)]
pub struct OidcAuth {
    /// The role in Vault to log in as.
    pub role: String,
    /// The mount.
    #[serde(default = "oidc_mount")]
    pub auth_path: String,
    /// The provider's address.
    #[serde(rename = "providerURL", skip_serializing_if = "Option::is_none")]
    pub provider_url: Option<String>,
    /// Whether the JWT is one made for our ServiceAccount.
    #[serde(default = "yes")]
    pub use_service_account_token: bool,
    /// The audiences of that JWT; unset: the provider's address, else `vault`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub audiences: Vec<String>,
    /// How long that JWT lives; below 10m acts as 10m.
    #[serde(default = "one_hour")]
    pub token_duration: Duration,
    /// Where the JWT is, if it is not our ServiceAccount's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub jwt_secret_ref: Option<SecretKey>,
    /// Accepted and not used: the role in Vault decides.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user_claim: Option<String>,
    /// Accepted and not used: the role in Vault decides.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub groups_claim: Option<String>,
    /// Accepted and not used: the role in Vault decides.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub scopes: Vec<String>,
}

impl OidcAuth {
    /// The audiences of our ServiceAccount's JWT, their default included.
    pub fn audiences(&self) -> Vec<String> {
        if !self.audiences.is_empty() {
            return self.audiences.clone();
        }
        vec![self.provider_url.clone().unwrap_or(AUDIENCE.into())]
    }
}

/// Login as an AWS principal, by web identity or the default chain of credentials.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(
    transform = never_null,
    extend("x-kubernetes-validations" = [
        rule("self.authType != 'ec2'", "ec2 login is not supported")
    ])
)]
pub struct AwsAuth {
    /// The role in Vault to log in as.
    pub role: String,
    /// The mount.
    #[serde(default = "aws_mount")]
    pub auth_path: String,
    /// What proves who we are.
    #[serde(default)]
    pub auth_type: AwsAuthType,
    /// The region of STS.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub region: Option<String>,
    /// The address of STS, where it is not AWS's own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sts_endpoint: Option<String>,
    /// What the mount expects in the header X-Vault-AWS-IAM-Server-ID.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub iam_server_id_header_value: Option<String>,
}

/// What proves an AWS principal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum AwsAuthType {
    /// A signed call to STS.
    #[default]
    Iam,
    /// An instance's identity document. Stored objects may say so; new ones are refused.
    Ec2,
}

/// Login as a Google Cloud service account.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = never_null)]
pub struct GcpAuth {
    /// The role in Vault to log in as.
    pub role: String,
    /// The mount.
    #[serde(default = "gcp_mount")]
    pub auth_path: String,
    /// What proves who we are.
    #[serde(default)]
    pub auth_type: GcpAuthType,
    /// The service account.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub service_account_email: Option<String>,
    /// Where its key is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub credentials_secret_ref: Option<SecretKey>,
}

/// What proves a Google Cloud service account.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum GcpAuthType {
    /// A JWT signed with its key.
    #[default]
    Iam,
    /// An instance's identity token.
    Gce,
}

fn yes() -> bool {
    true
}

fn one_hour() -> Duration {
    Duration::from_secs(3600)
}

fn vault_audiences() -> Vec<String> {
    vec![AUDIENCE.into()]
}

fn kubernetes_mount() -> String {
    "kubernetes".into()
}

fn approle_mount() -> String {
    "approle".into()
}

fn jwt_mount() -> String {
    "jwt".into()
}

fn oidc_mount() -> String {
    "oidc".into()
}

fn aws_mount() -> String {
    "aws".into()
}

fn gcp_mount() -> String {
    "gcp".into()
}
