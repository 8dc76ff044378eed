//! Vault access, declared per namespace: the pure ground of the feature.
//!
//! ```text
//! language: policy texts, canonical form, coverage     names: identities, derived names, mounts
//! owner: whose a thing in Vault is                     drift: edit or drift, and what follows
//! pairs: roles that admit exactly whom they name
//! ```
//! The controllers that stand on it are not here yet, and no build of the operator has the feature.

pub mod drift;
pub mod language;
pub mod names;
pub mod owner;
pub mod pairs;
