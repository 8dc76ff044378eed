//! The engine with its test kind, against a real API server, as its own ServiceAccount.

use crate::outside::{Outside, is_ready, probe_world, start_world};
use crate::probe_objects::{finished_passes, probe, probes};
use api::probe::{Lookout, Probe};
use futures::{StreamExt, TryStreamExt};
use k8s_openapi::api::core::v1::{ConfigMap, Event, Secret};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kernel::{Clock, RealClock};
use kube::api::{Api, ListParams, Patch, PatchParams};
use kube::{Resource, ResourceExt};
use serde_json::json;
use std::time::Duration;
use testkit::{Result, World, eventually, holds, is};

#[tokio::test]
async fn a_probe_becomes_ready_and_then_nothing_is_written() -> Result<()> {
    let (world, team) = start_world(probe_world().time(60).arg("--probe-resync=60")).await?;

    team.apply(&probe("hello", "text: good morning")).await?;
    team.until::<Probe>("hello", is("Ready", "Succeeded"))
        .await?;
    let child = team
        .until::<ConfigMap>("hello", |map: &ConfigMap| map.data.is_some())
        .await?;
    assert_eq!(child.data.unwrap()["text"], "good morning");
    crate::probe_objects::event(&team, "hello", "Succeeded").await?;

    // Three resyncs (time runs 60 times as fast): only reads.
    let mark = world.mark();
    finished_passes(&world, 3).await?;
    assert_eq!(world.writes_since(mark).await?, vec![]);
    Ok(())
}

#[tokio::test]
async fn an_edited_or_deleted_child_is_restored() -> Result<()> {
    let (_world, team) = start_world(probe_world()).await?;
    team.apply(&probe("hello", "text: good morning")).await?;
    team.until::<Probe>("hello", is("Ready", "Succeeded"))
        .await?;

    let maps = Api::<ConfigMap>::namespaced(team.client(), team.name());
    let edit = json!({"data": {"text": "vandalised", "theirs": "kept"}});
    maps.patch("hello", &PatchParams::default(), &Patch::Merge(edit))
        .await?;
    let mended = |map: &ConfigMap| {
        map.data
            .as_ref()
            .is_some_and(|data| data["text"] == "good morning")
    };
    let child = team.until::<ConfigMap>("hello", mended).await?;
    assert_eq!(
        child.data.as_ref().unwrap()["theirs"],
        "kept",
        "a foreign field survives"
    );

    let before = child.uid();
    team.delete::<ConfigMap>("hello").await?;
    team.until::<ConfigMap>("hello", |map: &ConfigMap| map.uid() != before)
        .await?;
    Ok(())
}

