//! StatefulSets with existing disks, for stories.

use anyhow::{Context, Result};
use http::Method;
use k8s_openapi::api::{
    apps::v1::StatefulSet,
    core::v1::{PersistentVolume, PersistentVolumeClaim, Service},
    storage::v1::StorageClass,
};
use kube::{Api, Client, Resource, ResourceExt, api::PostParams, core::NamespaceResourceScope};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};

use super::{
    DRIVER, ZONES,
    ec2::Ec2,
    kubelet::SET_LABEL,
    nodes::hex17,
    provisioner::{PROVISIONED_BY, zone_affinity},
};
use crate::{eventually::eventually, stories::merge};

/// A StatefulSet whose disks exist before it does.
#[derive(Debug, Clone)]
pub struct SetPlan {
    /// The namespace, which exists.
    pub namespace: String,
    /// Name of the set and of its headless Service.
    pub name: String,
    /// How many pods.
    pub replicas: u32,
    /// The first ordinal.
    pub start: u32,
    /// The names of the volumeClaimTemplates.
    pub templates: Vec<String>,
    /// `gp2` or `gp3`; a StorageClass of this name is created if there is none.
    pub class: String,
    /// The reclaim policy of the volumes.
    pub reclaim_policy: String,
    /// `terminationGracePeriodSeconds` of the pods.
    pub grace_seconds: u32,
    /// The zones of the disks: ordinals take turns.
    pub zones: Vec<String>,
}

impl SetPlan {
    /// The set `web` with two replicas and the template `data`, of class gp2 and policy Delete.
    pub fn new(namespace: &str) -> Self {
        Self {
            namespace: namespace.to_owned(),
            name: "web".to_owned(),
            replicas: 2,
            start: 0,
            templates: vec!["data".to_owned()],
            class: "gp2".to_owned(),
            reclaim_policy: "Delete".to_owned(),
            grace_seconds: 30,
            zones: ZONES.map(str::to_owned).to_vec(),
        }
    }

    /// The zone of the disks of an ordinal.
    pub fn zone(&self, ordinal: u32) -> &str {
        let mut turns = self.ordinals().zip(self.zones.iter().cycle());
        let found = turns.find(|(own, _)| *own == ordinal);
        found.map_or(ZONES[0], |(_, zone)| zone)
    }

    /// The ordinals of its pods.
    pub fn ordinals(&self) -> std::ops::Range<u32> {
        self.start..self.start + self.replicas
    }

    /// The name of a claim.
    pub fn claim(&self, template: &str, ordinal: u32) -> String {
        format!("{template}-{}-{ordinal}", self.name)
    }

    /// The name of a PersistentVolume.
    pub fn persistent_volume(&self, template: &str, ordinal: u32) -> String {
        format!("{}-{}", self.namespace, self.claim(template, ordinal))
    }

    /// The id of a disk, always the same for a claim.
    pub fn volume(&self, template: &str, ordinal: u32) -> String {
        format!("vol-{}", hex17(&self.persistent_volume(template, ordinal)))
    }

    /// The StatefulSet as [`super::DiskSimulators::seed`] creates it.
    pub fn stateful_set(&self) -> Value {
        let labels = json!({ "app": self.name });
        let template = |name: &String| {
            json!({
                "metadata": { "name": name },
                "spec": {
                    "accessModes": ["ReadWriteOnce"], "storageClassName": self.class,
                    "resources": { "requests": { "storage": "10Gi" } },
                },
            })
        };
        let mount = |name: &String| json!({ "name": name, "mountPath": format!("/{name}") });
        let mounts: Vec<_> = self.templates.iter().map(mount).collect();
        let templates: Vec<_> = self.templates.iter().map(template).collect();
        let set = format!("{}-{}", self.namespace, self.name);
        let mut spec = json!({
            "serviceName": self.name, "replicas": self.replicas,
            "selector": { "matchLabels": labels },
            "template": {
                "metadata": { "labels": { "app": self.name, SET_LABEL: set } },
                "spec": {
                    "terminationGracePeriodSeconds": self.grace_seconds,
                    "containers": [{
                        "name": "main", "image": "registry.test/main:1", "volumeMounts": mounts,
                    }],
                },
            },
            "volumeClaimTemplates": templates,
        });
        if self.start > 0 {
            spec["ordinals"] = json!({ "start": self.start });
        }
        json!({
            "apiVersion": "apps/v1", "kind": "StatefulSet",
            "metadata": { "name": self.name, "namespace": self.namespace }, "spec": spec,
        })
    }

