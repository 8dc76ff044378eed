use engine::{ApiError, Kind, Projection};
use serde_json::json;

use super::*;

const RETRY: Duration = Duration::from_secs(30);

fn aws_error(code: &str, status: u16) -> Unread {
    let refusal = aws::Refusal {
        operation: aws::Operation::Scan,
        resource: "tenants".into(),
        code: code.into(),
        message: "no".into(),
        status,
        request_id: None,
    };
    Unread::Aws(aws::Error::Refused(Box::new(refusal)))
}

fn memory() -> Memory {
    let source = json!({
        "metadata": {"name": "s", "namespace": "n"},
        "spec": {"provider": "configMap", "distributionId": "E1"},
    });
    let source: TenantSource = serde_json::from_value(source).unwrap();
    Polls::default().of(&ObjectKey::namespaced("n", "s"), &source)
}

#[test]
fn what_somebody_has_to_mend_is_told_and_looked_at_again() {
    let Setback { told, next } = setback(Unread::Table("why".into()), &mut memory(), RETRY);
    assert_eq!(told.as_deref(), Some("why"));
    assert_eq!(next.unwrap(), RETRY);
}

#[test]
fn the_api_servers_failures_are_the_engines_to_repeat() {
    let error = ApiError::Stale { what: "x".into() };
    let Setback { told, next } = setback(Unread::Api(error), &mut memory(), RETRY);
    assert!(told.is_none() && next.is_err());
}

#[test]
fn a_denial_of_aws_is_told_and_throttling_is_not() {
    let denied = setback(
        aws_error("AccessDeniedException", 400),
        &mut memory(),
        RETRY,
    );
    assert!(denied.told.is_some() && denied.next.is_ok());
    let slow = setback(aws_error("ThrottlingException", 400), &mut memory(), RETRY);
    assert_eq!(slow.told, None);
    let wait = slow.next.unwrap();
    assert!((60..=90).contains(&wait.as_secs()), "{wait:?}");
}

#[test]
fn what_passes_is_told_when_it_does_not() {
    let mut memory = memory();
    let told: Vec<bool> = (0..3)
        .map(|_| {
            let Setback { told, next } = setback(aws_error("", 503), &mut memory, RETRY);
            assert!(next.is_err());
            told.is_some()
        })
        .collect();
    assert_eq!(told, [false, false, true]);
}

#[test]
fn a_namespace_concerns_the_sources_that_aim_at_it() {
    let source = |spec: Value| {
        let object = json!({"metadata": {"name": "s", "namespace": "n"}, "spec": spec});
        let kind = Kind::of::<TenantSource>();
        Stored::read(&kind, &object.to_string(), &Projection::Full).unwrap()
    };
    let aimed = source(json!({"targetNamespace": "web"}));
    assert!(is_aimed_at(&aimed, "web") && !is_aimed_at(&aimed, "other"));
    assert!(!is_aimed_at(&source(json!({})), "web"));
}
