//! A tenant that is in CloudFront: is it as the spec says, and if not, whose doing is that?

use std::time::Duration;

use api::tenants::{DistributionTenant, DriftPolicy, reasons};
use aws::{Caller, Fault, Priority};
use engine::Pass;
use kernel::spread;

use super::create::{PROGRESS, way};
use super::draft::{Draft, Question};
use super::ground::Ground;
use super::live_records::{is_on_its_way, is_update_refused, records};
use super::managed::{managed, say_certificate, say_unchecked};
use super::say::Part;
use super::stop::{Stop, ended, failed, left_alone, moment};
use super::taken::missing;
use super::update::{Sent, effect, heard, record, update};
use super::{byhand, dns, facts, gone, mark, rest, say, target};
use crate::body::{Live, Summary};
use crate::ctx::{Ctx, Ours};
use crate::diff::{self, Last, needs_default_group};
use crate::failure::Missing;
use crate::memory::Memory;

/// How often tags and issued certificates are compared, give or take a tenth.
const DAY: Duration = Duration::from_secs(24 * 60 * 60);
const SPREAD: f64 = 0.1;
/// Reads and writes of one pass against others who write at the same time.
const TRIES: usize = 3;

/// Keeps a tenant true; when to look again.
pub(super) async fn keep(
    object: &DistributionTenant,
    ground: &Ground,
    id: &str,
    ctx: &Ctx,
    draft: &mut Draft,
    pass: &mut Pass,
) -> Result<Option<Duration>, Stop> {
    let (key, now) = (&ground.key, ctx.deck.clock.elapsed());
    let memory = ctx.memory.of(key);
    let whole = whole_due(ground, &memory, ctx, now);
    let planned = ctx.memory.note(key, |memory| memory.sends_records.take());
    // Asked for by the pass before, not by a person.
    let continues = planned.is_some() && planned == ground.generation;
    if pass.is_urgent() && !continues {
        ctx.memory.note(key, |memory| {
            memory.doubted = true; // also when its turn comes later
            memory.trouble.forgive();
            memory.tags_trouble.forgive();
            memory.dns_trouble.forgive();
        });
    } else if let Some(left) = memory.trouble.holds_back(&moment(draft, ctx)) {
        let mut after = Soonest(Some(left));
        let needs_no_call =
            dns::route53(object).is_none() || target::is_cached(ground, &draft.status, ctx);
        if is_update_refused(ground, ctx, draft) && needs_no_call {
            let asker = dns::asker(key);
            after.or(records(object, ground, &asker, None, ctx, draft, pass).await?);
        }
        return Err(left_alone(after.0.unwrap_or(left), key, ctx));
    } else if !memory.doubted
        && now < whole
        && let Some(rest) = rest::rest(object, ground, &memory, draft, now)
    {
        let left = whole.saturating_sub(now);
        let left = rest.after.map_or(left, |after| after.min(left));
        let stop = left_alone(left, key, ctx);
        return if rest.ready {
            Ok(Some(left))
        } else {
            Err(stop)
        };
    }
    let seen = ctx.memory.note(key, |memory| {
        memory.doubted = false;
        memory.seen.take()
    });
    let aim = Aim {
        object,
        ground,
        id,
        whole: now >= whole || draft.status.last_applied.is_none(),
    };
    let ended = Box::pin(looked(&aim, seen.clone(), ctx, draft, pass)).await;
    if ended.is_err() {
        // The doubt is not settled, and what a list showed may still serve.
        ctx.memory.note(key, |memory| {
            memory.doubted = true;
            memory.seen = memory.seen.take().or(seen);
        });
    }
    ended
}

/// What is looked at.
struct Aim<'a> {
    object: &'a DistributionTenant,
    ground: &'a Ground,
    id: &'a str,
    /// Tags are compared, too.
    whole: bool,
}

