use api::migrate::{ClaimRecord, OrdinalRecord, StallReason, StatefulSetMigrationStatus};
use rstest::rstest;

use super::super::Move;
use super::*;
use crate::migration::pass::Memory;

/// A decision to wait at this step of ordinal 1, for half a second.
fn waiting(step: StepName) -> Decided {
    let ordinal = |ordinal: i32| OrdinalRecord {
        ordinal,
        claims: vec![ClaimRecord {
            volume_id: format!("vol-{ordinal}"),
            ..ClaimRecord::default()
        }],
        ..OrdinalRecord::default()
    };
    let wait = Wait {
        step,
        ordinal: Some(1),
        reason: StallReason::Detaching,
        detail: String::new(),
        after: Some(Duration::from_millis(500)),
    };
    Decided {
        next: Move::Wait(Duration::ZERO),
        situation: Situation::Waiting {
            wait,
            is_stalled: false,
        },
        record: StatefulSetMigrationStatus {
            ordinals: vec![ordinal(0), ordinal(1)],
            ..StatefulSetMigrationStatus::default()
        },
        memory: Memory::default(),
        phases: Vec::new(),
        reason: String::new(),
        message: String::new(),
    }
}

#[rstest]
#[case::detach(StepName::Detach, &["vol-1"], None)]
#[case::detach_back(StepName::RDetach, &["vol-1"], None)]
#[case::attach(StepName::Attach, &["vol-1"], None)]
#[case::confirm(StepName::Confirm, &["vol-1"], Some(3500))]
#[case::confirm_back(StepName::RConfirm, &["vol-1"], Some(3500))]
#[case::ready(StepName::Ready, &[], None)]
#[case::gate(StepName::Gate, &[], None)]
fn a_wait_awaits(#[case] step: StepName, #[case] ids: &[&str], #[case] due: Option<u64>) {
    let (disks, at) = awaited(&waiting(step), Duration::from_secs(3));
    assert_eq!(disks.iter().map(String::as_str).collect::<Vec<_>>(), ids);
    assert_eq!(at, due.map(Duration::from_millis));
}

#[test]
fn a_run_that_goes_on_awaits_no_disk() {
    let mut decided = waiting(StepName::Detach);
    decided.situation = Situation::Progressing;
    let nothing = (BTreeSet::new(), None);
    assert_eq!(awaited(&decided, Duration::ZERO), nothing);
}

#[rstest]
#[case::over_or_failed(Situation::Resting, true)]
#[case::invalid(Situation::InvalidSpec, true)]
#[case::under_way(Situation::Progressing, false)]
#[case::paused(Situation::PauseRequested, false)]
#[case::at_its_limit(Situation::LimitReached, false)]
#[case::being_deleted(Situation::AwaitingAbort, false)]
fn a_run_at_rest_keeps_no_connection(#[case] situation: Situation, #[case] expected: bool) {
    assert_eq!(needs_no_cluster(&situation), expected);
}
