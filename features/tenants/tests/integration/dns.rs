//! DNS: records stand before their tenant, follow it, and go with it.

use crate::stories::cloud::{BROKEN, D0, DENIED, Fault, OTHER_ACCOUNT};
use crate::stories::objects::{
    acme, acme_with_dns, declare, in_z1, said, serving, with, word, words,
};
use crate::stories::zone::{Zone, alias};
use crate::stories::{Plan, Site, USUAL, tell};
use api::tenants::{RecordState, RecordType, TenantPolicy};
use rstest::rstest;
use serde_json::{Value, json};
use testkit::{Result, is};

const BOTH: [&str; 2] = ["a.example.com", "b.example.com"];
const D1: &str = "d1.cloudfront.net";

#[test]
fn records_are_in_place_everywhere_before_the_tenant_is_made() -> Result<()> {
    tell(USUAL, async |site| {
        site.holds_dns()?;
        site.declare("acme", acme_with_dns()).await?;
        let status = site.sees("acme", is("DNSReady", "DNSPropagating")).await?;
        assert_eq!(word(&status.conditions, "DNSReady"), "False/DNSPropagating");
        assert!(status.dns_change_id.is_some());
        assert_eq!(status.dns_target.as_deref(), Some(D0));

        // Record and owner came in one batch, as new ones.
        let batches = site.batches()?;
        assert_eq!(batches.len(), 1, "{batches:#?}");
        let created = [
            "CREATE _pontoon-owner.a.example.com TXT",
            "CREATE a.example.com CNAME",
        ];
        assert_eq!(batches[0].changes(), created);
        let records = site.records_of("acme", &["a.example.com"]);
        assert_eq!(site.zone("Z1")?, records);
        site.called("GetChange", 3).await?;
        assert_eq!(site.count("CreateDistributionTenant")?, 0);

        site.settles_dns()?;
        let status = site.ready("acme").await?;
        assert_eq!(status.dns_change_id, None);
        assert_eq!(word(&status.conditions, "DNSReady"), "True/DNSReady");
        let [record] = status.dns_records.as_slice() else {
            panic!("{:?}", status.dns_records);
        };
        assert_eq!(record.state, RecordState::Applied);
        assert_eq!((&*record.zone_id, &*record.name), ("Z1", "a.example.com"));
        assert_eq!((record.kind, record.ttl), (RecordType::Cname, Some(300)));
        assert_eq!(record.target, D0);

        // What it was about to do was recorded first.
        let past = site.past("acme").await?;
        let told = words(&past, "DNSReady");
        let order = [
            "False/DNSRecordCreating",
            "False/DNSPropagating",
            "True/DNSReady",
        ];
        assert_eq!(told, order);
        let planned = past.iter().filter_map(|one| one.status.as_ref());
        let mut planned = planned.flat_map(|status| &status.dns_records);
        let first = planned.next().map(|record| record.state);
        assert_eq!(first, Some(RecordState::Planned));
        site.event("acme", "DNSRecordCreating").await?;
        site.stays_quiet(2).await?;
        Ok(())
    })
}

#[test]
fn records_lead_to_the_group_and_follow_when_it_changes() -> Result<()> {
    tell(USUAL, async |site| {
        site.seeds_group("cg1", D1)?;
        let spec = with(acme_with_dns(), json!({"connectionGroupId": "cg1"}));
        let status = site.makes("acme", spec).await?;
        assert_eq!(status.connection_group_id.as_deref(), Some("cg1"));
        let to = |target: &str| site.records_to("acme", &["a.example.com"], 300, target);
        assert_eq!(site.zone("Z1")?, to(D1));

        let mark = site.mark()?;
        site.edit("acme", json!({"connectionGroupId": "cg0"}))
            .await?;
        site.accepted("acme", 2).await?;
        site.zone_has("Z1", to(D0)).await?;
        let order = ["UpdateDistributionTenant", "ChangeResourceRecordSets"];
        assert_eq!(site.done_since(mark)?, order);
        let repointed = site.batches()?.pop().expect("a batch");
        assert_eq!(repointed.pointers(), ["UPSERT a.example.com CNAME"]);
        let status = site.sees("acme", is("DNSReady", "DNSReady")).await?;
        assert_eq!(status.dns_target.as_deref(), Some(D0));
        Ok(())
    })
}

#[test]
fn without_a_group_in_the_spec_records_go_back_to_the_default_one() -> Result<()> {
    tell(USUAL, async |site| {
        site.seeds_group("cg1", D1)?;
        let spec = with(acme_with_dns(), json!({"connectionGroupId": "cg1"}));
        site.makes("acme", spec).await?;
        site.declare("acme", acme_with_dns()).await?;
        site.accepted("acme", 2).await?;
        assert_eq!(site.live("acme")?["group"], "cg0");
        let wanted = site.records_of("acme", &["a.example.com"]);
        site.zone_has("Z1", wanted).await?;
        site.ready("acme").await?;
        Ok(())
    })
}

