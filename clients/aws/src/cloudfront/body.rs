//! What a tenant is asked to be.

use std::collections::BTreeMap;

use aws_sdk_cloudfront::error::BuildError;
use aws_sdk_cloudfront::types;

/// A tenant without its name and tags: what a Create and an Update send.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TenantBody {
    /// Its parent.
    pub distribution_id: String,
    /// Its domains, in lower case.
    pub domains: Vec<String>,
    /// Whether it serves.
    pub enabled: bool,
    /// Its group; without it CloudFront takes the default one. An Update should name it.
    pub connection_group_id: Option<String>,
    /// Values of the distribution's parameters.
    pub parameters: BTreeMap<String, String>,
    /// What it has otherwise than its distribution.
    pub customizations: Customizations,
    /// A certificate to ask for; sending the same one again may ask again.
    pub certificate_request: Option<CertificateRequest>,
}

/// What a tenant has otherwise than its distribution.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Customizations {
    /// Its firewall.
    pub web_acl: Option<WebAcl>,
    /// ARN of its certificate.
    pub certificate_arn: Option<String>,
    /// Where it serves.
    pub geo_restriction: Option<GeoRestriction>,
}

/// A tenant's firewall.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WebAcl {
    /// `override` or `disable`.
    pub action: String,
    /// ARN of the one to use.
    pub arn: Option<String>,
}

/// Where a tenant serves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GeoRestriction {
    /// `whitelist`, `blacklist` or `none`.
    pub kind: String,
    /// Countries, as two capital letters.
    pub locations: Vec<String>,
}

/// A certificate to ask for.
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
    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// As the SDK writes them: an empty block if there are none.
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

    pub(super) fn read(told: Option<types::Customizations>) -> Self {
        let Some(told) = told else {
            return Self::default();
        };
        Self {
            web_acl: told.web_acl.map(|acl| WebAcl {
                action: acl.action.as_str().to_owned(),
                arn: acl.arn,
            }),
            certificate_arn: told.certificate.map(|certificate| certificate.arn),
            geo_restriction: told.geo_restrictions.map(|geo| GeoRestriction {
                kind: geo.restriction_type.as_str().to_owned(),
                locations: geo.locations.unwrap_or_default(),
            }),
        }
    }
}
