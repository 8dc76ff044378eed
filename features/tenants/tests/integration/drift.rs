//! Others change a tenant in AWS: it is undone, reported or only noted, and never by accident.

use crate::stories::calls::are_apart;
use crate::stories::objects::{acme, said, serving, with, word, words};
use crate::stories::{Plan, Site, USUAL, tell};
use api::tenants::{DistributionTenant, DistributionTenantStatus};
use rstest::rstest;
use serde_json::{Value, json};
use testkit::{Result, eventually, is};

const BOTH: [&str; 2] = ["a.example.com", "b.example.com"];
const MORE: [&str; 2] = ["a.example.com", "x.example.com"];

/// The same with drift reported unless an object says otherwise.
const REPORTING: Plan = Plan {
    args: &["--tenants-sweep-interval=30s", "--drift-policy=report"],
    ..USUAL
};

/// Somebody adds x.example.com to a tenant at the console.
fn adds_x(site: &Site) -> Result<()> {
    site.edits_tenant("acme", json!({"domains": MORE}))
}

/// The drifted fields in a status.
fn fields(status: &DistributionTenantStatus) -> Vec<&str> {
    let drift = status.drift.iter();
    drift.map(|one| one.field.as_str()).collect()
}

/// Waits until so many events tell that a tenant was put right; what they say.
async fn corrections(site: &Site, tenant: &str, count: usize) -> Result<Vec<String>> {
    eventually(&format!("{count} events DriftCorrected"), async || {
        let notes = site.notes(tenant, "DriftCorrected").await?;
        Ok((notes.len() >= count).then_some(notes))
    })
    .await
}

#[test]
fn what_others_change_is_undone_once_told_once_and_counted_once() -> Result<()> {
    tell(USUAL, async |site| {
        site.makes("acme", acme()).await?;
        adds_x(site)?;
        site.until_live("acme", |live| live["domains"] == json!(["a.example.com"]))
            .await?;
        let notes = corrections(site, "acme", 1).await?;
        assert!(notes[0].contains("domains"), "{notes:?}");
        assert_eq!(site.metric("drift_detected_total", &[]).await?, 1);
        assert_eq!(site.count("UpdateDistributionTenant")?, 1);
        site.ready("acme").await?;

        site.edits_tenant("acme", json!({"enabled": false}))?;
        site.until_live("acme", |live| live["enabled"] == true)
            .await?;
        corrections(site, "acme", 2).await?;
        assert_eq!(site.metric("drift_detected_total", &[]).await?, 2);
        let status = site.sees("acme", is("Synced", "InSync")).await?;
        assert!(fields(&status).is_empty(), "{:?}", status.drift);

        site.stays_quiet(2).await?;
        assert_eq!(site.count("UpdateDistributionTenant")?, 2);
        assert_eq!(site.metric("drift_detected_total", &[]).await?, 2);
        // Each was told by an event of its own, in whatever order they are listed.
        let notes = corrections(site, "acme", 2).await?;
        let of = |field: &str| notes.iter().filter(|note| note.contains(field)).count();
        assert_eq!(
            (notes.len(), of("domains"), of("enabled")),
            (2, 1, 1),
            "{notes:?}"
        );
        Ok(())
    })
}

#[test]
fn parameters_are_not_in_lists_and_are_undone_all_the_same() -> Result<()> {
    tell(USUAL, async |site| {
        let golden = json!({"parameters": [{"name": "tier", "value": "gold"}]});
        site.makes("acme", with(acme(), golden)).await?;
        site.edits_tenant("acme", json!({"parameters": {"tier": "lead"}}))?;
        let gold = json!([{"name": "tier", "value": "gold"}]);
        site.until_live("acme", |live| live["parameters"] == gold)
            .await?;
        let note = site.event("acme", "DriftCorrected").await?;
        assert!(note.contains("parameters"), "{note}");
        Ok(())
    })
}