    fn persistent_volume_object(&self, template: &str, ordinal: u32) -> Value {
        json!({
            "metadata": {
                "name": self.persistent_volume(template, ordinal),
                "annotations": { PROVISIONED_BY: DRIVER },
            },
            "spec": {
                "capacity": { "storage": "10Gi" }, "accessModes": ["ReadWriteOnce"],
                "persistentVolumeReclaimPolicy": self.reclaim_policy,
                "storageClassName": self.class, "volumeMode": "Filesystem",
                "claimRef": {
                    "apiVersion": "v1", "kind": "PersistentVolumeClaim",
                    "namespace": self.namespace, "name": self.claim(template, ordinal),
                },
                "csi": {
                    "driver": DRIVER, "volumeHandle": self.volume(template, ordinal),
                    "fsType": "ext4",
                },
                "nodeAffinity": zone_affinity(self.zone(ordinal)),
            },
        })
    }

    fn claim_object(&self, template: &str, ordinal: u32) -> Value {
        json!({
            "metadata": {
                "name": self.claim(template, ordinal), "namespace": self.namespace,
                "labels": { "app": self.name },
            },
            "spec": {
                "accessModes": ["ReadWriteOnce"], "storageClassName": self.class,
                "volumeMode": "Filesystem",
                "volumeName": self.persistent_volume(template, ordinal),
                "resources": { "requests": { "storage": "10Gi" } },
            },
        })
    }
}

/// Creates the class, the disks, their PersistentVolumes and the claims.
pub(super) async fn create_claims(client: &Client, ec2: &Ec2, plan: &SetPlan) -> Result<()> {
    create_class(client, &plan.class).await?;
    let usual = json!({});
    for ordinal in plan.ordinals() {
        for template in &plan.templates {
            create_disk(
                client,
                ec2,
                plan,
                (template.as_str(), ordinal),
                [&usual, &usual],
            )
            .await?;
        }
    }
    Ok(())
}

/// Creates one disk, its PersistentVolume and its claim, both changed by merge patches.
pub(super) async fn create_disk(
    client: &Client,
    ec2: &Ec2,
    plan: &SetPlan,
    (template, ordinal): (&str, u32),
    [of_volume, of_claim]: [&Value; 2],
) -> Result<()> {
    let path = format!("ec2/volumes/{}", plan.volume(template, ordinal));
    let tags = json!({ "ebs.csi.aws.com/cluster": "true" });
    let zone = plan.zone(ordinal);
    let disk = json!({ "az": zone, "size": 10, "type": plan.class, "tags": tags });
    ec2.control(Method::PUT, &path, disk).await?;
    let mut object = plan.persistent_volume_object(template, ordinal);
    merge(&mut object, of_volume);
    let object: PersistentVolume = serde_json::from_value(object)?;
    create(&Api::all(client.clone()), &object).await?;
    let mut object = plan.claim_object(template, ordinal);
    merge(&mut object, of_claim);
    create_in::<PersistentVolumeClaim>(client, &plan.namespace, object).await
}

/// Creates a StorageClass that binds at once.
pub(super) async fn create_class(client: &Client, name: &str) -> Result<()> {
    let class: StorageClass = serde_json::from_value(json!({
        "metadata": { "name": name }, "provisioner": DRIVER, "parameters": { "type": name },
        "volumeBindingMode": "Immediate", "reclaimPolicy": "Delete",
    }))?;
    create(&Api::all(client.clone()), &class).await
}

/// Creates the Service and the set, and waits until its pods are Ready.
pub(super) async fn create_set(client: &Client, plan: &SetPlan) -> Result<()> {
    let service = json!({
        "metadata": { "name": plan.name },
        "spec": { "clusterIP": "None", "selector": { "app": plan.name }, "ports": [{ "port": 80 }] },
    });
    create_in::<Service>(client, &plan.namespace, service).await?;
    create_in::<StatefulSet>(client, &plan.namespace, plan.stateful_set()).await?;
    let sets = Api::<StatefulSet>::namespaced(client.clone(), &plan.namespace);
    let what = format!("the pods of {}/{} are Ready", plan.namespace, plan.name);
    let replicas = i32::try_from(plan.replicas)?;
    eventually(&what, async || {
        let status = sets.get(&plan.name).await?.status.unwrap_or_default();
        Ok((status.ready_replicas.unwrap_or_default() == replicas).then_some(()))
    })
    .await
}

async fn create_in<K>(client: &Client, namespace: &str, object: Value) -> Result<()>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
    K: Clone + std::fmt::Debug + DeserializeOwned + Serialize,
{
    let object: K = serde_json::from_value(object)?;
    create(&Api::namespaced(client.clone(), namespace), &object).await
}

/// Creates an object; an existing one of its name is left as it is.
async fn create<K>(api: &Api<K>, object: &K) -> Result<()>
where
    K: Resource<DynamicType = ()> + Clone + std::fmt::Debug + DeserializeOwned + Serialize,
{
    match api.create(&PostParams::default(), object).await {
        Err(kube::Error::Api(status)) if status.code == 409 => Ok(()),
        created => {
            let label = || format!("cannot create {} {}", K::kind(&()), object.name_any());
            created.map(drop).with_context(label)
        }
    }
}
