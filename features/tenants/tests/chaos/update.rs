//! The operator dies, or an answer is lost, while a tenant is changed: AWS holds what was declared
//! last, and the record says so.

use crate::crashes::At::{self, Point, Status};
use crate::crashes::When::{After, Before};
use crate::stories::cloud::Fault;
use crate::stories::objects::{acme, requesting, serving, with, word};
use crate::stories::{Site, USUAL, tell};
use rstest::rstest;
use serde_json::{Value, json};
use testkit::{Result, is};

const BOTH: [&str; 2] = ["a.example.com", "b.example.com"];

/// The edit is in CloudFront, recorded, and nothing of it is left to do.
async fn is_edited(site: &Site) -> Result<()> {
    let status = site.accepted("acme", 2).await?;
    let applied = status.last_applied.unwrap_or_default();
    assert!(applied.domains.iter().eq(BOTH), "{applied:?}");
    assert_eq!(site.domains("acme")?, BOTH);
    let status = site.ready("acme").await?;
    assert_eq!(word(&status.conditions, "Synced"), "True/InSync");
    assert_eq!(site.live("acme")?["etag"], json!(status.e_tag));
    site.stays_quiet(2).await?;
    // An edit is no drift, whoever died in between.
    assert_eq!(site.metric("drift_detected_total", &[]).await?, 0);
    assert_eq!(site.notes("acme", "DriftCorrected").await?, [""; 0]);
    Ok(())
}

#[rstest]
#[case::before_the_update(Point("tenants-before-update"))]
#[case::after_the_update(Point("tenants-after-update"))]
#[case::before_it_is_told(Status(Before, 1))]
#[case::after_it_is_told(Status(After, 1))]
fn a_crash_on_the_way_sends_the_edit_once(#[case] at: At) -> Result<()> {
    tell(USUAL, async |site| {
        site.makes("acme", acme()).await?;
        site.doom(at).await?;
        site.edit("acme", serving(&BOTH)).await?;
        site.revive().await?;
        is_edited(site).await?;
        let updates = site.calls("UpdateDistributionTenant")?;
        assert_eq!(updates.len(), 1, "{updates:#?}");
        Ok(())
    })
}

#[rstest]
#[case::never_arrives(Fault::CutBefore, 2)]
#[case::is_done_unheard(Fault::CutAfter, 1)]
fn an_update_whose_answer_is_lost_is_looked_for_before_it_is_sent_again(
    #[case] fault: Fault,
    #[case] sent: usize,
) -> Result<()> {
    tell(USUAL, async |site| {
        site.makes("acme", acme()).await?;
        site.breaks_once("UpdateDistributionTenant", fault)?;
        site.edit("acme", serving(&BOTH)).await?;
        is_edited(site).await?;
        assert_eq!(site.count("UpdateDistributionTenant")?, sent);
        Ok(())
    })
}

#[rstest]
#[case::the_answer_is_lost(None)]
#[case::the_operator_dies(Some(Point("tenants-after-update")))]
fn a_request_for_a_certificate_goes_out_once(#[case] at: Option<At>) -> Result<()> {
    tell(USUAL, async |site| {
        // Each request makes another certificate.
        site.switch("cloudfront", json!({"certResend": "new"}))?;
        site.makes("acme", acme()).await?;
        match at {
            Some(at) => site.doom(at).await?,
            None => site.breaks_once("UpdateDistributionTenant", Fault::CutAfter)?,
        }
        site.edit("acme", requesting("self-hosted")).await?;
        if at.is_some() {
            site.revive().await?;
        }
        site.accepted("acme", 2).await?;
        site.sees("acme", is("CertificateReady", "PendingValidation"))
            .await?;
        site.sweeps(3).await?;
        assert_eq!(site.count("UpdateDistributionTenant")?, 1);
        Ok(())
    })
}

#[test]
fn another_token_host_goes_out_once_though_the_operator_dies() -> Result<()> {
    tell(USUAL, async |site| {
        // Each request makes another certificate.
        site.switch("cloudfront", json!({"certResend": "new"}))?;
        let spec = with(acme(), requesting("self-hosted"));
        site.makes("acme", spec).await?;
        site.doom(Point("tenants-after-update")).await?;
        site.edit("acme", requesting("cloudfront")).await?;
        site.revive().await?;
        site.accepted("acme", 2).await?;
        site.sweeps(3).await?;
        assert_eq!(site.count("UpdateDistributionTenant")?, 1);
        Ok(())
    })
}

