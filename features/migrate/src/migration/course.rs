//! What a run does now: from its phase, and from what people ask for. Pure.

use api::migrate::{
    Abort, CleanupPolicy, FailReason, Location, OnFailure, Phase, StatefulSetMigrationSpec,
    StatefulSetMigrationStatus,
};

/// What a run does now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Course {
    /// The checks before any change.
    Check,
    /// Capture, lock, protect, and prepare the destination.
    Freeze,
    /// Ordinals go to the destination.
    Move,
    /// Ordinals end where they are in motion; then nothing, until `abort` says what to do. The object is being
    /// deleted.
    AwaitAbort,
    /// Soak and clean-up.
    Finish,
    /// Ordinals come back; then the destination is emptied.
    RollBack,
    /// Export the journal and stop where it is.
    Leave,
    /// The run has ended, and its locks stay: with `Keep` a rollback is still possible.
    Rest,
    /// A person has to change something first.
    Blocked,
    /// The object may go.
    Release,
}

impl Course {
    /// Whether it may change something in the clusters.
    pub fn writes(self) -> bool {
        match self {
            Self::Freeze
            | Self::Move
            | Self::AwaitAbort
            | Self::Finish
            | Self::RollBack
            | Self::Leave => true,
            Self::Check | Self::Rest | Self::Blocked | Self::Release => false,
        }
    }
}

/// What people ask for, and how far the run is.
#[derive(Debug, Clone, Copy)]
pub struct Request<'a> {
    /// The spec.
    pub spec: &'a StatefulSetMigrationSpec,
    /// The record.
    pub record: &'a StatefulSetMigrationStatus,
    /// Whether the object is being deleted.
    pub is_deleting: bool,
    /// Whether the spec was edited after the last pass.
    pub is_edited: bool,
}

/// The first row that fits. "Started" is `status.started`: the run may have changed something outside.
///
/// | phase                              | started | and                                      | course      |
/// |------------------------------------|---------|------------------------------------------|-------------|
/// | `RolledBack`                       | any     | deleted                                  | release     |
/// | `RolledBack`                       | any     |                                          | rest        |
/// | `Completed`                        | any     | deleted                                  | release     |
/// | `Completed`                        | any     | abort `Rollback`, the source was kept    | roll back   |
/// | `Completed`                        | any     |                                          | rest        |
/// | any other                          | no      | deleted                                  | release     |
/// | any other                          | no      | any abort                                | blocked     |
/// | `Planned`                          | no      | dryRun                                   | rest        |
/// | `Failed`                           | no      | retry was not raised, spec not edited    | blocked     |
/// | `FreezingSource`                   | no      |                                          | freeze      |
/// | any other                          | no      |                                          | check       |
/// | `Failed`                           | yes     | on the way back, retry was not raised    | blocked     |
/// | `RollingBack`                      | yes     | abort is not `Leave`                     | roll back   |
/// | any other                          | yes     | the clean-up has begun                   | finish      |
/// | any other                          | yes     | abort `Rollback`                         | roll back   |
/// | any other                          | yes     | abort `Leave`, carried out, deleted      | release     |
/// | any other                          | yes     | abort `Leave`, carried out               | rest        |
/// | any other                          | yes     | abort `Leave`                            | leave       |
/// | `FreezingSource`                   | yes     | deleted                                  | roll back   |
/// | `Finalizing`                       | yes     |                                          | finish      |
/// | any other                          | yes     | deleted                                  | await abort |
/// | `Failed`                           | yes     | the failure is one to roll back from     | roll back   |
/// | `Failed`                           | yes     | retry was not raised                     | blocked     |
/// | any other                          | yes     |                                          | where it is |
pub fn course(request: &Request<'_>) -> Course {
    let Request {
        spec,
        record,
        is_deleting,
        ..
    } = *request;
    let phase = record.phase.unwrap_or(Phase::Pending);
    match phase {
        Phase::RolledBack | Phase::Completed if is_deleting => Course::Release,
        Phase::RolledBack => Course::Rest,
        Phase::Completed if may_still_return(spec) => Course::RollBack,
        Phase::Completed => Course::Rest,
        Phase::Pending
        | Phase::PreFlightChecks
        | Phase::Planned
        | Phase::FreezingSource
        | Phase::MigratingPods
        | Phase::Finalizing
        | Phase::RollingBack
        | Phase::Failed
            if record.started =>
        {
            started(request, phase)
        }
        Phase::Pending
        | Phase::PreFlightChecks
        | Phase::Planned
        | Phase::FreezingSource
        | Phase::MigratingPods
        | Phase::Finalizing
        | Phase::RollingBack
        | Phase::Failed => not_started(request, phase),
    }
}

