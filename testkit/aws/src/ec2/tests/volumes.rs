//! CreateVolume and DeleteVolume.

use rstest::rstest;
use serde_json::json;

use super::{ATTACHER, MISSING, NODE, OTHER, VOLUME, ZONE, attach, call, desk, put, states};

const GOOD: [(&str, &str); 3] = [
    ("AvailabilityZone", ZONE),
    ("Size", "8"),
    ("VolumeType", "gp3"),
];

#[test]
fn a_new_volume_is_creating_then_available() {
    let mut desk = desk();
    let tags = [
        ("TagSpecification.1.ResourceType", "volume"),
        ("TagSpecification.1.Tag.1.Key", "team"),
        ("TagSpecification.1.Tag.1.Value", "a"),
    ];
    let parameters = [&GOOD[..], &tags].concat();
    let made = call(&mut desk, ATTACHER, "CreateVolume", &parameters).ok();
    assert_eq!(made.root(), "CreateVolumeResponse");
    let id = made.text("volumeId");
    assert_eq!(id.len(), "vol-".len() + 17);
    assert_eq!(
        (made.text("status"), made.text("key")),
        ("creating".into(), "team".into())
    );
    assert_eq!(states(&mut desk, &id), ["creating"]);
    desk.advance(1);
    assert_eq!(states(&mut desk, &id), ["available"]);
}

#[rstest]
#[case::no_zone(&[("Size", "8")], "MissingParameter", "AvailabilityZone")]
#[case::no_size(&[("AvailabilityZone", ZONE)], "MissingParameter", "size/snapshot")]
#[case::other_region(&[("AvailabilityZone", "eu-west-1a"), ("Size", "8")], "InvalidParameterValue", "[eu-west-1a]")]
#[case::unknown_type(&[("AvailabilityZone", ZONE), ("Size", "8"), ("VolumeType", "gp9")], "UnknownVolumeType", "gp9")]
#[case::too_small(&[("AvailabilityZone", ZONE), ("Size", "8"), ("VolumeType", "st1")], "InvalidParameterValue", "minimum is 125GiB")]
#[case::too_large(&[("AvailabilityZone", ZONE), ("Size", "16385")], "InvalidParameterValue", "maximum is 16384GiB")]
#[case::io_without_iops(&[("AvailabilityZone", ZONE), ("Size", "8"), ("VolumeType", "io2")], "MissingParameter", "iops")]
#[case::shared_gp3(&[("AvailabilityZone", ZONE), ("Size", "8"), ("VolumeType", "gp3"), ("MultiAttachEnabled", "true")], "InvalidParameterCombination", "io1 or io2")]
#[case::key_without_encryption(&[("AvailabilityZone", ZONE), ("Size", "8"), ("KmsKeyId", "k")], "InvalidParameterDependency", "Encrypted")]
#[case::no_number(&[("AvailabilityZone", ZONE), ("Size", "big")], "InvalidParameterValue", "big")]
#[case::unknown_snapshot(&[("AvailabilityZone", ZONE), ("SnapshotId", "snap-0000000a")], "InvalidSnapshot.NotFound", "snap-0000000a")]
#[case::malformed_snapshot(&[("AvailabilityZone", ZONE), ("SnapshotId", "snap-x")], "InvalidParameterValue", "Expected: 'snap-...'")]
#[case::reserved_tag(&[("AvailabilityZone", ZONE), ("Size", "8"), ("TagSpecification.1.ResourceType", "volume"), ("TagSpecification.1.Tag.1.Key", "aws:x")], "InvalidParameterValue", "reserved")]
#[case::tags_of_another_type(&[("AvailabilityZone", ZONE), ("Size", "8"), ("TagSpecification.1.ResourceType", "snapshot")], "InvalidParameterValue", "'snapshot'")]
fn an_invalid_create_is_refused(
    #[case] parameters: &[(&str, &str)],
    #[case] code: &str,
    #[case] text: &str,
) {
    let mut desk = desk();
    let refused = call(&mut desk, ATTACHER, "CreateVolume", parameters);
    assert_eq!(refused.error(), (400, code.to_owned()));
    assert!(refused.text("Message").contains(text), "{refused:?}");
}

