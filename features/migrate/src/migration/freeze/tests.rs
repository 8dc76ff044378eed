//! Each row of the tables of the freeze.

use api::migrate::names::RUN as RUN_ANNOTATION;
use rstest::rstest;

use super::*;
use crate::record::capture::{Capture, CapturedObjects, compare};
use crate::record::lock::{LockIdentity, LockPhase};

const RUN: &str = "0123abcd-run";
const HASH: &str = "template";

fn document<K: k8s_openapi::Resource>(fields: Value) -> Document<K> {
    Document::read(fields).expect("it is of this kind")
}

/// Metadata with the marker of this run.
fn marked(name: &str) -> Value {
    json!({"name": name, "namespace": "shop", "uid": name, "resourceVersion": "7",
        "annotations": {RUN_ANNOTATION: RUN}})
}

fn plain(name: &str) -> Value {
    json!({"name": name, "namespace": "shop", "uid": name, "resourceVersion": "7"})
}

fn packed() -> PackedCapture {
    let objects = CapturedObjects {
        stateful_set: json!({"kind": "StatefulSet", "metadata": plain("web")}),
        ..CapturedObjects::default()
    };
    Capture::new(RUN, objects).pack().expect("it is small")
}

/// Everything that a freeze needs, as it is once the freeze is complete.
struct Complete {
    owner: OwnerReference,
    copies: CaptureCopies,
    capture: Option<PackedCapture>,
    locks: Vec<LockState>,
    set: Option<Document<StatefulSet>>,
    orphans: bool,
    orphan_started: bool,
    source_uid: Option<&'static str>,
    template: &'static str,
    claims: Vec<Document<PersistentVolumeClaim>>,
    volumes: Vec<Document<PersistentVolume>>,
    pairs: Vec<NewPair>,
    new_set: New<StatefulSet>,
}

impl Complete {
    fn new() -> Self {
        Self {
            owner: OwnerReference::default(),
            copies: CaptureCopies::Ours(packed()),
            capture: None,
            locks: Side::BOTH
                .map(|side| lock_state(side, LockAction::Nothing))
                .into(),
            set: Some(document(
                json!({"metadata": marked("web"), "spec": {"replicas": 3}}),
            )),
            template: HASH,
            orphans: false,
            orphan_started: false,
            source_uid: Some("web"),
            claims: vec![document(json!({"metadata": plain("data-web-0")}))],
            volumes: vec![document(json!({
                "metadata": marked("pv-0"), "spec": {"persistentVolumeReclaimPolicy": "Retain"},
            }))],
            pairs: vec![NewPair {
                volume: new("pv-0", "PersistentVolume"),
                claim: new("data-web-0", "PersistentVolumeClaim"),
            }],
            new_set: new("web", "StatefulSet"),
        }
    }

    fn decide(&self) -> String {
        self.with(|freeze| summary(&next(freeze)))
    }

