//! The tables of status, conditions and events, row by row.

mod conditions;
mod events;

use std::time::Duration;

use api::migrate::{CheckId, Finding, OrdinalRecord, Preflight, Severity, StoredMigration, Window};
use engine::{Note, Object, PassFacts};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, ObjectMeta, Time};
use kernel::{Class, ObjectKey};
use rstest::rstest;
use serde_json::{Value, json};

use super::super::core::{Facts, Move, Observed};
use super::super::decision::{Interference, Wait};
use super::super::fixture::spec;
use super::super::pass::Memory;
use super::*;

type Ending = Ended<Announced>;

const NOW: Timestamp = Timestamp::UNIX_EPOCH;
const MOVING: Phase = Phase::MigratingPods;

/// Ordinal 0 has moved, ordinal 1 is at the detach, ordinal 2 has not begun.
fn moving_record() -> StatefulSetMigrationStatus {
    let ordinal = |ordinal, location, step| OrdinalRecord {
        ordinal,
        location,
        step,
        ..OrdinalRecord::default()
    };
    StatefulSetMigrationStatus {
        phase: Some(MOVING),
        started: true,
        observed_generation: Some(1),
        window: Some(Window {
            start: 0,
            replicas: 3,
            had_ordinals: false,
        }),
        ordinals: vec![
            ordinal(0, Location::Destination, None),
            ordinal(1, Location::Moving, Some(StepName::Detach)),
            ordinal(2, Location::Source, None),
        ],
        ..StatefulSetMigrationStatus::default()
    }
}

fn in_phase(phase: Phase) -> StatefulSetMigrationStatus {
    StatefulSetMigrationStatus {
        phase: Some(phase),
        ..moving_record()
    }
}

fn failed_with(reason: FailReason, error: &str) -> StatefulSetMigrationStatus {
    StatefulSetMigrationStatus {
        failure: Some(reason),
        last_error: Some(error.to_owned()),
        ..in_phase(Phase::Failed)
    }
}

fn world(fields: &Value, status: StatefulSetMigrationStatus) -> World {
    World {
        object: Object {
            key: ObjectKey::namespaced("ops", "move-web"),
            metadata: ObjectMeta {
                generation: Some(1),
                ..ObjectMeta::default()
            },
            resource: StoredMigration {
                spec: Ok(spec(fields)),
            },
            status,
            conditions: Vec::new(),
            exists: true,
        },
        facts: Facts::default(),
        observed: Observed::default(),
        memory: Memory::default(),
        fresh_intents: Vec::new(),
        is_unsaved: false,
        now: NOW,
        elapsed: Duration::ZERO,
        pass: PassFacts {
            id: "00000000".to_owned(),
            random: 0.0,
            retry_in: Duration::ZERO,
            is_urgent: false,
        },
    }
}

fn condition(kind: &str, status: &str, reason: &str, message: &str) -> Condition {
    Condition {
        type_: kind.to_owned(),
        status: status.to_owned(),
        reason: reason.to_owned(),
        message: message.to_owned(),
        last_transition_time: Time(NOW),
        observed_generation: Some(1),
    }
}

fn decided(situation: Situation, record: StatefulSetMigrationStatus) -> Decided {
    Decided {
        next: Move::Block,
        situation,
        record,
        memory: Memory::default(),
        phases: Vec::new(),
        reason: "Reason".to_owned(),
        message: "what happened".to_owned(),
    }
}

fn waits(reason: StallReason, is_stalled: bool) -> Situation {
    Situation::Waiting {
        wait: Wait {
            step: StepName::Detach,
            ordinal: Some(1),
            reason,
            detail: "volume vol-1 is busy".to_owned(),
            after: None,
        },
        is_stalled,
    }
}

fn interfered(reason: HoldReason) -> Situation {
    Situation::Held(Interference {
        reason,
        ordinal: Some(1),
        message: "scale it back".to_owned(),
    })
}

fn stopped() -> Ending {
    Ended::Stopped(Stop::waiting(
        Reason::new("Waiting", "it takes time"),
        Duration::ZERO,
    ))
}

fn broken() -> Ending {
    Ended::Stopped(Stop::Failed {
        reason: Reason::new("MetadataRefused", "refused"),
        class: Class::Invalid,
    })
}

fn announces() -> Ending {
    Ended::Announcing(vec![Announced {
        step: StepName::Fence,
        ordinal: Some(1),
        token: "t".to_owned(),
    }])
}

/// Everything that a pass shows, with a spec without a migration id.
struct Pass {
    world: World,
    decided: Decided,
    ended: Ending,
}

impl Pass {
    fn new(situation: Situation, record: StatefulSetMigrationStatus) -> Self {
        Self {
            world: world(&json!({"migrationId": ""}), record.clone()),
            decided: decided(situation, record),
            ended: stopped(),
        }
    }

    fn ends(mut self, ended: Ending) -> Self {
        self.ended = ended;
        self
    }

    fn had(mut self, kind: &str, status: &str, reason: &str) -> Self {
        let had = condition(kind, status, reason, "before");
        self.world.object.conditions.push(had);
        self
    }

    fn spec(mut self, fields: &Value) -> Self {
        self.world.object.resource.spec = Ok(spec(fields));
        self
    }

    /// The record of the object before the pass.
    fn before(mut self, record: StatefulSetMigrationStatus) -> Self {
        self.world.object.status = record;
        self
    }

    fn deleted(mut self) -> Self {
        self.world.object.metadata.deletion_timestamp = Some(Time(NOW));
        self
    }

