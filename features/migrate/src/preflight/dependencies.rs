//! What a pod template needs to exist in its cluster.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::{Container, PodSpec, Volume};

use super::finding::{Problem, Problems};
use super::reading::Reading;
use super::survey::Survey;
use crate::migration::observation::Side;

/// An object that a pod template names.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Dependency {
    /// Its kind.
    pub kind: DependencyKind,
    /// Its name.
    pub name: String,
}

/// The kinds of objects that a pod template names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DependencyKind {
    /// In the namespace.
    ConfigMap,
    /// In the namespace, also those for pulling images.
    Secret,
    /// In the namespace.
    ServiceAccount,
    /// Of the cluster.
    PriorityClass,
    /// Of the cluster.
    RuntimeClass,
}

impl DependencyKind {
    /// As Kubernetes names it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::ConfigMap => "ConfigMap",
            Self::Secret => "Secret",
            Self::ServiceAccount => "ServiceAccount",
            Self::PriorityClass => "PriorityClass",
            Self::RuntimeClass => "RuntimeClass",
        }
    }

    fn is_namespaced(self) -> bool {
        match self {
            Self::ConfigMap | Self::Secret | Self::ServiceAccount => true,
            Self::PriorityClass | Self::RuntimeClass => false,
        }
    }
}

use DependencyKind::{ConfigMap, PriorityClass, RuntimeClass, Secret, ServiceAccount};

/// What a pod template names and cannot do without.
///
/// | field                                                     | names                          |
/// |-----------------------------------------------------------|--------------------------------|
/// | volumes: configMap, secret, projected, csi                | ConfigMap, Secret              |
/// | env, envFrom of all containers                            | ConfigMap, Secret              |
/// | imagePullSecrets                                          | Secret                         |
/// | serviceAccountName, priorityClassName, runtimeClassName   | the object of that kind        |
/// | any of them with `optional: true`                         | nothing                        |
pub fn named_by(pod: &PodSpec) -> BTreeSet<Dependency> {
    let mut names: Vec<(DependencyKind, &str)> = Vec::new();
    let containers = pod.containers.iter();
    for container in containers.chain(pod.init_containers.iter().flatten()) {
        names.extend(named_by_container(container));
    }
    names.extend(pod.volumes.iter().flatten().flat_map(named_by_volume));
    let pull = pod.image_pull_secrets.iter().flatten();
    names.extend(pull.map(|secret| (Secret, &*secret.name)));
    let single = [
        (ServiceAccount, &pod.service_account_name),
        (PriorityClass, &pod.priority_class_name),
        (RuntimeClass, &pod.runtime_class_name),
    ];
    for (kind, name) in single {
        names.extend(name.as_deref().map(|name| (kind, name)));
    }
    let named = names.into_iter().filter(|(_, name)| !name.is_empty());
    named
        .map(|(kind, name)| Dependency {
            kind,
            name: name.to_owned(),
        })
        .collect()
}

fn named_by_container(container: &Container) -> Vec<(DependencyKind, &str)> {
    let mut names = Vec::new();
    for source in container.env_from.iter().flatten() {
        if let Some(map) = &source.config_map_ref {
            names.extend(required(ConfigMap, &map.name, map.optional));
        }
        if let Some(secret) = &source.secret_ref {
            names.extend(required(Secret, &secret.name, secret.optional));
        }
    }
    let variables = container.env.iter().flatten();
    for source in variables.filter_map(|variable| variable.value_from.as_ref()) {
        if let Some(key) = &source.config_map_key_ref {
            names.extend(required(ConfigMap, &key.name, key.optional));
        }
        if let Some(key) = &source.secret_key_ref {
            names.extend(required(Secret, &key.name, key.optional));
        }
    }
    names
}

fn named_by_volume(volume: &Volume) -> Vec<(DependencyKind, &str)> {
    let mut names = Vec::new();
    if let Some(map) = &volume.config_map {
        names.extend(required(ConfigMap, &map.name, map.optional));
    }
    if let Some(secret) = &volume.secret {
        let name = secret.secret_name.as_deref().unwrap_or_default();
        names.extend(required(Secret, name, secret.optional));
    }
    let csi = volume.csi.as_ref();
    if let Some(secret) = csi.and_then(|csi| csi.node_publish_secret_ref.as_ref()) {
        names.push((Secret, &*secret.name));
    }
    let projected = volume.projected.as_ref();
    let sources = projected.and_then(|projected| projected.sources.as_ref());
    for source in sources.into_iter().flatten() {
        if let Some(map) = &source.config_map {
            names.extend(required(ConfigMap, &map.name, map.optional));
        }
        if let Some(secret) = &source.secret {
            names.extend(required(Secret, &secret.name, secret.optional));
        }
    }
    names
}

fn required(
    kind: DependencyKind,
    name: &str,
    optional: Option<bool>,
) -> Option<(DependencyKind, &str)> {
    (optional != Some(true)).then_some((kind, name))
}

