//! Moves a running StatefulSet and its EBS disks to another cluster, ordinal by ordinal, and back.
//!
//! No data is copied: a disk is detached from a node of the source and attached to a node of the
//! destination.
//!
//! ```text
//! StatefulSetMigration ──▶ migration (decides) ──▶ io ──▶ clusters: source and destination
//!                                                   └───▶ volume_reads, ec2
//! ```

mod cli;
mod clusters;
mod controller;
mod ec2;
mod feature;
mod io;
mod metrics;
pub mod migration;
pub mod preflight;
mod quantity;
pub mod record;
mod settings;
mod survey;
pub mod translate;
mod volume_reads;

pub use feature::MigrateFeature;
