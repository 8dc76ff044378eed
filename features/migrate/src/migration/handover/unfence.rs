//! Back in the source, the claims of the ordinal get their disks again. Only while the window of the source
//! excludes the ordinal, and its pod is gone there.

use api::migrate::{HoldReason, StallReason, StepName};
use serde_json::json;

use super::{Direction, Handover, HandoverClaim, fence};
use crate::migration::decision::{Change, Decision, ObjectKind, first_unfinished};
use crate::migration::observation::{Side, VolumePhase, VolumeState};

/// The first claim that is not restored decides. Forwards, the claims of the destination exist already.
///
/// A pod that somebody has made the source run anyway is Pending on a tombstone: it must go first, so that it gets
/// the disk only when EC2 was asked again.
pub(super) fn next(handover: &Handover<'_>) -> Decision {
    if handover.direction == Direction::Forward {
        return Decision::Done;
    }
    let unfinished = first_unfinished(handover.claims.iter().map(|claim| one(handover, claim)));
    if unfinished == Decision::Done {
        return Decision::Done;
    }
    let side = Side::Source;
    let narrow = handover
        .window_without(side)
        .filter(|_| handover.is_grown());
    if let Some(change) = handover.set_window(side, narrow) {
        return handover.step(StepName::RUnfence, change);
    }
    let pod = handover.pod(handover.ordinal);
    if handover.observation.cluster(side).pods.contains_key(&pod) {
        let detail = format!("pod {pod} in the source has not ended yet");
        return handover.wait(StepName::RUnfence, StallReason::PodTerminating, detail);
    }
    unfinished
}

/// | claim of the source    | its volume                   | so                                          |
/// |------------------------|------------------------------|---------------------------------------------|
/// | bound to the volume    | bound                        | done                                        |
/// | our tombstone          | names a claim by UID         | let the volume name the claim without a UID |
/// | our tombstone          | names the claim without UID  | delete the tombstone                        |
/// | being deleted          | any                          | wait                                        |
/// | absent                 | names a claim by UID         | let the volume name the claim without a UID |
/// | absent                 | names the claim without UID  | create the captured claim                   |
/// | names the volume       | not bound yet                | wait                                        |
/// | names no volume        | names the claim without UID  | wait: it gets this volume                   |
/// | any                    | free, or of another claim    | hold: somebody else may use the disk        |
/// | any other              | any                          | hold: the name is contended                 |
///
/// The order matters: as soon as the name is free, whoever claims it gets this disk and no new one.
fn one(handover: &Handover<'_>, claim: &HandoverClaim) -> Decision {
    let side = Side::Source;
    let source = handover.observation.cluster(side);
    let Some(volume) = source.volumes.get(&claim.source_volume) else {
        let message = format!(
            "volume {} is missing in the source, so claim {} cannot get its disk {} back; create it again from \
             the capture and raise spec.retry",
            claim.source_volume, claim.name, claim.disk
        );
        return handover.on_hold(HoldReason::SourceEdited, message);
    };
    let live = source.claims.get(&claim.name);
    if let Some(live) = live {
        if live.is_terminating {
            let detail = format!("claim {} in the source is being deleted", claim.name);
            return handover.wait(StepName::RUnfence, StallReason::DeletionPending, detail);
        }
        if !fence::is_our_tombstone(live) && live.volume.is_some() {
            return bound(handover, claim, live, volume);
        }
    }
    if !fence::is_reserved(handover, side, claim, volume) {
        let message = fence::unreserved(handover, side, claim);
        return handover.on_hold(HoldReason::FenceContended, message);
    }
    if names_claim_by_uid(volume) {
        let target = handover.target(
            side,
            ObjectKind::Volume,
            &claim.source_volume,
            &volume.version,
        );
        let patch = json!({"spec": {"claimRef": {"uid": null, "resourceVersion": null}}});
        let change = Change::Patch {
            side,
            target,
            patch,
        };
        return handover.step(StepName::RUnfence, change);
    }
    let change = match live {
        Some(live) if !fence::is_our_tombstone(live) => {
            let detail = format!("claim {} in the source is not bound yet", claim.name);
            return handover.wait(StepName::RUnfence, StallReason::ClaimUnbound, detail);
        }
        Some(tombstone) => {
            handover.delete(side, ObjectKind::Claim, &claim.name, &tombstone.version)
        }
        None => Change::Create {
            side,
            kind: ObjectKind::Claim,
            body: claim.restored.clone(),
        },
    };
    handover.step(StepName::RUnfence, change)
}

fn names_claim_by_uid(volume: &VolumeState) -> bool {
    let claim = volume.claim.as_ref();
    claim.is_some_and(|claim| claim.uid.is_some())
}

fn bound(
    handover: &Handover<'_>,
    claim: &HandoverClaim,
    live: &crate::migration::observation::ClaimState,
    volume: &VolumeState,
) -> Decision {
    if live.volume.as_deref() != Some(&*claim.source_volume) {
        let message = format!(
            "claim {} in the source does not name volume {}; save its data, delete it and raise spec.retry",
            claim.name, claim.source_volume
        );
        return handover.on_hold(HoldReason::FenceContended, message);
    }
    if live.is_bound && volume.phase == VolumePhase::Bound {
        return Decision::Done;
    }
    let detail = format!("claim {} in the source is not bound yet", claim.name);
    handover.wait(StepName::RUnfence, StallReason::ClaimUnbound, detail)
}
