//! What happens before any pod goes down: the source is captured, locked and protected, and the destination
//! gets every volume, every claim and a StatefulSet without pods. Pure.
//!
//! ```text
//! capture ─▶ lock ─▶ protect ─▶ hydrate ─▶ prepare ─▶ orphan, if the strategy is OrphanAdopt
//! ```
//! # Promises
//! - Nothing is changed before both copies of the capture are there.
//! - The StatefulSet of the destination is made after all of its claims: a replica that somebody asks for too
//!   early finds its claim, and no empty disk is made.
//! - What exists under a name of ours is compared and never overwritten.

use api::migrate::names::{MIGRATED_FROM, MIGRATED_LABEL, RUN};
use api::migrate::{HoldReason, StallReason, StepName};
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kernel::Ownership;
use serde_json::{Value, json};

use super::decision::{Change, Decision, Interference, ObjectKind, Target, Wait, first_unfinished};
use super::interference::edited_template;
use super::observation::{Side, Version};
use crate::record::capture::{CaptureCopies, CopyLocation, PackedCapture};
use crate::record::lock::{Lock, LockAction};
use crate::record::marker::ownership_of;
use crate::translate::Document;
use crate::translate::edits::edits;
use crate::translate::matches::differing_fields;

/// Owners by which Kubernetes would delete a claim together with the StatefulSet or its pods.
const CONTROLLED: [&str; 2] = ["StatefulSet", "Pod"];

/// Everything that the decision needs.
#[derive(Debug, Clone)]
pub struct Freeze<'a> {
    /// The id of the run.
    pub run: &'a str,
    /// The namespace of the migration.
    pub namespace: &'a str,
    /// The namespace in the source.
    pub source_namespace: &'a str,
    /// The migration, as the owner of the capture beside it. None if that is the capture in the source too: it must
    /// outlive a migration that is lost.
    pub owner: Option<&'a OwnerReference>,
    /// The copies of the capture.
    pub copies: &'a CaptureCopies,
    /// What would be captured now. None after the capture.
    pub capture: Option<&'a PackedCapture>,
    /// The lock of each cluster, the source's first.
    pub locks: &'a [LockState],
    /// Whether the source StatefulSet is deleted at the end, and its pods run on.
    pub orphans: bool,
    /// Whether the intent of that was saved.
    pub orphan_started: bool,
    /// The recorded UID of the source StatefulSet.
    pub source_uid: Option<&'a str>,
    /// The StatefulSet of the source; none if it is gone.
    pub set: Option<&'a Document<StatefulSet>>,
    /// The hash of its template at the capture. None before.
    pub captured_template: Option<&'a str>,
    /// The hash of its template now.
    pub template: &'a str,
    /// The claims of the set in the source, dormant ones too.
    pub claims: &'a [Document<PersistentVolumeClaim>],
    /// Their volumes.
    pub volumes: &'a [Document<PersistentVolume>],
    /// What the destination gets.
    pub pairs: &'a [NewPair],
    /// The StatefulSet that the destination gets, without replicas.
    pub new_set: &'a New<StatefulSet>,
}

/// The lock of one cluster, and what may be done with it.
#[derive(Debug, Clone)]
pub struct LockState {
    /// The cluster.
    pub side: Side,
    /// Its ConfigMap, as it would be created.
    pub wanted: Lock,
    /// The ConfigMap as it was read: its version. None if there is none.
    pub found: Option<Version>,
    /// What may be done to take it.
    pub action: LockAction,
    /// Its name and namespace.
    pub namespace: String,
    /// The name of the StatefulSet that it is of.
    pub set: String,
}

/// An object for the destination, and what is there under its name.
#[derive(Debug, Clone)]
pub struct New<K> {
    /// The object to create.
    pub wanted: Document<K>,
    /// What exists.
    pub live: Option<Document<K>>,
}

/// A volume and its claim for the destination.
#[derive(Debug, Clone)]
pub struct NewPair {
    /// The volume.
    pub volume: New<PersistentVolume>,
    /// The claim.
    pub claim: New<PersistentVolumeClaim>,
}

/// The first step whose evidence is missing.
pub fn next(freeze: &Freeze<'_>) -> Decision {
    let steps = [source, capture, lock, protect, hydrate, prepare, orphan];
    let decided = steps.iter().map(|step| step(freeze));
    first_unfinished(decided)
}

