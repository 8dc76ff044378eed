//! Everything that preflight reads, as one value.

use std::collections::{BTreeMap, BTreeSet};

use api::migrate::StatefulSetMigrationSpec;
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{
    Namespace, Node, PersistentVolume, PersistentVolumeClaim, Pod, ResourceQuota, Service,
};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::api::storage::v1::{CSIDriver, CSINode, VolumeAttachment};

use super::access::{Access, Ec2Call};
use super::dependencies::Dependency;
use super::reading::{Reading, Unread};
use crate::migration::observation::Side;

/// What the checks judge. Pure data: it names no client and knows no time.
#[derive(Debug, Clone, PartialEq)]
pub struct Survey {
    /// The namespace of the migration object, where its Secrets are.
    pub namespace: String,
    /// The spec of the migration.
    pub spec: StatefulSetMigrationSpec,
    /// The id of the run: the UID of the object when it starts.
    pub run: String,
    /// The source cluster.
    pub source: ClusterSurvey,
    /// The destination cluster.
    pub destination: ClusterSurvey,
    /// VolumeSnapshots in the namespace of the source.
    pub snapshots: Reading<Vec<Snapshot>>,
    /// What only the destination is asked for.
    pub arrival: ArrivalSurvey,
    /// EC2.
    pub ec2: Ec2Survey,
    /// The sizes of the records that the run would make, which need every object of the set.
    pub records: Reading<RecordSizes>,
}

/// What is read from either cluster.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ClusterSurvey {
    /// What became of the kubeconfig.
    pub kubeconfig: Reading<KubeconfigState>,
    /// The UID of its namespace kube-system.
    pub uid: Reading<String>,
    /// The UID that the object has on record for the cluster.
    pub pinned_uid: Option<String>,
    /// Which of [`needed`](super::access::needed) SelfSubjectAccessReview allows.
    pub allowed: Reading<BTreeSet<Access>>,
    /// The namespace of the StatefulSet.
    pub namespace: Reading<Option<Namespace>>,
    /// The lock of the StatefulSet's name in that namespace.
    pub lock: Reading<Option<LockHolder>>,
    /// The StatefulSet of the migration.
    pub set: Reading<Option<StatefulSet>>,
    /// What a dry run showed of `spec.ordinals`.
    pub ordinals: Reading<OrdinalsSupport>,
    /// Source: the pods of the namespace. Destination: the pods of all namespaces.
    pub pods: Reading<Vec<Pod>>,
    /// The claims of the namespace.
    pub claims: Reading<Vec<PersistentVolumeClaim>>,
    /// All PersistentVolumes.
    pub volumes: Reading<Vec<PersistentVolume>>,
    /// All nodes.
    pub nodes: Reading<Vec<Node>>,
    /// The PodDisruptionBudgets of the namespace.
    pub budgets: Reading<Vec<PodDisruptionBudget>>,
    /// The autoscalers of the namespace.
    pub autoscalers: Reading<Vec<Autoscaler>>,
}

/// What only the destination is asked for.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ArrivalSurvey {
    /// The CSIDriver of EBS.
    pub driver: Reading<Option<CSIDriver>>,
    /// All CSINodes.
    pub csi_nodes: Reading<Vec<CSINode>>,
    /// All VolumeAttachments.
    pub attachments: Reading<Vec<VolumeAttachment>>,
    /// Whether each of [`named_by`](super::dependencies::named_by) exists.
    pub dependencies: BTreeMap<Dependency, Reading<bool>>,
    /// The answers to the dry runs of what the run would create.
    pub dry_runs: Reading<Vec<DryRun>>,
    /// The pod as the dry run returned it, with what admission adds; none if it was refused.
    pub admitted_pod: Option<Pod>,
    /// The quotas of the namespace.
    pub quotas: Reading<Vec<ResourceQuota>>,
    /// The Service of the StatefulSet's `serviceName`.
    pub service: Reading<Option<Service>>,
    /// The names of all StorageClasses.
    pub storage_classes: Reading<BTreeSet<String>>,
    /// The names of all VolumeAttributesClasses; none where the server has no such kind.
    pub attributes_classes: Reading<BTreeSet<String>>,
}

/// What is read from EC2.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Ec2Survey {
    /// The region of the client.
    pub region: String,
    /// Which of [`needed_calls`](super::access::needed_calls) are allowed.
    pub allowed: Reading<BTreeSet<Ec2Call>>,
    /// The EBS volumes of the set by id. One that EC2 does not have is absent.
    pub volumes: Reading<BTreeMap<String, Ec2Volume>>,
    /// The EBS volumes that are attached to instances of the destination.
    pub at_destination: Reading<Vec<Ec2Volume>>,
    /// Modifications of the volumes of the set by volume id, with their state.
    pub modifications: Reading<BTreeMap<String, String>>,
}

