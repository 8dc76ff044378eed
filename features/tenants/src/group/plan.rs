//! Decides the next read, step or end of a pass over a connection group. Pure.

use std::time::Duration;

use api::tenants::{DeletionPolicy, DriftPolicy, conditions, names, reasons};
use aws::Priority;
use aws::cloudfront::{Group, GroupBody as Body};
use engine::{Next, Stop};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kernel::{CallError, Class, Reason, spread};

use super::found::{
    FirstRead, FoundGroup, LiveGroup, false_reason, first_read, found, tag_ownership,
};
use super::update::{retag, update};
use super::{CreateIntent, Read, Step, World, diff, fault, status, users};
use crate::body::DEPLOYED;
use crate::ctx::UNSETTLED;
use crate::failure::{Says, Way, failure, slow};
use crate::tags::{Standing, Tags, Whose, at_creation};
use crate::trouble::{Moment, Trouble};

/// The time between two reads of a group that CloudFront is deploying.
const POLL: Duration = Duration::from_secs(30);
/// Polls are spread around [`POLL`] by this share.
const POLL_SPREAD: f64 = 0.2;
/// Comparisons and lists are spread around their interval by this share.
pub(super) const SPREAD: f64 = 0.1;
/// Reads may not show a group for this long after its create.
const CREATE_GRACE: Duration = Duration::from_secs(2 * 60);
/// A missing group is read a second time after this long.
const SECOND_READ: Duration = Duration::from_secs(30);
/// After CloudFront refused a create because the name is taken, the operator only reads for this time.
const NAME_TAKEN_PAUSE: Duration = Duration::from_secs(5 * 60);

/// What comes next in a pass.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Decision {
    Read(Read),
    Step(Step),
    End(End),
}

/// The end of a pass, when no call is left to make.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct End {
    pub(super) how: Ending,
    /// The delay of the next pass. None: the engine's back-off decides, or the object goes.
    pub(super) after: Option<Duration>,
    /// The failures of the group, including this pass.
    pub(super) failures: Trouble,
}

/// What is true of the group when a pass ends.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Ending {
    /// Nothing was read: a refusal holds it off, no read is due, or other calls come first.
    Later,
    /// A list shows it as recorded.
    Steady,
    /// A read is older than our last write.
    Stale,
    /// CloudFront may have accepted a create, and no read shows the group yet.
    Unconfirmed,
    /// It existed, and this read does not show it. A second read decides.
    Missing,
    /// Others deleted it, and the drift policy does not create it again.
    LeftDeleted,
    /// It is ours, and everything that can be sent is sent.
    Settled,
    /// It is not ours, so the operator does not change it.
    NotOwned(Whose),
    Failed {
        error: CallError,
        affected: Says,
    },
    /// The object is being deleted, and tenants use the group.
    InUse,
    /// The object is being deleted, and the group of a create may still appear.
    MayAppear,
    /// The object is being deleted, and CloudFront disables the group. The text describes the progress.
    Disabling(&'static str),
    /// The object may go.
    Released(Release),
}

/// Why the object may go.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Release {
    Retained,
    DefaultGroup,
    NeverRequested,
    Deleted,
    NotOwned(Whose),
}

/// | [`decide`]s                | the object | next                          |
/// |----------------------------|------------|-------------------------------|
/// | a read or a step           | any        | it                            |
/// | an end with a pause, Ready | lives      | done, recheck after the pause |
/// | any other end with a pause | any        | wait                          |
/// | failed, without a pause    | any        | failed: the engine backs off  |
/// | released                   | is deleted | done                          |
pub(super) fn next(world: &World) -> Result<Next<Read, Step>, Stop> {
    let end = match decide(world) {
        Decision::Read(read) => return Ok(Next::read(read)),
        Decision::Step(step) => return Ok(Next::step(step)),
        Decision::End(end) => end,
    };
    if let Some(after) = end.after {
        let (is_ready, reason) = status::ready(world, &end);
        let after = users::count_pause(world).map_or(after, |left| left.min(after));
        if is_ready && !world.object.is_deleting() {
            let recheck = Some(after);
            return Ok(Next::Done { recheck });
        }
        return Err(Stop::waiting(reason, after));
    }
    let Ending::Failed { error, .. } = end.how else {
        return Ok(Next::done());
    };
    let class = match error.class {
        // The read of AWS was old, not the object: the engine must not wait for its cache.
        Class::Stale => Class::Transient,
        class => class,
    };
    let reason = Reason::new(reasons::AWS_ERROR, error.message);
    Err(Stop::Failed { reason, class })
}

/// The end after a failed call; otherwise [`before_calls`], then [`maintenance`] or [`removal`].
pub(super) fn decide(world: &World) -> Decision {
    if let Some(error) = &world.observed.error {
        return failed(world, error);
    }
    if !world.observed.has_begun
        && let Some(decision) = before_calls(world)
    {
        return decision;
    }
    if world.object.is_deleting() {
        removal(world)
    } else {
        maintenance(world)
    }
}

