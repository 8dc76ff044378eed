//! Whether distribution and certificate suit a tenant, before anything is written for it.

use std::time::Duration;

use api::tenants::DistributionTenant;
use aws::{Asker, Fault};
use engine::Pass;
use kernel::Reason;

use super::draft::{Draft, Question};
use super::ground::Ground;
use super::stop::{Stop, failed};
use crate::body::Body;
use crate::check::{self, Definition, Distribution, Subject, Told};
use crate::ctx::Ctx;
use crate::failure::{Way, slow};
use crate::told::{FRESH, KEPT};

/// What was found out on the way.
#[derive(Debug, Default)]
pub(super) struct Checked {
    /// Why the certificate's names were not compared, if they should have been.
    pub(super) unchecked: Option<String>,
}

/// What is checked: the body that is to be sent, beside the last one.
pub(super) struct Candidate<'a> {
    pub(super) desired: &'a Body,
    pub(super) last: Option<&'a Body>,
}

/// Ends the pass if the spec cannot work.
pub(super) async fn validate(
    object: &DistributionTenant,
    ground: &Ground,
    candidate: &Candidate<'_>,
    asker: &Asker,
    ctx: &Ctx,
    draft: &mut Draft,
    pass: &Pass,
) -> Result<Checked, Stop> {
    let given_name = object.spec.tenant_name.is_none();
    let subject = Subject {
        object_name: given_name.then_some(&*ground.key.name),
        declared: &ground.declared,
        certificate: candidate.desired.certificate_arn.as_deref(),
    };
    let mut distribution = None;
    // A failing verdict from an older answer is confirmed by a fresh one.
    for longest in [KEPT, FRESH] {
        distribution = read(ground, longest, asker, ctx, draft, pass).await?;
        let told = match &distribution {
            Some(Ok(distribution)) => Told::Known(distribution),
            Some(Err(Missing)) => Told::Missing,
            None => Told::Unread,
        };
        let Some(failures) = check::failures(&subject, told) else {
            break;
        };
        if longest == FRESH {
            return Err(refuse(failures.reason(), draft, ctx));
        }
    }
    let distribution = distribution.and_then(Result::ok);
    names(ground, candidate, distribution.as_ref(), asker, ctx, draft).await
}

/// There is no such distribution.
struct Missing;

/// The distribution; none if it cannot be read, for then its checks are left out.
async fn read(
    ground: &Ground,
    longest: Duration,
    asker: &Asker,
    ctx: &Ctx,
    draft: &mut Draft,
    pass: &Pass,
) -> Result<Option<Result<Distribution, Missing>>, Stop> {
    let id = &ground.declared.distribution_id;
    let own = ctx.own().await;
    match ctx.outside.distribution(own, asker, id, longest).await {
        Ok(told) => Ok(Some(Ok(seen(&told)))),
        Err(error) => match error.fault() {
            Fault::DistributionMissing | Fault::EntityMissing => {
                ctx.metrics.failed("distribution_not_found");
                Ok(Some(Err(Missing)))
            }
            Fault::Throttled => Err(failed(error, Way::Validation, draft, ctx, pass)),
            Fault::DomainTaken
            | Fault::NameTaken
            | Fault::Denied
            | Fault::Credentials
            | Fault::OwnershipUnverified
            | Fault::InvalidSpec
            | Fault::ZoneMissing
            | Fault::ChangeMissing
            | Fault::OtherMissing
            | Fault::LimitExceeded
            | Fault::Stale
            | Fault::NotDisabled
            | Fault::InUse
            | Fault::ZoneBusy
            | Fault::InvalidRecords
            | Fault::Refused
            | Fault::Passing
            | Fault::Deposed => Ok(None),
        },
    }
}

fn seen(told: &aws::cloudfront::Distribution) -> Distribution {
    Distribution {
        id: told.id.clone(),
        tenant_only: told.is_tenant_only(),
        certificate_arn: told.certificate_arn.clone(),
        parameters: told
            .parameters
            .iter()
            .map(|one| Definition {
                name: one.name.clone(),
                required: one.required,
                default: one.default.clone(),
            })
            .collect(),
    }
}

/// Whether the certificate names every domain, where that may have changed.
async fn names(
    ground: &Ground,
    candidate: &Candidate<'_>,
    distribution: Option<&Distribution>,
    asker: &Asker,
    ctx: &Ctx,
    draft: &mut Draft,
) -> Result<Checked, Stop> {
    let asked = ground.declared.managed_certificate_request.is_some();
    if !check::names_are_due(candidate.last, candidate.desired, asked) {
        return Ok(Checked::default());
    }
    let tenants = candidate.desired.certificate_arn.as_deref();
    let Some(arn) = check::serving_certificate(tenants, distribution) else {
        return Ok(Checked::default());
    };
    let own = ctx.own().await;
    for longest in [KEPT, FRESH] {
        let told = ctx.outside.certificate(own, asker, arn, longest).await;
        let told = match told {
            Ok(told) => told,
            Err(error) => {
                let unchecked = Some(check::unchecked(arn, &error.to_string()));
                return Ok(Checked { unchecked });
            }
        };
        let Some(reason) = check::uncovered(arn, &told.names, &candidate.desired.domains) else {
            break;
        };
        if longest == FRESH {
            return Err(mismatch(reason, draft, ctx));
        }
    }
    Ok(Checked::default())
}

fn refuse(reason: Reason, draft: &mut Draft, ctx: &Ctx) -> Stop {
    draft.no(Question::Synced, reason.clone());
    mismatch(reason, draft, ctx)
}

/// A certificate that does not fit says so in Ready alone.
fn mismatch(reason: Reason, draft: &mut Draft, ctx: &Ctx) -> Stop {
    let since = draft.since(Question::Ready, &reason.code, ctx.now());
    draft.no(Question::Ready, reason);
    Stop::Told(slow(since, fastrand::f64()))
}
