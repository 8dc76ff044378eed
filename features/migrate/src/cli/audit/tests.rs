//! What the audit finds, and what may go.

use api::migrate::names::{
    MIGRATED_FROM, MIGRATED_LABEL, MOVED_TO, RUN as RUN_KEY, SOURCE_PVC_LABEL, TOMBSTONE_LABEL,
    VOLUME_ID,
};
use engine::cli::Outcome;
use rstest::rstest;
use serde_json::{Value, json};

use super::*;
use crate::cli::journal::found_lock;
use crate::cli::tests::migration;
use crate::migration::observation::{DiskAttachment, DiskRead, DiskState};

const RUN: &str = "0f2b1f0e-6f0a";
const DISK: &str = "vol-0000000a";

/// A run that ended with fences: the StatefulSet of the source is gone, the disk of ordinal 1 is in use at the
/// destination.
fn moved() -> AuditReads {
    let mut reads = AuditReads {
        management: "here".to_owned(),
        migrations: vec![migration(
            json!({}),
            json!({"runId": RUN, "phase": "Completed"}),
        )],
        ..AuditReads::default()
    };
    reads.source.claims = vec![tombstone("data-web-1", 1)];
    reads.source.volumes = vec![volume("pv-source", "shop", json!({}), "Released")];
    let made = json!({"labels": {MIGRATED_LABEL: "true"}, "annotations": {RUN_KEY: RUN}});
    reads.destination.volumes = vec![volume("pv-dest", "store", made, "Bound")];
    reads.destination.nodes = vec![json!({
        "metadata": {"name": "node-b"}, "spec": {"providerID": "aws:///eu-west-1a/i-b"},
    })];
    reads.disks = [(DISK.to_owned(), read(Some("i-b")))].into();
    reads
}

fn tombstone(name: &str, ordinal: i32) -> Value {
    json!({
        "metadata": {
            "name": name, "namespace": "shop", "uid": "t", "resourceVersion": "5",
            "labels": {TOMBSTONE_LABEL: "true"}, "annotations": {RUN_KEY: RUN},
        },
        "spec": {"volumeName": format!("fenced-0f2b1f0e-{ordinal}")},
    })
}

fn volume(name: &str, namespace: &str, metadata: Value, phase: &str) -> Value {
    let mut metadata = metadata;
    metadata["name"] = json!(name);
    metadata["uid"] = json!(format!("uid-{name}"));
    metadata["resourceVersion"] = json!("6");
    json!({
        "metadata": metadata,
        "spec": {
            "csi": {"driver": "ebs.csi.aws.com", "volumeHandle": DISK},
            "persistentVolumeReclaimPolicy": "Retain",
            "claimRef": {"namespace": namespace, "name": "data-web-1", "uid": "old"},
        },
        "status": {"phase": phase},
    })
}

fn read(instance: Option<&str>) -> DiskRead {
    let attachments = instance.map(|instance| DiskAttachment {
        instance: instance.to_owned(),
        device: "/dev/xvda".to_owned(),
        state: "attached".to_owned(),
    });
    let state = if instance.is_some() {
        "in-use"
    } else {
        "available"
    };
    DiskRead {
        disk: Some(DiskState {
            state: state.to_owned(),
            attachments: attachments.into_iter().collect(),
            tags: std::collections::BTreeMap::new(),
        }),
        began: std::time::Duration::ZERO,
    }
}

fn set(start: i32, replicas: i32) -> Value {
    json!({
        "metadata": {"name": "web", "namespace": "shop"},
        "spec": {
            "replicas": replicas, "ordinals": {"start": start},
            "volumeClaimTemplates": [{"metadata": {"name": "data"}}],
        },
    })
}

fn lock(holder: &str, cluster: &str, window: Value) -> crate::cli::journal::FoundLock {
    let claim = json!({
        "name": "data-web-1", "sourcePV": "pv-source", "sourcePVUID": "u", "reclaimPolicy": "Delete",
        "volumeId": DISK,
    });
    let ordinal = json!({"ordinal": 1, "place": "Destination", "claims": [claim]});
    let mut record = json!({"currentIndex": 1, "ordinals": [ordinal]});
    if !window.is_null() {
        record["window"] = window;
    }
    let journal = json!({"version": 1, "record": record}).to_string();
    let object = json!({
        "metadata": {"name": "stsm-web", "namespace": "shop", "uid": "l", "resourceVersion": "8"},
        "data": {"holder": holder, "object": "ops/move-web", "managementCluster": cluster, "journal": journal},
    });
    found_lock(Side::Source, "shop", object)
}

