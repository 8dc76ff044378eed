//! The emulator over real HTTP: authentication, faults, control.

// Not part of the product: deadlines of tests are in real time.
#![allow(clippy::disallowed_methods)]

mod boto3;
mod control;
mod crowding;
mod ec2;
mod escaping;
mod faults;
mod probe;
mod program;
mod regions;
mod signing;
mod sts;
mod world;
