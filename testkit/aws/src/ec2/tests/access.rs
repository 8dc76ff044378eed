//! Permissions of roles, and dry runs.

use rstest::rstest;
use serde_json::{Value, json};

use super::{
    ATTACHER, MISSING, NODE, PONTOON, VOLUME, ZONE, attach, call, desk, put, shown, states,
};

const TAG: &str = "ebs.csi.aws.com/cluster";

#[test]
fn a_denied_action_is_refused_to_that_role_alone() {
    let mut desk = desk();
    put(
        &mut desk,
        "roles/attacher-src",
        json!({ "deny": ["ec2:AttachVolume"] }),
    );
    let refused = attach(&mut desk, VOLUME, NODE);
    assert_eq!(refused.error(), (403, "UnauthorizedOperation".to_owned()));
    let text = refused.text("Message");
    let (begins, ends) = (
        "You are not authorized to perform this operation.",
        "ec2:AttachVolume action",
    );
    assert!(text.starts_with(begins) && text.ends_with(ends), "{text}");
    assert_eq!(states(&mut desk, VOLUME), ["available"]);
    let parameters = [
        ("VolumeId", VOLUME),
        ("InstanceId", NODE),
        ("Device", "/dev/xvdb"),
    ];
    call(&mut desk, "attacher-dst", "AttachVolume", &parameters).ok();
}

#[test]
fn an_empty_put_allows_everything_again() {
    let mut desk = desk();
    put(&mut desk, "roles/attacher-src", json!({ "deny": ["*"] }));
    let refused = call(&mut desk, ATTACHER, "DescribeVolumes", &[]);
    assert_eq!(refused.error(), (403, "UnauthorizedOperation".to_owned()));
    put(&mut desk, "roles/attacher-src", json!({}));
    call(&mut desk, ATTACHER, "DescribeVolumes", &[]).ok();
}

#[rstest]
#[case::key(json!(TAG), json!({ TAG: "false" }), true)]
#[case::missing_key(json!(TAG), json!({ "other": "true" }), false)]
#[case::key_and_value(json!("ebs.csi.aws.com/cluster=true"), json!({ TAG: "true" }), true)]
#[case::other_value(json!("ebs.csi.aws.com/cluster=true"), json!({ TAG: "false" }), false)]
#[case::map(json!({ TAG: "true", "k": null }), json!({ TAG: "true", "k": "v" }), true)]
#[case::part_of_a_map(json!({ TAG: "true", "k": null }), json!({ TAG: "true" }), false)]
fn a_role_may_require_tags(#[case] required: Value, #[case] tags: Value, #[case] works: bool) {
    let mut desk = desk();
    put(
        &mut desk,
        "roles/attacher-src",
        json!({ "requireTag": required }),
    );
    put(
        &mut desk,
        &format!("volumes/{VOLUME}"),
        json!({ "tags": tags }),
    );
    let answer = attach(&mut desk, VOLUME, NODE);
    if works {
        answer.ok();
    } else {
        assert_eq!(answer.error(), (403, "UnauthorizedOperation".to_owned()));
        assert!(
            answer.text("Message").contains(&format!("volume/{VOLUME}")),
            "{answer:?}"
        );
    }
}

#[rstest]
#[case::attach("AttachVolume", &[("VolumeId", VOLUME), ("InstanceId", NODE), ("Device", "/dev/xvdb")])]
#[case::delete("DeleteVolume", &[("VolumeId", VOLUME)])]
#[case::detach("DetachVolume", &[("VolumeId", VOLUME)])]
#[case::snapshot("CreateSnapshot", &[("VolumeId", VOLUME)])]
#[case::tag("CreateTags", &[("ResourceId.1", VOLUME), ("Tag.1.Key", "a")])]
#[case::untag("DeleteTags", &[("ResourceId.1", VOLUME), ("Tag.1.Key", "a")])]
fn a_required_tag_concerns_every_action_on_a_volume(
    #[case] action: &str,
    #[case] parameters: &[(&str, &str)],
) {
    let mut desk = desk();
    put(
        &mut desk,
        "roles/attacher-src",
        json!({ "requireTag": TAG }),
    );
    let refused = call(&mut desk, ATTACHER, action, parameters);
    assert_eq!(refused.error(), (403, "UnauthorizedOperation".to_owned()));
    assert_eq!(
        call(&mut desk, ATTACHER, "DescribeVolumes", &[]).status,
        200
    );
}

#[rstest]
#[case::attach("AttachVolume", &[("VolumeId", VOLUME), ("InstanceId", NODE), ("Device", "/dev/xvdb")])]
#[case::create("CreateVolume", &[("AvailabilityZone", ZONE), ("Size", "8")])]
#[case::delete("DeleteVolume", &[("VolumeId", VOLUME)])]
#[case::detach("DetachVolume", &[("VolumeId", VOLUME)])]
#[case::describe_instances("DescribeInstances", &[])]
#[case::describe_modifications("DescribeVolumesModifications", &[])]
#[case::describe_snapshots("DescribeSnapshots", &[])]
#[case::describe_volumes("DescribeVolumes", &[])]
#[case::snapshot("CreateSnapshot", &[("VolumeId", VOLUME)])]
#[case::tag("CreateTags", &[("ResourceId.1", VOLUME), ("Tag.1.Key", "a")])]
#[case::untag("DeleteTags", &[("ResourceId.1", VOLUME), ("Tag.1.Key", "a")])]
fn a_dry_run_answers_whether_it_is_allowed(
    #[case] action: &str,
    #[case] parameters: &[(&str, &str)],
) {
    let mut desk = desk();
    let before = shown(&mut desk, VOLUME);
    let parameters = [parameters, &[("DryRun", "true")]].concat();
    let allowed = call(&mut desk, PONTOON, action, &parameters);
    assert_eq!(allowed.error(), (412, "DryRunOperation".to_owned()));
    let text = "Request would have succeeded, but DryRun flag is set.";
    assert_eq!(allowed.text("Message"), text);
    put(&mut desk, "roles/pontoon", json!({ "deny": [action] }));
    let denied = call(&mut desk, PONTOON, action, &parameters);
    assert_eq!(denied.error(), (403, "UnauthorizedOperation".to_owned()));
    assert_eq!(shown(&mut desk, VOLUME), before);
    assert_eq!(desk.broken(), Vec::<String>::new());
}

#[test]
fn a_dry_run_of_no_volume_is_refused_for_that() {
    let parameters = [("VolumeId", MISSING), ("DryRun", "true")];
    let refused = call(&mut desk(), PONTOON, "CreateSnapshot", &parameters);
    assert_eq!(refused.error(), (400, "InvalidVolume.NotFound".to_owned()));
}

#[test]
fn a_dry_run_is_no_write_while_all_is_steady() {
    let mut desk = desk();
    desk.declare(json!({ "steady": true }));
    let parameters = [("VolumeId", VOLUME), ("DryRun", "true")];
    call(&mut desk, PONTOON, "CreateSnapshot", &parameters);
    assert_eq!(desk.broken(), Vec::<String>::new());
    call(
        &mut desk,
        PONTOON,
        "CreateSnapshot",
        &[("VolumeId", VOLUME)],
    )
    .ok();
    assert_eq!(desk.broken(), ["writeWhileSteady"]);
}