fn fence(reads: &AuditReads, by_hand: bool) -> String {
    let all = leftovers(reads, by_hand);
    all[0].verdict.to_string()
}

fn with(change: impl FnOnce(&mut AuditReads)) -> AuditReads {
    let mut reads = moved();
    change(&mut reads);
    reads
}

#[rstest]
#[case::its_disk_is_in_use_there(moved(), "may go: disk vol-0000000a is in use in the destination")]
#[case::its_run_goes_on(
    with(|reads| reads.migrations[0].status.as_mut().unwrap().phase = Some(api::migrate::Phase::Finalizing)),
    "stays: its run goes on")]
#[case::its_run_is_lost(with(|reads| reads.migrations.clear()), "may go: ")]
#[case::its_run_is_elsewhere(
    with(|reads| {
        reads.migrations.clear();
        reads.locks = vec![lock(RUN, "there", json!(null))];
    }),
    "stays: its migration is in the cluster with kube-system UID there")]
#[case::the_stateful_set_exists(with(|reads| reads.source.sets = vec![set(0, 1)]), "stays: StatefulSet web exists")]
#[case::another_stateful_set_exists(
    with(|reads| {
        let mut other = set(0, 3);
        other["metadata"]["name"] = json!("web2");
        reads.source.sets = vec![other];
    }),
    "may go: ")]
#[case::its_disk_is_attached_elsewhere(
    with(|reads| reads.disks = [(DISK.to_owned(), read(Some("i-other")))].into()), "stays: disk vol-0000000a is not in use")]
#[case::its_disk_is_free(
    with(|reads| reads.disks = [(DISK.to_owned(), read(None))].into()), "stays: disk vol-0000000a is not in use")]
#[case::its_disk_is_dormant(
    with(|reads| {
        reads.disks = [(DISK.to_owned(), read(None))].into();
        reads.locks = vec![lock(RUN, "here", json!({"start": 0, "replicas": 1, "hadOrdinals": false}))];
    }),
    "may go: disk vol-0000000a is bound in the destination and has no pod")]
#[case::its_disk_is_free_and_its_ordinal_in_the_window(
    with(|reads| {
        reads.disks = [(DISK.to_owned(), read(None))].into();
        reads.locks = vec![lock(RUN, "here", json!({"start": 0, "replicas": 2, "hadOrdinals": false}))];
    }),
    "stays: disk vol-0000000a is not in use")]
#[case::its_disk_was_not_read(with(|reads| reads.disks.clear()), "stays: disk vol-0000000a was not read from EC2")]
#[case::its_volume_is_gone(
    with(|reads| reads.source.volumes.clear()), "stays: which disk it fences is not recorded any more")]
#[case::its_volume_is_gone_and_the_journal_knows_its_disk(
    with(|reads| {
        reads.source.volumes.clear();
        reads.locks = vec![lock(RUN, "here", json!(null))];
    }),
    "may go: disk vol-0000000a is in use")]
#[case::its_volume_is_gone_and_the_claim_knows_its_disk(
    with(|reads| {
        reads.source.volumes.clear();
        reads.destination.claims = vec![json!({"metadata": {
            "name": "data-web-1", "namespace": "store",
            "labels": {SOURCE_PVC_LABEL: "data-web-1"}, "annotations": {VOLUME_ID: DISK},
        }})];
    }),
    "may go: disk vol-0000000a is in use")]
#[case::it_is_being_deleted(
    with(|reads| reads.source.claims[0]["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z")),
    "stays: it is being deleted")]
fn a_fence_goes_only_where_it_protects_nothing(#[case] reads: AuditReads, #[case] expected: &str) {
    let verdict = fence(&reads, false);
    assert!(verdict.starts_with(expected), "{verdict}");
}

fn by_hand(change: impl FnOnce(&mut AuditReads)) -> AuditReads {
    with(|reads| {
        reads.source.sets = vec![set(0, 1)];
        reads.destination.volumes.clear();
        reads.disks = [(DISK.to_owned(), read(None))].into();
        change(reads);
    })
}

