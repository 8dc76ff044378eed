//! Holds, stalls, failures and retries of a run, seen from outside.

use std::collections::BTreeSet;

use api::migrate::{
    CaptureRecord, FailReason, HoldReason, HoldRecord, Phase, StallReason, StepName,
};
use rstest::rstest;
use serde_json::json;

use super::holds::{lasting_hold, limited};
use super::*;
use crate::migration::decision::Change;
use crate::migration::fixture::spec;
use crate::migration::rendered::{Translation, rendered};
use crate::record::capture::{Capture, CaptureCopies, CapturedObjects};

struct Setting {
    spec: StatefulSetMigrationSpec,
    record: StatefulSetMigrationStatus,
    documents: Documents,
    owner: OwnerReference,
    disks: BTreeMap<String, DiskRead>,
    zones: BTreeMap<String, String>,
    snapshots: BTreeMap<i32, SnapshotRead>,
    memory: Memory,
}

impl Setting {
    fn new(fields: &Value, record: StatefulSetMigrationStatus) -> Self {
        Self {
            spec: spec(fields),
            record,
            documents: Documents::default(),
            owner: OwnerReference::default(),
            disks: BTreeMap::new(),
            zones: BTreeMap::new(),
            snapshots: BTreeMap::new(),
            memory: Memory::default(),
        }
    }

    fn pass_input(&self, seconds: u64) -> PassInput<'_> {
        PassInput {
            spec: &self.spec,
            record: &self.record,
            namespace: "ops",
            owner: &self.owner,
            management_cluster: "cluster",
            generation: 1,
            is_deleting: false,
            is_paused: false,
            is_checked: None,
            zones: &self.zones,
            capture: None,
            source: &self.documents,
            destination: &self.documents,
            disks: &self.disks,
            snapshots: &self.snapshots,
            is_intent_unused: false,
            exhausted_budget: None,
            memory: &self.memory,
            now: Timestamp::UNIX_EPOCH,
            elapsed: Duration::from_secs(seconds),
        }
    }

    fn plan(&self, next: Next) -> Plan {
        Plan {
            next,
            record: self.record.clone(),
            memory: self.memory.clone(),
            is_stalled: false,
            repair: None,
        }
    }
}

fn record(hold: Option<HoldReason>) -> StatefulSetMigrationStatus {
    StatefulSetMigrationStatus {
        phase: Some(Phase::MigratingPods),
        started: true,
        observed_retry: 1,
        observed_generation: Some(1),
        hold: hold.map(|reason| HoldRecord {
            reason,
            ordinal: Some(1),
        }),
        ..StatefulSetMigrationStatus::default()
    }
}

fn change() -> Next {
    let change = Change::DeleteTags {
        disk: "vol-1".to_owned(),
        keys: Vec::new(),
    };
    Next::Decided(Decision::act(StepName::Retag, Some(1), change))
}

fn found(reason: HoldReason) -> Next {
    Next::Decided(Decision::on_hold(reason, Some(1), "found"))
}

fn wait(step: StepName) -> Next {
    Next::Decided(Decision::wait(
        step,
        Some(1),
        StallReason::Detaching,
        "it takes time",
    ))
}

/// What a plan does, in a few words.
fn summary(plan: &Plan) -> String {
    match &plan.next {
        Next::Decided(Decision::Act(_)) => "goes on".to_owned(),
        Next::Decided(Decision::Hold(hold)) => format!("holds {}", hold.reason),
        Next::Decided(Decision::Fail(failure)) => format!("fails {}", failure.reason),
        Next::Decided(Decision::Wait(_)) if plan.is_stalled => "stalls".to_owned(),
        Next::Decided(Decision::Wait(_)) => "waits".to_owned(),
        other => format!("{other:?}"),
    }
}

const WIDENED: Option<HoldReason> = Some(HoldReason::SourceWidened);

#[rstest]
#[case::none(None, change(), json!({"retry": 1}), "goes on")]
#[case::found(None, found(HoldReason::LockLost), json!({"retry": 1}), "holds LockLost")]
#[case::found_again(WIDENED, found(HoldReason::LockLost), json!({"retry": 2}), "holds LockLost")]
#[case::gone_without_retry(WIDENED, change(), json!({"retry": 1}), "holds SourceWidened")]
#[case::gone_with_retry(WIDENED, change(), json!({"retry": 2}), "goes on")]
#[case::ends_by_itself(Some(HoldReason::IdentityChanged), change(), json!({"retry": 1}), "goes on")]
#[case::not_accepted(Some(HoldReason::UncleanDetach), change(), json!({"retry": 9}), "holds UncleanDetach")]
#[case::accepted(
    Some(HoldReason::UncleanDetach), change(), json!({"retry": 1, "acknowledge": ["UncleanDetach/1"]}), "goes on")]
