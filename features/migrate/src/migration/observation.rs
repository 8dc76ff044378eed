//! What was read of both clusters and of EC2, as plain values. Nothing here decides.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use kernel::Ownership;

use crate::record::lock::LockOwnership;
use crate::translate::window::Window;

/// One of the two clusters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Side {
    /// Where the StatefulSet ran before the migration.
    Source,
    /// Where it runs after it.
    Destination,
}

impl Side {
    /// Both.
    pub const BOTH: [Self; 2] = [Self::Source, Self::Destination];

    /// The other cluster.
    #[must_use]
    pub fn other(self) -> Self {
        match self {
            Self::Source => Self::Destination,
            Self::Destination => Self::Source,
        }
    }

    /// For messages.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Source => "source",
            Self::Destination => "destination",
        }
    }
}

impl std::fmt::Display for Side {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The identity of an object version: the precondition of every write to it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Version {
    /// `metadata.uid`.
    pub uid: String,
    /// `metadata.resourceVersion`.
    pub version: String,
}

/// A StatefulSet.
#[derive(Debug, Clone, PartialEq)]
pub struct SetState {
    /// UID and resourceVersion.
    pub version: Version,
    /// `spec.ordinals.start`; none if the field is absent.
    pub ordinals_start: Option<i32>,
    /// `spec.replicas`.
    pub replicas: i32,
    /// Whose it is, by our annotation.
    pub ownership: Ownership,
    /// Whether it is being deleted.
    pub is_terminating: bool,
    /// The hash of its spec without replicas, ordinals and retention policy.
    pub template_hash: String,
    /// What was edited in that, with the values; empty if nothing was, or if it is not known.
    pub edits: String,
    /// Whether both retention policies are `Retain`, or the server has none.
    pub retains_claims: bool,
    /// `spec.minReadySeconds`.
    pub min_ready: Duration,
}

impl SetState {
    /// Its ordinals.
    pub fn window(&self) -> Window {
        Window {
            start: self.ordinals_start.unwrap_or(0),
            replicas: self.replicas,
        }
    }
}

/// A pod.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct PodState {
    /// UID and resourceVersion.
    pub version: Version,
    /// The UID of its controller.
    pub controller: Option<String>,
    /// Since when it is Ready.
    pub ready_since: Option<Timestamp>,
    /// Whether it is being deleted.
    pub is_terminating: bool,
    /// Whether it has ended, so that it uses no volume.
    pub has_ended: bool,
    /// The node it is bound to.
    pub node: Option<String>,
    /// The claims that its volumes name.
    pub claims: Vec<String>,
    /// `spec.terminationGracePeriodSeconds`.
    pub grace: Duration,
    /// Its labels, for disruption budgets.
    pub labels: BTreeMap<String, String>,
}

/// A PersistentVolumeClaim.
#[derive(Debug, Clone, PartialEq)]
pub struct ClaimState {
    /// UID and resourceVersion.
    pub version: Version,
    /// Whose it is, by our annotation.
    pub ownership: Ownership,
    /// Whether it has our label of tombstones.
    pub is_tombstone: bool,
    /// `spec.volumeName`.
    pub volume: Option<String>,
    /// Whether its phase is Bound.
    pub is_bound: bool,
    /// Whether it is being deleted.
    pub is_terminating: bool,
    /// The UIDs of its owners.
    pub owners: Vec<String>,
}

/// The claim that a PersistentVolume names.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ClaimReference {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its UID; none if the name alone counts.
    pub uid: Option<String>,
}

/// The phase of a PersistentVolume.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum VolumePhase {
    /// Not yet available.
    Pending,
    /// May be bound.
    Available,
    /// Bound to a claim.
    Bound,
    /// Its claim was deleted.
    Released,
    /// Its reclamation failed.
    Failed,
}

/// A PersistentVolume.
#[derive(Debug, Clone, PartialEq)]
pub struct VolumeState {
    /// UID and resourceVersion.
    pub version: Version,
    /// Whose it is, by our annotation.
    pub ownership: Ownership,
    /// The id of the EBS volume; none for other volumes.
    pub disk: Option<String>,
    /// Its phase.
    pub phase: VolumePhase,
    /// Whether its reclaim policy is `Retain`.
    pub is_retained: bool,
    /// Its claim.
    pub claim: Option<ClaimReference>,
    /// `migration.aqua.io/moved-to`: where its disk has gone.
    pub moved_to: Option<String>,
    /// Whether the provisioner's finalizer is on it: it would delete the disk.
    pub has_provisioner_finalizer: bool,
    /// Whether it is being deleted.
    pub is_terminating: bool,
}