#[test]
fn drift_that_is_undone_unheard_is_told_and_counted_once() -> Result<()> {
    tell(USUAL, async |site| {
        site.makes("acme", acme()).await?;
        site.breaks_once("UpdateDistributionTenant", Fault::CutAfter)?;
        site.edits_tenant("acme", json!({"enabled": false}))?;
        site.event("acme", "DriftCorrected").await?;
        site.ready("acme").await?;
        site.stays_quiet(2).await?;
        assert_eq!(site.count("UpdateDistributionTenant")?, 1);
        assert_eq!(site.metric("drift_detected_total", &[]).await?, 1);
        Ok(())
    })
}

#[test]
fn an_edit_on_top_of_one_that_a_crash_left_unrecorded_is_what_counts() -> Result<()> {
    tell(USUAL, async |site| {
        site.makes("acme", acme()).await?;
        site.doom(Point("tenants-after-update")).await?;
        site.edit("acme", serving(&["a.example.com", "x.example.com"]))
            .await?;
        site.died().await?;
        site.edit("acme", serving(&BOTH)).await?;
        site.start().await?;
        site.accepted("acme", 3).await?;
        site.ready("acme").await?;
        assert_eq!(site.domains("acme")?, BOTH);
        Ok(())
    })
}

#[rstest]
#[case::before(Point("tenants-before-update"))]
#[case::after(Point("tenants-after-update"))]
fn a_crash_while_drift_is_undone_undoes_it_once(#[case] at: At) -> Result<()> {
    tell(USUAL, async |site| {
        site.makes("acme", acme()).await?;
        site.stop().await?;
        site.edits_tenant("acme", json!({"enabled": false}))?;
        site.doom(at).await?;
        site.revive().await?;
        site.until_live("acme", |live| live["enabled"] == true)
            .await?;
        site.sees("acme", is("Synced", "InSync")).await?;
        site.stays_quiet(2).await?;
        assert_eq!(site.count("UpdateDistributionTenant")?, 1);
        Ok(())
    })
}

#[rstest]
#[case::before(Some(Point("tenants-before-tags")), None)]
#[case::after(Some(Point("tenants-after-tags")), None)]
#[case::never_arrives(None, Some(Fault::CutBefore))]
#[case::is_done_unheard(None, Some(Fault::CutAfter))]
fn tags_are_as_declared_whatever_comes_between(
    #[case] at: Option<At>,
    #[case] fault: Option<Fault>,
) -> Result<()> {
    tell(USUAL, async |site| {
        let tagged = |key: &str| json!({"tags": [{"key": key, "value": "1"}]});
        site.makes("acme", with(acme(), tagged("x"))).await?;
        if let Some(fault) = fault {
            site.breaks_once("TagResource", fault)?;
            site.breaks_once("UntagResource", fault)?;
        }
        if let Some(at) = at {
            site.doom(at).await?;
        }
        site.edit("acme", tagged("y")).await?;
        if at.is_some() {
            site.revive().await?;
        }
        let tagged = |live: &Value| live["tags"]["x"].is_null() && live["tags"]["y"] == "1";
        site.until_live("acme", tagged).await?;
        site.accepted("acme", 2).await?;
        site.ready("acme").await?;
        assert_eq!(site.count("UpdateDistributionTenant")?, 0);
        Ok(())
    })
}

#[rstest]
#[case::before(Some(Point("tenants-before-update")), None)]
#[case::after(Some(Point("tenants-after-update")), None)]
#[case::is_done_unheard(None, Some(Fault::CutAfter))]
fn a_certificate_is_attached_once_whatever_comes_between(
    #[case] at: Option<At>,
    #[case] fault: Option<Fault>,
) -> Result<()> {
    tell(USUAL, async |site| {
        site.console("cloudfront", json!({"distribution": {"id": "E3"}}))?;
        let spec = with(acme(), requesting("self-hosted"));
        site.makes("acme", with(spec, json!({"distributionId": "E3"})))
            .await?;
        if let Some(fault) = fault {
            site.breaks_once("UpdateDistributionTenant", fault)?;
        }
        if let Some(at) = at {
            site.doom(at).await?;
        }
        site.certificate_is("acme", "issued")?;
        if at.is_some() {
            site.revive().await?;
        }
        site.sees("acme", is("CertificateReady", "Validated"))
            .await?;
        site.ready("acme").await?;
        site.stays_quiet(2).await?;
        assert_eq!(site.count("UpdateDistributionTenant")?, 1);
        let tenant = site.tenant("acme").await?;
        assert_eq!(tenant.metadata.generation, Some(1));
        Ok(())
    })
}