/// The decision before the first call to CloudFront. The first row that fits:
///
/// | the object | and                                         | so                         |
/// |------------|---------------------------------------------|----------------------------|
/// | lives      | no finalizer, or never announced            | create: announces it first |
/// | is deleted | deletionPolicy Retain, or the default group | released                   |
/// | is deleted | not all tenants have been read              | later                      |
/// | is deleted | tenants use it                              | in use                     |
/// | is deleted | never announced                             | released                   |
/// | any        | a refusal holds it off                      | later                      |
/// | lives      | [`first_read`] is not due                   | later                      |
/// | any        | any other                                   | read from CloudFront       |
fn before_calls(world: &World) -> Option<Decision> {
    let (object, users) = (&world.object, &world.facts.users);
    let status = &object.status;
    let is_announced = status.id.is_some() || status.create_requested_at.is_some();
    if !object.is_deleting() {
        if !is_announced || !object.has_finalizer(names::FINALIZER) {
            return Some(create(world, status.create_requested_at.clone()));
        }
    } else if object.resource.spec.deletion_policy == DeletionPolicy::Retain {
        return Some(released(world, Release::Retained));
    } else if status.is_default == Some(true) {
        return Some(released(world, Release::DefaultGroup));
    } else if users.unread {
        return Some(end(world, Ending::Later, UNSETTLED));
    } else if !users.using.is_empty() {
        let after = slow(Duration::ZERO, world.pass.random);
        return Some(end(world, Ending::InUse, after));
    } else if !is_announced {
        return Some(released(world, Release::NeverRequested));
    }
    let hold_off = failures(world).holds_back(&moment(world));
    let left = hold_off.or(match first_read(world) {
        FirstRead::Later(left) => Some(left),
        FirstRead::List | FirstRead::Group(_) => None,
    })?;
    Some(end(world, Ending::Later, left))
}

/// The decision for a group whose object is not being deleted.
///
/// | found          | status names | and                                      | so                  |
/// |----------------|--------------|------------------------------------------|---------------------|
/// | not read       | no id        | just announced, nothing to adopt         | [`may_create`]      |
/// | not read       | any          | any other                                | read                |
/// | as in the list | its id       |                                          | steady              |
/// | a stale read   | any          |                                          | stale               |
/// | a group        | any          |                                          | [`next_change`]     |
/// | nothing        | its id       |                                          | [`missing`]         |
/// | nothing        | no id        |                                          | [`may_create`]      |
/// | nothing        | no id        | name taken, perhaps by an earlier create | unconfirmed         |
/// | nothing        | no id        | name taken by others                     | failed              |
fn maintenance(world: &World) -> Decision {
    let (object, observed, memory) = (&world.object, &world.observed, &world.memory);
    if let Some(group) = &observed.created {
        return settled(world, group);
    }
    let has_id = object.status.id.is_some();
    let is_new = !has_id && is_fresh(world) && object.resource.spec.adoption.is_none();
    if is_new && !memory.is_uncertain && observed.name_taken.is_none() {
        return may_create(world); // it cannot exist: the intent was saved just before
    }
    match (found(world), &observed.name_taken) {
        (FoundGroup::Unread(read), _) => Decision::Read(read),
        (FoundGroup::Group(seen), _) => next_change(world, &seen),
        (FoundGroup::Steady { .. } | FoundGroup::Stale | FoundGroup::Nothing, Some(refused)) => {
            if is_fresh(world) || memory.name_taken_at.is_some() {
                failed(world, refused)
            } else {
                end(world, Ending::Unconfirmed, poll_pause(world))
            }
        }
        (FoundGroup::Steady { until }, None) => {
            let left = until.saturating_sub(world.elapsed);
            // Slightly after the next list is due, so that not all passes come at the same time.
            end_without_failures(Ending::Steady, left + POLL.mul_f64(world.pass.random / 3.0))
        }
        (FoundGroup::Stale, None) => end(world, Ending::Stale, poll_pause(world)),
        (FoundGroup::Nothing, None) if has_id => missing(world),
        (FoundGroup::Nothing, None) => may_create(world),
    }
}

/// A create, unless CloudFront has just refused one because the name is taken.
fn may_create(world: &World) -> Decision {
    let name_taken_at = world.memory.name_taken_at;
    if name_taken_at.is_some_and(|at| world.elapsed.saturating_sub(at) < NAME_TAKEN_PAUSE) {
        return end(world, Ending::Stale, poll_pause(world));
    }
    create(world, world.object.status.create_requested_at.clone())
}

