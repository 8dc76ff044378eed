//! The operator dies while it makes a group, an invalidation, or objects from a table: each is there
//! once in the end.

use std::ops::RangeInclusive;

use crate::crashes::At::Point;
use crate::stories::objects::{acme, declare};
use crate::stories::{USUAL, tell};
use crate::tables::{lets_read, reads, tenants, writes_many};
use api::tenants::{ConnectionGroup, DistributionTenant, Invalidation};
use rstest::rstest;
use serde_json::json;
use testkit::{Result, eventually, is};

#[rstest]
#[case::before("group.create.before")]
#[case::after("group.create.after")]
fn a_crash_while_a_group_is_made_makes_one(#[case] point: &'static str) -> Result<()> {
    tell(USUAL, async |site| {
        site.doom(Point(point)).await?;
        let cluster = site.cluster_wide();
        declare::<ConnectionGroup>(&cluster, "edge", &json!({})).await?;
        site.revive().await?;
        let ready = is("Ready", "Deployed");
        let group = cluster.until::<ConnectionGroup>("edge", ready).await?;
        let id = group.status.and_then(|status| status.id);
        assert_eq!(site.live_group("edge")?["id"], json!(id));
        cluster.delete::<ConnectionGroup>("edge").await?;
        cluster.gone::<ConnectionGroup>("edge").await?;
        assert!(site.live_group("edge")?.is_null());
        Ok(())
    })
}

#[rstest]
#[case::before_it_is_switched_off("group.disable.before")]
#[case::after_it_is_switched_off("group.disable.after")]
#[case::before_the_delete("group.delete.before")]
#[case::after_the_delete("group.delete.after")]
fn a_crash_while_a_group_goes_leaves_none(#[case] point: &'static str) -> Result<()> {
    tell(USUAL, async |site| {
        let cluster = site.cluster_wide();
        declare::<ConnectionGroup>(&cluster, "edge", &json!({})).await?;
        let ready = is("Ready", "Deployed");
        cluster.until::<ConnectionGroup>("edge", ready).await?;
        site.doom(Point(point)).await?;
        cluster.delete::<ConnectionGroup>("edge").await?;
        site.revive().await?;
        cluster.gone::<ConnectionGroup>("edge").await?;
        assert!(site.live_group("edge")?.is_null());
        Ok(())
    })
}

#[rstest]
#[case::before("invalidation-before-create")]
#[case::after("invalidation-after-create")]
fn a_crash_while_an_invalidation_is_made_makes_one(#[case] point: &'static str) -> Result<()> {
    tell(USUAL, async |site| {
        site.makes("acme", acme()).await?;
        site.doom(Point(point)).await?;
        let spec = json!({"tenantRef": {"name": "acme"}, "paths": ["/*"]});
        declare::<Invalidation>(site, "all", &spec).await?;
        site.revive().await?;
        let completed = is("Ready", "Completed");
        site.until::<Invalidation>("all", completed).await?;
        // The same reference, however often it was sent, is the same invalidation.
        let sent = site.calls("CreateInvalidationForDistributionTenant")?;
        let mut references: Vec<_> = sent
            .iter()
            .flat_map(|one| one.texts("CallerReference"))
            .collect();
        references.dedup();
        assert_eq!(references.len(), 1);
        Ok(())
    })
}

/// More rows than objects are written at once, which is eight.
const ROWS: usize = 12;

#[rstest]
#[case::before_the_ninth("tenants-before-declare#9", 1..=8)]
#[case::after_the_second("tenants-after-declare#2", 2..=8)]
fn a_crash_between_the_objects_of_a_table_makes_each_once(
    #[case] point: &'static str,
    #[case] there: RangeInclusive<usize>,
) -> Result<()> {
    tell(USUAL, async |site| {
        lets_read(site).await?;
        writes_many(site, ROWS, &[]).await?;
        site.doom(Point(point)).await?;
        reads(site, json!({})).await?;
        site.died().await?;
        // Some are there and others are not.
        let before = tenants(site).await?;
        assert!(there.contains(&before.len()), "{:?}", before.keys());
        site.start().await?;
        for n in 0..ROWS {
            site.ready(&format!("site-{n:02}")).await?;
        }
        let after = tenants(site).await?;
        assert_eq!(after.len(), ROWS);
        for (name, tenant) in before {
            assert_eq!(after[&name].metadata.uid, tenant.metadata.uid);
        }
        assert_eq!(site.live_tenants()?.len(), ROWS);
        Ok(())
    })
}

#[rstest]
#[case::before("tenants-before-prune")]
#[case::after("tenants-after-prune")]
fn a_crash_while_rows_are_missed_takes_away_those_and_no_others(
    #[case] point: &'static str,
) -> Result<()> {
    tell(USUAL, async |site| {
        lets_read(site).await?;
        writes_many(site, 4, &[]).await?;
        let prune = json!({"enabled": true, "maxDeletePercent": 50, "confirmPolls": 1});
        reads(site, json!({"prune": prune})).await?;
        for n in 0..4 {
            site.ready(&format!("site-{n:02}")).await?;
        }
        site.doom(Point(point)).await?;
        writes_many(site, 4, &[1, 2]).await?;
        site.revive().await?;
        for name in ["site-01", "site-02"] {
            site.gone::<DistributionTenant>(name).await?;
        }
        eventually("they are gone from CloudFront", async || {
            Ok((site.live_tenants()?.len() == 2).then_some(()))
        })
        .await?;
        let left: Vec<_> = tenants(site).await?.into_keys().collect();
        assert_eq!(left, ["site-00", "site-03"]);
        Ok(())
    })
}