#[case::another_accepted(
    Some(HoldReason::UncleanDetach), change(), json!({"acknowledge": ["UncleanDetach/2"]}), "holds UncleanDetach")]
fn a_hold_stays_until_a_person_ends_it(
    #[case] recorded: Option<HoldReason>,
    #[case] next: Next,
    #[case] fields: Value,
    #[case] expected: &str,
) {
    let setting = Setting::new(&fields, record(recorded));
    let plan = lasting_hold(&setting.pass_input(1), setting.plan(next));
    assert_eq!(summary(&plan), expected);
    let is_held = expected.starts_with("holds");
    assert_eq!(plan.record.hold.is_some(), is_held);
}

#[test]
fn an_ended_hold_uses_up_the_retry() {
    let setting = Setting::new(&json!({"retry": 2}), record(WIDENED));
    let plan = lasting_hold(&setting.pass_input(1), setting.plan(change()));
    assert_eq!(plan.record.observed_retry, 2);
    let still = lasting_hold(
        &setting.pass_input(1),
        setting.plan(found(HoldReason::SourceWidened)),
    );
    assert_eq!(still.record.observed_retry, 1);
}

#[rstest]
#[case::within(StepName::Detach, 299, "waits", None)]
#[case::beyond(StepName::Detach, 300, "stalls", None)]
#[case::failed(
    StepName::Attach,
    300,
    "fails AttachTimeout",
    Some(FailReason::AttachTimeout)
)]
fn a_wait_beyond_its_limit_stalls_or_fails(
    #[case] step: StepName,
    #[case] seconds: u64,
    #[case] expected: &str,
    #[case] failure: Option<FailReason>,
) {
    let mut setting = Setting::new(&json!({}), record(None));
    let first = limited(&setting.pass_input(1_000), setting.plan(wait(step)));
    assert_eq!(summary(&first), "waits");
    setting.memory = first.memory;
    let plan = limited(
        &setting.pass_input(1_000 + seconds),
        setting.plan(wait(step)),
    );
    assert_eq!(summary(&plan), expected);
    assert_eq!(plan.record.failure, failure);
    let is_failed = plan.record.phase == Some(Phase::Failed);
    assert_eq!(is_failed, failure.is_some());
}

#[test]
fn another_step_begins_a_new_wait() {
    let mut setting = Setting::new(&json!({}), record(None));
    let first = limited(&setting.pass_input(0), setting.plan(wait(StepName::Gone)));
    setting.memory = first.memory;
    let plan = limited(
        &setting.pass_input(400),
        setting.plan(wait(StepName::Detach)),
    );
    assert_eq!(summary(&plan), "waits");
}

#[rstest]
#[case::not_raised(1, Next::Rest, Some(Phase::Failed))]
#[case::raised(2, Next::Continue, Some(Phase::FreezingSource))]
fn a_retry_goes_on_after_a_failure(
    #[case] retry: i64,
    #[case] expected: Next,
    #[case] phase: Option<Phase>,
) {
    let mut failed = record(None);
    failed.phase = Some(Phase::Failed);
    failed.failure = Some(FailReason::AttachTimeout);
    failed.last_error = Some("vol-1 is not attached".to_owned());
    let setting = Setting::new(&json!({"retry": retry}), failed);
    let plan = plan(&setting.pass_input(1));
    assert_eq!((plan.next, plan.record.phase), (expected, phase));
    assert_eq!(plan.record.failure.is_none(), retry == 2);
}

#[rstest]
#[case::freezing(Phase::FreezingSource)]
#[case::moving(Phase::MigratingPods)]
#[case::finalizing(Phase::Finalizing)]
#[case::returning(Phase::RollingBack)]
fn another_cluster_is_not_written_to(#[case] phase: Phase) {
    let mut begun = record(None);
    begun.phase = Some(phase);
    begun.source_cluster_uid = Some("cluster-a".to_owned());
    let mut setting = Setting::new(&json!({}), begun);
    setting.documents.identity = Some("cluster-b".to_owned());
    assert_eq!(
        summary(&plan(&setting.pass_input(1))),
        "holds IdentityChanged"
    );
}

