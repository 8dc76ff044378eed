//! What AWS was last given, in the form in which the sides of a diff are compared.
//!
//! No rule of a spec holds here: what was adopted is recorded as it was found.

use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::schema::never_null;
use super::{CertificateTransparency, ValidationTokenHost};

/// A tenant as CloudFront accepted it, normalised: two that mean the same are equal.
///
/// Domains are in lower case without a final dot, lists are sets, and empty blocks are absent.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = never_null)]
pub struct TenantBody {
    /// The distribution.
    pub distribution_id: String,
    /// The domains.
    #[schemars(with = "Vec<String>")]
    pub domains: BTreeSet<String>,
    /// Whether it serves requests.
    pub enabled: bool,
    /// The connection group; unset: whichever CloudFront chose.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub connection_group_id: Option<String>,
    /// Values of parameters, by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub parameters: BTreeMap<String, String>,
    /// The web ACL, if it is not the distribution's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub web_acl: Option<BodyWebAcl>,
    /// The certificate's ARN, if it is not the distribution's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub certificate_arn: Option<String>,
    /// The countries, if they are not the distribution's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub geo_restrictions: Option<BodyGeoRestrictions>,
    /// The certificate that was requested with it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub managed_certificate_request: Option<BodyCertificateRequest>,
    /// The tags the spec asked for, by key.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub tags: BTreeMap<String, String>,
}

/// The web ACL of a [`TenantBody`].
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[schemars(transform = never_null)]
pub struct BodyWebAcl {
    /// What becomes of the distribution's, in CloudFront's word.
    pub action: String,
    /// The one that replaces it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub arn: Option<String>,
}

/// The countries of a [`TenantBody`].
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BodyGeoRestrictions {
    /// What the list means, in CloudFront's word.
    pub restriction_type: String,
    /// The countries.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    #[schemars(with = "Vec<String>")]
    pub locations: BTreeSet<String>,
}

/// The certificate request of a [`TenantBody`]. CloudFront does not give it back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = never_null)]
pub struct BodyCertificateRequest {
    /// Who serves the token.
    pub validation_token_host: ValidationTokenHost,
    /// The domain the certificate is named after.
    pub primary_domain_name: String,
    /// Whether the certificate appears in public logs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub certificate_transparency_logging_preference: Option<CertificateTransparency>,
}

/// A connection group as CloudFront accepted it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = never_null)]
pub struct GroupBody {
    /// Whether it has IPv6 addresses.
    pub ipv6_enabled: bool,
    /// Whether it lets requests through.
    pub enabled: bool,
    /// The list of static addresses.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub anycast_ip_list_id: Option<String>,
    /// The tags the spec asked for, by key.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub tags: BTreeMap<String, String>,
}
