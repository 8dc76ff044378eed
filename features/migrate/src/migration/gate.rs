//! Whether the next ordinal may go down. Pure.

use std::time::Duration;

use api::migrate::{HoldReason, StallReason, StepName};
use jiff::{SignedDuration, Timestamp};
use kernel::Ownership;

use super::decision::{Decision, Interference, Wait};
use super::handover::{Direction, HandoverClaim};
use super::observation::{ClusterState, Observation, PodState, SetState, Side, VolumePhase};

/// Everything that the decision needs.
#[derive(Debug, Clone)]
pub struct Gate<'a> {
    /// Which way the ordinal goes.
    pub direction: Direction,
    /// The ordinal.
    pub ordinal: i32,
    /// The name of the StatefulSet.
    pub set: &'a str,
    /// The claims of the ordinal.
    pub claims: &'a [HandoverClaim],
    /// Ordinals whose pods may be unready: a person has accepted it.
    pub accepts_unready: &'a [i32],
    /// The ordinals that the source runs without a StatefulSet; none if it has one.
    pub orphans: Option<&'a [i32]>,
    /// The PodDisruptionBudget that allows no pod to be down, over the pods of both clusters together.
    pub exhausted_budget: Option<&'a str>,
    /// What was read.
    pub observation: &'a Observation,
    /// The current time.
    pub now: Timestamp,
}

