//! AttachVolume and DetachVolume.

use rstest::rstest;
use serde_json::{Value, json};

use super::{
    ATTACHER, FAR, MISSING, NEXT, NODE, OTHER, VOLUME, act, attach, call, desk, detach, put, seen,
    states,
};

#[test]
fn a_volume_attaches_and_detaches_in_its_time() {
    let mut desk = desk();
    put(
        &mut desk,
        "timing",
        json!({ "attachMs": 2000, "detachMs": 3000 }),
    );
    let answer = attach(&mut desk, VOLUME, NODE).ok();
    assert_eq!(
        (answer.root(), answer.text("status")),
        ("AttachVolumeResponse".to_owned(), "attaching".to_owned())
    );
    desk.advance(1);
    assert_eq!(states(&mut desk, VOLUME), ["in-use", "attaching"]);
    desk.advance(1);
    assert_eq!(states(&mut desk, VOLUME), ["in-use", "attached"]);
    let answer = detach(&mut desk, VOLUME, NODE).ok();
    assert_eq!(
        (answer.root(), answer.text("status")),
        ("DetachVolumeResponse".to_owned(), "detaching".to_owned())
    );
    desk.advance(2);
    assert_eq!(states(&mut desk, VOLUME), ["in-use", "detaching"]);
    desk.advance(1);
    assert_eq!(states(&mut desk, VOLUME), ["available"]);
    assert_eq!(desk.broken(), Vec::<String>::new());
}

#[test]
fn without_delay_a_change_is_complete_at_once() {
    let mut desk = desk();
    put(&mut desk, "timing", json!({ "attachMs": 0, "detachMs": 0 }));
    let answer = attach(&mut desk, VOLUME, NODE).ok();
    assert_eq!(answer.text("status"), "attaching");
    assert_eq!(states(&mut desk, VOLUME), ["in-use", "attached"]);
    detach(&mut desk, VOLUME, NODE).ok();
    assert_eq!(states(&mut desk, VOLUME), ["available"]);
}

#[rstest]
#[case::missing_volume(
    MISSING,
    NODE,
    "InvalidVolume.NotFound",
    "The volume 'vol-0000000f' does not exist."
)]
#[case::malformed_volume(
    "vol-00000xyz",
    NODE,
    "InvalidParameterValue",
    "Value (vol-00000xyz) for parameter volumeId is invalid. Expected: 'vol-...'."
)]
#[case::missing_instance(
    VOLUME,
    "i-0000000f",
    "InvalidInstanceID.NotFound",
    "The instance ID 'i-0000000f' does not exist"
)]
#[case::malformed_instance(VOLUME, "node", "InvalidInstanceID.Malformed", "Invalid id: \"node\"")]
#[case::other_zone(
    VOLUME,
    FAR,
    "InvalidVolume.ZoneMismatch",
    "The volume 'vol-0000000a' is not in the same availability zone as instance 'i-0000000c'"
)]
fn an_invalid_attach_is_refused(
    #[case] volume: &str,
    #[case] instance: &str,
    #[case] code: &str,
    #[case] text: &str,
) {
    let refused = attach(&mut desk(), volume, instance);
    assert_eq!(refused.error(), (400, code.to_owned()));
    assert_eq!(refused.text("Message"), text);
}

#[rstest]
#[case::volume(&[("InstanceId", NODE), ("Device", "/dev/xvdb")], "VolumeId")]
#[case::instance(&[("VolumeId", VOLUME), ("Device", "/dev/xvdb")], "InstanceId")]
#[case::device(&[("VolumeId", VOLUME), ("InstanceId", NODE)], "Device")]
fn an_attach_needs_all_its_parameters(#[case] parameters: &[(&str, &str)], #[case] missing: &str) {
    let refused = call(&mut desk(), ATTACHER, "AttachVolume", parameters);
    assert_eq!(refused.error(), (400, "MissingParameter".to_owned()));
    assert!(refused.text("Message").ends_with(missing), "{refused:?}");
}

