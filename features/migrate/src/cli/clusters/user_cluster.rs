//! A cluster that a person has named on the command line.

use std::time::Duration;

use engine::cli::Failure;
use engine::{Clients, Metrics};
use kernel::Guard;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};

/// Calls at once.
const API_CALLS: usize = 8;
/// In the user agent of every call.
const PURPOSE: &str = "migrate";

/// A cluster, with the rights of a person.
pub(in crate::cli) struct UserCluster {
    /// For reads.
    pub(in crate::cli) reader: Client,
    /// For writes. It refuses them before [`UserCluster::allow_writes`].
    pub(in crate::cli) writer: Client,
    /// The namespace of its context.
    pub(in crate::cli) namespace: String,
    guard: Guard,
}

impl UserCluster {
    /// The cluster of a configuration.
    pub(in crate::cli) fn new(config: Config) -> Result<Self, Failure> {
        let namespace = config.default_namespace.clone();
        let clients = Clients::new(config, API_CALLS, Metrics::default())
            .map_err(|error| format!("the kubeconfig cannot be used: {error}"))?;
        let guard = Guard::closed();
        Ok(Self {
            reader: clients.unguarded(PURPOSE),
            writer: clients.client(PURPOSE, vec![guard.clone()]),
            namespace,
            guard,
        })
    }

    /// The cluster of the current context of a file.
    pub(in crate::cli) async fn from_file(path: &str) -> Result<Self, Failure> {
        let unusable = |error| {
            format!(
                "{path} cannot be used as a kubeconfig: {error}; give a file with a current context"
            )
        };
        let kubeconfig = Kubeconfig::read_from(path).map_err(unusable)?;
        let options = KubeConfigOptions::default();
        let config = Config::from_custom_kubeconfig(kubeconfig, &options).await;
        Self::new(config.map_err(unusable)?)
    }

    /// The cluster of this context of the kubeconfig.
    pub(in crate::cli) async fn from_context(
        kubeconfig: Kubeconfig,
        context: &str,
    ) -> Result<Self, Failure> {
        let options = KubeConfigOptions {
            context: Some(context.to_owned()),
            ..KubeConfigOptions::default()
        };
        let config = Config::from_custom_kubeconfig(kubeconfig, &options).await;
        let config = config.map_err(|error| {
            format!(
                "context {context:?} cannot be used: {error}; kubectl config get-contexts lists all"
            )
        })?;
        Self::new(config)
    }

    /// The cluster of the current context of the kubeconfig.
    pub(in crate::cli) async fn current() -> Result<Self, Failure> {
        let config = Config::infer().await.map_err(|error| {
            format!("no cluster is configured: {error}; set KUBECONFIG and run again")
        })?;
        Self::new(config)
    }

    /// Allows writes. Call it after the user has agreed.
    pub(in crate::cli) fn allow_writes(&self) {
        self.guard.allow_until(Duration::MAX);
    }
}
