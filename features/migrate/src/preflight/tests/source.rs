//! SourceStatefulSet, Ordinals, Rollout, Health, DisruptionBudget, DestPDB, AppSpan, SlowStart, Policies, Backups.

use rstest::rstest;
use serde_json::{Value, json};

use super::*;
use crate::preflight::survey::Snapshot;

#[rstest]
#[case::missing(by(|s| s.source.set = Read(None)), &[
    "StatefulSet shop/web of the source: found none, need one to move"])]
#[case::being_deleted(by(|s| patch(set(s), json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}))), &[
    "StatefulSet shop/web of the source: found it is being deleted, need one that stays"])]
#[case::not_observed(by(|s| patch(set(s), json!({"metadata": {"generation": 5}}))), &[
    "StatefulSet shop/web of the source: found observedGeneration 4, need 5"])]
#[case::never_observed(by(|s| patch(set(s), json!({"status": {"observedGeneration": null}}))), &[
    "StatefulSet shop/web of the source: found observedGeneration 0, need 4"])]
fn source_stateful_set_names_what_fails(#[case] edit: Edit, #[case] expected: &[&str]) {
    assert_found(SourceStatefulSet, edit, expected);
}

fn strategy(survey: &mut Survey, strategy: &str) {
    patch(&mut survey.spec, json!({"strategy": strategy}));
}

fn start(survey: &mut Survey) {
    patch(set(survey), json!({"spec": {"ordinals": {"start": 5}}}));
}

#[rstest]
#[case::window_without_ordinals(by(|s| {
    strategy(s, "Window");
    s.source.ordinals = Read(OrdinalsSupport::Dropped);
}), &["API server of the source: found a dry run whose answer lacks spec.ordinals.start, need a server that \
      accepts spec.ordinals.start of StatefulSets"])]
#[case::window_refused(by(|s| {
    strategy(s, "Window");
    s.source.ordinals = Read(OrdinalsSupport::Refused("webhook x".to_owned()));
}), &["API server of the source: found a refused dry run (webhook x), need a server that accepts \
      spec.ordinals.start of StatefulSets"])]
#[case::orphan_adopt_needs_none(by(|s| {
    strategy(s, "OrphanAdopt");
    s.source.ordinals = Read(OrdinalsSupport::Dropped);
}), &[])]
#[case::unset_needs_none(by(|s| s.source.ordinals = Read(OrdinalsSupport::Dropped)), &[])]
#[case::unset_needs_an_answer(by(|s| s.source.ordinals = Reading::Denied("no".to_owned())), &[
    "API server of the source: found access denied (no), need an answer to judge Ordinals"])]
#[case::from_0_the_destination_needs_none(by(|s| s.destination.ordinals = Read(OrdinalsSupport::Dropped)), &[])]
#[case::from_5_the_destination_needs_them(by(|s| {
    start(s);
    strategy(s, "OrphanAdopt");
    s.destination.ordinals = Read(OrdinalsSupport::Dropped);
}), &["API server of the destination: found a dry run whose answer lacks spec.ordinals.start, need a server \
      that accepts spec.ordinals.start of StatefulSets"])]
fn ordinals_names_what_fails(#[case] edit: Edit, #[case] expected: &[&str]) {
    assert_found(Ordinals, edit, expected);
}

#[rstest] //                      spec                       the source's server        chosen
#[case::with_ordinals(None, OrdinalsSupport::Echoed, api::migrate::Strategy::Window)]
#[case::without_ordinals(None, OrdinalsSupport::Dropped, api::migrate::Strategy::OrphanAdopt)]
#[case::as_the_spec_says(
    Some("OrphanAdopt"),
    OrdinalsSupport::Echoed,
    api::migrate::Strategy::OrphanAdopt
)]
#[case::also_if_it_fails(
    Some("Window"),
    OrdinalsSupport::Dropped,
    api::migrate::Strategy::Window
)]
fn a_strategy_is_chosen(
    #[case] spec: Option<&str>,
    #[case] support: OrdinalsSupport,
    #[case] expected: api::migrate::Strategy,
) {
    let mut survey = survey();
    if let Some(spec) = spec {
        strategy(&mut survey, spec);
    }
    survey.source.ordinals = Read(support);
    assert_eq!(chosen_strategy(&survey), Ok(expected));
}

