//! TenantPolicy: what the objects of namespaces may name.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, LabelSelector};
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::schema::{DOMAIN, DOMAIN_CHARS, is_default, never_null, rule};
use crate::stored::understood;

/// What the objects of namespaces may name.
///
/// As soon as the cluster has a policy, every object needs one that allows all it names.
#[derive(CustomResource, Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "cloudfront-tenant-operator.io",
    version = "v1alpha1",
    kind = "TenantPolicy",
    doc = "What the objects of namespaces may name: distributions, zones, roles, domains. With one or more in the cluster, each object needs a single policy that allows all it names.",
    plural = "tenantpolicies",
    shortname = "tp",
    category = "cloudfront",
    status = "TenantPolicyStatus",
    printcolumn = r#"{"name":"Namespaces","type":"string","jsonPath":".spec.namespaces"}"#,
    printcolumn = r#"{"name":"Ready","type":"string","jsonPath":".status.conditions[?(@.type==\"Ready\")].status"}"#,
    printcolumn = r#"{"name":"Age","type":"date","jsonPath":".metadata.creationTimestamp"}"#
)]
#[serde(rename_all = "camelCase")]
#[schemars(
    transform = never_null,
    extend("x-kubernetes-validations" = [rule(
        "has(self.namespaces) != has(self.namespaceSelector)",
        "set exactly one of namespaces and namespaceSelector"
    )])
)]
pub struct TenantPolicySpec {
    /// The namespaces it speaks for, by name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(min = 1, max = 1000), inner(length(min = 1, max = 63)))]
    pub namespaces: Vec<String>,
    /// Or by label.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace_selector: Option<LabelSelector>,
    /// The ids of distributions that may be used; `*`: any; unset: none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 1000), inner(length(min = 1, max = 128)))]
    pub distributions: Vec<String>,
    /// The ids of hosted zones in which records may be made; `*`: any; unset: none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = 1000),
        inner(regex(pattern = r"^(\*|(/hostedzone/)?[A-Z0-9]{1,32})$"))
    )]
    pub hosted_zones: Vec<String>,
    /// The IAM roles that may be assumed; unset: none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 1000))]
    pub roles: Vec<RoleGrant>,
    /// The DynamoDB tables that sources may read; `*`: any; unset: none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 1000), inner(length(min = 1, max = 1024)))]
    pub dynamodb_tables: Vec<String>,
    /// The ids of connection groups that may be used, `default` for the account's default group;
    /// unset: any.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 1000), inner(length(min = 1, max = 128)))]
    pub connection_groups: Option<Vec<String>>,
    /// The domains that tenants may have: `x.com` is itself alone, `*.x.com` everything below it;
    /// unset: any.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 1000), inner(length(max = DOMAIN_CHARS), regex(pattern = DOMAIN)))]
    pub domains: Option<Vec<String>>,
    /// Whether existing tenants and records may be taken over.
    #[serde(default, skip_serializing_if = "is_default")]
    #[schemars(extend("default" = false))]
    pub adoption: bool,
}

/// An IAM role that may be assumed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = never_null)]
pub struct RoleGrant {
    /// Its ARN; `*`: any.
    #[schemars(
        length(max = 2048),
        regex(pattern = r"^(\*|arn:aws[a-z-]*:iam::[0-9]{12}:role/[!-~]+)$")
    )]
    pub arn: String,
    /// The external id it asks for.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(
        length(min = 2, max = 1224),
        regex(pattern = r"^[a-zA-Z0-9_+=,.@:/-]+$")
    )]
    pub external_id: Option<String>,
}

/// What is known of a policy.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = never_null)]
pub struct TenantPolicyStatus {
    /// Standard conditions.
    #[serde(
        default,
        deserialize_with = "understood",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub conditions: Vec<Condition>,
}
