//! Moving a StatefulSet with its EBS disks to another cluster: the kind of `migration.aqua.io/v1alpha1`.
//!
//! Objects that aqua-service-controller stored are valid here and read without loss. Hence in this module:
//! rules it did not have sit on the narrowest field or concern edits only (the API server forgives an unchanged
//! field, so a stored offender still takes status and loses its finalizer); no field of a spec or status accepts
//! null, so that unset and null stay the same; and a controller reads a [`StoredMigration`], in which a spec that
//! breaks a rule is an error of this object alone.

mod check_id;
mod choices;
mod closed_set;
pub mod conditions;
pub mod events;
mod go_duration;
pub mod names;
mod ordinal;
pub mod reasons;
mod rules;
mod spec;
mod status;
mod step;
#[cfg(test)]
mod tests;
mod valid;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::CustomResourceExt;

pub use check_id::{CheckId, Severity};
pub use choices::{
    Abort, CleanupPolicy, DestReclaimPolicy, DormantClaims, OnFailure, SnapshotTime, Strategy,
};
pub use closed_set::UnknownValue;
pub use go_duration::GoDuration;
pub use ordinal::{ClaimRecord, MoveTimes, NodeRecord, OrdinalRecord, Segments};
pub use reasons::{FailReason, HoldEnd, HoldReason, StallReason};
pub use spec::{
    ClusterAccess, Fence, Snapshots, SourceCleanup, StatefulSetMigration, StatefulSetMigrationSpec,
};
pub use status::{
    CaptureRecord, Finding, HoldRecord, Intent, Location, MigratedPod, Phase, Preflight,
    StatefulSetMigrationStatus, Window,
};
pub use step::StepName;
pub use valid::{InvalidSpec, StoredMigration};

/// The definition of the one kind.
pub fn crds() -> Vec<CustomResourceDefinition> {
    vec![StatefulSetMigration::crd()]
}
