//! What is in CloudFront already: left alone, or taken over on request and marked first.

use crate::stories::cloud::DENIED;
use crate::stories::objects::{acme, said, serving, with, word};
use crate::stories::{Plan, Site, USUAL, tell};
use api::tenants::names;
use rstest::rstest;
use serde_json::{Value, json};
use testkit::{Result, is};

/// Somebody's tenant of E1.
fn seeded(name: &str, tags: Value) -> Value {
    json!({"name": name, "distribution": "E1", "domains": ["a.example.com"], "tags": tags})
}

/// The marker of another cluster's object.
fn another() -> Value {
    json!({names::CLUSTER_TAG: "another", names::OBJECT_TAG: "web/acme"})
}

fn adopting(by: &str) -> Value {
    with(acme(), json!({"adoption": {"by": by}}))
}

/// Waits until a tenant says that what it found is not its own; its words.
async fn not_owned(site: &Site, name: &str) -> Result<String> {
    let status = site.sees(name, is("Ready", "NotOwned")).await?;
    assert_eq!(word(&status.conditions, "Ready"), "False/NotOwned");
    assert_eq!(word(&status.conditions, "Synced"), "False/NotOwned");
    assert_eq!(status.id, None);
    Ok(said(&status.conditions, "Ready"))
}

/// The tenant carries our marker.
fn is_marked(site: &Site, tenant: &str, object: &str) -> Result<()> {
    let tags = site.live(tenant)?["tags"].take();
    assert_eq!(tags[names::CLUSTER_TAG], site.cluster);
    let object = format!("{}/{object}", site.name());
    assert_eq!(tags[names::OBJECT_TAG], object);
    Ok(())
}

#[test]
fn an_unmarked_tenant_is_left_alone_until_it_is_adopted_and_marked_first() -> Result<()> {
    tell(USUAL, async |site| {
        let live = site.seeds_tenant(seeded("acme", json!({"team": "shop"})))?;
        site.declare("acme", acme()).await?;
        not_owned(site, "acme").await?;
        site.event("acme", "NotOwned").await?;
        site.waits(60).await?;
        assert_eq!(site.live("acme")?["etag"], live["etag"]);
        assert_eq!(site.done()?, [""; 0]);

        site.may_take(&["acme"])?;
        let more = serving(&["a.example.com", "b.example.com"]);
        let more = with(more, json!({"adoption": {"by": "Name"}}));
        site.declare("acme", more).await?;
        let status = site.ready("acme").await?;
        assert_eq!(json!(status.id), live["id"]);
        is_marked(site, "acme", "acme")?;
        assert_eq!(site.live("acme")?["tags"]["team"], "shop");
        site.event("acme", "Adopted").await?;
        let done = ["TagResource", "UpdateDistributionTenant"];
        assert_eq!(site.done()?, done);
        Ok(())
    })
}

#[test]
fn an_adopted_tenant_that_is_as_declared_is_only_marked() -> Result<()> {
    tell(USUAL, async |site| {
        let live = site.seeds_tenant(seeded("acme", json!({})))?;
        site.may_take(&["acme"])?;
        let status = site.makes("acme", adopting("Name")).await?;
        assert_eq!(json!(status.id), live["id"]);
        assert_eq!(word(&status.conditions, "Synced"), "True/InSync");
        site.stays_quiet(2).await?;
        assert_eq!(site.done()?, ["TagResource"]);
        site.removes("acme").await?;
        assert!(site.live("acme")?.is_null());
        Ok(())
    })
}

#[test]
fn a_tenant_can_be_found_by_its_domain_and_keeps_its_name() -> Result<()> {
    tell(USUAL, async |site| {
        let live = site.seeds_tenant(seeded("Legacy.Site", json!({})))?;
        site.may_take(&["Legacy.Site"])?;
        let status = site.makes("acme", adopting("Domain")).await?;
        assert_eq!(json!(status.id), live["id"]);
        assert_eq!(status.tenant_name.as_deref(), Some("Legacy.Site"));
        is_marked(site, "Legacy.Site", "acme")?;
        assert_eq!(site.count("CreateDistributionTenant")?, 0);
        Ok(())
    })
}

#[rstest]
#[case::nobody_named(json!({"by": "Name"}))]
#[case::another_named(json!({"by": "Name", "fromOwner": "another/web/other"}))]
#[case::not_adopted(Value::Null)]
fn a_tenant_of_another_is_named_with_its_owner_and_left_alone(
    #[case] adoption: Value,
) -> Result<()> {
    tell(USUAL, async |site| {
        site.seeds_tenant(seeded("acme", another()))?;
        site.declare("acme", with(acme(), json!({"adoption": adoption})))
            .await?;
        let message = not_owned(site, "acme").await?;
        assert!(message.contains("another/web/acme"), "{message}");
        site.waits(60).await?;
        assert_eq!(site.done()?, [""; 0]);
        Ok(())
    })
}