/// The change that sets the window of the source back.
fn narrow() -> Step {
    Step {
        name: StepName::Narrow,
        ordinal: None,
        change: Change::DeleteTags {
            disk: "vol-1".to_owned(),
            keys: Vec::new(),
        },
    }
}

/// A hold of a widened source; `announced`: the intent to set it back was saved, and used or not.
fn widened(announced: Option<bool>, retry: i64) -> (Setting, bool) {
    let mut record = record(WIDENED);
    record.intent = announced.map(|_| api::migrate::Intent {
        step: StepName::Narrow,
        ordinal: None,
        token: narrow().change.token(),
        at: k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime(Timestamp::UNIX_EPOCH),
    });
    let setting = Setting::new(&json!({"retry": retry}), record);
    (setting, announced == Some(false))
}

#[rstest]
#[case::without_retry(None, 1, "holds SourceWidened", 1)]
#[case::retried(None, 2, "goes on", 2)]
#[case::announced(Some(false), 1, "goes on", 1)]
#[case::made_and_widened_again(Some(true), 1, "holds SourceWidened", 1)]
#[case::retried_again(Some(true), 2, "goes on", 2)]
fn a_retry_sets_a_window_back_once(
    #[case] announced: Option<bool>,
    #[case] retry: i64,
    #[case] expected: &str,
    #[case] observed_retry: i64,
) {
    let (setting, is_unused) = widened(announced, retry);
    let input = PassInput {
        is_intent_unused: is_unused,
        ..setting.pass_input(1)
    };
    let plan = lasting_hold(
        &input,
        Plan {
            repair: Some(narrow()),
            ..setting.plan(found(HoldReason::SourceWidened))
        },
    );
    assert_eq!(summary(&plan), expected);
    assert_eq!(plan.record.observed_retry, observed_retry);
    assert!(plan.record.hold.is_some());
}

#[rstest]
#[case::set_back_by_the_run(Some(true), "goes on")]
#[case::set_back_by_a_person(None, "holds SourceWidened")]
fn a_window_that_was_set_back_ends_its_hold(
    #[case] announced: Option<bool>,
    #[case] expected: &str,
) {
    let (setting, _) = widened(announced, 1);
    let plan = lasting_hold(&setting.pass_input(1), setting.plan(change()));
    assert_eq!(summary(&plan), expected);
}

#[rstest]
#[case::before_an_ordinal_moves(Phase::FreezingSource)]
#[case::after_all_have_moved(Phase::Finalizing)]
fn a_pause_stops_a_run_without_an_ordinal_in_motion(#[case] phase: Phase) {
    let mut setting = Setting::new(&json!({}), record(None));
    setting.record.phase = Some(phase);
    let paused = |is_paused, is_deleting| {
        let input = PassInput {
            is_deleting,
            is_paused,
            ..setting.pass_input(0)
        };
        plan(&input).next == Next::Paused
    };
    assert!(paused(true, false));
    assert!(!paused(false, false));
    // A deletion ends either phase.
    assert!(!paused(true, true));
    setting.spec.paused = true;
    assert_eq!(plan(&setting.pass_input(0)).next, Next::Paused);
}

#[test]
fn a_pause_before_the_checks_records_nothing() {
    let mut setting = Setting::new(&json!({"paused": true}), record(None));
    setting.record.started = false;
    setting.record.phase = None;
    setting.record.observed_generation = None;
    let plan = plan(&setting.pass_input(0));
    assert_eq!((plan.next, plan.record), (Next::Paused, setting.record));
}

const UNCLEAN: Option<HoldReason> = Some(HoldReason::UncleanDetach);
const IDENTITY: Option<HoldReason> = Some(HoldReason::IdentityChanged);

#[rstest]
#[case::none(None, HoldReason::IdentityChanged, &[], HoldReason::IdentityChanged)]
#[case::ended_by_itself(IDENTITY, HoldReason::LockLost, &[], HoldReason::LockLost)]
#[case::ended_by_a_retry(WIDENED, HoldReason::LockLost, &[], HoldReason::LockLost)]
#[case::beside_one_that_ends_by_itself(
    WIDENED, HoldReason::IdentityChanged, &[], HoldReason::SourceWidened)]
