//! The handover of one ordinal from one cluster to the other, forwards or in a rollback. Pure.
//!
//! ```text
//! gate ─▶ release ─▶ gone ─▶ detach ─▶ fence ─▶ confirm ─▶ snapshot ─▶ retag ─▶ unfence ─▶ grow ─▶ attach ─▶ ready
//! ```
//! Both directions follow the same rules; forwards, the claims of the destination exist from the start, so
//! there is nothing to unfence.
//!
//! A step is done when its evidence is there, whatever the record says. So a handover goes on from wherever a
//! crash has left it, and a person who has done a step by hand has done it.
//!
//! # Promises
//! - The two clusters never run the same ordinal, and the new cluster may run it only after the claims of the
//!   old one are fenced and EC2 has shown every disk as free after that.
//! - A change names the version of the object that the decision has seen.

mod attach;
mod detach;
mod fence;
mod leave;
mod proof;
mod protect;
mod restart;
mod retag;
mod snapshot;
#[cfg(test)]
mod tests;
mod unclean;
mod unfence;

use std::collections::BTreeMap;
use std::time::Duration;

use api::migrate::{HoldReason, StallReason, StepName};
use jiff::Timestamp;
use serde_json::{Value, json};

use super::decision::{Change, Decision, Interference, ObjectKind, Step, Target, Wait};
use super::observation::{ClusterState, DiskRead, Observation, PodState, Side, Version};
pub use proof::Proof;
pub use restart::next as before_restart;
pub use retag::{Tags, changed_tags};
pub use snapshot::{Snapshots, found as found_snapshot};

use crate::translate::window::Window;

/// A read of EC2 that is older than this does not let the new cluster run the ordinal.
pub(super) const FREE_READ_VALIDITY: Duration = Duration::from_secs(5);

/// Which way an ordinal goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// To the destination.
    Forward,
    /// Back to the source.
    Back,
}

impl Direction {
    /// The cluster that gives the ordinal away.
    pub fn from(self) -> Side {
        match self {
            Self::Forward => Side::Source,
            Self::Back => Side::Destination,
        }
    }

    /// The cluster that gets it.
    pub fn to(self) -> Side {
        self.from().other()
    }

    fn pick<T>(self, forward: T, back: T) -> T {
        match self {
            Self::Forward => forward,
            Self::Back => back,
        }
    }
}

/// A claim of the ordinal, the same name in both clusters.
#[derive(Debug, Clone, PartialEq)]
pub struct HandoverClaim {
    /// The name of the claim.
    pub name: String,
    /// The id of its EBS volume.
    pub disk: String,
    /// Its PersistentVolume in the source.
    pub source_volume: String,
    /// Its PersistentVolume in the destination.
    pub destination_volume: String,
    /// The claim that holds its name in a cluster that has given the ordinal away, by cluster.
    pub source_tombstone: Value,
    /// The same for the destination.
    pub destination_tombstone: Value,
    /// The claim as it was in the source, bound to its volume by name.
    pub restored: Value,
}

impl HandoverClaim {
    /// Its PersistentVolume in a cluster.
    pub fn volume(&self, side: Side) -> &str {
        match side {
            Side::Source => &self.source_volume,
            Side::Destination => &self.destination_volume,
        }
    }

    /// Its tombstone in a cluster.
    pub fn tombstone(&self, side: Side) -> &Value {
        match side {
            Side::Source => &self.source_tombstone,
            Side::Destination => &self.destination_tombstone,
        }
    }
}

/// Everything that the decision about one ordinal needs.
#[derive(Debug, Clone)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a fact of its own, and most combinations occur"
)]
pub struct Handover<'a> {
    /// Which way it goes.
    pub direction: Direction,
    /// The ordinal.
    pub ordinal: i32,
    /// The ordinals of the StatefulSet before the migration.
    pub window: Window,
    /// The name of the StatefulSet.
    pub set: &'a str,
    /// The namespace in the source.
    pub source_namespace: &'a str,
    /// The namespace in the destination.
    pub destination_namespace: &'a str,
    /// Whether its claims are dormant: no pod uses them, and no window contains it.
    pub is_dormant: bool,
    /// Whether the source has no StatefulSet by the work of this run. The pods that it still has run on alone.
    pub is_orphaned: bool,
    /// Whether the record shows the ordinal as released in this move.
    pub has_left: bool,
    /// The UID of the pod that was to go; none before the release.
    pub pod_uid: Option<&'a str>,
    /// The node of that pod; none if it is not known.
    pub node: Option<&'a str>,
    /// The boot id of that node at the beginning; none if it is not known.
    pub boot_id: Option<&'a str>,
    /// When the old cluster has released the ordinal; none before.
    pub released_at: Option<Timestamp>,
    /// Whether a person accepts that a disk was not detached cleanly.
    pub accepts_unclean: bool,
    /// The names of both clusters in the tags of disks, if these are to be changed.
    pub cluster_names: Option<(&'a str, &'a str)>,
    /// The tags that the run has changed, as they were before it, by claim.
    pub old_tags: &'a BTreeMap<String, Tags>,
    /// The snapshots of its disks, if the spec asks for them.
    pub snapshots: Option<&'a Snapshots>,
    /// Its claims.
    pub claims: &'a [HandoverClaim],
    /// Pods of this ordinal or others that count although they are not Ready.
    pub accepts_unready: &'a [i32],
    /// What was read.
    pub observation: &'a Observation,
    /// What this process has seen of the disks.
    pub proof: &'a Proof,
    /// The current time.
    pub now: Timestamp,
    /// The time since the start of the process.
    pub elapsed: Duration,
}