#[test]
fn reported_drift_is_named_counted_once_and_left_alone() -> Result<()> {
    tell(USUAL, async |site| {
        let spec = with(acme(), json!({"driftPolicy": "report"}));
        site.makes("acme", spec).await?;
        site.holds_deployments()?;
        adds_x(site)?;
        let status = site.sees("acme", is("Synced", "DriftDetected")).await?;
        assert_eq!(word(&status.conditions, "Synced"), "False/DriftDetected");
        let message = said(&status.conditions, "Synced");
        assert!(message.contains("domains"), "{message}");
        assert_eq!(status.drift_detected, Some(true));
        assert_eq!(fields(&status), ["domains"]);
        let live = status.drift[0].live.as_deref().unwrap_or_default();
        assert!(live.contains("x.example.com"), "{live}");

        // Ready goes on to tell how the deployment of it goes.
        let status = site.sees("acme", is("Ready", "Deploying")).await?;
        assert_eq!(word(&status.conditions, "Ready"), "False/Deploying");
        site.deploys("acme")?;
        let status = site.ready("acme").await?;
        assert_eq!(word(&status.conditions, "Synced"), "False/DriftDetected");

        site.stays_quiet(5).await?;
        assert_eq!(site.count("UpdateDistributionTenant")?, 0);
        assert_eq!(site.metric("drift_detected_total", &[]).await?, 1);
        let notes = site.notes("acme", "DriftDetected").await?;
        assert_eq!(notes.len(), 1, "{notes:?}");

        // Undone by hand, it is over.
        site.frees_deployments()?;
        site.edits_tenant("acme", json!({"domains": ["a.example.com"]}))?;
        let status = site.sees("acme", is("Synced", "InSync")).await?;
        assert_eq!(status.drift_detected, Some(false));
        assert!(fields(&status).is_empty(), "{:?}", status.drift);
        Ok(())
    })
}

#[test]
fn suspended_drift_is_only_noted() -> Result<()> {
    tell(USUAL, async |site| {
        let spec = with(acme(), json!({"driftPolicy": "suspend"}));
        site.makes("acme", spec).await?;
        adds_x(site)?;
        let noted = |one: &DistributionTenant| {
            let status = one.status.as_ref();
            status.is_some_and(|status| status.drift_detected == Some(true))
        };
        let status = site.sees("acme", noted).await?;
        assert_eq!(fields(&status), ["domains"]);
        let status = site.ready("acme").await?;
        assert!(word(&status.conditions, "Synced").starts_with("True/"));
        site.stays_quiet(2).await?;
        assert_eq!(site.count("UpdateDistributionTenant")?, 0);
        assert_eq!(site.notes("acme", "DriftDetected").await?, [""; 0]);
        let past = words(&site.past("acme").await?, "Synced");
        assert!(
            past.iter().all(|word| word.starts_with("True/")),
            "{past:?}"
        );
        Ok(())
    })
}

#[test]
fn an_object_says_for_itself_what_becomes_of_drift() -> Result<()> {
    tell(REPORTING, async |site| {
        site.makes("acme", with(acme(), json!({"driftPolicy": "enforce"})))
            .await?;
        site.makes("other", serving(&["c.example.com"])).await?;
        adds_x(site)?;
        site.edits_tenant("other", json!({"enabled": false}))?;
        site.until_live("acme", |live| live["domains"] == json!(["a.example.com"]))
            .await?;
        site.sees("other", is("Synced", "DriftDetected")).await?;
        site.sweeps(2).await?;
        assert_eq!(site.live("other")?["enabled"], false);
        Ok(())
    })
}

#[test]
fn a_group_that_the_spec_leaves_open_is_not_ours() -> Result<()> {
    tell(USUAL, async |site| {
        site.seeds_group("cg1", "d1.cloudfront.net")?;
        site.makes("acme", acme()).await?;
        assert_eq!(site.live("acme")?["group"], "cg0");
        site.stays_quiet(2).await?;
        // Nor when somebody moves it.
        site.edits_tenant("acme", json!({"group": "cg1"}))?;
        site.sweeps(3).await?;
        assert_eq!(site.live("acme")?["group"], "cg1");
        assert_eq!(site.metric("drift_detected_total", &[]).await?, 0);
        assert_eq!(site.count("UpdateDistributionTenant")?, 0);
        let status = site.ready("acme").await?;
        assert_eq!(word(&status.conditions, "Synced"), "True/InSync");
        Ok(())
    })
}

