//! Which namespaces are meant.

use std::collections::BTreeMap;

use api::vault::NamespaceChoice;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::core::{Selector, SelectorExt};

/// A namespace, as far as it can be chosen by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Namespace<'a> {
    /// Its name.
    pub(crate) name: &'a str,
    /// Its labels.
    pub(crate) labels: &'a BTreeMap<String, String>,
}

/// Whether `selector` picks what has `labels`. An empty one picks everything, one that makes no
/// sense nothing.
pub(crate) fn selects(selector: &LabelSelector, labels: &BTreeMap<String, String>) -> bool {
    Selector::try_from(selector.clone()).is_ok_and(|selector| selector.matches(labels))
}

/// Whether `choice` picks `namespace`, by name or by label. An empty one picks nobody.
pub(crate) fn chosen(choice: &NamespaceChoice, namespace: &Namespace<'_>) -> bool {
    let NamespaceChoice { names, selector } = choice;
    names.iter().any(|name| name == namespace.name)
        || selector
            .as_ref()
            .is_some_and(|selector| selects(selector, namespace.labels))
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::{Value, json};

    use super::*;

    fn labels(given: Value) -> BTreeMap<String, String> {
        serde_json::from_value(given).unwrap()
    }

    #[rstest]
    #[case::empty(json!({}), true)]
    #[case::equal(json!({"matchLabels": {"team": "a"}}), true)]
    #[case::unequal(json!({"matchLabels": {"team": "b"}}), false)]
    #[case::all_labels(json!({"matchLabels": {"team": "a", "tier": "1"}}), false)]
    #[case::in_a_list(json!({"matchExpressions": [{"key": "team", "operator": "In", "values": ["a", "b"]}]}), true)]
    #[case::in_no_list(json!({"matchExpressions": [{"key": "tier", "operator": "In", "values": ["1"]}]}), false)]
    #[case::not_in_a_list(json!({"matchExpressions": [{"key": "team", "operator": "NotIn", "values": ["a"]}]}), false)]
    #[case::absent_is_not_in(json!({"matchExpressions": [{"key": "tier", "operator": "NotIn", "values": ["1"]}]}), true)]
    #[case::there(json!({"matchExpressions": [{"key": "team", "operator": "Exists"}]}), true)]
    #[case::not_there(json!({"matchExpressions": [{"key": "team", "operator": "DoesNotExist"}]}), false)]
    #[case::labels_and_expressions(json!({"matchLabels": {"team": "a"}, "matchExpressions": [{"key": "tier", "operator": "Exists"}]}), false)]
    #[case::senseless(json!({"matchExpressions": [{"key": "tier", "operator": "NotIn"}]}), false)]
    #[case::unknown(json!({"matchExpressions": [{"key": "team", "operator": "Like", "values": ["a"]}]}), false)]
    fn selectors(#[case] selector: Value, #[case] picked: bool) {
        let selector = serde_json::from_value(selector).unwrap();
        assert_eq!(selects(&selector, &labels(json!({"team": "a"}))), picked);
    }

    #[rstest]
    #[case::by_name(json!({"names": ["x", "team-a"]}), true)]
    #[case::by_label(json!({"names": ["x"], "selector": {"matchLabels": {"team": "a"}}}), true)]
    #[case::by_name_though_not_by_label(json!({"names": ["team-a"], "selector": {"matchLabels": {"team": "b"}}}), true)]
    #[case::by_neither(json!({"names": ["x"], "selector": {"matchLabels": {"team": "b"}}}), false)]
    #[case::an_empty_selector_is_everybody(json!({"selector": {}}), true)]
    #[case::an_empty_choice_is_nobody(json!({}), false)]
    fn choices(#[case] choice: Value, #[case] picked: bool) {
        let choice = serde_json::from_value(choice).unwrap();
        let labels = labels(json!({"team": "a"}));
        let namespace = Namespace {
            name: "team-a",
            labels: &labels,
        };
        assert_eq!(chosen(&choice, &namespace), picked);
    }
}
