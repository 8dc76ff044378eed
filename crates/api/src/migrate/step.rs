//! The steps of a run, forward and back.

use super::closed_set::closed_set;

closed_set! {
    /// A step of a run. Each is documented by what is true when it is done.
    ///
    /// The text is the name in status, journal, metrics and kill points. A step that begins with `r-` belongs
    /// to a rollback, or undoes the preparation of an object that is deleted.
    StepName {
        /// Both copies of the capture exist and have the recorded hash; the source still has the captured template.
        Capture = "capture",
        /// Both locks name this run, and so does the marker of the source StatefulSet.
        Lock = "lock",
        /// No deletion can remove a disk: retention and reclaim policies are `Retain`, and no claim is owned.
        Protect = "protect",
        /// Every PersistentVolume and claim of the set exists at the destination, each pair bound.
        Hydrate = "hydrate",
        /// The destination StatefulSet exists as translated, with the recorded replicas.
        Prepare = "prepare",
        /// `OrphanAdopt`: the source StatefulSet is gone, and its pods run on without an owner.
        Orphan = "orphan",

        /// The next ordinal may move: every other pod is ready, and nothing forbids it.
        Gate = "gate",
        /// The source no longer wants the pod of the ordinal.
        Release = "release",
        /// A person raised `retry` on `SourceWidened`: the source StatefulSet has no ordinal that it has given away.
        Narrow = "narrow",
        /// The pod does not exist at the source.
        Gone = "gone",
        /// The source has let go of each disk of the ordinal, and a read of EC2 shows it free.
        Detach = "detach",
        /// A tombstone has the name of each source claim, so a pod that returns cannot start there.
        Fence = "fence",
        /// After the fence, a second read of EC2 shows each disk free.
        Confirm = "confirm",
        /// Each disk has a snapshot with the tags of this run.
        Snapshot = "snapshot",
        /// The tags of each disk name the destination cluster.
        Retag = "retag",
        /// The destination wants the pod of the ordinal.
        Grow = "grow",
        /// Each disk is attached to one node, which belongs to the destination.
        Attach = "attach",
        /// The pod is ready at the destination, on the recorded disks. The ordinal has moved.
        Ready = "ready",

        /// Every destination pod is ready and the soak time is over.
        Soak = "soak",
        /// The source PersistentVolumes of an ordinal are deleted; its disks are in use at the destination.
        CleanPv = "clean-pv",
        /// The source StatefulSet is deleted and has not come back.
        CleanSts = "clean-sts",
        /// The tombstones of an ordinal are deleted.
        CleanFence = "clean-fence",
        /// `sourceCleanup.policy: Keep`: each source PersistentVolume names the claim that has its disk now.
        MarkMoved = "mark-moved",
        /// The destination has the captured retention policy and, if `destReclaimPolicy` says so, reclaim policies.
        Restore = "restore",
        /// The locks and the marks of this run are gone; with `Keep`, the locks are released.
        Unlock = "unlock",

        /// `OrphanAdopt`: the source StatefulSet exists again and owns the pods that never moved.
        RRecreate = "r-recreate",
        /// The destination no longer wants the pod of the ordinal.
        RRelease = "r-release",
        /// The pod does not exist at the destination.
        RGone = "r-gone",
        /// The destination has let go of each disk of the ordinal, and a read of EC2 shows it free.
        RDetach = "r-detach",
        /// A tombstone has the name of each destination claim; the destination PersistentVolumes are deleted.
        RFence = "r-fence",
        /// After the fence, a second read of EC2 shows each disk free.
        RConfirm = "r-confirm",
        /// The recorded tags of each disk are restored.
        RRetag = "r-retag",
        /// The tombstones at the source are gone; each captured claim exists again, bound to its own disk.
        RUnfence = "r-unfence",
        /// The source wants the pod of the ordinal.
        RGrow = "r-grow",
        /// Each disk is attached to one node, which belongs to the source.
        RAttach = "r-attach",
        /// The pod is ready at the source, on the recorded disks. The ordinal is back.
        RReady = "r-ready",
        /// The destination StatefulSet had no pods and is deleted.
        RDrain = "r-drain",
        /// No claim, PersistentVolume or tombstone of this run is left at the destination.
        RClean = "r-clean",
        /// The source StatefulSet, its claims and PersistentVolumes have every captured setting again.
        RRestore = "r-restore",
        /// The locks, captures and marks of this run are gone.
        RUnlock = "r-unlock",

        /// `abort: Leave`: both locks hold the whole journal and are released. Nothing else changed.
        Leave = "leave",
    }
}

