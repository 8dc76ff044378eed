//! Kinds of the test feature `probe`: the smallest things that use all of the engine.
//!
//! Only builds for tests carry the feature; no release serves these kinds.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The finalizer of a Probe that holds something outside.
pub const FINALIZER: &str = "probe.pontoon.io/finalizer";
/// Marks the ConfigMaps that Probes own.
pub const OWNED_LABEL: &str = "probe.pontoon.io/owned";
/// All a Probe says is so.
pub const READY: &str = "Ready";

/// Why a Probe is ready or not.
pub mod reasons {
    /// The ConfigMap and the thing outside are as the spec says.
    pub const SUCCEEDED: &str = "Succeeded";
    /// What is outside under our name is not ours; the message names the owner.
    pub const CONFLICT: &str = "Conflict";
    /// The Secret or its key cannot be read.
    pub const SECRET_NOT_READABLE: &str = "SecretNotReadable";
    /// The outside refused or could not be reached; tried again with back-off.
    pub const FAILED: &str = "Failed";
    /// The spec asks to wait.
    pub const ASKED_TO_WAIT: &str = "AskedToWait";
    /// A ConfigMap of that name belongs to somebody else.
    pub const NAME_TAKEN: &str = "NameTaken";
    /// The kubeconfig may not be used; the message names the field.
    pub const KUBECONFIG_REFUSED: &str = "KubeconfigRefused";
    /// The kubeconfig leads to another cluster than before.
    pub const IDENTITY_CHANGED: &str = "IdentityChanged";
}

/// A text that is to stand in a ConfigMap of the same name, and a value that is to stand outside.
#[derive(CustomResource, Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "probe.pontoon.io",
    version = "v1alpha1",
    kind = "Probe",
    plural = "probes",
    shortname = "prb",
    namespaced,
    status = "ProbeStatus",
    printcolumn = r#"{"name":"Ready","type":"string","jsonPath":".status.conditions[?(@.type==\"Ready\")].status"}"#,
    printcolumn = r#"{"name":"Reason","type":"string","jsonPath":".status.conditions[?(@.type==\"Ready\")].reason"}"#,
    printcolumn = r#"{"name":"Age","type":"date","jsonPath":".metadata.creationTimestamp"}"#
)]
#[serde(rename_all = "camelCase")]
pub struct ProbeSpec {
    /// The text.
    #[schemars(length(max = 4096))]
    pub text: String,
    /// What is to stand outside, if anything.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outside: Option<Outside>,
    /// What happens outside when the Probe is deleted.
    #[serde(default)]
    pub deletion_policy: DeletionPolicy,
    /// How its passes behave.
    #[serde(default)]
    pub behaviour: Behaviour,
}

/// A value outside.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Outside {
    /// The value itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
    /// Or the Secret in the same namespace that holds it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret: Option<SecretKey>,
}

/// One key of a Secret.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SecretKey {
    /// The Secret's name.
    pub name: String,
    /// The key in it.
    pub key: String,
}

/// Whether what is outside goes with the object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub enum DeletionPolicy {
    /// It goes.
    #[default]
    Delete,
    /// It stays.
    Retain,
}

/// How passes behave, so that tests can see how the engine takes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub enum Behaviour {
    /// As they should.
    #[default]
    Well,
    /// Each one panics.
    Panic,
    /// Each one hangs until its deadline.
    Hang,
    /// Each one ends waiting for an hour.
    Wait,
    /// Only the ConfigMap is written: no status, no events, nothing outside.
    Quiet,
}

/// What is known of a Probe.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProbeStatus {
    /// Standard conditions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
    /// The name of what is outside, recorded before it is made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outside_name: Option<String>,
    /// The pass that wrote this status.
    #[serde(
        default,
        rename = "lastReconcileID",
        skip_serializing_if = "Option::is_none"
    )]
    pub last_reconcile_id: Option<String>,
}

/// Asks for a controller over a kind that is known only at run time: each of its objects gets a
/// ConfigMap `seen-<name>` beside it, for as long as the Lookout exists.
#[derive(CustomResource, Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "probe.pontoon.io",
    version = "v1alpha1",
    kind = "Lookout",
    plural = "lookouts",
    status = "ProbeStatus",
    printcolumn = r#"{"name":"Ready","type":"string","jsonPath":".status.conditions[?(@.type==\"Ready\")].status"}"#,
    printcolumn = r#"{"name":"Age","type":"date","jsonPath":".metadata.creationTimestamp"}"#
)]
#[serde(rename_all = "camelCase")]
pub struct LookoutSpec {
    /// API group of the kind.
    pub group: String,
    /// Its version.
    pub version: String,
    /// Its name in CamelCase.
    pub kind: String,
    /// Its plural.
    pub plural: String,
}

/// The annotation of a copy in another cluster: the object that it is a copy of.
pub const MIRROR_OF: &str = "probe.pontoon.io/mirror-of";
/// A person accepts the cluster of this identity as the right one. It counts once: to accept the same
/// cluster again, remove the annotation and set it again.
pub const ACCEPT_CLUSTER: &str = "probe.pontoon.io/accept-cluster";
/// Marks the copies of Mirrors in other clusters.
pub const MIRROR_LABEL: &str = "probe.pontoon.io/mirror";

/// A text that is to stand in a ConfigMap of the same name in another cluster.
#[derive(CustomResource, Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "probe.pontoon.io",
    version = "v1alpha1",
    kind = "Mirror",
    plural = "mirrors",
    namespaced,
    status = "MirrorStatus",
    printcolumn = r#"{"name":"Ready","type":"string","jsonPath":".status.conditions[?(@.type==\"Ready\")].status"}"#,
    printcolumn = r#"{"name":"Reason","type":"string","jsonPath":".status.conditions[?(@.type==\"Ready\")].reason"}"#,
    printcolumn = r#"{"name":"Age","type":"date","jsonPath":".metadata.creationTimestamp"}"#
)]
#[serde(rename_all = "camelCase")]
pub struct MirrorSpec {
    /// The Secret of the same namespace with the kubeconfig of the other cluster.
    pub kubeconfig: SecretKey,
    /// The namespace of the copy.
    pub namespace: String,
    /// The text.
    #[schemars(length(max = 4096))]
    pub text: String,
}

/// What is known of a Mirror.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MirrorStatus {
    /// Standard conditions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
    /// The identity of the other cluster, recorded before anything is written there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster: Option<String>,
    /// The value of the annotation `accept-cluster` that was used. It does not count again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub accepted_cluster: Option<String>,
}
