//! The conditions of a migration. Pure.

use api::migrate::{FailReason, Phase, StatefulSetMigrationStatus, conditions as kinds, reasons};
use kernel::{Reason, find};

use super::{RunState, Shown, failure, progress};
use crate::migration::course::{Course, Request, course};

/// What a person has to do about an object that is being deleted too early.
pub(super) const ABORT_REQUIRED: &str = "the object is being deleted while ordinals are on their way; set spec.abort \
                                         to Rollback or Leave";

/// A condition of a pass: its type, whether it is True, and why.
pub(super) type Condition = (&'static str, bool, Reason);

/// The conditions that a pass sets. Others keep their values.
pub(super) fn conditions(shown: &Shown<'_>) -> Vec<Condition> {
    let all = [
        ready(shown),
        preflight(shown.status),
        source_frozen(shown),
        complete(shown),
        failed(shown),
        paused(shown),
        stalled(shown),
        deletion_blocked(shown),
    ];
    all.into_iter().flatten().collect()
}

fn condition(
    kind: &'static str,
    truth: bool,
    reason: &'static str,
    message: impl Into<String>,
) -> Condition {
    (kind, truth, Reason::new(reason, message))
}

/// Whether the object has the condition, with any status.
fn is_set(shown: &Shown<'_>, kind: &str) -> bool {
    find(&shown.world.object.conditions, kind).is_some()
}

/// A condition that no longer holds; none if it never did.
fn ended(shown: &Shown<'_>, kind: &'static str, reason: &'static str) -> Option<Condition> {
    let message = format!("the run is in phase {}", shown.phase());
    is_set(shown, kind).then(|| (kind, false, Reason::new(reason, message)))
}

/// | run state                     | `Ready`                              |
/// |-------------------------------|--------------------------------------|
/// | unchanged                     | as it was; the phase if there is none |
/// | progressing                   | False, the phase                     |
/// | stalled, interfered           | False, its own reason                |
/// | paused, abort required        | False, the phase, what to do         |
/// | the pass failed               | False, its own reason                |
/// | at rest: failed               | False, the failure                   |
/// | at rest: over, or planned     | True, the phase                      |
/// | at rest: not begun            | False, the phase                     |
fn ready(shown: &Shown<'_>) -> Option<Condition> {
    let kind = kinds::READY;
    let phase = shown.phase();
    let message = &shown.decided.message;
    match shown.state {
        RunState::Unchanged if is_set(shown, kind) => None,
        RunState::Unchanged | RunState::Progressing => Some(condition(
            kind,
            false,
            phase.as_str(),
            progress(shown.status),
        )),
        RunState::Stalled {
            reason, message, ..
        } => Some(condition(kind, false, reason.as_str(), message)),
        RunState::Interfered {
            reason, message, ..
        } => Some(condition(kind, false, reason.as_str(), message)),
        RunState::Paused(reason) => Some(condition(kind, false, phase.as_str(), &reason.message)),
        RunState::AwaitingAbort => Some(condition(kind, false, phase.as_str(), ABORT_REQUIRED)),
        RunState::PassFailed(reason) => Some((kind, false, reason.clone())),
        RunState::Resting if phase == Phase::Failed => {
            let cause = cause(shown.status);
            Some(condition(
                kind,
                false,
                cause,
                failure(shown.decided, shown.status),
            ))
        }
        RunState::Resting => {
            let is_ready = phase.is_over() || phase == Phase::Planned;
            Some(condition(kind, is_ready, phase.as_str(), message))
        }
    }
}

fn cause(status: &StatefulSetMigrationStatus) -> &'static str {
    status.failure.map_or(reasons::FAILED, FailReason::as_str)
}

/// | checks     | failure          | `PreFlightChecks`                  |
/// |------------|------------------|------------------------------------|
/// | not made   | any              | not set                            |
/// | made       | PreflightBlocked | False, with the blocking findings  |
/// | made       | any other        | True, Passed                       |
fn preflight(status: &StatefulSetMigrationStatus) -> Option<Condition> {
    let kind = kinds::PRE_FLIGHT_CHECKS;
    let preflight = status.preflight.as_ref()?;
    if status.failure == Some(FailReason::PreflightBlocked) {
        let findings = status.last_error.clone().unwrap_or_default();
        return Some(condition(
            kind,
            false,
            FailReason::PreflightBlocked.as_str(),
            findings,
        ));
    }
    let message = match preflight.checks.len() {
        0 => "no check has a finding".to_owned(),
        1 => "nothing blocks the run; status.preflight has one finding".to_owned(),
        count => format!("nothing blocks the run; status.preflight has {count} findings"),
    };
    Some(condition(kind, true, reasons::PASSED, message))
}

