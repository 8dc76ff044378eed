//! Kubeconfig, Permissions, ClusterIdentity, Lock, Namespaces, Ec2Access, DestAccount.

use rstest::rstest;
use serde_json::{Value, json};

use super::*;
use crate::preflight::access::{Access, Ec2Call};
use crate::preflight::survey::LockHolder;

#[rstest]
#[case::no_secret(by(|s| s.source.kubeconfig = Read(KubeconfigState::NoSecret)), &[
    "kubeconfig of the source in Secret ops/src: found no Secret of this name, need an https server, its CA \
     and a token or client certificate, all inline"])]
#[case::no_key(by(|s| s.source.kubeconfig = Read(KubeconfigState::NoKey)), &[
    "kubeconfig of the source in Secret ops/src: found no key kubeconfig, need an https server, its CA \
     and a token or client certificate, all inline"])]
#[case::both_refused(by(|s| {
    let refused = KubeconfigState::Refused("users[0].user.exec is refused".to_owned());
    s.source.kubeconfig = Read(refused.clone());
    s.destination.kubeconfig = Read(refused);
}), &["kubeconfig of the source in Secret ops/src, kubeconfig of the destination in Secret ops/dst: found \
      users[0].user.exec is refused, need an https server, its CA and a token or client certificate, all inline"])]
fn kubeconfig_names_what_fails(#[case] edit: Edit, #[case] expected: &[&str]) {
    assert_found(Kubeconfig, edit, expected);
}

#[rstest]
#[case::one_verb(by(|s| {
    read(&mut s.source.allowed).retain(|access| (access.resource, access.verb) != ("statefulsets", "patch"));
}), &["login of the source: found no permission to patch statefulsets.apps in namespace shop, need all of these"])]
#[case::of_the_cluster(by(|s| {
    read(&mut s.destination.allowed).retain(|access| (access.resource, access.verb) != ("nodes", "list"));
}), &["login of the destination: found no permission to list nodes, need all of these"])]
#[case::another_namespace(by(|s| {
    let allowed = read(&mut s.source.allowed);
    let deletes = |access: &Access| (access.resource, access.verb) == ("pods", "delete");
    let mut delete = allowed.iter().find(|access| deletes(access)).unwrap().clone();
    allowed.retain(|access| !deletes(access));
    delete.namespace = Some("other".to_owned());
    allowed.insert(delete);
}), &["login of the source: found no permission to delete pods in namespace shop, need all of these"])]
fn permissions_names_what_fails(#[case] edit: Edit, #[case] expected: &[&str]) {
    assert_found(Permissions, edit, expected);
}

#[test]
fn secrets_and_config_maps_are_never_listed() {
    for side in Side::BOTH {
        let by_name = needed(side, "shop").into_iter();
        let mut by_name = by_name.filter(|one| matches!(one.resource, "secrets" | "configmaps"));
        assert!(
            by_name.all(|one| !matches!(one.verb, "list" | "watch") && one.namespace.is_some())
        );
    }
}

#[test]
fn only_the_source_stores_a_capture() {
    let changes = |side| {
        let needed = needed(side, "shop").into_iter();
        needed
            .filter(|one| one.resource == "secrets" && one.verb != "get")
            .count()
    };
    assert_eq!((changes(Side::Source), changes(Side::Destination)), (2, 0));
}

#[rstest]
#[case::one_cluster(by(|s| s.destination.uid = s.source.uid.clone()), &[
    "source and destination cluster: found one cluster, kube-system UID src-uid, need two clusters"])]
#[case::the_pinned_one(by(|s| s.source.pinned_uid = Some("src-uid".to_owned())), &[])]
#[case::another_than_pinned(by(|s| s.destination.pinned_uid = Some("old-uid".to_owned())), &[
    "destination cluster: found kube-system UID dst-uid, need old-uid"])]
fn cluster_identity_names_what_fails(#[case] edit: Edit, #[case] expected: &[&str]) {
    assert_found(ClusterIdentity, edit, expected);
}

fn holder(run: &str, is_released: bool) -> Reading<Option<LockHolder>> {
    Read(Some(LockHolder {
        run: run.to_owned(),
        migration: "team/first".to_owned(),
        cluster: "mgmt".to_owned(),
        is_released,
    }))
}

#[rstest]
#[case::our_own(by(|s| s.source.lock = holder(RUN, false)), &[])]
#[case::another_run(by(|s| s.source.lock = holder(OTHER_RUN, false)), &[
    "ConfigMap shop/stsm-web of the source: found the lock of migration team/first (run other-run, management \
     cluster mgmt), active, need no lock of another run"])]
#[case::a_released_lock(by(|s| s.destination.lock = holder(OTHER_RUN, true)), &[
    "ConfigMap store/stsm-web of the destination: found the lock of migration team/first (run other-run, \
     management cluster mgmt), released, but still there, need no lock of another run"])]
