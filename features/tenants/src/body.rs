//! A tenant in the form in which the sides of a diff are compared. Pure.
//!
//! ```text
//! spec ──declared──▶ TenantBody ──▶ Body ◀── Live, as CloudFront shows it
//!                     ▲ status.lastApplied
//! ```
//! Two that mean the same are equal: domains in lower case without a final dot, lists as sets,
//! empty blocks absent, no ARN beside a web ACL that is switched off.

mod field;
#[cfg(test)]
pub(crate) mod tests;

use std::collections::{BTreeMap, BTreeSet};

use api::tenants::{
    BodyCertificateRequest, BodyGeoRestrictions, BodyWebAcl, DistributionTenantSpec,
    ManagedCertificateRequest, TenantBody, WebAclAction,
};
use jiff::Timestamp;

pub(crate) use field::{Field, side_by_side};

/// As CloudFront calls a tenant or a group that is everywhere.
pub(crate) const DEPLOYED: &str = "Deployed";

/// What CloudFront says of a tenant in a list: all but its parameters and tags.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Summary {
    pub(crate) id: String,
    pub(crate) arn: String,
    pub(crate) name: String,
    pub(crate) etag: String,
    /// InProgress or Deployed, in CloudFront's word.
    pub(crate) status: String,
    pub(crate) enabled: bool,
    pub(crate) distribution_id: String,
    pub(crate) connection_group_id: Option<String>,
    pub(crate) domains: Vec<LiveDomain>,
    pub(crate) web_acl: Option<BodyWebAcl>,
    pub(crate) certificate_arn: Option<String>,
    pub(crate) geo_restrictions: Option<BodyGeoRestrictions>,
    pub(crate) created: Option<Timestamp>,
    pub(crate) modified: Option<Timestamp>,
}

/// A domain of a tenant, as CloudFront shows it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct LiveDomain {
    pub(crate) domain: String,
    /// Active or inactive, in CloudFront's word.
    pub(crate) status: Option<String>,
}

impl LiveDomain {
    pub(crate) fn is_active(&self) -> bool {
        self.status.as_deref() == Some("active")
    }
}

/// A tenant as CloudFront shows it when asked for that one.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Live {
    pub(crate) summary: Summary,
    pub(crate) parameters: BTreeMap<String, String>,
    /// None where the answer left them out, which does not mean that there are none.
    pub(crate) tags: Option<BTreeMap<String, String>>,
}

impl Live {
    /// It, as it is compared.
    pub(crate) fn body(&self) -> Body {
        Body {
            parameters: self.parameters.clone(),
            ..self.summary.body()
        }
    }
}

impl Summary {
    pub(crate) fn is_deployed(&self) -> bool {
        self.status == DEPLOYED
    }

    /// It, as it is compared, with no parameters: a list does not tell them.
    pub(crate) fn body(&self) -> Body {
        let acl = self.web_acl.clone();
        Body {
            enabled: self.enabled,
            distribution_id: self.distribution_id.clone(),
            connection_group_id: filled(self.connection_group_id.as_deref()),
            domains: self.domains.iter().map(|one| domain(&one.domain)).collect(),
            parameters: BTreeMap::new(),
            web_acl: acl.map(|acl| web_acl(acl.action, acl.arn.as_deref())),
            certificate_arn: filled(self.certificate_arn.as_deref()),
            geo_restrictions: self.geo_restrictions.clone(),
        }
    }
}

/// The part of a tenant that is compared field by field, and that an Update sends as a whole.
///
/// Tags and the certificate request are apart: they have calls and rules of their own.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Body {
    pub(crate) enabled: bool,
    pub(crate) distribution_id: String,
    /// None on our sides: CloudFront chose it and it is not ours.
    pub(crate) connection_group_id: Option<String>,
    pub(crate) domains: BTreeSet<String>,
    pub(crate) parameters: BTreeMap<String, String>,
    pub(crate) web_acl: Option<BodyWebAcl>,
    pub(crate) certificate_arn: Option<String>,
    pub(crate) geo_restrictions: Option<BodyGeoRestrictions>,
}

