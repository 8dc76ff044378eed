//! What is desired of a tenant, where the spec alone does not say it: group and certificate.

use std::collections::BTreeMap;

use api::tenants::{BodyCertificateRequest, DistributionTenantStatus, TenantBody};

use super::Ground;
use crate::body::Body;

/// What we gave CloudFront last.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Last {
    pub(crate) body: Body,
    /// The request CloudFront still has, also after the spec dropped it.
    pub(crate) request: Option<BodyCertificateRequest>,
    pub(crate) tags: BTreeMap<String, String>,
    /// The certificate that is known to be in use, whoever attached it.
    pub(crate) certificate_in_use: Option<String>,
}

impl Last {
    /// From the status, or where that has no record, from what must have been.
    ///
    /// | lastApplied | observedGeneration | so                                  |
    /// |-------------|--------------------|-------------------------------------|
    /// | there       | any                | it                                  |
    /// | none        | = generation       | the spec: it was accepted           |
    /// | none        | another            | the live tenant: every edit is due  |
    ///
    /// A live tenant does not tell who chose its group, certificate and tags: where the spec names
    /// none, those are not taken for ours, or adopting a site would move it or strip it.
    pub(crate) fn of(
        status: &DistributionTenantStatus,
        generation: Option<i64>,
        declared: &TenantBody,
        live: &Body,
    ) -> Self {
        let in_use = status.certificate_arn.clone();
        if let Some(applied) = &status.last_applied {
            return Self {
                body: Body::from(applied),
                request: applied.managed_certificate_request.clone(),
                tags: applied.tags.clone(),
                certificate_in_use: in_use,
            };
        }
        let certificate_in_use = in_use.or_else(|| live.certificate_arn.clone());
        let accepted = generation.is_some() && status.observed_generation == generation;
        if accepted {
            return Self {
                body: Body::from(declared),
                request: declared.managed_certificate_request.clone(),
                tags: declared.tags.clone(),
                certificate_in_use,
            };
        }
        let asked_for = status.managed_certificate_status.is_some();
        let request = declared.managed_certificate_request.as_ref();
        let named = |ours: &Option<String>, live: &Option<String>| {
            ours.as_ref().and(live.as_ref()).cloned()
        };
        Self {
            body: Body {
                connection_group_id: named(
                    &declared.connection_group_id,
                    &live.connection_group_id,
                ),
                certificate_arn: named(&declared.certificate_arn, &live.certificate_arn),
                ..live.clone()
            },
            request: request.filter(|_| asked_for).cloned(),
            tags: BTreeMap::new(),
            certificate_in_use,
        }
    }
}

/// What is compared and sent, and what is recorded of it.
pub(super) struct Wanted {
    pub(super) body: Body,
    pub(super) record: TenantBody,
}

pub(super) fn wanted(ground: &Ground<'_>) -> Wanted {
    let Ground { declared, last, .. } = *ground;
    let ours = Body {
        connection_group_id: group(ground),
        ..Body::from(declared)
    };
    let certificate = certificate(ground);
    let record = Body {
        certificate_arn: certificate.recorded,
        ..ours.clone()
    };
    let request = declared.managed_certificate_request.clone();
    // Dropping a request retracts nothing; only a certificate of one's own takes its place.
    let kept = || {
        let replaced = declared.certificate_arn.is_some();
        last.request.clone().filter(|_| !replaced)
    };
    Wanted {
        body: Body {
            certificate_arn: certificate.desired,
            ..ours
        },
        record: record.recorded(request.or_else(kept), last.tags.clone()),
    }
}

/// Whether the id of the default group has to be known: the spec named a group and no longer does.
pub(crate) fn needs_default_group(declared: &TenantBody, last: &Last) -> bool {
    declared.connection_group_id.is_none() && last.body.connection_group_id.is_some()
}

fn group(ground: &Ground<'_>) -> Option<String> {
    let named = ground.declared.connection_group_id.as_deref();
    match (named, ground.last.body.connection_group_id.as_deref()) {
        (Some(named), _) => Some(named.to_owned()),
        // CloudFront chose, and that is nobody's edit and nobody's drift.
        (None, None) => None,
        // Not known: it stays where it is until it is.
        (None, Some(given)) => Some(ground.default_group.unwrap_or(given).to_owned()),
    }
}

struct Certificate {
    desired: Option<String>,
    recorded: Option<String>,
}

/// | the spec names one                                  | that                     |
/// | the managed one that it asks for is issued          | that                     |
/// | a request is in the spec                            | whatever is live         |
/// | CloudFront has a request still                      | what came of it          |
/// | live is known to be in use, and not by an older spec| live, but it is not ours |
/// | else                                                | none                     |
fn certificate(ground: &Ground<'_>) -> Certificate {
    let Ground { declared, last, .. } = *ground;
    let ours = |arn: Option<String>| Certificate {
        desired: arn.clone(),
        recorded: arn,
    };
    let own = declared.certificate_arn.as_ref();
    let asked = declared.managed_certificate_request.is_some();
    if let Some(arn) = own
        .cloned()
        .or(ground.issued.filter(|_| asked).map(str::to_owned))
    {
        return ours(Some(arn));
    }
    let live = ground.live.certificate_arn.clone();
    if asked {
        return ours(live);
    }
    if last.request.is_some() {
        let is_known = last.certificate_in_use.is_none() || live == last.certificate_in_use;
        let given = || last.body.certificate_arn.clone();
        return ours(if is_known { live } else { given() });
    }
    // Without a request on record, only a spec can have given it: then dropping it is an edit.
    let given = last.body.certificate_arn.is_some() && live == last.body.certificate_arn;
    if live.is_some() && live == last.certificate_in_use && !given {
        return Certificate {
            desired: live,
            recorded: None,
        };
    }
    ours(None)
}
