//! Whether the current user has the permissions of the operator.

use engine::{Check, Rbac};
use k8s_openapi::api::authorization::v1::{
    ResourceAttributes, SelfSubjectAccessReview, SelfSubjectAccessReviewSpec,
};
use k8s_openapi::api::rbac::v1::PolicyRule;
use kube::Client;
use kube::api::{Api, PostParams};

/// One check per part: the missing permissions, or that all are granted.
pub(super) async fn allowed(client: &Client, part: &str, namespace: &str, rbac: &Rbac) -> Check {
    let what = format!("{part}: permissions");
    let api = Api::<SelfSubjectAccessReview>::all(client.clone());
    let cluster = rbac.cluster.iter().map(|rule| (rule, None));
    let own = rbac
        .own_namespace
        .iter()
        .map(|rule| (rule, Some(namespace)));
    let mut missing = Vec::new();
    for attributes in cluster
        .chain(own)
        .flat_map(|(rule, namespace)| attributes_of(rule, namespace))
    {
        let permission = format!(
            "{} {}",
            attributes.verb.as_deref().unwrap_or_default(),
            attributes.resource.as_deref().unwrap_or_default()
        );
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
        format!(" --feature {part}")
    };
    Check::wrong(
        what,
        format!(
            "not granted: {}; run: pontoon rbac{of} --namespace {namespace} | kubectl apply -f -",
            missing.join(", ")
        ),
    )
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
