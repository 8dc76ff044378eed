//! Whether somebody else changes the StatefulSet or its claims.

use std::collections::BTreeSet;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::claims::claim_subject;
use super::finding::{Problem, Problems};
use super::moved_claims::set_claims;
use super::survey::{Autoscaler, Survey};
use crate::migration::observation::Side;

const NEED: &str = "nobody who reverts changes while it moves";

/// Nobody controls or syncs the StatefulSet or a claim.
///
/// | mark                                                            | finding               |
/// |-----------------------------------------------------------------|-----------------------|
/// | ownerReference with `controller: true`, not to the set, its pod | its owner             |
/// | key in `argocd.argoproj.io`, field manager `argocd-…`           | Argo CD               |
/// | key in `toolkit.fluxcd.io` or below, field manager of Flux      | Flux                  |
/// | label `app.kubernetes.io/managed-by: Helm`, key of `meta.helm.sh` | Helm, information   |
///
/// The label `app.kubernetes.io/instance` alone is no mark: charts set it too. An object that Argo CD tracks by
/// that label is recognised by its field manager.
pub(super) fn owners(survey: &Survey) -> Problems {
    let set = survey.set()?;
    let claims = set_claims(survey)?;
    let set_uid = set.metadata.uid.as_deref().unwrap_or_default();
    let subject = survey.set_subject(Side::Source);
    let mut problems = of_object(&subject, &set.metadata, set_uid);
    for claim in &claims {
        let Some(object) = claim.claim else { continue };
        let subject = claim_subject(survey, claim);
        let found = of_object(&subject, &object.metadata, set_uid);
        let ordinal = claim.ordinal;
        problems.extend(found.into_iter().map(|problem| problem.of_ordinal(ordinal)));
    }
    Ok(problems)
}

fn of_object(subject: &str, metadata: &ObjectMeta, set_uid: &str) -> Vec<Problem> {
    let mut found: Vec<String> = Vec::new();
    for owner in metadata.owner_references.iter().flatten() {
        // The retention policy of the set makes its pods and itself owners of claims.
        let is_of_set = owner.uid == set_uid || owner.kind == "Pod";
        if owner.controller == Some(true) && !is_of_set {
            found.push(format!("controller {} {}", owner.kind, owner.name));
        }
    }
    let tools = tools(metadata);
    found.extend(
        tools
            .iter()
            .filter(|tool| **tool != HELM)
            .map(|tool| format!("a mark of {tool}")),
    );
    let problem = |found: String| Problem::new(subject, found, NEED);
    let mut problems: Vec<Problem> = found.into_iter().map(problem).collect();
    if tools.contains(HELM) && problems.is_empty() {
        let need = "no helm upgrade while it moves";
        problems.push(Problem::new(subject, "a mark of Helm", need).informs());
    }
    problems
}

const ARGO: &str = "Argo CD";
const FLUX: &str = "Flux";
const HELM: &str = "Helm";

/// The tools whose mark an object carries.
fn tools(metadata: &ObjectMeta) -> BTreeSet<&'static str> {
    let labels = metadata.labels.iter().flatten();
    let keys = labels.chain(metadata.annotations.iter().flatten());
    let by_key = keys.filter_map(|(key, value)| tool_of_key(key, value));
    let writers = metadata.managed_fields.iter().flatten();
    let by_writer = writers.filter_map(|entry| tool_of_writer(entry.manager.as_deref()?));
    by_key.chain(by_writer).collect()
}

fn tool_of_key(key: &str, value: &str) -> Option<&'static str> {
    let (domain, name) = key.split_once('/')?;
    let is_in = |parent: &str| {
        let before = domain.strip_suffix(parent);
        before.is_some_and(|before| before.is_empty() || before.ends_with('.'))
    };
    if is_in("argocd.argoproj.io") {
        return Some(ARGO);
    }
    if is_in("fluxcd.io") {
        return Some(FLUX);
    }
    let is_release = is_in("meta.helm.sh");
    let is_helm = domain == "app.kubernetes.io" && name == "managed-by" && value == HELM;
    (is_release || is_helm).then_some(HELM)
}

/// Both tools write under the name of their controller.
fn tool_of_writer(writer: &str) -> Option<&'static str> {
    if writer.starts_with("argocd-") {
        return Some(ARGO);
    }
    matches!(writer, "kustomize-controller" | "helm-controller").then_some(FLUX)
}

/// No autoscaler of one side targets the StatefulSet.
pub(super) fn autoscalers(survey: &Survey, side: Side) -> Problems {
    let subject = survey.all_of(side, "autoscalers");
    let autoscalers = survey.cluster(side).autoscalers.get(subject)?;
    let set = &survey.spec.stateful_set_name;
    let targets = |one: &&Autoscaler| one.target_kind == "StatefulSet" && one.target_name == *set;
    let problem = |one: &Autoscaler| {
        let subject = survey.subject(side, one.kind, &one.name);
        Problem::new(
            subject,
            format!("target StatefulSet {set}"),
            "no autoscaler of it",
        )
    };
    Ok(autoscalers.iter().filter(targets).map(problem).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    #[rstest]
    #[case::argo_label("argocd.argoproj.io/instance", "web", Some(ARGO))]
    #[case::argo_annotation(
        "argocd.argoproj.io/tracking-id",
        "web:apps/StatefulSet:shop/web",
        Some(ARGO)
    )]
    #[case::flux_kustomization("kustomize.toolkit.fluxcd.io/name", "web", Some(FLUX))]
    #[case::flux_release("helm.toolkit.fluxcd.io/name", "web", Some(FLUX))]
    #[case::flux_version_1("fluxcd.io/sync-checksum", "0", Some(FLUX))]
    #[case::helm_label("app.kubernetes.io/managed-by", "Helm", Some(HELM))]
    #[case::helm_annotation("meta.helm.sh/release-name", "web", Some(HELM))]
    #[case::managed_by_another("app.kubernetes.io/managed-by", "kustomize", None)]
    #[case::a_common_label("app.kubernetes.io/instance", "web", None)]
    #[case::a_domain_that_ends_alike("notfluxcd.io/name", "web", None)]
    #[case::no_domain("app", "Helm", None)]
    fn a_key_marks_a_tool(#[case] key: &str, #[case] value: &str, #[case] tool: Option<&str>) {
        assert_eq!(tool_of_key(key, value), tool);
    }

    #[rstest]
    #[case::argo("argocd-controller", Some(ARGO))]
    #[case::argo_before("argocd-application-controller", Some(ARGO))]
    #[case::flux_kustomization("kustomize-controller", Some(FLUX))]
    #[case::flux_release("helm-controller", Some(FLUX))]
    #[case::kubectl("kubectl-client-side-apply", None)]
    #[case::helm("helm", None)]
    fn a_field_writer_marks_a_tool(#[case] writer: &str, #[case] tool: Option<&str>) {
        assert_eq!(tool_of_writer(writer), tool);
    }
}
