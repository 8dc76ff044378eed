//! DescribeVolumes, DescribeVolumesModifications, DescribeInstances.

use http::Method;
use rstest::rstest;
use serde_json::{Value, json};

use super::{
    ATTACHER, FAR, MISSING, NEXT, NODE, OTHER, VOLUME, ZONE, attach, call, desk, put, seen, states,
};
use crate::desk::Desk;

/// The ids that DescribeVolumes answers for one filter.
fn found(desk: &mut Desk, name: &str, values: &[&str]) -> Vec<String> {
    let numbered = values.iter().zip(1..);
    let values: Vec<_> = numbered
        .map(|(value, n)| (format!("Filter.1.Value.{n}"), *value))
        .collect();
    let mut parameters = vec![("Filter.1.Name", name)];
    parameters.extend(values.iter().map(|(name, value)| (name.as_str(), *value)));
    let answer = call(desk, ATTACHER, "DescribeVolumes", &parameters).ok();
    let mut ids = answer.texts("volumeId");
    ids.dedup(); // an attachment repeats the id
    ids
}

#[test]
fn a_volume_is_described_with_all_its_fields() {
    let mut desk = desk();
    let fields =
        json!({ "size": 20, "type": "io1", "iops": 100, "kmsKeyId": "key", "tags": { "a": "b" } });
    put(&mut desk, &format!("volumes/{VOLUME}"), fields);
    attach(&mut desk, VOLUME, NODE).ok();
    desk.advance(2);
    let answer = seen(&mut desk, VOLUME);
    let texts =
        |names: &[&str]| -> Vec<String> { names.iter().map(|name| answer.text(name)).collect() };
    let names = [
        "size",
        "availabilityZone",
        "volumeType",
        "iops",
        "encrypted",
        "kmsKeyId",
    ];
    assert_eq!(texts(&names), ["20", ZONE, "io1", "100", "true", "key"]);
    let names = [
        "multiAttachEnabled",
        "key",
        "value",
        "instanceId",
        "device",
        "deleteOnTermination",
    ];
    assert_eq!(
        texts(&names),
        ["false", "a", "b", NODE, "/dev/xvdba", "false"]
    );
    assert_eq!(answer.texts("status"), ["in-use", "attached"]);
}

#[test]
fn an_unknown_id_fails_the_list_but_not_the_filter() {
    let mut desk = desk();
    let ids = [("VolumeId.1", VOLUME), ("VolumeId.2", MISSING)];
    let refused = call(&mut desk, ATTACHER, "DescribeVolumes", &ids);
    assert_eq!(refused.error(), (400, "InvalidVolume.NotFound".to_owned()));
    assert_eq!(
        refused.text("Message"),
        format!("The volume '{MISSING}' does not exist.")
    );
    let several = [("VolumeId.1", MISSING), ("VolumeId.2", "vol-0000000e")];
    let refused = call(&mut desk, ATTACHER, "DescribeVolumes", &several);
    let text = format!("The volumes '{MISSING}, vol-0000000e' do not exist.");
    assert_eq!(refused.text("Message"), text);
    assert_eq!(
        found(&mut desk, "volume-id", &[VOLUME, MISSING, "nonsense"]),
        [VOLUME]
    );
    let found = call(
        &mut desk,
        ATTACHER,
        "DescribeVolumes",
        &[("VolumeId.1", VOLUME)],
    )
    .ok();
    assert_eq!(found.text("volumeId"), VOLUME);
}

#[rstest]
#[case::by_instance("attachment.instance-id", NODE, true)]
#[case::by_other_instance("attachment.instance-id", NEXT, false)]
#[case::by_attachment("attachment.status", "attaching", true)]
#[case::by_device("attachment.device", "/dev/xvdba", true)]
#[case::by_deletion("attachment.delete-on-termination", "false", true)]
#[case::by_status("status", "in-use", true)]
#[case::by_other_status("status", "available", false)]
#[case::by_zone("availability-zone", ZONE, true)]
#[case::by_tag("tag:team", "a", true)]
#[case::by_tag_pattern("tag:team", "?", true)]
#[case::by_other_tag("tag:team", "b", false)]
#[case::by_missing_tag("tag:none", "*", false)]
#[case::by_tag_key("tag-key", "team", true)]
#[case::by_size("size", "10", true)]
#[case::by_type("volume-type", "gp3", true)]
#[case::by_encryption("encrypted", "true", false)]
#[case::by_sharing("multi-attach-enabled", "false", true)]
fn a_filter_finds_a_volume(#[case] name: &str, #[case] value: &str, #[case] finds: bool) {
    let mut desk = desk();
    let tags = json!({ "tags": { "team": "a" } });
    put(&mut desk, &format!("volumes/{VOLUME}"), tags);
    attach(&mut desk, VOLUME, NODE).ok();
    let found = found(&mut desk, name, &[value]);
    assert_eq!(found.iter().any(|id| id == VOLUME), finds, "{found:?}");
}

