//! Each row of the tables of the end of a run.

use rstest::rstest;

use super::*;
use crate::migration::fixture::{
    DISK, claim, live_claim, node, pod, read, running, set, tombstone, version, volume,
};

/// The whole set has moved; the source still has everything but pods.
fn moved() -> Observation {
    let mut all = running();
    all.source.set = Some(set("set-source", 3, 0));
    all.source.pods.clear();
    all.source.claims.insert("data-web-1".into(), tombstone());
    all.source.volumes.insert(
        "pv-source".into(),
        volume(VolumePhase::Released, Some("claim")),
    );
    all.destination.set = Some(set("set-dest", 1, 1));
    all.destination
        .pods
        .insert("web-1".into(), pod("pod-dest", "set-dest"));
    all.destination
        .nodes
        .insert("node-d".into(), node("i-dest", &[DISK]));
    all.disks
        .insert(DISK.into(), read(8, &[("i-dest", "attached")]));
    all
}

/// The volumes of the source are deleted.
fn without_volumes() -> Observation {
    let mut all = moved();
    all.source.volumes.clear();
    all
}

struct FinishCase {
    keeps_source: bool,
    is_dormant: bool,
    soak_left: u64,
    absent_since: Option<u64>,
    revisions: Vec<(String, Version)>,
    settings: Vec<Setting>,
    unlock: Vec<Change>,
}

const CASE: FinishCase = FinishCase {
    keeps_source: false,
    is_dormant: false,
    soak_left: 0,
    absent_since: Some(0),
    revisions: Vec::new(),
    settings: Vec::new(),
    unlock: Vec::new(),
};

fn decide(observation: &Observation, case: &FinishCase) -> String {
    let moved = [MovedClaims {
        ordinal: 1,
        is_dormant: case.is_dormant,
        claims: vec![claim()],
    }];
    let moved_to = BTreeMap::from([("pv-source".to_owned(), "cluster/shop/data-web-1".to_owned())]);
    let finish = Finish {
        run: "0123-run",
        set: "web",
        source_uid: "set-source",
        source_namespace: "shop",
        keeps_source: case.keeps_source,
        soak_left: Duration::from_secs(case.soak_left),
        moved: &moved,
        moved_to: &moved_to,
        settings: &case.settings,
        unlock: &case.unlock,
        revisions: &case.revisions,
        absent_since: case.absent_since.map(Duration::from_secs),
        observation,
        now: Timestamp::from_second(1_000_000).expect("a time"),
        elapsed: Duration::from_secs(10),
    };
    match next(&finish) {
        Decision::Done => "done".to_owned(),
        Decision::Act(step) => format!("act {step}"),
        Decision::Wait(wait) => format!("wait {} {}", wait.step, wait.reason),
        Decision::Hold(hold) => format!("hold {}", hold.reason),
        Decision::ReadDisks { ids, .. } => format!("read {}", ids.join(",")),
        other @ (Decision::ReadSnapshots { .. } | Decision::Fail(_)) => {
            panic!("the end of a run does neither: {other:?}")
        }
    }
}

fn changed(mut observation: Observation, change: impl FnOnce(&mut Observation)) -> Observation {
    change(&mut observation);
    observation
}

#[rstest]
#[case::over(0, "act clean-pv: delete PersistentVolume pv-source in the source")]
#[case::under_way(60, "wait soak DestUnready")]
fn the_soak_delays_the_clean_up(#[case] soak_left: u64, #[case] expected: &str) {
    let case = FinishCase { soak_left, ..CASE };
    assert_eq!(decide(&moved(), &case), expected);
}

#[rstest]
#[case::no_set("hold DestinationConflict", |all: &mut Observation| all.destination.set = None)]
#[case::an_unready_pod("wait soak DestUnready", |all: &mut Observation| {
    all.destination.pods.get_mut("web-1").expect("it runs").ready_since = None;
})]
#[case::a_missing_pod("wait soak DestUnready", |all: &mut Observation| all.destination.pods.clear())]
fn the_destination_must_be_well(
    #[case] expected: &str,
    #[case] change: impl FnOnce(&mut Observation),
) {
    assert_eq!(decide(&changed(moved(), change), &CASE), expected);
}

fn source_volume(all: &mut Observation) -> &mut VolumeState {
    all.source.volumes.get_mut("pv-source").expect("it exists")
}

#[rstest]
#[case::of_another_disk("hold SourceEdited",
    |all: &mut Observation| source_volume(all).disk = Some("vol-2".into()))]
#[case::of_another_run("hold SourceEdited",
    |all: &mut Observation| source_volume(all).ownership = Ownership::Foreign("other".into()))]
#[case::not_marked("hold SourceEdited",
    |all: &mut Observation| source_volume(all).ownership = Ownership::Unmarked)]
#[case::not_retained(
    "act clean-pv: change spec.persistentVolumeReclaimPolicy of PersistentVolume pv-source in the source",
    |all: &mut Observation| source_volume(all).is_retained = false)]
