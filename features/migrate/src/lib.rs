//! Moves a running StatefulSet and its EBS disks to another cluster, ordinal by ordinal, and back.
//!
//! No data is copied: a disk is detached from a node of the source and attached to a node of the
//! destination. What is here so far is pure: it decides on values and makes no call.

pub mod migration;
pub mod preflight;
mod quantity;
pub mod record;
pub mod translate;
