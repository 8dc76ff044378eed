//! When the mirror in the locks must be rewritten.
//!
//! Each rewrite is one write a lock, so two for an ordinal's step. A move has three such steps and a
//! way back has four: at most eight writes an ordinal in one direction.

use api::migrate::{Intent, StatefulSetMigrationStatus, StepName};

use super::journal::Journal;

/// Whether both mirrors must show the intent of this step before its effect.
///
/// True for release, fence and grow of either side and for their reverses, and for the two steps
/// that delete or recreate the source StatefulSet.
pub fn needs_mirror(step: StepName) -> bool {
    match step {
        StepName::Release
        | StepName::Fence
        | StepName::Grow
        | StepName::RRelease
        | StepName::RFence
        | StepName::RUnfence
        | StepName::RGrow
        | StepName::Orphan
        | StepName::RRecreate => true,
        StepName::Capture
        | StepName::Narrow
        | StepName::Lock
        | StepName::Protect
        | StepName::Hydrate
        | StepName::Prepare
        | StepName::Gate
        | StepName::Gone
        | StepName::Detach
        | StepName::Confirm
        | StepName::Snapshot
        | StepName::Retag
        | StepName::Attach
        | StepName::Ready
        | StepName::Soak
        | StepName::CleanPv
        | StepName::CleanSts
        | StepName::CleanFence
        | StepName::MarkMoved
        | StepName::Restore
        | StepName::Unlock
        | StepName::RGone
        | StepName::RDetach
        | StepName::RConfirm
        | StepName::RRetag
        | StepName::RAttach
        | StepName::RReady
        | StepName::RDrain
        | StepName::RClean
        | StepName::RRestore
        | StepName::RUnlock
        | StepName::Leave => false,
    }
}

/// Whether the mirror in a lock must be rewritten now, before anything else is done.
///
/// | mirrored journal            | intent              | due                        |
/// |-----------------------------|---------------------|----------------------------|
/// | none, or not readable       | any                 | yes                        |
/// | another phase               | any                 | yes                        |
/// | before the clean-up began   | of the clean-up     | yes: there is no way back  |
/// | the same phase              | step needs a mirror | yes, unless it is in there |
/// | the same phase              | of a fence          | yes, unless another change of this fence is in there |
/// | the same phase              | other step or none  | no                         |
///
/// `status` is what the API server has. `mirrored` is the journal in the lock.
pub fn is_due(status: &StatefulSetMigrationStatus, mirrored: Option<&Journal>) -> bool {
    let Some(mirrored) = mirrored.map(Journal::record) else {
        return true;
    };
    let intent = status.intent.as_ref();
    let is_needed = intent.is_some_and(|intent| needs_mirror(intent.step));
    status.phase != mirrored.phase
        || status.cleanup_started != mirrored.cleanup_started
        || (is_needed && !is_mirrored(intent, mirrored.intent.as_ref()))
}

/// A fence and its reverse make several changes for each claim of an ordinal, in an order that the evidence shows.
fn is_mirrored(intent: Option<&Intent>, mirrored: Option<&Intent>) -> bool {
    let (Some(intent), Some(mirrored)) = (intent, mirrored) else {
        return intent == mirrored;
    };
    let has_many_changes = matches!(
        intent.step,
        StepName::Fence | StepName::RFence | StepName::RUnfence
    );
    let is_same_step = (intent.step, intent.ordinal) == (mirrored.step, mirrored.ordinal);
    intent == mirrored || (has_many_changes && is_same_step)
}

#[cfg(test)]
mod tests {
    use api::migrate::{Intent, Phase};
    use jiff::Timestamp;
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
    use rstest::rstest;

    use super::*;

    /// The locks: one in each cluster.
    const LOCKS: usize = 2;
    /// The most mirror writes of an ordinal that the contract allows.
    const WRITES_OF_AN_ORDINAL: usize = 8;

    fn status(phase: Phase, intent: Option<(StepName, &str)>) -> StatefulSetMigrationStatus {
        let intent = intent.map(|(step, token)| Intent {
            step,
            ordinal: Some(0),
            token: token.to_owned(),
            at: MicroTime(Timestamp::UNIX_EPOCH),
        });
        StatefulSetMigrationStatus {
            phase: Some(phase),
            intent,
            ..StatefulSetMigrationStatus::default()
        }
    }

