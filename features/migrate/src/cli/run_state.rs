//! How far a run is, as an exit code shows it. Pure.

use api::migrate::{Abort, FailReason, Phase, StatefulSetMigration, conditions, reasons};
use engine::cli::Outcome;
use kernel::{find, is_true};

/// How far a run is, for somebody who waits for its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RunState {
    /// It has ended as the spec wants, or it is planned.
    Ended,
    /// It goes on by itself.
    Running,
    /// It waits for a person.
    Suspended,
    /// It has failed.
    Failed,
}

impl RunState {
    /// | found                                          | state     |
    /// |------------------------------------------------|-----------|
    /// | a spec that no pass has read yet, or no phase  | running   |
    /// | an invalid spec                                | failed    |
    /// | `Failed` because `abort: Leave` was set        | ended     |
    /// | any other `Failed`                             | failed    |
    /// | `Completed`, `RolledBack` or `Planned`         | ended     |
    /// | a hold, a pause or a deletion that is blocked  | suspended |
    /// | anything else                                  | running   |
    pub(super) fn of(migration: &StatefulSetMigration) -> Self {
        let generation = migration.metadata.generation;
        let Some(status) = &migration.status else {
            return Self::Running;
        };
        let is_outdated = status
            .observed_generation
            .is_some_and(|observed| Some(observed) < generation);
        let (false, Some(phase)) = (is_outdated, status.phase) else {
            return Self::Running;
        };
        let ready = find(&status.conditions, conditions::READY);
        if ready.is_some_and(|ready| ready.reason == reasons::INVALID_SPEC) {
            return Self::Failed;
        }
        let is_left = status.failure == Some(FailReason::AbortedLeave)
            && migration.spec.abort == Some(Abort::Leave);
        let waits = [conditions::PAUSED, conditions::DELETION_BLOCKED];
        let is_suspended =
            status.hold.is_some() || waits.iter().any(|kind| is_true(&status.conditions, kind));
        match phase {
            Phase::Failed if is_left => Self::Ended,
            Phase::Failed => Self::Failed,
            Phase::Completed | Phase::RolledBack | Phase::Planned => Self::Ended,
            Phase::Pending
            | Phase::PreFlightChecks
            | Phase::FreezingSource
            | Phase::MigratingPods
            | Phase::Finalizing
            | Phase::RollingBack => {
                if is_suspended {
                    Self::Suspended
                } else {
                    Self::Running
                }
            }
        }
    }

    /// The outcome of a verb that is about this run.
    pub(super) fn outcome(self) -> Outcome {
        match self {
            Self::Ended => Outcome::Holds,
            Self::Running => Outcome::InProgress,
            Self::Suspended => Outcome::Suspended,
            Self::Failed => Outcome::DoesNot,
        }
    }

    /// In the full form of a row.
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Ended => "Ended",
            Self::Running => "Running",
            Self::Suspended => "Suspended",
            Self::Failed => "Failed",
        }
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::{Value, json};

    use super::*;
    use crate::cli::tests::migration;

    fn condition(kind: &str, reason: &str) -> Value {
        json!([{
            "type": kind, "status": "True", "reason": reason, "message": "",
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        }])
    }

    #[rstest]
    #[case::new(json!({}), json!(null), RunState::Running)]
    #[case::moving(json!({}), json!({"phase": "MigratingPods"}), RunState::Running)]
    #[case::planned(json!({}), json!({"phase": "Planned"}), RunState::Ended)]
    #[case::completed(json!({}), json!({"phase": "Completed"}), RunState::Ended)]
    #[case::rolled_back(json!({}), json!({"phase": "RolledBack"}), RunState::Ended)]
    #[case::failed(json!({}), json!({"phase": "Failed"}), RunState::Failed)]
    #[case::left(json!({"abort": "Leave"}), json!({"phase": "Failed", "failure": "AbortedLeave"}), RunState::Ended)]
    #[case::left_and_then_to_be_rolled_back(
        json!({"abort": "Rollback"}), json!({"phase": "Failed", "failure": "AbortedLeave"}), RunState::Failed)]
    #[case::edited_since(json!({}), json!({"phase": "Planned", "observedGeneration": 1}), RunState::Running)]
    #[case::observed(json!({}), json!({"phase": "Planned", "observedGeneration": 2}), RunState::Ended)]
    #[case::on_hold(
        json!({}), json!({"phase": "MigratingPods", "hold": {"reason": "SourceWidened"}}), RunState::Suspended)]
    #[case::paused(
        json!({}), json!({"phase": "MigratingPods", "conditions": condition("Paused", "Requested")}),
        RunState::Suspended)]
    #[case::deletion_blocked(
        json!({}), json!({"phase": "MigratingPods", "conditions": condition("DeletionBlocked", "AbortRequired")}),
        RunState::Suspended)]
    #[case::stalled(
        json!({}), json!({"phase": "MigratingPods", "conditions": condition("Stalled", "DetachBusy")}),
        RunState::Running)]
    #[case::invalid(
        json!({}), json!({"phase": "Pending", "conditions": condition("Ready", "InvalidSpec")}), RunState::Failed)]
    fn a_run_is_so_far(#[case] spec: Value, #[case] status: Value, #[case] expected: RunState) {
        assert_eq!(RunState::of(&migration(spec, status)), expected);
    }

    #[rstest]
    #[case::ended(RunState::Ended, 0)]
    #[case::failed(RunState::Failed, 1)]
    #[case::running(RunState::Running, 3)]
    #[case::suspended(RunState::Suspended, 4)]
    fn the_exit_code_is(#[case] state: RunState, #[case] code: u8) {
        assert_eq!(state.outcome().code(), code);
    }
}