#[case::with_the_finalizer_of_the_provisioner("wait clean-pv ProvisionerFinalizer",
    |all: &mut Observation| source_volume(all).has_provisioner_finalizer = true)]
#[case::being_deleted("wait clean-pv DeletionPending",
    |all: &mut Observation| source_volume(all).is_terminating = true)]
#[case::disk_not_read("read vol-1", |all: &mut Observation| all.disks.clear())]
#[case::disk_free("wait clean-pv DestUnready",
    |all: &mut Observation| drop(all.disks.insert(DISK.into(), read(8, &[]))))]
#[case::disk_in_the_source("wait clean-pv DestUnready",
    |all: &mut Observation| drop(all.disks.insert(DISK.into(), read(8, &[("i-source", "attached")]))))]
fn a_volume_goes_only_while_its_disk_is_in_use_elsewhere(
    #[case] expected: &str,
    #[case] change: impl FnOnce(&mut Observation),
) {
    assert_eq!(decide(&changed(moved(), change), &CASE), expected);
}

#[rstest]
#[case::free_and_bound(read(8, &[]), "act clean-pv: delete PersistentVolume pv-source in the source")]
#[case::attached(read(8, &[("i-dest", "attached")]), "wait clean-pv DestUnready")]
fn a_dormant_disk_is_bound_and_free(
    #[case] read: super::super::observation::DiskRead,
    #[case] expected: &str,
) {
    let observation = changed(moved(), |all| drop(all.disks.insert(DISK.into(), read)));
    let case = FinishCase {
        is_dormant: true,
        ..CASE
    };
    assert_eq!(decide(&observation, &case), expected);
}

#[rstest]
#[case::ours("act clean-sts: delete StatefulSet web in the source", |_: &mut Observation| {})]
#[case::another_uid("hold SourceRecreated",
    |all: &mut Observation| all.source.set = Some(set("set-new", 3, 0)))]
#[case::with_replicas("hold SourceWidened",
    |all: &mut Observation| all.source.set = Some(set("set-source", 2, 1)))]
#[case::with_a_pod("wait clean-sts PodTerminating",
    |all: &mut Observation| drop(all.source.pods.insert("web-2".into(), pod("p", "set-source"))))]
#[case::with_a_pod_of_another("act clean-sts: delete StatefulSet web in the source",
    |all: &mut Observation| drop(all.source.pods.insert("job".into(), pod("p", "job"))))]
#[case::with_a_claim_of_its_own("hold SourceEdited", |all: &mut Observation| {
    let mut owned = live_claim("dormant", "pv-9");
    owned.owners = vec!["set-source".into()];
    all.source.claims.insert("data-web-9".into(), owned);
})]
#[case::being_deleted("wait clean-sts DeletionPending", |all: &mut Observation| {
    all.source.set.as_mut().expect("it exists").is_terminating = true;
})]
fn the_set_of_the_source_goes_when_nothing_hangs_on_it(
    #[case] expected: &str,
    #[case] change: impl FnOnce(&mut Observation),
) {
    assert_eq!(decide(&changed(without_volumes(), change), &CASE), expected);
}

#[rstest]
#[case::just_gone(None, "wait clean-sts DeletionPending")]
#[case::for_nine_seconds(Some(1), "wait clean-sts DeletionPending")]
#[case::for_ten_seconds(
    Some(0),
    "act clean-fence: delete PersistentVolumeClaim data-web-1 in the source"
)]
fn the_set_must_stay_away(#[case] absent_since: Option<u64>, #[case] expected: &str) {
    let observation = changed(without_volumes(), |all| all.source.set = None);
    let case = FinishCase {
        absent_since,
        ..CASE
    };
    assert_eq!(decide(&observation, &case), expected);
}

#[rstest]
#[case::gone("done", |all: &mut Observation| all.source.claims.clear())]
#[case::being_deleted("wait clean-fence DeletionPending", |all: &mut Observation| {
    all.source.claims.get_mut("data-web-1").expect("it exists").is_terminating = true;
})]
#[case::a_claim_of_somebody_else_stays("done", |all: &mut Observation| {
    all.source.claims.insert("data-web-1".into(), live_claim("new", "pv-new"));
})]
#[case::a_tombstone_of_another_run_stays("done", |all: &mut Observation| {
    let claim = all.source.claims.get_mut("data-web-1").expect("it exists");
    claim.ownership = Ownership::Foreign("other".into());
})]
fn our_tombstones_go(#[case] expected: &str, #[case] change: impl FnOnce(&mut Observation)) {
    let gone = changed(without_volumes(), |all| all.source.set = None);
    assert_eq!(decide(&changed(gone, change), &CASE), expected);
}

