//! When each event comes.

use api::migrate::{ClaimRecord, events, reasons};
use rstest::rstest;
use serde_json::{Value, json};

use super::*;

fn reasons_of(notes: &[(&'static str, Note)]) -> Vec<String> {
    let shown = notes.iter().map(|(kind, note)| format!("{kind} {note:?}"));
    let short = shown.map(|text| {
        let reason = text.split("reason: \"").nth(1).unwrap_or_default();
        let reason = reason.split('"').next().unwrap_or_default();
        let kind = text.split(' ').next().unwrap_or_default();
        format!("{kind} {reason}")
    });
    short.collect()
}

#[rstest]
#[case::stall(waits(BUSY, true), "-", &["Stalled DetachBusy"])]
#[case::end_of_a_stall(Situation::Progressing, "Stalled DetachBusy", &["Stalled StallEnded"])]
#[case::hold(interfered(HoldReason::LockLost), "-", &["Paused LockLost"])]
#[case::another_hold(
    interfered(HoldReason::LockLost), "Paused SourceWidened", &["Paused HoldEnded", "Paused LockLost"])]
#[case::end_of_a_hold(Situation::Progressing, "Paused LockLost", &["Paused HoldEnded"])]
#[case::pause(Situation::PauseRequested, "-", &["Paused Requested"])]
#[case::end_of_a_pause(Situation::Progressing, "Paused Requested", &[])]
#[case::invalid(Situation::InvalidSpec, "-", &["Ready InvalidSpec"])]
fn events_come_with_their_condition(
    #[case] situation: Situation,
    #[case] before: &str,
    #[case] expected: &[&str],
) {
    let mut pass = Pass::new(situation, in_phase(MOVING));
    let is_pause = pass.decided.situation == Situation::PauseRequested;
    let reason = if is_pause {
        reasons::REQUESTED
    } else {
        reasons::INVALID_SPEC
    };
    reason.clone_into(&mut pass.decided.reason);
    if pass.decided.situation == Situation::Progressing {
        pass = pass.ends(announces());
    }
    if let Some((kind, reason)) = before.split_once(' ') {
        pass = pass.had(kind, "True", reason);
    }
    let notes = pass.shown(super::super::events::of_conditions);
    assert_eq!(reasons_of(&notes), expected);
}

#[test]
fn a_blocked_deletion_has_a_warning() {
    let pass = Pass::new(Situation::AwaitingAbort, in_phase(MOVING)).deleted();
    let notes = pass.shown(super::super::events::of_conditions);
    assert_eq!(reasons_of(&notes), ["DeletionBlocked DeletionBlocked"]);
}

#[test]
fn every_phase_has_an_event() {
    let pass = Pass::new(Situation::Resting, in_phase(Phase::Completed))
        .before(in_phase(Phase::Finalizing))
        .entered(&[Phase::Completed]);
    let text = "the run is over; every ordinal runs at the destination";
    assert_eq!(pass.notes(), [Note::normal("Completed", text)]);
}

#[test]
fn a_failure_has_a_warning() {
    let record = failed_with(FailReason::AttachTimeout, "late");
    let pass = Pass::new(Situation::Resting, record).before(in_phase(MOVING));
    let expected = [
        Note::normal("Failed", "the run has stopped"),
        Note::warning("AttachTimeout", "late"),
    ];
    assert_eq!(pass.notes(), expected);
}

#[test]
fn checks_have_an_event() {
    let mut record = in_phase(Phase::FreezingSource);
    record.preflight = Some(checked(2));
    let pass = Pass::new(Situation::Progressing, record).before(in_phase(Phase::FreezingSource));
    let text = "the checks were made; status.preflight has 2 findings";
    assert_eq!(pass.notes(), [Note::normal("PreFlightChecks", text)]);
}

