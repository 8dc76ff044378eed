//! EC2 over HTTP: the wire format as boto3 reads it, roles, faults, and what nodes and observers report.

use http::Method;
use serde_json::{Value, json};

use crate::boto3;
use crate::world::{Document, Key, World, document};

const VOLUME: &str = "vol-0000000a";
const OTHER: &str = "vol-0000000b";
const NODE: &str = "i-0000000a";
const ROLE: &str = "arn:aws:iam::000000000000:role/csi/attacher-src";

#[tokio::test]
async fn boto3_finds_ec2_as_aws_has_it() {
    boto3::check("boto3_ec2_check.py").await;
}

/// A world whose clock stands still, with two volumes and an instance.
async fn world() -> World {
    let world = World::whole().await;
    control(&world, Method::POST, "clock", json!({ "factor": 0 })).await;
    let zone = json!({ "az": "us-east-1a" });
    let node = format!("ec2/instances/{NODE}");
    control(&world, Method::PUT, &node, zone.clone()).await;
    for id in [VOLUME, OTHER] {
        let path = format!("ec2/volumes/{id}");
        control(&world, Method::PUT, &path, zone.clone()).await;
    }
    let operators = json!({ "operators": ["pontoon"] });
    control(&world, Method::PUT, "oracle", operators).await;
    world
}

async fn control(world: &World, method: Method, path: &str, body: Value) -> Value {
    world.controlled(method, path, body).await
}

async fn advance(world: &World, seconds: u64) {
    control(world, Method::POST, "clock", json!({ "advance": seconds })).await;
}

/// A session of the role of the driver that attaches.
async fn attacher(world: &World) -> Key {
    let roles = json!({ "service": "sts", "roles": [{ "arn": ROLE }] });
    control(world, Method::POST, "mutate", roles).await;
    let parameters = [("RoleArn", ROLE), ("RoleSessionName", "tests")];
    let (status, answer) = world.sts(&"test".into(), "AssumeRole", &parameters).await;
    assert_eq!(status, 200, "{answer:?}");
    Key {
        id: answer.text("AccessKeyId"),
        token: Some(answer.text("SessionToken")),
    }
}

/// Status and answer of a call.
async fn call(
    world: &World,
    key: &Key,
    action: &str,
    parameters: &[(&str, &str)],
) -> (u16, Document) {
    let answer = request(world, key, action, parameters).send().await;
    document(answer.expect("an answer")).await
}

fn request(
    world: &World,
    key: &Key,
    action: &str,
    parameters: &[(&str, &str)],
) -> reqwest::RequestBuilder {
    let fixed = [("Action", action), ("Version", "2016-11-15")];
    let pairs = fixed.iter().chain(parameters);
    let body: Vec<_> = pairs
        .map(|(name, value)| format!("{name}={value}"))
        .collect();
    let kind = "application/x-www-form-urlencoded; charset=utf-8";
    world
        .signed(key, "ec2")
        .header("content-type", kind)
        .body(body.join("&"))
}

async fn attach(world: &World, key: &Key) -> (u16, Document) {
    let parameters = [
        ("VolumeId", VOLUME),
        ("InstanceId", NODE),
        ("Device", "/dev/xvdba"),
    ];
    call(world, key, "AttachVolume", &parameters).await
}

#[tokio::test]
async fn a_role_is_denied_by_its_name_and_named_in_the_log() {
    let world = world().await;
    let key = attacher(&world).await;
    let path = "ec2/roles/attacher-src";
    control(
        &world,
        Method::PUT,
        path,
        json!({ "deny": ["AttachVolume"] }),
    )
    .await;
    let (status, answer) = attach(&world, &key).await;
    assert_eq!(
        (status, answer.text("Code").as_str()),
        (403, "UnauthorizedOperation")
    );
    control(&world, Method::PUT, path, json!({})).await;
    assert_eq!(attach(&world, &key).await.0, 200);
    let log = world.log().await;
    let attaches: Vec<_> = log
        .iter()
        .filter(|entry| entry["operation"] == "AttachVolume")
        .collect();
    assert_eq!(attaches.len(), 2);
    for entry in attaches {
        assert_eq!(
            (&entry["caller"], &entry["resource"]),
            (&json!("attacher-src"), &json!(VOLUME))
        );
    }
}

