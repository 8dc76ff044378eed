//! Worlds that run until stopped: `up` for a newcomer, `world` for work by hand.

mod app;
mod cloud;
mod examples;
mod screen;
mod site;
mod surroundings;
mod up;
mod world;

pub(crate) use up::{Up, up};
pub(crate) use world::world;
