//! A whole world: a cluster or two, Vault, the AWS emulator, and Pontoon.

use std::path::{Path, PathBuf};
use std::time::Duration;

use kube::Client;
use kube::config::{KubeConfigOptions, Kubeconfig};
use testkit::child::{Child, Spec};
use testkit::port::Port;
use testkit::scratch::Scratch;
use testkit::tools::Tool;
use testkit::{Aws, Vault, VaultOptions, manifests};
use tokio::time::{sleep, timeout};

use super::cloud;
use super::simulated_cluster::SimulatedCluster;
use crate::operator::Operator;
use crate::progress::Progress;
use crate::tools;
use crate::verdict::{Error, While};

const NAMESPACE: &str = "pontoon-system";
const ACCOUNT: &str = "pontoon";
/// With these roles the clusters call EC2: the one of Pontoon, and the one from which a StatefulSet moves.
const CLUSTER_ROLES: [&str; 2] = ["new-cluster", "old-cluster"];
/// The contract says a second on an empty cluster; more is for a busy machine.
const READY: Duration = Duration::from_mins(1);

/// What to start.
#[derive(Debug, Clone, Default)]
pub(crate) struct Wanted {
    /// An existing cluster, instead of a new one.
    pub(crate) kubeconfig: Option<PathBuf>,
    /// The only feature to run; all without it.
    pub(crate) feature: Option<String>,
}

impl Wanted {
    /// The roles of the clusters to start. Only with every example a StatefulSet moves from one to the other.
    fn cluster_roles(&self) -> &'static [&'static str] {
        match (&self.kubeconfig, &self.feature) {
            (Some(_), _) => &[],
            (None, Some(_)) => &CLUSTER_ROLES[..1],
            (None, None) => &CLUSTER_ROLES,
        }
    }
}

/// The running world. Dropping it stops everything, Pontoon first.
pub(crate) struct Surroundings {
    pub(crate) pontoon: Child,
    pub(crate) client: Client,
    pub(crate) kubeconfig: PathBuf,
    /// The API server's address for Vault.
    pub(crate) host: String,
    pub(crate) vault: Vault,
    pub(crate) aws: Aws,
    pub(crate) probes: Port,
    pub(crate) metrics: Port,
    /// The cluster from which a StatefulSet moves.
    pub(crate) old: Option<SimulatedCluster>,
    _own: Option<SimulatedCluster>,
    /// Kubeconfigs for migrations, by what stands for them in the examples.
    logins: Vec<(&'static str, String)>,
    _logs: Scratch,
}

/// Builds only the programs that a world runs, because a newcomer waits for each of them.
pub(crate) fn ensure_tools(wanted: &Wanted, progress: &Progress) -> Result<(), Error> {
    tools::ensure(&needed_tools(wanted), progress)
}

fn needed_tools(wanted: &Wanted) -> Vec<Tool> {
    let control_plane = [
        Tool::Etcd,
        Tool::KubeApiserver,
        Tool::KubeControllerManager,
        Tool::KubeScheduler,
    ];
    let own_cluster = wanted.kubeconfig.is_none();
    let control_plane = control_plane.into_iter().filter(|_| own_cluster);
    control_plane.chain([Tool::Vault]).collect()
}

impl Surroundings {
    /// Starts everything and returns when Pontoon is ready.
    pub(crate) async fn start(
        wanted: &Wanted,
        operator: &Operator,
        progress: &Progress,
    ) -> Result<Self, Error> {
        testkit::install_crypto();
        let logs = Scratch::new("world").map_err(deep)?;
        progress.step("starting the AWS emulator");
        let aws = Aws::start().await.map_err(deep)?;
        cloud::furnish(&aws)?;
        progress.step("starting the clusters and Vault");
        let vault = async { Vault::start(VaultOptions::dev()).await.map_err(deep) };
        let clusters = SimulatedCluster::start_all(wanted.cluster_roles(), &aws);
        let (clusters, vault) = tokio::try_join!(clusters, vault)?;
        let mut clusters = clusters.into_iter();
        let (own, old) = (clusters.next(), clusters.next());
        let kubeconfig = own.as_ref().map(|own| own.plane.kubeconfig());
        let kubeconfig = kubeconfig.or_else(|| wanted.kubeconfig.clone());
        let kubeconfig = kubeconfig.expect("without a kubeconfig a cluster was started");
        let client = connect(&kubeconfig).await?;
        progress.step("applying CRDs and RBAC");
        install(wanted, operator, &client).await?;
        let identity = match &own {
            Some(own) => own.plane.as_service_account(NAMESPACE, ACCOUNT).await,
            None => Ok(kubeconfig.clone()),
        };
        let identity = identity.map_err(deep)?;
        let logins = match (&own, &old) {
            (Some(own), Some(old)) => vec![
                ("NEW_LOGIN", own.login(operator)?),
                ("OLD_LOGIN", old.login(operator)?),
            ],
            _ => Vec::new(),
        };
        let (probes, metrics) = (Port::free().map_err(deep)?, Port::free().map_err(deep)?);
        let outside = [
            ("KUBECONFIG", identity.display().to_string()),
            ("VAULT_ADDR", vault.address()),
        ];
        let of_build = operator.env().map(|(name, value)| (name, value.to_owned()));
        let outside = outside.into_iter().chain(aws.env()).chain(of_build);
        let pontoon = Child::start(&Spec {
            name: "pontoon".to_owned(),
            program: operator.path().to_owned(),
            args: arguments(wanted, &probes, &metrics)
                .into_iter()
                .map(Into::into)
                .collect(),
            env: outside
                .map(|(name, value)| (name.to_owned(), value.into()))
                .collect(),
            dir: logs.path().to_owned(),
            ..Spec::default()
        })
        .map_err(deep)?;
        progress.step("waiting for Pontoon");
        ready(&pontoon, &probes).await?;
        Ok(Self {
            pontoon,
            client,
            host: host(&kubeconfig).await?,
            kubeconfig,
            vault,
            aws,
            probes,
            metrics,
            old,
            _own: own,
            logins,
            _logs: logs,
        })
    }

