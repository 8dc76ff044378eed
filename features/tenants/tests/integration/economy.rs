//! Economy: what is in order costs a list now and then; what is new is asked for together.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::stories::calls::Call;
use crate::stories::cloud::{Fault, THROTTLED};
use crate::stories::objects::{acme, acme_with_dns, in_z1, manifest, serving, with};
use crate::stories::{Plan, Site, USUAL, tell};
use api::tenants::DistributionTenant;
use kube::api::{Api, ListParams};
use serde_json::json;
use testkit::{Result, eventually_within};

/// Enough for three pages of twenty-five.
const MANY: usize = 60;
/// Many objects on a small machine.
const PATIENCE: Duration = Duration::from_secs(120);

/// A minute passes in a second; all tenants are compared every five, as usual.
const UNHURRIED: Plan = Plan {
    pace: 60,
    args: &[],
};

/// So slow that what is cached for five minutes serves a small machine for the whole story.
const CACHED: Plan = Plan {
    pace: 20,
    args: &[],
};

/// So slow that a small machine makes more calls a second than the limit of one lets pass.
const SLOW: Plan = Plan {
    pace: 10,
    args: &[],
};

/// So slow that Creates wait for their permits much longer than this story takes, and that what is
/// cached for five minutes serves for all of it.
const QUEUED: Plan = Plan { pace: 1, args: &[] };
/// How many Creates wait.
const WAITING: usize = 100;

/// Declares many tenants with DNS, in two namespaces.
async fn populate(site: &Site) -> Result<[String; 2]> {
    site.switch("cloudfront", json!({"pageSize": 25}))?;
    let other = site.namespace("shop").await?;
    let mut manifests = [String::new(), String::new()];
    for n in 0..MANY {
        let spec = with(serving(&[&format!("n{n}.example.com")]), in_z1());
        manifests[n % 2] += &manifest::<DistributionTenant>(&format!("acme-{n}"), &spec);
    }
    site.apply(&manifests[0]).await?;
    other.apply(&manifests[1]).await?;
    Ok([site.name().to_owned(), other.name().to_owned()])
}

/// Waits until all of them are ready.
async fn all_ready(site: &Site) -> Result<()> {
    let tenants = Api::<DistributionTenant>::all(site.client());
    eventually_within(PATIENCE, "all are ready", async || {
        let all = tenants.list(&ListParams::default()).await?;
        let ready = all.iter().filter(|one| {
            let status = one.status.as_ref();
            status.is_some_and(|status| kernel::is_true(&status.conditions, "Ready"))
        });
        Ok((ready.count() == MANY).then_some(()))
    })
    .await
}

/// How often each operation was called since `mark`.
fn costs(site: &Site, mark: u64) -> Result<BTreeMap<String, usize>> {
    let mut costs = BTreeMap::new();
    for call in site.since(mark)? {
        *costs.entry(call.operation().to_owned()).or_default() += 1;
    }
    Ok(costs)
}

/// Each tenant is looked at once a day, and the day of a few of them may be now.
const FEW: usize = 4;

/// Checks that hardly any single tenant was looked at since `mark`; how often each operation was
/// called since.
fn few_looks(site: &Site, mark: u64) -> Result<BTreeMap<String, usize>> {
    let (costs, calls) = (costs(site, mark)?, site.since(mark)?);
    let looks = costs.get("GetDistributionTenant").copied();
    // On a slow machine a good part of the day may pass: three times as many as are to be expected.
    let passed = match calls.as_slice() {
        [first, .., last] => last.after(first),
        _ => 0,
    };
    let expected = 3 * MANY * usize::try_from(passed)? / (24 * 60 * 60);
    assert!(looks.unwrap_or_default() <= FEW.max(expected), "{costs:?}");
    Ok(costs)
}

#[test]
fn a_tenant_in_order_costs_a_list_for_each_sweep_and_nothing_else() -> Result<()> {
    tell(USUAL, async |site| {
        site.makes("acme", acme()).await?;
        site.sweeps(1).await?;
        let mark = site.mark()?;
        site.stays_quiet(3).await?;
        let costs = costs(site, mark)?;
        let lists = costs.keys().map(String::as_str).collect::<Vec<_>>();
        assert_eq!(lists, ["ListDistributionTenants"], "{costs:?}");
        Ok(())
    })
}

