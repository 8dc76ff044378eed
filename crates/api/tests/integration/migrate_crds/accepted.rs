//! What is accepted, and what is filled in.

use assert_json_diff::assert_json_eq;
use kube::api::{Patch, PatchParams, PostParams};
use rstest::rstest;
use serde_json::{Map, Value, json};
use testkit::Result;

use super::server::{api, merge, object, offered, served, spec};

const LEGACY: &str = include_str!("../../fixtures/migrate/objects.yaml");
const WHOLE: &str = include_str!("../../fixtures/migrate/whole.yaml");

fn numbered(count: usize, value: &str) -> Value {
    let entries = (0..count).map(|n| (n.to_string(), json!(value)));
    Value::Object(entries.collect::<Map<_, _>>())
}

#[rstest]
#[case::empty_id(json!({"migrationId": ""}))]
#[case::any_id(json!({"migrationId": "2026: part 1 \u{2764}\n"}))]
#[case::long_id(json!({"migrationId": "m".repeat(10_000)}))]
#[case::longest_namespaces(json!({"sourceNamespace": "a".repeat(63), "destNamespace": "0".repeat(63)}))]
#[case::name_of_several_labels(json!({"statefulSetName": "web.v2-a.0"}))]
#[case::longest_name(json!({"statefulSetName": "a".repeat(253)}))]
#[case::empty_key(json!({"sourceCluster": {"kubeConfigKey": ""}}))]
#[case::any_key(json!({"destCluster": {"kubeConfigKey": "_My.config-1"}}))]
#[case::the_same_on_both_sides(json!({"destNamespace": "a", "destCluster": {"kubeConfigSecret": "src"}}))]
#[case::sixty_four_classes(json!({"storageClassMapping": numbered(64, "gp3")}))]
#[case::class_without_name(json!({"storageClassMapping": {"": "gp3", "gp2": ""}}))]
#[case::durations_of_zero(json!({"volumeDetachTimeout": "0", "podReadyTimeout": "0s", "attachTimeout": "0h0m0s", "podTerminationTimeout": "0.0s"}))]
#[case::durations_as_go_prints_them(json!({"volumeDetachTimeout": "1h0m0s", "podReadyTimeout": "1.5h", "attachTimeout": "100ms200\u{b5}s300us400ns"}))]
#[case::no_soak(json!({"sourceCleanup": {"soak": "0s"}}))]
#[case::strategy(json!({"strategy": "OrphanAdopt"}))]
#[case::no_ordinal(json!({"ordinalLimit": 0}))]
#[case::any_number_of_ordinals(json!({"ordinalLimit": 2_147_483_647}))]
#[case::retry(json!({"retry": 7}))]
#[case::acknowledged(json!({"acknowledge": ["Health/0", "UncleanDetach/2147483647", "StorageClass"]}))]
#[case::sixty_four_acknowledged(json!({"acknowledge": vec!["Health"; 64]}))]
#[case::twenty_tags(json!({"snapshots": {"tags": numbered(20, "")}}))]
#[case::longest_tag(json!({"snapshots": {"tags": {"k".repeat(128): "v".repeat(256)}}}))]
#[case::tag_with_a_reserved_end(json!({"snapshots": {"tags": {"my-aws:x": "", "x/pontoon.io/y": ""}}}))]
#[case::no_fence(json!({"fence": {}}))]
#[case::fence(json!({"fence": {"sourceClusterName": "a", "destClusterName": "b".repeat(100)}}))]
#[tokio::test]
async fn is_accepted(#[case] change: Value) -> Result<()> {
    let offer = spec(&change);
    let stored = offered(&offer).await?.expect("accepted");
    let mut completed = stored.clone();
    merge(&mut completed, &offer);
    assert_json_eq!(completed, stored); // no field is unknown
    Ok(())
}

#[tokio::test]
async fn gets_exactly_these_defaults() -> Result<()> {
    let offer = spec(&json!({}));
    let stored = offered(&offer).await?.expect("accepted");
    let mut expected = offer;
    merge(
        &mut expected,
        &json!({
            "sourceCluster": {"kubeConfigKey": "kubeconfig"},
            "destCluster": {"kubeConfigKey": "kubeconfig"},
            "force": false, "volumeDetachTimeout": "5m", "podReadyTimeout": "10m",
            "attachTimeout": "5m", "dryRun": false, "paused": false, "retry": 0,
            "onFailure": "Pause", "dormantClaims": "Move", "snapshots": {"when": "Never"},
            "sourceCleanup": {"policy": "Delete", "soak": "10m"}, "destReclaimPolicy": "Retain",
        }),
    );
    assert_json_eq!(stored, expected);
    Ok(())
}

/// Stores spec and status, then adds the finalizer and removes it. What was given must still be there.
async fn is_stored_whole(given: &Value) -> Result<()> {
    let name = given["metadata"]["name"].as_str().expect("a name");
    let (api, params) = (api(&served().await?), PatchParams::default());
    let made = object(name, &given["spec"]);
    api.create(&PostParams::default(), &made).await?;
    let status = Patch::Merge(json!({"status": given["status"]}));
    api.patch_status(name, &params, &status).await?;
    for finalizers in [json!(["migration.aqua.io/finalizer"]), Value::Null] {
        let metadata = Patch::Merge(json!({"metadata": {"finalizers": finalizers}}));
        api.patch(name, &params, &metadata).await?;
    }
    let stored = api.get(name).await?;
    assert_json_eq!(stored.data["status"], given["status"]);
    let mut completed = stored.data["spec"].clone();
    merge(&mut completed, &given["spec"]);
    assert_json_eq!(stored.data["spec"], completed);
    Ok(())
}

#[rstest]
#[case::left_by_the_predecessor(LEGACY)]
#[case::with_every_field(WHOLE)]
#[tokio::test]
async fn objects_are_stored_whole_and_can_be_written(#[case] yaml: &str) -> Result<()> {
    let objects: Vec<Value> = serde_saphyr::from_str(yaml).expect("valid YAML");
    for object in &objects {
        is_stored_whole(object).await?;
    }
    Ok(())
}
