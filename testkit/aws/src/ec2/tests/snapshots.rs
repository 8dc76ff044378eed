//! CreateSnapshot and DescribeSnapshots.

use rstest::rstest;
use serde_json::json;

use super::{MISSING, OTHER, PONTOON, VOLUME, call, desk, put};
use crate::desk::Desk;

fn snapshot(desk: &mut Desk, volume: &str, run: &str) -> String {
    let parameters = [
        ("VolumeId", volume),
        ("Description", "before"),
        ("TagSpecification.1.ResourceType", "snapshot"),
        ("TagSpecification.1.Tag.1.Key", "run"),
        ("TagSpecification.1.Tag.1.Value", run),
    ];
    call(desk, PONTOON, "CreateSnapshot", &parameters)
        .ok()
        .text("snapshotId")
}

fn found(desk: &mut Desk, filter: &str, value: &str) -> Vec<String> {
    let parameters = [
        ("Filter.1.Name", filter),
        ("Filter.1.Value.1", value),
        ("Owner.1", "self"),
    ];
    call(desk, PONTOON, "DescribeSnapshots", &parameters)
        .ok()
        .texts("snapshotId")
}

#[test]
fn a_snapshot_is_found_by_its_tags() {
    let mut desk = desk();
    let first = snapshot(&mut desk, VOLUME, "r1");
    let second = snapshot(&mut desk, OTHER, "r2");
    assert_eq!(found(&mut desk, "tag:run", "r1"), [first.as_str()]);
    assert_eq!(
        found(&mut desk, "tag:run", "*"),
        [first.as_str(), second.as_str()]
    );
    assert_eq!(found(&mut desk, "volume-id", OTHER), [second.as_str()]);
    assert_eq!(found(&mut desk, "tag:run", "r3"), Vec::<String>::new());
    assert_eq!(desk.broken(), Vec::<String>::new());
}

#[test]
fn a_snapshot_is_pending_then_completed() {
    let mut desk = desk();
    let id = snapshot(&mut desk, VOLUME, "r1");
    let answer = call(
        &mut desk,
        PONTOON,
        "DescribeSnapshots",
        &[("SnapshotId.1", &id)],
    )
    .ok();
    let texts = ["status", "volumeId", "volumeSize", "description", "ownerId"];
    let texts = texts.map(|name| answer.text(name));
    assert_eq!(texts, ["pending", VOLUME, "10", "before", "000000000000"]);
    desk.advance(30);
    let answer = call(
        &mut desk,
        PONTOON,
        "DescribeSnapshots",
        &[("SnapshotId.1", &id)],
    )
    .ok();
    assert_eq!(
        (answer.text("status"), answer.text("progress")),
        ("completed".to_owned(), "100%".to_owned())
    );
}

#[test]
fn a_stale_search_misses_a_new_snapshot() {
    let mut desk = desk();
    let id = snapshot(&mut desk, VOLUME, "r1");
    desk.fault(json!({ "action": "DescribeSnapshots", "effect": "stale", "times": 1 }));
    assert_eq!(found(&mut desk, "tag:run", "r1"), Vec::<String>::new());
    assert_eq!(found(&mut desk, "tag:run", "r1"), [id]);
}

#[rstest]
#[case::creating("creating")]
#[case::error("error")]
fn a_volume_that_is_not_ready_has_no_snapshot(#[case] state: &str) {
    let mut desk = desk();
    put(
        &mut desk,
        &format!("volumes/{VOLUME}"),
        json!({ "state": state }),
    );
    let refused = call(
        &mut desk,
        PONTOON,
        "CreateSnapshot",
        &[("VolumeId", VOLUME)],
    );
    assert_eq!(refused.error(), (400, "IncorrectState".to_owned()));
}

#[rstest]
#[case::missing_volume("CreateSnapshot", ("VolumeId", MISSING), "InvalidVolume.NotFound")]
#[case::malformed_volume("CreateSnapshot", ("VolumeId", "x"), "InvalidParameterValue")]
#[case::no_volume("CreateSnapshot", ("Description", "x"), "MissingParameter")]
#[case::missing_snapshot("DescribeSnapshots", ("SnapshotId.1", "snap-0000000f"), "InvalidSnapshot.NotFound")]
#[case::malformed_snapshot("DescribeSnapshots", ("SnapshotId.1", "x"), "InvalidParameterValue")]
#[case::unknown_filter("DescribeSnapshots", ("Filter.1.Name", "colour"), "InvalidParameterValue")]
fn an_invalid_snapshot_call_is_refused(
    #[case] action: &str,
    #[case] parameter: (&str, &str),
    #[case] code: &str,
) {
    let refused = call(&mut desk(), PONTOON, action, &[parameter]);
    assert_eq!(refused.error(), (400, code.to_owned()));
}
