//! Zone, AttachLimit and DestDriver, row by row.

use api::migrate::CheckId;
use rstest::rstest;
use serde_json::{Value, json};

use crate::preflight::reading::Reading::Read;
use crate::preflight::survey::Survey;
use crate::preflight::tests::{
    Edit, ZONE_A, assert_found, by, disk, node, object, patch, read, set, template, volume,
};

/// Changes the only node of the destination in zone b.
fn node_b(survey: &mut Survey, change: Value) {
    patch(node(&mut survey.destination, 1), change);
}

const ZONE_B: &str = "zone eu-west-1b of the destination (ordinals 1): found ";
const NEED: &str = ", need a Ready, schedulable node that fits the pod template";

fn misfit(reason: &str) -> String {
    format!("{ZONE_B}no node that fits: dst-b ({reason}){NEED}")
}

#[rstest]
#[case::no_node(by(|s| { read(&mut s.destination.nodes).remove(1); }), format!("{ZONE_B}no node{NEED}"))]
#[case::not_ready(by(|s| node_b(s, json!({"status": {"conditions": [{"type": "Ready", "status": "Unknown"}]}}))),
    misfit("not Ready"))]
#[case::cordoned(by(|s| node_b(s, json!({"spec": {"unschedulable": true}}))), misfit("unschedulable"))]
#[case::labels(by(|s| {
    template(s, json!({"nodeSelector": {"disk": "fast"}}));
    patch(node(&mut s.destination, 0), json!({"metadata": {"labels": {"disk": "fast"}}}));
}), misfit("labels do not match nodeSelector or node affinity"))]
#[case::taint(by(|s| node_b(s, json!({"spec": {"taints": [
    {"key": "dedicated", "value": "db", "effect": "NoSchedule"}]}}))), misfit("taint dedicated=db:NoSchedule"))]
#[case::too_small(by(|s| node_b(s, json!({"status": {"allocatable": {"cpu": "900m"}}}))),
    misfit("cpu 900m free of 1 requested"))]
#[case::full(by(|s| fill(s, "3500m")), misfit("cpu 500m free of 1 requested"))]
#[case::no_pod_more(by(|s| {
    fill(s, "100m");
    node_b(s, json!({"status": {"allocatable": {"pods": "1"}}}));
}), misfit("pods 0 free of 1 requested"))]
#[case::a_resource_it_lacks(by(|s| template(s, json!({"containers": [
    {"name": "c", "resources": {"requests": {"cpu": "1", "example.org/gpu": "1"}}}]}))),
    format!("zone eu-west-1a of the destination (ordinals 0, 2): found no node that fits: dst-a (example.org/gpu 0 \
             free of 1 requested){NEED}; {}", misfit("example.org/gpu 0 free of 1 requested")))]
fn a_zone_needs_a_node_that_fits(#[case] edit: Edit, #[case] expected: String) {
    assert_found(CheckId::Zone, edit, &[&expected]);
}

/// A pod of others that takes this much of the node in zone b.
fn fill(survey: &mut Survey, cpu: &str) {
    let containers = json!([{"name": "c", "resources": {"requests": {"cpu": cpu}}}]);
    let pod = json!({"metadata": {"name": "x", "namespace": "other"},
        "spec": {"nodeName": "dst-b", "containers": containers}});
    read(&mut survey.destination.pods).push(object(pod));
}

#[rstest]
#[case::room_beside_others(by(|s| fill(s, "3")))]
#[case::a_tolerated_taint(by(|s| {
    node_b(s, json!({"spec": {"taints": [{"key": "dedicated", "effect": "NoSchedule"}]}}));
    template(s, json!({"tolerations": [{"operator": "Exists"}]}));
}))]
#[case::another_node_in_the_zone(by(|s| {
    let mut second = node(&mut s.destination, 1).clone();
    patch(&mut second, json!({"metadata": {"name": "dst-c"}}));
    read(&mut s.destination.nodes).push(second);
    node_b(s, json!({"spec": {"unschedulable": true}}));
}))]
#[case::the_old_zone_label(by(|s| node_b(s, json!({"metadata": {"labels": {
    "topology.kubernetes.io/zone": null, "failure-domain.beta.kubernetes.io/zone": "eu-west-1b"}}}))))]
#[case::a_toleration_that_admission_adds(by(|s| {
    node_b(s, json!({"spec": {"taints": [{"key": "dedicated", "effect": "NoSchedule"}]}}));
    s.arrival.admitted_pod = Some(object(json!({"spec": {
        "containers": [], "tolerations": [{"operator": "Exists"}]}})));
}))]
#[case::no_pod_arrives(by(|s| {
    patch(set(s), json!({"spec": {"replicas": 0}}));
    read(&mut s.destination.nodes).clear();
}))]
fn a_zone_with_a_node_that_fits_passes(#[case] edit: Edit) {
    assert_found(CheckId::Zone, edit, &[]);
}

