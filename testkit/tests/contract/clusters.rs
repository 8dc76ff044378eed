//! Several clusters: one authority, proxies with its certificates, and worlds of named clusters.

// Waits for real processes in real time.
#![allow(clippy::disallowed_methods)]

use std::{collections::BTreeMap, net::TcpStream, path::Path};

use futures::{StreamExt, TryStreamExt};
use http::{Method, StatusCode};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::{
    Api, Client, ResourceExt,
    api::{ListParams, ObjectMeta, PostParams, WatchEvent, WatchParams},
    config::{KubeConfigOptions, Kubeconfig},
};
use serde_json::json;
use testkit::{
    Cluster, ClusterPlan, ControlPlane, Options, Result, World,
    fault_proxy::{AnyMethod, FaultProxy, Rule},
    is,
    scratch::Scratch,
};

use crate::world::{HELLO, greetings, stand_in};

fn config_map(name: &str) -> ConfigMap {
    let fields = [("new", "1"), ("old", "2")];
    let fields = fields.map(|(key, value)| (key.to_owned(), value.to_owned()));
    ConfigMap {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            ..ObjectMeta::default()
        },
        data: Some(BTreeMap::from(fields)),
        ..ConfigMap::default()
    }
}

async fn client(kubeconfig: &str) -> Result<Client> {
    let parsed = Kubeconfig::from_yaml(kubeconfig)?;
    let options = KubeConfigOptions::default();
    let mut config = kube::Config::from_custom_kubeconfig(parsed, &options).await?;
    config.default_retry = false;
    Ok(Client::try_from(config)?)
}

/// ConfigMaps of the namespace, by an account that may read and create them, through `proxy`.
async fn maps(plane: &ControlPlane, proxy: &FaultProxy, namespace: &str) -> Result<Api<ConfigMap>> {
    let verbs = ["list", "watch", "get", "create"];
    let rules = json!([{ "apiGroups": [""], "resources": ["configmaps"], "verbs": verbs }]);
    plane.grant(namespace, "reader", &rules).await?;
    let config = plane
        .kubeconfig_for(namespace, "reader", Some(proxy))
        .await?;
    let config: serde_json::Value = serde_json::from_str(&config)?;
    assert_eq!(config["clusters"][0]["cluster"]["server"], proxy.url());
    assert_eq!(config["contexts"][0]["context"]["namespace"], namespace);
    Ok(Api::default_namespaced(client(&config.to_string()).await?))
}

fn added(event: WatchEvent<ConfigMap>) -> Option<ConfigMap> {
    match event {
        WatchEvent::Added(map) => Some(map),
        _ => None,
    }
}

/// The identity of a cluster.
async fn identity(client: &Client) -> Result<String> {
    let system = Api::<Namespace>::all(client.clone())
        .get("kube-system")
        .await?;
    system
        .uid()
        .ok_or_else(|| std::io::Error::other("no UID").into())
}

#[tokio::test]
async fn an_https_proxy_passes_lists_and_watches_until_a_fault() -> Result<()> {
    let plane = ControlPlane::shared().await?;
    let proxy = plane.proxy().await?;
    assert!(proxy.url().starts_with("https://127.0.0.1:"));
    let maps = maps(&plane, &proxy, "passes").await?;
    for name in ["a", "b"] {
        maps.create(&PostParams::default(), &config_map(name))
            .await?;
    }

    let first = maps.list(&ListParams::default().limit(1)).await?;
    let token = first.metadata.continue_.clone().unwrap_or_default();
    let second = maps
        .list(&ListParams::default().limit(1).continue_token(&token))
        .await?;
    let names = [first, second].map(|page| page.items[0].name_any());
    assert_eq!(names, ["a", "b"]);

    let mut watch = maps
        .watch(&WatchParams::default().disable_bookmarks(), "0")
        .await?
        .boxed();
    let mut names = Vec::new();
    for _ in 0..2 {
        let event = watch.try_next().await?;
        names.extend(event.and_then(added).map(|map| map.name_any()));
    }
    names.sort();
    assert_eq!(names, ["a", "b"]);
    maps.create(&PostParams::default(), &config_map("c"))
        .await?;
    let event = watch.try_next().await?;
    let name = event.and_then(added).map(|map| map.name_any());
    assert_eq!(name.as_deref(), Some("c"));

    let watches = Rule::on_regex(Method::GET, "watch=true")?;
    let fault = proxy.rule(watches.status(StatusCode::GONE, "").ending_watches());
    assert!(
        !matches!(watch.try_next().await, Ok(Some(_))),
        "the watch goes on"
    );
    assert!(maps.list(&ListParams::default()).await.is_ok());
    assert_eq!(proxy.hits(fault), 0, "only new requests count");
    Ok(())
}

#[tokio::test]
async fn a_field_is_stripped_both_ways_before_a_real_api_server() -> Result<()> {
    let plane = ControlPlane::shared().await?;
    let proxy = plane.proxy().await?;
    let maps = maps(&plane, &proxy, "strips").await?;
    let direct = Api::<ConfigMap>::namespaced(plane.admin(), "strips");
    let strip = Rule::on_regex(AnyMethod::any(), "/configmaps")?.strip("data.new")?;
    proxy.rule(strip);
    let keys = |map: &ConfigMap| {
        map.data
            .clone()
            .unwrap_or_default()
            .into_keys()
            .collect::<Vec<_>>()
    };

    maps.create(&PostParams::default(), &config_map("written"))
        .await?;
    assert_eq!(keys(&direct.get("written").await?), ["old"]);
    direct
        .create(&PostParams::default(), &config_map("live"))
        .await?;
    assert_eq!(keys(&maps.get("live").await?), ["old"]);
    for map in maps.list(&ListParams::default()).await? {
        assert_eq!(keys(&map), ["old"]);
    }
    let mut watch = maps
        .watch(&WatchParams::default().disable_bookmarks(), "0")
        .await?
        .boxed();
    let event = watch.try_next().await?;
    let keys = event.and_then(added).map(|map| keys(&map));
    assert_eq!(keys, Some(vec!["old".to_owned()]));
    Ok(())
}

