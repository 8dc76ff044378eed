//! From the plan of a pass, or a failed call, to its end. Pure.

use std::time::Duration;

use api::migrate::{FailReason, Phase, StallReason, StepName, reasons};

use super::decide::{Deciding, PAUSE, Sides};
use super::decided::{Decided, Move, Situation};
use super::errors::{self, Consequence};
use super::next::RECHECK;
use super::{Announced, FailedCall, Read, Write};
use crate::migration::course::Course;
use crate::migration::decision::{Decision, Interference, Step, Wait};
use crate::migration::documents::Documents;
use crate::migration::pass::{Next, Plan, kept_hold, stalled};

/// A pass reads EC2 so often at most. Then it waits.
const MOST_DISK_READS: usize = 3;
/// A pass repeats a refused change so often at most.
const MOST_REFUSALS: usize = 2;

impl Deciding<'_> {
    /// The step that an outage is reported at.
    pub(super) fn step(&self) -> StepName {
        let moving = self.record.ordinals.iter().find_map(|one| {
            (one.location == api::migrate::Location::Moving)
                .then_some(one.step)
                .flatten()
        });
        let intent = self.record.intent.as_ref().map(|intent| intent.step);
        moving.or(intent).unwrap_or(StepName::Gate)
    }

    pub(super) fn failed_call(&self, course: Course) -> Option<Decided> {
        let failures = &self.world.observed.failures;
        let (call, error) = failures.last()?;
        let refusals = failures.len();
        let consequence = errors::consequence(call, error, refusals > MOST_REFUSALS);
        match consequence {
            Consequence::DecideAgain => None,
            Consequence::Stall(reason) => {
                let step = match call {
                    FailedCall::Write(write) => write.step().name,
                    FailedCall::Read(_) if course == Course::Check => StepName::Gate,
                    FailedCall::Read(_) => self.step(),
                };
                let message = errors::message(call, error);
                Some(self.copy().outage(step, reason, message))
            }
            Consequence::Fail => {
                let message = errors::message(call, error);
                Some(self.copy().ends(
                    Move::Fail(error.class),
                    Situation::CallFailed,
                    reasons::CALL_FAILED,
                    message,
                ))
            }
        }
    }

    /// An outage is a wait that becomes a stall at its limit.
    pub(super) fn outage(self, step: StepName, reason: StallReason, detail: String) -> Decided {
        let wait = Wait {
            step,
            ordinal: None,
            reason,
            detail,
            after: Some(Duration::from_secs(5)),
        };
        let nothing = Documents::default();
        let sides = Sides {
            source: &nothing,
            destination: &nothing,
            capture: None,
        };
        let plan = stalled(&self.pass_input(&sides, None), wait);
        self.waits(plan)
    }

    pub(super) fn waits(mut self, plan: Plan) -> Decided {
        self.memory = plan.memory.clone();
        let Next::Decided(Decision::Wait(wait)) = plan.next.clone() else {
            return self.carried_out(plan, false);
        };
        self.record = plan.record;
        let after = wait.after.unwrap_or(RECHECK);
        let (reason, message) = (wait.reason.as_str(), wait.detail.clone());
        let situation = Situation::Waiting {
            wait,
            is_stalled: plan.is_stalled,
        };
        self.ends(Move::Wait(after), situation, reason, message)
    }

    pub(super) fn on_hold(mut self, hold: Interference) -> Decided {
        self.record.hold = Some(kept_hold(self.record.hold, &hold, self.spec));
        let next = match hold.reason.end() {
            api::migrate::HoldEnd::ByItself => Move::Wait(RECHECK),
            api::migrate::HoldEnd::Retry | api::migrate::HoldEnd::Acknowledged => Move::Block,
        };
        let (reason, message) = (hold.reason.as_str(), hold.message.clone());
        self.ends(next, Situation::Held(hold), reason, message)
    }

    /// | plan                  | so                                            |
    /// |-----------------------|-----------------------------------------------|
    /// | change, mirror        | on live reads: make it; else read first       |
    /// | mirror of a new phase | save the phase first                          |
    /// | read of EC2           | read, up to three times a pass; then wait     |
    /// | wait                  | wait                                          |
    /// | hold, failure         | a person acts                                 |
    /// | pause, limit, abort   | a person acts                                 |
    /// | rest                  | nothing is left                               |
    /// | release               | the object may go                             |
    pub(super) fn carried_out(mut self, plan: Plan, is_live: bool) -> Decided {
        let before = self.record.phase;
        self.record = plan.record.clone();
        self.phases
            .extend(self.record.phase.filter(|phase| Some(*phase) != before));
        match plan.next.clone() {
            // The outside does not show it yet.
            Next::Decided(Decision::Act(step)) if is_live && self.has_made(&step) => {
                self.goes_on(Move::Wait(PAUSE))
            }
            Next::Decided(Decision::Act(step)) if is_live => {
                self.goes_on(Move::Write(Box::new(Write::Change(step))))
            }
            // A journal shows what is saved. Else this pass would mirror the saved phase and its own in turn.
            Next::Mirror(_) if is_live && !self.phases.is_empty() => {
                self.goes_on(Move::Wait(PAUSE))
            }
            Next::Mirror(step) if is_live => {
                self.goes_on(Move::Write(Box::new(Write::Mirror(step))))
            }
            Next::Decided(Decision::Act(_) | Decision::Done) | Next::Mirror(_) | Next::Check => {
                let reads = self.live_reads();
                if reads.is_empty() {
                    return self.goes_on(Move::Wait(PAUSE));
                }
                self.goes_on(Move::Read(reads))
            }
            Next::Decided(Decision::ReadDisks {
                ids, not_before, ..
            }) => {
                if self.world.observed.disk_reads >= MOST_DISK_READS {
                    return self.goes_on(Move::Wait(PAUSE));
                }
                self.goes_on(Move::Read(vec![Read::Disks { ids, not_before }]))
            }
            Next::Decided(Decision::ReadSnapshots {
                ordinal,
                tags,
                not_before,
                ..
            }) => {
                if self.world.observed.disk_reads >= MOST_DISK_READS {
                    return self.goes_on(Move::Wait(PAUSE));
                }
                self.goes_on(Move::Read(vec![Read::Snapshots {
                    ordinal,
                    tags,
                    not_before,
                }]))
            }
            Next::Decided(Decision::Wait(_)) => self.waits(plan),
            Next::Decided(Decision::Hold(hold)) => self.on_hold(hold),
            Next::Decided(Decision::Fail(failure)) => {
                let reason = failure.reason.as_str();
                self.ends(Move::Block, Situation::Resting, reason, failure.message)
            }
            Next::Paused => self.paused(),
            Next::AwaitAbort => {
                let message = "the object is being deleted while ordinals are on their way; set spec.abort to \
                               Rollback or Leave";
                self.ends(
                    Move::Block,
                    Situation::AwaitingAbort,
                    reasons::ABORT_REQUIRED,
                    message.to_owned(),
                )
            }
            Next::Rest => self.rests(),
            Next::Release => {
                let message = "the run leaves nothing behind".to_owned();
                self.ends(Move::End, Situation::Resting, reasons::PROGRESSING, message)
            }
            Next::Continue => self.goes_on(Move::Wait(PAUSE)),
        }
    }

    /// Whether this pass has made the change already.
    fn has_made(&self, step: &Step) -> bool {
        let intent = Announced::of(step);
        let mut made = self.world.observed.changes.iter();
        made.any(|write| match write {
            Write::Change(made) => Announced::of(made) == intent,
            Write::Mirror(_) => false,
        })
    }

    pub(super) fn paused(self) -> Decided {
        let is_requested = self.spec.paused || self.is_paused();
        let (situation, reason, message) = if is_requested {
            let message = "paused as asked; unset spec.paused, or remove the annotation, to go on";
            (
                Situation::PauseRequested,
                reasons::REQUESTED,
                message.to_owned(),
            )
        } else {
            let moved = self.record.current_index;
            let message = format!("{moved} ordinals have moved; raise spec.ordinalLimit to go on");
            (Situation::LimitReached, reasons::ORDINAL_LIMIT, message)
        };
        self.ends(Move::Block, situation, reason, message)
    }

    pub(super) fn rests(self) -> Decided {
        let phase = self.record.phase.unwrap_or(Phase::Pending);
        let message = match (phase, self.record.failure) {
            (Phase::Failed, Some(FailReason::AbortedLeave)) => {
                "left as it is; docs/migrate.md says how to go on by hand".to_owned()
            }
            (Phase::Failed, _) => {
                let error = self.record.last_error.clone().unwrap_or_default();
                format!("{error}; repair it and raise spec.retry, or set spec.abort")
            }
            (Phase::Completed, _) => "every ordinal runs at the destination".to_owned(),
            (Phase::RolledBack, _) => "every ordinal runs at the source, as before".to_owned(),
            (Phase::Planned, _) => {
                "the checks passed; unset spec.dryRun to run the plan".to_owned()
            }
            (
                Phase::Pending
                | Phase::PreFlightChecks
                | Phase::FreezingSource
                | Phase::MigratingPods
                | Phase::Finalizing
                | Phase::RollingBack,
                _,
            ) => "spec.abort is set, so nothing is begun; unset it in a new object".to_owned(),
        };
        let is_over = phase.is_over() || phase == Phase::Planned;
        let next = if is_over { Move::End } else { Move::Block };
        let reason = match self.record.failure {
            Some(failure) if phase == Phase::Failed => failure.as_str(),
            Some(_) | None => phase.as_str(),
        };
        self.ends(next, Situation::Resting, reason, message)
    }

    pub(super) fn goes_on(self, next: Move) -> Decided {
        let phase = self.record.phase.unwrap_or(Phase::Pending);
        let message = format!("the run is in phase {phase}");
        self.ends(next, Situation::Progressing, phase.as_str(), message)
    }

    pub(super) fn ends(
        self,
        next: Move,
        situation: Situation,
        reason: impl Into<String>,
        message: impl Into<String>,
    ) -> Decided {
        Decided {
            next,
            situation,
            record: self.record,
            memory: self.memory,
            phases: self.phases,
            reason: reason.into(),
            message: message.into(),
        }
    }
}

#[cfg(test)]
mod tests;
