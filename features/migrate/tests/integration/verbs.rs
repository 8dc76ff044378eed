//! What people do with `pontoon migrate`: its output and its exit codes.

use api::migrate::{Phase, StatefulSetMigration};
use kube::api::Api;
use serde_json::{Value, json};
use testkit::Result;

use crate::stories::{NAME, SOURCE, Shop, replicas, run_story_of};

/// Writes the migration to a file, with these fields beside the usual ones.
fn manifest(shop: &Shop, fields: &Value) -> Result<String> {
    let file = shop.file("migration.yaml", &shop.manifest(NAME, fields))?;
    Ok(file.to_string_lossy().into_owned())
}

async fn live(shop: &Shop) -> Result<Option<StatefulSetMigration>> {
    let api = Api::<StatefulSetMigration>::namespaced(shop.ops.client(), shop.ops.name());
    Ok(api.get_opt(NAME).await?)
}

#[test]
fn verbs_lead_a_run_from_its_plan_to_its_rollback() -> Result<()> {
    run_story_of(replicas(2), async |shop| {
        shop.open_shop().await?;
        let file = manifest(shop, &json!({"ordinalLimit": 1}))?;
        let plan = ["plan", "-f", &file];
        shop.verb(&plan)?.exits(2).prints("pass --yes");
        assert!(live(shop).await?.is_none());
        shop.verb(&[&plan[..], &["--yes"]].concat())?
            .exits(0)
            .prints("0 blockers");
        shop.verb(&[&plan[..], &["--yes"]].concat())?
            .exits(1)
            .prints("exists already");
        let planned = shop.verb(&["plan", NAME, "-o", "json"])?.exits(0);
        let parts = planned.findings()?;
        assert!(parts.iter().any(|one| one["part"] == "step"), "{parts:?}");
        let listed = shop.verb(&["status", "-o", "json"])?.exits(0).findings()?;
        assert_eq!(listed[0]["phase"], "Planned");

        let started = shop.verb(&["start", NAME, "--yes", "--timeout=1ms", "-o", "json"])?;
        assert_eq!(started.exits(3).findings()?[0]["state"], "Running");
        let limited = shop.verb(&["status", NAME, "--timeout=100s", "-o", "json"])?;
        let ordinals = limited.exits(4).findings()?;
        let locations: Vec<&Value> = ordinals.iter().map(|one| &one["place"]).collect();
        assert_eq!(locations, ["Destination", "Source"]);
        shop.verb(&["start", NAME, "--yes"])?
            .exits(0)
            .prints("goes on by itself");

        let pause = ["pause", NAME, "--yes", "--timeout=100s", "-o", "json"];
        let paused = shop.verb(&pause)?.exits(4).findings()?;
        assert_eq!(paused[0]["state"], "Suspended");
        shop.until_paused("Requested").await?;
        shop.verb(&["resume", NAME, "--yes"])?.exits(0);
        shop.until_paused("OrdinalLimit").await?;
        shop.verb(&["retry", NAME])?.exits(2).prints("0 -> 1");
        shop.verb(&["retry", NAME, "--yes"])?.exits(0);
        let spec = live(shop).await?.map(|migration| migration.spec);
        assert_eq!(spec.map(|spec| (spec.paused, spec.retry)), Some((false, 1)));

        let rollback = ["rollback", NAME, "--yes", "--timeout=100s"];
        shop.verb(&rollback)?.exits(0).prints("Ended");
        shop.until_phase(Phase::RolledBack).await?;
        shop.verb(&rollback)?.exits(0);
        shop.verb(&["status", NAME, "--watch"])?.exits(0);
        shop.verb(&["pause", NAME, "--yes"])?.exits(1);
        shop.verb(&["abort", NAME, "--leave", "--yes"])?.exits(1);
        shop.audit(&[]).await?.exits(0);
        assert_eq!(shop.disks(&shop.source).await?, shop.own_disks());
        Ok(())
    })
}

#[test]
fn a_blocked_run_is_exit_code_1() -> Result<()> {
    run_story_of(replicas(1), async |shop| {
        // There is no StatefulSet.
        let file = manifest(shop, &json!({}))?;
        let started = shop.verb(&["start", "-f", &file, "--yes", "--timeout=60s"])?;
        started.exits(1).prints("Failed");
        shop.verb(&["plan", NAME])?
            .exits(1)
            .prints("SourceStatefulSet");
        shop.verb(&["status"])?.exits(1).prints("PreflightBlocked");
        let retried = shop.verb(&["retry", NAME, "--yes", "--timeout=60s"])?;
        retried.exits(1);
        let journal = format!("--migration={NAME}");
        shop.verb(&["journal", &journal])?
            .exits(1)
            .prints("neither cluster has a lock");
        let broken = shop.manifest("broken", &json!({"retry": -1}));
        let broken = shop.file("broken.yaml", &broken)?;
        shop.verb(&["plan", "-f", &broken.to_string_lossy(), "--yes"])?
            .exits(1)
            .prints("spec.retry");
        Ok(())
    })
}

#[test]
fn wrong_usage_is_exit_code_2() -> Result<()> {
    run_story_of(replicas(1), async |shop| {
        let user = shop.user_kubeconfig()?.to_string_lossy().into_owned();
        let same = [
            format!("--source-kubeconfig={user}"),
            format!("--dest-kubeconfig={user}"),
        ];
        let two = [
            shop.manifest("a", &json!({})),
            shop.manifest("b", &json!({})),
        ];
        let two = shop.file("two.yaml", &two.join("\n---\n"))?;
        let two = two.to_string_lossy();
        let cases: [(&[&str], &str); 12] = [
            (&["status", "absent"], "there is no StatefulSetMigration"),
            (&["plan", "absent"], "check the name"),
            (&["pause", "absent", "--yes"], "check the name"),
            (&["plan"], "[NAMESPACE/]NAME"),
            (&["start", "absent", "-f", &two], "cannot be used with"),
            (&["abort", "absent", "--yes"], "--rollback"),
            (&["retry", "absent", "--timeout", "5"], "90s or 5m"),
            (&["start", "-f", &two, "--yes"], "2 migrations"),
            (&["start", "-f", "absent.yaml", "--yes"], "absent.yaml"),
            (&["journal"], "--migration"),
            (&["audit", &same[0], &same[1]], "the same cluster"),
            (&["kubeconfig", "--context", "absent"], SOURCE),
        ];
        for (args, hint) in cases {
            shop.verb(args)?.exits(2).prints(hint);
        }
        assert!(live(shop).await?.is_none());
        Ok(())
    })
}
