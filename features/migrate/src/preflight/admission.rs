//! Whether the destination accepts the objects of the run.

use std::collections::BTreeSet;

use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{PersistentVolumeClaimVolumeSource, Pod, Volume};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::dependencies::{Dependency, DependencyKind};
use super::finding::{Problem, Problems};
use super::moved_claims::{templates, window};
use super::survey::Survey;

/// The pod whose creation is tried at the destination.
///
/// It has no name of its own, so no other pod is in its way. What `missing` names and admission would refuse
/// is left out: another check reports it, and it must not hide what else is refused.
pub fn rendered_pod(set: &StatefulSet, namespace: &str, missing: &BTreeSet<Dependency>) -> Pod {
    let set_name = set.metadata.name.as_deref().unwrap_or_default();
    let template = set.spec.as_ref().map(|spec| spec.template.clone());
    let template = template.unwrap_or_default();
    let metadata = template.metadata.unwrap_or_default();
    let mut spec = template.spec.unwrap_or_default();
    let claims = templates(set);
    let ordinal = window(set).start;
    let volumes = spec.volumes.get_or_insert_default();
    volumes.retain(|volume| !claims.contains(&volume.name));
    volumes.extend(claims.into_iter().map(|template| Volume {
        persistent_volume_claim: Some(PersistentVolumeClaimVolumeSource {
            claim_name: format!("{template}-{set_name}-{ordinal}"),
            ..PersistentVolumeClaimVolumeSource::default()
        }),
        name: template,
        ..Volume::default()
    }));
    for Dependency { kind, name } in missing {
        let field = match kind {
            DependencyKind::ServiceAccount => &mut spec.service_account_name,
            DependencyKind::PriorityClass => &mut spec.priority_class_name,
            DependencyKind::RuntimeClass => &mut spec.runtime_class_name,
            // Admission does not ask whether these exist.
            DependencyKind::ConfigMap | DependencyKind::Secret => continue,
        };
        if field.as_ref() == Some(name) {
            *field = None;
        }
    }
    if spec.service_account_name.is_none() {
        spec.service_account = None;
    }
    Pod {
        metadata: ObjectMeta {
            generate_name: Some(format!("{set_name}-")),
            namespace: Some(namespace.to_owned()),
            labels: metadata.labels,
            annotations: metadata.annotations,
            ..ObjectMeta::default()
        },
        spec: Some(spec),
        status: None,
    }
}

/// Every dry run of a create was accepted.
pub(super) fn dry_runs(survey: &Survey) -> Problems {
    let subject = "dry runs at the destination";
    let answers = survey.arrival.dry_runs.get(subject)?;
    let refused = answers.iter().filter_map(|answer| {
        let refusal = answer.refusal.as_ref()?;
        Some(Problem::new(
            format!("{} of the destination", answer.subject),
            format!("a refused dry run ({refusal})"),
            "an object that admission accepts",
        ))
    });
    Ok(refused.collect())
}
