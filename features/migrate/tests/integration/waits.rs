//! A handover takes its time: a pod ends slowly, a disk stays mounted or busy, a pod of the destination is lost.

use api::migrate::{Phase, StallReason, conditions};
use http::Method;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::events::v1::Event;
use serde_json::{Value, json};
use testkit::Result;
use testkit::disks::SetPlan;
use testkit::stories::{condition_message, events};

use crate::stories::{NAME, SOURCE, in_zone, is_ready, replicas, replicas_of, run_story_of};

#[test]
fn a_slow_pod_and_a_slow_unmount_are_awaited() -> Result<()> {
    let zone = "us-east-1e";
    let set = SetPlan {
        grace_seconds: 300,
        ..in_zone(zone, 1)
    };
    run_story_of(set, async |shop| {
        shop.open_shop().await?;
        let disk = shop.set.volume("data", 0);
        shop.annotate_node(SOURCE, zone, "stop-delay-ms", Some("150000"))
            .await?;
        shop.annotate_node(SOURCE, zone, "hold-unmount", Some(&disk))
            .await?;
        shop.migrate(&json!({"volumeDetachTimeout": "1m"})).await?;
        // The disk stays mounted, and nothing grows.
        let status = shop.until_stalled(StallReason::Unmounting).await?;
        let message = condition_message(&status.conditions, conditions::STALLED);
        assert!(message.contains(&disk), "{message}");
        let set = shop.stateful_set(&shop.destination).await?;
        assert_eq!(replicas_of(set.as_ref()), 0);
        // The pod was given more than the two minutes of the original, and that was no stall.
        let times = &status.ordinals[0].times;
        let times = times.released.as_ref().zip(times.gone.as_ref());
        let (released, gone) = times.expect("the pod is released and gone");
        assert!(gone.0.duration_since(released.0).as_secs() > 120);
        let is_stall =
            |one: &Event| one.reason.as_deref() == Some(StallReason::PodTerminating.as_str());
        assert!(!events(&shop.ops, NAME).await?.iter().any(is_stall));
        shop.annotate_node(SOURCE, zone, "hold-unmount", None)
            .await?;
        shop.until_phase(Phase::Completed).await?;
        assert_eq!(shop.disks(&shop.destination).await?, shop.own_disks());
        Ok(())
    })
}

#[test]
fn a_busy_disk_is_awaited_while_a_lost_pod_heals() -> Result<()> {
    run_story_of(replicas(2), async |shop| {
        shop.open_shop().await?;
        let disk = shop.set.volume("data", 1);
        let path = format!("ec2/volumes/{disk}");
        let aws = shop.site.world.aws();
        aws.control(Method::POST, &format!("{path}/stick"), Value::Null)?;
        let attached = shop.disk(&disk)?["attachments"][0].clone();
        shop.migrate(&json!({"volumeDetachTimeout": "20s"})).await?;
        let status = shop.until_stalled(StallReason::DetachBusy).await?;
        let message = condition_message(&status.conditions, conditions::STALLED);
        for part in ["instance", "device"] {
            let part = attached[part].as_str().unwrap_or("-");
            assert!(message.contains(part), "{part}: {message}");
        }
        assert_eq!(status.current_index, 1);

        let before = shop.pods(&shop.destination).await?;
        shop.destination.delete::<Pod>("web-0").await?;
        let is_new = |pod: &Pod| pod.metadata.uid.as_ref() != before.get("web-0");
        let heals = |pod: &Pod| is_new(pod) && is_ready(pod);
        shop.destination.until::<Pod>("web-0", heals).await?;
        let still = shop.until_stalled(StallReason::DetachBusy).await?;
        assert_eq!(still.current_index, 1);
        let set = shop.stateful_set(&shop.destination).await?;
        assert_eq!(replicas_of(set.as_ref()), 1);

        aws.control(Method::POST, &format!("{path}/release"), Value::Null)?;
        shop.until_phase(Phase::Completed).await?;
        assert_eq!(
            shop.ready_pods(&shop.destination).await?,
            ["web-0", "web-1"]
        );
        assert_eq!(shop.disks(&shop.destination).await?, shop.own_disks());
        Ok(())
    })
}
