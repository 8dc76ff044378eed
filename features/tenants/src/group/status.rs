//! Status, conditions, events and counts of a connection group, from world and outcome.

use api::tenants::{ConnectionGroupStatus, DriftPolicy, DriftedField, conditions, events, reasons};
use aws::cloudfront::Group;
use engine::{Ended, Note, Report, Truth};
use kernel::{Class, Reason, find};

use super::found::{Found, Seen, found, ours, unmet};
use super::ineffective::Ineffective;
use super::plan::{Decision, End, Ending, Release, decide, is_reported_deleted};
use super::update::{drift, last_applied, retag, update};
use super::{CreateIntent, World, diff, fault, users};
use crate::body::DEPLOYED;
use crate::diff::{drift_reason, told};
use crate::failure::{Says, Way, failure};
use crate::tags::Whose;
use crate::words::few;

/// | ended              | recorded                                  | conditions                       |
/// |--------------------|-------------------------------------------|----------------------------------|
/// | announcing         | the intent, and no group                  | Ready=False, Creating            |
/// | a group of ours    | what it shows, and what it was given      | by [`conditions_after`]          |
/// | settled            | that, and the generation                  | by [`conditions_after`]          |
/// | any other          | as before                                 | by [`conditions_after`]          |
/// | a dry run          | as before                                 | as before                        |
pub(super) fn status(
    world: &World,
    ended: &Ended<CreateIntent>,
) -> (ConnectionGroupStatus, Report) {
    let object = &world.object;
    let mut status = recorded(world);
    let mut report = happened(world);
    match (ended, decide(world)) {
        (Ended::Previewed(_), _) => return (object.status.clone(), Report::default()),
        (Ended::Announcing(intents), _) => {
            if let Some(CreateIntent(at)) = intents.first() {
                // With an id on record, it was deleted outside.
                if object.status.id.is_some() {
                    report = deleted_outside(report, world);
                    forget(&mut status);
                }
                status.create_requested_at = Some(at.clone());
                let message = format!("connection group {} is to be made", world.facts.name);
                report = not_ready(report, Reason::new(reasons::CREATING, message));
            }
        }
        (Ended::Done { .. } | Ended::Stopped(_), Decision::End(end)) => {
            if end.how == Ending::Settled {
                status.observed_generation = object.metadata.generation;
            }
            report = conditions_after(report, world, &end, &status);
        }
        (Ended::Stopped(stop), Decision::Read(_) | Decision::Step(_)) => {
            report = not_ready(report, stop.reason().clone());
        }
        (Ended::Done { .. }, Decision::Read(_) | Decision::Step(_)) => {}
    }
    if users::is_count_due(world, ended) {
        status.tenants = users::count(world);
    }
    (status, report)
}

/// The status with what this pass has seen and sent.
fn recorded(world: &World) -> ConnectionGroupStatus {
    let (facts, object) = (&world.facts, &world.object);
    let mut status = object.status.clone();
    let Some(seen) = ours(world) else {
        return status;
    };
    if !seen.on_record && !object.is_deleting() {
        forget(&mut status); // what is on record is of another group
    }
    let group = seen.group;
    status.id = Some(group.id.clone());
    status.arn = Some(group.arn.clone());
    status.e_tag = Some(group.etag.clone());
    status.routing_endpoint = Some(group.routing_endpoint.clone());
    status.state = Some(group.status.clone());
    status.is_default = Some(group.is_default);
    if object.is_deleting() {
        return status;
    }
    if world.observed.created.is_some() {
        status.last_applied = Some(facts.declared.clone());
        return status;
    }
    let updated = world.observed.updated.as_ref();
    if updated.is_some_and(|(update, _)| update.corrects) {
        status.drift = Vec::new();
    } else if let Some(drift) = drift(world, &seen) {
        status.drift = drift;
    }
    if update(world, &seen).is_none() {
        let is_tagged = retag(world, &seen).is_none();
        let tags = if is_tagged {
            facts.declared.tags.clone()
        } else {
            last_applied(world, &seen).tags
        };
        status.last_applied = Some(diff::record(&diff::body(&facts.declared), tags));
    }
    status
}

/// The group is gone, or it is another one.
fn forget(status: &mut ConnectionGroupStatus) {
    let before = std::mem::take(status);
    status.tenants = before.tenants;
    status.create_requested_at = before.create_requested_at;
}

