//! Which runs a change in a cluster affects, so that it wakes these and no others.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use api::migrate::{Location, Phase, StatefulSetMigrationStatus};
use engine::Stored;
use kernel::ObjectKey;
use parking_lot::Mutex;
use serde_json::Value;

use super::User;
use super::selection::is_pod_of;
use super::watched::Watched;
use crate::migration::core::Scope;
use crate::migration::extract;

/// What a run uses of a cluster.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Interest {
    pub(super) namespace: String,
    pub(super) set: String,
    /// The names of its PersistentVolumes, in either cluster.
    pub(super) volumes: BTreeSet<String>,
    /// The ids of its disks.
    pub(super) disks: BTreeSet<String>,
    /// None if the run depends on every node.
    pub(super) current: Option<CurrentOrdinals>,
}

/// The volumes and disks that a run has recorded.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct RunDisks {
    pub(super) volumes: BTreeSet<String>,
    pub(super) disks: BTreeSet<String>,
    pub(super) current: Option<CurrentOrdinals>,
}

/// The ordinals on their way and the next one, with the nodes that they have left.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct CurrentOrdinals {
    pub(super) ordinals: BTreeSet<i32>,
    pub(super) nodes: BTreeSet<String>,
}

impl CurrentOrdinals {
    /// | record                                            | the run depends on                          |
    /// |---------------------------------------------------|---------------------------------------------|
    /// | without ordinals                                  | every node: the record is about to begin    |
    /// | rolling back                                      | every node: a disk may be mounted on any    |
    /// | an ordinal on its way, its node is not recorded   | every node: a disk may be mounted on any    |
    /// | any other                                         | the nodes of ordinals on their way and next |
    fn of(record: &StatefulSetMigrationStatus) -> Option<Self> {
        if record.ordinals.is_empty() || record.phase == Some(Phase::RollingBack) {
            return None;
        }
        let ordinals = record.ordinals.iter();
        let (moving, others): (Vec<_>, Vec<_>) =
            ordinals.partition(|one| one.location == Location::Moving);
        let nodes = moving
            .iter()
            .map(|one| Some(one.node.as_ref()?.name.clone()));
        let next = others.iter().find(|one| {
            one.location == Location::Source
                && record
                    .window
                    .is_some_and(|window| window.contains(one.ordinal))
        });
        let ordinals = moving.iter().chain(next).map(|one| one.ordinal);
        Some(Self {
            nodes: nodes.collect::<Option<_>>()?,
            ordinals: ordinals.collect(),
        })
    }
}

impl RunDisks {
    pub(super) fn of(record: &StatefulSetMigrationStatus) -> Self {
        let mut all = Self {
            current: CurrentOrdinals::of(record),
            ..Self::default()
        };
        for claim in record.ordinals.iter().flat_map(|ordinal| &ordinal.claims) {
            all.volumes.insert(claim.source_pv.clone());
            all.volumes.extend(claim.dest_pv.clone());
            all.disks.insert(claim.volume_id.clone());
        }
        all
    }
}

/// The interests of all runs that use one cluster.
#[derive(Default)]
pub(super) struct Interests {
    runs: Mutex<BTreeMap<User, Interest>>,
    /// The disks that each node used when it last changed: a disk that it no longer uses matters most.
    disks_of_nodes: Mutex<HashMap<String, BTreeSet<String>>>,
}

impl Interests {
    /// What the run uses of the cluster from now on.
    pub(super) fn set(&self, user: &User, scope: &Scope, disks: &RunDisks) -> Interest {
        let interest = Interest {
            namespace: scope.namespace.clone(),
            set: scope.set.clone(),
            volumes: disks.volumes.clone(),
            disks: disks.disks.clone(),
            current: disks.current.clone(),
        };
        self.runs.lock().insert(user.clone(), interest.clone());
        interest
    }

    /// The volumes and disks of the run, if it uses the cluster already.
    pub(super) fn set_disks(&self, user: &User, disks: &RunDisks) {
        if let Some(interest) = self.runs.lock().get_mut(user) {
            interest.volumes.clone_from(&disks.volumes);
            interest.disks.clone_from(&disks.disks);
            interest.current.clone_from(&disks.current);
        }
    }

