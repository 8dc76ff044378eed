use proptest::prelude::*;
use rstest::rstest;
use serde_json::{Value, json};

use super::*;
use crate::body::declared;
use crate::body::tests::{body, spec};

const OWN: &str = "arn:aws:acm:us-east-1:111122223333:certificate/own";

fn parameter(name: &str, default: Option<&str>) -> Definition {
    Definition {
        name: name.to_owned(),
        required: true,
        default: default.map(str::to_owned),
    }
}

/// For tenants, with a certificate and no demands.
fn distribution() -> Distribution {
    Distribution {
        id: "E1".to_owned(),
        tenant_only: true,
        certificate_arn: Some("arn".to_owned()),
        parameters: vec![],
    }
}

/// What is said of an object of this name, with `changes` to its spec.
fn said(name: &str, changes: Value, parent: Told<'_>) -> Option<String> {
    let declared = declared(&spec(changes), None);
    let subject = Subject {
        object_name: Some(name),
        declared: &declared,
        certificate: declared.certificate_arn.as_deref(),
    };
    let reason = failures(&subject, parent)?.reason();
    assert_eq!(reason.code, "ValidationFailed");
    Some(reason.message)
}

#[rstest]
#[case::too_short("ab", false)]
#[case::shortest("abc", true)]
#[case::longest(&"x".repeat(128), true)]
#[case::too_long(&"x".repeat(129), false)]
#[case::dots_and_dashes("my-tenant.prod", true)]
#[case::digits("123", true)]
#[case::a_dash_at_the_end("abc-", false)]
#[case::a_dot_in_front(".abc", false)]
#[case::upper_case("Abc", false)]
fn an_object_name_is_a_tenant_name(#[case] name: &str, #[case] fits: bool) {
    let said = said(name, json!({}), Told::Unread);
    assert_eq!(said.is_none(), fits, "{said:?}");
    assert!(said.is_none_or(|said| said.contains("spec.tenantName")));
}

#[test]
fn with_a_tenant_name_the_objects_name_is_free() {
    let declared = declared(&spec(json!({})), None);
    let subject = Subject {
        object_name: None,
        declared: &declared,
        certificate: None,
    };
    assert_eq!(failures(&subject, Told::Unread), None);
}

#[test]
fn an_unread_distribution_is_not_held_against_the_spec() {
    assert_eq!(said("my-tenant.prod", json!({}), Told::Unread), None);
}

#[test]
fn an_unknown_distribution_is_named() {
    let said = said("acme", json!({"distributionId": "E9"}), Told::Missing).unwrap();
    assert!(said.contains("distribution E9"), "{said}");
}

#[test]
fn a_distribution_has_to_take_tenants() {
    let direct = Distribution {
        tenant_only: false,
        ..distribution()
    };
    let said = said("acme", json!({}), Told::Known(&direct)).unwrap();
    assert!(said.contains("tenant-only"), "{said}");
}

#[rstest]
#[case::nowhere(json!({}), false)]
#[case::in_the_spec(json!({"customizations": {"certificate": {"arn": OWN}}}), true)]
#[case::requested(json!({"managedCertificateRequest":
    {"validationTokenHost": "cloudfront", "primaryDomainName": "a.example.com"}}), true)]
fn a_certificate_comes_from_somewhere(#[case] changes: Value, #[case] fits: bool) {
    let bare = Distribution {
        certificate_arn: None,
        ..distribution()
    };
    let said = said("acme", changes, Told::Known(&bare));
    assert_eq!(said.is_none(), fits, "{said:?}");
    let both = |said: String| {
        said.contains("customizations.certificate") && said.contains("managedCertificateRequest")
    };
    assert!(said.is_none_or(both));
}

#[test]
fn only_missing_parameters_without_a_default_are_named() {
    let mut demanding = distribution();
    demanding.parameters = vec![
        parameter("p", None),
        parameter("q", Some("1")),
        Definition {
            required: false,
            ..parameter("r", None)
        },
    ];
    let said_of = |changes| said("acme", changes, Told::Known(&demanding));
    let missing = said_of(json!({})).unwrap();
    assert!(missing.contains("default: p;"), "{missing}");
    assert_eq!(
        said_of(json!({"parameters": [{"name": "p", "value": "1"}]})),
        None
    );
}