#[test]
fn many_new_tenants_share_batches_and_questions() -> Result<()> {
    tell(CACHED, async |site| {
        // Time runs fast and objects come slowly: all are there when the operator begins, and
        // batches fill while the one before is on its way.
        site.breaks("ChangeResourceRecordSets", Fault::Late(3))?;
        let mark = site.world.mark();
        site.stop().await?;
        populate(site).await?;
        site.start().await?;
        all_ready(site).await?;
        let costs = costs(site, 0)?;
        let cost = |operation: &str| costs.get(operation).copied().unwrap_or_default();
        assert_eq!(cost("CreateDistributionTenant"), MANY);
        assert_eq!(cost("UpdateDistributionTenant"), 0);
        assert!(cost("ChangeResourceRecordSets") <= 10, "{costs:?}");
        for shared in [
            "GetDistribution",
            "ListConnectionGroups",
            "DescribeCertificate",
            "GetHostedZone",
        ] {
            assert!(cost(shared) <= 5, "{shared}: {costs:?}");
        }
        // One question a change, however many wait for it.
        let changes = cost("ChangeResourceRecordSets");
        assert!(cost("GetChange") <= 4 * changes, "{costs:?}");
        let throttled = |call: &Call| call.code.as_deref() == Some("Throttling");
        assert!(!site.log()?.iter().any(throttled));

        let mut written = BTreeMap::<_, usize>::new();
        for write in site.world.writes_since(mark).await? {
            if write.resource == "distributiontenants" {
                *written.entry((write.namespace, write.name)).or_default() += 1;
            }
        }
        assert_eq!(written.len(), MANY);
        let most = written.values().max().copied().unwrap_or_default();
        assert!(most <= 6, "{written:?}");
        Ok(())
    })
}

/// Waits for a sweep of three pages in which nothing is written and no tenant is looked at.
async fn settled(site: &Site) -> Result<()> {
    let what = "a sweep passes without a write or a look";
    eventually_within(PATIENCE, what, async || {
        let (mark, kubernetes) = (site.mark()?, site.world.mark());
        let before = site.count("ListDistributionTenants")?;
        site.called("ListDistributionTenants", before + 3).await?;
        let mut calls = site.since(mark)?.into_iter();
        let looks = calls.any(|call| call.operation() == "GetDistributionTenant");
        let writes = site.world.writes_since(kubernetes).await?;
        Ok((!looks && writes.is_empty()).then_some(()))
    })
    .await
}

#[test]
fn many_tenants_in_order_cost_their_pages_also_after_a_restart() -> Result<()> {
    tell(UNHURRIED, async |site| {
        populate(site).await?;
        all_ready(site).await?;
        settled(site).await?;
        // Two whole sweeps of three pages.
        let before = site.count("ListDistributionTenants")?;
        let mark = site.mark()?;
        let kubernetes = site.world.mark();
        site.oracle(json!({"steady": true}))?;
        site.called("ListDistributionTenants", before + 6).await?;
        few_looks(site, mark)?;
        assert_eq!(site.world.writes_since(kubernetes).await?, []);

        // A restart begins with a list, not with a look at each.
        let (mark, kubernetes) = (site.mark()?, site.world.mark());
        site.start().await?;
        site.oracle(json!({"steady": true}))?;
        let lists = site.count("ListDistributionTenants")?;
        site.called("ListDistributionTenants", lists + 4).await?;
        let restarted = few_looks(site, mark)?;
        assert!(restarted.values().sum::<usize>() <= 20, "{restarted:?}");
        assert_eq!(site.world.writes_since(kubernetes).await?, []);
        site.oracle(json!({"steady": false}))?;
        Ok(())
    })
}

#[test]
fn only_what_a_list_shows_to_differ_is_looked_at() -> Result<()> {
    tell(UNHURRIED, async |site| {
        populate(site).await?;
        all_ready(site).await?;
        settled(site).await?;
        let mark = site.mark()?;
        site.edits_tenant("acme-7", json!({"enabled": false}))?;
        site.until_live("acme-7", |live| live["enabled"] == true)
            .await?;
        let id = site.live("acme-7")?["id"].clone();
        let looks = site.since(mark)?.into_iter();
        let looks = looks.filter(|call| call.operation() == "GetDistributionTenant");
        for look in looks {
            assert_eq!(id, look.resource());
        }
        Ok(())
    })
}