#[test]
fn an_instance_has_its_root_volume_attached() {
    let mut desk = desk();
    let root = found(&mut desk, "attachment.instance-id", &[FAR]);
    let [root] = root.as_slice() else {
        panic!("one root volume, not {root:?}");
    };
    let answer = seen(&mut desk, root);
    assert_eq!(answer.text("deleteOnTermination"), "true");
    assert_eq!(answer.text("availabilityZone"), "us-east-1b");
}

#[rstest]
#[case::unknown_filter(&[("Filter.1.Name", "colour"), ("Filter.1.Value.1", "x")], "InvalidParameterValue", "The filter 'colour' is invalid")]
#[case::malformed_id(&[("VolumeId.1", "vol-x")], "InvalidParameterValue", "Value (vol-x) for parameter volumes is invalid. Expected: 'vol-...'.")]
#[case::id_in_capitals(&[("VolumeId.1", "vol-0000000A")], "InvalidParameterValue", "Expected: 'vol-...'")]
#[case::short_page(&[("MaxResults", "4")], "InvalidParameterValue", "Value ( 4 ) for parameter maxResults is invalid. Expecting a value greater than 5.")]
#[case::page_of_ids(&[("VolumeId.1", VOLUME), ("MaxResults", "5")], "InvalidParameterCombination", "cannot be used with the parameter maxResults")]
#[case::bad_token(&[("NextToken", "!")], "InvalidPaginationToken", "pagination token")]
fn an_invalid_describe_is_refused(
    #[case] parameters: &[(&str, &str)],
    #[case] code: &str,
    #[case] text: &str,
) {
    let refused = call(&mut desk(), ATTACHER, "DescribeVolumes", parameters);
    assert_eq!(refused.error(), (400, code.to_owned()));
    assert!(refused.text("Message").contains(text), "{refused:?}");
}

#[rstest]
#[case::as_many_as_allowed(200, None)]
#[case::one_too_many(201, Some("FilterLimitExceeded"))]
fn a_call_has_at_most_200_filter_values(#[case] count: u64, #[case] refused: Option<&str>) {
    let values = (1..=count).map(|n| (format!("Filter.1.Value.{n}"), format!("vol-{n:08x}")));
    let values: Vec<_> = values.collect();
    let mut parameters = vec![("Filter.1.Name", "volume-id")];
    parameters.extend(
        values
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_str())),
    );
    let answer = call(&mut desk(), ATTACHER, "DescribeVolumes", &parameters);
    match refused {
        None => assert_eq!(answer.status, 200),
        Some(code) => assert_eq!(answer.error(), (400, code.to_owned())),
    }
}

#[test]
fn a_long_list_comes_in_pages() {
    let mut desk = desk();
    for n in 0..12 {
        let path = format!("volumes/vol-1000000{n:x}");
        put(
            &mut desk,
            &path,
            json!({ "az": ZONE, "tags": { "page": "yes" } }),
        );
    }
    let mut ids = Vec::new();
    let (mut pages, mut token) = (0, None);
    while pages == 0 || token.is_some() {
        let mut parameters = vec![
            ("Filter.1.Name", "tag-key"),
            ("Filter.1.Value.1", "page"),
            ("MaxResults", "5"),
        ];
        parameters.extend(token.as_deref().map(|token| ("NextToken", token)));
        let page = call(&mut desk, ATTACHER, "DescribeVolumes", &parameters).ok();
        ids.extend(page.texts("volumeId"));
        token = page.texts("nextToken").pop();
        pages += 1;
    }
    assert_eq!((pages, ids.len()), (3, 12));
    assert!(ids.is_sorted(), "{ids:?}");
    desk.switch("ec2", json!({ "pageSize": 2 }));
    let short = call(&mut desk, ATTACHER, "DescribeVolumes", &[]).ok();
    assert_eq!(short.texts("nextToken").len(), 1);
}

#[test]
fn another_region_has_other_volumes() {
    let mut desk = desk();
    put(
        &mut desk,
        &format!("volumes/{OTHER}"),
        json!({ "az": "eu-west-1a" }),
    );
    assert_eq!(states(&mut desk, OTHER), Vec::<String>::new());
    assert_eq!(states(&mut desk, VOLUME), ["available"]);
}

#[test]
fn a_stale_read_sees_the_previous_state() {
    let mut desk = desk();
    attach(&mut desk, VOLUME, NODE).ok();
    desk.advance(2);
    desk.fault(
        json!({ "action": "DescribeVolumes", "volumeId": VOLUME, "effect": "stale", "times": 1 }),
    );
    assert_eq!(states(&mut desk, OTHER), ["available"]);
    assert_eq!(states(&mut desk, VOLUME), ["in-use", "attaching"]);
    assert_eq!(states(&mut desk, VOLUME), ["in-use", "attached"]);
}

