//! Status, conditions, events and error counts of a connection group, from the end of a pass.

use api::tenants::{ConnectionGroupStatus, DriftPolicy, DriftedField, conditions, events, reasons};
use aws::cloudfront::Group;
use engine::{Ended, Note, Report, Truth};
use kernel::{Class, Reason, find};

use super::found::{FoundGroup, LiveGroup, false_reason, found, ours};
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
    let mut report = step_events(world);
    match (ended, decide(world)) {
        (Ended::Previewed(_), _) => return (object.status.clone(), Report::default()),
        (Ended::Announcing(intents), _) => {
            if let Some(CreateIntent(at)) = intents.first() {
                // Status has an id, so the group was deleted outside.
                if object.status.id.is_some() {
                    report = deleted_outside(report, world);
                    clear_group(&mut status);
                }
                status.create_requested_at = Some(at.clone());
                let message = format!("connection group {} will be created", world.facts.name);
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

/// The status with what this pass has read and sent.
fn recorded(world: &World) -> ConnectionGroupStatus {
    let (facts, object) = (&world.facts, &world.object);
    let mut status = object.status.clone();
    let Some(seen) = ours(world) else {
        return status;
    };
    if !seen.is_recorded && !object.is_deleting() {
        clear_group(&mut status); // the recorded fields are of another group
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

/// Clears the fields of a group that is gone or replaced.
fn clear_group(status: &mut ConnectionGroupStatus) {
    let before = std::mem::take(status);
    status.tenants = before.tenants;
    status.create_requested_at = before.create_requested_at;
}

/// The events about the steps of this pass.
fn step_events(world: &World) -> Report {
    let (observed, group_name) = (&world.observed, group_name(world));
    let mut notes = Vec::new();
    let found = ours(world).filter(|seen| !seen.is_recorded && !world.object.is_deleting());
    if let Some(group) = found.map(|seen| live_name(seen.group)) {
        notes.push(if observed.created.is_some() {
            Note::normal(events::CREATED, format!("{group} was created"))
        } else if observed.has_done("mark") {
            let message = format!("{group} was adopted, as spec.adoption allows");
            Note::normal(events::ADOPTED, message)
        } else {
            let message = format!("{group} was found again by its marker");
            Note::normal(events::ADOPTED, message)
        });
    }
    if let Some((update, drift)) = &observed.updated {
        if update.corrects {
            let drift = told(drift.as_deref().unwrap_or_default());
            let message = format!("drift of {group_name} was corrected: {drift}");
            notes.push(Note::warning(events::DRIFT_CORRECTED, message));
        }
        if update.edits {
            let message = format!("{group_name} was updated to the spec");
            notes.push(Note::normal(events::UPDATED, message));
        }
    }
    if observed.has_done("disable") {
        let message = format!("{group_name} is disabled before it is deleted");
        notes.push(Note::normal(reasons::DISABLING, message));
    }
    notes.into_iter().fold(Report::default(), Report::event)
}

/// The name of the object's group in messages.
fn group_name(world: &World) -> String {
    let name = &world.facts.name;
    match &world.object.status.id {
        Some(id) => format!("connection group {name} ({id})"),
        None => format!("connection group {name}"),
    }
}

/// The name of a live group in messages.
fn live_name(group: &Group) -> String {
    format!("connection group {} ({})", group.name, group.id)
}

fn deleted_outside(report: Report, world: &World) -> Report {
    if is_reported_deleted(world) {
        return report;
    }
    let message = format!("{} was deleted in AWS", group_name(world));
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
            with_conditions(report, Says::Both(reasons::NOT_OWNED), &message)
        }
        Ending::LeftDeleted => {
            let message = format!(
                "{} was deleted in AWS and is not created again, because driftPolicy is {}; set it to \
                 enforce to create it again",
                group_name(world),
                world.facts.policy.as_str()
            );
            let reason = Reason::new(reasons::EXTERNALLY_DELETED, message);
            not_ready(deleted_outside(report, world), reason)
        }
        Ending::Failed { error, affected } if world.object.is_deleting() => {
            let message = format!("{} cannot be deleted yet: {error}", group_name(world));
            with_conditions(deleting(report, world), *affected, &message)
        }
        Ending::Failed { error, affected } => with_conditions(report, *affected, &error.message),
        Ending::InUse => not_ready(report, in_use(world)),
        Ending::MayAppear => {
            let message = "a create was sent a moment ago, and the group may still appear";
            not_ready(report, Reason::new(reasons::DELETING, message))
        }
        Ending::Disabling(progress) => {
            not_ready(report, Reason::new(reasons::DISABLING, *progress))
        }
    }
}

/// Reports that the group is being deleted, if it is disabled and Deployed.
fn deleting(report: Report, world: &World) -> Report {
    let group = ours(world).map(|seen| seen.group);
    let is_disabled = group.is_some_and(|group| !group.body.enabled && group.status == DEPLOYED);
    if !is_disabled {
        return report;
    }
    let message = "it is disabled everywhere and is being deleted";
    not_ready(report, Reason::new(reasons::DELETING, message))
}

/// Whether Ready is True after a pass that ends so, and its reason.
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
        None => (false, Reason::new(reasons::CREATING, "it will be created")),
    }
}

fn with_conditions(report: Report, affected: Says, message: &str) -> Report {
    match affected {
        Says::Nothing => report,
        Says::Ready(reason) | Says::Dns(reason) => not_ready(report, Reason::new(reason, message)),
        Says::Both(reason) => {
            let report = not_ready(report, Reason::new(reason, message));
            with_false(report, conditions::SYNCED, Reason::new(reason, message))
        }
    }
}

fn not_ready(report: Report, reason: Reason) -> Report {
    with_false(report, conditions::READY, reason)
}

/// Sets a condition to False. Adds a Warning, unless the reason only takes time or has its own event.
fn with_false(report: Report, kind: &'static str, reason: Reason) -> Report {
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
    let Some(LiveGroup { group, .. }) = ours(world) else {
        return report;
    };
    let observed = &world.observed;
    let report = if observed.has_done("tag") || observed.has_done("untag") {
        let message = format!("the tags of {} were updated to the spec", group_name(world));
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
    let not_effective = ineffective.map(Ineffective::reason);
    if let Some(reason) = not_effective.or_else(|| drifted(drift, world.facts.policy)) {
        return with_false(report, conditions::SYNCED, reason);
    }
    let is_pending = group.status != DEPLOYED && (has_written(world) || was_pending(world));
    let (code, message) = if is_pending {
        (
            reasons::UPDATE_PENDING,
            "CloudFront accepted the spec and is deploying it",
        )
    } else {
        (reasons::IN_SYNC, "the group in CloudFront equals the spec")
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
        "deployed and disabled: it serves no requests".to_owned()
    };
    Reason::new(reasons::DEPLOYED, message)
}

/// The reason while CloudFront deploys the group. It is the first deployment until an update is sent.
fn deploying(group: &Group, world: &World) -> Reason {
    let was_creating =
        false_reason(&world.object.conditions, conditions::READY) == Some(reasons::CREATING);
    let is_first =
        world.observed.created.is_some() || world.observed.updated.is_none() && was_creating;
    let (code, what) = if is_first {
        (reasons::CREATING, "was created")
    } else {
        (reasons::DEPLOYING, "was changed")
    };
    let group = live_name(group);
    Reason::new(
        code,
        format!("{group} {what} and CloudFront is deploying it"),
    )
}

/// The reason of Synced=False because of drift; none if there is none or it is ignored.
fn drifted(drift: &[DriftedField], policy: DriftPolicy) -> Option<Reason> {
    if drift.is_empty() {
        return None;
    }
    match policy {
        DriftPolicy::Enforce => {
            let drift = told(drift);
            let message =
                format!("changed in AWS again: {drift}; it is corrected at the next check");
            Some(Reason::new(reasons::DRIFT_DETECTED, message))
        }
        DriftPolicy::Report => Some(drift_reason(drift, policy)),
        DriftPolicy::Suspend => None,
    }
}

/// The name of the group that was found, in messages.
fn found_group(world: &World) -> String {
    match found(world) {
        FoundGroup::Group(seen) => live_name(seen.group),
        FoundGroup::Unread(_)
        | FoundGroup::Steady { .. }
        | FoundGroup::Stale
        | FoundGroup::Nothing => group_name(world),
    }
}

/// Why the operator does not change a group that it found.
fn not_owned(group: &str, whose: &Whose) -> String {
    match whose {
        Whose::Other(owner) => format!(
            "{group} belongs to {owner}; create this object again with another spec.groupName, or \
             delete the group in AWS"
        ),
        Whose::Ours | Whose::Unmarked => format!(
            "{group} exists already and has no marker of Pontoon; set spec.adoption.by to Name to \
             adopt it, or create this object again with another spec.groupName"
        ),
    }
}

/// Why the group cannot be deleted yet.
fn in_use(world: &World) -> Reason {
    let users = world.facts.users.using.iter();
    let users: Vec<_> = users.map(ToString::to_string).collect();
    let message = format!(
        "DistributionTenants use it: {}; it is deleted when they are gone or in another group",
        few(&users)
    );
    Reason::new(reasons::IN_USE, message)
}

/// The event about the group when the object goes.
fn released(world: &World, why: &Release) -> Note {
    let (group_name, found_group) = (group_name(world), found_group(world));
    let (event, message) = match why {
        Release::Retained => (
            events::RETAINED,
            format!("{group_name} stays in CloudFront, as deletionPolicy is Retain"),
        ),
        Release::DefaultGroup => (
            events::RETAINED,
            format!("{group_name} stays in CloudFront, as it is the account's default group"),
        ),
        Release::NeverRequested => {
            let message = "the group was never created in CloudFront";
            (events::DELETED, message.to_owned())
        }
        Release::Deleted => (
            events::DELETED,
            format!("{group_name} was deleted from CloudFront"),
        ),
        Release::NotOwned(Whose::Other(owner)) => {
            let message = format!("{found_group} stays in CloudFront, as it belongs to {owner}");
            return Note::warning(events::OWNERSHIP_LOST, message);
        }
        Release::NotOwned(Whose::Ours | Whose::Unmarked) => (
            events::RETAINED,
            format!("{found_group} stays in CloudFront, as it was never ours"),
        ),
    };
    Note::normal(event, message)
}

/// The `error_type` label that this pass counts.
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
    // A request that our client refuses to send is no error of AWS.
    let is_sent = error.class != Class::Invalid || error.code.is_some();
    let counted = failure(fault(error), Way::Group).counted;
    counted.filter(|_| is_sent)
}

/// Whether there is drift that status does not have yet.
pub(super) fn has_new_drift(world: &World) -> bool {
    if world.object.is_deleting() || world.observed.created.is_some() {
        return false;
    }
    let drift = ours(world).and_then(|seen| drift(world, &seen));
    drift.is_some_and(|drift| !drift.is_empty() && drift != world.object.status.drift)
}
