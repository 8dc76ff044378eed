//! What is sent to a group of ours: one update a pass, then its tags. Pure.

use std::time::Duration;

use api::tenants::{DriftPolicy, DriftedField, GroupBody};

use super::diff::{self, Update};
use super::found::Seen;
use super::plan::SPREAD;
use super::{Step, World};
use crate::tags::{Tags, changes};

/// What CloudFront was last given; of a group that was found, what it has.
pub(super) fn last_applied(world: &World, seen: &Seen<'_>) -> GroupBody {
    let object = &world.object;
    let is_accepted = object.status.observed_generation == object.metadata.generation;
    match &object.status.last_applied {
        Some(applied) if seen.on_record => applied.clone(),
        None if seen.on_record && is_accepted => world.facts.declared.clone(),
        Some(_) | None => diff::record(&seen.group.body, Tags::new()),
    }
}

/// What differs, and what to send for it.
fn differences(world: &World, seen: &Seen<'_>) -> diff::Plan {
    let last = diff::body(&last_applied(world, seen));
    let desired = diff::body(&world.facts.declared);
    diff::plan(&last, &seen.group.body, &desired, may_correct(world))
}

/// Drift is corrected once an interval, however often others cause it.
fn may_correct(world: &World) -> bool {
    let interval = world.facts.sweep.mul_f64(1.0 - SPREAD);
    let is_time = |at: Duration| world.elapsed.saturating_sub(at) >= interval;
    world.facts.policy == DriftPolicy::Enforce && world.memory.corrected.is_none_or(is_time)
}

/// What others changed, as this pass found it. None: an update without effect hides it.
pub(super) fn drift(world: &World, seen: &Seen<'_>) -> Option<Vec<DriftedField>> {
    match (&world.observed.updated, &world.memory.ineffective) {
        (Some((_, drift)), _) => drift.clone(),
        (None, Some(_)) => None,
        (None, None) => Some(differences(world, seen).drift),
    }
}

/// The update that the group needs, if it may be sent now.
///
/// | earlier update without effect | the spec is edited | so                                    |
/// |-------------------------------|--------------------|---------------------------------------|
/// | no                            | any                | what [`differences`] say              |
/// | yes                           | yes                | what they say, unless it waits        |
/// | yes                           | no                 | the same again, once its wait is over |
pub(super) fn update(world: &World, seen: &Seen<'_>) -> Option<Step> {
    if world.observed.updated.is_some() {
        return None;
    }
    let known = world.memory.ineffective.as_ref();
    let diff::Plan { update, drift } = differences(world, seen);
    let is_edit = update.as_ref().is_some_and(|update| update.edits);
    let (update, drift) = match known {
        None => (update?, Some(drift)),
        Some(_) if is_edit => (update?, None),
        Some(known) => (Update::again(known.sent()), None),
    };
    let waits = known.and_then(|known| known.holds_back(&update.body, world.elapsed));
    waits.is_none().then(|| Step::Update {
        id: seen.group.id.clone(),
        etag: seen.group.etag.clone(),
        update,
        drift,
    })
}

/// Sets and removes tags; those that neither spec nor record has stay.
pub(super) fn retag(world: &World, seen: &Seen<'_>) -> Option<Step> {
    let (facts, observed) = (&world.facts, &world.observed);
    let last = last_applied(world, seen).tags;
    let declared = &facts.declared.tags;
    let changes = changes(&last, seen.tags, declared, &facts.marker, facts.policy);
    let arn = seen.group.arn.clone();
    if !changes.set.is_empty() && !observed.has_done("tag") {
        let tags = changes.set;
        return Some(Step::Tag { arn, tags });
    }
    let keys: Vec<_> = changes.remove.into_iter().collect();
    (!keys.is_empty() && !observed.has_done("untag")).then_some(Step::Untag { arn, keys })
}
