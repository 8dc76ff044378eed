//! features/migrate: all tests of the tier integration, as one executable.

#[path = "../stories/mod.rs"]
mod stories;

mod whole_runs;
