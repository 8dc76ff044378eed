//! Nodes without machines, simulated by KWOK.

use std::{
    path::Path,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};
use k8s_openapi::api::core::v1::Node;
use kube::{
    Api, Client,
    api::{ListParams, ObjectMeta, PostParams},
};

use crate::{child::Child, control_plane::spec, tools::Tool};

/// How long all nodes together may take to be ready.
const READY: Duration = Duration::from_secs(60);

/// Starts KWOK for all nodes of the cluster that `kubeconfig` names.
pub(crate) fn start_kwok(dir: &Path, kubeconfig: &Path) -> Result<Child> {
    let stages = dir.join("kwok-stages.yaml");
    std::fs::write(&stages, include_str!("kwok_stages.yaml"))?;
    let args = [
        format!("--kubeconfig={}", kubeconfig.display()),
        format!("--config={}", stages.display()),
        "--manage-all-nodes=true".into(),
        "--node-ip=127.0.0.1".into(),
        // Without a renewed Lease the node lifecycle controller considers a node dead.
        "--node-lease-duration-seconds=40".into(),
    ];
    Child::start(&spec(dir, Tool::Kwok, &args)?)
}

/// Creates `count` nodes, `node-0` and so on, and waits until they are ready.
pub(crate) async fn create(client: &Client, count: u32) -> Result<()> {
    let nodes = Api::<Node>::all(client.clone());
    for n in 0..count {
        let node = Node {
            metadata: metadata(&format!("node-{n}")),
            ..Default::default()
        };
        nodes
            .create(&PostParams::default(), &node)
            .await
            .context("cannot create a node")?;
    }
    let started = Instant::now();
    loop {
        let all = nodes
            .list(&ListParams::default())
            .await
            .context("cannot list the nodes")?;
        let ready = all.iter().filter(|node| is_ready(node)).count();
        if ready >= count as usize {
            return Ok(());
        }
        if started.elapsed() > READY {
            bail!("{ready} of {count} nodes are ready after {READY:?}; see kwok.log");
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

fn metadata(name: &str) -> ObjectMeta {
    let labels = [
        ("kubernetes.io/hostname", name),
        ("kubernetes.io/os", "linux"),
        ("type", "kwok"),
    ];
    ObjectMeta {
        name: Some(name.to_owned()),
        labels: Some(
            labels
                .map(|(key, value)| (key.to_owned(), value.to_owned()))
                .into(),
        ),
        annotations: Some([("kwok.x-k8s.io/node".to_owned(), "fake".to_owned())].into()),
        ..Default::default()
    }
}

fn is_ready(node: &Node) -> bool {
    let conditions = node
        .status
        .as_ref()
        .and_then(|status| status.conditions.as_ref());
    conditions.is_some_and(|all| {
        all.iter()
            .any(|one| one.type_ == "Ready" && one.status == "True")
    })
}
