//! A control plane with the operator's kinds and account in it, and what the bench does there.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::{StreamExt, TryStreamExt, stream};
use http::{Method, Request, header};
use kube::Client;
use kube::config::{KubeConfigOptions, Kubeconfig};
use serde_json::{Value, json};
use testkit::{ControlPlane, Entry, Mark, Operator, Options, Result, World, eventually_within};

use super::super::machine;
use crate::verdict::Error;

/// The namespace of the Probes.
pub(super) const PROBES: &str = "probes";
/// The namespace of what the bare loop applies.
pub(super) const BARE: &str = "bare";
/// Requests at once when the stage is set; nothing is measured then.
const SETTING: usize = 32;
/// How long anything here may take.
pub(super) const PATIENCE: Duration = Duration::from_secs(120);

pub(super) const APPLY: &str = "application/apply-patch+yaml";
pub(super) const MERGE: &str = "application/merge-patch+json";

pub(super) struct Cluster {
    pub(super) world: World,
    pub(super) plane: Arc<ControlPlane>,
    pub(super) admin: Client,
}

impl Cluster {
    /// A control plane in which the operator is installed and does not run.
    pub(super) async fn start(operator: &Path) -> Result<Self> {
        let options = Options {
            // Empties a namespace between two waves.
            api_server_args: vec!["--delete-collection-workers=8".into()],
            ..Options::default()
        };
        let plane = Arc::new(ControlPlane::start(options).await?);
        let world = World::new()
            .feature("probe")
            .binary(operator)
            .on(Arc::clone(&plane));
        let world = world.env("RUST_BACKTRACE", "0").start().await?;
        let cluster = Self {
            admin: plane.admin(),
            world,
            plane,
        };
        cluster.stop().await?;
        for name in [PROBES, BARE] {
            cluster.plane.ensure_namespace(name).await?;
        }
        Ok(cluster)
    }

    pub(super) fn operator(&self) -> &Operator {
        self.world.operator()
    }

    /// Starts the operator with these flags and returns when it answers.
    pub(super) async fn run(&self, flags: &[&str]) -> Result<()> {
        let flags = flags.iter().map(|flag| (*flag).to_owned()).collect();
        self.operator()
            .restart(|options| options.args = flags)
            .await
    }

    pub(super) async fn stop(&self) -> Result<()> {
        let ended = self.operator().terminate(Duration::from_secs(30)).await?;
        if !ended.success() {
            return Err(
                Error::new(format!("the operator, told to stop, ended with {ended}")).into(),
            );
        }
        Ok(())
    }

    /// A client that is the operator to the API server, of which it knows nothing yet.
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

    /// Makes Probes `from..to` that only apply their child, each with a text of this length.
    pub(super) async fn create_probes(&self, from: usize, to: usize, length: usize) -> Result<()> {
        let path = probes_path();
        let made = stream::iter(from..to)
            .map(Ok)
            .try_for_each_concurrent(SETTING, |number| {
                let probe = probe(&probe_name(number), "Quiet", &"x".repeat(length));
                let (client, path) = (self.admin.clone(), path.clone());
                async move {
                    send(&client, Method::POST, &path, "application/json", &probe)
                        .await
                        .map(drop)
                }
            });
        made.await
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
    pub(super) async fn edit(&self, name: &str, text: &str) -> Result<()> {
        let path = format!("{}/{name}", probes_path());
        send(
            &self.admin,
            Method::PATCH,
            &path,
            MERGE,
            &json!({"spec": {"text": text}}),
        )
        .await
        .map(drop)
    }

    /// How many children there are.
    pub(super) async fn children(&self) -> Result<usize> {
        let path = format!("{}?limit=1", config_maps_path(PROBES));
        let list = send(
            &self.admin,
            Method::GET,
            &path,
            "application/json",
            &Value::Null,
        )
        .await?;
        let more = list["metadata"]["remainingItemCount"].as_u64().unwrap_or(0);
        let first = list["items"].as_array().map_or(0, Vec::len);
        Ok(first + usize::try_from(more)?)
    }

    /// Waits until that many children exist.
    pub(super) async fn until_children(&self, number: usize) -> Result<()> {
        let look = async || Ok((self.children().await? >= number).then_some(()));
        eventually_within(PATIENCE, &format!("{number} children exist"), look).await
    }

    /// Removes all ConfigMaps of a namespace.
    pub(super) async fn empty(&self, namespace: &str) -> Result<()> {
        send(
            &self.admin,
            Method::DELETE,
            &config_maps_path(namespace),
            "application/json",
            &json!({}),
        )
        .await
        .map(drop)
    }

    /// What the operator's account asked about ConfigMaps since `mark`, in the order of the answers.
    pub(super) async fn asked(&self, mark: Mark, namespace: &str) -> Result<Vec<Entry>> {
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

    /// Writes the operator's Lease: held by the bench for long, or by nobody.
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
        send(
            &self.admin,
            Method::GET,
            &self.lease_path(),
            "application/json",
            &Value::Null,
        )
        .await
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

/// One request; `Null` is no body.
pub(super) async fn send(
    client: &Client,
    method: Method,
    path: &str,
    media: &str,
    body: &Value,
) -> Result<Value> {
    let body = if body.is_null() {
        Vec::new()
    } else {
        body.to_string().into_bytes()
    };
    let request = Request::builder().method(method).uri(path);
    let request = request
        .header(header::CONTENT_TYPE, media)
        .header(header::ACCEPT, "application/json")
        .body(body)?;
    let text = client.request_text(request).await?;
    Ok(serde_json::from_str(&text)?)
}

/// Waits until `operator` holds all objects of its kinds, and leads if `leading`.
pub(super) async fn until_ready(operator: &Operator, leading: bool) -> Result<()> {
    let began = Instant::now();
    loop {
        let (_, text) = operator.probe("/readyz?verbose").await?;
        let leads = !leading || text.contains("[+]lease leading");
        if leads && text.contains("[+]feature") && !text.lines().any(|line| line.starts_with("[-]"))
        {
            return Ok(());
        }
        if began.elapsed() > PATIENCE {
            return Err(Error::new(format!("the operator is not ready:\n{text}")).into());
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Passes over Probes that have ended since the operator's start.
pub(super) async fn passes(operator: &Operator) -> Result<f64> {
    operator
        .metric("pontoon_reconcile_total", &[("kind", "Probe")])
        .await
}

/// Waits until no pass has ended for a second, and none is under way.
pub(super) async fn until_quiet(operator: &Operator) -> Result<()> {
    let mut before = None;
    let look = async || {
        let now = (
            passes(operator).await?,
            operator.metric("pontoon_passes_in_flight", &[]).await?,
        );
        let quiet = now.1 == 0.0 && before == Some(now);
        before = Some(now);
        tokio::time::sleep(Duration::from_secs(1)).await;
        Ok(quiet.then_some(()))
    };
    eventually_within(PATIENCE, "the operator has nothing to do", look).await
}

/// The most memory `operator` holds within three seconds, in MiB.
pub(super) async fn resident(operator: &Operator) -> Result<f64> {
    let mut most = f64::NAN;
    for _ in 0..30 {
        let now = machine::resident(operator.pid());
        let now =
            now.ok_or_else(|| Error::new("the operator has ended while its memory was measured"))?;
        most = most.max(now);
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    Ok(most)
}
