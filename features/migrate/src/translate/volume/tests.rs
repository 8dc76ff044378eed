//! The rows of the contract about PersistentVolumes.

use super::*;
use crate::translate::fixtures::{
    RUN_ID, TARGET, VOLUME, ZONE, csi_pair, csi_volume, destination, in_tree_pair, mapping, with,
};
use crate::translate::zone::ZONE as ZONE_KEY;
use rstest::rstest;

fn translated(source: Value) -> Value {
    try_translated(source).unwrap()
}

fn try_translated(source: Value) -> Result<Value, VolumeRefusal> {
    let classes = mapping();
    let source = Document::read(source).unwrap();
    dest_volume(&source, &destination(&classes), &TARGET).map(Document::into_value)
}

fn from_in_tree(in_tree: Value) -> Value {
    translated(in_tree_pair(in_tree).volume.into_value())
}

#[test]
fn a_csi_volume_becomes_exactly_this() {
    let mut spec = csi_volume()["spec"].clone();
    spec["persistentVolumeReclaimPolicy"] = "Retain".into();
    spec["storageClassName"] = "gp3".into();
    spec["claimRef"] = json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": "store", "name": "data-web-0",
    });
    let zone = json!({"key": ZONE_KEY, "operator": "In", "values": [ZONE]});
    spec["nodeAffinity"]["required"]["nodeSelectorTerms"] = json!([{"matchExpressions": [zone]}]);
    let expected = json!({
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {
            "name": "pvc-1",
            "labels": {
                "team": "shop",
                "migration.aqua.io/migrated": "true",
                "migration.aqua.io/source-pv": "pvc-1",
                "migration.aqua.io/dest-namespace": "store",
                "migration.aqua.io/dest-pvc": "data-web-0",
            },
            "annotations": {
                "example.org/note": "mine",
                "pv.kubernetes.io/provisioned-by": "ebs.csi.aws.com",
                "migration.aqua.io/source-pv-uid": "pv-uid",
                "migration.aqua.io/volume-id": VOLUME,
                "migration.aqua.io/run": RUN_ID,
                "migration.aqua.io/migration-id": "split: phase 2",
            },
        },
        "spec": spec,
    });
    assert_eq!(translated(csi_volume()), expected);
}

#[rstest]
#[case::bare("vol-0a1b2c3d")]
#[case::without_zone("aws:///vol-0a1b2c3d")]
#[case::with_zone("aws://eu-west-1a/vol-0a1b2c3d")]
fn an_in_tree_volume_becomes_a_csi_volume(#[case] id: &str) {
    let volume = from_in_tree(json!({"volumeID": id}));
    let csi = json!({"driver": "ebs.csi.aws.com", "volumeHandle": "vol-0a1b2c3d"});
    assert_eq!(volume["spec"]["csi"], csi);
    assert!(volume["spec"].get("awsElasticBlockStore").is_none());
}

#[rstest]
#[case::fs_type_is_kept(json!({"fsType": "xfs"}), json!({"fsType": "xfs"}))]
#[case::read_only_is_kept(json!({"readOnly": true}), json!({"readOnly": true}))]
#[case::a_partition_is_an_attribute(
    json!({"partition": 2}),
    json!({"volumeAttributes": {"partition": "2"}})
)]
#[case::partition_0_is_none(json!({"partition": 0}), json!({}))]
fn a_field_of_an_in_tree_volume(#[case] field: Value, #[case] expected: Value) {
    let mut in_tree = json!({"volumeID": VOLUME});
    let mut csi = json!({"driver": "ebs.csi.aws.com", "volumeHandle": VOLUME});
    merge(&mut in_tree, field);
    merge(&mut csi, expected);
    assert_eq!(from_in_tree(in_tree)["spec"]["csi"], csi);
}

fn merge(into: &mut Value, fields: Value) {
    let Value::Object(fields) = fields else {
        panic!("fields are an object");
    };
    into.as_object_mut().unwrap().extend(fields);
}

#[rstest]
#[case::of_the_in_tree_driver("kubernetes.io/aws-ebs", "ebs.csi.aws.com")]
#[case::of_the_csi_driver("ebs.csi.aws.com", "ebs.csi.aws.com")]
#[case::of_others("example.org/own", "example.org/own")]
fn provisioned_by_is_kept(#[case] found: &str, #[case] expected: &str) {
    let mut volume = in_tree_pair(json!({"volumeID": VOLUME}))
        .volume
        .into_value();
    volume["metadata"]["annotations"][PROVISIONED_BY] = found.into();
    assert_eq!(
        translated(volume)["metadata"]["annotations"][PROVISIONED_BY],
        expected
    );
}

