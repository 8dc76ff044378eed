//! What to do about a connection group. Pure.

use std::time::Duration;

use api::tenants::{DeletionPolicy, DriftPolicy, conditions, names, reasons};
use aws::Priority;
use aws::cloudfront::{Group, GroupBody as Body};
use engine::{Next, Stop};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kernel::{CallError, Class, Reason, spread};

use super::found::{FirstRead, Found, Seen, first_read, found, standing, unmet};
use super::update::{retag, update};
use super::{CreateIntent, Read, Step, World, diff, fault, status, users};
use crate::body::DEPLOYED;
use crate::ctx::UNSETTLED;
use crate::failure::{Says, Way, failure, slow};
use crate::tags::{Standing, Tags, Whose, at_creation};
use crate::trouble::{Moment, Trouble};

/// How often a group that changes is read, and how far that is spread.
const POLL: Duration = Duration::from_secs(30);
const POLL_SPREAD: f64 = 0.2;
/// How far comparisons and lists are spread around their interval.
pub(super) const SPREAD: f64 = 0.1;
/// Reads may miss a group for this long after its create.
const GRACE: Duration = Duration::from_secs(2 * 60);
/// A missing group is read a second time after this long.
const SECOND_READ: Duration = Duration::from_secs(30);
/// How long a name that is taken, perhaps by us, is only read.
const TAKEN: Duration = Duration::from_secs(5 * 60);

/// What comes next in a pass.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Decision {
    Read(Read),
    Step(Step),
    End(End),
}

/// The end of a pass, once no call is left to make.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct End {
    pub(super) how: Ending,
    /// When the next pass comes. None: by the engine's back-off, or the object goes.
    pub(super) after: Option<Duration>,
    /// The failures of the group, this pass included.
    pub(super) trouble: Trouble,
}

/// What is true of the group when a pass ends.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Ending {
    /// Nothing was read: a refusal holds it off, its time has not come, or other calls come first.
    Later,
    /// A list shows it as recorded.
    Steady,
    /// A read is older than our last write.
    Stale,
    /// A create may have been accepted, and no read shows the group yet.
    Unconfirmed,
    /// It was there, and this read does not show it. A second one decides.
    Missing,
    /// Someone else deleted it, and the drift policy leaves it so.
    LeftDeleted,
    /// It is ours, and all that can be sent is sent.
    Settled,
    /// It is not ours and stays as it is.
    NotOwned(Whose),
    Failed {
        error: CallError,
        says: Says,
    },
    /// To be deleted: tenants use it.
    InUse,
    /// To be deleted: a create may still show up.
    MayAppear,
    /// To be deleted: CloudFront switches it off, and this is how far.
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
/// | an end with a pause, Ready | lives      | done, and look again after it |
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
        let after = users::count_waits(world).map_or(after, |left| left.min(after));
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
        // Our view of AWS was old, not our object: the engine has nothing to wait for.
        Class::Stale => Class::Transient,
        class => class,
    };
    let reason = Reason::new(reasons::AWS_ERROR, error.message);
    Err(Stop::Failed { reason, class })
}

/// The end after a failed call, else [`first`] and then [`upkeep`] or [`removal`].
pub(super) fn decide(world: &World) -> Decision {
    if let Some(error) = &world.observed.error {
        return failed(world, error);
    }
    if !world.observed.has_begun
        && let Some(first) = first(world)
    {
        return first;
    }
    if world.object.is_deleting() {
        removal(world)
    } else {
        upkeep(world)
    }
}

/// What happens before CloudFront is asked. The first row that fits:
///
/// | the object | and                                         | so                         |
/// |------------|---------------------------------------------|----------------------------|
/// | lives      | no finalizer, or never announced            | create: announces it first |
/// | is deleted | deletionPolicy Retain, or the default group | released                   |
/// | is deleted | the cache of tenants is not read yet        | later                      |
/// | is deleted | tenants use it                              | in use                     |
/// | is deleted | never announced                             | released                   |
/// | any        | a refusal holds it off                      | later                      |
/// | lives      | [`first_read`] is not due                   | later                      |
/// | any        | any other                                   | CloudFront is asked        |
fn first(world: &World) -> Option<Decision> {
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
    let held = trouble(world).holds_back(&moment(world));
    let left = held.or(match first_read(world) {
        FirstRead::Later(left) => Some(left),
        FirstRead::List | FirstRead::Group(_) => None,
    })?;
    Some(end(world, Ending::Later, left))
}

