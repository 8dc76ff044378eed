//! The end of a rollback: the destination is emptied, and the source gets every setting back. Pure.
//!
//! ```text
//! r-drain ─▶ r-clean ─▶ r-restore ─▶ r-unlock
//! ```
//! It undoes the freeze too: a run that has moved nothing yet begins here.

use api::migrate::{HoldReason, StallReason, StepName};
use kernel::Ownership;
use serde_json::json;

use super::decision::{
    Change, Decision, ObjectKind, Setting, Target, first_change, first_setting, first_unfinished,
};
use super::handover::HandoverClaim;
use super::observation::{ClusterState, Observation, Side, Version, VolumePhase};

/// Everything that the decision needs.
#[derive(Debug, Clone)]
pub struct Undo<'a> {
    /// The name of the StatefulSet.
    pub set: &'a str,
    /// The namespace in the destination.
    pub namespace: &'a str,
    /// The claims of the run with their ordinals, dormant ones too.
    pub claims: &'a [(i32, HandoverClaim)],
    /// Claims of the set in the destination that are not of the run and that nobody has accepted.
    pub extra_claims: &'a [String],
    /// The settings of the source that are not yet as captured.
    pub settings: &'a [Setting],
    /// Our locks and the capture in the source, as far as they still exist.
    pub unlock: &'a [Change],
    /// What was read.
    pub observation: &'a Observation,
}

/// The first step whose evidence is missing.
pub fn next(undo: &Undo<'_>) -> Decision {
    let steps = [drain, clean];
    let emptied = first_unfinished(steps.iter().map(|step| step(undo)));
    if emptied != Decision::Done {
        return emptied;
    }
    let restored = first_setting(StepName::RRestore, undo.settings);
    if restored == Decision::Done {
        first_change(StepName::RUnlock, undo.unlock)
    } else {
        restored
    }
}

impl Undo<'_> {
    fn cluster(&self) -> &ClusterState {
        &self.observation.destination
    }

    fn target(&self, kind: ObjectKind, name: &str, version: &Version) -> Target {
        Target {
            kind,
            namespace: (kind != ObjectKind::Volume).then(|| self.namespace.to_owned()),
            name: name.to_owned(),
            version: version.clone(),
        }
    }

    fn delete(&self, kind: ObjectKind, name: &str, version: &Version) -> Change {
        Change::Delete {
            side: Side::Destination,
            target: self.target(kind, name, version),
            orphans_dependents: false,
        }
    }
}

/// | StatefulSet of the destination | replicas | pods | so                                  |
/// |--------------------------------|----------|------|-------------------------------------|
/// | gone                           |          |      | done                                |
/// | not of this run                | any      | any  | hold                                |
/// | of this run                    | some     | any  | hold: an ordinal is not back yet    |
/// | of this run                    | none     | some | wait                                |
/// | of this run, being deleted     | none     | none | wait                                |
/// | of this run                    | none     | none | let it retain claims; delete it     |
fn drain(undo: &Undo<'_>) -> Decision {
    let (at, name) = (StepName::RDrain, undo.set);
    let Some(set) = &undo.cluster().set else {
        return Decision::Done;
    };
    if set.ownership != Ownership::Ours {
        let message = format!(
            "StatefulSet {name} in the destination is not of this run; remove it and raise spec.retry"
        );
        return Decision::on_hold(HoldReason::DestinationConflict, None, message);
    }
    if set.replicas > 0 {
        let message = format!(
            "StatefulSet {name} in the destination has {}; scale it to 0 and raise spec.retry",
            set.window()
        );
        return Decision::on_hold(HoldReason::DestinationDrift, None, message);
    }
    let mut pods = undo.cluster().pods.iter();
    let own = pods.find(|(_, pod)| pod.controller.as_ref() == Some(&set.version.uid));
    if let Some((pod, _)) = own {
        let detail = format!("pod {pod} of StatefulSet {name} still exists in the destination");
        return Decision::wait(at, None, StallReason::PodTerminating, detail);
    }
    if set.is_terminating {
        let detail = format!("StatefulSet {name} in the destination is being deleted");
        return Decision::wait(at, None, StallReason::DeletionPending, detail);
    }
    if !set.retains_claims {
        let retain = json!({"whenDeleted": "Retain", "whenScaled": "Retain"});
        let change = Change::Patch {
            side: Side::Destination,
            target: undo.target(ObjectKind::StatefulSet, name, &set.version),
            patch: json!({"spec": {"persistentVolumeClaimRetentionPolicy": retain}}),
        };
        return Decision::act(at, None, change);
    }
    let change = undo.delete(ObjectKind::StatefulSet, name, &set.version);
    Decision::act(at, None, change)
}

