//! One pass over a run: from what was read to the next change and the record that goes with it. Pure.
//!
//! ```text
//! course ─▶ check | freeze | moves | finish | undo ─▶ decision and record
//! ```

mod captured;
mod end;
mod freezing;
mod holds;
mod recreating;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use api::migrate::{
    FailReason, HoldReason, Location, Phase, StatefulSetMigrationSpec, StatefulSetMigrationStatus,
    StepName,
};
use jiff::Timestamp;
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{OwnerReference, Time};
use kernel::{MARKER_CLUSTER, MARKER_OBJECT, ObjectKey, object_marker};
use serde_json::Value;

use super::begin::begun;
use super::closing::Closing;
use super::course::{Course, Request, course};
use super::decision::{Decision, Interference, Step, Wait};
use super::documents::{Documents, version};
use super::handover::{Direction, Proof};
use super::interference::{self, Run};
use super::moves::{self, Moves};
use super::observation::{DiskRead, Observation, Side, SnapshotRead, Version};
use super::preview;
use super::progress;
use super::undo;
use crate::record::journal::Journal;
use crate::record::lock::{Lock, LockGoal, LockIdentity};
use crate::record::mirror;
use crate::translate::Document;
use captured::{CaptureKey, Captured};
pub use holds::kept_hold;
use holds::{lasting_hold, limited};

/// Everything that a pass knows.
#[derive(Debug, Clone)]
pub struct PassInput<'a> {
    /// The spec of the migration.
    pub spec: &'a StatefulSetMigrationSpec,
    /// Its record, as it was read.
    pub record: &'a StatefulSetMigrationStatus,
    /// The namespace of the migration.
    pub namespace: &'a str,
    /// The migration, as the owner of its capture.
    pub owner: &'a OwnerReference,
    /// The UID of the cluster that the migration is in.
    pub management_cluster: &'a str,
    /// Its `metadata.generation`.
    pub generation: i64,
    /// Whether the migration is being deleted.
    pub is_deleting: bool,
    /// Whether a person has asked for a pause.
    pub is_paused: bool,
    /// Whether the checks allow the run to begin; none: they have not been made.
    pub is_checked: Option<bool>,
    /// The zone of each disk, from the checks.
    pub zones: &'a BTreeMap<String, String>,
    /// The Secret of the capture beside the migration.
    pub capture: Option<&'a Value>,
    /// The objects of the source.
    pub source: &'a Documents,
    /// The objects of the destination.
    pub destination: &'a Documents,
    /// The answers of EC2.
    pub disks: &'a BTreeMap<String, DiskRead>,
    /// The snapshots of each ordinal that this pass has searched for.
    pub snapshots: &'a BTreeMap<i32, SnapshotRead>,
    /// Whether the change of the saved intent was certainly not begun yet.
    pub is_intent_unused: bool,
    /// The PodDisruptionBudget that allows no pod to be down.
    pub exhausted_budget: Option<&'a str>,
    /// What the process remembers.
    pub memory: &'a Memory,
    /// The current time.
    pub now: Timestamp,
    /// The time since the start of the process.
    pub elapsed: Duration,
}

/// What the process remembers between passes. Losing it costs some reads.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Memory {
    /// What it has seen of the disks of the ordinal in motion.
    pub proof: Proof,
    /// Since when the source has no StatefulSet.
    pub source_absent_since: Option<Duration>,
    /// What the run waits for, and since when.
    waiting: Option<((StepName, Option<i32>), Duration)>,
    /// The journal in each lock, of the version that was read last.
    mirrored: BTreeMap<Side, (Version, Option<Arc<Journal>>)>,
    /// The capture, read and translated once.
    captured: Option<(CaptureKey, Arc<Captured>)>,
}

