//! The run of one StatefulSetMigration: what the next change is, from what both clusters and EC2 show. Pure.

pub mod begin;
mod budgets;
pub mod closing;
pub mod core;
pub mod course;
pub mod decision;
pub mod detach;
pub mod documents;
pub mod extract;
pub mod finish;
#[cfg(test)]
mod fixture;
pub mod freeze;
pub mod gate;
pub mod handover;
pub mod interference;
pub mod limits;
#[cfg(test)]
mod model;
pub mod moves;
pub mod observation;
pub mod orphan;
pub mod pass;
pub mod preview;
pub mod progress;
pub mod rendered;
mod status;
pub mod undo;
