//! Whether the disks of an ordinal were detached cleanly.
//!
//! A node that fails while it has a disk mounted may have written a part of its last data only. Kubernetes detaches
//! such a disk all the same, after some minutes or by force, and EC2 shows it as free.

use api::migrate::HoldReason;

use super::{Handover, detach};
use crate::migration::decision::Decision;

/// Why a detach was not clean, as far as this observation shows it. Only the node that the pod has left counts.
///
/// | the old cluster still uses a disk | node                                           | so                |
/// |-----------------------------------|------------------------------------------------|-------------------|
/// | yes                               | gone, not Ready, or out of service             | unclean           |
/// | any                               | has a disk mounted, no VolumeAttachment exists | unclean           |
/// | any                               | any other                                      | nothing           |
///
/// Two caches may be of different ages, so the second row needs live reads.
pub(super) fn seen(handover: &Handover<'_>) -> Option<String> {
    let name = handover.node.filter(|_| handover.is_released())?;
    let node = handover.from().nodes.get(name);
    let mut claims = handover.claims.iter();
    let is_used = claims.any(|claim| detach::remaining(handover, claim).is_some());
    let failed = match node {
        None => Some("was deleted"),
        Some(node) if !node.is_ready => Some("was not Ready"),
        Some(node) if node.is_out_of_service => Some("was out of service"),
        Some(_) => None,
    };
    if let Some(failed) = failed.filter(|_| is_used) {
        return Some(format!("node {name} {failed} while it had a disk"));
    }
    let claims = handover
        .claims
        .iter()
        .filter(|_| handover.observation.is_live);
    let mounted = claims.into_iter().find(|claim| {
        let is_mounted = node.is_some_and(|node| node.mounted.contains(&claim.disk));
        is_mounted && !has_attachment(handover, &claim.disk)
    })?;
    Some(format!(
        "disk {} was detached while node {name} had it mounted",
        mounted.disk
    ))
}

fn has_attachment(handover: &Handover<'_>, disk: &str) -> bool {
    let cluster = handover.from();
    cluster.attachments.iter().any(|attachment| {
        let volume = cluster.volumes.get(&attachment.volume);
        volume.is_some_and(|volume| volume.disk.as_deref() == Some(disk))
    })
}

/// What a process that has just started cannot have seen: the node was deleted, restarted, or not Ready since the
/// release.
pub(super) fn missed(handover: &Handover<'_>) -> Option<String> {
    let name = handover.node.filter(|_| handover.is_released())?;
    let Some(node) = handover.from().nodes.get(name) else {
        return Some(format!("node {name} was deleted after the release"));
    };
    let recorded = handover.boot_id.filter(|_| !node.boot_id.is_empty());
    if recorded.is_some_and(|boot_id| boot_id != node.boot_id) {
        return Some(format!("node {name} was restarted after the release"));
    }
    let (released, since) = (handover.released_at?, node.ready_since?);
    (since > released).then(|| format!("node {name} was not Ready for a time after the release"))
}

/// The new cluster does not get a disk that was not detached cleanly, unless a person accepts it.
pub(super) fn next(handover: &Handover<'_>) -> Decision {
    let Some(reason) = handover
        .proof
        .unclean()
        .filter(|_| !handover.accepts_unclean)
    else {
        return Decision::Done;
    };
    let message = format!(
        "{reason}, so its file system may be damaged; look at it, then accept with spec.acknowledge: \
         [UncleanDetach/{}], or set spec.abort: Rollback",
        handover.ordinal
    );
    handover.on_hold(HoldReason::UncleanDetach, message)
}
