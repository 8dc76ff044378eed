//! Pods that run on simulated nodes.
//!
//! bound ─▶ claims bound ─▶ volumesInUse ─▶ attached ─▶ mount, log `start` ─▶ Running
//! deleted ─▶ stop delay, log `stop` ─▶ unmount ─▶ no volumesInUse ─▶ object gone

use std::{sync::Arc, time::Duration};

use anyhow::Result;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, Patch, PatchParams, Preconditions},
};
use serde_json::{Value, json};
use tokio::time::sleep;

use super::{
    Simulation, done_if_gone,
    node_disks::DiskUse,
    nodes::{instance_of, is_listed, milliseconds},
    objects::ByUid,
    pod_disks::{self, PodDisk},
};

/// The label by which the emulator distinguishes pods of one name; it moves with the pod template.
pub(super) const SET_LABEL: &str = "sim.pontoon.test/set";

/// The life of one pod on its node.
struct PodRun {
    simulation: Arc<Simulation>,
    uid: String,
    name: String,
    namespace: String,
    set: String,
    node: String,
    instance: String,
    disks: Vec<PodDisk>,
    has_started: bool,
}

/// Runs a pod once it is bound to a node, until it is stopped.
pub(super) async fn run(simulation: Arc<Simulation>, pod: Arc<Pod>) {
    let uid = pod.uid().unwrap_or_default();
    let bound = |pod: &Pod| pod.spec.as_ref()?.node_name.clone();
    let Some(node) = simulation.pods.until_one(&uid, bound).await else {
        return;
    };
    let named = |all: &ByUid<Node>| {
        let found = all.values().find(|one| one.name_any() == node)?;
        instance_of(found)
    };
    let instance = simulation.nodes.until(named).await;
    let mut run = PodRun {
        uid,
        name: pod.name_any(),
        namespace: pod.namespace().unwrap_or_default(),
        set: set_of(&pod),
        node,
        instance,
        disks: Vec::new(),
        has_started: false,
        simulation,
    };
    run.live().await;
    run.stop().await;
}

impl PodRun {
    /// Starts the pod, and returns when it has to stop; `None` if that is before it runs.
    async fn live(&mut self) -> Option<()> {
        let claims = pod_disks::of_pod(&self.simulation, &self.uid);
        self.disks = self.unless_stopping(claims).await?;
        let reserve = async || {
            for disk in self.uses() {
                let disks = &self.simulation.disks;
                disks.reserve(&self.simulation, disk).await?;
            }
            Ok(())
        };
        self.retried("reserving the disks", reserve).await;
        let attached = pod_disks::attached(&self.simulation, &self.node, &self.disks);
        self.unless_stopping(attached).await?;
        self.has_started = true;
        let mount = async || {
            for disk in self.uses() {
                self.simulation.disks.mount(&self.simulation, disk).await?;
            }
            Ok(())
        };
        self.retried("mounting the disks", mount).await;
        self.log("start").await;
        let node = self.live_node().await;
        let delay = self.delay(node.as_ref(), "start-delay-ms");
        self.unless_stopping(sleep(delay)).await?;
        self.publish_readiness().await
    }

    /// Keeps the Ready condition as the node's annotation says, until the pod has to stop.
    async fn publish_readiness(&self) -> Option<()> {
        let mut published = None;
        loop {
            let changed = |node: &Node| {
                let is_ready = !is_listed(node, "never-ready", &self.name);
                (Some(is_ready) != published).then_some(is_ready)
            };
            let is_ready = self.unless_stopping(self.on_node(changed)).await?;
            let pods = Api::<Pod>::namespaced(self.simulation.client.clone(), &self.namespace);
            let publish = async || {
                let Some(patch) = self.status(is_ready) else {
                    return Ok(());
                };
                let patch = Patch::Strategic(patch);
                let params = PatchParams::default();
                done_if_gone(pods.patch_status(&self.name, &params, &patch).await)
            };
            self.retried("publishing the status", publish).await;
            published = Some(is_ready);
        }
    }