#[case::our_marker(by(|s| mark(s, RUN)), &[])]
#[case::another_marker(by(|s| mark(s, OTHER_RUN)), &[
    "StatefulSet shop/web of the source: found the marker of run other-run, need no marker of another run"])]
#[case::a_set_that_arrived(by(|s| {
    mark(s, OTHER_RUN);
    patch(set(s), json!({"metadata": {"annotations": {"migration.aqua.io/migrated-from": "shop/web"}}}));
}), &[])]
#[case::a_marked_volume(by(|s| patch(volume(s, 1), marked(OTHER_RUN))), &[
    "PersistentVolume pv-1 of the source: found the marker of run other-run, need no marker of another run"])]
#[case::a_volume_that_arrived(by(|s| {
    patch(volume(s, 1), marked(OTHER_RUN));
    patch(volume(s, 1), json!({"metadata": {"labels": {"migration.aqua.io/migrated": "true"}}}));
}), &[])]
fn lock_names_what_fails(#[case] edit: Edit, #[case] expected: &[&str]) {
    assert_found(Lock, edit, expected);
}

fn marked(run: &str) -> Value {
    json!({"metadata": {"annotations": {"migration.aqua.io/run": run}}})
}

fn mark(survey: &mut Survey, run: &str) {
    patch(set(survey), marked(run));
}

#[rstest]
#[case::missing(by(|s| s.destination.namespace = Read(None)), &[
    "Namespace store of the destination: found none, need an active one"])]
#[case::terminating(by(|s| {
    let namespace = read(&mut s.source.namespace).as_mut().unwrap();
    patch(namespace, json!({"status": {"phase": "Terminating"}}));
}), &["Namespace shop of the source: found phase Terminating, need phase Active"])]
#[case::just_deleted(by(|s| {
    let namespace = read(&mut s.source.namespace).as_mut().unwrap();
    patch(namespace, json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}));
}), &["Namespace shop of the source: found phase Terminating, need phase Active"])]
fn namespaces_names_what_fails(#[case] edit: Edit, #[case] expected: &[&str]) {
    assert_found(Namespaces, edit, expected);
}

fn with(survey: &mut Survey, spec: Value) {
    patch(&mut survey.spec, spec);
}

fn fence() -> Value {
    json!({"fence": {"sourceClusterName": "a", "destClusterName": "b"}})
}

#[rstest]
#[case::no_describe(by(|s| s.ec2.allowed = Read(BTreeSet::new())), &[
    "credentials for EC2: found no permission for ec2:DescribeVolumes, need all of these"])]
#[case::snapshots(by(|s| with(s, json!({"snapshots": {"when": "AfterDetach"}}))), &[
    "credentials for EC2: found no permission for ec2:CreateSnapshot, ec2:DescribeSnapshots, ec2:CreateTags, \
     need all of these"])]
#[case::fence_names(by(|s| with(s, fence())), &[
    "credentials for EC2: found no permission for ec2:CreateTags, ec2:DeleteTags, need all of these"])]
#[case::allowed_fence_names(by(|s| {
    with(s, fence());
    read(&mut s.ec2.allowed).extend([Ec2Call::CreateTags, Ec2Call::DeleteTags]);
}), &[])]
fn ec2_access_names_what_fails(#[case] edit: Edit, #[case] expected: &[&str]) {
    assert_found(Ec2Access, edit, expected);
}

#[rstest]
#[case::another_account(by(|s| s.ec2.at_destination = Read(Vec::new())), &[
    "node dst-a of the destination (i-dsta), node dst-b of the destination (i-dstb): found no root disk in EC2, \
     need an instance in the account and region of the EBS volumes"])]
#[case::one_node_of_another_account(by(|s| { read(&mut s.ec2.at_destination).pop(); }), &[
    "node dst-b of the destination (i-dstb): found no root disk in EC2, need an instance in the account and \
     region of the EBS volumes"])]
#[case::another_region(by(|s| {
    let labels = json!({"metadata": {"labels": {"topology.kubernetes.io/region": "us-east-1"}}});
    patch(node(&mut s.destination, 0), labels);
}), &["node dst-a of the destination (i-dsta): found region us-east-1, need region eu-west-1"])]
#[case::a_node_without_instance(by(|s| {
    patch(node(&mut s.destination, 0), json!({"spec": {"providerID": "aws:///eu-west-1a/fargate-1"}}));
}), &[])]
#[case::no_instance_at_all(by(|s| {
    for index in [0, 1] {
        patch(node(&mut s.destination, index), json!({"spec": {"providerID": "kind://x"}}));
    }
}), &["nodes of the destination: found none with the providerID of an EC2 instance, need an instance in the \
      account and region of the EBS volumes"])]
fn dest_account_names_what_fails(#[case] edit: Edit, #[case] expected: &[&str]) {
    assert_found(DestAccount, edit, expected);
}