#[rstest]
#[case::moved(
    Location::Moving,
    Location::Destination,
    Some(Note::normal(
        events::ORDINAL_MOVED,
        "ordinal 1 runs at the destination; it was down for 21.5 s"
    ))
)]
#[case::returned(
    Location::Moving,
    Location::Source,
    Some(Note::normal(
        events::ORDINAL_RETURNED,
        "ordinal 1 runs at the source; it was down for 21.5 s"
    ))
)]
#[case::released(Location::Source, Location::Moving, None)]
#[case::stays(Location::Destination, Location::Destination, None)]
fn an_ordinal_that_arrives_has_an_event(
    #[case] before: Location,
    #[case] after: Location,
    #[case] expected: Option<Note>,
) {
    let at = |location| {
        let mut record = in_phase(MOVING);
        record.ordinals[1].location = location;
        record.ordinals[1].downtime_seconds = Some(21.5);
        record
    };
    let pass = Pass::new(Situation::Progressing, at(after)).before(at(before));
    assert_eq!(pass.notes(), Vec::from_iter(expected));
}

#[test]
fn dormant_claims_have_no_downtime() {
    let at = |location| {
        let mut record = in_phase(MOVING);
        record.ordinals[1].ordinal = 7;
        record.ordinals[1].location = location;
        record
    };
    let pass =
        Pass::new(Situation::Progressing, at(Location::Destination)).before(at(Location::Source));
    let text = "the dormant claims of ordinal 7 are at the destination";
    assert_eq!(pass.notes(), [Note::normal(events::ORDINAL_MOVED, text)]);
}

#[test]
fn a_new_snapshot_has_an_event() {
    let with = |snapshot: Option<&str>| {
        let mut record = in_phase(MOVING);
        record.ordinals[1].claims = vec![ClaimRecord {
            name: "data-web-1".to_owned(),
            volume_id: "vol-1".to_owned(),
            snapshot_id: snapshot.map(str::to_owned),
            ..ClaimRecord::default()
        }];
        record
    };
    let pass = Pass::new(Situation::Progressing, with(Some("snap-1"))).before(with(None));
    let text = "snapshot snap-1 of volume vol-1 of claim data-web-1 was started";
    assert_eq!(pass.notes(), [Note::normal(events::SNAPSHOT_CREATED, text)]);
    let later = Pass::new(Situation::Progressing, with(Some("snap-1")));
    assert_eq!(later.notes(), []);
}

fn cleaning(step: StepName, ordinal: Option<i32>) -> StatefulSetMigrationStatus {
    let mut record = intended(Phase::Finalizing);
    record.intent = record.intent.map(|intent| Intent {
        step,
        ordinal,
        ..intent
    });
    record
}

#[rstest]
#[case::the_same_ordinal(StepName::CleanPv, Some(0), 0)]
#[case::the_next_ordinal(StepName::CleanPv, Some(1), 1)]
#[case::the_next_step(StepName::CleanSts, None, 1)]
fn a_step_of_the_clean_up_has_an_event(
    #[case] step: StepName,
    #[case] ordinal: Option<i32>,
    #[case] expected: usize,
) {
    let pass = Pass::new(Situation::Progressing, cleaning(step, ordinal))
        .before(cleaning(StepName::CleanPv, Some(0)));
    assert_eq!(pass.notes().len(), expected);
}

#[rstest]
#[case::too_late(json!({"abort": "Rollback"}), true, 2, 1)]
#[case::again(json!({"abort": "Rollback"}), true, 1, 0)]
#[case::in_time(json!({"abort": "Rollback"}), false, 2, 0)]
#[case::not_asked_for(json!({}), true, 2, 0)]
fn a_late_rollback_is_refused_once(
    #[case] fields: Value,
    #[case] cleanup_started: bool,
    #[case] generation: i64,
    #[case] expected: usize,
) {
    let before = StatefulSetMigrationStatus {
        cleanup_started,
        ..in_phase(Phase::Finalizing)
    };
    let after = StatefulSetMigrationStatus {
        observed_generation: Some(generation),
        ..before.clone()
    };
    let pass = Pass::new(Situation::Progressing, after).spec(&fields);
    let pass = pass.before(before);
    assert_eq!(pass.notes().len(), expected);
}

#[rstest]
#[case::short("batch 7", "migration batch 7: the run has stopped")]
#[case::empty("", "the run has stopped")]
fn an_event_names_the_migration(#[case] id: &str, #[case] expected: &str) {
    let pass = Pass::new(Situation::Resting, in_phase(Phase::Failed))
        .spec(&json!({"migrationId": id}))
        .before(in_phase(MOVING));
    assert_eq!(pass.notes(), [Note::normal("Failed", expected)]);
}
