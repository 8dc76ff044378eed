//! Two clusters that share the disks of one EC2, with the operator in the destination.

use std::path::Path;
use std::time::Duration;

use futures::{StreamExt, TryStreamExt, stream};
use http::Method;
use serde_json::{Value, json};
use testkit::disks::{DiskSimulators, NodePlan, SetPlan, SimulatorOptions, ZONES, plane_options};
use testkit::{Cluster, ClusterPlan, Mark, Operator, Result, World, eventually_within};
use tokio::time::sleep;

use super::super::cluster::until_ready;
use super::logs::Logs;
use crate::verdict::Error;

/// The clusters, and the Secrets with their kubeconfigs.
const SOURCE: &str = "source";
const DESTINATION: &str = "destination";
/// The namespace of the accounts in docs/rbac/migrate-*.yaml, which name this namespace of a set.
const ACCOUNTS: &str = "pontoon-migrate";
const SHOP: &str = "namespace: shop";
const ROLES: [(&str, &str, &str); 2] = [
    (
        SOURCE,
        "pontoon-migrate-source",
        include_str!("../../../../docs/rbac/migrate-source.yaml"),
    ),
    (
        DESTINATION,
        "pontoon-migrate-destination",
        include_str!("../../../../docs/rbac/migrate-destination.yaml"),
    ),
];
/// The namespace of all migrations, in the destination.
const OPS: &str = "ops";
/// The access key with which the operator calls EC2.
pub(super) const ROLE: &str = "test";
/// Room for all sets of the bench in each zone.
const NODES_OF_ZONE: usize = 6;
const DISKS_OF_NODE: u32 = 100;
/// Sets that are created at the same time.
const SEEDING: usize = 5;
/// The interval of progress checks: each check is work for the same cores.
const POLL: Duration = Duration::from_millis(500);
/// What EC2 needs to attach or detach a disk, in milliseconds: as long as the real one, and while sets
/// are created.
const USUAL: u32 = 1_500;
const QUICK: u32 = 15;

pub(super) struct MigrateSetup {
    // The order of these fields is the order in which they end.
    world: World,
    source: DiskSimulators,
    _destination: DiskSimulators,
}

/// A point in all logs.
#[derive(Clone, Copy)]
pub(super) struct LogMarks {
    source: Mark,
    destination: Mark,
    aws: u64,
}

