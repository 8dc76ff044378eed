//! What a pass does next, from what it has read so far. Pure.

use std::collections::BTreeMap;
use std::time::Duration;

use api::migrate::{
    FailReason, HoldReason, InvalidSpec, Phase, StallReason, StatefulSetMigrationSpec,
    StatefulSetMigrationStatus, StepName, reasons,
};
use engine::KindCore;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{OwnerReference, Time};
use kernel::Class;

use super::errors::{self, Consequence};
use super::{Connection, FailedCall, LiveMigration, MigrationCore, Read, Scope, World, Write};
use crate::migration::budgets::exhausted_budget;
use crate::migration::course::{Course, Request, course};
use crate::migration::decision::{Decision, Interference, Wait};
use crate::migration::documents::Documents;
use crate::migration::observation::{DiskRead, Side};
use crate::migration::pass::{Memory, Next, PassInput, Plan, plan, stalled};
use crate::preflight::{self, Survey, Verdict, chosen_strategy};
use crate::record::names::capture_name;

use super::next::RECHECK;

/// A pass goes through so many phases at most: a run has fewer.
const MOST_TRANSITIONS: usize = 64;
/// A pass reads EC2 so often at most. Then it waits.
const MOST_DISK_READS: usize = 3;
/// A pass repeats a refused change so often at most.
const MOST_REFUSALS: usize = 2;
/// The pause after an answer that asks for the same read again.
const PAUSE: Duration = Duration::from_secs(1);

/// What a pass does next, and what status shows of it.
#[derive(Debug, Clone, PartialEq)]
pub struct Decided {
    /// What the pass does next.
    pub next: Move,
    /// Where the run stands.
    pub situation: Situation,
    /// The record after this pass.
    pub record: StatefulSetMigrationStatus,
    /// What the process remembers after it.
    pub memory: Memory,
    /// The phases that the run has entered in this pass.
    pub phases: Vec<Phase>,
    /// The reason of `Ready` while the run has not ended: that of the situation, or the phase.
    pub reason: String,
    /// What goes with it.
    pub message: String,
}

/// What a pass does next.
#[derive(Debug, Clone, PartialEq)]
pub enum Move {
    /// It reads.
    Read(Vec<Read>),
    /// It changes something.
    Write(Box<Write>),
    /// It ends, and another one comes after this time at the latest.
    Wait(Duration),
    /// It ends. A person has to change something.
    Block,
    /// It ends: nothing is left to do.
    End,
    /// It ends with an error of the own cluster.
    Fail(Class),
}

/// Where a run stands.
#[derive(Debug, Clone, PartialEq)]
pub enum Situation {
    /// It goes on.
    Progressing,
    /// Something takes time.
    Waiting {
        /// What.
        wait: Wait,
        /// Whether the wait is beyond its limit.
        is_stalled: bool,
    },
    /// Somebody interferes.
    Held(Interference),
    /// A person has asked for a pause.
    PauseRequested,
    /// As many ordinals have moved as `ordinalLimit` allows.
    LimitReached,
    /// The object is being deleted, and `spec.abort` has to say what happens to its ordinals.
    AwaitingAbort,
    /// The run has ended or failed, or was not allowed to begin: a person acts next.
    Resting,
    /// The stored spec breaks a rule.
    InvalidSpec,
    /// A call of the operator's own cluster failed.
    CallFailed,
}

/// Both clusters as this pass sees them.
struct Sides<'a> {
    source: &'a Documents,
    destination: &'a Documents,
    capture: Option<&'a serde_json::Value>,
}

/// Decides what a pass does next.
pub fn decide(core: &MigrationCore, world: &World) -> Decided {
    let spec = match &world.object.resource.spec {
        Ok(spec) => spec,
        Err(invalid) => return invalid_spec(world, invalid),
    };
    Deciding::new(core, world, spec).run()
}