#[case::to_be_accepted(UNCLEAN, HoldReason::SourceWidened, &[], HoldReason::UncleanDetach)]
#[case::accepted(UNCLEAN, HoldReason::SourceWidened, &["UncleanDetach/1"], HoldReason::SourceWidened)]
fn a_hold_replaces_none_that_a_person_has_to_end(
    #[case] recorded: Option<HoldReason>,
    #[case] reason: HoldReason,
    #[case] accepted: &[&str],
    #[case] expected: HoldReason,
) {
    let setting = Setting::new(&json!({"acknowledge": accepted}), record(recorded));
    let plan = lasting_hold(&setting.pass_input(1), setting.plan(found(reason)));
    assert_eq!(plan.record.hold.map(|hold| hold.reason), Some(expected));
    assert_eq!(summary(&plan), format!("holds {reason}"));
}

/// Ordinal 1 is at `step` while the object is being deleted.
fn deleted(hold: Option<HoldReason>, step: Option<StepName>, phase: Phase) -> Plan {
    let mut setting = Setting::new(&json!({}), record(hold));
    setting.record.phase = Some(phase);
    setting.record.ordinals = vec![api::migrate::OrdinalRecord {
        ordinal: 1,
        location: step.map_or(Location::Source, |_| Location::Moving),
        step,
        ..api::migrate::OrdinalRecord::default()
    }];
    plan(&PassInput {
        is_deleting: true,
        ..setting.pass_input(0)
    })
}

#[rstest]
#[case::failed(Some(StepName::Detach), Phase::Failed)]
#[case::without_an_ordinal_in_motion(None, Phase::MigratingPods)]
fn a_deleted_run_waits_for_abort_and_keeps_its_hold(
    #[case] step: Option<StepName>,
    #[case] phase: Phase,
) {
    let plan = deleted(UNCLEAN, step, phase);
    assert_eq!(plan.next, Next::AwaitAbort);
    assert_eq!(plan.record.hold.map(|hold| hold.reason), UNCLEAN);
}

#[test]
fn a_rollback_is_on_record() {
    let mut setting = Setting::new(&json!({"abort": "Rollback"}), record(None));
    setting.record.phase = Some(Phase::Failed);
    setting.documents.set = Some(json!({
        "metadata": {"name": "web", "namespace": "shop"}, "spec": {"template": {}},
    }));
    let begun = plan(&setting.pass_input(1)).record;
    assert_eq!(
        (begun.phase, begun.rolling_back),
        (Some(Phase::RollingBack), true)
    );
    // A failure on the way back waits for a person.
    setting.record.rolling_back = true;
    setting.record.observed_retry = setting.spec.retry;
    assert_eq!(plan(&setting.pass_input(1)).next, Next::Rest);
}

#[test]
fn what_was_edited_is_found_in_both_clusters() {
    let set = |image| {
        let containers = json!([{"name": "app", "image": image}]);
        json!({
            "metadata": {"name": "web", "namespace": "shop"},
            "spec": {"template": {"spec": {"containers": containers}}},
        })
    };
    let objects = CapturedObjects {
        stateful_set: set("web:1"),
        ..CapturedObjects::default()
    };
    let packed = Capture::new("run", objects).pack().expect("it is small");
    let mut setting = Setting::new(&json!({}), record(None));
    setting.record.capture = Some(CaptureRecord {
        template_sha256: "captured".into(),
        dest_template_sha256: Some("recorded".into()),
        ..CaptureRecord::default()
    });
    setting.documents.set = Some(set("web:2"));
    let translation = Translation {
        spec: &setting.spec,
        run: "run",
        ordinals: &BTreeSet::new(),
        zones: &setting.zones,
        foreign_volumes: &BTreeSet::new(),
        own_volumes: &BTreeMap::new(),
    };
    let captured = Captured {
        rendered: rendered(packed.capture(), &translation).expect("it can move"),
        copies: CaptureCopies::Ours(packed.clone()),
        packed,
    };
    let input = setting.pass_input(0);
    let mut pass = Pass::new(&input);
    pass.find_edits(&captured);
    for side in Side::BOTH {
        let found = pass.observation.cluster(side).set.as_ref();
        assert_eq!(
            found.expect("it exists").edits,
            r#"/spec/template/spec/containers/name=app/image: "web:1" -> "web:2""#
        );
    }
}
