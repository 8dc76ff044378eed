//! Invalidation: paths of a tenant that CloudFront is to forget.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::ObjectName;
use super::schema::{never_null, rule};
use crate::stored::{lenient, understood};

/// Paths of a tenant that CloudFront is to forget, once.
#[derive(CustomResource, Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "cloudfront-tenant-operator.io",
    version = "v1alpha1",
    kind = "Invalidation",
    doc = "Paths of a tenant that CloudFront is to forget, once.",
    plural = "invalidations",
    shortname = "inv",
    category = "cloudfront",
    namespaced,
    status = "InvalidationStatus",
    printcolumn = r#"{"name":"Tenant","type":"string","jsonPath":".spec.tenantRef.name"}"#,
    printcolumn = r#"{"name":"Phase","type":"string","jsonPath":".status.phase"}"#,
    printcolumn = r#"{"name":"Age","type":"date","jsonPath":".metadata.creationTimestamp"}"#,
    printcolumn = r#"{"name":"ID","type":"string","priority":1,"jsonPath":".status.id"}"#
)]
#[serde(rename_all = "camelCase")]
#[schemars(
    transform = never_null,
    extend("x-kubernetes-validations" = [
        rule("self == oldSelf", "an Invalidation is immutable; make another")
    ])
)]
pub struct InvalidationSpec {
    /// The DistributionTenant in this namespace.
    pub tenant_ref: ObjectName,
    /// The paths; a `*` at the end of one stands for everything that begins so.
    #[schemars(
        length(min = 1, max = 3000),
        inner(length(max = 4000), regex(pattern = "^/"))
    )]
    pub paths: Vec<String>,
    /// How long the object stays after it has ended, in seconds.
    #[serde(default = "one_hour")]
    #[schemars(range(min = 0))]
    pub ttl_seconds_after_finished: i64,
}

/// What is known of an invalidation.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = never_null)]
pub struct InvalidationStatus {
    /// Its id in CloudFront.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// How far it is.
    #[serde(
        default,
        deserialize_with = "lenient",
        skip_serializing_if = "Option::is_none"
    )]
    pub phase: Option<InvalidationPhase>,
    /// When CloudFront took it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub create_time: Option<Time>,
    /// When it was seen completed or failed; `ttlSecondsAfterFinished` counts from then.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub finished_time: Option<Time>,
    /// Standard conditions.
    #[serde(
        default,
        deserialize_with = "understood",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub conditions: Vec<Condition>,
}

/// How far an invalidation is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum InvalidationPhase {
    /// CloudFront has not taken it yet.
    Pending,
    /// CloudFront took it and is at work.
    InProgress,
    /// The paths are forgotten.
    Completed,
    /// CloudFront refused it.
    Failed,
}

fn one_hour() -> i64 {
    3600
}
