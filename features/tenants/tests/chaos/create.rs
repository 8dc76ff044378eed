//! The operator dies, or an answer is lost, while a tenant is made: there is one in the end, with its
//! records, and nothing is left when it goes.

use std::time::Duration;

use crate::crashes::At::{self, Object, Point, Status};
use crate::crashes::When::{After, Before};
use crate::stories::cloud::Fault;
use crate::stories::objects::{acme, acme_with_dns, serving};
use crate::stories::zone::Zone;
use crate::stories::{Plan, Site, USUAL, tell};
use api::tenants::DistributionTenant;
use kube::ResourceExt;
use rstest::rstest;
use serde_json::json;
use testkit::{Result, eventually_within, is};

/// The tenant acme is there once, is the object's own, and has its records.
async fn is_made_once(site: &Site) -> Result<()> {
    let status = site.ready("acme").await?;
    let live = site.live_tenants()?;
    let names: Vec<_> = live.keys().collect();
    assert_eq!(names, ["acme"]);
    assert_eq!(live["acme"]["id"], json!(status.id));
    assert_eq!(
        site.zone("Z1")?,
        site.records_of("acme", &["a.example.com"])
    );
    Ok(())
}

/// It goes, and nothing is left of it.
async fn goes_for_good(site: &Site) -> Result<()> {
    site.removes("acme").await?;
    assert!(site.live_tenants()?.is_empty());
    assert_eq!(site.zone("Z1")?, Zone::new());
    Ok(())
}

#[rstest]
#[case::before_the_finalizer(Object(Before))]
#[case::after_the_finalizer(Object(After))]
#[case::before_the_plan(Status(Before, 1))]
#[case::after_the_plan(Status(After, 1))]
#[case::before_the_records(Point("tenants-before-batch"))]
#[case::after_the_records(Point("tenants-after-batch"))]
#[case::before_the_second_word(Status(Before, 2))]
#[case::after_the_second_word(Status(After, 2))]
#[case::before_the_third_word(Status(Before, 3))]
#[case::after_the_third_word(Status(After, 3))]
#[case::before_the_create(Point("tenants-before-create"))]
#[case::after_the_create(Point("tenants-after-create"))]
#[case::before_the_fourth_word(Status(Before, 4))]
#[case::after_the_fourth_word(Status(After, 4))]
#[case::before_a_pass_ends(Point("tenants-before-status#2"))]
#[case::after_a_pass_ended(Point("tenants-after-status#3"))]
fn a_crash_on_the_way_makes_one_tenant_with_its_records(#[case] at: At) -> Result<()> {
    tell(USUAL, async |site| {
        site.doom(at).await?;
        site.declare("acme", acme_with_dns()).await?;
        site.revive().await?;
        is_made_once(site).await?;
        goes_for_good(site).await
    })
}

#[test]
fn a_tenant_that_a_crash_left_unrecorded_is_adopted() -> Result<()> {
    tell(USUAL, async |site| {
        site.doom(Point("tenants-after-create")).await?;
        site.declare("acme", acme()).await?;
        site.died().await?;
        let live = site.live("acme")?;
        assert!(!live.is_null());
        assert_eq!(site.status("acme").await?.id, None);
        site.start().await?;
        let status = site.ready("acme").await?;
        assert_eq!(live["id"], json!(status.id));
        site.event("acme", "Adopted").await?;
        assert_eq!(site.live_tenants()?.len(), 1);
        goes_for_good(site).await
    })
}

#[rstest]
#[case::made("tenants-after-create")]
#[case::wished("tenants-before-create")]
fn an_object_that_is_deleted_while_nobody_runs_leaves_nothing(
    #[case] point: &'static str,
) -> Result<()> {
    tell(USUAL, async |site| {
        site.doom(Point(point)).await?;
        site.declare("acme", acme_with_dns()).await?;
        site.died().await?;
        site.delete::<DistributionTenant>("acme").await?;
        site.start().await?;
        site.gone::<DistributionTenant>("acme").await?;
        assert!(site.live_tenants()?.is_empty());
        assert_eq!(site.zone("Z1")?, Zone::new());
        Ok(())
    })
}