/// Looks at the tenant and brings it a step further, against all who write at the same time.
async fn looked(
    aim: &Aim<'_>,
    seen: Option<Box<Summary>>,
    ctx: &Ctx,
    draft: &mut Draft,
    pass: &mut Pass,
) -> Result<Option<Duration>, Stop> {
    let Aim {
        object,
        ground,
        id,
        whole,
    } = *aim;
    let priority = if rest::is_edited(ground, draft) {
        Priority::Edit
    } else {
        Priority::Poll
    };
    let asker = ctx.admit(Ours::Tenant, pass, priority).await?;
    let look = Look {
        object,
        ground,
        asker: &asker,
        whole,
    };
    // A list does not tell of parameters, which may be what an Update failed to change.
    let is_in_effect = ctx.memory.of(&ground.key).ineffective.is_none();
    let seen = seen.filter(|_| is_in_effect);
    let mut listed = seen.and_then(|seen| as_listed(*seen, ground, draft));
    let mut unknown: Option<(String, aws::Error)> = None;
    for _ in 0..TRIES {
        let seen = match listed.take() {
            Some(listed) => listed,
            None => read(&look, id, ctx, draft, pass).await?,
        };
        ctx.memory.note(&ground.key, |memory| memory.missed = None);
        if let Some(wait) = gone::behind(&ground.key, &seen.summary, ctx, draft) {
            return Err(Stop::Told(wait));
        }
        let etag = seen.summary.etag.clone();
        if let Some((_, error)) = unknown.take_if(|(sent, _)| *sent == etag) {
            return Err(not_taken(error, &look, ctx, draft, pass).await);
        }
        match Box::pin(compare(&look, seen, ctx, draft, pass)).await? {
            Compared::Done(after) => return Ok(after),
            Compared::Unknown(error) if error.fault() == Fault::Stale => {}
            Compared::Unknown(error) => unknown = Some((etag, error)),
        }
    }
    let at = moment(draft, ctx);
    let outrun = ctx
        .memory
        .note(&ground.key, |memory| memory.trouble.outrun(&at));
    Err(Stop::Held(outrun))
}

/// An Update without an answer, or whose object was not found, made no new version.
async fn not_taken(
    error: aws::Error,
    look: &Look<'_>,
    ctx: &Ctx,
    draft: &mut Draft,
    pass: &Pass,
) -> Stop {
    let Look {
        object,
        ground,
        asker,
        ..
    } = *look;
    if error.fault() != Fault::EntityMissing {
        return ended(error, way(object, Missing::Distribution), draft, ctx, pass);
    }
    let group = ground.declared.connection_group_id.as_deref();
    let missing = missing(group, &error, asker, ctx).await;
    failed(error, way(object, missing), draft, ctx, pass)
}

/// The tenant as a list showed it, if that tells all: nobody has written it since we did, and what
/// we gave is what the spec says.
fn as_listed(seen: Summary, ground: &Ground, draft: &Draft) -> Option<Live> {
    let status = &draft.status;
    let given = status.last_applied.as_ref()?;
    let tells_all = status.e_tag.as_ref() == Some(&seen.etag)
        && status.id.as_ref() == Some(&seen.id)
        && status.observed_generation == ground.generation
        && status.drift_detected != Some(true);
    tells_all.then(|| Live {
        summary: seen,
        parameters: given.parameters.clone(),
        tags: None,
    })
}

/// When tags and certificate are next compared.
fn whole_due(ground: &Ground, memory: &Memory, ctx: &Ctx, now: Duration) -> Duration {
    memory.whole.unwrap_or_else(|| {
        let first = first_whole(memory.made, now, fastrand::f64());
        ctx.memory
            .note(&ground.key, |memory| memory.whole = Some(first));
        first
    })
}

/// When tags and certificate are first compared by this process.
///
/// | created by            | first comparison         |
/// |-----------------------|--------------------------|
/// | this process, at `t`  | a day after `t`, ±10 %   |
/// | an earlier process    | any time within a day    |
fn first_whole(created: Option<Duration>, now: Duration, random: f64) -> Duration {
    match created {
        Some(created) => created + spread(DAY, SPREAD, random),
        None => now + DAY.mul_f64(random),
    }
}