/// What this pass did, as events.
fn happened(world: &World) -> Report {
    let (observed, called) = (&world.observed, called(world));
    let mut notes = Vec::new();
    let found = ours(world).filter(|seen| !seen.on_record && !world.object.is_deleting());
    if let Some(group) = found.map(|seen| named(seen.group)) {
        notes.push(if observed.created.is_some() {
            Note::normal(events::CREATED, format!("{group} was made"))
        } else if observed.has_done("mark") {
            let message = format!("{group} is this one: spec.adoption says so");
            Note::normal(events::ADOPTED, message)
        } else {
            let message = format!("{group} is this one: it carries our marker");
            Note::normal(events::ADOPTED, message)
        });
    }
    if let Some((update, drift)) = &observed.updated {
        if update.corrects {
            let drift = told(drift.as_deref().unwrap_or_default());
            let message = format!("{called} was changed in AWS, which is undone: {drift}");
            notes.push(Note::warning(events::DRIFT_CORRECTED, message));
        }
        if update.edits {
            let message = format!("{called} was given what the spec says");
            notes.push(Note::normal(events::UPDATED, message));
        }
    }
    if observed.has_done("disable") {
        let message = format!("{called} is switched off before it is deleted");
        notes.push(Note::normal(reasons::DISABLING, message));
    }
    notes.into_iter().fold(Report::default(), Report::event)
}

/// The group as messages name it.
fn called(world: &World) -> String {
    let name = &world.facts.name;
    match &world.object.status.id {
        Some(id) => format!("connection group {name} ({id})"),
        None => format!("connection group {name}"),
    }
}

fn named(group: &Group) -> String {
    format!("connection group {} ({})", group.name, group.id)
}

fn deleted_outside(report: Report, world: &World) -> Report {
    if is_reported_deleted(world) {
        return report;
    }
    let message = format!("{} was deleted in AWS", called(world));
    report.event(Note::warning(events::EXTERNAL_DELETION, message))
}

/// | the pass ended              | Ready                       | Synced                       |
/// |-----------------------------|-----------------------------|------------------------------|
/// | settled, Deployed           | True, Deployed              | by [`synced`]                |
/// | settled, InProgress         | False, Creating, Deploying  | by [`synced`]                |
/// | not owned                   | False, NotOwned             | False, NotOwned              |
/// | left deleted                | False, ExternallyDeleted    | as before                    |
/// | failed                      | as the error says           | as the error says            |
/// | in use                      | False, InUse                | as before                    |
/// | may appear                  | False, Deleting             | as before                    |
/// | disabling                   | False, Disabling            | as before                    |
/// | any other                   | as before                   | as before                    |
fn conditions_after(
    report: Report,
    world: &World,
    end: &End,
    status: &ConnectionGroupStatus,
) -> Report {
    match &end.how {
        Ending::Later | Ending::Steady | Ending::Stale | Ending::Unconfirmed | Ending::Missing => {
            report
        }
        Ending::Released(why) => report.event(released(world, why)),
        Ending::Settled => settled(report, world, status),
        Ending::NotOwned(whose) => {
            let message = not_owned(&found_group(world), whose);
            says(report, Says::Both(reasons::NOT_OWNED), &message)
        }
        Ending::LeftDeleted => {
            let message = format!(
                "{} was deleted in AWS and is left so, because driftPolicy is {}; set it to enforce \
                 to have it made anew",
                called(world),
                world.facts.policy.as_str()
            );
            let reason = Reason::new(reasons::EXTERNALLY_DELETED, message);
            not_ready(deleted_outside(report, world), reason)
        }
        Ending::Failed { error, says: what } if world.object.is_deleting() => {
            let message = format!("{} cannot be deleted yet: {error}", called(world));
            says(deleting(report, world), *what, &message)
        }
        Ending::Failed { error, says: what } => says(report, *what, &error.message),
        Ending::InUse => not_ready(report, in_use(world)),
        Ending::MayAppear => {
            let message = "CloudFront was asked for it a moment ago and may still make it";
            not_ready(report, Reason::new(reasons::DELETING, message))
        }
        Ending::Disabling(how) => not_ready(report, Reason::new(reasons::DISABLING, *how)),
    }
}

/// Says that the delete was due, if it was.
fn deleting(report: Report, world: &World) -> Report {
    let group = ours(world).map(|seen| seen.group);
    let is_off = group.is_some_and(|group| !group.body.enabled && group.status == DEPLOYED);
    if !is_off {
        return report;
    }
    let message = "it is switched off everywhere and is being deleted";
    not_ready(report, Reason::new(reasons::DELETING, message))
}