#[test]
fn an_edit_made_while_nobody_runs_reaches_the_tenant_that_was_made() -> Result<()> {
    tell(USUAL, async |site| {
        site.doom(Point("tenants-after-create")).await?;
        site.declare("acme", acme()).await?;
        site.died().await?;
        let both = ["a.example.com", "b.example.com"];
        site.edit("acme", serving(&both)).await?;
        site.start().await?;
        site.accepted("acme", 2).await?;
        site.ready("acme").await?;
        assert_eq!(site.domains("acme")?, both);
        assert_eq!(site.live_tenants()?.len(), 1);
        goes_for_good(site).await
    })
}

/// What is asked on the way to a tenant with DNS.
#[rstest]
#[case::create("CreateDistributionTenant")]
#[case::get("GetDistributionTenant")]
#[case::list("ListDistributionTenants")]
#[case::distribution("GetDistribution")]
#[case::groups("ListConnectionGroups")]
#[case::certificate("DescribeCertificate")]
#[case::zone("GetHostedZone")]
#[case::batch("ChangeResourceRecordSets")]
#[case::change("GetChange")]
fn answers_that_are_lost_make_one_tenant_with_its_records(
    #[case] operation: &'static str,
) -> Result<()> {
    tell(USUAL, async |site| {
        // First a request that never arrives, then one whose answer is lost.
        site.breaks_once(operation, Fault::CutBefore)?;
        site.breaks_once(operation, Fault::CutAfter)?;
        site.declare("acme", acme_with_dns()).await?;
        is_made_once(site).await?;
        site.mends()?;
        goes_for_good(site).await
    })
}

/// A Lease that is lost within seconds.
const TWO_REPLICAS: Plan = Plan {
    pace: 60,
    args: &[
        "--tenants-sweep-interval=30s",
        "--lease-duration=3s",
        "--lease-renew-deadline=2s",
        "--lease-retry-period=500ms",
    ],
};

#[test]
fn a_second_replica_takes_over_and_makes_nothing_twice() -> Result<()> {
    tell(TWO_REPLICAS, async |site| {
        let count = 12;
        let replica = site.replica("b").await?;
        for n in 0..count {
            let spec = serving(&[&format!("n{n}.example.com")]);
            site.declare(&format!("acme-{n}"), spec).await?;
        }
        // In the middle of it.
        site.called("CreateDistributionTenant", count / 2).await?;
        site.world.operator().kill();
        let all = Duration::from_secs(60);
        eventually_within(all, "the other one goes on", async || {
            Ok((site.live_tenants()?.len() == count).then_some(()))
        })
        .await?;
        for n in 0..count {
            let name = format!("acme-{n}");
            let ready = is("Ready", "Deployed");
            let tenant = site.until::<DistributionTenant>(&name, ready).await?;
            let id = tenant.status.and_then(|status| status.id);
            assert_eq!(site.live(&name)?["id"], json!(id));
        }
        let made = site.calls("CreateDistributionTenant")?;
        let made = made.iter().filter(|call| call.is_ok());
        assert_eq!(made.count(), count);
        drop(replica);
        Ok(())
    })
}

#[test]
fn a_finalizer_that_was_set_before_the_crash_is_not_set_twice() -> Result<()> {
    tell(USUAL, async |site| {
        site.doom(Object(After)).await?;
        site.declare("acme", acme()).await?;
        site.died().await?;
        let tenant = site.tenant("acme").await?;
        assert_eq!(tenant.finalizers().len(), 1);
        site.start().await?;
        site.ready("acme").await?;
        assert_eq!(site.tenant("acme").await?.finalizers().len(), 1);
        Ok(())
    })
}
