//! The objects of one cluster that concern a run, as its API server gives them.

use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use serde_json::Value;

use super::extract;
use super::observation::{ClusterState, Version};
use crate::record::lock::{LockIdentity, StoredLock, ownership};

/// The objects of one cluster. The StatefulSet's namespace alone, but for volumes, attachments and nodes.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Documents {
    /// The UID of its namespace kube-system.
    pub identity: Option<String>,
    /// The StatefulSet of the migration.
    pub set: Option<Value>,
    /// The ControllerRevisions of the StatefulSet's namespace; in the source alone.
    pub controller_revisions: Vec<Value>,
    /// Pods.
    pub pods: Vec<Value>,
    /// Claims.
    pub claims: Vec<Value>,
    /// PersistentVolumes.
    pub volumes: Vec<Value>,
    /// VolumeAttachments.
    pub attachments: Vec<Value>,
    /// Nodes.
    pub nodes: Vec<Value>,
    /// The ConfigMap that is the lock.
    pub lock: Option<Value>,
    /// The Secret of the capture; in the source alone.
    pub capture: Option<Value>,
    /// PodDisruptionBudgets.
    pub budgets: Vec<Value>,
    /// When they had all been read, by the clock of the process; none: when the decision is made.
    pub read_at: Option<Duration>,
    /// Whether the API server has answered with them; false: they are from the caches.
    pub is_live: bool,
}

impl Documents {
    /// What decisions need of them.
    pub fn state(&self, identity: &LockIdentity) -> ClusterState {
        let run = &*identity.run_id;
        ClusterState {
            identity: self.identity.clone(),
            set: self.set.as_ref().map(|set| extract::set(set, run)),
            pods: extract::by_name(&self.pods, extract::pod),
            claims: extract::by_name(&self.claims, |claim| extract::claim(claim, run)),
            volumes: extract::by_name(&self.volumes, |volume| extract::volume(volume, run)),
            attachments: self
                .attachments
                .iter()
                .filter_map(extract::attachment)
                .collect(),
            nodes: extract::by_name(&self.nodes, extract::node),
            lock: ownership(self.stored_lock().as_ref(), identity),
        }
    }

    /// The lock as it was written.
    pub fn stored_lock(&self) -> Option<StoredLock> {
        let map: ConfigMap = serde_json::from_value(self.lock.clone()?).ok()?;
        Some(StoredLock::parse(&map))
    }
}

/// UID and resourceVersion of an object.
pub fn version(object: &Value) -> Version {
    let text = |field: &str| {
        object["metadata"][field]
            .as_str()
            .unwrap_or_default()
            .to_owned()
    };
    Version {
        uid: text("uid"),
        version: text("resourceVersion"),
    }
}
