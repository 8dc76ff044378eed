//! Records of runs in any state.

use api::migrate::{
    CaptureRecord, ClaimRecord, FailReason, HoldReason, HoldRecord, Intent, Location, MigratedPod,
    MoveTimes, NodeRecord, OrdinalRecord, Phase, Segments, StatefulSetMigrationStatus, StepName,
    Strategy as Procedure, Window,
};
use jiff::Timestamp;
use k8s_openapi::api::apps::v1::StatefulSetPersistentVolumeClaimRetentionPolicy;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, Time};
use proptest::collection::vec;
use proptest::option::of;
use proptest::prelude::*;
use proptest::sample::select;

/// A time of a record: microseconds are all that it has.
pub(super) fn micro_time(micros: i64) -> MicroTime {
    MicroTime(Timestamp::from_microsecond(micros).unwrap())
}

/// What preflight knows of an ordinal.
pub(super) fn before_the_run(record: &OrdinalRecord) -> OrdinalRecord {
    let claims = record.claims.iter().map(|claim| ClaimRecord {
        zone: None,
        old_tags: None,
        snapshot_id: None,
        dest_pv: None,
        dest_pvc_uid: None,
        ..claim.clone()
    });
    OrdinalRecord {
        ordinal: record.ordinal,
        claims: claims.collect(),
        ..OrdinalRecord::default()
    }
}

const TEN_YEARS: i64 = 315_360_000;
const UID: &str = "[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}";

fn time() -> impl Strategy<Value = Time> {
    (0..TEN_YEARS).prop_map(|seconds| Time(Timestamp::from_second(seconds).unwrap()))
}

fn precise_time() -> impl Strategy<Value = MicroTime> {
    (0..TEN_YEARS * 1_000_000).prop_map(micro_time)
}

/// Milliseconds: JSON reads them back exactly.
fn seconds() -> impl Strategy<Value = f64> {
    (0..1_000_000_i32).prop_map(|millis| f64::from(millis) / 1000.0)
}

prop_compose! {
    fn any_claim()(
        (name, source_pv) in ("[a-z]{1,9}-web-0", "pvc-[0-9a-f]{1,36}"),
        (source_pv_uid, volume_id) in (UID, "vol-[0-9a-f]{17}"),
        reclaim_policy in select(vec!["Delete", "Retain"]),
        zone in of("[a-z]{2}-[a-z]{4}-[1-3][a-c]"),
        is_tagged in any::<bool>(),
        (snapshot_id, dest_pvc_uid) in (of("snap-[0-9a-f]{17}"), of(UID)),
        is_hydrated in any::<bool>(),
    ) -> ClaimRecord {
        let old_tags = [("ebs.csi.aws.com/cluster-name", "old"), ("kubernetes.io/cluster/old", "owned")];
        let old_tags = old_tags.map(|(key, value)| (key.to_owned(), value.to_owned()));
        ClaimRecord {
            name,
            dest_pv: is_hydrated.then(|| source_pv.clone()),
            source_pv,
            source_pv_uid,
            reclaim_policy: reclaim_policy.to_owned(),
            volume_id,
            zone,
            old_tags: is_tagged.then(|| old_tags.into()),
            snapshot_id,
            dest_pvc_uid,
        }
    }
}

prop_compose! {
    fn any_times()(times in vec(of(precise_time()), 7)) -> MoveTimes {
        let mut times = times.into_iter();
        let mut next = || times.next().flatten();
        MoveTimes {
            released: next(),
            unready: next(),
            gone: next(),
            detached: next(),
            grown: next(),
            attached: next(),
            ready: next(),
        }
    }
}

prop_compose! {
    fn any_segments()(seconds in vec(of(seconds()), 5)) -> Segments {
        let mut seconds = seconds.into_iter();
        let mut next = || seconds.next().flatten();
        Segments {
            terminate: next(),
            detach: next(),
            handover: next(),
            attach: next(),
            start: next(),
        }
    }
}

prop_compose! {
    fn any_ordinal()(
        ordinal in 0..2000_i32,
        location in select(Location::ALL),
        step in of(select(StepName::ALL)),
        attempts in 0..20_i32,
        (source_pod_uid, dest_pod_uid) in (of(UID), of(UID)),
        node in of(("ip-[0-9-]{8}", of("i-[0-9a-f]{17}"), of(UID))),
        claims in vec(any_claim(), 0..3),
        (times, segments) in (any_times(), any_segments()),
        downtime_seconds in of(seconds()),
        last_error in of("[a-z ]{0,9}"),
    ) -> OrdinalRecord {
        let node = node.map(|(name, instance, boot_id)| NodeRecord { name, instance, boot_id });
        OrdinalRecord {
            ordinal,
            location,
            step,
            attempts,
            source_pod_uid,
            node,
            dest_pod_uid,
            claims,
            times,
            segments,
            downtime_seconds,
            last_error,
        }
    }
}

