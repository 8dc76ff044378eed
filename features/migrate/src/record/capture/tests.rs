use std::collections::BTreeMap;
use std::fmt::Write as _;

use k8s_openapi::ByteString;
use proptest::collection::{btree_map, vec};
use proptest::prelude::*;
use rstest::rstest;
use serde_json::json;

use super::packed::{CONTENT, HASH, JSON_LIMIT, compress, decompress};
use super::*;
use crate::record::{RECORD_LIMIT, marker};

const RUN: &str = "0f2b1f0e-6f0a-4c9e-9d55-5a3d1c6a7b11";
const OTHER_RUN: &str = "9c0a2d41-1111-4c9e-9d55-5a3d1c6a7b11";

fn object(name: &str) -> Value {
    json!({"metadata": {"namespace": "shop", "name": name}})
}

fn objects() -> CapturedObjects {
    CapturedObjects {
        stateful_set: json!({
            "metadata": {"namespace": "shop", "name": "web", "uid": "set-uid"},
            "spec": {"replicas": 2, "template": {"spec": {"containers": [{"name": "web"}]}}},
        }),
        controller_revisions: vec![object("web-1")],
        claims: vec![object("data-web-0"), object("data-web-1")],
        volumes: vec![object("pvc-0"), object("pvc-1")],
    }
}

fn capture() -> Capture {
    Capture::new(RUN, objects())
}

fn owner() -> OwnerReference {
    OwnerReference {
        api_version: "migration.aqua.io/v1alpha1".to_owned(),
        kind: "StatefulSetMigration".to_owned(),
        name: "move-web".to_owned(),
        uid: RUN.to_owned(),
        ..OwnerReference::default()
    }
}

fn secret() -> Secret {
    capture().to_secret("shop", None).unwrap()
}

fn content(secret: &Secret) -> Vec<u8> {
    secret.data.as_ref().unwrap()[CONTENT].0.clone()
}

fn with_key(key: &str, bytes: Option<&[u8]>) -> Secret {
    let mut secret = secret();
    let keys = secret.data.as_mut().unwrap();
    keys.remove(key);
    if let Some(bytes) = bytes {
        keys.insert(key.to_owned(), ByteString(bytes.to_vec()));
    }
    secret
}

/// A Secret with the right hash of this content.
fn with_content(bytes: &[u8]) -> Secret {
    let mut secret = with_key(CONTENT, Some(bytes));
    let hash = hashes::sha256(bytes).into_bytes();
    let keys = secret.data.as_mut().unwrap();
    keys.insert(HASH.to_owned(), ByteString(hash));
    secret
}

fn with_json(json: &Value) -> Secret {
    with_content(&compress(json.to_string().as_bytes()))
}

/// Text that does not compress below half of its length.
fn noise(length: usize) -> String {
    let mut state = 1_u64;
    let mut text = String::with_capacity(length);
    while text.len() < length {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        write!(text, "{:08x}", state >> 32).unwrap();
    }
    text
}

#[test]
fn the_secret_is_immutable_and_marked() {
    let secret = secret();
    assert_eq!(secret.metadata.name.as_deref(), Some("stsm-web-0f2b1f0e"));
    assert_eq!(secret.metadata.namespace.as_deref(), Some("shop"));
    assert_eq!(secret.immutable, Some(true));
    let annotations = secret.metadata.annotations.unwrap();
    assert_eq!(annotations, BTreeMap::from([marker::annotation(RUN)]));
}

#[test]
fn only_the_copy_beside_the_migration_has_an_owner() {
    let beside = capture().to_secret("ops", Some(owner())).unwrap();
    assert_eq!(beside.metadata.owner_references, Some(vec![owner()]));
    assert_eq!(secret().metadata.owner_references, None);
    assert_eq!(beside.data, secret().data);
}

#[test]
fn managed_fields_are_dropped_from_every_object() {
    let managed = |name: &str| json!({"metadata": {"namespace": "shop", "name": name, "managedFields": [{}]}});
    let capture = Capture::new(
        RUN,
        CapturedObjects {
            stateful_set: managed("web"),
            controller_revisions: vec![managed("web-1")],
            claims: vec![managed("data-web-0")],
            volumes: vec![managed("pvc-0")],
        },
    );
    let json = capture.as_value().to_string();
    assert!(!json.contains("managedFields"), "{json}");
    assert_eq!(capture.claim("data-web-0"), Some(&object("data-web-0")));
}

