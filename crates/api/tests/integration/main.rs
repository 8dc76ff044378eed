//! crates/api: all tests of the tier integration, as one executable.

mod migrate_crds;
mod tenants_crds;
mod vault_crds;
