//! A real control plane.
// Waits for real processes in real time.
#![allow(clippy::disallowed_methods)]

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::{
    Api, Client, ResourceExt,
    api::{ListParams, ObjectMeta, Patch, PatchParams, PostParams},
    config::{KubeConfigOptions, Kubeconfig},
};
use serde_json::json;
use testkit::{
    ControlPlane, Options, Result,
    tools::{self, Tool},
};

fn config_map(name: &str) -> ConfigMap {
    let metadata = ObjectMeta {
        name: Some(name.into()),
        ..Default::default()
    };
    ConfigMap {
        metadata,
        data: Some(BTreeMap::new()),
        ..Default::default()
    }
}

async fn fresh_namespace(plane: &ControlPlane, name: &str) -> Result<Api<ConfigMap>> {
    plane.ensure_namespace(name).await?;
    Ok(Api::namespaced(plane.admin(), name))
}

#[tokio::test]
async fn every_write_is_in_the_audit_log_once() -> Result<()> {
    let plane = ControlPlane::shared().await?;
    let maps = fresh_namespace(&plane, "audit").await?;
    for n in 0..20 {
        maps.create(&PostParams::default(), &config_map(&format!("before-{n}")))
            .await?;
    }

    let mark = plane.mark();
    for n in 0..20 {
        maps.create(&PostParams::default(), &config_map(&format!("after-{n}")))
            .await?;
    }
    let patch = Patch::Merge(json!({ "data": { "a": "b" } }));
    maps.patch("after-0", &PatchParams::default(), &patch)
        .await?;
    maps.get("after-0").await?;

    let ours = |entry: &testkit::Entry| entry.namespace == "audit";
    let writes = plane.writes_since(mark, ours).await?;
    assert_eq!(writes.len(), 21, "{writes:#?}");
    let last = &writes[20];
    assert_eq!(
        (&*last.verb, &*last.resource, &*last.name),
        ("patch", "configmaps", "after-0")
    );
    assert_eq!((&*last.user, last.code), ("admin", 200));
    let reads = plane
        .entries_since(mark)
        .await?
        .into_iter()
        .filter(|entry| !entry.is_write());
    assert_eq!(
        reads
            .filter(ours)
            .map(|entry| entry.verb)
            .collect::<Vec<_>>(),
        ["get"]
    );
    Ok(())
}

#[tokio::test]
async fn a_service_account_may_do_only_what_rbac_grants() -> Result<()> {
    let plane = ControlPlane::shared().await?;
    let path = plane.as_service_account("nobody", "nobody").await?;
    let config = Kubeconfig::read_from(path)?;
    let config =
        kube::Config::from_custom_kubeconfig(config, &KubeConfigOptions::default()).await?;
    let maps = Api::<ConfigMap>::namespaced(Client::try_from(config)?, "nobody");

    let refusal = maps
        .list(&ListParams::default())
        .await
        .unwrap_err()
        .to_string();
    assert!(
        refusal.contains("system:serviceaccount:nobody:nobody"),
        "{refusal}"
    );
    assert!(refusal.contains("cannot list"), "{refusal}");
    Ok(())
}

#[tokio::test]
async fn it_prints_the_pinned_version_unless_assets_are_given() -> Result<()> {
    let tool = Tool::KubeApiserver;
    let version = ControlPlane::shared()
        .await?
        .admin()
        .apiserver_version()
        .await?;
    if tools::find(tool)? == tool.cached() {
        assert_eq!(version.git_version, format!("v{}", tool.version()));
    }
    Ok(())
}

#[tokio::test]
async fn objects_survive_a_restart_and_a_kill_of_the_api_server() -> Result<()> {
    let plane = ControlPlane::start(Options::default()).await?;
    let maps = fresh_namespace(&plane, "restart").await?;
    maps.create(&PostParams::default(), &config_map("kept"))
        .await?;

    plane.restart().await?;
    assert_eq!(maps.get("kept").await?.name_any(), "kept");

    plane.kill();
    assert!(maps.get("kept").await.is_err());
    plane.start_api_server().await?;
    assert_eq!(maps.get("kept").await?.name_any(), "kept");
    Ok(())
}

#[tokio::test]
async fn a_frozen_api_server_answers_nothing_until_it_is_thawed() -> Result<()> {
    let plane = ControlPlane::start(Options::default()).await?;
    let maps = fresh_namespace(&plane, "frozen").await?;
    maps.create(&PostParams::default(), &config_map("kept"))
        .await?;

    plane.freeze()?;
    let waited = tokio::time::timeout(Duration::from_millis(500), maps.get("kept")).await;
    assert!(waited.is_err(), "answered while frozen");
    plane.thaw()?;
    assert_eq!(maps.get("kept").await?.name_any(), "kept");
    Ok(())
}

#[tokio::test]
async fn a_dropped_control_plane_frees_its_port_and_folder() -> Result<()> {
    let plane = ControlPlane::start(Options::default()).await?;
    let address = plane.url().trim_start_matches("https://").to_owned();
    let folder = plane.scratch().path().to_owned();
    drop(plane);
    assert!(std::net::TcpListener::bind(address).is_ok());
    assert!(!folder.exists());
    Ok(())
}

#[tokio::test]
async fn a_deployment_runs_on_simulated_nodes() -> Result<()> {
    let options = Options {
        controller_manager: true,
        scheduler: true,
        kwok_nodes: 2,
        ..Default::default()
    };
    let plane = ControlPlane::start(options).await?;
    testkit::manifests::apply(&plane.admin(), Some("default"), DEPLOYMENT).await?;

    let pods = Api::<Pod>::namespaced(plane.admin(), "default");
    let started = Instant::now();
    loop {
        let all = pods.list(&ListParams::default()).await?;
        let phase = |pod: &Pod| pod.status.as_ref().and_then(|status| status.phase.clone());
        let running = all
            .iter()
            .filter(|pod| phase(pod).as_deref() == Some("Running"))
            .count();
        if running == 3 {
            return Ok(());
        }
        assert!(
            started.elapsed() < Duration::from_secs(30),
            "{running} of 3 pods run: {all:#?}"
        );
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

const DEPLOYMENT: &str = r"
apiVersion: apps/v1
kind: Deployment
metadata:
  name: web
spec:
  replicas: 3
  selector:
    matchLabels: { app: web }
  template:
    metadata:
      labels: { app: web }
    spec:
      containers:
        - name: web
          image: web:1
";
