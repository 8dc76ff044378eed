//! The disks that nodes use: `volumesInUse` of their status, and mounts.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use anyhow::Result;
use k8s_openapi::api::core::v1::Node;
use kube::{
    Api,
    api::{Patch, PatchParams},
};
use parking_lot::Mutex;
use serde_json::json;

use super::{Simulation, done_if_gone, in_use_name};

/// The volumes that a node uses.
type Users = BTreeMap<String, Usage>;

/// How a node uses a volume.
#[derive(Default)]
struct Usage {
    /// The UIDs of its pods that use the volume.
    pods: BTreeSet<String>,
    is_mounted: bool,
}

/// Which pods use which disks, by name of the node.
#[derive(Default)]
pub(super) struct NodeDisks(Mutex<BTreeMap<String, Arc<tokio::sync::Mutex<Users>>>>);

/// A pod's use of a disk.
#[derive(Debug, Clone, Copy)]
pub(super) struct DiskUse<'a> {
    pub(super) node: &'a str,
    pub(super) instance: &'a str,
    pub(super) volume: &'a str,
    pub(super) pod: &'a str,
}

impl NodeDisks {
    /// Reports a volume as used. Like a kubelet, before the volume is attached.
    pub(super) async fn reserve(&self, simulation: &Simulation, disk: DiskUse<'_>) -> Result<()> {
        let users = self.users_of(disk.node);
        let mut users = users.lock().await;
        let usage = users.entry(disk.volume.to_owned()).or_default();
        usage.pods.insert(disk.pod.to_owned());
        publish(simulation, disk.node, &users).await
    }

    /// Mounts a reserved volume.
    pub(super) async fn mount(&self, simulation: &Simulation, disk: DiskUse<'_>) -> Result<()> {
        let users = self.users_of(disk.node);
        let mut users = users.lock().await;
        if let Some(usage) = users.get_mut(disk.volume).filter(|usage| !usage.is_mounted) {
            let body = json!({ "instance": disk.instance });
            simulation.ec2.report(disk.volume, "mount", body).await?;
            usage.is_mounted = true;
        }
        Ok(())
    }

    /// After its last user, unmounts a volume and reports it as unused.
    pub(super) async fn release(&self, simulation: &Simulation, disk: DiskUse<'_>) -> Result<()> {
        let users = self.users_of(disk.node);
        let mut users = users.lock().await;
        if let Some(usage) = users.get_mut(disk.volume) {
            usage.pods.remove(disk.pod);
            if !usage.pods.is_empty() {
                return Ok(());
            }
            if usage.is_mounted {
                let body = json!({ "instance": disk.instance });
                simulation.ec2.report(disk.volume, "unmount", body).await?;
            }
            users.remove(disk.volume);
        }
        publish(simulation, disk.node, &users).await
    }

    fn users_of(&self, node: &str) -> Arc<tokio::sync::Mutex<Users>> {
        Arc::clone(self.0.lock().entry(node.to_owned()).or_default())
    }
}

/// Writes `volumesInUse`. A node that is gone needs none.
async fn publish(simulation: &Simulation, node: &str, users: &Users) -> Result<()> {
    let nodes = Api::<Node>::all(simulation.client.clone());
    let volumes: Vec<_> = users.keys().map(|volume| in_use_name(volume)).collect();
    let patch = Patch::Merge(json!({ "status": { "volumesInUse": volumes } }));
    let params = PatchParams::default();
    done_if_gone(nodes.patch_status(node, &params, &patch).await)
}