/// A group whose object lives.
///
/// | found          | status names | and                                      | so                  |
/// |----------------|--------------|------------------------------------------|---------------------|
/// | not read       | no id        | just announced, nothing to adopt         | [`may_create`]      |
/// | not read       | any          | any other                                | read                |
/// | as in the list | its id       |                                          | steady              |
/// | a stale read   | any          |                                          | stale               |
/// | a group        | any          |                                          | [`toward`] the spec |
/// | nothing        | its id       |                                          | [`missing`]         |
/// | nothing        | no id        |                                          | [`may_create`]      |
/// | nothing        | no id        | name taken, perhaps by an earlier create | unconfirmed         |
/// | nothing        | no id        | name taken, surely by others             | failed              |
fn upkeep(world: &World) -> Decision {
    let (object, observed, memory) = (&world.object, &world.observed, &world.memory);
    if let Some(group) = &observed.created {
        return settled(world, group);
    }
    let has_id = object.status.id.is_some();
    let is_new = !has_id && is_fresh(world) && object.resource.spec.adoption.is_none();
    if is_new && !memory.doubted && observed.name_taken.is_none() {
        return may_create(world); // nobody can have made it since it was announced
    }
    match (found(world), &observed.name_taken) {
        (Found::Unread(read), _) => Decision::Read(read),
        (Found::Group(seen), _) => toward(world, &seen),
        (Found::Steady { .. } | Found::Stale | Found::Nothing, Some(refused)) => {
            if is_fresh(world) || memory.taken.is_some() {
                failed(world, refused)
            } else {
                end(world, Ending::Unconfirmed, soon(world))
            }
        }
        (Found::Steady { until }, None) => {
            let left = until.saturating_sub(world.elapsed);
            // A little later than the list is due, so that not all come at the same time.
            well(Ending::Steady, left + POLL.mul_f64(world.pass.random / 3.0))
        }
        (Found::Stale, None) => end(world, Ending::Stale, soon(world)),
        (Found::Nothing, None) if has_id => missing(world),
        (Found::Nothing, None) => may_create(world),
    }
}

/// A create, unless CloudFront refused one because the name is taken and no read shows by whom.
fn may_create(world: &World) -> Decision {
    let taken = world.memory.taken;
    if taken.is_some_and(|at| world.elapsed.saturating_sub(at) < TAKEN) {
        return end(world, Ending::Stale, soon(world));
    }
    create(world, world.object.status.create_requested_at.clone())
}

/// A create under the intent that status names, or under a new one: the engine saves that first.
fn create(world: &World, announced: Option<Time>) -> Decision {
    let facts = &world.facts;
    Decision::Step(Step::Create {
        name: facts.name.clone(),
        tags: at_creation(&facts.declared.tags, &facts.marker),
        body: diff::body(&facts.declared),
        intent: intent(world, announced),
    })
}

/// Status keeps times to the second.
fn intent(world: &World, announced: Option<Time>) -> CreateIntent {
    let now = Timestamp::from_second(world.now.as_second());
    let now = Time(now.expect("the second of a valid time is valid"));
    CreateIntent(announced.unwrap_or(now))
}

/// Whether nothing was sent under the intent that status names.
fn is_fresh(world: &World) -> bool {
    let saved = world.object.status.create_requested_at.as_ref();
    let mut fresh = world.fresh_intents.iter();
    saved.is_some_and(|saved| fresh.any(|CreateIntent(at)| at == saved))
}

/// Whether reads may miss a group that exists. Without a known time of its create the time runs from the
/// first read that missed it. A group that was seen Deployed is shown everywhere.
fn may_appear(world: &World) -> bool {
    let memory = &world.memory;
    let is_recent = |at: Duration| world.elapsed.saturating_sub(at) < GRACE;
    match memory.requested {
        _ if is_fresh(world) => false,
        Some(at) => is_recent(at),
        None if world.object.status.state.as_deref() == Some(DEPLOYED) => false,
        None => memory.missed.is_none_or(is_recent),
    }
}

/// A group that was there and is not shown.
///
/// | reported as deleted | missed                                | drift policy    | so           |
/// |---------------------|---------------------------------------|-----------------|--------------|
/// | no                  | first less than 30 s ago, or it is new| any             | missing      |
/// | any                 | any other                             | enforce         | create anew  |
/// | any                 | any other                             | report, suspend | left deleted |
fn missing(world: &World) -> Decision {
    // Before an update that finds nothing to change, the group was there.
    let missed = world.memory.missed;
    let missed = missed.filter(|_| world.observed.is_gone.is_none());
    let is_early = missed.is_none_or(|at| world.elapsed.saturating_sub(at) < SECOND_READ);
    if !is_reported_deleted(world) && (is_early || may_appear(world)) {
        return end(world, Ending::Missing, soon(world));
    }
    match world.facts.policy {
        DriftPolicy::Enforce => create(world, None),
        DriftPolicy::Report | DriftPolicy::Suspend => {
            blocked(world, Ending::LeftDeleted, reasons::EXTERNALLY_DELETED)
        }
    }
}

pub(super) fn is_reported_deleted(world: &World) -> bool {
    let reason = unmet(&world.object.conditions, conditions::READY);
    reason == Some(reasons::EXTERNALLY_DELETED)
}

