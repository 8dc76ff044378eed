//! The client against the emulator, over HTTP.
// Tests run in real time; nothing here is part of the product.
#![allow(clippy::disallowed_methods, missing_docs)]

mod botocore;
mod credentials;
mod domains;
mod ec2;
mod environment;
mod errors;
mod faults;
mod groups;
mod limits;
mod others;
mod plain;
mod route53;
mod tenants;
mod tickets;
mod views;
mod world;
mod zone_writer;