fn may_still_return(spec: &StatefulSetMigrationSpec) -> bool {
    spec.abort == Some(Abort::Rollback) && spec.source_cleanup.policy == CleanupPolicy::Keep
}

fn not_started(request: &Request<'_>, phase: Phase) -> Course {
    if request.is_deleting {
        Course::Release
    } else if request.spec.abort.is_some() {
        Course::Blocked
    } else if phase == Phase::Planned && request.spec.dry_run {
        Course::Rest
    } else if phase == Phase::Failed && !is_retried(request) && !request.is_edited {
        Course::Blocked
    } else if phase == Phase::FreezingSource {
        Course::Freeze
    } else {
        Course::Check
    }
}

fn started(request: &Request<'_>, phase: Phase) -> Course {
    let Request {
        spec,
        record,
        is_deleting,
        ..
    } = *request;
    // Without this row, a rollback that fails would begin again at once, for ever.
    let fails_on_its_way_back = phase == Phase::Failed && resumed(record) == Course::RollBack;
    if fails_on_its_way_back && !is_retried(request) && spec.abort != Some(Abort::Leave) {
        return Course::Blocked;
    }
    if phase == Phase::RollingBack && spec.abort != Some(Abort::Leave) {
        return Course::RollBack;
    }
    if record.cleanup_started {
        return Course::Finish;
    }
    match spec.abort {
        Some(Abort::Rollback) => return Course::RollBack,
        Some(Abort::Leave) if is_left(record) && is_deleting => return Course::Release,
        Some(Abort::Leave) if is_left(record) => return Course::Rest,
        Some(Abort::Leave) => return Course::Leave,
        None => {}
    }
    match phase {
        Phase::FreezingSource if is_deleting => Course::RollBack,
        Phase::Finalizing => Course::Finish,
        _ if is_deleting => Course::AwaitAbort,
        Phase::Failed if rolls_back_by_itself(request) => Course::RollBack,
        Phase::Failed if !is_retried(request) => Course::Blocked,
        Phase::Failed => resumed(record),
        Phase::MigratingPods => Course::Move,
        Phase::FreezingSource => Course::Freeze,
        Phase::Pending | Phase::PreFlightChecks | Phase::Planned => resumed(record),
        Phase::RollingBack | Phase::Completed | Phase::RolledBack => Course::RollBack,
    }
}

/// `abort: Leave` has been carried out.
fn is_left(record: &StatefulSetMigrationStatus) -> bool {
    record.failure == Some(FailReason::AbortedLeave)
}

fn is_retried(request: &Request<'_>) -> bool {
    request.spec.retry > request.record.observed_retry
}

fn rolls_back_by_itself(request: &Request<'_>) -> bool {
    let failure = request.record.failure;
    request.spec.on_failure == OnFailure::Rollback
        && failure.is_some_and(FailReason::allows_rollback)
}

/// A run that goes on after a failure does so where its record shows it:
///
/// | ordinals of the window             | course    |
/// |------------------------------------|-----------|
/// | one has a step of the way back     | roll back |
/// | some have moved, or move           | move      |
/// | all have moved                     | finish    |
/// | none has moved or moves            | freeze    |
///
/// A freeze that is complete goes on with the first ordinal at once.
fn resumed(record: &StatefulSetMigrationStatus) -> Course {
    let window = record.window.as_ref();
    let of_window = record.ordinals.iter();
    let mut of_window = of_window
        .filter(|ordinal| window.is_some_and(|window| window.contains(ordinal.ordinal)))
        .peekable();
    let returns = record.ordinals.iter().filter_map(|ordinal| ordinal.step);
    if returns.into_iter().any(api::migrate::StepName::is_rollback) {
        return Course::RollBack;
    }
    let is_empty = of_window.peek().is_none();
    let locations: Vec<Location> = of_window.map(|ordinal| ordinal.location).collect();
    let all_at = |location| locations.iter().all(|one| *one == location);
    if is_empty || all_at(Location::Source) {
        Course::Freeze
    } else if all_at(Location::Destination) {
        Course::Finish
    } else {
        Course::Move
    }
}

#[cfg(test)]
mod tests {
    use api::migrate::{OrdinalRecord, StepName, Window};
    use rstest::rstest;
    use serde_json::{Value, json};