fn invalid_spec(world: &World, invalid: &InvalidSpec) -> Decided {
    let record = StatefulSetMigrationStatus {
        observed_generation: Some(world.object.generation()),
        ..world.object.status.clone()
    };
    Decided {
        next: Move::Block,
        situation: Situation::InvalidSpec,
        record,
        memory: world.memory.clone(),
        phases: Vec::new(),
        reason: reasons::INVALID_SPEC.to_owned(),
        message: invalid.to_string(),
    }
}

/// A decision that goes through phases.
struct Deciding<'a> {
    core: &'a MigrationCore,
    world: &'a World,
    spec: &'a StatefulSetMigrationSpec,
    owner: OwnerReference,
    record: StatefulSetMigrationStatus,
    memory: Memory,
    phases: Vec<Phase>,
    disks: BTreeMap<String, DiskRead>,
    /// Whether the checks of this pass let the run begin.
    is_checked: Option<bool>,
    zones: BTreeMap<String, String>,
}

impl<'a> Deciding<'a> {
    fn new(core: &'a MigrationCore, world: &'a World, spec: &'a StatefulSetMigrationSpec) -> Self {
        let metadata = &world.object.metadata;
        let mut disks = world.facts.disks.clone();
        for (id, read) in &world.observed.disks {
            let known = disks.get(id).map(|known| known.began);
            if known.is_none_or(|known| known <= read.began) {
                disks.insert(id.clone(), read.clone());
            }
        }
        Self {
            core,
            world,
            spec,
            owner: OwnerReference {
                api_version: format!("{}/v1alpha1", api::migrate::names::GROUP),
                kind: "StatefulSetMigration".to_owned(),
                name: world.object.key.name.to_string(),
                uid: metadata.uid.clone().unwrap_or_default(),
                ..OwnerReference::default()
            },
            record: world.object.status.clone(),
            memory: world.memory.clone(),
            phases: Vec::new(),
            disks,
            is_checked: None,
            zones: BTreeMap::new(),
        }
    }

    /// Goes on until something has to be read, changed or awaited.
    fn run(mut self) -> Decided {
        for _ in 0..MOST_TRANSITIONS {
            let course = self.course();
            if let Some(decided) = self.failed_call(course) {
                return decided;
            }
            let ready = match course {
                Course::Rest | Course::Blocked | Course::Release => Ok(None),
                Course::Check => self.checked(),
                Course::Freeze
                | Course::Move
                | Course::AwaitAbort
                | Course::Finish
                | Course::RollBack
                | Course::Leave => self.sides(),
            };
            let plan = match ready {
                Err(decided) => return *decided,
                Ok(sides) => self.plan(sides.as_ref()),
            };
            let is_live = self.is_live();
            let before = self.record.phase;
            self.memory = plan.memory.clone();
            // After a failure, a person acts next, or the run goes back by itself.
            if matches!(plan.next, Next::Continue | Next::Decided(Decision::Fail(_))) {
                self.record = plan.record;
                self.phases
                    .extend(self.record.phase.filter(|phase| Some(*phase) != before));
                continue;
            }
            return self.carried_out(plan, is_live);
        }
        let message = "the run goes through too many phases; this is a defect of the operator, please report it";
        self.ends(
            Move::Fail(Class::Transient),
            Situation::CallFailed,
            "OperatorDefect",
            message.to_owned(),
        )
    }

    fn course(&self) -> Course {
        course(&Request {
            spec: self.spec,
            record: &self.record,
            is_deleting: self.world.object.is_deleting(),
            is_edited: self.record.observed_generation != Some(self.world.object.generation()),
        })
    }

    fn is_paused(&self) -> bool {
        self.world.object.annotation(kernel::PAUSED) == Some("true")
    }

