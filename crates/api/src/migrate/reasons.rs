//! Reasons of conditions: what each states. The phases are reasons of `Ready` too.

use super::closed_set::closed_set;

/// Condition `PreFlightChecks`: no check blocks the run.
pub const PASSED: &str = "Passed";
/// Condition `SourceFrozen`: captured, locked, protected, and the destination is prepared.
pub const FROZEN: &str = "Frozen";
/// Condition `Complete`: the run is completed.
pub const COMPLETED: &str = "Completed";
/// Condition `Failed`: the run has failed; `Ready` and the message have the cause.
pub const FAILED: &str = "Failed";

/// The stored spec breaks a rule; the message names the field.
pub const INVALID_SPEC: &str = "InvalidSpec";

/// Condition `Ready`: a call to the operator's own cluster failed; the message names it.
pub const CALL_FAILED: &str = "CallFailed";

/// Condition `Paused`: the spec or an annotation asks for it.
pub const REQUESTED: &str = "Requested";
/// Condition `Paused`: as many ordinals moved as `ordinalLimit` allows.
pub const ORDINAL_LIMIT: &str = "OrdinalLimit";
/// Conditions `Paused` and `Stalled`, status False: the run goes on.
pub const PROGRESSING: &str = "Progressing";
/// Condition `DeletionBlocked`: set `abort` to `Rollback` or `Leave`.
pub const ABORT_REQUIRED: &str = "AbortRequired";
/// Condition `DeletionBlocked`, status False: nothing of the run stands in the way.
pub const NOT_BLOCKED: &str = "NotBlocked";

closed_set! {
    /// Why a wait is longer than its limit. The run goes on waiting, and the stall ends by itself.
    StallReason {
        /// The pod was deleted and its grace period is over, but it still exists.
        PodTerminating = "PodTerminating",
        /// Kubernetes has not let go of a disk: a VolumeAttachment or a node still names it.
        Unmounting = "Unmounting",
        /// EC2 is detaching a disk.
        Detaching = "Detaching",
        /// EC2 reports the attachment as busy: the instance still uses the device.
        DetachBusy = "DetachBusy",
        /// A pod at the source is not ready, or its node is not; the message names it.
        SourceUnready = "SourceUnready",
        /// A pod at the destination is not ready; the message names it.
        DestUnready = "DestUnready",
        /// A PodDisruptionBudget allows no pod to be down.
        DisruptionBudget = "DisruptionBudget",
        /// The API server of a cluster does not answer.
        ClusterUnreachable = "ClusterUnreachable",
        /// A cluster refuses our login, or the Secret with the kubeconfig became invalid; the message names the field.
        AuthFailed = "AuthFailed",
        /// A cluster refuses a change: a quota, an admission rule or a missing permission; the message has its answer.
        ChangeRefused = "ChangeRefused",
        /// EC2 does not answer, fails or throttles.
        Ec2Unavailable = "Ec2Unavailable",
        /// EC2 denies a call; the message names the action.
        Ec2Denied = "Ec2Denied",
        /// The provisioner's finalizer is still on a PersistentVolume that is to be deleted.
        ProvisionerFinalizer = "ProvisionerFinalizer",
        /// A claim and its PersistentVolume are not bound to each other yet.
        ClaimUnbound = "ClaimUnbound",
        /// An object was deleted and still exists; the message names its finalizers.
        DeletionPending = "DeletionPending",
    }
}

impl StallReason {
    /// Whether a cluster or EC2 does not answer or refuses the operator. It never fails a run.
    pub fn is_outage(self) -> bool {
        match self {
            Self::ClusterUnreachable
            | Self::AuthFailed
            | Self::ChangeRefused
            | Self::Ec2Unavailable
            | Self::Ec2Denied => true,
            Self::PodTerminating
            | Self::Unmounting
            | Self::Detaching
            | Self::DetachBusy
            | Self::SourceUnready
            | Self::DestUnready
            | Self::DisruptionBudget
            | Self::ProvisionerFinalizer
            | Self::ClaimUnbound
            | Self::DeletionPending => false,
        }
    }
}

closed_set! {
    /// Who or what interferes with a run. Nothing is written against it; the run waits for a person.
    HoldReason {
        /// The source StatefulSet wants pods that the record does not allow it.
        SourceWidened = "SourceWidened",
        /// A StatefulSet of the source's name exists with another UID.
        SourceRecreated = "SourceRecreated",
        /// The source StatefulSet is gone, and not by an intent of this run.
        SourceVanished = "SourceVanished",
        /// The template of the source StatefulSet was edited; the message names the field.
        SourceEdited = "SourceEdited",
        /// The window of the destination StatefulSet is not the recorded one.
        DestinationDrift = "DestinationDrift",
        /// The template of the destination StatefulSet was edited; the message names the field.
        DestinationEdited = "DestinationEdited",
        /// A foreign object has a name that this run needs, or is not as we made it.
        DestinationConflict = "DestinationConflict",
        /// A foreign pod or claim prevents the fence; the message names it.
        FenceContended = "FenceContended",
        /// A foreign pod uses a claim of the set.
        ForeignConsumer = "ForeignConsumer",
        /// The node failed or the disk was detached before it was unmounted: the file system may be damaged.
        UncleanDetach = "UncleanDetach",
        /// EC2 does not show the disk.
        VolumeMissing = "VolumeMissing",
        /// A lock of this run is gone, or names another run.
        LockLost = "LockLost",
        /// A kubeconfig leads to another cluster than the recorded one.
        IdentityChanged = "IdentityChanged",
        /// Rollback: the destination has claims of the set beyond the record.
        DestExtraClaims = "DestExtraClaims",
    }
}

