//! The preflight checks and their severities.

use super::closed_set::closed_set;

closed_set! {
    /// What a failed check does to a run.
    Severity {
        /// It stops the run. Some may be acknowledged: [`CheckId::is_acknowledgeable`].
        Blocker = "Blocker",
        /// It stops the run unless `force` is set or it is acknowledged.
        Warning = "Warning",
        /// It is only reported.
        Info = "Info",
    }
}

closed_set! {
    /// A preflight check, documented by what is true when it passes.
    CheckId {
        /// Both kubeconfigs may be used: all inline, nothing to execute or to open.
        Kubeconfig = "Kubeconfig",
        /// Both clusters grant every verb that the run needs.
        Permissions = "Permissions",
        /// The clusters are two, and those of the record.
        ClusterIdentity = "ClusterIdentity",
        /// No other run has a lock or a marker on the StatefulSet, not even a released one.
        Lock = "Lock",
        /// The source StatefulSet exists, is not being deleted, and its controller has seen its spec.
        SourceStatefulSet = "SourceStatefulSet",
        /// Both namespaces are active.
        Namespaces = "Namespaces",
        /// The servers know `spec.ordinals` where the run needs it.
        Ordinals = "Ordinals",
        /// No rollout is in progress: every pod has the current revision.
        Rollout = "Rollout",
        /// Every pod of the window and its node are ready.
        Health = "Health",
        /// Each claim exists, is bound to a PersistentVolume of its own, and has no foreign finalizer.
        ClaimSet = "ClaimSet",
        /// No other pod uses a claim of the set.
        ForeignConsumer = "ForeignConsumer",
        /// The template uses no other claim, host path or local data.
        ExtraVolumes = "ExtraVolumes",
        /// Each volume is an EBS disk for one node at a time.
        VolumeType = "VolumeType",
        /// EC2 shows each disk attached once, to a node of the source, or free for a dormant claim.
        VolumeState = "VolumeState",
        /// EC2 allows every call that the run needs.
        Ec2Access = "Ec2Access",
        /// The nodes of the destination are in the same account and region.
        DestAccount = "DestAccount",
        /// Each disk's zone is known, and a destination node there can take the pod.
        Zone = "Zone",
        /// The nodes of each zone can attach as many disks as arrive there.
        AttachLimit = "AttachLimit",
        /// The EBS driver is installed at the destination, on a node of each zone.
        DestDriver = "DestDriver",
        /// The destination has no StatefulSet of the name, but that of this run.
        DestStatefulSet = "DestStatefulSet",
        /// The destination has no claims of the names and no PersistentVolumes of the disks, but those of this run.
        DestClaims = "DestClaims",
        /// Every derived name and label is valid, and capture and journal fit into an object.
        Names = "Names",
        /// What the template refers to exists at the destination.
        Dependencies = "Dependencies",
        /// The destination admits the PersistentVolume, the claim, the StatefulSet and a pod of it.
        Admission = "Admission",
        /// No controller and no GitOps tool owns the StatefulSet or its claims.
        Owner = "Owner",
        /// No autoscaler targets the StatefulSet.
        Autoscaler = "Autoscaler",
        /// No claim or disk is being resized or modified.
        Resize = "Resize",
        /// There are no claims beyond the window, or the spec says what becomes of them.
        DormantClaims = "DormantClaims",
        /// The headless Service exists at the destination, or the set names none.
        HeadlessService = "HeadlessService",
        /// The classes that the claims name exist at the destination.
        StorageClass = "StorageClass",
        /// The destination can use the keys of encrypted disks.
        KmsKey = "KmsKey",
        /// The tags of each disk let the destination's driver attach it.
        VolumeTags = "VolumeTags",
        /// The PodDisruptionBudgets of both sides allow one pod to be down.
        DisruptionBudget = "DisruptionBudget",
        /// Reports which retention and reclaim policies the run changes.
        Policies = "Policies",
        /// Reports VolumeSnapshots of the volumes.
        Backups = "Backups",
        /// Reports PodDisruptionBudgets that the destination lacks.
        DestPdb = "DestPDB",
        /// Reports that peers cannot find each other across the clusters.
        AppSpan = "AppSpan",
        /// Reports settings that make a pod start slowly.
        SlowStart = "SlowStart",
    }
}

impl CheckId {
    /// The severity of a check that fails or cannot be established.
    pub fn severity(self) -> Severity {
        match self {
            Self::Kubeconfig
            | Self::Permissions
            | Self::ClusterIdentity
            | Self::Lock
            | Self::SourceStatefulSet
            | Self::Namespaces
            | Self::Ordinals
            | Self::Rollout
            | Self::Health
            | Self::ClaimSet
            | Self::ForeignConsumer
            | Self::ExtraVolumes
            | Self::VolumeType
            | Self::VolumeState
            | Self::Ec2Access
            | Self::DestAccount
            | Self::Zone
            | Self::AttachLimit
            | Self::DestDriver
            | Self::DestStatefulSet
            | Self::DestClaims
            | Self::Names
            | Self::Dependencies
            | Self::Admission
            | Self::Owner
            | Self::Autoscaler
            | Self::Resize
            | Self::DormantClaims => Severity::Blocker,
            Self::HeadlessService
            | Self::StorageClass
            | Self::KmsKey
            | Self::VolumeTags
            | Self::DisruptionBudget => Severity::Warning,
            Self::Policies | Self::Backups | Self::DestPdb | Self::AppSpan | Self::SlowStart => {
                Severity::Info
            }
        }
    }

    /// Whether `spec.acknowledge` lets the run go on although the check failed.
    pub fn is_acknowledgeable(self) -> bool {
        match self.severity() {
            Severity::Blocker => matches!(
                self,
                Self::Health
                    | Self::ExtraVolumes
                    | Self::Dependencies
                    | Self::Owner
                    | Self::Autoscaler
            ),
            Severity::Warning => true,
            Severity::Info => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn ids(texts: &str) -> Vec<CheckId> {
        texts.split(' ').map(|text| text.parse().unwrap()).collect()
    }

    #[rstest]
    #[case::warnings(
        Severity::Warning,
        "HeadlessService StorageClass KmsKey VolumeTags DisruptionBudget"
    )]
    #[case::information(Severity::Info, "Policies Backups DestPDB AppSpan SlowStart")]
    #[case::blockers(
        Severity::Blocker,
        "Kubeconfig Permissions ClusterIdentity Lock SourceStatefulSet Namespaces Ordinals Rollout Health \
         ClaimSet ForeignConsumer ExtraVolumes VolumeType VolumeState Ec2Access DestAccount Zone AttachLimit \
         DestDriver DestStatefulSet DestClaims Names Dependencies Admission Owner Autoscaler Resize DormantClaims"
    )]
    fn severities_are_as_in_the_contract(#[case] severity: Severity, #[case] texts: &str) {
        let all = CheckId::ALL.iter().copied();
        let found: Vec<_> = all.filter(|id| id.severity() == severity).collect();
        assert_eq!(found, ids(texts));
    }

    #[test]
    fn exactly_these_checks_can_be_acknowledged() {
        let all = CheckId::ALL.iter().copied();
        let found: Vec<_> = all.filter(|id| id.is_acknowledgeable()).collect();
        assert_eq!(
            found,
            ids("Health ExtraVolumes Dependencies Owner Autoscaler \
                 HeadlessService StorageClass KmsKey VolumeTags DisruptionBudget")
        );
    }
}
