//! features/tenants: all tests of the tier integration, as one executable.

#[path = "../stories/mod.rs"]
mod stories;
#[path = "../tables/mod.rs"]
mod tables;
#[path = "../verbs/mod.rs"]
mod verbs;

mod adoption;
mod certificates;
mod cli;
mod cli_wrong;
mod create;
mod delete;
mod deployed_at_once;
mod dns;
mod dns_edits;
mod dns_ownership;
mod drift;
mod economy;
mod edit;
mod errors;
mod groups;
mod invalidations;
mod offenders;
mod policy;
mod sources;
mod sources_prune;
mod sources_rights;
mod swap;
mod validation;
