//! Snapshots on the way: one of each disk.

use std::collections::BTreeSet;

use api::migrate::Phase;
use api::migrate::names::{CLAIM_TAG, ORDINAL_TAG, RUN};
use serde_json::json;
use testkit::Result;
use testkit::disks::SetPlan;

use crate::stories::{replicas, run_story_of};

#[test]
fn every_disk_gets_one_snapshot_with_its_tags() -> Result<()> {
    let set = SetPlan {
        templates: vec!["data".to_owned(), "logs".to_owned()],
        ..replicas(3)
    };
    run_story_of(set, async |shop| {
        shop.open_shop().await?;
        let snapshots = json!({"when": "AfterDetach", "tags": {"team": "shop"}});
        shop.migrate(&json!({"snapshots": snapshots})).await?;
        let status = shop.until_phase(Phase::Completed).await?;
        let run = status.run_id.unwrap_or_default();
        let mut recorded = BTreeSet::new();
        for record in &status.ordinals {
            for claim in &record.claims {
                let disk = shop.disk(&claim.volume_id)?;
                let made = disk["snapshots"].as_array().cloned().unwrap_or_default();
                assert_eq!(made.len(), 1, "{disk}");
                assert_eq!(made[0]["id"], json!(claim.snapshot_id));
                let tags = &made[0]["tags"];
                assert_eq!(tags[RUN], *run);
                assert_eq!(tags[ORDINAL_TAG], record.ordinal.to_string());
                assert_eq!(tags[CLAIM_TAG], *claim.name);
                assert_eq!(tags["team"], "shop");
                recorded.extend(claim.snapshot_id.clone());
            }
        }
        assert_eq!(recorded.len(), 6);
        Ok(())
    })
}