    fn steps(texts: &str) -> Vec<StepName> {
        texts.split(' ').map(|one| one.parse().unwrap()).collect()
    }

    #[test]
    fn exactly_these_steps_need_a_mirror() {
        let all = StepName::ALL.iter().copied();
        let mut found: Vec<_> = all.filter(|step| needs_mirror(*step)).collect();
        let mut expected =
            steps("release fence grow r-release r-fence r-unfence r-grow orphan r-recreate");
        found.sort_unstable();
        expected.sort_unstable();
        assert_eq!(found, expected);
    }

    #[rstest]
    #[case::forward("gate release gone detach fence confirm snapshot retag grow attach ready")]
    #[case::back(
        "r-release r-gone r-detach r-fence r-confirm r-retag r-unfence r-grow r-attach r-ready"
    )]
    fn an_ordinal_needs_at_most_eight_writes(#[case] texts: &str) {
        let steps = steps(texts);
        let writes = steps.iter().filter(|step| needs_mirror(**step)).count() * LOCKS;
        assert!((1..=WRITES_OF_AN_ORDINAL).contains(&writes), "{writes}");
    }

    const RELEASE: Option<(StepName, &str)> = Some((StepName::Release, "1"));
    const LATER_RELEASE: Option<(StepName, &str)> = Some((StepName::Release, "2"));
    const GONE: Option<(StepName, &str)> = Some((StepName::Gone, "3"));
    const DELETION: Option<(StepName, &str)> = Some((StepName::Fence, "4"));
    const TOMBSTONE: Option<(StepName, &str)> = Some((StepName::Fence, "5"));

    #[rstest] //                                    phase in the mirror, intents   due
    #[case::another_phase(Phase::FreezingSource, None, None, true)]
    #[case::another_phase_and_the_same_intent(Phase::Failed, RELEASE, RELEASE, true)]
    #[case::a_step_that_needs_it(Phase::MigratingPods, None, RELEASE, true)]
    #[case::the_intent_of_another_move(Phase::MigratingPods, RELEASE, LATER_RELEASE, true)]
    #[case::the_intent_is_in_there(Phase::MigratingPods, RELEASE, RELEASE, false)]
    #[case::the_first_change_of_a_fence(Phase::MigratingPods, RELEASE, DELETION, true)]
    #[case::a_further_change_of_a_fence(Phase::MigratingPods, DELETION, TOMBSTONE, false)]
    #[case::a_step_that_needs_none(Phase::MigratingPods, RELEASE, GONE, false)]
    #[case::no_intent(Phase::MigratingPods, RELEASE, None, false)]
    fn rule(
        #[case] phase: Phase,
        #[case] mirrored: Option<(StepName, &str)>,
        #[case] intent: Option<(StepName, &str)>,
        #[case] expected: bool,
    ) {
        let mirrored = Journal::of(&status(phase, mirrored));
        let status = status(Phase::MigratingPods, intent);
        assert_eq!(is_due(&status, Some(&mirrored)), expected);
    }

    #[test]
    fn the_fence_of_another_ordinal_is_due() {
        let mut next = status(Phase::MigratingPods, DELETION);
        let mirrored = Journal::of(&next);
        if let Some(intent) = &mut next.intent {
            intent.ordinal = Some(1);
        }
        assert!(is_due(&next, Some(&mirrored)));
    }

    #[test]
    fn a_mirror_without_journal_is_due() {
        assert!(is_due(&status(Phase::MigratingPods, None), None));
    }

    #[test]
    fn the_first_clean_up_is_mirrored_and_no_later_one() {
        let begun = |token| StatefulSetMigrationStatus {
            cleanup_started: true,
            ..status(Phase::Finalizing, Some((StepName::CleanPv, token)))
        };
        let before = Journal::of(&status(Phase::Finalizing, None));
        assert!(is_due(&begun("1"), Some(&before)));
        assert!(!is_due(&begun("2"), Some(&Journal::of(&begun("1")))));
    }

    #[test]
    fn a_mirror_that_was_written_is_not_due() {
        for step in StepName::ALL {
            let status = status(Phase::MigratingPods, Some((*step, "1")));
            assert!(!is_due(&status, Some(&Journal::of(&status))), "{step}");
        }
    }
}