    fn entered(mut self, phases: &[Phase]) -> Self {
        self.decided.phases = phases.to_vec();
        self
    }

    fn status(&self) -> StatefulSetMigrationStatus {
        status(&self.decided, &self.world, &self.ended).0
    }

    /// `True Reason: message`; none if the pass does not set it.
    fn condition(&self, kind: &str) -> Option<String> {
        let report = status(&self.decided, &self.world, &self.ended).1;
        let (truth, reason) = report.get(kind)?;
        Some(format!("{truth:?} {}: {}", reason.code, reason.message))
    }

    /// Status and reason of a condition; a dash if the pass does not set it.
    fn truth(&self, kind: &str) -> String {
        let condition = self.condition(kind);
        let text = condition.as_deref().and_then(|text| text.split(':').next());
        text.unwrap_or("-").to_owned()
    }

    fn shown<T>(&self, of: impl Fn(&Shown<'_>) -> T) -> T {
        let state = run_state(&self.decided, &self.world, &self.ended);
        let status = self.status();
        of(&Shown {
            decided: &self.decided,
            world: &self.world,
            state: &state,
            status: &status,
        })
    }

    fn notes(&self) -> Vec<Note> {
        self.shown(super::events::of_record)
    }
}

const OUTAGE: StallReason = StallReason::ClusterUnreachable;
const BUSY: StallReason = StallReason::DetachBusy;

fn intended(phase: Phase) -> StatefulSetMigrationStatus {
    StatefulSetMigrationStatus {
        intent: Some(Intent {
            step: StepName::Hydrate,
            ordinal: None,
            token: "t".to_owned(),
            at: MicroTime(NOW),
        }),
        ordinals: Vec::new(),
        ..in_phase(phase)
    }
}

fn checked(findings: usize) -> Preflight {
    let finding = Finding {
        id: CheckId::Zone,
        severity: Severity::Warning,
        subject: String::new(),
        message: String::new(),
        remedy: String::new(),
    };
    Preflight {
        at: Time(NOW),
        checks: vec![finding; findings],
    }
}

#[rstest]
#[case::on_its_way(
    in_phase(MOVING),
    "the run is in phase MigratingPods; ordinal 1 is at step detach"
)]
#[case::at_its_gate(
    gated(Location::Source, MOVING),
    "the run is in phase MigratingPods; ordinal 1 is at step gate"
)]
#[case::a_gate_of_the_way_there(
    gated(Location::Source, Phase::RollingBack),
    "the run is in phase RollingBack"
)]
#[case::a_gate_of_the_way_back(
    gated(Location::Destination, Phase::RollingBack),
    "the run is in phase RollingBack; ordinal 1 is at step gate"
)]
#[case::before_any_ordinal(
    intended(Phase::FreezingSource),
    "the run is in phase FreezingSource, at step hydrate"
)]
fn progress_names_the_step(#[case] record: StatefulSetMigrationStatus, #[case] expected: &str) {
    assert_eq!(progress(&record), expected);
}

fn gated(location: Location, phase: Phase) -> StatefulSetMigrationStatus {
    let mut record = in_phase(phase);
    record.ordinals[1].location = location;
    record.ordinals[1].step = Some(StepName::Gate);
    record
}

#[rstest]
#[case::announces(MOVING, announces(), Some(StepName::Fence))]
#[case::waits(MOVING, stopped(), Some(StepName::Hydrate))]
#[case::completed(Phase::Completed, stopped(), None)]
#[case::planned(Phase::Planned, stopped(), None)]
fn the_intent_is_the_one_that_counts(
    #[case] phase: Phase,
    #[case] ended: Ending,
    #[case] expected: Option<StepName>,
) {
    let pass = Pass::new(Situation::Resting, intended(phase)).ends(ended);
    let intent = pass.status().intent;
    assert_eq!(intent.map(|intent| intent.step), expected);
}

#[rstest]
#[case::stalled(waits(BUSY, true), stopped(), [Some("volume vol-1 is busy"); 2])]
#[case::interfered(interfered(HoldReason::LockLost), stopped(), [Some("scale it back"); 2])]
#[case::goes_on(Situation::Progressing, announces(), [None; 2])]
#[case::no_news(Situation::Progressing, stopped(), [Some("old"); 2])]
#[case::pass_failed(Situation::Progressing, broken(), [Some("refused"), Some("old")])]
fn errors_go_with_their_success(
    #[case] situation: Situation,
    #[case] ended: Ending,
    #[case] expected: [Option<&str>; 2],
) {
    let mut record = in_phase(MOVING);
    record.last_error = Some("old".to_owned());
    record.ordinals[1].last_error = Some("old".to_owned());
    let status = Pass::new(situation, record).ends(ended).status();
    let found = [&status.last_error, &status.ordinals[1].last_error];
    assert_eq!(found.map(Option::as_deref), expected);
}

#[test]
fn a_failure_names_its_ordinal() {
    let record = failed_with(FailReason::AttachTimeout, "late");
    let pass = Pass::new(Situation::Resting, record).before(in_phase(MOVING));
    let status = pass.status();
    assert_eq!(status.ordinals[1].last_error.as_deref(), Some("late"));
    let later = Pass::new(Situation::Resting, status.clone());
    assert_eq!(later.status(), status);
    assert_eq!(later.notes(), []);
}

#[test]
fn a_new_object_is_pending() {
    let record = StatefulSetMigrationStatus::default();
    let pass = Pass::new(waits(OUTAGE, false), record);
    assert_eq!(pass.status().phase, Some(Phase::Pending));
    assert_eq!(pass.truth(kinds::READY), "False Pending");
}
