//! Faults that the watch hub survives: a stopped server, an expired version, a missing kind.

use std::time::Duration;

use crate::outside::{Outside, probe_world, start_world};
use crate::probe_objects::{probe, probes};
use api::probe::{Lookout, Probe};
use http::{Method, StatusCode};
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::ResourceExt;
use kube::api::{Api, DeleteParams, Patch, PatchParams};
use serde_json::json;
use testkit::fault_proxy::{FaultProxy, Rule};
use testkit::{Result, World, eventually, is};

#[tokio::test]
async fn a_minute_without_the_api_server_causes_no_extra_writes() -> Result<()> {
    let (world, team) = start_world(World::new().feature("probe").time(20)).await?;
    team.apply(&probes(30, "text: before")).await?;
    for n in 0..30 {
        team.until::<Probe>(&format!("p{n}"), is("Ready", "Succeeded"))
            .await?;
    }

    world.control_plane().stop_api_server().await?;
    let away = async || {
        let (status, text) = world.operator().probe("/readyz?verbose").await?;
        assert_eq!(status, 200, "a probe must not fail for it");
        Ok((text.contains("Probe interrupted") && text.contains("standby")).then_some(()))
    };
    // The lease cannot be renewed, so work stops after its deadline.
    eventually("readyz says so", away).await?;
    tokio::time::sleep(Duration::from_secs(60)).await; // the minute of this story
    assert!(
        world.operator().exit_status().is_none(),
        "the operator ended"
    );

    let mark = world.mark();
    world.control_plane().start_api_server().await?;
    team.apply(&probe("p0", "text: after")).await?;
    let edited = |map: &ConfigMap| {
        map.data
            .as_ref()
            .is_some_and(|data| data["text"] == "after")
    };
    team.until::<ConfigMap>("p0", edited).await?;
    // A resync of all (300 s, 20 times as fast): one edit, and no writes for the others.
    crate::probe_objects::finished_passes(&world, 31).await?;
    let others = world.writes_since(mark).await?;
    let others: Vec<_> = others
        .iter()
        .filter(|entry| entry.resource != "events" && entry.name != "p0")
        .collect();
    assert!(others.is_empty(), "{others:?}");
    Ok(())
}

/// Restarts the operator with a connection through `proxy`.
async fn through(proxy: &FaultProxy, world: &World) -> Result<()> {
    world.operator().terminate(Duration::from_secs(25)).await?;
    let behind = world.kubeconfig_behind(proxy)?;
    world
        .operator()
        .restart(|options| options.kubeconfig = behind)
        .await
}

#[tokio::test]
async fn a_deletion_during_a_gap_that_ends_in_410_is_noticed() -> Result<()> {
    let (world, team) = start_world(probe_world()).await?;
    let proxy = world.front().await?;
    through(proxy, &world).await?;
    team.apply(&probes(3, "text: kept")).await?;
    for n in 0..3 {
        team.until::<Probe>(&format!("p{n}"), is("Ready", "Succeeded"))
            .await?;
    }
    let child = team.until::<ConfigMap>("p1", |_: &ConfigMap| true).await?;

    // The watch of ConfigMaps breaks, and one of them is deleted before the watch is back.
    let gap = proxy.rule(Rule::on(Method::GET, "/api/v1/configmaps?*watch=true*").reset());
    proxy.cut_all();
    eventually("the watch tries", async || {
        Ok((proxy.count(Method::GET, "/api/v1/configmaps?*resourceVersion=*") > 0).then_some(()))
    })
    .await?;
    team.delete::<ConfigMap>("p1").await?;
    let gone = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "Expired", "code": 410}).to_string();
    let expired = proxy.rule(
        Rule::on(Method::GET, "/api/v1/configmaps?*&resourceVersion=*")
            .status(StatusCode::GONE, gone)
            .times(1),
    );
    proxy.remove(gap);

    // Without the deletion event the next pass over p1 would be the resync in five minutes.
    team.until::<ConfigMap>("p1", |map: &ConfigMap| map.uid() != child.uid())
        .await?;
    assert!(!proxy.remove(expired), "the 410 was never sent");
    Ok(())
}