    /// The environment variables for a shell that uses the world.
    pub(crate) fn settings(&self) -> Vec<(&'static str, String)> {
        let mut settings = vec![
            ("KUBECONFIG", self.kubeconfig.display().to_string()),
            ("KUBERNETES_HOST", self.host.clone()),
            ("VAULT_ADDR", self.vault.address()),
            ("VAULT_TOKEN", self.vault.root_token().to_string()),
        ];
        settings.extend(self.aws.env());
        let old = self.old.as_ref().map(|old| old.plane.kubeconfig());
        settings.extend(old.map(|path| ("OLD_KUBECONFIG", path.display().to_string())));
        settings
    }

    /// What replaces `${NAME}` in the examples: the settings, and the logins for migrations.
    pub(crate) fn placeholders(&self) -> Vec<(&'static str, String)> {
        [self.settings(), self.logins.clone()].concat()
    }

    /// The error if Pontoon has ended.
    pub(crate) fn broken(&self) -> Option<Error> {
        self.pontoon
            .exit_status()
            .map(|status| ended(&self.pontoon, &format!("ended with {status}")))
    }
}

fn arguments(wanted: &Wanted, probes: &Port, metrics: &Port) -> Vec<String> {
    let mut args = vec![
        "run".to_owned(),
        format!("--lease-namespace={NAMESPACE}"),
        format!("--health-probe-bind-address={}", probes.address()),
        format!("--metrics-bind-address={}", metrics.address()),
        "--metrics-secure=false".to_owned(), // on loopback, for curl
        "--log-format=json".to_owned(),
    ];
    if wanted.kubeconfig.is_none() {
        // No earlier controller is installed here.
        args.push("--migrate-legacy-lease=none".to_owned());
    }
    args.extend(
        wanted
            .feature
            .iter()
            .map(|feature| format!("--features={feature}")),
    );
    args
}

async fn config(path: &Path) -> Result<kube::Config, Error> {
    let config = Kubeconfig::read_from(path).doing(format_args!("reading {}", path.display()))?;
    kube::Config::from_custom_kubeconfig(config, &KubeConfigOptions::default())
        .await
        .doing(format_args!("using {}", path.display()))
}

/// The address of the API server.
async fn host(path: &Path) -> Result<String, Error> {
    let url = config(path).await?.cluster_url.to_string();
    Ok(url.trim_end_matches('/').to_owned())
}

async fn connect(path: &Path) -> Result<Client, Error> {
    let config = config(path).await?;
    let client = Client::try_from(config).doing(format_args!("using {}", path.display()))?;
    client
        .apiserver_version()
        .await
        .doing(format_args!("asking the cluster in {}", path.display()))?;
    Ok(client)
}

/// Applies the CRDs, and grants Pontoon's ServiceAccount the permissions that the features declare.
async fn install(wanted: &Wanted, operator: &Operator, client: &Client) -> Result<(), Error> {
    let namespace = format!("apiVersion: v1\nkind: Namespace\nmetadata: {{name: {NAMESPACE}}}\n");
    let chosen: Vec<&str> = wanted
        .feature
        .iter()
        .flat_map(|feature| ["--feature", feature])
        .collect();
    let crds = operator.print(&[&["crds"], &chosen[..]].concat())?;
    let rbac = [
        "rbac",
        "--namespace",
        NAMESPACE,
        "--service-account",
        ACCOUNT,
    ];
    let rbac = operator.print(&[&rbac, &chosen[..]].concat())?;
    for yaml in [namespace, crds, rbac] {
        manifests::apply(client, Some(NAMESPACE), &yaml)
            .await
            .map_err(deep)?;
    }
    Ok(())
}

async fn ready(pontoon: &Child, probes: &Port) -> Result<(), Error> {
    let url = format!("http://{}/readyz", probes.address());
    let answers = async {
        while pontoon.exit_status().is_none() {
            if reqwest::get(&url)
                .await
                .is_ok_and(|answer| answer.status().is_success())
            {
                return Ok(());
            }
            sleep(Duration::from_millis(50)).await;
        }
        Err(ended(pontoon, "ended before it was ready"))
    };
    let late = || {
        ended(
            pontoon,
            &format!("was not ready after {} s", READY.as_secs()),
        )
    };
    timeout(READY, answers)
        .await
        .unwrap_or_else(|_| Err(late()))
}

fn ended(pontoon: &Child, how: &str) -> Error {
    Error::new(format!(
        "Pontoon {how}; its last lines:\n{}",
        pontoon.log_tail(40)
    ))
}

/// An error from the testkit with all its causes, which its plain format omits.
pub(crate) fn deep(error: impl std::fmt::Display) -> Error {
    Error::new(format!("{error:#}"))
}

#[cfg(test)]
mod tests {
    use testkit::port::Port;
    use testkit::tools::Tool;

    use super::{Wanted, arguments, needed_tools};

    #[test]
    fn a_world_builds_no_tool_that_only_tests_use() {
        let tools = needed_tools(&Wanted::default());
        for only_tests in [Tool::Helm, Tool::Kubeconform, Tool::Kubectl, Tool::Kwok] {
            assert!(!tools.contains(&only_tests), "{tools:?}");
        }
        let elsewhere = Wanted {
            kubeconfig: Some("kubeconfig".into()),
            ..Wanted::default()
        };
        assert_eq!(needed_tools(&elsewhere), [Tool::Vault]);
    }

    #[test]
    fn one_feature_runs_alone_and_none_named_means_all() {
        let (probes, metrics) = (Port::free().unwrap(), Port::free().unwrap());
        let one = Wanted {
            feature: Some("vault".into()),
            ..Wanted::default()
        };
        assert!(arguments(&one, &probes, &metrics).contains(&"--features=vault".to_owned()));
        let all = arguments(&Wanted::default(), &probes, &metrics);
        assert!(
            !all.iter().any(|arg| arg.starts_with("--features")),
            "{all:?}"
        );
    }
}
