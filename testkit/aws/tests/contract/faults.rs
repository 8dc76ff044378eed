//! Each kind of fault applies to the right requests, as often as its rule says.

use std::time::{Duration, Instant};

use http::Method;
use rstest::rstest;
use serde_json::{Value, json};

use crate::world::World;

#[tokio::test]
async fn an_injected_error_uses_the_protocol_and_executes_nothing() {
    let world = World::start().await;
    let error = json!({ "status": 400, "code": "ThrottlingException", "message": "Rate exceeded" });
    world.fault(json!({ "service": "probe", "operation": "Put", "times": 1, "effect": { "error": error } })).await;
    let (status, answer) = world
        .probe("test", "Put", json!({ "name": "a", "value": "1" }))
        .await;
    assert_eq!(
        (status, answer),
        (
            400,
            json!({ "__type": "ThrottlingException", "message": "Rate exceeded" })
        )
    );
    let (_, list) = world.probe("test", "List", json!({})).await;
    assert_eq!(list["things"], json!([]));
    world.put("a", "1").await;
}

#[tokio::test]
async fn a_delay_passes_before_the_effect() {
    let world = World::start().await;
    world
        .fault(json!({ "operation": "Put", "times": 1, "effect": { "delay": "1s" } }))
        .await;
    let began = Instant::now();
    let (put, early) = tokio::join!(
        world.put("a", "1"),
        world.controlled(Method::GET, "state", Value::Null)
    );
    assert!(began.elapsed() >= Duration::from_secs(1));
    assert_eq!(put["version"], 1);
    assert_eq!(early["probe"], json!({}));
}

#[rstest]
#[case::before_the_effect("cutBefore", json!([]))]
#[case::after_the_effect("cutAfter", json!(["a"]))]
#[tokio::test]
async fn a_cut_gives_no_answer(#[case] effect: &str, #[case] there: Value) {
    let world = World::start().await;
    world
        .fault(json!({ "operation": "Put", "times": 1, "effect": effect }))
        .await;
    let put = world.probe_request(&"test".into(), "Put", &json!({ "name": "a", "value": "1" }));
    let error = put.send().await.expect_err("no answer");
    assert!(error.is_request() && !error.is_timeout(), "{error:?}");

    let (_, list) = world.probe("test", "List", json!({})).await;
    let names: Value = list["things"]
        .as_array()
        .unwrap()
        .iter()
        .map(|thing| thing["name"].clone())
        .collect();
    assert_eq!(names, there);
    let log = world.log().await;
    assert_eq!(
        (&log[0]["fault"], &log[0]["status"]),
        (&json!(effect), &Value::Null)
    );
}

#[tokio::test]
async fn a_stale_read_sees_the_state_before_the_last_change() {
    let world = World::start().await;
    world.put("a", "old").await;
    world.put("a", "new").await;
    world
        .fault(json!({ "operation": "Get", "resource": "a", "times": 1, "effect": "stale" }))
        .await;
    assert_eq!(
        world.probe("test", "Get", json!({ "name": "a" })).await.1["value"],
        "old"
    );
    assert_eq!(
        world.probe("test", "Get", json!({ "name": "a" })).await.1["value"],
        "new"
    );
}

#[tokio::test]
async fn a_new_thing_is_missing_in_a_stale_read() {
    let world = World::start().await;
    world.put("a", "1").await;
    world.fault(json!({ "effect": "stale" })).await;
    assert_eq!(
        world.probe("test", "Get", json!({ "name": "a" })).await.1["__type"],
        "ResourceNotFoundException"
    );
    assert_eq!(
        world.probe("test", "List", json!({})).await.1["things"],
        json!([])
    );
}

#[tokio::test]
async fn a_rule_for_one_caller_does_not_affect_others() {
    let world = World::start().await;
    let error = json!({ "status": 400, "code": "AccessDeniedException" });
    world
        .fault(json!({ "caller": "111122223333", "effect": { "error": error } }))
        .await;
    assert_eq!(world.probe("test", "List", json!({})).await.0, 200);
    assert_eq!(
        world
            .probe("AKIA111122223333ABCD", "List", json!({}))
            .await
            .0,
        400
    );
}

#[tokio::test]
async fn a_deleted_rule_no_longer_applies() {
    let world = World::start().await;
    let error = json!({ "status": 503, "code": "ServiceUnavailable" });
    let first = world
        .fault(json!({ "operation": "List", "effect": { "error": error.clone() } }))
        .await;
    world
        .fault(json!({ "operation": "Get", "effect": { "error": error } }))
        .await;
    world
        .controlled(Method::DELETE, &format!("faults?id={first}"), Value::Null)
        .await;
    assert_eq!(world.probe("test", "List", json!({})).await.0, 200);
    assert_eq!(
        world.probe("test", "Get", json!({ "name": "a" })).await.0,
        503
    );
    assert_eq!(
        world
            .control(Method::DELETE, &format!("faults?id={first}"), Value::Null)
            .await
            .0,
        404
    );

    world
        .controlled(Method::DELETE, "faults", Value::Null)
        .await;
    assert_eq!(
        world.controlled(Method::GET, "faults", Value::Null).await["faults"],
        json!([])
    );
}

#[rstest]
#[case::unknown_field(json!({ "operations": "Get", "effect": "stale" }), "`operation`")]
#[case::unknown_effect(json!({ "effect": "explode" }), "`cutAfter`")]
#[case::unknown_service(json!({ "service": "sqs", "effect": "stale" }), "sts, probe")]
#[case::bad_span(json!({ "effect": { "delay": "soon" } }), "250ms")]
#[tokio::test]
async fn an_invalid_rule_is_refused_with_what_is_valid(
    #[case] rule: Value,
    #[case] expected: &str,
) {
    let world = World::start().await;
    let (status, answer) = world.control(Method::POST, "faults", rule).await;
    assert_eq!(status, 400);
    assert!(
        answer["error"].as_str().unwrap().contains(expected),
        "{answer}"
    );
}
