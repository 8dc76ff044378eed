//! A spec is edited: what changed is sent once, whole, and Ready follows the deployment.

use crate::stories::calls::are_apart;
use crate::stories::cloud::{D0, DENIED, STALE};
use crate::stories::objects::{acme, requesting, said, serving, with, word, words};
use crate::stories::{USUAL, tell};
use api::tenants::{DistributionTenant, names};
use rstest::rstest;
use serde_json::{Value, json};
use testkit::{Result, is};

const BOTH: [&str; 2] = ["a.example.com", "b.example.com"];

#[test]
fn an_added_domain_is_one_update_and_ready_waits_for_its_deployment() -> Result<()> {
    tell(USUAL, async |site| {
        site.makes("acme", acme()).await?;
        site.holds_deployments()?;
        let before = site.live("acme")?["etag"].clone();
        site.edit("acme", serving(&BOTH)).await?;
        let status = site.sees("acme", is("Ready", "Deploying")).await?;
        assert_eq!(word(&status.conditions, "Ready"), "False/Deploying");
        assert_eq!(word(&status.conditions, "Synced"), "True/UpdatePending");
        assert_eq!(status.observed_generation, Some(2));
        let applied = status.last_applied.clone().unwrap_or_default();
        assert!(applied.domains.iter().eq(BOTH), "{applied:?}");
        // CloudFront takes an Update of the current version only.
        let updates = site.calls("UpdateDistributionTenant")?;
        assert_eq!(updates.len(), 1, "{updates:#?}");
        assert!(updates[0].is_ok());
        assert_ne!(json!(status.e_tag), before);
        site.event("acme", "Updated").await?;

        site.deploys("acme")?;
        let status = site.ready("acme").await?;
        assert_eq!(word(&status.conditions, "Synced"), "True/InSync");
        assert_eq!(site.domains("acme")?, BOTH);
        assert_eq!(site.count("UpdateDistributionTenant")?, 1);
        Ok(())
    })
}

#[test]
fn an_edit_does_not_wait_for_the_deployment_of_the_last() -> Result<()> {
    tell(USUAL, async |site| {
        site.holds_deployments()?;
        site.declare("acme", acme()).await?;
        site.made("acme").await?;
        site.edit("acme", serving(&BOTH)).await?;
        let status = site.accepted("acme", 2).await?;
        assert_eq!(site.live("acme")?["status"], "InProgress");
        assert_eq!(site.domains("acme")?, BOTH);
        assert!(word(&status.conditions, "Ready").starts_with("False/"));

        site.deploys("acme")?;
        site.ready("acme").await?;
        let done = ["CreateDistributionTenant", "UpdateDistributionTenant"];
        assert_eq!(site.done()?, done);
        Ok(())
    })
}

#[test]
fn another_order_of_the_same_is_accepted_without_an_update() -> Result<()> {
    tell(USUAL, async |site| {
        let spec = |order: [usize; 3]| {
            let pick = |all: [&str; 3]| order.map(|at| all[at].to_owned());
            let domains = pick(["a.example.com", "b.example.com", "c.example.com"]);
            let domains: Vec<_> = domains.iter().map(String::as_str).collect();
            let parameters = pick(["p", "q", "r"]);
            let parameters = parameters.map(|name| json!({"name": name, "value": name}));
            let countries = pick(["AT", "CH", "DE"]);
            let geo = json!({"restrictionType": "blacklist", "locations": countries});
            let more = json!({
                "parameters": parameters, "customizations": {"geoRestrictions": geo},
            });
            with(serving(&domains), more)
        };
        site.makes("acme", spec([0, 1, 2])).await?;
        site.edit("acme", spec([2, 0, 1])).await?;
        site.accepted("acme", 2).await?;
        site.ready("acme").await?;
        site.stays_quiet(2).await?;
        assert_eq!(site.done()?, ["CreateDistributionTenant"]);
        Ok(())
    })
}