prop_compose! {
    fn any_intent()(
        step in select(StepName::ALL),
        ordinal in of(0..2000_i32),
        token in "[0-9a-f-]{1,36}",
        at in precise_time(),
    ) -> Intent {
        Intent { step, ordinal, token, at }
    }
}

fn any_retention() -> impl Strategy<Value = StatefulSetPersistentVolumeClaimRetentionPolicy> {
    let choice = || of(select(vec!["Delete".to_owned(), "Retain".to_owned()]));
    (choice(), choice()).prop_map(|(when_deleted, when_scaled)| {
        StatefulSetPersistentVolumeClaimRetentionPolicy {
            when_deleted,
            when_scaled,
        }
    })
}

prop_compose! {
    fn any_capture()(
        secret in "stsm-web-[0-9a-f]{8}",
        sha256 in "[0-9a-f]{64}",
        template_sha256 in "[0-9a-f]{64}",
        dest_template_sha256 in of("[0-9a-f]{64}"),
    ) -> CaptureRecord {
        CaptureRecord { secret, sha256, template_sha256, dest_template_sha256 }
    }
}

/// The ordinals that are at the destination.
fn moved(ordinals: &[OrdinalRecord], at: &Time) -> Vec<MigratedPod> {
    let moved = ordinals.iter();
    let moved = moved.filter(|one| one.location == Location::Destination);
    let moved = moved.map(|one| MigratedPod {
        index: one.ordinal,
        pod_name: format!("web-{}", one.ordinal),
        volume_id: one
            .claims
            .first()
            .map(|claim| claim.volume_id.clone())
            .unwrap_or_default(),
        volume_ids: one
            .claims
            .iter()
            .map(|claim| claim.volume_id.clone())
            .collect(),
        migrated_at: Some(at.clone()),
    });
    moved.collect()
}

prop_compose! {
    /// The status of a run in any state. It has started.
    pub(super) fn any_status(run_id: &'static str)(
        phase in of(select(Phase::ALL)),
        (current_index, total_replicas) in (0..2000_i32, of(0..2000_i32)),
        (start_time, completion_time) in (of(time()), of(time())),
        (source_stateful_set_uid, source_cluster_uid, dest_cluster_uid) in (of(UID), of(UID), of(UID)),
        (cleanup_started, strategy) in (any::<bool>(), of(select(Procedure::ALL))),
        (observed_retry, observed_generation) in (0..99_i64, of(1..99_i64)),
        window in of((0..99_i32, 0..99_i32, any::<bool>())),
        (retention_policy, capture) in (of(any_retention()), of(any_capture())),
        intent in of(any_intent()),
        (hold, failure) in (of((select(HoldReason::ALL), of(0..99_i32))), of(select(FailReason::ALL))),
        (last_error, plan) in (of("[a-z ]{0,9}"), vec("[a-z ]{0,9}", 0..3)),
        ordinals in vec(any_ordinal(), 0..4),
    ) -> StatefulSetMigrationStatus {
        let window = window.map(|(start, replicas, had_ordinals)| Window {
            start,
            replicas,
            had_ordinals,
        });
        let claims = ordinals.iter().flat_map(|one| &one.claims);
        StatefulSetMigrationStatus {
            phase,
            current_index,
            total_replicas,
            migrated_pods: start_time.as_ref().map(|at| moved(&ordinals, at)).unwrap_or_default(),
            preserved_pvs: claims.map(|claim| claim.source_pv.clone()).collect(),
            last_error,
            start_time,
            completion_time,
            source_stateful_set_uid,
            observed_generation,
            started: true,
            cleanup_started,
            run_id: Some(run_id.to_owned()),
            strategy,
            observed_retry,
            source_cluster_uid,
            dest_cluster_uid,
            window,
            retention_policy,
            capture,
            intent,
            hold: hold.map(|(reason, ordinal)| HoldRecord { reason, ordinal }),
            failure,
            plan,
            ordinals,
            ..StatefulSetMigrationStatus::default()
        }
    }
}
