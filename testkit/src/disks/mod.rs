//! What a cluster with EBS disks has besides its control plane: nodes that run pods, the attacher and
//! the provisioner of the driver, and EC2.
//!
//! ```text
//! kube-scheduler ─▶ pod bound ─▶ kubelet: volumesInUse ───────────────┐
//! attach-detach controller ─▶ VolumeAttachment ─▶ attacher ─▶ EC2     ├─▶ emulator: mount, log
//!                          ─▶ node's volumesAttached ─▶ kubelet: start ┘
//! PersistentVolume controller ─▶ claim without disk ─▶ provisioner ─▶ EC2
//! ```
//! The controllers are the real ones: a control plane of [`plane_options`]. The simulators follow the
//! protocol by which real ones share a disk with them. Annotations of nodes, all under
//! `sim.pontoon.test/`:
//!
//! | annotation | meaning |
//! |---|---|
//! | `hold-unmount=<vol>[,…]` | the disk stays mounted and in volumesInUse after its pod; the object of the pod goes |
//! | `not-ready=true` | the node's Ready condition is False; its pods go on |
//! | `boot-id=<x>` | the node's bootID |
//! | `never-ready=<pod>[,…]` | the pod runs without being Ready |
//! | `start-delay-ms`, `stop-delay-ms` | between mount and Running; between deletion and stop, at most the grace period |
//!
//! A pod that is deleted by force ends in the same way; its disks are unmounted after the stop delay.

mod attacher;
mod ec2;
mod errors;
mod finalizers;
mod kubelet;
mod node_disks;
mod nodes;
mod objects;
mod pod_disks;
mod provisioner;
mod seed;
mod thread;

use std::{sync::Arc, time::Duration};

use anyhow::{Context, Result};
use k8s_openapi::api::{
    core::v1::{Node, PersistentVolume, PersistentVolumeClaim, Pod},
    storage::v1::VolumeAttachment,
};
use kube::{Api, Client, ResourceExt};
use serde_json::Value;
use tokio::{task::JoinSet, time::sleep};

pub use nodes::NodePlan;
pub use seed::SetPlan;

use crate::control_plane::{ControlPlane, Options};
use attacher::Devices;
use ec2::Ec2;
use errors::{Errors, RETRY};
use node_disks::NodeDisks;
use objects::Objects;
use thread::SimulatorThread;

/// The name of the driver.
pub const DRIVER: &str = "ebs.csi.aws.com";
/// The zones of [`SimulatorOptions::new`] and [`SetPlan`].
pub const ZONES: [&str; 2] = ["us-east-1a", "us-east-1b"];

/// What [`DiskSimulators`] simulate.
#[derive(Debug, Clone)]
pub struct SimulatorOptions {
    /// The role with which the attacher and the provisioner call EC2: its name is its access key.
    pub role: String,
    /// The nodes.
    pub nodes: Vec<NodePlan>,
    /// How many disks a node attaches at most.
    pub disks_per_node: u32,
    /// Divides the delays and pauses of the simulators.
    pub factor: f64,
}

impl SimulatorOptions {
    /// Two nodes in each of [`ZONES`], in real time.
    pub fn new(role: &str) -> Self {
        let named = |letter: &'static str, zone: &'static str| {
            (1..=2).map(move |n| NodePlan::new(&format!("node-{letter}{n}"), zone))
        };
        Self {
            role: role.to_owned(),
            nodes: named("a", ZONES[0]).chain(named("b", ZONES[1])).collect(),
            disks_per_node: 25,
            factor: 1.0,
        }
    }
}

/// A control plane with the controllers that the simulators need: workloads, volumes, the scheduler.
///
/// No controller judges nodes, because the simulated ones renew no Lease.
pub fn plane_options() -> Options {
    let owned = |args: &[&str]| args.iter().map(|arg| (*arg).to_owned()).collect();
    Options {
        controller_manager: true,
        scheduler: true,
        controller_manager_args: owned(&[
            "--controllers=*,-node-lifecycle-controller",
            "--kube-api-qps=500",
            "--kube-api-burst=1000",
            "--concurrent-statefulset-syncs=20",
            "--attach-detach-reconcile-sync-period=5s",
            "--pvclaimbinder-sync-period=5s",
        ]),
        scheduler_args: owned(&["--kube-api-qps=500", "--kube-api-burst=1000"]),
        ..Options::default()
    }
}

