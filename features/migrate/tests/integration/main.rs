//! features/migrate: all tests of the tier integration, as one executable.

#[path = "../stories/mod.rs"]
mod stories;

mod back_and_forth;
mod blockers;
mod by_hand;
mod capacity;
mod endings;
mod failures;
mod interference;
mod kubeconfigs;
mod logins;
mod orphans;
mod outages;
mod records;
mod reports;
mod rollbacks;
mod set_shapes;
mod snapshots;
mod spec_edits;
mod steering;
mod storagemover;
mod verbs;
mod volume_shapes;
mod waits;
mod whole_runs;