/// A VolumeAttachment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AttachmentState {
    /// The PersistentVolume.
    pub volume: String,
    /// The node.
    pub node: String,
}

/// A node.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct NodeState {
    /// The EC2 instance, from its providerID.
    pub instance: Option<String>,
    /// `status.nodeInfo.bootID`.
    pub boot_id: String,
    /// Whether it is Ready.
    pub is_ready: bool,
    /// Whether it has the taint `node.kubernetes.io/out-of-service`.
    pub is_out_of_service: bool,
    /// Since when it is Ready.
    pub ready_since: Option<Timestamp>,
    /// The disks that its volumesInUse and volumesAttached name.
    pub disks_in_use: Vec<String>,
    /// The disks that its kubelet has mounted: volumesInUse alone.
    pub mounted: Vec<String>,
}

/// What is known of one cluster. The objects of the StatefulSet's namespace alone, but for volumes,
/// attachments and nodes.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ClusterState {
    /// The UID of its namespace kube-system.
    pub identity: Option<String>,
    /// The StatefulSet of the migration.
    pub set: Option<SetState>,
    /// Pods by name.
    pub pods: BTreeMap<String, PodState>,
    /// Claims by name.
    pub claims: BTreeMap<String, ClaimState>,
    /// PersistentVolumes by name.
    pub volumes: BTreeMap<String, VolumeState>,
    /// All VolumeAttachments.
    pub attachments: Vec<AttachmentState>,
    /// Nodes by name.
    pub nodes: BTreeMap<String, NodeState>,
    /// Whose the lock is.
    pub lock: LockOwnership,
}

/// The state of an EBS volume in an answer of EC2.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DiskState {
    /// As EC2 says it: `available`, `in-use`, …
    pub state: String,
    /// Its attachments.
    pub attachments: Vec<DiskAttachment>,
    /// Its tags.
    pub tags: BTreeMap<String, String>,
}

impl DiskState {
    /// Whether no instance has it, by EC2's word alone.
    pub fn is_free(&self) -> bool {
        self.state == "available" && self.attachments.is_empty()
    }

    /// Whether EC2 has lost it, or will.
    pub fn is_lost(&self) -> bool {
        matches!(&*self.state, "error" | "deleting" | "deleted")
    }
}

/// An attachment of an EBS volume.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DiskAttachment {
    /// The instance.
    pub instance: String,
    /// The device there.
    pub device: String,
    /// As EC2 says it: `attached`, `detaching`, `busy`, …
    pub state: String,
}

/// The answer of EC2 about one disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DiskRead {
    /// Its state; none if EC2 does not have this id.
    pub disk: Option<DiskState>,
    /// When the read began, by the clock of the process. It may miss later changes.
    pub began: Duration,
}

/// A snapshot of a disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SnapshotState {
    /// Its id.
    pub id: String,
    /// Its tags.
    pub tags: BTreeMap<String, String>,
}

/// The answer of EC2 about the snapshots of an ordinal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SnapshotRead {
    /// All that have the tags of the search.
    pub found: Vec<SnapshotState>,
    /// When the read began, by the clock of the process. It may miss later changes.
    pub began: Duration,
}

/// What is known of both clusters and EC2.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Observation {
    /// The source cluster.
    pub source: ClusterState,
    /// The destination cluster.
    pub destination: ClusterState,
    /// Disks by volume id.
    pub disks: BTreeMap<String, DiskRead>,
    /// Snapshots by ordinal.
    pub snapshots: BTreeMap<i32, SnapshotRead>,
    /// When the objects of both clusters had been read, by the clock of the process; none: when the decision is
    /// made.
    pub read_at: Option<Duration>,
    /// Whether the API servers have answered with these objects; false: some are from the caches.
    pub is_live: bool,
}

impl Observation {
    /// One of the clusters.
    pub fn cluster(&self, side: Side) -> &ClusterState {
        match side {
            Side::Source => &self.source,
            Side::Destination => &self.destination,
        }
    }

    /// One of the clusters, to be changed.
    pub fn cluster_mut(&mut self, side: Side) -> &mut ClusterState {
        match side {
            Side::Source => &mut self.source,
            Side::Destination => &mut self.destination,
        }
    }
}
