//! Runs that fail: they wait for a person, or go back by themselves.

use api::migrate::{FailReason, Location, Phase};
use serde_json::{Value, json};
use testkit::Result;

use crate::stories::{ATTACH, DESTINATION, Shop, in_zone, run_story_of};

/// What pods have written to the set's first disk.
fn log(shop: &Shop) -> Result<Vec<Value>> {
    let disk = shop.disk(&shop.set.volume("data", 0))?;
    let entries = disk["log"].as_array().cloned().unwrap_or_default();
    Ok(entries.iter().map(|entry| entry["event"].clone()).collect())
}

#[test]
fn a_failed_run_goes_on_after_its_repair() -> Result<()> {
    let zone = "us-east-1c";
    run_story_of(in_zone(zone, 1), async |shop| {
        shop.open_shop().await?;
        shop.annotate_node(DESTINATION, zone, "never-ready", Some("web-0"))
            .await?;
        let unattached = shop.fail_ec2(ATTACH, 0, "deny")?;
        shop.migrate(&json!({"attachTimeout": "20s", "podReadyTimeout": "20s"}))
            .await?;
        let status = shop.until_failed(FailReason::AttachTimeout).await?;
        assert_eq!(status.phase, Some(Phase::Failed));
        assert_eq!(status.ordinals[0].location, Location::Moving);
        drop(unattached);
        shop.edit(&json!({"retry": 1, "attachTimeout": null}))
            .await?;
        let status = shop.until_failed(FailReason::PodReadyTimeout).await?;
        assert_eq!(status.phase, Some(Phase::Failed));
        shop.annotate_node(DESTINATION, zone, "never-ready", None)
            .await?;
        shop.edit(&json!({"retry": 2})).await?;
        let status = shop.until_phase(Phase::Completed).await?;
        assert_eq!(status.last_error, None);
        assert_eq!(shop.disks(&shop.destination).await?, shop.own_disks());
        assert_eq!(log(shop)?, ["start", "stop", "start"]);
        Ok(())
    })
}

#[test]
fn a_pod_that_does_not_start_goes_back_if_asked() -> Result<()> {
    let zone = "us-east-1d";
    run_story_of(in_zone(zone, 1), async |shop| {
        shop.open_shop().await?;
        shop.annotate_node(DESTINATION, zone, "never-ready", Some("web-0"))
            .await?;
        shop.migrate(&json!({"podReadyTimeout": "20s", "onFailure": "Rollback"}))
            .await?;
        shop.until_phase(Phase::RolledBack).await?;
        assert_eq!(shop.disks(&shop.source).await?, shop.own_disks());
        assert_eq!(shop.ready_pods(&shop.source).await?, ["web-0"]);
        assert_eq!(shop.stateful_set(&shop.destination).await?, None);
        assert_eq!(log(shop)?, ["start", "stop", "start", "stop", "start"]);
        Ok(())
    })
}
