//! Swap: what cloudfront-tenant-operator 0.1 left in a cluster and in AWS is taken over as it is.
//!
//! `fixtures/swap` has its object with its status, and what AWS returned of it.

use crate::stories::cloud::{CERTIFICATE, DENIED};
use crate::stories::objects::{change, word};
use crate::stories::zone::{Zone, cname};
use crate::stories::{Site, USUAL, tell};
use api::tenants::{DistributionTenant, names};
use k8s_openapi::api::coordination::v1::Lease;
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use testkit::{Result, eventually, is};

const OBJECTS: &str = include_str!("../fixtures/swap/objects.yaml");
const AWS: &str = include_str!("../fixtures/swap/aws-state.json");
const NAME: &str = "acme-site";
const ZONE: &str = "ZLIDEPTTM6G908";
const DOMAINS: [&str; 2] = ["acme.example.com", "www-acme.example.com"];
/// Who holds the Lease before the swap.
const OTHER: &str = "cloudfront-tenant-operator-0";

/// The recorded object, in the story's namespace.
fn recorded(site: &Site) -> Result<Value> {
    let text = OBJECTS.replace("team-a", site.name());
    let mut list: Value = serde_saphyr::from_str(&text)?;
    Ok(list["items"][0].take())
}

/// AWS as it was recorded.
fn furnish(site: &Site) -> Result<()> {
    let recorded: Value = serde_json::from_str(AWS)?;
    let tenant = &recorded["tenant"]["DistributionTenant"];
    let group = &tenant["ConnectionGroupId"];
    let target = &recorded["records"][0]["ResourceRecords"][0]["Value"];
    let distribution = tenant["DistributionId"].as_str().unwrap_or_default();
    site.seeds_distribution(distribution, &json!({"certificate": CERTIFICATE}))?;
    let group = json!({"name": "default", "id": group, "endpoint": target, "default": true});
    site.console("cloudfront", json!({"group": group}))?;
    site.seeds_zone(ZONE, "example.com")?;
    let target = target.as_str().unwrap_or_default();
    for name in DOMAINS {
        site.puts_cname(ZONE, name, 300, target)?;
    }
    site.seeds_tenant(json!({
        "id": tenant["Id"], "name": NAME, "distribution": distribution, "domains": DOMAINS,
        "group": tenant["ConnectionGroupId"],
        "parameters": {"tier": "gold"}, "tags": {"team": "acme"},
    }))?;
    let id = tenant["Id"].as_str().unwrap_or_default();
    site.may_take(&[id, DOMAINS[0], DOMAINS[1]])
}

/// Makes the object as the other operator left it: its second generation, and that one observed.
async fn restore(site: &Site) -> Result<DistributionTenant> {
    let mut object = recorded(site)?;
    let status = json!({"status": object["status"].take()});
    let group = object["spec"]["connectionGroupId"].take();
    for field in ["uid", "resourceVersion", "generation", "creationTimestamp"] {
        object["metadata"][field].take();
    }
    object["spec"]
        .as_object_mut()
        .expect("a spec")
        .remove("connectionGroupId");
    let tenants = Api::<DistributionTenant>::namespaced(site.client(), site.name());
    let object: DistributionTenant = serde_json::from_value(object)?;
    tenants.create(&PostParams::default(), &object).await?;
    let spec = json!({"spec": {"connectionGroupId": group}});
    change::<DistributionTenant>(site, NAME, &spec).await?;
    let (how, status) = (PatchParams::default(), Patch::Merge(status));
    Ok(tenants.patch_status(NAME, &how, &status).await?)
}

/// The world of the other operator, without one of ours.
async fn before(site: &Site) -> Result<()> {
    site.stop().await?;
    furnish(site)?;
    let object = restore(site).await?;
    assert_eq!(object.metadata.generation, Some(2));
    Ok(())
}

/// The target of the recorded records.
fn target(site: &Site) -> Result<String> {
    let status = recorded(site)?["status"].take();
    Ok(status["dnsTarget"].as_str().unwrap_or_default().to_owned())
}

#[test]
fn tags_and_owners_are_added_and_nothing_else_and_at_the_end_all_goes() -> Result<()> {
    tell(USUAL, async |site| {
        before(site).await?;
        let first = site.live(NAME)?;
        site.start().await?;
        let wanted = site.records_to(NAME, &DOMAINS, 300, &target(site)?);
        site.zone_has(ZONE, wanted).await?;
        let object = format!("{}/{NAME}", site.name());
        let marked = |live: &Value| live["tags"][names::OBJECT_TAG] == object;
        let live = site.until_live(NAME, marked).await?;
        assert_eq!(live["tags"][names::CLUSTER_TAG], site.cluster);
        assert_eq!(live["tags"]["team"], "acme");
        assert_eq!(live["etag"], first["etag"]);
        site.stays_quiet(2).await?;
        let mut done = site.done()?;
        done.sort();
        done.dedup();
        assert_eq!(done, ["ChangeResourceRecordSets", "TagResource"]);

        let status = site.ready(NAME).await?;
        assert_eq!(word(&status.conditions, "Synced"), "True/InSync");
        assert_eq!(word(&status.conditions, "DNSReady"), "True/DNSReady");
        assert_eq!(json!(status.id), first["id"]);
        assert!(status.last_applied.is_some());
        assert_eq!(status.dns_records.len(), 2);

        site.removes(NAME).await?;
        assert!(site.live(NAME)?.is_null());
        assert_eq!(site.zone(ZONE)?, Zone::new());
        Ok(())
    })
}

