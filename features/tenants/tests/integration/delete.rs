//! A tenant goes: switched off, deployed, deleted, its records after it, and then the object.

use crate::stories::calls::are_apart;
use crate::stories::cloud::{BROKEN, DENIED, Fault, STALE};
use crate::stories::objects::{acme, acme_with_dns, in_z1, said, serving, with, word, words};
use crate::stories::zone::Zone;
use crate::stories::{Site, USUAL, tell};
use api::tenants::{DistributionTenant, names};
use kube::ResourceExt;
use serde_json::json;
use testkit::{Result, eventually, is};

/// Where the operations of a tenant's end stand in the log, each the first time.
fn places(site: &Site, wanted: &[&str]) -> Result<Vec<usize>> {
    let done = site.done()?;
    let place = |name: &&str| done.iter().position(|one| one == name);
    let places: Vec<_> = wanted.iter().filter_map(place).collect();
    assert_eq!(places.len(), wanted.len(), "{done:?}");
    Ok(places)
}

#[test]
fn a_tenant_is_switched_off_then_deleted_and_its_records_go_last() -> Result<()> {
    tell(USUAL, async |site| {
        site.puts_cname("Z1", "www.example.com", 300, "elsewhere.example.net")?;
        let before = site.zone("Z1")?;
        site.makes("acme", acme_with_dns()).await?;
        let records = site.batches()?.len();
        site.holds_deployments()?;
        site.delete::<DistributionTenant>("acme").await?;
        let status = site.sees("acme", is("Ready", "Disabling")).await?;
        assert_eq!(word(&status.conditions, "Ready"), "False/Disabling");
        assert_eq!(site.live("acme")?["enabled"], false);
        site.sweeps(2).await?;
        assert_eq!(site.count("DeleteDistributionTenant")?, 0);

        site.deploys("acme")?;
        site.gone::<DistributionTenant>("acme").await?;
        assert!(site.live("acme")?.is_null());
        assert_eq!(site.zone("Z1")?, before);
        let order = ["UpdateDistributionTenant", "DeleteDistributionTenant"];
        assert!(places(site, &order)?.is_sorted());
        let deleted = site.calls("DeleteDistributionTenant")?;
        let batches = site.batches()?;
        let after = &batches[records..];
        assert!(!after.is_empty());
        for batch in after {
            assert!(batch.seq > deleted[0].seq, "{batch:#?}");
            let changes = batch.changes();
            let deletes = |one: &String| one.starts_with("DELETE ");
            assert!(changes.iter().all(deletes), "{changes:?}");
        }
        for reason in ["Disabling", "Deleted", "DNSCleaned"] {
            site.event("acme", reason).await?;
        }
        Ok(())
    })
}

#[test]
fn what_was_never_asked_for_goes_though_aws_is_away() -> Result<()> {
    tell(USUAL, async |site| {
        // CloudFront takes no name of two letters.
        site.declare("ab", acme_with_dns()).await?;
        site.sees("ab", is("Ready", "ValidationFailed")).await?;
        site.fault(json!({}), Fault::CutBefore)?;
        site.removes("ab").await?;
        assert_eq!(site.done()?, [""; 0]);
        Ok(())
    })
}

#[test]
fn a_tenant_that_others_deleted_leaves_no_records() -> Result<()> {
    tell(USUAL, async |site| {
        site.makes("acme", acme_with_dns()).await?;
        site.console("cloudfront", json!({"delete": "acme"}))?;
        site.removes("acme").await?;
        assert_eq!(site.zone("Z1")?, Zone::new());
        assert_eq!(site.count("CreateDistributionTenant")?, 1);
        Ok(())
    })
}

#[test]
fn a_delete_that_comes_too_early_for_aws_is_tried_again() -> Result<()> {
    tell(USUAL, async |site| {
        site.makes("acme", acme()).await?;
        let early = Fault::Refused(409, "ResourceNotDisabled");
        site.breaks_once("DeleteDistributionTenant", early)?;
        site.removes("acme").await?;
        assert!(site.live("acme")?.is_null());
        let deletes = site.calls("DeleteDistributionTenant")?;
        assert_eq!(deletes.len(), 2, "{deletes:#?}");
        assert_eq!(site.metric("reconcile_errors_total", &[]).await?, 0);
        Ok(())
    })
}

