//! Whole runs, forward and back, under bad luck.

use std::collections::BTreeSet;

use api::migrate::{Abort, HoldReason, Location, Phase, StepName};
use rstest::rstest;
use serde_json::{Value, json};

use super::run::{Luck, Operator, RUN};
use super::{Random, SET, World};
use crate::migration::decision::ObjectKind;
use crate::migration::documents::version;
use crate::migration::extract;
use crate::migration::observation::Side;
use crate::translate::window::Window;

/// Schedules of each test. A search sets more: `MIGRATE_SEEDS=1..2000`.
fn seeds() -> std::ops::RangeInclusive<u64> {
    let range = std::env::var("MIGRATE_SEEDS").ok();
    let range = range.as_deref().and_then(|range| range.split_once(".."));
    let bound = |text: &str| text.parse().expect("MIGRATE_SEEDS is a range of numbers");
    range.map_or(1..=1, |(first, last)| bound(first)..=bound(last))
}

const BASE: Window = Window {
    start: 0,
    replicas: 3,
};
const FROM_5: Window = Window {
    start: 5,
    replicas: 2,
};
const FAIR: Luck = Luck {
    crashes: 0,
    lost_answers: 0,
    meddling: 0,
    left_out: None,
};
const CRASHES: Luck = Luck {
    crashes: 25,
    ..FAIR
};
const LOST_ANSWERS: Luck = Luck {
    crashes: 40,
    lost_answers: 4,
    ..FAIR
};

/// Runs until one of these phases is reached.
fn run_until(
    world: &mut World,
    operator: &mut Operator,
    random: &mut Random,
    luck: Luck,
    mut until: impl FnMut(&Operator) -> bool,
) -> Result<(), String> {
    for _ in 0..60_000 {
        if until(operator) {
            return Ok(());
        }
        world.elapsed +=
            std::time::Duration::from_millis(u64::try_from(random.below(500)).expect("small"));
        world.act(random);
        if luck.meddling > 0 && random.one_in(luck.meddling) {
            world.meddle(random);
        }
        if random.one_in(3) {
            operator.pass(world, random, luck);
        }
        if let Some(law) = &world.broken_law {
            return Err(format!("{law}; steps: {:?}", operator.steps));
        }
    }
    let next = operator.pass(world, random, FAIR);
    Err(format!(
        "it does not end in phase {:?}: {next:?}",
        operator.phase()
    ))
}

fn names(world: &World, side: Side, kind: ObjectKind) -> Vec<String> {
    world
        .cluster(side)
        .list(kind)
        .iter()
        .map(extract::name)
        .collect()
}

/// The specs that a rollback must give back.
fn specs(world: &World) -> Vec<Value> {
    let source = world.cluster(Side::Source);
    let set = source.list(ObjectKind::StatefulSet);
    let volumes = source.list(ObjectKind::Volume);
    let mut specs: Vec<Value> = set
        .iter()
        .chain(&volumes)
        .map(|one| one["spec"].clone())
        .collect();
    for spec in &mut specs {
        if let Some(claim) = spec["claimRef"].as_object_mut() {
            claim.remove("uid"); // a restored claim is a new one
        }
    }
    specs
}

/// The StatefulSet of the source is deleted while its pods run.
const ORPHAN: &str = r#"{"strategy": "OrphanAdopt"}"#;
/// The same with a server that drops `spec.ordinals`.
const WITHOUT_ORDINALS: &str = r#"{"strategy": "OrphanAdopt", "withoutOrdinals": true}"#;
const WINDOW: &str = "{}";
/// The migration is in the namespace of the source.
const IN_SOURCE: &str = r#"{"inSource": true}"#;

fn begun(window: Window, fields: &Value) -> (World, Operator) {
    let mut world = World::new(window);
    world.cluster_mut(Side::Source).drops_ordinals = fields["withoutOrdinals"] == true;
    world.is_in_source = fields["inSource"] == true;
    (world, Operator::new(fields))
}