#[test]
fn a_tenant_that_others_delete_is_made_again() -> Result<()> {
    tell(USUAL, async |site| {
        let first = site.makes("acme", acme()).await?;
        site.console("cloudfront", json!({"delete": "acme"}))?;
        let again = |one: &DistributionTenant| {
            let id = one.status.as_ref().and_then(|status| status.id.clone());
            id.is_some() && id != first.id
        };
        site.sees("acme", again).await?;
        site.event("acme", "ExternalDeletion").await?;
        let status = site.ready("acme").await?;
        assert_eq!(site.live("acme")?["id"], json!(status.id));
        assert_eq!(site.done()?, ["CreateDistributionTenant"; 2]);
        Ok(())
    })
}

#[rstest]
#[case::report("report")]
#[case::suspend("suspend")]
fn a_tenant_that_others_delete_stays_away_until_drift_is_undone(
    #[case] policy: &'static str,
) -> Result<()> {
    tell(USUAL, async |site| {
        let spec = with(acme(), json!({"driftPolicy": policy}));
        site.makes("acme", spec).await?;
        site.console("cloudfront", json!({"delete": "acme"}))?;
        let status = site.sees("acme", is("Ready", "ExternallyDeleted")).await?;
        let ready = word(&status.conditions, "Ready");
        assert_eq!(ready, "False/ExternallyDeleted");
        site.event("acme", "ExternalDeletion").await?;
        site.waits(60).await?;
        assert_eq!(site.count("CreateDistributionTenant")?, 1);

        site.edit("acme", json!({"driftPolicy": "enforce"})).await?;
        site.ready("acme").await?;
        assert_eq!(site.count("CreateDistributionTenant")?, 2);
        Ok(())
    })
}

#[test]
fn a_new_tenant_that_reads_do_not_show_yet_is_not_made_again() -> Result<()> {
    tell(USUAL, async |site| {
        // Reads are a minute and a half behind.
        site.switch("cloudfront", json!({"readLag": 90}))?;
        site.declare("acme", acme()).await?;
        site.ready("acme").await?;
        let past = words(&site.past("acme").await?, "Ready");
        assert_eq!(past, ["False/Creating", "True/Deployed"]);
        site.switch("cloudfront", json!({"readLag": 0}))?;
        site.stays_quiet(2).await?;
        assert_eq!(site.done()?, ["CreateDistributionTenant"]);
        assert_eq!(site.notes("acme", "ExternalDeletion").await?, [""; 0]);
        Ok(())
    })
}

#[test]
fn an_edit_heals_no_drift_that_is_only_reported() -> Result<()> {
    tell(USUAL, async |site| {
        let parameters = json!({"driftPolicy": "report", "parameters": [
            {"name": "tier", "value": "gold"}, {"name": "region", "value": "eu"},
        ]});
        site.makes("acme", with(acme(), parameters.clone())).await?;
        let console = json!({
            "domains": MORE, "parameters": {"tier": "lead", "region": "eu"}, "enabled": false,
        });
        site.edits_tenant("acme", console)?;
        site.sees("acme", is("Synced", "DriftDetected")).await?;

        // The team adds b.example.com and changes the other parameter.
        let mut edited = with(serving(&BOTH), parameters);
        edited["parameters"][1]["value"] = json!("us");
        site.declare("acme", edited).await?;
        site.accepted("acme", 2).await?;
        let all = ["a.example.com", "b.example.com", "x.example.com"];
        assert_eq!(site.domains("acme")?, all);
        let live = site.live("acme")?;
        assert_eq!(live["enabled"], false);
        let has = |name: &str, value: &str| {
            let wanted = json!({"name": name, "value": value});
            let all = live["parameters"].as_array().expect("parameters");
            all.contains(&wanted)
        };
        assert!(has("tier", "lead") && has("region", "us"), "{live}");

        // What was not edited is drift as before.
        let status = site.sees("acme", is("Synced", "DriftDetected")).await?;
        let mut drifted = fields(&status);
        drifted.sort_unstable();
        assert_eq!(drifted, ["domains", "enabled", "parameters"]);
        assert_eq!(site.count("UpdateDistributionTenant")?, 1);
        Ok(())
    })
}

