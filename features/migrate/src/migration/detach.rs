//! Whether a cluster has let go of a disk.
//!
//! EC2 may report a disk as free while a kubelet still has it mounted, and a driver may report the detach of
//! an unknown attachment as done. So neither side alone proves it: a disk is handed over only after its old
//! cluster shows no use of it, and a read of EC2 that began after that shows it free.

use super::observation::{ClusterState, DiskRead};

/// A use of a disk that a cluster still shows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Use {
    /// A scheduled pod has the claim among its volumes.
    Pod(String),
    /// A node has the disk mounted, or attached by its own account.
    Node(String),
    /// A VolumeAttachment names the disk.
    Attachment {
        /// The PersistentVolume that it names.
        volume: String,
        /// Its node.
        node: String,
    },
}

impl std::fmt::Display for Use {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Pod(name) => write!(f, "pod {name} uses it"),
            Self::Node(name) => write!(f, "node {name} has it mounted"),
            Self::Attachment { volume, node } => {
                write!(f, "a VolumeAttachment of {volume} to node {node} exists")
            }
        }
    }
}

/// The first use of `disk` that the cluster shows: by a pod with the claim, by a node, by a VolumeAttachment of its
/// volume or of any other of the disk. The volume itself may be gone. `node` is that of the ordinal's pod. Without it,
/// all nodes count.
///
/// | scheduled pod | node names the disk | VolumeAttachment | result     |
/// |---------------|---------------------|------------------|------------|
/// | yes           | any                 | any              | pod        |
/// | no            | yes                 | any              | node       |
/// | no            | no                  | yes              | attachment |
/// | no            | no                  | no               | none       |
pub fn remaining_use(
    cluster: &ClusterState,
    claim: &str,
    volume: &str,
    disk: &str,
    node: Option<&str>,
) -> Option<Use> {
    let pod = cluster.pods.iter().find(|(_, pod)| {
        pod.node.is_some() && !pod.has_ended && pod.claims.iter().any(|one| one == claim)
    });
    if let Some((name, _)) = pod {
        return Some(Use::Pod(name.clone()));
    }
    let is_relevant = |name: &str| node.is_none_or(|node| node == name);
    let user = cluster.nodes.iter().find(|(name, state)| {
        is_relevant(name) && state.disks_in_use.iter().any(|used| used == disk)
    });
    if let Some((name, _)) = user {
        return Some(Use::Node(name.clone()));
    }
    let is_of_disk = |name: &str| {
        let other = cluster.volumes.get(name);
        name == volume || other.is_some_and(|other| other.disk.as_deref() == Some(disk))
    };
    let attachment = cluster
        .attachments
        .iter()
        .find(|attachment| is_of_disk(&attachment.volume))?;
    Some(Use::Attachment {
        volume: attachment.volume.clone(),
        node: attachment.node.clone(),
    })
}

/// The instances of a cluster's nodes among those that have the disk attached.
pub fn attached_in(cluster: &ClusterState, read: &DiskRead) -> bool {
    let Some(disk) = &read.disk else {
        return false;
    };
    let mut instances = cluster
        .nodes
        .values()
        .filter_map(|node| node.instance.as_deref());
    disk.attachments.len() == 1
        && instances.any(|instance| instance == disk.attachments[0].instance)
}
