use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use proptest::prelude::*;
use rstest::rstest;
use serde_json::json;

use super::*;

const M: &str = "arn:aws:acm:us-east-1:111122223333:certificate/managed";
const A: &str = "arn:aws:acm:us-east-1:111122223333:certificate/own";

fn request(host: ValidationTokenHost) -> BodyCertificateRequest {
    BodyCertificateRequest {
        validation_token_host: host,
        primary_domain_name: "a.example.com".to_owned(),
        certificate_transparency_logging_preference: None,
    }
}

fn details(status: &str) -> Details {
    let token = |number: usize| ValidationToken {
        domain: format!("d{number}.example.com"),
        redirect_from: Some(format!("http://d{number}.example.com/token")),
        redirect_to: Some(format!("https://validation/{number}")),
    };
    Details {
        arn: Some(M.to_owned()),
        status: status.to_owned(),
        host: None,
        tokens: (0..7).map(token).collect(),
    }
}

fn domains(statuses: &[&str]) -> Vec<LiveDomain> {
    let domains = statuses.iter().enumerate();
    let domain = |(number, status): (usize, &&str)| LiveDomain {
        domain: format!("d{number}.example.com"),
        status: Some((*status).to_owned()),
    };
    domains.map(domain).collect()
}

#[rstest]
#[case::added(None, "self-hosted", true)]
#[case::added_and_told_otherwise(None, "cloudfront", true)]
#[case::another_host_that_was_sent(Some(ValidationTokenHost::Cloudfront), "self-hosted", true)]
#[case::another_host_to_be_sent(Some(ValidationTokenHost::Cloudfront), "cloudfront", false)]
#[case::the_same_host_tells_nothing(Some(ValidationTokenHost::SelfHosted), "self-hosted", false)]
fn a_request_that_was_sent_and_not_recorded_is_recognised(
    #[case] recorded: Option<ValidationTokenHost>,
    #[case] host: &str,
    #[case] expected: bool,
) {
    let details = Details {
        host: Some(host.to_owned()),
        ..details(PENDING)
    };
    let wanted = request(ValidationTokenHost::SelfHosted);
    let recorded = recorded.map(request);
    assert_eq!(details.show(&wanted, recorded.as_ref()), expected);
}

/// The world of a request that CloudFront has; nothing attached, nothing told.
struct World {
    request: Option<BodyCertificateRequest>,
    applied: Option<BodyCertificateRequest>,
    details: Option<Details>,
    own: Option<&'static str>,
    attached: Option<&'static str>,
    live: Option<&'static str>,
    domains: Vec<LiveDomain>,
    looks: u32,
}

impl World {
    fn asked(host: ValidationTokenHost, status: Option<&str>) -> Self {
        Self {
            request: Some(request(host)),
            applied: Some(request(host)),
            details: status.map(details),
            own: None,
            attached: None,
            live: None,
            domains: domains(&["inactive", "inactive"]),
            looks: 0,
        }
    }

    fn hosted(status: &str) -> Self {
        Self::asked(ValidationTokenHost::Cloudfront, Some(status))
    }

    fn verdict(&self) -> Verdict {
        verdict(&Facts {
            request: self.request.as_ref(),
            own: self.own,
            applied: self.applied.as_ref(),
            attached: self.attached,
            details: self.details.as_ref(),
            live: self.live,
            domains: &self.domains,
            target: Some("d0.cloudfront.net"),
            looks: self.looks,
        })
    }
}

fn seconds(verdict: &Verdict) -> Option<u64> {
    verdict.again.map(|again| again.as_secs())
}

#[rstest]
#[case::nor_named(None, None, "the distribution's is used")]
#[case::but_named(Some(A), Some(A), "the spec names")]
#[case::any_longer(None, Some(M), "stays attached")]
fn without_a_request_nothing_is_configured(
    #[case] own: Option<&'static str>,
    #[case] live: Option<&'static str>,
    #[case] told: &str,
) {
    let world = World {
        request: None,
        own,
        live,
        ..World::hosted("issued")
    };
    let verdict = world.verdict();
    assert!(verdict.ready);
    assert_eq!(verdict.reason.code, "NotConfigured");
    assert!(verdict.reason.message.contains(told), "{}", verdict.reason);
    assert_eq!(
        (verdict.attach, verdict.again, verdict.status),
        (None, None, None)
    );
}

#[test]
fn a_changed_request_is_on_its_way() {
    let world = World {
        applied: Some(request(ValidationTokenHost::SelfHosted)),
        ..World::hosted("issued")
    };
    let verdict = world.verdict();
    assert_eq!(verdict.reason.code, "PendingValidation");
    assert!(!verdict.ready && !verdict.resend);
    assert_eq!(verdict.attach, None);
}

