//! The probe: tokens, read lag, and the oracle.

use http::Method;
use serde_json::{Value, json};

use crate::world::World;

async fn rules(world: &World) -> Vec<Value> {
    let answer = world
        .controlled(Method::GET, "violations", Value::Null)
        .await;
    answer["violations"]
        .as_array()
        .unwrap()
        .iter()
        .map(|violation| violation["rule"].clone())
        .collect()
}

#[tokio::test]
async fn a_put_with_the_same_token_happens_once() {
    let world = World::start().await;
    let put = json!({ "name": "a", "value": "1", "token": "t", "marker": "m" });
    let (_, first) = world.probe("test", "Put", put.clone()).await;
    let (_, again) = world.probe("test", "Put", put.clone()).await;
    assert_eq!(
        first,
        json!({ "name": "a", "value": "1", "token": "t", "marker": "m", "version": 1 })
    );
    assert_eq!(again, first);

    world
        .probe("test", "Delete", json!({ "name": "a", "marker": "m" }))
        .await;
    assert_eq!(world.probe("test", "Put", put).await.1, first);
    assert_eq!(
        world.probe("test", "Get", json!({ "name": "a" })).await.0,
        400
    );
}

#[tokio::test]
async fn a_token_with_another_body_is_a_mismatch() {
    let world = World::start().await;
    world
        .probe(
            "test",
            "Put",
            json!({ "name": "a", "value": "1", "token": "t" }),
        )
        .await;
    let (status, answer) = world
        .probe(
            "test",
            "Put",
            json!({ "name": "a", "value": "2", "token": "t" }),
        )
        .await;
    assert_eq!(
        (status, &answer["__type"]),
        (400, &json!("IdempotentParameterMismatch"))
    );
    let elsewhere = world
        .probe(
            "AKIA111122223333ABCD",
            "Put",
            json!({ "name": "a", "value": "2", "token": "t" }),
        )
        .await;
    assert_eq!(elsewhere.0, 200);
}

#[tokio::test]
async fn a_missing_thing_is_not_found() {
    let world = World::start().await;
    for operation in ["Get", "Delete"] {
        let (status, answer) = world.probe("test", operation, json!({ "name": "a" })).await;
        assert_eq!(
            (status, &answer["__type"]),
            (400, &json!("ResourceNotFoundException"))
        );
    }
}

#[tokio::test]
async fn an_unknown_field_is_refused() {
    let world = World::start().await;
    let (status, answer) = world
        .probe(
            "test",
            "Put",
            json!({ "name": "a", "value": "1", "owner": "m" }),
        )
        .await;
    assert_eq!(
        (status, &answer["__type"]),
        (400, &json!("SerializationException"))
    );
}

#[tokio::test]
async fn reads_lag_on_the_emulators_clock() {
    let world = World::start().await;
    world
        .controlled(Method::POST, "clock", json!({ "factor": 0 }))
        .await;
    world
        .controlled(
            Method::PUT,
            "switches",
            json!({ "probe": { "readLag": "10s" } }),
        )
        .await;
    world.put("a", "1").await;
    world
        .controlled(Method::POST, "clock", json!({ "advance": 9 }))
        .await;
    assert_eq!(
        world.probe("test", "Get", json!({ "name": "a" })).await.0,
        400
    );
    assert_eq!(
        world
            .controlled(Method::GET, "probe/things/000000000000", Value::Null)
            .await["things"][0]["name"],
        "a"
    );
    world
        .controlled(Method::POST, "clock", json!({ "advance": 1 }))
        .await;
    assert_eq!(
        world.probe("test", "Get", json!({ "name": "a" })).await.1["value"],
        "1"
    );
}

#[tokio::test]
async fn a_list_can_be_filtered_by_marker() {
    let world = World::start().await;
    for (name, marker) in [("a", "m"), ("b", "n")] {
        world
            .probe(
                "test",
                "Put",
                json!({ "name": name, "value": "1", "marker": marker }),
            )
            .await;
    }
    let (_, list) = world.probe("test", "List", json!({ "marker": "n" })).await;
    assert_eq!(list["things"].as_array().map(Vec::len), Some(1));
    assert_eq!(list["things"][0]["name"], "b");
}

#[tokio::test]
async fn calls_of_the_owner_are_no_violations() {
    let world = World::start().await;
    for value in ["1", "2"] {
        world
            .probe(
                "test",
                "Put",
                json!({ "name": "a", "value": value, "marker": "m" }),
            )
            .await;
    }
    world
        .probe("test", "Delete", json!({ "name": "a", "marker": "m" }))
        .await;
    world
        .probe(
            "test",
            "Put",
            json!({ "name": "b", "value": "1", "marker": "m" }),
        )
        .await;
    assert_eq!(rules(&world).await, Vec::<Value>::new());
}

#[tokio::test]
async fn two_things_with_one_marker_are_reported_over_all_accounts() {
    let world = World::start().await;
    world
        .probe(
            "test",
            "Put",
            json!({ "name": "a", "value": "1", "marker": "m" }),
        )
        .await;
    world
        .probe(
            "AKIA111122223333ABCD",
            "Put",
            json!({ "name": "b", "value": "1", "marker": "m" }),
        )
        .await;
    assert_eq!(rules(&world).await, [json!("twoWithOneMarker")]);
}

#[tokio::test]
async fn a_change_of_a_foreign_thing_is_executed_and_reported() {
    let world = World::start().await;
    let seed = json!({ "service": "probe", "put": { "name": "a", "value": "theirs" } });
    world.controlled(Method::POST, "mutate", seed).await;
    assert_eq!(
        world
            .probe(
                "test",
                "Put",
                json!({ "name": "a", "value": "ours", "marker": "m" })
            )
            .await
            .0,
        200
    );
    assert_eq!(
        world
            .probe("test", "Delete", json!({ "name": "a", "marker": "n" }))
            .await
            .0,
        200
    );
    assert_eq!(
        rules(&world).await,
        [json!("foreignChanged"), json!("foreignDeleted")]
    );
}

#[tokio::test]
async fn direct_edits_are_not_reported() {
    let world = World::start().await;
    world
        .probe(
            "test",
            "Put",
            json!({ "name": "a", "value": "1", "marker": "m" }),
        )
        .await;
    let edit = json!({ "service": "probe", "put": { "name": "a", "value": "2", "marker": "m" } });
    assert_eq!(
        world.controlled(Method::POST, "mutate", edit).await["version"],
        2
    );
    world
        .controlled(
            Method::POST,
            "mutate",
            json!({ "service": "probe", "delete": "a" }),
        )
        .await;
    assert_eq!(
        world
            .control(
                Method::POST,
                "mutate",
                json!({ "service": "probe", "delete": "a" })
            )
            .await
            .0,
        404
    );
    assert_eq!(rules(&world).await, Vec::<Value>::new());
}
