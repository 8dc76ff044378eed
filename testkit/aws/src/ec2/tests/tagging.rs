//! CreateTags and DeleteTags.

use rstest::rstest;
use serde_json::{Value, json};

use super::{MISSING, OTHER, PONTOON, VOLUME, call, desk, put, shown};

#[test]
fn several_resources_get_several_tags() {
    let mut desk = desk();
    let parameters = [
        ("ResourceId.1", VOLUME),
        ("ResourceId.2", OTHER),
        ("Tag.1.Key", "a"),
        ("Tag.1.Value", "1"),
        ("Tag.2.Key", "empty"),
    ];
    let answer = call(&mut desk, PONTOON, "CreateTags", &parameters).ok();
    assert_eq!(
        (answer.root(), answer.text("return")),
        ("CreateTagsResponse".to_owned(), "true".to_owned())
    );
    for id in [VOLUME, OTHER] {
        assert_eq!(
            shown(&mut desk, id)["tags"],
            json!({ "a": "1", "empty": "" })
        );
    }
}

#[test]
fn one_missing_resource_leaves_all_untagged() {
    let mut desk = desk();
    let parameters = [
        ("ResourceId.1", VOLUME),
        ("ResourceId.2", MISSING),
        ("Tag.1.Key", "a"),
    ];
    let refused = call(&mut desk, PONTOON, "CreateTags", &parameters);
    assert_eq!(refused.error(), (400, "InvalidVolume.NotFound".to_owned()));
    assert_eq!(shown(&mut desk, VOLUME)["tags"], json!({}));
}

#[rstest]
#[case::by_key(&[("Tag.1.Key", "a")], json!({ "b": "2" }))]
#[case::by_value(&[("Tag.1.Key", "a"), ("Tag.1.Value", "1")], json!({ "b": "2" }))]
#[case::another_value_stays(&[("Tag.1.Key", "a"), ("Tag.1.Value", "")], json!({ "a": "1", "b": "2" }))]
#[case::an_absent_key(&[("Tag.1.Key", "c")], json!({ "a": "1", "b": "2" }))]
#[case::no_list_is_all(&[], json!({}))]
fn tags_are_deleted(#[case] tags: &[(&str, &str)], #[case] left: Value) {
    let mut desk = desk();
    let seeds = json!({ "tags": { "a": "1", "b": "2" } });
    put(&mut desk, &format!("volumes/{VOLUME}"), seeds);
    let parameters = [&[("ResourceId.1", VOLUME)][..], tags].concat();
    call(&mut desk, PONTOON, "DeleteTags", &parameters).ok();
    assert_eq!(shown(&mut desk, VOLUME)["tags"], left);
}

#[test]
fn a_snapshot_is_tagged_too() {
    let mut desk = desk();
    let made = call(
        &mut desk,
        PONTOON,
        "CreateSnapshot",
        &[("VolumeId", VOLUME)],
    )
    .ok();
    let id = made.text("snapshotId");
    let parameters = [
        ("ResourceId.1", id.as_str()),
        ("Tag.1.Key", "a"),
        ("Tag.1.Value", "1"),
    ];
    call(&mut desk, PONTOON, "CreateTags", &parameters).ok();
    assert_eq!(
        shown(&mut desk, VOLUME)["snapshots"][0]["tags"],
        json!({ "a": "1" })
    );
}

#[rstest]
#[case::no_resource(&[("Tag.1.Key", "a")], "MissingParameter")]
#[case::no_tag(&[("ResourceId.1", VOLUME)], "MissingParameter")]
#[case::no_such_kind(&[("ResourceId.1", "eni-1"), ("Tag.1.Key", "a")], "InvalidID")]
#[case::reserved(&[("ResourceId.1", VOLUME), ("Tag.1.Key", "aws:a")], "InvalidParameterValue")]
#[case::empty_key(&[("ResourceId.1", VOLUME), ("Tag.1.Key", "")], "InvalidParameterValue")]
#[case::twice(&[("ResourceId.1", VOLUME), ("Tag.1.Key", "a"), ("Tag.2.Key", "a")], "InvalidParameterValue")]
fn invalid_tags_are_refused(#[case] parameters: &[(&str, &str)], #[case] code: &str) {
    let refused = call(&mut desk(), PONTOON, "CreateTags", parameters);
    assert_eq!(refused.error(), (400, code.to_owned()));
}

#[rstest]
#[case::key_at_the_limit(128, 256, true)]
#[case::long_key(129, 1, false)]
#[case::long_value(1, 257, false)]
fn a_tag_has_a_limited_length(#[case] key: usize, #[case] value: usize, #[case] works: bool) {
    let (key, value) = ("k".repeat(key), "v".repeat(value));
    let parameters = [
        ("ResourceId.1", VOLUME),
        ("Tag.1.Key", &key),
        ("Tag.1.Value", &value),
    ];
    let answer = call(&mut desk(), PONTOON, "CreateTags", &parameters);
    assert_eq!(answer.status == 200, works, "{answer:?}");
}

#[test]
fn a_volume_has_at_most_50_tags() {
    let mut desk = desk();
    let tags: Value = (0..50).map(|n| (format!("t{n}"), json!("x"))).collect();
    put(
        &mut desk,
        &format!("volumes/{VOLUME}"),
        json!({ "tags": tags }),
    );
    let mut tag = |key| {
        let parameters = [("ResourceId.1", VOLUME), ("Tag.1.Key", key)];
        call(&mut desk, PONTOON, "CreateTags", &parameters)
    };
    assert_eq!(tag("t0").status, 200);
    assert_eq!(tag("other").error(), (400, "TagLimitExceeded".to_owned()));
}