#[rstest]
#[case::nothing("done", |_: &mut Observation| {})]
#[case::a_second_volume_of_the_disk("hold SourceEdited", |all: &mut Observation| {
    let second = VolumeState { ownership: Ownership::Unmarked, ..volume(VolumePhase::Available, None) };
    all.source.volumes.insert("second".into(), second);
})]
#[case::a_volume_with_our_marker("hold SourceEdited", |all: &mut Observation| {
    let marked = VolumeState { disk: Some("vol-9".into()), ..volume(VolumePhase::Available, None) };
    all.source.volumes.insert("marked".into(), marked);
})]
#[case::a_claim_with_our_marker("hold SourceEdited", |all: &mut Observation| {
    let marked = crate::migration::observation::ClaimState {
        ownership: Ownership::Ours, ..live_claim("copied", "pv-new") };
    all.source.claims.insert("copied".into(), marked);
})]
fn the_source_names_no_disk_that_has_moved(
    #[case] expected: &str,
    #[case] change: impl FnOnce(&mut Observation),
) {
    let cleaned = changed(without_volumes(), |all| {
        all.source.set = None;
        all.source.claims.clear();
    });
    assert_eq!(decide(&changed(cleaned, change), &CASE), expected);
}

#[rstest]
#[case::unmarked(
    None,
    "act mark-moved: change metadata.annotations of PersistentVolume pv-source in the source"
)]
#[case::marked(Some("cluster/shop/data-web-1"), "done")]
#[case::marked_for_another_place(
    Some("cluster/other/data-web-1"),
    "act mark-moved: change metadata.annotations of PersistentVolume pv-source in the source"
)]
fn a_source_that_is_kept_is_marked(#[case] moved_to: Option<&str>, #[case] expected: &str) {
    let observation = changed(moved(), |all| {
        source_volume(all).moved_to = moved_to.map(str::to_owned);
    });
    let case = FinishCase {
        keeps_source: true,
        ..CASE
    };
    assert_eq!(decide(&observation, &case), expected);
}

#[test]
fn settings_come_before_the_locks() {
    let observation = changed(without_volumes(), |all| {
        all.source.set = None;
        all.source.claims.clear();
    });
    let target = |kind, name: &str| Target {
        kind,
        namespace: Some("shop".to_owned()),
        name: name.to_owned(),
        version: version("v"),
    };
    let unlock = Change::Delete {
        side: Side::Source,
        target: target(ObjectKind::ConfigMap, "stsm-web"),
        orphans_dependents: false,
    };
    let mut case = FinishCase {
        settings: vec![Setting {
            side: Side::Destination,
            target: target(ObjectKind::StatefulSet, "web"),
            patch: json!({"spec": {"persistentVolumeClaimRetentionPolicy": null}}),
            obstacle: None,
        }],
        unlock: vec![unlock],
        ..CASE
    };
    assert_eq!(
        decide(&observation, &case),
        "act restore: change spec.persistentVolumeClaimRetentionPolicy of StatefulSet web in the destination"
    );
    case.settings.clear();
    assert_eq!(
        decide(&observation, &case),
        "act unlock: delete ConfigMap stsm-web in the source"
    );
}

#[rstest]
#[case::source_widened("hold SourceWidened",
    |all: &mut Observation| all.source.set = Some(set("set-source", 0, 3)))]
#[case::source_created_again("hold SourceRecreated",
    |all: &mut Observation| all.source.set = Some(set("set-new", 3, 0)))]
#[case::destination_scaled_to_zero("hold DestinationDrift",
    |all: &mut Observation| all.destination.set = Some(set("set-dest", 1, 0)))]
#[case::foreign_destination("hold DestinationConflict", |all: &mut Observation| {
    all.destination.set.as_mut().expect("it exists").ownership = Ownership::Unmarked;
})]
#[case::destination_being_deleted("hold DestinationConflict", |all: &mut Observation| {
    all.destination.set.as_mut().expect("it exists").is_terminating = true;
})]
fn the_way_back_stays_while_somebody_interferes(
    #[case] expected: &str,
    #[case] change: impl FnOnce(&mut Observation),
) {
    assert_eq!(decide(&changed(moved(), change), &CASE), expected);
}

#[test]
fn an_old_read_deletes_no_volume() {
    let old = changed(moved(), |all| {
        all.disks
            .insert(DISK.into(), read(5, &[("i-dest", "attached")]));
    });
    assert_eq!(decide(&old, &CASE), "read vol-1");
}

#[test]
fn a_foreign_volume_gets_no_mark() {
    let foreign = changed(moved(), |all| {
        source_volume(all).ownership = Ownership::Unmarked;
    });
    let case = FinishCase {
        keeps_source: true,
        ..CASE
    };
    assert_eq!(decide(&foreign, &case), "done");
}

#[rstest]
#[case::none_left(&[], "act clean-fence: delete PersistentVolumeClaim data-web-1 in the source")]
#[case::some_left(&["web-1"], "act clean-sts: delete ControllerRevision web-1 in the source")]
fn revisions_that_were_left_go_with_the_set(#[case] names: &[&str], #[case] expected: &str) {
    let mut observation = without_volumes();
    observation.source.set = None;
    let revisions = names.iter().map(|name| ((*name).to_owned(), version(name)));
    let case = FinishCase {
        revisions: revisions.collect(),
        ..CASE
    };
    assert_eq!(decide(&observation, &case), expected);
}
