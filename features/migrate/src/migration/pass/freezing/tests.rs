//! A run that another one forestalls, or whose source is edited before its locks are complete.

use std::collections::BTreeMap;
use std::time::Duration;

use api::migrate::{Intent, StatefulSetMigrationSpec, Window};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, OwnerReference};
use rstest::rstest;
use serde_json::json;

use super::super::{Memory, PassInput, plan};
use super::*;
use crate::migration::decision::Change;
use crate::migration::documents::Documents;
use crate::migration::fixture::spec;
use crate::record::capture::{Capture, CapturedObjects};
use crate::record::journal::Journal;
use crate::record::lock::{Lock, LockIdentity};

const RUN: &str = "0123abcd-run";

/// Both copies of the capture are there, and no lock yet.
struct Beginning {
    spec: StatefulSetMigrationSpec,
    record: StatefulSetMigrationStatus,
    source: Documents,
    destination: Documents,
    beside: Option<Value>,
}

fn set(image: &str) -> Value {
    let containers = json!([{"name": "app", "image": image}]);
    json!({
        "apiVersion": "apps/v1", "kind": "StatefulSet",
        "metadata": {"name": "web", "namespace": "shop", "uid": "set", "resourceVersion": "1"},
        "spec": {"replicas": 3, "template": {"spec": {"containers": containers}}},
    })
}

fn secret() -> Value {
    let objects = CapturedObjects {
        stateful_set: set("web:1"),
        ..CapturedObjects::default()
    };
    let packed = Capture::new(RUN, objects).pack().expect("it is small");
    let mut secret = json!(packed.secret("shop", None));
    secret["metadata"]["uid"] = "capture".into();
    secret
}

impl Beginning {
    fn new() -> Self {
        Self {
            spec: spec(&json!({})),
            record: StatefulSetMigrationStatus {
                phase: Some(Phase::FreezingSource),
                started: true,
                observed_generation: Some(1),
                run_id: Some(RUN.to_owned()),
                source_stateful_set_uid: Some("set".to_owned()),
                window: Some(Window {
                    start: 0,
                    replicas: 3,
                    had_ordinals: false,
                }),
                ..StatefulSetMigrationStatus::default()
            },
            source: Documents {
                set: Some(set("web:1")),
                capture: Some(secret()),
                ..Documents::default()
            },
            destination: Documents::default(),
            beside: Some(secret()),
        }
    }

    /// The lock of a run.
    fn lock(&self, run: &str) -> Value {
        let identity = LockIdentity {
            run_id: run.to_owned(),
            cluster: "management".to_owned(),
            object: "ops/move".to_owned(),
        };
        let journal = Journal::of(&self.record);
        let lock = Lock::of(identity, LockGoal::Acquire.phase(), &self.spec, &journal);
        json!(lock.expect("it is small").config_map("shop", "web"))
    }

    fn plan(&self) -> Plan {
        let owner = OwnerReference {
            name: "move".to_owned(),
            uid: RUN.to_owned(),
            ..OwnerReference::default()
        };
        plan(&PassInput {
            spec: &self.spec,
            record: &self.record,
            namespace: "ops",
            owner: &owner,
            management_cluster: "management",
            generation: 1,
            is_deleting: false,
            is_paused: false,
            is_checked: None,
            zones: &BTreeMap::new(),
            capture: self.beside.as_ref(),
            source: &self.source,
            destination: &self.destination,
            disks: &BTreeMap::new(),
            snapshots: &BTreeMap::new(),
            is_intent_unused: false,
            exhausted_budget: None,
            memory: &Memory::default(),
            now: Timestamp::UNIX_EPOCH,
            elapsed: Duration::ZERO,
        })
    }