#[test]
fn a_tenant_is_switched_off_and_on_again() -> Result<()> {
    tell(USUAL, async |site| {
        site.makes("acme", acme()).await?;
        site.declare("acme", with(acme(), json!({"enabled": false})))
            .await?;
        site.accepted("acme", 2).await?;
        let status = site.ready("acme").await?;
        let message = said(&status.conditions, "Ready");
        assert!(message.contains("nothing"), "{message}");
        assert_eq!(site.live("acme")?["enabled"], false);

        // No longer said, it is on.
        site.declare("acme", acme()).await?;
        site.accepted("acme", 3).await?;
        site.ready("acme").await?;
        assert_eq!(site.live("acme")?["enabled"], true);
        let updates = site.calls("UpdateDistributionTenant")?;
        let sent: Vec<_> = updates
            .iter()
            .flat_map(|one| one.texts("Enabled"))
            .collect();
        assert_eq!(sent, ["false", "true"]);
        Ok(())
    })
}

/// Much that an edit can take away.
fn much() -> Value {
    json!({
        "connectionGroupId": "cg1",
        "parameters": [{"name": "tier", "value": "gold"}, {"name": "region", "value": "eu"}],
        "customizations": {
            "webAcl": {"action": "disable"},
            "geoRestrictions": {"restrictionType": "whitelist", "locations": ["DE"]},
        },
    })
}

#[rstest]
#[case::replaced("replace")]
#[case::kept("merge")]
fn what_leaves_the_spec_is_gone_whatever_becomes_of_members_left_out(
    #[case] update: &'static str,
) -> Result<()> {
    tell(USUAL, async |site| {
        site.switch("cloudfront", json!({"update": update}))?;
        site.seeds_group("cg1", "d1.cloudfront.net")?;
        site.makes("acme", with(acme(), much())).await?;
        assert_eq!(site.live("acme")?["group"], "cg1");
        site.declare("acme", acme()).await?;
        site.accepted("acme", 2).await?;
        site.ready("acme").await?;

        let live = site.live("acme")?;
        assert_eq!(live["parameters"], json!([]));
        let customized = &live["customizations"];
        assert!(customized["webAcl"].is_null(), "{customized}");
        assert!(customized["geo"].is_null(), "{customized}");
        // Unset after being set means the default group.
        assert_eq!(live["group"], "cg0");
        assert_eq!(live["enabled"], true);
        assert_eq!(site.count("UpdateDistributionTenant")?, 1);
        site.stays_quiet(2).await?;
        Ok(())
    })
}

#[test]
fn an_update_that_has_no_effect_is_named_and_not_sent_again_soon() -> Result<()> {
    tell(USUAL, async |site| {
        // Parameters that are not sent stay: they cannot be removed.
        site.switch("cloudfront", json!({"update": "deepMerge"}))?;
        let golden = json!({"parameters": [{"name": "tier", "value": "gold"}]});
        site.makes("acme", with(acme(), golden.clone())).await?;
        site.declare("acme", serving(&BOTH)).await?;
        let status = site.sees("acme", is("Synced", "UpdateNotEffective"));
        let status = status.await?;
        let synced = word(&status.conditions, "Synced");
        assert_eq!(synced, "False/UpdateNotEffective");
        let message = said(&status.conditions, "Synced");
        assert!(message.contains("parameters"), "{message}");
        assert_eq!(site.domains("acme")?, BOTH);

        // Four minutes of looking at it change nothing: it is sent again after five.
        site.sweeps(8).await?;
        are_apart(&site.calls("UpdateDistributionTenant")?, 299);
        // A new process knows it from the condition, and takes it for nobody's drift.
        site.start().await?;
        site.sweeps(4).await?;
        are_apart(&site.calls("UpdateDistributionTenant")?, 299);
        let status = site.status("acme").await?;
        let synced = word(&status.conditions, "Synced");
        assert_eq!(synced, "False/UpdateNotEffective");
        assert_eq!(site.metric("drift_detected_total", &[]).await?, 0);

        // Wanted as it is, it is in order.
        let mark = site.mark()?;
        site.declare("acme", with(serving(&BOTH), golden)).await?;
        site.accepted("acme", 3).await?;
        site.sees("acme", is("Synced", "InSync")).await?;
        site.sweeps(1).await?;
        // The old Update, without parameters, may have gone out once more before the edit was seen.
        for write in site.those(|call| call.seq > mark && call.is_write())? {
            assert_eq!(write.operation(), "UpdateDistributionTenant");
            assert_eq!(write.texts("Name"), [""; 0]);
        }
        Ok(())
    })
}

