//! The PodDisruptionBudget that does not allow the next pod to go down. Pure.

use std::collections::BTreeMap;

use api::migrate::{
    CheckId, Location, Phase, StatefulSetMigrationSpec, StatefulSetMigrationStatus,
};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use serde_json::Value;

use super::documents::{Documents, version};
use super::extract;
use crate::preflight::budget::{CountedPod, exhausted};

/// The first budget of either cluster that does not allow the next pod to go down, by the pods of both.
pub(super) fn exhausted_budget(
    spec: &StatefulSetMigrationSpec,
    record: &StatefulSetMigrationStatus,
    source: &Documents,
    destination: &Documents,
) -> Option<String> {
    if spec.acknowledges(CheckId::DisruptionBudget.as_str(), None) {
        return None;
    }
    let window = record.window?;
    let leaving = next_pod(spec, record)?;
    let labels = template_labels(source.set.as_ref().or(destination.set.as_ref())?);
    let orphans = record.orphan_started.then_some(&*spec.stateful_set_name);
    let pods = [
        counted_pods(source, orphans),
        counted_pods(destination, None),
    ];
    let pods: Vec<CountedPod> = pods.into_iter().flatten().collect();
    let replicas = usize::try_from(window.replicas).unwrap_or_default();
    let budgets = source.budgets.iter().chain(&destination.budgets);
    let budgets: Vec<PodDisruptionBudget> = budgets
        .filter_map(|budget| serde_json::from_value(budget.clone()).ok())
        .collect();
    let exhausted = exhausted(&budgets, &pods, &labels, replicas, &leaving);
    exhausted.into_iter().next().map(|one| one.budget)
}

/// The pod that leaves next: forward the lowest in the source, back the highest in the destination.
fn next_pod(
    spec: &StatefulSetMigrationSpec,
    record: &StatefulSetMigrationStatus,
) -> Option<String> {
    let window = record.window?;
    let of_window = record
        .ordinals
        .iter()
        .filter(|one| window.contains(one.ordinal));
    let ordinal = if record.phase == Some(Phase::RollingBack) {
        let mut there = of_window.filter(|one| one.location == Location::Destination);
        there.next_back()?.ordinal
    } else {
        let mut there = of_window.filter(|one| one.location == Location::Source);
        there.next()?.ordinal
    };
    Some(format!("{}-{ordinal}", spec.stateful_set_name))
}

fn template_labels(set: &Value) -> BTreeMap<String, String> {
    let labels = &set["spec"]["template"]["metadata"]["labels"];
    serde_json::from_value(labels.clone()).unwrap_or_default()
}

/// Without a StatefulSet, a pod without controller that is named like one of it is of it.
fn counted_pods(documents: &Documents, orphans: Option<&str>) -> Vec<CountedPod> {
    let is_named_so = |name: &str| {
        let ordinal = orphans.and_then(|set| name.strip_prefix(set)?.strip_prefix('-'));
        ordinal.is_some_and(|ordinal| ordinal.parse::<u32>().is_ok())
    };
    let set = documents.set.as_ref().map(|set| version(set).uid);
    let pods = documents.pods.iter().map(|object| {
        let pod = extract::pod(object);
        CountedPod {
            name: extract::name(object),
            is_of_set: match &pod.controller {
                Some(controller) => set.as_ref() == Some(controller),
                None => is_named_so(&extract::name(object)),
            },
            is_healthy: pod.ready_since.is_some() && !pod.is_terminating,
            labels: pod.labels,
        }
    });
    pods.collect()
}
