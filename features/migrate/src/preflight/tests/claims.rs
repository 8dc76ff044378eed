//! ClaimSet, ForeignConsumer, ExtraVolumes, DormantClaims.

use rstest::rstest;
use serde_json::{Value, json};

use super::*;

fn deleted() -> Value {
    json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}})
}

#[rstest]
#[case::missing(by(|s| { read(&mut s.source.claims).remove(1); }), &[
    "PersistentVolumeClaim shop/data-web-1 of the source: found none, need a claim that is Bound"])]
#[case::pending(by(|s| patch(claim(s, 1), json!({"status": {"phase": "Pending"}}))), &[
    "PersistentVolumeClaim shop/data-web-1 of the source: found phase Pending, need phase Bound"])]
#[case::without_its_volume(by(|s| { read(&mut s.source.volumes).remove(1); }), &[
    "PersistentVolumeClaim shop/data-web-1 of the source: found PersistentVolume \"pv-1\", which does not exist, \
     need its PersistentVolume"])]
#[case::a_volume_of_another_claim(by(|s| patch(volume(s, 1), json!({"spec": {"claimRef": {"uid": "old"}}}))), &[
    "PersistentVolume pv-1 of the source: found claimRef.uid old, need the UID of the claim that names it"])]
#[case::a_volume_of_no_claim(by(|s| patch(volume(s, 1), json!({"spec": {"claimRef": null}}))), &[
    "PersistentVolume pv-1 of the source: found claimRef.uid none, need the UID of the claim that names it"])]
#[case::two_volumes_of_one_disk(by(|s| {
    let mut second = web_volume(1);
    patch(&mut second, json!({"metadata": {"name": "pv-x"}}));
    read(&mut s.source.volumes).push(second);
}), &["PersistentVolume pv-1 of the source: found its EBS volume also in pv-1, pv-x, need one PersistentVolume \
      for each EBS volume"])]
#[case::a_claim_being_deleted(by(|s| patch(claim(s, 1), deleted())), &[
    "PersistentVolumeClaim shop/data-web-1 of the source: found it is being deleted, need one that stays"])]
#[case::a_volume_being_deleted(by(|s| patch(volume(s, 1), deleted())), &[
    "PersistentVolume pv-1 of the source: found it is being deleted, need one that stays"])]
#[case::a_foreign_finalizer(by(|s| patch(claim(s, 1), json!({"metadata": {"finalizers":
    ["kubernetes.io/pvc-protection", "example.org/backup"]}}))), &[
    "PersistentVolumeClaim shop/data-web-1 of the source: found finalizer example.org/backup, need those of \
     Kubernetes and the EBS driver only"])]
#[case::all_at_once(by(|s| (0..2).for_each(|i| patch(claim(s, i), deleted()))), &[
    "PersistentVolumeClaim shop/data-web-0 of the source, PersistentVolumeClaim shop/data-web-1 of the source: \
     found it is being deleted, need one that stays"])]
#[case::a_second_template(by(|s| patch(set(s), json!({"spec": {"replicas": 1, "volumeClaimTemplates": [
    {"metadata": {"name": "data"}}, {"metadata": {"name": "logs"}}]}}))), &[
    "PersistentVolumeClaim shop/logs-web-0 of the source: found none, need a claim that is Bound"])]
#[case::a_window_from_5(by(|s| patch(set(s), json!({"spec": {"replicas": 1, "ordinals": {"start": 5}}}))), &[
    "PersistentVolumeClaim shop/data-web-5 of the source: found none, need a claim that is Bound"])]
#[case::a_dormant_claim_moves_too(by(|s| {
    add_dormant(s);
    patch(claim(s, 3), deleted());
}), &["PersistentVolumeClaim shop/data-web-3 of the source: found it is being deleted, need one that stays"])]
#[case::a_dormant_claim_that_stays(by(|s| {
    add_dormant(s);
    patch(claim(s, 3), deleted());
    patch(&mut s.spec, json!({"dormantClaims": "Leave"}));
}), &[])]
#[case::claims_of_others(by(|s| {
    let mut other = web_claim(0);
    patch(&mut other, json!({"metadata": {"name": "data-webs-0"}, "status": {"phase": "Pending"}}));
    read(&mut s.source.claims).push(other);
}), &[])]
fn claim_set_names_what_fails(#[case] edit: Edit, #[case] expected: &[&str]) {
    assert_found(ClaimSet, edit, expected);
}

fn consumer(survey: &mut Survey, name: &str, change: Value) {
    let mut consumer = pod(survey, 1).clone();
    patch(
        &mut consumer,
        json!({"metadata": {"name": name, "ownerReferences": null}}),
    );
    patch(&mut consumer, change);
    read(&mut survey.source.pods).push(consumer);
}

