//! Each field that is verified, and the laws of a translation.

use super::*;
use crate::translate::classes::ClassMapping;
use crate::translate::dest_pair;
use crate::translate::fixtures::{
    TARGET, VOLUME, claim, csi_pair, csi_volume, destination, in_tree_pair, mapping, pair_of, with,
};
use crate::translate::pair::PairRefusal;
use proptest::prelude::*;
use rstest::rstest;

/// The differences once `changed` is at `pointer` of the translated volume or claim.
fn fields_after(is_volume: bool, pointer: &str, changed: Value) -> Vec<String> {
    let classes = mapping();
    let to = destination(&classes);
    let source = csi_pair();
    let Pair { volume, claim } = dest_pair(&source, &to, &TARGET).unwrap();
    let (mut volume, mut claim) = (volume.into_value(), claim.into_value());
    let object = if is_volume { &mut volume } else { &mut claim };
    *object = with(object.take(), pointer, changed);
    let found = differences(&source, &pair_of(volume, claim), &to, &TARGET);
    found
        .into_iter()
        .map(|difference| difference.field)
        .collect()
}

#[rstest]
#[case::name("/metadata/name", json!("pvc-2"))]
#[case::driver("/spec/csi/driver", json!("efs.csi.aws.com"))]
#[case::handle("/spec/csi/volumeHandle", json!("vol-00000000000000000"))]
#[case::an_in_tree_volume("/spec/awsElasticBlockStore", json!({"volumeID": VOLUME}))]
#[case::reclaim_policy("/spec/persistentVolumeReclaimPolicy", json!("Delete"))]
#[case::class("/spec/storageClassName", json!("gp2"))]
#[case::no_class("/spec/storageClassName", json!(null))]
#[case::claim_of_another_name("/spec/claimRef", json!({"namespace": "store", "name": "data-web-1"}))]
#[case::claim_ref_absent("/spec/claimRef", json!(null))]
#[case::access_mode("/spec/accessModes", json!(["ReadWriteOnce", "ReadWriteMany"]))]
#[case::larger_capacity("/spec/capacity", json!({"storage": "9Gi"}))]
#[case::mount_options("/spec/mountOptions", json!(null))]
#[case::attributes_class("/spec/volumeAttributesClassName", json!("slow"))]
fn a_wrong_volume_is_found(#[case] pointer: &str, #[case] changed: Value) {
    assert_eq!(fields_after(true, pointer, changed), [pointer]);
}

#[rstest]
#[case::a_uid("uid", json!("u"))]
#[case::another_namespace("namespace", json!("shop"))]
fn a_wrong_claim_ref_is_found(#[case] field: &str, #[case] value: Value) {
    let pointer = format!("/spec/claimRef/{field}");
    assert_eq!(fields_after(true, &pointer, value), ["/spec/claimRef"]);
}

#[test]
fn a_wrong_zone_is_found() {
    let terms = json!([{"matchExpressions": [
        {"key": ZONE, "operator": "In", "values": ["eu-west-1b"]},
    ]}]);
    let pointer = "/spec/nodeAffinity/required/nodeSelectorTerms";
    let first = format!("{pointer}/0/matchExpressions/0");
    assert_eq!(fields_after(true, pointer, terms), [first]);
}

#[rstest]
#[case::name("/metadata/name", json!("data-web-1"))]
#[case::namespace("/metadata/namespace", json!("shop"))]
#[case::volume_name("/spec/volumeName", json!("pvc-2"))]
#[case::class("/spec/storageClassName", json!("gp2"))]
#[case::no_class("/spec/storageClassName", json!(null))]
#[case::smaller_request("/spec/resources", json!({"requests": {"storage": "4Gi"}}))]
#[case::data_source("/spec/dataSource", json!({"name": "s"}))]
#[case::data_source_ref("/spec/dataSourceRef", json!({"name": "s"}))]
#[case::selector("/spec/selector", json!({}))]
fn a_wrong_claim_is_found(#[case] pointer: &str, #[case] changed: Value) {
    assert_eq!(fields_after(false, pointer, changed), [pointer]);
}

#[test]
fn a_bind_annotation_is_found() {
    let annotations = json!({"pv.kubernetes.io/bind-completed": "yes"});
    assert_eq!(
        fields_after(false, "/metadata/annotations", annotations),
        ["/metadata/annotations/pv.kubernetes.io~1bind-completed"]
    );
}

