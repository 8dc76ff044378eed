//! crates/engine: all tests of the tier integration, as one executable.

mod applier;
mod events;
mod other_cluster;
