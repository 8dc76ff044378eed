//! ConnectionGroup: an entrance of CloudFront that tenants share.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::schema::{AWS_NAME, TAGS, distinct_keys, is_default, never_null, unchanging, yes};
use super::{DeletionPolicy, DriftPolicy, DriftedField, GroupBody, Tag};
use crate::stored::{lenient, understood};

/// An entrance of CloudFront that tenants share.
#[derive(CustomResource, Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "cloudfront-tenant-operator.io",
    version = "v1alpha1",
    kind = "ConnectionGroup",
    doc = "An entrance of CloudFront that tenants share: the name their DNS records point to.",
    plural = "connectiongroups",
    shortname = "cg",
    category = "cloudfront",
    status = "ConnectionGroupStatus",
    printcolumn = r#"{"name":"State","type":"string","jsonPath":".status.state"}"#,
    printcolumn = r#"{"name":"Ready","type":"string","jsonPath":".status.conditions[?(@.type==\"Ready\")].status"}"#,
    printcolumn = r#"{"name":"Synced","type":"string","jsonPath":".status.conditions[?(@.type==\"Synced\")].status"}"#,
    printcolumn = r#"{"name":"Endpoint","type":"string","jsonPath":".status.routingEndpoint"}"#,
    printcolumn = r#"{"name":"Tenants","type":"integer","jsonPath":".status.tenants"}"#,
    printcolumn = r#"{"name":"Age","type":"date","jsonPath":".metadata.creationTimestamp"}"#,
    printcolumn = r#"{"name":"ID","type":"string","priority":1,"jsonPath":".status.id"}"#,
    printcolumn = r#"{"name":"Default","type":"boolean","priority":1,"jsonPath":".status.isDefault"}"#
)]
#[serde(rename_all = "camelCase")]
#[schemars(
    transform = never_null,
    extend("x-kubernetes-validations" = [unchanging("groupName", "groupName is immutable")])
)]
pub struct ConnectionGroupSpec {
    /// Its name in CloudFront; unset: the object's.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 3, max = 128), regex(pattern = AWS_NAME))]
    pub group_name: Option<String>,
    /// Whether it has IPv6 addresses.
    #[serde(default = "yes")]
    pub ipv6_enabled: bool,
    /// Whether it lets requests through.
    #[serde(default = "yes")]
    pub enabled: bool,
    /// The list of static addresses it uses.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub anycast_ip_list_id: Option<String>,
    /// Tags in AWS. Others that are there already stay.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = TAGS),
        extend("x-kubernetes-validations" = [distinct_keys()])
    )]
    pub tags: Vec<Tag>,
    /// What is done about changes that others made in AWS; unset: as the operator's flag says.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub drift_policy: Option<DriftPolicy>,
    /// Whether it goes from AWS with the object.
    #[serde(default, skip_serializing_if = "is_default")]
    #[schemars(extend("default" = "Delete"))]
    pub deletion_policy: DeletionPolicy,
    /// An existing group that is taken over instead of making one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub adoption: Option<GroupAdoption>,
}

/// An existing group that the object takes over instead of making one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct GroupAdoption {
    /// How it is found.
    pub by: GroupAdoptBy,
}

/// How the group to take over is found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum GroupAdoptBy {
    /// It has this group's name.
    Name,
}

/// What is known of a group.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = never_null)]
pub struct ConnectionGroupStatus {
    /// The last generation of the spec that CloudFront accepted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Its id in CloudFront.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// Its ARN.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub arn: Option<String>,
    /// Its version in CloudFront.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub e_tag: Option<String>,
    /// The name that DNS records of its tenants point to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub routing_endpoint: Option<String>,
    /// How far its deployment is: InProgress or Deployed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<String>,
    /// Whether it is the account's default group.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub is_default: Option<bool>,
    /// How many DistributionTenants refer to it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tenants: Option<i64>,
    /// When CloudFront was first about to be asked for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub create_requested_at: Option<Time>,
    /// What CloudFront last accepted from us.
    #[serde(
        default,
        deserialize_with = "lenient",
        skip_serializing_if = "Option::is_none"
    )]
    pub last_applied: Option<GroupBody>,
    /// What others changed, at most 20 fields.
    #[serde(
        default,
        deserialize_with = "understood",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub drift: Vec<DriftedField>,
    /// Standard conditions.
    #[serde(
        default,
        deserialize_with = "understood",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub conditions: Vec<Condition>,
}