    use super::*;
    use crate::migration::fixture::spec;

    const FREE: [Location; 2] = [Location::Source; 2];

    fn record(phase: Phase, started: bool) -> StatefulSetMigrationStatus {
        StatefulSetMigrationStatus {
            phase: Some(phase),
            started,
            window: Some(Window {
                start: 0,
                replicas: 2,
                had_ordinals: false,
            }),
            ..StatefulSetMigrationStatus::default()
        }
    }

    fn decide(record: &StatefulSetMigrationStatus, fields: &Value, is_deleting: bool) -> Course {
        course(&Request {
            spec: &spec(fields),
            record,
            is_deleting,
            is_edited: false,
        })
    }

    #[rstest]
    #[case::pending(Phase::Pending, json!({}), Course::Check)]
    #[case::planned(Phase::Planned, json!({"dryRun": true}), Course::Rest)]
    #[case::checked(Phase::FreezingSource, json!({}), Course::Freeze)]
    #[case::planned_and_released(Phase::Planned, json!({}), Course::Check)]
    #[case::failed(Phase::Failed, json!({}), Course::Blocked)]
    #[case::failed_and_retried(Phase::Failed, json!({"retry": 1}), Course::Check)]
    #[case::aborted(Phase::PreFlightChecks, json!({"abort": "Rollback"}), Course::Blocked)]
    #[case::left(Phase::PreFlightChecks, json!({"abort": "Leave"}), Course::Blocked)]
    fn before_the_start_only_checks_run(
        #[case] phase: Phase,
        #[case] fields: Value,
        #[case] expected: Course,
    ) {
        assert_eq!(decide(&record(phase, false), &fields, false), expected);
    }

    #[test]
    fn an_edit_repeats_the_checks() {
        let request = Request {
            spec: &spec(&json!({})),
            record: &record(Phase::Failed, false),
            is_deleting: false,
            is_edited: true,
        };
        assert_eq!(course(&request), Course::Check);
    }

