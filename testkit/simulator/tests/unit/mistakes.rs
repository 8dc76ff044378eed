//! Mistakes that developers make, planted one at a time to show that the laws catch them.

use std::time::Duration;

use engine::{Ended, Next, Object, Report, Stop};
use simulator::{Seeds, check, enumerate, search};

use crate::bucket::cloud::{Cloud, marker};
use crate::bucket::{Buckets, ClaimIntent, Read, Status, Step, World, plan, status};

/// One mistake in the core of the kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mistake {
    CreateWithoutIntent,
    DeleteWithoutOwnerCheck,
    StaleReadBelieved,
    StatusBeforeEffect,
    MemoryReliedUpon,
    RecheckAtOnce,
}

fn copy(world: &World) -> World {
    let object = &world.object;
    World {
        object: Object {
            key: object.key.clone(),
            metadata: object.metadata.clone(),
            resource: object.resource.clone(),
            status: object.status.clone(),
            conditions: object.conditions.clone(),
            exists: object.exists,
        },
        facts: (),
        observed: world.observed.clone(),
        memory: world.memory.clone(),
        fresh_intents: world.fresh_intents.clone(),
        is_unsaved: world.is_unsaved,
        now: world.now,
        elapsed: world.elapsed,
        pass: world.pass.clone(),
    }
}

/// The plan of a kind with this mistake.
pub(crate) fn next(mistake: Mistake, world: &World) -> Result<Next<Read, Step>, Stop> {
    let mut world = copy(world);
    let is_deleting = world.object.is_deleting();
    match mistake {
        Mistake::DeleteWithoutOwnerCheck if is_deleting => {
            let owner = marker(&world.object.key.name);
            for bucket in world.observed.buckets.iter_mut().flatten() {
                bucket.owner = Some(owner.clone());
            }
        }
        Mistake::StaleReadBelieved => {
            if let Some(read_at) = &mut world.observed.read_at {
                *read_at += Duration::from_secs(1_000);
            }
        }
        Mistake::MemoryReliedUpon if is_deleting && world.memory.compared.is_none() => {
            world.object.status = Status::default();
            world.observed.buckets = Some(Vec::new());
        }
        Mistake::CreateWithoutIntent
        | Mistake::DeleteWithoutOwnerCheck
        | Mistake::StatusBeforeEffect
        | Mistake::MemoryReliedUpon
        | Mistake::RecheckAtOnce => {}
    }
    match plan::next(&world)? {
        Next::Done { .. } if mistake == Mistake::RecheckAtOnce => Ok(Next::Done {
            recheck: Some(Duration::ZERO),
        }),
        next @ (Next::Done { .. } | Next::Calls { .. }) => Ok(next),
    }
}

/// The status of a kind with this mistake.
pub(crate) fn status(
    mistake: Mistake,
    world: &World,
    ended: &Ended<ClaimIntent>,
) -> (Status, Report) {
    let is_early = matches!(ended, Ended::Stopped(_)) && mistake == Mistake::StatusBeforeEffect;
    if !is_early {
        return status::status(world, ended);
    }
    let mut world = copy(world);
    for bucket in world.observed.buckets.iter_mut().flatten() {
        let desired = &world.object.resource.spec.config;
        bucket.config.clone_from(desired);
    }
    status::status(&world, &Ended::Done { recheck: None })
}

/// Which law catches a mistake. Where the same mistake breaks two laws, either may come first.
#[track_caller]
fn is_caught(mistake: Option<Mistake>, is_guarded: bool, laws: &[&str]) {
    let seeds = Seeds::exactly(20_000);
    let found = search::<Buckets, Cloud>(&Buckets { mistake }, &seeds, is_guarded);
    let found = found.expect_err("no law was broken");
    let is_expected = laws.iter().any(|law| found.failure.law.starts_with(law));
    assert!(is_expected, "caught by another law than {laws:?}: {found}");
}

#[test]
fn a_create_without_intent_is_caught() {
    let laws = ["no second create", "nothing is leaked"];
    is_caught(Some(Mistake::CreateWithoutIntent), true, &laws);
}

#[test]
fn a_delete_without_owner_check_is_caught() {
    let laws = ["nothing foreign is touched"];
    is_caught(Some(Mistake::DeleteWithoutOwnerCheck), true, &laws);
}

#[test]
fn a_stale_read_that_is_believed_is_caught() {
    let laws = ["no second create", "nothing is leaked"];
    is_caught(Some(Mistake::StaleReadBelieved), true, &laws);
}

#[test]
fn a_status_before_its_effect_is_caught() {
    let laws = ["Ready=True only if live equals desired"];
    is_caught(Some(Mistake::StatusBeforeEffect), true, &laws);
}

#[test]
fn a_kind_that_relies_on_memory_is_caught() {
    let laws = ["nothing is leaked"];
    is_caught(Some(Mistake::MemoryReliedUpon), true, &laws);
}

#[test]
fn an_unguarded_second_operator_is_caught() {
    is_caught(None, false, &["one writer"]);
}

#[test]
fn a_kind_that_rechecks_at_once_for_ever_is_caught() {
    is_caught(Some(Mistake::RecheckAtOnce), true, &["it pauses"]);
}

#[test]
fn every_law_holds_and_every_kill_point_is_reached() {
    check::<Buckets, Cloud>(&Buckets::default(), &Seeds::first(2_000));
}

#[test]
fn every_law_holds_with_any_two_early_faults() {
    let count = enumerate::<Buckets, Cloud>(&Buckets::default(), 1, 5);
    let count = count.unwrap_or_else(|found| panic!("{found}"));
    assert!(count > 4_000, "only {count} schedules");
}