/// The tenant as CloudFront shows it now; ends the pass if it does not.
async fn read(
    look: &Look<'_>,
    id: &str,
    ctx: &Ctx,
    draft: &mut Draft,
    pass: &Pass,
) -> Result<Live, Stop> {
    let Look { object, ground, .. } = *look;
    let cloudfront = ctx.own().await.cloudfront(look.asker);
    match cloudfront.tenant(id).await {
        Ok(tenant) => Ok(tenant.into()),
        Err(error) if error.fault() == Fault::EntityMissing => {
            let found = gone::gone(object, ground, &cloudfront, ctx, draft, pass).await?;
            Ok(found.into())
        }
        Err(error) => {
            let on_way = way(object, Missing::Distribution);
            Err(failed(error, on_way, draft, ctx, pass))
        }
    }
}

/// What one comparison stands on.
pub(super) struct Look<'a> {
    pub(super) object: &'a DistributionTenant,
    pub(super) ground: &'a Ground,
    pub(super) asker: &'a Caller,
    /// Tags are compared, too.
    pub(super) whole: bool,
}

enum Compared {
    /// All was done that can be done now; when to look again.
    Done(Option<Duration>),
    /// It changed meanwhile, or nobody knows what became of a write.
    Unknown(aws::Error),
}

async fn compare(
    look: &Look<'_>,
    mut live: Live,
    ctx: &Ctx,
    draft: &mut Draft,
    pass: &mut Pass,
) -> Result<Compared, Stop> {
    let Look {
        object,
        ground,
        asker,
        ..
    } = *look;
    if look.whole || live.tags.is_some() || needs_tags(ground, draft) {
        mark::owned(object, ground, &mut live, asker, ctx, draft, pass).await?;
    }
    let moved = facts::moved(&draft.status, &live.summary);
    facts::note(&mut draft.status, &live.summary);
    heard(&live, ground, ctx, draft);
    let body = live.body();
    let mut last = Last::of(&draft.status, ground.generation, &ground.declared, &body);
    let ineffective = effect(&live, &last, ground, ctx, draft);
    if let Some(ineffective) = &ineffective {
        ineffective.undo(&mut last.body, &body);
    }
    let default_group = if needs_default_group(&ground.declared, &last) {
        target::default_group(object, asker, ctx, draft, pass).await?
    } else {
        None
    };
    let managed = managed(look, &last, &live, moved, ctx, draft, pass).await?;
    last.request.clone_from(&managed.request);
    let plan = diff::plan(&diff::Ground {
        declared: &ground.declared,
        last: &last,
        live: &body,
        default_group: default_group.as_deref(),
        issued: managed.issued.as_deref(),
        resend: managed.resend,
        policy: ground.drift,
    });
    let ineffective = ineffective.filter(|one| one.persists(&plan));
    if ineffective.is_none() {
        ctx.memory
            .note(&ground.key, |memory| memory.ineffective = None);
    }
    say_certificate(&managed, draft);
    let mut again = Soonest(managed.again);
    byhand::require(object, ground, asker, ctx, draft, pass).await?;
    let sent = update(look, &plan, &last, &live, ctx, draft, pass).await;
    if sent.is_err() {
        say::drift(Part::Tenant, plan.drift(), ground, ctx, draft); // it is there, put right or not
    }
    let sent = match sent {
        Ok(sent) => sent,
        Err(stop) => {
            if is_update_refused(ground, ctx, draft) {
                records(object, ground, asker, None, ctx, draft, pass).await?;
            }
            return Err(stop);
        }
    };
    match sent {
        Sent::Nothing => {
            record(ground.generation, &plan, draft);
            say::deployed(&live, ineffective.as_ref(), draft);
            say::drift(Part::Tenant, plan.drift(), ground, ctx, draft);
        }
        Sent::Accepted(now) => {
            // An answer may leave tags out; they are as they were read.
            let tags = now.tags.clone().or(live.tags.take());
            live = Live { tags, ..*now };
            if ground.drift != DriftPolicy::Enforce {
                say::drift(
                    Part::Tenant,
                    plan.drift_left(&live.body()),
                    ground,
                    ctx,
                    draft,
                );
            }
        }
        Sent::Later(left) => {
            again.or(Some(left));
            say::deployed(&live, ineffective.as_ref(), draft);
            say::drift(Part::Tenant, plan.drift(), ground, ctx, draft);
        }
        Sent::HeldBack(ineffective) => {
            let wait = ineffective.not_before().duration_since(ctx.now());
            again.or(Some(wait.try_into().unwrap_or_default()));
            say::deployed(&live, Some(&ineffective), draft);
        }
        Sent::Waits(wait) => return Ok(Compared::Done(Some(wait))),
        Sent::Unknown(error) => return Ok(Compared::Unknown(error)),
    }
    say_unchecked(draft);
    again.or(mark::tags(object, ground, &live, asker, ctx, draft, pass).await?);
    again.or(records(object, ground, asker, Some(&live), ctx, draft, pass).await?);
    again.or(byhand::verify(object, ground, asker, ctx, draft, pass).await?);
    if !live.summary.is_deployed() || is_on_its_way(draft) {
        again.or(Some(PROGRESS));
    }
    again.or(Some(next_whole(look, ctx)));
    Ok(Compared::Done(again.0))
}