#[test]
fn a_server_of_ones_own_is_told_its_redirects() {
    let world = World::asked(ValidationTokenHost::SelfHosted, Some("pending-validation"));
    let verdict = world.verdict();
    assert_eq!(verdict.reason.code, "PendingValidation");
    let redirect = "http://d0.example.com/token to https://validation/0";
    assert!(
        verdict.reason.message.contains(redirect),
        "{}",
        verdict.reason
    );
    assert!(
        verdict
            .reason
            .message
            .contains("and 2 more in status.validationTokens")
    );
    assert_eq!(verdict.tokens, details("").tokens);
    assert_eq!(verdict.status.as_deref(), Some("pending-validation"));
    assert_eq!(seconds(&verdict), Some(30));
}

#[test]
fn redirects_may_not_be_known_yet() {
    let mut world = World::asked(ValidationTokenHost::SelfHosted, Some("pending-validation"));
    world.details.as_mut().unwrap().tokens.clear();
    let message = world.verdict().reason.message;
    assert!(message.contains("has not told yet"), "{message}");
}

#[test]
fn cloudfronts_own_proof_needs_dns() {
    let verdict = World::hosted("pending-validation").verdict();
    let message = &verdict.reason.message;
    assert!(
        message.contains("d0.cloudfront.net: d0.example.com, d1.example.com"),
        "{message}"
    );
    assert_eq!(verdict.tokens, []);
}

#[test]
fn an_unknown_word_waits_and_is_told() {
    let verdict = World::hosted("dreaming").verdict();
    assert_eq!(verdict.reason.code, "PendingValidation");
    assert!(
        verdict.reason.message.contains("dreaming"),
        "{}",
        verdict.reason
    );
    assert_eq!(seconds(&verdict), Some(30));
}

#[test]
fn looks_double_to_five_minutes() {
    let look = |looks| {
        let world = World {
            looks,
            ..World::hosted("pending-validation")
        };
        seconds(&world.verdict()).unwrap()
    };
    assert_eq!(
        [0, 1, 2, 3, 4, 9, u32::MAX].map(look),
        [30, 60, 120, 240, 300, 300, 300]
    );
}

#[rstest]
//                              own      attached  live      domains                  reason       attach
#[case::is_attached_once(None, None, None, &["inactive"], "Attaching", Some(M))]
#[case::replaces_an_older_one(None, Some("N"), Some("N"), &["active"], "Attaching", Some(M))]
#[case::is_not_attached_twice(None, Some(M), Some(M), &["active", "inactive"], "Attaching", None)]
#[case::attached_itself(None, None, Some(M), &["active"], "Validated", None)]
#[case::serves_all(None, Some(M), Some(M), &["active", "active"], "Validated", None)]
#[case::does_not_replace_the_specs(Some(A), Some(A), Some(A), &["active"], "Validated", None)]
#[case::does_not_overtake_the_specs(Some(A), None, None, &["inactive"], "Validated", None)]
#[case::is_named_by_the_spec_too(Some(M), Some(M), Some(M), &["active"], "Validated", None)]
#[case::is_attached_by_the_specs_own_update(Some(M), None, None, &["inactive"], "Attaching", None)]
#[case::taken_off_by_hand_is_drift(None, Some(M), None, &["inactive"], "Attaching", None)]
fn an_issued_certificate(
    #[case] own: Option<&'static str>,
    #[case] attached: Option<&'static str>,
    #[case] live: Option<&'static str>,
    #[case] statuses: &[&str],
    #[case] reason: &str,
    #[case] attach: Option<&str>,
) {
    let world = World {
        own,
        attached,
        live,
        domains: domains(statuses),
        ..World::hosted("issued")
    };
    let verdict = world.verdict();
    assert_eq!(verdict.reason.code, reason);
    assert_eq!(verdict.ready, reason == "Validated");
    assert_eq!(verdict.again.is_none(), verdict.ready);
    assert_eq!(verdict.attach.as_deref(), attach);
    assert_eq!(verdict.status.as_deref(), Some("issued"));
    assert_eq!(verdict.tokens, []);
}

#[test]
fn an_issued_one_without_an_arn_is_waited_for() {
    let mut world = World::hosted("issued");
    world.details.as_mut().unwrap().arn = None;
    let verdict = world.verdict();
    assert_eq!(
        (verdict.reason.code.as_ref(), verdict.attach),
        ("PendingValidation", None)
    );
}

