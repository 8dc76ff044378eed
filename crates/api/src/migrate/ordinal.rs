//! What a run has recorded of one ordinal.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Location, StepName};
use crate::schema::{is_default, never_null};

/// What a run has recorded of an ordinal: its pod, its claims and their disks.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = never_null)]
pub struct OrdinalRecord {
    /// The ordinal.
    pub ordinal: i32,
    /// Where it is.
    #[serde(rename = "place")]
    pub location: Location,
    /// The step that it is at, or the last one that was done.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub step: Option<StepName>,
    /// How often the step was begun again.
    #[serde(default, skip_serializing_if = "is_default")]
    pub attempts: i32,
    /// The UID of its pod at the source.
    #[serde(rename = "sourcePodUID", skip_serializing_if = "Option::is_none")]
    pub source_pod_uid: Option<String>,
    /// The node that its pod left.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node: Option<NodeRecord>,
    /// The UID of its pod at the destination.
    #[serde(rename = "destPodUID", skip_serializing_if = "Option::is_none")]
    pub dest_pod_uid: Option<String>,
    /// Its claims, in the order of the templates.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub claims: Vec<ClaimRecord>,
    /// When its current or last move reached each point.
    #[serde(default, skip_serializing_if = "is_default")]
    pub times: MoveTimes,
    /// How long the parts of its last finished move took, in seconds.
    #[serde(default, skip_serializing_if = "is_default")]
    pub segments: Segments,
    /// How long its last finished move kept it down, in seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub downtime_seconds: Option<f64>,
    /// The last error; a success removes it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_error: Option<String>,
}

/// A node, as it was when a pod left it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = never_null)]
pub struct NodeRecord {
    /// Its name.
    pub name: String,
    /// The id of its instance in EC2.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub instance: Option<String>,
    /// Its boot id: another one means that it was restarted.
    #[serde(rename = "bootID", skip_serializing_if = "Option::is_none")]
    pub boot_id: Option<String>,
}

/// A claim, its disk, and their objects on both sides.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = never_null)]
pub struct ClaimRecord {
    /// The name of the claim, the same on both sides.
    pub name: String,
    /// The source PersistentVolume.
    #[serde(rename = "sourcePV")]
    pub source_pv: String,
    /// Its UID.
    #[serde(rename = "sourcePVUID")]
    pub source_pv_uid: String,
    /// Its reclaim policy when the run began.
    pub reclaim_policy: String,
    /// The id of the disk in EC2.
    pub volume_id: String,
    /// Its zone in EC2.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub zone: Option<String>,
    /// The tags of the disk that the run changes, as they were. Those that it did not have are left out. None
    /// before they were read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub old_tags: Option<BTreeMap<String, String>>,
    /// The snapshot of the disk.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub snapshot_id: Option<String>,
    /// The destination PersistentVolume.
    #[serde(rename = "destPV", skip_serializing_if = "Option::is_none")]
    pub dest_pv: Option<String>,
    /// The UID of the destination claim.
    #[serde(rename = "destPVCUID", skip_serializing_if = "Option::is_none")]
    pub dest_pvc_uid: Option<String>,
}

/// When a move, in either direction, reached each point. A new move begins with none.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[schemars(transform = never_null)]
pub struct MoveTimes {
    /// The side that it leaves no longer wanted the pod.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub released: Option<MicroTime>,
    /// The pod was no longer ready: the downtime begins.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unready: Option<MicroTime>,
    /// The pod did not exist.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gone: Option<MicroTime>,
    /// Every disk was confirmed as free.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub detached: Option<MicroTime>,
    /// The side that it goes to wanted the pod.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub grown: Option<MicroTime>,
    /// Every disk was attached there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attached: Option<MicroTime>,
    /// The pod was ready there: the downtime ends.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ready: Option<MicroTime>,
}

/// How long the parts of a downtime took, in seconds.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[schemars(transform = never_null)]
pub struct Segments {
    /// From a pod that is not ready to none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub terminate: Option<f64>,
    /// From no pod to disks that are free.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub detach: Option<f64>,
    /// From free disks to a StatefulSet that wants the pod.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub handover: Option<f64>,
    /// From there to attached disks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attach: Option<f64>,
    /// From attached disks to a pod that is ready.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start: Option<f64>,
}