#[rstest]
#[case::in_flight(by(|s| patch(set(s), json!({"status": {"updateRevision": "web-r2"}}))), &[
    "StatefulSet shop/web of the source: found revision web-r1, need updateRevision web-r2"])]
#[case::a_pod_of_another_revision(by(|s| patch(pod(s, 1), json!(
    {"metadata": {"labels": {"controller-revision-hash": "web-r0"}}}))), &[
    "Pod shop/web-1 of the source: found revision web-r0, need revision web-r1"])]
#[case::a_pod_without_revision(by(|s| patch(pod(s, 1), json!(
    {"metadata": {"labels": {"controller-revision-hash": null}}}))), &[
    "Pod shop/web-1 of the source: found revision none, need revision web-r1"])]
fn rollout_names_what_fails(#[case] edit: Edit, #[case] expected: &[&str]) {
    assert_found(Rollout, edit, expected);
}

fn unready() -> Value {
    json!({"status": {"conditions": [{"type": "Ready", "status": "False"}]}})
}

#[rstest]
#[case::unready(by(|s| patch(pod(s, 1), unready())), &[
    "Pod shop/web-1 of the source: found condition Ready is not True, need a Ready pod on a Ready node"])]
#[case::missing(by(|s| { read(&mut s.source.pods).remove(1); }), &[
    "Pod shop/web-1 of the source: found none, need a Ready pod on a Ready node"])]
#[case::being_deleted(by(|s| patch(pod(s, 1), json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}))), &[
    "Pod shop/web-1 of the source: found it is being deleted, need a Ready pod on a Ready node"])]
#[case::an_unready_node(by(|s| patch(node(&mut s.source, 1), unready())), &[
    "Pod shop/web-1 of the source: found node src-b, which is not Ready, need a Ready pod on a Ready node"])]
#[case::a_lost_node(by(|s| { read(&mut s.source.nodes).remove(1); }), &[
    "Pod shop/web-1 of the source: found node src-b, which does not exist, need a Ready pod on a Ready node"])]
#[case::a_foreign_pod(by(|s| patch(pod(s, 1), json!({"metadata": {"ownerReferences": []}}))), &[
    "Pod shop/web-1 of the source: found a pod that this StatefulSet does not control, need its own pod"])]
#[case::an_unready_pod_of_others(by(|s| {
    let mut other = pod(s, 0).clone();
    patch(&mut other, json!({"metadata": {"name": "db-0"}}));
    patch(&mut other, unready());
    read(&mut s.source.pods).push(other);
}), &[])]
#[case::each_ordinal_alone(by(|s| (0..2).for_each(|ordinal| patch(pod(s, ordinal), unready()))), &[
    "Pod shop/web-0 of the source: found condition Ready is not True, need a Ready pod on a Ready node",
    "Pod shop/web-1 of the source: found condition Ready is not True, need a Ready pod on a Ready node"])]
fn health_names_what_fails(#[case] edit: Edit, #[case] expected: &[&str]) {
    assert_found(Health, edit, expected);
}

fn budget(survey: &mut Survey, side: Side, minimum: i32) {
    let budgets = match side {
        Side::Source => &mut survey.source.budgets,
        Side::Destination => &mut survey.destination.budgets,
    };
    read(budgets).push(object(json!({"metadata": {"name": "pdb"}, "spec": {
        "minAvailable": minimum, "selector": {"matchLabels": {"app": "web"}}}})));
}

#[rstest]
#[case::with_room(by(|s| budget(s, Side::Source, 2)), &[])]
#[case::exhausted_at_the_source(by(|s| budget(s, Side::Source, 3)), &[
    "PodDisruptionBudget shop/pdb of the source: found 3 healthy pods in both clusters, need 3 healthy while \
     one more is down"])]
