//! features/tenants: all tests of the tier chaos, as one executable.

#[path = "../crashes/mod.rs"]
mod crashes;
#[path = "../stories/mod.rs"]
mod stories;
#[path = "../tables/mod.rs"]
mod tables;

mod create;
mod delete;
mod dns;
mod others;
mod replicas;
mod update;
