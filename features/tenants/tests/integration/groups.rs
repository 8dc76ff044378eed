//! Connection groups: made, marked and kept as declared; waited for by their tenants, and waiting
//! for them at the end.

use crate::stories::objects::{
    acme, acme_with_dns, change, declare, event, in_z1, said, serving, with, word,
};
use crate::stories::zone::{Zone, alias};
use crate::stories::{Site, USUAL, tell};
use api::tenants::{ConnectionGroup, ConnectionGroupStatus, DistributionTenant, names};
use serde_json::{Value, json};
use testkit::{Result, Sign, eventually, is};

/// A tenant of the group `edge`.
fn through_edge(spec: Value) -> Value {
    with(spec, json!({"connectionGroupRef": {"name": "edge"}}))
}

/// Declares the group `edge`.
async fn makes_edge(site: &Site, spec: Value) -> Result<()> {
    declare::<ConnectionGroup>(&site.cluster_wide(), "edge", &spec).await
}

/// Waits until it says so; all that it says.
async fn edge(site: &Site, sign: impl Sign<ConnectionGroup>) -> Result<ConnectionGroupStatus> {
    let cluster = site.cluster_wide();
    cluster.until_status::<ConnectionGroup>("edge", sign).await
}

/// Waits until it is in CloudFront as `sign` has it.
async fn until_live(site: &Site, sign: impl Fn(&Value) -> bool) -> Result<Value> {
    eventually("edge in CloudFront is so", async || {
        Ok(Some(site.live_group("edge")?).filter(&sign))
    })
    .await
}

/// Changes it as a person at the console does.
fn edits_edge(site: &Site, change: &Value) -> Result<()> {
    let live = site.live_group("edge")?;
    let mut group = json!({
        "name": "edge", "id": live["id"], "endpoint": live["endpoint"], "tags": live["tags"],
        "ipv6": live["ipv6"], "enabled": live["enabled"],
    });
    crate::stories::objects::merge(&mut group, change);
    site.console("cloudfront", json!({"group": group}))
        .map(drop)
}

#[test]
fn a_tenant_waits_for_its_group_and_the_group_for_its_last_tenant() -> Result<()> {
    tell(USUAL, async |site| {
        site.declare("acme", through_edge(acme_with_dns())).await?;
        let status = site.sees("acme", is("Ready", "DependencyNotReady")).await?;
        let message = said(&status.conditions, "Ready");
        assert!(message.contains("edge"), "{message}");
        assert_eq!(site.done()?, [""; 0]);

        makes_edge(site, json!({})).await?;
        let group = edge(site, is("Ready", "Deployed")).await?;
        let endpoint = group.routing_endpoint.clone().unwrap_or_default();
        let status = site.ready("acme").await?;
        assert_eq!(status.dns_target.as_deref(), Some(&*endpoint));
        assert_eq!(status.connection_group_id, group.id);
        let records = site.records_to("acme", &["a.example.com"], 300, &endpoint);
        assert_eq!(site.zone("Z1")?, records);
        assert_eq!(json!(group.id), site.live("acme")?["group"]);
        let used = |group: &ConnectionGroup| {
            let status = group.status.as_ref();
            status.is_some_and(|status| status.tenants == Some(1))
        };
        edge(site, used).await?;

        // The group goes only after its tenant.
        let cluster = site.cluster_wide();
        cluster.delete::<ConnectionGroup>("edge").await?;
        let status = edge(site, is("Ready", "InUse")).await?;
        assert_eq!(word(&status.conditions, "Ready"), "False/InUse");
        let message = said(&status.conditions, "Ready");
        let tenant = format!("{}/acme", site.name());
        assert!(message.contains(&tenant), "{message}");
        assert_eq!(site.count("UpdateConnectionGroup")?, 0);

        site.removes("acme").await?;
        cluster.gone::<ConnectionGroup>("edge").await?;
        assert!(site.live_group("edge")?.is_null());
        assert_eq!(site.zone("Z1")?, Zone::new());
        let mut done = site.done()?;
        done.retain(|one| one.ends_with("Group"));
        let order = [
            "CreateConnectionGroup",
            "UpdateConnectionGroup",
            "DeleteConnectionGroup",
        ];
        assert_eq!(done, order);
        Ok(())
    })
}