#[test]
fn the_order_of_lists_makes_no_other_bytes() {
    let mut reversed = objects();
    reversed.claims.reverse();
    reversed.volumes.reverse();
    let reversed = Capture::new(RUN, reversed).pack().unwrap();
    assert_eq!(reversed, capture().pack().unwrap());
}

/// Machines and times must not show in the bytes: magic, method, no flags, no time, best, no system.
#[test]
fn the_header_has_no_time_and_no_system() {
    let bytes = content(&secret());
    assert_eq!(bytes[..10], [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 2, 255]);
}

#[test]
fn the_status_names_hash_name_and_template() {
    let packed = capture().pack().unwrap();
    assert_eq!(packed.name(), "stsm-web-0f2b1f0e");
    assert_eq!(packed.sha256(), hashes::sha256(&content(&secret())));
    assert_eq!(
        packed.capture().template_sha256(),
        hashes::template_sha256(&objects().stateful_set)
    );
}

#[rstest]
#[case::no_content(with_key(CONTENT, None), Damage::NoKey(CONTENT))]
#[case::no_hash(with_key(HASH, None), Damage::NoKey(HASH))]
#[case::a_hash_of_other_content(with_key(HASH, Some(b"00")), Damage::HashDiffers)]
#[case::other_content(with_key(CONTENT, Some(b"{}")), Damage::HashDiffers)]
#[case::not_gzip(with_content(b"text"), Damage::Unreadable)]
#[case::not_json(with_content(&compress(b"{")), Damage::Unreadable)]
#[case::no_version(with_json(&json!({})), Damage::Version(None))]
#[case::a_newer_version(with_json(&json!({"version": 2})), Damage::Version(Some(2)))]
#[case::missing_objects(with_json(&json!({"version": 1, "runId": RUN})), Damage::Unreadable)]
#[case::another_run(
    Capture::new(OTHER_RUN, objects()).to_secret("shop", None).unwrap(),
    Damage::OtherRun(OTHER_RUN.to_owned())
)]
fn a_damaged_secret_is_refused(#[case] secret: Secret, #[case] damage: Damage) {
    let error = Capture::from_secret(&secret, RUN).unwrap_err();
    assert_eq!(error.damage, damage);
}

#[test]
fn a_secret_without_data_is_refused() {
    let error = Capture::from_secret(&Secret::default(), RUN).unwrap_err();
    assert_eq!(error.damage, Damage::NoKey(CONTENT));
}

#[test]
fn content_that_expands_beyond_the_limit_is_refused() {
    let zeros = vec![b' '; JSON_LIMIT + 1];
    assert_eq!(
        decompress(&compress(&zeros[..JSON_LIMIT])).map(|json| json.len()),
        Some(JSON_LIMIT)
    );
    assert_eq!(decompress(&compress(&zeros)), None);
}

#[test]
fn an_error_names_secret_problem_and_remedy() {
    let error = Capture::from_secret(&with_key(HASH, Some(b"00")), RUN).unwrap_err();
    assert_eq!(
        error.to_string(),
        "Secret shop/stsm-web-0f2b1f0e: found content that does not match its sha256; restore the \
         Secret from a backup, or delete it if the other copy is intact"
    );
}

fn grown(part: CapturePart, length: usize) -> Capture {
    let big = json!({"metadata": {"name": "big", "annotations": {"a": noise(length)}}});
    let mut objects = objects();
    match part {
        CapturePart::StatefulSet => objects.stateful_set["spec"]["big"] = big,
        CapturePart::Revisions => objects.controller_revisions.push(big),
        CapturePart::Claims => objects.claims.push(big),
        CapturePart::Volumes => objects.volumes.push(big),
    }
    Capture::new(RUN, objects)
}

#[rstest]
#[case::stateful_set(CapturePart::StatefulSet, "ConfigMap")]
#[case::revisions(CapturePart::Revisions, "revisionHistoryLimit")]
#[case::claims(CapturePart::Claims, "annotations from the claims")]
#[case::volumes(CapturePart::Volumes, "annotations from the PersistentVolumes")]
fn one_over_the_limit_names_its_largest_part(#[case] part: CapturePart, #[case] remedy: &str) {
    let error = grown(part, 2_000_000).pack().unwrap_err();
    assert_eq!(error.largest, part);
    assert!(error.bytes > RECORD_LIMIT);
    let text = error.to_string();
    assert!(
        text.starts_with("capture of StatefulSet shop/web: found "),
        "{text}"
    );
    assert!(
        text.contains(" KiB compressed, need at most 900 KiB; "),
        "{text}"
    );
    assert!(text.contains(remedy), "{text}");
}