#[case::exhausted_at_the_destination(by(|s| budget(s, Side::Destination, 3)), &[
    "PodDisruptionBudget store/pdb of the destination: found 3 healthy pods in both clusters, need 3 healthy \
     while one more is down"])]
#[case::an_unready_pod_uses_the_room(by(|s| {
    budget(s, Side::Source, 2);
    patch(pod(s, 0), unready());
}), &["PodDisruptionBudget shop/pdb of the source: found 2 healthy pods in both clusters, need 2 healthy while \
      one more is down"])]
#[case::no_pod_at_all(by(|s| {
    budget(s, Side::Source, 3);
    patch(set(s), json!({"spec": {"replicas": 0}}));
}), &[])]
fn disruption_budget_names_what_fails(#[case] edit: Edit, #[case] expected: &[&str]) {
    assert_found(DisruptionBudget, edit, expected);
}

#[rstest]
#[case::missing(by(|s| budget(s, Side::Source, 2)), &[
    "PodDisruptionBudget shop/pdb of the source: found none for the pods at the destination, need one there too"])]
#[case::on_both_sides(by(|s| Side::BOTH.into_iter().for_each(|side| budget(s, side, 2))), &[])]
fn dest_pdb_names_what_fails(#[case] edit: Edit, #[case] expected: &[&str]) {
    assert_found(DestPdb, edit, expected);
}

#[rstest]
#[case::several(by(|_| {}), &[
    "StatefulSet shop/web of the source: found 3 pods that may find each other by Service web, need names that \
     resolve in both clusters, or pods that do without their peers"])]
#[case::one_pod(by(|s| patch(set(s), json!({"spec": {"replicas": 1}}))), &[])]
#[case::no_service(by(|s| patch(set(s), json!({"spec": {"serviceName": ""}}))), &[])]
fn app_span_names_what_fails(#[case] edit: Edit, #[case] expected: &[&str]) {
    assert_found(AppSpan, edit, expected);
}

#[rstest]
#[case::every_file(by(|s| template(s, json!({"securityContext": {"fsGroup": 1}}))), &[
    "StatefulSet shop/web of the source: found fsGroup with fsGroupChangePolicy Always, need OnRootMismatch, or \
     the start changes the group of every file"])]
#[case::on_mismatch(by(|s| template(s, json!(
    {"securityContext": {"fsGroup": 1, "fsGroupChangePolicy": "OnRootMismatch"}}))), &[])]
#[case::no_group(by(|s| template(s, json!({"securityContext": {"runAsUser": 1}}))), &[])]
fn slow_start_names_what_fails(#[case] edit: Edit, #[case] expected: &[&str]) {
    assert_found(SlowStart, edit, expected);
}

#[rstest]
#[case::retention(by(|s| patch(set(s), json!({"spec": {"persistentVolumeClaimRetentionPolicy":
    {"whenDeleted": "Delete", "whenScaled": "Retain"}}}))), &[
    "StatefulSet shop/web of the source: found persistentVolumeClaimRetentionPolicy.whenDeleted Delete, need \
     Retain, which the run sets until it ends"])]
#[case::reclaim(by(|s| patch(volume(s, 2), json!({"spec": {"persistentVolumeReclaimPolicy": "Delete"}}))), &[
    "PersistentVolume pv-2 of the source: found reclaim policy Delete, need Retain, which the run sets on both \
     sides"])]
fn policies_names_what_fails(#[case] edit: Edit, #[case] expected: &[&str]) {
    assert_found(Policies, edit, expected);
}

fn snapshot(survey: &mut Survey, claim: &str) {
    read(&mut survey.snapshots).push(Snapshot {
        name: "nightly".to_owned(),
        claim: claim.to_owned(),
    });
}

#[rstest]
#[case::of_the_set(by(|s| snapshot(s, "data-web-1")), &[
    "PersistentVolumeClaim shop/data-web-1 of the source: found VolumeSnapshot nightly, which does not move, need \
     backups at the destination"])]
#[case::of_others(by(|s| snapshot(s, "data-db-1")), &[])]
fn backups_names_what_fails(#[case] edit: Edit, #[case] expected: &[&str]) {
    assert_found(Backups, edit, expected);
}
