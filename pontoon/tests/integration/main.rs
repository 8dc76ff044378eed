//! pontoon: all tests of the tier integration, as one executable.

#[path = "../outside/mod.rs"]
mod outside;
#[path = "../probe_objects/mod.rs"]
mod probe_objects;
#[path = "../../../features/vault/tests/stories/mod.rs"]
mod stories;

mod cli;
mod other_cluster;
mod probe;
mod traces;
mod vault_cli;
mod watch;

/// How many stories use one world at once.
const STORIES_A_WORLD: usize = 8;

/// Each file has its own worlds.
const fn group(file: &'static str) -> &'static str {
    file
}
