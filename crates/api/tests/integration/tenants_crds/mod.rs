//! The kinds of cloudfront-tenant-operator.io as a real API server takes them: what it accepts, what
//! it refuses and with which words, what it fills in, and what it forgives to objects stored before.

mod accepted;
mod offenders;
mod refused;
pub(crate) mod server;
mod swap;
