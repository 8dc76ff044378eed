//! An object that says of a tenant what is so already. Pure.

use std::ops::RangeInclusive;

use api::tenants::{
    AdoptBy, Adoption, Certificate, Customizations, DeletionPolicy, DistributionTenant,
    DistributionTenantSpec, Domain, GeoRestrictions, ManagedCertificateRequest, Parameter,
    RestrictionType, Tag, TenantSettings, ValidationTokenHost, WebAcl, WebAclAction,
};
use kernel::ObjectKey;

use super::Whole;
use crate::body::{Body, Field, declared, domain};
use crate::tags::Tags;

/// The lengths of a name that can be both a tenant's and an object's.
const NAME: RangeInclusive<usize> = 3..=128;

/// Whether a tenant's name can be an object's as it is.
fn is_object_name(name: &str) -> bool {
    let outer = |one: char| one.is_ascii_lowercase() || one.is_ascii_digit();
    let is_label = |label: &str| {
        label.starts_with(outer)
            && label.ends_with(outer)
            && label.chars().all(|one| outer(one) || one == '-')
    };
    NAME.contains(&name.len()) && name.split('.').all(is_label)
}

/// The object's name that is most like a tenant's.
pub(super) fn object_name(name: &str) -> String {
    let allowed = |one: char| {
        let one = one.to_ascii_lowercase();
        let fits = one.is_ascii_lowercase() || one.is_ascii_digit() || one == '.';
        if fits { one } else { '-' }
    };
    let name: String = name.chars().map(allowed).collect();
    let labels = name.split('.').map(|label| label.trim_matches('-'));
    let labels: Vec<_> = labels.filter(|label| !label.is_empty()).collect();
    if labels.is_empty() {
        "tenant".to_owned()
    } else {
        labels.join(".")
    }
}

/// An object that says of a tenant what is so already; or what it cannot say.
pub(super) fn manifest(key: &ObjectKey, found: &Whole) -> Result<DistributionTenant, String> {
    let summary = &found.live.summary;
    let body = found.live.body();
    let request = request(found, &body)?;
    let is_named_so = summary.name == *key.name && is_object_name(&summary.name);
    let spec = DistributionTenantSpec {
        distribution_id: body.distribution_id.clone(),
        domains: body
            .domains
            .iter()
            .map(|domain| Domain {
                domain: domain.clone(),
            })
            .collect(),
        enabled: body.enabled,
        settings: TenantSettings {
            connection_group_id: body.connection_group_id.clone(),
            parameters: body
                .parameters
                .iter()
                .map(|(name, value)| Parameter {
                    name: name.clone(),
                    value: value.clone(),
                })
                .collect(),
            customizations: customizations(&body, request.is_some())?,
            tags: own_tags(&found.tags),
            ..TenantSettings::default()
        },
        managed_certificate_request: request,
        tenant_name: (!is_named_so).then(|| summary.name.clone()),
        deletion_policy: DeletionPolicy::Delete,
        adoption: Some(Adoption {
            by: AdoptBy::Name,
            from_owner: None,
        }),
    };
    says_the_same(&spec, &body)?;
    let mut object = DistributionTenant::new(&key.name, spec);
    object.metadata.namespace = key.namespace.as_deref().map(str::to_owned);
    Ok(object)
}

/// Applied, the spec must find nothing to send.
fn says_the_same(spec: &DistributionTenantSpec, live: &Body) -> Result<(), String> {
    let mut said = Body::from(&declared(spec, None));
    if spec.managed_certificate_request.is_some() {
        said.certificate_arn.clone_from(&live.certificate_arn); // whatever is live stays
    }
    let fields = Field::ALL.into_iter();
    let other: Vec<_> = fields
        .filter(|field| field.of(&said) != field.of(live))
        .map(Field::word)
        .collect();
    if other.is_empty() {
        Ok(())
    } else {
        let fields = other.join(", ");
        Err(format!("no object can say what it has in {fields}"))
    }
}

/// The certificate request, if the certificate is one that CloudFront manages.
fn request(found: &Whole, body: &Body) -> Result<Option<ManagedCertificateRequest>, String> {
    let Some(managed) = &found.managed else {
        return Ok(None);
    };
    if body.certificate_arn.is_some() && body.certificate_arn != managed.arn {
        return Ok(None); // another has taken its place
    }
    let validation_token_host = match managed.validation_token_host.as_deref() {
        Some("self-hosted") => ValidationTokenHost::SelfHosted,
        Some("cloudfront") | None => ValidationTokenHost::Cloudfront,
        Some(other) => return Err(format!("its validation token host is {other}")),
    };
    let tokens = managed.tokens.iter().map(|token| domain(&token.domain));
    let mut named = tokens.filter(|domain| body.domains.contains(domain));
    let first = named.next().or_else(|| body.domains.first().cloned());
    Ok(first.map(|primary_domain_name| ManagedCertificateRequest {
        validation_token_host,
        primary_domain_name,
        certificate_transparency_logging_preference: None,
    }))
}

fn customizations(body: &Body, is_managed: bool) -> Result<Option<Customizations>, String> {
    let web_acl = match &body.web_acl {
        None => None,
        Some(acl) => {
            let all = [WebAclAction::Disable, WebAclAction::Override];
            let action = all.into_iter().find(|one| one.as_str() == acl.action);
            let action = action.ok_or_else(|| format!("its web ACL's action is {}", acl.action))?;
            let arn = acl.arn.clone();
            Some(WebAcl { action, arn })
        }
    };
    let geo_restrictions = match &body.geo_restrictions {
        None => None,
        Some(geo) => {
            let all = [
                RestrictionType::None,
                RestrictionType::Whitelist,
                RestrictionType::Blacklist,
            ];
            let kind = &geo.restriction_type;
            let restriction_type = all.into_iter().find(|one| one.as_str() == kind);
            Some(GeoRestrictions {
                restriction_type: restriction_type
                    .ok_or_else(|| format!("its geo restriction is {kind}"))?,
                locations: geo.locations.iter().cloned().collect(),
            })
        }
    };
    let own = body.certificate_arn.clone().filter(|_| !is_managed);
    let all = Customizations {
        web_acl,
        certificate: own.map(|arn| Certificate { arn }),
        geo_restrictions,
    };
    Ok((all != Customizations::default()).then_some(all))
}

/// The tags that are neither ours nor AWS's.
fn own_tags(tags: &Tags) -> Vec<Tag> {
    let is_free = |key: &str| !key.starts_with("aws:") && !key.starts_with("pontoon.io/");
    tags.iter()
        .filter(|(key, _)| is_free(key))
        .map(|(key, value)| Tag {
            key: key.clone(),
            value: Some(value.clone()).filter(|value| !value.is_empty()),
        })
        .collect()
}
