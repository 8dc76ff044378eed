//! The disks leave the old cluster: detach before the fence, confirm after it.

use api::migrate::{FailReason, HoldReason, StallReason, StepName};

use super::{Direction, Handover, HandoverClaim};
use crate::migration::decision::{Decision, Failure, Wait};
use crate::migration::detach::{Use, attached_in, remaining_use};
use crate::migration::observation::{DiskRead, DiskState};

/// The use that the old cluster still makes of a claim's disk.
pub(super) fn remaining(handover: &Handover<'_>, claim: &HandoverClaim) -> Option<Use> {
    let volume = claim.volume(handover.direction.from());
    let cluster = handover.from();
    remaining_use(cluster, &claim.name, volume, &claim.disk, handover.node)
}

/// Whether a young read shows that the new cluster already has the disk. An older one proves nothing.
fn is_with_receiver(handover: &Handover<'_>, read: &DiskRead) -> bool {
    handover.is_young(read) && attached_in(handover.to(), read)
}

/// Whether a young read shows the disk of a claim with the new cluster.
pub(super) fn has_arrived(handover: &Handover<'_>, claim: &HandoverClaim) -> bool {
    let read = handover.observation.disks.get(&claim.disk);
    read.is_some_and(|read| is_with_receiver(handover, read))
}

/// The old cluster must have let go of every disk, and a read of EC2 after that must show it free.
///
/// | EC2                          | old cluster | so                                     |
/// |------------------------------|-------------|----------------------------------------|
/// | at an instance of the new    | any         | done for this disk, if the read is young; else read |
/// | any                          | uses it     | wait; DetachBusy if only EC2 keeps it  |
/// | not read since it let go     | unused      | read                                   |
/// | absent                       | unused      | hold: absence never counts as free     |
/// | error, deleting, deleted     | unused      | fail                                   |
/// | attached, detaching, busy    | unused      | wait, if the read is young; else read  |
/// | available, nothing attached  | unused      | done for this disk                     |
pub(super) fn next(handover: &Handover<'_>) -> Decision {
    let step = match handover.direction {
        Direction::Forward => StepName::Detach,
        Direction::Back => StepName::RDetach,
    };
    let mut unread = Vec::new();
    let mut not_before = handover.elapsed;
    for claim in handover.claims {
        let read = handover.observation.disks.get(&claim.disk);
        if let Some(read) = read.filter(|read| attached_in(handover.to(), read)) {
            if !handover.is_young(read) {
                unread.push(claim.disk.clone());
            }
            continue;
        }
        if let Some(used) = remaining(handover, claim) {
            return still_used(handover, step, claim, &used);
        }
        let unused_since = handover.proof.unused_since(&claim.disk);
        let fresh = read.filter(|read| unused_since.is_some_and(|since| read.began >= since));
        let Some(read) = fresh else {
            not_before = not_before.min(unused_since.unwrap_or(handover.elapsed));
            unread.push(claim.disk.clone());
            continue;
        };
        if let Some(decision) = obstacle(handover, step, claim, read) {
            if handover.is_young(read) {
                return decision;
            }
            return Decision::ReadDisks {
                step,
                ids: vec![claim.disk.clone()],
                not_before: handover.elapsed,
            };
        }
    }
    if unread.is_empty() {
        return Decision::Done;
    }
    Decision::ReadDisks {
        step,
        ids: unread,
        not_before,
    }
}

/// The second read, after the fence: a disk that was attached between the first read and the fence is caught.
pub(super) fn confirm(handover: &Handover<'_>) -> Decision {
    let mut unconfirmed = Vec::new();
    let mut not_before = handover.elapsed;
    for claim in handover.claims {
        let is_done = has_arrived(handover, claim) || handover.proof.is_confirmed(&claim.disk);
        if !is_done {
            let earliest = handover.proof.earliest_confirmation(&claim.disk);
            not_before = not_before.max(earliest.unwrap_or(handover.elapsed));
            unconfirmed.push(claim.disk.clone());
        }
    }
    if unconfirmed.is_empty() {
        return Decision::Done;
    }
    let step = match handover.direction {
        Direction::Forward => StepName::Confirm,
        Direction::Back => StepName::RConfirm,
    };
    if not_before > handover.elapsed {
        return Decision::Wait(Wait {
            step,
            ordinal: Some(handover.ordinal),
            reason: StallReason::Detaching,
            detail: format!(
                "the second read of {} is due in a moment",
                unconfirmed.join(", ")
            ),
            after: Some(not_before.saturating_sub(handover.elapsed)),
        });
    }
    Decision::ReadDisks {
        step,
        ids: unconfirmed,
        not_before,
    }
}

fn still_used(
    handover: &Handover<'_>,
    step: StepName,
    claim: &HandoverClaim,
    used: &Use,
) -> Decision {
    let side = handover.direction.from();
    let reason = match used {
        Use::Pod(_) => StallReason::PodTerminating,
        Use::Node(_) => StallReason::Unmounting,
        Use::Attachment { .. } => StallReason::Detaching,
    };
    // The driver keeps the VolumeAttachment until EC2 has detached the disk.
    let read = handover.observation.disks.get(&claim.disk);
    let read = read.filter(|read| handover.is_young(read) && reason == StallReason::Detaching);
    let disk = read.and_then(|read| read.disk.as_ref());
    if let Some((StallReason::DetachBusy, detail)) = disk.map(|disk| attachment_of(claim, disk)) {
        return handover.wait(step, StallReason::DetachBusy, detail);
    }
    let detail = format!("{} ({}) in the {side}: {used}", claim.name, claim.disk);
    handover.wait(step, reason, detail)
}

/// What keeps a disk from being free, by a read that is new enough.
fn obstacle(
    handover: &Handover<'_>,
    step: StepName,
    claim: &HandoverClaim,
    read: &DiskRead,
) -> Option<Decision> {
    if let Some(decision) = loss(handover, claim, read) {
        return Some(decision);
    }
    let disk = read.disk.as_ref().filter(|disk| !disk.is_free())?;
    let (reason, detail) = attachment_of(claim, disk);
    Some(handover.wait(step, reason, detail))
}

/// EC2 does not have the disk, or has lost it.
pub(super) fn loss(
    handover: &Handover<'_>,
    claim: &HandoverClaim,
    read: &DiskRead,
) -> Option<Decision> {
    let Some(disk) = &read.disk else {
        let message = format!(
            "EC2 has no volume {} of claim {}; check the account and region, then raise spec.retry",
            claim.disk, claim.name
        );
        return Some(handover.on_hold(HoldReason::VolumeMissing, message));
    };
    disk.is_lost().then(|| {
        Decision::Fail(Failure {
            reason: FailReason::VolumeLost,
            ordinal: Some(handover.ordinal),
            message: format!(
                "volume {} of claim {} is in state {}; set spec.abort to Leave and restore its data from a \
                 snapshot by hand",
                claim.disk, claim.name, disk.state
            ),
        })
    })
}

fn attachment_of(claim: &HandoverClaim, disk: &DiskState) -> (StallReason, String) {
    let attachment = disk.attachments.first();
    let is_busy = attachment.is_some_and(|attachment| attachment.state == "busy");
    let reason = if is_busy {
        StallReason::DetachBusy
    } else {
        StallReason::Detaching
    };
    let detail = match attachment {
        Some(attachment) => format!(
            "volume {} of claim {} is {} at instance {} as {}",
            claim.disk, claim.name, attachment.state, attachment.instance, attachment.device
        ),
        None => format!(
            "volume {} of claim {} is {}",
            claim.disk, claim.name, disk.state
        ),
    };
    (reason, detail)
}