#[test]
fn a_stale_read_never_misses_an_unchanged_volume() {
    let mut desk = desk();
    attach(&mut desk, OTHER, NODE).ok();
    desk.fault(json!({ "effect": "stale" }));
    assert_eq!(states(&mut desk, VOLUME), ["available"]);
    assert_eq!(states(&mut desk, OTHER), ["available"]);
}

#[test]
fn a_lagging_read_sees_the_state_of_then() {
    let mut desk = desk();
    desk.advance(100);
    attach(&mut desk, VOLUME, NODE).ok();
    desk.advance(3);
    desk.switch("ec2", json!({ "readLag": 2 }));
    assert_eq!(states(&mut desk, VOLUME), ["in-use", "attaching"]);
    desk.switch("ec2", json!({ "readLag": 10 }));
    assert_eq!(states(&mut desk, VOLUME), ["available"]);
}

#[test]
fn a_modification_is_described_while_there_is_one() {
    let mut desk = desk();
    let ids = [("VolumeId.1", VOLUME)];
    let none = call(&mut desk, ATTACHER, "DescribeVolumesModifications", &ids);
    assert_eq!(
        none.error(),
        (400, "InvalidVolumeModification.NotFound".to_owned())
    );
    let all = call(&mut desk, ATTACHER, "DescribeVolumesModifications", &[]).ok();
    assert_eq!(all.texts("volumeId"), Vec::<String>::new());
    let edit = json!({ "modification": "optimizing", "size": 12 });
    put(&mut desk, &format!("volumes/{VOLUME}"), edit);
    let one = call(&mut desk, ATTACHER, "DescribeVolumesModifications", &ids).ok();
    let texts = ["modificationState", "originalSize", "targetSize"].map(|name| one.text(name));
    assert_eq!(texts, ["optimizing", "10", "12"]);
    put(
        &mut desk,
        &format!("volumes/{VOLUME}"),
        json!({ "modification": "none" }),
    );
    let none = call(&mut desk, ATTACHER, "DescribeVolumesModifications", &ids);
    assert_eq!(none.status, 400);
    let missing = [("VolumeId.1", MISSING)];
    let missing = call(
        &mut desk,
        ATTACHER,
        "DescribeVolumesModifications",
        &missing,
    );
    assert_eq!(missing.error(), (400, "InvalidVolume.NotFound".to_owned()));
}

#[test]
fn an_instance_is_described_with_its_volumes() {
    let mut desk = desk();
    attach(&mut desk, VOLUME, NODE).ok();
    let one = call(
        &mut desk,
        ATTACHER,
        "DescribeInstances",
        &[("InstanceId.1", NODE)],
    )
    .ok();
    assert_eq!(one.text("instanceId"), NODE);
    assert_eq!(
        (one.text("code"), one.text("name")),
        ("16".to_owned(), "running".to_owned())
    );
    assert_eq!(one.texts("volumeId")[0], VOLUME);
    assert_eq!(one.texts("status"), ["attaching", "attached"]);
    let filter = [
        ("Filter.1.Name", "availability-zone"),
        ("Filter.1.Value.1", "us-east-1b"),
    ];
    let far = call(&mut desk, ATTACHER, "DescribeInstances", &filter).ok();
    assert_eq!(far.texts("instanceId"), [FAR]);
}

#[rstest]
#[case::missing(
    "i-0000000f",
    "InvalidInstanceID.NotFound",
    "The instance ID 'i-0000000f' does not exist"
)]
#[case::malformed("node", "InvalidInstanceID.Malformed", "Invalid id: \"node\"")]
fn no_instance_is_described(#[case] id: &str, #[case] code: &str, #[case] text: &str) {
    let refused = call(
        &mut desk(),
        ATTACHER,
        "DescribeInstances",
        &[("InstanceId.1", id)],
    );
    assert_eq!(refused.error(), (400, code.to_owned()));
    assert_eq!(refused.text("Message"), text);
}

#[test]
fn errors_have_the_form_of_ec2() {
    let refused = call(
        &mut desk(),
        ATTACHER,
        "DescribeVolumes",
        &[("VolumeId.1", MISSING)],
    );
    assert_eq!(refused.root(), "Response");
    assert_eq!(refused.texts("Errors").len(), 1);
    let unknown = call(
        &mut desk(),
        ATTACHER,
        "ModifyVolume",
        &[("VolumeId", VOLUME)],
    );
    assert_eq!(unknown.error(), (400, "InvalidAction".to_owned()));
}

#[test]
fn the_log_has_the_caller_and_every_volume() {
    let mut desk = desk();
    let ids = [("VolumeId.1", VOLUME), ("VolumeId.2", OTHER)];
    call(&mut desk, ATTACHER, "DescribeVolumes", &ids).ok();
    let log = desk.control(Method::GET, "log", Value::Null);
    let entry = &log["entries"][0];
    assert_eq!(entry["caller"], ATTACHER);
    assert_eq!(entry["resource"], format!("{VOLUME},{OTHER}"));
}
