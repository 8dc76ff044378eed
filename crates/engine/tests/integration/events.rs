//! Events with a real API server.

use std::sync::Arc;

use engine::{Clients, Events, Metrics, Note};
use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::api::events::v1::Event;
use kernel::RealClock;
use kube::api::{Api, ListParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use testkit::{ControlPlane, Result, eventually};

#[tokio::test]
async fn equal_events_are_counted_and_a_flood_is_limited() -> Result<()> {
    let plane = ControlPlane::shared().await?;
    plane.ensure_namespace("events").await?;
    let config = Kubeconfig::read_from(plane.kubeconfig())?;
    let config =
        kube::Config::from_custom_kubeconfig(config, &KubeConfigOptions::default()).await?;
    let metrics = Metrics::default();
    let clients = Clients::new(config, 8, metrics.clone())?;
    let (events, sender) = Events::new(
        clients.unguarded("events"),
        Arc::new(RealClock::new()),
        metrics,
        "me".into(),
    );
    let tasks = engine::Tasks::default();
    tasks.spawn(sender.run());

    let regarding = |name: &str| ObjectReference {
        api_version: Some("v1".into()),
        kind: Some("ConfigMap".into()),
        namespace: Some("events".into()),
        name: Some(name.into()),
        uid: Some(format!("uid-of-{name}")),
        ..ObjectReference::default()
    };
    for _ in 0..5 {
        events.record(
            regarding("one"),
            Note::warning("Broken", "the same each time"),
        );
    }
    for n in 0..100 {
        events.record(
            regarding("loud"),
            Note::normal("Chatter", format!("number {n}")),
        );
    }
    let long = format!("{}.{}", "n".repeat(199), "m".repeat(50));
    events.record(
        regarding(&long),
        Note::normal("Long", "the longest possible name"),
    );
    events.record(regarding("last"), Note::normal("Last", "after all that"));

    let api = Api::<Event>::namespaced(plane.admin(), "events");
    let all = eventually("the last event", async || {
        let all = api.list(&ListParams::default()).await?.items;
        Ok(all
            .iter()
            .any(|event| event.reason.as_deref() == Some("Last"))
            .then_some(all))
    })
    .await?;
    let of = |reason: &str| {
        all.iter()
            .filter(|event| event.reason.as_deref() == Some(reason))
            .collect::<Vec<_>>()
    };
    assert_eq!(of("Broken").len(), 1);
    assert_eq!(
        of("Broken")[0].series.as_ref().map(|series| series.count),
        Some(5)
    );
    assert_eq!(of("Chatter").len(), 20, "the burst limit");
    for event in &all {
        assert_eq!(event.action, event.reason, "the action is the reason");
    }
    assert_eq!(of("Long").len(), 1);
    tasks.finish().await;
    Ok(())
}
