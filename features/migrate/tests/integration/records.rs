//! What a run has recorded in both clusters: read, audited, and the base of a lost migration.

use api::migrate::{Phase, StatefulSetMigration};
use kube::api::{Api, DeleteParams, Patch, PatchParams};
use serde_json::{Value, json};
use testkit::Result;

use crate::stories::{DESTINATION, NAME, SOURCE, Shop, replicas, run_story_of};

/// Removes the migration as if its cluster had lost it: its finalizer does not hold it.
async fn lose_migration(shop: &Shop) -> Result<()> {
    let api = Api::<StatefulSetMigration>::namespaced(shop.ops.client(), shop.ops.name());
    api.delete(NAME, &DeleteParams::default()).await?;
    let without = Patch::Merge(json!({"metadata": {"finalizers": null}}));
    api.patch(NAME, &PatchParams::default(), &without).await?;
    shop.ops.gone::<StatefulSetMigration>(NAME).await
}

/// The kinds of leftovers, and whether each may go.
fn kinds(leftovers: &[Value]) -> Vec<(&str, bool)> {
    let kinds = leftovers.iter().map(|one| {
        let may_go = one["state"]
            .as_str()
            .is_some_and(|state| state.starts_with("may go"));
        (one["kind"].as_str().unwrap_or_default(), may_go)
    });
    let mut kinds: Vec<_> = kinds.collect();
    kinds.sort_unstable();
    kinds.dedup();
    kinds
}

#[test]
fn a_lost_migration_is_restored_from_its_locks_and_goes_on() -> Result<()> {
    run_story_of(replicas(2), async |shop| {
        shop.open_shop().await?;
        shop.migrate(&json!({"ordinalLimit": 1})).await?;
        let before = shop.until_paused("OrdinalLimit").await?;
        let migration = format!("--migration={NAME}");
        let journal = shop.verb(&["journal", &migration, "-o", "json"])?;
        let locks = journal.exits(0).findings()?;
        let sides: Vec<&Value> = locks.iter().map(|lock| &lock["side"]).collect();
        assert_eq!(sides, ["source", "destination"]);
        for lock in &locks {
            let intent = &lock["journal"]["record"]["intent"];
            assert_eq!(
                (&intent["step"], &intent["ordinal"]),
                (&json!("grow"), &json!(0))
            );
        }
        let left = shop.audit(&["-o", "json"]).await?.exits(1).findings()?;
        let stays = [
            ("fence", false),
            ("lock", false),
            ("marker", false),
            ("shared disk", false),
        ];
        assert_eq!(kinds(&left), stays, "{left:?}");

        lose_migration(shop).await?;
        let left = shop.audit(&["-o", "json"]).await?.exits(1).findings()?;
        let lost = [
            ("fence", false),
            ("lock", true),
            ("marker", true),
            ("shared disk", false),
        ];
        assert_eq!(kinds(&left), lost, "{left:?}");
        let (source, destination) = (
            shop.kubeconfig_file(SOURCE, shop.cluster(SOURCE).proxy())
                .await?,
            shop.kubeconfig_file(DESTINATION, shop.cluster(DESTINATION).proxy())
                .await?,
        );
        let set = format!("{}/web", shop.source.name());
        let restore = [
            "journal",
            "--restore",
            "--statefulset",
            &set,
            "--source-kubeconfig",
            &source,
            "--dest-kubeconfig",
            &destination,
        ];
        shop.verb(&restore)?.exits(2).prints("pass --yes");
        shop.verb(&[&restore[..], &["--yes"]].concat())?.exits(0);
        let restored = shop.until_paused("OrdinalLimit").await?;
        assert_eq!(restored.run_id, before.run_id);
        shop.edit(&json!({"ordinalLimit": 2})).await?;
        let ended = shop.verb(&["status", NAME, "--timeout=100s"])?;
        ended.exits(0).prints("Completed");
        shop.until_phase(Phase::Completed).await?;
        assert_eq!(shop.disks(&shop.destination).await?, shop.own_disks());
        shop.audit(&[]).await?.exits(0);
        Ok(())
    })
}