const CONSUMED: &str = "PersistentVolumeClaim shop/data-web-1 of the source: found Pod job uses it, need no \
                        consumer but the StatefulSet's own pod";

#[rstest]
#[case::another_pod(by(|s| consumer(s, "job", json!({}))), &[CONSUMED])]
#[case::one_that_ended(by(|s| consumer(s, "job", json!({"status": {"phase": "Succeeded"}}))), &[CONSUMED])]
#[case::another_claim(by(|s| consumer(s, "job", json!({"spec": {"volumes": [
    {"name": "v", "persistentVolumeClaim": {"claimName": "other"}}]}}))), &[])]
#[case::an_ephemeral_claim(by(|s| consumer(s, "data", json!({"spec": {"volumes": [
    {"name": "web-1", "ephemeral": {}}]}}))), &[
    "PersistentVolumeClaim shop/data-web-1 of the source: found Pod data uses it, need no consumer but the \
     StatefulSet's own pod"])]
#[case::a_pod_of_another_ordinal(by(|s| patch(pod(s, 2), json!({"spec": {"volumes": [
    {"name": "v", "persistentVolumeClaim": {"claimName": "data-web-1"}}]}}))), &[
    "PersistentVolumeClaim shop/data-web-1 of the source: found Pod web-2 uses it, need no consumer but the \
     StatefulSet's own pod"])]
#[case::a_pod_with_a_dormant_claim(by(|s| {
    add_dormant(s);
    consumer(s, "job", json!({"spec": {"volumes": [
        {"name": "v", "persistentVolumeClaim": {"claimName": "data-web-3"}}]}}));
}), &["PersistentVolumeClaim shop/data-web-3 of the source: found Pod job uses it, need no consumer but the \
      StatefulSet's own pod"])]
fn foreign_consumer_names_what_fails(#[case] edit: Edit, #[case] expected: &[&str]) {
    assert_found(ForeignConsumer, edit, expected);
}

#[rstest]
#[case::a_claim(json!({"persistentVolumeClaim": {"claimName": "shared"}}), Some("claim shared, which does not move"))]
#[case::an_ephemeral_claim(json!({"ephemeral": {}}), Some("an ephemeral claim, whose data does not move"))]
#[case::host_path(json!({"hostPath": {"path": "/data"}}), Some("hostPath /data, whose data does not move"))]
#[case::an_ebs_volume(json!({"awsElasticBlockStore": {"volumeID": "vol-1"}}), Some("EBS volume vol-1 without a claim"))]
#[case::empty_dir(json!({"emptyDir": {}}), Some("emptyDir, which starts empty"))]
#[case::memory(json!({"emptyDir": {"medium": "Memory"}}), None)]
#[case::config_map(json!({"configMap": {"name": "c"}}), None)]
fn extra_volumes(#[case] source: Value, #[case] found: Option<&str>) {
    let mut survey = survey();
    let mut extra = source;
    extra["name"] = json!("extra");
    template(&mut survey, json!({"volumes": [extra]}));
    let expected = found.map(|found| {
        format!(
            "volume extra of StatefulSet shop/web of the source: found {found}, need data in \
             volumeClaimTemplates only"
        )
    });
    assert_eq!(messages(&survey, ExtraVolumes), Vec::from_iter(expected));
}

#[test]
fn a_volume_named_like_a_template_is_no_extra_volume() {
    let mut survey = survey();
    let shadowed = json!({"name": "data", "hostPath": {"path": "/"}});
    template(&mut survey, json!({"volumes": [shadowed]}));
    assert_eq!(messages(&survey, ExtraVolumes), Vec::<String>::new());
}

#[rstest]
#[case::moved("Move", &[])]
#[case::left("Leave", &[])]
#[case::refused("Refuse", &[
    "PersistentVolumeClaim shop/data-web-3 of the source: found an ordinal outside the window, and dormantClaims: \
     Refuse, need no such claim"])]
fn dormant_claims(#[case] policy: &str, #[case] expected: &[&str]) {
    let mut survey = survey();
    add_dormant(&mut survey);
    patch(&mut survey.spec, json!({"dormantClaims": policy}));
    assert_eq!(messages(&survey, DormantClaims), expected);
}

#[test]
fn no_dormant_claim_is_refused_where_there_is_none() {
    assert_found(
        DormantClaims,
        |s| patch(&mut s.spec, json!({"dormantClaims": "Refuse"})),
        &[],
    );
}
