//! StatefulSetMigration: a StatefulSet on its way to another cluster.

use std::collections::BTreeMap;
use std::time::Duration;

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::choices::{
    Abort, CleanupPolicy, DestReclaimPolicy, DormantClaims, OnFailure, SnapshotTime, Strategy,
};
use super::rules::{
    abort_stays, frozen, frozen_by_cleanup, names_in_pairs, retry_rises, rollback_stays,
    usable_tags,
};
use super::{GoDuration, StatefulSetMigrationStatus, names};
use crate::schema::{is_default, never_null};

/// A DNS-1123 label.
const LABEL: &str = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$";
/// A DNS-1123 subdomain.
const SUBDOMAIN: &str = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$";
/// A key of a Secret, or nothing.
const SECRET_KEY: &str = "^[-._a-zA-Z0-9]*$";
/// The id of a check or hold, of one ordinal or of all.
const ACKNOWLEDGED: &str = "^[A-Za-z][A-Za-z0-9]*(/[0-9]+)?$";

/// A StatefulSet and its EBS disks on their way to another cluster.
#[derive(CustomResource, Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "migration.aqua.io",
    version = "v1alpha1",
    kind = "StatefulSetMigration",
    doc = "Moves a running StatefulSet and its EBS disks to another cluster, ordinal by ordinal, and back. No data is copied.",
    plural = "statefulsetmigrations",
    shortname = "stsm",
    shortname = "stsmigration",
    namespaced,
    status = "StatefulSetMigrationStatus",
    validation = retry_rises(),
    validation = abort_stays(),
    validation = rollback_stays(),
    validation = frozen("migrationId"),
    validation = frozen("sourceCluster"),
    validation = frozen("destCluster"),
    validation = frozen("sourceNamespace"),
    validation = frozen("destNamespace"),
    validation = frozen("statefulSetName"),
    validation = frozen("storageClassMapping"),
    validation = frozen("strategy"),
    validation = frozen("dryRun"),
    validation = frozen("dormantClaims"),
    validation = frozen("snapshots"),
    validation = frozen("fence"),
    validation = frozen("destReclaimPolicy"),
    validation = frozen_by_cleanup("sourceCleanup"),
    printcolumn = r#"{"name":"Phase","type":"string","jsonPath":".status.phase"}"#,
    printcolumn = r#"{"name":"Progress","type":"integer","jsonPath":".status.currentIndex"}"#,
    printcolumn = r#"{"name":"Total","type":"integer","jsonPath":".status.totalReplicas"}"#,
    printcolumn = r#"{"name":"Age","type":"date","jsonPath":".metadata.creationTimestamp"}"#,
    printcolumn = r#"{"name":"Reason","type":"string","priority":1,"jsonPath":".status.conditions[?(@.type==\"Ready\")].reason"}"#,
    printcolumn = r#"{"name":"Step","type":"string","priority":1,"jsonPath":".status.intent.step"}"#,
    printcolumn = r#"{"name":"Ordinal","type":"integer","priority":1,"jsonPath":".status.intent.ordinal"}"#,
    printcolumn = r#"{"name":"Strategy","type":"string","priority":1,"jsonPath":".status.strategy"}"#,
    printcolumn = r#"{"name":"StatefulSet","type":"string","priority":1,"jsonPath":".spec.statefulSetName"}"#
)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = never_null)]
pub struct StatefulSetMigrationSpec {
    /// Any text. Events show it, and the destination StatefulSet has it as an annotation.
    pub migration_id: String,
    /// How to reach the source cluster.
    pub source_cluster: ClusterAccess,
    /// How to reach the destination cluster.
    pub dest_cluster: ClusterAccess,
    /// The namespace of the StatefulSet at the source.
    #[schemars(length(min = 1, max = 63), regex(pattern = LABEL))]
    pub source_namespace: String,
    /// Its namespace at the destination.
    #[schemars(length(min = 1, max = 63), regex(pattern = LABEL))]
    pub dest_namespace: String,
    /// Its name, the same on both sides.
    #[schemars(length(min = 1, max = 253), regex(pattern = SUBDOMAIN))]
    pub stateful_set_name: String,
    /// Whether the run goes on although preflight checks warn. Blockers are never passed over.
    #[serde(default)]
    pub force: bool,
    /// Classes at the source, and what they are called at the destination. Other names stay. The type of a
    /// disk does not change.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 64, "additionalProperties" = {"type": "string", "maxLength": 253}))]
    pub storage_class_mapping: BTreeMap<String, String>,
    /// How long a disk may take to be free before the run counts as stalled. Zero: the default.
    #[serde(default = "five_minutes")]
    pub volume_detach_timeout: GoDuration,
    /// How long a pod may take from attached disks to ready before the run fails. Zero: the default.
    #[serde(default = "ten_minutes")]
    pub pod_ready_timeout: GoDuration,
    /// How ordinals leave the source; unset: `Window` where the source cluster supports it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub strategy: Option<Strategy>,
    /// Whether only to check and to plan. Nothing else is written.
    #[serde(default, skip_serializing_if = "is_default")]
    #[schemars(extend("default" = false))]
    pub dry_run: bool,
    /// Whether to stop when no ordinal is on its way.
    #[serde(default, skip_serializing_if = "is_default")]
    #[schemars(extend("default" = false))]
    pub paused: bool,
    /// How the run is given up. It cannot be cleared, and `Rollback` cannot be replaced.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub abort: Option<Abort>,
    /// Raise it to go on after a failure or hold.
    #[serde(default, skip_serializing_if = "is_default")]
    #[schemars(range(min = 0), extend("default" = 0))]
    pub retry: i64,
    /// What follows a failure.
    #[serde(default, skip_serializing_if = "is_default")]
    #[schemars(extend("default" = "Pause"))]
    pub on_failure: OnFailure,
    /// The most ordinals at the destination. The run pauses there.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 2_147_483_647))]
    pub ordinal_limit: Option<i32>,
    /// Failed checks and holds that are accepted: `<id>`, or `<id>/<ordinal>`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64), inner(length(max = 64), regex(pattern = ACKNOWLEDGED)))]
    pub acknowledge: Vec<String>,
    /// What becomes of claims that are named like those of the set, but of no ordinal in its window.
    #[serde(default, skip_serializing_if = "is_default")]
    #[schemars(extend("default" = "Move"))]
    pub dormant_claims: DormantClaims,
    /// Snapshots on the way.
    #[serde(default, skip_serializing_if = "is_default")]
    #[schemars(extend("default" = json!({})))]
    pub snapshots: Snapshots,
    /// The names of both clusters in the tags of disks. With them, each disk is given to the destination's
    /// driver by tag.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fence: Option<Fence>,
    /// What becomes of the objects at the source.
    #[serde(default, skip_serializing_if = "is_default")]
    #[schemars(extend("default" = json!({})))]
    pub source_cleanup: SourceCleanup,
    /// The reclaim policy of the PersistentVolumes at the destination when the run ends.
    #[serde(default, skip_serializing_if = "is_default")]
    #[schemars(extend("default" = "Retain"))]
    pub dest_reclaim_policy: DestReclaimPolicy,
    /// How long a pod may take to end before the run counts as stalled; unset or zero: its grace period and
    /// one minute.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pod_termination_timeout: Option<GoDuration>,
    /// How long a disk may take to be attached before the run fails. Zero: the default.
    #[serde(default = "five_minutes", skip_serializing_if = "is_five_minutes")]
    #[schemars(extend("default" = "5m"))]
    pub attach_timeout: GoDuration,
}