/// | StatefulSet of the source | deletion announced by this run | so                          |
/// |---------------------------|--------------------------------|-----------------------------|
/// | gone                      | yes                            | done                        |
/// | gone, or being deleted    | no                             | hold: somebody has done it  |
/// | being deleted             | yes                            | wait                        |
/// | of another UID            | any                            | hold                        |
/// | any other                 | any                            | done                        |
fn source(freeze: &Freeze<'_>) -> Decision {
    let Some(set) = freeze.set else {
        return if freeze.orphan_started {
            Decision::Done
        } else {
            vanished()
        };
    };
    if freeze.source_uid.is_some() && freeze.source_uid != set.uid() {
        let message = format!(
            "{} in the source was created again after the run began; set spec.abort and start a new migration, or \
             restore the former one and raise spec.retry",
            set.title()
        );
        return Decision::on_hold(HoldReason::SourceRecreated, None, message);
    }
    if set.text("/metadata/deletionTimestamp").is_none() {
        return Decision::Done;
    }
    if !freeze.orphan_started {
        return vanished();
    }
    let detail = format!("{} in the source is being deleted", set.title());
    Decision::wait(StepName::Orphan, None, StallReason::DeletionPending, detail)
}

/// Only after both captures were compared, every claim is without owner, and the destination is prepared.
fn orphan(freeze: &Freeze<'_>) -> Decision {
    let Some(set) = freeze.set.filter(|_| freeze.orphans) else {
        return Decision::Done;
    };
    let change = Change::Delete {
        side: Side::Source,
        target: target(ObjectKind::StatefulSet, set),
        orphans_dependents: true,
    };
    Decision::act(StepName::Orphan, None, change)
}

fn create<T: serde::Serialize>(side: Side, kind: ObjectKind, object: &T) -> Change {
    let body = serde_json::to_value(object).expect("Kubernetes types become JSON");
    Change::Create { side, kind, body }
}

fn version<K>(document: &Document<K>) -> Version {
    Version {
        uid: document.uid().unwrap_or_default().to_owned(),
        version: document.resource_version().unwrap_or_default().to_owned(),
    }
}

fn target<K>(kind: ObjectKind, document: &Document<K>) -> Target {
    Target {
        kind,
        namespace: document.namespace().map(str::to_owned),
        name: document.name().to_owned(),
        version: version(document),
    }
}

/// Patches an object of the source.
fn patch<K>(step: StepName, kind: ObjectKind, document: &Document<K>, patch: Value) -> Decision {
    let change = Change::Patch {
        side: Side::Source,
        target: target(kind, document),
        patch,
    };
    Decision::act(step, None, change)
}

/// | copies                        | so                                                    |
/// |-------------------------------|-------------------------------------------------------|
/// | none, nothing captured yet    | create the one beside the migration                   |
/// | none, although one was there  | hold: without a capture there is no way back          |
/// | one                           | create the other from it                              |
/// | both, template as captured    | done                                                  |
/// | both, template edited since   | hold; not yet locked: the caller captures again       |
/// | something else under the name | hold                                                  |
fn capture(freeze: &Freeze<'_>) -> Decision {
    match freeze.copies {
        CaptureCopies::Ours(packed) => edited_since_capture(freeze, packed),
        CaptureCopies::Missing => match freeze.capture {
            Some(packed) => store(freeze, packed, CopyLocation::BesideObject),
            None => Decision::on_hold(HoldReason::DestinationConflict, None, "both Secrets of the capture are gone; restore one from a backup and raise spec.retry, or set \
                 spec.abort to Leave"
                    .to_owned(),
            ),
        },
        CaptureCopies::LoneCopy { missing, capture } => store(freeze, capture, *missing),
        CaptureCopies::OtherContent { error, .. } => {
            let message = format!("{error}; remove that Secret and raise spec.retry");
            Decision::on_hold(HoldReason::DestinationConflict, None, message)
        }
    }
}