#[test]
fn a_tenant_that_is_switched_on_while_it_goes_is_switched_off_again() -> Result<()> {
    tell(USUAL, async |site| {
        site.makes("acme", acme()).await?;
        site.holds_deployments()?;
        site.delete::<DistributionTenant>("acme").await?;
        site.until_live("acme", |live| live["enabled"] == false)
            .await?;
        site.frees_deployments()?;
        site.edits_tenant("acme", json!({"enabled": true}))?;
        site.gone::<DistributionTenant>("acme").await?;
        assert!(site.live("acme")?.is_null());
        assert_eq!(site.count("UpdateDistributionTenant")?, 2);
        Ok(())
    })
}

#[test]
fn old_versions_on_the_way_are_read_again_and_are_no_errors() -> Result<()> {
    tell(USUAL, async |site| {
        site.makes("acme", acme()).await?;
        site.breaks_once("UpdateDistributionTenant", STALE)?;
        site.breaks_once("DeleteDistributionTenant", STALE)?;
        site.removes("acme").await?;
        assert!(site.live("acme")?.is_null());
        assert_eq!(site.metric("reconcile_errors_total", &[]).await?, 0);
        Ok(())
    })
}

#[test]
fn a_spec_that_became_invalid_does_not_hold_up_the_end() -> Result<()> {
    tell(USUAL, async |site| {
        let golden = json!({"parameters": [{"name": "tier", "value": "gold"}]});
        site.makes("acme", with(acme(), golden)).await?;
        site.edit("acme", json!({"distributionId": "E9", "parameters": null}))
            .await?;
        site.sees("acme", is("Ready", "ValidationFailed")).await?;
        site.removes("acme").await?;
        // Switched off as it was live, not as the spec would have it.
        let updates = site.calls("UpdateDistributionTenant")?;
        let [off] = updates.as_slice() else {
            panic!("{updates:#?}");
        };
        assert_eq!(off.texts("DistributionId"), ["E1"]);
        assert_eq!(off.texts("Enabled"), ["false"]);
        assert_eq!(off.texts("Name"), ["tier"]);
        Ok(())
    })
}

#[test]
fn what_may_not_be_deleted_waits_says_for_what_and_goes_when_it_may() -> Result<()> {
    tell(USUAL, async |site| {
        site.makes("acme", acme_with_dns()).await?;
        site.breaks("DeleteDistributionTenant", DENIED)?;
        site.delete::<DistributionTenant>("acme").await?;
        let status = site.sees("acme", is("Ready", "AccessDenied")).await?;
        let message = said(&status.conditions, "Ready");
        let action = "DeleteDistributionTenant";
        assert!(message.contains(action), "{message}");
        let tenant = site.tenant("acme").await?;
        assert!(!tenant.finalizers().is_empty());
        // Its records outlive it no longer than they have to, but never go before it.
        assert_eq!(
            site.zone("Z1")?,
            site.records_of("acme", &["a.example.com"])
        );
        site.mends()?;
        site.gone::<DistributionTenant>("acme").await?;
        assert_eq!(site.zone("Z1")?, Zone::new());
        Ok(())
    })
}

#[test]
fn aws_that_is_away_is_waited_for() -> Result<()> {
    tell(USUAL, async |site| {
        site.makes("acme", acme()).await?;
        site.fault(json!({}), Fault::CutBefore)?;
        site.delete::<DistributionTenant>("acme").await?;
        let status = site.sees("acme", is("Ready", "AWSError")).await?;
        assert_eq!(word(&status.conditions, "Ready"), "False/AWSError");
        site.mends()?;
        site.gone::<DistributionTenant>("acme").await?;
        assert!(site.live("acme")?.is_null());
        Ok(())
    })
}

#[test]
fn what_is_retained_stays_as_it_is_and_is_named() -> Result<()> {
    tell(USUAL, async |site| {
        let spec = with(acme_with_dns(), json!({"deletionPolicy": "Retain"}));
        let status = site.makes("acme", spec).await?;
        site.sweeps(1).await?;
        let (tenant, zone) = (site.live("acme")?, site.zone("Z1")?);
        let mark = site.mark()?;
        site.removes("acme").await?;
        let note = site.event("acme", "Retained").await?;
        let id = status.id.unwrap_or_default();
        assert!(note.contains(&id), "{note}");
        assert!(note.contains("a.example.com"), "{note}");
        assert_eq!(site.live("acme")?, tenant);
        assert_eq!(site.zone("Z1")?, zone);
        assert_eq!(site.done_since(mark)?, [""; 0]);
        site.retains(&["acme", "a.example.com", "_pontoon-owner.a.example.com"]);
        Ok(())
    })
}

