//! The disks of a pod, and whether its node may use them.

use k8s_openapi::api::{
    core::v1::{PersistentVolume, PersistentVolumeClaim},
    storage::v1::VolumeAttachment,
};
use kube::ResourceExt;

use super::{DRIVER, Simulation, in_use_name, objects::ByUid, volume_id};

/// A disk of a pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PodDisk {
    /// The PersistentVolume.
    pub(super) object: String,
    /// The volume in EC2.
    pub(super) volume: String,
}

/// The disks of a pod; waits until its claims are bound. Volumes of other drivers are left out.
pub(super) async fn of_pod(simulation: &Simulation, uid: &str) -> Vec<PodDisk> {
    let Some(pod) = simulation
        .pods
        .find(|pod| pod.uid().as_deref() == Some(uid))
    else {
        return Vec::new();
    };
    let namespace = pod.namespace().unwrap_or_default();
    let volumes = pod
        .spec
        .iter()
        .flat_map(|spec| spec.volumes.iter().flatten());
    let mut disks = Vec::new();
    for volume in volumes {
        let Some(source) = &volume.persistent_volume_claim else {
            continue;
        };
        let object = bound_volume(simulation, &namespace, &source.claim_name).await;
        let named = |all: &ByUid<PersistentVolume>| {
            let found = all.values().find(|one| one.name_any() == object)?;
            Some(volume_id(found))
        };
        let volume = simulation.volumes.until(named).await;
        disks.extend(volume.map(|volume| PodDisk { object, volume }));
    }
    disks
}

/// The PersistentVolume of a claim; waits until the claim is bound.
async fn bound_volume(simulation: &Simulation, namespace: &str, name: &str) -> String {
    let bound = |claim: &PersistentVolumeClaim| {
        let phase = claim.status.as_ref()?.phase.as_deref()?;
        let volume = claim.spec.as_ref()?.volume_name.clone();
        volume.filter(|_| phase == "Bound")
    };
    let named = |all: &ByUid<PersistentVolumeClaim>| {
        let is_meant = |claim: &PersistentVolumeClaim| {
            claim.name_any() == name && claim.namespace().as_deref() == Some(namespace)
        };
        all.values()
            .find(|claim| is_meant(claim))
            .and_then(|claim| bound(claim))
    };
    simulation.claims.until(named).await
}

/// Waits until a node may use all of the disks.
pub(super) async fn attached(simulation: &Simulation, node: &str, disks: &[PodDisk]) {
    for disk in disks {
        let is_meant = |one: &VolumeAttachment| {
            one.spec.attacher == DRIVER
                && one.spec.node_name == node
                && one.spec.source.persistent_volume_name.as_ref() == Some(&disk.object)
                && one.metadata.deletion_timestamp.is_none()
                && one.status.as_ref().is_some_and(|status| status.attached)
        };
        loop {
            let any = |all: &ByUid<_>| all.values().any(|one| is_meant(one)).then_some(());
            simulation.attachments.until(any).await;
            // Before the controller detaches, it withdraws the volume here. The cache may be late.
            if is_granted(simulation, node, &disk.volume).await {
                break;
            }
            simulation.pause().await;
        }
    }
}

/// Whether a node's status has a volume in volumesAttached now.
async fn is_granted(simulation: &Simulation, node: &str, volume: &str) -> bool {
    let node = simulation.live_node(node).await;
    let attached = node.and_then(|node| node.status?.volumes_attached);
    let name = in_use_name(volume);
    attached
        .unwrap_or_default()
        .iter()
        .any(|one| one.name == name)
}
