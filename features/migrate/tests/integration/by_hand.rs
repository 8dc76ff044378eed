//! A run is left, and a person brings the set back to the source: `By hand` of docs/migrate.md, step by step.

use api::migrate::names::MIGRATED_LABEL;
use api::migrate::{FailReason, Phase};
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim, Pod};
use kube::api::{Api, DeleteParams, ListParams};
use serde_json::json;
use testkit::stories::change_object;
use testkit::{Result, eventually};

use crate::stories::{DESTINATION, NAME, SOURCE, Shop, first_ordinal, run_story};

/// Step 1 of the page: no pod runs at the destination.
async fn scale_down(shop: &Shop) -> Result<()> {
    let none = json!({"spec": {"replicas": 0}});
    change_object::<StatefulSet>(&shop.destination, "web", &none).await?;
    for pod in shop.pods(&shop.destination).await?.keys() {
        shop.destination.gone::<Pod>(pod).await?;
    }
    Ok(())
}

/// Steps 2, 3 and 4: StatefulSet, claims and volumes at the destination are deleted.
async fn empty_destination(shop: &Shop) -> Result<()> {
    let team = &shop.destination;
    team.delete::<StatefulSet>("web").await?;
    let claims = Api::<PersistentVolumeClaim>::namespaced(team.client(), team.name());
    let migrated = ListParams::default().labels(&format!("{MIGRATED_LABEL}=true"));
    claims
        .delete_collection(&DeleteParams::default(), &migrated)
        .await?;
    // Other stories have volumes with this label.
    let volumes = Api::<PersistentVolume>::all(team.client());
    for ordinal in shop.set.ordinals() {
        let volume = shop.set.persistent_volume("data", ordinal);
        volumes.delete(&volume, &DeleteParams::default()).await?;
    }
    Ok(())
}

#[test]
fn a_run_that_was_left_is_brought_back_by_hand() -> Result<()> {
    run_story(async |shop| {
        shop.open_shop().await?;
        let before = shop.stateful_set(&shop.source).await?;
        shop.migrate(&json!({"ordinalLimit": 2})).await?;
        shop.until_paused("OrdinalLimit").await?;
        let leave = ["abort", NAME, "--leave", "--yes", "--timeout=60s"];
        shop.verb(&leave)?.exits(0);
        let status = shop.until_phase(Phase::Failed).await?;
        assert_eq!(status.failure, Some(FailReason::AbortedLeave));

        let views = (
            shop.own_view(SOURCE).await?,
            shop.own_view(DESTINATION).await?,
        );
        shop.use_proxy(SOURCE, &views.0).await?;
        shop.use_proxy(DESTINATION, &views.1).await?;
        let migration = format!("--migration={}/{NAME}", shop.ops.name());
        let left = shop.verb(&["audit", &migration])?;
        left.exits(1).prints("PersistentVolumeClaim");
        let half = shop.stateful_set(&shop.source).await?;
        assert_eq!(half.as_ref().map(first_ordinal), Some(2));

        scale_down(shop).await?;
        empty_destination(shop).await?;
        let release = ["audit", "--release", "--by-hand", &migration, "--yes"];
        let released = "every disk is detached, and the fences are released";
        eventually(released, async || {
            Ok(shop.verb(&release)?.has_exited(0).then_some(()))
        })
        .await?;
        let whole = json!({"spec": {"replicas": 3, "ordinals": {"start": 0}}});
        change_object::<StatefulSet>(&shop.source, "web", &whole).await?;
        let is_whole = |set: &StatefulSet| {
            let status = set.status.as_ref();
            status.is_some_and(|status| status.ready_replicas == Some(3))
        };
        let after = shop.source.until::<StatefulSet>("web", is_whole).await?;
        assert_eq!(Some(after.metadata.uid), before.map(|set| set.metadata.uid));
        assert_eq!(shop.disks(&shop.source).await?, shop.own_disks());
        shop.verb(&["audit", &migration])?.exits(0);
        Ok(())
    })
}