/// The nodes, the attacher and the provisioner of one cluster, in a thread of their own. They end with
/// this value.
pub struct DiskSimulators {
    errors: Errors,
    ec2: Ec2,
    _thread: SimulatorThread,
}

impl DiskSimulators {
    /// Creates the nodes with their instances in the emulator at `aws_url`, and simulates them.
    ///
    /// # Errors
    /// If the cluster or the emulator refuses an object.
    pub async fn start(
        plane: &ControlPlane,
        aws_url: &str,
        options: SimulatorOptions,
    ) -> Result<Self> {
        // A separate name in the audit log.
        let config = plane.client_config("system:disk-simulators").await?;
        let errors = Errors::default();
        let (url, role) = (aws_url.to_owned(), options.role.clone());
        let own = errors.clone();
        let thread = SimulatorThread::start(async move |ready| {
            let started = async {
                let client = Client::try_from(config)?;
                let mut tasks = JoinSet::new();
                let ec2 = Ec2::new(&url, &options.role);
                create_objects(&client, &ec2, &options).await?;
                simulate(client, ec2, options.factor, own, &mut tasks).await?;
                Ok::<_, anyhow::Error>(tasks)
            };
            match started.await {
                Ok(mut tasks) => {
                    let _ = ready.send(Ok(()));
                    while tasks.join_next().await.is_some() {}
                }
                Err(error) => drop(ready.send(Err(error))),
            }
        });
        Ok(Self {
            errors,
            ec2: Ec2::new(aws_url, &role),
            _thread: thread.await?,
        })
    }

    /// The last error of a simulator, for the message of a failure. Simulators repeat what failed, so
    /// it may be over.
    pub fn last_error(&self) -> Option<String> {
        self.errors.last()
    }

    /// The instance of a node.
    pub fn instance(&self, node: &str) -> String {
        nodes::instance_id(self.ec2.role(), node)
    }

    /// Makes the disks of a set with their claims, then the set, and waits until its pods are Ready.
    ///
    /// # Errors
    /// After a minute, with the simulators' last error.
    pub async fn seed(&self, client: &Client, plan: &SetPlan) -> Result<()> {
        self.seed_claims(client, plan).await?;
        let seeded = seed::create_set(client, plan).await;
        seeded.with_context(|| match self.last_error() {
            Some(error) => format!("the simulators' last error: {error}"),
            None => "the simulators had no error".to_owned(),
        })
    }

    /// The disks and claims of a set alone.
    ///
    /// # Errors
    /// If the cluster or the emulator refuses an object.
    pub async fn seed_claims(&self, client: &Client, plan: &SetPlan) -> Result<()> {
        seed::create_claims(client, &self.ec2, plan).await
    }

    /// The disk of one claim of a set, with its PersistentVolume and the claim. Merge patches change both.
    ///
    /// # Errors
    /// If the cluster or the emulator refuses an object.
    pub async fn seed_disk(
        &self,
        client: &Client,
        plan: &SetPlan,
        claim: (&str, u32),
        patches: [&Value; 2],
    ) -> Result<()> {
        seed::create_disk(client, &self.ec2, plan, claim, patches).await
    }
}

async fn create_objects(client: &Client, ec2: &Ec2, options: &SimulatorOptions) -> Result<()> {
    ec2.register().await?;
    nodes::create_driver(client).await?;
    for node in &options.nodes {
        let created = nodes::create_node(client, ec2, node, options.disks_per_node).await;
        created.with_context(|| format!("cannot create node {}", node.name))?;
    }
    Ok(())
}