#[test]
fn provisioned_by_is_not_invented() {
    let field = "/metadata/annotations/pv.kubernetes.io~1provisioned-by";
    let mut volume = csi_volume();
    let annotations = volume["metadata"]["annotations"].as_object_mut().unwrap();
    annotations.remove(PROVISIONED_BY);
    assert_eq!(translated(volume).pointer(field), None);
}

#[rstest]
#[case::mapped(json!("gp2"), json!("gp3"))]
#[case::unmapped(json!("io2"), json!("io2"))]
#[case::unset(json!(null), json!(null))]
fn the_class_of_a_volume_is_renamed(#[case] class: Value, #[case] expected: Value) {
    let volume = translated(with(csi_volume(), "/spec/storageClassName", class));
    assert_eq!(volume["spec"]["storageClassName"], expected);
}

#[test]
fn the_class_in_the_old_annotation_is_renamed() {
    let mut volume = csi_volume();
    volume["metadata"]["annotations"][LEGACY_CLASS] = "gp2".into();
    assert_eq!(
        translated(volume)["metadata"]["annotations"][LEGACY_CLASS],
        "gp3"
    );
}

#[rstest]
#[case::mount_options("/spec/mountOptions", json!(["ro", "nouuid"]))]
#[case::block("/spec/volumeMode", json!("Block"))]
#[case::capacity("/spec/capacity", json!({"storage": "10Gi"}))]
#[case::access_modes("/spec/accessModes", json!(["ReadWriteOncePod"]))]
#[case::attributes_class("/spec/volumeAttributesClassName", json!("slow"))]
#[case::volume_attributes("/spec/csi/volumeAttributes", json!({"a": "b"}))]
#[case::node_publish_secret("/spec/csi/nodePublishSecretRef", json!({"name": "p", "namespace": "n"}))]
#[case::publish_secret("/spec/csi/controllerPublishSecretRef", json!({"name": "c", "namespace": "n"}))]
#[case::node_expand_secret("/spec/csi/nodeExpandSecretRef", json!({"name": "x", "namespace": "n"}))]
#[case::a_field_of_a_newer_server("/spec/csi/fromTheFuture", json!([1, {"a": null}]))]
fn a_field_of_the_spec_is_kept(#[case] pointer: &str, #[case] value: Value) {
    let volume = translated(with(csi_volume(), pointer, value.clone()));
    assert_eq!(volume.pointer(pointer), Some(&value));
}

#[test]
fn a_long_name_becomes_an_annotation_instead_of_a_label() {
    let name = "p".repeat(64);
    let volume = translated(with(csi_volume(), "/metadata/name", name.clone().into()));
    let metadata = &volume["metadata"];
    assert_eq!(metadata["annotations"][SOURCE_PV_LABEL], name);
    assert!(metadata["labels"].get(SOURCE_PV_LABEL).is_none());
}

#[test]
fn a_volume_without_run_has_no_marker() {
    let classes = mapping();
    let to = Destination {
        run: None,
        ..destination(&classes)
    };
    let volume = dest_volume(&csi_pair().volume, &to, &TARGET).unwrap();
    assert_eq!(volume.annotation("migration.aqua.io/run"), None);
    assert_eq!(volume.label(MIGRATED_LABEL), Some("true"));
}

#[test]
fn a_volume_of_another_zone_is_refused() {
    let volume = in_tree_pair(json!({"volumeID": "aws://eu-west-1b/vol-0a1b2c3d"})).volume;
    let refusal = try_translated(volume.into_value()).unwrap_err();
    assert!(matches!(refusal, VolumeRefusal::Zone(_)), "{refusal}");
}

#[test]
fn a_volume_that_is_not_ebs_is_refused() {
    let nfs = with(csi_volume(), "/spec/csi", json!(null));
    let nfs = with(nfs, "/spec/fromTheFuture", json!(null));
    let nfs = with(nfs, "/spec/nfs", json!({"server": "a", "path": "/"}));
    let refusal = try_translated(nfs).unwrap_err();
    assert!(refusal.to_string().contains("found nfs"), "{refusal}");
}
