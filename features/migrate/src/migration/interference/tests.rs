//! Each row of the tables, and the changes of ours that are no interference.

use api::migrate::Intent;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use k8s_openapi::jiff::Timestamp;
use kernel::Ownership;
use rstest::rstest;

use super::*;
use crate::migration::fixture::{RUN, foreign_lock, observed, record};

fn judge(
    record: &StatefulSetMigrationStatus,
    direction: Direction,
    observation: &Observation,
) -> String {
    let hold = found(&run(record, direction, observation));
    hold.map_or_else(|| "none".to_owned(), |hold| hold.reason.to_string())
}

fn run<'a>(
    record: &'a StatefulSetMigrationStatus,
    direction: Direction,
    observation: &'a Observation,
) -> Run<'a> {
    Run {
        record,
        id: RUN,
        set: "web",
        direction,
        is_prepared: true,
        observation,
    }
}

fn with_intent(
    mut record: StatefulSetMigrationStatus,
    step: StepName,
) -> StatefulSetMigrationStatus {
    record.intent = Some(Intent {
        step,
        ordinal: Some(1),
        token: String::new(),
        at: MicroTime(Timestamp::UNIX_EPOCH),
    });
    record
}

fn moving(step: StepName) -> StatefulSetMigrationStatus {
    record(Location::Moving, step)
}

#[rstest]
#[case::as_recorded("none", |_: &mut Observation| {})]
#[case::another_source_cluster("IdentityChanged",
    |all: &mut Observation| all.source.identity = Some("other".into()))]
#[case::another_destination_cluster("IdentityChanged",
    |all: &mut Observation| all.destination.identity = Some("other".into()))]
#[case::an_identity_that_was_not_read("none", |all: &mut Observation| all.source.identity = None)]
#[case::no_lock("LockLost", |all: &mut Observation| all.source.lock = LockOwnership::Missing)]
#[case::lock_of_another_run("LockLost",
    |all: &mut Observation| all.destination.lock = foreign_lock())]
#[case::no_source("SourceVanished", |all: &mut Observation| all.source.set = None)]
#[case::source_being_deleted("SourceVanished", |all: &mut Observation| {
    all.source.set.as_mut().expect("it exists").is_terminating = true;
})]
#[case::destination_being_deleted("DestinationConflict", |all: &mut Observation| {
    all.destination.set.as_mut().expect("it exists").is_terminating = true;
})]
#[case::another_source("SourceRecreated", |all: &mut Observation| {
    all.source.set.as_mut().expect("it exists").version.uid = "another".into();
})]
#[case::edited_source("SourceEdited", |all: &mut Observation| {
    all.source.set.as_mut().expect("it exists").template_hash = "edited".into();
})]
#[case::no_destination("DestinationConflict", |all: &mut Observation| all.destination.set = None)]
#[case::foreign_destination("DestinationConflict", |all: &mut Observation| {
    all.destination.set.as_mut().expect("it exists").ownership = Ownership::Unmarked;
})]
#[case::edited_destination("DestinationEdited", |all: &mut Observation| {
    all.destination.set.as_mut().expect("it exists").template_hash = "edited".into();
})]
fn interference_has_a_reason(
    #[case] expected: &str,
    #[case] change: impl FnOnce(&mut Observation),
) {
    let mut observation = observed((1, 2), (0, 1));
    change(&mut observation);
    let record = record(Location::Source, StepName::Gate);
    assert_eq!(judge(&record, Direction::Forward, &observation), expected);
}

#[rstest]
#[case::source(Side::Source)]
#[case::destination(Side::Destination)]
fn a_hold_about_an_edit_names_the_field(#[case] side: Side) {
    let mut observation = observed((1, 2), (0, 1));
    let set = observation.cluster_mut(side).set.as_mut();
    let set = set.expect("it exists");
    set.template_hash = "edited".into();
    set.edits = "/spec/serviceName: \"a\" -> \"b\"".into();
    let record = record(Location::Source, StepName::Gate);
    let hold = found(&run(&record, Direction::Forward, &observation)).expect("it is edited");
    let expected = format!(
        "the template of StatefulSet web in the {side} was edited (/spec/serviceName: \"a\" -> \"b\"); undo the \
         edit and raise spec.retry"
    );
    assert_eq!(hold.message, expected);
}

#[rstest]
#[case::not_begun(record(Location::Source, StepName::Gate), (1, 2), (0, 1), "none")]
#[case::narrowed_is_no_danger(record(Location::Source, StepName::Gate), (2, 1), (0, 1), "none")]
#[case::widened_to_a_moved_one(record(Location::Source, StepName::Gate), (0, 3), (0, 1), "SourceWidened")]
#[case::widened_beyond_the_record(record(Location::Source, StepName::Gate), (1, 3), (0, 1), "SourceWidened")]
#[case::grown_unasked(record(Location::Source, StepName::Gate), (1, 2), (0, 2), "DestinationDrift")]
#[case::shrunk_unasked(record(Location::Source, StepName::Gate), (1, 2), (0, 0), "DestinationDrift")]
#[case::moved_start(record(Location::Source, StepName::Gate), (1, 2), (1, 1), "DestinationDrift")]
#[case::before_the_release(moving(StepName::Gate), (1, 2), (0, 1), "none")]
#[case::release_announced(with_intent(moving(StepName::Gate), StepName::Release), (2, 1), (0, 1), "none")]
#[case::release_not_recorded(moving(StepName::Release), (2, 1), (0, 1), "none")]
#[case::widened_after_the_release(moving(StepName::Gone), (1, 2), (0, 1), "SourceWidened")]
#[case::released(moving(StepName::Gone), (2, 1), (0, 1), "none")]
#[case::grown_too_early(moving(StepName::Fence), (2, 1), (0, 2), "DestinationDrift")]
#[case::grow_announced(with_intent(moving(StepName::Confirm), StepName::Grow), (2, 1), (0, 2), "none")]
#[case::grown(moving(StepName::Attach), (2, 1), (0, 2), "none")]
#[case::shrunk_after_the_growth(moving(StepName::Attach), (2, 1), (0, 1), "DestinationDrift")]
fn forward_the_record_says_what_each_cluster_runs(
    #[case] record: StatefulSetMigrationStatus,
    #[case] source: (i32, i32),
    #[case] destination: (i32, i32),
    #[case] expected: &str,
) {
    let observation = observed(source, destination);
    assert_eq!(judge(&record, Direction::Forward, &observation), expected);
}

