//! Whose a record is: what others made is never touched unless the spec says so, and what they
//! change of ours is noticed.

use crate::stories::calls::Call;
use crate::stories::cloud::{BROKEN, D0, DENIED};
use crate::stories::objects::{
    acme_with_dns, change, declare, in_z1, said, serving, with, word, words,
};
use crate::stories::zone::{Zone, cname};
use crate::stories::{Plan, Site, USUAL, tell};
use api::tenants::{DistributionTenant, names};
use kube::api::{Api, Patch, PatchParams};
use rstest::rstest;
use serde_json::{Value, json};
use testkit::{Result, is};

const NAME: &str = "a.example.com";
const MARK: &str = "_pontoon-owner.a.example.com";
const ELSEWHERE: &str = "elsewhere.example.net";
const OF_EXTERNAL_DNS: &str =
    "heritage=external-dns,external-dns/owner=default,external-dns/resource=ingress/web/shop";
const OF_ANOTHER_CLUSTER: &str = "heritage=pontoon,owner=another,resource=web/acme";

/// What becomes of records that are there.
fn adopting(how: &str) -> Value {
    with(acme_with_dns(), json!({"dns": {"recordAdoption": how}}))
}

/// Waits until a tenant says that a record is not its own; its words.
async fn conflict(site: &Site, name: &str) -> Result<String> {
    let status = site.sees(name, is("DNSReady", "DNSConflict")).await?;
    assert_eq!(word(&status.conditions, "DNSReady"), "False/DNSConflict");
    assert!(word(&status.conditions, "Ready").starts_with("False/"));
    assert_eq!(status.id, None);
    Ok(said(&status.conditions, "DNSReady"))
}

#[test]
fn a_record_of_others_is_told_and_left_alone_until_it_may_be_overwritten() -> Result<()> {
    tell(USUAL, async |site| {
        site.puts_cname("Z1", NAME, 300, ELSEWHERE)?;
        let before = site.zone("Z1")?;
        site.declare("acme", acme_with_dns()).await?;
        let message = conflict(site, "acme").await?;
        assert!(message.contains("CNAME"), "{message}");
        assert!(message.contains(ELSEWHERE), "{message}");
        site.waits(60).await?;
        assert_eq!(site.zone("Z1")?, before);
        assert_eq!(site.done()?, [""; 0]);

        site.may_take(&[NAME])?;
        site.edit("acme", json!({"dns": {"recordAdoption": "Overwrite"}}))
            .await?;
        site.ready("acme").await?;
        assert_eq!(site.zone("Z1")?, site.records_of("acme", &[NAME]));
        site.removes("acme").await?;
        assert_eq!(site.zone("Z1")?, Zone::new());
        Ok(())
    })
}

#[rstest]
#[case::external_dns("cname-a.example.com", OF_EXTERNAL_DNS, "external-dns")]
#[case::another_cluster(MARK, OF_ANOTHER_CLUSTER, "another")]
fn a_record_with_an_owner_is_refused_even_if_it_may_be_overwritten(
    #[case] beside: &'static str,
    #[case] text: &'static str,
    #[case] owner: &'static str,
) -> Result<()> {
    tell(USUAL, async |site| {
        site.puts_cname("Z1", NAME, 300, ELSEWHERE)?;
        site.puts_txt("Z1", beside, text)?;
        let before = site.zone("Z1")?;
        site.declare("acme", adopting("Overwrite")).await?;
        let message = conflict(site, "acme").await?;
        assert!(message.contains(owner), "{message}");
        site.waits(60).await?;
        assert_eq!(site.zone("Z1")?, before);
        assert_eq!(site.done()?, [""; 0]);
        Ok(())
    })
}

