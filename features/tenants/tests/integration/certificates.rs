//! Managed certificates: requested with the tenant, awaited, attached once, and never in the spec.

use crate::stories::calls::Call;
use crate::stories::cloud::{CERTIFICATE, DENIED, Fault, STALE};
use crate::stories::objects::{acme, requesting, said, serving, with, word, words};
use crate::stories::{Site, USUAL, tell};
use api::tenants::DistributionTenant;
use rstest::rstest;
use serde_json::{Value, json};
use testkit::{Result, is};

/// The spec of a tenant of a distribution without a certificate, which requests its own.
fn requested() -> Value {
    let spec = with(acme(), requesting("self-hosted"));
    with(spec, json!({"distributionId": "E3"}))
}

/// Makes that distribution.
fn furnish(site: &Site) -> Result<()> {
    let bare = json!({"distribution": {"id": "E3"}});
    site.console("cloudfront", bare).map(drop)
}

/// The ARN of a tenant's managed certificate.
fn managed(site: &Site, tenant: &str) -> Result<String> {
    let live = site.live(tenant)?;
    let arn = live["managed"]["arn"].as_str();
    Ok(arn.unwrap_or_default().to_owned())
}

/// The certificate that is attached to a tenant.
fn attached(site: &Site, tenant: &str) -> Result<Value> {
    Ok(site.live(tenant)?["customizations"]["certificate"].clone())
}

#[test]
fn a_pending_certificate_tells_the_redirects_that_prove_the_domain() -> Result<()> {
    tell(USUAL, async |site| {
        furnish(site)?;
        site.declare("acme", requested()).await?;
        let told = |one: &DistributionTenant| {
            let status = one.status.as_ref();
            status.is_some_and(|status| !status.validation_tokens.is_empty())
        };
        let status = site.sees("acme", told).await?;
        let certificate = word(&status.conditions, "CertificateReady");
        assert_eq!(certificate, "False/PendingValidation");
        let [token] = status.validation_tokens.as_slice() else {
            panic!("{:?}", status.validation_tokens);
        };
        assert_eq!(token.domain, "a.example.com");
        let from = token.redirect_from.clone().unwrap_or_default();
        let to = token.redirect_to.clone().unwrap_or_default();
        assert!(from.starts_with("http://a.example.com/"), "{from}");
        assert!(to.starts_with("https://validation."), "{to}");
        let message = said(&status.conditions, "CertificateReady");
        assert!(
            message.contains(&from) && message.contains(&to),
            "{message}"
        );
        let state = status.managed_certificate_status.as_deref();
        assert_eq!(state, Some("pending-validation"));
        let created = site.calls("CreateDistributionTenant")?;
        assert_eq!(created[0].texts("ValidationTokenHost"), ["self-hosted"]);
        assert_eq!(site.count("UpdateDistributionTenant")?, 0);
        Ok(())
    })
}

#[test]
fn an_issued_certificate_is_attached_once_and_the_spec_stays_as_it_is() -> Result<()> {
    tell(USUAL, async |site| {
        furnish(site)?;
        site.makes("acme", requested()).await?;
        let spec = site.tenant("acme").await?.spec;
        site.certificate_is("acme", "issued")?;
        let status = site.sees("acme", is("CertificateReady", "Validated"));
        let status = status.await?;
        let certificate = word(&status.conditions, "CertificateReady");
        assert_eq!(certificate, "True/Validated");
        let arn = managed(site, "acme")?;
        assert_eq!(status.certificate_arn.as_deref(), Some(&*arn));
        assert_eq!(attached(site, "acme")?, json!(arn));
        assert_eq!(status.validation_tokens, []);
        site.event("acme", "CertificateAttaching").await?;
        let told = words(&site.past("acme").await?, "CertificateReady");
        let order = [
            "False/PendingValidation",
            "False/Attaching",
            "True/Validated",
        ];
        assert_eq!(told, order);

        site.ready("acme").await?;
        site.stays_quiet(3).await?;
        let updates = site.calls("UpdateDistributionTenant")?;
        assert_eq!(updates.len(), 1, "{updates:#?}");
        assert!(updates[0].texts("ValidationTokenHost").is_empty());
        let tenant = site.tenant("acme").await?;
        assert_eq!(tenant.metadata.generation, Some(1));
        assert_eq!(tenant.spec, spec);
        Ok(())
    })
}

#[test]
fn a_certificate_that_attaches_itself_is_no_drift() -> Result<()> {
    tell(USUAL, async |site| {
        furnish(site)?;
        let behaviour = json!({"autoAttach": "on", "etagOnCertificate": true});
        site.switch("cloudfront", behaviour)?;
        site.makes("acme", requested()).await?;
        // Between two polls: issued between the reads of tenant and certificate, it is attached by us as well.
        site.called("GetManagedCertificateDetails", 1).await?;
        site.certificate_is("acme", "issued")?;
        site.sees("acme", is("CertificateReady", "Validated"))
            .await?;
        let status = site.ready("acme").await?;
        assert_eq!(word(&status.conditions, "Synced"), "True/InSync");
        site.stays_quiet(3).await?;
        assert_eq!(site.count("UpdateDistributionTenant")?, 0);
        assert_eq!(site.metric("drift_detected_total", &[]).await?, 0);

        // An edit of something else keeps it.
        site.edit("acme", json!({"enabled": false})).await?;
        site.accepted("acme", 2).await?;
        let arn = managed(site, "acme")?;
        assert_eq!(attached(site, "acme")?, json!(arn));
        Ok(())
    })
}

