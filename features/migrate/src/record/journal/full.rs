//! How large the journal of a run becomes, before the run begins.

use std::collections::BTreeMap;

use api::migrate::names::{EBS_CLUSTER_NAME_TAG, EBS_CLUSTER_TAG, KUBERNETES_CLUSTER_TAG_PREFIX};
use api::migrate::{
    CaptureRecord, ClaimRecord, FailReason, HoldReason, HoldRecord, Intent, Location, MigratedPod,
    MoveTimes, NodeRecord, OrdinalRecord, Phase, Segments, StatefulSetMigrationSpec,
    StatefulSetMigrationStatus, StepName, Strategy, Window,
};
use jiff::Timestamp;
use k8s_openapi::api::apps::v1::StatefulSetPersistentVolumeClaimRetentionPolicy;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, Time};

use super::Journal;

const UID: &str = "00000000-0000-0000-0000-000000000000";
const INSTANCE: &str = "i-00000000000000000";
const SNAPSHOT: &str = "snap-00000000000000000";
const ZONE: &str = "ap-northeast-1-wl1-nrt-wlz-1";
/// Longer than the names that EC2 gives to nodes.
const NODE_NAME_LENGTH: usize = 80;
/// Longer than any token of ours.
const TOKEN_LENGTH: usize = 64;
const ATTEMPTS: i32 = 1_000_000;
const SECONDS: f64 = 1_234_567.123_456;

/// The bytes of the journal when every field has its longest usual value.
///
/// `status` needs the ordinals with their claims; what the run adds later is filled in.
pub fn full_size(spec: &StatefulSetMigrationSpec, status: &StatefulSetMigrationStatus) -> usize {
    Journal::of(&full_status(spec, status)).render().len()
}

fn full_status(
    spec: &StatefulSetMigrationSpec,
    status: &StatefulSetMigrationStatus,
) -> StatefulSetMigrationStatus {
    let ordinals = status.ordinals.iter();
    let ordinals: Vec<OrdinalRecord> = ordinals.map(|one| full_ordinal(spec, one)).collect();
    let claims = || ordinals.iter().flat_map(|one| &one.claims);
    let uid = || Some(UID.to_owned());
    StatefulSetMigrationStatus {
        phase: Some(Phase::PreFlightChecks),
        current_index: i32::MAX,
        total_replicas: Some(i32::MAX),
        migrated_pods: ordinals.iter().map(|one| full_pod(spec, one)).collect(),
        start_time: Some(Time(Timestamp::UNIX_EPOCH)),
        completion_time: Some(Time(Timestamp::UNIX_EPOCH)),
        source_stateful_set_uid: uid(),
        preserved_pvs: claims().map(|claim| claim.source_pv.clone()).collect(),
        started: true,
        cleanup_started: true,
        orphan_started: true,
        without_ordinals: true,
        rolling_back: true,
        run_id: uid(),
        strategy: Some(Strategy::OrphanAdopt),
        observed_retry: i64::MAX,
        source_cluster_uid: uid(),
        dest_cluster_uid: uid(),
        window: Some(Window {
            start: i32::MAX,
            replicas: i32::MAX,
            had_ordinals: false,
        }),
        retention_policy: Some(StatefulSetPersistentVolumeClaimRetentionPolicy {
            when_deleted: Some("Delete".to_owned()),
            when_scaled: Some("Delete".to_owned()),
        }),
        capture: Some(full_capture()),
        intent: Some(full_intent()),
        hold: Some(HoldRecord {
            reason: HoldReason::DestinationConflict,
            ordinal: Some(i32::MAX),
        }),
        failure: Some(FailReason::PreflightBlocked),
        ordinals,
        ..status.clone()
    }
}

fn full_capture() -> CaptureRecord {
    let hash = || "0".repeat(64);
    CaptureRecord {
        secret: "0".repeat(253),
        sha256: hash(),
        template_sha256: hash(),
        dest_template_sha256: Some(hash()),
    }
}

fn full_intent() -> Intent {
    Intent {
        step: longest_step(),
        ordinal: Some(i32::MAX),
        token: "0".repeat(TOKEN_LENGTH),
        at: MicroTime(Timestamp::UNIX_EPOCH),
    }
}

fn full_pod(spec: &StatefulSetMigrationSpec, record: &OrdinalRecord) -> MigratedPod {
    let volumes = record.claims.iter().map(|claim| claim.volume_id.clone());
    let volumes: Vec<String> = volumes.collect();
    MigratedPod {
        index: record.ordinal,
        pod_name: format!("{}-{}", spec.stateful_set_name, record.ordinal),
        volume_id: volumes.first().cloned().unwrap_or_default(),
        volume_ids: volumes,
        migrated_at: Some(Time(Timestamp::UNIX_EPOCH)),
    }
}

fn full_ordinal(spec: &StatefulSetMigrationSpec, record: &OrdinalRecord) -> OrdinalRecord {
    let time = Some(MicroTime(Timestamp::UNIX_EPOCH));
    let claims = record.claims.iter();
    OrdinalRecord {
        ordinal: record.ordinal,
        location: Location::Destination,
        step: Some(longest_step()),
        attempts: ATTEMPTS,
        source_pod_uid: Some(UID.to_owned()),
        node: Some(NodeRecord {
            name: "0".repeat(NODE_NAME_LENGTH),
            instance: Some(INSTANCE.to_owned()),
            boot_id: Some(UID.to_owned()),
        }),
        dest_pod_uid: Some(UID.to_owned()),
        claims: claims.map(|claim| full_claim(spec, claim)).collect(),
        times: MoveTimes {
            released: time.clone(),
            unready: time.clone(),
            gone: time.clone(),
            detached: time.clone(),
            grown: time.clone(),
            attached: time.clone(),
            ready: time,
        },
        segments: Segments {
            terminate: Some(SECONDS),
            detach: Some(SECONDS),
            handover: Some(SECONDS),
            attach: Some(SECONDS),
            start: Some(SECONDS),
        },
        downtime_seconds: Some(SECONDS),
        last_error: None,
    }
}

fn full_claim(spec: &StatefulSetMigrationSpec, claim: &ClaimRecord) -> ClaimRecord {
    let hash = "0".repeat(8);
    ClaimRecord {
        zone: Some(claim.zone.clone().unwrap_or_else(|| ZONE.to_owned())),
        old_tags: claim.old_tags.clone().or_else(|| full_tags(spec)),
        snapshot_id: Some(SNAPSHOT.to_owned()),
        dest_pv: Some(format!("{}-{hash}", claim.source_pv)),
        dest_pvc_uid: Some(UID.to_owned()),
        ..claim.clone()
    }
}

fn full_tags(spec: &StatefulSetMigrationSpec) -> Option<BTreeMap<String, String>> {
    let (source, dest) = spec.fence_names()?;
    let clusters = [source, dest].map(|name| {
        let key = format!("{KUBERNETES_CLUSTER_TAG_PREFIX}{name}");
        (key, "owned".to_owned())
    });
    let tags = [
        (EBS_CLUSTER_NAME_TAG.to_owned(), source.to_owned()),
        (EBS_CLUSTER_TAG.to_owned(), "true".to_owned()),
    ];
    Some(tags.into_iter().chain(clusters).collect())
}

fn longest_step() -> StepName {
    let longest = StepName::ALL.iter().max_by_key(|step| step.as_str().len());
    *longest.expect("there are steps")
}
