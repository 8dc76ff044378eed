//! How runs end: the soak, the clean-up, and how long the way back is open.

use api::migrate::{Phase, events};
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use kube::ResourceExt;
use kube::api::Api;
use serde_json::json;
use testkit::Result;
use testkit::stories::event;

use crate::stories::{NAME, replicas, run_story_of};

#[test]
fn a_rollback_in_the_soak_gives_the_source_back() -> Result<()> {
    run_story_of(replicas(1), async |shop| {
        shop.open_shop().await?;
        shop.migrate(&json!({"sourceCleanup": {"soak": "1h"}}))
            .await?;
        shop.until_phase(Phase::Finalizing).await?;
        assert_eq!(shop.ready_pods(&shop.destination).await?, ["web-0"]);
        shop.edit(&json!({"abort": "Rollback"})).await?;
        shop.until_phase(Phase::RolledBack).await?;
        assert_eq!(shop.disks(&shop.source).await?, shop.own_disks());
        assert_eq!(shop.ready_pods(&shop.source).await?, ["web-0"]);
        assert_eq!(shop.stateful_set(&shop.destination).await?, None);
        Ok(())
    })
}

#[test]
fn a_rollback_after_the_clean_up_is_refused() -> Result<()> {
    run_story_of(replicas(1), async |shop| {
        shop.open_shop().await?;
        shop.migrate(&json!({})).await?;
        shop.until_phase(Phase::Completed).await?;
        let refusal = shop
            .refusal(&json!({"sourceCleanup": {"policy": "Keep"}}))
            .await;
        assert!(refusal.contains("spec.sourceCleanup"), "{refusal}");
        shop.edit(&json!({"abort": "Rollback"})).await?;
        event(&shop.ops, NAME, events::ROLLBACK_REFUSED).await?;
        shop.until_phase(Phase::Completed).await?;
        assert_eq!(shop.disks(&shop.destination).await?, shop.own_disks());
        assert_eq!(shop.ready_pods(&shop.destination).await?, ["web-0"]);
        Ok(())
    })
}

#[test]
fn a_source_without_clean_up_takes_its_set_back() -> Result<()> {
    run_story_of(replicas(1), async |shop| {
        shop.open_shop().await?;
        let before = shop.stateful_set(&shop.source).await?;
        shop.migrate(&json!({"sourceCleanup": {"policy": "Keep"}}))
            .await?;
        shop.until_phase(Phase::Completed).await?;
        let claims =
            Api::<PersistentVolumeClaim>::namespaced(shop.source.client(), shop.source.name());
        let fence = claims.get("data-web-0").await?;
        let fenced = fence.spec.and_then(|spec| spec.volume_name);
        let fenced = fenced.unwrap_or_default();
        assert!(fenced.starts_with("fenced-"), "{fenced}");
        let volumes = Api::<PersistentVolume>::all(shop.source.client());
        let volume = volumes.get(&shop.set.persistent_volume("data", 0)).await?;
        let moved_to = volume.annotations().get(api::migrate::names::MOVED_TO);
        let target = format!("/{}/data-web-0", shop.destination.name());
        assert!(
            moved_to.is_some_and(|to| to.ends_with(&target)),
            "{moved_to:?}"
        );

        shop.edit(&json!({"abort": "Rollback"})).await?;
        shop.until_phase(Phase::RolledBack).await?;
        let spec = |set: Option<StatefulSet>| set.and_then(|set| set.spec);
        let after = shop.stateful_set(&shop.source).await?;
        assert_eq!(spec(after), spec(before));
        assert_eq!(shop.disks(&shop.source).await?, shop.own_disks());
        assert_eq!(shop.ready_pods(&shop.source).await?, ["web-0"]);
        Ok(())
    })
}