/// What a pass comes to.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// What comes next.
    pub next: Next,
    /// The record after this pass.
    pub record: StatefulSetMigrationStatus,
    /// What the process remembers after it.
    pub memory: Memory,
    /// Whether its wait is beyond its limit.
    pub is_stalled: bool,
    /// What a person may have done by raising `spec.retry`, if the source was widened.
    repair: Option<Step>,
}

/// What comes next.
#[derive(Debug, Clone, PartialEq)]
pub enum Next {
    /// The checks must be made.
    Check,
    /// The record has changed, and the next pass goes on from it.
    Continue,
    /// A part of the run decides.
    Decided(Decision),
    /// The journal in both locks must show the saved intent first.
    Mirror(Step),
    /// A person has asked for a pause, or the limit of ordinals is reached.
    Paused,
    /// The object is being deleted, and ordinals have moved: `spec.abort` has to say what to do.
    AwaitAbort,
    /// Nothing is left to do until a person changes something.
    Rest,
    /// The object may go.
    Release,
}

/// Decides one pass.
///
/// A hold that a person has to end stays until then, also if its cause is gone. A wait beyond its limit is a
/// stall, or the failure of the run.
pub fn plan(input: &PassInput<'_>) -> Plan {
    let course = course(&Request {
        spec: input.spec,
        record: input.record,
        is_deleting: input.is_deleting,
        is_paused: input.is_paused || input.spec.paused,
        is_edited: input.record.observed_generation != Some(input.generation),
    });
    if course == Course::Pause {
        return limited(input, lasting_hold(input, unchanged(input, Next::Paused)));
    }
    let mut pass = Pass::new(input);
    if course.writes() {
        pass.read_mirrors();
    }
    if course == Course::RollBack {
        pass.notice_recreation();
    }
    let changed = pass.changed_identity().filter(|_| course.writes());
    let mut plan = match changed {
        Some(hold) => pass.decided(Decision::Hold(hold)),
        None => pass.along(course),
    };
    if matches!(&plan.next, Next::Decided(Decision::Hold(hold)) if hold.reason == HoldReason::SourceWidened)
    {
        plan.repair = Pass::new(input).narrowed_source(course);
    }
    let can_hold = match course {
        Course::Freeze | Course::Move | Course::Finish | Course::AwaitAbort => true,
        // A rollback that begins is a decision of a person.
        Course::RollBack => input.record.phase == Some(Phase::RollingBack),
        Course::Check
        | Course::Leave
        | Course::Pause
        | Course::Rest
        | Course::Blocked
        | Course::Release => false,
    };
    let plan = if can_hold {
        lasting_hold(input, plan)
    } else {
        Plan {
            record: StatefulSetMigrationStatus {
                hold: None,
                ..plan.record
            },
            ..plan
        }
    };
    limited(input, plan)
}

/// A wait that no part of the run decides: a cluster or EC2 does not answer.
pub fn stalled(input: &PassInput<'_>, wait: Wait) -> Plan {
    limited(input, unchanged(input, Next::Decided(Decision::Wait(wait))))
}

/// Nothing was read, so nothing is recorded.
fn unchanged(input: &PassInput<'_>, next: Next) -> Plan {
    Plan {
        next,
        record: input.record.clone(),
        memory: input.memory.clone(),
        is_stalled: false,
        repair: None,
    }
}

/// A pass in progress.
struct Pass<'a> {
    input: &'a PassInput<'a>,
    run: String,
    /// Whose locks are ours.
    identity: LockIdentity,
    observation: Observation,
    record: StatefulSetMigrationStatus,
    memory: Memory,
}

