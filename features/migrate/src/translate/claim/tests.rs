//! The rows of the contract about PersistentVolumeClaims.

use super::*;
use crate::translate::fixtures::{
    RUN_ID, TARGET, VOLUME, claim, csi_pair, destination, mapping, with,
};
use rstest::rstest;
use serde_json::{Value, json};

fn translated(source: Value) -> Value {
    let classes = mapping();
    let id = VolumeId::parse(VOLUME).unwrap();
    let source = Document::read(source).unwrap();
    dest_claim(&source, &id, &destination(&classes), &TARGET).into_value()
}

#[test]
fn a_claim_becomes_exactly_this() {
    let mut spec = claim()["spec"].clone();
    spec["storageClassName"] = "gp3".into();
    let expected = json!({
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {
            "name": "data-web-0",
            "namespace": "store",
            "labels": {
                "app": "web",
                "migration.aqua.io/migrated": "true",
                "migration.aqua.io/source-pvc": "data-web-0",
            },
            "annotations": {
                "example.org/note": "mine",
                "volume.beta.kubernetes.io/storage-class": "gp3",
                "migration.aqua.io/source-pvc-uid": "pvc-uid",
                "migration.aqua.io/volume-id": VOLUME,
                "migration.aqua.io/run": RUN_ID,
                "migration.aqua.io/migration-id": "split: phase 2",
            },
        },
        "spec": spec,
    });
    assert_eq!(translated(claim()), expected);
}

#[rstest]
#[case::mapped(json!("gp2"), json!("gp3"))]
#[case::unmapped(json!("io2"), json!("io2"))]
#[case::empty_stays_empty(json!(""), json!(""))]
#[case::unset_stays_unset(json!(null), json!(null))]
fn the_class_of_a_claim_is_renamed(#[case] class: Value, #[case] expected: Value) {
    let claim = translated(with(claim(), "/spec/storageClassName", class));
    assert_eq!(claim["spec"]["storageClassName"], expected);
}

#[test]
fn the_class_comes_from_the_claim_and_not_its_volume() {
    let mut pair = csi_pair();
    let other = with(claim(), "/spec/storageClassName", json!("io2"));
    pair.claim = Document::read(other).unwrap();
    let classes = mapping();
    let translated = crate::translate::dest_pair(&pair, &destination(&classes), &TARGET).unwrap();
    assert_eq!(translated.claim.text("/spec/storageClassName"), Some("io2"));
    assert_eq!(
        translated.volume.text("/spec/storageClassName"),
        Some("gp3")
    );
}

#[rstest]
#[case::data_source("/spec/dataSource", json!({"kind": "VolumeSnapshot", "name": "s"}))]
#[case::data_source_ref("/spec/dataSourceRef", json!({"kind": "VolumeSnapshot", "name": "s"}))]
#[case::selector("/spec/selector", json!({"matchLabels": {"a": "b"}}))]
#[case::owners("/metadata/ownerReferences", json!([{"kind": "Database"}]))]
#[case::finalizers("/metadata/finalizers", json!(["example.org/finalizer"]))]
fn a_part_of_the_source_alone_is_dropped(#[case] pointer: &str, #[case] value: Value) {
    let claim = translated(with(claim(), pointer, value));
    assert_eq!(claim.pointer(pointer), None);
}

#[rstest]
#[case::block("/spec/volumeMode", json!("Block"))]
#[case::access_modes("/spec/accessModes", json!(["ReadWriteOncePod"]))]
#[case::resources("/spec/resources", json!({"requests": {"storage": "4Gi"}, "limits": {"storage": "8Gi"}}))]
#[case::attributes_class("/spec/volumeAttributesClassName", json!("slow"))]
#[case::a_field_of_a_newer_server("/spec/fromTheFuture", json!({"a": [1]}))]
fn a_field_of_the_spec_is_kept(#[case] pointer: &str, #[case] value: Value) {
    let claim = translated(with(claim(), pointer, value.clone()));
    assert_eq!(claim.pointer(pointer), Some(&value));
}

#[test]
fn a_claim_names_its_volume_at_the_destination() {
    let classes = mapping();
    let id = VolumeId::parse(VOLUME).unwrap();
    let target = PairTarget {
        volume: "pvc-1-d69a5295",
        claim: "other",
        ..TARGET
    };
    let claim = dest_claim(&csi_pair().claim, &id, &destination(&classes), &target);
    assert_eq!(claim.text("/spec/volumeName"), Some("pvc-1-d69a5295"));
    assert_eq!(claim.name(), "other");
    assert_eq!(claim.label(SOURCE_PVC_LABEL), Some("data-web-0"));
}
