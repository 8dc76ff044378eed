//! People stop a run for a while: by a pause, or by a limit of ordinals.

use api::migrate::{Location, Phase, StatefulSetMigration, conditions};
use k8s_openapi::api::apps::v1::StatefulSet;
use kernel::PAUSED;
use serde_json::json;
use testkit::Result;
use testkit::stories::annotate;

use crate::stories::{DESTINATION, NAME, SOURCE, first_ordinal, replicas, run_story, run_story_of};

#[test]
fn a_pause_begins_when_the_ordinal_on_its_way_has_arrived() -> Result<()> {
    run_story_of(replicas(2), async |shop| {
        shop.open_shop().await?;
        // Before anything is changed.
        let marks = [SOURCE, DESTINATION].map(|name| (name, shop.cluster(name).mark()));
        shop.migrate(&json!({"paused": true})).await?;
        let status = shop.until_paused("Requested").await?;
        assert!(!status.started);
        for (name, mark) in marks {
            let writes = shop.writes_since(name, mark).await?;
            assert!(writes.is_empty(), "{name}: {writes:?}");
        }

        // While the first ordinal is on its way.
        shop.edit(&json!({"paused": false})).await?;
        let has_released = |set: &StatefulSet| first_ordinal(set) == 1;
        shop.source
            .until::<StatefulSet>("web", has_released)
            .await?;
        shop.edit(&json!({"paused": true})).await?;
        let status = shop.until_paused("Requested").await?;
        let locations: Vec<Location> = status.ordinals.iter().map(|one| one.location).collect();
        assert_eq!(locations, [Location::Destination, Location::Source]);
        assert_eq!(status.phase, Some(Phase::MigratingPods));
        assert_eq!(shop.ready_pods(&shop.source).await?, ["web-1"]);
        assert_eq!(shop.ready_pods(&shop.destination).await?, ["web-0"]);

        // While the last one is: the source is not cleaned up.
        shop.edit(&json!({"paused": false})).await?;
        let has_released = |set: &StatefulSet| first_ordinal(set) == 2;
        shop.source
            .until::<StatefulSet>("web", has_released)
            .await?;
        let pause = |value| annotate::<StatefulSetMigration>(&shop.ops, NAME, PAUSED, value);
        pause(Some("true")).await?;
        let is_there = |migration: &StatefulSetMigration| {
            let status = migration.status.clone().unwrap_or_default();
            let mut conditions = status.conditions.iter();
            let paused = conditions.find(|one| one.type_ == conditions::PAUSED);
            status.phase == Some(Phase::Finalizing)
                && paused.is_some_and(|one| one.status == "True")
        };
        let ops = &shop.ops;
        let seen = ops.until_status::<StatefulSetMigration>(NAME, is_there);
        assert!(!seen.await?.cleanup_started);
        assert!(shop.stateful_set(&shop.source).await?.is_some());
        pause(None).await?;
        shop.until_phase(Phase::Completed).await?;
        assert_eq!(shop.stateful_set(&shop.source).await?, None);
        Ok(())
    })
}

#[test]
fn a_raised_limit_lets_further_ordinals_move() -> Result<()> {
    run_story(async |shop| {
        shop.open_shop().await?;
        let before = shop.pods(&shop.source).await?;
        shop.migrate(&json!({"ordinalLimit": 1})).await?;
        let status = shop.until_paused("OrdinalLimit").await?;
        assert_eq!(status.current_index, 1);
        // The pods that have not moved are still the same.
        let mut unmoved = before;
        unmoved.remove("web-0");
        assert_eq!(shop.pods(&shop.source).await?, unmoved);
        assert_eq!(shop.ready_pods(&shop.source).await?, ["web-1", "web-2"]);
        shop.edit(&json!({"ordinalLimit": 3})).await?;
        let status = shop.until_phase(Phase::Completed).await?;
        assert_eq!(status.current_index, 3);
        Ok(())
    })
}
