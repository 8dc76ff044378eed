//! What somebody else has changed under a run: the reason to hold. Pure.
//!
//! The record says what both clusters should look like. One difference is ours: the change whose intent is
//! saved may have happened without being recorded.

use api::migrate::{
    HoldReason, Location, OrdinalRecord, StatefulSetMigrationStatus, StepName, Strategy,
};

use serde_json::json;

use super::decision::{Change, Interference, ObjectKind, Step, Target};
use super::handover::Direction;
use super::observation::{ClusterState, Observation, SetState, Side};
use super::orphan::recreated_by_others;
use crate::record::lock::LockOwnership;
use crate::translate::window::Window;

/// A run, as its record describes it.
#[derive(Debug, Clone)]
pub struct Run<'a> {
    /// The record.
    pub record: &'a StatefulSetMigrationStatus,
    /// The id of the run.
    pub id: &'a str,
    /// The name of the StatefulSet.
    pub set: &'a str,
    /// Which way ordinals go now.
    pub direction: Direction,
    /// Whether the StatefulSet of the destination should exist.
    pub is_prepared: bool,
    /// What was read.
    pub observation: &'a Observation,
}

/// The first interference, from what concerns all to what concerns one ordinal:
///
/// | found                                                                   | reason              |
/// |-------------------------------------------------------------------------|---------------------|
/// | a kubeconfig leads to another cluster                                   | IdentityChanged     |
/// | a lock is missing or of another run                                     | LockLost            |
/// | no StatefulSet in the source, or a deleted one, not by this run         | SourceVanished      |
/// | a StatefulSet in the source with another UID                            | SourceRecreated     |
/// | a StatefulSet in the source although this run has deleted it            | SourceRecreated     |
/// | its template is not the captured one                                    | SourceEdited        |
/// | it runs an ordinal that it has given away, or one beyond the record     | SourceWidened       |
/// | no StatefulSet in the destination, another's, or one being deleted      | DestinationConflict |
/// | its template is not the recorded one                                    | DestinationEdited   |
/// | its ordinals are not the recorded ones                                  | DestinationDrift    |
pub fn found(run: &Run<'_>) -> Option<Interference> {
    identity(run)
        .or_else(|| lock(run))
        .or_else(|| source(run))
        .or_else(|| destination(run))
}

/// Whether the ordinal in motion may be finished although somebody interferes: it is past the fence, and no
/// change against the intruder is left.
///
/// | interference in | ordinal in motion                 | finished |
/// |-----------------|-----------------------------------|----------|
/// | any             | not past the fence                | no       |
/// | the old cluster | past the fence                    | yes      |
/// | the new cluster | past the fence, not yet grown     | no       |
/// | the new cluster | grown: attach and ready only wait | yes      |
/// | both            | any                               | no       |
pub fn may_finish(hold: &Interference, direction: Direction, step: StepName) -> bool {
    let Some(side) = intruded(hold.reason) else {
        return false;
    };
    let (fence, grow) = match direction {
        Direction::Forward => (StepName::Fence, StepName::Grow),
        Direction::Back => (StepName::RUnfence, StepName::RGrow),
    };
    if side == direction.from() {
        step > fence
    } else {
        step > grow
    }
}

/// The cluster that somebody interferes in; none if both are concerned.
fn intruded(reason: HoldReason) -> Option<Side> {
    match reason {
        HoldReason::SourceWidened
        | HoldReason::SourceRecreated
        | HoldReason::SourceVanished
        | HoldReason::SourceEdited => Some(Side::Source),
        HoldReason::DestinationDrift
        | HoldReason::DestinationEdited
        | HoldReason::DestinationConflict
        | HoldReason::DestExtraClaims => Some(Side::Destination),
        HoldReason::FenceContended
        | HoldReason::ForeignConsumer
        | HoldReason::UncleanDetach
        | HoldReason::VolumeMissing
        | HoldReason::LockLost
        | HoldReason::IdentityChanged => None,
    }
}

