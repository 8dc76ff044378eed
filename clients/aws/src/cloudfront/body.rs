//! The desired configuration of a tenant.

use std::collections::BTreeMap;

use aws_sdk_cloudfront::error::BuildError;
use aws_sdk_cloudfront::types;

/// A tenant without its name and tags, as create and update requests send it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TenantBody {
    /// Its distribution.
    pub distribution_id: String,
    /// Its domains, in lower case.
    pub domains: Vec<String>,
    /// Whether it is enabled.
    pub enabled: bool,
    /// Its connection group; without it CloudFront uses the default one. An update should name it.
    pub connection_group_id: Option<String>,
    /// Values of the distribution's parameters.
    pub parameters: BTreeMap<String, String>,
    /// Settings that differ from those of its distribution.
    pub customizations: Customizations,
    /// A managed certificate to request; sending it again may request a new one.
    pub certificate_request: Option<CertificateRequest>,
}

/// Settings of a tenant that differ from those of its distribution.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Customizations {
    /// Its web ACL.
    pub web_acl: Option<WebAcl>,
    /// ARN of its certificate.
    pub certificate_arn: Option<String>,
    /// The countries it serves.
    pub geo_restriction: Option<GeoRestriction>,
}

/// A tenant's web ACL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WebAcl {
    /// `override` or `disable`.
    pub action: String,
    /// ARN of the web ACL to use.
    pub arn: Option<String>,
}

/// The countries a tenant serves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GeoRestriction {
    /// `whitelist`, `blacklist` or `none`.
    pub kind: String,
    /// Countries, as two capital letters.
    pub locations: Vec<String>,
}

/// A request for a managed certificate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CertificateRequest {
    /// Who serves the token that proves a domain: `cloudfront` or `self-hosted`.
    pub validation_token_host: String,
    /// Its main domain.
    pub primary_domain: Option<String>,
    /// `enabled` or `disabled`.
    pub transparency_logging: Option<String>,
}

impl TenantBody {
    pub(super) fn sdk_domains(&self) -> Result<Vec<types::DomainItem>, BuildError> {
        self.domains
            .iter()
            .map(|domain| types::DomainItem::builder().domain(domain).build())
            .collect()
    }

    pub(super) fn sdk_parameters(&self) -> Result<Vec<types::Parameter>, BuildError> {
        let parameters = self.parameters.iter();
        parameters
            .map(|(name, value)| {
                let parameter = types::Parameter::builder();
                parameter.name(name).value(value).build()
            })
            .collect()
    }

    pub(super) fn sdk_request(
        &self,
    ) -> Result<Option<types::ManagedCertificateRequest>, BuildError> {
        let Some(request) = &self.certificate_request else {
            return Ok(None);
        };
        let logging = request.transparency_logging.as_deref().map(Into::into);
        types::ManagedCertificateRequest::builder()
            .validation_token_host(request.validation_token_host.as_str().into())
            .set_primary_domain_name(request.primary_domain.clone())
            .set_certificate_transparency_logging_preference(logging)
            .build()
            .map(Some)
    }
}

impl Customizations {
    /// Whether nothing is customized.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// In the SDK's form: an empty block if nothing is customized.
    pub(super) fn sdk(&self) -> Result<types::Customizations, BuildError> {
        let Self {
            web_acl,
            certificate_arn,
            geo_restriction,
        } = self;
        let acl = |acl: &WebAcl| {
            types::WebAclCustomization::builder()
                .action(acl.action.as_str().into())
                .set_arn(acl.arn.clone())
                .build()
        };
        let certificate = |arn: &String| types::Certificate::builder().arn(arn).build();
        let geo = |geo: &GeoRestriction| {
            let locations = Some(geo.locations.clone()).filter(|all| !all.is_empty());
            types::GeoRestrictionCustomization::builder()
                .restriction_type(geo.kind.as_str().into())
                .set_locations(locations)
                .build()
        };
        Ok(types::Customizations::builder()
            .set_web_acl(web_acl.as_ref().map(acl).transpose()?)
            .set_certificate(certificate_arn.as_ref().map(certificate).transpose()?)
            .set_geo_restrictions(geo_restriction.as_ref().map(geo).transpose()?)
            .build())
    }

    pub(super) fn read(received: Option<types::Customizations>) -> Self {
        let Some(received) = received else {
            return Self::default();
        };
        Self {
            web_acl: received.web_acl.map(|acl| WebAcl {
                action: acl.action.as_str().to_owned(),
                arn: acl.arn,
            }),
            certificate_arn: received.certificate.map(|certificate| certificate.arn),
            geo_restriction: received.geo_restrictions.map(|geo| GeoRestriction {
                kind: geo.restriction_type.as_str().to_owned(),
                locations: geo.locations.unwrap_or_default(),
            }),
        }
    }
}
