//! DNS is edited: by itself, with its tenant, while it is on its way, and at its end.

mod stories;

use api::tenants::DistributionTenant;
use serde_json::{Value, json};
use stories::calls::Call;
use stories::cloud::{D0, DENIED};
use stories::objects::{acme, acme_with_dns, in_z1, serving, with, word, words};
use stories::zone::{Zone, cname};
use stories::{USUAL, tell};
use testkit::{Result, is};

const BOTH: [&str; 2] = ["a.example.com", "b.example.com"];

/// Two domains, both in Z1.
fn both() -> Value {
    with(serving(&BOTH), in_z1())
}

#[test]
fn a_removed_domain_keeps_its_record_until_the_tenant_is_deployed_without_it() -> Result<()> {
    tell(USUAL, async |site| {
        site.makes("acme", both()).await?;
        assert_eq!(site.zone("Z1")?, site.records_of("acme", &BOTH));
        let batches = site.batches()?.len();
        site.holds_deployments()?;
        site.edit("acme", acme()).await?;
        site.accepted("acme", 2).await?;
        assert_eq!(site.domains("acme")?, ["a.example.com"]);
        site.sweeps(2).await?;
        assert_eq!(site.zone("Z1")?, site.records_of("acme", &BOTH));

        site.deploys("acme")?;
        let wanted = site.records_of("acme", &["a.example.com"]);
        site.zone_has("Z1", wanted).await?;
        let changes: Vec<_> = site.batches()?[batches..]
            .iter()
            .flat_map(Call::changes)
            .collect();
        let gone = [
            "DELETE _pontoon-owner.b.example.com TXT",
            "DELETE b.example.com CNAME",
        ];
        assert_eq!(changes, gone);
        let forgotten = |one: &DistributionTenant| {
            let status = one.status.as_ref();
            status.is_some_and(|status| status.dns_records.len() == 1)
        };
        site.sees("acme", forgotten).await?;
        site.ready("acme").await?;
        Ok(())
    })
}

#[test]
fn an_added_domain_waits_for_its_record() -> Result<()> {
    tell(USUAL, async |site| {
        site.makes("acme", acme_with_dns()).await?;
        site.holds_dns()?;
        site.edit("acme", json!({"domains": serving(&BOTH)["domains"]}))
            .await?;
        site.sees("acme", is("DNSReady", "DNSPropagating")).await?;
        site.sweeps(2).await?;
        assert_eq!(site.count("UpdateDistributionTenant")?, 0);
        let status = site.status("acme").await?;
        assert!(word(&status.conditions, "Ready").starts_with("False/"));

        site.settles_dns()?;
        site.accepted("acme", 2).await?;
        site.ready("acme").await?;
        assert_eq!(site.domains("acme")?, BOTH);
        let done = [
            "ChangeResourceRecordSets",
            "CreateDistributionTenant",
            "ChangeResourceRecordSets",
            "UpdateDistributionTenant",
        ];
        assert_eq!(site.done()?, done);
        Ok(())
    })
}

#[test]
fn another_ttl_is_one_upsert_and_no_update() -> Result<()> {
    tell(USUAL, async |site| {
        site.makes("acme", acme_with_dns()).await?;
        let mark = site.mark()?;
        site.edit("acme", json!({"dns": {"ttl": 600}})).await?;
        let wanted = site.records_to("acme", &["a.example.com"], 600, D0);
        site.zone_has("Z1", wanted).await?;
        site.accepted("acme", 2).await?;
        site.ready("acme").await?;
        assert_eq!(site.done_since(mark)?, ["ChangeResourceRecordSets"]);
        let batch = site.batches()?.pop().expect("a batch");
        assert_eq!(batch.pointers(), ["UPSERT a.example.com CNAME"]);

        site.removes("acme").await?;
        assert_eq!(site.zone("Z1")?, Zone::new());
        Ok(())
    })
}

