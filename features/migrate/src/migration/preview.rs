//! The plan of a run: every object that it creates, changes and deletes, in order. Pure.
//!
//! The run itself is decided pass by pass, over copies of the objects that were read. Each change is applied to the
//! copies, and everything that other controllers do succeeds at once.

mod copies;
#[cfg(test)]
mod tests;

use std::time::Duration;

use api::migrate::names::PLAN_CAP;
use api::migrate::{Intent, Phase, StatefulSetMigrationSpec, StatefulSetMigrationStatus, Strategy};
use jiff::SignedDuration;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;

use super::decision::{Decision, Step};
use super::pass::{Memory, Next, PassInput, plan};
use copies::Copies;
#[cfg(test)]
pub(super) use copies::merge;

/// A run has fewer passes.
const MOST_PASSES: usize = 100_000;
/// A run that waits so often in a row waits for something that only happens in real clusters.
const MOST_WAITS: usize = 20;
/// How long a wait takes that does not say it.
const USUAL_WAIT: Duration = Duration::from_secs(3);

/// The plan of the run that begins with this record. At most [`PLAN_CAP`] lines; then the last one says how many
/// more there are.
pub fn plan_lines(known: &PassInput<'_>, begun: &StatefulSetMigrationStatus) -> Vec<String> {
    let mut lines = Vec::new();
    if begun.without_ordinals && begun.strategy == Some(Strategy::OrphanAdopt) {
        lines.push(
            "the API server of the source has no spec.ordinals, so a rollback has all ordinals that have moved \
             down together"
                .to_owned(),
        );
    }
    lines.extend(PreviewedRun::new(known, begun).changes());
    capped(lines)
}

fn capped(mut lines: Vec<String>) -> Vec<String> {
    let more = lines.len().saturating_sub(PLAN_CAP);
    if more > 0 {
        lines.truncate(PLAN_CAP - 1);
        lines.push(format!("and {} more", more + 1));
    }
    lines
}

/// A change, with the step and the ordinal that it belongs to.
pub(super) fn phrase(step: &Step) -> String {
    match step.ordinal {
        Some(ordinal) => format!("ordinal {ordinal}, {step}"),
        None => step.to_string(),
    }
}

/// The run, over copies.
struct PreviewedRun<'a> {
    known: &'a PassInput<'a>,
    spec: StatefulSetMigrationSpec,
    record: StatefulSetMigrationStatus,
    copies: Copies,
    memory: Memory,
    passed: Duration,
}

impl<'a> PreviewedRun<'a> {
    fn new(known: &'a PassInput<'a>, begun: &StatefulSetMigrationStatus) -> Self {
        let spec = StatefulSetMigrationSpec {
            dry_run: false,
            paused: false,
            ordinal_limit: None,
            abort: None,
            retry: begun.observed_retry,
            ..known.spec.clone()
        };
        let mut record = StatefulSetMigrationStatus {
            phase: Some(Phase::FreezingSource),
            ..begun.clone()
        };
        for ordinal in &mut record.ordinals {
            ordinal.node = None; // the copies have no nodes of the source
        }
        Self {
            copies: Copies::new(known, begun),
            record,
            known,
            spec,
            memory: Memory::default(),
            passed: Duration::ZERO,
        }
    }

    fn changes(mut self) -> Vec<String> {
        let mut lines = Vec::new();
        let mut waits = 0;
        for _ in 0..MOST_PASSES {
            let pass = self.pass();
            self.memory = pass.memory;
            let record = pass.record;
            let is_wait = matches!(pass.next, Next::Decided(Decision::Wait(_)));
            waits = if is_wait { waits + 1 } else { 0 };
            match pass.next {
                Next::Continue if record.phase == Some(Phase::Completed) => break,
                Next::Continue => self.record = record,
                Next::Mirror(step) => self.copies.apply(&step.change),
                Next::Decided(Decision::Act(step)) => {
                    lines.push(phrase(&step));
                    self.copies.apply(&step.change);
                    self.record = record;
                    self.record.intent = Some(Intent {
                        step: step.name,
                        ordinal: step.ordinal,
                        token: step.change.token(),
                        at: MicroTime(self.known.now),
                    });
                }
                Next::Decided(Decision::ReadDisks { ids, .. }) => {
                    self.record = record;
                    self.copies.read_disks(&ids, self.elapsed());
                }
                Next::Decided(Decision::ReadSnapshots { ordinal, .. }) => {
                    self.record = record;
                    self.copies.read_snapshots(ordinal, self.elapsed());
                }
                Next::Decided(Decision::Wait(wait)) if waits < MOST_WAITS => {
                    self.record = record;
                    self.passed += wait.after.unwrap_or(USUAL_WAIT);
                    self.copies.read_disks_again(self.elapsed());
                }
                Next::Decided(
                    Decision::Done | Decision::Hold(_) | Decision::Fail(_) | Decision::Wait(_),
                )
                | Next::Check
                | Next::Paused
                | Next::AwaitAbort
                | Next::Rest
                | Next::Release => break,
            }
        }
        lines
    }

    fn elapsed(&self) -> Duration {
        self.known.elapsed.saturating_add(self.passed)
    }

    fn pass(&self) -> super::pass::Plan {
        let passed = SignedDuration::try_from(self.passed).unwrap_or(SignedDuration::MAX);
        plan(&PassInput {
            spec: &self.spec,
            record: &self.record,
            is_deleting: false,
            is_paused: false,
            is_checked: Some(true),
            capture: self.copies.capture.as_ref(),
            source: &self.copies.source,
            destination: &self.copies.destination,
            disks: &self.copies.disks,
            snapshots: &self.copies.snapshots,
            is_intent_unused: true,
            exhausted_budget: None,
            memory: &self.memory,
            now: self
                .known
                .now
                .saturating_add(passed)
                .unwrap_or(self.known.now),
            elapsed: self.elapsed(),
            ..self.known.clone()
        })
    }
}