/// What stops a run that has not marked the StatefulSet of the source yet, which is the end of taking the locks: it
/// gives way, and is checked again.
///
/// | found                                | so    |
/// |--------------------------------------|-------|
/// | a lock or the marker of another run  | stop  |
/// | the template is not the captured one | stop  |
/// | our marker                           | go on |
pub fn refused(freeze: &Freeze<'_>) -> Option<Interference> {
    let is_unmarked =
        |set: &&Document<StatefulSet>| ownership_of(set.value(), freeze.run) != Ownership::Ours;
    freeze.set.filter(is_unmarked)?;
    let edited = match freeze.copies {
        CaptureCopies::Ours(packed)
        | CaptureCopies::LoneCopy {
            capture: packed, ..
        } => edited_since_capture(freeze, packed),
        CaptureCopies::Missing | CaptureCopies::OtherContent { .. } => Decision::Done,
    };
    let locks = freeze.locks.iter().map(take_lock);
    let mut decided = locks.chain([mark(freeze), edited]);
    decided.find_map(|decision| match decision {
        Decision::Hold(hold) => Some(hold),
        Decision::Done
        | Decision::Act(_)
        | Decision::Wait(_)
        | Decision::ReadDisks { .. }
        | Decision::ReadSnapshots { .. }
        | Decision::Fail(_) => None,
    })
}

fn edited_since_capture(freeze: &Freeze<'_>, packed: &PackedCapture) -> Decision {
    let is_captured = |captured| captured == freeze.template;
    let edited = freeze
        .set
        .filter(|_| !freeze.captured_template.is_none_or(is_captured));
    let Some(set) = edited else {
        return Decision::Done;
    };
    let captured = Document::read(packed.capture().stateful_set().clone());
    let edits = captured.map_or_else(|_| String::new(), |captured| edits(&captured, set));
    let message = edited_template(set.name(), Side::Source, &edits);
    Decision::on_hold(HoldReason::SourceEdited, None, message)
}

fn store(freeze: &Freeze<'_>, packed: &PackedCapture, location: CopyLocation) -> Decision {
    let change = match location {
        CopyLocation::BesideObject => {
            let secret = packed.secret(freeze.namespace, freeze.owner.cloned());
            let body = serde_json::to_value(secret).expect("Kubernetes types become JSON");
            Change::StoreCapture { body }
        }
        CopyLocation::InSource => {
            let secret = packed.secret(freeze.source_namespace, None);
            create(Side::Source, ObjectKind::Secret, &secret)
        }
    };
    Decision::act(StepName::Capture, None, change)
}

/// Both locks, the source's first, then our mark on the StatefulSet of the source.
fn lock(freeze: &Freeze<'_>) -> Decision {
    let locks = freeze.locks.iter().map(take_lock);
    first_unfinished(locks.chain([mark(freeze)]))
}

/// Our mark on the StatefulSet of the source.
fn mark(freeze: &Freeze<'_>) -> Decision {
    let Some(set) = freeze.set else {
        return Decision::Done;
    };
    match source_ownership(set.value(), freeze.run) {
        Ownership::Ours => Decision::Done,
        Ownership::Unmarked => {
            let marker = json!({"metadata": {"annotations": {RUN: freeze.run}}});
            patch(StepName::Lock, ObjectKind::StatefulSet, set, marker)
        }
        Ownership::Foreign(run) => Decision::on_hold(
            HoldReason::LockLost,
            None,
            format!(
                "{} in the source is marked by run {run}; remove its marks with \
                 `pontoon migrate audit --release` and raise spec.retry",
                set.title()
            ),
        ),
    }
}

/// Whose an object of the source is. The marker of the run by which it has arrived there does not count: while that
/// run goes on, or keeps its own source, its lock is here too.
fn source_ownership(object: &Value, run: &str) -> Ownership {
    let metadata = &object["metadata"];
    let has_arrived = metadata["annotations"][MIGRATED_FROM].is_string()
        || metadata["labels"][MIGRATED_LABEL].is_string();
    match ownership_of(object, run) {
        Ownership::Foreign(_) if has_arrived => Ownership::Unmarked,
        owner => owner,
    }
}

fn vanished() -> Decision {
    Decision::on_hold(
        HoldReason::SourceVanished,
        None,
        "the StatefulSet of the source is gone; create it again and raise spec.retry".to_owned(),
    )
}

