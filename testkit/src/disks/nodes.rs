//! Nodes with EC2 instances: the objects, and the conditions that annotations ask for.

use std::sync::Arc;

use anyhow::{Context, Result};
use http::Method;
use k8s_openapi::api::{
    core::v1::{Node, NodeCondition},
    storage::v1::{CSIDriver, CSINode},
};
use kube::{
    Api, Client, Resource, ResourceExt,
    api::{Patch, PatchParams, PostParams},
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::{DRIVER, Simulation, ec2::Ec2};

/// The prefix of the annotations of nodes.
const PREFIX: &str = "sim.pontoon.test";
/// Both keys of a zone: the second is the driver's own.
const ZONE_KEYS: [&str; 2] = [
    "topology.kubernetes.io/zone",
    "topology.ebs.csi.aws.com/zone",
];

/// A node to create.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodePlan {
    /// Its name.
    pub name: String,
    /// Its zone and that of its instance.
    pub zone: String,
}

impl NodePlan {
    /// A node of this name in a zone.
    pub fn new(name: &str, zone: &str) -> Self {
        Self {
            name: name.to_owned(),
            zone: zone.to_owned(),
        }
    }
}

/// The id of the instance of a node, different in clusters with other attachers.
pub(super) fn instance_id(role: &str, node: &str) -> String {
    format!("i-{}", hex17(&format!("{role}/{node}")))
}

/// 17 hexadecimal digits, as in ids of EC2, always the same for a text.
pub(super) fn hex17(text: &str) -> String {
    let digest = Sha256::digest(text.as_bytes());
    let (start, _) = digest.split_first_chunk().expect("SHA-256 has 32 bytes");
    format!("{:032x}", u128::from_be_bytes(*start))[..17].to_owned()
}

/// The instance of a node, from its providerID.
pub(super) fn instance_of(node: &Node) -> Option<String> {
    let id = node.spec.as_ref()?.provider_id.as_deref()?;
    let (_, instance) = id.rsplit_once('/')?;
    Some(instance.to_owned())
}

/// The zone of a node.
pub(super) fn zone_of(node: &Node) -> Option<String> {
    ZONE_KEYS
        .iter()
        .find_map(|key| node.labels().get(*key).cloned())
}

/// The value of an annotation of a node.
pub(super) fn annotation<'a>(node: &'a Node, name: &str) -> Option<&'a str> {
    let value = node.annotations().get(&format!("{PREFIX}/{name}"))?;
    Some(value.as_str())
}

/// Whether the comma-separated list in an annotation contains `element`.
pub(super) fn is_listed(node: &Node, name: &str, element: &str) -> bool {
    let list = annotation(node, name).unwrap_or_default();
    list.split(',').any(|listed| listed.trim() == element)
}

/// The milliseconds in an annotation; 0 without it.
pub(super) fn milliseconds(node: &Node, name: &str) -> u64 {
    let text = annotation(node, name);
    text.and_then(|text| text.parse().ok()).unwrap_or_default()
}

/// Creates the CSIDriver.
pub(super) async fn create_driver(client: &Client) -> Result<()> {
    let driver = json!({
        "metadata": { "name": DRIVER },
        "spec": { "attachRequired": true, "podInfoOnMount": false, "fsGroupPolicy": "ReadWriteOnceWithFSType" },
    });
    create::<CSIDriver>(client, driver).await.map(drop)
}

/// Creates a node, its CSINode and its instance.
pub(super) async fn create_node(
    client: &Client,
    ec2: &Ec2,
    plan: &NodePlan,
    disks: u32,
) -> Result<()> {
    let NodePlan { name, zone } = plan;
    let instance = instance_id(ec2.role(), name);
    let path = format!("ec2/instances/{instance}");
    ec2.control(Method::PUT, &path, json!({ "az": zone }))
        .await?;
    let node = create::<Node>(client, node(plan, &instance)).await?;
    // Admission taints a new node as not ready, whatever its conditions are.
    let untainted = Patch::Merge(json!({ "spec": { "taints": null } }));
    let nodes = Api::<Node>::all(client.clone());
    nodes
        .patch(name, &PatchParams::default(), &untainted)
        .await?;
    let csi_node = json!({
        "metadata": {
            "name": name,
            "annotations": { "storage.alpha.kubernetes.io/migrated-plugins": "kubernetes.io/aws-ebs" },
            "ownerReferences": [{
                "apiVersion": "v1", "kind": "Node", "name": name, "uid": node.uid(),
            }],
        },
        "spec": { "drivers": [{
            "name": DRIVER, "nodeID": instance, "topologyKeys": ZONE_KEYS,
            "allocatable": { "count": disks },
        }] },
    });
    create::<CSINode>(client, csi_node).await.map(drop)
}

/// Creates a cluster-scoped object; an existing one of its name is left as it is.
async fn create<K>(client: &Client, object: Value) -> Result<K>
where
    K: Resource<DynamicType = (), Scope = kube::core::ClusterResourceScope>,
    K: Clone + std::fmt::Debug + DeserializeOwned + Serialize,
{
    let object: K = serde_json::from_value(object)?;
    let (kind, name) = (K::kind(&()), object.name_any());
    let api = Api::<K>::all(client.clone());
    match api.create(&PostParams::default(), &object).await {
        Err(kube::Error::Api(status)) if status.code == 409 => Ok(api.get(&name).await?),
        created => created.with_context(|| format!("cannot create {kind} {name}")),
    }
}