fn finished(seed: u64, luck: Luck, window: Window, fields: &Value) -> Result<World, String> {
    let mut random = Random::seeded(seed);
    let (mut world, mut operator) = begun(window, fields);
    run_until(&mut world, &mut operator, &mut random, luck, |operator| {
        operator.phase() == Phase::Completed
    })
    .map_err(|problem| format!("seed {seed}: {problem}"))?;
    Ok(world)
}

#[rstest]
#[case::fair(FAIR, BASE, WINDOW)]
#[case::crashes(CRASHES, BASE, WINDOW)]
#[case::lost_answers(LOST_ANSWERS, BASE, WINDOW)]
#[case::from_another_start(LOST_ANSWERS, FROM_5, WINDOW)]
#[case::in_the_source(LOST_ANSWERS, BASE, IN_SOURCE)]
#[case::orphans(FAIR, BASE, ORPHAN)]
#[case::orphans_and_lost_answers(LOST_ANSWERS, FROM_5, ORPHAN)]
#[case::orphans_without_ordinals(LOST_ANSWERS, BASE, WITHOUT_ORDINALS)]
fn a_run_moves_every_ordinal_and_cleans_the_source(
    #[case] luck: Luck,
    #[case] window: Window,
    #[case] fields: &str,
) {
    let fields = serde_json::from_str(fields).expect("it is JSON");
    for seed in seeds() {
        let world = finished(seed, luck, window, &fields).expect("it completes");
        assert_eq!(world.window(Side::Destination), Some(window), "seed {seed}");
        assert!(world.is_running(Side::Destination, window), "seed {seed}");
        let claims = names(&world, Side::Destination, ObjectKind::Claim);
        assert_eq!(claims.len(), world.ordinals.ordinals().len(), "seed {seed}");
        assert!(world.is_bound(Side::Destination), "seed {seed}");
        for kind in [
            ObjectKind::StatefulSet,
            ObjectKind::ControllerRevision,
            ObjectKind::Claim,
            ObjectKind::Volume,
            ObjectKind::ConfigMap,
            ObjectKind::Secret,
        ] {
            assert_eq!(
                names(&world, Side::Source, kind),
                Vec::<String>::new(),
                "seed {seed}"
            );
        }
        let locks = names(&world, Side::Destination, ObjectKind::ConfigMap);
        assert_eq!(locks, Vec::<String>::new(), "seed {seed}");
    }
}

#[test]
fn a_source_that_is_kept_stays_fenced() {
    let fields = json!({"sourceCleanup": {"policy": "Keep", "soak": "0s"}});
    let world = finished(7, CRASHES, BASE, &fields).expect("it completes");
    let claims = world.cluster(Side::Source).list(ObjectKind::Claim);
    assert_eq!(claims.len(), 4);
    assert!(
        claims
            .iter()
            .all(|claim| extract::claim(claim, RUN).is_tombstone)
    );
    let volumes = world.cluster(Side::Source).list(ObjectKind::Volume);
    let moved_to = |volume: &Value| extract::volume(volume, RUN).moved_to;
    assert_eq!(
        moved_to(&volumes[0]).as_deref(),
        Some("cluster-destination/shop-new/data-web-0")
    );
}

