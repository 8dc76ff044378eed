//! DNS is edited: by itself, with its tenant, while it is on its way, and at its end.

use crate::stories::calls::{Call, are_apart};
use crate::stories::cloud::{BROKEN, D0, DENIED, Fault};
use crate::stories::objects::{acme, acme_with_dns, in_z1, serving, with, word, words};
use crate::stories::zone::{Zone, cname};
use crate::stories::{Plan, USUAL, tell};
use api::tenants::DistributionTenant;
use rstest::rstest;
use serde_json::{Value, json};
use testkit::{Result, eventually, is};

const BOTH: [&str; 2] = ["a.example.com", "b.example.com"];

/// An hour passes in six seconds.
const HOURS: Plan = Plan {
    pace: 600,
    args: &["--tenants-sweep-interval=10m"],
};

/// A minute passes in three seconds: a machine may be a few seconds late.
const SLOWLY: Plan = Plan { pace: 20, ..USUAL };

/// Whether a tenant has no records on its list.
fn without_records(one: &DistributionTenant) -> bool {
    let status = one.status.as_ref();
    status.is_some_and(|status| status.dns_records.is_empty())
}

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
        site.sees("acme", without_records).await?;
        site.sees("acme", is("DNSReady", "DNSNotConfigured"))
            .await?;
        assert_eq!(site.count("UpdateDistributionTenant")?, 0);
        Ok(())
    })
}

