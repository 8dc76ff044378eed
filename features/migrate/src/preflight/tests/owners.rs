//! Owner and Autoscaler.

use api::migrate::Severity;
use rstest::rstest;
use serde_json::{Value, json};

use super::*;
use crate::preflight::survey::Autoscaler;

fn label(key: &str, value: &str) -> Value {
    json!({"metadata": {"labels": {key: value}}})
}

fn owner(kind: &str, uid: &str) -> Value {
    json!({"metadata": {"ownerReferences": [
        {"apiVersion": "v1", "kind": kind, "name": "x", "uid": uid, "controller": true}]}})
}

const SYNCED: &str = "need nobody who reverts changes while it moves";

fn of_set(found: &str) -> String {
    format!("StatefulSet shop/web of the source: found {found}, {SYNCED}")
}

#[rstest]
#[case::argo_label(by(|s| patch(set(s), label("argocd.argoproj.io/instance", "web"))), of_set("a mark of Argo CD"))]
#[case::flux_label(by(|s| patch(set(s), label("kustomize.toolkit.fluxcd.io/name", "web"))), of_set("a mark of Flux"))]
#[case::argo_by_its_field_manager(by(|s| patch(set(s), json!({"metadata": {
    "labels": {"app.kubernetes.io/instance": "web"},
    "managedFields": [{"manager": "argocd-controller"}]}}))), of_set("a mark of Argo CD"))]
#[case::a_controller(by(|s| patch(set(s), owner("Database", "db-uid"))), of_set("controller Database x"))]
#[case::both(by(|s| {
    patch(set(s), owner("Database", "db-uid"));
    patch(set(s), label("argocd.argoproj.io/instance", "web"));
}), format!("{}; {}", of_set("controller Database x"), of_set("a mark of Argo CD")))]
#[case::a_claim(by(|s| patch(claim(s, 1), label("argocd.argoproj.io/instance", "web"))), format!(
    "PersistentVolumeClaim shop/data-web-1 of the source: found a mark of Argo CD, {SYNCED}"))]
#[case::a_controller_of_a_claim(by(|s| patch(claim(s, 1), owner("Database", "db-uid"))), format!(
    "PersistentVolumeClaim shop/data-web-1 of the source: found controller Database x, {SYNCED}"))]
fn an_owner_blocks_and_is_named_names_what_fails(#[case] edit: Edit, #[case] expected: String) {
    let mut survey = survey();
    edit(&mut survey);
    assert_eq!(messages(&survey, Owner), [expected]);
}

#[rstest]
#[case::a_common_label(by(|s| patch(set(s), label("app.kubernetes.io/instance", "web"))))]
#[case::the_retention_policy(by(|s| patch(claim(s, 1), owner("StatefulSet", "set-uid"))))]
#[case::the_retention_policy_of_a_pod(by(|s| patch(claim(s, 1), owner("Pod", "pod-uid"))))]
#[case::an_owner_that_is_no_controller(by(|s| {
    patch(set(s), json!({"metadata": {"ownerReferences": [
        {"apiVersion": "v1", "kind": "App", "name": "x", "uid": "y"}]}}));
}))]
fn what_reverts_nothing_is_no_owner_names_what_fails(#[case] edit: Edit) {
    assert_found(Owner, edit, &[]);
}

#[test]
fn helm_is_information() {
    let mut survey = survey();
    patch(
        set(&mut survey),
        label("app.kubernetes.io/managed-by", "Helm"),
    );
    let results = check(&survey);
    let owner = results
        .iter()
        .find(|result| result.finding.id == Owner)
        .unwrap();
    assert_eq!(owner.finding.severity, Severity::Info);
    assert!(owner.finding.message.contains("a mark of Helm"));
}

fn autoscaler(kind: &'static str, target_kind: &str, target_name: &str) -> Autoscaler {
    Autoscaler {
        kind,
        name: "auto".to_owned(),
        target_kind: target_kind.to_owned(),
        target_name: target_name.to_owned(),
    }
}

#[rstest]
#[case::hpa("HorizontalPodAutoscaler")]
#[case::vpa("VerticalPodAutoscaler")]
#[case::keda("ScaledObject")]
fn an_autoscaler_of_the_set_blocks_and_is_named(#[case] kind: &'static str) {
    let mut survey = survey();
    read(&mut survey.source.autoscalers).push(autoscaler(kind, "StatefulSet", "web"));
    let expected = format!(
        "{kind} shop/auto of the source: found target StatefulSet web, need no autoscaler of it"
    );
    assert_eq!(messages(&survey, CheckId::Autoscaler), [expected]);
}

#[rstest]
#[case::of_another_set(by(|s| {
    read(&mut s.source.autoscalers).push(autoscaler("ScaledObject", "StatefulSet", "db"));
}), &[])]
#[case::of_a_deployment(by(|s| {
    read(&mut s.source.autoscalers).push(autoscaler("ScaledObject", "Deployment", "web"));
}), &[])]
#[case::at_the_destination(by(|s| {
    read(&mut s.destination.autoscalers).push(autoscaler("ScaledObject", "StatefulSet", "web"));
}), &["ScaledObject store/auto of the destination: found target StatefulSet web, need no autoscaler of it"])]
fn autoscalers_names_what_fails(#[case] edit: Edit, #[case] expected: &[&str]) {
    assert_found(CheckId::Autoscaler, edit, expected);
}