#[test]
fn dns_can_be_added_later_and_taken_away_again() -> Result<()> {
    tell(USUAL, async |site| {
        site.makes("acme", acme()).await?;
        site.declare("acme", acme_with_dns()).await?;
        let status = site.sees("acme", is("DNSReady", "DNSReady")).await?;
        assert_eq!(word(&status.conditions, "DNSReady"), "True/DNSReady");
        let records = site.records_of("acme", &["a.example.com"]);
        assert_eq!(site.zone("Z1")?, records);
        site.accepted("acme", 2).await?;

        site.declare("acme", acme()).await?;
        site.zone_has("Z1", Zone::new()).await?;
        site.accepted("acme", 3).await?;
        let cleared = |one: &DistributionTenant| {
            let status = one.status.as_ref();
            status.is_some_and(|status| status.dns_records.is_empty())
        };
        site.sees("acme", cleared).await?;
        site.sees("acme", is("DNSReady", "DNSNotConfigured"))
            .await?;
        assert_eq!(site.count("UpdateDistributionTenant")?, 0);
        Ok(())
    })
}

#[test]
fn who_retains_keeps_the_records_and_gives_up_only_their_owner() -> Result<()> {
    tell(USUAL, async |site| {
        let retained = json!({"deletionPolicy": "Retain"});
        site.makes("acme", with(acme_with_dns(), retained.clone()))
            .await?;
        site.declare("acme", with(acme(), retained)).await?;
        let pointer = cname("a.example.com", 300, D0);
        site.zone_has("Z1", Zone::from([pointer])).await?;
        site.sees("acme", is("DNSReady", "DNSNotConfigured"))
            .await?;
        site.retains(&["a.example.com"]);
        Ok(())
    })
}

#[test]
fn records_of_your_own_follow_ours_and_are_not_nothing() -> Result<()> {
    tell(USUAL, async |site| {
        site.makes("acme", acme_with_dns()).await?;
        site.declare("acme", with(acme(), json!({"dns": {"provider": "none"}})))
            .await?;
        site.zone_has("Z1", Zone::new()).await?;
        site.sees("acme", is("DNSReady", "RecordsRequired")).await?;
        let told = words(&site.past("acme").await?, "DNSReady");
        let none = "True/DNSNotConfigured".to_owned();
        assert!(!told.contains(&none), "{told:?}");
        Ok(())
    })
}

#[test]
fn one_that_goes_does_not_say_that_it_never_wanted_records() -> Result<()> {
    tell(USUAL, async |site| {
        site.makes("acme", acme_with_dns()).await?;
        site.removes("acme").await?;
        let told = words(&site.past("acme").await?, "DNSReady");
        let none = "True/DNSNotConfigured".to_owned();
        assert!(!told.contains(&none), "{told:?}");
        Ok(())
    })
}

#[test]
fn a_move_to_another_zone_is_complete_before_the_old_records_go() -> Result<()> {
    tell(USUAL, async |site| {
        site.seeds_zone("Z2", "example.com")?;
        site.makes("acme", acme_with_dns()).await?;
        let records = site.records_of("acme", &["a.example.com"]);
        site.holds_dns()?;
        site.edit("acme", json!({"dns": {"hostedZoneId": "Z2"}}))
            .await?;
        site.zone_has("Z2", records.clone()).await?;
        site.sweeps(2).await?;
        assert_eq!(site.zone("Z1")?, records);

        site.settles_dns()?;
        site.zone_has("Z1", Zone::new()).await?;
        assert_eq!(site.zone("Z2")?, records);
        site.settles_dns()?;
        site.sees("acme", is("DNSReady", "DNSReady")).await?;
        assert_eq!(site.count("UpdateDistributionTenant")?, 0);
        Ok(())
    })
}

#[test]
fn a_domain_added_while_records_are_on_their_way_gets_its_record_first() -> Result<()> {
    tell(USUAL, async |site| {
        site.holds_dns()?;
        site.declare("acme", acme_with_dns()).await?;
        site.sees("acme", is("DNSReady", "DNSPropagating")).await?;
        // One comes, another goes.
        let other = ["b.example.com"];
        site.edit("acme", json!({"domains": serving(&other)["domains"]}))
            .await?;
        site.zone_has("Z1", site.records_of("acme", &other)).await?;
        assert_eq!(site.count("CreateDistributionTenant")?, 0);

        site.switch("route53", json!({"insyncDelay": 5}))?;
        site.settles_dns()?;
        site.ready("acme").await?;
        assert_eq!(site.domains("acme")?, other);
        assert_eq!(site.zone("Z1")?, site.records_of("acme", &other));
        assert_eq!(site.count("CreateDistributionTenant")?, 1);
        Ok(())
    })
}

