//! What the run must be allowed to do, in both clusters and in EC2.

use api::migrate::{SnapshotTime, StatefulSetMigrationSpec};

use crate::migration::observation::Side;

/// A verb on a kind of object, as SelfSubjectAccessReview judges it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Access {
    /// The API group; empty for the core group.
    pub group: &'static str,
    /// The resource.
    pub resource: &'static str,
    /// The verb.
    pub verb: &'static str,
    /// The namespace; none for all, or for resources without one.
    pub namespace: Option<String>,
}

impl std::fmt::Display for Access {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}", self.verb, self.resource)?;
        if !self.group.is_empty() {
            write!(f, ".{}", self.group)?;
        }
        match &self.namespace {
            Some(namespace) => write!(f, " in namespace {namespace}"),
            None => Ok(()),
        }
    }
}

/// Where a rule of the role holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Scope {
    /// In the namespace of the StatefulSet.
    Namespace,
    /// There, but only at the source.
    SourceNamespace,
    /// Source: the namespace. Destination: all namespaces, to know what fits on its nodes.
    Pods,
    /// For resources without a namespace.
    Cluster,
}

use Scope::{Cluster, Namespace, SourceNamespace};

const GET: &[&str] = &["get"];
const LIST: &[&str] = &["get", "list"];
const WATCH: &[&str] = &["get", "list", "watch"];
const OWN: &[&str] = &["get", "list", "watch", "create", "patch", "delete"];

/// What the shipped role allows, a row for each rule. ConfigMaps and Secrets are read by name, never listed.
#[rustfmt::skip]
const ROLE: &[(&str, &str, &[&str], Scope)] = &[
    ("apps", "statefulsets", OWN, Namespace),
    ("", "persistentvolumeclaims", OWN, Namespace),
    ("", "persistentvolumes", OWN, Cluster),
    ("apps", "controllerrevisions", &["get", "list", "delete"], Namespace),
    ("", "pods", WATCH, Scope::Pods),
    ("", "pods", &["create", "delete"], Namespace),
    ("storage.k8s.io", "volumeattachments", WATCH, Cluster),
    ("", "nodes", WATCH, Cluster),
    ("storage.k8s.io", "csinodes", LIST, Cluster),
    ("storage.k8s.io", "csidrivers", LIST, Cluster),
    ("storage.k8s.io", "storageclasses", LIST, Cluster),
    ("storage.k8s.io", "volumeattributesclasses", LIST, Cluster),
    ("policy", "poddisruptionbudgets", WATCH, Namespace),
    ("autoscaling", "horizontalpodautoscalers", LIST, Namespace),
    ("autoscaling.k8s.io", "verticalpodautoscalers", LIST, Namespace),
    ("keda.sh", "scaledobjects", LIST, Namespace),
    ("snapshot.storage.k8s.io", "volumesnapshots", LIST, Namespace),
    ("", "resourcequotas", LIST, Namespace),
    ("", "services", GET, Namespace),
    ("", "namespaces", GET, Cluster),
    ("", "serviceaccounts", GET, Namespace),
    ("scheduling.k8s.io", "priorityclasses", GET, Cluster),
    ("node.k8s.io", "runtimeclasses", GET, Cluster),
    ("", "configmaps", &["get", "create", "patch", "delete"], Namespace),
    ("", "secrets", GET, Namespace),
    ("", "secrets", &["create", "delete"], SourceNamespace),
];

/// What the login of one side must be allowed to do.
pub fn needed(side: Side, namespace: &str) -> Vec<Access> {
    let mut needed = Vec::new();
    for &(group, resource, verbs, scope) in ROLE {
        let is_namespaced = match (scope, side) {
            (SourceNamespace, Side::Destination) => continue,
            (Namespace | SourceNamespace, _) | (Scope::Pods, Side::Source) => true,
            (Cluster, _) | (Scope::Pods, Side::Destination) => false,
        };
        needed.extend(verbs.iter().map(|&verb| Access {
            group,
            resource,
            verb,
            namespace: is_namespaced.then(|| namespace.to_owned()),
        }));
    }
    needed
}

/// A call to EC2 that a run makes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Ec2Call {
    /// Every run reads volumes.
    DescribeVolumes,
    /// Snapshots after the detach.
    CreateSnapshot,
    /// Finding the snapshots of the run again.
    DescribeSnapshots,
    /// Tags of snapshots, and of volumes when fence names are set.
    CreateTags,
    /// Tags of volumes when fence names are set.
    DeleteTags,
}

impl Ec2Call {
    /// As IAM names it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::DescribeVolumes => "ec2:DescribeVolumes",
            Self::CreateSnapshot => "ec2:CreateSnapshot",
            Self::DescribeSnapshots => "ec2:DescribeSnapshots",
            Self::CreateTags => "ec2:CreateTags",
            Self::DeleteTags => "ec2:DeleteTags",
        }
    }
}

/// The calls that the run of a spec makes.
///
/// | spec                           | calls                                           |
/// |--------------------------------|-------------------------------------------------|
/// | any                            | DescribeVolumes                                 |
/// | `snapshots.when: AfterDetach`  | CreateSnapshot, DescribeSnapshots, CreateTags   |
/// | `fence` set                    | CreateTags, DeleteTags                          |
pub fn needed_calls(spec: &StatefulSetMigrationSpec) -> Vec<Ec2Call> {
    let mut calls = vec![Ec2Call::DescribeVolumes];
    let makes_snapshots = spec.snapshots.when == SnapshotTime::AfterDetach;
    if makes_snapshots {
        calls.extend([Ec2Call::CreateSnapshot, Ec2Call::DescribeSnapshots]);
    }
    if makes_snapshots || spec.fence_names().is_some() {
        calls.push(Ec2Call::CreateTags);
    }
    if spec.fence_names().is_some() {
        calls.push(Ec2Call::DeleteTags);
    }
    calls
}

#[cfg(test)]
mod tests;