/// The same with a sweep only every ten minutes.
const RARELY: Plan = Plan {
    args: &["--tenants-sweep-interval=10m"],
    ..USUAL
};

#[test]
fn one_who_changes_it_again_and_again_is_undone_once_a_sweep() -> Result<()> {
    tell(RARELY, async |site| {
        site.makes("acme", acme()).await?;
        site.holds_deployments()?;
        site.edits_tenant("acme", json!({"enabled": false}))?;
        site.event("acme", "DriftCorrected").await?;
        // Deployments are polled for twice a minute: it is seen long before the next sweep.
        site.edits_tenant("acme", json!({"enabled": false}))?;
        let seen = |one: &DistributionTenant| {
            let status = one.status.as_ref();
            status.is_some_and(|status| status.drift_detected == Some(true))
        };
        site.sees("acme", seen).await?;
        site.frees_deployments()?;
        let calls = site.called("UpdateDistributionTenant", 2).await?;
        let pause = calls[1].after(&calls[0]);
        assert!(pause >= 600, "after {pause} s");
        site.ready("acme").await?;
        assert_eq!(site.live("acme")?["enabled"], true);
        Ok(())
    })
}

#[test]
fn an_update_without_effect_is_no_drift_and_is_sent_again_later() -> Result<()> {
    tell(USUAL, async |site| {
        // Parameters that are not sent stay: they cannot be removed.
        site.switch("cloudfront", json!({"update": "deepMerge"}))?;
        let golden = json!({"driftPolicy": "report", "parameters": [
            {"name": "tier", "value": "gold"},
        ]});
        site.makes("acme", with(acme(), golden)).await?;
        let plain = with(serving(&BOTH), json!({"driftPolicy": "report"}));
        site.declare("acme", plain).await?;
        site.sees("acme", is("Synced", "UpdateNotEffective"))
            .await?;
        site.sweeps(2).await?;
        let status = site.status("acme").await?;
        assert_eq!(fields(&status), [""; 0]);
        assert_eq!(
            word(&status.conditions, "Synced"),
            "False/UpdateNotEffective"
        );

        let mark = site.mark()?;
        site.switch("cloudfront", json!({"update": "replace"}))?;
        site.sees("acme", is("Synced", "InSync")).await?;
        assert_eq!(site.live("acme")?["parameters"], json!([]));
        // One more was enough, after five minutes at the earliest.
        assert_eq!(site.done_since(mark)?, ["UpdateDistributionTenant"]);
        are_apart(&site.calls("UpdateDistributionTenant")?, 299);
        assert_eq!(site.metric("drift_detected_total", &[]).await?, 0);
        Ok(())
    })
}

#[test]
fn an_edit_to_what_is_there_already_is_recorded_without_an_update() -> Result<()> {
    tell(REPORTING, async |site| {
        site.makes("acme", acme()).await?;
        adds_x(site)?;
        site.sees("acme", is("Synced", "DriftDetected")).await?;
        site.declare("acme", serving(&MORE)).await?;
        let status = site.accepted("acme", 2).await?;
        let applied = status.last_applied.unwrap_or_default();
        assert!(applied.domains.iter().eq(MORE), "{applied:?}");
        site.sees("acme", is("Synced", "InSync")).await?;
        assert_eq!(site.count("UpdateDistributionTenant")?, 0);
        Ok(())
    })
}

/// A day passes in twelve seconds.
const DAYS: Plan = Plan {
    pace: 7200,
    args: &["--tenants-sweep-interval=2h"],
};

#[test]
fn tags_that_others_change_are_set_right_within_a_day() -> Result<()> {
    tell(DAYS, async |site| {
        let tags = json!({"tags": [{"key": "team", "value": "shop"}]});
        site.makes("acme", with(acme(), tags)).await?;
        let mut live = site.live("acme")?["tags"].take();
        live["team"] = json!("nobody");
        live["z"] = json!("console");
        site.edits_tenant("acme", json!({"tags": live}))?;
        let right = |live: &Value| live["tags"]["team"] == "shop";
        let live = site.until_live("acme", right).await?;
        assert_eq!(live["tags"]["z"], "console");
        assert_eq!(site.count("UpdateDistributionTenant")?, 0);
        Ok(())
    })
}
