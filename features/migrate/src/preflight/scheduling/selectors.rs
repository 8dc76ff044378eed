//! Whether a node has the labels that a pod requires.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{NodeSelectorRequirement, NodeSelectorTerm, PodSpec};

/// Whether node selector and required node affinity of the pod accept a node.
///
/// | part                | accepts if                                                    |
/// |---------------------|---------------------------------------------------------------|
/// | nodeSelector        | every label is equal                                          |
/// | required affinity   | one term matches                                              |
/// | term                | it has a requirement, and all its requirements match          |
/// | matchFields         | only `metadata.name` exists                                   |
pub(super) fn accepts(pod: &PodSpec, name: &str, labels: &BTreeMap<String, String>) -> bool {
    let mut wanted = pod.node_selector.iter().flatten();
    if !wanted.all(|(key, value)| labels.get(key) == Some(value)) {
        return false;
    }
    let required = pod
        .affinity
        .as_ref()
        .and_then(|affinity| affinity.node_affinity.as_ref())
        .and_then(|affinity| {
            affinity
                .required_during_scheduling_ignored_during_execution
                .as_ref()
        });
    required.is_none_or(|selector| {
        let mut terms = selector.node_selector_terms.iter();
        terms.any(|term| term_matches(term, name, labels))
    })
}

fn term_matches(term: &NodeSelectorTerm, name: &str, labels: &BTreeMap<String, String>) -> bool {
    let expressions = term.match_expressions.as_deref().unwrap_or_default();
    let fields = term.match_fields.as_deref().unwrap_or_default();
    let field = |key: &str| (key == "metadata.name").then_some(name);
    let label = |key: &str| labels.get(key).map(String::as_str);
    !(expressions.is_empty() && fields.is_empty())
        && expressions
            .iter()
            .all(|one| requirement_matches(one, label(&one.key)))
        && fields
            .iter()
            .all(|one| requirement_matches(one, field(&one.key)))
}

fn requirement_matches(requirement: &NodeSelectorRequirement, actual: Option<&str>) -> bool {
    let values = requirement.values.as_deref().unwrap_or_default();
    let is_listed = || actual.is_some_and(|actual| values.iter().any(|value| value == actual));
    let number = |text: &str| text.parse::<i64>().ok();
    let compared = || {
        let limit = values.first().and_then(|value| number(value))?;
        Some(actual.and_then(number)?.cmp(&limit))
    };
    match &*requirement.operator {
        "In" => is_listed(),
        "NotIn" => !is_listed(),
        "Exists" => actual.is_some(),
        "DoesNotExist" => actual.is_none(),
        "Gt" => compared().is_some_and(std::cmp::Ordering::is_gt),
        "Lt" => compared().is_some_and(std::cmp::Ordering::is_lt),
        // An operator of a later version: whether the node is accepted cannot be established.
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;
    use serde_json::{Value, json};

    fn affinity(terms: Value) -> Value {
        json!({"affinity": {"nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}})
    }

    fn one(key: &str, operator: &str, values: Value) -> Value {
        affinity(json!([{"matchExpressions": [
            {"key": key, "operator": operator, "values": values}]}]))
    }

    #[rstest]
    #[case::nothing_is_required(json!({}), true)]
    #[case::selector(json!({"nodeSelector": {"disk": "fast"}}), true)]
    #[case::selector_with_another_value(json!({"nodeSelector": {"disk": "slow"}}), false)]
    #[case::selector_without_the_label(json!({"nodeSelector": {"gpu": "1"}}), false)]
    #[case::in_list(one("disk", "In", json!(["slow", "fast"])), true)]
    #[case::not_in_the_list(one("disk", "In", json!(["slow"])), false)]
    #[case::in_without_the_label(one("gpu", "In", json!(["1"])), false)]
    #[case::excluded(one("disk", "NotIn", json!(["fast"])), false)]
    #[case::not_in_without_the_label(one("gpu", "NotIn", json!(["1"])), true)]
    #[case::exists(one("disk", "Exists", json!([])), true)]
    #[case::does_not_exist(one("disk", "DoesNotExist", json!([])), false)]
    #[case::greater(one("cores", "Gt", json!(["7"])), true)]
    #[case::not_greater(one("cores", "Gt", json!(["8"])), false)]
    #[case::less(one("cores", "Lt", json!(["9"])), true)]
    #[case::no_number(one("disk", "Gt", json!(["1"])), false)]
    #[case::unknown_operator(one("disk", "Near", json!(["1"])), false)]
    #[case::one_term_suffices(affinity(json!([
        {"matchExpressions": [{"key": "gpu", "operator": "Exists"}]},
        {"matchExpressions": [{"key": "disk", "operator": "Exists"}]}])), true)]
    #[case::all_requirements_of_a_term(affinity(json!([
        {"matchExpressions": [{"key": "disk", "operator": "Exists"},
                              {"key": "gpu", "operator": "Exists"}]}])), false)]
    #[case::an_empty_term_matches_nothing(affinity(json!([{}])), false)]
    #[case::name_of_the_node(affinity(json!([
        {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["node-1"]}]}])), true)]
    #[case::name_of_another_node(affinity(json!([
        {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["node-2"]}]}])), false)]
    fn a_node_is_accepted_by_its_labels(#[case] mut pod: Value, #[case] accepted: bool) {
        pod["containers"] = json!([]);
        let pod: PodSpec = serde_json::from_value(pod).unwrap();
        let labels = BTreeMap::from(
            [("disk", "fast"), ("cores", "8")]
                .map(|(key, value)| (key.to_owned(), value.to_owned())),
        );
        assert_eq!(accepts(&pod, "node-1", &labels), accepted);
    }
}