#[test]
fn one_tenant_takes_four_writes_of_its_object_and_one_with_dns_six() -> Result<()> {
    tell(USUAL, async |site| {
        for (name, spec, most) in [
            ("plain", serving(&["b.example.com"]), 4),
            ("acme", acme_with_dns(), 6),
        ] {
            let mark = site.world.mark();
            site.makes(name, spec).await?;
            site.sweeps(1).await?;
            let mut writes = site.world.writes_since(mark).await?;
            writes.retain(|one| one.resource == "distributiontenants");
            assert!(writes.len() <= most, "{writes:#?}");
        }
        Ok(())
    })
}

#[test]
fn the_default_group_is_found_on_whatever_page_it_is() -> Result<()> {
    tell(USUAL, async |site| {
        site.switch("cloudfront", json!({"pageSize": 1}))?;
        for id in ["cg_a", "cg_b"] {
            site.seeds_group(id, &format!("{}.cloudfront.net", id.replace('_', "-")))?;
        }
        let last = json!({
            "name": "last", "id": "cg_z", "endpoint": "dz.cloudfront.net", "default": true,
        });
        site.console("cloudfront", json!({"group": last}))?;
        site.makes("acme", acme_with_dns()).await?;
        let records = site.records_to("acme", &["a.example.com"], 300, "dz.cloudfront.net");
        assert_eq!(site.zone("Z1")?, records);
        Ok(())
    })
}

#[test]
fn a_limit_of_aws_slows_all_down_and_loses_nobody() -> Result<()> {
    tell(SLOW, async |site| {
        site.switch("cloudfront", json!({"rate": 1}))?;
        // All are there when the operator begins, however slowly they are declared.
        site.stop().await?;
        let namespaces = populate(site).await?;
        site.start().await?;
        all_ready(site).await?;
        let log = site.log()?;
        let cloudfront = |call: &&Call| call.service.as_deref() == Some("cloudfront");
        let throttled = |call: &&Call| call.code.as_deref() == Some("Throttling");
        let calls = log.iter().filter(cloudfront);
        let (all, refused) = (
            calls.clone().count(),
            calls.clone().filter(throttled).count(),
        );
        assert!(refused > 0, "the limit was never met");
        assert!(
            refused * 5 <= all,
            "{refused} of {all} calls were throttled"
        );

        // Namespaces take turns: neither is done before the other has begun.
        let creates =
            calls.filter(|call| call.operation() == "CreateDistributionTenant" && call.is_ok());
        let of = |namespace: &String| {
            let marker = format!("<Value>{namespace}/");
            let mine = creates
                .clone()
                .filter(move |call| call.body.contains(&marker));
            let places: Vec<_> = mine.map(|call| call.seq).collect();
            (places.first().copied(), places.last().copied())
        };
        let [(first, end), (second, last)] = [of(&namespaces[0]), of(&namespaces[1])];
        assert!(
            first < last && second < end,
            "{first:?} {end:?} {second:?} {last:?}"
        );
        Ok(())
    })
}

#[test]
fn records_do_not_wait_for_the_permits_of_creates() -> Result<()> {
    tell(QUEUED, async |site| {
        // Fills the caches that every tenant is checked by, and halves the rate of calls.
        let with_dns = |domain: &str| with(serving(&[domain]), in_z1());
        site.breaks_once("CreateDistributionTenant", THROTTLED)?;
        site.declare("plain", serving(&["plain.example.com"]))
            .await?;
        site.called("CreateDistributionTenant", 1).await?;
        site.declare("first", with_dns("first.example.com")).await?;
        site.called("ChangeResourceRecordSets", 1).await?;
        // No Create succeeds any more: each comes back, and their queue never ends.
        site.breaks("CreateDistributionTenant", THROTTLED)?;

        let many = (0..WAITING).map(|n| {
            let spec = serving(&[&format!("n{n}.example.com")]);
            manifest::<DistributionTenant>(&format!("acme-{n}"), &spec)
        });
        site.apply(&many.collect::<String>()).await?;
        let tenants = Api::<DistributionTenant>::namespaced(site.client(), site.name());
        eventually_within(PATIENCE, "all Creates wait or are sent", async || {
            let all = tenants.list(&ListParams::default()).await?;
            let announced = all.iter().filter(|one| {
                let status = one.status.as_ref();
                status.is_some_and(|status| status.create_requested_at.is_some())
            });
            Ok((announced.count() > WAITING).then_some(()))
        })
        .await?;
        site.declare("last", with_dns("last.example.com")).await?;
        let batches = site.called("ChangeResourceRecordSets", 2).await?;
        assert_eq!(batches[1].pointers(), ["CREATE last.example.com CNAME"]);
        Ok(())
    })
}
