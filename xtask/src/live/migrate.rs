//! The world of the feature `migrate`: two clusters that share the disks of one EC2, Pontoon in the
//! destination, and a StatefulSet in the source.
//!
//! ```text
//!           ┌─ source ─▶ SRC (nodes, attacher, `shop/web`)
//! Pontoon ──┼─ dest ───▶ DST (nodes, attacher, `shop`)      each arrow is a fault proxy,
//!           ├─ mgmt ───▶ DST (migrations and Secrets in `ops`)  all with one control address
//!           └─ ec2 ────▶ EC2 ◀── attachers, without a proxy
//! ```

mod flags;

use std::convert::Infallible;
use std::path::Path;
use std::time::Duration;

use http::Method;
use serde_json::{Map, Value, json};
use testkit::disks::{DRIVER, DiskSimulators, SetPlan, SimulatorOptions, plane_options};
use testkit::fault_proxy::{FaultControl, FaultProxy, Listen, Upstream};
use testkit::tools::Tool;
use testkit::{Aws, Cluster, ClusterPlan, Operator, World, WorldPlan};
use tokio::time::sleep;

pub(crate) use flags::MigrateFlags;

use super::clusters;
use super::surroundings::deep;
use super::world::write;
use crate::progress::Progress;
use crate::verdict::{Error, While};

/// What it runs.
pub(crate) const TOOLS: [Tool; 4] = [
    Tool::Etcd,
    Tool::KubeApiserver,
    Tool::KubeControllerManager,
    Tool::KubeScheduler,
];

/// The clusters; the third one only if it is wanted.
const SOURCE: &str = "SRC";
const DESTINATION: &str = "DST";
const ALTERNATIVE: &str = "ALT";
/// The role with which Pontoon calls EC2.
const ROLE: &str = "pontoon";
/// The namespace of migrations, in the destination.
const OPS: &str = "ops";
/// The namespace of the StatefulSet, the same in every cluster.
const SHOP: &str = "shop";
/// The namespace of the accounts in docs/rbac/migrate-*.yaml.
const ACCOUNTS: &str = "pontoon-migrate";
const SOURCE_ACCOUNT: &str = "pontoon-migrate-source";
const SOURCE_ROLES: &str = include_str!("../../../docs/rbac/migrate-source.yaml");
const DESTINATION_ACCOUNT: &str = "pontoon-migrate-destination";
const DESTINATION_ROLES: &str = include_str!("../../../docs/rbac/migrate-destination.yaml");
/// How often the supervisor checks whether Pontoon runs.
const POLL: Duration = Duration::from_millis(100);
/// How long the supervisor waits after a start that failed.
const PAUSE: Duration = Duration::from_secs(1);

/// The running world. Dropping it stops everything.
pub(crate) struct MigrateWorld {
    // The order of these fields is the order in which they end.
    world: World,
    _simulators: [DiskSimulators; 2],
    control: FaultControl,
    _destination_proxy: FaultProxy,
    _ec2_proxy: FaultProxy,
    aws: Aws,
}

impl MigrateWorld {
    /// Starts everything, and returns when the pods of the StatefulSet are Ready.
    pub(crate) async fn start(
        flags: &MigrateFlags,
        program: &Path,
        progress: &Progress,
    ) -> Result<Self, Error> {
        testkit::install_crypto();
        progress.step("starting the AWS emulator");
        let aws = Aws::start().await.map_err(deep)?;
        let timing = furnish(&aws)?;
        let ec2_proxy = ec2_proxy(&aws).await?;
        progress.step("starting the clusters and Pontoon");
        let plan = plan(flags, &aws, &ec2_proxy).binary(program);
        let world = plan.start().await.map_err(deep)?;
        let destination = world.named_cluster(DESTINATION);
        let destination_proxy = destination.control_plane().proxy().await.map_err(deep)?;
        let proxies = [
            ("source", world.named_cluster(SOURCE).proxy()),
            ("dest", &destination_proxy),
            ("mgmt", destination.proxy()),
            ("ec2", &ec2_proxy),
        ];
        let control = FaultControl::start(&proxies, upstreams(&world))
            .await
            .map_err(deep)?;
        progress.step("applying namespaces, accounts and classes");
        open_namespaces(&world).await?;
        grant(&world, &destination_proxy).await?;
        progress.step("starting the nodes");
        let simulators = simulators(&world, &aws, flags.factor()).await?;
        progress.step("waiting for the pods of the StatefulSet");
        let set = SetPlan {
            replicas: flags.replicas(),
            ..SetPlan::new(SHOP)
        };
        let client = world.named_cluster(SOURCE).control_plane().admin();
        simulators[0].seed(&client, &set).await.map_err(deep)?;
        let timing = accelerated(&timing, flags.factor());
        configure(&aws, Method::PUT, "ec2/timing", timing)?;
        Ok(Self {
            world,
            _simulators: simulators,
            control,
            _destination_proxy: destination_proxy,
            _ec2_proxy: ec2_proxy,
            aws,
        })
    }

