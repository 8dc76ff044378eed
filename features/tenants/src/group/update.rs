//! What a pass sends to a group of ours: one update, then its tags. Pure.

use std::time::Duration;

use api::tenants::{DriftPolicy, DriftedField, GroupBody};

use super::diff::{self, Update};
use super::found::LiveGroup;
use super::plan::SPREAD;
use super::{Step, World};
use crate::tags::{Tags, changes};

/// What we last sent to CloudFront; for a group that was found, its live state.
pub(super) fn last_applied(world: &World, seen: &LiveGroup<'_>) -> GroupBody {
    let object = &world.object;
    let is_accepted = object.status.observed_generation == object.metadata.generation;
    match &object.status.last_applied {
        Some(applied) if seen.is_recorded => applied.clone(),
        None if seen.is_recorded && is_accepted => world.facts.declared.clone(),
        Some(_) | None => diff::record(&seen.group.body, Tags::new()),
    }
}

/// The differences, and the update that removes them.
fn differences(world: &World, seen: &LiveGroup<'_>) -> diff::Plan {
    let last = match &world.memory.sent {
        // The status may lack our last write, if the object changed before that was recorded.
        Some((etag, sent)) if *etag == seen.group.etag => sent.clone(),
        Some(_) | None => diff::body(&last_applied(world, seen)),
    };
    let desired = diff::body(&world.facts.declared);
    diff::plan(&last, &seen.group.body, &desired, may_correct(world))
}

/// Whether drift may be corrected: at most once per interval, however often others cause it, but at once
/// if the status has not recorded this generation. Then it may be an earlier edit of the spec.
fn may_correct(world: &World) -> bool {
    let object = &world.object;
    let interval = world.facts.sweep.mul_f64(1.0 - SPREAD);
    let is_time = |at: Duration| world.elapsed.saturating_sub(at) >= interval;
    let is_edited = object.status.observed_generation != object.metadata.generation;
    world.facts.policy == DriftPolicy::Enforce
        && (is_edited || world.memory.corrected_at.is_none_or(is_time))
}

/// The drift that this pass found. None: it is unknown because an update had no effect.
pub(super) fn drift(world: &World, seen: &LiveGroup<'_>) -> Option<Vec<DriftedField>> {
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
/// | no                            | any                | that of [`differences`]               |
/// | yes                           | yes                | that of [`differences`] after a pause |
/// | yes                           | no                 | the same again after a pause          |
pub(super) fn update(world: &World, seen: &LiveGroup<'_>) -> Option<Step> {
    if world.observed.updated.is_some() {
        return None;
    }
    let ineffective = world.memory.ineffective.as_ref();
    let diff::Plan { update, drift } = differences(world, seen);
    let is_edit = update.as_ref().is_some_and(|update| update.edits);
    let (update, drift) = match ineffective {
        None => (update?, Some(drift)),
        Some(_) if is_edit => (update?, None),
        Some(ineffective) => (Update::again(ineffective.sent()), None),
    };
    let pause = ineffective.and_then(|one| one.remaining_pause(&update.body, world.elapsed));
    pause.is_none().then(|| Step::Update {
        id: seen.group.id.clone(),
        etag: seen.group.etag.clone(),
        update,
        drift,
    })
}

/// The step that sets or removes tags. Tags that neither spec nor record has stay.
pub(super) fn retag(world: &World, seen: &LiveGroup<'_>) -> Option<Step> {
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
