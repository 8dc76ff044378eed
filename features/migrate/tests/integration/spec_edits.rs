//! Edits of the spec that the API server refuses, and those that it accepts.

use api::migrate::Phase;
use serde_json::json;
use testkit::Result;

use crate::stories::{DESTINATION, replicas, run_story_of};

#[test]
fn what_moves_and_where_to_is_fixed_after_the_start() -> Result<()> {
    run_story_of(replicas(1), async |shop| {
        shop.open_shop().await?;
        shop.migrate(&json!({"ordinalLimit": 0})).await?;
        shop.until_paused("OrdinalLimit").await?;
        let edits = [
            ("storageClassMapping", json!({"gp2": "gp3"})),
            ("sourceCluster", json!({"kubeConfigSecret": DESTINATION})),
            ("strategy", json!("OrphanAdopt")),
            ("destNamespace", json!("other")),
        ];
        for (field, value) in edits {
            let refusal = shop.refusal(&json!({field: value})).await;
            let rule = format!("spec.{field} cannot change after the migration has started");
            assert!(refusal.contains(&rule), "{refusal}");
        }
        let limits = json!({
            "volumeDetachTimeout": "7m", "podReadyTimeout": "11m",
            "podTerminationTimeout": "3m", "attachTimeout": "6m",
        });
        shop.edit(&limits).await?;
        shop.edit(&json!({"ordinalLimit": 1})).await?;
        shop.until_phase(Phase::Completed).await?;
        Ok(())
    })
}

#[test]
fn retry_does_not_fall_and_abort_is_not_cleared() -> Result<()> {
    run_story_of(replicas(1), async |shop| {
        shop.migrate(&json!({"dryRun": true})).await?;
        shop.edit(&json!({"retry": 2})).await?;
        for lower in [json!(1), json!(null)] {
            let refusal = shop.refusal(&json!({"retry": lower})).await;
            assert!(
                refusal.contains("spec.retry cannot be lowered"),
                "{refusal}"
            );
        }
        shop.edit(&json!({"retry": 3, "abort": "Rollback"})).await?;
        let refusal = shop.refusal(&json!({"abort": null})).await;
        assert!(
            refusal.contains("spec.abort cannot be cleared"),
            "{refusal}"
        );
        let refusal = shop.refusal(&json!({"abort": "Leave"})).await;
        let rule = "spec.abort cannot change from Rollback to Leave";
        assert!(refusal.contains(rule), "{refusal}");
        Ok(())
    })
}
