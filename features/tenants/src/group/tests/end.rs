//! What becomes of a group when its object goes.

use std::time::Duration;

use api::tenants::{DeletionPolicy, reasons};
use aws::Operation::{DeleteConnectionGroup, UpdateConnectionGroup};
use kernel::ObjectKey;
use rstest::rstest;

use super::model::Trick;
use super::world::{NAME, World};
use super::{marks, no, ready_world};

#[test]
fn deletion_switches_off_waits_and_deletes() {
    let mut world = ready_world();
    let before = world.cloud.calls.len();
    world.delete();
    assert_eq!(world.ready(), no(reasons::DISABLING));
    world.settle();
    assert!(world.gone && world.cloud.named(NAME).is_none());
    let writes = world.cloud.calls[before..]
        .iter()
        .filter(|call| call.writes());
    let writes: Vec<_> = writes.copied().collect();
    assert_eq!(writes, [UpdateConnectionGroup, DeleteConnectionGroup]);
    assert_eq!((world.told("Disabling"), world.told("Deleted")), (1, 1));
}

#[test]
fn tenants_that_use_it_hold_it() {
    let mut world = ready_world();
    let before = world.cloud.calls.len();
    let tenants = (0..7).map(|n| ObjectKey::namespaced("web", format!("t{n}")));
    world.object.users.using = tenants.collect();
    world.delete();
    assert_eq!(
        (world.ready(), world.cloud.calls.len()),
        (no("InUse"), before)
    );
    let said = format!("{:?}", world.object.status.conditions);
    assert!(said.contains("web/t4 and 2 more"), "{said}");
    world.object.users.using.clear();
    world.pass(false);
    world.settle();
    assert!(world.gone && world.cloud.named(NAME).is_none());
}

#[rstest]
#[case::kept(DeletionPolicy::Retain, false)]
#[case::default(DeletionPolicy::Delete, true)]
fn what_is_retained_is_only_released(#[case] deletion: DeletionPolicy, #[case] is_default: bool) {
    let mut world = ready_world();
    let id = world.object.status.id.clone().unwrap();
    world.cloud.kept.get_mut(&id).unwrap().is_default = is_default;
    let writes = world
        .cloud
        .calls
        .iter()
        .filter(|call| call.writes())
        .count();
    world.edit(|object| {
        object.deletion = deletion;
        object.deleting = true;
    });
    assert!(world.gone && world.cloud.named(NAME).is_some());
    assert_eq!(world.told("Retained"), 1);
    let after = world
        .cloud
        .calls
        .iter()
        .filter(|call| call.writes())
        .count();
    assert_eq!(after, writes);
}

#[test]
fn a_group_that_others_took_is_let_go() {
    let mut world = ready_world();
    let id = world.object.status.id.clone().unwrap();
    world.cloud.kept.get_mut(&id).unwrap().tags = marks("other");
    world.delete();
    assert!(world.gone && world.cloud.named(NAME).is_some());
    assert_eq!(world.told("OwnershipLost"), 1);
}

#[test]
fn one_that_was_never_asked_for_goes_without_a_call() {
    let mut world = World::new();
    world.run();
    world.delete();
    assert!(world.gone);
    assert_eq!(world.cloud.calls, []);
}

#[test]
fn one_whose_create_was_refused_goes_at_once() {
    let mut world = World::new();
    world.cloud.tricks.push_back(Trick::Denies);
    for _ in 0..3 {
        world.run();
    }
    assert_eq!(world.ready(), no(reasons::ACCESS_DENIED));
    world.delete();
    assert!(world.gone);
}

#[test]
fn one_whose_create_may_still_come_is_waited_for() {
    let mut world = World::new();
    world.cloud.lag = Duration::from_secs(60);
    world.cloud.tricks.push_back(Trick::CutAfter);
    for _ in 0..3 {
        world.run();
    }
    world.delete();
    assert!(!world.gone);
    world.settle();
    assert!(world.gone && world.cloud.named(NAME).is_none());
    assert_eq!(world.cloud.violations, Vec::<String>::new());
}
