//! Sources that take away: rows that are gone take their tenants along, if they may and are few.

use std::time::Duration;

use crate::stories::objects::{change, event, said, word};
use crate::stories::{Site, USUAL, tell};
use crate::tables::{SOURCE, lets_read, polls, reads, says, tenants, writes, writes_many};
use api::tenants::{ChangeAction, DistributionTenant, TenantSource, TenantSourceStatus, names};
use serde_json::{Value, json};
use testkit::{Mark, Result, eventually_within, is};

/// Twenty tenants.
const ALL: usize = 20;

/// Has a source make so many tenants, and waits for the objects.
async fn populated(site: &Site, spec: Value) -> Result<()> {
    lets_read(site).await?;
    writes_many(site, ALL, &[]).await?;
    reads(site, spec).await?;
    let patience = Duration::from_secs(60);
    eventually_within(patience, "all objects are made", async || {
        Ok((tenants(site).await?.len() == ALL).then_some(()))
    })
    .await
}

/// Of a plan in a status, the names of the tenants to which this is to be done.
fn planned(status: &TenantSourceStatus, action: ChangeAction) -> Vec<&str> {
    let changes = status.pending_changes.iter();
    let changes = changes.filter(|one| one.action == action);
    changes.map(|one| one.tenant_name.as_str()).collect()
}

/// How often the table was read after the source was last edited, until a tenant was deleted.
async fn readings_until_deleted(site: &Site, mark: Mark, tenant: &str) -> Result<usize> {
    let asked = site.world.control_plane().entries_since(mark).await?;
    let edits = asked.iter().filter(|one| {
        one.is_write() && one.resource == "tenantsources" && one.subresource.is_empty()
    });
    let edited = edits.map(|one| one.time).max().expect("it was edited");
    let mut deletions = asked.iter().filter(|one| {
        one.verb == "delete" && one.resource == "distributiontenants" && one.name == tenant
    });
    let deleted = deletions.next().expect("it was deleted").time;
    let readings = asked.iter().filter(|one| {
        let is_reading = one.verb == "get" && one.resource == "configmaps" && one.name == SOURCE;
        is_reading && edited < one.time && one.time < deleted
    });
    Ok(readings.count())
}

#[test]
fn a_dry_run_tells_the_plan_and_writes_no_object() -> Result<()> {
    tell(USUAL, async |site| {
        lets_read(site).await?;
        writes_many(site, 3, &[]).await?;
        reads(site, json!({"dryRun": true})).await?;
        let all = ["site-00", "site-01", "site-02"];
        let told = |source: &TenantSource| {
            let status = source.status.clone().unwrap_or_default();
            planned(&status, ChangeAction::Create) == all
        };
        let status = says(site, told).await?;
        assert_eq!(status.tenants_discovered, Some(3));
        polls(site, 2).await?;
        assert!(tenants(site).await?.is_empty());

        let real = json!({"spec": {"dryRun": false}});
        change::<TenantSource>(site, SOURCE, &real).await?;
        for name in all {
            site.ready(name).await?;
        }
        let done = |source: &TenantSource| {
            let status = source.status.clone().unwrap_or_default();
            status.pending_changes.is_empty() && status.tenants_created == Some(3)
        };
        says(site, done).await?;
        Ok(())
    })
}

#[test]
fn a_row_that_is_gone_takes_its_tenant_along_only_if_told_so_and_confirmed() -> Result<()> {
    tell(USUAL, async |site| {
        populated(site, json!({})).await?;
        site.ready("site-07").await?;
        writes_many(site, ALL, &[7]).await?;
        let status = says(site, is("Pruned", "PruneDisabled")).await?;
        assert_eq!(word(&status.conditions, "Pruned"), "False/PruneDisabled");
        let message = said(&status.conditions, "Pruned");
        assert!(message.contains("site-07"), "{message}");
        polls(site, 2).await?;
        assert_eq!(tenants(site).await?.len(), ALL);

        // The first reading only announces it. The next is far enough for a look at that.
        let mark = site.world.mark();
        let prune = json!({"spec": {
            "pollInterval": "10m", "prune": {"enabled": true, "confirmPolls": 2},
        }});
        change::<TenantSource>(site, SOURCE, &prune).await?;
        let announced = |source: &TenantSource| {
            let status = source.status.clone().unwrap_or_default();
            planned(&status, ChangeAction::Delete) == ["site-07"]
        };
        let status = says(site, announced).await?;
        let missed = status.pending_changes[0].description.as_deref();
        assert_eq!(missed, Some("1 of 2 readings missed its row"));
        let kept = site.tenant("site-07").await?;
        assert_eq!(kept.metadata.deletion_timestamp, None);

        // The second deletes it.
        site.gone::<DistributionTenant>("site-07").await?;
        assert!(readings_until_deleted(site, mark, "site-07").await? >= 2);
        event(site, SOURCE, "TenantPruned").await?;
        let pruned = |source: &TenantSource| {
            let status = source.status.clone().unwrap_or_default();
            status.tenants_pruned == Some(1)
        };
        let status = says(site, pruned).await?;
        assert_eq!(word(&status.conditions, "Pruned"), "True/UpToDate");
        assert_eq!(tenants(site).await?.len(), ALL - 1);
        assert!(site.live("site-07")?.is_null());
        Ok(())
    })
}