    /// Makes every change, until the run goes on in another way.
    fn run(&mut self) -> (Vec<String>, Next) {
        let mut changes = Vec::new();
        loop {
            let plan = self.plan();
            self.record = plan.record;
            let Next::Decided(Decision::Act(step)) = plan.next else {
                return (changes, plan.next);
            };
            changes.push(step.to_string());
            match &step.change {
                Change::Delete { side, target, .. } => {
                    let documents = match side {
                        Side::Source => &mut self.source,
                        Side::Destination => &mut self.destination,
                    };
                    if target.name.ends_with("web") {
                        documents.lock = None;
                    } else {
                        documents.capture = None;
                    }
                }
                other => panic!("only locks and captures go: {other}"),
            }
            self.record.intent = Some(Intent {
                step: step.name,
                ordinal: None,
                token: step.change.token(),
                at: MicroTime(Timestamp::UNIX_EPOCH),
            });
        }
    }
}

const LOCK_GOES: &str = "r-unlock: delete ConfigMap stsm-web in the source";
const CAPTURE_GOES: &str = "r-unlock: delete Secret stsm-web-0123abcd in the source";

#[rstest]
#[case::by_its_lock(|all: &mut Beginning| all.destination.lock = Some(all.lock("another-run")))]
#[case::by_its_marker(|all: &mut Beginning| {
    all.destination.lock = Some(all.lock(RUN));
    let set = all.source.set.as_mut().expect("it exists");
    set["metadata"]["annotations"] = json!({api::migrate::names::RUN: "another"});
})]
fn a_run_gives_way_to_another_one(#[case] change: impl FnOnce(&mut Beginning)) {
    let mut all = Beginning::new();
    all.source.lock = Some(all.lock(RUN));
    change(&mut all);
    let (changes, next) = all.run();
    assert_eq!(next, Next::Continue);
    let own: Vec<&str> = changes.iter().map(String::as_str).collect();
    let of_source = own.iter().filter(|change| change.ends_with("the source"));
    assert_eq!(
        of_source.copied().collect::<Vec<_>>(),
        [LOCK_GOES, CAPTURE_GOES]
    );
    let record = &all.record;
    assert_eq!(
        (record.phase, record.failure),
        (Some(Phase::Failed), Some(FailReason::PreflightBlocked))
    );
    assert!(!record.started && record.window.is_none() && record.capture.is_none());
}

#[test]
fn an_edit_before_the_lock_repeats_the_checks() {
    let mut all = Beginning::new();
    all.source.lock = Some(all.lock(RUN));
    all.source.set = Some(set("web:2"));
    let (changes, next) = all.run();
    assert_eq!(changes, [LOCK_GOES, CAPTURE_GOES]);
    assert_eq!(next, Next::Continue);
    assert_eq!(all.record.phase, Some(Phase::PreFlightChecks));
    assert!(!all.record.started);
}

#[rstest]
#[case::as_it_shows_the_source("web:1", None)]
#[case::of_a_former_template("web:2", Some(HoldReason::DestinationConflict))]
fn an_earlier_copy_must_show_the_source_as_it_is(
    #[case] image: &str,
    #[case] expected: Option<HoldReason>,
) {
    let mut all = Beginning::new();
    all.record.started = false;
    all.source.capture = None;
    all.source.set = Some(set(image));
    let hold = match all.plan().next {
        Next::Decided(Decision::Hold(hold)) => Some(hold.reason),
        Next::Decided(Decision::Act(_)) => None,
        other => panic!("{other:?}"),
    };
    assert_eq!(hold, expected);
}

#[test]
fn a_run_that_has_changed_more_is_held() {
    let mut all = Beginning::new();
    all.source.lock = Some(all.lock(RUN));
    all.destination.lock = Some(all.lock("another-run"));
    all.record.intent = Some(Intent {
        step: StepName::Protect,
        ordinal: None,
        token: String::new(),
        at: MicroTime(Timestamp::UNIX_EPOCH),
    });
    let Next::Decided(Decision::Hold(hold)) = all.plan().next else {
        panic!("it is held");
    };
    assert_eq!(hold.reason, HoldReason::LockLost);
}
