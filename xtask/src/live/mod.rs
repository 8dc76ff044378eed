//! Worlds that run until they are stopped: `up` for newcomers, `world` for manual work.

mod app;
mod cloud;
mod clusters;
mod examples;
mod migrate;
mod screen;
mod surroundings;
mod up;
mod website;
mod world;

pub(crate) use migrate::MigrateFlags;
pub(crate) use up::{Up, up};
pub(crate) use world::world;