#[rstest]
#[case::at_the_release(moving(StepName::RRelease), (2, 1), (0, 2), "none")]
#[case::released(moving(StepName::RGone), (2, 1), (0, 1), "none")]
#[case::grown_again(moving(StepName::RGone), (2, 1), (0, 2), "DestinationDrift")]
#[case::source_too_early(moving(StepName::RFence), (1, 2), (0, 1), "SourceWidened")]
#[case::source_grows(moving(StepName::RGrow), (1, 2), (0, 1), "none")]
#[case::back_in_the_source(moving(StepName::RReady), (1, 2), (0, 1), "none")]
fn back_the_record_says_what_each_cluster_runs(
    #[case] record: StatefulSetMigrationStatus,
    #[case] source: (i32, i32),
    #[case] destination: (i32, i32),
    #[case] expected: &str,
) {
    let observation = observed(source, destination);
    assert_eq!(judge(&record, Direction::Back, &observation), expected);
}

#[rstest]
#[case::released(moving(StepName::Fence), (2, 1), (0, 1))]
#[case::grown(moving(StepName::Attach), (2, 1), (0, 2))]
#[case::not_released(moving(StepName::Release), (1, 2), (0, 1))]
fn a_rollback_begins_at_any_step(
    #[case] record: StatefulSetMigrationStatus,
    #[case] source: (i32, i32),
    #[case] destination: (i32, i32),
) {
    let observation = observed(source, destination);
    assert_eq!(judge(&record, Direction::Back, &observation), "none");
}

#[test]
fn an_orphaned_source_is_not_missed() {
    let mut observation = observed((1, 2), (0, 1));
    observation.source.set = None;
    let mut record = record(Location::Source, StepName::Gate);
    record.strategy = Some(Strategy::OrphanAdopt);
    record.orphan_started = true;
    assert_eq!(judge(&record, Direction::Forward, &observation), "none");
}

#[rstest]
#[case::source_before_the_fence(
    HoldReason::SourceWidened,
    Direction::Forward,
    StepName::Fence,
    false
)]
#[case::source_past_the_fence(
    HoldReason::SourceWidened,
    Direction::Forward,
    StepName::Confirm,
    true
)]
#[case::destination_past_the_fence(
    HoldReason::DestinationDrift,
    Direction::Forward,
    StepName::Confirm,
    false
)]
#[case::destination_grown(
    HoldReason::DestinationDrift,
    Direction::Forward,
    StepName::Attach,
    true
)]
#[case::back_destination_fenced(
    HoldReason::DestinationDrift,
    Direction::Back,
    StepName::RGrow,
    true
)]
#[case::back_source_not_grown(HoldReason::SourceWidened, Direction::Back, StepName::RGrow, false)]
#[case::back_source_grown(HoldReason::SourceWidened, Direction::Back, StepName::RAttach, true)]
#[case::both(HoldReason::LockLost, Direction::Forward, StepName::Ready, false)]
fn an_ordinal_past_the_fence_is_finished(
    #[case] reason: HoldReason,
    #[case] direction: Direction,
    #[case] step: StepName,
    #[case] expected: bool,
) {
    let hold = Interference {
        reason,
        ordinal: Some(1),
        message: String::new(),
    };
    assert_eq!(may_finish(&hold, direction, step), expected);
}

#[rstest]
#[case::deleted_by_the_run(true, Direction::Forward, |all: &mut Observation| all.source.set = None, "none")]
#[case::gone_without_the_run(false, Direction::Forward, |all: &mut Observation| all.source.set = None,
    "SourceVanished")]
#[case::created_again(true, Direction::Forward, |_: &mut Observation| {}, "SourceRecreated")]
#[case::never_deleted(false, Direction::Forward, |_: &mut Observation| {}, "SourceRecreated")]
#[case::created_by_the_rollback(false, Direction::Back, |all: &mut Observation| {
    all.source.set.as_mut().expect("it exists").version.uid = "new".into();
}, "none")]
#[case::gone_after_the_rollback_created_it(false, Direction::Back, |all: &mut Observation| all.source.set = None,
    "SourceVanished")]
fn an_orphaned_source_has_no_set(
    #[case] orphan_started: bool,
    #[case] direction: Direction,
    #[case] change: impl FnOnce(&mut Observation),
    #[case] expected: &str,
) {
    let mut record = record(Location::Source, StepName::Gate);
    record.strategy = Some(Strategy::OrphanAdopt);
    record.orphan_started = orphan_started;
    let mut observation = observed((1, 2), (0, 1));
    change(&mut observation);
    assert_eq!(judge(&record, direction, &observation), expected);
}
