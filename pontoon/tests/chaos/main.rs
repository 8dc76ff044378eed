//! pontoon: all tests of the tier chaos, as one executable.

#[path = "../outside/mod.rs"]
mod outside;

mod crashes;
mod ends;
mod predecessor;
mod replicas;
