//! What a spec must be before anything is asked for: name, distribution, parameters, certificate.

use crate::stories::calls::Call;
use crate::stories::cloud::{CERTIFICATE, DENIED, Fault};
use crate::stories::objects::{acme, acme_with_dns, requesting, said, serving, with, word};
use crate::stories::{Plan, Site, USUAL, tell};
use rstest::rstest;
use serde_json::{Value, json};
use testkit::{Result, is};

const OTHER: &str = "arn:aws:acm:us-east-1:000000000000:certificate/other";

/// A tenant's certificate in its spec.
fn certified(arn: &str) -> Value {
    json!({"customizations": {"certificate": {"arn": arn}}})
}

/// Waits until a tenant says ValidationFailed everywhere it should; with these words.
async fn fails(site: &Site, name: &str, words: &[&str]) -> Result<String> {
    let status = site.sees(name, is("Ready", "ValidationFailed")).await?;
    let ready = word(&status.conditions, "Ready");
    assert_eq!(ready, "False/ValidationFailed");
    let synced = word(&status.conditions, "Synced");
    assert_eq!(synced, "False/ValidationFailed");
    let message = said(&status.conditions, "Ready");
    for word in words {
        assert!(message.contains(word), "{word}: {message}");
    }
    assert!(site.live(name)?.is_null());
    Ok(message)
}

#[test]
fn without_a_certificate_both_remedies_are_named_and_each_helps() -> Result<()> {
    tell(USUAL, async |site| {
        site.console("cloudfront", json!({"distribution": {"id": "E3"}}))?;
        let bare = |domain: &str| with(serving(&[domain]), json!({"distributionId": "E3"}));
        site.declare("acme", bare("a.example.com")).await?;
        let remedies = ["customizations.certificate", "managedCertificateRequest"];
        fails(site, "acme", &remedies).await?;
        site.event("acme", "ValidationFailed").await?;
        assert_eq!(site.done()?, [""; 0]);

        let request = with(bare("a.example.com"), requesting("self-hosted"));
        site.makes("acme", request).await?;
        let own = with(bare("b.example.com"), certified(CERTIFICATE));
        site.makes("second", own).await?;
        Ok(())
    })
}

#[test]
fn a_required_parameter_without_a_default_must_be_given() -> Result<()> {
    tell(USUAL, async |site| {
        let parameters = json!([
            {"name": "tier", "required": true},
            {"name": "region", "required": true, "default": "eu"},
            {"name": "colour"},
        ]);
        site.seeds_distribution("E1", &json!({"parameters": parameters}))?;
        site.declare("acme", acme()).await?;
        let message = fails(site, "acme", &["tier"]).await?;
        assert!(!message.contains("region"), "{message}");
        assert!(!message.contains("colour"), "{message}");

        let golden = json!({"parameters": [{"name": "tier", "value": "gold"}]});
        site.makes("acme", with(acme(), golden)).await?;
        Ok(())
    })
}

#[test]
fn a_name_is_looked_at_though_the_distribution_may_not_be() -> Result<()> {
    tell(USUAL, async |site| {
        site.breaks("GetDistribution", DENIED)?;
        let long = "x".repeat(129);
        for (name, domain) in [("ab", "a.example.com"), (&*long, "b.example.com")] {
            site.declare(name, serving(&[domain])).await?;
            fails(site, name, &[name]).await?;
        }
        // What cannot be checked is not held against a tenant.
        site.makes("my-tenant.prod", serving(&["c.example.com"]))
            .await?;
        assert_eq!(site.done()?, ["CreateDistributionTenant"]);
        Ok(())
    })
}

#[test]
fn a_distribution_must_exist_and_be_for_tenants() -> Result<()> {
    tell(USUAL, async |site| {
        site.seeds_distribution("E4", &json!({"mode": "direct"}))?;
        let on = |id: &str| json!({"distributionId": id});
        site.declare("lost", with(acme(), on("E9"))).await?;
        fails(site, "lost", &["E9"]).await?;
        let second = with(serving(&["b.example.com"]), on("E4"));
        site.declare("direct", second).await?;
        fails(site, "direct", &["E4", "tenant-only"]).await?;
        assert_eq!(site.done()?, [""; 0]);

        // Made later, it is found without an edit.
        site.seeds_distribution("E9", &json!({}))?;
        site.ready("lost").await?;
        assert_eq!(site.tenant("lost").await?.metadata.generation, Some(1));
        Ok(())
    })
}

#[test]
fn failures_are_told_together() -> Result<()> {
    tell(USUAL, async |site| {
        let spec = with(acme_with_dns(), json!({"distributionId": "E9"}));
        site.declare("ab", spec).await?;
        fails(site, "ab", &["name ab", "; ", "distribution E9"]).await?;
        assert_eq!(site.done()?, [""; 0]);
        Ok(())
    })
}

