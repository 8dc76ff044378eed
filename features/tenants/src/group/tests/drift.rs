//! What others do to a group.

use std::time::Duration;

use api::tenants::{DriftPolicy, reasons};
use aws::Operation::{CreateConnectionGroup, UpdateConnectionGroup};
use rstest::rstest;

use super::super::diff;
use super::world::{NAME, World, declared};
use super::{no, ready_world, sent, yes};

/// Others switch it off.
fn console(world: &mut World) {
    let id = world.object.status.id.clone().unwrap();
    let mut body = diff::body(&declared());
    body.enabled = false;
    world.cloud.put(&id, Some(body));
}

#[test]
fn drift_is_undone_and_counted_once() {
    let mut world = ready_world();
    console(&mut world);
    world.settle();
    assert_eq!(sent(&world, UpdateConnectionGroup), 1);
    assert_eq!((world.drifts, world.told("DriftCorrected")), (1, 1));
    assert!(
        world
            .cloud
            .named(NAME)
            .unwrap()
            .live()
            .unwrap()
            .body
            .enabled
    );
    assert_eq!(world.synced(), yes(reasons::IN_SYNC));
}

#[test]
fn drift_that_returns_at_once_waits_for_the_next_interval() {
    let mut world = ready_world();
    console(&mut world);
    while sent(&world, UpdateConnectionGroup) == 0 {
        world.run();
    }
    let corrected = world.cloud.now;
    console(&mut world);
    world.run();
    assert_eq!(world.synced(), no(reasons::DRIFT_DETECTED));
    while sent(&world, UpdateConnectionGroup) == 1 {
        world.run();
    }
    assert!(world.cloud.now >= corrected + Duration::from_secs(270));
    assert_eq!(world.drifts, 2);
}

#[rstest]
#[case::reported(DriftPolicy::Report, no(reasons::DRIFT_DETECTED))]
#[case::only_noted(DriftPolicy::Suspend, yes(reasons::IN_SYNC))]
fn drift_is_left(#[case] policy: DriftPolicy, #[case] synced: (String, bool)) {
    let mut world = ready_world();
    world.edit(|object| object.policy = policy);
    console(&mut world);
    world.settle();
    assert_eq!(sent(&world, UpdateConnectionGroup), 0);
    assert_eq!((world.drifts, world.synced()), (1, synced));
    assert_eq!(world.object.status.drift.len(), 1);
    assert_eq!(world.ready(), yes(reasons::DEPLOYED));
    // Enforced, it is undone.
    world.edit(|object| object.policy = DriftPolicy::Enforce);
    world.settle();
    assert_eq!(sent(&world, UpdateConnectionGroup), 1);
    assert_eq!(world.object.status.drift, []);
}

#[test]
fn a_read_that_is_behind_our_own_write_is_no_drift() {
    let mut world = ready_world();
    world.cloud.lag = Duration::from_secs(100);
    world.edit(|object| object.declared.ipv6_enabled = false);
    for _ in 0..3 {
        world.run();
    }
    assert_eq!((sent(&world, UpdateConnectionGroup), world.drifts), (1, 0));
    world.cloud.lag = Duration::ZERO;
    world.settle();
    assert_eq!(sent(&world, UpdateConnectionGroup), 1);
    assert_eq!(world.ready(), yes(reasons::DEPLOYED));
}

#[test]
fn a_group_deleted_by_others_is_made_anew_after_a_second_look() {
    let mut world = ready_world();
    let id = world.object.status.id.clone().unwrap();
    world.run();
    world.cloud.put(&id, None);
    let deleted = world.cloud.now;
    while sent(&world, CreateConnectionGroup) == 1 {
        world.run();
    }
    assert!(world.cloud.now >= deleted + Duration::from_secs(30));
    assert_eq!(world.told("ExternalDeletion"), 1);
    world.settle();
    assert_ne!(world.object.status.id, Some(id));
    assert_eq!(world.ready(), yes(reasons::DEPLOYED));
}

#[test]
fn reported_it_stays_deleted_until_that_is_enforced() {
    let mut world = ready_world();
    world.edit(|object| object.policy = DriftPolicy::Report);
    let id = world.object.status.id.clone().unwrap();
    world.cloud.put(&id, None);
    world.settle();
    assert_eq!(world.ready(), no(reasons::EXTERNALLY_DELETED));
    assert_eq!(
        (
            sent(&world, CreateConnectionGroup),
            world.told("ExternalDeletion")
        ),
        (1, 1)
    );
    world.edit(|object| object.policy = DriftPolicy::Enforce);
    world.settle();
    assert_eq!(world.ready(), yes(reasons::DEPLOYED));
    assert_eq!(
        (
            sent(&world, CreateConnectionGroup),
            world.told("ExternalDeletion")
        ),
        (2, 1)
    );
}
