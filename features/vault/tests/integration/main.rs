//! features/vault: all tests of the tier integration, as one executable.

#[path = "../connection_fixtures/mod.rs"]
mod connection_fixtures;
#[path = "../seed_fixtures/mod.rs"]
mod seed_fixtures;
#[path = "../stories/mod.rs"]
mod stories;

mod bootstrap;
mod cleanup;
mod cleanup_queue;
mod cluster_name;
mod connections;
mod costs;
mod deletion;
mod discovery;
mod drift;
mod login_aws;
mod logins;
mod moves;
mod ownership;
mod pairs;
mod policies;
mod quiet;
mod roles;
mod scope;
mod sealed;
mod seeds;
mod swap;
mod templates;
mod tenancy;
mod verbs;

/// How many stories use one world at once.
const STORIES_A_WORLD: usize = 8;

/// The files of one group share worlds of the same plan. A file whose stories restart the operator,
/// seal Vault or count what all namespaces do is a group by itself.
fn group(file: &'static str) -> &'static str {
    let (_, name) = file.rsplit_once('/').unwrap_or(("", file));
    match name {
        "drift.rs" | "moves.rs" => "drift, moves",
        "connections.rs" | "roles.rs" => "connections, roles",
        "costs.rs" | "pairs.rs" | "verbs.rs" => "costs, pairs, verbs",
        _ => file,
    }
}
