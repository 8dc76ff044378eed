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
    /// A person has asked for a pause, and no ordinal is in motion.
    Pause,
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
            Self::Check | Self::Pause | Self::Rest | Self::Blocked | Self::Release => false,
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
    /// Whether a person has asked for a pause.
    pub is_paused: bool,
    /// Whether the spec was edited after the last pass.
    pub is_edited: bool,
}

/// What a run does now, or a pause. The deletion of the object ends a pause.
///
/// While ordinals move, the gate pauses, so that interference is found in a pause too.
pub fn course(request: &Request<'_>) -> Course {
    let course = unpaused(request);
    let may_pause = match course {
        Course::Check | Course::Freeze | Course::Finish | Course::RollBack => true,
        Course::Move
        | Course::AwaitAbort
        | Course::Leave
        | Course::Pause
        | Course::Rest
        | Course::Blocked
        | Course::Release => false,
    };
    let mut ordinals = request.record.ordinals.iter();
    let is_moving = ordinals.any(|ordinal| ordinal.location == Location::Moving);
    if may_pause && request.is_paused && !request.is_deleting && !is_moving {
        Course::Pause
    } else {
        course
    }
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
/// | `FreezingSource`                   | no      | spec not edited                          | freeze      |
/// | any other                          | no      |                                          | check       |
/// | any other                          | yes     | abort `Leave`, carried out, deleted      | release     |
/// | any other                          | yes     | abort `Leave`, carried out               | rest        |
/// | any other                          | yes     | abort `Leave`                            | leave       |
/// | any other                          | yes     | the clean-up has begun                   | finish      |
/// | `Failed`                           | yes     | on the way back, retry was not raised    | blocked     |
/// | any other                          | yes     | on the way back, or abort `Rollback`     | roll back   |
/// | `FreezingSource`                   | yes     | deleted                                  | roll back   |
/// | `Finalizing`                       | yes     |                                          | finish      |
/// | any other                          | yes     | deleted                                  | await abort |
/// | `Failed`                           | yes     | the failure is one to roll back from     | roll back   |
/// | `Failed`                           | yes     | retry was not raised                     | blocked     |
/// | any other                          | yes     |                                          | where it is |
fn unpaused(request: &Request<'_>) -> Course {
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
    } else if phase == Phase::FreezingSource && !request.is_edited {
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
    match spec.abort {
        Some(Abort::Leave) if is_left(record) && is_deleting => return Course::Release,
        Some(Abort::Leave) if is_left(record) => return Course::Rest,
        Some(Abort::Leave) => return Course::Leave,
        Some(Abort::Rollback) | None => {}
    }
    if record.cleanup_started {
        return Course::Finish;
    }
    // Without this row, a rollback that fails would begin again at once, for ever.
    let has_failed = phase == Phase::Failed && !is_left(record);
    if record.rolling_back && has_failed && !is_retried(request) {
        return Course::Blocked;
    }
    if record.rolling_back || spec.abort == Some(Abort::Rollback) {
        return Course::RollBack;
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
/// | ordinals, dormant ones too         | course    |
/// |------------------------------------|-----------|
/// | none has moved or moves            | freeze    |
/// | all have moved                     | finish    |
/// | any other                          | move      |
///
/// A freeze that is complete goes on with the first ordinal at once.
fn resumed(record: &StatefulSetMigrationStatus) -> Course {
    let all_at = |location| {
        let mut ordinals = record.ordinals.iter();
        ordinals.all(|ordinal| ordinal.location == location)
    };
    if all_at(Location::Source) {
        Course::Freeze
    } else if all_at(Location::Destination) {
        Course::Finish
    } else {
        Course::Move
    }
}

#[cfg(test)]
mod tests {
    use api::migrate::OrdinalRecord;
    use rstest::rstest;
    use serde_json::{Value, json};

    use super::*;
    use crate::migration::fixture::spec;

    fn record(phase: Phase, started: bool) -> StatefulSetMigrationStatus {
        StatefulSetMigrationStatus {
            phase: Some(phase),
            started,
            rolling_back: phase == Phase::RollingBack,
            ..StatefulSetMigrationStatus::default()
        }
    }

    fn decide(record: &StatefulSetMigrationStatus, fields: &Value, is_deleting: bool) -> Course {
        let spec = spec(fields);
        course(&Request {
            spec: &spec,
            record,
            is_deleting,
            is_paused: spec.paused,
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

    #[rstest]
    #[case::after_a_failure(Phase::Failed)]
    #[case::before_the_first_change(Phase::FreezingSource)]
    fn an_edit_repeats_the_checks(#[case] phase: Phase) {
        let request = Request {
            spec: &spec(&json!({})),
            record: &record(phase, false),
            is_deleting: false,
            is_paused: false,
            is_edited: true,
        };
        assert_eq!(course(&request), Course::Check);
    }

    #[rstest]
    #[case::before_the_checks(Phase::Pending, false, Location::Source, Course::Pause)]
    #[case::before_the_first_change(Phase::FreezingSource, false, Location::Source, Course::Pause)]
    #[case::in_the_freeze(Phase::FreezingSource, true, Location::Source, Course::Pause)]
    #[case::while_ordinals_move(Phase::MigratingPods, true, Location::Source, Course::Move)]
    #[case::before_the_clean_up(Phase::Finalizing, true, Location::Destination, Course::Pause)]
    #[case::before_a_rollback(Phase::Failed, true, Location::Destination, Course::Blocked)]
    #[case::while_an_ordinal_returns(Phase::RollingBack, true, Location::Moving, Course::RollBack)]
    #[case::between_ordinals_that_return(
        Phase::RollingBack,
        true,
        Location::Destination,
        Course::Pause
    )]
    #[case::after_all_have_returned(Phase::RollingBack, true, Location::Source, Course::Pause)]
    #[case::at_the_end(Phase::Completed, true, Location::Destination, Course::Rest)]
    fn a_pause_waits_for_the_ordinal_in_motion_alone(
        #[case] phase: Phase,
        #[case] started: bool,
        #[case] location: Location,
        #[case] expected: Course,
    ) {
        let mut record = record(phase, started);
        record.ordinals = vec![OrdinalRecord {
            location,
            ..OrdinalRecord::default()
        }];
        let paused = json!({"paused": true});
        assert_eq!(decide(&record, &paused, false), expected);
        assert_ne!(decide(&record, &paused, true), Course::Pause);
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

    #[rstest]
    #[case::also_for_a_rollback("Rollback", Course::Finish)]
    #[case::unless_it_is_left("Leave", Course::Leave)]
    fn a_clean_up_that_has_begun_ends(#[case] abort: &str, #[case] expected: Course) {
        let mut record = record(Phase::Finalizing, true);
        record.cleanup_started = true;
        assert_eq!(decide(&record, &json!({"abort": abort}), false), expected);
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
        record.rolling_back = true;
        assert_eq!(decide(&record, &fields, false), expected);
    }

    #[test]
    fn a_run_that_was_left_on_its_way_back_goes_on() {
        let mut record = record(Phase::Failed, true);
        record.rolling_back = true;
        record.failure = Some(FailReason::AbortedLeave);
        assert_eq!(
            decide(&record, &json!({"abort": "Rollback"}), false),
            Course::RollBack
        );
    }

    #[rstest]
    #[case::none_has_moved(&[Location::Source; 2], Course::Freeze)]
    #[case::there_is_none(&[], Course::Freeze)]
    #[case::one_moves(&[Location::Moving, Location::Source], Course::Move)]
    #[case::one_has_moved(&[Location::Destination, Location::Source], Course::Move)]
    #[case::the_last_one_moves(&[Location::Destination, Location::Moving], Course::Move)]
    #[case::all_have_moved(&[Location::Destination; 2], Course::Finish)]
    fn a_retry_goes_on_where_the_record_is(
        #[case] locations: &[Location],
        #[case] expected: Course,
    ) {
        let mut record = record(Phase::Failed, true);
        // Of a set without replicas: all of them are dormant.
        record.ordinals = (0..)
            .zip(locations)
            .map(|(ordinal, location)| OrdinalRecord {
                ordinal,
                location: *location,
                ..OrdinalRecord::default()
            })
            .collect();
        assert_eq!(decide(&record, &json!({"retry": 1}), false), expected);
    }
}