/// The first condition that does not hold:
///
/// | condition                                                          | forward | back | otherwise           |
/// |--------------------------------------------------------------------|---------|------|---------------------|
/// | no other pod uses a claim of the ordinal                           | yes     | yes  | hold                |
/// | every claim is bound in the destination, its volume retained there | yes     | no   | hold                |
/// | every volume and claim of the source is retained                   | yes     | no   | hold                |
/// | all pods of the source are Ready                                   | yes     | yes  | wait                |
/// | all pods of the destination are Ready                              | yes     | no   | wait                |
/// | the node of the pod is Ready and in service                        | yes     | no   | wait                |
/// | the disruption budgets allow one pod to be down                    | yes     | yes  | wait                |
pub fn judge(gate: &Gate<'_>) -> Decision {
    let is_forward = gate.direction == Direction::Forward;
    let checks: [(bool, fn(&Gate<'_>) -> Option<Decision>); 7] = [
        (true, foreign_consumer),
        (is_forward, unprepared_destination),
        (is_forward, unprotected_source),
        (true, |gate| unready(gate, Side::Source)),
        (is_forward, |gate| unready(gate, Side::Destination)),
        (is_forward, unfit_node),
        (true, exhausted_budget),
    ];
    let applying = checks.iter().filter(|(applies, _)| *applies);
    let mut obstacles = applying.filter_map(|(_, check)| check(gate));
    obstacles.next().unwrap_or(Decision::Done)
}

impl Gate<'_> {
    fn cluster(&self, side: Side) -> &ClusterState {
        self.observation.cluster(side)
    }

    fn pod(&self, ordinal: i32) -> String {
        format!("{}-{ordinal}", self.set)
    }

    fn wait(&self, reason: StallReason, detail: String) -> Decision {
        Decision::Wait(Wait {
            step: StepName::Gate,
            ordinal: Some(self.ordinal),
            reason,
            detail,
            after: None,
        })
    }

    fn on_hold(&self, reason: HoldReason, message: String) -> Decision {
        Decision::Hold(Interference {
            reason,
            ordinal: Some(self.ordinal),
            message,
        })
    }
}

fn foreign_consumer(gate: &Gate<'_>) -> Option<Decision> {
    let own = gate.pod(gate.ordinal);
    for side in Side::BOTH {
        let mut pods = gate.cluster(side).pods.iter();
        let user = pods.find_map(|(name, pod)| {
            let is_other = *name != own && !pod.has_ended;
            let claims = gate.claims.iter().filter(|_| is_other);
            let claim = claims
                .map(|claim| &claim.name)
                .find(|name| pod.claims.contains(name))?;
            Some((name, claim))
        });
        if let Some((pod, claim)) = user {
            let message = format!(
                "pod {pod} in the {side} uses claim {claim} of ordinal {}; stop it and raise spec.retry",
                gate.ordinal
            );
            return Some(gate.on_hold(HoldReason::ForeignConsumer, message));
        }
    }
    None
}

fn unprepared_destination(gate: &Gate<'_>) -> Option<Decision> {
    let cluster = gate.cluster(Side::Destination);
    let problem = gate.claims.iter().find_map(|claim| {
        let volume = cluster.volumes.get(&claim.destination_volume);
        let live = cluster.claims.get(&claim.name);
        let is_bound = live.is_some_and(|live| {
            live.is_bound
                && live.ownership == Ownership::Ours
                && live.volume.as_ref() == Some(&claim.destination_volume)
        });
        if !is_bound {
            return Some(format!(
                "claim {} in the destination is not bound to volume {}",
                claim.name, claim.destination_volume
            ));
        }
        let is_retained = volume.is_some_and(|volume| {
            volume.is_retained
                && volume.phase == VolumePhase::Bound
                && volume.disk.as_ref() == Some(&claim.disk)
        });
        (!is_retained).then(|| {
            format!(
                "volume {} in the destination is not retained, or not of disk {}",
                claim.destination_volume, claim.disk
            )
        })
    })?;
    let message = format!("{problem}; restore it and raise spec.retry");
    Some(gate.on_hold(HoldReason::DestinationEdited, message))
}

fn unprotected_source(gate: &Gate<'_>) -> Option<Decision> {
    let cluster = gate.cluster(Side::Source);
    if let Some(message) = unretained_claims(gate) {
        return Some(gate.on_hold(HoldReason::SourceEdited, message));
    }
    let claim = gate.claims.iter().find(|claim| {
        let volume = cluster.volumes.get(&claim.source_volume);
        !volume.is_some_and(|volume| volume.is_retained)
    })?;
    let message = format!(
        "volume {} of claim {} in the source is not retained; \
         set its reclaim policy to Retain and raise spec.retry",
        claim.source_volume, claim.name
    );
    Some(gate.on_hold(HoldReason::SourceEdited, message))
}

/// The release would let Kubernetes delete claims of the source.
fn unretained_claims(gate: &Gate<'_>) -> Option<String> {
    let cluster = gate.cluster(Side::Source);
    let set = cluster.set.as_ref();
    if set.is_some_and(|set| !set.retains_claims) {
        return Some(format!(
            "StatefulSet {} in the source does not retain its claims; set both fields of \
             spec.persistentVolumeClaimRetentionPolicy to Retain and raise spec.retry",
            gate.set
        ));
    }
    let pod = cluster.pods.get(&gate.pod(gate.ordinal));
    let owners = [
        set.map(|set| &set.version.uid),
        pod.map(|pod| &pod.version.uid),
    ];
    let owned = gate.claims.iter().find(|claim| {
        let live = cluster.claims.get(&claim.name);
        live.is_some_and(|live| {
            live.owners
                .iter()
                .any(|owner| owners.contains(&Some(owner)))
        })
    })?;
    Some(format!(
        "claim {} in the source would be deleted with its owner; remove that ownerReference and raise spec.retry",
        owned.name
    ))
}

/// Without a StatefulSet a lost pod does not come back.
fn lost_orphan(gate: &Gate<'_>, orphans: &[i32]) -> Option<Decision> {
    let set = gate.cluster(Side::Destination).set.as_ref();
    let min_ready = set.map_or(Duration::ZERO, |set| set.min_ready);
    let (ordinal, left) = orphans.iter().find_map(|ordinal| {
        let pod = gate.cluster(Side::Source).pods.get(&gate.pod(*ordinal));
        let pod = pod.filter(|pod| pod.controller.is_none());
        let left = pod.and_then(|pod| time_left(min_ready, pod, gate.now));
        let is_ready = left.is_some_and(|left| left.is_zero());
        (!is_ready && !gate.accepts_unready.contains(ordinal)).then_some((ordinal, left))
    })?;
    let detail = format!(
        "pod {} in the source is not Ready, and no StatefulSet replaces it; accept that with spec.acknowledge: \
         [Health/{ordinal}], or set spec.abort: Rollback",
        gate.pod(*ordinal)
    );
    Some(Decision::Wait(Wait {
        step: StepName::Gate,
        ordinal: Some(gate.ordinal),
        reason: StallReason::SourceUnready,
        detail,
        after: left,
    }))
}

fn unready(gate: &Gate<'_>, side: Side) -> Option<Decision> {
    if let Some(orphans) = gate.orphans.filter(|_| side == Side::Source) {
        return lost_orphan(gate, orphans);
    }
    let cluster = gate.cluster(side);
    let set = cluster.set.as_ref()?;
    let mut ordinals = set.window().ordinals();
    let unready = ordinals.find(|ordinal| {
        let pod = cluster.pods.get(&gate.pod(*ordinal));
        let is_accepted = side == Side::Source && gate.accepts_unready.contains(ordinal);
        !is_accepted && !pod.is_some_and(|pod| is_available(set, pod, gate.now))
    })?;
    let reason = match side {
        Side::Source => StallReason::SourceUnready,
        Side::Destination => StallReason::DestUnready,
    };
    let detail = format!("pod {} in the {side} is not Ready", gate.pod(unready));
    let pod = cluster.pods.get(&gate.pod(unready));
    Some(Decision::Wait(Wait {
        step: StepName::Gate,
        ordinal: Some(gate.ordinal),
        reason,
        detail,
        after: pod.and_then(|pod| time_to_availability(set, pod, gate.now)),
    }))
}

/// Whether a pod has been Ready for as long as its StatefulSet demands, and is run by it.
pub fn is_available(set: &SetState, pod: &PodState, now: Timestamp) -> bool {
    time_to_availability(set, pod, now).is_some_and(|left| left.is_zero())
}

/// How long a pod must stay Ready until it is available; none if it is not Ready, or not of the StatefulSet. No
/// event announces the end of this time.
pub fn time_to_availability(set: &SetState, pod: &PodState, now: Timestamp) -> Option<Duration> {
    let is_of_set = pod.controller.as_ref() == Some(&set.version.uid);
    if is_of_set {
        time_left(set.min_ready, pod, now)
    } else {
        None
    }
}

fn time_left(min_ready: Duration, pod: &PodState, now: Timestamp) -> Option<Duration> {
    let min_ready = SignedDuration::try_from(min_ready).unwrap_or(SignedDuration::MAX);
    let since = pod.ready_since.filter(|_| !pod.is_terminating)?;
    let left = min_ready.saturating_sub(now.duration_since(since));
    Some(Duration::try_from(left).unwrap_or_default())
}

fn unfit_node(gate: &Gate<'_>) -> Option<Decision> {
    let cluster = gate.cluster(Side::Source);
    let name = cluster.pods.get(&gate.pod(gate.ordinal))?.node.as_ref()?;
    let problem = match cluster.nodes.get(name) {
        None => "does not exist",
        Some(node) if !node.is_ready => "is not Ready",
        Some(node) if node.is_out_of_service => "has the taint node.kubernetes.io/out-of-service",
        Some(_) => return None,
    };
    let detail = format!(
        "node {name} of pod {} in the source {problem}, so its disks may not be detached cleanly",
        gate.pod(gate.ordinal)
    );
    Some(gate.wait(StallReason::SourceUnready, detail))
}

fn exhausted_budget(gate: &Gate<'_>) -> Option<Decision> {
    let budget = gate.exhausted_budget?;
    let detail = format!(
        "PodDisruptionBudget {budget} allows no pod of StatefulSet {} to be down, over both clusters",
        gate.set
    );
    Some(gate.wait(StallReason::DisruptionBudget, detail))
}

#[cfg(test)]
mod tests;