impl<'a> Pass<'a> {
    fn new(input: &'a PassInput<'a>) -> Self {
        let run = input
            .record
            .run_id
            .clone()
            .unwrap_or_else(|| input.owner.uid.clone());
        let identity = LockIdentity {
            run_id: run.clone(),
            cluster: input.management_cluster.to_owned(),
            object: format!("{}/{}", input.namespace, input.owner.name),
        };
        let observation = Observation {
            source: input.source.state(&identity),
            destination: input.destination.state(&identity),
            disks: input.disks.clone(),
            snapshots: input.snapshots.clone(),
            read_at: input.source.read_at.max(input.destination.read_at),
            is_live: input.source.is_live && input.destination.is_live,
        };
        let mut memory = input.memory.clone();
        if input.source.set.is_some() {
            memory.source_absent_since = None;
        } else {
            memory.source_absent_since.get_or_insert(input.elapsed);
        }
        let mut record = input.record.clone();
        record.observed_generation = Some(input.generation);
        Self {
            input,
            run,
            identity,
            observation,
            record,
            memory,
        }
    }

    fn along(self, course: Course) -> Plan {
        match course {
            Course::Check => self.check(),
            Course::Freeze | Course::Move | Course::Finish if self.has_failed() => {
                self.resume(course)
            }
            Course::Freeze => self.with_capture(Pass::freeze),
            Course::Move => {
                self.with_capture(|pass, captured| pass.moves(captured, Direction::Forward))
            }
            Course::Finish if self.has_unlocked(StepName::Unlock) => self.reaches(Phase::Completed),
            Course::RollBack if self.has_unlocked(StepName::RUnlock) => {
                self.reaches(Phase::RolledBack)
            }
            Course::Finish => self.with_capture(Pass::finish),
            Course::RollBack => self.with_capture(Pass::roll_back),
            Course::AwaitAbort => self.await_abort(),
            Course::Leave => self.leave(),
            Course::Pause => self.ends(Next::Paused),
            Course::Rest | Course::Blocked => self.ends(Next::Rest),
            Course::Release => self.ends(Next::Release),
        }
    }

    /// Nothing is written to a cluster that is not the recorded one.
    fn changed_identity(&self) -> Option<Interference> {
        interference::identity(&self.judged(Direction::Forward))
    }