impl Run<'_> {
    fn cluster(&self, side: Side) -> &ClusterState {
        self.observation.cluster(side)
    }

    fn on_hold(&self, reason: HoldReason, message: String) -> Interference {
        Interference {
            reason,
            ordinal: self.moving().map(|record| record.ordinal),
            message,
        }
    }

    fn moving(&self) -> Option<&OrdinalRecord> {
        let mut ordinals = self.record.ordinals.iter();
        ordinals.find(|record| record.location == Location::Moving)
    }

    /// The ordinals of the StatefulSet before the migration.
    fn window(&self) -> Option<Window> {
        let window = self.record.window.as_ref()?;
        Some(Window {
            start: window.start,
            replicas: window.replicas,
        })
    }

    fn has_intent(&self, step: StepName) -> bool {
        let intent = self.record.intent.as_ref();
        intent.is_some_and(|intent| intent.step == step)
    }

    /// Whether a cluster may run the ordinal in motion, and whether it may not.
    ///
    /// | the ordinal is at      | before the change | at it, or its intent is saved | after it |
    /// |------------------------|-------------------|-------------------------------|----------|
    /// | the old cluster runs it | must             | may                           | must not |
    /// | the new cluster runs it | must not         | may                           | must     |
    ///
    /// Before the claims of the source are restored, the operator itself narrows a source that was widened.
    fn may_run(&self, side: Side, record: &OrdinalRecord) -> (bool, bool) {
        let (release, grow) = match self.direction {
            Direction::Forward => (StepName::Release, StepName::Grow),
            Direction::Back => (StepName::RRelease, StepName::RGrow),
        };
        let is_old = side == self.direction.from();
        let change = if is_old { release } else { grow };
        let at = record.step.unwrap_or(release);
        if at.is_rollback() != (self.direction == Direction::Back) {
            return (true, true); // the direction has just changed: the record has no step of it yet
        }
        let is_narrowed = !is_old && at == StepName::RUnfence;
        if at == change || self.has_intent(change) || is_narrowed {
            return (true, true);
        }
        let has_changed = at > change;
        (is_old != has_changed, is_old == has_changed)
    }

    /// How many ordinals of the window have left the source: the fewest and the most that the record allows.
    fn moved(&self, side: Side, window: Window) -> std::ops::RangeInclusive<i32> {
        let of_window = |record: &&OrdinalRecord| window.contains(record.ordinal);
        let ordinals = self.record.ordinals.iter().filter(of_window);
        let arrived = ordinals
            .filter(|record| record.location == Location::Destination)
            .count();
        let arrived = i32::try_from(arrived).unwrap_or(i32::MAX);
        let Some(moving) = self
            .moving()
            .filter(|record| window.contains(record.ordinal))
        else {
            return arrived..=arrived;
        };
        let (may_run, may_not) = self.may_run(side, moving);
        // An ordinal that the source does not run has left it; one that the destination runs has arrived.
        let (may_count, may_not_count) = match side {
            Side::Source => (may_not, may_run),
            Side::Destination => (may_run, may_not),
        };
        let fewest = if may_not_count { arrived } else { arrived + 1 };
        let most = if may_count { arrived + 1 } else { arrived };
        fewest..=most
    }
}

/// A kubeconfig that leads to another cluster than the recorded one.
pub(super) fn identity(run: &Run<'_>) -> Option<Interference> {
    let recorded = |side| match side {
        Side::Source => run.record.source_cluster_uid.as_deref(),
        Side::Destination => run.record.dest_cluster_uid.as_deref(),
    };
    let changed = Side::BOTH.into_iter().find(|side| {
        let seen = run.cluster(*side).identity.as_deref();
        seen.is_some() && recorded(*side).is_some() && seen != recorded(*side)
    })?;
    let message = format!(
        "the kubeconfig of the {changed} leads to cluster {}, need {}; put the right kubeconfig into its Secret",
        run.cluster(changed).identity.as_deref().unwrap_or_default(),
        recorded(changed).unwrap_or_default(),
    );
    Some(run.on_hold(HoldReason::IdentityChanged, message))
}

/// A lock that is missing, or of another run.
pub(super) fn lock(run: &Run<'_>) -> Option<Interference> {
    let (lost, found) = Side::BOTH.into_iter().find_map(|side| {
        let found = match &run.cluster(side).lock {
            LockOwnership::Ours => return None,
            LockOwnership::Missing => "no lock".to_owned(),
            LockOwnership::Foreign(owner) => format!("the lock of {owner}"),
        };
        Some((side, found))
    })?;
    let message = format!(
        "the {lost} has {found} of StatefulSet {}, need the one of run {}; remove the other run's with \
         `pontoon migrate audit --release`, or restore ours with `pontoon migrate journal --restore`",
        run.set, run.id
    );
    Some(run.on_hold(HoldReason::LockLost, message))
}

fn source(run: &Run<'_>) -> Option<Interference> {
    let recorded = run.record.source_stateful_set_uid.as_deref();
    let is_forward = run.direction == Direction::Forward;
    let is_orphan = run.record.strategy == Some(Strategy::OrphanAdopt);
    let Some(set) = &run.cluster(Side::Source).set else {
        return (!run.record.orphan_started).then(|| vanished(run));
    };
    if run.record.orphan_started || (is_orphan && is_forward) {
        return Some(recreated_by_others(set, run.set));
    }
    if set.is_terminating {
        return Some(vanished(run));
    }
    if recorded.is_some_and(|uid| uid != set.version.uid) && !is_of_rollback(run, set) {
        return Some(recreated_by_others(set, run.set));
    }
    if let Some(hold) = edited_in(run, Side::Source) {
        return Some(hold);
    }
    let live = set.window();
    let allowed = surplus(run, set)?;
    let message = format!(
        "StatefulSet {} in the source has {live}, need {allowed}; set it back and raise spec.retry",
        run.set
    );
    Some(run.on_hold(HoldReason::SourceWidened, message))
}

