//! Status and record: how they read and write.

use assert_json_diff::assert_json_eq;
use rstest::rstest;
use serde_json::{Value, json};

use super::super::*;
use super::{LEGACY, WHOLE, objects};

fn read_and_written(object: &Value) -> Value {
    let read: StatefulSetMigration = serde_json::from_value(object.clone()).expect("it is read");
    serde_json::to_value(read).expect("JSON")
}

#[test]
fn legacy_objects_read_and_write_back_equal() {
    for legacy in objects(LEGACY) {
        assert_json_eq!(read_and_written(&legacy), legacy);
    }
}

#[test]
fn every_field_reads_and_writes_back_equal() {
    for object in objects(WHOLE) {
        assert_json_eq!(read_and_written(&object), object);
    }
}

#[test]
fn an_empty_status_shows_progress_0_and_nothing_else() {
    let empty = StatefulSetMigrationStatus::default();
    assert_eq!(
        serde_json::to_value(empty).unwrap(),
        json!({"currentIndex": 0})
    );
}

#[test]
fn reports_that_cannot_be_read_are_left_out() {
    let status: StatefulSetMigrationStatus = serde_json::from_value(json!({
        "conditions": ["Ready", {"type": "Complete", "status": "False", "reason": "Pending",
            "message": "", "lastTransitionTime": "2026-01-02T03:04:05Z"}],
        "migratedPods": [7, {"index": 1, "podName": "web-1", "volumeId": "vol-1"}],
        "preflight": {"at": "2026-01-02T03:04:05Z", "checks": [{"id": "OfANewerRelease"}]},
        "fieldOfANewerRelease": 1,
    }))
    .unwrap();
    assert_eq!(status.conditions.len(), 1);
    assert_eq!(status.migrated_pods[0].pod_name, "web-1");
    assert_eq!(status.preflight.unwrap().checks, []);
}

#[rstest]
#[case::phase(json!({"phase": "Dreaming"}))]
#[case::step(json!({"intent": {"step": "dream", "token": "1", "at": "2026-01-02T03:04:05.000000Z"}}))]
#[case::location(json!({"ordinals": [{"ordinal": 0, "place": "Elsewhere"}]}))]
#[case::capture(json!({"capture": {"secret": "s"}}))]
#[case::window(json!({"window": {"start": 0}}))]
fn a_record_that_cannot_be_read_is_not_left_out(#[case] status: Value) {
    assert!(serde_json::from_value::<StatefulSetMigrationStatus>(status).is_err());
}

#[rstest]
#[case::first(5, true)]
#[case::last(7, true)]
#[case::before(4, false)]
#[case::beyond(8, false)]
fn a_window_contains(#[case] ordinal: i32, #[case] expected: bool) {
    let window = Window {
        start: 5,
        replicas: 3,
        had_ordinals: true,
    };
    assert_eq!(window.contains(ordinal), expected);
}

#[test]
fn a_run_is_over_only_in_two_phases() {
    let all = Phase::ALL.iter().copied();
    let over: Vec<_> = all.filter(|phase| phase.is_over()).collect();
    assert_eq!(over, [Phase::Completed, Phase::RolledBack]);
}

#[test]
fn an_ordinal_is_found_by_its_number() {
    let records = [5, 6].map(|ordinal| OrdinalRecord {
        ordinal,
        ..OrdinalRecord::default()
    });
    let mut status = StatefulSetMigrationStatus {
        ordinals: records.into(),
        ..StatefulSetMigrationStatus::default()
    };
    status.ordinal_mut(6).expect("6").location = Location::Destination;
    assert_eq!(
        status.ordinal(6).map(|one| one.location),
        Some(Location::Destination)
    );
    assert_eq!(
        status.ordinal(5).map(|one| one.location),
        Some(Location::Source)
    );
    assert_eq!(status.ordinal(0), None);
}

#[test]
fn tags_that_were_absent_differ_from_tags_never_read() {
    let unread = ClaimRecord::default();
    let none = ClaimRecord {
        old_tags: Some(std::collections::BTreeMap::new()),
        ..ClaimRecord::default()
    };
    let written = |claim: &ClaimRecord| serde_json::to_value(claim).expect("JSON");
    assert_eq!(written(&unread).get("oldTags"), None);
    assert_eq!(written(&none)["oldTags"], json!({}));
}
