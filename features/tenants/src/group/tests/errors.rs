//! What errors of CloudFront do to a group.

use std::time::Duration;

use api::tenants::reasons;
use aws::Operation::{CreateConnectionGroup, UpdateConnectionGroup};

use super::super::diff;
use super::model::Trick;
use super::world::{NAME, World, declared};
use super::{no, ready_world, sent, yes};
use crate::tags::Tags;

#[test]
fn what_passes_is_told_the_third_time_and_forgotten() {
    let mut world = World::new();
    world.cloud.tricks.extend([Trick::Breaks; 3]);
    for _ in 0..4 {
        world.run();
    }
    assert_eq!(world.ready(), no(reasons::CREATING));
    world.run();
    assert_eq!(world.ready(), no(reasons::AWS_ERROR));
    world.settle();
    assert_eq!(world.ready(), yes(reasons::DEPLOYED));
    assert_eq!(world.counted, ["retryable"; 3]);
}

#[test]
fn throttling_changes_no_condition_and_waits_a_minute() {
    let mut world = ready_world();
    world.cloud.tricks.push_back(Trick::Throttles);
    let before = world.object.status.clone();
    world.edit(|object| object.declared.ipv6_enabled = false);
    assert_eq!(world.object.status, before);
    let wait = world.due.saturating_sub(world.cloud.now);
    assert!((60..=90).contains(&wait.as_secs()), "{wait:?}");
    assert_eq!(world.counted, ["throttling"]);
    world.settle();
    assert_eq!(sent(&world, UpdateConnectionGroup), 1);
}

#[test]
fn a_stale_version_is_read_again_three_times_and_not_counted() {
    let mut world = ready_world();
    world.cloud.tricks.extend([Trick::Fair, Trick::Stale]);
    world.edit(|object| object.declared.ipv6_enabled = false);
    assert_eq!(sent(&world, UpdateConnectionGroup), 2);
    assert_eq!(world.synced(), yes(reasons::UPDATE_PENDING));

    let mut world = ready_world();
    world
        .cloud
        .tricks
        .extend([Trick::Fair, Trick::Stale].repeat(4));
    world.edit(|object| object.declared.ipv6_enabled = false);
    assert_eq!(sent(&world, UpdateConnectionGroup), 4);
    assert!(world.due > world.cloud.now);
    assert_eq!(world.counted, Vec::<&str>::new());
    world.settle();
    assert_eq!(world.ready(), yes(reasons::DEPLOYED));
}

#[test]
fn a_refusal_is_not_repeated_by_chance_and_an_edit_tries_at_once() {
    let mut world = ready_world();
    world.cloud.tricks.extend([Trick::Fair, Trick::Denies]);
    world.edit(|object| object.declared.ipv6_enabled = false);
    assert_eq!(world.ready(), no(reasons::ACCESS_DENIED));
    let calls = world.cloud.calls.len();
    for _ in 0..3 {
        world.pass(false);
    }
    assert_eq!(world.cloud.calls.len(), calls);
    world.edit(|object| object.declared.enabled = false);
    assert_eq!(world.synced(), yes(reasons::UPDATE_PENDING));
}

#[test]
fn a_name_that_is_taken_and_cannot_be_seen_is_not_asked_for_again() {
    let mut world = World::new();
    world.cloud.make(NAME, Tags::new(), diff::body(&declared()));
    world.cloud.lag = Duration::from_secs(60);
    // Create is refused, and the look for who has the name fails.
    world.cloud.tricks.extend([Trick::Fair, Trick::Breaks]);
    for _ in 0..6 {
        world.run();
    }
    assert_eq!(sent(&world, CreateConnectionGroup), 1);
    world.settle();
    assert_eq!(world.ready(), no(reasons::NOT_OWNED));
    assert_eq!(sent(&world, CreateConnectionGroup), 1);
}