#[test]
fn a_client_token_creates_once() {
    let mut desk = desk();
    let token = [&GOOD[..], &[("ClientToken", "t")]].concat();
    let mut create =
        |parameters: &[(&str, &str)]| call(&mut desk, ATTACHER, "CreateVolume", parameters);
    let first = create(&token).ok().text("volumeId");
    assert_eq!(create(&token).ok().text("volumeId"), first);
    let larger = [
        ("AvailabilityZone", ZONE),
        ("Size", "9"),
        ("ClientToken", "t"),
    ];
    let refused = create(&larger);
    assert_eq!(
        refused.error(),
        (400, "IdempotentParameterMismatch".to_owned())
    );
    assert_ne!(create(&GOOD).ok().text("volumeId"), first);
}

#[test]
fn a_volume_of_a_snapshot_is_at_least_as_large() {
    let mut desk = desk();
    let made = call(
        &mut desk,
        ATTACHER,
        "CreateSnapshot",
        &[("VolumeId", VOLUME)],
    )
    .ok();
    let snapshot = made.text("snapshotId");
    let base = [
        ("AvailabilityZone", ZONE),
        ("SnapshotId", snapshot.as_str()),
    ];
    let volume = call(&mut desk, ATTACHER, "CreateVolume", &base).ok();
    assert_eq!(volume.text("size"), "10");
    let small = [&base[..], &[("Size", "9")]].concat();
    let refused = call(&mut desk, ATTACHER, "CreateVolume", &small);
    assert!(
        refused.text("Message").contains("expect size >= 10GiB"),
        "{refused:?}"
    );
}

#[test]
fn a_deleted_volume_is_deleting_then_missing() {
    let mut desk = desk();
    call(&mut desk, ATTACHER, "DeleteVolume", &[("VolumeId", VOLUME)]).ok();
    assert_eq!(states(&mut desk, VOLUME), ["deleting"]);
    let again = call(&mut desk, ATTACHER, "DeleteVolume", &[("VolumeId", VOLUME)]);
    assert_eq!(again.error(), (400, "IncorrectState".to_owned()));
    desk.advance(1);
    assert_eq!(states(&mut desk, VOLUME), Vec::<String>::new());
    let gone = call(&mut desk, ATTACHER, "DeleteVolume", &[("VolumeId", VOLUME)]);
    assert_eq!(gone.error(), (400, "InvalidVolume.NotFound".to_owned()));
}

#[test]
fn a_volume_in_use_is_not_deleted() {
    let mut desk = desk();
    attach(&mut desk, VOLUME, NODE).ok();
    let refused = call(&mut desk, ATTACHER, "DeleteVolume", &[("VolumeId", VOLUME)]);
    assert_eq!(refused.error(), (400, "VolumeInUse".to_owned()));
    let text = format!("Volume {VOLUME} is currently attached to {NODE}");
    assert_eq!(refused.text("Message"), text);
}

#[rstest]
#[case::missing(MISSING, "InvalidVolume.NotFound")]
#[case::malformed("vol-xyz", "InvalidParameterValue")]
fn a_delete_of_no_volume_is_refused(#[case] id: &str, #[case] code: &str) {
    let refused = call(&mut desk(), ATTACHER, "DeleteVolume", &[("VolumeId", id)]);
    assert_eq!(refused.error(), (400, code.to_owned()));
}

#[rstest]
#[case::creating("creating", false)]
#[case::error("error", true)]
#[case::deleted("deleted", false)]
fn a_volume_is_deleted_from_some_states_only(#[case] state: &str, #[case] works: bool) {
    let mut desk = desk();
    put(
        &mut desk,
        &format!("volumes/{VOLUME}"),
        json!({ "state": state }),
    );
    let answer = call(&mut desk, ATTACHER, "DeleteVolume", &[("VolumeId", VOLUME)]);
    assert_eq!(answer.status == 200, works, "{answer:?}");
}

#[test]
fn a_volume_of_another_account_does_not_exist() {
    let mut desk = desk();
    let path = format!("volumes/{OTHER}");
    put(&mut desk, &path, json!({ "account": "111122223333" }));
    assert_eq!(states(&mut desk, OTHER), Vec::<String>::new());
    let refused = call(&mut desk, ATTACHER, "DeleteVolume", &[("VolumeId", OTHER)]);
    assert_eq!(refused.error(), (400, "InvalidVolume.NotFound".to_owned()));
}
