//! A tenant that CloudFront no longer shows.

use std::time::Duration;

use api::tenants::{DistributionTenant, DriftPolicy, events, reasons};
use aws::Fault;
use aws::cloudfront::{CloudFront, Tenant};
use engine::{Note, Pass};
use kernel::Reason;

use super::create::{tags_of, way};
use super::draft::{Draft, Question};
use super::facts;
use super::ground::Ground;
use super::stop::{Stop, failed};
use crate::ctx::Ctx;
use crate::failure::{Missing, slow};
use crate::tags::{self, Whose};

/// CloudFront may not show a tenant for this long after it made it.
const GRACE: Duration = Duration::from_secs(2 * 60);
/// Two looks this far apart must both miss it.
const APART: Duration = Duration::from_secs(30);

/// Looks by name, and twice, before a tenant counts as deleted by others; then the drift policy
/// says whether it is made anew.
pub(super) async fn gone(
    object: &DistributionTenant,
    ground: &Ground,
    cloudfront: &CloudFront,
    ctx: &Ctx,
    draft: &mut Draft,
    pass: &Pass,
) -> Result<Tenant, Stop> {
    let on_way = way(object, Missing::Distribution);
    match cloudfront.tenant(&ground.name).await {
        Ok(found) => {
            let tags = tags_of(&found, cloudfront).await;
            let tags = tags.map_err(|error| failed(error, on_way, draft, ctx, pass))?;
            if tags::whose(&tags, &ground.marker) == Whose::Ours {
                return Ok(found);
            }
        }
        Err(error) if error.fault() == Fault::EntityMissing => {}
        Err(error) => return Err(failed(error, on_way, draft, ctx, pass)),
    }
    if let Some(wait) = doubted(ground, ctx, draft) {
        return Err(Stop::Told(wait));
    }
    let id = draft.status.id.clone().unwrap_or_default();
    if !draft.says(Question::Ready, reasons::EXTERNALLY_DELETED) {
        let message = format!("tenant {} ({id}) was deleted in AWS", ground.name);
        draft.note(Note::warning(events::EXTERNAL_DELETION, message));
    }
    match ground.drift {
        DriftPolicy::Enforce => {
            facts::forget(&mut draft.status);
            ctx.memory.forget(&ground.key);
            let message = format!("{id} was deleted in AWS and is made anew");
            draft.no(Question::Ready, Reason::new(reasons::CREATING, message));
            Err(Stop::Again)
        }
        DriftPolicy::Report | DriftPolicy::Suspend => {
            let message = format!(
                "{id} was deleted in AWS and is not made anew, because driftPolicy is {}; set it \
                 to enforce, or delete this object",
                ground.drift.as_str()
            );
            let reason = Reason::new(reasons::EXTERNALLY_DELETED, message);
            let since = draft.since(Question::Ready, &reason.code, ctx.now());
            draft.no(Question::Ready, reason);
            Err(Stop::Told(slow(since, fastrand::f64())))
        }
    }
}

/// How long to wait before a miss counts; none once it does.
fn doubted(ground: &Ground, ctx: &Ctx, draft: &Draft) -> Option<Duration> {
    if draft.says(Question::Ready, reasons::EXTERNALLY_DELETED) {
        return None;
    }
    let now = ctx.deck.clock.elapsed();
    let requested = draft.status.created_time.as_ref();
    let requested = requested.or(draft.status.create_requested_at.as_ref());
    let age = requested.map(|time| ctx.now().duration_since(time.0));
    let age: Duration = age.and_then(|age| age.try_into().ok()).unwrap_or(GRACE);
    let missed = ctx.memory.note(&ground.key, |memory| {
        memory.doubted = true;
        *memory.missed.get_or_insert(now)
    });
    let waits = [
        GRACE.saturating_sub(age),
        APART.saturating_sub(now.saturating_sub(missed)),
    ];
    waits.into_iter().max().filter(|wait| !wait.is_zero())
}