/// Ready after a pass that ends so, and why.
pub(super) fn ready(world: &World, end: &End) -> (bool, Reason) {
    let report = conditions_after(Report::default(), world, end, &recorded(world));
    if let Some((truth, reason)) = report.get(conditions::READY) {
        return (truth == Truth::True, reason.clone());
    }
    match find(&world.object.conditions, conditions::READY) {
        Some(ready) => {
            let reason = Reason::new(ready.reason.clone(), ready.message.clone());
            (ready.status == "True", reason)
        }
        None => (false, Reason::new(reasons::CREATING, "it is to be made")),
    }
}

fn says(report: Report, says: Says, message: &str) -> Report {
    match says {
        Says::Nothing => report,
        Says::Ready(reason) | Says::Dns(reason) => not_ready(report, Reason::new(reason, message)),
        Says::Both(reason) => {
            let report = not_ready(report, Reason::new(reason, message));
            no(report, conditions::SYNCED, Reason::new(reason, message))
        }
    }
}

fn not_ready(report: Report, reason: Reason) -> Report {
    no(report, conditions::READY, reason)
}

/// A condition that does not hold is worth a Warning, unless it only takes time or has its own event.
fn no(report: Report, kind: &'static str, reason: Reason) -> Report {
    let is_quiet = [
        reasons::CREATING,
        reasons::DEPLOYING,
        reasons::DISABLING,
        reasons::DELETING,
        reasons::EXTERNALLY_DELETED,
    ]
    .contains(&&*reason.code);
    let note = Note::warning(reason.code.clone(), reason.message.clone());
    let report = report.condition(kind, false, reason);
    if is_quiet {
        report
    } else {
        report.event_on_new_message(kind, note)
    }
}

/// Ready and Synced of a group that is ours.
fn settled(report: Report, world: &World, status: &ConnectionGroupStatus) -> Report {
    let Some(Seen { group, .. }) = ours(world) else {
        return report;
    };
    let observed = &world.observed;
    let report = if observed.has_done("tag") || observed.has_done("untag") {
        let message = format!("{} was given the tags of the spec", called(world));
        report.event(Note::normal(events::UPDATED, message))
    } else {
        report
    };
    let report = if group.status == DEPLOYED {
        report.condition(conditions::READY, true, deployed(group))
    } else {
        not_ready(report, deploying(group, world))
    };
    synced(report, world, group, &status.drift)
}

/// | update without effect | drift, policy   | deployed | our write      | Synced                     |
/// |-----------------------|-----------------|----------|----------------|----------------------------|
/// | yes                   | any             | any      | any            | False, UpdateNotEffective  |
/// | no                    | enforce, report | any      | any            | False, DriftDetected       |
/// | no                    | none, suspend   | no       | yes            | True, UpdatePending        |
/// | no                    | none, suspend   | any      | any other      | True, InSync               |
fn synced(report: Report, world: &World, group: &Group, drift: &[DriftedField]) -> Report {
    let ineffective = world.memory.ineffective.as_ref();
    let lacking = ineffective.map(Ineffective::reason);
    if let Some(reason) = lacking.or_else(|| drifted(drift, world.facts.policy)) {
        return no(report, conditions::SYNCED, reason);
    }
    let is_pending = group.status != DEPLOYED && (has_written(world) || was_pending(world));
    let (code, message) = if is_pending {
        (
            reasons::UPDATE_PENDING,
            "CloudFront took what the spec says and is deploying it",
        )
    } else {
        (reasons::IN_SYNC, "CloudFront has what the spec says")
    };
    report.condition(conditions::SYNCED, true, Reason::new(code, message))
}

fn has_written(world: &World) -> bool {
    world.observed.created.is_some() || world.observed.updated.is_some()
}

fn was_pending(world: &World) -> bool {
    let synced = find(&world.object.conditions, conditions::SYNCED);
    synced.is_some_and(|synced| synced.reason == reasons::UPDATE_PENDING)
}

fn deployed(group: &Group) -> Reason {
    let message = if group.body.enabled {
        format!(
            "deployed; DNS records of tenants point to {}",
            group.routing_endpoint
        )
    } else {
        "deployed and disabled: no request comes through".to_owned()
    };
    Reason::new(reasons::DEPLOYED, message)
}

