//! Sources whose pods run on without their StatefulSet: `OrphanAdopt`, by choice or on an older API server.

use api::migrate::{CheckId, Phase, StatefulSetMigrationStatus, Strategy};
use k8s_openapi::api::apps::v1::ControllerRevision;
use kube::api::{Api, ListParams};
use serde_json::{Value, json};
use testkit::Result;

use crate::stories::{NAME, Shop, ids, replicas, run_story, run_story_of};

/// The ordinals at the destination, in the order in which they have moved.
fn order(status: &StatefulSetMigrationStatus) -> Vec<i32> {
    status.migrated_pods.iter().map(|pod| pod.index).collect()
}

/// Lets one more ordinal move, up to this number of them.
async fn move_up_to(shop: &Shop, limit: u32) -> Result<StatefulSetMigrationStatus> {
    shop.edit(&json!({"ordinalLimit": limit})).await?;
    shop.until_paused("OrdinalLimit").await
}

#[test]
fn survivors_run_on_and_a_rollback_adopts_them() -> Result<()> {
    run_story(async |shop| {
        shop.open_shop().await?;
        let before = shop.definition(&shop.source).await?;
        let mut survivors = shop.pods(&shop.source).await?;
        shop.migrate(&json!({"strategy": "OrphanAdopt", "ordinalLimit": 0}))
            .await?;
        shop.until_paused("OrdinalLimit").await?;
        for (limit, moved) in [(1, "web-0"), (2, "web-1")] {
            assert_eq!(shop.pods(&shop.source).await?, survivors);
            move_up_to(shop, limit).await?;
            survivors.remove(moved);
        }
        assert_eq!(shop.stateful_set(&shop.source).await?, None);
        assert_eq!(shop.pods(&shop.source).await?, survivors);
        assert_eq!(
            shop.ready_pods(&shop.destination).await?,
            ["web-0", "web-1"]
        );

        shop.edit(&json!({"abort": "Rollback"})).await?;
        shop.until_phase(Phase::RolledBack).await?;
        let pods = shop.pods(&shop.source).await?;
        assert_eq!(pods.get("web-2"), survivors.get("web-2"));
        assert_eq!(
            shop.ready_pods(&shop.source).await?,
            ["web-0", "web-1", "web-2"]
        );
        assert_eq!(shop.definition(&shop.source).await?, before);
        assert_eq!(shop.disks(&shop.source).await?, shop.own_disks());
        Ok(())
    })
}

#[test]
fn a_source_without_ordinals_is_orphaned_unless_window_is_set() -> Result<()> {
    run_story_of(replicas(2), async |shop| {
        let _older = shop.use_older_source().await?;
        shop.open_shop().await?;
        shop.migrate(&json!({"strategy": "Window"})).await?;
        let findings = shop.until_blocked(NAME).await?;
        assert_eq!(ids(&findings), [CheckId::Ordinals], "{findings:?}");
        shop.edit(&json!({"strategy": null})).await?;
        let status = shop.until_phase(Phase::Completed).await?;
        assert_eq!(status.strategy, Some(Strategy::OrphanAdopt));
        assert_eq!(order(&status), [0, 1]);
        assert_eq!(shop.disks(&shop.destination).await?, shop.own_disks());
        assert_eq!(shop.definition(&shop.source).await?, Vec::<Value>::new());
        let revisions =
            Api::<ControllerRevision>::namespaced(shop.source.client(), shop.source.name());
        let revisions = revisions.list(&ListParams::default()).await?;
        assert_eq!(revisions.items, []);
        Ok(())
    })
}

#[test]
fn a_source_without_ordinals_gets_its_set_back_whole() -> Result<()> {
    run_story(async |shop| {
        let _older = shop.use_older_source().await?;
        shop.open_shop().await?;
        let before = shop.definition(&shop.source).await?;
        let pods = shop.pods(&shop.source).await?;
        shop.migrate(&json!({"ordinalLimit": 2})).await?;
        let status = shop.until_paused("OrdinalLimit").await?;
        assert!(status.without_ordinals);
        let warned = status
            .plan
            .iter()
            .any(|line| line.contains("down together"));
        assert!(warned, "{:?}", status.plan);
        shop.edit(&json!({"abort": "Rollback"})).await?;
        shop.until_phase(Phase::RolledBack).await?;
        assert_eq!(shop.definition(&shop.source).await?, before);
        assert_eq!(shop.disks(&shop.source).await?, shop.own_disks());
        let after = shop.pods(&shop.source).await?;
        assert_eq!(after.get("web-2"), pods.get("web-2"));
        assert_eq!(
            shop.ready_pods(&shop.source).await?,
            ["web-0", "web-1", "web-2"]
        );
        Ok(())
    })
}