/// How a hold ends, once its cause is gone or accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HoldEnd {
    /// With its cause, without a person.
    ByItself,
    /// After a person raised `spec.retry`, if the cause is gone.
    Retry,
    /// After a person named it in `spec.acknowledge`.
    Acknowledged,
}

impl HoldReason {
    /// How a hold of this reason ends.
    pub fn end(self) -> HoldEnd {
        match self {
            Self::IdentityChanged => HoldEnd::ByItself,
            Self::UncleanDetach | Self::DestExtraClaims => HoldEnd::Acknowledged,
            Self::SourceWidened
            | Self::SourceRecreated
            | Self::SourceVanished
            | Self::SourceEdited
            | Self::DestinationDrift
            | Self::DestinationEdited
            | Self::DestinationConflict
            | Self::FenceContended
            | Self::ForeignConsumer
            | Self::VolumeMissing
            | Self::LockLost => HoldEnd::Retry,
        }
    }
}

closed_set! {
    /// Why a run has failed. It goes on at the step that the evidence shows, after `retry` was raised.
    FailReason {
        /// A preflight check blocks the run; `status.preflight` lists all.
        PreflightBlocked = "PreflightBlocked",
        /// A disk was not attached at the destination within `attachTimeout`.
        AttachTimeout = "AttachTimeout",
        /// The pod was not ready at the destination within `podReadyTimeout`.
        PodReadyTimeout = "PodReadyTimeout",
        /// EC2 shows the disk in error, deleting or deleted.
        VolumeLost = "VolumeLost",
        /// The pod at the destination does not run on the recorded disk.
        VolumeMismatch = "VolumeMismatch",
        /// `abort: Leave`: the run stopped where it was, and its journal was exported.
        AbortedLeave = "AbortedLeave",
    }
}

impl FailReason {
    /// Whether `onFailure: Rollback` acts on it.
    pub fn allows_rollback(self) -> bool {
        match self {
            Self::AttachTimeout | Self::PodReadyTimeout => true,
            Self::PreflightBlocked
            | Self::VolumeLost
            | Self::VolumeMismatch
            | Self::AbortedLeave => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_of_the_three_classes_differ() {
        let stalls = StallReason::ALL.iter().map(|one| one.as_str());
        let holds = HoldReason::ALL.iter().map(|one| one.as_str());
        let fails = FailReason::ALL.iter().map(|one| one.as_str());
        let mut texts: Vec<_> = stalls.chain(holds).chain(fails).collect();
        let count = texts.len();
        texts.sort_unstable();
        texts.dedup();
        assert_eq!(texts.len(), count);
    }

    #[test]
    fn reasons_are_as_in_the_contract() {
        let of = |texts: &str, is_one: fn(&str) -> bool| {
            texts.split(' ').filter(|text| !is_one(text)).count() == 0
        };
        assert!(of(
            "PodTerminating Unmounting Detaching DetachBusy SourceUnready DestUnready DisruptionBudget \
             ClusterUnreachable AuthFailed Ec2Unavailable Ec2Denied ProvisionerFinalizer",
            |text| text.parse::<StallReason>().is_ok()
        ));
        assert!(of(
            "SourceWidened SourceRecreated SourceVanished SourceEdited DestinationDrift DestinationEdited \
             DestinationConflict FenceContended ForeignConsumer UncleanDetach VolumeMissing LockLost \
             IdentityChanged DestExtraClaims",
            |text| text.parse::<HoldReason>().is_ok()
        ));
        assert!(of(
            "PreflightBlocked AttachTimeout PodReadyTimeout VolumeLost VolumeMismatch AbortedLeave",
            |text| text.parse::<FailReason>().is_ok()
        ));
    }

    #[test]
    fn only_timeouts_roll_back_by_themselves() {
        let all = FailReason::ALL.iter().copied();
        let found: Vec<_> = all.filter(|one| one.allows_rollback()).collect();
        assert_eq!(
            found,
            [FailReason::AttachTimeout, FailReason::PodReadyTimeout]
        );
    }

    #[test]
    fn a_hold_ends_by_retry_with_three_exceptions() {
        let of = |end| {
            let all = HoldReason::ALL.iter().copied();
            all.filter(|one| one.end() == end).collect::<Vec<_>>()
        };
        assert_eq!(of(HoldEnd::ByItself), [HoldReason::IdentityChanged]);
        let acknowledged = [HoldReason::UncleanDetach, HoldReason::DestExtraClaims];
        assert_eq!(of(HoldEnd::Acknowledged), acknowledged);
    }
}
