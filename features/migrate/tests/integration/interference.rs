//! Somebody else changes what a run works on: nothing is written against them, and the run goes on afterwards.

use api::migrate::{CheckId, HoldReason, Phase};
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod};
use kube::ResourceExt;
use kube::api::Api;
use serde_json::json;
use testkit::Result;
use testkit::stories::change_object;

use crate::stories::{NAME, first_ordinal, has_condition, message, replicas, run_story_of};

#[test]
fn a_widened_source_gets_no_disk_and_pauses_the_run() -> Result<()> {
    run_story_of(replicas(2), async |shop| {
        shop.open_shop().await?;
        shop.migrate(&json!({"ordinalLimit": 1})).await?;
        shop.until_paused("OrdinalLimit").await?;
        let wide = json!({"spec": {"ordinals": {"start": 0}, "replicas": 2}});
        change_object::<StatefulSet>(&shop.source, "web", &wide).await?;
        shop.until_paused(HoldReason::SourceWidened.as_str())
            .await?;
        let is_unscheduled = |pod: &Pod| has_condition(pod, "PodScheduled", "False");
        shop.source.until::<Pod>("web-0", is_unscheduled).await?;
        let claims =
            Api::<PersistentVolumeClaim>::namespaced(shop.source.client(), shop.source.name());
        let tombstone = claims.get("data-web-0").await?;
        let provisioner = "volume.kubernetes.io/storage-provisioner";
        assert_eq!(tombstone.annotations().get(provisioner), None);
        let volume = tombstone.spec.and_then(|spec| spec.volume_name);
        let volume = volume.unwrap_or_default();
        assert!(volume.starts_with("fenced-"), "{volume}");
        // Nothing was written against it.
        let set = shop.stateful_set(&shop.source).await?;
        assert_eq!(set.as_ref().map(first_ordinal), Some(0));

        let narrow = json!({"spec": {"ordinals": {"start": 1}, "replicas": 1}});
        change_object::<StatefulSet>(&shop.source, "web", &narrow).await?;
        shop.source.gone::<Pod>("web-0").await?;
        shop.edit(&json!({"retry": 1, "ordinalLimit": 2})).await?;
        shop.until_phase(Phase::Completed).await?;
        assert_eq!(shop.disks(&shop.destination).await?, shop.own_disks());
        Ok(())
    })
}

#[test]
fn an_edited_destination_pauses_the_run_until_it_is_undone() -> Result<()> {
    run_story_of(replicas(1), async |shop| {
        shop.open_shop().await?;
        shop.migrate(&json!({"ordinalLimit": 0})).await?;
        shop.until_paused("OrdinalLimit").await?;
        let grace = async |seconds: u32| {
            let pod = json!({"spec": {"terminationGracePeriodSeconds": seconds}});
            let change = json!({"spec": {"template": pod}});
            change_object::<StatefulSet>(&shop.destination, "web", &change).await
        };
        grace(shop.set.grace_seconds + 1).await?;
        let edited = HoldReason::DestinationEdited.as_str();
        shop.until_paused(edited).await?;
        shop.edit(&json!({"ordinalLimit": 1})).await?;
        let status = shop.until_paused(edited).await?;
        assert_eq!(status.current_index, 0);
        assert_eq!(shop.ready_pods(&shop.source).await?, ["web-0"]);
        grace(shop.set.grace_seconds).await?;
        shop.edit(&json!({"retry": 1})).await?;
        shop.until_phase(Phase::Completed).await?;
        Ok(())
    })
}

#[test]
fn a_second_migration_of_a_set_names_the_first() -> Result<()> {
    run_story_of(replicas(1), async |shop| {
        shop.open_shop().await?;
        shop.migrate(&json!({"ordinalLimit": 0})).await?;
        shop.until_paused("OrdinalLimit").await?;
        shop.migrate_as("second", &json!({"force": true})).await?;
        let findings = shop.until_blocked("second").await?;
        let lock = message(&findings, CheckId::Lock);
        let first = format!("the lock of migration {}/{NAME} ", shop.ops.name());
        assert!(lock.contains(&first), "{findings:?}");
        shop.edit(&json!({"ordinalLimit": 1})).await?;
        shop.until_phase(Phase::Completed).await?;
        Ok(())
    })
}