#[rstest]
#[case::a_request_over_the_capacity("/spec/resources/requests/storage", json!("9Gi"), "/spec/capacity/storage")]
#[case::a_request_that_is_no_amount("/spec/resources/requests/storage", json!("much"), "/spec/capacity/storage")]
#[case::another_mode("/spec/volumeMode", json!("Block"), "/spec/volumeMode")]
#[case::the_default_mode_fits("/spec/volumeMode", json!(null), "")]
#[case::another_access_mode("/spec/accessModes", json!(["ReadWriteMany"]), "/spec/accessModes")]
fn a_claim_that_does_not_fit_its_volume_is_refused(
    #[case] pointer: &str,
    #[case] changed: Value,
    #[case] field: &str,
) {
    let classes = mapping();
    let source = pair_of(csi_volume(), with(claim(), pointer, changed));
    match dest_pair(&source, &destination(&classes), &TARGET) {
        Ok(_) => assert_eq!(field, ""),
        Err(PairRefusal::Differs(differences)) => {
            let fields: Vec<&str> = differences.iter().map(|one| &*one.field).collect();
            assert_eq!(fields, [field]);
        }
        Err(PairRefusal::Volume(refusal)) => panic!("{refusal}"),
    }
}

#[test]
fn a_difference_names_object_field_and_values() {
    let classes = mapping();
    let claim = with(claim(), "/spec/resources/requests/storage", json!("9Gi"));
    let source = pair_of(csi_volume(), claim);
    let refusal = dest_pair(&source, &destination(&classes), &TARGET).unwrap_err();
    assert_eq!(
        refusal.to_string(),
        "the translation differs from the source: \
         PersistentVolume pvc-1 /spec/capacity/storage: found \"8Gi\", need at least \"9Gi\""
    );
}

fn optional(values: &'static [&'static str]) -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(Value::Null),
        proptest::sample::select(values).prop_map(Value::from),
    ]
}

/// Sources as a server may have them, of both drivers.
fn sources() -> impl Strategy<Value = Pair> {
    let json = prop_oneof![
        Just(json!({"a": [1, {"b": "c"}]})),
        any::<i64>().prop_map(Value::from),
        Just(json!(["x"])),
    ];
    (
        any::<bool>(),
        optional(&["gp2", "gp3", "io1"]),
        optional(&["", "gp2", "io1"]),
        optional(&["Block", "Filesystem"]),
        optional(&["fast"]),
        "[a-z]{1,20}",
        json,
        1..2000_u32,
    )
        .prop_map(
            |(is_csi, class, claim_class, mode, attributes, field, value, size)| {
                let (volume, mut claim) = if is_csi {
                    (csi_volume(), claim())
                } else {
                    let pair = in_tree_pair(json!({"volumeID": VOLUME, "fsType": "ext4"}));
                    (pair.volume.into_value(), pair.claim.into_value())
                };
                let size = format!("{size}Gi");
                let mut volume = with(volume, "/spec/storageClassName", class);
                volume["spec"]["capacity"]["storage"] = size.clone().into();
                claim["spec"]["resources"]["requests"]["storage"] = size.into();
                claim = with(claim, "/spec/storageClassName", claim_class);
                for pointer in ["/spec/volumeMode", "/spec/volumeAttributesClassName"] {
                    let changed = if pointer == "/spec/volumeMode" {
                        &mode
                    } else {
                        &attributes
                    };
                    volume = with(volume, pointer, changed.clone());
                    claim = with(claim, pointer, changed.clone());
                }
                // The prefix makes it a field that no rule names.
                let pointer = format!("/spec/x{field}");
                volume = with(volume, &pointer, value.clone());
                claim = with(claim, &pointer, value);
                pair_of(volume, claim)
            },
        )
}

proptest! {
    #[test]
    fn a_translation_passes_its_verification(source in sources()) {
        let classes = mapping();
        prop_assert!(dest_pair(&source, &destination(&classes), &TARGET).is_ok());
    }

    #[test]
    fn translating_twice_gives_the_same(source in sources()) {
        let classes = mapping();
        let to = destination(&classes);
        let once = dest_pair(&source, &to, &TARGET).unwrap();
        prop_assert_eq!(&dest_pair(&source, &to, &TARGET).unwrap(), &once);
    }

    /// Without mapping: nothing is lost or added on the way.
    #[test]
    fn a_migration_back_and_forth_changes_no_spec(source in sources()) {
        let classes = ClassMapping::default();
        let to = destination(&classes);
        let once = dest_pair(&source, &to, &TARGET).unwrap();
        let twice = dest_pair(&once, &to, &TARGET).unwrap();
        prop_assert_eq!(twice.volume.field("/spec"), once.volume.field("/spec"));
        prop_assert_eq!(twice.claim.field("/spec"), once.claim.field("/spec"));
        prop_assert_eq!(
            twice.volume.field("/metadata/labels"),
            once.volume.field("/metadata/labels")
        );
    }

    #[test]
    fn fields_that_no_rule_names_are_kept(source in sources()) {
        let classes = mapping();
        let dest = dest_pair(&source, &destination(&classes), &TARGET).unwrap();
        let spec = source.volume.field("/spec").unwrap().as_object().unwrap();
        for (field, value) in spec.iter().filter(|(field, _)| field.starts_with('x')) {
            let pointer = format!("/spec/{field}");
            prop_assert_eq!(dest.volume.field(&pointer), Some(value));
            prop_assert_eq!(dest.claim.field(&pointer), Some(value));
        }
    }
}