/// What the template of the StatefulSet names exists at the destination.
pub(super) fn dependencies(survey: &Survey) -> Problems {
    let set = survey.set()?;
    let template = set
        .spec
        .as_ref()
        .and_then(|spec| spec.template.spec.as_ref());
    let mut problems = Vec::new();
    let mut unread = None;
    for dependency in template.map(named_by).unwrap_or_default() {
        let subject = subject(survey, &dependency);
        let reading = survey.arrival.dependencies.get(&dependency);
        match reading.unwrap_or(&Reading::NotRead).get(&*subject) {
            Ok(true) => {}
            Ok(false) => problems.push(Problem::new(
                subject,
                "none",
                "one, as the template names it",
            )),
            Err(missing) => {
                let found = missing.obstacle.found();
                problems.push(Problem::new(
                    subject,
                    found,
                    "one, as the template names it",
                ));
                unread = unread.or(Some(missing));
            }
        }
    }
    match unread {
        // An outage and what was not read must stay visible as such.
        Some(missing) if !matches!(missing.obstacle, super::reading::Obstacle::Denied(_)) => {
            Err(missing)
        }
        Some(_) | None => Ok(problems),
    }
}

fn subject(survey: &Survey, dependency: &Dependency) -> String {
    let kind = dependency.kind.as_str();
    if dependency.kind.is_namespaced() {
        survey.subject(Side::Destination, kind, &dependency.name)
    } else {
        format!("{kind} {} of the {}", dependency.name, Side::Destination)
    }
}

/// What the template names and the destination lacks.
pub fn missing(existing: &BTreeMap<Dependency, Reading<bool>>) -> BTreeSet<Dependency> {
    let absent = existing
        .iter()
        .filter(|(_, reading)| **reading == Reading::Read(false));
    absent.map(|(dependency, _)| dependency.clone()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;
    use serde_json::{Value, json};

    fn env(value_from: Value) -> Value {
        json!({"containers": [{"name": "c", "env": [{"name": "A", "valueFrom": value_from}]}]})
    }

    fn volume(source: Value) -> Value {
        let mut volume = source;
        volume["name"] = json!("v");
        json!({"containers": [], "volumes": [volume]})
    }

    fn projected(source: Value) -> Value {
        volume(json!({"projected": {"sources": [source]}}))
    }

    #[rstest]
    #[case::env_from_map(json!({"containers": [
        {"name": "c", "envFrom": [{"configMapRef": {"name": "a"}}]}]}), Some((ConfigMap, "a")))]
    #[case::env_from_secret(json!({"containers": [
        {"name": "c", "envFrom": [{"secretRef": {"name": "a"}}]}]}), Some((Secret, "a")))]
    #[case::optional_env_from(json!({"containers": [
        {"name": "c", "envFrom": [{"secretRef": {"name": "a", "optional": true}}]}]}), None)]
    #[case::key_of_a_map(env(json!({"configMapKeyRef": {"name": "a", "key": "k"}})), Some((ConfigMap, "a")))]
    #[case::key_of_a_secret(env(json!({"secretKeyRef": {"name": "a", "key": "k"}})), Some((Secret, "a")))]
    #[case::optional_key(env(json!({"secretKeyRef": {"name": "a", "key": "k", "optional": true}})), None)]
    #[case::init_container(json!({"containers": [], "initContainers": [
        {"name": "c", "envFrom": [{"secretRef": {"name": "a"}}]}]}), Some((Secret, "a")))]
    #[case::map_volume(volume(json!({"configMap": {"name": "a"}})), Some((ConfigMap, "a")))]
    #[case::optional_map_volume(volume(json!({"configMap": {"name": "a", "optional": true}})), None)]
    #[case::secret_volume(volume(json!({"secret": {"secretName": "a"}})), Some((Secret, "a")))]
    #[case::projected_map(projected(json!({"configMap": {"name": "a"}})), Some((ConfigMap, "a")))]
    #[case::projected_secret(projected(json!({"secret": {"name": "a"}})), Some((Secret, "a")))]
    #[case::optional_projected(projected(json!({"secret": {"name": "a", "optional": true}})), None)]
    #[case::csi_secret(volume(json!({"csi": {"driver": "d", "nodePublishSecretRef": {"name": "a"}}})),
        Some((Secret, "a")))]
    #[case::pull_secret(json!({"containers": [], "imagePullSecrets": [{"name": "a"}]}), Some((Secret, "a")))]
    #[case::account(json!({"containers": [], "serviceAccountName": "a"}), Some((ServiceAccount, "a")))]
    #[case::priority(json!({"containers": [], "priorityClassName": "a"}), Some((PriorityClass, "a")))]
    #[case::runtime(json!({"containers": [], "runtimeClassName": "a"}), Some((RuntimeClass, "a")))]
    #[case::no_name(json!({"containers": [], "serviceAccountName": ""}), None)]
    fn a_template_names_its_dependencies(
        #[case] pod: Value,
        #[case] expected: Option<(DependencyKind, &str)>,
    ) {
        let pod: PodSpec = serde_json::from_value(pod).unwrap();
        let expected = expected.map(|(kind, name)| Dependency {
            kind,
            name: name.to_owned(),
        });
        assert_eq!(named_by(&pod), BTreeSet::from_iter(expected));
    }
}
