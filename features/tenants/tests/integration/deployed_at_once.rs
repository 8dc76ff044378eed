//! AWS may do at once what it usually takes time for: writes are answered Deployed, invalidations
//! Completed, changes of records INSYNC.

use crate::stories::objects::{acme, acme_with_dns, declare, serving, with, word, words};
use crate::stories::zone::Zone;
use crate::stories::{Plan, Site, USUAL, tell};
use api::tenants::{ConnectionGroup, DistributionTenantStatus, Invalidation};
use serde_json::json;
use testkit::{Result, is};

/// So slow that no poll and no sweep comes to help: the answers themselves have to be enough.
const UNAIDED: Plan = Plan {
    pace: 2,
    args: &["--tenants-sweep-interval=1h"],
};

fn aws_is_quick(site: &Site) -> Result<()> {
    site.switch("cloudfront", json!({"writeAnswers": "Deployed"}))?;
    site.switch("route53", json!({"insyncDelay": 0}))
}

fn is_deployed_and_in_sync(status: &DistributionTenantStatus) {
    let conditions = &status.conditions;
    assert_eq!(word(conditions, "Ready"), "True/Deployed");
    assert_eq!(word(conditions, "Synced"), "True/InSync");
    let state = status.distribution_tenant_status.as_deref();
    assert_eq!(state, Some("Deployed"));
}

#[test]
fn a_tenant_that_is_deployed_at_once_is_ready_without_a_poll() -> Result<()> {
    tell(UNAIDED, async |site| {
        aws_is_quick(site)?;
        is_deployed_and_in_sync(&site.makes("acme", acme()).await?);
        site.edit("acme", json!({"enabled": false})).await?;
        is_deployed_and_in_sync(&site.ready("acme").await?);
        assert_eq!(site.live("acme")?["enabled"], false);
        let past = site.past("acme").await?;
        assert_eq!(words(&past, "Ready"), ["False/Creating", "True/Deployed"]);
        site.edit("acme", json!({"enabled": true})).await?;
        is_deployed_and_in_sync(&site.ready("acme").await?);

        // Only the edits had to read it.
        let update = "UpdateDistributionTenant";
        assert_eq!(site.done()?, ["CreateDistributionTenant", update, update]);
        assert_eq!(site.count("GetDistributionTenant")?, 2);

        site.start().await?;
        is_deployed_and_in_sync(&site.ready("acme").await?);
        site.removes("acme").await?;
        assert!(site.live("acme")?.is_null());
        Ok(())
    })
}

#[test]
fn all_that_belongs_to_a_tenant_comes_true_though_nothing_takes_time() -> Result<()> {
    tell(USUAL, async |site| {
        aws_is_quick(site)?;
        let cluster = site.cluster_wide();
        declare::<ConnectionGroup>(&cluster, "edge", &json!({})).await?;
        let group = cluster.until::<ConnectionGroup>("edge", is("Ready", "Deployed"));
        let group = group.await?.status.unwrap_or_default();
        let endpoint = group.routing_endpoint.unwrap_or_default();
        let through_edge = json!({"connectionGroupRef": {"name": "edge"}});
        let spec = with(acme_with_dns(), through_edge);
        is_deployed_and_in_sync(&site.makes("acme", spec).await?);
        let records = |names: &[&str]| site.records_to("acme", names, 300, &endpoint);
        assert_eq!(site.zone("Z1")?, records(&["a.example.com"]));

        // An edit: records of an added domain come first, those of a removed one go.
        let domains = serving(&["b.example.com", "c.example.com"]);
        site.edit("acme", domains).await?;
        is_deployed_and_in_sync(&site.ready("acme").await?);
        let both = records(&["b.example.com", "c.example.com"]);
        site.zone_has("Z1", both).await?;

        let paths = json!({
            "tenantRef": {"name": "acme"}, "paths": ["/*"], "ttlSecondsAfterFinished": 86_400,
        });
        declare::<Invalidation>(site, "all", &paths).await?;
        site.until::<Invalidation>("all", is("Ready", "Completed"))
            .await?;
        change_of_group(site).await?;

        site.start().await?;
        site.stays_quiet(2).await?;
        is_deployed_and_in_sync(&site.ready("acme").await?);
        site.removes("acme").await?;
        cluster.delete::<ConnectionGroup>("edge").await?;
        cluster.gone::<ConnectionGroup>("edge").await?;
        assert_eq!(site.zone("Z1")?, Zone::new());
        Ok(())
    })
}

/// The group is changed, too.
async fn change_of_group(site: &Site) -> Result<()> {
    let cluster = site.cluster_wide();
    declare::<ConnectionGroup>(&cluster, "edge", &json!({"ipv6Enabled": false})).await?;
    let group = cluster.until::<ConnectionGroup>("edge", is("Ready", "Deployed"));
    let group = group.await?.status.unwrap_or_default();
    assert_eq!(word(&group.conditions, "Synced"), "True/InSync");
    assert_eq!(site.live_group("edge")?["ipv6"], false);
    Ok(())
}
