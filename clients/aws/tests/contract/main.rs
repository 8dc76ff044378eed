//! The client against the emulator, over HTTP.
// Tests run in real time; nothing here is part of the product.
#![allow(clippy::disallowed_methods, missing_docs)]

mod credentials;
mod domains;
mod environment;
mod errors;
mod faults;
mod groups;
mod limits;
mod others;
mod route53;
mod tenants;
mod tickets;
mod world;
