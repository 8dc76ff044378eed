//! What stories compare before and after a run, and how they disturb it.

use std::collections::BTreeMap;

use api::migrate::{Phase, StatefulSetMigration, StatefulSetMigrationStatus};
use http::Method;
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim, Pod};
use kube::api::{Api, ListParams, Patch, PatchParams};
use serde::Serialize;
use serde_json::{Value, json};
use testkit::{Result, Story};

use super::Shop;

/// Annotations by which the controller of claims remembers what it has bound.
const BINDING: [&str; 2] = [
    "pv.kubernetes.io/bound-by-controller",
    "pv.kubernetes.io/bind-completed",
];

impl Shop {
    /// The UIDs of the pods in a namespace, by name.
    pub(crate) async fn pods(&self, team: &Story) -> Result<BTreeMap<String, String>> {
        let pods = Api::<Pod>::namespaced(team.client(), team.name());
        let pods = pods.list(&ListParams::default()).await?.into_iter();
        let names = pods.map(|pod| {
            let name = pod.metadata.name.unwrap_or_default();
            (name, pod.metadata.uid.unwrap_or_default())
        });
        Ok(names.collect())
    }

    /// What people have set of the StatefulSet, its claims and their volumes in a namespace: labels, annotations and
    /// specs. Objects that do not exist are left out.
    pub(crate) async fn definition(&self, team: &Story) -> Result<Vec<Value>> {
        let sets = Api::<StatefulSet>::namespaced(team.client(), team.name());
        let claims = Api::<PersistentVolumeClaim>::namespaced(team.client(), team.name());
        let volumes = Api::<PersistentVolume>::all(team.client());
        let mut all = Vec::new();
        all.extend(sets.get_opt(&self.set.name).await?.map(as_set));
        for (template, ordinal) in self.claims() {
            let claim = self.set.claim(template, ordinal);
            all.extend(claims.get_opt(&claim).await?.map(as_set));
            let volume = self.set.persistent_volume(template, ordinal);
            all.extend(volumes.get_opt(&volume).await?.map(as_set));
        }
        Ok(all)
    }

    /// Template and ordinal of each claim of the set.
    fn claims(&self) -> impl Iterator<Item = (&str, u32)> {
        let ordinals = self.set.ordinals();
        ordinals.flat_map(|ordinal| {
            let templates = self.set.templates.iter();
            templates.map(move |template| (template.as_str(), ordinal))
        })
    }

    /// Makes a pod unready until it is deleted: its simulated kubelet publishes changes alone.
    pub(crate) async fn make_unready(&self, team: &Story, pod: &str) -> Result<()> {
        let pods = Api::<Pod>::namespaced(team.client(), team.name());
        let condition = json!({"type": "Ready", "status": "False"});
        let patch = Patch::Strategic(json!({"status": {"conditions": [condition]}}));
        pods.patch_status(pod, &PatchParams::default(), &patch)
            .await?;
        Ok(())
    }

    /// Waits until the run of a migration is in a phase.
    pub(crate) async fn until_phase_of(
        &self,
        name: &str,
        phase: Phase,
    ) -> Result<StatefulSetMigrationStatus> {
        let is_there = move |migration: &StatefulSetMigration| {
            let status = migration.status.as_ref();
            status.and_then(|status| status.phase) == Some(phase)
        };
        self.ops
            .until_status::<StatefulSetMigration>(name, is_there)
            .await
    }

    /// A disk as EC2 has it, with its snapshots and the log that its pods have written.
    pub(crate) fn disk(&self, id: &str) -> Result<Value> {
        let path = format!("ec2/volumes/{id}");
        let aws = self.site.world.aws();
        Ok(aws.control(Method::GET, &path, Value::Null)?)
    }
}

/// The part of an object that people have set.
fn as_set(object: impl Serialize) -> Value {
    let mut object = json!(object);
    if let Some(reference) = object.pointer_mut("/spec/claimRef") {
        *reference = json!({"namespace": reference["namespace"], "name": reference["name"]});
    }
    let metadata = &object["metadata"];
    let entries = |field: &str| -> BTreeMap<String, Value> {
        let entries = metadata[field].as_object().into_iter().flatten();
        let entries = entries.filter(|(key, _)| !BINDING.contains(&key.as_str()));
        entries
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect()
    };
    json!({
        "name": metadata["name"], "labels": entries("labels"),
        "annotations": entries("annotations"), "spec": object["spec"],
    })
}
