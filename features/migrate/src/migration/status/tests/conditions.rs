//! When each condition is True, and why.

use api::migrate::HoldRecord;
use rstest::rstest;
use serde_json::{Value, json};

use super::*;

#[rstest]
#[case::goes_on(Situation::Progressing, announces(), "False MigratingPods")]
#[case::waits(waits(BUSY, false), stopped(), "False MigratingPods")]
#[case::stalls(waits(BUSY, true), stopped(), "False DetachBusy")]
#[case::interfered(
    interfered(HoldReason::SourceWidened),
    stopped(),
    "False SourceWidened"
)]
#[case::paused(Situation::PauseRequested, stopped(), "False MigratingPods")]
#[case::limited(Situation::LimitReached, stopped(), "False MigratingPods")]
#[case::deleted(Situation::AwaitingAbort, stopped(), "False MigratingPods")]
#[case::pass_failed(Situation::Progressing, broken(), "False MetadataRefused")]
#[case::call_failed(Situation::CallFailed, stopped(), "False Reason")]
#[case::invalid_spec(Situation::InvalidSpec, stopped(), "False Reason")]
fn ready_shows_where_a_run_is(
    #[case] situation: Situation,
    #[case] ended: Ending,
    #[case] expected: &str,
) {
    let pass = Pass::new(situation, in_phase(MOVING)).ends(ended);
    assert_eq!(pass.truth(kinds::READY), expected);
}

#[rstest]
#[case::completed(in_phase(Phase::Completed), "True Completed: what happened")]
#[case::rolled_back(in_phase(Phase::RolledBack), "True RolledBack: what happened")]
#[case::planned(in_phase(Phase::Planned), "True Planned: what happened")]
#[case::not_begun(
    in_phase(Phase::PreFlightChecks),
    "False PreFlightChecks: what happened"
)]
#[case::timeout(
    failed_with(FailReason::AttachTimeout, "late"),
    "False AttachTimeout: late"
)]
#[case::blocked(
    failed_with(FailReason::PreflightBlocked, "Zone: none"),
    "False PreflightBlocked: Zone: none; repair it and raise spec.retry, or edit the spec"
)]
#[case::left(
    failed_with(FailReason::AbortedLeave, "old"),
    "False AbortedLeave: left as it is; docs/migrate.md shows how to go on by hand"
)]
fn ready_shows_how_a_run_ended(#[case] record: StatefulSetMigrationStatus, #[case] expected: &str) {
    let pass = Pass::new(Situation::Resting, record);
    assert_eq!(pass.condition(kinds::READY).as_deref(), Some(expected));
}

#[rstest]
#[case::busy(BUSY)]
#[case::outage(OUTAGE)]
fn a_wait_within_its_limit_writes_nothing(#[case] reason: StallReason) {
    let first = Pass::new(waits(reason, false), in_phase(MOVING));
    let (status, report) = status(&first.decided, &first.world, &first.ended);
    let (truth, ready) = report.get(kinds::READY).expect("it is set");
    assert_eq!(truth, engine::Truth::False);
    let second = Pass::new(waits(reason, false), status.clone());
    let mut second = second.had(kinds::READY, "False", &ready.code);
    let changed = "volume vol-1 is detaching since 9 s";
    if let Situation::Waiting { wait, .. } = &mut second.decided.situation {
        wait.detail = changed.to_owned();
    }
    assert_eq!(second.status(), status);
    if let Some(again) = second.condition(kinds::READY) {
        assert_eq!(again, format!("False {}: {}", ready.code, ready.message));
    }
    assert_eq!(
        [second.truth(kinds::STALLED), second.truth(kinds::PAUSED)],
        ["-", "-"]
    );
    assert_eq!(second.notes(), []);
}

#[rstest]
#[case::begins(waits(BUSY, true), "-", "True DetachBusy")]
#[case::goes_on(waits(BUSY, true), "True DetachBusy", "True DetachBusy")]
#[case::measured_anew(waits(BUSY, false), "True DetachBusy", "-")]
#[case::becomes_another(
    waits(StallReason::Detaching, false),
    "True DetachBusy",
    "False Progressing"
)]
#[case::cannot_be_seen(waits(OUTAGE, false), "True DetachBusy", "-")]
#[case::ends_with_a_change(Situation::Progressing, "True DetachBusy", "False Progressing")]
#[case::never_was(Situation::Progressing, "-", "-")]
#[case::ends_with_the_run(Situation::Resting, "True DetachBusy", "False Progressing")]
fn a_stall_begins_and_ends(
    #[case] situation: Situation,
    #[case] before: &str,
    #[case] expected: &str,
) {
    let mut pass = Pass::new(situation, in_phase(MOVING));
    if pass.decided.situation == Situation::Progressing {
        pass = pass.ends(announces());
    }
    if let Some((status, reason)) = before.split_once(' ') {
        pass = pass.had(kinds::STALLED, status, reason);
    }
    assert_eq!(pass.truth(kinds::STALLED), expected);
}

#[test]
fn an_outage_keeps_its_first_message() {
    let pass = Pass::new(waits(OUTAGE, true), in_phase(MOVING));
    let pass = pass.had(kinds::STALLED, "True", OUTAGE.as_str());
    let expected = Some("True ClusterUnreachable: before");
    assert_eq!(pass.condition(kinds::STALLED).as_deref(), expected);
}

