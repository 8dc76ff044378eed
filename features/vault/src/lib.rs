//! Vault access, declared per namespace: policies, roles and seeds in Vault or OpenBao.
//!
//! ```text
//! VaultConnection <- VaultPolicy, VaultClusterPolicy <- VaultRole, VaultClusterRole
//!                 <- VaultKVSecret
//! ```
//! # Watches
//! Its six kinds, the labels of namespaces, its own cleanup records. Secrets never: a connection
//! reads the ones it names.
//! # Owns
//! In Vault: what carries the object's marker or is on its record, seeds it wrote. Here: the records
//! of leftovers.
//! # Promises
//! - What is not ours is neither written nor deleted.
//! - A seed is written once and never read back into Kubernetes.
//! - A finalizer goes when Vault has confirmed, when the policy is `Retain`, or when a record of the
//!   leftover is kept.
//! - While Vault is sealed or away, objects wait and say so.

mod cleanup;
mod cli;
mod connection;
mod controllers;
mod ctx;
mod discovery;
pub mod drift;
mod feature;
#[cfg(test)]
mod fixture;
mod follow;
mod kv;
pub mod language;
mod links;
mod metrics;
pub mod names;
pub mod owner;
pub mod pairs;
mod place;
mod policy;
mod realm;
mod role;
mod settings;
mod sync;
mod tenancy;

pub use feature::VaultFeature;