#[rstest]
#[case::at_once(None)]
#[case::at_the_second_try(Some(BROKEN))]
fn who_retains_keeps_the_records_and_gives_up_only_their_owner(
    #[case] fault: Option<Fault>,
) -> Result<()> {
    tell(USUAL, async |site| {
        let retained = json!({"deletionPolicy": "Retain"});
        site.makes("acme", with(acme_with_dns(), retained.clone()))
            .await?;
        if let Some(fault) = fault {
            site.breaks_once("ChangeResourceRecordSets", fault)?;
        }
        site.declare("acme", with(acme(), retained)).await?;
        let pointer = Zone::from([cname("a.example.com", 300, D0)]);
        site.zone_has("Z1", pointer.clone()).await?;
        // That is before anybody would have looked through the zone, which is once an hour.
        site.sees("acme", without_records).await?;
        site.sees("acme", is("DNSReady", "DNSNotConfigured"))
            .await?;
        let batch = site.batches()?.pop().expect("a batch");
        let gone = ["DELETE _pontoon-owner.a.example.com TXT"];
        assert_eq!(batch.changes(), gone);
        assert_eq!(site.zone("Z1")?, pointer);
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
fn one_whose_change_was_forgotten_waits_for_the_next_without_haste() -> Result<()> {
    tell(USUAL, async |site| {
        site.makes("acme", acme_with_dns()).await?;
        site.holds_dns()?;
        site.edit("acme", json!({"dns": {"ttl": 600}})).await?;
        let first = site.sees("acme", is("DNSReady", "DNSPropagating")).await?;
        let (before, began) = (site.count("GetDistributionTenant")?, site.time()?);
        // For three minutes the zone takes no other.
        let busy = Fault::Refused(400, "PriorRequestNotComplete");
        let rule = json!({"operation": "ChangeResourceRecordSets", "times": 3});
        site.fault(rule, busy)?;
        site.console("route53", json!({"forgetChanges": true}))?;
        let another = |one: &DistributionTenant| {
            let status = one.status.clone().unwrap_or_default();
            status.dns_change_id.is_some() && status.dns_change_id != first.dns_change_id
        };
        site.sees("acme", another).await?;
        let looks = site.count("GetDistributionTenant")? - before;
        // What is under way is looked at every five minutes, too.
        let passed = site.time()?.duration_since(began).as_secs();
        let most = 6 + usize::try_from(passed / 300)?;
        assert!(looks <= most, "{looks} looks at the tenant in {passed} s");
        site.settles_dns()?;
        site.sees("acme", is("DNSReady", "DNSReady")).await?;
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

#[rstest]
#[case::of_a_new_object(false)]
#[case::of_an_edit(true)]
fn what_is_refused_again_and_again_is_told_once_and_tried_ever_more_rarely(
    #[case] is_edit: bool,
) -> Result<()> {
    tell(HOURS, async |site| {
        if is_edit {
            site.makes("acme", acme_with_dns()).await?;
        }
        let before = site.count("ChangeResourceRecordSets")?;
        site.breaks("ChangeResourceRecordSets", DENIED)?;
        let spec = with(acme_with_dns(), json!({"dns": {"ttl": 600}}));
        site.declare("acme", spec).await?;
        site.sees("acme", is("DNSReady", "DNSError")).await?;
        // Every five minutes for an hour, then every half hour.
        let pauses = eventually("tries become rare", async || {
            let tries = site.calls("ChangeResourceRecordSets")?.split_off(before);
            let pauses = tries.windows(2).map(|two| two[1].after(&two[0]));
            let pauses: Vec<_> = pauses.collect();
            // On a slow machine a short pause may seem long, but not the first hour short.
            let before: i64 = pauses.iter().rev().skip(1).sum();
            let is_rare = pauses.last().is_some_and(|last| *last >= 20 * 60);
            Ok((is_rare && before >= 60 * 60).then_some(pauses))
        });
        let pauses = pauses.await?;
        assert!(pauses.len() >= 4, "{pauses:?}");

        let past = site.past("acme").await?;
        for condition in ["DNSReady", "Ready"] {
            let mut told = words(&past, condition);
            assert_eq!(told.pop().as_deref(), Some("False/DNSError"));
            let refused = told.iter().filter(|one| one.contains("DNSError"));
            assert_eq!(refused.count(), 0, "{condition}: {told:?}");
        }
        assert_eq!(site.notes("acme", "DNSError").await?.len(), 1);

        site.mends()?;
        let wanted = site.records_to("acme", &["a.example.com"], 600, D0);
        site.zone_has("Z1", wanted).await?;
        site.ready("acme").await?;
        Ok(())
    })
}

#[test]
fn credentials_that_are_not_accepted_are_told_and_tried_again_after_a_minute() -> Result<()> {
    tell(SLOWLY, async |site| {
        let expired = Fault::Told(403, "ExpiredToken", "The token has expired");
        site.breaks("ChangeResourceRecordSets", expired)?;
        site.declare("acme", acme_with_dns()).await?;
        let status = site.sees("acme", is("DNSReady", "DNSError")).await?;
        assert_eq!(word(&status.conditions, "Ready"), "False/DNSError");
        // Each try is made twice, the second time with new credentials.
        let calls = site.called("ChangeResourceRecordSets", 6).await?;
        for last in [1, 3] {
            let pause = calls[last + 1].after(&calls[last]);
            // After a minute, and not as late as what is slow.
            assert!((60..240).contains(&pause), "again after {pause} s");
        }
        site.mends()?;
        site.ready("acme").await?;
        let told = words(&site.past("acme").await?, "DNSReady");
        let order = [
            "False/DNSRecordCreating",
            "False/DNSError",
            "False/DNSPropagating",
            "True/DNSReady",
        ];
        assert_eq!(told, order);
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

#[test]
fn a_domain_that_moves_to_another_object_takes_its_record_along() -> Result<()> {
    tell(USUAL, async |site| {
        site.makes("acme", both()).await?;
        let c = with(serving(&["c.example.com"]), in_z1());
        site.makes("other", c).await?;
        let wider = with(serving(&["b.example.com", "c.example.com"]), in_z1());
        site.declare("other", wider).await?;
        site.sees("other", is("Ready", "DomainConflict")).await?;
        site.declare("acme", acme_with_dns()).await?;
        site.accepted("other", 2).await?;
        let mut records = site.records_of("acme", &["a.example.com"]);
        records.extend(site.records_of("other", &["b.example.com", "c.example.com"]));
        site.zone_has("Z1", records).await?;
        assert_eq!(site.domains("acme")?, ["a.example.com"]);
        Ok(())
    })
}

#[test]
fn an_update_that_is_refused_holds_up_no_edit_of_the_records() -> Result<()> {
    tell(USUAL, async |site| {
        site.makes("acme", acme_with_dns()).await?;
        site.breaks("UpdateDistributionTenant", DENIED)?;
        site.edit("acme", json!({"enabled": false})).await?;
        site.sees("acme", is("Ready", "AccessDenied")).await?;
        let mark = site.mark()?;
        site.edit("acme", json!({"dns": {"ttl": 600}})).await?;
        let wanted = site.records_to("acme", &["a.example.com"], 600, D0);
        site.zone_has("Z1", wanted).await?;
        let status = site.sees("acme", is("DNSReady", "DNSReady")).await?;
        assert_eq!(word(&status.conditions, "Ready"), "False/AccessDenied");

        // Each edit is tried at once; records do not have the Update sent more often.
        let mut updates = site.calls("UpdateDistributionTenant")?;
        updates.retain(|call| call.seq > mark);
        assert!(!updates.is_empty(), "the edit was not tried");
        are_apart(&updates, 200);
        site.mends()?;
        site.ready("acme").await?;
        assert_eq!(site.live("acme")?["enabled"], false);
        Ok(())
    })
}
