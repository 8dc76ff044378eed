//! The fence: a claim that cannot be bound gets the name of each claim of the ordinal in its old cluster. A pod
//! that comes back there stays Pending, no new disk is made for it, and the disk is out of its reach.

use api::migrate::{HoldReason, StallReason, StepName};
use kernel::Ownership;

use super::{Direction, Handover, HandoverClaim, protect};
use crate::migration::decision::{Change, Decision, ObjectKind, first_unfinished};
use crate::migration::observation::{ClaimState, Side, VolumePhase, VolumeState};

/// Whether every claim of the old cluster is fenced.
pub(super) fn is_complete(handover: &Handover<'_>) -> bool {
    next(handover) == Decision::Done
}

/// The first claim that is not fenced decides.
pub(super) fn next(handover: &Handover<'_>) -> Decision {
    first_unfinished(handover.claims.iter().map(|claim| one(handover, claim)))
}

/// | claim of the old cluster     | its volume             | so                                     |
/// |------------------------------|------------------------|----------------------------------------|
/// | our tombstone                | retained, let go       | done (back: delete the volume first)   |
/// | our tombstone                | free for another claim | hold: it would get the disk            |
/// | our tombstone                | still bound to a claim | wait                                   |
/// | being deleted                | any                    | wait                                   |
/// | of ours, or of the capture   | retained               | delete it                              |
/// | of ours, or of the capture   | not retained           | hold; back: retain it                  |
/// | of the capture               | missing                | hold; back: delete the claim           |
/// | of somebody else             | any                    | hold: the name is contended            |
/// | absent                       | any                    | create the tombstone                   |
fn one(handover: &Handover<'_>, claim: &HandoverClaim) -> Decision {
    let side = handover.direction.from();
    let step = match handover.direction {
        Direction::Forward => StepName::Fence,
        Direction::Back => StepName::RFence,
    };
    let volume = handover.from().volumes.get(claim.volume(side));
    let Some(live) = handover.from().claims.get(&claim.name) else {
        return handover.step(
            step,
            Change::Create {
                side,
                kind: ObjectKind::Claim,
                body: claim.tombstone(side).clone(),
            },
        );
    };
    if live.is_terminating {
        let detail = pending_deletion(handover, claim);
        return handover.wait(step, StallReason::DeletionPending, detail);
    }
    if is_our_tombstone(live) {
        return after_tombstone(handover, step, claim, volume);
    }
    if volume.is_none() && handover.direction == Direction::Forward {
        let message = format!(
            "volume {} of claim {} in the {side} is missing; create it again from the capture and raise spec.retry",
            claim.volume(side),
            claim.name
        );
        return handover.on_hold(HoldReason::SourceEdited, message);
    }
    if !is_of_run(handover, claim, live, volume) {
        let message = format!(
            "claim {} in the {side} was created by somebody else; save its data, delete it and raise spec.retry",
            claim.name
        );
        return handover.on_hold(HoldReason::FenceContended, message);
    }
    if volume.is_some_and(|volume| !volume.is_retained) {
        return protect::retain(handover, step, claim);
    }
    let change = handover.delete(side, ObjectKind::Claim, &claim.name, &live.version);
    handover.step(step, change)
}

/// What a claim that is being deleted waits for: its protection ends with the last pod that uses it.
fn pending_deletion(handover: &Handover<'_>, claim: &HandoverClaim) -> String {
    let side = handover.direction.from();
    let mut pods = handover.from().pods.iter();
    let user = pods
        .find(|(_, pod)| pod.node.is_some() && !pod.has_ended && pod.claims.contains(&claim.name));
    let name = &claim.name;
    match user {
        Some((pod, _)) => {
            format!(
                "claim {name} in the {side} is being deleted, but pod {pod} uses it; stop that pod"
            )
        }
        None => format!(
            "claim {name} in the {side} is being deleted; if it stays, see which of its finalizers is left"
        ),
    }
}

/// Whether the claim is a tombstone of this run.
pub(super) fn is_our_tombstone(claim: &ClaimState) -> bool {
    claim.is_tombstone && claim.ownership == Ownership::Ours
}

/// The claim that is to be fenced is the one that the volume is bound to. That a namesake was created after
/// the capture shows in the UID of the volume's reference.
fn is_of_run(
    handover: &Handover<'_>,
    claim: &HandoverClaim,
    live: &ClaimState,
    volume: Option<&VolumeState>,
) -> bool {
    let reference = volume.and_then(|volume| volume.claim.as_ref());
    let is_bound_to =
        reference.is_some_and(|reference| reference.uid.as_deref() == Some(&*live.version.uid));
    match handover.direction {
        Direction::Forward => is_bound_to,
        Direction::Back => {
            let names_volume = live.volume.as_ref() == Some(&claim.destination_volume);
            is_bound_to || (live.ownership == Ownership::Ours && names_volume)
        }
    }
}

fn after_tombstone(
    handover: &Handover<'_>,
    step: StepName,
    claim: &HandoverClaim,
    volume: Option<&VolumeState>,
) -> Decision {
    let side = handover.direction.from();
    let name = claim.volume(side);
    let Some(volume) = volume else {
        return Decision::Done;
    };
    let is_reserved = is_reserved(handover, side, claim, volume);
    if !is_reserved && matches!(volume.phase, VolumePhase::Available | VolumePhase::Bound) {
        let message = unreserved(handover, side, claim);
        return handover.on_hold(HoldReason::FenceContended, message);
    }
    if matches!(volume.phase, VolumePhase::Bound | VolumePhase::Pending) {
        let detail = format!("volume {name} in the {side} is not released yet");
        return handover.wait(step, StallReason::ClaimUnbound, detail);
    }
    if !volume.is_retained {
        return protect::retain(handover, step, claim);
    }
    match handover.direction {
        Direction::Forward => Decision::Done,
        Direction::Back if volume.is_terminating || volume.has_provisioner_finalizer => {
            let detail = format!(
                "volume {name} in the {side} is being deleted, or still has the finalizer of the provisioner"
            );
            handover.wait(step, StallReason::ProvisionerFinalizer, detail)
        }
        Direction::Back => {
            let change = handover.delete(side, ObjectKind::Volume, name, &volume.version);
            handover.step(step, change)
        }
    }
}

/// Whether no claim but the one of this name may be bound to the volume.
pub(super) fn is_reserved(
    handover: &Handover<'_>,
    side: Side,
    claim: &HandoverClaim,
    volume: &VolumeState,
) -> bool {
    let reference = volume.claim.as_ref();
    reference.is_some_and(|reference| {
        reference.name == claim.name && reference.namespace == handover.namespace(side)
    })
}

/// What to do about a volume that is not reserved.
pub(super) fn unreserved(handover: &Handover<'_>, side: Side, claim: &HandoverClaim) -> String {
    format!(
        "volume {} in the {side} is free for any claim, or of another one; let its spec.claimRef name claim {}/{} \
         without a UID and raise spec.retry",
        claim.volume(side),
        handover.namespace(side),
        claim.name
    )
}
