//! The worlds tests run in: real control planes, a real Vault, and the operator as a process.
//!
//! ```text
//! World ──▶ Cluster ──▶ ControlPlane (etcd, kube-apiserver, …) ─┐
//!                   ──▶ Operator (the binary, as its account)  ├─▶ Child ─▶ Scratch (logs)
//!                   ──▶ FaultProxy, FaultControl               │
//!       ──▶ Vault ─────────────────────────────────────────────┘
//!       ──▶ Aws (the emulator)
//! disks: simulated nodes, attacher and provisioner of a cluster with EBS disks
//! Postgres, beside a world that reads from it
//! Story: what a team does in a namespace, and what it observes
//! stories: shared functions for the stories of all features, and the pool of their worlds
//! ```
//! Every server is a [`child::Child`], which ends with the test process, also if that is killed. Every
//! port is free at first and reserved while in use. The error for a missing program names the command
//! that builds it.
// Tests wait for real processes in real time; nothing here is part of the product.
#![allow(clippy::disallowed_methods)]

mod audit;
mod aws;
mod certs;
mod checkout;
pub mod child;
mod cluster;
mod control_plane;
mod custom_resources;
pub mod disks;
mod eventually;
pub mod fault_proxy;
mod install;
mod kill_file;
mod kubeconfig;
pub mod manifests;
mod nodes;
mod operator;
pub mod port;
mod postgres;
pub mod scratch;
mod service_account;
mod shared_worlds;
mod slots;
pub mod stories;
mod story;
pub mod tools;
mod vault;
mod world;

pub use anyhow::Result;
pub use audit::{Entry, Mark};
pub use aws::Aws;
pub use certs::Authority;
pub use checkout::checkout;
pub use cluster::{Cluster, ClusterPlan};
pub use control_plane::{ControlPlane, Options, install_crypto};
pub use custom_resources::{objects_of, remove_custom_resources, until_served};
pub use eventually::{eventually, eventually_within};
pub use kill_file::KillFile;
pub use operator::{Operator, OperatorOptions, binary};
pub use postgres::Postgres;
pub use story::{Holds, Sign, Story, Team, holds, is};
pub use vault::{Answer, Vault, VaultOptions};
pub use world::{World, WorldPlan};
