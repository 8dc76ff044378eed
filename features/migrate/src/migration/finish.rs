//! The end of a run that went well: the source is cleaned up, and the destination gets its own settings. Pure.
//!
//! ```text
//! soak ─▶ clean-pv ─▶ clean-sts ─▶ clean-fence ─▶ restore ─▶ unlock
//! ```
//! # Promises
//! - A volume of the source is deleted only while its disk is in use at the destination, and while its policy
//!   keeps the disk.
//! - The tombstones go last: as long as the StatefulSet of the source can come back, they keep it from its disks
//!   and from empty ones.

use std::collections::BTreeMap;
use std::time::Duration;

use api::migrate::names::{MOVED_TO, RUN};
use api::migrate::{HoldReason, StallReason, StepName};
use jiff::Timestamp;
use kernel::Ownership;
use serde_json::json;

use super::decision::{
    Change, Decision, ObjectKind, Setting, Target, Wait, first_change, first_setting,
    first_unfinished,
};
use super::detach::attached_in;
use super::gate::is_available;
use super::handover::{FREE_READ_VALIDITY, HandoverClaim};
use super::observation::{
    ClusterState, DiskRead, Observation, SetState, Side, Version, VolumePhase, VolumeState,
};

/// How long the StatefulSet of the source must stay away before its fences go.
const STAYS_AWAY: Duration = Duration::from_secs(10);

/// Claims that have moved.
#[derive(Debug, Clone)]
pub struct MovedClaims {
    /// Their ordinal.
    pub ordinal: i32,
    /// Whether no pod of the StatefulSet uses them.
    pub is_dormant: bool,
    /// The claims.
    pub claims: Vec<HandoverClaim>,
}

/// Everything that the decision needs.
#[derive(Debug, Clone)]
pub struct Finish<'a> {
    /// The id of the run.
    pub run: &'a str,
    /// The name of the StatefulSet.
    pub set: &'a str,
    /// Its UID in the source.
    pub source_uid: &'a str,
    /// The namespace in the source.
    pub source_namespace: &'a str,
    /// Whether the source is kept.
    pub keeps_source: bool,
    /// How much of the soak is left.
    pub soak_left: Duration,
    /// All that has moved, lowest ordinal first.
    pub moved: &'a [MovedClaims],
    /// `migration.aqua.io/moved-to` of each source volume, by its name.
    pub moved_to: &'a BTreeMap<String, String>,
    /// The settings of the destination that are not yet as captured.
    pub settings: &'a [Setting],
    /// Our locks, and the capture in the source, that still exist or are not yet released.
    pub unlock: &'a [Change],
    /// The captured ControllerRevisions that the source still has although its StatefulSet was deleted without them.
    pub revisions: &'a [(String, Version)],
    /// When this process has first seen the source without its StatefulSet.
    pub absent_since: Option<Duration>,
    /// What was read.
    pub observation: &'a Observation,
    /// The current time.
    pub now: Timestamp,
    /// The time since the start of the process.
    pub elapsed: Duration,
}

