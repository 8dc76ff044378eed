//! Control: log, switches, reset, and refusals that say what is valid.

use std::net::{TcpListener, TcpStream};

use aws_emulator::probe::Probe;
use aws_emulator::{Emulator, StartError};
use http::Method;
use rstest::rstest;
use serde_json::{Value, json};

use crate::world::{TEST_ACCOUNT, World};

#[tokio::test]
async fn the_log_lists_requests_in_order_since_a_number() {
    let world = World::start().await;
    world.put("a", "1").await;
    world.probe("test", "Get", json!({ "name": "b" })).await;
    let log = world.log().await;
    let first = &log[0];
    assert_eq!(
        (&first["seq"], &first["account"], &first["key"]),
        (&json!(1), &json!(TEST_ACCOUNT), &json!("test"))
    );
    assert_eq!(first["scope"], "20260101/us-east-1/probe/aws4_request");
    assert_eq!(
        (&first["service"], &first["operation"], &first["resource"]),
        (&json!("probe"), &json!("Put"), &json!("a"))
    );
    assert_eq!(
        (&first["body"], &first["status"], &first["code"]),
        (
            &json!(r#"{"name":"a","value":"1"}"#),
            &json!(200),
            &Value::Null
        )
    );
    assert!(
        first["time"]
            .as_str()
            .is_some_and(|time| time.parse::<jiff::Timestamp>().is_ok())
    );
    assert_eq!(
        (&log[1]["status"], &log[1]["code"]),
        (&json!(400), &json!("ResourceNotFoundException"))
    );

    let rest = world
        .controlled(Method::GET, "log?since=1", Value::Null)
        .await;
    assert_eq!(rest["entries"].as_array().map(Vec::len), Some(1));
    assert_eq!(
        (&rest["entries"][0]["seq"], &rest["last"], &rest["dropped"]),
        (&json!(2), &json!(2), &json!(0))
    );
}

#[tokio::test]
async fn a_refused_request_is_in_the_log_too() {
    let world = World::start().await;
    world.probe("stranger", "List", json!({})).await;
    let log = world.log().await;
    assert_eq!(
        (&log[0]["key"], &log[0]["account"]),
        (&json!("stranger"), &Value::Null)
    );
    assert_eq!(
        (&log[0]["service"], &log[0]["code"]),
        (&json!("probe"), &json!("UnrecognizedClientException"))
    );
}

#[tokio::test]
async fn a_reset_clears_everything_but_the_time() {
    let world = World::start().await;
    world.put("a", "1").await;
    world
        .controlled(
            Method::PUT,
            "switches",
            json!({ "probe": { "readLag": 5 } }),
        )
        .await;
    world
        .fault(json!({ "operation": "Delete", "effect": "stale" }))
        .await;
    let roles = json!([{ "arn": "arn:aws:iam::222222222222:role/dns" }]);
    world
        .controlled(
            Method::POST,
            "mutate",
            json!({ "service": "sts", "roles": roles }),
        )
        .await;
    let advanced = world
        .controlled(
            Method::POST,
            "clock",
            json!({ "advance": "24h", "factor": 10 }),
        )
        .await;

    world.controlled(Method::POST, "reset", Value::Null).await;
    let state = world.controlled(Method::GET, "state", Value::Null).await;
    assert_eq!(
        state,
        json!({ "probe": {}, "sts": { "roles": [], "sessions": [] } })
    );
    assert_eq!(
        world.controlled(Method::GET, "faults", Value::Null).await["faults"],
        json!([])
    );
    assert_eq!(
        world.controlled(Method::GET, "switches", Value::Null).await["probe"]["readLag"],
        0.0
    );
    assert!(world.log().await.is_empty());
    let clock = world.controlled(Method::GET, "clock", Value::Null).await;
    assert_eq!(clock["factor"], 1.0);
    let time = |shown: &Value| {
        shown["now"]
            .as_str()
            .unwrap()
            .parse::<jiff::Timestamp>()
            .unwrap()
    };
    assert!(time(&clock) >= time(&advanced));
}

#[rstest]
#[case::unknown_path(Method::GET, "clocks", json!(null), 404, "clock, switches")]
#[case::wrong_method(Method::PUT, "clock", json!({}), 405, "does not take PUT")]
#[case::clock_without_order(Method::POST, "clock", json!({}), 400, "advance")]
#[case::clock_unknown_field(Method::POST, "clock", json!({ "by": 1 }), 400, "`advance` or `factor`")]
#[case::clock_backwards(Method::POST, "clock", json!({ "advance": -1 }), 400, "no span of time")]
#[case::clock_too_fast(Method::POST, "clock", json!({ "factor": 1e9 }), 400, "out of range")]
#[case::unknown_switch(Method::PUT, "switches", json!({ "probe": { "lag": 1 } }), 400, "readLag")]
#[case::switch_of_no_service(Method::PUT, "switches", json!({ "sqs": {} }), 400, "sts, probe")]
#[case::switch_where_none_is(Method::PUT, "switches", json!({ "sts": { "x": 1 } }), 400, "it has: rate")]
#[case::mutate_nothing(Method::POST, "mutate", json!({}), 400, "name the service")]
#[case::mutate_unknown_field(Method::POST, "mutate", json!({ "service": "probe", "add": 1 }), 400, "`put`")]
#[case::mutate_bad_role(Method::POST, "mutate", json!({ "service": "sts", "roles": [{ "arn": "dns" }] }), 400, "arn:aws:iam")]
#[case::unknown_verb(Method::GET, "probe/ghosts", json!(null), 404, "GET things/<account>")]
#[case::oracle_unknown_field(Method::PUT, "oracle", json!({ "calm": true }), 400, "`steady`")]
#[case::leaks_unknown_field(Method::POST, "leaks", json!({ "tenants": [] }), 400, "`objects`")]
#[case::log_since_nonsense(Method::GET, "log?since=x", json!(null), 400, "no whole number")]
#[case::log_unknown_query(Method::GET, "log?from=1", json!(null), 400, "allowed: since")]
#[tokio::test]
async fn an_invalid_request_is_refused_with_what_is_valid(
    #[case] method: Method,
    #[case] path: &str,
    #[case] body: Value,
    #[case] status: u16,
    #[case] expected: &str,
) {
    let world = World::start().await;
    let (got, answer) = world.control(method, path, body).await;
    assert_eq!(got, status, "{answer}");
    assert!(
        answer["error"].as_str().unwrap().contains(expected),
        "{answer}"
    );
}

#[tokio::test]
async fn one_invalid_switch_changes_none() {
    let world = World::start().await;
    let wanted = json!({ "probe": { "readLag": 5 }, "sts": { "x": 1 } });
    assert_eq!(world.control(Method::PUT, "switches", wanted).await.0, 400);
    assert_eq!(
        world.controlled(Method::GET, "switches", Value::Null).await["probe"]["readLag"],
        0.0
    );
}

#[tokio::test]
async fn control_without_http_is_the_same_control() {
    let world = World::start().await;
    world.put("a", "1").await;
    let log = world
        .emulator
        .control(Method::GET, "log?since=0", Value::Null)
        .unwrap();
    assert_eq!(log["entries"][0]["operation"], "Put");
    assert_eq!(
        world
            .emulator
            .control(Method::GET, "nope", Value::Null)
            .unwrap_err()
            .status,
        404
    );
}

#[tokio::test]
async fn a_stopped_emulator_frees_its_port() {
    // Other servers of a test run listen on 127.0.0.1, and might take the port as soon as it is free.
    let world = World::of(
        Emulator::builder()
            .service(Box::new(Probe::new()))
            .listen(([127, 0, 0, 2], 0).into()),
    )
    .await;
    let address = world
        .emulator
        .url()
        .trim_start_matches("http://")
        .to_owned();
    assert!(TcpListener::bind(&address).is_err());
    world.put("a", "1").await; // leaves a connection open in the client's pool
    world.emulator.stop();
    let refused = TcpStream::connect(&address).unwrap_err();
    assert_eq!(refused.kind(), std::io::ErrorKind::ConnectionRefused);
}

#[tokio::test]
async fn an_impossible_start_is_refused() {
    let twice = Emulator::builder()
        .service(Box::new(Probe::new()))
        .service(Box::new(Probe::new()))
        .start()
        .await;
    assert!(matches!(twice, Err(StartError::NameTaken("probe"))));
    let in_use = TcpListener::bind("127.0.0.1:0").unwrap();
    let error = Emulator::builder()
        .listen(in_use.local_addr().unwrap())
        .start()
        .await
        .unwrap_err();
    assert!(
        error.to_string().contains("choose another address"),
        "{error}"
    );
}