/// Starts the simulators in `tasks`.
async fn simulate(
    client: Client,
    ec2: Ec2,
    factor: f64,
    errors: Errors,
    tasks: &mut JoinSet<()>,
) -> Result<()> {
    let simulation = Arc::new(Simulation {
        pods: Objects::start(Api::all(client.clone()), tasks, &errors).await?,
        nodes: Objects::start(Api::all(client.clone()), tasks, &errors).await?,
        claims: Objects::start(Api::all(client.clone()), tasks, &errors).await?,
        volumes: Objects::start(Api::all(client.clone()), tasks, &errors).await?,
        attachments: Objects::start(Api::all(client.clone()), tasks, &errors).await?,
        client,
        ec2,
        factor,
        errors,
        disks: NodeDisks::default(),
        devices: Devices::default(),
    });
    let all = || Arc::clone(&simulation);
    let own = all();
    tasks.spawn_local(async move { own.pods.each(|pod| kubelet::run(own.clone(), pod)).await });
    let own = all();
    tasks.spawn_local(async move {
        own.nodes
            .each(|node| nodes::follow_annotations(own.clone(), node))
            .await;
    });
    let own = all();
    tasks.spawn_local(async move {
        own.attachments
            .each(|one| attacher::run(own.clone(), one))
            .await;
    });
    let own = all();
    tasks.spawn_local(async move {
        own.claims
            .each(|claim| provisioner::provision(own.clone(), claim))
            .await;
    });
    let own = all();
    tasks.spawn_local(async move {
        own.volumes
            .each(|one| provisioner::reclaim(own.clone(), one))
            .await;
    });
    let own = all();
    tasks.spawn_local(async move {
        own.volumes
            .each(|one| attacher::free_volume(own.clone(), one))
            .await;
    });
    Ok(())
}

/// What the simulators of a cluster share.
struct Simulation {
    client: Client,
    ec2: Ec2,
    factor: f64,
    errors: Errors,
    disks: NodeDisks,
    devices: Devices,
    pods: Objects<Pod>,
    nodes: Objects<Node>,
    claims: Objects<PersistentVolumeClaim>,
    volumes: Objects<PersistentVolume>,
    attachments: Objects<VolumeAttachment>,
}

impl Simulation {
    /// A real time as it passes here.
    fn span(&self, real: Duration) -> Duration {
        real.div_f64(self.factor)
    }

    /// The pause before another attempt.
    async fn pause(&self) {
        sleep(RETRY).await;
    }

    fn node(&self, name: &str) -> Option<Arc<Node>> {
        self.nodes.find(|node| node.name_any() == name)
    }

    /// A node as it is now; `None` if it is gone.
    async fn live_node(&self, name: &str) -> Option<Node> {
        let nodes = Api::<Node>::all(self.client.clone());
        let read = async || Ok(nodes.get_opt(name).await?);
        self.errors.retried("reading a node", read).await
    }

    /// The first zone by name.
    fn first_zone(&self) -> Option<String> {
        self.nodes.min_of(nodes::zone_of)
    }
}

/// The EBS volume of a PersistentVolume, in any form of its id.
fn volume_id(volume: &PersistentVolume) -> Option<String> {
    let spec = volume.spec.as_ref()?;
    if let Some(csi) = spec.csi.as_ref().filter(|csi| csi.driver == DRIVER) {
        return Some(csi.volume_handle.clone());
    }
    let id = &spec.aws_elastic_block_store.as_ref()?.volume_id;
    Some(id.rsplit('/').next().unwrap_or(id).to_owned())
}

/// How the status of a node names a volume.
fn in_use_name(volume: &str) -> String {
    format!("kubernetes.io/csi/{DRIVER}^{volume}")
}

/// The outcome of a write; a gone object, or another one of its name, needs none.
fn done_if_gone<T>(written: kube::Result<T>) -> Result<()> {
    match written {
        Err(kube::Error::Api(status)) if [404, 409].contains(&status.code) => Ok(()),
        written => Ok(written.map(drop)?),
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    #[rstest]
    #[case::csi(json!({ "csi": { "driver": DRIVER, "volumeHandle": "vol-0a" } }), Some("vol-0a"))]
    #[case::zone(json!({ "awsElasticBlockStore": { "volumeID": "aws://us-east-1a/vol-0a" } }), Some("vol-0a"))]
    #[case::no_zone(json!({ "awsElasticBlockStore": { "volumeID": "aws:///vol-0a" } }), Some("vol-0a"))]
    #[case::bare(json!({ "awsElasticBlockStore": { "volumeID": "vol-0a" } }), Some("vol-0a"))]
    #[case::other_driver(json!({ "csi": { "driver": "efs", "volumeHandle": "fs-1" } }), None)]
    #[case::nfs(json!({ "nfs": { "server": "a", "path": "/" } }), None)]
    fn the_volume_of_any_id_form_is_found(#[case] spec: Value, #[case] expected: Option<&str>) {
        let volume = json!({ "metadata": { "name": "a" }, "spec": spec });
        let volume = serde_json::from_value(volume).expect("a PersistentVolume");
        assert_eq!(volume_id(&volume).as_deref(), expected);
    }
}