impl<'a> Handover<'a> {
    fn from(&self) -> &'a ClusterState {
        self.observation.cluster(self.direction.from())
    }

    fn to(&self) -> &'a ClusterState {
        self.observation.cluster(self.direction.to())
    }

    /// When the objects of both clusters had been read.
    fn read_at(&self) -> Duration {
        self.observation.read_at.unwrap_or(self.elapsed)
    }

    fn namespace(&self, side: Side) -> &'a str {
        match side {
            Side::Source => self.source_namespace,
            Side::Destination => self.destination_namespace,
        }
    }

    /// The name of the pod of an ordinal.
    fn pod(&self, ordinal: i32) -> String {
        format!("{}-{ordinal}", self.set)
    }

    /// The window of a cluster, empty without a StatefulSet.
    fn window_of(&self, side: Side) -> Window {
        let set = self.observation.cluster(side).set.as_ref();
        set.map_or(
            Window {
                start: self.window.start,
                replicas: 0,
            },
            super::observation::SetState::window,
        )
    }

    /// Whether a read of EC2 is recent enough to act on.
    fn is_young(&self, read: &DiskRead) -> bool {
        read.began.saturating_add(FREE_READ_VALIDITY) > self.elapsed
    }

    /// Whether the old cluster no longer runs the ordinal.
    pub fn is_released(&self) -> bool {
        if self.leaves_alone() {
            return self.has_left || self.orphan().is_none();
        }
        !self.window_of(self.direction.from()).contains(self.ordinal)
    }

    /// Whether the ordinal leaves the source without a StatefulSet there: nobody else deletes its pod.
    fn leaves_alone(&self) -> bool {
        self.is_orphaned && self.direction == Direction::Forward
    }

    /// The pod of the ordinal in the source, unless it ends or is not the one that was to go.
    fn orphan(&self) -> Option<&'a PodState> {
        let pod = self.from().pods.get(&self.pod(self.ordinal))?;
        let is_other = self.pod_uid.is_some_and(|uid| uid != pod.version.uid);
        (!pod.is_terminating && !is_other).then_some(pod)
    }

    /// Whether the new cluster runs it.
    pub fn is_grown(&self) -> bool {
        self.window_of(self.direction.to()).contains(self.ordinal)
    }

    fn step(&self, name: StepName, change: Change) -> Decision {
        Decision::Act(Step {
            name,
            ordinal: Some(self.ordinal),
            change,
        })
    }

    fn wait(&self, step: StepName, reason: StallReason, detail: impl Into<String>) -> Decision {
        Decision::Wait(Wait {
            step,
            ordinal: Some(self.ordinal),
            reason,
            detail: detail.into(),
            after: None,
        })
    }

    fn on_hold(&self, reason: HoldReason, message: impl Into<String>) -> Decision {
        Decision::Hold(Interference {
            reason,
            ordinal: Some(self.ordinal),
            message: message.into(),
        })
    }

    fn target(&self, side: Side, kind: ObjectKind, name: &str, version: &Version) -> Target {
        let is_global = kind == ObjectKind::Volume;
        let namespace = (!is_global).then(|| self.namespace(side).to_owned());
        Target {
            kind,
            namespace,
            name: name.to_owned(),
            version: version.clone(),
        }
    }

    fn delete(&self, side: Side, kind: ObjectKind, name: &str, version: &Version) -> Change {
        Change::Delete {
            side,
            target: self.target(side, kind, name, version),
            orphans_dependents: false,
        }
    }

    /// The change of a cluster's window, of exactly the StatefulSet that was read.
    fn set_window(&self, side: Side, window: Option<Window>) -> Option<Change> {
        let window = window?;
        let set = self.observation.cluster(side).set.as_ref()?;
        let patch = match side {
            Side::Source => json!({
                "spec": {"ordinals": {"start": window.start}, "replicas": window.replicas},
            }),
            Side::Destination => json!({"spec": {"replicas": window.replicas}}),
        };
        Some(Change::Patch {
            side,
            target: self.target(side, ObjectKind::StatefulSet, self.set, &set.version),
            patch,
        })
    }

    /// The window of a cluster once it has given the ordinal away; none for an ordinal that does not move.
    fn window_without(&self, side: Side) -> Option<Window> {
        match side {
            Side::Source => self.window.source_without(self.ordinal),
            Side::Destination => self.window.dest_without(self.ordinal),
        }
    }

    /// The window of a cluster once it has got the ordinal; none for an ordinal that does not move.
    fn window_with(&self, side: Side) -> Option<Window> {
        match side {
            Side::Source => self.window.source_with(self.ordinal),
            Side::Destination => self.window.dest_with(self.ordinal),
        }
    }
}