    fn with<T>(&self, decide: impl FnOnce(&Freeze<'_>) -> T) -> T {
        decide(&Freeze {
            run: RUN,
            namespace: "ops",
            source_namespace: "shop",
            owner: Some(&self.owner),
            copies: &self.copies,
            orphans: self.orphans,
            orphan_started: self.orphan_started,
            source_uid: self.source_uid,
            capture: self.capture.as_ref(),
            locks: &self.locks,
            set: self.set.as_ref(),
            captured_template: Some(HASH),
            template: self.template,
            claims: &self.claims,
            volumes: &self.volumes,
            pairs: &self.pairs,
            new_set: &self.new_set,
        })
    }
}

fn summary(decision: &Decision) -> String {
    match decision {
        Decision::Done => "done".to_owned(),
        Decision::Act(step) => format!("act {step}"),
        Decision::Wait(wait) => format!("wait {} {}", wait.step, wait.reason),
        Decision::Hold(hold) => format!("hold {}", hold.reason),
        other @ (Decision::ReadDisks { .. }
        | Decision::ReadSnapshots { .. }
        | Decision::Fail(_)) => {
            panic!("a freeze does none of these: {other:?}")
        }
    }
}

fn new<K: k8s_openapi::Resource>(name: &str, kind: &str) -> New<K> {
    let wanted = json!({"kind": kind, "apiVersion": K::API_VERSION, "metadata": marked(name),
        "spec": {"a": 1, "replicas": 0}});
    let mut live = wanted.clone();
    live["status"] = json!({"phase": "Bound"});
    New {
        wanted: document(wanted),
        live: Some(document(live)),
    }
}

fn lock_state(side: Side, action: LockAction) -> LockState {
    LockState {
        side,
        wanted: Lock {
            identity: LockIdentity {
                run_id: RUN.to_owned(),
                cluster: "cluster".to_owned(),
                object: "ops/move".to_owned(),
            },
            phase: LockPhase::Active,
            spec: String::new(),
            journal: String::new(),
        },
        found: Some(Version::default()),
        action,
        namespace: "shop".to_owned(),
        set: "web".to_owned(),
    }
}

fn changed(change: impl FnOnce(&mut Complete)) -> String {
    let mut all = Complete::new();
    change(&mut all);
    all.decide()
}

#[test]
fn a_complete_freeze_is_done() {
    assert_eq!(Complete::new().decide(), "done");
}

fn secret_name() -> String {
    packed().name()
}

#[rstest]
#[case::first_beside_the_migration(
    format!("act capture: create Secret {} beside the migration", secret_name()), |all: &mut Complete| {
    all.copies = CaptureCopies::Missing;
    all.capture = Some(packed());
})]
#[case::then_in_the_source(
    format!("act capture: create Secret {} in the source", secret_name()), |all: &mut Complete| {
    all.copies = CaptureCopies::LoneCopy { missing: CopyLocation::InSource, capture: packed() };
})]
#[case::a_lost_copy_comes_back(
    format!("act capture: create Secret {} beside the migration", secret_name()), |all: &mut Complete| {
    all.copies = CaptureCopies::LoneCopy { missing: CopyLocation::BesideObject, capture: packed() };
})]
#[case::both_lost_is_held("hold DestinationConflict".to_owned(), |all: &mut Complete| {
    all.copies = CaptureCopies::Missing;
})]
#[case::another_secret_is_held("hold DestinationConflict".to_owned(), |all: &mut Complete| {
    let foreign = k8s_openapi::api::core::v1::Secret::default();
    all.copies = compare(Some(&foreign), None, RUN, None);
})]
#[case::an_edit_after_it_is_held("hold SourceEdited".to_owned(), |all: &mut Complete| {
    all.template = "edited";
})]
fn the_source_is_captured_twice(
    #[case] expected: String,
    #[case] change: impl FnOnce(&mut Complete),
) {
    assert_eq!(changed(change), expected);
}

#[test]
fn a_hold_about_an_edit_names_the_field() {
    let mut all = Complete::new();
    let captured = packed().into_capture();
    let mut edited = captured.stateful_set().clone();
    edited["spec"]["serviceName"] = "other".into();
    all.set = Some(document(edited));
    all.source_uid = None;
    all.template = "edited";
    let message = all.with(|freeze| match next(freeze) {
        Decision::Hold(hold) => hold.message,
        other => panic!("{other:?}"),
    });
    assert!(
        message.contains(r#"(/spec/serviceName: absent -> "other")"#),
        "{message}"
    );
}

#[rstest]
#[case::missing_is_created(
    "act lock: create ConfigMap stsm-web in the source",
    LockAction::Create
)]
#[case::outdated_is_rewritten(
    "act lock: change  of ConfigMap stsm-web in the source",
    LockAction::Rewrite
)]
#[case::lost_is_held("hold LockLost", LockAction::Lost)]
fn a_lock_is_acquired(#[case] expected: &str, #[case] action: LockAction) {
    let decided = changed(|all| all.locks[0].action = action);
    if expected.starts_with("act lock: change") {
        assert!(decided.starts_with("act lock: change"), "{decided}");
    } else {
        assert_eq!(decided, expected);
    }
}

#[test]
fn the_lock_of_the_source_comes_first() {
    let decided = changed(|all| {
        all.locks
            .iter_mut()
            .for_each(|lock| lock.action = LockAction::Create);
    });
    assert_eq!(decided, "act lock: create ConfigMap stsm-web in the source");
    let decided = changed(|all| all.locks[1].action = LockAction::Create);
    assert_eq!(
        decided,
        "act lock: create ConfigMap stsm-web in the destination"
    );
}