#[test]
fn tags_follow_the_spec_and_those_of_others_stay() -> Result<()> {
    tell(USUAL, async |site| {
        let tags = |tags: &[(&str, &str)]| {
            let each = tags.iter();
            let tags: Vec<_> = each
                .map(|(key, value)| json!({"key": key, "value": value}))
                .collect();
            json!({"tags": tags})
        };
        let first = tags(&[("x", "1"), ("y", "1")]);
        site.makes("acme", with(acme(), first)).await?;
        let mut live = site.live("acme")?["tags"].take();
        live["z"] = json!("console");
        site.edits_tenant("acme", json!({"tags": live}))?;
        let mark = site.mark()?;
        site.declare("acme", with(acme(), tags(&[("y", "2")])))
            .await?;
        site.accepted("acme", 2).await?;

        let mut done = site.done_since(mark)?;
        done.sort();
        assert_eq!(done, ["TagResource", "UntagResource"]);
        let untagged = site.calls("UntagResource")?;
        assert_eq!(untagged[0].texts("Key"), ["x"]);
        let mut live = site.live("acme")?["tags"].take();
        let marks = live.as_object_mut().expect("tags are there");
        assert!(marks.remove(names::CLUSTER_TAG).is_some());
        assert!(marks.remove(names::OBJECT_TAG).is_some());
        assert_eq!(live, json!({"y": "2", "z": "console"}));
        site.ready("acme").await?;
        assert_eq!(site.count("UpdateDistributionTenant")?, 0);
        Ok(())
    })
}

#[test]
fn an_edit_of_an_old_version_is_read_again_and_sent_once_more() -> Result<()> {
    tell(USUAL, async |site| {
        site.makes("acme", acme()).await?;
        site.breaks_once("UpdateDistributionTenant", STALE)?;
        site.edit("acme", serving(&BOTH)).await?;
        site.accepted("acme", 2).await?;
        site.ready("acme").await?;
        assert_eq!(site.count("UpdateDistributionTenant")?, 2);
        assert_eq!(site.metric("reconcile_errors_total", &[]).await?, 0);
        let past = site.past("acme").await?;
        let told = words(&past, "Synced");
        assert!(
            told.iter().all(|word| word.starts_with("True/")),
            "{told:?}"
        );
        Ok(())
    })
}

#[test]
fn an_edit_that_is_overtaken_is_sent_as_it_stands_then() -> Result<()> {
    tell(USUAL, async |site| {
        site.makes("acme", acme()).await?;
        site.holds_deployments()?;
        // While the first edit is on its way the second comes.
        site.edit("acme", serving(&BOTH)).await?;
        let third = ["a.example.com", "c.example.com"];
        site.edit("acme", serving(&third)).await?;
        let status = site.accepted("acme", 3).await?;
        assert_eq!(site.domains("acme")?, third);
        let applied = status.last_applied.unwrap_or_default();
        assert!(applied.domains.iter().eq(third), "{applied:?}");
        site.deploys("acme")?;
        site.ready("acme").await?;
        Ok(())
    })
}

