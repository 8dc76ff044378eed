//! What the objects of a StatefulSet become in another cluster, and what they become here meanwhile.
//!
//! ```text
//! source PV, PVC ─▶ dest_pair ─▶ PV, PVC (verified)      captured PVC ─▶ tombstone, restored_claim
//! source StatefulSet ─▶ dest_stateful_set                answer of a create ─▶ differing_fields
//!                                                        StatefulSet before, after ─▶ edits
//! ```
//!
//! Objects are JSON, typed only by their kind ([`Document`]): a field that our version of the Kubernetes
//! types lacks would be lost on the way through a struct, and the contract promises to keep every field.
//! Each translation therefore starts from a copy of the source and names what it drops and changes.
//!
//! Pure: `pontoon storagemover translate` and a run call the same functions.

pub mod claim;
pub mod classes;
pub mod document;
pub mod edits;
pub mod keys;
pub mod matches;
mod metadata;
pub mod names;
pub mod pair;
pub mod restored;
pub mod stateful_set;
pub mod tombstone;
pub mod verify;
pub mod volume;
pub mod volume_id;
pub mod window;
pub mod zone;

#[cfg(test)]
mod fixtures;

use classes::ClassMapping;

pub use document::Document;
pub use pair::dest_pair;
pub use stateful_set::dest_stateful_set;

/// Where objects are translated to.
#[derive(Debug, Clone, Copy)]
pub struct Destination<'a> {
    /// The namespace at the destination.
    pub namespace: &'a str,
    /// The mapping of storage classes.
    pub classes: &'a ClassMapping,
    /// The run whose marker the objects carry; none for a single volume moved by hand.
    pub run: Option<RunMarker<'a>>,
}

/// Which run made an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RunMarker<'a> {
    /// The UID of the migration at its start.
    pub run_id: &'a str,
    /// `spec.migrationId`.
    pub migration_id: &'a str,
}

/// What one volume and its claim get at the destination.
#[derive(Debug, Clone, Copy)]
pub struct PairTarget<'a> {
    /// The name of the PersistentVolume.
    pub volume: &'a str,
    /// The name of the PersistentVolumeClaim.
    pub claim: &'a str,
    /// The availability zone that EC2 shows for the volume.
    pub zone: &'a str,
}
