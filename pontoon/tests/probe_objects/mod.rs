//! Shared functions of several stories.
#![allow(dead_code)] // each story uses its part

use jiff::Timestamp;
use serde_json::Value;
pub(crate) use testkit::stories::event;
use testkit::{Result, World, eventually};

/// The manifest of a Probe.
pub(crate) fn probe(name: &str, spec: &str) -> String {
    let spec = if spec.starts_with('{') {
        spec.to_owned()
    } else {
        format!("{{{spec}}}")
    };
    format!(
        "---\n{{apiVersion: probe.pontoon.io/v1alpha1, kind: Probe, metadata: {{name: {name}}}, spec: {spec}}}\n"
    )
}

/// The manifests of Probes `p0`, `p1`, …
pub(crate) fn probes(count: usize, spec: &str) -> String {
    (0..count).map(|n| probe(&format!("p{n}"), spec)).collect()
}

/// Waits until `count` more passes over Probes have ended.
pub(crate) async fn finished_passes(world: &World, count: u32) -> Result<()> {
    let ended = async || {
        world
            .operator()
            .metric("pontoon_reconcile_total", &[("kind", "Probe")])
            .await
    };
    let before = ended().await?;
    let enough = before + f64::from(count);
    eventually("more passes", async || {
        Ok((ended().await? >= enough).then_some(()))
    })
    .await
}

/// The times of log lines that contain `text`.
pub(crate) fn log_times(world: &World, text: &str) -> Vec<std::time::Duration> {
    let log = world.operator().log();
    let lines = log.lines().filter(|line| line.contains(text));
    let stamps = lines.filter_map(|line| {
        serde_json::from_str::<Value>(line).ok()?["ts"]
            .as_str()?
            .parse::<Timestamp>()
            .ok()
    });
    stamps
        .map(|at| std::time::Duration::try_from(at.as_duration()).unwrap_or_default())
        .collect()
}
