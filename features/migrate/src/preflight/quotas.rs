//! Whether the quotas of the destination's namespace have room for the whole StatefulSet.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{
    PersistentVolumeClaim, PodSpec, ResourceQuota, ScopedResourceSelectorRequirement,
};

use super::finding::{Problem, Problems};
use super::moved_claims::{moved_claims, window};
use super::reading::{Reading, Unread};
use super::scheduling::{Amounts, add, arriving_pod, limits, requests};
use super::survey::Survey;
use crate::migration::observation::Side;
use crate::quantity::{display, milli};
use crate::translate::classes::ClassMapping;

/// What is whole in a quota, in thousandths.
const ONE: i128 = 1000;

/// Every quota has room for all pods, and for the claims and other objects that are not there yet.
pub(super) fn quotas(survey: &Survey) -> Problems {
    let set = survey.set()?;
    let subject = survey.all_of(Side::Destination, "ResourceQuotas");
    let quotas = survey.arrival.quotas.get(subject)?;
    if quotas.is_empty() {
        return Ok(Vec::new());
    }
    let pod = arriving_pod(survey)?;
    let of_pods = of_pods(&pod, window(set).ordinals().count());
    let classes = ClassMapping::new(survey.spec.storage_class_mapping.clone());
    let claims = missing_claims(survey)?;
    let mut of_all = of_pods.clone();
    add(&mut of_all, &of_claims(&claims, &classes));
    add(&mut of_all, &of_objects(survey));
    let mut problems = Vec::new();
    for quota in quotas {
        let needed = match (scopes(quota), covers(quota, &pod)) {
            (0, _) => &of_all,
            (_, true) => &of_pods,
            (_, false) => continue,
        };
        let name = quota.metadata.name.as_deref().unwrap_or_default();
        let subject = survey.subject(Side::Destination, "ResourceQuota", name);
        for (resource, need, free) in lacking(quota, needed) {
            let found = format!("{} of {resource} free", display(free.max(0)));
            problems.push(Problem::new(&*subject, found, display(need)));
        }
    }
    Ok(problems)
}

/// Resource, need and what is free, where that is less.
fn lacking<'a>(quota: &'a ResourceQuota, needed: &Amounts) -> Vec<(&'a str, i128, i128)> {
    let (Some(spec), status) = (&quota.spec, quota.status.as_ref()) else {
        return Vec::new();
    };
    let used = status.and_then(|status| status.used.as_ref());
    let lacking = spec.hard.iter().flatten().filter_map(|(resource, hard)| {
        let need = *needed.get(resource)?;
        let used = used
            .and_then(|used| milli(used.get(resource)?))
            .unwrap_or(0);
        let free = milli(hard)? - used;
        (need > free).then_some((&**resource, need, free))
    });
    lacking.collect()
}

/// What quotas count for `count` pods.
///
/// | quota                                    | counts                |
/// |------------------------------------------|-----------------------|
/// | `pods`, `count/pods`                     | pods                  |
/// | `cpu`, `memory`, `ephemeral-storage`     | requests              |
/// | `requests.<resource>`                    | requests              |
/// | `limits.<resource>`                      | limits                |
fn of_pods(pod: &PodSpec, count: usize) -> Amounts {
    let count = i128::try_from(count).expect("a StatefulSet has less than 2^31 pods");
    let mut amounts = Amounts::new();
    for name in ["pods", "count/pods"] {
        amounts.insert(name.to_owned(), count * ONE);
    }
    for (resource, amount) in requests(pod) {
        amounts.insert(format!("requests.{resource}"), count * amount);
        if matches!(&*resource, "cpu" | "memory" | "ephemeral-storage") {
            amounts.insert(resource, count * amount);
        }
    }
    for (resource, amount) in limits(pod) {
        amounts.insert(format!("limits.{resource}"), count * amount);
    }
    amounts
}

/// The claims that the run would create.
fn missing_claims(survey: &Survey) -> Result<Vec<&PersistentVolumeClaim>, Unread> {
    let subject = survey.all_of(Side::Destination, "PersistentVolumeClaims");
    let live = survey.destination.claims.get(subject)?;
    let is_there = |name: &str| {
        let mut names = live.iter().map(|claim| claim.metadata.name.as_deref());
        names.any(|live| live == Some(name))
    };
    let claims = moved_claims(survey)?.into_iter();
    let missing = claims.filter(|claim| !is_there(&claim.name));
    Ok(missing.filter_map(|claim| claim.claim).collect())
}