#[test]
fn a_group_is_made_once_with_our_marker_and_is_quiet_then() -> Result<()> {
    tell(USUAL, async |site| {
        let spec = json!({"ipv6Enabled": false, "tags": [{"key": "team", "value": "edge"}]});
        makes_edge(site, spec).await?;
        let status = edge(site, is("Ready", "Deployed")).await?;
        assert_eq!(word(&status.conditions, "Ready"), "True/Deployed");
        assert_eq!(word(&status.conditions, "Synced"), "True/InSync");
        assert_eq!(status.state.as_deref(), Some("Deployed"));
        assert_eq!(status.is_default, Some(false));
        let live = site.live_group("edge")?;
        assert_eq!(live["id"], json!(status.id));
        assert_eq!(live["ipv6"], false);
        assert_eq!(live["tags"]["team"], "edge");
        assert_eq!(live["tags"][names::CLUSTER_TAG], site.cluster);
        assert_eq!(live["tags"][names::OBJECT_TAG], "edge");
        // A tenant beside it, for lists to be read.
        site.makes("acme", acme()).await?;
        site.stays_quiet(3).await?;
        assert_eq!(site.count("CreateConnectionGroup")?, 1);
        assert_eq!(site.count("UpdateConnectionGroup")?, 0);
        Ok(())
    })
}

#[test]
fn an_edit_of_a_group_is_one_update_and_tags_follow() -> Result<()> {
    tell(USUAL, async |site| {
        makes_edge(site, json!({})).await?;
        edge(site, is("Ready", "Deployed")).await?;
        site.holds_deployments()?;
        let edited = json!({"ipv6Enabled": false, "tags": [{"key": "team", "value": "edge"}]});
        makes_edge(site, edited).await?;
        let status = edge(site, is("Ready", "Deploying")).await?;
        assert_eq!(word(&status.conditions, "Ready"), "False/Deploying");
        until_live(site, |live| {
            live["ipv6"] == false && live["tags"]["team"] == "edge"
        })
        .await?;
        let state = json!({"group": "edge", "status": "Deployed"});
        site.console("cloudfront", json!({"state": state}))?;
        edge(site, is("Ready", "Deployed")).await?;
        assert_eq!(site.count("UpdateConnectionGroup")?, 1);
        Ok(())
    })
}

#[test]
fn what_others_change_of_a_group_is_undone_or_reported() -> Result<()> {
    tell(USUAL, async |site| {
        makes_edge(site, json!({})).await?;
        edge(site, is("Ready", "Deployed")).await?;
        edits_edge(site, &json!({"ipv6": false}))?;
        until_live(site, |live| live["ipv6"] == true).await?;
        let cluster = site.cluster_wide();
        let note = event(&cluster, "edge", "DriftCorrected").await?;
        assert!(note.contains("ipv6Enabled"), "{note}");
        assert_eq!(site.count("UpdateConnectionGroup")?, 1);

        let report = json!({"spec": {"driftPolicy": "report"}});
        change::<ConnectionGroup>(&cluster, "edge", &report).await?;
        edge(site, is("Ready", "Deployed")).await?;
        edits_edge(site, &json!({"ipv6": false}))?;
        let status = edge(site, is("Synced", "DriftDetected")).await?;
        assert_eq!(word(&status.conditions, "Synced"), "False/DriftDetected");
        assert_eq!(site.live_group("edge")?["ipv6"], false);
        assert_eq!(site.count("UpdateConnectionGroup")?, 1);
        Ok(())
    })
}

#[test]
fn a_group_of_others_is_left_alone_until_it_is_adopted() -> Result<()> {
    tell(USUAL, async |site| {
        site.seeds_group("edge", "d1.cloudfront.net")?;
        makes_edge(site, json!({})).await?;
        let status = edge(site, is("Ready", "NotOwned")).await?;
        assert_eq!(word(&status.conditions, "Ready"), "False/NotOwned");
        assert_eq!(site.done()?, [""; 0]);
        site.may_take(&["edge"])?;
        makes_edge(site, json!({"adoption": {"by": "Name"}})).await?;
        let status = edge(site, is("Ready", "Deployed")).await?;
        assert_eq!(
            status.routing_endpoint.as_deref(),
            Some("d1.cloudfront.net")
        );
        assert_eq!(site.done()?, ["TagResource"]);
        Ok(())
    })
}

#[test]
fn the_default_group_is_only_ever_released() -> Result<()> {
    tell(USUAL, async |site| {
        let spec = json!({"groupName": "cg0", "adoption": {"by": "Name"}});
        site.may_take(&["cg0"])?;
        makes_edge(site, spec).await?;
        let status = edge(site, is("Ready", "Deployed")).await?;
        assert_eq!(status.is_default, Some(true));
        let mark = site.mark()?;
        let cluster = site.cluster_wide();
        cluster.delete::<ConnectionGroup>("edge").await?;
        cluster.gone::<ConnectionGroup>("edge").await?;
        event(&cluster, "edge", "Retained").await?;
        assert_eq!(site.live_group("cg0")?["enabled"], true);
        assert_eq!(site.done_since(mark)?, [""; 0]);
        site.retains(&["cg0"]);
        Ok(())
    })
}

