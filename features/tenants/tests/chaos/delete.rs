//! The operator dies, or an answer is lost, while a tenant goes: nothing of it is left, and nothing of
//! others is touched.

use crate::crashes::At::{self, Object, Point, Status};
use crate::crashes::When::{After, Before};
use crate::stories::calls::Call;
use crate::stories::cloud::Fault;
use crate::stories::objects::{acme, acme_with_dns, declare, serving, with};
use crate::stories::zone::{Zone, cname};
use crate::stories::{Site, USUAL, tell};
use api::tenants::{ConnectionGroup, DistributionTenant};
use rstest::rstest;
use serde_json::json;
use testkit::{Result, is};

/// Somebody's record that has nothing to do with it.
const THEIRS: (&str, &str) = ("www.example.com", "elsewhere.example.net");

async fn begun(site: &Site) -> Result<()> {
    site.puts_cname("Z1", THEIRS.0, 300, THEIRS.1)?;
    site.makes("acme", acme_with_dns()).await?;
    site.makes("beside", serving(&["b.example.com"])).await?;
    Ok(())
}

/// Of acme nothing is left, and all else is as it was.
async fn is_gone(site: &Site) -> Result<()> {
    site.gone::<DistributionTenant>("acme").await?;
    let live: Vec<_> = site.live_tenants()?.into_keys().collect();
    assert_eq!(live, ["beside"]);
    let theirs = Zone::from([cname(THEIRS.0, 300, THEIRS.1)]);
    assert_eq!(site.zone("Z1")?, theirs);
    Ok(())
}

#[rstest]
#[case::before_it_is_switched_off(Point("tenants-before-update"))]
#[case::after_it_is_switched_off(Point("tenants-after-update"))]
#[case::before_that_is_told(Status(Before, 1))]
#[case::after_that_is_told(Status(After, 1))]
#[case::before_the_delete(Point("tenants-before-delete"))]
#[case::after_the_delete(Point("tenants-after-delete"))]
#[case::before_the_records(Point("tenants-before-batch"))]
#[case::after_the_records(Point("tenants-after-batch"))]
#[case::before_the_finalizer(Object(Before))]
#[case::after_the_finalizer(Object(After))]
fn a_crash_on_the_way_leaves_nothing(#[case] at: At) -> Result<()> {
    tell(USUAL, async |site| {
        begun(site).await?;
        site.doom(at).await?;
        site.delete::<DistributionTenant>("acme").await?;
        site.revive().await?;
        is_gone(site).await?;
        let mut deleted = site.calls("DeleteDistributionTenant")?;
        deleted.retain(Call::is_ok);
        assert!(deleted.len() <= 1, "{deleted:#?}");
        Ok(())
    })
}

#[rstest]
#[case::update("UpdateDistributionTenant")]
#[case::delete("DeleteDistributionTenant")]
#[case::get("GetDistributionTenant")]
#[case::tags("ListTagsForResource")]
#[case::batch("ChangeResourceRecordSets")]
#[case::change("GetChange")]
#[case::records("ListResourceRecordSets")]
fn answers_that_are_lost_leave_nothing(#[case] operation: &'static str) -> Result<()> {
    tell(USUAL, async |site| {
        begun(site).await?;
        site.breaks_once(operation, Fault::CutBefore)?;
        site.breaks_once(operation, Fault::CutAfter)?;
        site.delete::<DistributionTenant>("acme").await?;
        is_gone(site).await
    })
}

#[test]
fn what_others_made_under_its_name_meanwhile_is_theirs() -> Result<()> {
    tell(USUAL, async |site| {
        begun(site).await?;
        site.doom(Point("tenants-after-delete")).await?;
        site.delete::<DistributionTenant>("acme").await?;
        site.died().await?;
        // It is gone from CloudFront, and the object does not know it yet.
        assert!(site.live("acme")?.is_null());
        let theirs = json!({"name": "acme", "distribution": "E1", "domains": ["c.example.com"]});
        let theirs = site.seeds_tenant(theirs)?;
        site.start().await?;
        site.gone::<DistributionTenant>("acme").await?;
        assert_eq!(site.live("acme")?["etag"], theirs["etag"]);
        Ok(())
    })
}

#[test]
fn what_is_declared_again_after_a_crash_is_made_anew() -> Result<()> {
    tell(USUAL, async |site| {
        let first = site.makes("acme", acme_with_dns()).await?;
        site.doom(Point("tenants-after-delete")).await?;
        site.delete::<DistributionTenant>("acme").await?;
        site.revive().await?;
        site.gone::<DistributionTenant>("acme").await?;
        let second = site.makes("acme", acme_with_dns()).await?;
        assert_ne!(first.id, second.id);
        assert_eq!(
            site.zone("Z1")?,
            site.records_of("acme", &["a.example.com"])
        );
        Ok(())
    })
}

#[test]
fn a_group_goes_once_though_answers_are_lost() -> Result<()> {
    tell(USUAL, async |site| {
        let cluster = site.cluster_wide();
        declare::<ConnectionGroup>(&cluster, "edge", &json!({})).await?;
        let ready = is("Ready", "Deployed");
        cluster.until::<ConnectionGroup>("edge", ready).await?;
        let through = json!({"connectionGroupRef": {"name": "edge"}});
        site.makes("acme", with(acme(), through)).await?;
        for operation in ["UpdateConnectionGroup", "DeleteConnectionGroup"] {
            site.breaks_once(operation, Fault::CutAfter)?;
        }
        cluster.delete::<ConnectionGroup>("edge").await?;
        site.removes("acme").await?;
        cluster.gone::<ConnectionGroup>("edge").await?;
        assert!(site.live_group("edge")?.is_null());
        Ok(())
    })
}

#[test]
fn a_group_is_made_once_though_the_answer_is_lost() -> Result<()> {
    tell(USUAL, async |site| {
        site.breaks_once("CreateConnectionGroup", Fault::CutAfter)?;
        let cluster = site.cluster_wide();
        declare::<ConnectionGroup>(&cluster, "edge", &json!({})).await?;
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