#[test]
fn a_certificate_that_will_not_come_is_named() -> Result<()> {
    tell(USUAL, async |site| {
        furnish(site)?;
        let ends = ["validation-timed-out", "failed", "revoked", "expired"];
        for (n, end) in ends.into_iter().enumerate() {
            let (name, domain) = (format!("acme-{n}"), format!("a{n}.example.com"));
            let request = json!({"managedCertificateRequest": {"primaryDomainName": domain}});
            let spec = with(requested(), serving(&[&domain]));
            let spec = with(with(spec, request), json!({"distributionId": "E3"}));
            site.makes(&name, spec).await?;
            site.certificate_is(&name, end)?;
        }
        for (n, end) in ends.into_iter().enumerate() {
            let name = format!("acme-{n}");
            let status = site.sees(&name, is("CertificateReady", "CertificateFailed"));
            let status = status.await?;
            let certificate = word(&status.conditions, "CertificateReady");
            assert_eq!(certificate, "False/CertificateFailed");
            let message = said(&status.conditions, "CertificateReady");
            assert!(message.contains(end), "{message}");
            let state = status.managed_certificate_status.as_deref();
            assert_eq!(state, Some(end));
        }
        assert_eq!(site.count("UpdateDistributionTenant")?, 0);
        Ok(())
    })
}

#[test]
fn the_certificate_of_the_spec_wins_over_an_issued_one() -> Result<()> {
    tell(USUAL, async |site| {
        furnish(site)?;
        let own = json!({"customizations": {"certificate": {"arn": CERTIFICATE}}});
        site.makes("acme", with(requested(), own)).await?;
        site.certificate_is("acme", "issued")?;
        let issued = |one: &DistributionTenant| {
            let status = one.status.clone().unwrap_or_default();
            status.managed_certificate_status.as_deref() == Some("issued")
        };
        let status = site.sees("acme", issued).await?;
        site.sweeps(2).await?;
        assert_eq!(attached(site, "acme")?, CERTIFICATE);
        assert_eq!(site.count("UpdateDistributionTenant")?, 0);
        let used = status.certificate_arn.as_deref();
        assert_eq!(used, Some(CERTIFICATE));

        // No longer in the spec, it makes room.
        site.declare("acme", requested()).await?;
        let arn = managed(site, "acme")?;
        site.until_live("acme", |live| live["customizations"]["certificate"] == arn)
            .await?;
        Ok(())
    })
}

#[test]
fn a_request_is_sent_again_only_when_it_changed() -> Result<()> {
    tell(USUAL, async |site| {
        furnish(site)?;
        // The same request again would be another certificate.
        site.switch("cloudfront", json!({"certResend": "new"}))?;
        site.makes("acme", requested()).await?;
        let first = managed(site, "acme")?;
        site.edit("acme", json!({"enabled": false})).await?;
        site.accepted("acme", 2).await?;
        assert_eq!(managed(site, "acme")?, first);

        let unlogged = json!({"managedCertificateRequest": {
            "certificateTransparencyLoggingPreference": "disabled",
        }});
        site.edit("acme", unlogged).await?;
        site.accepted("acme", 3).await?;
        assert_ne!(managed(site, "acme")?, first);
        let updates = site.calls("UpdateDistributionTenant")?;
        let sent = updates
            .iter()
            .map(|one| one.texts("ValidationTokenHost").len());
        assert_eq!(sent.collect::<Vec<_>>(), [0, 1]);
        Ok(())
    })
}

#[rstest]
#[case::vanished(None)]
#[case::cancelled_by_an_edit(Some(json!({"enabled": false})))]
fn a_request_whose_details_vanished_is_made_again(#[case] edit: Option<Value>) -> Result<()> {
    tell(USUAL, async |site| {
        furnish(site)?;
        site.makes("acme", requested()).await?;
        let first = managed(site, "acme")?;
        if let Some(edit) = edit {
            site.switch("cloudfront", json!({"certOmit": "cancel"}))?;
            site.edit("acme", edit).await?;
        } else {
            site.certificate_is("acme", "none")?;
        }
        let again = |live: &Value| {
            let arn = live["managed"]["arn"].as_str();
            arn.is_some_and(|arn| arn != first)
        };
        site.until_live("acme", again).await?;
        site.sees("acme", is("CertificateReady", "PendingValidation"))
            .await?;
        Ok(())
    })
}