/// How to reach a cluster.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = never_null)]
pub struct ClusterAccess {
    /// The Secret in the object's namespace that has a kubeconfig.
    #[schemars(length(min = 1, max = 253), regex(pattern = SUBDOMAIN))]
    pub kube_config_secret: String,
    /// Its key in the Secret; empty: `kubeconfig`.
    #[serde(default = "kubeconfig")]
    #[schemars(length(max = 253), regex(pattern = SECRET_KEY))]
    pub kube_config_key: String,
}

/// Snapshots on the way.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[schemars(transform = never_null)]
pub struct Snapshots {
    /// When they are made.
    #[serde(default, skip_serializing_if = "is_default")]
    #[schemars(extend("default" = "Never"))]
    pub when: SnapshotTime,
    /// Tags that each of them gets, beside those by which the run finds it again.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend(
        "maxProperties" = 20,
        "additionalProperties" = {"type": "string", "maxLength": 256},
        "x-kubernetes-validations" = [usable_tags()]
    ))]
    pub tags: BTreeMap<String, String>,
}

/// The names of both clusters in the tags of disks.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(
    transform = never_null,
    extend("x-kubernetes-validations" = [names_in_pairs()])
)]
pub struct Fence {
    /// The source cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 100))]
    pub source_cluster_name: Option<String>,
    /// The destination cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 100))]
    pub dest_cluster_name: Option<String>,
}