impl From<&TenantBody> for Body {
    fn from(given: &TenantBody) -> Self {
        let TenantBody {
            distribution_id,
            domains,
            enabled,
            connection_group_id,
            parameters,
            web_acl,
            certificate_arn,
            geo_restrictions,
            managed_certificate_request: _,
            tags: _,
        } = given.clone();
        Self {
            enabled,
            distribution_id,
            connection_group_id,
            domains,
            parameters,
            web_acl,
            certificate_arn,
            geo_restrictions,
        }
    }
}

impl Body {
    /// As `status.lastApplied` keeps it.
    pub(crate) fn recorded(
        self,
        request: Option<BodyCertificateRequest>,
        tags: BTreeMap<String, String>,
    ) -> TenantBody {
        let Self {
            enabled,
            distribution_id,
            connection_group_id,
            domains,
            parameters,
            web_acl,
            certificate_arn,
            geo_restrictions,
        } = self;
        TenantBody {
            distribution_id,
            domains,
            enabled,
            connection_group_id,
            parameters,
            web_acl,
            certificate_arn,
            geo_restrictions,
            managed_certificate_request: request,
            tags,
        }
    }

    /// The same, switched off: what a deletion sends, so that nothing else can be wrong with it.
    pub(crate) fn disabled(self) -> Self {
        Self {
            enabled: false,
            ..self
        }
    }
}

/// What a spec declares, normalised. `referred` is the id of the ConnectionGroup it refers to.
pub(crate) fn declared(spec: &DistributionTenantSpec, referred: Option<&str>) -> TenantBody {
    let settings = &spec.settings;
    let custom = settings.customizations.clone().unwrap_or_default();
    let named = filled(settings.connection_group_id.as_deref());
    TenantBody {
        distribution_id: spec.distribution_id.clone(),
        domains: spec.domains.iter().map(|one| domain(&one.domain)).collect(),
        enabled: spec.enabled,
        connection_group_id: named.or_else(|| filled(referred)),
        parameters: settings
            .parameters
            .iter()
            .map(|one| (one.name.clone(), one.value.clone()))
            .collect(),
        web_acl: custom
            .web_acl
            .map(|acl| web_acl(acl.action.as_str().to_owned(), acl.arn.as_deref())),
        certificate_arn: custom.certificate.and_then(|one| filled(Some(&one.arn))),
        geo_restrictions: custom.geo_restrictions.map(|geo| BodyGeoRestrictions {
            restriction_type: geo.restriction_type.as_str().to_owned(),
            locations: geo.locations.into_iter().collect(),
        }),
        managed_certificate_request: spec.managed_certificate_request.as_ref().map(request),
        tags: settings
            .tags
            .iter()
            .map(|tag| (tag.key.clone(), tag.value.clone().unwrap_or_default()))
            .collect(),
    }
}

/// A domain in the one form in which it is compared: lower case, no final dot.
pub(crate) fn domain(given: &str) -> String {
    given
        .strip_suffix('.')
        .unwrap_or(given)
        .to_ascii_lowercase()
}

fn request(given: &ManagedCertificateRequest) -> BodyCertificateRequest {
    BodyCertificateRequest {
        validation_token_host: given.validation_token_host,
        primary_domain_name: domain(&given.primary_domain_name),
        certificate_transparency_logging_preference: given
            .certificate_transparency_logging_preference,
    }
}

fn web_acl(action: String, arn: Option<&str>) -> BodyWebAcl {
    let needs_none = action == WebAclAction::Disable.as_str();
    BodyWebAcl {
        arn: filled(arn).filter(|_| !needs_none),
        action,
    }
}

/// Empty is absent.
fn filled(text: Option<&str>) -> Option<String> {
    text.filter(|text| !text.is_empty()).map(str::to_owned)
}