#[test]
fn a_change_that_route_53_forgot_is_submitted_anew() -> Result<()> {
    tell(USUAL, async |site| {
        site.holds_dns()?;
        site.declare("acme", acme_with_dns()).await?;
        let first = site.sees("acme", is("DNSReady", "DNSPropagating")).await?;
        site.console("route53", json!({"forgetChanges": true}))?;
        let another = |one: &DistributionTenant| {
            let status = one.status.clone().unwrap_or_default();
            status.dns_change_id.is_some() && status.dns_change_id != first.dns_change_id
        };
        site.sees("acme", another).await?;
        site.settles_dns()?;
        site.ready("acme").await?;
        let batches = site.batches()?;
        assert_eq!(batches.len(), 2, "{batches:#?}");
        assert_eq!(batches[1].pointers(), ["UPSERT a.example.com CNAME"]);
        let told = words(&site.past("acme").await?, "DNSReady");
        assert!(!told.iter().any(|one| one.contains("DNSError")), "{told:?}");
        Ok(())
    })
}

#[test]
fn an_object_that_goes_while_records_are_on_their_way_takes_them_along() -> Result<()> {
    tell(USUAL, async |site| {
        site.holds_dns()?;
        site.declare("acme", both()).await?;
        site.sees("acme", is("DNSReady", "DNSPropagating")).await?;
        site.removes("acme").await?;
        assert_eq!(site.zone("Z1")?, Zone::new());
        assert_eq!(site.count("CreateDistributionTenant")?, 0);
        Ok(())
    })
}

#[test]
fn an_edit_that_dns_holds_up_is_not_ready() -> Result<()> {
    tell(USUAL, async |site| {
        site.makes("acme", acme_with_dns()).await?;
        site.breaks("ChangeResourceRecordSets", DENIED)?;
        site.edit("acme", json!({"dns": {"ttl": 600}})).await?;
        let status = site.sees("acme", is("DNSReady", "DNSError")).await?;
        assert_eq!(word(&status.conditions, "Ready"), "False/DNSError");
        site.edit("acme", json!({"dns": {"ttl": 300}})).await?;
        let status = site.ready("acme").await?;
        assert_eq!(word(&status.conditions, "Ready"), "True/Deployed");
        Ok(())
    })
}

#[test]
fn one_bad_record_harms_no_other_object() -> Result<()> {
    tell(USUAL, async |site| {
        // Somebody's record stands where one of ten is to be.
        site.puts_cname("Z1", "n4.example.com", 300, "elsewhere.example.net")?;
        let name = |n: usize| format!("acme-{n}");
        for n in 0..10 {
            let spec = serving(&[&format!("n{n}.example.com")]);
            site.declare(&name(n), with(spec, in_z1())).await?;
        }
        for n in (0..10).filter(|n| *n != 4) {
            site.ready(&name(n)).await?;
        }
        let status = site.sees(&name(4), is("DNSReady", "DNSConflict")).await?;
        assert_eq!(status.id, None);
        Ok(())
    })
}

#[test]
fn names_that_stay_lead_to_the_new_group_only_once_cloudfront_took_the_change() -> Result<()> {
    tell(USUAL, async |site| {
        site.seeds_group("cg1", "d1.cloudfront.net")?;
        site.makes("acme", acme_with_dns()).await?;
        let mark = site.mark()?;
        let moved = with(serving(&["a.example.com", "b.example.com"]), in_z1());
        let moved = with(moved, json!({"connectionGroupId": "cg1"}));
        site.declare("acme", moved).await?;
        let both = ["a.example.com", "b.example.com"];
        let wanted = site.records_to("acme", &both, 300, "d1.cloudfront.net");
        site.zone_has("Z1", wanted).await?;
        site.ready("acme").await?;
        let order = [
            "ChangeResourceRecordSets",
            "UpdateDistributionTenant",
            "ChangeResourceRecordSets",
        ];
        assert_eq!(site.done_since(mark)?, order);
        let batches = site.batches()?;
        let [.., first, second] = batches.as_slice() else {
            panic!("{batches:?}");
        };
        assert_eq!(first.pointers(), ["CREATE b.example.com CNAME"]);
        assert_eq!(second.pointers(), ["UPSERT a.example.com CNAME"]);
        Ok(())
    })
}