    /// The variables for a shell; `pids` is the file that [`Self::follow`] writes.
    pub(crate) fn settings(&self, pids: &Path) -> Result<Vec<(String, String)>, Error> {
        let operator = self.operator();
        let kill = operator.kill_file().path();
        if !kill.exists() {
            write(kill, "")?;
        }
        let mut all: Vec<(String, String)> = self.world.clusters().iter().flat_map(files).collect();
        let others = [
            ("EC2", self.aws.url()),
            ("PROXY", self.control.url().to_owned()),
            ("METRICS", operator.metrics_url()),
            ("PROBES", operator.probes_url()),
            ("LOG", operator.log_path().display().to_string()),
            ("KILL", kill.display().to_string()),
            ("PIDS", pids.display().to_string()),
        ];
        all.extend(others.map(|(name, value)| (name.to_owned(), value)));
        Ok(all)
    }

    /// Starts Pontoon again whenever it has ended, and writes the process ids into `pids` whenever they
    /// change, until that fails.
    pub(crate) async fn follow(&self, pids: &Path) -> Error {
        tokio::select! {
            failed = self.write_pids(pids) => failed,
            never = self.supervise() => match never {},
        }
    }

    async fn write_pids(&self, pids: &Path) -> Error {
        let mut written = String::new();
        loop {
            let lines = self.pid_lines();
            if lines != written {
                if let Err(error) = write(pids, &lines) {
                    return error;
                }
                written = lines;
            }
            sleep(POLL).await;
        }
    }

    async fn supervise(&self) -> Infallible {
        loop {
            restart_ended(self.operator()).await;
            sleep(POLL).await;
        }
    }

    /// `<cluster>-<program> <pid>` for each program.
    pub(crate) fn pid_lines(&self) -> String {
        clusters::pid_lines(&self.world)
    }

    fn operator(&self) -> &Operator {
        self.world.operator()
    }
}

/// Starts the operator again if it has ended. A failure is only printed: it may be what the user tries out.
async fn restart_ended(operator: &Operator) {
    let Some(status) = operator.exit_status() else {
        return;
    };
    eprintln!("Pontoon ended with {status}; starting it again.");
    if let Err(error) = operator.restart(|_| {}).await {
        eprintln!("{error:#}");
        sleep(PAUSE).await;
    }
}

fn plan(flags: &MigrateFlags, aws: &Aws, ec2_proxy: &FaultProxy) -> WorldPlan {
    let mut plan = World::new()
        .feature("migrate")
        .arg("--migrate-legacy-lease=none")
        .time(flags.factor())
        .cluster(SOURCE, ClusterPlan::from(plane_options()))
        .cluster(DESTINATION, ClusterPlan::from(plane_options()))
        .operator_in(DESTINATION);
    if flags.third {
        let third = ClusterPlan::from(plane_options()).authority_of(SOURCE);
        plan = plan.cluster(ALTERNATIVE, third);
    }
    for (name, value) in aws.env() {
        plan = match name {
            "AWS_ENDPOINT_URL" => plan.env(name, ec2_proxy.url()),
            "AWS_ACCESS_KEY_ID" => plan.env(name, ROLE),
            _ => plan.env(name, value),
        };
    }
    plan
}

/// Gives Pontoon a role, and lets EC2 be quick until the StatefulSet runs. Returns its usual timing.
fn furnish(aws: &Aws) -> Result<Value, Error> {
    let keys = json!({"service": "sts", "keys": {ROLE: "000000000000"}});
    configure(aws, Method::POST, "mutate", keys)?;
    configure(aws, Method::PUT, "oracle", json!({"operators": [ROLE]}))?;
    let usual = configure(aws, Method::PUT, "ec2/timing", json!({}))?;
    configure(aws, Method::PUT, "ec2/timing", accelerated(&usual, 100))?;
    Ok(usual)
}

fn configure(aws: &Aws, method: Method, path: &str, body: Value) -> Result<Value, Error> {
    let answer = aws.control(method, path, body);
    answer.doing(format_args!("configuring the AWS emulator at {path}"))
}

/// The delays divided by `factor`.
fn accelerated(timing: &Value, factor: u32) -> Value {
    let all = timing.as_object().into_iter().flatten();
    let faster = all.filter_map(|(name, ms)| {
        let ms = ms.as_u64()? / u64::from(factor);
        Some((name.clone(), Value::from(ms)))
    });
    Value::Object(faster.collect::<Map<_, _>>())
}

async fn ec2_proxy(aws: &Aws) -> Result<FaultProxy, Error> {
    let upstream = Upstream {
        url: aws.url(),
        ca_pem: None,
    };
    FaultProxy::start(upstream, Listen::Http)
        .await
        .map_err(deep)
}

