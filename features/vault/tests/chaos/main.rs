//! features/vault: all tests of the tier chaos, as one executable.

#[path = "../connection_fixtures/mod.rs"]
mod connection_fixtures;
#[path = "../crashes/mod.rs"]
mod crashes;
#[path = "../seed_fixtures/mod.rs"]
mod seed_fixtures;
#[path = "../stories/mod.rs"]
mod stories;

mod bootstrap;
mod cleanup;
mod discovery;
mod moves;
mod replicas;
mod restarts;
mod sealed;
mod seeds;
mod vault;

/// How many stories use one world at once. The operator of a world dies in many of them.
const STORIES_A_WORLD: usize = 1;

/// Files of the same plan share their worlds: a world has one story at a time.
const fn group(_file: &'static str) -> &'static str {
    ""
}