#[rstest]
#[case::failed("failed")]
#[case::timed_out("validation-timed-out")]
#[case::revoked("revoked")]
#[case::expired("expired")]
fn an_end_is_named(#[case] status: &str) {
    let verdict = World::hosted(status).verdict();
    assert_eq!(verdict.reason.code, "CertificateFailed");
    assert!(
        verdict.reason.message.contains(status),
        "{}",
        verdict.reason
    );
    assert_eq!(
        (verdict.again, verdict.resend, verdict.attach),
        (None, false, None)
    );
}

#[rstest] //                        live      looks resend reason
#[case::at_first_it_may_be_late(None, 0, false, "PendingValidation")]
#[case::then_it_is_sent_again(None, 1, true, "PendingValidation")]
#[case::not_while_one_is_attached(Some(M), 9, false, "Attaching")]
fn a_lost_request(
    #[case] live: Option<&'static str>,
    #[case] looks: u32,
    #[case] resend: bool,
    #[case] reason: &str,
) {
    let world = World {
        live,
        looks,
        ..World::asked(ValidationTokenHost::Cloudfront, None)
    };
    let verdict = world.verdict();
    assert_eq!(
        (verdict.resend, verdict.reason.code.as_ref()),
        (resend, reason)
    );
    assert!(verdict.again.is_some());
}

#[test]
fn what_is_issued_is_known_from_cloudfront_or_the_status() {
    let mut status = DistributionTenantStatus {
        certificate_arn: Some(A.to_owned()),
        ..DistributionTenantStatus::default()
    };
    assert_eq!(known_issued(Some(&details("issued")), &status), Some(M));
    assert_eq!(
        known_issued(Some(&details("pending-validation")), &status),
        None
    );
    assert_eq!(known_issued(None, &status), None);
    status.managed_certificate_status = Some("issued".to_owned());
    assert_eq!(known_issued(None, &status), Some(A));
    assert_eq!(known_issued(Some(&details("expired")), &status), None);
}

fn condition(reason: &str) -> Condition {
    serde_json::from_value(json!({
        "type": "CertificateReady", "status": "True", "reason": reason, "message": "",
        "lastTransitionTime": "2026-01-02T03:04:05Z",
    }))
    .unwrap()
}

#[test]
fn only_the_end_of_this_very_request_settles() {
    let asked = TenantBody {
        managed_certificate_request: Some(request(ValidationTokenHost::Cloudfront)),
        ..TenantBody::default()
    };
    let status = |reason: &str| DistributionTenantStatus {
        observed_generation: Some(2),
        conditions: vec![condition(reason)],
        last_applied: Some(asked.clone()),
        ..DistributionTenantStatus::default()
    };
    assert!(is_settled(&asked, Some(2), &status("Validated")));
    assert!(is_settled(&asked, Some(2), &status("CertificateFailed")));
    assert!(!is_settled(&asked, Some(2), &status("Attaching")));
    assert!(!is_settled(&asked, Some(3), &status("Validated")));
    assert!(!is_settled(
        &asked,
        Some(2),
        &DistributionTenantStatus::default()
    ));
    let other = TenantBody {
        managed_certificate_request: Some(request(ValidationTokenHost::SelfHosted)),
        ..TenantBody::default()
    };
    assert!(!is_settled(&other, Some(2), &status("Validated")));
    let none = TenantBody::default();
    assert!(is_settled(
        &none,
        Some(3),
        &DistributionTenantStatus::default()
    ));
}

proptest! {
    #[test]
    fn nothing_is_done_twice_nor_against_the_spec(
        status in proptest::option::of("issued|pending-validation|failed"),
        own in prop_oneof![Just(None), Just(Some(A)), Just(Some(M))],
        attached in prop_oneof![Just(None), Just(Some(A)), Just(Some(M))],
        live in prop_oneof![Just(None), Just(Some(A)), Just(Some(M))],
        active: bool,
        looks in 0..5_u32,
    ) {
        let host = ValidationTokenHost::Cloudfront;
        let world = World {
            own,
            attached,
            live,
            domains: domains(&[if active { "active" } else { "inactive" }]),
            looks,
            ..World::asked(host, status.as_deref())
        };
        let verdict = world.verdict();
        if verdict.attach.is_some() {
            prop_assert!(live != Some(M) && own.is_none());
            prop_assert_eq!(status.as_deref(), Some("issued"));
        }
        prop_assert!(!verdict.resend || status.is_none() && live.is_none());
        prop_assert!(!(verdict.resend && verdict.attach.is_some()));
        prop_assert!(!verdict.ready || verdict.again.is_none());
    }
}

#[test]
fn a_request_that_went_out_again_is_given_ever_more_time() {
    let waits: Vec<_> = (0..6).map(|sent| next_look(sent).as_secs()).collect();
    assert_eq!(waits, [30, 300, 600, 1200, 2400, 3600]);
}
