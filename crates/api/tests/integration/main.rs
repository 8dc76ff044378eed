//! crates/api: all tests of the tier integration, as one executable.

mod tenants_crds;
mod vault_crds;
