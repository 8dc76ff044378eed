//! VolumeType, VolumeState, Resize, KmsKey, VolumeTags.

use rstest::rstest;
use serde_json::{Value, json};

use super::*;

#[rstest]
#[case::nfs(by(|s| patch(volume(s, 1), json!({"spec": {"csi": null, "nfs": {"server": "s", "path": "/"}}}))), &[
    "PersistentVolume pv-1 of the source: found nfs, need one EBS volume (csi ebs.csi.aws.com, or \
     awsElasticBlockStore)"])]
#[case::another_driver(by(|s| patch(volume(s, 1), json!({"spec": {"csi": {"driver": "efs.csi.aws.com"}}}))), &[
    "PersistentVolume pv-1 of the source: found CSI driver \"efs.csi.aws.com\", need ebs.csi.aws.com"])]
#[case::unknown_id(by(|s| patch(volume(s, 1), json!({"spec": {"csi": {"volumeHandle": "disk-1"}}}))), &[
    "PersistentVolume pv-1 of the source: found volumeHandle \"disk-1\", need vol- and 8 or 17 hexadecimal \
     digits"])]
#[case::in_tree(by(|s| patch(volume(s, 1), json!({"spec": {"csi": null,
    "awsElasticBlockStore": {"volumeID": "aws://eu-west-1b/vol-00000001"}}}))), &[])]
#[case::one_pod(by(|s| patch(volume(s, 1), json!({"spec": {"accessModes": ["ReadWriteOncePod"]}}))), &[])]
#[case::many_nodes(by(|s| patch(volume(s, 1), json!({"spec": {"accessModes": ["ReadWriteOnce", "ReadWriteMany"]}}))), &[
    "PersistentVolume pv-1 of the source: found access modes \"ReadWriteOnce, ReadWriteMany\", need ReadWriteOnce \
     or ReadWriteOncePod"])]
#[case::multi_attach(by(|s| disk(s, 1).is_multi_attach = true), &[
    "EBS volume vol-00000001 of claim data-web-1: found Multi-Attach enabled, need a volume for one instance"])]
fn volume_type_names_what_fails(#[case] edit: Edit, #[case] expected: &[&str]) {
    assert_found(VolumeType, edit, expected);
}

const ATTACHED: &str = "need state in-use with one attachment, to an instance of a source node";

fn state(found: &str) -> Vec<String> {
    vec![format!(
        "EBS volume vol-00000001 of claim data-web-1: found {found}"
    )]
}

#[rstest]
#[case::unknown(by(|s| { read(&mut s.ec2.volumes).remove("vol-00000001"); }),
    "no volume of this id, need one in this account and region")]
#[case::available(by(|s| {
    disk(s, 1).state = "available".to_owned();
    disk(s, 1).attachments.clear();
}), &format!("state available, 0 attachments, {ATTACHED}"))]
#[case::two_attachments(by(|s| disk(s, 1).attachments.push(attachment("i-srca"))),
    &format!("state in-use, 2 attachments, {ATTACHED}"))]
#[case::detaching(by(|s| disk(s, 1).attachments[0].state = "detaching".to_owned()),
    &format!("state in-use, attachment detaching, {ATTACHED}"))]
#[case::an_instance_of_others(by(|s| disk(s, 1).attachments[0].instance = "i-dsta".to_owned()),
    &format!("an attachment to i-dsta, {ATTACHED}"))]
#[case::deleted_with_its_instance(by(|s| disk(s, 1).attachments[0].is_deleted_with_instance = true),
    "deleteOnTermination on i-srcb, need deleteOnTermination false")]
fn a_disk_of_the_window_is_attached_once_names_what_fails(#[case] edit: Edit, #[case] found: &str) {
    let mut survey = survey();
    edit(&mut survey);
    assert_eq!(messages(&survey, VolumeState), state(found));
}

#[rstest]
#[case::free(by(add_dormant), &[])]
#[case::attached(by(|s| {
    add_dormant(s);
    disk(s, 3).state = "in-use".to_owned();
    disk(s, 3).attachments.push(attachment("i-srca"));
}), &["EBS volume vol-00000003 of claim data-web-3: found state in-use, 1 attachments, need state available, as no \
      pod uses its claim"])]
#[case::attached_but_left(by(|s| {
    add_dormant(s);
    disk(s, 3).state = "in-use".to_owned();
    patch(&mut s.spec, json!({"dormantClaims": "Leave"}));
}), &[])]
fn a_dormant_disk_is_free_names_what_fails(#[case] edit: Edit, #[case] expected: &[&str]) {
    assert_found(VolumeState, edit, expected);
}

fn condition(type_: &str, status: &str) -> Value {
    json!({"status": {"conditions": [{"type": type_, "status": status}]}})
}

fn modify(survey: &mut Survey, state: &str) {
    read(&mut survey.ec2.modifications).insert(volume_id(1), state.to_owned());
}

#[rstest]
#[case::resizing(by(|s| patch(claim(s, 1), condition("Resizing", "True"))), &[
    "PersistentVolumeClaim shop/data-web-1 of the source: found condition Resizing, need no resize in progress"])]
