//! Kills the operator at a chosen request and starts it again.

use std::path::PathBuf;

use anyhow::Result;
use k8s_openapi::api::coordination::v1::Lease;
use kube::api::{Api, DeleteParams, ListParams};

use crate::{
    cluster::Cluster,
    fault_proxy::{FaultProxy, Listen, Rule, Upstream},
    operator::OperatorOptions,
    world::unique,
};

/// When the operator dies, relative to one of its requests to the API server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum When {
    /// The request has no effect.
    Before,
    /// The request has its effect, and the operator does not receive the answer.
    After,
}

impl When {
    /// The first request that `rule` matches kills the operator of `cluster`.
    #[must_use]
    pub fn kill(self, cluster: &'static Cluster, rule: Rule) -> Rule {
        let rule = rule.times(1);
        let kill = move || cluster.operator().kill();
        match self {
            // The API server refuses an empty body.
            Self::Before => rule.rewrite_request(move |body| {
                kill();
                body.slice(..0)
            }),
            Self::After => rule.rewrite_body(move |answer| {
                kill();
                answer
            }),
        }
    }
}

/// A proxy in front of the server at `url`. It runs until the process ends: another proxy at its port
/// would count the calls of clients that still use it.
pub async fn lasting_proxy(url: String, ca_pem: Option<String>) -> Result<&'static FaultProxy> {
    let proxy = FaultProxy::start(Upstream { url, ca_pem }, Listen::Http).await?;
    Ok(Box::leak(Box::new(proxy)))
}

impl Cluster {
    /// A proxy in front of the API server that runs until the process ends, as [`lasting_proxy`].
    pub async fn front(&self) -> Result<&'static FaultProxy> {
        let plane = self.control_plane();
        lasting_proxy(plane.url(), Some(plane.ca_pem().to_owned())).await
    }

    /// A kubeconfig with which the operator reaches the API server through `proxy`.
    pub fn kubeconfig_behind(&self, proxy: &FaultProxy) -> Result<PathBuf> {
        let plane = self.control_plane();
        let direct = std::fs::read_to_string(&self.operator_options().kubeconfig)?;
        let text = direct.replace(&plane.url(), proxy.url());
        let name = format!("{}.kubeconfig", unique("behind"));
        plane.scratch().write(&name, text)
    }

    /// Deletes the Leases in the operator's namespace, so that the next operator need not wait until
    /// the Leases of a dead one expire.
    pub async fn delete_leases(&self) -> Result<()> {
        let (client, namespace) = (self.control_plane().admin(), self.operator_namespace());
        let leases = Api::<Lease>::namespaced(client, namespace);
        let (how, all) = (DeleteParams::default(), ListParams::default());
        leases.delete_collection(&how, &all).await?;
        Ok(())
    }

    /// Kills the operator if it runs, and starts it again with `change`d options. It leads at once.
    pub async fn restart_operator(&self, change: impl FnOnce(&mut OperatorOptions)) -> Result<()> {
        self.operator().kill();
        self.delete_leases().await?;
        self.operator().restart(change).await
    }
}
