//! A StatefulSet in the middle of its migration, for tests.

use std::collections::BTreeMap;
use std::time::Duration;

use api::migrate::names::TOMBSTONE_LABEL;
use api::migrate::{
    CaptureRecord, Location, OrdinalRecord, StatefulSetMigrationSpec, StatefulSetMigrationStatus,
    StepName, Strategy,
};
use jiff::Timestamp;
use kernel::Ownership;
use serde_json::{Value, json};

use super::handover::HandoverClaim;
use super::observation::{
    AttachmentState, ClaimReference, ClaimState, DiskAttachment, DiskRead, DiskState, NodeState,
    Observation, PodState, SetState, Side, Version, VolumePhase, VolumeState,
};
use crate::record::lock::{ForeignLock, LockOwnership};
use crate::translate::window::Window;

pub(super) const CLAIM: &str = "data-web-1";
pub(super) const DISK: &str = "vol-1";
pub(super) const ORDINAL: i32 = 1;
pub(super) const WINDOW: Window = Window {
    start: 0,
    replicas: 3,
};

pub(super) fn at(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

pub(super) fn claim() -> HandoverClaim {
    let tombstone = |side: &str| json!({"metadata": {"name": CLAIM, "labels": {TOMBSTONE_LABEL: "true"}}, "of": side});
    HandoverClaim {
        name: CLAIM.to_owned(),
        disk: DISK.to_owned(),
        source_volume: "pv-source".to_owned(),
        destination_volume: "pv-dest".to_owned(),
        source_tombstone: tombstone("source"),
        destination_tombstone: tombstone("destination"),
        restored: json!({"metadata": {"name": CLAIM}, "restored": true}),
    }
}

pub(super) fn set(uid: &str, start: i32, replicas: i32) -> SetState {
    SetState {
        version: version(uid),
        ordinals_start: Some(start),
        replicas,
        ownership: Ownership::Ours,
        is_terminating: false,
        template_hash: String::new(),
        edits: String::new(),
        retains_claims: true,
        min_ready: Duration::from_secs(10),
    }
}

pub(super) fn version(uid: &str) -> Version {
    Version {
        uid: uid.to_owned(),
        version: "7".to_owned(),
    }
}

pub(super) fn pod(uid: &str, set: &str) -> PodState {
    PodState {
        version: version(uid),
        controller: Some(set.to_owned()),
        ready_since: Some(Timestamp::UNIX_EPOCH),
        node: Some("node-a".to_owned()),
        claims: vec![CLAIM.to_owned()],
        ..PodState::default()
    }
}

pub(super) fn live_claim(uid: &str, volume: &str) -> ClaimState {
    ClaimState {
        version: version(uid),
        ownership: Ownership::Unmarked,
        is_tombstone: false,
        volume: Some(volume.to_owned()),
        is_bound: true,
        is_terminating: false,
        owners: Vec::new(),
    }
}

pub(super) fn tombstone() -> ClaimState {
    ClaimState {
        ownership: Ownership::Ours,
        is_tombstone: true,
        is_bound: false,
        volume: Some("fenced-0123-1".to_owned()),
        ..live_claim("tombstone", "")
    }
}

pub(super) fn volume(phase: VolumePhase, claim: Option<&str>) -> VolumeState {
    VolumeState {
        version: version("pv"),
        ownership: Ownership::Ours,
        disk: Some(DISK.to_owned()),
        phase,
        is_retained: true,
        claim: Some(ClaimReference {
            namespace: "shop".to_owned(),
            name: CLAIM.to_owned(),
            uid: claim.map(str::to_owned),
        }),
        moved_to: None,
        has_provisioner_finalizer: false,
        is_terminating: false,
    }
}

pub(super) fn read(began: u64, instances: &[(&str, &str)]) -> DiskRead {
    let attachments = instances.iter().map(|(instance, state)| DiskAttachment {
        instance: (*instance).to_owned(),
        device: "/dev/xvda".to_owned(),
        state: (*state).to_owned(),
    });
    let state = if instances.is_empty() {
        "available"
    } else {
        "in-use"
    };
    DiskRead {
        disk: Some(DiskState {
            state: state.to_owned(),
            attachments: attachments.collect(),
            tags: BTreeMap::new(),
        }),
        began: at(began),
    }
}

pub(super) fn node(instance: &str, disks: &[&str]) -> NodeState {
    NodeState {
        instance: Some(instance.to_owned()),
        is_ready: true,
        disks_in_use: disks.iter().map(|disk| (*disk).to_owned()).collect(),
        ..NodeState::default()
    }
}

/// Ordinal 0 has moved; ordinal 1 runs in the source.
pub(super) fn running() -> Observation {
    let mut all = Observation {
        is_live: true,
        ..Observation::default()
    };
    let of_ordinal_2 = PodState {
        claims: vec!["data-web-2".to_owned()],
        ..pod("pod-2", "set-source")
    };
    let source = &mut all.source;
    source.set = Some(set("set-source", 1, 2));
    source.pods.insert("web-1".into(), pod("pod", "set-source"));
    source.pods.insert("web-2".into(), of_ordinal_2);
    source
        .claims
        .insert(CLAIM.into(), live_claim("claim", "pv-source"));
    source.volumes.insert(
        "pv-source".into(),
        volume(VolumePhase::Bound, Some("claim")),
    );
    source
        .nodes
        .insert("node-a".into(), node("i-source", &[DISK]));
    source.attachments.push(AttachmentState {
        volume: "pv-source".into(),
        node: "node-a".into(),
    });
    let destination = &mut all.destination;
    destination.set = Some(set("set-dest", 0, 1));
    destination.claims.insert(
        CLAIM.into(),
        ClaimState {
            ownership: Ownership::Ours,
            ..live_claim("claim-dest", "pv-dest")
        },
    );
    destination.volumes.insert(
        "pv-dest".into(),
        volume(VolumePhase::Bound, Some("claim-dest")),
    );
    destination
        .nodes
        .insert("node-d".into(), node("i-dest", &[]));
    all.disks
        .insert(DISK.into(), read(1, &[("i-source", "attached")]));
    all
}

pub(super) fn foreign_lock() -> LockOwnership {
    LockOwnership::Foreign(ForeignLock {
        holder: RUN.to_owned(),
        object: "ops/move".to_owned(),
        cluster: "another management cluster".to_owned(),
    })
}

pub(super) const RUN: &str = "0123-run";

/// Ordinal 0 has moved, ordinal 1 is at `step`, ordinal 2 has not begun.
pub(super) fn record(location: Location, step: StepName) -> StatefulSetMigrationStatus {
    let ordinal = |ordinal, location, step| OrdinalRecord {
        ordinal,
        location,
        step,
        ..OrdinalRecord::default()
    };
    StatefulSetMigrationStatus {
        started: true,
        strategy: Some(Strategy::Window),
        source_cluster_uid: Some("cluster-source".to_owned()),
        dest_cluster_uid: Some("cluster-dest".to_owned()),
        source_stateful_set_uid: Some("set-source".to_owned()),
        window: Some(api::migrate::Window {
            start: 0,
            replicas: 3,
            had_ordinals: false,
        }),
        capture: Some(CaptureRecord {
            dest_template_sha256: Some("template-dest".to_owned()),
            template_sha256: "template".to_owned(),
            ..CaptureRecord::default()
        }),
        ordinals: vec![
            ordinal(0, Location::Destination, None),
            ordinal(1, location, Some(step)),
            ordinal(2, Location::Source, None),
        ],
        ..StatefulSetMigrationStatus::default()
    }
}

/// Both clusters, with these windows.
pub(super) fn observed(source: (i32, i32), destination: (i32, i32)) -> Observation {
    let mut all = running();
    all.source.identity = Some("cluster-source".to_owned());
    all.destination.identity = Some("cluster-dest".to_owned());
    for side in Side::BOTH {
        all.cluster_mut(side).lock = LockOwnership::Ours;
    }
    let mut live = set("set-source", source.0, source.1);
    live.template_hash = "template".to_owned();
    all.source.set = Some(live);
    let mut live = set("set-dest", destination.0, destination.1);
    live.template_hash = "template-dest".to_owned();
    all.destination.set = Some(live);
    all
}

pub(super) fn spec(fields: &Value) -> StatefulSetMigrationSpec {
    let mut spec = json!({
        "migrationId": "m",
        "sourceCluster": {"kubeConfigSecret": "a"},
        "destCluster": {"kubeConfigSecret": "b"},
        "sourceNamespace": "shop",
        "destNamespace": "shop",
        "statefulSetName": "web",
    });
    for (field, value) in fields.as_object().into_iter().flatten() {
        spec[field] = value.clone();
    }
    serde_json::from_value(spec).expect("it is a spec")
}