#[rstest]
#[case::fair(FAIR, WINDOW)]
#[case::crashes(CRASHES, WINDOW)]
#[case::lost_answers(LOST_ANSWERS, WINDOW)]
#[case::in_the_source(LOST_ANSWERS, IN_SOURCE)]
#[case::orphans(FAIR, ORPHAN)]
#[case::orphans_and_lost_answers(LOST_ANSWERS, ORPHAN)]
#[case::orphans_without_ordinals(FAIR, WITHOUT_ORDINALS)]
#[case::without_ordinals_and_answers(LOST_ANSWERS, WITHOUT_ORDINALS)]
fn a_rollback_gives_the_source_back_as_it_was(#[case] luck: Luck, #[case] fields: &str) {
    let fields: Value = serde_json::from_str(fields).expect("it is JSON");
    for seed in seeds() {
        let mut random = Random::seeded(seed);
        let (mut world, mut operator) = begun(BASE, &fields);
        let before = specs(&world);
        // The rollback begins at any step of the run.
        let steps = 1 + random.below(40);
        let begin =
            |operator: &Operator| operator.steps.len() >= steps || operator.record.cleanup_started;
        run_until(&mut world, &mut operator, &mut random, luck, begin).expect("it begins");
        if operator.record.cleanup_started {
            continue;
        }
        let survivors = pods_that_stay(&world, &operator);
        operator.spec.abort = Some(Abort::Rollback);
        let ended = run_until(&mut world, &mut operator, &mut random, luck, |operator| {
            operator.phase() == Phase::RolledBack
        });
        ended.unwrap_or_else(|problem| panic!("seed {seed}, from step {steps}: {problem}"));
        for (name, uid) in survivors {
            let pod = world.cluster(Side::Source).get(ObjectKind::Pod, &name);
            let after = pod.map(|pod| version(pod).uid);
            assert_eq!(after, Some(uid), "seed {seed}: {name} was restarted");
        }
        assert_eq!(specs(&world), before, "seed {seed}");
        assert!(world.is_running(Side::Source, BASE), "seed {seed}");
        assert!(world.is_bound(Side::Source), "seed {seed}");
        for kind in [
            ObjectKind::StatefulSet,
            ObjectKind::Claim,
            ObjectKind::Volume,
            ObjectKind::ConfigMap,
        ] {
            assert_eq!(
                names(&world, Side::Destination, kind),
                Vec::<String>::new(),
                "seed {seed}"
            );
        }
        let set = world
            .cluster(Side::Source)
            .get(ObjectKind::StatefulSet, SET)
            .expect("it is there");
        assert_eq!(
            extract::set(set, RUN).ownership,
            kernel::Ownership::Unmarked,
            "seed {seed}"
        );
    }
}

/// Name and UID of the source's pods whose ordinals have not begun to move.
fn pods_that_stay(world: &World, operator: &Operator) -> Vec<(String, String)> {
    let ordinals = operator.record.ordinals.iter();
    let waiting = ordinals.filter(|one| one.location == Location::Source);
    let names = waiting.map(|one| format!("{SET}-{}", one.ordinal));
    let pods = names.filter_map(|name| {
        let pod = world.cluster(Side::Source).get(ObjectKind::Pod, &name)?;
        Some((name, version(pod).uid))
    });
    pods.collect()
}

/// The law that a run breaks within so many actions, if any.
fn broken_law(seed: u64, luck: Luck, actions: u32, fields: &Value) -> Option<String> {
    let mut random = Random::seeded(seed);
    let (mut world, mut operator) = begun(BASE, fields);
    let mut left = actions;
    let ended = run_until(&mut world, &mut operator, &mut random, luck, |operator| {
        left = left.saturating_sub(1);
        left == 0 || operator.phase() == Phase::Completed
    });
    ended.err().filter(|_| world.broken_law.is_some())
}

#[rstest]
#[case::window(WINDOW)]
#[case::orphans(ORPHAN)]
fn interference_makes_no_disk_usable_twice(#[case] fields: &str) {
    let fields = serde_json::from_str(fields).expect("it is JSON");
    let luck = Luck {
        crashes: 100,
        meddling: 150,
        ..FAIR
    };
    let broken = seeds().find_map(|seed| broken_law(seed, luck, 2_000, &fields));
    assert_eq!(broken, None);
}

