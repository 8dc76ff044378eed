//! What is restored and removed at the end of a run.

use api::migrate::names::RUN as RUN_ANNOTATION;
use api::migrate::{ClaimRecord, OrdinalRecord, Window};
use rstest::rstest;

use super::*;
use crate::migration::fixture::{RUN, spec};
use crate::record::lock::{LockIdentity, LockPhase};

fn record(had_ordinals: bool, retention: Option<&str>) -> StatefulSetMigrationStatus {
    let claim = ClaimRecord {
        name: "data-web-0".to_owned(),
        source_pv: "pv-0".to_owned(),
        reclaim_policy: "Delete".to_owned(),
        volume_id: "vol-0".to_owned(),
        ..ClaimRecord::default()
    };
    StatefulSetMigrationStatus {
        window: Some(Window {
            start: 0,
            replicas: 1,
            had_ordinals,
        }),
        retention_policy: retention.map(|policy| {
            serde_json::from_value(json!({"whenDeleted": policy})).expect("it is a policy")
        }),
        ordinals: vec![OrdinalRecord {
            claims: vec![claim],
            ..OrdinalRecord::default()
        }],
        ..StatefulSetMigrationStatus::default()
    }
}

/// Metadata; with the marker of a run if there is one.
fn metadata(name: &str, run: Option<&str>) -> Value {
    json!({"name": name, "uid": name, "resourceVersion": "7", "annotations": {RUN_ANNOTATION: run}})
}

fn set(run: Option<&str>, spec: Value) -> Documents {
    Documents {
        set: Some(json!({"metadata": metadata("web", run), "spec": spec})),
        ..Documents::default()
    }
}

/// A volume that is bound to its claim.
fn volume(run: Option<&str>, policy: &str) -> Documents {
    let csi = json!({"driver": "ebs.csi.aws.com", "volumeHandle": "vol-0"});
    let reference = json!({"name": "data-web-0", "uid": "data-web-0"});
    let spec = json!({"persistentVolumeReclaimPolicy": policy, "csi": csi, "claimRef": reference});
    let bound = json!({"phase": "Bound"});
    Documents {
        volumes: vec![json!({"metadata": metadata("pv-0", run), "spec": spec, "status": bound})],
        claims: vec![json!({"metadata": metadata("data-web-0", None)})],
        ..Documents::default()
    }
}

/// The same with a change.
fn volume_with(change: impl FnOnce(&mut Documents)) -> Documents {
    let mut documents = volume(Some(RUN), "Retain");
    change(&mut documents);
    documents
}

fn patches(settings: &[Setting]) -> Vec<Value> {
    settings
        .iter()
        .map(|setting| setting.patch.clone())
        .collect()
}

fn source_patches(record: &StatefulSetMigrationStatus, source: &Documents) -> Vec<Value> {
    let closing = Closing {
        spec: &spec(&json!({})),
        record,
        run: RUN,
        source,
        destination: &Documents::default(),
    };
    patches(&closing.source_settings())
}

fn destination_patches(
    fields: &Value,
    record: &StatefulSetMigrationStatus,
    destination: &Documents,
) -> Vec<Value> {
    let closing = Closing {
        spec: &spec(fields),
        record,
        run: RUN,
        source: &Documents::default(),
        destination,
    };
    patches(&closing.destination_settings())
}

fn unmarked() -> Value {
    json!({"annotations": {RUN_ANNOTATION: null}})
}

#[rstest]
#[case::as_it_was(false, None, set(None, json!({})), vec![])]
#[case::marked(false, None, set(Some(RUN), json!({})), vec![json!({"metadata": unmarked()})])]
#[case::of_another_run(false, None, set(Some("other"), json!({})), vec![])]
#[case::with_new_ordinals(
    false, None, set(None, json!({"ordinals": {"start": 0}})), vec![json!({"spec": {"ordinals": null}})])]
#[case::with_its_own_ordinals(true, None, set(None, json!({"ordinals": {"start": 0}})), vec![])]
#[case::with_another_policy(
    false,
    Some("Delete"),
    set(None, json!({"persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Retain"}})),
    vec![json!({"spec": {"persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Delete"}}})]
)]
#[case::with_its_own_policy(
    false,
    Some("Delete"),
    set(None, json!({"persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Delete"}})),
    vec![]
)]
#[case::gone(false, Some("Delete"), Documents::default(), vec![])]
fn the_set_of_the_source_gets_its_settings_back(
    #[case] had_ordinals: bool,
    #[case] retention: Option<&str>,
    #[case] source: Documents,
    #[case] expected: Vec<Value>,
) {
    assert_eq!(
        source_patches(&record(had_ordinals, retention), &source),
        expected
    );
}

#[rstest]
#[case::retained_and_marked(
    volume(Some(RUN), "Retain"),
    vec![json!({"metadata": unmarked(), "spec": {"persistentVolumeReclaimPolicy": "Delete"}})]
)]
#[case::marked_alone(volume(Some(RUN), "Delete"), vec![json!({"metadata": unmarked()})])]
#[case::not_of_the_run(volume(None, "Retain"), vec![])]
#[case::marked_as_moved(
    volume_with(|all| all.volumes[0]["metadata"]["annotations"][MOVED_TO] = "there".into()),
    vec![json!({
        "metadata": {"annotations": {RUN_ANNOTATION: null, MOVED_TO: null}},
        "spec": {"persistentVolumeReclaimPolicy": "Delete"},
    })]
)]
fn a_volume_of_the_source_gets_its_policy_back(
    #[case] source: Documents,
    #[case] expected: Vec<Value>,
) {
    assert_eq!(source_patches(&record(false, None), &source), expected);
}