#[rstest]
#[case::missing("ZNONE", None, "dns_zone_not_found")]
#[case::denied("Z1", Some("ChangeResourceRecordSets"), "dns_access_denied")]
#[case::unseen("Z1", Some("GetHostedZone"), "dns_access_denied")]
fn a_zone_that_cannot_be_written_is_told_and_counted(
    #[case] zone: &'static str,
    #[case] denied: Option<&'static str>,
    #[case] error_type: &'static str,
) -> Result<()> {
    tell(USUAL, async |site| {
        if let Some(operation) = denied {
            site.breaks(operation, DENIED)?;
        }
        let dns = json!({"dns": {"provider": "route53", "hostedZoneId": zone}});
        site.declare("acme", with(acme(), dns)).await?;
        let status = site.sees("acme", is("DNSReady", "DNSError")).await?;
        assert_eq!(word(&status.conditions, "DNSReady"), "False/DNSError");
        assert_eq!(word(&status.conditions, "Ready"), "False/DNSError");
        let message = said(&status.conditions, "DNSReady");
        let named = denied.unwrap_or(zone);
        assert!(message.contains(named), "{message}");
        assert!(site.errors(error_type).await? >= 1);
        site.event("acme", "DNSError").await?;
        assert_eq!(site.count("CreateDistributionTenant")?, 0);

        site.mends()?;
        if denied.is_some() {
            site.ready("acme").await?;
        }
        Ok(())
    })
}

#[test]
fn a_zone_that_is_busy_is_waited_for_without_a_word() -> Result<()> {
    tell(USUAL, async |site| {
        let busy = Fault::Refused(400, "PriorRequestNotComplete");
        site.breaks_once("ChangeResourceRecordSets", busy)?;
        site.makes("acme", acme_with_dns()).await?;
        assert_eq!(site.errors("dns_throttling").await?, 1);
        // All that it ever said is what one says whose zone is free.
        let past = site.past("acme").await?;
        let steps = [
            "False/DNSRecordCreating",
            "False/DNSPropagating",
            "True/DNSReady",
        ];
        assert_eq!(words(&past, "DNSReady"), steps);
        assert_eq!(words(&past, "Ready"), ["False/Creating", "True/Deployed"]);
        assert_eq!(words(&past, "Synced"), ["True/InSync"]);
        assert_eq!(site.notes("acme", "DNSError").await?, [""; 0]);
        let batches = site.calls("ChangeResourceRecordSets")?;
        let wait = batches[1].after(&batches[0]);
        assert!(wait >= 60, "again after {wait} s");
        Ok(())
    })
}

/// A minute passes in three seconds: failures are forgotten after ten minutes without one, which a
/// slow machine must not be late.
const SLOWLY: Plan = Plan { pace: 20, ..USUAL };

#[test]
fn a_zone_that_fails_is_written_ever_more_rarely_and_told_the_third_time() -> Result<()> {
    tell(SLOWLY, async |site| {
        site.breaks("ChangeResourceRecordSets", BROKEN)?;
        site.declare("acme", acme_with_dns()).await?;
        let status = site.sees("acme", is("DNSReady", "DNSError")).await?;
        assert_eq!(word(&status.conditions, "Ready"), "False/DNSError");
        let message = said(&status.conditions, "DNSReady");
        assert!(message.contains("We are broken"), "{message}");
        let tried = site.count("ChangeResourceRecordSets")?;
        assert!(tried >= 3, "told after {tried}");

        // Its fifth rest is 16 s, give or take a fifth.
        let calls = site.called("ChangeResourceRecordSets", 6).await?;
        let rest = calls[5].after(&calls[4]);
        assert!(rest >= 12, "written again after {rest} s");
        let told = words(&site.past("acme").await?, "DNSReady");
        assert_eq!(told, ["False/DNSRecordCreating", "False/DNSError"]);
        assert!(site.errors("dns_retryable").await? >= 3);

        site.mends()?;
        site.ready("acme").await?;
        let records = site.records_of("acme", &["a.example.com"]);
        assert_eq!(site.zone("Z1")?, records);
        Ok(())
    })
}

#[test]
fn those_who_wait_for_a_change_hear_that_it_may_not_be_asked_for() -> Result<()> {
    tell(USUAL, async |site| {
        site.breaks("GetChange", DENIED)?;
        site.declare("acme", acme_with_dns()).await?;
        let status = site.sees("acme", is("DNSReady", "DNSError")).await?;
        assert_eq!(word(&status.conditions, "Ready"), "False/DNSError");
        let message = said(&status.conditions, "DNSReady");
        assert!(message.contains("GetChange"), "{message}");
        assert!(site.errors("dns_access_denied").await? >= 1);
        assert_eq!(site.count("CreateDistributionTenant")?, 0);

        site.mends()?;
        site.ready("acme").await?;
        assert_eq!(site.batches()?.len(), 1);
        Ok(())
    })
}

