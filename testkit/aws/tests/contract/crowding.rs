//! Concurrent requests: one batch per zone at a time, and a rate per account.

use std::time::Duration;

use http::Method;
use reqwest::RequestBuilder;
use serde_json::{Value, json};

use crate::world::{World, authorization, document};

async fn world_with_zone() -> World {
    let world = World::whole().await;
    let zone = json!({ "service": "route53", "zone": { "id": "Z1", "name": "example.com" } });
    world.controlled(Method::POST, "mutate", zone).await;
    world
}

fn batch(world: &World, name: &str) -> RequestBuilder {
    let record = format!(
        "<Name>{name}.example.com</Name><Type>CNAME</Type><TTL>60</TTL><ResourceRecords>\
         <ResourceRecord><Value>d0.cloudfront.net</Value></ResourceRecord></ResourceRecords>"
    );
    let body = format!(
        "<ChangeResourceRecordSetsRequest xmlns=\"https://route53.amazonaws.com/doc/2013-04-01/\">\
         <ChangeBatch><Changes><Change><Action>CREATE</Action><ResourceRecordSet>{record}\
         </ResourceRecordSet></Change></Changes></ChangeBatch></ChangeResourceRecordSetsRequest>"
    );
    let url = format!("{}/2013-04-01/hostedzone/Z1/rrset/", world.emulator.url());
    world
        .http
        .post(url)
        .header("authorization", authorization("test", "route53"))
        .header("x-amz-date", "20260101T000000Z")
        .body(body)
}

/// Waits until the rule of the first batch is used up: from then on the batch uses the zone.
async fn has_arrived(world: &World) {
    loop {
        let faults = world.controlled(Method::GET, "faults", Value::Null).await;
        if faults["faults"] == json!([]) {
            return;
        }
        tokio::task::yield_now().await;
    }
}

async fn slowed(world: &World, delay: &str) {
    let operation = "ChangeResourceRecordSets";
    let rule = json!({ "operation": operation, "times": 1, "effect": { "delay": delay } });
    world.fault(rule).await;
}

#[tokio::test]
async fn a_zone_takes_one_batch_at_a_time() {
    let world = world_with_zone().await;
    slowed(&world, "2s").await;
    let second = async {
        has_arrived(&world).await;
        document(batch(&world, "b").send().await.expect("an answer")).await
    };
    let (first, (status, answer)) = tokio::join!(batch(&world, "a").send(), second);
    assert_eq!(first.expect("an answer").status(), 200);
    assert_eq!(
        (status, answer.text("Code").as_str()),
        (400, "PriorRequestNotComplete")
    );
    let seen = world
        .controlled(Method::GET, "violations", Value::Null)
        .await;
    assert_eq!(seen["violations"][0]["rule"], "batchesAtOnce");
}

#[tokio::test]
async fn a_client_that_left_frees_the_zone() {
    let world = world_with_zone().await;
    slowed(&world, "10m").await;
    let first = tokio::select! {
        answer = batch(&world, "a").send() => Some(answer),
        () = has_arrived(&world) => None,
    };
    assert!(first.is_none(), "it is delayed");
    let answered = async {
        while batch(&world, "b").send().await.expect("an answer").status() != 200 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), answered)
        .await
        .expect("the zone is free again");
}

#[tokio::test]
async fn an_account_is_throttled_above_its_rate_but_others_are_not() {
    let world = World::start().await;
    world
        .controlled(Method::POST, "clock", json!({ "factor": 0 }))
        .await;
    let rate = json!({ "probe": { "rate": 1 } });
    world.controlled(Method::PUT, "switches", rate).await;
    world.put("a", "1").await;
    let (status, answer) = world.probe("test", "List", json!({})).await;
    assert_eq!(
        (status, &answer["__type"]),
        (400, &json!("ThrottlingException"))
    );
    assert_eq!(
        world.probe("AKIA222222222222", "List", json!({})).await.0,
        200
    );
    let log = world.log().await;
    assert_eq!(log[1]["code"], "ThrottlingException");
    assert_eq!(log[1].get("fault"), None);
    world
        .controlled(Method::POST, "clock", json!({ "advance": 1 }))
        .await;
    assert_eq!(world.probe("test", "List", json!({})).await.0, 200);
}