#[rstest]
#[case::bound(|_: &mut Documents| {}, false)]
#[case::released(
    |all: &mut Documents| all.volumes[0]["status"]["phase"] = "Released".into(), true)]
#[case::without_its_claim(|all: &mut Documents| all.claims.clear(), true)]
#[case::with_another_claim_of_the_name(
    |all: &mut Documents| all.claims[0]["metadata"]["uid"] = "another".into(), true)]
#[case::with_a_claim_that_is_being_deleted(
    |all: &mut Documents| all.claims[0]["metadata"]["deletionTimestamp"] = "2030-01-01T00:00:00Z".into(),
    true
)]
fn only_a_bound_volume_gets_a_policy_that_deletes(
    #[case] change: impl FnOnce(&mut Documents),
    #[case] is_held: bool,
) {
    let documents = volume_with(change);
    let closing = Closing {
        spec: &spec(&json!({"destReclaimPolicy": "Restore"})),
        record: &record(false, None),
        run: RUN,
        source: &documents,
        destination: &documents,
    };
    let held = [closing.source_settings(), closing.destination_settings()].map(|settings| {
        let obstacle = settings[0].obstacle.clone();
        obstacle.map(|obstacle| obstacle.reason)
    });
    let reasons = [HoldReason::SourceEdited, HoldReason::DestinationEdited];
    assert_eq!(held, reasons.map(|reason| is_held.then_some(reason)));
}

#[rstest]
#[case::of_the_source(Some("Delete"), json!({}), 1)]
#[case::already_there(Some("Delete"), json!({"whenDeleted": "Delete"}), 0)]
#[case::none(None, json!({}), 0)]
fn the_set_of_the_destination_gets_the_policy(
    #[case] retention: Option<&str>,
    #[case] live: Value,
    #[case] expected: usize,
) {
    let destination = set(
        Some(RUN),
        json!({"persistentVolumeClaimRetentionPolicy": live}),
    );
    let patches = destination_patches(&json!({}), &record(false, retention), &destination);
    assert_eq!(patches.len(), expected, "{patches:?}");
}

#[rstest]
#[case::retained(json!({}), vec![])]
#[case::restored(
    json!({"destReclaimPolicy": "Restore"}),
    vec![json!({"spec": {"persistentVolumeReclaimPolicy": "Delete"}})]
)]
fn volumes_of_the_destination_keep_or_restore_the_policy(
    #[case] fields: Value,
    #[case] expected: Vec<Value>,
) {
    let destination = volume(Some(RUN), "Retain");
    assert_eq!(
        destination_patches(&fields, &record(false, None), &destination),
        expected
    );
}

#[test]
fn the_capture_goes_after_the_locks() {
    let lock = Lock {
        identity: LockIdentity {
            run_id: RUN.to_owned(),
            cluster: "cluster".to_owned(),
            object: "ops/move".to_owned(),
        },
        phase: LockPhase::Active,
        spec: "{}".to_owned(),
        journal: "{}".to_owned(),
    };
    let with_lock = |capture: Option<Value>| Documents {
        lock: serde_json::to_value(lock.config_map("shop", "web")).ok(),
        capture,
        ..Documents::default()
    };
    let source = with_lock(Some(
        json!({"metadata": metadata("stsm-web-0123", Some(RUN))}),
    ));
    let destination = with_lock(None);
    let closing = Closing {
        spec: &spec(&json!({})),
        record: &record(false, None),
        run: RUN,
        source: &source,
        destination: &destination,
    };
    let locks = Side::BOTH.map(|side| (side, lock.clone()));
    let removed = closing.unlock(&locks, LockGoal::Remove);
    let removed: Vec<String> = removed.iter().map(ToString::to_string).collect();
    assert_eq!(removed.len(), 3);
    assert_eq!(removed[0], "delete ConfigMap stsm-web in the destination");
    assert_eq!(removed[1], "delete ConfigMap stsm-web in the source");
    assert!(removed[2].starts_with("delete Secret"), "{removed:?}");
}

#[rstest]
#[case::of_somebody_else(None, None)]
#[case::of_a_run_that_was_restored_elsewhere(Some(RUN), Some("ops/restored"))]
fn a_capture_that_another_one_needs_stays(
    #[case] marker: Option<&str>,
    #[case] holder: Option<&str>,
) {
    let of = |object: &str| Lock {
        identity: LockIdentity {
            run_id: RUN.to_owned(),
            cluster: "cluster".to_owned(),
            object: object.to_owned(),
        },
        phase: LockPhase::Active,
        spec: "{}".to_owned(),
        journal: "{}".to_owned(),
    };
    let source = Documents {
        capture: Some(json!({"metadata": metadata("stsm-web-0123", marker)})),
        lock: holder.map(|holder| json!(of(holder).config_map("shop", "web"))),
        ..Documents::default()
    };
    let closing = Closing {
        spec: &spec(&json!({})),
        record: &record(false, None),
        run: RUN,
        source: &source,
        destination: &Documents::default(),
    };
    let locks = [(Side::Source, of("ops/move"))];
    assert_eq!(closing.unlock(&locks, LockGoal::Remove), []);
}
