//! features/migrate: all tests of the tier chaos, as one executable.

#[path = "../stories/mod.rs"]
#[allow(unused_imports)] // the stories of the other tier use the rest
mod stories;

mod crashes;
mod ends;
mod lost_answers;
mod replicas;
mod supervisor;