#[test]
fn a_record_that_leads_where_ours_would_can_be_taken_over() -> Result<()> {
    tell(USUAL, async |site| {
        site.puts_cname("Z1", NAME, 60, D0)?;
        site.puts_cname("Z1", "b.example.com", 300, ELSEWHERE)?;
        site.may_take(&[NAME])?;
        site.declare("acme", adopting("Matching")).await?;
        site.ready("acme").await?;
        let mut wanted = site.records_of("acme", &[NAME]);
        wanted.insert(cname("b.example.com", 300, ELSEWHERE));
        assert_eq!(site.zone("Z1")?, wanted);

        // One that leads elsewhere does not match.
        let second = with(serving(&["b.example.com"]), in_z1());
        let second = with(second, json!({"dns": {"recordAdoption": "Matching"}}));
        site.declare("second", second).await?;
        conflict(site, "second").await?;
        assert_eq!(site.zone("Z1")?, wanted);
        Ok(())
    })
}

#[test]
fn a_name_that_another_object_has_is_its_own() -> Result<()> {
    tell(USUAL, async |site| {
        site.makes("acme", acme_with_dns()).await?;
        let before = site.zone("Z1")?;
        let other = site.namespace("shop").await?;
        let same = with(acme_with_dns(), json!({"tenantName": "second"}));
        declare::<DistributionTenant>(&other, "second", &same).await?;
        let conflict = is("Ready", "DomainConflict");
        let told = other
            .until::<DistributionTenant>("second", conflict)
            .await?;
        let status = told.status.unwrap_or_default();
        assert_eq!(status.dns_records, []);
        assert_eq!(site.zone("Z1")?, before);
        Ok(())
    })
}

#[test]
fn a_record_whose_ttl_others_changed_goes_with_its_tenant() -> Result<()> {
    tell(USUAL, async |site| {
        site.makes("acme", acme_with_dns()).await?;
        site.puts_cname("Z1", NAME, 60, D0)?;
        site.removes("acme").await?;
        assert_eq!(site.zone("Z1")?, Zone::new());
        Ok(())
    })
}

#[test]
fn a_record_that_others_lead_elsewhere_stays_and_is_no_longer_ours() -> Result<()> {
    tell(USUAL, async |site| {
        site.makes("acme", acme_with_dns()).await?;
        site.puts_cname("Z1", NAME, 300, ELSEWHERE)?;
        site.removes("acme").await?;
        let theirs = Zone::from([cname(NAME, 300, ELSEWHERE)]);
        assert_eq!(site.zone("Z1")?, theirs);
        let note = site.event("acme", "DNSConflict").await?;
        assert!(note.contains(ELSEWHERE), "{note}");
        Ok(())
    })
}

#[test]
fn a_record_that_has_another_owner_now_stays_with_it() -> Result<()> {
    tell(USUAL, async |site| {
        site.makes("acme", acme_with_dns()).await?;
        site.puts_txt("Z1", MARK, OF_ANOTHER_CLUSTER)?;
        let before = site.zone("Z1")?;
        site.removes("acme").await?;
        assert_eq!(site.zone("Z1")?, before);
        Ok(())
    })
}

#[test]
fn a_record_that_others_deleted_hides_no_other() -> Result<()> {
    tell(USUAL, async |site| {
        let names = [NAME, "b.example.com", "c.example.com"];
        site.makes("acme", with(serving(&names), in_z1())).await?;
        site.deletes_record("Z1", "b.example.com", "CNAME")?;
        site.removes("acme").await?;
        assert_eq!(site.zone("Z1")?, Zone::new());
        Ok(())
    })
}

/// An hour passes in six seconds: zones are looked at hourly.
const HOURS: Plan = Plan {
    pace: 600,
    args: &["--tenants-sweep-interval=10m"],
};

#[test]
fn a_record_that_others_change_or_delete_is_set_right_within_the_hour() -> Result<()> {
    tell(HOURS, async |site| {
        let names = [NAME, "b.example.com"];
        site.makes("acme", with(serving(&names), in_z1())).await?;
        let right = site.records_of("acme", &names);
        site.puts_cname("Z1", NAME, 300, ELSEWHERE)?;
        site.deletes_record("Z1", "b.example.com", "CNAME")?;
        site.zone_has("Z1", right).await?;
        site.sees("acme", is("DNSReady", "DNSReady")).await?;
        site.event("acme", "DriftCorrected").await?;
        assert_eq!(site.count("UpdateDistributionTenant")?, 0);
        Ok(())
    })
}

