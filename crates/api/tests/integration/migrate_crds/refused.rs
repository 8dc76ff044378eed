//! What is refused of a new object, and with which message.

use rstest::rstest;
use serde_json::{Map, Value, json};
use testkit::Result;

use super::server::{offered, spec};

const RESERVED: &str = "keys of spec.snapshots.tags have 1 to 128 characters and do not begin with aws:, \
                        pontoon.io/ or migration.aqua.io/";
const PAIR: &str = "spec.fence needs both sourceClusterName and destClusterName, or neither";

fn numbered(count: usize) -> Value {
    let entries = (0..count).map(|n| (n.to_string(), json!("x")));
    Value::Object(entries.collect::<Map<_, _>>())
}

fn tag(key: &str, value: &str) -> Value {
    json!({"snapshots": {"tags": {key: value}}})
}

#[rstest]
#[case::no_id(json!({"migrationId": null}), "spec.migrationId: Required")]
#[case::no_source(json!({"sourceCluster": null}), "spec.sourceCluster: Required")]
#[case::no_destination(json!({"destCluster": null}), "spec.destCluster: Required")]
#[case::no_secret(json!({"destCluster": {"kubeConfigSecret": null}}), "spec.destCluster.kubeConfigSecret: Required")]
#[case::no_source_namespace(json!({"sourceNamespace": null}), "spec.sourceNamespace: Required")]
#[case::no_dest_namespace(json!({"destNamespace": null}), "spec.destNamespace: Required")]
#[case::no_name(json!({"statefulSetName": null}), "spec.statefulSetName: Required")]
#[case::empty_secret(json!({"sourceCluster": {"kubeConfigSecret": ""}}), "spec.sourceCluster.kubeConfigSecret")]
#[case::secret_in_a_namespace(json!({"sourceCluster": {"kubeConfigSecret": "ops/src"}}), "spec.sourceCluster.kubeConfigSecret")]
#[case::key_with_slash(json!({"sourceCluster": {"kubeConfigKey": "a/b"}}), "spec.sourceCluster.kubeConfigKey")]
#[case::empty_namespace(json!({"sourceNamespace": ""}), "spec.sourceNamespace")]
#[case::namespace_in_capitals(json!({"sourceNamespace": "Shop"}), "spec.sourceNamespace")]
#[case::namespace_with_dot(json!({"destNamespace": "a.b"}), "spec.destNamespace")]
#[case::long_namespace(json!({"destNamespace": "a".repeat(64)}), "spec.destNamespace: Too long")]
#[case::name_that_ends_in_a_dash(json!({"statefulSetName": "web-"}), "spec.statefulSetName")]
#[case::name_with_empty_label(json!({"statefulSetName": "a..b"}), "spec.statefulSetName")]
#[case::long_name(json!({"statefulSetName": "a".repeat(254)}), "spec.statefulSetName: Too long")]
#[case::too_many_classes(json!({"storageClassMapping": numbered(65)}), "spec.storageClassMapping: Too many")]
#[case::long_class(json!({"storageClassMapping": {"gp2": "a".repeat(254)}}), "spec.storageClassMapping.gp2: Too long")]
#[case::bare_number(json!({"volumeDetachTimeout": "5"}), "spec.volumeDetachTimeout")]
#[case::negative(json!({"podReadyTimeout": "-5m"}), "spec.podReadyTimeout")]
#[case::days(json!({"podTerminationTimeout": "1d"}), "spec.podTerminationTimeout")]
#[case::point_without_digits(json!({"attachTimeout": "1.m"}), "spec.attachTimeout")]
#[case::soak_in_prose(json!({"sourceCleanup": {"soak": "soon"}}), "spec.sourceCleanup.soak")]
#[case::strategy(json!({"strategy": "Cutover"}), "Unsupported value: \"Cutover\"")]
#[case::abort(json!({"abort": "Now"}), "Unsupported value: \"Now\"")]
#[case::on_failure(json!({"onFailure": "Leave"}), "Unsupported value: \"Leave\"")]
#[case::dormant_claims(json!({"dormantClaims": "Copy"}), "Unsupported value: \"Copy\"")]
#[case::snapshots(json!({"snapshots": {"when": "BeforeStart"}}), "Unsupported value: \"BeforeStart\"")]
#[case::cleanup(json!({"sourceCleanup": {"policy": "Retain"}}), "Unsupported value: \"Retain\"")]
#[case::reclaim_policy(json!({"destReclaimPolicy": "Delete"}), "Unsupported value: \"Delete\"")]
#[case::negative_retry(json!({"retry": -1}), "spec.retry: Invalid value: -1")]
#[case::negative_limit(json!({"ordinalLimit": -1}), "spec.ordinalLimit: Invalid value: -1")]
#[case::limit_beyond_any_replicas(json!({"ordinalLimit": 2_147_483_648_i64}), "spec.ordinalLimit")]
#[case::too_much_acknowledged(json!({"acknowledge": vec!["Health"; 65]}), "spec.acknowledge: Too many")]
#[case::acknowledged_pod(json!({"acknowledge": ["Health/web-1"]}), "spec.acknowledge[0]")]
#[case::nothing_acknowledged(json!({"acknowledge": [""]}), "spec.acknowledge[0]")]
#[case::half_a_fence(json!({"fence": {"sourceClusterName": "a"}}), PAIR)]
#[case::other_half_of_a_fence(json!({"fence": {"destClusterName": "b"}}), PAIR)]
#[case::empty_fence_name(json!({"fence": {"sourceClusterName": "", "destClusterName": "b"}}), "spec.fence.sourceClusterName")]
#[case::long_fence_name(json!({"fence": {"sourceClusterName": "a".repeat(101), "destClusterName": "b"}}), "spec.fence.sourceClusterName: Too long")]
#[case::too_many_tags(json!({"snapshots": {"tags": numbered(21)}}), "spec.snapshots.tags: Too many")]
#[case::long_tag_value(tag("k", &"v".repeat(257)), "spec.snapshots.tags.k: Too long")]
#[case::long_tag_key(tag(&"k".repeat(129), ""), RESERVED)]
#[case::empty_tag_key(tag("", ""), RESERVED)]
#[case::tag_of_aws(tag("AWS:x", ""), RESERVED)]
#[case::tag_of_the_deck(tag("pontoon.io/cluster", ""), RESERVED)]
#[case::tag_of_the_run(tag("migration.aqua.io/run", ""), RESERVED)]
#[tokio::test]
async fn is_refused(#[case] change: Value, #[case] message: &str) -> Result<()> {
    let answer = offered(&spec(&change)).await?;
    let refusal = answer.expect_err("the API server accepts it");
    assert!(refusal.contains(message), "{refusal}");
    Ok(())
}
