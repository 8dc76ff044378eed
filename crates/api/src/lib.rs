//! The kinds Pontoon knows, one module a feature: types, defaults, rules, reasons. No I/O.
//!
//! Validation lives in the schema, so that it holds without a webhook; what needs the outside world
//! is a condition. Reasons are constants here, each explained where it stands.

pub mod migrate;
pub mod probe;
mod schema;
mod stored;
pub mod tenants;
pub mod vault;
