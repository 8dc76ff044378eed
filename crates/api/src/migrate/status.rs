//! What is known of a StatefulSetMigration, and what its run has recorded.

use k8s_openapi::api::apps::v1::StatefulSetPersistentVolumeClaimRetentionPolicy;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, MicroTime, Time};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::closed_set::closed_set;
use super::{CheckId, FailReason, HoldReason, OrdinalRecord, Severity, StepName, Strategy};
use crate::schema::{is_default, never_null, none_required};
use crate::stored::{lenient, understood};

closed_set! {
    /// How far a run is. Pauses, holds and stalls are conditions: the phase stays.
    Phase {
        /// Nothing was done yet.
        Pending = "Pending",
        /// The checks run. Nothing is written outside.
        PreFlightChecks = "PreFlightChecks",
        /// `dryRun`: the checks are done and the plan is in the status. Nothing was written outside.
        Planned = "Planned",
        /// Captures, locks and protection are being set up, and the destination prepared. Every pod runs.
        FreezingSource = "FreezingSource",
        /// Ordinals move, one at a time.
        MigratingPods = "MigratingPods",
        /// Every ordinal runs at the destination. The source is being cleaned up.
        Finalizing = "Finalizing",
        /// The run is over: everything is at the destination.
        Completed = "Completed",
        /// Ordinals move back, one at a time, and what the run made is removed.
        RollingBack = "RollingBack",
        /// The run is over: everything is at the source, as it was.
        RolledBack = "RolledBack",
        /// The run has stopped. It goes on at the step that the evidence shows, after `retry` was raised.
        Failed = "Failed",
    }
}

closed_set! {
    /// Where an ordinal is.
    #[derive(Default)]
    Location {
        /// At the source.
        #[default]
        Source = "Source",
        /// On its way, in either direction.
        Moving = "Moving",
        /// At the destination.
        Destination = "Destination",
    }
}

/// What is known of a migration.
///
/// What cannot be read in the reports (conditions, preflight, moved pods) is left out. The record of the run
/// is read whole or not at all: nobody may go on from a half.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = never_null, transform = none_required)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a fact of its own, and they are fields of the API"
)]
pub struct StatefulSetMigrationStatus {
    /// How far the run is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phase: Option<Phase>,
    /// How many ordinals run at the destination.
    #[serde(default)]
    pub current_index: i32,
    /// How many ordinals the set has.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub total_replicas: Option<i32>,
    /// The ordinals that run at the destination, in the order in which they moved.
    #[serde(
        default,
        deserialize_with = "understood",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub migrated_pods: Vec<MigratedPod>,
    /// Standard conditions.
    #[serde(
        default,
        deserialize_with = "understood",
        skip_serializing_if = "Vec::is_empty"
    )]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
    /// The last error; a success removes it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_error: Option<String>,
    /// When the run began.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start_time: Option<Time>,
    /// When it was completed or rolled back.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub completion_time: Option<Time>,
    /// The UID of the source StatefulSet.
    #[serde(
        rename = "sourceStatefulSetUID",
        skip_serializing_if = "Option::is_none"
    )]
    pub source_stateful_set_uid: Option<String>,
    /// The source PersistentVolumes of the set, recorded before they are changed.
    #[serde(
        rename = "preservedPVs",
        default,
        deserialize_with = "understood",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub preserved_pvs: Vec<String>,
    /// The last generation of the spec that a pass acted on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Whether the first intent to write outside was saved. From then on most of the spec is frozen.
    #[serde(default, skip_serializing_if = "is_default")]
    pub started: bool,
    /// Whether the first intent to delete at the source was saved. From then on there is no way back, and
    /// `spec.sourceCleanup` is frozen.
    #[serde(default, skip_serializing_if = "is_default")]
    pub cleanup_started: bool,
    /// Whether the first intent was saved to delete the source StatefulSet and leave its pods (`OrphanAdopt`).
    /// From then on its absence is the work of this run, until a rollback has created it again.
    #[serde(default, skip_serializing_if = "is_default")]
    pub orphan_started: bool,
    /// Whether the API server of the source has no `spec.ordinals`. A rollback of `OrphanAdopt` then creates the
    /// source StatefulSet again with all of its ordinals at once.
    #[serde(default, skip_serializing_if = "is_default")]
    pub without_ordinals: bool,
    /// Whether the run goes back to the source. It never turns forward again.
    #[serde(default, skip_serializing_if = "is_default")]
    pub rolling_back: bool,
    /// The id of the run: the UID of the object when it began.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run_id: Option<String>,
    /// The strategy in use.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub strategy: Option<Strategy>,
    /// The last `spec.retry` that a pass acted on.
    #[serde(default, skip_serializing_if = "is_default")]
    pub observed_retry: i64,
    /// The identity of the source cluster: the UID of its namespace `kube-system`.
    #[serde(rename = "sourceClusterUID", skip_serializing_if = "Option::is_none")]
    pub source_cluster_uid: Option<String>,
    /// The identity of the destination cluster.
    #[serde(rename = "destClusterUID", skip_serializing_if = "Option::is_none")]
    pub dest_cluster_uid: Option<String>,
    /// The ordinals of the source StatefulSet when the run began.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub window: Option<Window>,
    /// The retention policy of the source StatefulSet when the run began.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retention_policy: Option<StatefulSetPersistentVolumeClaimRetentionPolicy>,
    /// The capture of the source.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub capture: Option<CaptureRecord>,
    /// The step that was announced and is not confirmed yet.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub intent: Option<Intent>,
    /// The hold that the run is in. Most holds end when their cause is gone and a person has raised `spec.retry`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hold: Option<HoldRecord>,
    /// Why the run has failed. A person ends it by raising `spec.retry`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure: Option<FailReason>,
    /// The last preflight.
    #[serde(
        default,
        deserialize_with = "lenient",
        skip_serializing_if = "Option::is_none"
    )]
    pub preflight: Option<Preflight>,
    /// What the run does, in order, at most 200 lines.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub plan: Vec<String>,
    /// Every ordinal with claims, in ascending order: those of the window and dormant ones.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ordinals: Vec<OrdinalRecord>,
}