/// A template that is not the recorded one.
pub(super) fn edited(run: &Run<'_>) -> Option<Interference> {
    Side::BOTH.into_iter().find_map(|side| edited_in(run, side))
}

fn edited_in(run: &Run<'_>, side: Side) -> Option<Interference> {
    let set = run.cluster(side).set.as_ref()?;
    let capture = run.record.capture.as_ref()?;
    let (reason, recorded) = match side {
        Side::Source => (HoldReason::SourceEdited, Some(&capture.template_sha256)),
        Side::Destination => (
            HoldReason::DestinationEdited,
            capture.dest_template_sha256.as_ref(),
        ),
    };
    let message = || edited_template(run.set, side, &set.edits);
    let is_edited = recorded.is_some_and(|recorded| *recorded != set.template_hash);
    is_edited.then(|| run.on_hold(reason, message()))
}

/// The message of a hold about an edited template. `edits` has the fields with their values.
pub(super) fn edited_template(set: &str, side: Side, edits: &str) -> String {
    format!(
        "the template of StatefulSet {set} in the {side} was edited ({edits}); undo the edit and raise spec.retry"
    )
}

/// The widest window that the source may have, if it has a wider one.
fn surplus(run: &Run<'_>, set: &SetState) -> Option<Window> {
    let window = run.window()?;
    let fewest = *run.moved(Side::Source, window).start();
    let allowed = Window {
        start: window.start + fewest,
        replicas: window.replicas - fewest,
    };
    let is_wider = |ordinal| !allowed.contains(ordinal);
    set.window().ordinals().any(is_wider).then_some(allowed)
}

/// The change that takes ordinals from the source which it has given away. Only of the StatefulSet of the run.
pub fn narrowed(run: &Run<'_>, namespace: &str) -> Option<Step> {
    let set = run.cluster(Side::Source).set.as_ref()?;
    let recorded = run.record.source_stateful_set_uid.as_ref();
    if (recorded != Some(&set.version.uid) && !is_of_rollback(run, set)) || set.is_terminating {
        return None;
    }
    let allowed = surplus(run, set)?;
    Some(Step {
        name: StepName::Narrow,
        ordinal: None,
        change: Change::Patch {
            side: Side::Source,
            target: Target {
                kind: ObjectKind::StatefulSet,
                namespace: Some(namespace.to_owned()),
                name: run.set.to_owned(),
                version: set.version.clone(),
            },
            patch: json!({"spec": {"ordinals": {"start": allowed.start}, "replicas": allowed.replicas}}),
        },
    })
}

/// Another UID is accepted in a rollback alone, and only with our marker.
fn vanished(run: &Run<'_>) -> Interference {
    let count = run
        .window()
        .map_or(0, |window| *run.moved(Side::Source, window).start());
    let ordinals = run.window().map_or_else(String::new, |window| {
        let left = Window {
            start: window.start + count,
            replicas: window.replicas - count,
        };
        format!(" and {left}")
    });
    let message = format!(
        "StatefulSet {} in the source is gone or being deleted, and not by this run; set spec.abort to Rollback \
         and create it again from the capture, with annotation {}={}{ordinals}, then raise spec.retry; or set \
         spec.abort to Leave",
        run.set,
        api::migrate::names::RUN,
        run.id
    );
    run.on_hold(HoldReason::SourceVanished, message)
}

/// In a rollback the operator itself creates the StatefulSet again.
fn is_of_rollback(run: &Run<'_>, set: &SetState) -> bool {
    run.direction == Direction::Back && set.ownership == kernel::Ownership::Ours
}

fn destination(run: &Run<'_>) -> Option<Interference> {
    if !run.is_prepared {
        return None;
    }
    let set = run.cluster(Side::Destination).set.as_ref();
    let is_ours = |set: &&SetState| set.ownership == kernel::Ownership::Ours && !set.is_terminating;
    let Some(set) = set.filter(is_ours) else {
        let found = match set {
            None => "no",
            Some(set) if set.is_terminating => "a deleted",
            Some(_) => "somebody else's",
        };
        let message = format!(
            "the destination has {found} StatefulSet {}, need the one of run {}; remove the other one and raise \
             spec.retry, or set spec.abort",
            run.set, run.id
        );
        return Some(run.on_hold(HoldReason::DestinationConflict, message));
    };
    if let Some(hold) = edited_in(run, Side::Destination) {
        return Some(hold);
    }
    let window = run.window()?;
    let allowed = run.moved(Side::Destination, window);
    let live = set.window();
    let is_recorded =
        allowed.contains(&live.replicas) && (live.start == window.start || live.replicas == 0);
    if is_recorded {
        return None;
    }
    let message = format!(
        "StatefulSet {} in the destination has {live}, need {} replicas from ordinal {}; set it back and raise \
         spec.retry",
        run.set,
        allowed.end(),
        window.start
    );
    Some(run.on_hold(HoldReason::DestinationDrift, message))
}

#[cfg(test)]
mod tests;
