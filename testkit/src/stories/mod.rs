//! Shared functions for the stories of all features.
//!
//! ```text
//! WorldPool ─▶ a world of the story's Plan ─▶ the story, on the one runtime
//!   Cluster: front, restart_operator, settle
//!   Story:   until, until_status
//!   in it:   declare, change_object, annotate, events, condition_message
//! ```
//! A feature adds what its external service needs: mounts of Vault, zones of Route 53.

mod events;
mod objects;
mod pool;
mod quiet;
mod restart;

pub use events::{event, events, note};
pub use objects::{
    annotate, annotate_all, change_object, condition_message, condition_state, declare,
    is_annotated, label_namespace, manifest, merge,
};
pub use pool::{Plan, WorldPool};
pub use restart::{When, lasting_proxy};

pub(crate) use events::event_lines;
