//! The old cluster gives the ordinal away: release, then its pod is gone.

use api::migrate::{HoldReason, StallReason, StepName};

use super::{Direction, Handover, overlap};
use crate::migration::decision::{Decision, ObjectKind};

/// The window of the old cluster without the ordinal. Without a StatefulSet, the deletion of its pod.
pub(super) fn release(handover: &Handover<'_>) -> Decision {
    let side = handover.direction.from();
    let name = handover
        .direction
        .pick(StepName::Release, StepName::RRelease);
    if let Some(pod) = handover.orphan().filter(|_| handover.leaves_alone()) {
        let pod_name = handover.pod(handover.ordinal);
        let change = handover.delete(side, ObjectKind::Pod, &pod_name, &pod.version);
        return handover.step(name, change);
    }
    match handover.set_window(side, handover.window_without(side)) {
        Some(change) => handover.step(name, change),
        // The old cluster runs an ordinal that does not move.
        None => overlap(handover),
    }
}

/// The pod of the ordinal must be gone from the old cluster.
///
/// | pod             | UID      | others are unready     | so                                  |
/// |-----------------|----------|------------------------|-------------------------------------|
/// | gone            |          |                        | done                                |
/// | there           | another  | any                    | hold: the window was widened        |
/// | of another      | not known | any                   | hold: it is not ours to delete      |
/// | being deleted   | the same | any                    | wait                                |
/// | there           | the same | none, or they count    | wait for the StatefulSet controller |
/// | there           | the same | some that do not count | delete it                           |
///
/// The controller of a StatefulSet deletes no pod while one that remains is unready. Where that pod does not
/// count, the operator deletes the released pod itself.
pub(super) fn gone(handover: &Handover<'_>) -> Decision {
    let name = handover.pod(handover.ordinal);
    let side = handover.direction.from();
    let step = handover.direction.pick(StepName::Gone, StepName::RGone);
    let Some(pod) = handover.from().pods.get(&name) else {
        return Decision::Done;
    };
    if let Some(expected) = handover.pod_uid
        && pod.version.uid != expected
    {
        if handover.leaves_alone() {
            return foreign_pod(handover, &name);
        }
        let message = format!(
            "pod {name} in the {side} was created again after its release; \
             exclude ordinal {} from the window of StatefulSet {} there and raise spec.retry",
            handover.ordinal, handover.set
        );
        let reason = handover
            .direction
            .pick(HoldReason::SourceWidened, HoldReason::DestinationDrift);
        return handover.on_hold(reason, message);
    }
    let set = handover.from().set.as_ref();
    let is_of_set =
        pod.controller.is_some() && pod.controller == set.map(|set| set.version.uid.clone());
    if handover.pod_uid.is_none() && !is_of_set && !pod.is_terminating {
        return foreign_pod(handover, &name);
    }
    if !pod.is_terminating && is_blocked_by_unready(handover) {
        let change = handover.delete(side, ObjectKind::Pod, &name, &pod.version);
        return handover.step(step, change);
    }
    let detail = format!("pod {name} in the {side} has not ended yet");
    handover.wait(step, StallReason::PodTerminating, detail)
}

fn foreign_pod(handover: &Handover<'_>, name: &str) -> Decision {
    let message = format!(
        "pod {name} in the {} is not of StatefulSet {}; delete that pod and raise spec.retry",
        handover.direction.from(),
        handover.set
    );
    handover.on_hold(HoldReason::ForeignConsumer, message)
}

/// Whether a pod that remains in the old cluster is unready and does not count. In a rollback no pod of the
/// destination counts. Without a StatefulSet nobody deletes the pod.
fn is_blocked_by_unready(handover: &Handover<'_>) -> bool {
    if handover.leaves_alone() {
        return true;
    }
    let from = handover.from();
    let window = handover.window_of(handover.direction.from());
    window.ordinals().any(|ordinal| {
        let pod = from.pods.get(&handover.pod(ordinal));
        let is_ready = pod.is_some_and(|pod| pod.ready_since.is_some());
        let counts = handover.direction == Direction::Forward
            && !handover.accepts_unready.contains(&ordinal);
        !is_ready && !counts
    })
}