/// A create with the intent in status, or with a new intent, which the engine saves first.
fn create(world: &World, announced: Option<Time>) -> Decision {
    let facts = &world.facts;
    Decision::Step(Step::Create {
        name: facts.name.clone(),
        tags: at_creation(&facts.declared.tags, &facts.marker),
        body: diff::body(&facts.declared),
        intent: intent(world, announced),
    })
}

/// The announced intent, or a new one. Times in status have whole seconds.
fn intent(world: &World, announced: Option<Time>) -> CreateIntent {
    let now = Timestamp::from_second(world.now.as_second());
    let now = Time(now.expect("the second of a valid time is valid"));
    CreateIntent(announced.unwrap_or(now))
}

/// Whether nothing was sent with the intent in status.
fn is_fresh(world: &World) -> bool {
    let saved = world.object.status.create_requested_at.as_ref();
    let mut fresh = world.fresh_intents.iter();
    saved.is_some_and(|saved| fresh.any(|CreateIntent(at)| at == saved))
}

/// Whether reads may not show a group that exists. The time runs from its create or, if that is unknown,
/// from the first read without it. Reads always show a group that was Deployed.
fn may_appear(world: &World) -> bool {
    let memory = &world.memory;
    let is_recent = |at: Duration| world.elapsed.saturating_sub(at) < CREATE_GRACE;
    match memory.create_sent_at {
        _ if is_fresh(world) => false,
        Some(at) => is_recent(at),
        None if world.object.status.state.as_deref() == Some(DEPLOYED) => false,
        None => memory.missing_since.is_none_or(is_recent),
    }
}

/// The decision for a group that existed and that reads do not show.
///
/// | reported as deleted | missing                               | drift policy    | so           |
/// |---------------------|---------------------------------------|-----------------|--------------|
/// | no                  | for less than 30 s, or it is new      | any             | missing      |
/// | any                 | any other                             | enforce         | create again |
/// | any                 | any other                             | report, suspend | left deleted |
fn missing(world: &World) -> Decision {
    // If an update did not find the group, a read of this pass has shown it before.
    let missing_since = world.memory.missing_since;
    let missing_since = missing_since.filter(|_| world.observed.is_gone.is_none());
    let is_early = missing_since.is_none_or(|at| world.elapsed.saturating_sub(at) < SECOND_READ);
    if !is_reported_deleted(world) && (is_early || may_appear(world)) {
        return end(world, Ending::Missing, poll_pause(world));
    }
    match world.facts.policy {
        DriftPolicy::Enforce => create(world, None),
        DriftPolicy::Report | DriftPolicy::Suspend => {
            blocked(world, Ending::LeftDeleted, reasons::EXTERNALLY_DELETED)
        }
    }
}

pub(super) fn is_reported_deleted(world: &World) -> bool {
    let reason = false_reason(&world.object.conditions, conditions::READY);
    reason == Some(reasons::EXTERNALLY_DELETED)
}

/// | the group                                       | so                                      |
/// |-------------------------------------------------|-----------------------------------------|
/// | is not ours                                     | not owned                               |
/// | is adopted                                      | mark first, because of crashes          |
/// | is ours, an update did not find it              | read it: [`missing`], or failed         |
/// | is ours and needs an [`update`], or a [`retag`] | that                                    |
/// | is ours                                         | settled                                 |
fn next_change(world: &World, seen: &LiveGroup<'_>) -> Decision {
    let observed = &world.observed;
    match tag_ownership(world, seen) {
        Standing::NotOwned(whose) => {
            return blocked(world, Ending::NotOwned(whose), reasons::NOT_OWNED);
        }
        Standing::Adopt { .. } => {
            return Decision::Step(Step::Mark {
                arn: seen.group.arn.clone(),
                tags: at_creation(&Tags::new(), &world.facts.marker),
                intent: intent(world, world.object.status.create_requested_at.clone()),
            });
        }
        Standing::Ours => {}
    }
    match (&observed.not_found, observed.is_gone) {
        (Some(_), None) => Decision::Read(Read::ById(seen.group.id.clone(), Priority::Edit)),
        (Some(_), Some(true)) => missing(world),
        (Some(refused), Some(false)) => failed(world, refused),
        (None, _) => {
            let step = update(world, seen).or_else(|| retag(world, seen));
            step.map_or_else(|| settled(world, seen.group), Decision::Step)
        }
    }
}

/// The end of a pass that has sent everything.
fn settled(world: &World, group: &Group) -> Decision {
    let interval = spread(world.facts.sweep, SPREAD, world.pass.random);
    let ineffective = world.memory.ineffective.as_ref();
    let pause = ineffective.and_then(|one| one.remaining_pause(one.sent(), world.elapsed));
    let after = if group.status == DEPLOYED {
        pause.map_or(interval, |left| left.min(interval))
    } else {
        poll_pause(world)
    };
    end_without_failures(Ending::Settled, after)
}