#[rstest]
#[case::unmarked_is_marked(
    "act lock: change metadata.annotations of StatefulSet web in the source",
    Some(plain("web"))
)]
#[case::vanished_is_held("hold SourceVanished", None)]
fn the_set_of_the_source_is_marked(#[case] expected: &str, #[case] metadata: Option<Value>) {
    let decided = changed(|all| {
        all.set = metadata.map(|metadata| document(json!({"metadata": metadata})));
    });
    assert_eq!(decided, expected);
}

/// Metadata with the marker of another run, and further fields.
fn of_another_run(name: &str, fields: &Value) -> Value {
    let mut metadata = marked(name);
    metadata["annotations"][RUN_ANNOTATION] = "other".into();
    crate::migration::preview::merge(&mut metadata, fields);
    metadata
}

#[rstest]
#[case::under_way(json!({}), "hold LockLost")]
#[case::arrived_by_that_run(
    json!({"annotations": {MIGRATED_FROM: "shop/web"}}),
    "act lock: change metadata.annotations of StatefulSet web in the source"
)]
fn a_set_of_another_run_is_held_unless_it_has_arrived(
    #[case] fields: Value,
    #[case] expected: &str,
) {
    let metadata = of_another_run("web", &fields);
    let decided = changed(|all| all.set = Some(document(json!({"metadata": metadata}))));
    assert_eq!(decided, expected);
}

#[rstest]
#[case::under_way(json!({}), "hold LockLost")]
#[case::arrived_by_that_run(
    json!({"labels": {MIGRATED_LABEL: "true"}}),
    "act protect: change metadata.annotations, spec.persistentVolumeReclaimPolicy of PersistentVolume pv-0 in the source"
)]
fn a_volume_of_another_run_is_held_unless_it_has_arrived(
    #[case] fields: Value,
    #[case] expected: &str,
) {
    let metadata = of_another_run("pv-0", &fields);
    let spec = json!({"persistentVolumeReclaimPolicy": "Retain"});
    let decided = changed(|all| {
        all.volumes = vec![document(json!({"metadata": metadata, "spec": spec}))];
    });
    assert_eq!(decided, expected);
}

#[rstest]
#[case::kept_by_the_server_without_the_field(json!({}), "done")]
#[case::retained(json!({"whenDeleted": "Retain", "whenScaled": "Retain"}), "done")]
#[case::deleted_with_the_set(
    json!({"whenDeleted": "Delete", "whenScaled": "Retain"}),
    "act protect: change spec.persistentVolumeClaimRetentionPolicy of StatefulSet web in the source"
)]
#[case::deleted_when_scaled(
    json!({"whenDeleted": "Retain", "whenScaled": "Delete"}),
    "act protect: change spec.persistentVolumeClaimRetentionPolicy of StatefulSet web in the source"
)]
fn claims_outlive_the_set(#[case] policy: Value, #[case] expected: &str) {
    let spec = match &policy {
        Value::Object(fields) if fields.is_empty() => json!({}),
        policy => json!({"persistentVolumeClaimRetentionPolicy": policy}),
    };
    let decided = changed(|all| {
        all.set = Some(document(json!({"metadata": marked("web"), "spec": spec})));
    });
    assert_eq!(decided, expected);
}

#[rstest]
#[case::of_the_set("StatefulSet", true)]
#[case::of_a_pod("Pod", true)]
#[case::of_a_database("Database", false)]
fn a_claim_has_no_owner_that_takes_it_along(#[case] kind: &str, #[case] is_removed: bool) {
    let mut metadata = plain("data-web-0");
    metadata["ownerReferences"] = json!([{"kind": kind, "uid": "u"}]);
    let decided = changed(|all| all.claims = vec![document(json!({"metadata": metadata}))]);
    let removal = "act protect: change metadata.ownerReferences of PersistentVolumeClaim data-web-0 in the source";
    assert_eq!(decided, if is_removed { removal } else { "done" });
}

#[rstest]
#[case::retained_and_marked(marked("pv-0"), "Retain", true)]
#[case::deleted_with_its_claim(marked("pv-0"), "Delete", false)]
#[case::not_marked(plain("pv-0"), "Retain", false)]
fn a_volume_is_retained_and_marked(
    #[case] metadata: Value,
    #[case] policy: &str,
    #[case] is_done: bool,
) {
    let decided = changed(|all| {
        let spec = json!({"persistentVolumeReclaimPolicy": policy});
        all.volumes = vec![document(json!({"metadata": metadata, "spec": spec}))];
    });
    let protects = "act protect: change metadata.annotations, spec.persistentVolumeReclaimPolicy of \
                    PersistentVolume pv-0 in the source";
    assert_eq!(decided, if is_done { "done" } else { protects });
}

