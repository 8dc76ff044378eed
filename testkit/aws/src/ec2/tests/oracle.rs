//! Every rule of the oracle: each violation is reported, each legal neighbour is not.

use http::Method;
use rstest::rstest;
use serde_json::{Value, json};

use super::{
    ATTACHER, NEXT, NODE, OTHER, PONTOON, VOLUME, ZONE, act, attach, call, desk, detach, log, put,
};
use crate::desk::Desk;

const NONE: [&str; 0] = [];

/// A desk whose volume is attached to the node.
fn attached() -> Desk {
    let mut desk = desk();
    attach(&mut desk, VOLUME, NODE).ok();
    desk.advance(2);
    desk
}

/// Detaches the volume and attaches it to another node.
fn moved(desk: &mut Desk, volume: &str, from: &str, to: &str) {
    detach(desk, volume, from).ok();
    desk.advance(2);
    attach(desk, volume, to).ok();
    desk.advance(2);
}

#[rstest]
#[case::by_a_call("CreateVolume", &["twoAttachments"])]
#[case::by_control("PUT", &NONE)]
fn only_control_makes_a_volume_that_is_attached_twice(#[case] by: &str, #[case] broken: &[&str]) {
    let mut desk = desk();
    let id = if by == "PUT" {
        put(
            &mut desk,
            &format!("volumes/{VOLUME}"),
            json!({ "multiAttach": true }),
        );
        VOLUME.to_owned()
    } else {
        let parameters = [
            ("AvailabilityZone", ZONE),
            ("Size", "8"),
            ("VolumeType", "io2"),
            ("Iops", "100"),
            ("MultiAttachEnabled", "true"),
        ];
        call(&mut desk, ATTACHER, by, &parameters)
            .ok()
            .text("volumeId")
    };
    desk.advance(1);
    for instance in [NODE, NEXT] {
        let parameters = [
            ("VolumeId", id.as_str()),
            ("InstanceId", instance),
            ("Device", "/dev/xvdq"),
        ];
        call(&mut desk, ATTACHER, "AttachVolume", &parameters).ok();
    }
    assert_eq!(desk.broken(), broken);
}

#[test]
fn one_attachment_after_another_is_legal() {
    let mut desk = attached();
    assert_eq!(attach(&mut desk, VOLUME, NEXT).status, 400);
    moved(&mut desk, VOLUME, NODE, NEXT);
    assert_eq!(desk.broken(), NONE);
}

#[rstest]
#[case::attach(PONTOON, "AttachVolume", &[("VolumeId", OTHER), ("InstanceId", NODE), ("Device", "/dev/xvdq")], true)]
#[case::refused_attach(PONTOON, "AttachVolume", &[("VolumeId", VOLUME), ("InstanceId", NEXT), ("Device", "/dev/xvdq")], true)]
#[case::detach(PONTOON, "DetachVolume", &[("VolumeId", VOLUME)], true)]
#[case::forced_detach(PONTOON, "DetachVolume", &[("VolumeId", VOLUME), ("Force", "true")], true)]
#[case::delete(PONTOON, "DeleteVolume", &[("VolumeId", OTHER)], true)]
#[case::refused_delete(PONTOON, "DeleteVolume", &[("VolumeId", VOLUME)], true)]
#[case::read(PONTOON, "DescribeVolumes", &[], false)]
#[case::snapshot(PONTOON, "CreateSnapshot", &[("VolumeId", VOLUME)], false)]
#[case::tag(PONTOON, "CreateTags", &[("ResourceId.1", VOLUME), ("Tag.1.Key", "a")], false)]
#[case::dry_run(PONTOON, "DetachVolume", &[("VolumeId", VOLUME), ("DryRun", "true")], false)]
#[case::attach_by_a_driver(ATTACHER, "AttachVolume", &[("VolumeId", OTHER), ("InstanceId", NODE), ("Device", "/dev/xvdq")], false)]
#[case::detach_by_a_driver(ATTACHER, "DetachVolume", &[("VolumeId", VOLUME)], false)]
#[case::delete_by_a_driver(ATTACHER, "DeleteVolume", &[("VolumeId", OTHER)], false)]
fn an_operator_never_moves_or_deletes_a_disk(
    #[case] caller: &str,
    #[case] action: &str,
    #[case] parameters: &[(&str, &str)],
    #[case] wrong: bool,
) {
    let mut desk = attached();
    call(&mut desk, caller, action, parameters);
    let expected: &[&str] = if wrong { &["operatorMovedDisk"] } else { &NONE };
    assert_eq!(desk.broken(), expected);
}