#[test]
fn a_request_that_is_taken_back_detaches_nothing() -> Result<()> {
    tell(USUAL, async |site| {
        furnish(site)?;
        site.makes("acme", requested()).await?;
        site.certificate_is("acme", "issued")?;
        site.sees("acme", is("CertificateReady", "Validated"))
            .await?;
        let arn = managed(site, "acme")?;
        site.edit("acme", json!({"managedCertificateRequest": null}))
            .await?;
        site.accepted("acme", 2).await?;
        site.ready("acme").await?;
        site.stays_quiet(2).await?;
        assert_eq!(attached(site, "acme")?, json!(arn));
        let status = site.status("acme").await?;
        assert_eq!(word(&status.conditions, "Synced"), "True/InSync");

        // It is what the tenant should have: another one is drift.
        site.edits_tenant("acme", json!({"certificate": CERTIFICATE}))?;
        let is_back = |live: &Value| live["customizations"]["certificate"] == json!(arn);
        site.until_live("acme", is_back).await?;
        site.event("acme", "DriftCorrected").await?;
        Ok(())
    })
}

#[rstest]
#[case::failing(Fault::Refused(500, "InternalError"), "AWSError")]
#[case::denied(DENIED, "AccessDenied")]
fn a_certificate_that_cannot_be_attached_is_told_and_attached_later(
    #[case] fault: Fault,
    #[case] reason: &'static str,
) -> Result<()> {
    tell(USUAL, async |site| {
        furnish(site)?;
        site.makes("acme", requested()).await?;
        site.breaks("UpdateDistributionTenant", fault)?;
        site.certificate_is("acme", "issued")?;
        site.sees("acme", is("Ready", reason)).await?;
        // It is tried again and again, and nothing else is said meanwhile.
        let tries = site.count("UpdateDistributionTenant")?;
        site.called("UpdateDistributionTenant", tries + 1).await?;
        let told = words(&site.past("acme").await?, "Ready");
        assert_eq!(told.last(), Some(&format!("False/{reason}")), "{told:?}");
        let refusals = told.iter().filter(|one| one.ends_with(reason));
        assert_eq!(refusals.count(), 1, "{told:?}");
        site.mends()?;
        site.sees("acme", is("CertificateReady", "Validated"))
            .await?;
        Ok(())
    })
}

#[test]
fn a_certificate_is_attached_in_the_same_pass_against_others() -> Result<()> {
    tell(USUAL, async |site| {
        furnish(site)?;
        site.makes("acme", requested()).await?;
        site.breaks_once("UpdateDistributionTenant", STALE)?;
        site.certificate_is("acme", "issued")?;
        site.sees("acme", is("CertificateReady", "Validated"))
            .await?;
        let updates = site.calls("UpdateDistributionTenant")?;
        let [first, second] = updates.as_slice() else {
            panic!("{updates:#?}");
        };
        let reads = site.calls("GetDistributionTenant")?;
        let between = |read: &&Call| (first.seq..second.seq).contains(&read.seq);
        assert_eq!(reads.iter().filter(between).count(), 1, "{reads:#?}");
        // No status was written between them: the first that knows of the certificate has it attached.
        let past = site.past("acme").await?.into_iter();
        let mut past = past.filter_map(|one| one.status);
        let issued = past.find(|one| one.managed_certificate_status.as_deref() == Some("issued"));
        let arn = issued.and_then(|status| status.certificate_arn);
        assert_eq!(arn, Some(managed(site, "acme")?));
        Ok(())
    })
}

#[test]
fn a_certificate_that_others_replace_is_told_also_where_drift_is_left() -> Result<()> {
    tell(USUAL, async |site| {
        furnish(site)?;
        let spec = with(requested(), json!({"driftPolicy": "report"}));
        site.makes("acme", spec).await?;
        site.certificate_is("acme", "issued")?;
        site.sees("acme", is("CertificateReady", "Validated"))
            .await?;
        site.ready("acme").await?;
        site.edits_tenant("acme", json!({"certificate": CERTIFICATE}))?;
        site.sees("acme", is("CertificateReady", "Attaching"))
            .await?;
        site.sees("acme", is("Synced", "DriftDetected")).await?;
        Ok(())
    })
}

#[test]
fn a_certificate_is_validated_though_every_write_is_deployed_at_once() -> Result<()> {
    tell(USUAL, async |site| {
        furnish(site)?;
        site.switch("cloudfront", json!({"writeAnswers": "Deployed"}))?;
        site.declare("acme", requested()).await?;
        let pending = is("CertificateReady", "PendingValidation");
        site.sees("acme", pending).await?;
        site.made("acme").await?;
        site.certificate_is("acme", "issued")?;
        let status = site.sees("acme", is("CertificateReady", "Validated"));
        let status = status.await?;
        assert_eq!(word(&status.conditions, "Ready"), "True/Deployed");
        assert_eq!(attached(site, "acme")?, json!(managed(site, "acme")?));
        let done = ["CreateDistributionTenant", "UpdateDistributionTenant"];
        assert_eq!(site.done()?, done);
        Ok(())
    })
}
