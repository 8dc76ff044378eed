//! The engine with its test kind, against a real API server.

use api::probe::Probe;
use k8s_openapi::api::core::v1::ConfigMap;
use testkit::{Result, World, eventually, is};

const HELLO: &str = "
apiVersion: probe.pontoon.io/v1alpha1
kind: Probe
metadata: {name: hello}
spec: {text: good morning}
";

/// Waits until `count` more passes over Probes have ended.
async fn passes(world: &World, count: f64) -> Result<()> {
    let ended = async || world.operator().metric("pontoon_reconcile_total", &[("kind", "Probe")]).await;
    let before = ended().await?;
    eventually("more passes", async || Ok((ended().await? >= before + count).then_some(()))).await
}

#[tokio::test]
async fn a_probe_becomes_ready_and_then_nothing_is_written() -> Result<()> {
    let world = World::new().feature("probe").time(60).arg("--probe-resync=60").start().await?;
    let team = world.namespace("harbour").await?;

    team.apply(HELLO).await?;
    team.until::<Probe>("hello", is("Ready", "Succeeded")).await?;
    let text = team.until::<ConfigMap>("hello", |map: &ConfigMap| map.data.is_some()).await?;
    assert_eq!(text.data.unwrap()["text"], "good morning");

    // Three resyncs (time runs 60-fold): reads only.
    let mark = world.mark();
    passes(&world, 3.0).await?;
    assert_eq!(world.writes_since(mark).await?, vec![]);
    Ok(())
}
