//! The new cluster runs the ordinal: its disks are attached there, then its pod is Ready on the right disks.

use api::migrate::{FailReason, StallReason, StepName};

use super::{Direction, Handover, HandoverClaim, detach};
use crate::migration::decision::{Decision, Failure, Wait};
use crate::migration::detach::attached_in;
use crate::migration::gate::time_to_availability;
use crate::migration::observation::{PodState, SetState};

/// Attach, then ready.
pub(super) fn next(handover: &Handover<'_>) -> Decision {
    let attached = attach(handover);
    if attached == Decision::Done {
        ready(handover)
    } else {
        attached
    }
}

/// Every disk is attached to exactly one instance, one of the new cluster.
fn attach(handover: &Handover<'_>) -> Decision {
    let step = match handover.direction {
        Direction::Forward => StepName::Attach,
        Direction::Back => StepName::RAttach,
    };
    let missing = handover
        .claims
        .iter()
        .find(|claim| !is_attached(handover, claim));
    let Some(claim) = missing else {
        return Decision::Done;
    };
    let read = handover.observation.disks.get(&claim.disk);
    // An old read would turn an outage of EC2 into a disk that does not attach, and that fails the run.
    let Some(read) = read.filter(|read| handover.is_young(read)) else {
        return Decision::ReadDisks {
            step,
            ids: handover
                .claims
                .iter()
                .map(|claim| claim.disk.clone())
                .collect(),
            not_before: handover.elapsed,
        };
    };
    if let Some(decision) = detach::loss(handover, claim, read) {
        return decision;
    }
    let state = read.disk.as_ref().map_or("absent", |disk| &*disk.state);
    let detail = format!(
        "volume {} of claim {} is {state} and not yet attached to a node of the {}",
        claim.disk,
        claim.name,
        handover.direction.to()
    );
    handover.wait(step, unready(handover), detail)
}

/// The new cluster's pod is not there yet.
fn unready(handover: &Handover<'_>) -> StallReason {
    handover
        .direction
        .pick(StallReason::DestUnready, StallReason::SourceUnready)
}

fn is_attached(handover: &Handover<'_>, claim: &HandoverClaim) -> bool {
    let read = handover.observation.disks.get(&claim.disk);
    read.is_some_and(|read| {
        let disk = read.disk.as_ref();
        let mut attachments = disk.iter().flat_map(|disk| &disk.attachments);
        attached_in(handover.to(), read) && attachments.all(|one| one.state == "attached")
    })
}

/// | pod                          | chain of claim, volume and disk | so       |
/// |------------------------------|---------------------------------|----------|
/// | of another controller        | any                             | wait     |
/// | Ready for minReadySeconds    | as recorded                     | done     |
/// | Ready                        | another disk                    | fail     |
/// | missing, not Ready           | any                             | wait     |
fn ready(handover: &Handover<'_>) -> Decision {
    let side = handover.direction.to();
    let step = match handover.direction {
        Direction::Forward => StepName::Ready,
        Direction::Back => StepName::RReady,
    };
    let name = handover.pod(handover.ordinal);
    let set = handover.to().set.as_ref();
    let pod = handover.to().pods.get(&name);
    let (Some(set), Some(pod)) = (set, pod) else {
        let detail = format!("pod {name} does not exist yet in the {side}");
        return handover.wait(step, unready(handover), detail);
    };
    let left = time_to_availability(set, pod, handover.now);
    if left.is_none_or(|left| !left.is_zero()) {
        return Decision::Wait(Wait {
            step,
            ordinal: Some(handover.ordinal),
            reason: unready(handover),
            detail: unready_pod(handover, &name, set, pod),
            after: left,
        });
    }
    let wrong = handover
        .claims
        .iter()
        .find(|claim| !pod.claims.contains(&claim.name) || !is_chain_right(handover, claim));
    match wrong {
        None => Decision::Done,
        Some(claim) => Decision::Fail(Failure {
            reason: FailReason::VolumeMismatch,
            ordinal: Some(handover.ordinal),
            message: format!(
                "pod {name} in the {side} is Ready, but claim {} is not bound to volume {} with disk {}; \
                 stop the pod before it writes more, bind the claim to that volume and raise spec.retry",
                claim.name,
                claim.volume(side),
                claim.disk
            ),
        }),
    }
}

fn unready_pod(handover: &Handover<'_>, name: &str, set: &SetState, pod: &PodState) -> String {
    let side = handover.direction.to();
    if pod.controller.as_ref() == Some(&set.version.uid) {
        format!("pod {name} in the {side} is not Ready yet")
    } else {
        format!(
            "pod {name} in the {side} is not of StatefulSet {}; delete that pod",
            handover.set
        )
    }
}

fn is_chain_right(handover: &Handover<'_>, claim: &HandoverClaim) -> bool {
    let side = handover.direction.to();
    let cluster = handover.to();
    let bound = cluster
        .claims
        .get(&claim.name)
        .and_then(|live| live.volume.as_deref());
    let volume = cluster.volumes.get(claim.volume(side));
    bound == Some(claim.volume(side))
        && volume.and_then(|volume| volume.disk.as_deref()) == Some(&*claim.disk)
}