#[tokio::test]
async fn without_streaming_lists_objects_are_listed_by_page() -> Result<()> {
    let (world, team) = start_world(probe_world()).await?;
    let proxy = world.front().await?;
    let no = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "Invalid", "code": 422,
        "message": "sendInitialEvents: Forbidden: sendInitialEvents is forbidden for watch unless the WatchList feature gate is enabled"});
    proxy.rule(
        Rule::on(Method::GET, "*?*sendInitialEvents=true*")
            .status(StatusCode::UNPROCESSABLE_ENTITY, no.to_string()),
    );
    through(proxy, &world).await?;
    team.apply(&probes(3, "text: listed")).await?;
    for n in 0..3 {
        team.until::<Probe>(&format!("p{n}"), is("Ready", "Succeeded"))
            .await?;
    }
    assert!(
        proxy.count(
            Method::GET,
            "/apis/probe.pontoon.io/v1alpha1/probes?limit=*"
        ) > 0
    );
    Ok(())
}

#[tokio::test]
async fn a_feature_without_its_crd_waits_until_it_is_applied() -> Result<()> {
    let (world, team) = start_world(World::new().feature("probe")).await?;
    let cluster = world.cluster();
    let crds = Api::<CustomResourceDefinition>::all(cluster.client());
    let name = "probes.probe.pontoon.io";
    let mut crd = crds.get(name).await?;
    crds.delete(name, &DeleteParams::default()).await?;
    cluster.gone::<CustomResourceDefinition>(name).await?;
    world.operator().terminate(Duration::from_secs(25)).await?;
    world.operator().restart(|_| {}).await?;

    // Other kinds work; readiness names the CRD that is missing.
    cluster
        .apply(
            "{apiVersion: probe.pontoon.io/v1alpha1, kind: Lookout, metadata: {name: crow},
        spec: {group: probe.pontoon.io, version: v1, kind: Sighting, plural: sightings}}",
        )
        .await?;
    cluster
        .until::<Lookout>("crow", is("Ready", "Succeeded"))
        .await?;
    // Six tries: the next one is in 30 s.
    let of_probes = [("kind", "Probe.probe.pontoon.io/v1alpha1")];
    eventually("the watch of Probes tries rarely", async || {
        let operator = world.operator();
        let tries = operator.metric("pontoon_watch_restarts_total", &of_probes);
        Ok((tries.await? >= 6.0).then_some(()))
    })
    .await?;
    let (status, text) = world.operator().probe("/readyz?verbose").await?;
    assert!(
        status == 200 && text.contains(&format!("apply the CRD {name}")),
        "{text}"
    );

    crd.metadata = kube::core::ObjectMeta {
        name: Some(name.to_owned()),
        ..Default::default()
    };
    crd.metadata.managed_fields = None;
    crds.patch(
        name,
        &PatchParams::apply("test").force(),
        &Patch::Apply(&crd),
    )
    .await?;
    let hello = probe("hello", "text: awake");
    eventually("the kind is served", async || {
        Ok(team.apply(&hello).await.ok())
    })
    .await?;
    // Earlier than the next try of the watch.
    team.within(Duration::from_secs(25))
        .until::<Probe>("hello", is("Ready", "Succeeded"))
        .await?;
    Ok(())
}

#[tokio::test]
async fn the_operator_waits_for_a_frozen_api_server() -> Result<()> {
    let (world, team) = start_world(World::new().feature("probe")).await?;
    team.apply(&probe("hello", "text: one")).await?;
    team.until::<Probe>("hello", is("Ready", "Succeeded"))
        .await?;
    world.control_plane().freeze()?;
    let lost = async || {
        let (_, text) = world.operator().probe("/readyz?verbose").await?;
        Ok(text.contains("standby").then_some(()))
    };
    let left = eventually("the lease is given up", lost).await;
    world.control_plane().thaw()?;
    left?;
    team.apply(&probe("hello", "text: two")).await?;
    let edited = |map: &ConfigMap| map.data.as_ref().is_some_and(|data| data["text"] == "two");
    team.until::<ConfigMap>("hello", edited).await?;
    Ok(())
}

#[tokio::test]
async fn writes_with_a_lost_answer_are_not_repeated() -> Result<()> {
    let outside = Outside::start().await?;
    let (world, team) = start_world(outside.world()).await?;
    let proxy = world.front().await?;
    through(proxy, &world).await?;

    // Finalizer, name, ConfigMap and status: each is written, but the answer is lost.
    for path in ["*/probes/lost", "*/configmaps/lost", "*/probes/lost/status"] {
        proxy.rule(Rule::on(Method::PATCH, path).cut_after().times(1));
    }
    team.apply(&probe("lost", "{text: x, outside: {value: v}}"))
        .await?;
    team.until::<Probe>("lost", is("Ready", "Succeeded"))
        .await?;
    assert_eq!(outside.things()?.len(), 1);
    let puts = outside.calls("Put")?;
    assert_eq!(puts.len(), 1, "{puts:#?}");
    Ok(())
}
