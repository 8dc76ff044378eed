//! What counts as a difference between what we send and what exists.

use k8s_openapi::api::apps::v1::StatefulSet;
use serde_json::json;

use super::*;
use crate::translate::fixtures::{
    TARGET, csi_pair, destination, mapping, pair_of, stateful_set, with,
};
use crate::translate::pair::Pair;
use crate::translate::{dest_pair, dest_stateful_set};
use rstest::rstest;

const CONTAINER: &str = "/spec/template/spec/containers/0";

fn set(value: Value) -> Document<StatefulSet> {
    Document::read(value).unwrap()
}

fn sent() -> Value {
    let classes = mapping();
    dest_stateful_set(&set(stateful_set()), &destination(&classes), 0).into_value()
}

fn differing(live: Value) -> Vec<String> {
    differing_fields(&set(sent()), &set(live))
}

fn inside(pointer: &str) -> String {
    format!("{CONTAINER}{pointer}")
}

#[test]
fn an_answer_with_what_was_sent_matches() {
    assert_eq!(differing(sent()), Vec::<String>::new());
}

#[rstest]
#[case::identity("/metadata/uid".to_owned(), json!("u"))]
#[case::version("/metadata/resourceVersion".to_owned(), json!("1"))]
#[case::status("/status".to_owned(), json!({"replicas": 0}))]
#[case::a_default("/spec/template/spec/restartPolicy".to_owned(), json!("Always"))]
#[case::a_default_in_a_list(inside("/imagePullPolicy"), json!("Always"))]
#[case::a_default_of_a_port(inside("/ports"), json!([{"containerPort": 80, "protocol": "TCP"}]))]
#[case::an_annotation_of_admission("/spec/template/metadata/annotations".to_owned(), json!({"a": "b"}))]
#[case::a_variable_of_admission(
    inside("/env"),
    json!([{"name": "INJECTED", "value": "1"}, {"name": "A", "value": "1"}])
)]
#[case::a_toleration_of_admission("/spec/template/spec/tolerations".to_owned(), json!([{"key": "a"}]))]
fn an_addition_matches(#[case] pointer: String, #[case] added: Value) {
    let live = with(sent(), &pointer, added);
    assert_eq!(differing(live), Vec::<String>::new());
}

#[test]
fn a_container_of_admission_matches() {
    let mut live = sent();
    let containers = &mut live["spec"]["template"]["spec"]["containers"];
    let containers = containers.as_array_mut().unwrap();
    containers.insert(0, json!({"name": "proxy", "image": "proxy:1"}));
    assert_eq!(differing(live), Vec::<String>::new());
}

#[rstest]
#[case::image(inside("/image"), json!("web:2"), "/spec/template/spec/containers/name=app/image")]
#[case::variable(
    inside("/env"),
    json!([{"name": "A", "value": "2"}]),
    "/spec/template/spec/containers/name=app/env/name=A/value"
)]
#[case::marker(
    "/metadata/annotations".to_owned(),
    json!({
        "migration.aqua.io/run": "other",
        "example.org/note": "mine",
        "migration.aqua.io/migrated-from": "shop/web",
        "migration.aqua.io/migration-id": "split: phase 2",
    }),
    "/metadata/annotations/migration.aqua.io~1run"
)]
#[case::replicas("/spec/replicas".to_owned(), json!(1), "/spec/replicas")]
#[case::first_ordinal("/spec/ordinals".to_owned(), json!({"start": 4}), "/spec/ordinals/start")]
#[case::first_ordinal_not_served("/spec/ordinals".to_owned(), json!(null), "/spec/ordinals/start")]
#[case::retention(
    "/spec/persistentVolumeClaimRetentionPolicy".to_owned(),
    json!({"whenDeleted": "Delete", "whenScaled": "Retain"}),
    "/spec/persistentVolumeClaimRetentionPolicy/whenDeleted"
)]
#[case::an_absent_field("/spec/minReadySeconds".to_owned(), json!(null), "/spec/minReadySeconds")]
fn another_value_is_named(#[case] pointer: String, #[case] changed: Value, #[case] field: &str) {
    assert_eq!(differing(with(sent(), &pointer, changed)), [field]);
}

#[test]
fn a_server_without_retention_policy_matches() {
    let live = with(
        sent(),
        "/spec/persistentVolumeClaimRetentionPolicy",
        json!(null),
    );
    assert_eq!(differing(live), Vec::<String>::new());
}

#[test]
fn a_server_without_ordinals_matches_start_0() {
    let sent = set(with(sent(), "/spec/ordinals", json!({"start": 0})));
    let live = set(with(sent.value().clone(), "/spec/ordinals", json!(null)));
    assert_eq!(differing_fields(&sent, &live), Vec::<String>::new());
}

#[test]
fn empty_fields_that_the_server_drops_match() {
    let sent = set(with(sent(), "/spec/template/spec/nodeSelector", json!({})));
    let live = set(with(
        sent.value().clone(),
        "/spec/template/spec/nodeSelector",
        json!(null),
    ));
    assert_eq!(differing_fields(&sent, &live), Vec::<String>::new());
}

fn translated() -> Pair {
    let classes = mapping();
    dest_pair(&csi_pair(), &destination(&classes), &TARGET).unwrap()
}

#[test]
fn a_bound_volume_matches() {
    let Pair { volume, claim } = translated();
    let mut live = volume.value().clone();
    live["spec"]["claimRef"]["uid"] = "u".into();
    live["metadata"]["finalizers"] = json!(["kubernetes.io/pv-protection"]);
    let live = pair_of(live, claim.into_value());
    assert_eq!(
        differing_fields(&volume, &live.volume),
        Vec::<String>::new()
    );
}

#[rstest]
#[case::another_disk("/spec/csi/volumeHandle", json!("vol-0a1b2c3d"))]
#[case::another_claim("/spec/claimRef/name", json!("data-web-1"))]
#[case::another_policy("/spec/persistentVolumeReclaimPolicy", json!("Delete"))]
fn a_foreign_volume_is_named_by_its_field(#[case] pointer: &str, #[case] changed: Value) {
    let Pair { volume, claim } = translated();
    let live = with(volume.value().clone(), pointer, changed);
    let live = pair_of(live, claim.into_value());
    assert_eq!(differing_fields(&volume, &live.volume), [pointer]);
}

#[rstest]
#[case::unset_and_filled_in(json!(null), json!("gp3"), true)]
#[case::empty_and_empty(json!(""), json!(""), true)]
#[case::empty_and_filled_in(json!(""), json!("gp3"), false)]
#[case::empty_and_unset(json!(""), json!(null), false)]
fn a_default_class_is_accepted_where_none_was_sent(
    #[case] sent: Value,
    #[case] live: Value,
    #[case] matches: bool,
) {
    let Pair { volume, claim } = translated();
    let claim = claim.into_value();
    let class = |class: Value| {
        let claim = with(claim.clone(), "/spec/storageClassName", class);
        pair_of(volume.value().clone(), claim).claim
    };
    let fields = differing_fields(&class(sent), &class(live));
    assert_eq!(fields.is_empty(), matches, "{fields:?}");
}