#[rstest]
#[case::affinity(by(|s| disk(s, 1).zone = ZONE_A.to_owned()), &[
    "EBS volume vol-00000001 of claim data-web-1: found zone eu-west-1b in nodeAffinity key \
     topology.kubernetes.io/zone, need eu-west-1a as EC2 shows"])]
#[case::in_tree_id(by(|s| patch(volume(s, 1), json!({"spec": {"csi": null, "awsElasticBlockStore":
    {"volumeID": "aws://eu-west-1a/vol-00000001"}}}))), &[
    "EBS volume vol-00000001 of claim data-web-1: found zone eu-west-1a in the in-tree volumeID, need eu-west-1b as \
     EC2 shows"])]
#[case::no_affinity(by(|s| patch(volume(s, 1), json!({"spec": {"nodeAffinity": null}}))), &[])]
fn a_volume_has_the_zone_of_ec2(#[case] edit: Edit, #[case] expected: &[&str]) {
    assert_found(CheckId::Zone, edit, expected);
}

/// Sets how many disks the node in zone a takes.
fn slots(survey: &mut Survey, count: Option<i32>) {
    let driver = &mut read(&mut survey.arrival.csi_nodes)[0].spec.drivers[0];
    driver.allocatable = Some(object(json!({ "count": count })));
}

fn attach(survey: &mut Survey, attacher: &str, node: &str) {
    read(&mut survey.arrival.attachments).push(object(json!({"metadata": {}, "spec": {
        "attacher": attacher, "nodeName": node, "source": {}}})));
}

const ZONE_A_FOUND: &str = "zone eu-west-1a of the destination (ordinals 0, 2): found ";

#[rstest]
#[case::just_enough(by(|s| slots(s, Some(2))), None)]
#[case::one_too_few(by(|s| slots(s, Some(1))),
    Some("1 free attachment slots, enough for 1 pods, need 1 on one node for each of 2 pods"))]
#[case::used_by_others(by(|s| { slots(s, Some(2)); attach(s, "ebs.csi.aws.com", "dst-a"); }),
    Some("1 free attachment slots, enough for 1 pods, need 1 on one node for each of 2 pods"))]
#[case::used_by_another_driver(by(|s| { slots(s, Some(2)); attach(s, "efs.csi.aws.com", "dst-a"); }), None)]
#[case::used_on_another_node(by(|s| { slots(s, Some(2)); attach(s, "ebs.csi.aws.com", "dst-b"); }), None)]
#[case::no_limit(by(|s| slots(s, None)), None)]
#[case::on_an_unschedulable_node(by(|s| patch(node(&mut s.destination, 0), json!({"spec": {"unschedulable": true}}))),
    Some("0 free attachment slots, enough for 0 pods, need 1 on one node for each of 2 pods"))]
#[case::no_driver(by(|s| { read(&mut s.arrival.csi_nodes).remove(0); }),
    Some("0 free attachment slots, enough for 0 pods, need 1 on one node for each of 2 pods"))]
#[case::disks_of_one_pod_share_a_node(by(|s| {
    slots(s, Some(3));
    patch(set(s), json!({"spec": {"volumeClaimTemplates": [
        {"metadata": {"name": "data"}}, {"metadata": {"name": "logs"}}]}}));
}), Some("3 free attachment slots, enough for 1 pods, need 2 on one node for each of 2 pods"))]
fn attach_limit(#[case] edit: Edit, #[case] found: Option<&str>) {
    let expected = found.map(|found| format!("{ZONE_A_FOUND}{found}"));
    let expected: Vec<&str> = expected.iter().map(String::as_str).collect();
    assert_found(CheckId::AttachLimit, edit, &expected);
}

#[rstest]
#[case::not_installed(by(|s| s.arrival.driver = Read(None)), &[
    "CSIDriver ebs.csi.aws.com of the destination: found none, need the EBS driver"])]
#[case::not_in_a_zone(by(|s| { read(&mut s.arrival.csi_nodes).remove(0); }), &[
    "zone eu-west-1a of the destination (ordinals 0, 2): found no CSINode with driver ebs.csi.aws.com, need one at \
     least"])]
#[case::another_driver_in_a_zone(
    by(|s| read(&mut s.arrival.csi_nodes)[0].spec.drivers[0].name = "efs.csi.aws.com".to_owned()), &[
    "zone eu-west-1a of the destination (ordinals 0, 2): found no CSINode with driver ebs.csi.aws.com, need one at \
     least"])]
fn dest_driver(#[case] edit: Edit, #[case] expected: &[&str]) {
    assert_found(CheckId::DestDriver, edit, expected);
}
