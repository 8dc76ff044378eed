//! Which ordinals stay, and the StatefulSet that is created for them.

use api::migrate::StepName;
use rstest::rstest;

use super::*;
use crate::migration::fixture::{observed, pod, record, set, version};

fn alone(location: Location, step: StepName) -> (StatefulSetMigrationStatus, Observation) {
    let mut record = record(location, step);
    record.orphan_started = true;
    let mut all = observed((1, 2), (0, 1));
    all.source.set = None;
    (record, all)
}

#[rstest]
#[case::not_begun(Location::Source, StepName::Gate, |_: &mut Observation| {}, (1, 2))]
#[case::released_and_alive(Location::Moving, StepName::Release, |_: &mut Observation| {}, (1, 2))]
#[case::released_and_ending(Location::Moving, StepName::Release, |all: &mut Observation| {
    all.source.pods.get_mut("web-1").expect("it runs").is_terminating = true;
}, (2, 1))]
#[case::gone(Location::Moving, StepName::Gone, |all: &mut Observation| {
    all.source.pods.remove("web-1");
}, (2, 1))]
#[case::alive_but_wanted_elsewhere(Location::Moving, StepName::Release, |all: &mut Observation| {
    all.destination.set = Some(set("set-dest", 0, 2));
}, (2, 1))]
#[case::another_pod_of_the_name(Location::Moving, StepName::Release, |all: &mut Observation| {
    all.source.pods.insert("web-1".into(), pod("another", "job"));
}, (2, 1))]
fn the_source_keeps_what_has_not_left(
    #[case] location: Location,
    #[case] step: StepName,
    #[case] change: impl FnOnce(&mut Observation),
    #[case] (start, replicas): (i32, i32),
) {
    let (mut record, mut observation) = alone(location, step);
    record.ordinals[1].source_pod_uid = Some("pod".to_owned());
    change(&mut observation);
    assert_eq!(
        super::remaining(&record, &observation, "web"),
        Some(Window { start, replicas })
    );
}

#[rstest]
#[case::deleted_by_the_run(true, false, true)]
#[case::deleted_by_somebody(false, false, false)]
#[case::there(true, true, false)]
fn a_source_is_orphaned_by_the_run_alone(
    #[case] has_intent: bool,
    #[case] is_there: bool,
    #[case] expected: bool,
) {
    let (mut record, mut observation) = alone(Location::Source, StepName::Gate);
    record.orphan_started = has_intent;
    observation.source.set = is_there.then(|| set("set-source", 1, 2));
    assert_eq!(is_orphaned(&record, &observation), expected);
}

#[rstest]
#[case::with_our_marker("new", Ownership::Ours, true)]
#[case::the_recorded_one("set-source", Ownership::Ours, false)]
#[case::of_somebody_else("new", Ownership::Unmarked, false)]
fn a_new_set_with_our_marker_is_ours(
    #[case] uid: &str,
    #[case] ownership: Ownership,
    #[case] expected: bool,
) {
    let (record, _) = alone(Location::Source, StepName::Gate);
    let set = SetState {
        ownership,
        version: version(uid),
        ..set("", 0, 3)
    };
    assert_eq!(is_recreated(&record, &set), expected);
}

fn captured() -> Value {
    json!({
        "metadata": {"name": "web", "namespace": "shop", "labels": {"app": "web"}, "uid": "old",
            "resourceVersion": "7", "annotations": {"team": "shop"}, "finalizers": ["a/b"]},
        "spec": {"replicas": 3, "template": {"spec": {}},
            "persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Delete"}},
        "status": {"replicas": 3},
    })
}

#[test]
fn the_whole_set_is_created_as_captured() {
    let expected = json!({
        "apiVersion": "apps/v1", "kind": "StatefulSet",
        "metadata": {"name": "web", "namespace": "shop", "labels": {"app": "web"},
            "annotations": {"team": "shop", RUN: "run-1"}},
        "spec": {"replicas": 3, "template": {"spec": {}},
            "persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Retain", "whenScaled": "Retain"}},
    });
    assert_eq!(recreated(&captured(), "run-1", None), expected);
}

#[test]
fn a_part_of_the_set_begins_after_what_has_moved() {
    let window = Window {
        start: 2,
        replicas: 1,
    };
    let set = recreated(&captured(), "run-1", Some(window));
    assert_eq!(set["spec"]["ordinals"], json!({"start": 2}));
    assert_eq!(set["spec"]["replicas"], 1);
}