#[test]
fn a_row_that_comes_back_in_time_keeps_its_tenant() -> Result<()> {
    tell(USUAL, async |site| {
        lets_read(site).await?;
        writes_many(site, 3, &[]).await?;
        let prune = json!({"enabled": true, "confirmPolls": 100});
        reads(site, json!({"prune": prune})).await?;
        site.ready("site-01").await?;
        let uid = site.tenant("site-01").await?.metadata.uid;
        writes_many(site, 3, &[1]).await?;
        let announced = |source: &TenantSource| {
            let status = source.status.clone().unwrap_or_default();
            planned(&status, ChangeAction::Delete) == ["site-01"]
        };
        says(site, announced).await?;
        writes_many(site, 3, &[]).await?;
        let called_off = |source: &TenantSource| {
            let status = source.status.clone().unwrap_or_default();
            planned(&status, ChangeAction::Delete).is_empty()
        };
        says(site, called_off).await?;
        assert_eq!(site.tenant("site-01").await?.metadata.uid, uid);
        Ok(())
    })
}

#[test]
fn too_many_at_once_need_approval_of_exactly_these_and_once() -> Result<()> {
    tell(USUAL, async |site| {
        let prune = json!({"enabled": true, "confirmPolls": 1});
        populated(site, json!({"prune": prune})).await?;
        let gone: Vec<usize> = (0..5).collect();
        writes_many(site, ALL, &gone).await?;
        let status = says(site, is("Pruned", "PruneBlocked")).await?;
        assert_eq!(word(&status.conditions, "Pruned"), "False/PruneBlocked");
        event(site, SOURCE, "PruneBlocked").await?;
        let hash = status.plan_hash.expect("a plan to approve");
        let approves = async |hash: &str| {
            let annotation = json!({"metadata": {"annotations": {names::APPROVE_PRUNE: hash}}});
            change::<TenantSource>(site, SOURCE, &annotation).await
        };

        // Another plan is approved: none goes.
        approves("another").await?;
        polls(site, 2).await?;
        assert_eq!(tenants(site).await?.len(), ALL);

        approves(&hash).await?;
        for n in gone {
            let name = format!("site-{n:02}");
            site.gone::<DistributionTenant>(&name).await?;
        }
        assert_eq!(tenants(site).await?.len(), ALL - 5);

        // The next five are another set.
        let more: Vec<usize> = (0..10).collect();
        writes_many(site, ALL, &more).await?;
        let another = |source: &TenantSource| {
            let status = source.status.clone().unwrap_or_default();
            status.plan_hash.is_some_and(|now| now != hash)
        };
        says(site, another).await?;
        polls(site, 2).await?;
        assert_eq!(tenants(site).await?.len(), ALL - 5);
        Ok(())
    })
}

/// Two tenants stay when their table becomes this, and the source says why.
async fn stay(site: &Site, rows: &[&str], why: &str) -> Result<()> {
    lets_read(site).await?;
    writes_many(site, 2, &[]).await?;
    let prune = json!({"enabled": true, "maxDeletePercent": 100, "confirmPolls": 1});
    reads(site, json!({"prune": prune})).await?;
    site.ready("site-00").await?;
    site.ready("site-01").await?;
    writes(site, "name,domain", rows).await?;
    let status = says(site, is("Pruned", "PruneBlocked")).await?;
    let message = said(&status.conditions, "Pruned");
    assert!(message.contains(why), "{message}");
    polls(site, 2).await?;
    assert_eq!(tenants(site).await?.len(), 2);
    Ok(())
}

#[test]
fn a_table_without_a_row_takes_nobody_along() -> Result<()> {
    tell(USUAL, async |site| stay(site, &[], "no row at all").await)
}

#[test]
fn a_row_that_names_nobody_keeps_those_it_may_be() -> Result<()> {
    tell(USUAL, async |site| {
        let rows = ["site-00,n00.example.com", ",n01.example.com"];
        stay(site, &rows, "1 rows name no tenant").await?;
        // Once it names somebody, who is missing is known.
        let rows = ["site-00,n00.example.com", "other,n02.example.com"];
        writes(site, "name,domain", &rows).await?;
        site.gone::<DistributionTenant>("site-01").await
    })
}

#[test]
fn a_suspended_source_is_not_read() -> Result<()> {
    tell(USUAL, async |site| {
        lets_read(site).await?;
        writes_many(site, 1, &[]).await?;
        reads(site, json!({})).await?;
        site.ready("site-00").await?;
        let suspend = json!({"spec": {"suspend": true}});
        change::<TenantSource>(site, SOURCE, &suspend).await?;
        site.sweeps(1).await?;
        writes_many(site, 2, &[]).await?;
        // Longer than the interval at which it would be read.
        site.sweeps(4).await?;
        assert_eq!(tenants(site).await?.len(), 1);
        let resume = json!({"spec": {"suspend": false}});
        change::<TenantSource>(site, SOURCE, &resume).await?;
        site.ready("site-01").await?;
        Ok(())
    })
}
