//! Status, conditions and events of a migration, from a decision and from how the pass ended. Pure.
//!
//! ```text
//! decision, end of the pass ─▶ run state ─▶ status | conditions | events
//! ```
//! # Promises
//! - A wait within its limit gives the same status in every pass.
//! - Conditions keep their values while a cluster or EC2 does not answer.

mod conditions;
mod events;
#[cfg(test)]
mod tests;

use api::migrate::{
    FailReason, HoldReason, Intent, Location, OrdinalRecord, Phase, StallReason,
    StatefulSetMigrationStatus, StepName, conditions as kinds,
};
use engine::{Ended, Report, Stop};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use kernel::{Reason, find};

use super::core::{Announced, Decided, Situation, World};

/// The status after a pass, with its conditions and events.
pub(super) fn status(
    decided: &Decided,
    world: &World,
    ended: &Ended<Announced>,
) -> (StatefulSetMigrationStatus, Report) {
    let state = run_state(decided, world, ended);
    let status = record(decided, world, ended, &state);
    let shown = Shown {
        decided,
        world,
        state: &state,
        status: &status,
    };
    let mut report = Report::default();
    for (kind, truth, reason) in conditions::conditions(&shown) {
        report = report.condition(kind, truth, reason);
    }
    for (kind, note) in events::of_conditions(&shown) {
        report = report.event_on_new_reason(kind, note);
    }
    for note in events::of_record(&shown) {
        report = report.event(note);
    }
    (status, report)
}

/// Everything that conditions and events are made from.
struct Shown<'a> {
    decided: &'a Decided,
    world: &'a World,
    state: &'a RunState,
    /// The status after this pass.
    status: &'a StatefulSetMigrationStatus,
}

impl Shown<'_> {
    /// The reason of a condition that is True before this pass.
    fn reason_before(&self, kind: &str) -> Option<&str> {
        let condition = find(&self.world.object.conditions, kind)?;
        (condition.status == "True").then_some(&*condition.reason)
    }

    fn phase(&self) -> Phase {
        self.status.phase.unwrap_or(Phase::Pending)
    }
}

/// What a pass shows of its run.
#[derive(Debug, Clone, PartialEq)]
enum RunState {
    /// Nothing new.
    Unchanged,
    /// It goes on.
    Progressing,
    /// A wait is beyond its limit.
    Stalled {
        /// Why.
        reason: StallReason,
        /// The ordinal that waits.
        ordinal: Option<i32>,
        /// What it waits for.
        message: String,
    },
    /// Somebody interferes.
    Interfered {
        /// How.
        reason: HoldReason,
        /// The ordinal that it concerns.
        ordinal: Option<i32>,
        /// What was found, and what to do.
        message: String,
    },
    /// A person asked for a pause, or the limit of ordinals is reached.
    Paused(Reason),
    /// The object is being deleted, and a person has to set `spec.abort`.
    AwaitingAbort,
    /// The run has ended or failed, or was not allowed to begin.
    Resting,
    /// The pass failed, or the spec breaks a rule.
    PassFailed(Reason),
}

/// The first row that fits:
///
/// | end of the pass | situation                                        | so                  |
/// |-----------------|--------------------------------------------------|---------------------|
/// | failed          | any                                              | the pass failed     |
/// | any             | invalid spec, failed call                        | the pass failed     |
/// | any             | wait beyond its limit                            | stalled             |
/// | any             | wait of an outage, or of the stall before        | unchanged           |
/// | any             | any other wait                                   | progressing         |
/// | announces       | progressing                                      | progressing         |
/// | any other       | progressing                                      | unchanged           |
/// | any             | hold, pause, limit, abort required, at rest      | the same            |
///
/// A run that has entered a phase in this pass is never unchanged. The stall before counts because a process
/// that has just started measures its waits anew.
fn run_state(decided: &Decided, world: &World, ended: &Ended<Announced>) -> RunState {
    let is_in_phase =
        decided.phases.is_empty() && decided.record.phase == world.object.status.phase;
    let unchanged = || {
        if is_in_phase {
            RunState::Unchanged
        } else {
            RunState::Progressing
        }
    };
    if let Ended::Stopped(Stop::Failed { reason, .. }) = ended {
        return RunState::PassFailed(reason.clone());
    }
    let reason = || Reason::new(decided.reason.clone(), decided.message.clone());
    match &decided.situation {
        Situation::InvalidSpec | Situation::CallFailed => RunState::PassFailed(reason()),
        Situation::Waiting {
            wait,
            is_stalled: true,
        } => RunState::Stalled {
            reason: wait.reason,
            ordinal: wait.ordinal,
            message: stall_message(world, wait.reason, &wait.detail),
        },
        Situation::Waiting {
            wait,
            is_stalled: false,
        } if wait.reason.is_outage() || was_stalled(world, wait.reason) => unchanged(),
        Situation::Waiting {
            is_stalled: false, ..
        } => RunState::Progressing,
        Situation::Progressing => match ended {
            Ended::Announcing(_) | Ended::Previewed(_) | Ended::Done { .. } => {
                RunState::Progressing
            }
            Ended::Stopped(_) => unchanged(),
        },
        Situation::Held(hold) => RunState::Interfered {
            reason: hold.reason,
            ordinal: hold.ordinal,
            message: hold.message.clone(),
        },
        Situation::PauseRequested | Situation::LimitReached => RunState::Paused(reason()),
        Situation::AwaitingAbort => RunState::AwaitingAbort,
        Situation::Resting => RunState::Resting,
    }
}

fn was_stalled(world: &World, reason: StallReason) -> bool {
    find(&world.object.conditions, kinds::STALLED)
        .is_some_and(|stalled| stalled.status == "True" && stalled.reason == reason.as_str())
}