#[case::file_system(by(|s| patch(claim(s, 1), condition("FileSystemResizePending", "True"))), &[
    "PersistentVolumeClaim shop/data-web-1 of the source: found condition FileSystemResizePending, need no resize \
     in progress"])]
#[case::over(by(|s| patch(claim(s, 1), condition("Resizing", "False"))), &[])]
#[case::not_begun(by(|s| patch(claim(s, 1), json!({"spec": {"resources": {"requests": {"storage": "9Gi"}}}}))), &[
    "PersistentVolumeClaim shop/data-web-1 of the source: found a request of 9Gi over 8Gi, need no resize in \
     progress"])]
#[case::modifying(by(|s| modify(s, "modifying")), &[
    "EBS volume vol-00000001 of claim data-web-1: found a modification in state modifying, need none in progress"])]
#[case::optimizing(by(|s| modify(s, "optimizing")), &[
    "EBS volume vol-00000001 of claim data-web-1: found a modification in state optimizing, need none in \
     progress"])]
#[case::modified(by(|s| modify(s, "completed")), &[])]
#[case::too_small(by(|s| disk(s, 1).size_gib = 7), &[
    "EBS volume vol-00000001 of claim data-web-1: found 7Gi, need at least 8Gi, the capacity of its \
     PersistentVolume"])]
#[case::larger(by(|s| disk(s, 1).size_gib = 9), &[])]
fn resize_names_what_fails(#[case] edit: Edit, #[case] expected: &[&str]) {
    assert_found(Resize, edit, expected);
}

#[test]
fn denied_modifications_are_information() {
    let mut survey = survey();
    survey.ec2.modifications = Reading::Denied("UnauthorizedOperation".to_owned());
    let results = check(&survey);
    let resize = results
        .iter()
        .find(|result| result.finding.id == Resize)
        .unwrap();
    assert_eq!(resize.finding.severity, api::migrate::Severity::Info);
}

fn encrypt(survey: &mut Survey, ordinal: usize) {
    disk(survey, ordinal).is_encrypted = true;
    disk(survey, ordinal).kms_key = Some("key-1".to_owned());
}

#[rstest]
#[case::unproven(by(|s| (0..2).for_each(|ordinal| encrypt(s, ordinal))), &[
    "EBS volume vol-00000000 of claim data-web-0: found KMS key key-1, need a volume with the same key on an \
     instance of the destination",
    "EBS volume vol-00000001 of claim data-web-1: found KMS key key-1, need a volume with the same key on an \
     instance of the destination"])]
#[case::used_there(by(|s| {
    encrypt(s, 0);
    read(&mut s.ec2.at_destination)[0].kms_key = Some("key-1".to_owned());
}), &[])]
#[case::another_key_there(by(|s| {
    encrypt(s, 0);
    read(&mut s.ec2.at_destination)[0].kms_key = Some("key-2".to_owned());
}), &["EBS volume vol-00000000 of claim data-web-0: found KMS key key-1, need a volume with the same key on an \
      instance of the destination"])]
fn kms_key_names_what_fails(#[case] edit: Edit, #[case] expected: &[&str]) {
    assert_found(KmsKey, edit, expected);
}

fn tag(survey: &mut Survey, key: &str, value: &str) {
    disk(survey, 1)
        .tags
        .insert(key.to_owned(), value.to_owned());
}

#[rstest]
#[case::no_tag(by(|s| disk(s, 1).tags.clear()), &[
    "EBS volume vol-00000001 of claim data-web-1: found neither tag ebs.csi.aws.com/cluster=true nor \
     kubernetes.io/created-for/pvc/name, need one, or the driver's IAM policy may not cover the volume"])]
#[case::another_value(by(|s| tag(s, "ebs.csi.aws.com/cluster", "false")), &[
    "EBS volume vol-00000001 of claim data-web-1: found neither tag ebs.csi.aws.com/cluster=true nor \
     kubernetes.io/created-for/pvc/name, need one, or the driver's IAM policy may not cover the volume"])]
#[case::name_of_a_claim(by(|s| {
    disk(s, 1).tags.clear();
    tag(s, "kubernetes.io/created-for/pvc/name", "data-web-1");
}), &[])]
#[case::name_of_a_cluster(by(|s| tag(s, "ebs.csi.aws.com/cluster-name", "a")), &[
    "EBS volume vol-00000001 of claim data-web-1: found tag ebs.csi.aws.com/cluster-name=a, need no cluster's \
     name, or fence.sourceClusterName and fence.destClusterName"])]
#[case::cluster_in_the_key(by(|s| tag(s, "kubernetes.io/cluster/a", "owned")), &[
    "EBS volume vol-00000001 of claim data-web-1: found tag kubernetes.io/cluster/a=owned, need no cluster's \
     name, or fence.sourceClusterName and fence.destClusterName"])]
#[case::with_fence_names(by(|s| {
    tag(s, "ebs.csi.aws.com/cluster-name", "a");
    patch(&mut s.spec, json!({"fence": {"sourceClusterName": "a", "destClusterName": "b"}}));
}), &[])]
fn volume_tags_names_what_fails(#[case] edit: Edit, #[case] expected: &[&str]) {
    assert_found(VolumeTags, edit, expected);
}
