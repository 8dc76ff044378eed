//! The emulator over real HTTP: who may call, what goes wrong on request, what is told.

// Not the product: deadlines of tests are real time.
#![allow(clippy::disallowed_methods)]

mod boto3;
mod control;
mod crowding;
mod escaping;
mod faults;
mod probe;
mod program;
mod regions;
mod signing;
mod sts;
mod world;