/// The first step of the handover whose evidence is missing.
///
/// | old cluster runs it | new cluster runs it | so                                                       |
/// |---------------------|---------------------|----------------------------------------------------------|
/// | yes                 | no                  | back: protect; then release; the caller has checked the gate |
/// | no                  | no                  | gone, detach, fence, confirm, snapshot, unclean, retag, unfence, grow, in this order |
/// | no                  | yes                 | forward: fence, back: unfence; then attach, ready        |
/// | yes                 | yes                 | fenced: attach, ready; else hold: two windows overlap    |
pub fn next(handover: &Handover<'_>) -> Decision {
    match (handover.is_released(), handover.is_grown()) {
        (false, false) => {
            let protected = protect::next(handover);
            if protected == Decision::Done {
                leave::release(handover)
            } else {
                protected
            }
        }
        (false, true) if fence::is_complete(handover) => attach::next(handover),
        (false, true) => overlap(handover),
        // A disk that is already there proves the detach, but not the fence.
        (true, true) => {
            let handed_over = match handover.direction {
                Direction::Forward => fence::next(handover),
                Direction::Back => unfence::next(handover),
            };
            if handed_over == Decision::Done {
                attach::next(handover)
            } else {
                handed_over
            }
        }
        (true, false) => {
            let steps = [
                leave::gone,
                detach::next,
                fence::next,
                detach::confirm,
                snapshot::next,
                unclean::next,
                retag::next,
                unfence::next,
            ];
            let decided = steps.iter().map(|step| step(handover));
            let unfinished = decided
                .into_iter()
                .find(|decision| *decision != Decision::Done);
            unfinished.unwrap_or_else(|| {
                if handover.is_dormant {
                    Decision::Done
                } else if handover.is_orphaned && handover.direction == Direction::Back {
                    restart::parked(handover)
                } else {
                    grow(handover)
                }
            })
        }
    }
}

fn overlap(handover: &Handover<'_>) -> Decision {
    let reason = handover
        .direction
        .pick(HoldReason::SourceWidened, HoldReason::DestinationDrift);
    let (from, to) = (handover.direction.from(), handover.direction.to());
    let message = format!(
        "StatefulSet {}: the {from} has {} and the {to} has {}; set the {from} back to {} and raise spec.retry",
        handover.set,
        handover.window_of(from),
        handover.window_of(to),
        handover.window_without(from).unwrap_or(handover.window),
    );
    handover.on_hold(reason, message)
}

/// The new cluster may run the ordinal only while the last read of every disk is young and shows it free.
fn grow(handover: &Handover<'_>) -> Decision {
    let side = handover.direction.to();
    let name = handover.direction.pick(StepName::Grow, StepName::RGrow);
    let is_young = |claim: &HandoverClaim| {
        let read = handover.observation.disks.get(&claim.disk);
        read.is_some_and(|read| handover.is_young(read))
    };
    if !handover.claims.iter().all(is_young) {
        return Decision::ReadDisks {
            step: name,
            ids: handover
                .claims
                .iter()
                .map(|claim| claim.disk.clone())
                .collect(),
            not_before: handover.elapsed,
        };
    }
    let Some(change) = handover.set_window(side, handover.window_with(side)) else {
        let reason = handover
            .direction
            .pick(HoldReason::DestinationConflict, HoldReason::SourceVanished);
        let message = format!(
            "StatefulSet {} is missing in the {side}; create it again as it was and raise spec.retry",
            handover.set
        );
        return handover.on_hold(reason, message);
    };
    handover.step(name, change)
}