#[test]
fn reported_drift_of_a_record_is_told_and_left_alone() -> Result<()> {
    tell(HOURS, async |site| {
        let report = json!({"driftPolicy": "report"});
        site.makes("acme", with(acme_with_dns(), report)).await?;
        site.puts_cname("Z1", NAME, 300, ELSEWHERE)?;
        let mark = site.mark()?;
        let status = site.sees("acme", is("DNSReady", "DNSDrift")).await?;
        assert_eq!(word(&status.conditions, "DNSReady"), "False/DNSDrift");
        let message = said(&status.conditions, "DNSReady");
        assert!(message.contains(NAME), "{message}");
        assert_eq!(word(&status.conditions, "Ready"), "True/Deployed");
        assert_eq!(site.done_since(mark)?, [""; 0]);

        // Nobody has forgotten it after a restart, and when it is right again that is seen.
        let before = site.past("acme").await?.len();
        site.start().await?;
        site.called("ListResourceRecordSets", lists(site)? + 2)
            .await?;
        let told = words(&site.past("acme").await?[before..], "DNSReady");
        assert!(!told.contains(&"True/DNSReady".to_owned()), "{told:?}");
        site.puts_cname("Z1", NAME, 300, D0)?;
        site.sees("acme", is("DNSReady", "DNSReady")).await?;
        assert_eq!(site.done_since(mark)?, [""; 0]);
        Ok(())
    })
}

#[test]
fn that_a_record_was_set_right_is_told_when_it_was() -> Result<()> {
    tell(HOURS, async |site| {
        site.makes("acme", acme_with_dns()).await?;
        let right = site.zone("Z1")?;
        site.breaks("ChangeResourceRecordSets", DENIED)?;
        site.puts_cname("Z1", NAME, 300, ELSEWHERE)?;
        site.sees("acme", is("DNSReady", "DNSError")).await?;
        assert_eq!(site.notes("acme", "DriftCorrected").await?, [""; 0]);
        assert_eq!(site.metric("drift_detected_total", &[]).await?, 0);

        site.mends()?;
        let note = site.event("acme", "DriftCorrected").await?;
        assert!(note.contains(NAME), "{note}");
        assert_eq!(site.zone("Z1")?, right);
        assert_eq!(site.metric("drift_detected_total", &[]).await?, 1);
        site.sees("acme", is("DNSReady", "DNSReady")).await?;
        Ok(())
    })
}

#[test]
fn suspended_drift_of_a_record_is_not_forgotten_after_a_restart() -> Result<()> {
    tell(HOURS, async |site| {
        let suspended = json!({"driftPolicy": "suspend"});
        site.makes("acme", with(acme_with_dns(), suspended)).await?;
        site.puts_cname("Z1", NAME, 300, ELSEWHERE)?;
        let listed = |one: &DistributionTenant| {
            let status = one.status.clone().unwrap_or_default();
            status.drift.iter().any(|one| one.field.contains(NAME))
        };
        site.sees("acme", listed).await?;
        let before = site.past("acme").await?.len();
        site.start().await?;
        // An edit has it looked at before zones are listed.
        let tags = json!({"tags": [{"key": "team", "value": "web"}]});
        site.edit("acme", tags).await?;
        site.accepted("acme", 2).await?;
        let past = site.past("acme").await?;
        assert!(past[before..].iter().all(listed), "it was forgotten");

        // When it is right again, that is seen.
        site.puts_cname("Z1", NAME, 300, D0)?;
        site.sees("acme", |one: &DistributionTenant| !listed(one))
            .await?;
        Ok(())
    })
}

