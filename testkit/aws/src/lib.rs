//! An emulator of AWS for tests and for work by hand: one HTTP server, many services.
//!
//! ```text
//! request -> sigv4 (who, which scope) -> accounts (whose key) -> router (service, operation)
//!         -> faults (what goes wrong) -> service -> log -> answer
//! /_emu/… -> control (clock, switches, faults, mutate, log, state, violations, oracle, leaks, reset)
//! ```
//! Services plug in through [`Service`]; STS is always there, [`probe`] is the smallest example.
//! Each service keeps an oracle, and [`oracle`] has what is common to them: what a caller must
//! never do is done anyway, and told under `violations`, so that a test can fail for it.
//!
//! # What it is not
//! No signature is verified and no IAM policy evaluated, and nothing outlives the emulator.
//! Do not let it listen on anything but loopback: `/_emu` asks nobody who he is.

// Not the product: the emulator has a clock of its own and ends its tasks with its thread.
#![allow(clippy::disallowed_methods)]

pub mod accounts;
pub mod acm;
pub mod clock;
pub mod cloudfront;
pub mod control;
#[cfg(test)]
mod desk;
pub mod dynamodb;
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
mod underway;
pub mod wire;
pub mod xml;

pub use server::{Builder, Emulator, StartError};
pub use service::{Call, ControlError, Leak, Moment, Operation, Outcome, Service, Verb, Violation};
