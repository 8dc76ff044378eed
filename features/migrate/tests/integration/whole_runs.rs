//! Whole runs: a StatefulSet goes to the destination with its disks, and back.

use api::migrate::Phase;
use k8s_openapi::api::apps::v1::StatefulSet;
use serde_json::json;
use testkit::Result;

use crate::stories::{NAME, run_story};

#[test]
fn a_set_moves_with_its_disks() -> Result<()> {
    run_story(async |shop| {
        shop.open_shop().await?;
        shop.migrate(&json!({})).await?;
        let status = shop.until_phase(Phase::Completed).await?;
        assert_eq!(shop.disks(&shop.destination).await?, shop.own_disks());
        assert_eq!(
            shop.ready_pods(&shop.destination).await?,
            ["web-0", "web-1", "web-2"]
        );
        assert_eq!(shop.disks(&shop.source).await?, []);
        assert_eq!(shop.stateful_set(&shop.source).await?, None::<StatefulSet>);
        let order: Vec<i32> = status.migrated_pods.iter().map(|pod| pod.index).collect();
        assert_eq!((order, status.current_index), (vec![0, 1, 2], 3));
        Ok(())
    })
}

#[test]
fn a_rollback_gives_the_source_back() -> Result<()> {
    run_story(async |shop| {
        shop.open_shop().await?;
        let before = shop.stateful_set(&shop.source).await?;
        shop.migrate(&json!({"ordinalLimit": 2})).await?;
        let reached = |migration: &api::migrate::StatefulSetMigration| {
            let status = migration.status.as_ref();
            status.is_some_and(|status| status.current_index == 2)
        };
        shop.ops
            .until::<api::migrate::StatefulSetMigration>(NAME, reached)
            .await?;
        shop.edit(&json!({"abort": "Rollback"})).await?;
        shop.until_phase(Phase::RolledBack).await?;
        let after = shop.stateful_set(&shop.source).await?;
        let spec = |set: Option<StatefulSet>| set.and_then(|set| set.spec);
        assert_eq!(spec(after), spec(before));
        assert_eq!(shop.disks(&shop.source).await?, shop.own_disks());
        assert_eq!(shop.disks(&shop.destination).await?, []);
        assert_eq!(
            shop.ready_pods(&shop.source).await?,
            ["web-0", "web-1", "web-2"]
        );
        Ok(())
    })
}

#[test]
fn a_dry_run_writes_nothing_outside() -> Result<()> {
    run_story(async |shop| {
        shop.open_shop().await?;
        shop.migrate(&json!({"dryRun": true})).await?;
        let status = shop.until_phase(Phase::Planned).await?;
        assert!(!status.started);
        assert_eq!(shop.stateful_set(&shop.destination).await?, None);
        assert_eq!(shop.disks(&shop.destination).await?, Vec::new());
        shop.edit(&json!({"dryRun": false})).await?;
        shop.until_phase(Phase::Completed).await?;
        Ok(())
    })
}
