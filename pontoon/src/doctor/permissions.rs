//! Whether the current user has the permissions of the operator.

use engine::{Check, Rbac};
use k8s_openapi::api::authorization::v1::{
    ResourceAttributes, SelfSubjectAccessReview, SelfSubjectAccessReviewSpec,
};
use k8s_openapi::api::rbac::v1::PolicyRule;
use kube::Client;
use kube::api::{Api, PostParams};

use crate::listed::ListedByUser;

/// One check per part: the missing permissions, or that all are granted.
pub(super) async fn allowed(
    client: &Client,
    part: &str,
    namespace: &str,
    rbac: &Rbac,
    listed: &ListedByUser,
) -> Check {
    let what = format!("{part}: permissions");
    let api = Api::<SelfSubjectAccessReview>::all(client.clone());
    let mut missing = Vec::new();
    for (permission, attributes) in needed(rbac, namespace) {
        let review = SelfSubjectAccessReview {
            spec: SelfSubjectAccessReviewSpec {
                resource_attributes: Some(attributes),
                ..Default::default()
            },
            ..Default::default()
        };
        match api.create(&PostParams::default(), &review).await {
            Ok(answer) if answer.status.as_ref().is_some_and(|status| status.allowed) => {}
            Ok(_) => missing.push(permission),
            Err(error) => return Check::wrong(what, error.to_string()),
        }
    }
    if missing.is_empty() {
        return Check::fine(what, "all granted");
    }
    let of = if part == "engine" {
        String::new()
    } else {
        format!(" --feature {part}{}", listed.flags())
    };
    Check::wrong(
        what,
        format!(
            "not granted: {}; run: pontoon rbac{of} --namespace {namespace} | kubectl apply -f -",
            missing.join(", ")
        ),
    )
}

/// All permissions of the operator's account, each with its name.
fn needed(rbac: &Rbac, own_namespace: &str) -> Vec<(String, ResourceAttributes)> {
    let rules = rbac.own_rules(own_namespace);
    let all = rules.flat_map(|(rule, namespace)| attributes_of(rule, namespace));
    let named = all.map(|attributes| {
        let text = |part: &Option<String>| part.clone().unwrap_or_default();
        let mut name = format!("{} {}", text(&attributes.verb), text(&attributes.resource));
        let other_namespace = attributes.namespace.as_deref();
        if let Some(namespace) = other_namespace.filter(|namespace| *namespace != own_namespace) {
            name = format!("{name} in {namespace}");
        }
        (name, attributes)
    });
    named.collect()
}

fn attributes_of(rule: &PolicyRule, namespace: Option<&str>) -> Vec<ResourceAttributes> {
    let mut all = Vec::new();
    for group in rule.api_groups.iter().flatten() {
        for resource in rule.resources.iter().flatten() {
            let (resource, subresource) = resource
                .split_once('/')
                .map_or((resource.as_str(), None), |(r, s)| (r, Some(s)));
            for verb in &rule.verbs {
                all.push(ResourceAttributes {
                    group: Some(group.clone()),
                    resource: Some(resource.to_owned()),
                    subresource: subresource.map(str::to_owned),
                    verb: Some(verb.clone()),
                    name: rule.resource_names.iter().flatten().next().cloned(),
                    namespace: namespace.map(str::to_owned),
                    ..ResourceAttributes::default()
                });
            }
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use engine::{AggregatedRole, ListedNamespaces, rule};

    use super::*;

    #[test]
    fn without_a_listed_namespace_a_permission_may_be_needed_everywhere() {
        let list = |namespaces: &[&str]| Rbac {
            listed_namespaces: vec![ListedNamespaces {
                value: "a.xNamespaces",
                purpose: "x",
                namespaces: namespaces.iter().map(|&name| name.to_owned()).collect(),
                rules: vec![rule("", &["secrets"], &["get"])],
                everywhere_if_empty: true,
            }],
            ..Rbac::default()
        };
        let namespaces = |rbac: &Rbac| {
            let all = needed(rbac, "own").into_iter();
            all.map(|(_, one)| one.namespace).collect::<Vec<_>>()
        };
        assert_eq!(namespaces(&list(&[])), [None]);
        assert_eq!(namespaces(&list(&["p"])), [Some("p".to_owned())]);
    }

    #[test]
    fn each_permission_of_the_account_is_checked_where_it_is_needed() {
        let get = |resource| vec![rule("", &[resource], &["get"])];
        let role = |resource, is_bound| AggregatedRole {
            rules: get(resource),
            is_bound,
            ..AggregatedRole::default()
        };
        let rbac = Rbac {
            cluster: get("nodes"),
            own_namespace: vec![rule("", &["secrets"], &["get", "list"])],
            listed_namespaces: vec![ListedNamespaces {
                value: "a.xNamespaces",
                purpose: "x",
                namespaces: vec!["p".into(), "q".into()],
                rules: get("pods/log"),
                everywhere_if_empty: false,
            }],
            cluster_roles: vec![role("services", true), role("for-people", false)],
            objects: Vec::new(),
        };
        let all = needed(&rbac, "own");
        let names: Vec<_> = all.iter().map(|(name, _)| name.as_str()).collect();
        let expected = [
            "get nodes",
            "get services",
            "get secrets",
            "list secrets",
            "get pods in p",
            "get pods in q",
        ];
        assert_eq!(names, expected);
        let namespaces = all.iter().map(|(_, one)| one.namespace.as_deref());
        let namespaces: Vec<_> = namespaces.map(Option::unwrap_or_default).collect();
        assert_eq!(namespaces, ["", "", "own", "own", "p", "q"]);
        assert_eq!(all[4].1.subresource.as_deref(), Some("log"));
    }
}
