//! Back in a source whose API server has no `spec.ordinals`: its StatefulSet can only be created again as a whole,
//! after every ordinal that has moved is drained and unfenced.

use api::migrate::{StallReason, StepName};

use super::{Handover, detach, fence, unfence};
use crate::migration::decision::{Decision, Wait, first_unfinished};
use crate::migration::detach::attached_in;
use crate::migration::observation::DiskState;

/// The wait of an ordinal that is ready for the StatefulSet.
pub(super) fn parked(handover: &Handover<'_>) -> Decision {
    Decision::Wait(Wait {
        step: StepName::RGrow,
        ordinal: Some(handover.ordinal),
        reason: StallReason::SourceUnready,
        detail: format!(
            "ordinal {} waits until StatefulSet {} can be created again in the source",
            handover.ordinal, handover.set
        ),
        after: Some(std::time::Duration::ZERO),
    })
}

/// What is missing before the StatefulSet of the source may run the ordinal again:
///
/// | evidence                                                       | otherwise             |
/// |----------------------------------------------------------------|-----------------------|
/// | its claims in the destination are fenced, its volumes deleted  | fence                 |
/// | nothing in the destination uses a disk                         | wait                  |
/// | its claims in the source have their disks                      | unfence               |
/// | a young read of EC2 shows each disk as free, or in the source  | read, or wait         |
pub fn next(handover: &Handover<'_>) -> Decision {
    let fenced = first_unfinished(
        [fence::next, unused, unfence::next]
            .iter()
            .map(|step| step(handover)),
    );
    if fenced == Decision::Done {
        free(handover)
    } else {
        fenced
    }
}

fn wait(handover: &Handover<'_>, detail: String) -> Decision {
    Decision::wait(
        StepName::RGrow,
        Some(handover.ordinal),
        StallReason::Detaching,
        detail,
    )
}

fn unused(handover: &Handover<'_>) -> Decision {
    let mut uses = handover.claims.iter().filter_map(|claim| {
        let used = detach::remaining(handover, claim)?;
        Some(format!("{} ({}): {used}", claim.name, claim.disk))
    });
    uses.next()
        .map_or(Decision::Done, |detail| wait(handover, detail))
}

fn free(handover: &Handover<'_>) -> Decision {
    for claim in handover.claims {
        let read = handover.observation.disks.get(&claim.disk);
        let Some(read) = read.filter(|read| handover.is_young(read)) else {
            let disks = handover.claims.iter().map(|claim| claim.disk.clone());
            return Decision::ReadDisks {
                step: StepName::RGrow,
                ids: disks.collect(),
                not_before: handover.elapsed,
            };
        };
        if let Some(lost) = detach::loss(handover, claim, read) {
            return lost;
        }
        let is_free = read.disk.as_ref().is_some_and(DiskState::is_free);
        if !is_free && !attached_in(handover.to(), read) {
            let detail = format!("volume {} of claim {} is not free", claim.disk, claim.name);
            return wait(handover, detail);
        }
    }
    Decision::Done
}
