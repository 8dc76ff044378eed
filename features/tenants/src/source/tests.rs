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

/// So many seconds after the process began.
fn at(seconds: u64) -> Moment {
    Moment {
        generation: Some(1),
        elapsed: Duration::from_secs(seconds),
        random: 0.5,
    }
}

#[test]
fn what_somebody_has_to_mend_is_told_and_looked_at_again() {
    let unread = Unread::Table("why".into());
    let Setback { told, next } = setback(unread, &mut memory(), RETRY, &at(0));
    assert_eq!(told.as_deref(), Some("why"));
    assert_eq!(next.unwrap(), RETRY);
}

#[test]
fn the_api_servers_failures_are_the_engines_to_repeat() {
    let unread = Unread::Api(ApiError::Stale { what: "x".into() });
    let Setback { told, next } = setback(unread, &mut memory(), RETRY, &at(0));
    assert!(told.is_none() && next.is_err());
}

#[test]
fn a_denial_of_aws_is_told_and_throttling_is_not() {
    let denied = aws_error("AccessDeniedException", 400);
    let denied = setback(denied, &mut memory(), RETRY, &at(0));
    assert!(denied.told.is_some() && denied.next.is_ok());
    let slow = aws_error("ThrottlingException", 400);
    let slow = setback(slow, &mut memory(), RETRY, &at(0));
    assert_eq!(slow.told, None);
    let wait = slow.next.unwrap();
    assert!((60..=90).contains(&wait.as_secs()), "{wait:?}");
}

#[test]
fn a_denial_of_aws_is_met_ever_more_slowly_and_never_by_all_at_once() {
    let mut memory = memory();
    let mut minutes = |elapsed: u64, random: f64| {
        let denied = aws_error("AccessDeniedException", 400);
        let moment = Moment {
            random,
            ..at(elapsed * 60)
        };
        let Setback { next, .. } = setback(denied, &mut memory, RETRY, &moment);
        next.unwrap().as_secs() / 60
    };
    let waits = [minutes(0, 0.0), minutes(30, 1.0), minutes(60, 0.0)];
    assert_eq!(waits, [4, 6, 24]);
    assert_eq!(minutes(120, 1.0), 36);
    // A table that was read ends it.
    memory.begin();
    let denied = aws_error("AccessDeniedException", 400);
    let Setback { next, .. } = setback(denied, &mut memory, RETRY, &at(130 * 60));
    assert_eq!(next.unwrap(), Duration::from_secs(5 * 60));
}

#[test]
fn what_passes_is_told_when_it_does_not() {
    let mut memory = memory();
    let told: Vec<bool> = (0..3)
        .map(|_| {
            let Setback { told, next } = setback(aws_error("", 503), &mut memory, RETRY, &at(0));
            assert!(next.is_err());
            told.is_some()
        })
        .collect();
    assert_eq!(told, [false, false, true]);
}

#[test]
fn a_namespace_concerns_the_sources_in_it_and_those_that_aim_at_it() {
    let source = |spec: Value| {
        let object = json!({"metadata": {"name": "s", "namespace": "team"}, "spec": spec});
        let kind = Kind::of::<TenantSource>();
        Stored::read(&kind, &object.to_string(), &Projection::Full).unwrap()
    };
    let aimed = source(json!({"targetNamespace": "web"}));
    assert!(concerns(&aimed, "web") && concerns(&aimed, "team"));
    assert!(!concerns(&aimed, "other"));
    let unaimed = source(json!({}));
    assert!(concerns(&unaimed, "team") && !concerns(&unaimed, "web"));
}