#[rstest]
#[case::lost_answer("cutAfter")]
#[case::lost_request("cutBefore")]
#[case::throttled("throttle")]
fn a_fault_hides_no_call_of_the_operator(#[case] effect: &str) {
    let mut desk = attached();
    desk.fault(json!({ "action": "DetachVolume", "effect": effect }));
    call(&mut desk, PONTOON, "DetachVolume", &[("VolumeId", VOLUME)]);
    assert_eq!(desk.broken(), ["operatorMovedDisk"]);
}

#[test]
fn without_a_declaration_every_caller_is_an_operator() {
    let mut desk = desk();
    desk.declare(json!({ "operators": [] }));
    attach(&mut desk, VOLUME, NODE).ok();
    assert_eq!(desk.broken(), ["operatorMovedDisk"]);
}

#[test]
fn a_driver_may_repeat_a_refused_call_at_once() {
    let mut desk = attached();
    for _ in 0..2 {
        assert_eq!(attach(&mut desk, VOLUME, NEXT).status, 400);
    }
    assert_eq!(desk.broken(), NONE);
}

#[rstest]
#[case::attached(NODE, "start", &NONE)]
#[case::another_instance(NEXT, "start", &["writtenUnattached"])]
#[case::another_instance_that_stops(NEXT, "stop", &["writtenUnattached"])]
fn only_an_attached_instance_writes(
    #[case] instance: &str,
    #[case] event: &str,
    #[case] broken: &[&str],
) {
    let mut desk = attached();
    log(&mut desk, VOLUME, instance, ("u1", "web-0"), event);
    assert_eq!(desk.broken(), broken);
}

#[rstest]
#[case::start("start", &["writtenUnattached"])]
#[case::stop("stop", &NONE)]
fn a_detaching_disk_is_only_left(#[case] event: &str, #[case] broken: &[&str]) {
    let mut desk = attached();
    detach(&mut desk, VOLUME, NODE).ok();
    log(&mut desk, VOLUME, NODE, ("u1", "web-0"), event);
    assert_eq!(desk.broken(), broken);
}

#[rstest]
#[case::attached(2, NODE, &NONE)]
#[case::attaching(0, NODE, &["writtenUnattached"])]
#[case::another_instance(2, NEXT, &["writtenUnattached"])]
fn only_an_attached_instance_mounts(
    #[case] after: u64,
    #[case] instance: &str,
    #[case] broken: &[&str],
) {
    let mut desk = desk();
    attach(&mut desk, VOLUME, NODE).ok();
    desk.advance(after);
    act(&mut desk, VOLUME, "mount", json!({ "instance": instance }));
    assert_eq!(desk.broken(), broken);
}

#[test]
fn a_dirty_disk_is_never_detached() {
    let mut desk = attached();
    act(&mut desk, VOLUME, "mount", json!({ "instance": NODE }));
    detach(&mut desk, VOLUME, NODE).ok();
    assert_eq!(desk.broken(), ["detachedDirty"]);
    detach(&mut desk, VOLUME, NODE).ok();
    assert_eq!(desk.broken(), ["detachedDirty"]);
}

#[test]
fn a_clean_disk_is_detached() {
    let mut desk = attached();
    act(&mut desk, VOLUME, "mount", json!({ "instance": NODE }));
    log(&mut desk, VOLUME, NODE, ("u1", "web-0"), "start");
    log(&mut desk, VOLUME, NODE, ("u1", "web-0"), "stop");
    act(&mut desk, VOLUME, "unmount", json!({ "instance": NODE }));
    detach(&mut desk, VOLUME, NODE).ok();
    assert_eq!(desk.broken(), NONE);
}

#[test]
fn a_refused_detach_of_a_dirty_disk_is_legal() {
    let mut desk = attached();
    act(&mut desk, VOLUME, "mount", json!({ "instance": NODE }));
    put(
        &mut desk,
        "roles/attacher-src",
        json!({ "deny": ["DetachVolume"] }),
    );
    assert_eq!(detach(&mut desk, VOLUME, NODE).status, 403);
    let dry_run = [("VolumeId", VOLUME), ("DryRun", "true")];
    call(&mut desk, "attacher-dst", "DetachVolume", &dry_run);
    assert_eq!(desk.broken(), NONE);
}

