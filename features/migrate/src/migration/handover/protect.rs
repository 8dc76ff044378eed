//! Before the destination gives an ordinal back, no deletion there may take its disk along. Forwards, the freeze has
//! done this; but the end of a run restores the settings of the destination, and a rollback may come after it.

use api::migrate::{HoldReason, StepName};
use kernel::Ownership;
use serde_json::json;

use super::{Direction, Handover, HandoverClaim};
use crate::migration::decision::{Change, Decision, ObjectKind, first_unfinished};

/// The StatefulSet, then the volumes of the ordinal.
///
/// | in the destination                        | so                               |
/// |-------------------------------------------|----------------------------------|
/// | the StatefulSet deletes claims            | let it retain them               |
/// | a volume of ours is not retained          | retain it                        |
/// | a volume of somebody else is not retained | hold: its disk could be deleted  |
/// | a volume is missing                       | done: nothing can delete its disk |
pub(super) fn next(handover: &Handover<'_>) -> Decision {
    if handover.direction == Direction::Forward {
        return Decision::Done;
    }
    let volumes = handover.claims.iter().map(|claim| volume(handover, claim));
    first_unfinished(std::iter::once(set(handover)).chain(volumes))
}

fn set(handover: &Handover<'_>) -> Decision {
    let set = handover.from().set.as_ref();
    let Some(set) = set.filter(|set| !set.retains_claims) else {
        return Decision::Done;
    };
    let side = handover.direction.from();
    let retain = json!({"whenDeleted": "Retain", "whenScaled": "Retain"});
    let change = Change::Patch {
        side,
        target: handover.target(side, ObjectKind::StatefulSet, handover.set, &set.version),
        patch: json!({"spec": {"persistentVolumeClaimRetentionPolicy": retain}}),
    };
    handover.step(StepName::RRelease, change)
}

fn volume(handover: &Handover<'_>, claim: &HandoverClaim) -> Decision {
    let volume = handover.from().volumes.get(&claim.destination_volume);
    match volume {
        Some(volume) if !volume.is_retained => retain(handover, StepName::RRelease, claim),
        Some(_) | None => Decision::Done,
    }
}

/// Retains a volume of the destination, or holds if it is not ours to change.
pub(super) fn retain(handover: &Handover<'_>, step: StepName, claim: &HandoverClaim) -> Decision {
    let side = handover.direction.from();
    let name = claim.volume(side);
    let volume = handover.from().volumes.get(name);
    match volume {
        Some(volume)
            if handover.direction == Direction::Back && volume.ownership == Ownership::Ours =>
        {
            let change = Change::Patch {
                side,
                target: handover.target(side, ObjectKind::Volume, name, &volume.version),
                patch: json!({"spec": {"persistentVolumeReclaimPolicy": "Retain"}}),
            };
            handover.step(step, change)
        }
        Some(_) | None => {
            let message = format!(
                "volume {name} of claim {} in the {side} is not retained, so its disk would be deleted with the \
                 claim; set its reclaim policy to Retain and raise spec.retry",
                claim.name
            );
            let reason = handover
                .direction
                .pick(HoldReason::SourceEdited, HoldReason::DestinationEdited);
            handover.on_hold(reason, message)
        }
    }
}