#[test]
fn a_tenant_of_another_is_taken_over_from_exactly_its_owner() -> Result<()> {
    tell(USUAL, async |site| {
        let live = site.seeds_tenant(seeded("acme", another()))?;
        site.may_take(&["acme"])?;
        let from = json!({"adoption": {"by": "Name", "fromOwner": "another/web/acme"}});
        let status = site.makes("acme", with(acme(), from)).await?;
        assert_eq!(json!(status.id), live["id"]);
        is_marked(site, "acme", "acme")?;
        Ok(())
    })
}

#[test]
fn with_nothing_to_adopt_a_tenant_is_made() -> Result<()> {
    tell(USUAL, async |site| {
        site.makes("acme", adopting("Name")).await?;
        let second = with(
            serving(&["b.example.com"]),
            json!({"adoption": {"by": "Domain"}}),
        );
        site.makes("second", second).await?;
        assert_eq!(site.done()?, ["CreateDistributionTenant"; 2]);
        Ok(())
    })
}

#[test]
fn what_cannot_be_marked_is_not_adopted() -> Result<()> {
    tell(USUAL, async |site| {
        site.seeds_tenant(seeded("acme", json!({})))?;
        site.may_take(&["acme"])?;
        site.breaks("TagResource", DENIED)?;
        let more = serving(&["a.example.com", "b.example.com"]);
        let more = with(more, json!({"adoption": {"by": "Name"}}));
        site.declare("acme", more).await?;
        site.sees("acme", is("Ready", "AccessDenied")).await?;
        assert_eq!(site.count("UpdateDistributionTenant")?, 0);
        site.mends()?;
        site.ready("acme").await?;
        is_marked(site, "acme", "acme")?;
        Ok(())
    })
}

#[test]
fn a_domain_that_a_tenant_of_nobody_has_names_its_holder() -> Result<()> {
    tell(USUAL, async |site| {
        let live = site.seeds_tenant(seeded("legacy", json!({})))?;
        site.declare("acme", acme()).await?;
        let status = site.sees("acme", is("Ready", "DomainConflict")).await?;
        let message = said(&status.conditions, "Ready");
        let id = live["id"].as_str().unwrap_or_default();
        assert!(message.contains(id), "{message}");
        assert_eq!(site.live("legacy")?["etag"], live["etag"]);
        Ok(())
    })
}

#[test]
fn what_another_marked_is_left_alone_until_it_may_be_taken_from_it() -> Result<()> {
    tell(USUAL, async |site| {
        site.switch("cloudfront", json!({"tagsEchoed": true}))?;
        site.makes("acme", acme()).await?;
        let mark = site.mark()?;
        site.edits_tenant("acme", json!({"tags": another(), "enabled": false}))?;
        site.sees("acme", is("Synced", "NotOwned")).await?;
        site.sweeps(2).await?;
        assert_eq!(site.done_since(mark)?, [""; 0]);

        site.may_take(&["acme"])?;
        let from = json!({"by": "Name", "fromOwner": "another/web/acme"});
        site.edit("acme", json!({"adoption": from})).await?;
        site.ready("acme").await?;
        is_marked(site, "acme", "acme")?;
        site.event("acme", "Adopted").await?;
        // First the marker, then what had changed meanwhile.
        let done = ["TagResource", "UpdateDistributionTenant"];
        assert_eq!(site.done_since(mark)?, done);
        Ok(())
    })
}

/// A day passes in twelve seconds.
const DAYS: Plan = Plan {
    pace: 7200,
    args: &["--tenants-sweep-interval=2h"],
};

#[test]
fn a_tenant_that_another_took_is_noticed_within_a_day_and_not_written_any_more() -> Result<()> {
    tell(DAYS, async |site| {
        site.makes("acme", acme()).await?;
        site.edits_tenant("acme", json!({"tags": another()}))?;
        let status = site.sees("acme", is("Synced", "NotOwned")).await?;
        assert_eq!(word(&status.conditions, "Ready"), "False/NotOwned");
        let message = said(&status.conditions, "Ready");
        assert!(message.contains("another/web/acme"), "{message}");
        let mark = site.mark()?;
        site.edits_tenant("acme", json!({"enabled": false}))?;
        site.sweeps(3).await?;
        assert_eq!(site.done_since(mark)?, [""; 0]);
        Ok(())
    })
}