#[test]
fn one_just_below_the_limit_fits() {
    let packed = grown(CapturePart::Volumes, 1_500_000).pack().unwrap();
    assert!(packed.size() > RECORD_LIMIT * 9 / 10, "{}", packed.size());
    let secret = packed.secret("shop", None);
    assert_eq!(PackedCapture::from_secret(&secret, RUN), Ok(packed));
}

#[test]
fn debug_output_has_no_content_of_a_template() {
    let mut objects = objects();
    objects.stateful_set["spec"]["template"] = json!({"password": "swordfish"});
    let capture = Capture::new(RUN, objects);
    let text = format!("{capture:?} {:?}", capture.pack().unwrap());
    assert!(text.contains("shop/web"), "{text}");
    assert!(!text.contains("swordfish"), "{text}");
}

/// What lies under the name of a copy.
#[derive(Debug, Clone, Copy)]
enum FoundCopy {
    None,
    Right,
    /// Of our run and intact, but with another hash.
    Newer,
    Damaged,
    Foreign,
}

impl FoundCopy {
    fn secret(self) -> Option<Secret> {
        match self {
            Self::None => None,
            Self::Right => Some(secret()),
            Self::Newer => {
                let mut objects = objects();
                objects.stateful_set["status"] = json!({"readyReplicas": 1});
                Some(Capture::new(RUN, objects).to_secret("shop", None).unwrap())
            }
            Self::Damaged => Some(with_key(HASH, Some(b"00"))),
            Self::Foreign => Some(
                Capture::new(OTHER_RUN, objects())
                    .to_secret("shop", None)
                    .unwrap(),
            ),
        }
    }
}

const BESIDE: CopyLocation = CopyLocation::BesideObject;
const IN_SOURCE: CopyLocation = CopyLocation::InSource;

fn lone(missing: CopyLocation) -> CaptureCopies {
    let capture = capture().pack().unwrap();
    CaptureCopies::LoneCopy { missing, capture }
}

#[rstest]
#[case::none(FoundCopy::None, FoundCopy::None, CaptureCopies::Missing)]
#[case::both(FoundCopy::Right, FoundCopy::Right, CaptureCopies::Ours(capture().pack().unwrap()))]
#[case::beside_alone(FoundCopy::Right, FoundCopy::None, lone(IN_SOURCE))]
#[case::in_the_source_alone(FoundCopy::None, FoundCopy::Right, lone(BESIDE))]
fn copies_of_our_run_are_used(
    #[case] beside: FoundCopy,
    #[case] in_source: FoundCopy,
    #[case] expected: CaptureCopies,
    #[values(true, false)] is_recorded: bool,
) {
    let recorded = capture().pack().unwrap().sha256().to_owned();
    let recorded = is_recorded.then_some(&*recorded);
    let (beside, in_source) = (beside.secret(), in_source.secret());
    let copies = compare(beside.as_ref(), in_source.as_ref(), RUN, recorded);
    assert_eq!(copies, expected);
}

#[rstest]
#[case::damaged_beside(FoundCopy::Damaged, FoundCopy::Right, BESIDE)]
#[case::damaged_alone(FoundCopy::Damaged, FoundCopy::None, BESIDE)]
#[case::foreign_beside(FoundCopy::Foreign, FoundCopy::None, BESIDE)]
#[case::newer_beside(FoundCopy::Newer, FoundCopy::Right, BESIDE)]
#[case::newer_alone(FoundCopy::Newer, FoundCopy::None, BESIDE)]
#[case::damaged_in_the_source(FoundCopy::Right, FoundCopy::Damaged, IN_SOURCE)]
#[case::foreign_in_the_source(FoundCopy::None, FoundCopy::Foreign, IN_SOURCE)]
#[case::newer_in_the_source(FoundCopy::Right, FoundCopy::Newer, IN_SOURCE)]
#[case::both_damaged(FoundCopy::Damaged, FoundCopy::Damaged, BESIDE)]
fn other_content_under_the_name_is_found(
    #[case] beside: FoundCopy,
    #[case] in_source: FoundCopy,
    #[case] expected: CopyLocation,
) {
    let recorded = capture().pack().unwrap().sha256().to_owned();
    let (beside, in_source) = (beside.secret(), in_source.secret());
    let copies = compare(beside.as_ref(), in_source.as_ref(), RUN, Some(&recorded));
    let CaptureCopies::OtherContent { location, .. } = copies else {
        panic!("{copies:?}");
    };
    assert_eq!(location, expected);
}

