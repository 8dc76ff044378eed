//! Worlds that run until they are stopped: `up` for newcomers, `world` for manual work.

mod app;
mod board;
mod cloud;
mod clusters;
mod example_files;
mod examples;
mod migrate;
mod moving_set;
mod screen;
mod simulated_cluster;
mod surroundings;
mod up;
mod website;
mod world;

pub(crate) use migrate::MigrateFlags;
pub(crate) use up::{Up, up};
pub(crate) use world::world;
