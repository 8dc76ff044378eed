//! Each row of the tables of the end of a rollback.

use rstest::rstest;

use super::*;
use crate::migration::fixture::{CLAIM, claim, live_claim, pod, running, set, tombstone, version};
use crate::migration::observation::{ClaimState, VolumeState};

/// Nothing has moved; the destination is prepared.
fn prepared() -> Observation {
    let mut all = running();
    all.destination.set = Some(set("set-dest", 0, 0));
    all
}

/// The StatefulSet of the destination is deleted.
fn drained() -> Observation {
    let mut all = prepared();
    all.destination.set = None;
    all
}

fn decide(observation: &Observation, extra_claims: &[String]) -> String {
    decide_with(observation, extra_claims, &[], &[])
}

fn decide_with(
    observation: &Observation,
    extra_claims: &[String],
    settings: &[Setting],
    unlock: &[Change],
) -> String {
    let claims = [(1, claim())];
    let undo = Undo {
        set: "web",
        namespace: "shop-new",
        claims: &claims,
        extra_claims,
        settings,
        unlock,
        observation,
    };
    match next(&undo) {
        Decision::Done => "done".to_owned(),
        Decision::Act(step) => format!("act {step}"),
        Decision::Wait(wait) => format!("wait {} {}", wait.step, wait.reason),
        Decision::Hold(hold) => format!("hold {}", hold.reason),
        other @ (Decision::ReadDisks { .. }
        | Decision::ReadSnapshots { .. }
        | Decision::Fail(_)) => panic!("not here: {other:?}"),
    }
}

fn changed(mut observation: Observation, change: impl FnOnce(&mut Observation)) -> Observation {
    change(&mut observation);
    observation
}

#[rstest]
#[case::empty("act r-drain: delete StatefulSet web in the destination", |_: &mut Observation| {})]
#[case::not_of_this_run("hold DestinationConflict", |all: &mut Observation| {
    all.destination.set.as_mut().expect("it exists").ownership = Ownership::Unmarked;
})]
#[case::that_deletes_claims(
    "act r-drain: change spec.persistentVolumeClaimRetentionPolicy of StatefulSet web in the destination",
    |all: &mut Observation| {
        all.destination.set.as_mut().expect("it exists").retains_claims = false;
    })]
#[case::with_replicas("hold DestinationDrift",
    |all: &mut Observation| all.destination.set = Some(set("set-dest", 0, 1)))]
#[case::with_a_pod("wait r-drain PodTerminating",
    |all: &mut Observation| drop(all.destination.pods.insert("web-0".into(), pod("p", "set-dest"))))]
#[case::being_deleted("wait r-drain DeletionPending", |all: &mut Observation| {
    all.destination.set.as_mut().expect("it exists").is_terminating = true;
})]
fn an_empty_set_is_deleted(#[case] expected: &str, #[case] change: impl FnOnce(&mut Observation)) {
    assert_eq!(decide(&changed(prepared(), change), &[]), expected);
}

fn destination_volume(all: &mut Observation) -> &mut VolumeState {
    all.destination
        .volumes
        .get_mut("pv-dest")
        .expect("it exists")
}

const DELETE_CLAIM: &str =
    "act r-clean: delete PersistentVolumeClaim data-web-1 in the destination";
const DELETE_VOLUME: &str = "act r-clean: delete PersistentVolume pv-dest in the destination";
const RETAIN: &str = "act r-clean: change spec.persistentVolumeReclaimPolicy of PersistentVolume pv-dest in the destination";

#[rstest]
#[case::of_the_run(DELETE_CLAIM, |_: &mut Observation| {})]
#[case::a_tombstone_of_the_run(DELETE_CLAIM,
    |all: &mut Observation| drop(all.destination.claims.insert(CLAIM.into(), tombstone())))]
#[case::with_a_volume_that_is_not_retained(RETAIN,
    |all: &mut Observation| destination_volume(all).is_retained = false)]
#[case::being_deleted("wait r-clean DeletionPending", |all: &mut Observation| {
    all.destination.claims.get_mut(CLAIM).expect("it exists").is_terminating = true;
})]
#[case::of_another_volume_stays("hold DestinationConflict", |all: &mut Observation| {
    let moved = ClaimState { ownership: Ownership::Ours, ..live_claim("x", "pv-x") };
    all.destination.claims.insert(CLAIM.into(), moved);
})]
#[case::of_somebody_else_stays("wait r-clean DeletionPending", |all: &mut Observation| {
    let foreign = ClaimState { ownership: Ownership::Unmarked, ..live_claim("x", "pv-x") };
    all.destination.claims.insert(CLAIM.into(), foreign);
})]
fn claims_of_the_run_are_deleted(
    #[case] expected: &str,
    #[case] change: impl FnOnce(&mut Observation),
) {
    assert_eq!(decide(&changed(drained(), change), &[]), expected);
}

#[rstest]
#[case::released(DELETE_VOLUME, |all: &mut Observation| {
    destination_volume(all).phase = VolumePhase::Released;
})]
#[case::not_retained(RETAIN, |all: &mut Observation| {
    destination_volume(all).phase = VolumePhase::Released;
    destination_volume(all).is_retained = false;
})]
#[case::still_bound("wait r-clean DeletionPending", |_: &mut Observation| {})]
#[case::being_deleted("wait r-clean DeletionPending", |all: &mut Observation| {
    destination_volume(all).is_terminating = true;
})]
#[case::of_another_disk_stays("done", |all: &mut Observation| {
    destination_volume(all).disk = Some("vol-9".into());
})]
#[case::not_of_the_run_stays("done", |all: &mut Observation| {
    destination_volume(all).ownership = Ownership::Unmarked;
})]
#[case::gone("done", |all: &mut Observation| all.destination.volumes.clear())]
fn volumes_of_the_run_are_deleted(
    #[case] expected: &str,
    #[case] change: impl FnOnce(&mut Observation),
) {
    let without_claim = changed(drained(), |all| drop(all.destination.claims.remove(CLAIM)));
    assert_eq!(decide(&changed(without_claim, change), &[]), expected);
}

#[test]
fn claims_beyond_the_record_are_not_lost() {
    assert_eq!(
        decide(&drained(), &["data-web-7".to_owned()]),
        "hold DestExtraClaims"
    );
}

#[test]
fn the_source_is_restored_before_it_is_unlocked() {
    let observation = changed(drained(), |all| {
        all.destination.claims.clear();
        all.destination.volumes.clear();
    });
    let target = |kind, name: &str| Target {
        kind,
        namespace: Some("shop".to_owned()),
        name: name.to_owned(),
        version: version("v"),
    };
    let setting = Setting {
        side: Side::Source,
        target: target(ObjectKind::StatefulSet, "web"),
        patch: json!({"spec": {"ordinals": null}}),
        obstacle: None,
    };
    let unlock = [Change::Delete {
        side: Side::Source,
        target: target(ObjectKind::ConfigMap, "stsm-web"),
        orphans_dependents: false,
    }];
    assert_eq!(
        decide_with(&observation, &[], &[setting], &unlock),
        "act r-restore: change spec.ordinals of StatefulSet web in the source"
    );
    assert_eq!(
        decide_with(&observation, &[], &[], &unlock),
        "act r-unlock: delete ConfigMap stsm-web in the source"
    );
}