#[rstest]
#[case::its_disk_is_free(by_hand(|_| ()), "may go: every disk of its ordinal is free")]
#[case::the_stateful_set_is_gone(by_hand(|reads| reads.source.sets.clear()), "may go: every disk")]
#[case::the_stateful_set_wants_it(by_hand(|reads| reads.source.sets = vec![set(0, 2)]), "stays: StatefulSet web wants ordinal 1")]
#[case::its_disk_is_attached(
    by_hand(|reads| reads.disks = [(DISK.to_owned(), read(Some("i-b")))].into()), "stays: disk vol-0000000a is in-use in EC2")]
#[case::its_disk_is_missing(by_hand(|reads| reads.disks.clear()), "stays: disk vol-0000000a was not found in EC2")]
#[case::a_node_has_it_mounted(
    by_hand(|reads| reads.destination.nodes[0]["status"] =
        json!({"volumesInUse": ["kubernetes.io/csi/ebs.csi.aws.com^vol-0000000a"]})),
    "stays: disk vol-0000000a is not free in the destination: node node-b has it mounted")]
#[case::a_volume_attachment_is_left(
    by_hand(|reads| reads.source.attachments = vec![json!({
        "spec": {"source": {"persistentVolumeName": "pv-source"}, "nodeName": "node-a"},
    })]),
    "stays: disk vol-0000000a is not free in the source")]
#[case::a_pod_there_uses_it(
    by_hand(|reads| {
        reads.destination.volumes = vec![volume("pv-dest", "store", json!({}), "Bound")];
        reads.destination.pods = vec![json!({
            "metadata": {"name": "web-1", "namespace": "store"},
            "spec": {"nodeName": "node-b", "volumes": [{"persistentVolumeClaim": {"claimName": "data-web-1"}}]},
        })];
    }),
    "stays: disk vol-0000000a is not free in the destination: pod web-1 uses it")]
#[case::its_volume_is_gone(
    by_hand(|reads| {
        reads.source.volumes.clear();
        reads.locks = vec![lock(RUN, "here", json!(null))];
    }),
    "stays: its volume is gone")]
#[case::its_volume_would_lose_the_disk(
    by_hand(|reads| reads.source.volumes[0]["spec"]["persistentVolumeReclaimPolicy"] = json!("Delete")),
    "stays: the policy of PersistentVolume pv-source is not Retain")]
#[case::another_disk_of_its_ordinal_is_not_free(
    by_hand(|reads| {
        let mut logs = volume("pv-logs", "shop", json!({}), "Released");
        logs["spec"]["csi"]["volumeHandle"] = json!("vol-0000000b");
        logs["spec"]["claimRef"]["name"] = json!("logs-web-1");
        reads.source.volumes.push(logs);
        reads.source.claims.push(tombstone("logs-web-1", 1));
        reads.disks.insert("vol-0000000b".to_owned(), read(Some("i-b")));
    }),
    "stays: disk vol-0000000b is in-use in EC2")]
fn by_hand_a_fence_goes_where_its_disks_are_free(
    #[case] reads: AuditReads,
    #[case] expected: &str,
) {
    let verdict = fence(&reads, true);
    assert!(verdict.starts_with(expected), "{verdict}");
}

#[test]
fn by_hand_the_volume_is_reserved_before_the_fence_goes() {
    let all = leftovers(&by_hand(|_| ()), true);
    let changes: Vec<String> = all[0]
        .changes()
        .unwrap()
        .iter()
        .map(ToString::to_string)
        .collect();
    let expected = [
        "change spec.claimRef of PersistentVolume pv-source in the source",
        "delete PersistentVolumeClaim data-web-1 in the source",
    ];
    assert_eq!(changes, expected);
}

fn left_of(reads: &AuditReads, kind: &str) -> Vec<String> {
    let all = leftovers(reads, false);
    let own = all.iter().filter(|one| one.kind.as_str() == kind);
    own.map(|one| format!("{} {}: {}", one.side, one.object, one.verdict))
        .collect()
}