/// What became of a kubeconfig.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KubeconfigState {
    /// It may be used.
    Accepted,
    /// There is no such Secret.
    NoSecret,
    /// The Secret has no such key.
    NoKey,
    /// The vetting refused it: the field and why. Contains no value of it.
    Refused(String),
}

/// A lock as its ConfigMap shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LockHolder {
    /// The run that has it.
    pub run: String,
    /// The migration of that run, `namespace/name`.
    pub migration: String,
    /// The UID of the management cluster of that run.
    pub cluster: String,
    /// Whether that run has ended.
    pub is_released: bool,
}

/// What a dry run of a patch showed of `spec.ordinals`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OrdinalsSupport {
    /// The answer has the field as it was sent.
    Echoed,
    /// The answer lacks the field: the server is older than it.
    Dropped,
    /// The server refused the patch with this message.
    Refused(String),
}

/// A HorizontalPodAutoscaler, VerticalPodAutoscaler or ScaledObject.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Autoscaler {
    /// Its kind.
    pub kind: &'static str,
    /// Its name.
    pub name: String,
    /// The kind of its target.
    pub target_kind: String,
    /// The name of its target.
    pub target_name: String,
}

/// A VolumeSnapshot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Snapshot {
    /// Its name.
    pub name: String,
    /// The claim it was made of.
    pub claim: String,
}

/// The answer to a dry run of a create. An object of ours that exists already is not tried.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DryRun {
    /// The object, such as `PersistentVolumeClaim shop/data-web-0`.
    pub subject: String,
    /// The message of the refusal; none if it was accepted.
    pub refusal: Option<String>,
}

/// An EBS volume as EC2 shows it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Ec2Volume {
    /// Its id.
    pub id: String,
    /// `available`, `in-use`, …
    pub state: String,
    /// Its availability zone.
    pub zone: String,
    /// Its size in GiB.
    pub size_gib: i64,
    /// The ARN of its KMS key, if it is encrypted.
    pub kms_key: Option<String>,
    /// Whether it is encrypted.
    pub is_encrypted: bool,
    /// Whether several instances may attach it at once.
    pub is_multi_attach: bool,
    /// Its tags.
    pub tags: BTreeMap<String, String>,
    /// Its attachments.
    pub attachments: Vec<Ec2Attachment>,
}

/// An attachment of an EBS volume.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Ec2Attachment {
    /// The instance.
    pub instance: String,
    /// `attached`, `detaching`, `busy`, …
    pub state: String,
    /// Whether the volume is deleted with its instance.
    pub is_deleted_with_instance: bool,
}

/// The sizes of the records that the run would make, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RecordSizes {
    /// The capture, compressed.
    pub capture: usize,
    /// The journal when every field has its final value.
    pub journal: usize,
}

impl Survey {
    /// One of the clusters.
    pub fn cluster(&self, side: Side) -> &ClusterSurvey {
        match side {
            Side::Source => &self.source,
            Side::Destination => &self.destination,
        }
    }

    /// The namespace of the StatefulSet in one of the clusters.
    pub fn namespace_at(&self, side: Side) -> &str {
        match side {
            Side::Source => &self.spec.source_namespace,
            Side::Destination => &self.spec.dest_namespace,
        }
    }

    /// The StatefulSet at the source. If there is none, that is the finding of one check alone.
    pub(super) fn set(&self) -> Result<&StatefulSet, Unread> {
        let set = self.source.set.get(self.set_subject(Side::Source))?;
        set.as_ref().ok_or_else(|| Unread {
            subject: self.set_subject(Side::Source),
            obstacle: super::reading::Obstacle::NotRead,
        })
    }

    /// `StatefulSet shop/web of the source`.
    pub(super) fn set_subject(&self, side: Side) -> String {
        self.subject(side, "StatefulSet", &self.spec.stateful_set_name)
    }

    /// A namespaced object of one of the clusters, for messages.
    pub(super) fn subject(&self, side: Side, kind: &str, name: &str) -> String {
        format!("{kind} {}/{name} of the {side}", self.namespace_at(side))
    }

    /// Kinds of objects in the StatefulSet's namespace of one of the clusters, for messages.
    pub(super) fn all_of(&self, side: Side, kind: &str) -> String {
        format!(
            "{kind} in namespace {} of the {side}",
            self.namespace_at(side)
        )
    }
}