#[tokio::test]
async fn a_disk_moves_in_its_time_and_the_oracle_has_no_complaint() {
    let world = world().await;
    let key = attacher(&world).await;
    let timing = json!({ "attachMs": 1000, "detachMs": 1000 });
    control(&world, Method::PUT, "ec2/timing", timing).await;
    assert_eq!(attach(&world, &key).await.0, 200);
    advance(&world, 1).await;
    let node = json!({ "instance": NODE });
    let verb = |verb: &str| format!("ec2/volumes/{VOLUME}/{verb}");
    control(&world, Method::POST, &verb("mount"), node.clone()).await;
    for event in ["start", "stop"] {
        let entry = json!({ "instance": NODE, "podUid": "u1", "podName": "web-0", "event": event });
        control(&world, Method::POST, &verb("log"), entry).await;
    }
    control(&world, Method::POST, &verb("unmount"), node).await;
    let (status, _) = call(&world, &key, "DetachVolume", &[("VolumeId", VOLUME)]).await;
    assert_eq!(status, 200);
    advance(&world, 1).await;
    let volume = control(
        &world,
        Method::GET,
        &format!("ec2/volumes/{VOLUME}"),
        Value::Null,
    )
    .await;
    assert_eq!(
        (&volume["state"], &volume["dirty"]),
        (&json!("available"), &json!(false))
    );
    assert_eq!(volume["log"].as_array().map(Vec::len), Some(2));

    let oracle = control(&world, Method::GET, "oracle", Value::Null).await;
    assert_eq!(oracle["violations"], json!([]));
    let timeline = oracle["timeline"].as_array().expect("a list");
    let events: Vec<_> = timeline
        .iter()
        .map(|entry| entry["event"].clone())
        .collect();
    let expected = [
        "attaching",
        "attached",
        "mounted",
        "started",
        "stopped",
        "unmounted",
        "detaching",
        "detached",
    ];
    assert_eq!(json!(events), json!(expected));
}

#[tokio::test]
async fn a_call_of_the_operator_that_moves_a_disk_is_reported() {
    let world = world().await;
    let keys = json!({ "service": "sts", "keys": { "pontoon": "000000000000" } });
    control(&world, Method::POST, "mutate", keys).await;
    let forced = [("VolumeId", VOLUME), ("Force", "true")];
    let (status, _) = call(&world, &"pontoon".into(), "DetachVolume", &forced).await;
    assert_eq!(status, 400);
    let oracle = control(&world, Method::GET, "oracle", Value::Null).await;
    assert_eq!(oracle["violations"][0]["rule"], "operatorMovedDisk");
    let detail = oracle["violations"][0]["detail"].as_str().expect("a text");
    assert_eq!(detail, format!("pontoon called DetachVolume of {VOLUME}"));
}

#[tokio::test]
async fn a_short_fault_concerns_its_volume_and_its_caller() {
    let world = world().await;
    let key = attacher(&world).await;
    let rule = json!({ "action": "DescribeVolumes", "volumeId": VOLUME, "caller": "attacher-src", "effect": "throttle" });
    world.fault(rule).await;
    let filter = [
        ("Filter.1.Name", "volume-id"),
        ("Filter.1.Value.1", OTHER),
        ("Filter.1.Value.2", VOLUME),
    ];
    let (status, answer) = call(&world, &key, "DescribeVolumes", &filter).await;
    assert_eq!(
        (status, answer.text("Code").as_str()),
        (503, "RequestLimitExceeded")
    );
    let (status, _) = call(&world, &key, "DescribeVolumes", &filter[..2]).await;
    assert_eq!(status, 200);
    let (status, _) = call(&world, &"test".into(), "DescribeVolumes", &filter).await;
    assert_eq!(status, 200);
    control(
        &world,
        Method::DELETE,
        "faults",
        json!({ "action": "DescribeVolumes" }),
    )
    .await;
    let (status, _) = call(&world, &key, "DescribeVolumes", &filter).await;
    assert_eq!(status, 200);
}

#[tokio::test]
async fn a_lost_answer_leaves_the_effect() {
    let world = world().await;
    let rule = json!({ "action": "CreateSnapshot", "effect": "cutAfter", "times": 1 });
    world.fault(rule).await;
    let lost = request(
        &world,
        &"test".into(),
        "CreateSnapshot",
        &[("VolumeId", VOLUME)],
    );
    let error = lost.send().await.expect_err("no answer");
    assert!(error.is_request(), "{error:?}");
    let path = format!("ec2/volumes/{VOLUME}");
    let volume = control(&world, Method::GET, &path, Value::Null).await;
    assert_eq!(volume["snapshots"].as_array().map(Vec::len), Some(1));
}
