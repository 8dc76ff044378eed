//! What becomes of a group while its object lives.

use api::tenants::reasons;
use aws::Operation::{self, CreateConnectionGroup, UpdateConnectionGroup};
use rstest::rstest;

use super::super::diff;
use super::model::Trick;
use super::world::{NAME, World, declared};
use super::{by_name, marks, no, ready_world, sent, yes};
use crate::tags::Tags;

#[test]
fn a_group_is_held_announced_made_and_deployed() {
    let mut world = World::new();
    world.run();
    assert!(world.object.held);
    world.run();
    assert!(world.object.status.create_requested_at.is_some());
    assert_eq!(world.cloud.calls, []);
    world.run();
    assert_eq!(world.cloud.calls, [CreateConnectionGroup]);
    assert_eq!(world.ready(), no(reasons::CREATING));
    assert_eq!(world.synced(), yes(reasons::UPDATE_PENDING));
    world.run();
    assert_eq!(world.ready(), no(reasons::CREATING));
    world.settle();
    assert_eq!(world.ready(), yes(reasons::DEPLOYED));
    assert_eq!(world.synced(), yes(reasons::IN_SYNC));
    assert_eq!(world.object.status.observed_generation, Some(1));
    let made = world.cloud.named(NAME).unwrap();
    assert_eq!(made.tags, marks(NAME));
}

#[test]
fn a_steady_group_costs_a_list_and_nothing_else() {
    let mut world = ready_world();
    let (calls, status) = (world.cloud.calls.len(), world.object.status.clone());
    for _ in 0..5 {
        world.run();
        world.pass(false);
    }
    let new = &world.cloud.calls[calls..];
    assert!(
        new.iter()
            .all(|call| *call == Operation::ListConnectionGroups),
        "{new:?}"
    );
    assert!(new.len() <= 5, "{new:?}");
    assert_eq!(world.object.status, status);
}

#[test]
fn an_edit_is_sent_once() {
    let mut world = ready_world();
    world.edit(|object| object.declared.ipv6_enabled = false);
    assert_eq!(world.ready(), no(reasons::DEPLOYING));
    assert_eq!(world.synced(), yes(reasons::UPDATE_PENDING));
    world.settle();
    assert_eq!(sent(&world, UpdateConnectionGroup), 1);
    assert_eq!(world.ready(), yes(reasons::DEPLOYED));
}

#[test]
fn tags_are_set_and_removed_without_an_update_and_foreign_ones_stay() {
    let mut world = ready_world();
    let tag = |key: &str| (key.to_owned(), "1".to_owned());
    world.edit(|object| object.declared.tags = Tags::from([tag("x"), tag("y")]));
    let id = world.object.status.id.clone().unwrap();
    world
        .cloud
        .kept
        .get_mut(&id)
        .unwrap()
        .tags
        .extend([tag("z")]);
    world.edit(|object| object.declared.tags = Tags::from([tag("y")]));
    world.settle();
    let mut expected = marks(NAME);
    expected.extend([tag("y"), tag("z")]);
    assert_eq!(world.cloud.kept[&id].tags, expected);
    assert_eq!(sent(&world, UpdateConnectionGroup), 0);
}

#[test]
fn a_lost_answer_to_create_is_looked_for() {
    let mut world = World::new();
    world.cloud.tricks.push_back(Trick::CutAfter);
    world.settle();
    assert_eq!(sent(&world, CreateConnectionGroup), 1);
    assert_eq!(world.ready(), yes(reasons::DEPLOYED));
    assert_eq!(world.told("Adopted"), 1);
}

#[test]
fn a_crash_after_create_is_found_by_the_next_process() {
    let mut world = World::new();
    world.run();
    world.run();
    world.dies = true;
    world.run();
    assert_eq!(
        (&world.object.status.id, sent(&world, CreateConnectionGroup)),
        (&None, 1)
    );
    world.settle();
    assert_eq!(sent(&world, CreateConnectionGroup), 1);
    assert_eq!(world.ready(), yes(reasons::DEPLOYED));
}

#[rstest]
#[case::unmarked(Tags::new(), "carries no marker")]
#[case::of_another(marks("other"), "belongs to c1/other")]
fn a_group_of_that_name_is_left_alone(#[case] tags: Tags, #[case] said: &str) {
    let mut world = World::new();
    world
        .cloud
        .make(NAME, tags.clone(), diff::body(&declared()));
    world.settle();
    assert_eq!(
        (world.ready(), world.synced()),
        (no("NotOwned"), no("NotOwned"))
    );
    assert!(format!("{:?}", world.object.status.conditions).contains(said));
    assert_eq!(world.counted, ["name_conflict"]);
    assert_eq!(world.told("NotOwned"), 1);
    world.delete();
    world.settle();
    assert!(world.gone);
    assert_eq!(world.cloud.named(NAME).unwrap().tags, tags);
    assert_eq!(world.cloud.violations, Vec::<String>::new());
}

#[test]
fn an_unmarked_group_is_adopted_tags_first() {
    let mut world = World::new();
    world.object.adoption = Some(by_name());
    let mut body = diff::body(&declared());
    body.ipv6_enabled = false;
    world.cloud.make(NAME, Tags::new(), body);
    world.settle();
    let writes = world.cloud.calls.iter().filter(|call| call.writes());
    let writes: Vec<_> = writes.copied().collect();
    assert_eq!(writes, [Operation::TagResource, UpdateConnectionGroup]);
    assert_eq!(
        (world.ready(), world.told("Adopted")),
        (yes(reasons::DEPLOYED), 1)
    );
}

#[test]
fn one_of_another_is_not_adopted() {
    let mut world = World::new();
    world.object.adoption = Some(by_name());
    world
        .cloud
        .make(NAME, marks("other"), diff::body(&declared()));
    world.settle();
    assert_eq!(world.ready(), no(reasons::NOT_OWNED));
    assert!(world.cloud.calls.iter().all(|call| !call.writes()));
}
