//! CloudFront's answers as this feature compares them, and what it sends.

use std::collections::BTreeMap;

use api::tenants::{BodyCertificateRequest, BodyGeoRestrictions, BodyWebAcl};
use aws::cloudfront::{
    CertificateRequest, Customizations, Domain, GeoRestriction, Tenant, TenantBody, TenantSummary,
    WebAcl,
};

use crate::body::{Body, Live, LiveDomain, Summary};

impl From<Tenant> for Live {
    fn from(tenant: Tenant) -> Self {
        let Tenant {
            id,
            arn,
            name,
            etag,
            status,
            created,
            modified,
            distribution_id,
            domains,
            enabled,
            connection_group_id,
            parameters,
            customizations,
            tags,
        } = tenant;
        let summary = TenantSummary {
            id,
            arn,
            name,
            etag,
            status,
            modified,
            distribution_id,
            domains,
            enabled,
            connection_group_id,
            customizations,
        };
        Self {
            summary: Summary {
                created,
                ..summary.into()
            },
            parameters,
            tags,
        }
    }
}

impl From<TenantSummary> for Summary {
    fn from(summary: TenantSummary) -> Self {
        let TenantSummary {
            id,
            arn,
            name,
            etag,
            status,
            modified,
            distribution_id,
            domains,
            enabled,
            connection_group_id,
            customizations,
        } = summary;
        let Customizations {
            web_acl,
            certificate_arn,
            geo_restriction,
        } = customizations;
        Self {
            id,
            arn,
            name,
            etag,
            status,
            enabled,
            distribution_id,
            connection_group_id,
            domains: domains.into_iter().map(domain).collect(),
            web_acl: web_acl.map(|WebAcl { action, arn }| BodyWebAcl { action, arn }),
            certificate_arn,
            geo_restrictions: geo_restriction.map(|GeoRestriction { kind, locations }| {
                BodyGeoRestrictions {
                    restriction_type: kind,
                    locations: locations.into_iter().collect(),
                }
            }),
            created: None, // a list does not tell
            modified,
        }
    }
}

fn domain(domain: Domain) -> LiveDomain {
    let Domain { name, status } = domain;
    LiveDomain {
        domain: name,
        status: Some(status).filter(|status| !status.is_empty()),
    }
}

/// What CloudFront is sent: every member of `body`, and the request where it is due.
pub(crate) fn sent(body: &Body, request: Option<&BodyCertificateRequest>) -> TenantBody {
    let Body {
        enabled,
        distribution_id,
        connection_group_id,
        domains,
        parameters,
        web_acl,
        certificate_arn,
        geo_restrictions,
    } = body.clone();
    TenantBody {
        distribution_id,
        domains: domains.into_iter().collect(),
        enabled,
        connection_group_id,
        parameters: parameters.into_iter().collect::<BTreeMap<_, _>>(),
        customizations: Customizations {
            web_acl: web_acl.map(|BodyWebAcl { action, arn }| WebAcl { action, arn }),
            certificate_arn,
            geo_restriction: geo_restrictions.map(|geo| GeoRestriction {
                kind: geo.restriction_type,
                locations: geo.locations.into_iter().collect(),
            }),
        },
        certificate_request: request.map(|request| CertificateRequest {
            validation_token_host: request.validation_token_host.as_str().to_owned(),
            primary_domain: Some(request.primary_domain_name.clone()),
            transparency_logging: request
                .certificate_transparency_logging_preference
                .map(|preference| preference.as_str().to_owned()),
        }),
    }
}
