//! Certificates that CloudFront requests and renews by itself.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::schema::{DOMAIN_CHARS, never_null};

/// A certificate that CloudFront requests for the tenant and renews by itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = never_null)]
pub struct ManagedCertificateRequest {
    /// Who serves the token that proves the domains are yours.
    pub validation_token_host: ValidationTokenHost,
    /// The domain the certificate is named after: one of the tenant's.
    #[schemars(length(max = DOMAIN_CHARS))]
    pub primary_domain_name: String,
    /// Whether the certificate appears in public logs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub certificate_transparency_logging_preference: Option<CertificateTransparency>,
}

/// A certificate that CloudFront requests for every tenant of a source and renews by itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = never_null)]
pub struct TemplateCertificateRequest {
    /// Who serves the token that proves the domains are yours.
    pub validation_token_host: ValidationTokenHost,
    /// The domain the certificate is named after; unset: the first of the tenant's domains.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = DOMAIN_CHARS))]
    pub primary_domain_name: Option<String>,
    /// Whether the certificate appears in public logs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub certificate_transparency_logging_preference: Option<CertificateTransparency>,
}

/// Who serves the token that proves domains are yours.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ValidationTokenHost {
    /// CloudFront; the domains must point to it already.
    Cloudfront,
    /// Your own server, by the redirects in `status.validationTokens`.
    SelfHosted,
}

impl ValidationTokenHost {
    /// The word CloudFront uses.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Cloudfront => "cloudfront",
            Self::SelfHosted => "self-hosted",
        }
    }
}

/// Whether a certificate appears in public logs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum CertificateTransparency {
    /// It does; browsers expect that.
    Enabled,
    /// It does not.
    Disabled,
}

impl CertificateTransparency {
    /// The word CloudFront uses.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Enabled => "enabled",
            Self::Disabled => "disabled",
        }
    }
}
