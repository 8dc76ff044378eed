//! features/vault: all tests of the tier contract, as one executable.

mod bootstrap;
mod policy_language;

// `bootstrap` compiles private modules of the feature, which look for these in the crate's root.
use vault::{language, names};
