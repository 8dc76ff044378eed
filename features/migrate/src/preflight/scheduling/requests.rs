//! What a pod requests of a node.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Container, Pod, PodSpec, ResourceRequirements};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

use crate::quantity::milli;

/// Amounts by resource, in thousandths.
pub(in crate::preflight) type Amounts = BTreeMap<String, i128>;

/// What the scheduler counts for a pod.
///
/// | part                        | counts                                                         |
/// |-----------------------------|----------------------------------------------------------------|
/// | containers, sidecars        | the sum                                                        |
/// | init container              | itself with the sidecars before it, if that is more            |
/// | resources of the pod        | instead of the above, for the resources it names               |
/// | overhead                    | in addition                                                    |
/// | a limit without a request   | as a request                                                   |
pub(in crate::preflight) fn requests(pod: &PodSpec) -> Amounts {
    total(pod, with_defaults)
}

/// The same for limits. A limit is set only if each container has one; here those that exist count.
pub(in crate::preflight) fn limits(pod: &PodSpec) -> Amounts {
    total(pod, |resources| amounts(resources.limits.iter().flatten()))
}

fn total(pod: &PodSpec, of: fn(&ResourceRequirements) -> Amounts) -> Amounts {
    let of_container =
        |container: &Container| container.resources.as_ref().map(of).unwrap_or_default();
    let mut sidecars = Amounts::new();
    let mut peak = Amounts::new();
    for init in pod.init_containers.iter().flatten() {
        let mut during = sidecars.clone();
        add(&mut during, &of_container(init));
        raise(&mut peak, &during);
        if init.restart_policy.as_deref() == Some("Always") {
            sidecars = during;
        }
    }
    let mut total = sidecars;
    for container in &pod.containers {
        add(&mut total, &of_container(container));
    }
    raise(&mut total, &peak);
    if let Some(resources) = &pod.resources {
        total.extend(of(resources));
    }
    add(&mut total, &amounts(pod.overhead.iter().flatten()));
    total
}

/// What the pods on a node request together, with one of `pods` for each.
pub(super) fn of_node<'a>(pods: impl Iterator<Item = &'a Pod>, node: &str) -> Amounts {
    let mut total = Amounts::new();
    for pod in pods {
        let Some(spec) = &pod.spec else { continue };
        if spec.node_name.as_deref() != Some(node) || has_ended(pod) {
            continue;
        }
        add(&mut total, &requests(spec));
        *total.entry("pods".to_owned()).or_default() += 1000;
    }
    total
}

/// Whether the pod has ended, so that it uses nothing of its node.
fn has_ended(pod: &Pod) -> bool {
    let phase = pod
        .status
        .as_ref()
        .and_then(|status| status.phase.as_deref());
    matches!(phase, Some("Succeeded" | "Failed"))
}

/// Adds `more` to `total`.
pub(in crate::preflight) fn add(total: &mut Amounts, more: &Amounts) {
    for (name, amount) in more {
        *total.entry(name.clone()).or_default() += amount;
    }
}

fn raise(total: &mut Amounts, least: &Amounts) {
    for (name, amount) in least {
        let one = total.entry(name.clone()).or_default();
        *one = (*one).max(*amount);
    }
}

/// The requests; a limit counts where there is none.
fn with_defaults(resources: &ResourceRequirements) -> Amounts {
    let limits = resources.limits.iter().flatten();
    amounts(limits.chain(resources.requests.iter().flatten()))
}

fn amounts<'a>(quantities: impl Iterator<Item = (&'a String, &'a Quantity)>) -> Amounts {
    quantities
        .filter_map(|(name, quantity)| Some((name.clone(), milli(quantity)?)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;
    use serde_json::{Value, json};

    fn cpu(amount: &str) -> Value {
        json!({"name": "c", "resources": {"requests": {"cpu": amount}}})
    }

    fn sidecar(amount: &str) -> Value {
        let mut container = cpu(amount);
        container["restartPolicy"] = json!("Always");
        container
    }

    #[rstest]
    #[case::containers_add_up(json!({"containers": [cpu("1"), cpu("500m")]}), 1500)]
    #[case::a_smaller_init_container(json!({"containers": [cpu("1")], "initContainers": [cpu("500m")]}), 1000)]
    #[case::a_larger_init_container(json!({"containers": [cpu("1")], "initContainers": [cpu("3"), cpu("2")]}), 3000)]
    #[case::sidecars_stay(json!({"containers": [cpu("1")], "initContainers": [sidecar("1")]}), 2000)]
    #[case::a_sidecar_runs_beside_later_ones(
        json!({"containers": [cpu("1")], "initContainers": [sidecar("1"), cpu("3")]}), 4000)]
    #[case::a_sidecar_does_not_run_beside_earlier_ones(
        json!({"containers": [cpu("1")], "initContainers": [cpu("2"), sidecar("1")]}), 2000)]
    #[case::resources_of_the_pod(
        json!({"containers": [cpu("1")], "resources": {"requests": {"cpu": "2"}}}), 2000)]
    #[case::overhead(json!({"containers": [cpu("1")], "overhead": {"cpu": "250m"}}), 1250)]
    #[case::a_limit_is_a_request(
        json!({"containers": [{"name": "c", "resources": {"limits": {"cpu": "2"}}}]}), 2000)]
    #[case::a_request_goes_before_a_limit(
        json!({"containers": [{"name": "c", "resources":
            {"limits": {"cpu": "2"}, "requests": {"cpu": "1"}}}]}), 1000)]
    fn a_pod_requests_what_the_scheduler_counts(#[case] pod: Value, #[case] expected: i128) {
        let pod: PodSpec = serde_json::from_value(pod).unwrap();
        assert_eq!(requests(&pod)["cpu"], expected);
    }

    #[rstest]
    #[case::running("node-1", "Running", 2000)]
    #[case::ended("node-1", "Succeeded", 1000)]
    #[case::failed("node-1", "Failed", 1000)]
    #[case::on_another_node("node-2", "Running", 1000)]
    fn a_node_carries_its_living_pods(
        #[case] node: &str,
        #[case] phase: &str,
        #[case] expected: i128,
    ) {
        let pod = |node: &str, phase: &str| -> Pod {
            let spec = json!({"containers": [cpu("1")], "nodeName": node});
            serde_json::from_value(json!({"spec": spec, "status": {"phase": phase}})).unwrap()
        };
        let pods = [pod("node-1", "Running"), pod(node, phase)];
        let total = of_node(pods.iter(), "node-1");
        assert_eq!((total["cpu"], total["pods"]), (expected, expected));
    }
}