#[rstest]
#[case::volume_first("act hydrate: create PersistentVolume pv-0 in the destination", |all: &mut Complete| {
    all.pairs[0].volume.live = None;
    all.pairs[0].claim.live = None;
    all.new_set.live = None;
})]
#[case::then_claim("act hydrate: create PersistentVolumeClaim data-web-0 in the destination",
    |all: &mut Complete| {
    all.pairs[0].claim.live = None;
    all.new_set.live = None;
})]
#[case::then_bound("wait hydrate ClaimUnbound", |all: &mut Complete| {
    all.pairs[0].claim.live = Some(all.pairs[0].claim.wanted.clone());
    all.new_set.live = None;
})]
#[case::then_the_set("act prepare: create StatefulSet web in the destination", |all: &mut Complete| {
    all.new_set.live = None;
})]
fn the_destination_is_prepared_in_order(
    #[case] expected: &str,
    #[case] change: impl FnOnce(&mut Complete),
) {
    assert_eq!(changed(change), expected);
}

#[rstest]
#[case::of_somebody_else(plain("web"), json!({"a": 1, "replicas": 0}), "hold DestinationConflict")]
#[case::edited(marked("web"), json!({"a": 2, "replicas": 0}), "hold DestinationConflict")]
#[case::scaled_already(marked("web"), json!({"a": 1, "replicas": 2}), "hold DestinationDrift")]
#[case::completed_by_the_server(marked("web"), json!({"a": 1, "replicas": 0, "b": 2}), "done")]
fn what_exists_is_compared(#[case] metadata: Value, #[case] spec: Value, #[case] expected: &str) {
    let decided = changed(|all| {
        all.new_set.live = Some(document(json!({"metadata": metadata, "spec": spec})));
    });
    assert_eq!(decided, expected);
}

#[rstest]
#[case::prepared(|_: &mut Complete| {}, "act orphan: delete StatefulSet web in the source, its pods stay")]
#[case::not_of_this_strategy(|all: &mut Complete| all.orphans = false, "done")]
#[case::a_lone_capture(|all: &mut Complete| {
    all.copies = CaptureCopies::LoneCopy { missing: CopyLocation::BesideObject, capture: packed() };
}, "act capture: create Secret stsm-web-0123abcd beside the migration")]
#[case::an_owned_claim(|all: &mut Complete| {
    let mut claim = json!({"metadata": plain("data-web-0")});
    claim["metadata"]["ownerReferences"] = json!([{"kind": "StatefulSet", "name": "web", "uid": "web"}]);
    all.claims = vec![document(claim)];
}, "act protect: change metadata.ownerReferences of PersistentVolumeClaim data-web-0 in the source")]
#[case::not_prepared(|all: &mut Complete| all.new_set.live = None,
    "act prepare: create StatefulSet web in the destination")]
#[case::gone_unasked(|all: &mut Complete| all.set = None, "hold SourceVanished")]
#[case::being_deleted_unasked(|all: &mut Complete| all.set = Some(ending()), "hold SourceVanished")]
#[case::created_again(|all: &mut Complete| all.source_uid = Some("former"), "hold SourceRecreated")]
#[case::announced(|all: &mut Complete| all.orphan_started = true,
    "act orphan: delete StatefulSet web in the source, its pods stay")]
#[case::being_deleted(|all: &mut Complete| {
    all.orphan_started = true;
    all.set = Some(ending());
}, "wait orphan DeletionPending")]
#[case::gone(|all: &mut Complete| {
    all.orphan_started = true;
    all.set = None;
    all.template = "";
}, "done")]
fn a_source_is_orphaned_last(#[case] change: impl FnOnce(&mut Complete), #[case] expected: &str) {
    let mut all = Complete {
        orphans: true,
        ..Complete::new()
    };
    change(&mut all);
    assert_eq!(all.decide(), expected);
}

fn ending() -> Document<StatefulSet> {
    let mut set = json!({"metadata": marked("web"), "spec": {"replicas": 3}});
    set["metadata"]["deletionTimestamp"] = "2030-01-01T00:00:00Z".into();
    document(set)
}