#[test]
fn without_a_record_both_copies_must_be_equal() {
    let (newer, right) = (FoundCopy::Newer.secret(), FoundCopy::Right.secret());
    let copies = compare(newer.as_ref(), right.as_ref(), RUN, None);
    let CaptureCopies::OtherContent { location, error } = copies else {
        panic!("{copies:?}");
    };
    assert_eq!(location, IN_SOURCE);
    assert!(
        matches!(error.damage, Damage::OtherCapture { .. }),
        "{error}"
    );
}

#[rstest]
#[case::the_first(&[FoundCopy::Right, FoundCopy::Damaged], true)]
#[case::the_second(&[FoundCopy::Damaged, FoundCopy::Right], true)]
#[case::neither(&[FoundCopy::Damaged, FoundCopy::Foreign], false)]
#[case::not_another_capture(&[FoundCopy::Newer], false)]
#[case::none(&[], false)]
fn either_intact_copy_suffices(#[case] copies: &[FoundCopy], #[case] is_found: bool) {
    let recorded = capture().pack().unwrap().sha256().to_owned();
    let secrets: Vec<Secret> = copies.iter().filter_map(|copy| copy.secret()).collect();
    let found = any_intact(&secrets, RUN, Some(&recorded));
    let found = found.map(PackedCapture::into_capture);
    assert_eq!(found, is_found.then(capture));
}

/// JSON as Kubernetes has it: numbers are integers.
fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        ".{0,12}".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..4).prop_map(Value::from),
            btree_map("[a-zA-Z./]{0,8}", inner, 0..4)
                .prop_map(|fields| Value::Object(fields.into_iter().collect())),
        ]
    })
}

fn any_object() -> impl Strategy<Value = Value> {
    ("[a-c]", "[a-z]{1,3}", any_json()).prop_map(|(namespace, name, spec)| {
        let metadata = json!({"namespace": namespace, "name": name, "managedFields": [1]});
        json!({"metadata": metadata, "spec": spec})
    })
}

prop_compose! {
    fn any_capture()(
        stateful_set in prop_oneof![any_object(), any_json()],
        controller_revisions in vec(any_object(), 0..3),
        claims in vec(any_object(), 0..4),
        volumes in vec(prop_oneof![any_object(), any_json()], 0..4),
    ) -> Capture {
        Capture::new(RUN, CapturedObjects { stateful_set, controller_revisions, claims, volumes })
    }
}

proptest! {
    #[test]
    fn a_capture_survives_its_secret(capture in any_capture()) {
        let secret = capture.to_secret("shop", None).unwrap();
        prop_assert_eq!(Capture::from_secret(&secret, RUN), Ok(capture.clone()));
        prop_assert_eq!(capture.to_secret("shop", None).unwrap(), secret);
    }

    #[test]
    fn any_flipped_bit_is_detected(
        capture in any_capture(),
        at in any::<prop::sample::Index>(),
        bit in 0_u8..8,
    ) {
        let mut secret = capture.to_secret("shop", None).unwrap();
        let keys = secret.data.as_mut().unwrap();
        let mut bytes: Vec<&mut u8> = keys.values_mut().flat_map(|bytes| &mut bytes.0).collect();
        let at = at.index(bytes.len());
        *bytes[at] ^= 1 << bit;
        let error = Capture::from_secret(&secret, RUN).unwrap_err();
        prop_assert_eq!(error.damage, Damage::HashDiffers);
    }

    #[test]
    fn a_capture_keeps_its_bytes_in_its_copy(capture in any_capture()) {
        let original = capture.to_secret("ops", Some(owner())).unwrap();
        let packed = PackedCapture::from_secret(&original, RUN).unwrap();
        prop_assert_eq!(packed.secret("shop", None).data, original.data);
    }
}
