//! What a tenant and the template of a source say alike.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::schema::{PARAMETERS, TAGS, distinct_keys, distinct_names, free_key, never_null, rule};
use super::{Dns, DriftPolicy, ObjectName};

/// What a tenant and the template of a source say alike.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = never_null)]
pub struct TenantSettings {
    /// The connection group that requests come through, by its id in CloudFront; unset: the
    /// account's default group.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub connection_group_id: Option<String>,
    /// Or the ConnectionGroup object that declares it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub connection_group_ref: Option<ObjectName>,
    /// Values for the parameters that the distribution defines.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = PARAMETERS),
        extend("x-kubernetes-validations" = [distinct_names()])
    )]
    pub parameters: Vec<Parameter>,
    /// What differs from the distribution.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub customizations: Option<Customizations>,
    /// Tags in AWS. Others that are there already stay.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = TAGS),
        extend("x-kubernetes-validations" = [distinct_keys()])
    )]
    pub tags: Vec<Tag>,
    /// Who makes the DNS records of the domains, and where; unset: nobody.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dns: Option<Dns>,
    /// What is done about changes that others made in AWS; unset: as the operator's flag says.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub drift_policy: Option<DriftPolicy>,
}

/// The value of one parameter of the distribution.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Parameter {
    /// Its name.
    #[schemars(length(min = 1, max = 128), regex(pattern = r"^[a-zA-Z0-9\-_]+$"))]
    pub name: String,
    /// Its value.
    #[schemars(length(min = 1, max = 256))]
    pub value: String,
}

/// A tag in AWS.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(transform = never_null)]
pub struct Tag {
    /// Its key.
    #[schemars(
        length(min = 1, max = 128),
        extend("x-kubernetes-validations" = [free_key()])
    )]
    pub key: String,
    /// Its value; unset: empty.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 256))]
    pub value: Option<String>,
}

/// What a tenant has otherwise than its distribution.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = never_null)]
pub struct Customizations {
    /// The web ACL of AWS WAF.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub web_acl: Option<WebAcl>,
    /// The certificate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub certificate: Option<Certificate>,
    /// The countries that are served.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub geo_restrictions: Option<GeoRestrictions>,
}

/// Which web ACL of AWS WAF guards a tenant.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(
    transform = never_null,
    extend("x-kubernetes-validations" = [rule(
        "self.action != 'override' || (has(self.arn) && self.arn != '')",
        "arn is required when action is override"
    )])
)]
pub struct WebAcl {
    /// Whether the distribution's is replaced or switched off.
    pub action: WebAclAction,
    /// The ARN of the one that replaces it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub arn: Option<String>,
}

/// What becomes of the distribution's web ACL.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum WebAclAction {
    /// It does not guard this tenant, and none does.
    Disable,
    /// Another guards this tenant.
    Override,
}

impl WebAclAction {
    /// The word CloudFront uses.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Disable => "disable",
            Self::Override => "override",
        }
    }
}

/// A certificate of AWS Certificate Manager.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Certificate {
    /// Its ARN; CloudFront takes certificates of us-east-1 only.
    #[schemars(extend("x-kubernetes-validations" = [rule(
        "self.startsWith('arn:aws:acm:us-east-1:')",
        "certificate must be in us-east-1"
    )]))]
    pub arn: String,
}

/// The countries that a tenant serves.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(
    transform = never_null,
    extend("x-kubernetes-validations" = [rule(
        "(self.restrictionType == 'none') == (!has(self.locations) || self.locations.size() == 0)",
        "whitelist and blacklist need a location, none has none"
    )])
)]
pub struct GeoRestrictions {
    /// What the list means.
    pub restriction_type: RestrictionType,
    /// Countries, each by the two capital letters of ISO 3166-1.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(inner(regex(pattern = "^[A-Z]{2}$")))]
    pub locations: Vec<String>,
}

/// What a list of countries means.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum RestrictionType {
    /// Every country is served.
    None,
    /// The listed ones are served.
    Whitelist,
    /// All but the listed ones are served.
    Blacklist,
}

impl RestrictionType {
    /// The word CloudFront uses.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Whitelist => "whitelist",
            Self::Blacklist => "blacklist",
        }
    }
}
