//! How long a step may wait before people hear of it, and before the run fails. Pure.

use std::time::Duration;

use api::migrate::{FailReason, StallReason, StatefulSetMigrationSpec, StepName};

/// The limit of waits that have no field of their own.
const USUAL: Duration = Duration::from_secs(60);

/// What a wait has become.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Waited {
    /// It is within its limit.
    Waiting,
    /// It is beyond its limit, and goes on. It ends by itself.
    Stalled,
    /// It is beyond its limit, and the run fails.
    Failed(FailReason),
}

/// What a wait of this length is. `grace` is the grace period of the pod that the step waits for.
///
/// An outage, and an unready pod during the soak, have the usual limit and never fail the run.
///
/// | step                               | limit                            | beyond it       |
/// |------------------------------------|----------------------------------|-----------------|
/// | gone                               | podTerminationTimeout, or its default | stall      |
/// | detach, confirm                    | volumeDetachTimeout              | stall           |
/// | attach                             | attachTimeout                    | AttachTimeout   |
/// | ready                              | podReadyTimeout                  | PodReadyTimeout |
/// | soak, and a gate that a person has closed | none                      | never           |
/// | any other                          | one minute                       | stall           |
pub fn judge(
    step: StepName,
    reason: StallReason,
    waited: Duration,
    spec: &StatefulSetMigrationSpec,
    grace: Duration,
) -> Waited {
    let is_unready_soak = step == StepName::Soak && reason == StallReason::DestUnready;
    if reason.is_outage() || is_unready_soak {
        return if waited < USUAL {
            Waited::Waiting
        } else {
            Waited::Stalled
        };
    }
    let (limit, beyond) = match step {
        StepName::Gone | StepName::RGone => (spec.termination_limit(grace), Waited::Stalled),
        StepName::Detach | StepName::Confirm | StepName::RDetach | StepName::RConfirm => {
            (spec.detach_limit(), Waited::Stalled)
        }
        StepName::Attach | StepName::RAttach => (
            spec.attach_limit(),
            Waited::Failed(FailReason::AttachTimeout),
        ),
        StepName::Ready | StepName::RReady => (
            spec.ready_limit(),
            Waited::Failed(FailReason::PodReadyTimeout),
        ),
        StepName::Soak => return Waited::Waiting,
        StepName::Capture
        | StepName::Lock
        | StepName::Protect
        | StepName::Hydrate
        | StepName::Prepare
        | StepName::Orphan
        | StepName::Gate
        | StepName::Release
        | StepName::Narrow
        | StepName::Fence
        | StepName::Snapshot
        | StepName::Retag
        | StepName::Grow
        | StepName::CleanPv
        | StepName::CleanSts
        | StepName::CleanFence
        | StepName::MarkMoved
        | StepName::Restore
        | StepName::Unlock
        | StepName::RRecreate
        | StepName::RRelease
        | StepName::RFence
        | StepName::RRetag
        | StepName::RUnfence
        | StepName::RGrow
        | StepName::RDrain
        | StepName::RClean
        | StepName::RRestore
        | StepName::RUnlock
        | StepName::Leave => (USUAL, Waited::Stalled),
    };
    if waited < limit {
        Waited::Waiting
    } else {
        beyond
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;
    use crate::migration::fixture::spec;

    const ATTACH: Waited = Waited::Failed(FailReason::AttachTimeout);
    const READY: Waited = Waited::Failed(FailReason::PodReadyTimeout);

    #[rstest]
    #[case::a_pod_within_its_grace(StepName::Gone, 359, Waited::Waiting)]
    #[case::a_pod_beyond_its_grace(StepName::Gone, 360, Waited::Stalled)]
    #[case::a_pod_on_its_way_back(StepName::RGone, 360, Waited::Stalled)]
    #[case::a_disk_that_detaches(StepName::Detach, 299, Waited::Waiting)]
    #[case::a_disk_that_does_not_detach(StepName::Detach, 300, Waited::Stalled)]
    #[case::a_disk_that_is_not_confirmed(StepName::Confirm, 300, Waited::Stalled)]
    #[case::a_disk_that_attaches(StepName::Attach, 299, Waited::Waiting)]
    #[case::a_disk_that_does_not_attach(StepName::Attach, 300, ATTACH)]
    #[case::a_disk_that_does_not_return(StepName::RAttach, 300, ATTACH)]
    #[case::a_pod_that_starts(StepName::Ready, 599, Waited::Waiting)]
    #[case::a_pod_that_does_not_start(StepName::Ready, 600, READY)]
    #[case::a_pod_that_does_not_return(StepName::RReady, 600, READY)]
    #[case::a_soak_has_no_limit(StepName::Soak, 86_400, Waited::Waiting)]
    #[case::an_open_gate(StepName::Gate, 59, Waited::Waiting)]
    #[case::a_closed_gate(StepName::Gate, 60, Waited::Stalled)]
    #[case::a_claim_that_is_not_bound(StepName::Hydrate, 60, Waited::Stalled)]
    fn every_step_has_its_limit(
        #[case] step: StepName,
        #[case] seconds: u64,
        #[case] expected: Waited,
    ) {
        let spec = spec(&serde_json::json!({}));
        let grace = Duration::from_secs(300);
        assert_eq!(
            judge(
                step,
                StallReason::Detaching,
                Duration::from_secs(seconds),
                &spec,
                grace
            ),
            expected
        );
    }

    #[rstest]
    #[case::a_cluster_while_a_disk_attaches(StepName::Attach, StallReason::ClusterUnreachable)]
    #[case::a_login_while_a_pod_starts(StepName::Ready, StallReason::AuthFailed)]
    #[case::ec2_while_a_disk_attaches(StepName::Attach, StallReason::Ec2Denied)]
    #[case::an_unready_pod_in_the_soak(StepName::Soak, StallReason::DestUnready)]
    fn an_outage_stalls_and_never_fails(#[case] step: StepName, #[case] reason: StallReason) {
        let spec = spec(&serde_json::json!({}));
        let judged = |seconds| {
            let waited = Duration::from_secs(seconds);
            judge(step, reason, waited, &spec, Duration::ZERO)
        };
        let expected = [Waited::Waiting, Waited::Stalled, Waited::Stalled];
        assert_eq!([judged(59), judged(60), judged(86_400)], expected);
    }

    #[rstest]
    #[case::pod("podTerminationTimeout", StepName::Gone, Waited::Stalled)]
    #[case::detach("volumeDetachTimeout", StepName::Detach, Waited::Stalled)]
    #[case::attach("attachTimeout", StepName::Attach, ATTACH)]
    #[case::ready("podReadyTimeout", StepName::Ready, READY)]
    fn the_spec_sets_the_limit(
        #[case] field: &str,
        #[case] step: StepName,
        #[case] beyond: Waited,
    ) {
        let spec = spec(&serde_json::json!({field: "7s"}));
        let judged = |seconds| {
            let waited = Duration::from_secs(seconds);
            judge(step, StallReason::Detaching, waited, &spec, Duration::ZERO)
        };
        assert_eq!([judged(6), judged(7)], [Waited::Waiting, beyond]);
    }
}
