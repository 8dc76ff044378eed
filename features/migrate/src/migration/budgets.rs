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

/// The pod that leaves next: that of the ordinal in motion; else forward the lowest in the source, back the highest
/// in the destination.
fn next_pod(
    spec: &StatefulSetMigrationSpec,
    record: &StatefulSetMigrationStatus,
) -> Option<String> {
    let window = record.window?;
    let of_window = record
        .ordinals
        .iter()
        .filter(|one| window.contains(one.ordinal));
    let at = |location| {
        of_window
            .clone()
            .filter(move |one| one.location == location)
    };
    let moving = at(Location::Moving).next();
    let next = match record.phase {
        Some(Phase::RollingBack) => moving.or_else(|| at(Location::Destination).next_back()),
        Some(_) | None => moving.or_else(|| at(Location::Source).next()),
    };
    Some(format!("{}-{}", spec.stateful_set_name, next?.ordinal))
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

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;
    use crate::migration::fixture::spec;
    use api::migrate::{OrdinalRecord, Window};

    #[rstest]
    #[case::forward(Phase::MigratingPods, [Location::Destination, Location::Source, Location::Source], "web-1")]
    #[case::back(Phase::RollingBack, [Location::Destination, Location::Destination, Location::Source], "web-1")]
    #[case::in_motion(Phase::MigratingPods, [Location::Moving, Location::Source, Location::Source], "web-0")]
    #[case::back_in_motion(Phase::RollingBack, [Location::Destination, Location::Moving, Location::Source], "web-1")]
    fn the_next_pod_is_that_of_the_ordinal_in_motion(
        #[case] phase: Phase,
        #[case] locations: [Location; 3],
        #[case] expected: &str,
    ) {
        let ordinals = (0..)
            .zip(locations)
            .map(|(ordinal, location)| OrdinalRecord {
                ordinal,
                location,
                ..OrdinalRecord::default()
            });
        let record = StatefulSetMigrationStatus {
            phase: Some(phase),
            window: Some(Window {
                start: 0,
                replicas: 3,
                had_ordinals: true,
            }),
            ordinals: ordinals.collect(),
            ..StatefulSetMigrationStatus::default()
        };
        let pod = next_pod(&spec(&json!({})), &record);
        assert_eq!(pod.as_deref(), Some(expected));
    }
}
