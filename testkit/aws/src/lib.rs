//! An emulator of AWS for tests and for manual use: one HTTP server, many services.
//!
//! ```text
//! request -> sigv4 (key, scope) -> accounts (account of the key) -> router (service, operation)
//!         -> faults (which fault) -> service -> log -> answer
//! /_emu/… -> control (clock, switches, faults, mutate, log, state, violations, oracle, leaks, reset)
//! ```
//! Services implement [`Service`]; STS is always included, [`probe`] is the smallest example.
//! Each service has an oracle, and [`oracle`] has their shared part: a call that breaks a rule is
//! executed and reported under `violations`, so that a test can fail for it.
//!
//! # What it is not
//! No signature is verified, no IAM policy is evaluated, and nothing is stored.
//! Let it listen on loopback only: `/_emu` requires no authentication.

// Not part of the product: the emulator has its own clock and ends its tasks with its thread.
#![allow(clippy::disallowed_methods)]

pub mod accounts;
pub mod acm;
pub mod boto3;
pub mod clock;
pub mod cloudfront;
pub mod control;
#[cfg(test)]
mod desk;
pub mod dynamodb;
pub mod ec2;
mod exclusive;
pub mod faults;
mod limits;
pub mod log;
pub mod oracle;
pub mod probe;
pub mod protocol;
pub mod route53;
mod router;
mod server;
pub mod service;
pub mod shelf;
pub mod sigv4;
pub mod span;
mod sts;
pub mod switches;
pub mod tenants;
pub mod wire;
pub mod xml;

pub use server::{Builder, Emulator, StartError};
pub use service::{
    Call, ControlError, Leak, Moment, Operation, Outcome, Service, TimelineEntry, Verb, Violation,
};
