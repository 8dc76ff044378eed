//! Invalidations: once each, told to their end, and gone after their time.

use crate::stories::cloud::{ACCOUNT, Fault, THROTTLED};
use crate::stories::objects::{acme, declare, event, said, serving, word};
use crate::stories::{Site, USUAL, tell};
use api::tenants::{Invalidation, InvalidationPhase, InvalidationStatus};
use kube::ResourceExt;
use kube::api::Api;
use serde_json::{Value, json};
use testkit::{Result, Sign, is};

const CREATE: &str = "CreateInvalidationForDistributionTenant";
/// More than are asked for at once.
const MANY: usize = 20;

/// Declares an invalidation of `paths` of the tenant acme, to be seen for a day after its end.
async fn invalidates(site: &Site, name: &str, paths: &[&str]) -> Result<()> {
    invalidates_for(site, name, paths, 86_400).await
}

/// The same, gone so many seconds after its end.
async fn invalidates_for(site: &Site, name: &str, paths: &[&str], ttl: i64) -> Result<()> {
    let spec = json!({
        "tenantRef": {"name": "acme"}, "paths": paths, "ttlSecondsAfterFinished": ttl,
    });
    declare::<Invalidation>(site, name, &spec).await
}

/// Waits until one says so; all that it says.
async fn sees(
    site: &Site,
    name: &str,
    sign: impl Sign<Invalidation>,
) -> Result<InvalidationStatus> {
    site.until_status::<Invalidation>(name, sign).await
}

/// What CloudFront has of the tenant acme.
fn live(site: &Site) -> Result<Vec<Value>> {
    let id = site.live("acme")?["id"].clone();
    let mut state = site.state()?;
    let mut all = state["cloudfront"][ACCOUNT]["invalidations"].take();
    let ours = all[id.as_str().unwrap_or_default()].take();
    Ok(ours.as_array().cloned().unwrap_or_default())
}

#[test]
fn an_invalidation_is_made_once_completed_and_gone_after_its_time() -> Result<()> {
    tell(USUAL, async |site| {
        site.makes("acme", acme()).await?;
        site.holds_deployments()?;
        invalidates(site, "all", &["/*"]).await?;
        let status = sees(site, "all", is("Ready", "InProgress")).await?;
        assert_eq!(status.phase, Some(InvalidationPhase::InProgress));
        assert_eq!(word(&status.conditions, "Ready"), "False/InProgress");
        assert!(status.create_time.is_some());
        let made = live(site)?;
        let [one] = made.as_slice() else {
            panic!("{made:#?}");
        };
        assert_eq!(one["id"], json!(status.id));
        assert_eq!(one["paths"], json!(["/*"]));
        let api = Api::<Invalidation>::namespaced(site.client(), site.name());
        let object = api.get("all").await?;
        assert_eq!(one["reference"], json!(object.uid()));
        assert!(object.finalizers().is_empty());
        event(site, "all", "InvalidationCreated").await?;

        // A restart in between asks for no second one. Another goes five minutes after its end.
        site.start().await?;
        invalidates_for(site, "brief", &["/brief"], 300).await?;
        sees(site, "brief", is("Ready", "InProgress")).await?;
        site.advances(4_000_000)?; // whatever is in progress is done
        let status = sees(site, "all", is("Ready", "Completed")).await?;
        assert_eq!(status.phase, Some(InvalidationPhase::Completed));
        assert_eq!(word(&status.conditions, "Ready"), "True/Completed");

        // Each goes after its own time and not before: the other is as it was.
        site.gone::<Invalidation>("brief").await?;
        let still = api.get("all").await?.status;
        assert_eq!(still, Some(status));
        assert_eq!(live(site)?.len(), 2);
        assert_eq!(site.count(CREATE)?, 2);
        Ok(())
    })
}

