//! What every tenant of a source has besides its row.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::schema::{never_null, one_group};
use super::{DeletionPolicy, TemplateCertificateRequest, TenantSettings};

/// What every tenant of a source has besides its row; the row wins.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(
    transform = never_null,
    extend("x-kubernetes-validations" = [one_group()])
)]
pub struct TenantTemplate {
    /// Whether it serves requests, where its row does not say.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub enabled: Option<bool>,
    /// What a tenant says too.
    #[serde(flatten)]
    pub settings: TenantSettings,
    /// A certificate that CloudFront requests and renews by itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub managed_certificate_request: Option<TemplateCertificateRequest>,
    /// Whether tenant and records go from AWS with the object.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deletion_policy: Option<DeletionPolicy>,
}