#[rstest]
#[case::another_instance(NEXT)]
#[case::the_same_instance(NODE)]
fn a_volume_in_use_is_not_attached_again(#[case] instance: &str) {
    let mut desk = desk();
    attach(&mut desk, VOLUME, NODE).ok();
    let refused = attach(&mut desk, VOLUME, instance);
    assert_eq!(refused.error(), (400, "VolumeInUse".to_owned()));
    let text = format!("{VOLUME} is already attached to an instance");
    assert_eq!(refused.text("Message"), text);
}

#[test]
fn a_detaching_volume_is_still_in_use() {
    let mut desk = desk();
    attach(&mut desk, VOLUME, NODE).ok();
    detach(&mut desk, VOLUME, NODE).ok();
    let refused = attach(&mut desk, VOLUME, NEXT);
    assert_eq!(refused.error(), (400, "VolumeInUse".to_owned()));
    desk.advance(2);
    attach(&mut desk, VOLUME, NEXT).ok();
}

#[rstest]
#[case::creating("creating")]
#[case::deleting("deleting")]
#[case::error("error")]
fn only_an_available_volume_is_attached(#[case] state: &str) {
    let mut desk = desk();
    put(
        &mut desk,
        &format!("volumes/{VOLUME}"),
        json!({ "state": state }),
    );
    let refused = attach(&mut desk, VOLUME, NODE);
    assert_eq!(refused.error(), (400, "IncorrectState".to_owned()));
    assert_eq!(
        refused.text("Message"),
        format!("{VOLUME} is not 'available'.")
    );
}

#[rstest]
#[case::running("running", true)]
#[case::stopped("stopped", true)]
#[case::pending("pending", false)]
#[case::terminated("terminated", false)]
fn an_instance_attaches_in_some_states_only(#[case] state: &str, #[case] works: bool) {
    let mut desk = desk();
    put(
        &mut desk,
        &format!("instances/{NODE}"),
        json!({ "state": state }),
    );
    let answer = attach(&mut desk, VOLUME, NODE);
    assert_eq!(answer.status == 200, works, "{answer:?}");
}

#[test]
fn a_device_is_used_once() {
    let mut desk = desk();
    attach(&mut desk, VOLUME, NODE).ok();
    let same = [
        ("VolumeId", OTHER),
        ("InstanceId", NODE),
        ("Device", "/dev/xvdba"),
    ];
    let refused = call(&mut desk, ATTACHER, "AttachVolume", &same);
    assert_eq!(refused.error(), (400, "InvalidParameterValue".to_owned()));
    let text =
        "Invalid value '/dev/xvdba' for unixDevice. Attachment point /dev/xvdba is already in use";
    assert_eq!(refused.text("Message"), text);
    let elsewhere = [
        ("VolumeId", OTHER),
        ("InstanceId", NODE),
        ("Device", "/dev/xvdz"),
    ];
    call(&mut desk, ATTACHER, "AttachVolume", &elsewhere).ok();
}

#[rstest]
#[case::no_instance_named(None)]
#[case::instance_named(Some(NODE))]
fn an_available_volume_is_not_detached(#[case] instance: Option<&str>) {
    let mut parameters = vec![("VolumeId", VOLUME)];
    parameters.extend(instance.map(|id| ("InstanceId", id)));
    let refused = call(&mut desk(), ATTACHER, "DetachVolume", &parameters);
    assert_eq!(refused.error(), (400, "IncorrectState".to_owned()));
    let text = format!("Volume '{VOLUME}' is in the 'available' state.");
    assert_eq!(refused.text("Message"), text);
}

#[rstest]
#[case::instance(&[("VolumeId", VOLUME), ("InstanceId", NEXT)])]
#[case::device(&[("VolumeId", VOLUME), ("Device", "/dev/xvdz")])]
fn a_detach_names_the_attachment_that_is_there(#[case] parameters: &[(&str, &str)]) {
    let mut desk = desk();
    attach(&mut desk, VOLUME, NODE).ok();
    let refused = call(&mut desk, ATTACHER, "DetachVolume", parameters);
    assert_eq!(
        refused.error(),
        (400, "InvalidAttachment.NotFound".to_owned())
    );
    call(&mut desk, ATTACHER, "DetachVolume", &[("VolumeId", VOLUME)]).ok();
}