/// An outage keeps its first message: each try may fail in other words, and waiting writes nothing.
fn stall_message(world: &World, reason: StallReason, detail: &str) -> String {
    let before = find(&world.object.conditions, kinds::STALLED);
    match before {
        Some(stalled) if reason.is_outage() && was_stalled(world, reason) => {
            stalled.message.clone()
        }
        Some(_) | None => detail.to_owned(),
    }
}

/// The record of the decision, with intent and errors.
///
/// | end of the pass | phase             | intent         |
/// |-----------------|-------------------|----------------|
/// | announces one   | any               | that one       |
/// | any other       | over, or planned  | none           |
/// | any other       | any other         | as recorded    |
fn record(
    decided: &Decided,
    world: &World,
    ended: &Ended<Announced>,
    state: &RunState,
) -> StatefulSetMigrationStatus {
    let mut status = decided.record.clone();
    let phase = *status.phase.get_or_insert(Phase::Pending);
    let announced = match ended {
        Ended::Announcing(intents) => intents.first(),
        Ended::Done { .. } | Ended::Previewed(_) | Ended::Stopped(_) => None,
    };
    if let Some(announced) = announced {
        status.intent = Some(Intent {
            step: announced.step,
            ordinal: announced.ordinal,
            token: announced.token.clone(),
            at: MicroTime(world.now),
        });
    } else if phase.is_over() || phase == Phase::Planned {
        status.intent = None;
    }
    errors(&mut status, world, state);
    status
}

/// | run state               | `lastError`   | `lastError` of ordinals                           |
/// |-------------------------|---------------|---------------------------------------------------|
/// | unchanged               | as recorded   | as recorded                                       |
/// | stalled, interfered     | its message   | that of the ordinal it concerns; others none      |
/// | the pass failed         | its message   | as recorded                                       |
/// | at rest, has just failed | as recorded  | that of the ordinal in motion; others none        |
/// | at rest, failed         | as recorded   | as recorded                                       |
/// | any other               | none          | none                                              |
fn errors(status: &mut StatefulSetMigrationStatus, world: &World, state: &RunState) {
    let has_failed = status.phase == Some(Phase::Failed);
    let concerned = match state {
        RunState::Unchanged => return,
        RunState::PassFailed(reason) => {
            status.last_error = Some(reason.message.clone());
            return;
        }
        RunState::Stalled {
            ordinal, message, ..
        }
        | RunState::Interfered {
            ordinal, message, ..
        } => {
            status.last_error = Some(message.clone());
            ordinal.map(|ordinal| (ordinal, message.clone()))
        }
        RunState::Resting if has_failed => {
            if world.object.status.phase == Some(Phase::Failed) {
                return;
            }
            let moving = moving(status).map(|moving| moving.ordinal);
            moving.zip(status.last_error.clone())
        }
        RunState::Resting
        | RunState::Progressing
        | RunState::Paused(_)
        | RunState::AwaitingAbort => {
            status.last_error = None;
            None
        }
    };
    for ordinal in &mut status.ordinals {
        let own = concerned.as_ref().filter(|(of, _)| *of == ordinal.ordinal);
        ordinal.last_error = own.map(|(_, message)| message.clone());
    }
}

/// The ordinal on its way.
fn moving(status: &StatefulSetMigrationStatus) -> Option<&OrdinalRecord> {
    let mut ordinals = status.ordinals.iter();
    ordinals.find(|ordinal| ordinal.location == Location::Moving)
}

/// Where a run is that goes on. It has nothing that changes while one step waits.
///
/// | ordinal                  | intent | text                  |
/// |--------------------------|--------|-----------------------|
/// | one is on its way        | any    | the ordinal, its step |
/// | one waits to begin       | any    | the ordinal, its gate |
/// | none                     | some   | the step              |
/// | none                     | none   | nothing more          |
fn progress(status: &StatefulSetMigrationStatus) -> String {
    let phase = status.phase.unwrap_or(Phase::Pending);
    let begins_at = match phase {
        Phase::MigratingPods => Some(Location::Source),
        Phase::RollingBack => Some(Location::Destination),
        Phase::Pending
        | Phase::PreFlightChecks
        | Phase::Planned
        | Phase::FreezingSource
        | Phase::Finalizing
        | Phase::Completed
        | Phase::RolledBack
        | Phase::Failed => None,
    };
    let mut ordinals = status.ordinals.iter();
    let waiting = ordinals.find(|ordinal| {
        ordinal.step == Some(StepName::Gate) && Some(ordinal.location) == begins_at
    });
    let at = moving(status).or(waiting);
    if let Some((ordinal, step)) = at.and_then(|at| Some((at.ordinal, at.step?))) {
        return format!("the run is in phase {phase}; ordinal {ordinal} is at step {step}");
    }
    match &status.intent {
        Some(intent) => format!("the run is in phase {phase}, at step {}", intent.step),
        None => format!("the run is in phase {phase}"),
    }
}

/// Why a failed run failed, and what to do.
fn failure(decided: &Decided, status: &StatefulSetMigrationStatus) -> String {
    match (status.failure, &status.last_error) {
        (Some(FailReason::PreflightBlocked), Some(error)) => {
            format!("{error}; repair it and raise spec.retry, or edit the spec")
        }
        (Some(FailReason::AbortedLeave), _) => {
            "left as it is; docs/migrate.md shows how to go on by hand".to_owned()
        }
        (
            None
            | Some(
                FailReason::PreflightBlocked
                | FailReason::AttachTimeout
                | FailReason::PodReadyTimeout
                | FailReason::VolumeLost
                | FailReason::VolumeMismatch,
            ),
            error,
        ) => error.clone().unwrap_or_else(|| decided.message.clone()),
    }
}