#[rstest]
#[case::waiting_for_the_pod(StepName::Gone, "is not fenced")]
#[case::waiting_for_the_disk(StepName::Detach, "is not fenced")]
#[case::fencing_the_claim(StepName::Fence, "is not fenced")]
fn the_laws_find_a_step_that_is_left_out(#[case] step: StepName, #[case] expected: &str) {
    let luck = Luck {
        left_out: Some(step),
        ..FAIR
    };
    let broken = broken_law(1, luck, 6_000, &json!({})).expect("the mistake breaks a law");
    assert!(broken.contains(expected), "{broken}");
}

#[test]
fn dormant_claims_may_stay() {
    let fields = json!({"dormantClaims": "Leave"});
    let world = finished(3, FAIR, BASE, &fields).expect("it completes");
    assert_eq!(
        names(&world, Side::Source, ObjectKind::Claim),
        ["data-web-3"]
    );
    assert_eq!(names(&world, Side::Source, ObjectKind::Volume), ["pv-3"]);
    assert_eq!(names(&world, Side::Destination, ObjectKind::Claim).len(), 3);
}

const SNAPSHOTS: &str = r#"{"snapshots": {"when": "AfterDetach", "tags": {"team": "shop"}}}"#;

#[rstest]
#[case::fair(FAIR)]
#[case::crashes(CRASHES)]
#[case::lost_answers(LOST_ANSWERS)]
fn every_disk_gets_one_snapshot(#[case] luck: Luck) {
    let fields: Value = serde_json::from_str(SNAPSHOTS).expect("it is JSON");
    for seed in seeds() {
        let mut random = Random::seeded(seed);
        let (mut world, mut operator) = begun(BASE, &fields);
        let ended = run_until(&mut world, &mut operator, &mut random, luck, |operator| {
            operator.phase() == Phase::Completed
        });
        ended.unwrap_or_else(|problem| panic!("seed {seed}: {problem}"));
        assert_eq!(world.snapshots.len(), world.disks.len(), "seed {seed}");
        let claims = operator.record.ordinals.iter().flat_map(|one| &one.claims);
        let ids: BTreeSet<_> = claims.filter_map(|one| one.snapshot_id.clone()).collect();
        assert_eq!(ids.len(), world.disks.len(), "seed {seed}");
    }
}

#[rstest]
#[case::window(WINDOW)]
#[case::kept(r#"{"sourceCleanup": {"policy": "Keep", "soak": "0s"}}"#)]
#[case::orphans(ORPHAN)]
#[case::snapshots(SNAPSHOTS)]
fn a_plan_lists_every_change_of_the_run(#[case] fields: &str) {
    let fields: Value = serde_json::from_str(fields).expect("it is JSON");
    let mut random = Random::seeded(5);
    let (mut world, mut operator) = begun(BASE, &fields);
    run_until(&mut world, &mut operator, &mut random, FAIR, |operator| {
        operator.phase() == Phase::Completed
    })
    .expect("it completes");
    assert_eq!(operator.record.plan, operator.changes);
}

#[test]
fn a_dry_run_ends_with_the_plan() {
    let (mut world, mut operator) = begun(BASE, &json!({"dryRun": true}));
    let mut random = Random::seeded(1);
    run_until(&mut world, &mut operator, &mut random, FAIR, |operator| {
        operator.phase() == Phase::Planned
    })
    .expect("it is planned");
    assert!(operator.changes.is_empty());
    assert!(
        operator.record.plan.len() > 30,
        "{:?}",
        operator.record.plan
    );
}

#[rstest]
#[case::fair(FAIR)]
#[case::lost_answers(LOST_ANSWERS)]
fn a_retry_sets_a_widened_source_back(#[case] luck: Luck) {
    for seed in seeds() {
        let mut random = Random::seeded(seed);
        let (mut world, mut operator) = begun(BASE, &json!({}));
        let has_moved = |operator: &Operator| operator.record.current_index > 0;
        run_until(&mut world, &mut operator, &mut random, luck, has_moved).expect("it moves");
        world.widen();
        let is_over = |operator: &Operator| operator.phase() == Phase::Completed;
        // A lost answer ends the effect of one raise.
        let ended = (0..80).find_map(|_| {
            let mut left = 400;
            let until = |operator: &Operator| {
                left -= 1;
                is_over(operator) || left == 0
            };
            run_until(&mut world, &mut operator, &mut random, luck, until).expect("it goes on");
            operator.spec.retry += 1;
            is_over(&operator).then_some(())
        });
        assert!(ended.is_some(), "seed {seed}: {:?}", operator.record.hold);
    }
}