    /// The run, to be searched for interference.
    pub(super) fn judged(&self, direction: Direction) -> Run<'_> {
        Run {
            record: &self.record,
            id: &self.run,
            set: &self.input.spec.stateful_set_name,
            direction,
            is_prepared: true,
            observation: &self.observation,
        }
    }

    fn ends(self, next: Next) -> Plan {
        Plan {
            next,
            record: self.record,
            memory: self.memory,
            is_stalled: false,
            repair: None,
        }
    }

    /// The change that sets the window of a widened source back.
    fn narrowed_source(&self, course: Course) -> Option<Step> {
        let direction = if course == Course::RollBack {
            Direction::Back
        } else {
            Direction::Forward
        };
        interference::narrowed(&self.judged(direction), &self.input.spec.source_namespace)
    }

    fn decided(self, decision: Decision) -> Plan {
        self.ends(Next::Decided(decision))
    }

    fn goes_on(mut self, phase: Phase) -> Plan {
        self.record.phase = Some(phase);
        self.record.intent = None;
        self.ends(Next::Continue)
    }

    fn has_failed(&self) -> bool {
        self.record.phase == Some(Phase::Failed)
    }

    /// A person has raised `spec.retry`: the run goes on where its record shows it.
    fn resume(mut self, course: Course) -> Plan {
        self.record.observed_retry = self.input.spec.retry;
        self.record.failure = None;
        self.record.last_error = None;
        progress::begun_again(&mut self.record);
        let phase = match course {
            Course::Freeze => Phase::FreezingSource,
            Course::Finish => Phase::Finalizing,
            Course::Check
            | Course::Move
            | Course::AwaitAbort
            | Course::RollBack
            | Course::Leave
            | Course::Pause
            | Course::Rest
            | Course::Blocked
            | Course::Release => Phase::MigratingPods,
        };
        self.goes_on(phase)
    }

    /// | checks     | dryRun | so                                                   |
    /// |------------|--------|------------------------------------------------------|
    /// | not made   | any    | make them                                            |
    /// | blocked    | any    | failed                                               |
    /// | passed     | yes    | planned, with the plan                               |
    /// | passed     | no     | the record of the source as it is now, then freeze   |
    fn check(mut self) -> Plan {
        self.record.run_id = Some(self.run.clone());
        self.record.observed_retry = self.input.spec.retry;
        let Some(is_passed) = self.input.is_checked else {
            self.record.phase = Some(Phase::PreFlightChecks);
            return self.ends(Next::Check);
        };
        if !is_passed {
            self.record.failure = Some(FailReason::PreflightBlocked);
            return self.goes_on(Phase::Failed);
        }
        self.record.failure = None;
        let Some(set) = self.source_set() else {
            return self.ends(Next::Check);
        };
        let begun = begun(
            &self.record,
            self.input.source,
            self.input.destination,
            &set,
            self.input.zones,
            self.input.spec.dormant_claims,
        );
        self.record.plan = preview::plan_lines(self.input, &begun);
        if self.input.spec.dry_run {
            return self.goes_on(Phase::Planned);
        }
        self.record = StatefulSetMigrationStatus {
            plan: self.record.plan,
            ..begun
        };
        self.record.start_time = Some(Time(self.input.now));
        self.goes_on(Phase::FreezingSource)
    }

    fn source_set(&self) -> Option<Document<StatefulSet>> {
        Document::read(self.input.source.set.clone()?).ok()
    }

    /// The ordinal in motion is finished, unless the run has failed at it.
    fn await_abort(self) -> Plan {
        let mut ordinals = self.record.ordinals.iter();
        let is_moving = ordinals.any(|ordinal| ordinal.location == Location::Moving);
        if is_moving && !self.has_failed() {
            return self.with_capture(|pass, rendered| pass.moves(rendered, Direction::Forward));
        }
        self.ends(Next::AwaitAbort)
    }

    pub(super) fn holds(self, reason: HoldReason, message: String) -> Plan {
        self.decided(Decision::Hold(Interference {
            reason,
            ordinal: None,
            message,
        }))
    }

    /// The tags of all that is made outside of the clusters for this migration.
    fn marker(&self) -> BTreeMap<String, String> {
        let key = ObjectKey::namespaced(self.input.namespace, &*self.input.owner.name);
        let tags = [
            (MARKER_CLUSTER, self.input.management_cluster.to_owned()),
            (MARKER_OBJECT, object_marker(&key)),
        ];
        tags.map(|(key, value)| (key.to_owned(), value)).into()
    }

    /// The lock with the record as the API server has it. A released one has no intent: the intent to release the
    /// other lock would make it outdated again.
    pub(super) fn lock(&self, goal: LockGoal) -> Option<Lock> {
        let mut record = self.input.record.clone();
        record.intent = record.intent.filter(|_| goal != LockGoal::Release);
        let journal = Journal::of(&record);
        Lock::of(
            self.identity.clone(),
            goal.phase(),
            self.input.spec,
            &journal,
        )
        .ok()
    }

    pub(super) fn closing(&self) -> Closing<'_> {
        Closing {
            spec: self.input.spec,
            record: &self.record,
            run: &self.run,
            source: self.input.source,
            destination: self.input.destination,
        }
    }

    /// Reads the journal of each lock that has changed.
    fn read_mirrors(&mut self) {
        for side in Side::BOTH {
            let documents = match side {
                Side::Source => self.input.source,
                Side::Destination => self.input.destination,
            };
            let Some(lock) = documents.lock.as_ref().map(version) else {
                self.memory.mirrored.remove(&side);
                continue;
            };
            let read = self.memory.mirrored.get(&side);
            if read.is_none_or(|(of, _)| *of != lock) {
                let stored = documents.stored_lock();
                let journal = stored.and_then(|stored| Journal::parse(&stored.journal).ok());
                let read = (lock, journal.map(Arc::new));
                self.memory.mirrored.insert(side, read);
            }
        }
    }

    /// The rewrite of a lock whose journal lacks the saved intent or phase.
    pub(super) fn due_mirror(&self) -> Option<Step> {
        Side::BOTH.into_iter().find_map(|side| {
            let mirrored = self.memory.mirrored.get(&side)?.1.as_deref();
            if !mirror::is_due(self.input.record, mirrored) {
                return None;
            }
            let wanted = self.lock(LockGoal::Mirror)?;
            let change = self
                .closing()
                .lock_change(side, &wanted, LockGoal::Mirror)?;
            Some(Step {
                name: self
                    .input
                    .record
                    .intent
                    .as_ref()
                    .map_or(StepName::Lock, |intent| intent.step),
                ordinal: None,
                change,
            })
        })
    }

    fn moves(mut self, input: &Captured, direction: Direction) -> Plan {
        if let Some(step) = self.due_mirror() {
            return self.ends(Next::Mirror(step));
        }
        self.find_edits(input);
        let next = moves::next(&Moves {
            spec: self.input.spec,
            record: &self.record,
            run: &self.run,
            direction,
            marker: &self.marker(),
            is_intent_unused: self.input.is_intent_unused,
            is_paused: self.may_not_begin(direction),
            claims: &input.rendered.claims,
            exhausted_budget: self.input.exhausted_budget,
            observation: &self.observation,
            proof: &self.memory.proof,
            now: self.input.now,
            elapsed: self.input.elapsed,
        });
        match next {
            moves::Next::Complete => match direction {
                Direction::Forward => self.goes_on(Phase::Finalizing),
                Direction::Back if self.record.orphan_started => self.recreate(input),
                Direction::Back => self.undo(input),
            },
            moves::Next::Paused if self.input.is_deleting => self.ends(Next::AwaitAbort),
            moves::Next::LimitReached | moves::Next::Paused => self.ends(Next::Paused),
            moves::Next::Hold(hold) => self.decided(Decision::Hold(hold)),
            moves::Next::Ordinal {
                decision,
                record,
                proof,
            } => {
                self.memory.proof = *proof;
                let has_arrived = decision == Decision::Done;
                let index = record.ordinal;
                if let Some(slot) = self.record.ordinal_mut(index) {
                    *slot = *record;
                }
                progress::summarize(&mut self.record, &self.input.spec.stateful_set_name);
                if has_arrived {
                    self.record.intent = None;
                    self.record.last_error = None;
                    return self.ends(Next::Continue);
                }
                self.decided(decision)
            }
        }
    }

    /// While the object is being deleted, no ordinal begins to move, and every ordinal may return.
    fn may_not_begin(&self, direction: Direction) -> bool {
        let is_paused = self.input.is_paused || self.input.spec.paused;
        match direction {
            Direction::Forward => is_paused || self.input.is_deleting,
            Direction::Back => is_paused && !self.input.is_deleting,
        }
    }

    fn roll_back(mut self, input: &Captured) -> Plan {
        if self.input.record.phase != Some(Phase::RollingBack) {
            self.record.rolling_back = true;
            self.record.hold = None;
            self.record.failure = None;
            self.record.last_error = None;
            self.record.observed_retry = self.input.spec.retry;
            return self.goes_on(Phase::RollingBack);
        }
        let extra = self.extra_claims(input);
        if !extra.is_empty() {
            let set = &self.input.spec.stateful_set_name;
            let hold = undo::extra_claims(set, &extra);
            return self.decided(hold);
        }
        let all_back = self
            .record
            .ordinals
            .iter()
            .all(|ordinal| ordinal.location == Location::Source);
        if self.record.orphan_started && (all_back || !self.record.without_ordinals) {
            self.recreate(input)
        } else if all_back {
            self.undo(input)
        } else {
            self.moves(input, Direction::Back)
        }
    }
}