impl StepName {
    /// Whether the pass reads the object, both cluster identities, the locks and every object concerned again
    /// before the effect: the contract marks these steps with `!`.
    pub fn needs_fresh_reads(self) -> bool {
        match self {
            Self::Orphan
            | Self::Release
            | Self::Narrow
            | Self::Fence
            | Self::Grow
            | Self::CleanPv
            | Self::CleanSts
            | Self::CleanFence
            | Self::RRelease
            | Self::RFence
            | Self::RUnfence
            | Self::RGrow
            | Self::RDrain
            | Self::RClean => true,
            Self::Capture
            | Self::Lock
            | Self::Protect
            | Self::Hydrate
            | Self::Prepare
            | Self::Gate
            | Self::Gone
            | Self::Detach
            | Self::Confirm
            | Self::Snapshot
            | Self::Retag
            | Self::Attach
            | Self::Ready
            | Self::Soak
            | Self::MarkMoved
            | Self::Restore
            | Self::Unlock
            | Self::RRecreate
            | Self::RGone
            | Self::RDetach
            | Self::RConfirm
            | Self::RRetag
            | Self::RAttach
            | Self::RReady
            | Self::RRestore
            | Self::RUnlock
            | Self::Leave => false,
        }
    }

    /// Whether the step deletes what the source needs for a rollback. The first intent of such a step sets
    /// `status.cleanupStarted`.
    pub fn is_cleanup(self) -> bool {
        matches!(self, Self::CleanPv | Self::CleanSts | Self::CleanFence)
    }

    /// Whether the step belongs to a rollback.
    pub fn is_rollback(self) -> bool {
        self.as_str().starts_with("r-")
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    #[test]
    fn every_step_reads_back_from_its_text() {
        for step in StepName::ALL {
            assert_eq!(step.to_string().parse(), Ok(*step));
            let text = serde_json::to_value(step).unwrap();
            assert_eq!(text, step.as_str());
            assert_eq!(serde_json::from_value::<StepName>(text).unwrap(), *step);
        }
    }

    #[test]
    fn every_step_has_a_text_of_its_own() {
        let mut texts: Vec<_> = StepName::ALL.iter().map(|step| step.as_str()).collect();
        texts.sort_unstable();
        texts.dedup();
        assert_eq!(texts.len(), StepName::ALL.len());
    }

    #[rstest]
    #[case::freeze("capture lock protect hydrate prepare")]
    #[case::move_of_an_ordinal(
        "gate release gone detach fence confirm snapshot retag grow attach ready"
    )]
    #[case::orphan_adopt("orphan")]
    #[case::end("soak clean-pv clean-sts clean-fence restore unlock")]
    #[case::back(
        "r-release r-gone r-detach r-fence r-confirm r-retag r-unfence r-grow r-attach r-ready"
    )]
    #[case::end_of_a_rollback("r-drain r-clean r-restore r-unlock")]
    fn steps_of_the_contract_are_in_order(#[case] texts: &str) {
        let steps: Vec<StepName> = texts.split(' ').map(|one| one.parse().unwrap()).collect();
        assert!(steps.is_sorted(), "{steps:?}");
    }

    #[rstest]
    #[case::upper_case("Release")]
    #[case::no_dash("cleanpv")]
    #[case::empty("")]
    fn another_text_is_no_step(#[case] text: &str) {
        let error = serde_json::from_value::<StepName>(json!(text)).unwrap_err();
        assert!(error.to_string().contains("is no StepName"), "{error}");
    }

    #[rstest]
    #[case::marked_in_the_contract_and_narrow(
        "narrow release fence grow orphan clean-pv clean-sts clean-fence r-release r-fence r-unfence r-grow r-drain r-clean"
    )]
    fn exactly_these_steps_need_fresh_reads(#[case] texts: &str) {
        let mut expected: Vec<StepName> =
            texts.split(' ').map(|one| one.parse().unwrap()).collect();
        expected.sort_unstable();
        let all = StepName::ALL.iter().copied();
        let found: Vec<_> = all.filter(|step| step.needs_fresh_reads()).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn exactly_three_steps_clean_the_source() {
        let all = StepName::ALL.iter();
        let found: Vec<_> = all
            .filter(|step| step.is_cleanup())
            .map(|step| step.as_str())
            .collect();
        assert_eq!(found, ["clean-pv", "clean-sts", "clean-fence"]);
    }

    #[test]
    fn rollback_steps_begin_with_r() {
        assert!(StepName::RUnfence.is_rollback());
        assert!(!StepName::Release.is_rollback() && !StepName::Ready.is_rollback());
    }
}
