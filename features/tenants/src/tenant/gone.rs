//! A tenant that CloudFront no longer shows, or not yet.

use std::time::Duration;

use api::tenants::{DistributionTenant, DriftPolicy, events, reasons};
use aws::Fault;
use aws::cloudfront::{CloudFront, Tenant};
use engine::{Note, Pass};
use kernel::{ObjectKey, Reason};

use super::create::way;
use super::draft::{Draft, Question};
use super::facts;
use super::ground::Ground;
use super::stop::{Stop, blocked, failed};
use super::taken::tags_of;
use crate::body::Summary;
use crate::ctx::Ctx;
use crate::failure::Missing;
use crate::tags::{self, Whose};

/// CloudFront may not show a tenant for this long after it made it.
const GRACE: Duration = Duration::from_secs(2 * 60);
/// Two looks this far apart must both miss it.
pub(super) const APART: Duration = Duration::from_secs(30);

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
        Ok(found) if draft.status.id.as_ref() == Some(&found.id) => return Ok(found),
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
    if !draft.says(Question::Ready, reasons::EXTERNALLY_DELETED)
        && let Some(wait) = unsure(&ground.key, ctx, draft)
    {
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
            ctx.memory.begin_anew(&ground.key);
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
            let stop = blocked(&reason, &[Question::Ready], draft, ctx, &ground.key);
            Err(stop)
        }
    }
}

/// How long to wait before a miss counts; none once it does.
pub(super) fn unsure(key: &ObjectKey, ctx: &Ctx, draft: &Draft) -> Option<Duration> {
    let now = ctx.deck.clock.elapsed();
    let missed = ctx
        .memory
        .note(key, |memory| *memory.missed.get_or_insert(now));
    let apart = APART.saturating_sub(now.saturating_sub(missed));
    Some(apart.max(youth(key, ctx, draft))).filter(|wait| !wait.is_zero())
}

/// How long to wait, if a read shows what a write of ours has replaced, or less than was known.
pub(super) fn behind(
    key: &ObjectKey,
    seen: &Summary,
    ctx: &Ctx,
    draft: &Draft,
) -> Option<Duration> {
    let known = draft.status.last_modified_time.as_ref();
    let is_older = known.is_some_and(|known| seen.modified.is_some_and(|seen| seen < known.0));
    let replaced = ctx.memory.of(key).replaced;
    (is_older || replaced.as_deref() == Some(&*seen.etag)).then_some(APART)
}

/// How long CloudFront may still not show what we asked it for.
pub(super) fn youth(key: &ObjectKey, ctx: &Ctx, draft: &Draft) -> Duration {
    let status = &draft.status;
    let told = [&status.created_time, &status.create_requested_at];
    let told = told.into_iter().flatten();
    let told = told.filter_map(|time| ctx.now().duration_since(time.0).try_into().ok());
    // Without an id, a Create may have gone out just before this process began.
    let memory = ctx.memory.of(key);
    let asked = memory.asked.max(memory.made);
    let asked = asked.or(status.id.is_none().then_some(Duration::ZERO));
    let asked = asked.map(|asked| ctx.deck.clock.elapsed().saturating_sub(asked));
    let age: Option<Duration> = told.chain(asked).min();
    age.map_or(Duration::ZERO, |age| GRACE.saturating_sub(age))
}