#[test]
fn an_edit_made_while_nobody_ran_is_sent_and_is_no_drift() -> Result<()> {
    tell(USUAL, async |site| {
        before(site).await?;
        let parameters = json!([{"name": "tier", "value": "silver"}]);
        site.edit(NAME, json!({"parameters": parameters})).await?;
        site.start().await?;
        site.until_live(NAME, |live| live["parameters"] == parameters)
            .await?;
        site.accepted(NAME, 3).await?;
        assert_eq!(site.metric("drift_detected_total", &[]).await?, 0);
        assert_eq!(site.count("UpdateDistributionTenant")?, 1);
        Ok(())
    })
}

#[test]
fn what_others_changed_before_is_drift() -> Result<()> {
    tell(USUAL, async |site| {
        before(site).await?;
        site.edits_tenant(NAME, json!({"parameters": {"tier": "lead"}}))?;
        site.start().await?;
        let gold = json!([{"name": "tier", "value": "gold"}]);
        site.until_live(NAME, |live| live["parameters"] == gold)
            .await?;
        site.event(NAME, "DriftCorrected").await?;
        assert_eq!(site.metric("drift_detected_total", &[]).await?, 1);
        Ok(())
    })
}

#[test]
fn tags_that_are_denied_are_told_and_hold_up_nothing() -> Result<()> {
    tell(USUAL, async |site| {
        before(site).await?;
        site.breaks("TagResource", DENIED)?;
        site.start().await?;
        let note = site.event(NAME, "AccessDenied").await?;
        assert!(note.contains("TagResource"), "{note}");
        let wanted = site.records_to(NAME, &DOMAINS, 300, &target(site)?);
        site.zone_has(ZONE, wanted).await?;
        let status = site.ready(NAME).await?;
        assert_eq!(word(&status.conditions, "Synced"), "True/InSync");

        // What its status names is its own, marked or not.
        site.edit(NAME, json!({"enabled": false})).await?;
        site.accepted(NAME, 3).await?;
        assert_eq!(site.live(NAME)?["enabled"], false);
        site.removes(NAME).await?;
        assert!(site.live(NAME)?.is_null());
        assert_eq!(site.zone(ZONE)?, Zone::new());
        Ok(())
    })
}

#[test]
fn a_record_that_leads_elsewhere_by_now_is_not_ours() -> Result<()> {
    tell(USUAL, async |site| {
        before(site).await?;
        let elsewhere = "elsewhere.example.net";
        site.puts_cname(ZONE, DOMAINS[1], 300, elsewhere)?;
        let id = site.live(NAME)?["id"].clone();
        site.may_take(&[id.as_str().unwrap_or_default(), DOMAINS[0]])?;
        site.start().await?;
        site.sees(NAME, is("DNSReady", "DNSConflict")).await?;
        let mut wanted = site.records_to(NAME, &DOMAINS[..1], 300, &target(site)?);
        wanted.insert(cname(DOMAINS[1], 300, elsewhere));
        site.zone_has(ZONE, wanted).await?;
        Ok(())
    })
}

#[test]
fn while_the_other_operator_holds_its_lease_nothing_is_asked_of_aws() -> Result<()> {
    tell(USUAL, async |site| {
        before(site).await?;
        site.world.delete_leases().await?;
        let leases = Api::<Lease>::namespaced(site.client(), site.world.operator_namespace());
        let held = json!({
            "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
            "metadata": {"name": names::LEGACY_LEASE},
            "spec": {"holderIdentity": OTHER, "leaseDurationSeconds": 60},
        });
        let how = PatchParams::apply("cloudfront-tenant-operator").force();
        leases
            .patch(names::LEGACY_LEASE, &how, &Patch::Apply(held))
            .await?;

        let mark = site.mark()?;
        let operator = site.world.operator();
        operator.restart(|_| ()).await?;
        eventually("ours waits for the other's Lease", async || {
            let (_, told) = operator.probe("/readyz?verbose").await?;
            Ok(told.contains(OTHER).then_some(()))
        })
        .await?;
        assert_eq!(site.since(mark)?, []);
        leases
            .delete(names::LEGACY_LEASE, &DeleteParams::default())
            .await?;
        let wanted = site.records_to(NAME, &DOMAINS, 300, &target(site)?);
        site.zone_has(ZONE, wanted).await?;
        Ok(())
    })
}
