//! The verbs of control.

use http::Method;
use rstest::rstest;
use serde_json::{Value, json};

use super::{
    MISSING, NEXT, NODE, OTHER, VOLUME, ZONE, act, attach, desk, detach, put, shown, states,
};

#[test]
fn a_put_changes_the_fields_that_it_names() {
    let mut desk = desk();
    let path = format!("volumes/{VOLUME}");
    put(
        &mut desk,
        &path,
        json!({ "size": 20, "tags": { "a": "1" }, "kmsKeyId": "k" }),
    );
    let volume = put(&mut desk, &path, json!({ "az": "us-east-1b" }));
    assert_eq!(
        (&volume["az"], &volume["size"]),
        (&json!("us-east-1b"), &json!(20))
    );
    assert_eq!(
        (&volume["tags"], &volume["kmsKeyId"]),
        (&json!({ "a": "1" }), &json!("k"))
    );
    let volume = put(&mut desk, &path, json!({ "kmsKeyId": "", "tags": {} }));
    assert_eq!(
        (&volume["tags"], &volume["kmsKeyId"]),
        (&json!({}), &Value::Null)
    );
}

#[test]
fn a_get_shows_attachments_snapshots_and_log() {
    let mut desk = desk();
    attach(&mut desk, VOLUME, NODE).ok();
    desk.advance(2);
    super::call(
        &mut desk,
        super::PONTOON,
        "CreateSnapshot",
        &[("VolumeId", VOLUME)],
    )
    .ok();
    act(&mut desk, VOLUME, "mount", json!({ "instance": NODE }));
    super::log(&mut desk, VOLUME, NODE, ("u1", "web-0"), "start");
    let volume = shown(&mut desk, VOLUME);
    assert_eq!(
        (&volume["state"], &volume["az"]),
        (&json!("in-use"), &json!(ZONE))
    );
    let attachment = &volume["attachments"][0];
    assert_eq!(
        (&attachment["instance"], &attachment["state"]),
        (&json!(NODE), &json!("attached"))
    );
    assert_eq!(volume["snapshots"][0]["volume"], VOLUME);
    let entry = &volume["log"][0];
    assert_eq!(
        (&entry["podUid"], &entry["podName"]),
        (&json!("u1"), &json!("web-0"))
    );
    assert_eq!(
        (&entry["event"], &entry["instance"]),
        (&json!("start"), &json!(NODE))
    );
    assert_eq!(
        (&volume["dirty"], &volume["stuck"]),
        (&json!(true), &json!(false))
    );
}

#[rstest]
#[case::creating("creating")]
#[case::deleting("deleting")]
#[case::deleted("deleted")]
#[case::error("error")]
fn a_forced_state_stays(#[case] state: &str) {
    let mut desk = desk();
    put(
        &mut desk,
        &format!("volumes/{VOLUME}"),
        json!({ "state": state }),
    );
    desk.advance(3600);
    assert_eq!(states(&mut desk, VOLUME), [state]);
}

#[test]
fn an_absent_volume_is_gone_and_can_come_back_empty() {
    let mut desk = desk();
    let path = format!("volumes/{VOLUME}");
    attach(&mut desk, VOLUME, NODE).ok();
    desk.advance(2);
    super::log(&mut desk, VOLUME, NODE, ("u1", "web-0"), "start");
    put(&mut desk, &path, json!({ "state": "absent" }));
    assert_eq!(states(&mut desk, VOLUME), Vec::<String>::new());
    let back = put(&mut desk, &path, json!({ "az": ZONE }));
    assert_eq!(
        (&back["state"], &back["log"]),
        (&json!("available"), &json!([]))
    );
}

#[test]
fn control_attaches_and_detaches_at_once() {
    let mut desk = desk();
    act(
        &mut desk,
        VOLUME,
        "attach",
        json!({ "instance": NODE, "device": "/dev/xvdq" }),
    );
    assert_eq!(states(&mut desk, VOLUME), ["in-use", "attached"]);
    assert_eq!(
        shown(&mut desk, VOLUME)["attachments"][0]["device"],
        "/dev/xvdq"
    );
    act(&mut desk, VOLUME, "mount", json!({ "instance": NODE }));
    act(&mut desk, VOLUME, "detach", Value::Null);
    assert_eq!(states(&mut desk, VOLUME), ["available"]);
    assert_eq!(desk.broken(), Vec::<String>::new());
}

#[test]
fn a_stuck_volume_stays_busy_after_controls_detach_too() {
    let mut desk = desk();
    act(&mut desk, VOLUME, "attach", json!({ "instance": NODE }));
    act(&mut desk, VOLUME, "stick", Value::Null);
    act(&mut desk, VOLUME, "detach", json!({ "instance": NODE }));
    assert_eq!(states(&mut desk, VOLUME), ["in-use", "busy"]);
    act(&mut desk, VOLUME, "release", Value::Null);
    assert_eq!(states(&mut desk, VOLUME), ["in-use", "detaching"]);
    desk.advance(2);
    assert_eq!(states(&mut desk, VOLUME), ["available"]);
}

#[test]
fn a_release_before_the_detach_ends_the_sticking() {
    let mut desk = desk();
    attach(&mut desk, VOLUME, NODE).ok();
    act(&mut desk, VOLUME, "stick", Value::Null);
    act(&mut desk, VOLUME, "release", Value::Null);
    assert_eq!(
        detach(&mut desk, VOLUME, NODE).ok().text("status"),
        "detaching"
    );
}