/// What becomes of the objects at the source.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(transform = never_null)]
pub struct SourceCleanup {
    /// Whether they are deleted.
    #[serde(default, skip_serializing_if = "is_default")]
    #[schemars(extend("default" = "Delete"))]
    pub policy: CleanupPolicy,
    /// How long every pod has to be ready at the destination first. Until then a rollback is possible. Zero:
    /// no time.
    #[serde(default = "ten_minutes")]
    pub soak: GoDuration,
}

impl Default for SourceCleanup {
    fn default() -> Self {
        Self {
            policy: CleanupPolicy::default(),
            soak: ten_minutes(),
        }
    }
}

impl ClusterAccess {
    /// The key of the kubeconfig in the Secret.
    pub fn key(&self) -> &str {
        match &*self.kube_config_key {
            "" => names::KUBECONFIG_KEY,
            key => key,
        }
    }
}

impl Fence {
    /// The names of source and destination, if both are given.
    pub fn names(&self) -> Option<(&str, &str)> {
        let (source, dest) = (&self.source_cluster_name, &self.dest_cluster_name);
        source.as_deref().zip(dest.as_deref())
    }
}

impl StatefulSetMigrationSpec {
    /// The stall limit of a disk on its way to free.
    pub fn detach_limit(&self) -> Duration {
        or_default(&self.volume_detach_timeout, &five_minutes())
    }

    /// The failure limit of a pod on its way to ready.
    pub fn ready_limit(&self) -> Duration {
        or_default(&self.pod_ready_timeout, &ten_minutes())
    }

    /// The failure limit of a disk on its way to attached.
    pub fn attach_limit(&self) -> Duration {
        or_default(&self.attach_timeout, &five_minutes())
    }

    /// The stall limit of a pod with this grace period on its way to its end.
    pub fn termination_limit(&self, grace: Duration) -> Duration {
        let own = self.pod_termination_timeout.as_ref();
        let own = own.map(GoDuration::length).filter(|own| !own.is_zero());
        own.unwrap_or_else(|| grace.saturating_add(Duration::from_mins(1)))
    }

    /// The tags of disks by which each cluster's driver is kept from the other's: source and destination.
    pub fn fence_names(&self) -> Option<(&str, &str)> {
        self.fence.as_ref().and_then(Fence::names)
    }

    /// Whether a check or hold is accepted, for all ordinals or for this one.
    pub fn acknowledges(&self, id: &str, ordinal: Option<i32>) -> bool {
        self.acknowledge
            .iter()
            .any(|accepted| match accepted.split_once('/') {
                None => accepted == id,
                Some((check, of)) => check == id && of.parse().ok() == ordinal && ordinal.is_some(),
            })
    }
}

fn or_default(given: &GoDuration, default: &GoDuration) -> Duration {
    let length = given.length();
    if length.is_zero() {
        default.length()
    } else {
        length
    }
}

fn five_minutes() -> GoDuration {
    "5m".into()
}

fn is_five_minutes(given: &GoDuration) -> bool {
    *given == five_minutes()
}

fn ten_minutes() -> GoDuration {
    "10m".into()
}

fn kubeconfig() -> String {
    names::KUBECONFIG_KEY.into()
}