#[test]
fn an_invalidation_waits_for_its_tenant() -> Result<()> {
    tell(USUAL, async |site| {
        invalidates(site, "early", &["/a", "/b/*"]).await?;
        let status = sees(site, "early", is("Ready", "Waiting")).await?;
        assert_eq!(status.phase, Some(InvalidationPhase::Pending));
        let message = said(&status.conditions, "Ready");
        assert!(message.contains("acme"), "{message}");
        assert_eq!(site.count(CREATE)?, 0);
        site.makes("acme", acme()).await?;
        sees(site, "early", is("Ready", "Completed")).await?;
        assert_eq!(site.count(CREATE)?, 1);
        Ok(())
    })
}

#[test]
fn an_answer_that_is_lost_makes_no_second_invalidation() -> Result<()> {
    tell(USUAL, async |site| {
        site.makes("acme", acme()).await?;
        site.breaks_once(CREATE, Fault::CutAfter)?;
        invalidates(site, "all", &["/*"]).await?;
        sees(site, "all", is("Ready", "Completed")).await?;
        assert_eq!(live(site)?.len(), 1);
        let references = site.calls(CREATE)?;
        let references: Vec<_> = references
            .iter()
            .flat_map(|one| one.texts("CallerReference"))
            .collect();
        assert_eq!(references.len(), 2);
        assert_eq!(references[0], references[1]);
        Ok(())
    })
}

#[test]
fn too_many_at_once_wait_for_the_others() -> Result<()> {
    tell(USUAL, async |site| {
        site.makes("acme", acme()).await?;
        let many = Fault::Refused(400, "TooManyInvalidationsInProgress");
        site.breaks(CREATE, many)?;
        invalidates(site, "all", &["/*"]).await?;
        let status = sees(site, "all", is("Ready", "TooManyInvalidations")).await?;
        assert_eq!(status.phase, Some(InvalidationPhase::Pending));
        assert!(site.errors("limit_exceeded").await? >= 1);
        site.mends()?;
        sees(site, "all", is("Ready", "Completed")).await?;
        Ok(())
    })
}

#[test]
fn what_cloudfront_refuses_has_failed() -> Result<()> {
    tell(USUAL, async |site| {
        site.makes("acme", acme()).await?;
        let large = Fault::Refused(413, "BatchTooLarge");
        site.breaks(CREATE, large)?;
        invalidates(site, "all", &["/*"]).await?;
        let status = sees(site, "all", is("Ready", "InvalidSpec")).await?;
        assert_eq!(status.phase, Some(InvalidationPhase::Failed));
        let message = said(&status.conditions, "Ready");
        assert!(message.contains("BatchTooLarge"), "{message}");
        // It goes after its time, too.
        invalidates_for(site, "brief", &["/*"], 300).await?;
        site.gone::<Invalidation>("brief").await?;
        assert!(live(site)?.is_empty());
        Ok(())
    })
}

#[test]
fn throttling_is_waited_out() -> Result<()> {
    tell(USUAL, async |site| {
        site.makes("acme", acme()).await?;
        site.breaks_once(CREATE, THROTTLED)?;
        invalidates(site, "all", &["/*"]).await?;
        sees(site, "all", is("Ready", "Completed")).await?;
        assert_eq!(site.errors("throttling").await?, 1);
        assert_eq!(live(site)?.len(), 1);
        Ok(())
    })
}

#[test]
fn many_are_asked_for_one_after_another_and_hold_up_no_tenant() -> Result<()> {
    tell(USUAL, async |site| {
        site.makes("acme", acme()).await?;
        for n in 0..MANY {
            invalidates(site, &format!("n{n:02}"), &["/*"]).await?;
        }
        site.makes("second", serving(&["b.example.com"])).await?;
        let calls = site.called(CREATE, MANY).await?;
        // One every other second: half of that allows for a first call that came late.
        let took = calls[MANY - 1].after(&calls[0]);
        assert!(took >= 19, "{took} s for {MANY}");
        assert_eq!(live(site)?.len(), MANY);
        Ok(())
    })
}