#[test]
fn a_pod_starts_on_its_disks_again_on_another_node() {
    let mut desk = attached();
    attach(&mut desk, OTHER, NODE).ok();
    desk.advance(2);
    for volume in [VOLUME, OTHER] {
        log(&mut desk, volume, NODE, ("u1", "web-0"), "start");
        log(&mut desk, volume, NODE, ("u1", "web-0"), "stop");
        moved(&mut desk, volume, NODE, NEXT);
        log(&mut desk, volume, NEXT, ("u2", "web-0"), "start");
    }
    assert_eq!(desk.broken(), NONE);
}

#[test]
fn a_pod_with_two_disks_starts_on_both_again() {
    let mut desk = attached();
    attach(&mut desk, OTHER, NODE).ok();
    desk.advance(2);
    for uid in ["u1", "u2"] {
        for volume in [VOLUME, OTHER] {
            log(&mut desk, volume, NODE, (uid, "web-0"), "start");
        }
    }
    assert_eq!(desk.broken(), NONE);
}

#[test]
fn a_pod_that_starts_on_an_empty_disk_has_lost_its_own() {
    let mut desk = attached();
    attach(&mut desk, OTHER, NODE).ok();
    desk.advance(2);
    log(&mut desk, VOLUME, NODE, ("u1", "web-0"), "start");
    log(&mut desk, OTHER, NODE, ("u2", "web-0"), "start");
    assert_eq!(desk.broken(), ["startedOnOtherDisk"]);
}

#[rstest]
#[case::another_pod("web-1", "", &["startedOnOtherDisk"])]
#[case::another_set("web-0", "other", &["startedOnOtherDisk"])]
#[case::the_same_pod_and_set("web-0", "", &NONE)]
fn a_disk_belongs_to_one_pod(#[case] name: &str, #[case] set: &str, #[case] broken: &[&str]) {
    let mut desk = attached();
    log(&mut desk, VOLUME, NODE, ("u1", "web-0"), "start");
    let entry =
        json!({ "instance": NODE, "podUid": "u2", "podName": name, "set": set, "event": "start" });
    act(&mut desk, VOLUME, "log", entry);
    assert_eq!(desk.broken(), broken);
}

#[test]
fn pods_of_one_name_in_two_sets_have_their_own_disks() {
    let mut desk = attached();
    attach(&mut desk, OTHER, NODE).ok();
    desk.advance(2);
    for (volume, uid, set) in [(VOLUME, "u1", "shop"), (OTHER, "u2", "bank")] {
        let entry = json!({ "instance": NODE, "podUid": uid, "podName": "web-0", "set": set, "event": "start" });
        act(&mut desk, volume, "log", entry);
    }
    assert_eq!(desk.broken(), NONE);
}

#[test]
fn the_oracle_shows_violations_and_timeline() {
    let mut desk = attached();
    detach(&mut desk, VOLUME, NODE).ok();
    desk.advance(2);
    let report = json!({
        "violations": [{ "rule": "windowsOverlap", "detail": "web-0 is in both" }],
        "timeline": [{ "event": "ready", "pod": "web-0" }],
    });
    desk.control(Method::POST, "oracle", report);
    let shown = desk.control(Method::GET, "oracle", Value::Null);
    assert_eq!(shown["operators"], json!([PONTOON]));
    let violation = &shown["violations"][0];
    assert_eq!(
        (&violation["rule"], &violation["service"]),
        (&json!("windowsOverlap"), &json!("observer"))
    );
    let timeline = shown["timeline"].as_array().expect("a list");
    let events: Vec<_> = timeline
        .iter()
        .map(|entry| entry["event"].as_str().expect("a text"))
        .collect();
    assert_eq!(
        events,
        ["attaching", "attached", "detaching", "detached", "ready"]
    );
    let first = &timeline[0];
    assert_eq!(
        (&first["volume"], &first["instance"]),
        (&json!(VOLUME), &json!(NODE))
    );
    assert_eq!(first["caller"], ATTACHER);
    let time = |at: usize| -> jiff::Timestamp {
        timeline[at]["time"]
            .as_str()
            .expect("a time")
            .parse()
            .expect("a time")
    };
    assert_eq!(time(1).duration_since(time(0)).as_millis(), 1500);
    desk.control(Method::POST, "reset", Value::Null);
    let shown = desk.control(Method::GET, "oracle", Value::Null);
    assert_eq!(
        (&shown["violations"], &shown["timeline"]),
        (&json!([]), &json!([]))
    );
}