impl MigrateSetup {
    /// The clusters with their nodes and accounts. The operator runs and has nothing to do.
    pub(super) async fn start(program: &Path) -> Result<Self> {
        let world = World::new()
            .feature("migrate")
            .arg("--migrate-legacy-lease=none")
            .aws()
            .env("RUST_BACKTRACE", "0")
            .binary(program)
            .cluster(SOURCE, ClusterPlan::from(plane_options()))
            .cluster(DESTINATION, ClusterPlan::from(plane_options()))
            .operator_in(DESTINATION)
            .start()
            .await?;
        let operators = json!({"operators": [ROLE]});
        world.aws().control(Method::PUT, "oracle", operators)?;
        let destination = world.named_cluster(DESTINATION);
        destination.control_plane().ensure_namespace(OPS).await?;
        for (name, account, roles) in ROLES {
            let cluster = world.named_cluster(name);
            let plane = cluster.control_plane();
            plane.ensure_namespace("shop").await?;
            cluster.cluster().apply(roles).await?;
            // Without a proxy, whose work would count as the operator's.
            let kubeconfig = plane.kubeconfig_for(ACCOUNTS, account, None).await?;
            let secret = json!({
                "apiVersion": "v1", "kind": "Secret", "metadata": {"name": name},
                "stringData": {"kubeconfig": kubeconfig},
            });
            apply(destination, OPS, &secret).await?;
        }
        let class = json!({
            "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": "gp2"},
            "provisioner": testkit::disks::DRIVER, "parameters": {"type": "gp2"},
        });
        destination.cluster().apply(&class.to_string()).await?;
        let setup = Self {
            source: simulators(&world, SOURCE, "attacher-src").await?,
            _destination: simulators(&world, DESTINATION, "attacher-dst").await?,
            world,
        };
        until_ready(setup.operator(), true).await?;
        Ok(setup)
    }

    pub(super) fn operator(&self) -> &Operator {
        self.world.operator()
    }

    /// Ends the operator and starts it again, so that its memory is that of a new process.
    pub(super) async fn restart(&self) -> Result<()> {
        let ended = self.operator().terminate(Duration::from_secs(30)).await?;
        if !ended.success() {
            let message = format!("the operator, told to stop, ended with {ended}");
            return Err(Error::new(message).into());
        }
        self.operator().restart(|_| {}).await?;
        until_ready(self.operator(), true).await
    }

    /// Creates these sets, each in a namespace of both clusters, and waits until their pods are Ready.
    pub(super) async fn create_sets(&self, sets: &[SetPlan]) -> Result<()> {
        self.set_timing(QUICK)?;
        let created = stream::iter(sets).map(Ok);
        created
            .try_for_each_concurrent(SEEDING, |set| self.create_set(set))
            .await?;
        self.set_timing(USUAL)
    }

    async fn create_set(&self, set: &SetPlan) -> Result<()> {
        let own = format!("namespace: {}", set.namespace);
        for (name, _, roles) in ROLES {
            let cluster = self.world.named_cluster(name);
            let plane = cluster.control_plane();
            plane.ensure_namespace(&set.namespace).await?;
            let binding = roles.rsplit("---").next().unwrap_or_default();
            cluster
                .cluster()
                .apply(&binding.replace(SHOP, &own))
                .await?;
        }
        let service = json!({
            "apiVersion": "v1", "kind": "Service", "metadata": {"name": set.name},
            "spec": {"clusterIP": "None", "selector": {"app": set.name}, "ports": [{"port": 80}]},
        });
        let destination = self.world.named_cluster(DESTINATION);
        apply(destination, &set.namespace, &service).await?;
        let client = self.world.named_cluster(SOURCE).control_plane().admin();
        self.source.seed(&client, set).await
    }

    fn set_timing(&self, milliseconds: u32) -> Result<()> {
        let timing = json!({"attachMs": milliseconds, "detachMs": milliseconds});
        self.aws(Method::PUT, "ec2/timing", timing).map(drop)
    }

    /// Creates a migration of each set at once, named as the namespace of the set.
    pub(super) async fn migrate(&self, sets: &[SetPlan], fields: &Value) -> Result<()> {
        let destination = self.world.named_cluster(DESTINATION);
        let created = sets.iter().map(async |set| {
            let mut spec = json!({
                "migrationId": "bench",
                "sourceCluster": {"kubeConfigSecret": SOURCE},
                "destCluster": {"kubeConfigSecret": DESTINATION},
                "sourceNamespace": set.namespace, "destNamespace": set.namespace,
                "statefulSetName": set.name,
                "sourceCleanup": {"soak": "0s"},
            });
            testkit::stories::merge(&mut spec, fields);
            let migration = json!({
                "apiVersion": "migration.aqua.io/v1alpha1", "kind": "StatefulSetMigration",
                "metadata": {"name": set.namespace}, "spec": spec,
            });
            apply(destination, OPS, &migration).await
        });
        futures::future::try_join_all(created).await.map(drop)
    }

    /// Waits until the status of the migration of each set `is_there`.
    pub(super) async fn until(
        &self,
        what: &str,
        sets: &[SetPlan],
        deadline: Duration,
        is_there: impl Fn(&Value) -> bool,
    ) -> Result<()> {
        let attempt = async || {
            sleep(POLL).await;
            let all = self.statuses(sets).await?;
            if let Some(error) = failure(&all) {
                return Err(Error::new(error).into());
            }
            Ok(all.iter().all(|(_, status)| is_there(status)).then_some(()))
        };
        let waited = eventually_within(deadline, what, attempt).await;
        if waited.is_err() {
            for (name, status) in self.statuses(sets).await? {
                let ready = status["conditions"].as_array().cloned().unwrap_or_default();
                let ready = ready.into_iter().find(|one| one["type"] == "Ready");
                eprintln!("{name}: {} {}", status["phase"], ready.unwrap_or_default());
            }
        }
        waited
    }

    /// The status of the migration of each set, by name.
    async fn statuses(&self, sets: &[SetPlan]) -> Result<Vec<(String, Value)>> {
        let client = self
            .world
            .named_cluster(DESTINATION)
            .control_plane()
            .admin();
        let path =
            format!("/apis/migration.aqua.io/v1alpha1/namespaces/{OPS}/statefulsetmigrations");
        let list = client.request::<Value>(http::Request::get(path).body(Vec::new())?);
        let mut list = list.await?;
        let items = list["items"].as_array_mut().map(std::mem::take);
        let all = items.into_iter().flatten().filter_map(|mut item| {
            let name = item["metadata"]["name"].as_str()?.to_owned();
            let is_meant = sets.iter().any(|set| set.namespace == name);
            is_meant.then(|| (name, item["status"].take()))
        });
        Ok(all.collect())
    }

    /// The disks stay mounted, and in `volumesInUse` of their nodes, after their pods.
    pub(super) async fn keep_mounted(&self, disks: &[String]) -> Result<()> {
        let annotation = json!({"sim.pontoon.test/hold-unmount": disks.join(",")});
        for node in nodes() {
            let node = json!({
                "apiVersion": "v1", "kind": "Node",
                "metadata": {"name": node.name, "annotations": annotation},
            });
            let source = self.world.named_cluster(SOURCE);
            source.cluster().apply(&node.to_string()).await?;
        }
        Ok(())
    }

    /// The next detach of the disk never ends.
    pub(super) fn stick(&self, disk: &str) -> Result<()> {
        let path = format!("ec2/volumes/{disk}/stick");
        self.aws(Method::POST, &path, Value::Null).map(drop)
    }

    pub(super) fn now(&self) -> Result<LogMarks> {
        let log = self.aws(Method::GET, &format!("log?since={}", u64::MAX), Value::Null)?;
        Ok(LogMarks {
            source: self.world.named_cluster(SOURCE).mark(),
            destination: self.world.named_cluster(DESTINATION).mark(),
            aws: log["last"].as_u64().unwrap_or_default(),
        })
    }

    /// What all logs show since then.
    pub(super) async fn logs(&self, since: LogMarks) -> Result<Logs> {
        let plane = |name: &str| self.world.named_cluster(name).control_plane();
        let path = format!("log?since={}", since.aws);
        let mut log = self.aws(Method::GET, &path, Value::Null)?;
        let mut oracle = self.aws(Method::GET, "oracle", Value::Null)?;
        let violations = oracle["violations"].as_array();
        if violations.is_none_or(|violations| !violations.is_empty()) {
            let message = format!("the oracle of EC2 reports {}", oracle["violations"]);
            return Err(Error::new(message).into());
        }
        let logs = Logs {
            source: plane(SOURCE).entries_since(since.source).await?,
            destination: plane(DESTINATION).entries_since(since.destination).await?,
            calls: serde_json::from_value(log["entries"].take())?,
            disks: serde_json::from_value(oracle["timeline"].take())?,
        };
        if logs
            .calls
            .first()
            .is_some_and(|first| first.seq > since.aws + 1)
        {
            return Err(Error::new("the emulator's log has lost calls that count").into());
        }
        Ok(logs)
    }

    fn aws(&self, method: Method, path: &str, body: Value) -> Result<Value> {
        Ok(self.world.aws().control(method, path, body)?)
    }
}

/// The message of the first run that has failed.
fn failure(statuses: &[(String, Value)]) -> Option<String> {
    let failed = statuses
        .iter()
        .find(|(_, status)| status["phase"] == "Failed");
    failed.map(|(name, status)| format!("the run {name} failed: {}", status["lastError"]))
}

fn nodes() -> Vec<NodePlan> {
    let of_zone = |(zone, letter): (&'static str, char)| {
        (1..=NODES_OF_ZONE).map(move |n| NodePlan::new(&format!("node-{letter}{n}"), zone))
    };
    ZONES.into_iter().zip('a'..).flat_map(of_zone).collect()
}

async fn simulators(world: &World, cluster: &str, role: &str) -> Result<DiskSimulators> {
    let options = SimulatorOptions {
        nodes: nodes(),
        disks_per_node: DISKS_OF_NODE,
        ..SimulatorOptions::new(role)
    };
    let plane = world.named_cluster(cluster).control_plane();
    DiskSimulators::start(plane, &world.aws().url(), options).await
}

async fn apply(cluster: &Cluster, namespace: &str, object: &Value) -> Result<()> {
    let story = cluster.in_namespace(namespace);
    story.apply(&object.to_string()).await.map(drop)
}
