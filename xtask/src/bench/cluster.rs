//! A control plane with the operator's kinds and account, and the shared functions of all benches.

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::{StreamExt, TryStreamExt, stream};
use http::{Method, Request, header};
use kube::Client;
use serde_json::Value;
use testkit::{ControlPlane, Operator, Options, Result, World, WorldPlan};

use super::machine;
use crate::verdict::Error;

/// Concurrent requests during the preparation.
const SETTING: usize = 32;
/// How long anything may take that is not measured.
pub(super) const PATIENCE: Duration = Duration::from_secs(120);

pub(super) const JSON: &str = "application/json";
pub(super) const APPLY: &str = "application/apply-patch+yaml";
pub(super) const MERGE: &str = "application/merge-patch+json";

pub(super) struct Cluster {
    pub(super) world: World,
    pub(super) plane: Arc<ControlPlane>,
    pub(super) admin: Client,
}

impl Cluster {
    /// A control plane in which the operator is installed but does not run.
    pub(super) async fn start(plan: WorldPlan) -> Result<Self> {
        let options = Options {
            // It empties a namespace between two waves.
            api_server_args: vec!["--delete-collection-workers=8".into()],
            ..Options::default()
        };
        let plane = Arc::new(ControlPlane::start(options).await?);
        let plan = plan.on(Arc::clone(&plane)).env("RUST_BACKTRACE", "0");
        let cluster = Self {
            world: plan.start().await?,
            admin: plane.admin(),
            plane,
        };
        cluster.stop().await?;
        Ok(cluster)
    }

    pub(super) fn operator(&self) -> &Operator {
        self.world.operator()
    }

    /// Starts the operator with these flags and returns when it is ready.
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

    /// Creates these objects concurrently, each at the path of its kind.
    pub(super) async fn create(
        &self,
        objects: impl IntoIterator<Item = (String, Value)>,
    ) -> Result<()> {
        let made =
            stream::iter(objects)
                .map(Ok)
                .try_for_each_concurrent(SETTING, |(path, object)| {
                    let client = self.admin.clone();
                    async move {
                        send(&client, Method::POST, &path, JSON, &object)
                            .await
                            .map(drop)
                    }
                });
        made.await
    }

    /// The object at `path`.
    pub(super) async fn read(&self, path: &str) -> Result<Value> {
        send(&self.admin, Method::GET, path, JSON, &Value::Null).await
    }

    /// Changes the object at `path` by a merge patch, as a user does.
    pub(super) async fn edit(&self, path: &str, change: &Value) -> Result<()> {
        send(&self.admin, Method::PATCH, path, MERGE, change)
            .await
            .map(drop)
    }
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
        .header(header::ACCEPT, JSON)
        .body(body)?;
    let text = client.request_text(request).await?;
    Ok(serde_json::from_str(&text)?)
}

/// Waits until `operator` has cached all objects of its kinds, and leads if `leading`.
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

/// The most memory that `operator` uses within three seconds, in MiB.
pub(super) async fn resident(operator: &Operator) -> Result<f64> {
    let mut most = f64::NAN;
    for _ in 0..30 {
        most = most.max(measured(machine::resident(operator.pid()))?);
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    Ok(most)
}

/// The most memory that `operator` has used since its start, in MiB.
pub(super) fn peak(operator: &Operator) -> Result<f64> {
    measured(machine::peak(operator.pid()))
}

fn measured(memory: Option<f64>) -> Result<f64> {
    let gone = || Error::new("the operator has ended while its memory was measured");
    Ok(memory.ok_or_else(gone)?)
}