const ROLE: &str = "arn:aws:iam::222222222222:role/dns";

#[test]
fn a_zone_of_another_account_is_written_as_its_role_and_nothing_else_is() -> Result<()> {
    tell(USUAL, async |site| {
        site.console("sts", json!({"roles": [{"arn": ROLE}]}))?;
        let zone = json!({"id": "Z7", "name": "example.com", "account": OTHER_ACCOUNT});
        site.console("route53", json!({"zone": zone}))?;
        let dns = json!({"dns": {
            "provider": "route53", "hostedZoneId": "Z7", "assumeRoleArn": ROLE,
        }});
        let status = site.makes("acme", with(acme(), dns)).await?;
        let records = site.records_of("acme", &["a.example.com"]);
        assert_eq!(site.zone("Z7")?, records);
        let role = status.dns_records[0].role_arn.as_deref();
        assert_eq!(role, Some(ROLE));
        for call in site.log()? {
            let by_role = call.key.as_deref() != Some("test");
            let is_dns = call.service.as_deref() == Some("route53");
            assert_eq!(by_role, is_dns, "{call:#?}");
        }
        assert_eq!(site.count("AssumeRole")?, 1);

        // Each record keeps the role it was written with.
        site.removes("acme").await?;
        assert_eq!(site.zone("Z7")?, Zone::new());
        Ok(())
    })
}

#[test]
fn the_top_of_a_zone_gets_aliases_which_have_no_ttl() -> Result<()> {
    tell(USUAL, async |site| {
        site.certifies(&["example.com", "*.example.com"])?;
        let apex = with(serving(&["example.com"]), in_z1());
        site.makes("acme", apex).await?;
        let wanted = || {
            Zone::from([
                alias("example.com", "A", D0),
                alias("example.com", "AAAA", D0),
                site.owner_line("example.com", "acme"),
            ])
        };
        assert_eq!(site.zone("Z1")?, wanted());

        let batches = site.batches()?.len();
        site.edit("acme", json!({"dns": {"ttl": 600}})).await?;
        site.accepted("acme", 2).await?;
        site.stays_quiet(2).await?;
        assert_eq!(site.batches()?.len(), batches);
        assert_eq!(site.zone("Z1")?, wanted());
        site.removes("acme").await?;
        assert_eq!(site.zone("Z1")?, Zone::new());
        Ok(())
    })
}

#[test]
fn aliases_can_be_had_everywhere_and_only_for_addresses_there_are() -> Result<()> {
    tell(USUAL, async |site| {
        let group = json!({"name": "cg4", "id": "cg4", "endpoint": D1, "ipv6": false});
        site.console("cloudfront", json!({"group": group}))?;
        let always = json!({
            "connectionGroupId": "cg4",
            "dns": {"provider": "route53", "hostedZoneId": "/hostedzone/Z1", "aliasPolicy": "Always"},
        });
        site.makes("acme", with(acme(), always)).await?;
        let wanted = Zone::from([
            alias("a.example.com", "A", D1),
            site.owner_line("a.example.com", "acme"),
        ]);
        assert_eq!(site.zone("Z1")?, wanted);

        // From alias to CNAME in one step: at no time is the name without a record.
        let mark = site.batches()?.len();
        site.edit("acme", json!({"dns": {"aliasPolicy": "ApexOnly"}}))
            .await?;
        let wanted = site.records_to("acme", &["a.example.com"], 300, D1);
        site.zone_has("Z1", wanted).await?;
        let batches = site.batches()?;
        assert_eq!(batches.len(), mark + 1);
        let changed = ["CREATE a.example.com CNAME", "DELETE a.example.com A"];
        assert_eq!(batches[mark].pointers(), changed);
        Ok(())
    })
}

#[test]
fn a_wildcard_has_its_record_and_an_owner_beside_it() -> Result<()> {
    tell(USUAL, async |site| {
        site.makes("acme", with(serving(&["*.example.com"]), in_z1()))
            .await?;
        let records = site.records_of("acme", &["*.example.com"]);
        assert_eq!(site.zone("Z1")?, records);
        site.removes("acme").await?;
        assert_eq!(site.zone("Z1")?, Zone::new());
        Ok(())
    })
}

/// Zones to choose from.
fn zones_to_choose(dns: Value) -> Value {
    json!({"dns": with(json!({"provider": "route53"}), dns)})
}