/// | the group                                       | so                                      |
/// |-------------------------------------------------|-----------------------------------------|
/// | is not ours                                     | not owned                               |
/// | is adopted                                      | mark: a crash must not leave it unowned |
/// | is ours, an update found nothing to change      | read it: [`missing`], or failed         |
/// | is ours and needs an [`update`], or a [`retag`] | that                                    |
/// | is ours                                         | settled                                 |
fn toward(world: &World, seen: &Seen<'_>) -> Decision {
    let observed = &world.observed;
    match standing(world, seen) {
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

/// All that can be sent is sent.
fn settled(world: &World, group: &Group) -> Decision {
    let interval = spread(world.facts.sweep, SPREAD, world.pass.random);
    let known = world.memory.ineffective.as_ref();
    let waits = known.and_then(|known| known.holds_back(known.sent(), world.elapsed));
    let after = if group.status == DEPLOYED {
        waits.map_or(interval, |left| left.min(interval))
    } else {
        soon(world)
    };
    well(Ending::Settled, after)
}

/// A group whose object is deleted. What is sent is the live group switched off, so that nothing in the
/// spec can prevent it. The first row that fits:
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
/// | an enabled group, a disable of it had no effect     | disabling, until its time  |
/// | an enabled group                                    | disable                    |
/// | a disabled group that is not Deployed               | disabling                  |
/// | a disabled group                                    | delete                     |
fn removal(world: &World) -> Decision {
    let observed = &world.observed;
    if observed.has_done("delete") {
        return released(world, Release::Deleted);
    }
    if observed.has_done("disable") {
        return well(Ending::Disabling("it is being switched off"), soon(world));
    }
    let seen = match found(world) {
        Found::Unread(read) => return Decision::Read(read),
        Found::Nothing if may_appear(world) => return end(world, Ending::MayAppear, soon(world)),
        Found::Nothing => return released(world, Release::Deleted),
        Found::Stale | Found::Steady { .. } => return end(world, Ending::Stale, soon(world)),
        Found::Group(seen) => seen,
    };
    let group = seen.group;
    if let Standing::NotOwned(whose) = standing(world, &seen) {
        return released(world, Release::NotOwned(whose));
    }
    if group.is_default {
        return released(world, Release::DefaultGroup);
    }
    if observed.not_found.is_some() {
        return end(world, Ending::Stale, soon(world));
    }
    let (id, etag) = (group.id.clone(), group.etag.clone());
    if group.body.enabled {
        let body = Body {
            enabled: false,
            ..group.body.clone()
        };
        let known = world.memory.ineffective.as_ref();
        let waits = known.and_then(|known| known.holds_back(&body, world.elapsed));
        let how = "CloudFront took that it is to be switched off, and does not show it";
        return match waits {
            Some(left) => end(world, Ending::Disabling(how), left),
            None => Decision::Step(Step::Disable { id, etag, body }),
        };
    }
    if group.status != DEPLOYED {
        let how = "it is switched off, and CloudFront is deploying that";
        return well(Ending::Disabling(how), soon(world));
    }
    Decision::Step(Step::Delete { id, etag })
}

/// A call failed.
fn failed(world: &World, error: &CallError) -> Decision {
    if let Some(after) = error.retry_after {
        return end(world, Ending::Later, after); // our own limiter: it wakes the group
    }
    let mut trouble = trouble(world);
    let met = trouble.met(&failure(fault(error), Way::Group), &moment(world));
    let (error, says) = (error.clone(), met.says);
    Decision::End(End {
        how: Ending::Failed { error, says },
        after: met.after,
        trouble,
    })
}

/// A person has to act, though CloudFront refused nothing.
fn blocked(world: &World, how: Ending, reason: &'static str) -> Decision {
    let mut trouble = trouble(world);
    let after = Some(trouble.blocked(reason, &moment(world)));
    Decision::End(End {
        how,
        after,
        trouble,
    })
}

fn end(world: &World, how: Ending, after: Duration) -> Decision {
    let (after, trouble) = (Some(after), trouble(world));
    Decision::End(End {
        how,
        after,
        trouble,
    })
}

/// An end that also ends all trouble.
fn well(how: Ending, after: Duration) -> Decision {
    let (after, trouble) = (Some(after), Trouble::default());
    Decision::End(End {
        how,
        after,
        trouble,
    })
}

fn released(world: &World, why: Release) -> Decision {
    Decision::End(End {
        how: Ending::Released(why),
        after: None,
        trouble: trouble(world),
    })
}

/// The failures before this pass. A person who asks for a pass ends the hold-off.
pub(super) fn trouble(world: &World) -> Trouble {
    let mut trouble = world.memory.trouble.clone();
    if world.pass.is_urgent {
        trouble.forgive();
    }
    trouble
}

fn moment(world: &World) -> Moment {
    Moment {
        generation: world.object.metadata.generation,
        elapsed: world.elapsed,
        random: world.pass.random,
    }
}

fn soon(world: &World) -> Duration {
    spread(POLL, POLL_SPREAD, world.pass.random)
}
