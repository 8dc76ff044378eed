//! Rollbacks after each ordinal, and what they do not wait for.

use api::migrate::Phase;
use rstest::rstest;
use serde_json::{Value, json};
use testkit::Result;
use testkit::disks::SetPlan;

use crate::stories::{first_ordinal, replicas, run_story_of};

#[rstest]
#[case::after_the_first(0, 1, Phase::MigratingPods)]
#[case::after_the_last(5, 2, Phase::Finalizing)]
fn a_rollback_does_not_wait_for_unready_pods_at_the_destination(
    #[case] start: u32,
    #[case] moved: i32,
    #[case] phase: Phase,
) -> Result<()> {
    let set = SetPlan {
        start,
        ..replicas(2)
    };
    run_story_of(set, async |shop| {
        shop.open_shop().await?;
        let before = shop.definition(&shop.source).await?;
        shop.migrate(&json!({"ordinalLimit": moved, "sourceCleanup": {"soak": "1h"}}))
            .await?;
        let status = if phase == Phase::Finalizing {
            shop.until_phase(phase).await?
        } else {
            shop.until_paused("OrdinalLimit").await?
        };
        assert_eq!((status.phase, status.current_index), (Some(phase), moved));
        let moved = shop.stateful_set(&shop.destination).await?;
        assert_eq!(
            moved.as_ref().map(first_ordinal),
            Some(i32::try_from(start)?)
        );
        let first = format!("web-{start}");
        shop.make_unready(&shop.destination, &first).await?;

        shop.edit(&json!({"abort": "Rollback"})).await?;
        shop.until_phase(Phase::RolledBack).await?;
        assert_eq!(shop.definition(&shop.source).await?, before);
        assert_eq!(
            shop.definition(&shop.destination).await?,
            Vec::<Value>::new()
        );
        assert_eq!(shop.disks(&shop.source).await?, shop.own_disks());
        assert_eq!(shop.ready_pods(&shop.source).await?.len(), 2);
        Ok(())
    })
}