    async fn stop(self) {
        let simulation = &self.simulation;
        let node = self.live_node().await;
        if self.has_started {
            let pod = simulation
                .pods
                .find(|pod| pod.uid().as_ref() == Some(&self.uid));
            let grace = pod.and_then(|pod| pod.metadata.deletion_grace_period_seconds);
            let grace = grace.and_then(|seconds| u64::try_from(seconds).ok());
            let longest = grace.map_or(Duration::MAX, Duration::from_secs);
            let longest = simulation.span(longest.min(Duration::from_secs(3600)));
            let delay = self.delay(node.as_ref(), "stop-delay-ms");
            sleep(delay.min(longest)).await;
            self.log("stop").await;
        }
        let hangs = |disk: &DiskUse<'_>| {
            node.as_ref()
                .is_some_and(|node| is_listed(node, "hold-unmount", disk.volume))
        };
        let (hanging, others): (Vec<_>, Vec<_>) = self.uses().partition(hangs);
        for disk in others {
            self.release(disk).await;
        }
        // A kubelet removes the pod once its own mounts are gone; the device may stay mounted longer.
        self.delete_object().await;
        for disk in hanging {
            let ends = |node: &Node| (!is_listed(node, "hold-unmount", disk.volume)).then_some(());
            self.on_node_or_gone(ends).await;
            self.release(disk).await;
        }
    }

    async fn release(&self, disk: DiskUse<'_>) {
        let release = async || self.simulation.disks.release(&self.simulation, disk).await;
        self.retried("unmounting", release).await;
    }

    async fn delete_object(&self) {
        let pods = Api::<Pod>::namespaced(self.simulation.client.clone(), &self.namespace);
        let params = DeleteParams {
            preconditions: Some(Preconditions {
                uid: Some(self.uid.clone()),
                resource_version: None,
            }),
            ..DeleteParams::default().grace_period(0)
        };
        let delete = async || done_if_gone(pods.delete(&self.name, &params).await);
        self.retried("deleting the object", delete).await;
    }

    fn uses(&self) -> impl Iterator<Item = DiskUse<'_>> {
        self.disks.iter().map(|disk| DiskUse {
            node: &self.node,
            instance: &self.instance,
            volume: &disk.volume,
            pod: &self.uid,
        })
    }

    /// Writes to the log of each disk.
    async fn log(&self, event: &str) {
        for disk in self.uses() {
            let body = json!({
                "instance": disk.instance, "podUid": self.uid, "podName": self.name,
                "set": self.set, "event": event,
            });
            let write = async || {
                self.simulation
                    .ec2
                    .report(disk.volume, "log", body.clone())
                    .await
            };
            self.retried("writing to the disk", write).await;
        }
    }

    /// The patch of the pod's status; nothing if the pod is gone.
    fn status(&self, is_ready: bool) -> Option<Value> {
        let pod = self
            .simulation
            .pods
            .find(|pod| pod.uid().as_ref() == Some(&self.uid))?;
        let now = jiff::Timestamp::now().to_string();
        let started = pod
            .status
            .as_ref()
            .and_then(|status| status.start_time.clone());
        let started = started.map_or_else(|| json!(now), |time| json!(time));
        let condition = |kind: &str, is_true: bool| {
            let status = if is_true { "True" } else { "False" };
            json!({ "type": kind, "status": status, "lastTransitionTime": now })
        };
        let containers = pod.spec.iter().flat_map(|spec| &spec.containers);
        let containers: Vec<_> = containers
            .map(|container| {
                json!({
                    "name": container.name, "image": container.image, "imageID": "simulated",
                    "containerID": format!("containerd://{}", self.uid), "restartCount": 0,
                    "ready": is_ready, "started": true,
                    "state": { "running": { "startedAt": started } },
                })
            })
            .collect();
        Some(json!({
            "metadata": { "uid": self.uid },
            "status": {
                "phase": "Running", "startTime": started, "containerStatuses": containers,
                "conditions": [
                    condition("PodReadyToStartContainers", true), condition("Initialized", true),
                    condition("ContainersReady", is_ready), condition("Ready", is_ready),
                ],
            },
        }))
    }

    fn delay(&self, node: Option<&Node>, annotation: &str) -> Duration {
        let real = node.map_or(0, |node| milliseconds(node, annotation));
        self.simulation.span(Duration::from_millis(real))
    }

    /// The node as it is now: a test may have annotated it just before it deleted the pod.
    async fn live_node(&self) -> Option<Node> {
        self.simulation.live_node(&self.node).await
    }

    /// What `found` returns for the node, now or later; never if the node is gone.
    async fn on_node<T>(&self, found: impl Fn(&Node) -> Option<T>) -> T {
        let named = |all: &ByUid<Node>| {
            let mut nodes = all.values();
            nodes
                .find(|node| node.name_any() == self.node)
                .and_then(|node| found(node))
        };
        self.simulation.nodes.until(named).await
    }

    /// Waits until `found` returns something for the node, or the node is gone.
    async fn on_node_or_gone(&self, found: impl Fn(&Node) -> Option<()>) {
        let named = |all: &ByUid<Node>| {
            let mut nodes = all.values();
            match nodes.find(|node| node.name_any() == self.node) {
                None => Some(()),
                Some(node) => found(node),
            }
        };
        self.simulation.nodes.until(named).await;
    }

    /// `None` if the pod is deleted, or gone, before `work` ends. `work` may be dropped anywhere.
    async fn unless_stopping<T>(&self, work: impl Future<Output = T>) -> Option<T> {
        let deleted = |pod: &Pod| pod.metadata.deletion_timestamp.is_some().then_some(());
        tokio::select! {
            biased;
            _ = self.simulation.pods.until_one(&self.uid, deleted) => None,
            value = work => Some(value),
        }
    }

    async fn retried<T>(&self, action: &str, attempt: impl AsyncFn() -> Result<T>) -> T {
        let action = format!("pod {}/{}: {action}", self.namespace, self.name);
        self.simulation.errors.retried(&action, attempt).await
    }
}

/// What distinguishes pods of the same name: the label, else the name of their controller.
fn set_of(pod: &Pod) -> String {
    let owner = || {
        let mut owners = pod.owner_references().iter();
        owners
            .find(|owner| owner.controller == Some(true))
            .map(|owner| owner.name.clone())
    };
    let label = pod.labels().get(SET_LABEL).cloned();
    label.or_else(owner).unwrap_or_default()
}