/// What quotas count for claims, also by the class that each has at the destination.
fn of_claims(claims: &[&PersistentVolumeClaim], classes: &ClassMapping) -> Amounts {
    let mut amounts = Amounts::new();
    for claim in claims {
        let Some(spec) = &claim.spec else { continue };
        let resources = spec.resources.as_ref();
        let requests = resources.and_then(|resources| resources.requests.as_ref());
        let storage = requests.and_then(|requests| milli(requests.get("storage")?));
        let mut of_one = BTreeMap::from([
            ("persistentvolumeclaims".to_owned(), ONE),
            ("count/persistentvolumeclaims".to_owned(), ONE),
            ("requests.storage".to_owned(), storage.unwrap_or(0)),
        ]);
        if let Some(class) = spec
            .storage_class_name
            .as_deref()
            .filter(|class| !class.is_empty())
        {
            let prefix = format!("{}.storageclass.storage.k8s.io", classes.renamed(class));
            of_one.insert(format!("{prefix}/persistentvolumeclaims"), ONE);
            of_one.insert(format!("{prefix}/requests.storage"), storage.unwrap_or(0));
        }
        add(&mut amounts, &of_one);
    }
    amounts
}

/// What quotas count for the other objects that the run would create: the StatefulSet and the lock.
fn of_objects(survey: &Survey) -> Amounts {
    let destination = &survey.destination;
    let mut names = Vec::new();
    if !matches!(destination.set, Reading::Read(Some(_))) {
        names.push("count/statefulsets.apps");
    }
    if !matches!(destination.lock, Reading::Read(Some(_))) {
        names.extend(["configmaps", "count/configmaps"]);
    }
    let amounts = names.into_iter().map(|name| (name.to_owned(), ONE));
    amounts.collect()
}

fn scopes(quota: &ResourceQuota) -> usize {
    let Some(spec) = &quota.spec else { return 0 };
    let selector = spec.scope_selector.as_ref();
    let expressions = selector.and_then(|selector| selector.match_expressions.as_ref());
    spec.scopes.as_ref().map_or(0, Vec::len) + expressions.map_or(0, Vec::len)
}

/// Whether the pod is within all scopes of the quota.
fn covers(quota: &ResourceQuota, pod: &PodSpec) -> bool {
    let spec = quota.spec.clone().unwrap_or_default();
    let scopes = spec.scopes.unwrap_or_default();
    let selector = spec.scope_selector.unwrap_or_default();
    let expressions = selector.match_expressions.unwrap_or_default();
    let in_scope = |scope: &String| is_within(pod, scope);
    scopes.iter().all(in_scope) && expressions.iter().all(|one| is_selected(pod, one))
}

fn is_within(pod: &PodSpec, scope: &str) -> bool {
    let is_best_effort = requests(pod).is_empty() && limits(pod).is_empty();
    match scope {
        "Terminating" => pod.active_deadline_seconds.is_some(),
        "NotTerminating" => pod.active_deadline_seconds.is_none(),
        "BestEffort" => is_best_effort,
        "NotBestEffort" => !is_best_effort,
        "PriorityClass" => pod.priority_class_name.is_some(),
        // It counts claims, not pods.
        "VolumeAttributesClass" => false,
        // A scope of which we cannot say whether the pod is within it counts.
        _ => true,
    }
}

fn is_selected(pod: &PodSpec, selector: &ScopedResourceSelectorRequirement) -> bool {
    if selector.scope_name != "PriorityClass" {
        return is_within(pod, &selector.scope_name);
    }
    let class = pod.priority_class_name.as_ref();
    let values = selector.values.as_deref().unwrap_or_default();
    let is_listed = class.is_some_and(|class| values.contains(class));
    match &*selector.operator {
        "In" => is_listed,
        "NotIn" => !is_listed,
        "Exists" => class.is_some(),
        "DoesNotExist" => class.is_none(),
        _ => true,
    }
}