    fn pass_input<'k>(&'k self, sides: &Sides<'k>, budget: Option<&'k str>) -> PassInput<'k> {
        PassInput {
            spec: self.spec,
            record: &self.record,
            namespace: self
                .world
                .object
                .key
                .namespace
                .as_deref()
                .unwrap_or_default(),
            owner: &self.owner,
            management_cluster: self.core.management_cluster.as_str(),
            generation: self.world.object.generation(),
            is_deleting: self.world.object.is_deleting(),
            is_paused: self.is_paused(),
            is_checked: self.is_checked,
            zones: &self.zones,
            capture: sides.capture,
            source: sides.source,
            destination: sides.destination,
            disks: &self.disks,
            snapshots: &self.world.observed.snapshots,
            is_intent_unused: self.is_intent_unused(),
            exhausted_budget: budget,
            memory: &self.memory,
            now: self.world.now,
            elapsed: self.world.elapsed,
        }
    }

    /// Whether this process has saved the intent and has not begun its change.
    fn is_intent_unused(&self) -> bool {
        let saved = self.core.saved_intents(&self.world.object.status);
        let mut fresh = self.world.fresh_intents.iter();
        fresh.any(|intent| saved.contains(intent))
    }

    fn plan(&self, sides: Option<&Sides<'_>>) -> Plan {
        let nothing = Documents::default();
        let none = Sides {
            source: &nothing,
            destination: &nothing,
            capture: None,
        };
        let sides = sides.unwrap_or(&none);
        let budget = exhausted_budget(self.spec, &self.record, sides.source, sides.destination);
        plan(&self.pass_input(sides, budget.as_deref()))
    }

    /// The checks, and once they have passed the objects that the record begins with.
    fn checked(&mut self) -> Result<Option<Sides<'a>>, Box<Decided>> {
        let Some(survey) = self.world.observed.survey.as_deref() else {
            self.record.phase = Some(Phase::PreFlightChecks);
            let reads = vec![Read::Survey {
                run: self.run_id(),
                spec: Box::new(self.spec.clone()),
                pinned: [
                    self.record.source_cluster_uid.clone(),
                    self.record.dest_cluster_uid.clone(),
                ],
            }];
            return Err(Box::new(self.copy().goes_on(Move::Read(reads))));
        };
        let outcomes = preflight::check(survey);
        let verdict = preflight::verdict(&outcomes, self.spec);
        if let Verdict::Stalled { reason, message } = verdict {
            return Err(Box::new(self.copy().outage(
                StepName::Gate,
                reason,
                message,
            )));
        }
        self.record.preflight = Some(api::migrate::Preflight {
            at: Time(self.world.now),
            checks: outcomes
                .into_iter()
                .map(|outcome| outcome.finding)
                .collect(),
        });
        let is_passed = verdict == Verdict::Passed;
        self.is_checked = Some(is_passed);
        if !is_passed {
            let stopping = self
                .record
                .preflight
                .iter()
                .flat_map(|preflight| &preflight.checks);
            let stopping = stopping.filter(|finding| {
                matches!(&verdict, Verdict::Blocked(blocking)
                    if blocking.iter().any(|one| one.finding == **finding))
            });
            let messages: Vec<String> = stopping
                .map(|finding| format!("{}: {}", finding.id, finding.message))
                .collect();
            self.record.last_error = Some(messages.join("; "));
            return Ok(None);
        }
        self.record.last_error = None;
        self.record.strategy = chosen_strategy(survey).ok();
        self.record.without_ordinals = !preflight::has_ordinals(survey);
        self.zones = zones(survey);
        self.sides()
    }

    /// Both clusters: the caches if they show a wait, else the API servers.
    fn sides(&self) -> Result<Option<Sides<'a>>, Box<Decided>> {
        let observed = &self.world.observed;
        if let Some(decided) = self.connection_problem() {
            return Err(Box::new(decided));
        }
        let unconnected = Side::BOTH
            .into_iter()
            .filter(|side| !observed.connections.contains_key(side));
        let connect: Vec<Read> = unconnected.map(|side| self.connect(side)).collect();
        if !connect.is_empty() {
            return Err(Box::new(self.copy().goes_on(Move::Read(connect))));
        }
        if let Some(live) = self.live() {
            if let Some(decided) = self.edited_meanwhile() {
                return Err(Box::new(decided));
            }
            return Ok(Some(live));
        }
        if let Some(cached) = self.cached().filter(|_| self.is_checked.is_none())
            && self.shows_wait(&cached)
        {
            return Ok(Some(cached));
        }
        Err(Box::new(self.copy().goes_on(Move::Read(self.live_reads()))))
    }

    fn connect(&self, side: Side) -> Read {
        let (access, pinned) = match side {
            Side::Source => (&self.spec.source_cluster, &self.record.source_cluster_uid),
            Side::Destination => (&self.spec.dest_cluster, &self.record.dest_cluster_uid),
        };
        Read::Connection {
            side,
            access: access.clone(),
            pinned: pinned.clone(),
        }
    }

    fn live_reads(&self) -> Vec<Read> {
        let capture = capture_name(&self.spec.stateful_set_name, &self.run_id());
        let documents = Side::BOTH.map(|side| Read::Documents {
            side,
            scope: self.scope(side),
        });
        let observed = &self.world.observed;
        let all = [Read::Migration, Read::Capture(capture)]
            .into_iter()
            .chain(documents);
        let missing = all.filter(|read| match read {
            Read::Migration => observed.migration.is_none(),
            Read::Capture(_) => observed.capture.is_none(),
            Read::Documents { side, .. } => !observed.documents.contains_key(side),
            Read::Connection { .. }
            | Read::Disks { .. }
            | Read::Snapshots { .. }
            | Read::Survey { .. } => true,
        });
        missing.collect()
    }

    /// Which objects of a cluster the run reads.
    fn scope(&self, side: Side) -> Scope {
        scope(self.spec, &self.run_id(), side)
    }

    fn run_id(&self) -> String {
        let recorded = self.record.run_id.clone();
        recorded.unwrap_or_else(|| self.owner.uid.clone())
    }

    fn is_live(&self) -> bool {
        self.live().is_some()
    }

    fn live(&self) -> Option<Sides<'a>> {
        let observed = &self.world.observed;
        observed.migration.as_ref()?;
        Some(Sides {
            source: observed.documents.get(&Side::Source)?,
            destination: observed.documents.get(&Side::Destination)?,
            capture: observed.capture.as_ref()?.as_ref(),
        })
    }

    /// After a change of this pass, the caches are old.
    fn cached(&self) -> Option<Sides<'a>> {
        let facts = &self.world.facts;
        let is_unchanged = self.world.observed.changes.is_empty();
        Some(Sides {
            source: facts.documents.get(&Side::Source)?,
            destination: facts.documents.get(&Side::Destination)?,
            capture: facts.capture.as_ref(),
        })
        .filter(|_| is_unchanged)
    }

    /// A wait, or a read of EC2, may be decided on the caches.
    fn shows_wait(&self, cached: &Sides<'_>) -> bool {
        match self.plan(Some(cached)).next {
            Next::Decided(
                Decision::Wait(_) | Decision::ReadDisks { .. } | Decision::ReadSnapshots { .. },
            ) => true,
            Next::Decided(
                Decision::Done | Decision::Act(_) | Decision::Hold(_) | Decision::Fail(_),
            )
            | Next::Check
            | Next::Continue
            | Next::Mirror(_)
            | Next::Paused
            | Next::AwaitAbort
            | Next::Rest
            | Next::Release => false,
        }
    }

    /// Somebody has edited, paused or deleted the migration after this pass has begun: the next pass sees it.
    fn edited_meanwhile(&self) -> Option<Decided> {
        let live = self.world.observed.migration.as_ref()?;
        let object = &self.world.object;
        let seen = LiveMigration {
            uid: self.owner.uid.clone(),
            generation: object.generation(),
            is_deleting: object.is_deleting(),
            is_paused: self.is_paused(),
            token: object
                .status
                .intent
                .as_ref()
                .map(|intent| intent.token.clone()),
        };
        if live.as_ref() == Some(&seen) {
            return None;
        }
        let message = "the migration has changed since this pass began".to_owned();
        Some(self.copy().ends(
            Move::Wait(PAUSE),
            Situation::Progressing,
            reasons::PROGRESSING,
            message,
        ))
    }

    /// | kubeconfig of one cluster          | so                                          |
    /// |------------------------------------|---------------------------------------------|
    /// | leads to another cluster           | hold: ends when it leads to the right one   |
    /// | may not be used                    | wait; a stall after a minute                |
    fn connection_problem(&self) -> Option<Decided> {
        self.world
            .observed
            .connections
            .iter()
            .find_map(|(side, connection)| match connection {
                Connection::Cluster(_) => None,
                Connection::Moved(message) => Some(self.copy().on_hold(Interference {
                    reason: HoldReason::IdentityChanged,
                    ordinal: None,
                    message: message.clone(),
                })),
                Connection::Refused(message) => {
                    let message = format!("kubeconfig of the {side}: {message}");
                    let step = self.step();
                    Some(self.copy().outage(step, StallReason::AuthFailed, message))
                }
            })
    }

    /// The step that an outage is reported at.
    fn step(&self) -> StepName {
        let moving = self.record.ordinals.iter().find_map(|one| {
            (one.location == api::migrate::Location::Moving)
                .then_some(one.step)
                .flatten()
        });
        let intent = self.record.intent.as_ref().map(|intent| intent.step);
        moving.or(intent).unwrap_or(StepName::Gate)
    }

    fn failed_call(&self, course: Course) -> Option<Decided> {
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
    fn outage(self, step: StepName, reason: StallReason, detail: String) -> Decided {
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

    fn waits(mut self, plan: Plan) -> Decided {
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

    fn on_hold(mut self, hold: Interference) -> Decided {
        self.record.hold = Some(api::migrate::HoldRecord {
            reason: hold.reason,
            ordinal: hold.ordinal,
        });
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
    /// | read of EC2           | read, up to three times a pass; then wait     |
    /// | wait                  | wait                                          |
    /// | hold, failure         | a person acts                                 |
    /// | pause, limit, abort   | a person acts                                 |
    /// | rest                  | nothing is left                               |
    /// | release               | the object may go                             |
    fn carried_out(mut self, plan: Plan, is_live: bool) -> Decided {
        let before = self.record.phase;
        self.record = plan.record.clone();
        self.phases
            .extend(self.record.phase.filter(|phase| Some(*phase) != before));
        match plan.next.clone() {
            Next::Decided(Decision::Act(step)) if is_live => {
                self.goes_on(Move::Write(Box::new(Write::Change(step))))
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

    fn paused(self) -> Decided {
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

    fn rests(self) -> Decided {
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

    fn goes_on(self, next: Move) -> Decided {
        let phase = self.record.phase.unwrap_or(Phase::Pending);
        let message = format!("the run is in phase {phase}");
        self.ends(next, Situation::Progressing, phase.as_str(), message)
    }

    fn ends(
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

    fn copy(&self) -> Self {
        Self {
            core: self.core,
            world: self.world,
            spec: self.spec,
            owner: self.owner.clone(),
            record: self.record.clone(),
            memory: self.memory.clone(),
            phases: self.phases.clone(),
            disks: self.disks.clone(),
            is_checked: self.is_checked,
            zones: self.zones.clone(),
        }
    }
}

/// Which objects of a cluster a run reads.
pub(super) fn scope(spec: &StatefulSetMigrationSpec, run: &str, side: Side) -> Scope {
    let set = &spec.stateful_set_name;
    let (namespace, capture) = match side {
        Side::Source => (&spec.source_namespace, Some(capture_name(set, run))),
        Side::Destination => (&spec.dest_namespace, None),
    };
    Scope {
        namespace: namespace.clone(),
        set: set.clone(),
        capture,
    }
}

/// The zone of each disk, as EC2 shows it.
fn zones(survey: &Survey) -> BTreeMap<String, String> {
    let volumes = survey.ec2.volumes.get("volumes").ok();
    let volumes = volumes.into_iter().flatten();
    volumes
        .map(|(id, volume)| (id.clone(), volume.zone.clone()))
        .collect()
}
