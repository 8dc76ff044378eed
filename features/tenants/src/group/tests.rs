//! What passes over a group do, against a model of CloudFront.

mod drift;
mod end;
mod errors;
mod laws;
mod life;
mod model;
mod rules;
mod world;

use api::tenants::{GroupAdoptBy, GroupAdoption, reasons};
use aws::Operation;

use crate::tags::{Tags, at_creation};
pub(super) use world::facts;
use world::{World, marker};

fn sent(world: &World, operation: Operation) -> usize {
    let calls = world.cloud.calls.iter();
    calls.filter(|call| **call == operation).count()
}

fn ready_world() -> World {
    let mut world = World::new();
    world.settle();
    assert_eq!(world.ready(), (reasons::DEPLOYED.to_owned(), true));
    world
}

fn marks(object: &str) -> Tags {
    at_creation(&Tags::new(), &marker(object))
}

fn by_name() -> GroupAdoption {
    GroupAdoption {
        by: GroupAdoptBy::Name,
    }
}

fn no(reason: &str) -> (String, bool) {
    (reason.to_owned(), false)
}

fn yes(reason: &str) -> (String, bool) {
    (reason.to_owned(), true)
}
