//! Whether PodDisruptionBudgets let the run begin.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;

use super::budget::{CountedPod, exhausted};
use super::finding::{Problem, Problems};
use super::moved_claims::window;
use super::source::{is_of, is_ready, pod_name};
use super::survey::Survey;
use crate::migration::observation::Side;

/// The budgets of both clusters let one pod be down.
pub(super) fn one_down(survey: &Survey) -> Problems {
    let set = survey.set()?;
    let window = window(set);
    let budgets = |side| {
        survey
            .cluster(side)
            .budgets
            .get(survey.all_of(side, BUDGETS))
    };
    let pods = survey
        .source
        .pods
        .get(survey.all_of(Side::Source, "Pods"))?;
    let of_destination = survey.destination.pods.get("pods of the destination")?;
    let labels = template_labels(survey)?;
    let mut counted: Vec<CountedPod> = pods.iter().map(|pod| count(pod, is_of(pod, set))).collect();
    let namespace = Some(&survey.spec.dest_namespace);
    let arrived = of_destination
        .iter()
        .filter(|pod| pod.metadata.namespace.as_ref() == namespace);
    counted.extend(arrived.map(|pod| count(pod, false)));
    let mut names = window.ordinals().map(|ordinal| pod_name(survey, ordinal));
    let is_up = |name: &String| {
        counted
            .iter()
            .any(|pod| pod.name == *name && pod.is_healthy)
    };
    let Some(leaving) = names.find(is_up) else {
        return Ok(Vec::new());
    };
    let replicas = window.ordinals().count();
    let mut problems = Vec::new();
    for side in Side::BOTH {
        for one in exhausted(budgets(side)?, &counted, &labels, replicas, &leaving) {
            let subject = survey.subject(side, "PodDisruptionBudget", &one.budget);
            let found = format!("{} healthy pods in both clusters", one.healthy);
            let need = format!("{} healthy while one more is down", one.needed);
            problems.push(Problem::new(subject, found, need));
        }
    }
    Ok(problems)
}

pub(super) const BUDGETS: &str = "PodDisruptionBudgets";

fn count(pod: &Pod, is_of_set: bool) -> CountedPod {
    CountedPod {
        name: pod.metadata.name.clone().unwrap_or_default(),
        labels: pod.metadata.labels.clone().unwrap_or_default(),
        is_of_set,
        is_healthy: is_ready(pod) && pod.metadata.deletion_timestamp.is_none(),
    }
}

fn template_labels(survey: &Survey) -> Result<BTreeMap<String, String>, super::reading::Unread> {
    let spec = survey.set()?.spec.as_ref();
    let metadata = spec.and_then(|spec| spec.template.metadata.as_ref());
    Ok(metadata
        .and_then(|metadata| metadata.labels.clone())
        .unwrap_or_default())
}

/// Where the source has budgets for the pods, the destination has one too.
pub(super) fn at_destination(survey: &Survey) -> Problems {
    let labels = template_labels(survey)?;
    let selecting = |side| {
        let budgets = survey
            .cluster(side)
            .budgets
            .get(survey.all_of(side, BUDGETS))?;
        let selecting = budgets
            .iter()
            .filter(|budget| super::budget::selects(budget, &labels));
        Ok::<_, super::reading::Unread>(selecting.collect::<Vec<&PodDisruptionBudget>>())
    };
    let missing = selecting(Side::Destination)?.is_empty();
    let of_source = selecting(Side::Source)?;
    let problem = |budget: &&PodDisruptionBudget| {
        let name = budget.metadata.name.as_deref().unwrap_or_default();
        let subject = survey.subject(Side::Source, "PodDisruptionBudget", name);
        Problem::new(
            subject,
            "none for the pods at the destination",
            "one there too",
        )
    };
    Ok(of_source.iter().filter(|_| missing).map(problem).collect())
}