#[tokio::test]
async fn a_plane_with_anothers_authority_accepts_its_tokens_and_certificates() -> Result<()> {
    let source = ControlPlane::shared().await?;
    let options = Options {
        authority: Some(source.authority().clone()),
        ..Options::default()
    };
    let other = ControlPlane::start(options).await?;
    let rules = json!([{ "apiGroups": [""], "resources": ["namespaces"], "verbs": ["get"] }]);
    for plane in [&*source, &other] {
        if plane.url() == other.url() {
            other
                .copy_service_account(&source, "moves", "mover")
                .await?;
        }
        plane.grant("moves", "mover", &rules).await?;
    }
    let expected = identity(&source.admin()).await?;
    let foreign = identity(&other.admin()).await?;
    assert_ne!(expected, foreign);

    // As if the address of the one led to the other: nothing but its identity shows it.
    let admin = std::fs::read_to_string(source.kubeconfig())?;
    let direct = source.kubeconfig_for("moves", "mover", None).await?;
    for config in [&admin, &direct] {
        let moved = config.replace(&source.url(), &other.url());
        assert_eq!(identity(&client(&moved).await?).await?, foreign);
    }
    let proxy = source.proxy().await?;
    let through = source
        .kubeconfig_for("moves", "mover", Some(&proxy))
        .await?;
    let through = client(&through).await?;
    assert_eq!(identity(&through).await?, expected);
    proxy.rule(Rule::on(AnyMethod::any(), "*").redirect(&other.upstream())?);
    assert_eq!(identity(&through).await?, foreign);

    let again = other.copy_service_account(&source, "moves", "mover").await;
    assert!(again.unwrap_err().to_string().contains("exists here"));
    Ok(())
}

#[tokio::test]
async fn a_world_of_named_clusters_ends_with_all_its_parts() -> Result<()> {
    let scratch = Scratch::new("stand-in")?;
    let plan = World::new()
        .feature("greet")
        .time(1)
        .binary(stand_in(&scratch)?);
    let plan = plan.cluster("a", ClusterPlan::new()).cluster(
        "b",
        ClusterPlan::new()
            .operator(&["greet"], &[])
            .authority_of("a"),
    );
    let world = plan.start().await?;
    assert_eq!(world.name(), "a");
    let planes = world.clusters().iter().map(Cluster::control_plane);
    let authorities: Vec<&str> = planes.map(ControlPlane::ca_pem).collect();
    assert_eq!(authorities[0], authorities[1]);

    for name in ["a", "b"] {
        let cluster = world.named_cluster(name);
        let team = cluster.namespace("payments").await?;
        let before = cluster.mark();
        team.apply(HELLO).await?;
        team.until_dynamic(&greetings(), "hello", is("Ready", "Greeted"))
            .await?;
        assert_eq!(cluster.writes_since(before).await?.len(), 1, "{name}");
        let proxy = cluster.proxy();
        assert_eq!(
            proxy.count(Method::PATCH, "/apis/test.pontoon.io/*"),
            1,
            "{name}"
        );
    }

    let mut addresses = Vec::new();
    let mut folders = Vec::new();
    let mut pids = Vec::new();
    for cluster in world.clusters() {
        let plane = cluster.control_plane();
        addresses.extend([
            plane.url(),
            cluster.proxy().url().into(),
            cluster.faults().url().into(),
        ]);
        folders.push(plane.scratch().path().to_owned());
        pids.push(cluster.operator().pid());
        pids.extend(plane.pids().into_iter().map(|(_, pid)| pid));
    }
    assert_eq!(pids.len(), 6);
    let runs = |pid: &u32| Path::new(&format!("/proc/{pid}")).exists();
    assert!(pids.iter().all(runs));
    // As a pool of worlds does it, which never drops one.
    world.end();
    assert!(!pids.iter().any(runs));
    drop(world);
    for address in addresses {
        let (_, address) = address.split_once("://").expect("it is a URL");
        assert!(
            TcpStream::connect(address).is_err(),
            "{address} still listens"
        );
    }
    assert!(!folders.iter().any(|folder| folder.exists()));
    Ok(())
}

#[tokio::test]
async fn a_plan_with_unclear_clusters_is_refused() -> Result<()> {
    let scratch = Scratch::new("stand-in")?;
    let program = stand_in(&scratch)?;
    let refused = async |plan: testkit::WorldPlan| {
        let started = plan.binary(&program).start().await;
        started
            .err()
            .map(|error| error.to_string())
            .unwrap_or_default()
    };
    let (one, two) = (ClusterPlan::new, || {
        World::new().cluster("a", ClusterPlan::new())
    });
    for (plan, part) in [
        (two().cluster("a", one()), "two clusters are named a"),
        (two().operator_in("b"), "no cluster is named b"),
        (
            two().cluster("b", one().authority_of("c")),
            "no cluster is named c",
        ),
        (two().on_reused_plane(), "control planes of their own"),
        (
            World::new().cluster("a", one().operator(&["x"], &[])),
            "WorldPlan::feature",
        ),
    ] {
        let error = refused(plan).await;
        assert!(error.contains(part), "{error}");
    }
    Ok(())
}