#[test]
fn failures_are_joined() {
    let bad = Distribution {
        tenant_only: false,
        certificate_arn: None,
        parameters: vec![parameter("p", None)],
        ..distribution()
    };
    let said = said("ab", json!({}), Told::Known(&bad)).unwrap();
    let starts = [
        "the object's name ab",
        "distribution E1 takes",
        "distribution E1 has",
    ];
    let parts: Vec<_> = said.split("; ").collect();
    assert!(
        starts
            .iter()
            .all(|start| parts.iter().any(|part| part.starts_with(start))),
        "{said}"
    );
}

#[rstest]
#[case::equal("a.example.com", "a.example.com", true)]
#[case::case_does_not_count("A.Example.com", "a.example.COM", true)]
#[case::one_label("*.example.com", "a.example.com", true)]
#[case::not_the_parent("*.example.com", "example.com", false)]
#[case::not_two_labels("*.example.com", "a.b.example.com", false)]
#[case::a_wildcard_by_itself("*.example.com", "*.example.com", true)]
#[case::not_a_wildcard_by_a_name("a.example.com", "*.example.com", false)]
#[case::not_a_namesake("*.example.com", "a.badexample.com", false)]
fn a_certificate_name_covers(#[case] name: &str, #[case] domain: &str, #[case] is: bool) {
    assert_eq!(covers(name, domain), is);
}

#[test]
fn a_mismatch_names_certificate_and_domains() {
    let names = vec!["*.example.com".to_owned()];
    let domains = ["a.example.com", "example.com", "b.org"].map(str::to_owned);
    let reason = uncovered(OWN, &names, &domains).unwrap();
    assert_eq!(reason.code, "CertificateSANMismatch");
    assert!(reason.message.contains(OWN), "{reason}");
    assert!(
        reason.message.contains("and not example.com, b.org;"),
        "{reason}"
    );
    assert_eq!(uncovered(OWN, &names, &domains[..1]), None);
}

#[rstest]
#[case::creation(None, json!({}), false, true)]
#[case::nothing_changed(Some(json!({})), json!({}), false, false)]
#[case::a_domain(Some(json!({})), json!({"domains": [{"domain": "b.x"}]}), false, true)]
#[case::the_certificate(Some(json!({})), json!({"customizations": {"certificate": {"arn": OWN}}}), false, true)]
#[case::the_distribution(Some(json!({})), json!({"distributionId": "E2"}), false, true)]
#[case::the_distribution_beside_an_own(
    Some(json!({"customizations": {"certificate": {"arn": OWN}}})),
    json!({"distributionId": "E2", "customizations": {"certificate": {"arn": OWN}}}),
    false,
    false
)]
#[case::something_else(Some(json!({})), json!({"enabled": false}), false, false)]
#[case::never_with_a_request(None, json!({}), true, false)]
fn names_are_checked(
    #[case] last: Option<Value>,
    #[case] desired: Value,
    #[case] asked: bool,
    #[case] due: bool,
) {
    assert_eq!(
        names_are_due(last.map(body).as_ref(), &body(desired), asked),
        due
    );
}

#[test]
fn a_check_that_was_left_out_is_said_to_be() {
    let message = unchecked("certificate arn:x", "AccessDenied");
    assert!(
        message.contains("arn:x") && message.contains("AccessDenied"),
        "{message}"
    );
    assert!(is_unchecked(&message));
    assert!(!is_unchecked("no managed certificate is asked for"));
}

proptest! {
    #[test]
    fn a_wildcard_covers_one_label_and_no_more(label in "[a-z]{1,3}", more in "[a-z]{1,3}", base in "[a-z]{1,3}\\.[a-z]{2}") {
        let wildcard = format!("*.{base}");
        let one = format!("{label}.{base}");
        let two = format!("{more}.{one}");
        prop_assert!(covers(&wildcard, &one));
        prop_assert!(!covers(&wildcard, &two));
        prop_assert!(!covers(&wildcard, &base));
    }
}