/// It is the first deployment until something else is sent.
fn deploying(group: &Group, world: &World) -> Reason {
    let was_creating =
        unmet(&world.object.conditions, conditions::READY) == Some(reasons::CREATING);
    let is_first =
        world.observed.created.is_some() || world.observed.updated.is_none() && was_creating;
    let (code, what) = if is_first {
        (reasons::CREATING, "was made")
    } else {
        (reasons::DEPLOYING, "was changed")
    };
    let group = named(group);
    Reason::new(
        code,
        format!("{group} {what} and CloudFront is deploying it"),
    )
}

/// Why drift keeps it from being in sync.
fn drifted(drift: &[DriftedField], policy: DriftPolicy) -> Option<Reason> {
    if drift.is_empty() {
        return None;
    }
    match policy {
        DriftPolicy::Enforce => {
            let drift = told(drift);
            let message = format!("changed in AWS again: {drift}; undone at the next look");
            Some(Reason::new(reasons::DRIFT_DETECTED, message))
        }
        DriftPolicy::Report => Some(drift_reason(drift, policy)),
        DriftPolicy::Suspend => None,
    }
}

/// The group that was found, as messages name it.
fn found_group(world: &World) -> String {
    match found(world) {
        Found::Group(seen) => named(seen.group),
        Found::Unread(_) | Found::Steady { .. } | Found::Stale | Found::Nothing => called(world),
    }
}

/// Why a group that was found is left alone.
fn not_owned(group: &str, whose: &Whose) -> String {
    match whose {
        Whose::Other(owner) => format!(
            "{group} belongs to {owner}; make this object anew with another spec.groupName, or \
             delete the group there"
        ),
        Whose::Ours | Whose::Unmarked => format!(
            "{group} is there already and carries no marker of Pontoon; set spec.adoption.by to \
             Name to take it over, or make this object anew with another spec.groupName"
        ),
    }
}

/// Why it cannot be deleted yet.
fn in_use(world: &World) -> Reason {
    let users = world.facts.users.using.iter();
    let users: Vec<_> = users.map(ToString::to_string).collect();
    let message = format!(
        "DistributionTenants use it: {}; it is deleted once they are gone or in another group",
        few(&users)
    );
    Reason::new(reasons::IN_USE, message)
}

/// What becomes of the group when the object goes.
fn released(world: &World, why: &Release) -> Note {
    let (called, group) = (called(world), found_group(world));
    let (event, message) = match why {
        Release::Retained => (
            events::RETAINED,
            format!("{called} stays in CloudFront, as deletionPolicy is Retain"),
        ),
        Release::DefaultGroup => (
            events::RETAINED,
            format!("{called} stays in CloudFront, as it is the account's default group"),
        ),
        Release::NeverRequested => {
            let message = "nothing of it was ever asked of CloudFront";
            (events::DELETED, message.to_owned())
        }
        Release::Deleted => (events::DELETED, format!("{called} is gone from CloudFront")),
        Release::NotOwned(Whose::Other(owner)) => {
            let message = format!("{group} belongs to {owner} and was left alone");
            return Note::warning(events::OWNERSHIP_LOST, message);
        }
        Release::NotOwned(Whose::Ours | Whose::Unmarked) => (
            events::RETAINED,
            format!("{group} was never ours and was left alone"),
        ),
    };
    Note::normal(event, message)
}

/// The value of `error_type` that this pass counts.
pub(super) fn counted(world: &World) -> Option<&'static str> {
    let Decision::End(end) = decide(world) else {
        return None;
    };
    let error = if let Ending::Failed { error, .. } = &end.how {
        error
    } else if let Ending::NotOwned(_) = &end.how {
        world.observed.name_taken.as_ref()?
    } else {
        return None;
    };
    // What our client refuses to send is no error of AWS.
    let is_sent = error.class != Class::Invalid || error.code.is_some();
    let counted = failure(fault(error), Way::Group).counted;
    counted.filter(|_| is_sent)
}

/// Whether others changed the group otherwise than status names.
pub(super) fn has_new_drift(world: &World) -> bool {
    if world.object.is_deleting() || world.observed.created.is_some() {
        return false;
    }
    let drift = ours(world).and_then(|seen| drift(world, &seen));
    drift.is_some_and(|drift| !drift.is_empty() && drift != world.object.status.drift)
}