#[test]
fn a_second_detach_does_not_restart_the_first() {
    let mut desk = desk();
    put(&mut desk, "timing", json!({ "detachMs": 2000 }));
    attach(&mut desk, VOLUME, NODE).ok();
    detach(&mut desk, VOLUME, NODE).ok();
    desk.advance(1);
    assert_eq!(
        detach(&mut desk, VOLUME, NODE).ok().text("status"),
        "detaching"
    );
    desk.advance(1);
    assert_eq!(states(&mut desk, VOLUME), ["available"]);
}

#[rstest]
#[case::running("running", Some("OperationNotPermitted"))]
#[case::stopped("stopped", None)]
fn a_root_volume_leaves_no_running_instance(#[case] state: &str, #[case] refused: Option<&str>) {
    let mut desk = desk();
    let node = put(
        &mut desk,
        &format!("instances/{NODE}"),
        json!({ "state": state }),
    );
    let root = node["root"].as_str().expect("an id").to_owned();
    let answer = detach(&mut desk, &root, NODE);
    match refused {
        None => assert_eq!(answer.status, 200, "{answer:?}"),
        Some(code) => assert_eq!(answer.error(), (400, code.to_owned())),
    }
}

#[test]
fn a_stuck_volume_stays_busy_until_it_is_released() {
    let mut desk = desk();
    attach(&mut desk, VOLUME, NODE).ok();
    act(&mut desk, VOLUME, "stick", Value::Null);
    desk.advance(2);
    assert_eq!(states(&mut desk, VOLUME), ["in-use", "attached"]);
    assert_eq!(detach(&mut desk, VOLUME, NODE).ok().text("status"), "busy");
    desk.advance(3600);
    assert_eq!(detach(&mut desk, VOLUME, NODE).ok().text("status"), "busy");
    assert_eq!(states(&mut desk, VOLUME), ["in-use", "busy"]);
    act(&mut desk, VOLUME, "release", Value::Null);
    desk.advance(2);
    assert_eq!(states(&mut desk, VOLUME), ["available"]);
    attach(&mut desk, VOLUME, NODE).ok();
    assert_eq!(
        detach(&mut desk, VOLUME, NODE).ok().text("status"),
        "detaching"
    );
}

#[test]
fn a_forced_detach_ends_a_busy_attachment() {
    let mut desk = desk();
    attach(&mut desk, VOLUME, NODE).ok();
    act(&mut desk, VOLUME, "stick", Value::Null);
    detach(&mut desk, VOLUME, NODE).ok();
    let forced = [("VolumeId", VOLUME), ("Force", "true")];
    call(&mut desk, ATTACHER, "DetachVolume", &forced).ok();
    desk.advance(2);
    assert_eq!(states(&mut desk, VOLUME), ["available"]);
}

#[test]
fn a_shared_volume_has_several_attachments() {
    let mut desk = desk();
    let shared = json!({ "multiAttach": true });
    put(&mut desk, &format!("volumes/{VOLUME}"), shared);
    attach(&mut desk, VOLUME, NODE).ok();
    attach(&mut desk, VOLUME, NEXT).ok();
    let answer = seen(&mut desk, VOLUME);
    assert_eq!(
        (answer.text("volumeType"), answer.texts("instanceId").len()),
        ("io2".to_owned(), 2)
    );
    let unclear = call(&mut desk, ATTACHER, "DetachVolume", &[("VolumeId", VOLUME)]);
    assert_eq!(unclear.error(), (400, "MissingParameter".to_owned()));
    detach(&mut desk, VOLUME, NODE).ok();
    desk.advance(2);
    assert_eq!(seen(&mut desk, VOLUME).texts("instanceId"), [NEXT]);
}

#[test]
fn a_lost_answer_is_an_attached_volume() {
    let mut desk = desk();
    let cut = json!({ "action": "AttachVolume", "effect": "cutAfter", "times": 1 });
    desk.fault(cut);
    assert_eq!(attach(&mut desk, VOLUME, NODE).status, 0);
    assert_eq!(states(&mut desk, VOLUME), ["in-use", "attaching"]);
}