#[test]
fn a_domain_that_cannot_be_proved_yet_holds_up_the_edit_and_no_more() -> Result<()> {
    tell(USUAL, async |site| {
        site.console("cloudfront", json!({"distribution": {"id": "E3"}}))?;
        let first = with(acme(), requesting("cloudfront"));
        let by_hand = json!({"distributionId": "E3", "dns": {"provider": "none"}});
        let first = with(first, by_hand);
        site.puts_cname("Z1", "a.example.com", 300, D0)?;
        site.makes("acme", first).await?;

        // CloudFront does not see that b leads to it: also an Update can be refused so.
        let domains = json!({"domains": serving(&BOTH)["domains"]});
        site.edit("acme", domains).await?;
        let status = site.sees("acme", is("Ready", "DomainValidationPending"));
        let status = status.await?;
        let message = said(&status.conditions, "Ready");
        assert!(message.contains("ownership"), "{message}");
        assert_eq!(status.observed_generation, Some(1));
        assert_eq!(site.domains("acme")?, ["a.example.com"]);
        site.event("acme", "DomainValidationPending").await?;
        // The record that proves it is told.
        let required = status.required_records.iter();
        let required: Vec<_> = required.map(|one| one.name.as_str()).collect();
        assert_eq!(required, BOTH);

        site.puts_cname("Z1", "b.example.com", 300, D0)?;
        site.accepted("acme", 2).await?;
        assert_eq!(site.domains("acme")?, BOTH);
        let refusal = "domain_validation_pending";
        site.counts_each("UpdateDistributionTenant", refusal)
            .await?;
        are_apart(&site.calls("UpdateDistributionTenant")?, 300);
        Ok(())
    })
}

#[test]
fn tags_that_may_not_be_written_are_not_in_sync_until_they_may() -> Result<()> {
    tell(USUAL, async |site| {
        site.makes("acme", acme()).await?;
        site.breaks("TagResource", DENIED)?;
        let edit = json!({"tags": [{"key": "team", "value": "shop"}], "enabled": false});
        site.edit("acme", edit).await?;
        let status = site.sees("acme", is("Synced", "AccessDenied")).await?;
        assert_eq!(word(&status.conditions, "Ready"), "False/AccessDenied");
        // The polls of the deployment do not try it again: that is done after four minutes.
        site.sweeps(6).await?;
        are_apart(&site.calls("TagResource")?, 240);
        let status = site.status("acme").await?;
        assert_eq!(word(&status.conditions, "Ready"), "False/AccessDenied");
        // A new process does not forget it, either.
        site.start().await?;
        site.mends()?;
        site.sees("acme", is("Synced", "InSync")).await?;
        assert_eq!(site.live("acme")?["tags"]["team"], "shop");
        site.ready("acme").await?;
        Ok(())
    })
}

#[test]
fn drift_that_may_not_be_undone_is_told_and_counted_once() -> Result<()> {
    tell(USUAL, async |site| {
        site.makes("acme", acme()).await?;
        site.breaks("UpdateDistributionTenant", DENIED)?;
        site.edits_tenant("acme", json!({"enabled": false}))?;
        let status = site.sees("acme", is("Ready", "AccessDenied")).await?;
        assert_eq!(status.drift_detected, Some(true));
        let drifted: Vec<_> = status.drift.iter().map(|one| &*one.field).collect();
        assert_eq!(drifted, ["enabled"]);
        assert_eq!(site.metric("drift_detected_total", &[]).await?, 1);

        site.mends()?;
        let status = site.sees("acme", is("Synced", "InSync")).await?;
        assert_eq!(status.drift_detected, Some(false));
        assert_eq!(site.live("acme")?["enabled"], true);
        assert_eq!(site.metric("drift_detected_total", &[]).await?, 1);
        Ok(())
    })
}

#[test]
fn what_becomes_of_drift_follows_a_new_flag() -> Result<()> {
    tell(USUAL, async |site| {
        let with_policy = async |policy: &str| {
            let flag = format!("--drift-policy={policy}");
            site.start_with(|options| options.args.push(flag)).await
        };
        with_policy("suspend").await?;
        site.makes("acme", acme()).await?;
        site.edits_tenant("acme", json!({"enabled": false}))?;
        let noted = |one: &DistributionTenant| {
            let status = one.status.as_ref();
            status.is_some_and(|status| status.drift_detected == Some(true))
        };
        let status = site.sees("acme", noted).await?;
        assert_eq!(word(&status.conditions, "Synced"), "True/InSync");
        with_policy("report").await?;
        site.sees("acme", is("Synced", "DriftDetected")).await?;
        with_policy("suspend").await?;
        site.sees("acme", is("Synced", "InSync")).await?;
        assert_eq!(site.count("UpdateDistributionTenant")?, 0);
        Ok(())
    })
}