#[test]
fn a_hydrated_claim_is_on_record() {
    let (mut world, mut operator) = begun(BASE, &json!({}));
    let mut random = Random::seeded(2);
    run_until(&mut world, &mut operator, &mut random, FAIR, |operator| {
        operator.phase() == Phase::MigratingPods
    })
    .expect("it is prepared");
    for claim in operator.record.ordinals.iter().flat_map(|one| &one.claims) {
        let live = world
            .cluster(Side::Destination)
            .get(ObjectKind::Claim, &claim.name);
        assert_eq!(claim.dest_pvc_uid, live.map(|live| version(live).uid));
        assert_eq!(claim.dest_pv.as_ref(), Some(&claim.source_pv));
    }
}

#[rstest]
#[case::a_clean_up(None, Phase::Finalizing)]
#[case::the_end_of_a_rollback(Some(Abort::Rollback), Phase::RollingBack)]
fn without_its_locks_a_run_deletes_nothing(#[case] abort: Option<Abort>, #[case] phase: Phase) {
    let (mut world, mut operator) = begun(BASE, &json!({}));
    let mut random = Random::seeded(6);
    let has_moved = |operator: &Operator| operator.phase() == Phase::MigratingPods;
    run_until(&mut world, &mut operator, &mut random, FAIR, has_moved).expect("it is prepared");
    operator.spec.abort = abort;
    let is_there = |operator: &Operator| operator.phase() == phase;
    run_until(&mut world, &mut operator, &mut random, FAIR, is_there).expect("it goes on");
    // Somebody has restored the migration in another management cluster.
    let source = world.cluster_mut(Side::Source);
    source.edit(ObjectKind::ConfigMap, "stsm-web", |lock| {
        lock["data"]["managementCluster"] = "another".into();
    });
    let before = operator.changes.len();
    let is_held = |operator: &Operator| {
        operator.record.hold.map(|hold| hold.reason) == Some(HoldReason::LockLost)
    };
    run_until(&mut world, &mut operator, &mut random, FAIR, is_held).expect("it holds");
    assert_eq!(operator.changes.len(), before);
}

#[test]
fn claims_beyond_the_record_hold_a_rollback_until_accepted() {
    let (mut world, mut operator) = begun(BASE, &json!({}));
    let mut random = Random::seeded(4);
    let has_moved = |operator: &Operator| operator.record.current_index > 1;
    run_until(&mut world, &mut operator, &mut random, FAIR, has_moved).expect("it moves");
    let extra = json!({"metadata": {"name": "data-web-9", "namespace": "shop-new"}, "status": {"phase": "Bound"}});
    world
        .cluster_mut(Side::Destination)
        .create(ObjectKind::Claim, extra);
    operator.spec.abort = Some(Abort::Rollback);
    let is_held = |operator: &Operator| {
        operator.record.hold.map(|hold| hold.reason) == Some(HoldReason::DestExtraClaims)
    };
    run_until(&mut world, &mut operator, &mut random, FAIR, is_held).expect("it holds");
    operator.spec.acknowledge = vec!["DestExtraClaims".to_owned()];
    run_until(&mut world, &mut operator, &mut random, FAIR, |operator| {
        operator.phase() == Phase::RolledBack
    })
    .expect("it goes back");
    let claims = names(&world, Side::Destination, ObjectKind::Claim);
    assert_eq!(claims, ["data-web-9"]);
}
