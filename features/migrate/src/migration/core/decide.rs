//! What a pass does next, from what it has read so far. Pure.

use std::collections::BTreeMap;
use std::time::Duration;

use api::migrate::{
    InvalidSpec, Phase, StatefulSetMigrationSpec, StatefulSetMigrationStatus, StepName, reasons,
};
use engine::KindCore;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{OwnerReference, Time};
use kernel::Class;

use super::decided::{Decided, Move, Situation};
use super::{MigrationCore, Read, World};
use crate::migration::budgets::exhausted_budget;
use crate::migration::course::{Course, Request, course};
use crate::migration::decision::Decision;
use crate::migration::documents::Documents;
use crate::migration::observation::DiskRead;
use crate::migration::pass::{Memory, Next, PassInput, Plan, plan};
use crate::preflight::{self, Survey, Verdict, chosen_strategy};

/// A pass goes through so many phases at most: a run has fewer.
const MOST_TRANSITIONS: usize = 64;
/// The pause after an answer that asks for the same read again.
pub(super) const PAUSE: Duration = Duration::from_secs(1);

/// Both clusters as this pass sees them.
pub(super) struct Sides<'a> {
    pub(super) source: &'a Documents,
    pub(super) destination: &'a Documents,
    pub(super) capture: Option<&'a serde_json::Value>,
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
pub(super) struct Deciding<'a> {
    pub(super) core: &'a MigrationCore,
    pub(super) world: &'a World,
    pub(super) spec: &'a StatefulSetMigrationSpec,
    pub(super) owner: OwnerReference,
    pub(super) record: StatefulSetMigrationStatus,
    pub(super) memory: Memory,
    pub(super) phases: Vec<Phase>,
    pub(super) disks: BTreeMap<String, DiskRead>,
    /// Whether the checks of this pass let the run begin.
    pub(super) is_checked: Option<bool>,
    pub(super) zones: BTreeMap<String, String>,
}

impl<'a> Deciding<'a> {
    pub(super) fn new(
        core: &'a MigrationCore,
        world: &'a World,
        spec: &'a StatefulSetMigrationSpec,
    ) -> Self {
        let metadata = &world.object.metadata;
        let mut disks = world.facts.disks.clone();
        for (id, read) in &world.observed.disks {
            let earlier = disks.get(id).map(|earlier| earlier.began);
            if earlier.is_none_or(|earlier| earlier <= read.began) {
                disks.insert(id.clone(), read.clone());
            }
        }
        let retagged = &world.observed.retagged;
        disks.retain(|id, read| retagged.get(id).is_none_or(|changed| read.began > *changed));
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
    pub(super) fn run(mut self) -> Decided {
        for _ in 0..MOST_TRANSITIONS {
            let course = self.course();
            if let Some(decided) = self.failed_call(course) {
                return decided;
            }
            let ready = match course {
                Course::Pause | Course::Rest | Course::Blocked | Course::Release => Ok(None),
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

    pub(super) fn course(&self) -> Course {
        course(&Request {
            spec: self.spec,
            record: &self.record,
            is_deleting: self.world.object.is_deleting(),
            is_paused: self.is_paused() || self.spec.paused,
            is_edited: self.record.observed_generation != Some(self.world.object.generation()),
        })
    }

    pub(super) fn is_paused(&self) -> bool {
        self.world.object.annotation(kernel::PAUSED) == Some("true")
    }

    pub(super) fn pass_input<'k>(
        &'k self,
        sides: &Sides<'k>,
        budget: Option<&'k str>,
    ) -> PassInput<'k> {
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
    pub(super) fn is_intent_unused(&self) -> bool {
        let saved = self.core.saved_intents(&self.world.object.status);
        let mut fresh = self.world.fresh_intents.iter();
        fresh.any(|intent| saved.contains(intent))
    }

    pub(super) fn plan(&self, sides: Option<&Sides<'_>>) -> Plan {
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

    pub(super) fn copy(&self) -> Self {
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

/// The zone of each disk, as EC2 shows it.
fn zones(survey: &Survey) -> BTreeMap<String, String> {
    let volumes = survey.ec2.volumes.get("volumes").ok();
    let volumes = volumes.into_iter().flatten();
    volumes
        .map(|(id, volume)| (id.clone(), volume.zone.clone()))
        .collect()
}