/// An ordinal that runs at the destination.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = never_null, transform = none_required)]
pub struct MigratedPod {
    /// The ordinal.
    pub index: i32,
    /// The pod.
    pub pod_name: String,
    /// The disk of its first claim.
    pub volume_id: String,
    /// The disks of all its claims.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub volume_ids: Vec<String>,
    /// When it was ready at the destination.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub migrated_at: Option<Time>,
}

/// The ordinals of a StatefulSet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Window {
    /// The first.
    pub start: i32,
    /// How many.
    pub replicas: i32,
    /// Whether the object had the field `spec.ordinals`.
    pub had_ordinals: bool,
}

/// Where the source's objects are captured, and what they hash to.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = never_null)]
pub struct CaptureRecord {
    /// The name of the Secret, in the object's namespace and in the source namespace.
    pub secret: String,
    /// The hash of its content.
    pub sha256: String,
    /// The hash of the source StatefulSet's spec without replicas, ordinals and retention policy.
    pub template_sha256: String,
    /// The same of the destination's, as its API server returned it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dest_template_sha256: Option<String>,
}

/// A step that was announced before its effect, so that a crash in between leaves evidence.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(transform = never_null)]
pub struct Intent {
    /// The step.
    pub step: StepName,
    /// The ordinal; none for a step of the whole run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ordinal: Option<i32>,
    /// Differs from that of every other intent of the run.
    pub token: String,
    /// When it was announced.
    pub at: MicroTime,
}

/// A hold of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(transform = never_null)]
pub struct HoldRecord {
    /// Its reason.
    pub reason: HoldReason,
    /// The ordinal that it concerns; none if it concerns the whole run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ordinal: Option<i32>,
}

/// The last preflight.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(transform = never_null, transform = none_required)]
pub struct Preflight {
    /// When it ran.
    pub at: Time,
    /// What it found.
    #[serde(
        default,
        deserialize_with = "understood",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub checks: Vec<Finding>,
}

/// What a preflight check found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(transform = never_null, transform = none_required)]
pub struct Finding {
    /// The check.
    pub id: CheckId,
    /// What it does to the run.
    pub severity: Severity,
    /// The object or setting that it concerns.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub subject: String,
    /// What was found, and what is needed.
    pub message: String,
    /// The command or field that helps.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub remedy: String,
}

impl Phase {
    /// Whether the run is over. Only `sourceCleanup.policy: Keep` lets a completed one be rolled back.
    pub fn is_over(self) -> bool {
        match self {
            Self::Completed | Self::RolledBack => true,
            Self::Pending
            | Self::PreFlightChecks
            | Self::Planned
            | Self::FreezingSource
            | Self::MigratingPods
            | Self::Finalizing
            | Self::RollingBack
            | Self::Failed => false,
        }
    }
}

impl Window {
    /// Whether the window contains the ordinal. One beyond it is dormant.
    pub fn contains(&self, ordinal: i32) -> bool {
        (self.start..self.start.saturating_add(self.replicas)).contains(&ordinal)
    }
}

impl StatefulSetMigrationStatus {
    /// The record of an ordinal.
    pub fn ordinal(&self, ordinal: i32) -> Option<&OrdinalRecord> {
        self.ordinals.iter().find(|one| one.ordinal == ordinal)
    }

    /// The record of an ordinal, to be changed.
    pub fn ordinal_mut(&mut self, ordinal: i32) -> Option<&mut OrdinalRecord> {
        self.ordinals.iter_mut().find(|one| one.ordinal == ordinal)
    }
}
