//! A StatefulSet at the destination.

use api::migrate::names::MIGRATED_FROM;
use k8s_openapi::api::apps::v1::StatefulSet;
use serde_json::{Value, json};

use super::metadata::Metadata;
use super::{Destination, Document, keys};

/// Where a pod template lists namespaces of other pods.
const AFFINITIES: [&str; 2] = ["podAffinity", "podAntiAffinity"];

/// The StatefulSet at the destination with this many replicas, from the captured one.
///
/// | part                                    | at the destination                                 |
/// |-----------------------------------------|----------------------------------------------------|
/// | replicas                                | `replicas`                                         |
/// | ordinals.start                          | the same; absent stays absent                      |
/// | persistentVolumeClaimRetentionPolicy    | both `Retain` until the run ends                   |
/// | volumeClaimTemplates                    | classes renamed, also in the old annotation        |
/// | namespace of a template                 | the destination's                                  |
/// | the source's namespace in a pod affinity or a dataSourceRef | the destination's              |
/// | every other field of spec               | the same                                           |
/// | labels and annotations                  | the user's without marks of Argo CD and Flux, and those of a migration |
/// | all other metadata, status              | dropped                                            |
pub fn dest_stateful_set(
    source: &Document<StatefulSet>,
    to: &Destination<'_>,
    replicas: i32,
) -> Document<StatefulSet> {
    let from = source.namespace().unwrap_or_default();
    let mut spec = source.spec();
    spec.insert("replicas".to_owned(), replicas.into());
    spec.insert(
        "persistentVolumeClaimRetentionPolicy".to_owned(),
        json!({"whenDeleted": "Retain", "whenScaled": "Retain"}),
    );
    if let Some(template) = spec.get_mut("template") {
        move_namespace(template, to.namespace);
        move_affinities(template, from, to.namespace);
    }
    if let Some(Value::Array(templates)) = spec.get_mut("volumeClaimTemplates") {
        for template in templates {
            dest_claim_template(template, from, to);
        }
    }
    let mut metadata = Metadata::new(source.name(), Some(to.namespace))
        .with_user_keys(source, keys::is_dropped_from_stateful_set)
        .with_marker(to.run);
    metadata.annotate(MIGRATED_FROM, &format!("{from}/{}", source.name()));
    Document::made(metadata.into_value(), spec.into())
}

fn dest_claim_template(template: &mut Value, from: &str, to: &Destination<'_>) {
    move_namespace(template, to.namespace);
    if let Some(namespace) = template.pointer_mut("/spec/dataSourceRef/namespace") {
        replace(namespace, from, to.namespace);
    }
    if let Some(metadata) = template.get_mut("metadata") {
        to.classes.rename_in_metadata(metadata);
    }
    if let Some(Value::Object(spec)) = template.get_mut("spec") {
        to.classes.rename_in_spec(spec);
    }
    if let Value::Object(template) = template {
        template.remove("status");
    }
}

/// A namespace written in the metadata of a template.
fn move_namespace(template: &mut Value, to: &str) {
    if let Some(namespace) = template.pointer_mut("/metadata/namespace")
        && namespace.is_string()
    {
        *namespace = to.into();
    }
}

/// Pods that are named by the source's namespace are at the destination's after the move.
fn move_affinities(template: &mut Value, from: &str, to: &str) {
    for affinity in AFFINITIES {
        let Some(affinity) = template.pointer_mut(&format!("/spec/affinity/{affinity}")) else {
            continue;
        };
        let kinds = affinity.as_object_mut().into_iter().flatten();
        let terms = kinds.filter_map(|(_, terms)| terms.as_array_mut());
        for term in terms.flatten() {
            let term = match term.get_mut("podAffinityTerm") {
                Some(weighted) => weighted,
                None => term,
            };
            if let Some(Value::Array(namespaces)) = term.get_mut("namespaces") {
                for namespace in namespaces {
                    replace(namespace, from, to);
                }
            }
        }
    }
}

fn replace(text: &mut Value, from: &str, to: &str) {
    if *text == *from {
        *text = to.into();
    }
}

#[cfg(test)]
mod tests;