/// | what may be done | so                                |
/// |------------------|-----------------------------------|
/// | nothing          | done                              |
/// | create           | create                            |
/// | rewrite          | rewrite the version that was read |
/// | any other        | hold: another run has it          |
fn take_lock(lock: &LockState) -> Decision {
    let side = lock.side;
    match (&lock.action, &lock.found) {
        (LockAction::Nothing, _) => Decision::Done,
        (LockAction::Create, _) => {
            let map = lock.wanted.config_map(&lock.namespace, &lock.set);
            Decision::act(
                StepName::Lock,
                None,
                create(side, ObjectKind::ConfigMap, &map),
            )
        }
        (LockAction::Rewrite, Some(found)) => {
            let target = Target {
                kind: ObjectKind::ConfigMap,
                namespace: Some(lock.namespace.clone()),
                name: crate::record::names::lock_name(&lock.set),
                version: found.clone(),
            };
            let patch = lock.wanted.patch();
            Decision::act(
                StepName::Lock,
                None,
                Change::Patch {
                    side,
                    target,
                    patch,
                },
            )
        }
        (LockAction::Refuse(owner), _) => {
            let message = format!(
                "the lock in the {side} is of {owner}; end that run, or remove its lock with \
                 `pontoon migrate audit --release`, and raise spec.retry"
            );
            Decision::on_hold(HoldReason::LockLost, None, message)
        }
        (LockAction::Rewrite | LockAction::Lost | LockAction::Delete, _) => {
            let message =
                format!("the lock in the {side} is gone; raise spec.retry to take it again");
            Decision::on_hold(HoldReason::LockLost, None, message)
        }
    }
}

/// The StatefulSet, then claims, then volumes: no deletion may take a disk along.
fn protect(freeze: &Freeze<'_>) -> Decision {
    let claims = freeze.claims.iter().map(protect_claim);
    let volumes = freeze
        .volumes
        .iter()
        .map(|volume| protect_volume(freeze, volume));
    let moved = |claim: &&Document<PersistentVolumeClaim>| {
        let mut pairs = freeze.pairs.iter();
        pairs.any(|pair| pair.claim.wanted.name() == claim.name())
    };
    let found = freeze
        .claims
        .iter()
        .filter(moved)
        .map(|claim| has_volume(freeze, claim));
    first_unfinished(
        freeze
            .set
            .into_iter()
            .map(protect_set)
            .chain(claims)
            .chain(found)
            .chain(volumes),
    )
}

/// A volume that was not read cannot be protected. Only claims that move need theirs.
fn has_volume(freeze: &Freeze<'_>, claim: &Document<PersistentVolumeClaim>) -> Decision {
    let missing = claim.text("/spec/volumeName").filter(|name| {
        let mut volumes = freeze.volumes.iter();
        !volumes.any(|volume| volume.name() == *name)
    });
    missing.map_or(Decision::Done, |name| {
        let message = format!(
            "volume {name} of {} in the source is missing; create it again with reclaim policy Retain and raise \
             spec.retry",
            claim.title()
        );
        Decision::on_hold(HoldReason::SourceEdited, None, message)
    })
}

/// A server without this field keeps claims anyway.
fn protect_set(set: &Document<StatefulSet>) -> Decision {
    let policy = set.field("/spec/persistentVolumeClaimRetentionPolicy");
    let retains = |policy: &Value, when| policy[when] == "Retain";
    if policy.is_none_or(|policy| retains(policy, "whenDeleted") && retains(policy, "whenScaled")) {
        return Decision::Done;
    }
    let retain = json!({"whenDeleted": "Retain", "whenScaled": "Retain"});
    let policy = json!({"spec": {"persistentVolumeClaimRetentionPolicy": retain}});
    patch(StepName::Protect, ObjectKind::StatefulSet, set, policy)
}

fn protect_claim(claim: &Document<PersistentVolumeClaim>) -> Decision {
    let owners = claim
        .field("/metadata/ownerReferences")
        .and_then(Value::as_array);
    let owners = owners.map(Vec::as_slice).unwrap_or_default();
    let is_controlled = |owner: &&Value| CONTROLLED.iter().any(|kind| owner["kind"] == *kind);
    if !owners.iter().any(|owner| is_controlled(&owner)) {
        return Decision::Done;
    }
    let others: Vec<&Value> = owners
        .iter()
        .filter(|owner| !is_controlled(owner))
        .collect();
    let owners = json!({"metadata": {"ownerReferences": others}});
    patch(StepName::Protect, ObjectKind::Claim, claim, owners)
}

fn protect_volume(freeze: &Freeze<'_>, volume: &Document<PersistentVolume>) -> Decision {
    let is_retained = volume.text("/spec/persistentVolumeReclaimPolicy") == Some("Retain");
    match source_ownership(volume.value(), freeze.run) {
        Ownership::Ours if is_retained => Decision::Done,
        Ownership::Ours | Ownership::Unmarked => {
            let retain = json!({
                "metadata": {"annotations": {RUN: freeze.run}},
                "spec": {"persistentVolumeReclaimPolicy": "Retain"},
            });
            patch(StepName::Protect, ObjectKind::Volume, volume, retain)
        }
        Ownership::Foreign(run) => Decision::on_hold(
            HoldReason::LockLost,
            None,
            format!(
                "{} in the source is marked by run {run}; remove its marks with \
                 `pontoon migrate audit --release` and raise spec.retry",
                volume.title()
            ),
        ),
    }
}