    #[rstest]
    #[case::freezing(Phase::FreezingSource, json!({}), Course::Freeze)]
    #[case::freezing_aborted(Phase::FreezingSource, json!({"abort": "Rollback"}), Course::RollBack)]
    #[case::moving(Phase::MigratingPods, json!({}), Course::Move)]
    #[case::moving_aborted(Phase::MigratingPods, json!({"abort": "Rollback"}), Course::RollBack)]
    #[case::moving_left(Phase::MigratingPods, json!({"abort": "Leave"}), Course::Leave)]
    #[case::finalizing(Phase::Finalizing, json!({}), Course::Finish)]
    #[case::finalizing_aborted(Phase::Finalizing, json!({"abort": "Rollback"}), Course::RollBack)]
    #[case::returning(Phase::RollingBack, json!({}), Course::RollBack)]
    #[case::returned(Phase::RolledBack, json!({}), Course::Rest)]
    #[case::completed(Phase::Completed, json!({}), Course::Rest)]
    #[case::completed_and_deleted_is_final(
        Phase::Completed, json!({"abort": "Rollback"}), Course::Rest)]
    #[case::completed_and_kept(
        Phase::Completed,
        json!({"abort": "Rollback", "sourceCleanup": {"policy": "Keep"}}),
        Course::RollBack
    )]
    #[case::returning_and_left(Phase::RollingBack, json!({"abort": "Leave"}), Course::Leave)]
    #[case::failed(Phase::Failed, json!({}), Course::Blocked)]
    fn a_started_run_follows_its_phase_and_abort(
        #[case] phase: Phase,
        #[case] fields: Value,
        #[case] expected: Course,
    ) {
        assert_eq!(decide(&record(phase, true), &fields, false), expected);
    }

    #[test]
    fn a_clean_up_that_has_begun_ends() {
        let mut record = record(Phase::Finalizing, true);
        record.cleanup_started = true;
        assert_eq!(
            decide(&record, &json!({"abort": "Rollback"}), false),
            Course::Finish
        );
    }

    #[rstest]
    #[case::attach(FailReason::AttachTimeout, Course::RollBack)]
    #[case::ready(FailReason::PodReadyTimeout, Course::RollBack)]
    #[case::lost(FailReason::VolumeLost, Course::Blocked)]
    #[case::mismatch(FailReason::VolumeMismatch, Course::Blocked)]
    fn only_timeouts_roll_back_by_themselves(
        #[case] failure: FailReason,
        #[case] expected: Course,
    ) {
        let mut record = record(Phase::Failed, true);
        record.failure = Some(failure);
        let fields = json!({"onFailure": "Rollback"});
        assert_eq!(decide(&record, &fields, false), expected);
    }

    #[rstest]
    #[case::pending(Phase::Pending, false, json!({}), Course::Release)]
    #[case::checking(Phase::PreFlightChecks, false, json!({}), Course::Release)]
    #[case::planned(Phase::Planned, false, json!({"dryRun": true}), Course::Release)]
    #[case::failed_before_the_start(Phase::Failed, false, json!({}), Course::Release)]
    #[case::freezing(Phase::FreezingSource, true, json!({}), Course::RollBack)]
    #[case::moving(Phase::MigratingPods, true, json!({}), Course::AwaitAbort)]
    #[case::moving_aborted(Phase::MigratingPods, true, json!({"abort": "Rollback"}), Course::RollBack)]
    #[case::moving_left(Phase::MigratingPods, true, json!({"abort": "Leave"}), Course::Leave)]
    #[case::failed(Phase::Failed, true, json!({}), Course::AwaitAbort)]
    #[case::failed_to_leave(Phase::Failed, true, json!({"abort": "Leave"}), Course::Leave)]
    #[case::finalizing(Phase::Finalizing, true, json!({}), Course::Finish)]
    #[case::returning(Phase::RollingBack, true, json!({}), Course::RollBack)]
    #[case::completed(Phase::Completed, true, json!({}), Course::Release)]
    #[case::returned(Phase::RolledBack, true, json!({}), Course::Release)]
    fn a_deletion_depends_on_the_phase(
        #[case] phase: Phase,
        #[case] started: bool,
        #[case] fields: Value,
        #[case] expected: Course,
    ) {
        assert_eq!(decide(&record(phase, started), &fields, true), expected);
    }

    #[rstest]
    #[case::lives(false, Course::Rest)]
    #[case::deleted(true, Course::Release)]
    fn a_run_that_was_left_ends(#[case] is_deleting: bool, #[case] expected: Course) {
        let mut record = record(Phase::Failed, true);
        record.failure = Some(FailReason::AbortedLeave);
        assert_eq!(
            decide(&record, &json!({"abort": "Leave"}), is_deleting),
            expected
        );
    }

    #[rstest]
    #[case::by_abort(json!({"abort": "Rollback"}), Course::Blocked)]
    #[case::by_itself(json!({"onFailure": "Rollback"}), Course::Blocked)]
    #[case::and_is_retried(json!({"abort": "Rollback", "retry": 1}), Course::RollBack)]
    #[case::and_is_left(json!({"abort": "Leave"}), Course::Leave)]
    fn a_rollback_that_fails_waits_for_a_retry(#[case] fields: Value, #[case] expected: Course) {
        let mut record = record(Phase::Failed, true);
        record.ordinals = vec![OrdinalRecord {
            location: Location::Moving,
            step: Some(StepName::RReady),
            ..OrdinalRecord::default()
        }];
        assert_eq!(decide(&record, &fields, false), expected);
    }

    #[rstest]
    #[case::none_has_moved(FREE, None, Course::Freeze)]
    #[case::one_moves([Location::Moving, Location::Source], Some(StepName::Gone), Course::Move)]
    #[case::one_has_moved([Location::Destination, Location::Source], None, Course::Move)]
    #[case::all_have_moved([Location::Destination; 2], None, Course::Finish)]
    #[case::one_returns([Location::Destination, Location::Moving], Some(StepName::RGone), Course::RollBack)]
    fn a_retry_goes_on_where_the_record_is(
        #[case] locations: [Location; 2],
        #[case] step: Option<StepName>,
        #[case] expected: Course,
    ) {
        let mut record = record(Phase::Failed, true);
        record.ordinals = (0..)
            .zip(locations)
            .map(|(ordinal, location)| OrdinalRecord {
                ordinal,
                location,
                step: step.filter(|_| location == Location::Moving),
                ..OrdinalRecord::default()
            })
            .collect();
        assert_eq!(decide(&record, &json!({"retry": 1}), false), expected);
    }

    #[test]
    fn a_set_without_replicas_freezes_first() {
        let mut record = record(Phase::Failed, true);
        record.window = None;
        assert_eq!(decide(&record, &json!({"retry": 1}), false), Course::Freeze);
    }
}