/// The hold of a rollback that would leave claims behind.
pub fn extra_claims(set: &str, claims: &[String]) -> Decision {
    let message = format!(
        "the destination has claims of StatefulSet {set} that no ordinal of this run has: {}; move their data, then \
         accept with spec.acknowledge: [DestExtraClaims]",
        claims.join(", ")
    );
    Decision::on_hold(HoldReason::DestExtraClaims, None, message)
}

/// Claims and tombstones first, then the volumes that they leave.
fn clean(undo: &Undo<'_>) -> Decision {
    if !undo.extra_claims.is_empty() {
        return extra_claims(undo.set, undo.extra_claims);
    }
    let claims = undo.claims.iter().map(|claim| clean_claim(undo, claim));
    let volumes = undo.claims.iter().map(|claim| clean_volume(undo, claim));
    first_unfinished(claims.chain(volumes))
}

/// | claim of the destination | its volume   | so                  |
/// |--------------------------|--------------|---------------------|
/// | gone, or not of the run  | any          | done                |
/// | being deleted            | any          | wait                |
/// | of another volume        | any          | hold                |
/// | of the run               | not retained | retain it first     |
/// | of the run               | any other    | delete the claim    |
fn clean_claim(undo: &Undo<'_>, (ordinal, claim): &(i32, HandoverClaim)) -> Decision {
    let at = StepName::RClean;
    let live = undo.cluster().claims.get(&claim.name);
    let Some(live) = live.filter(|live| live.ownership == Ownership::Ours) else {
        return Decision::Done;
    };
    if live.is_terminating {
        let detail = format!("claim {} in the destination is being deleted", claim.name);
        return Decision::wait(at, None, StallReason::DeletionPending, detail);
    }
    if !live.is_tombstone && live.volume.as_ref() != Some(&claim.destination_volume) {
        let message = format!(
            "claim {} in the destination does not name volume {}; save its data, delete it and raise spec.retry",
            claim.name, claim.destination_volume
        );
        return Decision::on_hold(HoldReason::DestinationConflict, None, message);
    }
    let volume = undo.cluster().volumes.get(&claim.destination_volume);
    if let Some(volume) = volume.filter(|volume| !volume.is_retained) {
        return retain(undo, *ordinal, claim, &volume.version);
    }
    let change = undo.delete(ObjectKind::Claim, &claim.name, &live.version);
    Decision::act(at, Some(*ordinal), change)
}

fn retain(undo: &Undo<'_>, ordinal: i32, claim: &HandoverClaim, version: &Version) -> Decision {
    let change = Change::Patch {
        side: Side::Destination,
        target: undo.target(ObjectKind::Volume, &claim.destination_volume, version),
        patch: json!({"spec": {"persistentVolumeReclaimPolicy": "Retain"}}),
    };
    Decision::act(StepName::RClean, Some(ordinal), change)
}

/// | volume of the destination       | so                                       |
/// |---------------------------------|------------------------------------------|
/// | gone                            | done                                     |
/// | not of the run, or another disk | done: it is not ours                     |
/// | being deleted                   | wait                                     |
/// | not retained                    | retain it first                          |
/// | still bound                     | wait                                     |
/// | any other                       | delete it: the disk stays                |
fn clean_volume(undo: &Undo<'_>, (ordinal, claim): &(i32, HandoverClaim)) -> Decision {
    let (at, name) = (StepName::RClean, &claim.destination_volume);
    let live = undo.cluster().volumes.get(name);
    let ours = live.filter(|volume| {
        volume.ownership == Ownership::Ours && volume.disk.as_ref() == Some(&claim.disk)
    });
    let Some(volume) = ours else {
        return Decision::Done;
    };
    if volume.is_terminating {
        let detail = format!("volume {name} in the destination is being deleted");
        return Decision::wait(at, None, StallReason::DeletionPending, detail);
    }
    if !volume.is_retained {
        return retain(undo, *ordinal, claim, &volume.version);
    }
    if volume.phase == VolumePhase::Bound {
        let detail = format!("volume {name} in the destination is not released yet");
        return Decision::wait(at, None, StallReason::DeletionPending, detail);
    }
    let change = undo.delete(ObjectKind::Volume, name, &volume.version);
    Decision::act(at, Some(*ordinal), change)
}

#[cfg(test)]
mod tests;
