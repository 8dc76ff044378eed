//! The rows of the contract about StatefulSets.

use super::*;
use crate::translate::fixtures::{RUN_ID, destination, mapping, stateful_set, with};
use crate::translate::keys::LEGACY_CLASS;
use rstest::rstest;

fn translated(source: Value) -> Value {
    let classes = mapping();
    let source = Document::read(source).unwrap();
    dest_stateful_set(&source, &destination(&classes), 0).into_value()
}

#[test]
fn metadata_becomes_exactly_this() {
    let made = translated(stateful_set());
    let expected = json!({
        "name": "web",
        "namespace": "store",
        "labels": {"app": "web", "app.kubernetes.io/instance": "web"},
        "annotations": {
            "example.org/note": "mine",
            "migration.aqua.io/migrated-from": "shop/web",
            "migration.aqua.io/run": RUN_ID,
            "migration.aqua.io/migration-id": "split: phase 2",
        },
    });
    assert_eq!(made["metadata"], expected);
    assert!(made.get("status").is_none());
}

#[rstest]
#[case::service("/spec/serviceName")]
#[case::selector("/spec/selector")]
#[case::pod_management("/spec/podManagementPolicy")]
#[case::update_strategy("/spec/updateStrategy")]
#[case::min_ready("/spec/minReadySeconds")]
#[case::revisions("/spec/revisionHistoryLimit")]
#[case::first_ordinal("/spec/ordinals")]
#[case::labels_of_pods("/spec/template/metadata")]
#[case::containers("/spec/template/spec/containers")]
#[case::request("/spec/volumeClaimTemplates/0/spec/resources")]
#[case::a_field_of_a_newer_server("/spec/fromTheFuture")]
#[case::a_newer_field_of_pods("/spec/template/spec/fromTheFuture")]
fn a_field_of_the_spec_is_kept(#[case] pointer: &str) {
    let source = stateful_set();
    let made = translated(source.clone());
    assert!(source.pointer(pointer).is_some());
    assert_eq!(made.pointer(pointer), source.pointer(pointer));
}

#[rstest]
#[case::replicas("/spec/replicas", json!(0))]
#[case::retention(
    "/spec/persistentVolumeClaimRetentionPolicy",
    json!({"whenDeleted": "Retain", "whenScaled": "Retain"})
)]
#[case::class_of_a_template("/spec/volumeClaimTemplates/0/spec/storageClassName", json!("gp3"))]
#[case::class_in_the_old_annotation(
    "/spec/volumeClaimTemplates/0/metadata/annotations",
    json!({LEGACY_CLASS: "gp3"})
)]
#[case::namespace_of_a_claim("/spec/volumeClaimTemplates/0/metadata/namespace", json!("store"))]
#[case::namespace_of_a_data_source(
    "/spec/volumeClaimTemplates/0/spec/dataSourceRef/namespace",
    json!("store")
)]
#[case::namespace_in_a_required_affinity(
    "/spec/template/spec/affinity/podAntiAffinity/requiredDuringSchedulingIgnoredDuringExecution/0/namespaces",
    json!(["store", "other"])
)]
#[case::namespace_in_a_preferred_affinity(
    "/spec/template/spec/affinity/podAntiAffinity/preferredDuringSchedulingIgnoredDuringExecution/0\
     /podAffinityTerm/namespaces",
    json!(["store"])
)]
fn a_field_of_the_spec_is_changed(#[case] pointer: &str, #[case] expected: Value) {
    let made = translated(stateful_set());
    assert_ne!(stateful_set().pointer(pointer), Some(&expected));
    assert_eq!(made.pointer(pointer), Some(&expected));
}

#[test]
fn the_namespace_of_a_pod_template_is_changed() {
    let source = with(
        stateful_set(),
        "/spec/template/metadata/namespace",
        json!("shop"),
    );
    assert_eq!(
        translated(source)["spec"]["template"]["metadata"]["namespace"],
        "store"
    );
}

#[rstest]
#[case::ordinals("/spec/ordinals")]
#[case::class_of_a_template("/spec/volumeClaimTemplates/0/spec/storageClassName")]
#[case::namespace_of_a_claim("/spec/volumeClaimTemplates/0/metadata/namespace")]
#[case::service("/spec/serviceName")]
#[case::claim_templates("/spec/volumeClaimTemplates")]
fn an_absent_field_stays_absent(#[case] pointer: &str) {
    let source = with(stateful_set(), pointer, json!(null));
    assert_eq!(translated(source).pointer(pointer), None);
}

#[test]
fn an_empty_class_of_a_template_stays_empty() {
    let pointer = "/spec/volumeClaimTemplates/0/spec/storageClassName";
    let made = translated(with(stateful_set(), pointer, json!("")));
    assert_eq!(made.pointer(pointer), Some(&json!("")));
}

#[test]
fn a_claim_template_has_no_status() {
    let made = translated(stateful_set());
    assert_eq!(made.pointer("/spec/volumeClaimTemplates/0/status"), None);
}

#[test]
fn a_data_source_of_another_namespace_is_kept() {
    let pointer = "/spec/volumeClaimTemplates/0/spec/dataSourceRef/namespace";
    let made = translated(with(stateful_set(), pointer, json!("snapshots")));
    assert_eq!(made.pointer(pointer), Some(&json!("snapshots")));
}