fn node(plan: &NodePlan, instance: &str) -> Value {
    let NodePlan { name, zone } = plan;
    let amounts =
        json!({ "cpu": "64", "memory": "256Gi", "pods": "250", "ephemeral-storage": "100Gi" });
    let fine = |kind: &str| condition(kind, "False", "Sufficient");
    json!({
        "metadata": {
            "name": name,
            "labels": {
                "kubernetes.io/hostname": name, "kubernetes.io/os": "linux",
                "kubernetes.io/arch": "amd64", "node.kubernetes.io/instance-type": "m6i.large",
                ZONE_KEYS[0]: zone, ZONE_KEYS[1]: zone,
            },
            "annotations": { "volumes.kubernetes.io/controller-managed-attach-detach": "true" },
        },
        "spec": { "providerID": format!("aws:///{zone}/{instance}") },
        "status": {
            "capacity": amounts, "allocatable": amounts,
            "addresses": [{ "type": "Hostname", "address": name }],
            "conditions": [
                condition("Ready", "True", "KubeletReady"), fine("MemoryPressure"),
                fine("DiskPressure"), fine("PIDPressure"),
            ],
            "nodeInfo": {
                "architecture": "amd64", "bootID": format!("boot-{name}"),
                "containerRuntimeVersion": "containerd://2.0.0", "kernelVersion": "6.12.0",
                "kubeProxyVersion": "", "kubeletVersion": "v1.36.0", "machineID": instance,
                "operatingSystem": "linux", "osImage": "Simulated", "systemUUID": instance,
            },
        },
    })
}

fn condition(kind: &str, status: &str, reason: &str) -> Value {
    let now = jiff::Timestamp::now().to_string();
    json!({
        "type": kind, "status": status, "reason": reason, "message": "set by testkit",
        "lastHeartbeatTime": now, "lastTransitionTime": now,
    })
}

/// Sets a node's Ready condition and boot id as its annotations say.
pub(super) async fn follow_annotations(simulation: Arc<Simulation>, node: Arc<Node>) {
    let uid = node.uid().unwrap_or_default();
    let nodes = Api::<Node>::all(simulation.client.clone());
    let mut patched = None;
    loop {
        // The cache still has the state before the last patch for a moment.
        let due = |node: &Node| {
            let patch = (node.resource_version() != patched).then(|| status_patch(node))?;
            Some((node.name_any(), node.resource_version(), patch?))
        };
        let Some((name, version, patch)) = simulation.nodes.until_one(&uid, due).await else {
            return;
        };
        let patch = Patch::Strategic(patch);
        let outcome = nodes
            .patch_status(&name, &PatchParams::default(), &patch)
            .await;
        let outcome = outcome.map(drop).map_err(anyhow::Error::from);
        simulation
            .errors
            .record(&format!("updating node {name}"), &outcome);
        if outcome.is_ok() {
            patched = version;
        } else {
            simulation.pause().await;
        }
    }
}

fn status_patch(node: &Node) -> Option<Value> {
    let status = node.status.as_ref()?;
    let conditions = status.conditions.as_deref().unwrap_or_default();
    let is_ready = |one: &NodeCondition| one.type_ == "Ready" && one.status == "True";
    let (wanted, reason) = match annotation(node, "not-ready") {
        Some("true") => ("False", "KubeletNotReady"),
        _ => ("True", "KubeletReady"),
    };
    if conditions.iter().any(is_ready) != (wanted == "True") {
        return Some(json!({ "status": { "conditions": [condition("Ready", wanted, reason)] } }));
    }
    let boot = annotation(node, "boot-id")?;
    let is_same = status
        .node_info
        .as_ref()
        .is_some_and(|own| own.boot_id == boot);
    (!is_same).then(|| json!({ "status": { "nodeInfo": { "bootID": boot } } }))
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn annotated(name: &str, value: &str) -> Node {
        let mut object = node(&NodePlan::new("a1", "us-east-1a"), "i-0000000a");
        object["metadata"]["annotations"][format!("{PREFIX}/{name}")] = json!(value);
        serde_json::from_value(object).expect("a node")
    }

    #[rstest]
    #[case::not_ready("not-ready", "true", Some("/status/conditions/0/status"))]
    #[case::ready_already("not-ready", "false", None)]
    #[case::other_boot("boot-id", "second", Some("/status/nodeInfo/bootID"))]
    #[case::same_boot("boot-id", "boot-a1", None)]
    fn an_annotation_changes_the_status(
        #[case] name: &str,
        #[case] value: &str,
        #[case] changed: Option<&str>,
    ) {
        let patch = status_patch(&annotated(name, value));
        let has = |field: &str| {
            patch
                .as_ref()
                .is_some_and(|patch| patch.pointer(field).is_some())
        };
        assert_eq!(patch.is_some(), changed.is_some());
        assert!(changed.is_none_or(has), "{patch:?}");
    }

    #[test]
    fn an_annotation_may_list_several_names() {
        let node = annotated("never-ready", "web-0, web-2");
        assert!(is_listed(&node, "never-ready", "web-2"));
        assert!(!is_listed(&node, "never-ready", "web-1"));
    }

    #[test]
    fn the_instance_is_the_end_of_the_provider_id() {
        assert_eq!(
            instance_of(&annotated("x", "y")).as_deref(),
            Some("i-0000000a")
        );
    }
}