/// All volumes, then all claims, then every pair is bound.
fn hydrate(freeze: &Freeze<'_>) -> Decision {
    let (step, run) = (StepName::Hydrate, freeze.run);
    let volumes = freeze.pairs.iter();
    let volumes = volumes.map(|pair| exists(step, ObjectKind::Volume, &pair.volume, run));
    let claims = freeze.pairs.iter();
    let claims = claims.map(|pair| exists(step, ObjectKind::Claim, &pair.claim, run));
    let bound = freeze.pairs.iter().map(bound);
    first_unfinished(volumes.chain(claims).chain(bound))
}

impl NewPair {
    /// Whether volume and claim are bound to each other.
    pub fn is_bound(&self) -> bool {
        let volume = self.volume.live.as_ref();
        let claim = self.claim.live.as_ref();
        let phases = [
            volume.and_then(|live| live.text("/status/phase")),
            claim.and_then(|live| live.text("/status/phase")),
        ];
        phases == [Some("Bound"); 2]
    }
}

fn bound(pair: &NewPair) -> Decision {
    let claim = &pair.claim.wanted;
    if pair.is_bound() {
        return Decision::Done;
    }
    Decision::Wait(Wait {
        step: StepName::Hydrate,
        ordinal: None,
        reason: StallReason::ClaimUnbound,
        detail: format!(
            "{} in the destination is not bound to {} yet",
            claim.title(),
            pair.volume.wanted.title()
        ),
        after: None,
    })
}

/// Nothing has moved yet, so the destination runs nothing.
fn prepare(freeze: &Freeze<'_>) -> Decision {
    let new = freeze.new_set;
    let prepared = exists(StepName::Prepare, ObjectKind::StatefulSet, new, freeze.run);
    let live = new.live.as_ref().filter(|_| prepared == Decision::Done);
    let replicas = live.and_then(|live| live.field("/spec/replicas")?.as_i64());
    if replicas.is_none_or(|replicas| replicas == 0) {
        return prepared;
    }
    let message = format!(
        "{} in the destination has replicas, and no ordinal has moved; scale it to 0 and raise spec.retry",
        new.wanted.title()
    );
    Decision::on_hold(HoldReason::DestinationDrift, None, message)
}

/// | exists | of this run | fields as sent | so     |
/// |--------|-------------|----------------|--------|
/// | no     |             |                | create |
/// | yes    | no          | any            | hold   |
/// | yes    | yes         | no             | hold   |
/// | yes    | yes         | yes            | done; being deleted: wait |
fn exists<K: k8s_openapi::Resource>(
    step: StepName,
    kind: ObjectKind,
    new: &New<K>,
    run: &str,
) -> Decision {
    let Some(live) = &new.live else {
        let change = Change::Create {
            side: Side::Destination,
            kind,
            body: new.wanted.value().clone(),
        };
        return Decision::act(step, None, change);
    };
    let title = new.wanted.title();
    if ownership_of(live.value(), run) != Ownership::Ours {
        let message = format!(
            "{title} in the destination exists and is not of this run; remove it and raise spec.retry"
        );
        return Decision::on_hold(HoldReason::DestinationConflict, None, message);
    }
    let mut differing = differing_fields(&new.wanted, live);
    // The window of the StatefulSet belongs to the ordinals that move.
    differing.retain(|field| kind != ObjectKind::StatefulSet || field != "/spec/replicas");
    if live.text("/metadata/deletionTimestamp").is_some() {
        return Decision::Wait(Wait {
            step,
            ordinal: None,
            reason: StallReason::DeletionPending,
            detail: format!(
                "{title} in the destination is being deleted, and is created again after that"
            ),
            after: None,
        });
    }
    if differing.is_empty() {
        return Decision::Done;
    }
    let message = format!(
        "{title} in the destination differs in {}; undo the edit and raise spec.retry",
        differing.join(", ")
    );
    Decision::on_hold(HoldReason::DestinationConflict, None, message)
}

#[cfg(test)]
mod tests;