#[rstest]
#[case::by_a_hold(interfered(HoldReason::LockLost), "-", "True LockLost")]
#[case::by_a_person(Situation::PauseRequested, "-", "True Reason")]
#[case::goes_on(waits(BUSY, false), "True LockLost", "False Progressing")]
#[case::stalls(waits(BUSY, true), "True LockLost", "False Progressing")]
#[case::cannot_be_seen(waits(OUTAGE, true), "True LockLost", "-")]
#[case::call_failed(Situation::CallFailed, "True LockLost", "-")]
#[case::no_news(Situation::Progressing, "True LockLost", "-")]
#[case::never_was(waits(BUSY, false), "-", "-")]
fn a_pause_begins_and_ends(
    #[case] situation: Situation,
    #[case] before: &str,
    #[case] expected: &str,
) {
    let mut pass = Pass::new(situation, in_phase(MOVING));
    if let Some((status, reason)) = before.split_once(' ') {
        pass = pass.had(kinds::PAUSED, status, reason);
    }
    assert_eq!(pass.truth(kinds::PAUSED), expected);
}

#[rstest]
#[case::checking(Phase::PreFlightChecks, false, ["-", "-", "-"])]
#[case::freezing(Phase::FreezingSource, false, ["-", "-", "-"])]
#[case::moving(MOVING, false, ["True Frozen", "-", "-"])]
#[case::finalizing(Phase::Finalizing, false, ["True Frozen", "-", "-"])]
#[case::completed(Phase::Completed, false, ["True Frozen", "True Completed", "-"])]
#[case::failed(Phase::Failed, false, ["-", "-", "True Failed"])]
#[case::resumed(MOVING, true, ["True Frozen", "False MigratingPods", "False MigratingPods"])]
#[case::returning(Phase::RollingBack, true, ["-", "False RollingBack", "False RollingBack"])]
#[case::returned(
    Phase::RolledBack, true, ["False RolledBack", "False RolledBack", "False RolledBack"])]
fn conditions_follow_the_phase(
    #[case] phase: Phase,
    #[case] were_set: bool,
    #[case] expected: [&str; 3],
) {
    let types = [kinds::SOURCE_FROZEN, kinds::COMPLETE, kinds::FAILED];
    let mut pass = Pass::new(Situation::Progressing, in_phase(phase)).ends(announces());
    for kind in types.into_iter().filter(|_| were_set) {
        pass = pass.had(kind, "True", "Before");
    }
    assert_eq!(types.map(|kind| pass.truth(kind)), expected);
}

#[test]
fn a_phase_left_in_the_same_pass_counts() {
    let record = failed_with(FailReason::VolumeLost, "it is gone");
    let pass = Pass::new(Situation::Resting, record).entered(&[MOVING, Phase::Failed]);
    assert_eq!(pass.truth(kinds::SOURCE_FROZEN), "True Frozen");
    let expected = Some("True Failed: VolumeLost: it is gone");
    assert_eq!(pass.condition(kinds::FAILED).as_deref(), expected);
}

#[rstest]
#[case::not_made(None, None, "-")]
#[case::passed(Some(checked(0)), None, "True Passed: no check has a finding")]
#[case::warned(
    Some(checked(2)),
    None,
    "True Passed: nothing blocks the run; status.preflight has 2 findings"
)]
#[case::blocked(
    Some(checked(1)),
    Some(FailReason::PreflightBlocked),
    "False PreflightBlocked: Zone: no node"
)]
#[case::failed_later(
    Some(checked(1)),
    Some(FailReason::VolumeLost),
    "True Passed: nothing blocks the run; status.preflight has one finding"
)]
fn the_checks_have_a_condition(
    #[case] preflight: Option<Preflight>,
    #[case] failure: Option<FailReason>,
    #[case] expected: &str,
) {
    let record = StatefulSetMigrationStatus {
        preflight,
        failure,
        last_error: Some("Zone: no node".to_owned()),
        ..in_phase(Phase::Failed)
    };
    let pass = Pass::new(Situation::Resting, record);
    let found = pass.condition(kinds::PRE_FLIGHT_CHECKS);
    assert_eq!(found.as_deref().unwrap_or("-"), expected);
}

#[rstest]
#[case::lives(false, json!({}), "False NotBlocked")]
#[case::deleted(true, json!({}), "True AbortRequired")]
#[case::decided(true, json!({"abort": "Leave"}), "False NotBlocked")]
fn a_deletion_waits_for_abort(
    #[case] is_deleted: bool,
    #[case] fields: Value,
    #[case] expected: &str,
) {
    let mut pass = Pass::new(Situation::Progressing, in_phase(MOVING)).spec(&fields);
    if is_deleted {
        pass = pass.deleted();
    }
    let pass = pass.had(kinds::DELETION_BLOCKED, "True", "AbortRequired");
    assert_eq!(pass.truth(kinds::DELETION_BLOCKED), expected);
}

#[test]
fn a_recorded_hold_survives_an_outage() {
    let mut record = in_phase(MOVING);
    record.hold = Some(HoldRecord {
        reason: HoldReason::LockLost,
        ordinal: None,
    });
    let pass = Pass::new(waits(OUTAGE, false), record)
        .had(kinds::READY, "False", "LockLost")
        .had(kinds::PAUSED, "True", "LockLost");
    assert_eq!(
        [pass.truth(kinds::READY), pass.truth(kinds::PAUSED)],
        ["-", "-"]
    );
}
