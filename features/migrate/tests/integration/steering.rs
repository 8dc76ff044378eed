//! People stop a run for a while: by a pause, or by a limit of ordinals.

use api::migrate::{Location, Phase};
use k8s_openapi::api::apps::v1::StatefulSet;
use serde_json::json;
use testkit::Result;

use crate::stories::{first_ordinal, replicas, run_story, run_story_of};

#[test]
fn a_pause_begins_when_the_ordinal_on_its_way_has_arrived() -> Result<()> {
    run_story_of(replicas(2), async |shop| {
        shop.open_shop().await?;
        shop.migrate(&json!({})).await?;
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
        shop.edit(&json!({"paused": false})).await?;
        shop.until_phase(Phase::Completed).await?;
        Ok(())
    })
}

#[test]
fn a_raised_limit_lets_further_ordinals_move() -> Result<()> {
    run_story(async |shop| {
        shop.open_shop().await?;
        shop.migrate(&json!({"ordinalLimit": 1})).await?;
        let status = shop.until_paused("OrdinalLimit").await?;
        assert_eq!(status.current_index, 1);
        assert_eq!(shop.ready_pods(&shop.source).await?, ["web-1", "web-2"]);
        shop.edit(&json!({"ordinalLimit": 3})).await?;
        let status = shop.until_phase(Phase::Completed).await?;
        assert_eq!(status.current_index, 3);
        Ok(())
    })
}
