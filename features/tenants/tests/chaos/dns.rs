//! The operator dies, or Route 53's answer is lost, around a batch: every name has one record and one
//! owner in the end, or none of both.

use crate::crashes::At::Point;
use crate::stories::cloud::{D0, Fault};
use crate::stories::objects::{acme, acme_with_dns, in_z1, serving, with};
use crate::stories::zone::Zone;
use crate::stories::{Site, USUAL, tell};
use rstest::rstest;
use serde_json::{Value, json};
use testkit::{Result, is};

const BOTH: [&str; 2] = ["a.example.com", "b.example.com"];

/// What an edit does to the records of a tenant with both domains in Z1.
#[derive(Debug, Clone, Copy)]
enum Edit {
    /// Another ttl.
    Ttl,
    /// One more domain.
    Added,
    /// One domain less.
    Removed,
    /// Another zone.
    Moved,
    /// No DNS any more.
    Ended,
    /// Another group.
    Repointed,
}

impl Edit {
    fn change(self) -> Value {
        match self {
            Self::Ttl => json!({"dns": {"ttl": 600}}),
            Self::Added => {
                let more = ["a.example.com", "b.example.com", "c.example.com"];
                json!({"domains": serving(&more)["domains"]})
            }
            Self::Removed => json!({"domains": acme()["domains"]}),
            Self::Moved => json!({"dns": {"hostedZoneId": "Z2"}}),
            Self::Ended => json!({"dns": null}),
            Self::Repointed => json!({"connectionGroupId": "cg1"}),
        }
    }

    /// What Z1 and Z2 have in the end.
    fn zones(self, site: &Site) -> [Zone; 2] {
        let all = ["a.example.com", "b.example.com", "c.example.com"];
        let of = |names: &[&str]| site.records_of("acme", names);
        match self {
            Self::Ttl => [site.records_to("acme", &BOTH, 600, D0), Zone::new()],
            Self::Added => [of(&all), Zone::new()],
            Self::Removed => [of(&BOTH[..1]), Zone::new()],
            Self::Moved => [Zone::new(), of(&BOTH)],
            Self::Ended => [Zone::new(), Zone::new()],
            Self::Repointed => {
                let moved = site.records_to("acme", &BOTH, 300, "d1.cloudfront.net");
                [moved, Zone::new()]
            }
        }
    }
}

/// A tenant with both domains in Z1, ready.
async fn begun(site: &Site) -> Result<()> {
    site.seeds_group("cg1", "d1.cloudfront.net")?;
    site.seeds_zone("Z2", "example.com")?;
    let spec = with(serving(&BOTH), in_z1());
    site.makes("acme", spec).await.map(drop)
}

/// The zones come to be as they should, the tenant says so, and at its end nothing is left.
async fn ends_well(site: &Site, edit: Edit) -> Result<()> {
    let [first, second] = edit.zones(site);
    site.zone_has("Z2", second).await?;
    site.zone_has("Z1", first).await?;
    site.accepted("acme", 2).await?;
    let settled = match edit {
        Edit::Ended => is("DNSReady", "DNSNotConfigured"),
        Edit::Ttl | Edit::Added | Edit::Removed | Edit::Moved | Edit::Repointed => {
            is("DNSReady", "DNSReady")
        }
    };
    site.sees("acme", settled).await?;
    site.removes("acme").await?;
    assert_eq!(site.zone("Z1")?, Zone::new());
    assert_eq!(site.zone("Z2")?, Zone::new());
    Ok(())
}

#[rstest]
fn a_crash_around_a_batch_leaves_each_name_as_declared(
    #[values(
        Edit::Ttl,
        Edit::Added,
        Edit::Removed,
        Edit::Moved,
        Edit::Ended,
        Edit::Repointed
    )]
    edit: Edit,
    #[values("tenants-before-batch", "tenants-after-batch")] point: &'static str,
) -> Result<()> {
    tell(USUAL, async |site| {
        begun(site).await?;
        site.doom(Point(point)).await?;
        site.edit("acme", edit.change()).await?;
        site.revive().await?;
        ends_well(site, edit).await
    })
}

#[rstest]
#[case::before_the_old_ones_go("tenants-before-batch#2")]
#[case::after_the_old_ones_went("tenants-after-batch#2")]
fn a_crash_between_two_zones_loses_no_record(#[case] point: &'static str) -> Result<()> {
    tell(USUAL, async |site| {
        begun(site).await?;
        site.doom(Point(point)).await?;
        site.edit("acme", Edit::Moved.change()).await?;
        site.died().await?;
        // At every moment a zone has them.
        let [_, second] = Edit::Moved.zones(site);
        assert_eq!(site.zone("Z2")?, second);
        site.start().await?;
        ends_well(site, Edit::Moved).await
    })
}

#[rstest]
#[case::ttl(Edit::Ttl)]
#[case::added(Edit::Added)]
#[case::removed(Edit::Removed)]
#[case::moved(Edit::Moved)]
#[case::ended(Edit::Ended)]
#[case::repointed(Edit::Repointed)]
fn answers_of_route_53_that_are_lost_change_nothing_in_the_end(#[case] edit: Edit) -> Result<()> {
    tell(USUAL, async |site| {
        begun(site).await?;
        site.breaks_once("ChangeResourceRecordSets", Fault::CutAfter)?;
        site.breaks_once("ChangeResourceRecordSets", Fault::CutBefore)?;
        site.breaks_once("GetChange", Fault::CutBefore)?;
        site.breaks_once("ListResourceRecordSets", Fault::CutBefore)?;
        site.edit("acme", edit.change()).await?;
        ends_well(site, edit).await
    })
}

#[test]
fn what_others_put_in_the_way_while_nobody_ran_is_theirs() -> Result<()> {
    tell(USUAL, async |site| {
        site.doom(Point("tenants-before-batch")).await?;
        site.declare("acme", acme_with_dns()).await?;
        site.died().await?;
        // It was planned, and not written: somebody else was quicker.
        let elsewhere = "elsewhere.example.net";
        site.puts_cname("Z1", "a.example.com", 300, elsewhere)?;
        let theirs = site.zone("Z1")?;
        site.start().await?;
        site.sees("acme", is("DNSReady", "DNSConflict")).await?;
        assert_eq!(site.zone("Z1")?, theirs);
        site.removes("acme").await?;
        assert_eq!(site.zone("Z1")?, theirs);
        Ok(())
    })
}

#[test]
fn a_batch_of_many_is_cut_off_and_each_gets_its_records_once() -> Result<()> {
    tell(USUAL, async |site| {
        let count = 15;
        site.breaks_once("ChangeResourceRecordSets", Fault::CutAfter)?;
        for n in 0..count {
            let spec = serving(&[&format!("n{n}.example.com")]);
            site.declare(&format!("acme-{n}"), with(spec, in_z1()))
                .await?;
        }
        for n in 0..count {
            site.ready(&format!("acme-{n}")).await?;
        }
        let wanted = (0..count)
            .flat_map(|n| site.records_of(&format!("acme-{n}"), &[&format!("n{n}.example.com")]));
        assert_eq!(site.zone("Z1")?, wanted.collect::<Zone>());
        assert_eq!(site.live_tenants()?.len(), count);
        Ok(())
    })
}
