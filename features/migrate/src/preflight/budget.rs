//! Whether PodDisruptionBudgets allow one more pod of the StatefulSet to go down, over both clusters.
//!
//! A budget counts the pods of its own cluster only. During a migration the pods are in two clusters, so
//! each budget would either be bypassed or block for ever. Here every budget of either cluster counts the
//! matching pods of both, and expects the pods that the StatefulSet has when it is whole.

use std::collections::BTreeMap;

use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::core::{Selector, SelectorExt};

/// A pod that budgets may count.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CountedPod {
    /// Its name.
    pub name: String,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// Whether it belongs to the StatefulSet that moves.
    pub is_of_set: bool,
    /// Whether it is Ready and not being deleted.
    pub is_healthy: bool,
}

/// A budget that does not allow the pod to go down.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Exhausted {
    /// The name of the budget.
    pub budget: String,
    /// How many matching pods are healthy in both clusters.
    pub healthy: usize,
    /// How many would stay healthy without the pod.
    pub left: usize,
    /// How many must stay healthy. More than exist if the budget cannot be read.
    pub needed: usize,
}

/// The budgets that do not allow pod `leaving` to go down.
///
/// `pods` are those of the namespaces of both clusters, `replicas` the pods that the StatefulSet has when it
/// is whole. A pod that is not healthy, or does not exist, leaves at no cost.
///
/// | matching pods              | limit             | must stay healthy           |
/// |----------------------------|-------------------|-----------------------------|
/// | none of the StatefulSet    | any               | budget does not apply       |
/// | E expected                 | minAvailable n    | n                           |
/// | E expected                 | minAvailable p%   | p% of E, rounded up         |
/// | E expected                 | maxUnavailable n  | E − n                       |
/// | E expected                 | maxUnavailable p% | E − (p% of E, rounded up)   |
/// | E expected                 | none              | 0                           |
/// | E expected                 | unreadable        | E                           |
pub fn exhausted(
    budgets: &[PodDisruptionBudget],
    pods: &[CountedPod],
    set_labels: &BTreeMap<String, String>,
    replicas: usize,
    leaving: &str,
) -> Vec<Exhausted> {
    budgets
        .iter()
        .filter_map(|budget| judge(budget, pods, set_labels, replicas, leaving))
        .collect()
}

/// Whether a budget applies to pods with these labels. One whose selector cannot be read applies to all.
pub fn selects(budget: &PodDisruptionBudget, labels: &BTreeMap<String, String>) -> bool {
    // policy/v1: no selector selects no pod, an empty one every pod.
    let selector = budget.spec.as_ref().and_then(|spec| spec.selector.clone());
    selector.is_some_and(|selector| {
        Selector::try_from(selector).map_or(true, |selector| selector.matches(labels))
    })
}

fn judge(
    budget: &PodDisruptionBudget,
    pods: &[CountedPod],
    set_labels: &BTreeMap<String, String>,
    replicas: usize,
    leaving: &str,
) -> Option<Exhausted> {
    if !selects(budget, set_labels) {
        return None;
    }
    let spec = budget.spec.as_ref()?;
    let matching: Vec<&CountedPod> = pods
        .iter()
        .filter(|pod| selects(budget, &pod.labels))
        .collect();
    let others = matching.iter().filter(|pod| !pod.is_of_set).count();
    let expected = replicas + others;
    let healthy = matching.iter().filter(|pod| pod.is_healthy).count();
    let leaves_healthy = matching
        .iter()
        .any(|pod| pod.is_of_set && pod.is_healthy && pod.name == leaving);
    let left = healthy - usize::from(leaves_healthy);
    let needed = match (&spec.min_available, &spec.max_unavailable) {
        (Some(minimum), _) => scaled(minimum, expected).unwrap_or(expected),
        (None, Some(maximum)) => expected.saturating_sub(scaled(maximum, expected).unwrap_or(0)),
        (None, None) => 0,
    };
    // A pod that is down already takes nothing from the budget.
    (leaves_healthy && left < needed).then(|| Exhausted {
        budget: budget.metadata.name.clone().unwrap_or_default(),
        healthy,
        left,
        needed,
    })
}