    /// What the run uses of the cluster.
    pub(super) fn of(&self, user: &User) -> Option<Interest> {
        self.runs.lock().get(user).cloned()
    }

    /// The run no longer uses the cluster.
    pub(super) fn remove(&self, user: &User) {
        self.runs.lock().remove(user);
    }

    /// The migrations that a change of this object affects.
    pub(super) fn affected(&self, watched: Watched, object: &Stored) -> Vec<ObjectKey> {
        let Ok(value) = serde_json::from_str::<Value>(object.json()) else {
            return Vec::new();
        };
        let disks = match watched {
            Watched::Nodes => self.disks_of(&object.key().name, &value),
            Watched::StatefulSets
            | Watched::Pods
            | Watched::Claims
            | Watched::Budgets
            | Watched::Volumes
            | Watched::Attachments => BTreeSet::new(),
        };
        let runs = self.runs.lock();
        let affected = runs
            .iter()
            .filter(|(_, interest)| is_affected(interest, watched, &value, &disks));
        affected.map(|((key, _), _)| key.clone()).collect()
    }

    /// The disks that a node uses, and those that it used before this change.
    fn disks_of(&self, node: &str, object: &Value) -> BTreeSet<String> {
        let now: BTreeSet<String> = extract::node(object).disks_in_use.into_iter().collect();
        let mut nodes = self.disks_of_nodes.lock();
        let before = nodes.insert(node.to_owned(), now.clone());
        now.union(&before.unwrap_or_default()).cloned().collect()
    }
}

/// `disks` are those of a node. What this misses is found when the pass is repeated some seconds later.
///
/// | object                          | affects the run if                                            |
/// |---------------------------------|---------------------------------------------------------------|
/// | StatefulSet                     | it is the one that moves                                      |
/// | pod                             | it is, or uses a claim, of the StatefulSet                    |
/// | claim                           | its name is that of a claim of the StatefulSet                |
/// | PodDisruptionBudget             | it is in the namespace                                        |
/// | PersistentVolume                | the run has it, or its claim is one of the StatefulSet        |
/// | VolumeAttachment                | the run has its volume                                        |
/// | node                            | it uses, or has just stopped to use, a disk of the run        |
fn is_affected(
    interest: &Interest,
    watched: Watched,
    object: &Value,
    disks: &BTreeSet<String>,
) -> bool {
    let set = &*interest.set;
    let metadata = &object["metadata"];
    let name = metadata["name"].as_str().unwrap_or_default();
    let is_in_namespace = metadata["namespace"] == *interest.namespace;
    match watched {
        Watched::StatefulSets => is_in_namespace && name == set,
        Watched::Pods => is_in_namespace && is_pod_of(set, object),
        Watched::Claims => is_in_namespace && is_claim_of(set, name),
        Watched::Budgets => is_in_namespace,
        Watched::Volumes => {
            let claim = &object["spec"]["claimRef"];
            let is_of_set = claim["namespace"] == *interest.namespace
                && is_claim_of(set, claim["name"].as_str().unwrap_or_default());
            is_of_set || interest.volumes.contains(name)
        }
        Watched::Attachments => extract::attachment(object)
            .is_some_and(|attachment| interest.volumes.contains(&attachment.volume)),
        Watched::Nodes => !interest.disks.is_disjoint(disks),
    }
}

/// The StatefulSet that a pod of this name may belong to: the name without the ordinal.
pub(super) fn set_of_pod(pod: &str) -> Option<&str> {
    let (set, ordinal) = pod.rsplit_once('-')?;
    let is_ordinal = !ordinal.is_empty() && ordinal.bytes().all(|byte| byte.is_ascii_digit());
    is_ordinal.then_some(set)
}

/// Whether a claim has a name of the form `<template>-<set>-<ordinal>`.
pub(super) fn is_claim_of(set: &str, claim: &str) -> bool {
    let template = set_of_pod(claim).and_then(|start| start.strip_suffix(set));
    template.is_some_and(|template| template.len() > 1 && template.ends_with('-'))
}

#[cfg(test)]
mod tests;