#[rstest]
#[case::terminated("terminated")]
#[case::absent("absent")]
fn an_instance_that_ends_loses_its_volumes(#[case] state: &str) {
    let mut desk = desk();
    let node = put(&mut desk, &format!("instances/{NODE}"), json!({}));
    let root = node["root"].as_str().expect("an id").to_owned();
    attach(&mut desk, VOLUME, NODE).ok();
    put(
        &mut desk,
        &format!("instances/{NODE}"),
        json!({ "state": state }),
    );
    assert_eq!(states(&mut desk, VOLUME), ["available"]);
    assert_eq!(states(&mut desk, &root), Vec::<String>::new());
}

#[test]
fn every_instance_has_a_root_volume_of_its_own() {
    let mut desk = desk();
    let mut root = |id| {
        let shown = desk.control(Method::GET, &format!("ec2/instances/{id}"), Value::Null);
        assert_eq!(shown["volumes"], json!([shown["root"]]));
        shown["root"].clone()
    };
    assert_ne!(root(NODE), root(NEXT));
}

#[test]
fn timing_and_roles_are_shown_as_they_were_put() {
    let mut desk = desk();
    let timing = put(&mut desk, "timing", json!({ "attachMs": 7, "detachMs": 9 }));
    assert_eq!(
        (&timing["attachMs"], &timing["detachMs"]),
        (&json!(7), &json!(9))
    );
    let timing = put(&mut desk, "timing", json!({ "attachMs": 8 }));
    assert_eq!(
        (&timing["attachMs"], &timing["detachMs"]),
        (&json!(8), &json!(9))
    );
    let role = json!({ "deny": ["ec2:CreateTags"], "requireTag": "a=b" });
    let role = put(&mut desk, "roles/r", role);
    assert_eq!(
        role,
        json!({ "deny": ["CreateTags"], "requireTag": { "a": "b" } })
    );
}

#[rstest]
#[case::malformed_volume(Method::PUT, "volumes/x", json!({ "az": "a" }), 400, "vol-")]
#[case::malformed_instance(Method::PUT, "instances/x", json!({ "az": "a" }), 400, "i- and 8 or 17")]
#[case::new_volume_without_zone(Method::PUT, "volumes/vol-0000000f", json!({}), 400, "give its az")]
#[case::new_instance_without_zone(Method::PUT, "instances/i-0000000f", json!({}), 400, "give its az")]
#[case::unknown_field(Method::PUT, "volumes/vol-0000000a", json!({ "zone": "a" }), 400, "`az`")]
#[case::unknown_state(Method::PUT, "volumes/vol-0000000a", json!({ "state": "lost" }), 400, "absent")]
#[case::in_use_without_attachment(Method::PUT, "volumes/vol-0000000a", json!({ "state": "in-use" }), 400, "attach")]
#[case::unknown_instance_state(Method::PUT, "instances/i-0000000a", json!({ "state": "lost" }), 400, "running")]
#[case::unknown_modification(Method::PUT, "volumes/vol-0000000a", json!({ "modification": "x" }), 400, "optimizing")]
#[case::get_of_no_volume(Method::GET, "volumes/vol-0000000f", Value::Null, 404, "vol-0000000f")]
#[case::get_of_no_instance(Method::GET, "instances/i-0000000f", Value::Null, 404, "i-0000000f")]
#[case::attach_to_no_instance(Method::POST, "volumes/vol-0000000a/attach", json!({ "instance": "i-0000000f" }), 404, "PUT it first")]
#[case::detach_of_nothing(
    Method::POST,
    "volumes/vol-0000000a/detach",
    Value::Null,
    409,
    "not attached"
)]
#[case::log_of_no_volume(Method::POST, "volumes/vol-0000000f/log", json!({ "instance": "i", "podUid": "u", "podName": "n", "event": "start" }), 404, "vol-0000000f")]
#[case::unknown_event(Method::POST, "volumes/vol-0000000a/log", json!({ "instance": "i", "podUid": "u", "podName": "n", "event": "pause" }), 400, "`stop`")]
#[case::unknown_verb(
    Method::POST,
    "volumes/vol-0000000a/melt",
    Value::Null,
    404,
    "attach|detach|stick|release"
)]
#[case::unknown_timing(Method::PUT, "timing", json!({ "attach": 1 }), 400, "`attachMs`")]
#[case::unknown_role_field(Method::PUT, "roles/r", json!({ "allow": [] }), 400, "`deny`")]
fn an_invalid_control_request_is_refused(
    #[case] method: Method,
    #[case] path: &str,
    #[case] body: Value,
    #[case] status: u16,
    #[case] text: &str,
) {
    let mut desk = desk();
    let refused = desk.try_control(method, &format!("ec2/{path}"), body);
    let refused = refused.expect_err("a refusal");
    assert_eq!(refused.status, status, "{refused}");
    assert!(refused.message.contains(text), "{refused}");
}

#[test]
fn a_second_attachment_by_control_is_refused() {
    let mut desk = desk();
    act(&mut desk, VOLUME, "attach", json!({ "instance": NODE }));
    let path = format!("ec2/volumes/{VOLUME}/attach");
    let mut second = || desk.try_control(Method::POST, &path, json!({ "instance": NEXT }));
    assert_eq!(second().expect_err("a refusal").status, 409);
}

#[test]
fn seeds_and_state_show_volumes_and_instances() {
    let mut desk = desk();
    desk.mutate("ec2", json!({ "volume": { "id": MISSING, "az": "a" } }));
    desk.mutate(
        "ec2",
        json!({ "instance": { "id": "i-0000000f", "az": "a" } }),
    );
    let state = desk.state("ec2");
    assert_eq!(state["volumes"][MISSING]["state"], "available");
    assert_eq!(state["volumes"][OTHER]["az"], ZONE);
    assert_eq!(state["instances"]["i-0000000f"]["state"], "running");
    desk.control(Method::POST, "reset", Value::Null);
    assert_eq!(desk.state("ec2")["volumes"], json!({}));
}