/// The least of some waits.
struct Soonest(Option<Duration>);

impl Soonest {
    fn or(&mut self, other: Option<Duration>) {
        self.0 = self.0.into_iter().chain(other).min();
    }
}

/// When tags and certificate are compared next.
fn next_whole(look: &Look<'_>, ctx: &Ctx) -> Duration {
    let now = ctx.deck.clock.elapsed();
    let due = ctx.memory.note(&look.ground.key, |memory| {
        if look.whole {
            memory.whole = Some(now + spread(DAY, SPREAD, fastrand::f64()));
        }
        memory.whole
    });
    due.map_or(DAY, |due| due.saturating_sub(now))
}

/// Whether the tags have to be known: ours are not those that were last written, or another's
/// were found, or may have been before something else was told.
fn needs_tags(ground: &Ground, draft: &Draft) -> bool {
    const MAY_HIDE_IT: [&str; 7] = [
        reasons::NOT_OWNED,
        reasons::POLICY_DENIED,
        reasons::DEPENDENCY_NOT_READY,
        reasons::NAME_CONFLICT,
        reasons::DOMAIN_CONFLICT,
        reasons::ACCESS_DENIED,
        reasons::AWS_ERROR,
    ];
    let given = draft.status.last_applied.as_ref();
    let is_edited = given.is_none_or(|body| body.tags != ground.declared.tags);
    let mut hiding = MAY_HIDE_IT.into_iter();
    is_edited || hiding.any(|reason| draft.says(Question::Ready, reason))
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    const HOUR: Duration = Duration::from_secs(60 * 60);

    #[rstest]
    #[case::just_created_not_before_most_of_a_day(Some(HOUR), 0.0, HOUR + DAY.mul_f64(0.9))]
    #[case::just_created_not_much_after_a_day(Some(HOUR), 1.0, HOUR + DAY.mul_f64(1.1))]
    #[case::after_a_restart_perhaps_at_once(None, 0.0, 2 * HOUR)]
    #[case::after_a_restart_within_a_day(None, 1.0, 2 * HOUR + DAY)]
    fn tags_are_first_compared(
        #[case] created: Option<Duration>,
        #[case] random: f64,
        #[case] due: Duration,
    ) {
        assert_eq!(first_whole(created, 2 * HOUR, random), due);
    }
}