/// | phase                                  | `SourceFrozen`                        |
/// |----------------------------------------|---------------------------------------|
/// | `MigratingPods`, `Finalizing`, `Completed`, also if entered and left in this pass | True, Frozen |
/// | `RolledBack`                           | False, if it was set                  |
/// | any other                              | as it was                             |
fn source_frozen(shown: &Shown<'_>) -> Option<Condition> {
    let kind = kinds::SOURCE_FROZEN;
    let phase = shown.phase();
    let is_beyond = |phase: &Phase| match phase {
        Phase::MigratingPods | Phase::Finalizing | Phase::Completed => true,
        Phase::Pending
        | Phase::PreFlightChecks
        | Phase::Planned
        | Phase::FreezingSource
        | Phase::RollingBack
        | Phase::RolledBack
        | Phase::Failed => false,
    };
    if phase == Phase::RolledBack {
        return ended(shown, kind, phase.as_str());
    }
    let is_frozen = is_beyond(&phase) || shown.decided.phases.iter().any(is_beyond);
    let message = "the source is captured, locked and protected, and the destination is prepared";
    is_frozen.then(|| condition(kind, true, reasons::FROZEN, message))
}

fn complete(shown: &Shown<'_>) -> Option<Condition> {
    let kind = kinds::COMPLETE;
    if shown.phase() != Phase::Completed {
        return ended(shown, kind, shown.phase().as_str());
    }
    let message = "every ordinal runs at the destination";
    Some(condition(kind, true, reasons::COMPLETED, message))
}

fn failed(shown: &Shown<'_>) -> Option<Condition> {
    let kind = kinds::FAILED;
    if shown.phase() != Phase::Failed {
        return ended(shown, kind, shown.phase().as_str());
    }
    let message = failure(shown.decided, shown.status);
    let message = format!("{}: {message}", cause(shown.status));
    Some(condition(kind, true, reasons::FAILED, message))
}

/// | run state                                      | `Paused`                             |
/// |------------------------------------------------|--------------------------------------|
/// | interfered, paused                             | True, its reason                     |
/// | unchanged, the pass failed, stalled by an outage | as it was                          |
/// | any other                                      | False, Progressing, if it was set    |
fn paused(shown: &Shown<'_>) -> Option<Condition> {
    let kind = kinds::PAUSED;
    match shown.state {
        RunState::Interfered {
            reason, message, ..
        } => Some(condition(kind, true, reason.as_str(), message)),
        RunState::Paused(reason) => Some((kind, true, reason.clone())),
        RunState::Unchanged | RunState::PassFailed(_) => None,
        RunState::Stalled { reason, .. } if reason.is_outage() => None,
        RunState::Stalled { .. }
        | RunState::Progressing
        | RunState::AwaitingAbort
        | RunState::Resting => ended(shown, kind, reasons::PROGRESSING),
    }
}

/// | run state                    | `Stalled`                          |
/// |------------------------------|------------------------------------|
/// | stalled                      | True, its reason                   |
/// | unchanged, the pass failed   | as it was                          |
/// | any other                    | False, Progressing, if it was set  |
fn stalled(shown: &Shown<'_>) -> Option<Condition> {
    let kind = kinds::STALLED;
    match shown.state {
        RunState::Stalled {
            reason, message, ..
        } => Some(condition(kind, true, reason.as_str(), message)),
        RunState::Unchanged | RunState::PassFailed(_) => None,
        RunState::Progressing
        | RunState::Interfered { .. }
        | RunState::Paused(_)
        | RunState::AwaitingAbort
        | RunState::Resting => ended(shown, kind, reasons::PROGRESSING),
    }
}

/// | deleted, and `spec.abort` decides nothing | `DeletionBlocked`                 |
/// |-------------------------------------------|-----------------------------------|
/// | yes                                       | True, AbortRequired               |
/// | no                                        | False, NotBlocked, if it was set  |
///
/// An ordinal in motion is finished meanwhile.
fn deletion_blocked(shown: &Shown<'_>) -> Option<Condition> {
    let kind = kinds::DELETION_BLOCKED;
    let object = &shown.world.object;
    let is_blocked = object.resource.spec.as_ref().is_ok_and(|spec| {
        let request = Request {
            spec,
            record: shown.status,
            is_deleting: object.is_deleting(),
            is_paused: false,
            is_edited: false,
        };
        course(&request) == Course::AwaitAbort
    });
    if is_blocked {
        Some(condition(
            kind,
            true,
            reasons::ABORT_REQUIRED,
            ABORT_REQUIRED,
        ))
    } else {
        ended(shown, kind, reasons::NOT_BLOCKED)
    }
}
