//! Probes and their children, and the operations of the bench on them.

use std::path::Path;
use std::time::Duration;

use http::Method;
use kube::Client;
use kube::config::{KubeConfigOptions, Kubeconfig};
use serde_json::{Value, json};
use testkit::{Entry, Mark, Operator, Result, World, eventually_within};

use super::super::cluster::{APPLY, Cluster, JSON, PATIENCE, send};

/// The namespace of the Probes.
pub(super) const PROBES: &str = "probes";
/// The namespace of the objects that the bare loop applies.
pub(super) const BARE: &str = "bare";

/// A cluster for Probes, in which the operator does not run.
pub(super) async fn cluster(operator: &Path) -> Result<Cluster> {
    let plan = World::new().feature("probe").binary(operator);
    let cluster = Cluster::start(plan).await?;
    for name in [PROBES, BARE] {
        cluster.plane.ensure_namespace(name).await?;
    }
    Ok(cluster)
}

impl Cluster {
    /// A new client with the operator's account.
    pub(super) async fn as_operator(&self) -> Result<Client> {
        let path = self
            .plane
            .as_service_account(self.world.operator_namespace(), "pontoon")
            .await?;
        let options = KubeConfigOptions::default();
        let mut config =
            kube::Config::from_custom_kubeconfig(Kubeconfig::read_from(path)?, &options).await?;
        config.default_retry = false;
        Ok(Client::try_from(config)?)
    }

    /// Creates Probes `from..to` that only apply their child, each with a text of this length.
    pub(super) async fn create_probes(&self, from: usize, to: usize, length: usize) -> Result<()> {
        let text = "x".repeat(length);
        let probe = |number| (probes_path(), probe(&probe_name(number), "Quiet", &text));
        self.create((from..to).map(probe)).await
    }

    /// Applies the Probe of this name.
    pub(super) async fn apply_probe(&self, name: &str, behaviour: &str, text: &str) -> Result<()> {
        let path = format!("{}/{name}?fieldManager=bench&force=true", probes_path());
        send(
            &self.admin,
            Method::PATCH,
            &path,
            APPLY,
            &probe(name, behaviour, text),
        )
        .await
        .map(drop)
    }

    /// Edits the text of a Probe, as a user does.
    pub(super) async fn edit_probe(&self, name: &str, text: &str) -> Result<()> {
        let path = format!("{}/{name}", probes_path());
        self.edit(&path, &json!({"spec": {"text": text}})).await
    }

    /// How many children there are.
    pub(super) async fn children(&self) -> Result<usize> {
        let path = format!("{}?limit=1", config_maps_path(PROBES));
        let list = self.read(&path).await?;
        let more = list["metadata"]["remainingItemCount"].as_u64().unwrap_or(0);
        let first = list["items"].as_array().map_or(0, Vec::len);
        Ok(first + usize::try_from(more)?)
    }

    /// Waits until that many children exist.
    pub(super) async fn until_children(&self, number: usize) -> Result<()> {
        let attempt = async || Ok((self.children().await? >= number).then_some(()));
        eventually_within(PATIENCE, &format!("{number} children exist"), attempt).await
    }

    /// Removes all ConfigMaps of a namespace.
    pub(super) async fn empty(&self, namespace: &str) -> Result<()> {
        send(
            &self.admin,
            Method::DELETE,
            &config_maps_path(namespace),
            JSON,
            &json!({}),
        )
        .await
        .map(drop)
    }

    /// The requests of the operator's account about ConfigMaps since `mark`, in the order of the answers.
    pub(super) async fn config_map_requests(
        &self,
        mark: Mark,
        namespace: &str,
    ) -> Result<Vec<Entry>> {
        let user = format!(
            "system:serviceaccount:{}:pontoon",
            self.world.operator_namespace()
        );
        let mut entries = self.plane.entries_since(mark).await?;
        entries.retain(|entry| {
            entry.user == user
                && entry.resource == "configmaps"
                && entry.namespace == namespace
                && !entry.name.is_empty()
        });
        Ok(entries)
    }

    /// Writes the operator's Lease: with the bench as its holder for a long time, or without a holder.
    pub(super) async fn give_lease(&self, holder: &str) -> Result<()> {
        let lease = json!({
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "spec": {"holderIdentity": holder, "leaseDurationSeconds": 600},
        });
        let path = format!("{}?fieldManager=bench&force=true", self.lease_path());
        send(&self.admin, Method::PATCH, &path, APPLY, &lease)
            .await
            .map(drop)
    }

    /// The operator's Lease.
    pub(super) async fn lease(&self) -> Result<Value> {
        self.read(&self.lease_path()).await
    }

    fn lease_path(&self) -> String {
        let namespace = self.world.operator_namespace();
        format!("/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases/pontoon")
    }
}

pub(super) fn probe_name(number: usize) -> String {
    format!("probe-{number:05}")
}

fn probes_path() -> String {
    format!("/apis/probe.pontoon.io/v1alpha1/namespaces/{PROBES}/probes")
}

pub(super) fn config_maps_path(namespace: &str) -> String {
    format!("/api/v1/namespaces/{namespace}/configmaps")
}

fn probe(name: &str, behaviour: &str, text: &str) -> Value {
    json!({
        "apiVersion": "probe.pontoon.io/v1alpha1",
        "kind": "Probe",
        "metadata": {"name": name},
        "spec": {"text": text, "behaviour": behaviour},
    })
}

/// Passes over Probes that have ended since the operator's start.
pub(super) async fn passes(operator: &Operator) -> Result<f64> {
    operator
        .metric("pontoon_reconcile_total", &[("kind", "Probe")])
        .await
}

/// Waits until no pass has ended for a second, and none is running.
pub(super) async fn until_quiet(operator: &Operator) -> Result<()> {
    let mut before = None;
    let attempt = async || {
        let now = (
            passes(operator).await?,
            operator.metric("pontoon_passes_in_flight", &[]).await?,
        );
        let quiet = now.1 == 0.0 && before == Some(now);
        before = Some(now);
        tokio::time::sleep(Duration::from_secs(1)).await;
        Ok(quiet.then_some(()))
    };
    eventually_within(PATIENCE, "the operator has nothing to do", attempt).await
}