/// The first step whose evidence is missing. A source that is kept is only marked.
pub fn next(finish: &Finish<'_>) -> Decision {
    let delete: [fn(&Finish<'_>) -> Decision; 4] =
        [clean_volumes, clean_set, clean_fences, no_leftovers];
    let keep: [fn(&Finish<'_>) -> Decision; 1] = [mark_moved];
    let middle: &[fn(&Finish<'_>) -> Decision] = if finish.keeps_source { &keep } else { &delete };
    let first: [fn(&Finish<'_>) -> Decision; 2] = [disturbed, soak];
    let last: [fn(&Finish<'_>) -> Decision; 2] = [restore, unlock];
    let steps = first.iter().chain(middle).chain(&last);
    first_unfinished(steps.map(|step| step(finish)))
}

impl Finish<'_> {
    fn source(&self) -> &ClusterState {
        &self.observation.source
    }

    fn destination(&self) -> &ClusterState {
        &self.observation.destination
    }

    fn target(&self, kind: ObjectKind, name: &str, version: &Version) -> Target {
        let namespace = (kind != ObjectKind::Volume).then(|| self.source_namespace.to_owned());
        Target {
            kind,
            namespace,
            name: name.to_owned(),
            version: version.clone(),
        }
    }

    fn delete(&self, kind: ObjectKind, name: &str, version: &Version) -> Change {
        Change::Delete {
            side: Side::Source,
            target: self.target(kind, name, version),
            orphans_dependents: false,
        }
    }

    /// Every claim that has moved, with its ordinal.
    fn claims(&self) -> impl Iterator<Item = (&MovedClaims, &HandoverClaim)> {
        let moved = self.moved.iter();
        moved.flat_map(|moved| moved.claims.iter().map(move |claim| (moved, claim)))
    }
}

/// The destination runs every ordinal that has moved, and the source none.
///
/// | found                                              | so                             |
/// |----------------------------------------------------|--------------------------------|
/// | source of another UID                              | hold: the way back stays       |
/// | source with replicas                               | hold: the way back stays       |
/// | destination of somebody else                       | hold                           |
/// | destination without an ordinal that has moved      | hold: its disk may be unused   |
fn disturbed(finish: &Finish<'_>) -> Decision {
    let source = finish.source().set.as_ref();
    if let Some(decision) =
        source.and_then(|set| recreated(finish, set).or_else(|| widened(finish, set)))
    {
        return decision;
    }
    // The soak holds if there is none.
    let Some(set) = &finish.destination().set else {
        return Decision::Done;
    };
    if set.ownership != Ownership::Ours || set.is_terminating {
        let message = format!(
            "StatefulSet {} in the destination is not of run {}, or is being deleted; create ours again and raise \
             spec.retry",
            finish.set, finish.run
        );
        return Decision::on_hold(HoldReason::DestinationConflict, None, message);
    }
    let mut running = finish.moved.iter().filter(|moved| !moved.is_dormant);
    let missing = running.find(|moved| !set.window().contains(moved.ordinal));
    missing.map_or(Decision::Done, |moved| {
        let message = format!(
            "StatefulSet {} in the destination has {}, but ordinal {} has moved there; scale it back and raise \
             spec.retry",
            finish.set,
            set.window(),
            moved.ordinal
        );
        Decision::on_hold(HoldReason::DestinationDrift, Some(moved.ordinal), message)
    })
}

fn recreated(finish: &Finish<'_>, set: &SetState) -> Option<Decision> {
    (set.version.uid != finish.source_uid).then(|| {
        let message = format!(
            "StatefulSet {} in the source was created again; delete it and raise spec.retry. Its claims stay \
             fenced until then",
            finish.set
        );
        Decision::on_hold(HoldReason::SourceRecreated, None, message)
    })
}

fn widened(finish: &Finish<'_>, set: &SetState) -> Option<Decision> {
    (set.replicas > 0).then(|| {
        let message = format!(
            "StatefulSet {} in the source has {}; scale it to 0 and raise spec.retry",
            finish.set,
            set.window()
        );
        Decision::on_hold(HoldReason::SourceWidened, None, message)
    })
}

/// Every pod of the destination is Ready, and the soak is over.
fn soak(finish: &Finish<'_>) -> Decision {
    let cluster = finish.destination();
    let Some(set) = &cluster.set else {
        let message = format!(
            "StatefulSet {} is missing in the destination; set spec.abort, or create it again and raise \
             spec.retry",
            finish.set
        );
        return Decision::on_hold(HoldReason::DestinationConflict, None, message);
    };
    let mut names = set
        .window()
        .ordinals()
        .map(|ordinal| format!("{}-{ordinal}", finish.set));
    let is_ready = |name: &String| {
        let pod = cluster.pods.get(name);
        pod.is_some_and(|pod| is_available(set, pod, finish.now))
    };
    if let Some(unready) = names.find(|name| !is_ready(name)) {
        let detail = format!("pod {unready} in the destination is not Ready");
        return Decision::wait(StepName::Soak, None, StallReason::DestUnready, detail);
    }
    if finish.soak_left.is_zero() {
        return Decision::Done;
    }
    Decision::Wait(Wait {
        step: StepName::Soak,
        ordinal: None,
        reason: StallReason::DestUnready,
        detail: format!("the soak ends in {} s", finish.soak_left.as_secs()),
        after: Some(finish.soak_left),
    })
}

fn clean_volumes(finish: &Finish<'_>) -> Decision {
    let decided = finish
        .claims()
        .map(|(moved, claim)| clean_volume(finish, moved, claim));
    let mut unfinished = decided
        .into_iter()
        .filter(|decision| *decision != Decision::Done);
    unfinished.next().unwrap_or(Decision::Done)
}

/// | volume of the source               | disk                              | so                          |
/// |------------------------------------|-----------------------------------|-----------------------------|
/// | gone                               | any                               | done                        |
/// | of another disk, or not of the run | any                               | hold                        |
/// | not retained                       | any                               | retain it first             |
/// | with the provisioner's finalizer   | any                               | wait                        |
/// | being deleted                      | any                               | wait                        |
/// | any other                          | in use at the destination         | delete it                   |
/// | any other                          | dormant: bound there, and free    | delete it                   |
/// | any other                          | anywhere else                     | wait, and read again        |
/// | any other                          | no young read                     | read                        |
fn clean_volume(finish: &Finish<'_>, moved: &MovedClaims, claim: &HandoverClaim) -> Decision {
    let at = StepName::CleanPv;
    let name = &claim.source_volume;
    let Some(volume) = finish.source().volumes.get(name) else {
        return Decision::Done;
    };
    if volume.disk.as_ref() != Some(&claim.disk) || volume.ownership != Ownership::Ours {
        let message = format!(
            "volume {name} in the source is not the one of this run with disk {}; see whose it is, remove it \
             without its disk, and raise spec.retry",
            claim.disk
        );
        return Decision::on_hold(HoldReason::SourceEdited, Some(moved.ordinal), message);
    }
    if volume.is_terminating {
        let detail = format!("volume {name} in the source is being deleted");
        return Decision::wait(at, None, StallReason::DeletionPending, detail);
    }
    if !volume.is_retained {
        let patch = json!({"spec": {"persistentVolumeReclaimPolicy": "Retain"}});
        let target = finish.target(ObjectKind::Volume, name, &volume.version);
        let change = Change::Patch {
            side: Side::Source,
            target,
            patch,
        };
        return Decision::act(at, Some(moved.ordinal), change);
    }
    if volume.has_provisioner_finalizer {
        let detail =
            format!("volume {name} in the source still has the finalizer of the provisioner");
        return Decision::wait(at, None, StallReason::ProvisionerFinalizer, detail);
    }
    disk_in_use(finish, moved, claim, volume)
}

fn disk_in_use(
    finish: &Finish<'_>,
    moved: &MovedClaims,
    claim: &HandoverClaim,
    volume: &VolumeState,
) -> Decision {
    let read = finish.observation.disks.get(&claim.disk);
    let is_young =
        |read: &&DiskRead| read.began.saturating_add(FREE_READ_VALIDITY) > finish.elapsed;
    let Some(read) = read.filter(is_young) else {
        return Decision::ReadDisks {
            step: StepName::CleanPv,
            ids: finish
                .claims()
                .map(|(_, claim)| claim.disk.clone())
                .collect(),
            not_before: finish.elapsed,
        };
    };
    let there = finish.destination().volumes.get(&claim.destination_volume);
    let is_bound = there.is_some_and(|volume| volume.phase == VolumePhase::Bound);
    let is_free = read
        .disk
        .as_ref()
        .is_some_and(super::observation::DiskState::is_free);
    let is_proven = if moved.is_dormant {
        is_bound && is_free
    } else {
        attached_in(finish.destination(), read)
    };
    if !is_proven {
        let detail = format!(
            "disk {} is not in use in the destination, so volume {} of the source stays",
            claim.disk, claim.source_volume
        );
        return Decision::Wait(Wait {
            step: StepName::CleanPv,
            ordinal: Some(moved.ordinal),
            reason: StallReason::DestUnready,
            detail,
            after: Some(FREE_READ_VALIDITY),
        });
    }
    let change = finish.delete(ObjectKind::Volume, &claim.source_volume, &volume.version);
    Decision::act(StepName::CleanPv, Some(moved.ordinal), change)
}

/// | StatefulSet of the source | replicas | pods | claims that it owns | so                              |
/// |---------------------------|----------|------|---------------------|---------------------------------|
/// | gone for ten seconds      |          |      |                     | delete its revisions, then done |
/// | gone                      |          |      |                     | wait                            |
/// | of another UID            | any      | any  | any                 | hold: the tombstones stay       |
/// | ours                      | some     | any  | any                 | hold                            |
/// | ours                      | none     | some | any                 | wait                            |
/// | ours                      | none     | none | some                | hold: they would go along       |
/// | ours, being deleted       | none     | none | none                | wait                            |
/// | ours                      | none     | none | none                | delete it                       |
fn clean_set(finish: &Finish<'_>) -> Decision {
    let at = StepName::CleanSts;
    let name = finish.set;
    let cluster = finish.source();
    let Some(set) = &cluster.set else {
        let absent = finish
            .absent_since
            .map(|since| finish.elapsed.saturating_sub(since));
        let left = STAYS_AWAY.saturating_sub(absent.unwrap_or_default());
        if left.is_zero() {
            return finish
                .revisions
                .first()
                .map_or(Decision::Done, |(name, version)| {
                    let change = finish.delete(ObjectKind::ControllerRevision, name, version);
                    Decision::act(at, None, change)
                });
        }
        return Decision::Wait(Wait {
            step: at,
            ordinal: None,
            reason: StallReason::DeletionPending,
            detail: format!("StatefulSet {name} in the source has just gone"),
            after: Some(left),
        });
    };
    if let Some(decision) = recreated(finish, set).or_else(|| widened(finish, set)) {
        return decision;
    }
    let mut pods = cluster.pods.iter();
    let own = pods.find(|(_, pod)| pod.controller.as_ref() == Some(&set.version.uid));
    if let Some((pod, _)) = own {
        let detail = format!("pod {pod} of StatefulSet {name} still exists in the source");
        return Decision::wait(at, None, StallReason::PodTerminating, detail);
    }
    let mut claims = cluster.claims.iter();
    let owned = claims.find(|(_, claim)| claim.owners.contains(&set.version.uid));
    if let Some((claim, _)) = owned {
        let message = format!(
            "claim {claim} in the source would be deleted with StatefulSet {name}; remove its ownerReference and \
             raise spec.retry"
        );
        return Decision::on_hold(HoldReason::SourceEdited, None, message);
    }
    if set.is_terminating {
        let detail = format!("StatefulSet {name} in the source is being deleted");
        return Decision::wait(at, None, StallReason::DeletionPending, detail);
    }
    let change = finish.delete(ObjectKind::StatefulSet, name, &set.version);
    Decision::act(at, None, change)
}

/// Our tombstones go; a claim of somebody else under the name is not ours to delete.
fn clean_fences(finish: &Finish<'_>) -> Decision {
    for (moved, claim) in finish.claims() {
        let Some(live) = finish.source().claims.get(&claim.name) else {
            continue;
        };
        if !live.is_tombstone || live.ownership != Ownership::Ours {
            continue;
        }
        if live.is_terminating {
            let detail = format!("claim {} in the source is being deleted", claim.name);
            return Decision::wait(
                StepName::CleanFence,
                None,
                StallReason::DeletionPending,
                detail,
            );
        }
        let change = finish.delete(ObjectKind::Claim, &claim.name, &live.version);
        return Decision::act(StepName::CleanFence, Some(moved.ordinal), change);
    }
    Decision::Done
}

/// Once the locks are gone, nobody keeps the source from a disk that it still names.
///
/// | found in the source                                  | so                       |
/// |------------------------------------------------------|--------------------------|
/// | a volume of a disk that has moved, whatever its name | hold: it is a second one |
/// | a volume or claim with the marker of this run        | hold: it is not ours     |
/// | none of these                                        | done                     |
fn no_leftovers(finish: &Finish<'_>) -> Decision {
    let is_moved = |disk: &String| finish.claims().any(|(_, claim)| claim.disk == *disk);
    let mut volumes = finish.source().volumes.iter();
    let volume = volumes.find(|(_, volume)| {
        volume.ownership == Ownership::Ours || volume.disk.as_ref().is_some_and(is_moved)
    });
    let mut claims = finish.source().claims.iter();
    let claim = claims.find(|(_, claim)| claim.ownership == Ownership::Ours);
    let message = match (volume, claim) {
        (Some((name, _)), _) => format!(
            "volume {name} in the source has a disk that has moved, or the marker of this run; set its reclaim \
             policy to Retain, delete it, and raise spec.retry"
        ),
        (None, Some((name, _))) => format!(
            "claim {name} in the source has the marker of this run; remove its annotation {RUN} and raise \
             spec.retry"
        ),
        (None, None) => return Decision::Done,
    };
    Decision::on_hold(HoldReason::SourceEdited, None, message)
}

/// A volume that stays in the source says where its disk has gone.
fn mark_moved(finish: &Finish<'_>) -> Decision {
    for (moved, claim) in finish.claims() {
        let name = &claim.source_volume;
        let marker = finish.moved_to.get(name);
        let (Some(volume), Some(marker)) = (finish.source().volumes.get(name), marker) else {
            continue;
        };
        if volume.ownership != Ownership::Ours || volume.disk.as_ref() != Some(&claim.disk) {
            continue; // somebody else's volume under the name
        }
        if volume.moved_to.as_ref() != Some(marker) {
            let change = Change::Patch {
                side: Side::Source,
                target: finish.target(ObjectKind::Volume, name, &volume.version),
                patch: json!({"metadata": {"annotations": {MOVED_TO: marker, RUN: finish.run}}}),
            };
            return Decision::act(StepName::MarkMoved, Some(moved.ordinal), change);
        }
    }
    Decision::Done
}

fn restore(finish: &Finish<'_>) -> Decision {
    first_setting(StepName::Restore, finish.settings)
}

fn unlock(finish: &Finish<'_>) -> Decision {
    first_change(StepName::Unlock, finish.unlock)
}

#[cfg(test)]
mod tests;
