//! features/migrate: all tests of the tier integration, as one executable.

#[path = "../stories/mod.rs"]
mod stories;

mod blockers;
mod endings;
mod interference;
mod kubeconfigs;
mod set_shapes;
mod spec_edits;
mod steering;
mod whole_runs;