#[tokio::test]
async fn a_malformed_object_gets_an_event_and_others_continue() -> Result<()> {
    let (_world, team) = start_world(World::new().feature("probe")).await?;
    // A permissive schema, as in an older version.
    let lax = json!({"spec": {"versions": [{"name": "v1alpha1", "served": true, "storage": true,
        "subresources": {"status": {}},
        "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}]}});
    let crds = Api::<CustomResourceDefinition>::all(team.client());
    crds.patch(
        "probes.probe.pontoon.io",
        &PatchParams::default(),
        &Patch::Merge(lax),
    )
    .await?;

    let bad = probe("bad", "text: {not: a text}");
    eventually("the permissive schema is active", async || {
        Ok(team.apply(&bad).await.ok())
    })
    .await?;
    team.apply(&probes(99, "text: fine")).await?;
    for n in 0..99 {
        team.until::<Probe>(&format!("p{n}"), is("Ready", "Succeeded"))
            .await?;
    }
    let event = crate::probe_objects::event(&team, "bad", "Malformed").await?;
    assert!(event.note.unwrap().contains("correct the object"));
    Ok(())
}

#[tokio::test]
async fn a_panic_is_counted_backs_off_and_does_not_affect_others() -> Result<()> {
    let (world, team) = start_world(probe_world().time(4)).await?;
    team.apply(&probe("wild", "{text: x, behaviour: Panic}"))
        .await?;
    team.apply(&probes(20, "text: fine")).await?;
    for n in 0..20 {
        team.until::<Probe>(&format!("p{n}"), is("Ready", "Succeeded"))
            .await?;
    }
    let panics = async || {
        world
            .operator()
            .metric("pontoon_panics_total", &[("kind", "Probe")])
            .await
    };
    eventually("five panics", async || {
        Ok((panics().await? >= 5.0).then_some(()))
    })
    .await?;

    // 1, 2, 4, 8 seconds by the operator's clock, at most a tenth less.
    let times = eventually("five panics in the log", async || {
        let times = crate::probe_objects::log_times(&world, "pass panicked");
        Ok((times.len() >= 5).then_some(times))
    })
    .await?;
    let gaps: Vec<f64> = times
        .windows(2)
        .map(|pair| pair[1].saturating_sub(pair[0]).as_secs_f64())
        .collect();
    for (gap, due) in gaps.iter().zip([1.0, 2.0, 4.0, 8.0]) {
        // The log has real time; the operator's clock runs four times as fast.
        assert!(4.0 * gap >= 0.9 * due, "tried too early: {gaps:?}");
    }
    assert!(world.operator().log().contains("\"name\":\"wild\""));
    Ok(())
}

#[tokio::test]
async fn a_thousand_edits_of_one_object_make_a_handful_of_passes() -> Result<()> {
    let (world, team) = start_world(probe_world()).await?;
    team.apply(&probe("busy", "text: start")).await?;
    team.until::<Probe>("busy", is("Ready", "Succeeded"))
        .await?;

    let passes = async || {
        world
            .operator()
            .metric("pontoon_reconcile_total", &[("kind", "Probe")])
            .await
    };
    let (before, began) = (passes().await?, RealClock::new());
    let api = Api::<Probe>::namespaced(team.client(), team.name());
    let edit = async |n: u32| {
        let edit = json!({"spec": {"text": format!("edit {n}")}});
        api.patch("busy", &PatchParams::default(), &Patch::Merge(edit))
            .await
    };
    futures::stream::iter((0..999).map(&edit))
        .buffer_unordered(8)
        .try_collect::<Vec<_>>()
        .await?;
    edit(1000).await?;
    let took = began.elapsed().as_secs_f64();

    let last = |map: &ConfigMap| {
        map.data
            .as_ref()
            .is_some_and(|data| data["text"] == "edit 1000")
    };
    team.until::<ConfigMap>("busy", last).await?;
    let passes = passes().await? - before;
    assert!(
        passes <= 10.0 * took + 10.0,
        "{passes} passes in {took:.1} s"
    );
    Ok(())
}

#[tokio::test]
async fn a_secret_in_an_external_error_is_redacted_everywhere() -> Result<()> {
    let outside = Outside::start().await?;
    let (world, team) = start_world(outside.world().arg("--log-level=debug")).await?;
    let denied = json!({"error": {"status": 403, "code": "AccessDenied", "message": "hunter2-hunter2 is not welcome"}});
    outside.spoil("Put", denied, Some(2))?;
    team.apply("{apiVersion: v1, kind: Secret, metadata: {name: key}, stringData: {token: hunter2-hunter2}}").await?;
    team.apply(&probe(
        "sealed",
        "{text: x, outside: {secret: {name: key, key: token}}}",
    ))
    .await?;

    let failed = team.until::<Probe>("sealed", is("Ready", "Failed")).await?;
    let status = serde_json::to_string(&failed.status)?;
    assert!(status.contains("*** is not welcome"), "{status}");
    let event = crate::probe_objects::event(&team, "sealed", "Failed").await?;
    assert!(event.note.unwrap().contains("*** is not welcome"));
    team.until::<Probe>("sealed", is("Ready", "Succeeded"))
        .await?;
    assert!(
        !world.operator().log().contains("hunter2"),
        "the log has the secret"
    );
    Ok(())
}

#[tokio::test]
async fn a_missing_secret_is_waited_for_and_named() -> Result<()> {
    let outside = Outside::start().await?;
    let (_world, team) = start_world(outside.world().time(60)).await?;
    team.apply(&probe(
        "sealed",
        "{text: x, outside: {secret: {name: key, key: token}}}",
    ))
    .await?;
    let waiting = team
        .until::<Probe>("sealed", is("Ready", "SecretNotReadable"))
        .await?;
    let message = waiting.status.unwrap().conditions[0].message.clone();
    assert!(
        message.contains(&format!("{}/key", team.name())) && message.contains("token"),
        "{message}"
    );
    team.apply("{apiVersion: v1, kind: Secret, metadata: {name: key}, stringData: {token: open}}")
        .await?;
    team.until::<Probe>("sealed", is("Ready", "Succeeded"))
        .await?;
    team.until::<Secret>("key", |_: &Secret| true).await?;
    Ok(())
}

#[tokio::test]
async fn a_paused_object_has_a_condition_and_no_effects() -> Result<()> {
    let outside = Outside::start().await?;
    let (_world, team) = start_world(outside.world()).await?;
    team.apply(&probe("still", "{text: one, outside: {value: one}}"))
        .await?;
    team.until::<Probe>("still", is("Ready", "Succeeded"))
        .await?;

    let api = Api::<Probe>::namespaced(team.client(), team.name());
    let edit = json!({"metadata": {"annotations": {"pontoon.io/paused": "true"}}, "spec": {"text": "two"}});
    api.patch("still", &PatchParams::default(), &Patch::Merge(edit))
        .await?;
    team.until::<Probe>("still", holds("Paused")).await?;

    // Deletion is an effect too: it waits, with its finalizer.
    team.delete::<Probe>("still").await?;
    team.until::<Probe>("still", |probe: &Probe| {
        let status = probe.status.clone().unwrap_or_default();
        let paused = kernel::find(&status.conditions, "Paused");
        let seen = paused.and_then(|paused| paused.observed_generation);
        probe.meta().deletion_timestamp.is_some() && seen == probe.meta().generation
    })
    .await?;
    assert_eq!(outside.things()?.len(), 1);

    let go = json!({"metadata": {"annotations": {"pontoon.io/paused": null}}});
    api.patch("still", &PatchParams::default(), &Patch::Merge(go))
        .await?;
    team.gone::<Probe>("still").await?;
    assert_eq!(outside.things()?.len(), 0);
    Ok(())
}

#[tokio::test]
async fn reconcile_now_skips_back_off_and_is_removed_on_success() -> Result<()> {
    let outside = Outside::start().await?;
    let (world, team) = start_world(outside.world()).await?;
    let broken = json!({"error": {"status": 500, "code": "Internal", "message": "no"}});
    outside.spoil("Put", broken, None)?;
    team.apply(&probe("stuck", "{text: x, outside: {value: v}}"))
        .await?;
    team.until::<Probe>("stuck", is("Ready", "Failed")).await?;
    let failures = async || {
        world
            .operator()
            .metric("pontoon_reconcile_total", &[("outcome", "transient")])
            .await
    };
    eventually("five failures: the next try is 16 s away", async || {
        Ok((failures().await? >= 5.0).then_some(()))
    })
    .await?;

    outside.heal()?;
    let now = json!({"metadata": {"annotations": {"probe.pontoon.io/refresh": "please"}}});
    let api = Api::<Probe>::namespaced(team.client(), team.name());
    api.patch("stuck", &PatchParams::default(), &Patch::Merge(now))
        .await?;
    let done = |probe: &Probe| is_ready(probe) && probe.annotations().is_empty();
    team.within(Duration::from_secs(12))
        .until::<Probe>("stuck", done)
        .await?;
    Ok(())
}

const SIGHTING: &str = "
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: sightings.probe.pontoon.io}
spec:
  group: probe.pontoon.io
  names: {kind: Sighting, plural: sightings, singular: sighting, listKind: SightingList}
  scope: Namespaced
  versions:
    - name: v1
      served: true
      storage: true
      schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
";

#[tokio::test]
async fn a_controller_for_a_dynamic_kind_starts_and_ends() -> Result<()> {
    let (world, team) = start_world(World::new().feature("probe")).await?;
    let cluster = world.cluster();
    // The Lookout exists before its kind does.
    cluster
        .apply(
            "{apiVersion: probe.pontoon.io/v1alpha1, kind: Lookout, metadata: {name: crow},
        spec: {group: probe.pontoon.io, version: v1, kind: Sighting, plural: sightings}}",
        )
        .await?;
    cluster
        .until::<Lookout>("crow", is("Ready", "Succeeded"))
        .await?;
    cluster.apply(SIGHTING).await?;
    let whale = "{apiVersion: probe.pontoon.io/v1, kind: Sighting, metadata: {name: whale}, spec: {size: large}}";
    eventually("the kind is served", async || {
        Ok(team.apply(whale).await.ok())
    })
    .await?;
    team.until::<ConfigMap>("seen-whale", |map: &ConfigMap| map.data.is_some())
        .await?;

    // The controller ends with the Lookout: later objects are not processed.
    cluster.delete::<Lookout>("crow").await?;
    cluster.gone::<Lookout>("crow").await?;
    let ended = async || {
        let (_, ready) = world.operator().probe("/readyz?verbose").await?;
        Ok((!ready.contains("feature probe Sighting")).then_some(()))
    };
    eventually("the controller is gone", ended).await?;
    team.apply(&whale.replace("whale", "ghost")).await?;
    team.apply(&probe("later", "text: x")).await?;
    team.until::<Probe>("later", is("Ready", "Succeeded"))
        .await?;
    let maps = Api::<ConfigMap>::namespaced(team.client(), team.name())
        .list(&ListParams::default())
        .await?;
    assert!(!maps.iter().any(|map| map.name_any() == "seen-ghost"));
    Ok(())
}

#[tokio::test]
async fn log_status_and_event_have_the_same_reconcile_id() -> Result<()> {
    let (world, team) = start_world(probe_world().arg("--log-level=debug")).await?;
    team.apply(&probe("hello", "text: x")).await?;
    let ready = team
        .until::<Probe>("hello", is("Ready", "Succeeded"))
        .await?;
    let id = ready.status.unwrap().last_reconcile_id.unwrap();
    let event = crate::probe_objects::event(&team, "hello", "Succeeded").await?;
    let in_event = Event::meta(&Event {
        metadata: event.metadata,
        ..Event::default()
    })
    .annotations
    .clone();
    assert_eq!(in_event.unwrap()["pontoon.io/reconcile-id"], id);
    let with_id = format!("\"reconcileID\":\"{id}\"");
    let line = world.operator().logs(&with_id).await?;
    assert!(line.contains("\"name\":\"hello\""), "{line}");
    Ok(())
}

#[tokio::test]
async fn a_sweep_wakes_objects_whose_external_thing_is_gone() -> Result<()> {
    let outside = Outside::start().await?;
    let (_world, team) = start_world(outside.world().arg("--probe-sweep=1")).await?;
    team.apply(&probe("kept", "{text: x, outside: {value: v}}"))
        .await?;
    team.until::<Probe>("kept", is("Ready", "Succeeded"))
        .await?;

    assert_eq!(outside.things()?.len(), 1);
    outside.delete_things()?;
    // The resync is five minutes away.
    eventually("it is back", async || {
        Ok((outside.things()?.len() == 1).then_some(()))
    })
    .await
}
