//! The operator dies at points of every phase: the run ends as if nothing had happened, and makes no object twice.
//!
//! The stories run beside each other, so each crash hits the runs of all. Each has ordinals of its own, by which its
//! points are told apart.

use api::migrate::Phase;
use serde_json::{Value, json};
use testkit::Result;
use testkit::disks::SetPlan;

use crate::ends::Before;
use crate::stories::{Shop, replicas, run_story_of};
use crate::supervisor::with_crashes;

/// A StatefulSet of so many replicas from this ordinal on.
fn from(start: u32, count: u32) -> SetPlan {
    SetPlan {
        start,
        ..replicas(count)
    }
}

/// Snapshots and tags, so that these steps are there too.
fn with_disk_steps(fields: &Value) -> Value {
    let mut all = json!({
        "snapshots": {"when": "AfterDetach"},
        "fence": {"sourceClusterName": "east", "destClusterName": "west"},
    });
    testkit::stories::merge(&mut all, fields);
    all
}

/// Each disk has one snapshot, and the tag of this cluster.
fn assert_disk_steps(shop: &Shop, cluster: &Value) -> Result<()> {
    for (claim, disk) in shop.own_disks() {
        let disk = shop.disk(&disk)?;
        let snapshots = disk["snapshots"].as_array().map_or(0, Vec::len);
        assert_eq!(snapshots, 1, "{claim}: {disk}");
        let name = &disk["tags"]["ebs.csi.aws.com/cluster-name"];
        assert_eq!(name, cluster, "{claim}");
    }
    Ok(())
}

/// Moves everything while the operator dies.
async fn moves(shop: &Shop, fields: &Value, points: &[&str]) -> Result<()> {
    shop.open_shop().await?;
    let before = Before::of(shop).await?;
    with_crashes(shop, points, async {
        shop.migrate(fields).await?;
        shop.until_phase(Phase::Completed).await.map(drop)
    })
    .await?;
    before.has_moved(shop).await
}

/// Moves some ordinals and takes them back while the operator dies.
async fn returns(shop: &Shop, fields: &Value, moved: i32, points: &[&str]) -> Result<()> {
    shop.open_shop().await?;
    let before = Before::of(shop).await?;
    let mut limited = json!({"ordinalLimit": moved});
    testkit::stories::merge(&mut limited, fields);
    with_crashes(shop, points, async {
        shop.migrate(&limited).await?;
        let status = shop.until_paused("OrdinalLimit").await?;
        assert_eq!(status.current_index, moved);
        shop.edit(&json!({"abort": "Rollback"})).await?;
        shop.until_phase(Phase::RolledBack).await.map(drop)
    })
    .await?;
    before.has_returned(shop).await
}

#[test]
fn a_run_ends_the_same_after_crashes() -> Result<()> {
    let points = [
        "capture:-:after",
        "gate:0:before",
        "release:0:after",
        "detach:0:before",
        "fence:0:after",
        "snapshot:0:after",
        "retag:0:after",
        "grow:1:before",
        "ready:1:after",
        "clean-pv:0:after",
        "clean-sts:-:before",
        "unlock:-:after",
    ];
    run_story_of(from(0, 2), async |shop| {
        moves(shop, &with_disk_steps(&json!({})), &points).await?;
        assert_disk_steps(shop, &json!("west"))
    })
}

#[test]
fn a_rollback_ends_the_same_after_crashes() -> Result<()> {
    let points = [
        "attach:20:after",
        "r-release:21:after",
        "r-fence:21:after",
        "r-confirm:21:after",
        "r-unfence:20:after",
        "r-grow:20:before",
        "r-clean:20:after",
        "r-unlock:-:before",
    ];
    run_story_of(from(20, 3), async |shop| {
        let fields = with_disk_steps(&json!({}));
        returns(shop, &fields, 2, &points).await
    })
}

#[test]
fn a_run_of_orphans_ends_the_same_after_crashes() -> Result<()> {
    let points = [
        "protect:-:after",
        "orphan:-:before",
        "orphan:-:after",
        "release:10:after",
        "confirm:10:before",
        "grow:10:after",
        "clean-fence:11:after",
    ];
    run_story_of(from(10, 2), async |shop| {
        moves(shop, &json!({"strategy": "OrphanAdopt"}), &points).await
    })
}

#[test]
fn a_rollback_of_orphans_ends_the_same_after_crashes() -> Result<()> {
    let points = [
        "fence:31:before",
        "r-recreate:-:before",
        "r-recreate:-:after",
        "r-detach:31:after",
        "r-attach:30:before",
    ];
    run_story_of(from(30, 3), async |shop| {
        let fields = json!({"strategy": "OrphanAdopt"});
        returns(shop, &fields, 2, &points).await
    })
}