#[test]
fn a_retained_group_stays_as_it_is() -> Result<()> {
    tell(USUAL, async |site| {
        makes_edge(site, json!({"deletionPolicy": "Retain"})).await?;
        let status = edge(site, is("Ready", "Deployed")).await?;
        let cluster = site.cluster_wide();
        cluster.delete::<ConnectionGroup>("edge").await?;
        cluster.gone::<ConnectionGroup>("edge").await?;
        let note = event(&cluster, "edge", "Retained").await?;
        assert!(note.contains(&status.id.unwrap_or_default()), "{note}");
        assert_eq!(site.live_group("edge")?["enabled"], true);
        site.retains(&["edge"]);
        Ok(())
    })
}

#[test]
fn a_group_that_tenants_of_others_use_stays_until_aws_lets_it_go() -> Result<()> {
    tell(USUAL, async |site| {
        makes_edge(site, json!({})).await?;
        let status = edge(site, is("Ready", "Deployed")).await?;
        site.seeds_tenant(json!({
            "name": "theirs", "distribution": "E1", "domains": ["b.example.com"],
            "group": status.id,
        }))?;
        let cluster = site.cluster_wide();
        cluster.delete::<ConnectionGroup>("edge").await?;
        edge(site, is("Ready", "InUse")).await?;
        assert!(!site.live_group("edge")?.is_null());
        site.console("cloudfront", json!({"delete": "theirs"}))?;
        cluster.gone::<ConnectionGroup>("edge").await?;
        assert!(site.live_group("edge")?.is_null());
        Ok(())
    })
}

#[test]
fn a_tenant_moves_to_a_group_that_it_comes_to_refer_to() -> Result<()> {
    tell(USUAL, async |site| {
        makes_edge(site, json!({})).await?;
        let group = edge(site, is("Ready", "Deployed")).await?;
        site.makes("acme", acme_with_dns()).await?;
        site.declare("acme", through_edge(acme_with_dns())).await?;
        site.accepted("acme", 2).await?;
        assert_eq!(json!(group.id), site.live("acme")?["group"]);
        let endpoint = group.routing_endpoint.unwrap_or_default();
        let records = site.records_to("acme", &["a.example.com"], 300, &endpoint);
        site.zone_has("Z1", records).await?;
        site.until::<DistributionTenant>("acme", is("Ready", "Deployed"))
            .await?;
        Ok(())
    })
}

#[test]
fn a_group_that_is_busy_holds_up_no_tenant_in_it() -> Result<()> {
    tell(USUAL, async |site| {
        makes_edge(site, json!({})).await?;
        site.makes("acme", through_edge(acme())).await?;
        site.holds_deployments()?;
        change::<ConnectionGroup>(
            &site.cluster_wide(),
            "edge",
            &json!({"spec": {"ipv6Enabled": false}}),
        )
        .await?;
        edge(site, is("Ready", "Deploying")).await?;
        site.edit("acme", json!({"enabled": false})).await?;
        site.accepted("acme", 2).await?;
        let past = crate::stories::objects::words(&site.past("acme").await?, "Ready");
        let waited = "False/DependencyNotReady".to_owned();
        let since_ready = past.iter().skip_while(|word| *word != "True/Deployed");
        assert!(!since_ready.clone().any(|word| *word == waited), "{past:?}");
        site.deploys("acme")?;
        site.ready("acme").await?;
        Ok(())
    })
}

#[test]
fn aliases_follow_when_the_group_gives_up_an_address() -> Result<()> {
    tell(USUAL, async |site| {
        site.certifies(&["example.com"])?;
        makes_edge(site, json!({})).await?;
        let apex = with(serving(&["example.com"]), in_z1());
        site.makes("acme", through_edge(apex)).await?;
        let endpoint = site.status("acme").await?.dns_target.unwrap_or_default();
        let lines = |kinds: &[&str]| -> Zone {
            let aliases = kinds
                .iter()
                .map(|kind| alias("example.com", kind, &endpoint));
            let owner = [site.owner_line("example.com", "acme")];
            aliases.chain(owner).collect()
        };
        assert_eq!(site.zone("Z1")?, lines(&["A", "AAAA"]));
        let without = json!({"spec": {"ipv6Enabled": false}});
        change::<ConnectionGroup>(&site.cluster_wide(), "edge", &without).await?;
        site.zone_has("Z1", lines(&["A"])).await?;
        site.sees("acme", is("DNSReady", "DNSReady")).await?;
        Ok(())
    })
}