#[test]
fn an_edit_is_validated_before_it_is_sent() -> Result<()> {
    tell(USUAL, async |site| {
        site.makes("acme", acme_with_dns()).await?;
        let mark = site.mark()?;
        let lost = with(
            serving(&["a.example.com", "b.example.com"]),
            json!({"distributionId": "E9"}),
        );
        site.edit("acme", lost).await?;
        let status = site.sees("acme", is("Ready", "ValidationFailed")).await?;
        assert_eq!(status.observed_generation, Some(1));
        site.sweeps(2).await?;
        assert_eq!(site.done_since(mark)?, [""; 0]);
        Ok(())
    })
}

/// Waits until a tenant says that its certificate does not cover these; nothing was written.
async fn mismatch(site: &Site, name: &str, arn: &str, domains: &[&str]) -> Result<()> {
    let status = site.sees(name, is("Ready", "CertificateSANMismatch"));
    let status = status.await?;
    let ready = word(&status.conditions, "Ready");
    assert_eq!(ready, "False/CertificateSANMismatch");
    let message = said(&status.conditions, "Ready");
    for word in domains.iter().chain([&arn]) {
        assert!(message.contains(word), "{word}: {message}");
    }
    site.event(name, "CertificateSANMismatch").await?;
    Ok(())
}

#[rstest]
#[case::with_dns(true)]
#[case::without(false)]
fn a_certificate_for_other_domains_is_told_and_nothing_is_written(#[case] dns: bool) -> Result<()> {
    tell(USUAL, async |site| {
        site.seeds_certificate(OTHER, &["*.other.com"])?;
        let spec = if dns { acme_with_dns() } else { acme() };
        let spec = with(spec, certified(OTHER));
        site.declare("acme", spec).await?;
        mismatch(site, "acme", OTHER, &["a.example.com"]).await?;
        site.waits(60).await?;
        assert_eq!(site.done()?, [""; 0]);
        Ok(())
    })
}

#[test]
fn a_wildcard_covers_one_more_label_and_no_other_name() -> Result<()> {
    tell(USUAL, async |site| {
        let uncovered = [("apex", "example.com"), ("deep", "a.b.example.com")];
        for (name, domain) in uncovered {
            site.declare(name, serving(&[domain])).await?;
            mismatch(site, name, CERTIFICATE, &[domain]).await?;
        }
        assert_eq!(site.done()?, [""; 0]);
        site.makes("acme", serving(&["A.Example.com"])).await?;

        // An added domain is looked at as well.
        let more = serving(&["a.example.com", "c.d.example.com"]);
        site.edit("acme", more).await?;
        mismatch(site, "acme", CERTIFICATE, &["c.d.example.com"]).await?;
        assert_eq!(site.done()?, ["CreateDistributionTenant"]);
        Ok(())
    })
}

#[test]
fn with_a_managed_request_acm_is_never_asked() -> Result<()> {
    tell(USUAL, async |site| {
        let spec = with(acme(), requesting("self-hosted"));
        site.makes("acme", spec).await?;
        site.edit("acme", json!({"enabled": false})).await?;
        site.accepted("acme", 2).await?;
        assert_eq!(site.count("DescribeCertificate")?, 0);
        Ok(())
    })
}

#[test]
fn a_check_that_acm_does_not_answer_is_skipped_and_said_to_be() -> Result<()> {
    tell(USUAL, async |site| {
        let refused = Fault::Refused(400, "AccessDeniedException");
        site.breaks("DescribeCertificate", refused)?;
        let status = site.makes("acme", acme()).await?;
        let message = said(&status.conditions, "CertificateReady");
        assert!(message.contains(CERTIFICATE), "{message}");
        assert!(message.contains("AccessDeniedException"), "{message}");
        Ok(())
    })
}

/// In a region of its own.
const ELSEWHERE: Plan = Plan {
    args: &["--tenants-sweep-interval=30s", "--aws-region=eu-west-1"],
    ..USUAL
};

#[test]
fn certificates_are_checked_in_us_east_1_whatever_the_region() -> Result<()> {
    tell(ELSEWHERE, async |site| {
        site.declare("deep", serving(&["a.b.example.com"])).await?;
        mismatch(site, "deep", CERTIFICATE, &["a.b.example.com"]).await?;
        let asked = site.calls("DescribeCertificate")?;
        assert!(!asked.is_empty() && asked.iter().all(Call::is_ok));
        site.makes("acme", acme_with_dns()).await?;
        Ok(())
    })
}