#[test]
fn a_mark_that_others_deleted_is_put_back_at_the_second_try() -> Result<()> {
    tell(HOURS, async |site| {
        site.makes("acme", acme_with_dns()).await?;
        let right = site.zone("Z1")?;
        let before = site.count("ChangeResourceRecordSets")?;
        site.breaks_once("ChangeResourceRecordSets", BROKEN)?;
        site.deletes_record("Z1", MARK, "TXT")?;
        site.called("ChangeResourceRecordSets", before + 2).await?;
        site.zone_has("Z1", right).await?;
        // Nobody waits for the next list of the zone, which is once an hour: the tenant is looked at
        // before its zone is read again.
        let tries = site.calls("ChangeResourceRecordSets")?.split_off(before);
        let mut next = site.since(tries[0].seq)?.into_iter();
        let next = next.find(|call| {
            ["GetDistributionTenant", "ListResourceRecordSets"].contains(&call.operation())
        });
        let next = next.as_ref().map(Call::operation);
        assert_eq!(next, Some("GetDistributionTenant"));
        let told = words(&site.past("acme").await?, "DNSReady");
        assert_eq!(told.last().map(String::as_str), Some("True/DNSReady"));
        Ok(())
    })
}

/// How often zones were read.
fn lists(site: &Site) -> Result<usize> {
    site.count("ListResourceRecordSets")
}

#[test]
fn a_zone_that_may_not_be_listed_is_told_and_leaves_ready_alone() -> Result<()> {
    tell(HOURS, async |site| {
        site.makes("acme", acme_with_dns()).await?;
        site.breaks("ListResourceRecordSets", DENIED)?;
        let status = site.sees("acme", is("DNSReady", "DNSError")).await?;
        let message = said(&status.conditions, "DNSReady");
        assert!(message.contains("ListResourceRecordSets"), "{message}");
        assert_eq!(word(&status.conditions, "Ready"), "True/Deployed");
        assert!(site.errors("dns_access_denied").await? >= 1);

        site.mends()?;
        site.sees("acme", is("DNSReady", "DNSReady")).await?;
        Ok(())
    })
}

#[rstest]
#[case::written(false)]
#[case::only_planned(true)]
fn with_its_zone_went_all_records(#[case] planned: bool) -> Result<()> {
    tell(USUAL, async |site| {
        if planned {
            site.puts_cname("Z1", NAME, 300, ELSEWHERE)?;
            site.declare("acme", acme_with_dns()).await?;
            conflict(site, "acme").await?;
        } else {
            site.makes("acme", acme_with_dns()).await?;
        }
        site.console("route53", json!({"deleteZone": "Z1"}))?;
        site.removes("acme").await?;
        assert_eq!(site.live_tenants()?.len(), 0);
        Ok(())
    })
}

#[test]
fn with_its_zone_went_what_the_predecessor_wrote() -> Result<()> {
    tell(USUAL, async |site| {
        site.stop().await?;
        site.declare("acme", acme_with_dns()).await?;
        let held = json!({"metadata": {"finalizers": [names::FINALIZER]}});
        change::<DistributionTenant>(site, "acme", &held).await?;
        let status = json!({"dnsTarget": D0, "domainResults": [{"domain": NAME}]});
        let status = Patch::Merge(json!({"status": status}));
        let tenants = Api::<DistributionTenant>::namespaced(site.client(), site.name());
        let how = PatchParams::default();
        tenants.patch_status("acme", &how, &status).await?;
        site.console("route53", json!({"deleteZone": "Z1"}))?;
        site.delete::<DistributionTenant>("acme").await?;
        site.start().await?;
        site.gone::<DistributionTenant>("acme").await?;
        assert!(site.errors("dns_zone_not_found").await? >= 1);
        Ok(())
    })
}

#[test]
fn after_creation_trouble_with_a_zone_leaves_ready_alone() -> Result<()> {
    tell(HOURS, async |site| {
        site.makes("acme", acme_with_dns()).await?;
        site.console("route53", json!({"deleteZone": "Z1"}))?;
        let status = site.sees("acme", is("DNSReady", "DNSError")).await?;
        assert_eq!(word(&status.conditions, "Ready"), "True/Deployed");
        // A tenant without records needs no zone.
        site.makes("second", serving(&["c.example.com"])).await?;
        Ok(())
    })
}