#[test]
fn one_may_still_be_retained_while_it_terminates() -> Result<()> {
    tell(USUAL, async |site| {
        let status = site.makes("acme", acme()).await?;
        site.breaks("UpdateDistributionTenant", DENIED)?;
        site.delete::<DistributionTenant>("acme").await?;
        site.sees("acme", is("Ready", "AccessDenied")).await?;
        site.edit("acme", json!({"deletionPolicy": "Retain"}))
            .await?;
        site.gone::<DistributionTenant>("acme").await?;
        let note = site.event("acme", "Retained").await?;
        assert!(note.contains(&status.id.unwrap_or_default()), "{note}");
        assert_eq!(site.live("acme")?["enabled"], true);
        site.retains(&["acme"]);
        Ok(())
    })
}

#[test]
fn ours_is_not_what_another_cluster_marked_meanwhile() -> Result<()> {
    tell(USUAL, async |site| {
        site.makes("acme", acme()).await?;
        let tags = json!({names::CLUSTER_TAG: "another", names::OBJECT_TAG: "web/acme"});
        site.edits_tenant("acme", json!({"tags": tags}))?;
        let mark = site.mark()?;
        site.removes("acme").await?;
        let note = site.event("acme", "OwnershipLost").await?;
        assert!(note.contains("another/web/acme"), "{note}");
        assert_eq!(site.live("acme")?["enabled"], true);
        assert_eq!(site.done_since(mark)?, [""; 0]);
        Ok(())
    })
}

#[test]
fn a_tenant_that_goes_before_it_is_deployed_goes_all_the_same() -> Result<()> {
    tell(USUAL, async |site| {
        site.holds_deployments()?;
        let both = with(serving(&["a.example.com", "b.example.com"]), in_z1());
        site.declare("acme", both).await?;
        site.made("acme").await?;
        site.delete::<DistributionTenant>("acme").await?;
        eventually("it is switched off", async || {
            Ok((site.live("acme")?["enabled"] == false).then_some(()))
        })
        .await?;
        site.deploys("acme")?;
        site.gone::<DistributionTenant>("acme").await?;
        assert_eq!(site.zone("Z1")?, Zone::new());
        let past = words(&site.past("acme").await?, "Ready");
        let last = past.last().map(String::as_str).unwrap_or_default();
        assert!(
            ["False/Disabling", "False/Deleting"].contains(&last),
            "{past:?}"
        );
        Ok(())
    })
}

#[test]
fn one_that_cloudfront_does_not_show_yet_is_looked_for_until_it_does() -> Result<()> {
    tell(USUAL, async |site| {
        // It is made and nobody hears of it; reads are a minute and a half behind.
        site.switch("cloudfront", json!({"readLag": 90}))?;
        site.breaks_once("CreateDistributionTenant", Fault::CutAfter)?;
        site.declare("acme", acme()).await?;
        site.called("CreateDistributionTenant", 1).await?;
        site.removes("acme").await?;
        assert!(site.live("acme")?.is_null());
        Ok(())
    })
}

#[test]
fn an_end_that_aws_fails_at_is_tried_ever_more_slowly() -> Result<()> {
    tell(USUAL, async |site| {
        site.makes("acme", acme()).await?;
        site.breaks("UpdateDistributionTenant", BROKEN)?;
        site.delete::<DistributionTenant>("acme").await?;
        site.called("UpdateDistributionTenant", 4).await?;
        let calls = site.calls("UpdateDistributionTenant")?;
        let pauses: Vec<i64> = calls.windows(2).map(|two| two[1].after(&two[0])).collect();
        assert!(pauses.iter().all(|pause| *pause >= 1), "{pauses:?}");
        site.mends()?;
        site.removes("acme").await
    })
}

#[test]
fn a_group_that_is_gone_is_not_taken_for_the_tenant() -> Result<()> {
    tell(USUAL, async |site| {
        site.seeds_group("cg1", "d1.cloudfront.net")?;
        let spec = with(acme(), json!({"connectionGroupId": "cg1"}));
        site.makes("acme", spec).await?;
        site.console("cloudfront", json!({"deleteGroup": "cg1"}))?;
        site.delete::<DistributionTenant>("acme").await?;
        site.sees("acme", is("Ready", "InvalidSpec")).await?;
        assert_eq!(site.live("acme")?["enabled"], true);
        site.counts_each("UpdateDistributionTenant", "connection_group_not_found")
            .await?;
        are_apart(&site.calls("UpdateDistributionTenant")?, 240);
        site.seeds_group("cg1", "d1.cloudfront.net")?;
        site.gone::<DistributionTenant>("acme").await?;
        assert!(site.live("acme")?.is_null());
        Ok(())
    })
}