/// A count, or the share of `total`, rounded up as the disruption controller does.
fn scaled(value: &IntOrString, total: usize) -> Option<usize> {
    match value {
        IntOrString::Int(count) => usize::try_from(*count).ok(),
        IntOrString::String(share) => {
            let percent: usize = share.strip_suffix('%')?.parse().ok()?;
            Some((percent.checked_mul(total)?).div_ceil(100))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;
    use serde_json::{Value, json};

    fn labels(app: &str) -> BTreeMap<String, String> {
        BTreeMap::from([("app".to_owned(), app.to_owned())])
    }

    fn budget(limit: Value) -> PodDisruptionBudget {
        let mut spec = limit;
        if spec.get("selector").is_none() {
            spec["selector"] = json!({"matchLabels": {"app": "web"}});
        }
        serde_json::from_value(json!({"metadata": {"name": "web"}, "spec": spec})).unwrap()
    }

    fn pods(health: &[bool], app: &str, is_of_set: bool) -> Vec<CountedPod> {
        let pod = |(index, healthy): (usize, &bool)| CountedPod {
            name: format!("{app}-{index}"),
            labels: labels(app),
            is_of_set,
            is_healthy: *healthy,
        };
        health.iter().enumerate().map(pod).collect()
    }

    #[rstest]
    //                                              limit                       healthy             needed
    #[case::min_available_leaves_room(json!({"minAvailable": 2}), &[true, true, true], None)]
    #[case::min_available_is_exhausted(json!({"minAvailable": 3}), &[true, true, true], Some((2, 3)))]
    #[case::an_unready_pod_uses_the_room(json!({"minAvailable": 2}), &[true, true, false], Some((1, 2)))]
    #[case::min_percent_rounds_up(json!({"minAvailable": "67%"}), &[true, true, true], Some((2, 3)))]
    #[case::min_percent_leaves_room(json!({"minAvailable": "66%"}), &[true, true, true], None)]
    #[case::max_unavailable_leaves_room(json!({"maxUnavailable": 1}), &[true, true, true], None)]
    #[case::max_unavailable_is_used(json!({"maxUnavailable": 1}), &[true, false, true], Some((1, 2)))]
    #[case::max_unavailable_zero(json!({"maxUnavailable": 0}), &[true, true, true], Some((2, 3)))]
    #[case::max_percent_rounds_up(json!({"maxUnavailable": "1%"}), &[true, true, true], None)]
    #[case::no_limit_allows(json!({}), &[true, true, true], None)]
    #[case::an_unreadable_limit_blocks(json!({"minAvailable": "most"}), &[true, true, true], Some((2, 3)))]
    #[case::a_missing_pod_counts_as_down(json!({"minAvailable": 2}), &[true, true], Some((1, 2)))]
    #[case::missing_pods_count_as_unavailable(json!({"maxUnavailable": 1}), &[true, true], Some((1, 2)))]
    #[case::a_pod_that_is_down_leaves_at_no_cost(json!({"minAvailable": 3}), &[false, true, true], None)]
    #[case::another_selector(json!({"minAvailable": 3, "selector": {"matchLabels": {"app": "db"}}}), &[true, true, true], None)]
    #[case::an_empty_selector_selects_all(json!({"minAvailable": 3, "selector": {}}), &[true, true, true], Some((2, 3)))]
    fn a_budget_allows_one_down(
        #[case] limit: Value,
        #[case] health: &[bool],
        #[case] refused: Option<(usize, usize)>,
    ) {
        let found = exhausted(
            &[budget(limit)],
            &pods(health, "web", true),
            &labels("web"),
            3,
            "web-0",
        );
        let found: Vec<_> = found.iter().map(|one| (one.left, one.needed)).collect();
        assert_eq!(found, Vec::from_iter(refused));
    }

    #[test]
    fn other_pods_of_the_selector_are_expected_too() {
        let all = json!({"maxUnavailable": 1, "selector": {}});
        let mut both = pods(&[true, true, true], "web", true);
        both.extend(pods(&[true, false], "db", false));
        let found = exhausted(&[budget(all)], &both, &labels("web"), 3, "web-0");
        assert_eq!(
            found.first().map(|one| (one.left, one.needed)),
            Some((3, 4))
        );
    }

    #[test]
    fn a_budget_without_a_selector_applies_to_no_pod() {
        let mut none = budget(json!({"minAvailable": 3}));
        none.spec.as_mut().unwrap().selector = None;
        let pods = pods(&[true, true, true], "web", true);
        assert_eq!(exhausted(&[none], &pods, &labels("web"), 3, "web-0"), []);
    }
}
