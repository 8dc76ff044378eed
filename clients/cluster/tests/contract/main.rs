//! Kubeconfigs, identities and guards against a real API server.
// Tests run in real time; nothing here is part of the product.
#![allow(clippy::disallowed_methods, missing_docs)]

mod connection;
mod environment;
mod identity;
mod refused;
mod world;