#[rstest]
#[case::of_a_source_volume_that_is_over(json!({"annotations": {RUN_KEY: RUN}}), &["source PersistentVolume pv-source: may go: its run is over"])]
#[case::that_was_kept(
    json!({"annotations": {MOVED_TO: "uid/store/data-web-1"}}),
    &["source PersistentVolume pv-source: stays: its disk is in use as uid/store/data-web-1"])]
#[case::of_no_run(json!({}), &[])]
fn a_source_volume_with_a_marker_is_left(#[case] metadata: Value, #[case] expected: &[&str]) {
    let reads = with(|reads| {
        reads.source.volumes = vec![volume("pv-source", "shop", metadata, "Released")];
    });
    let found = left_of(&reads, "marker");
    let own: Vec<_> = found
        .iter()
        .filter(|one| one.starts_with("source"))
        .collect();
    assert_eq!(own.len(), expected.len(), "{found:?}");
    for (found, expected) in own.iter().zip(expected) {
        assert!(found.starts_with(expected), "{found}");
    }
}

#[rstest]
#[case::a_source_set(json!({RUN_KEY: RUN}), 1)]
#[case::a_set_that_a_run_made(json!({RUN_KEY: RUN, MIGRATED_FROM: "shop/web"}), 0)]
#[case::a_set_of_no_run(json!({}), 0)]
fn a_source_set_with_a_marker_is_left(#[case] annotations: Value, #[case] count: usize) {
    let reads = with(|reads| {
        let mut set = set(0, 0);
        set["metadata"]["annotations"] = annotations;
        reads.source.sets = vec![set];
    });
    let found = left_of(&reads, "marker");
    let sets = found
        .iter()
        .filter(|one| one.contains("StatefulSet shop/web"))
        .count();
    assert_eq!(sets, count, "{found:?}");
}

#[test]
fn a_disk_that_both_clusters_name_is_reported() {
    let found = left_of(&moved(), "shared disk");
    assert_eq!(found.len(), 1);
    assert!(
        found[0].contains("PersistentVolume pv-source in the source and pv-dest"),
        "{found:?}"
    );
    let gone = with(|reads| reads.source.volumes.clear());
    assert_eq!(left_of(&gone, "shared disk"), Vec::<String>::new());
}

#[test]
fn a_volume_that_a_run_made_is_no_leftover() {
    let gone = with(|reads| reads.source.volumes.clear());
    assert_eq!(left_of(&gone, "marker"), Vec::<String>::new());
}

#[rstest]
#[case::of_a_run_that_is_over(RUN, "here", "may go: its run is over")]
#[case::of_a_lost_run(RUN_OTHER, "here", "may go: its run is lost")]
#[case::of_a_run_elsewhere(RUN_OTHER, "there", "stays: its migration is in the cluster")]
fn a_lock_goes_with_its_run(#[case] run: &str, #[case] cluster: &str, #[case] expected: &str) {
    let reads = with(|reads| reads.locks = vec![lock(run, cluster, json!(null))]);
    let found = left_of(&reads, "lock");
    let expected = format!("source ConfigMap shop/stsm-web: {expected}");
    assert!(found[0].starts_with(&expected), "{found:?}");
}

const RUN_OTHER: &str = "run-2";

#[test]
fn the_records_of_a_run_go_last() {
    let reads = with(|reads| reads.locks = vec![lock(RUN, "here", json!(null))]);
    let kinds: Vec<_> = leftovers(&reads, false)
        .iter()
        .map(|one| one.kind.as_str())
        .collect();
    assert_eq!(kinds.first(), Some(&"fence"));
    assert_eq!(kinds.last(), Some(&"lock"));
}

#[rstest]
#[case::something_is_left(moved(), false, Outcome::DoesNot)]
#[case::nothing_is_left(AuditReads::default(), false, Outcome::Holds)]
#[case::something_was_not_read(
    AuditReads { unread: vec!["disks".to_owned()], ..AuditReads::default() }, false, Outcome::Unknown)]
#[case::all_was_released(with(|reads| reads.destination.volumes.clear()), true, Outcome::Holds)]
fn the_outcome_is(#[case] reads: AuditReads, #[case] is_released: bool, #[case] expected: Outcome) {
    let found = leftovers(&reads, false);
    let released = found
        .iter()
        .filter(|_| is_released)
        .map(Leftover::identity)
        .collect();
    assert_eq!(answer(&found, &reads, &released).outcome, expected);
}