#[rstest]
#[case::discovered(json!({"discoverZones": true}))]
#[case::listed(json!({"hostedZoneId": "Z1", "hostedZoneIds": ["Z2", "Z3"]}))]
fn a_domain_goes_to_the_public_zone_with_the_longest_name(#[case] dns: Value) -> Result<()> {
    tell(USUAL, async |site| {
        site.certifies(&["*.example.com", "*.eu.example.com"])?;
        site.seeds_zone("Z2", "eu.example.com")?;
        let private = json!({"id": "Z3", "name": "x.eu.example.com", "private": true});
        site.console("route53", json!({"zone": private}))?;
        let spec = serving(&["a.example.com", "x.eu.example.com"]);
        site.makes("acme", with(spec, zones_to_choose(dns))).await?;
        let records = |name| site.records_of("acme", &[name]);
        assert_eq!(site.zone("Z1")?, records("a.example.com"));
        assert_eq!(site.zone("Z2")?, records("x.eu.example.com"));
        assert_eq!(site.zone("Z3")?, Zone::new());
        site.removes("acme").await?;
        assert_eq!(site.zone("Z1")?, Zone::new());
        assert_eq!(site.zone("Z2")?, Zone::new());
        Ok(())
    })
}

/// Makes a policy for the story's namespace that allows E1, changed by a merge patch.
async fn allows(site: &Site, name: &str, change: Value) -> Result<()> {
    let spec = json!({"namespaces": [site.name()], "distributions": ["E1"]});
    declare::<TenantPolicy>(&site.cluster_wide(), name, &with(spec, change)).await
}

#[test]
fn a_zone_that_is_found_has_to_be_allowed_with_all_else_that_is_named() -> Result<()> {
    tell(USUAL, async |site| {
        // One allows the domain, another the zone.
        allows(site, "domains", json!({})).await?;
        let zones = json!({"hostedZones": ["Z1"], "domains": ["b.example.com"]});
        allows(site, "zones", zones).await?;
        let found = zones_to_choose(json!({"discoverZones": true}));
        site.declare("acme", with(acme(), found)).await?;
        let status = site.sees("acme", is("DNSReady", "DNSError")).await?;
        let message = said(&status.conditions, "DNSReady");
        assert!(message.contains("a.example.com"), "{message}");
        site.waits(60).await?;
        assert_eq!(site.done()?, [""; 0]);

        allows(site, "domains", json!({"hostedZones": ["Z1"]})).await?;
        site.ready("acme").await?;
        let records = site.records_of("acme", &["a.example.com"]);
        assert_eq!(site.zone("Z1")?, records);
        Ok(())
    })
}

#[rstest]
#[case::none(json!({"hostedZoneId": "Z4"}))]
#[case::two(json!({"hostedZoneIds": ["Z1", "Z5"]}))]
fn a_domain_without_one_zone_of_its_own_is_told(#[case] dns: Value) -> Result<()> {
    tell(USUAL, async |site| {
        site.seeds_zone("Z4", "example.org")?;
        site.seeds_zone("Z5", "example.com")?;
        site.declare("acme", with(acme(), zones_to_choose(dns)))
            .await?;
        let status = site.sees("acme", is("DNSReady", "DNSError")).await?;
        let message = said(&status.conditions, "DNSReady");
        assert!(message.contains("a.example.com"), "{message}");
        assert_eq!(word(&status.conditions, "Ready"), "False/DNSError");
        site.waits(60).await?;
        assert_eq!(site.done()?, [""; 0]);
        // AWS refused nothing.
        assert_eq!(site.errors("dns_error").await?, 0);
        Ok(())
    })
}

#[test]
fn records_of_your_own_are_named_first_and_looked_for_later() -> Result<()> {
    tell(USUAL, async |site| {
        let by_hand = json!({"dns": {"provider": "none"}});
        site.makes("acme", with(serving(&BOTH), by_hand)).await?;
        let status = site.sees("acme", is("DNSReady", "RecordsRequired")).await?;
        let dns = word(&status.conditions, "DNSReady");
        assert_eq!(dns, "False/RecordsRequired");
        let required = status.required_records.iter();
        let required: Vec<_> = required
            .map(|one| (&*one.name, one.kind.as_str(), &*one.value))
            .collect();
        assert_eq!(required, BOTH.map(|name| (name, "CNAME", D0)));
        // They were named before there was a tenant.
        let past = site.past("acme").await?;
        let told = past.iter().filter_map(|one| one.status.as_ref());
        let mut told = told.filter(|status| !status.required_records.is_empty());
        assert_eq!(told.next().expect("they were named").id, None);
        assert_eq!(site.done()?, ["CreateDistributionTenant"]);

        for name in BOTH {
            site.puts_cname("Z1", name, 300, D0)?;
        }
        let status = site.sees("acme", is("DNSReady", "DNSReady")).await?;
        assert_eq!(word(&status.conditions, "DNSReady"), "True/DNSReady");
        Ok(())
    })
}