/// The decision for a group whose object is being deleted. A disable sends the live fields, so that an
/// invalid spec cannot prevent it. The first row that fits:
///
/// | found                                               | so                         |
/// |-----------------------------------------------------|----------------------------|
/// | this pass has deleted it                            | released                   |
/// | this pass has disabled it                           | disabling                  |
/// | not read                                            | read                       |
/// | a stale read                                        | stale                      |
/// | nothing, and it may still appear                    | may appear                 |
/// | nothing                                             | released                   |
/// | a group that is not ours, or the default group      | released                   |
/// | a group that went before it was disabled            | stale                      |
/// | an enabled group, a disable of it had no effect     | disabling, after a pause   |
/// | an enabled group                                    | disable                    |
/// | a disabled group that is not Deployed               | disabling                  |
/// | a disabled group                                    | delete                     |
fn removal(world: &World) -> Decision {
    let observed = &world.observed;
    if observed.has_done("delete") {
        return released(world, Release::Deleted);
    }
    if observed.has_done("disable") {
        let progress = "CloudFront is disabling it";
        return end_without_failures(Ending::Disabling(progress), poll_pause(world));
    }
    let seen = match found(world) {
        FoundGroup::Unread(read) => return Decision::Read(read),
        FoundGroup::Nothing if may_appear(world) => {
            return end(world, Ending::MayAppear, poll_pause(world));
        }
        FoundGroup::Nothing => return released(world, Release::Deleted),
        FoundGroup::Stale | FoundGroup::Steady { .. } => {
            return end(world, Ending::Stale, poll_pause(world));
        }
        FoundGroup::Group(seen) => seen,
    };
    let group = seen.group;
    if let Standing::NotOwned(whose) = tag_ownership(world, &seen) {
        return released(world, Release::NotOwned(whose));
    }
    if group.is_default {
        return released(world, Release::DefaultGroup);
    }
    if observed.not_found.is_some() {
        return end(world, Ending::Stale, poll_pause(world));
    }
    let (id, etag) = (group.id.clone(), group.etag.clone());
    if group.body.enabled {
        let body = Body {
            enabled: false,
            ..group.body.clone()
        };
        let ineffective = world.memory.ineffective.as_ref();
        let pause = ineffective.and_then(|one| one.remaining_pause(&body, world.elapsed));
        let progress = "CloudFront accepted the disable but still returns the group as enabled";
        return match pause {
            Some(left) => end(world, Ending::Disabling(progress), left),
            None => Decision::Step(Step::Disable { id, etag, body }),
        };
    }
    if group.status != DEPLOYED {
        let progress = "it is disabled, and CloudFront is deploying that";
        return end_without_failures(Ending::Disabling(progress), poll_pause(world));
    }
    Decision::Step(Step::Delete { id, etag })
}

/// The end after a failed call.
fn failed(world: &World, error: &CallError) -> Decision {
    if let Some(after) = error.retry_after {
        return end(world, Ending::Later, after); // our rate limiter, which wakes the group
    }
    let mut failures = failures(world);
    let met = failures.met(&failure(fault(error), Way::Group), &moment(world));
    let (error, affected) = (error.clone(), met.says);
    Decision::End(End {
        how: Ending::Failed { error, affected },
        after: met.after,
        failures,
    })
}

/// The end of a pass after which a person has to act, although no call failed.
fn blocked(world: &World, how: Ending, reason: &'static str) -> Decision {
    let mut failures = failures(world);
    let after = Some(failures.blocked(reason, &moment(world)));
    Decision::End(End {
        how,
        after,
        failures,
    })
}

fn end(world: &World, how: Ending, after: Duration) -> Decision {
    let (after, failures) = (Some(after), failures(world));
    Decision::End(End {
        how,
        after,
        failures,
    })
}

/// An end that also forgets earlier failures.
fn end_without_failures(how: Ending, after: Duration) -> Decision {
    let (after, failures) = (Some(after), Trouble::default());
    Decision::End(End {
        how,
        after,
        failures,
    })
}

fn released(world: &World, why: Release) -> Decision {
    Decision::End(End {
        how: Ending::Released(why),
        after: None,
        failures: failures(world),
    })
}

/// The failures before this pass. An urgent pass ends the hold-off.
pub(super) fn failures(world: &World) -> Trouble {
    let mut failures = world.memory.failures.clone();
    if world.pass.is_urgent {
        failures.forgive();
    }
    failures
}

fn moment(world: &World) -> Moment {
    Moment {
        generation: world.object.metadata.generation,
        elapsed: world.elapsed,
        random: world.pass.random,
    }
}

fn poll_pause(world: &World) -> Duration {
    spread(POLL, POLL_SPREAD, world.pass.random)
}