/// The servers to which a rule may redirect, each by its name in the file of settings and, for those with
/// a proxy, by the name of the proxy.
fn upstreams(world: &World) -> Vec<(String, Upstream)> {
    let names = |cluster: &Cluster| match cluster.name() {
        SOURCE => ["source", SOURCE],
        DESTINATION => ["dest", DESTINATION],
        _ => ["alt", ALTERNATIVE],
    };
    let servers = world.clusters().iter().flat_map(|cluster| {
        let upstream = cluster.control_plane().upstream();
        names(cluster).map(|name| (name.to_owned(), upstream.clone()))
    });
    servers.collect()
}

/// The namespaces of the migrations and of the StatefulSet, and what the set needs in the destination.
async fn open_namespaces(world: &World) -> Result<(), Error> {
    for cluster in world.clusters() {
        let plane = cluster.control_plane();
        plane.ensure_namespace(SHOP).await.map_err(deep)?;
        apply(cluster, None, &[class("gp2"), class("gp3")]).await?;
    }
    let destination = world.named_cluster(DESTINATION);
    let plane = destination.control_plane();
    plane.ensure_namespace(OPS).await.map_err(deep)?;
    let service = json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"},
        "spec": {"clusterIP": "None", "selector": {"app": "web"}, "ports": [{"port": 80}]},
    });
    apply(destination, Some(SHOP), &[service]).await
}

fn class(name: &str) -> Value {
    json!({
        "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": name},
        "provisioner": DRIVER, "parameters": {"type": name},
        "volumeBindingMode": "Immediate", "reclaimPolicy": "Delete",
    })
}

/// Creates the accounts of Pontoon, and stores their kubeconfigs, which lead through the proxies.
async fn grant(world: &World, destination_proxy: &FaultProxy) -> Result<(), Error> {
    let (source, destination) = (
        world.named_cluster(SOURCE),
        world.named_cluster(DESTINATION),
    );
    let accounts = [
        ("src", source, SOURCE_ACCOUNT, SOURCE_ROLES, source.proxy()),
        (
            "dst",
            destination,
            DESTINATION_ACCOUNT,
            DESTINATION_ROLES,
            destination_proxy,
        ),
    ];
    for (name, cluster, account, roles, proxy) in accounts {
        cluster.cluster().apply(roles).await.map_err(deep)?;
        let plane = cluster.control_plane();
        let kubeconfig = plane.kubeconfig_for(ACCOUNTS, account, Some(proxy)).await;
        let secret = json!({
            "apiVersion": "v1", "kind": "Secret", "metadata": {"name": name},
            "stringData": {"kubeconfig": kubeconfig.map_err(deep)?},
        });
        apply(destination, Some(OPS), &[secret]).await?;
    }
    let mut clusters = world.clusters().iter();
    match clusters.find(|cluster| cluster.name() == ALTERNATIVE) {
        Some(alternative) => copy_account(source, alternative).await,
        None => Ok(()),
    }
}

/// Lets the token in the Secret `src` be valid in the third cluster, with the same permissions.
async fn copy_account(source: &Cluster, alternative: &Cluster) -> Result<(), Error> {
    let (from, to) = (source.control_plane(), alternative.control_plane());
    to.copy_service_account(from, ACCOUNTS, SOURCE_ACCOUNT)
        .await
        .map_err(deep)?;
    let applied = alternative.cluster().apply(SOURCE_ROLES).await;
    applied.map(drop).map_err(deep)
}

async fn apply(cluster: &Cluster, namespace: Option<&str>, objects: &[Value]) -> Result<(), Error> {
    let story = match namespace {
        Some(name) => cluster.in_namespace(name),
        None => cluster.cluster(),
    };
    for object in objects {
        story.apply(&object.to_string()).await.map_err(deep)?;
    }
    Ok(())
}

/// The nodes of the source, and those of the destination.
async fn simulators(world: &World, aws: &Aws, factor: u32) -> Result<[DiskSimulators; 2], Error> {
    let url = aws.url();
    let start = async |cluster: &str, role: &str| {
        let options = SimulatorOptions {
            factor: f64::from(factor),
            ..SimulatorOptions::new(role)
        };
        let plane = world.named_cluster(cluster).control_plane();
        DiskSimulators::start(plane, &url, options)
            .await
            .map_err(deep)
    };
    Ok([
        start(SOURCE, "attacher-src").await?,
        start(DESTINATION, "attacher-dst").await?,
    ])
}

/// `X`, the administrator's kubeconfig, and `AUDIT_X` of a cluster.
fn files(cluster: &Cluster) -> [(String, String); 2] {
    let (name, plane) = (cluster.name(), cluster.control_plane());
    [
        (name.to_owned(), plane.kubeconfig().display().to_string()),
        (
            format!("AUDIT_{name}"),
            plane.audit_log().display().to_string(),
        ),
    ]
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::accelerated;

    #[test]
    fn delays_are_divided_by_the_factor() {
        let timing = json!({"attachMs": 1500, "snapshotMs": 30_000});
        let expected = json!({"attachMs": 150, "snapshotMs": 3000});
        assert_eq!(accelerated(&timing, 10), expected);
        assert_eq!(accelerated(&timing, 1), timing);
    }
}
