//! The choices that a spec offers.

use super::closed_set::closed_set;

closed_set! {
    /// How ordinals leave the source.
    Strategy {
        /// The window of the source StatefulSet shrinks. It is never deleted before the clean-up.
        Window = "Window",
        /// The source StatefulSet is deleted, its pods stay, and are deleted one by one.
        OrphanAdopt = "OrphanAdopt",
    }
}

closed_set! {
    /// How a run is given up.
    Abort {
        /// Every ordinal goes back to the source.
        Rollback = "Rollback",
        /// Everything stays where it is.
        Leave = "Leave",
    }
}

closed_set! {
    /// What follows a failure.
    #[derive(Default)]
    OnFailure {
        /// The run waits for a person.
        #[default]
        Pause = "Pause",
        /// A timeout begins a rollback; any other failure waits for a person.
        Rollback = "Rollback",
    }
}

closed_set! {
    /// What becomes of claims that are named like those of the set, but of no ordinal in its window.
    #[derive(Default)]
    DormantClaims {
        /// They move, after the last ordinal.
        #[default]
        Move = "Move",
        /// They stay at the source.
        Leave = "Leave",
        /// They block the run.
        Refuse = "Refuse",
    }
}

closed_set! {
    /// When snapshots are made.
    #[derive(Default)]
    SnapshotTime {
        /// Never.
        #[default]
        Never = "Never",
        /// One of each disk, between the two clusters. The run does not wait for its completion.
        AfterDetach = "AfterDetach",
    }
}

closed_set! {
    /// What becomes of the objects at the source, once every ordinal runs at the destination.
    #[derive(Default)]
    CleanupPolicy {
        /// StatefulSet, claims and PersistentVolumes are deleted. The disks are not touched.
        #[default]
        Delete = "Delete",
        /// They stay, marked, so that the run can still be rolled back.
        Keep = "Keep",
    }
}

closed_set! {
    /// The reclaim policy of the PersistentVolumes at the destination when the run ends.
    #[derive(Default)]
    DestReclaimPolicy {
        /// `Retain`.
        #[default]
        Retain = "Retain",
        /// As it was at the source.
        Restore = "Restore",
    }
}
