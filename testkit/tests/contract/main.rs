//! testkit: all tests of the tier contract, as one executable.

mod child;
mod clusters;
mod control_plane;
mod fault_effects;
mod fault_proxy;
mod postgres;
mod tools;
mod vault;
mod world;
