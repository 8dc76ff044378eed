//! Whether an object that exists is the one that we would create.

use std::collections::BTreeSet;

use k8s_openapi::api::apps::v1::StatefulSet;
use kernel::{Change, ChangeKind, ListKey, Rules, diff3};
use serde_json::{Value, json};

use super::Document;
use super::document::is_empty;
use crate::record::hashes::template_sha256;

/// The fields of a StatefulSet's spec that a run changes itself.
const CHANGED_BY_A_RUN: [&str; 3] = [
    "replicas",
    "ordinals",
    "persistentVolumeClaimRetentionPolicy",
];

/// Where in a StatefulSet its pods are.
const POD: &str = "/spec/template/spec";

/// The fields of `sent` that `live` does not have with that value, as JSON pointers. Empty if it has all.
///
/// What the server and admission add does not count, also in the lists of a pod template whose elements have
/// names. Nor does a field that the server leaves out because it is empty or the default.
///
/// # When not to use it
/// To find edits: somebody may have added a field. That is [`edited_fields`].
pub fn differing_fields<K>(sent: &Document<K>, live: &Document<K>) -> Vec<String> {
    let changes = missing(sent.value(), live.value(), &rules());
    let changes = changes.filter(|change| !is_left_out(change));
    changes.map(|change| change.path).collect()
}

/// The fields of the template in which two versions of a StatefulSet differ, as JSON pointers.
///
/// It covers what `template_sha256` covers: if the hashes differ, at least one field is here. An element of a
/// list has its name in the path, or its index if only the order of the list differs.
pub fn edited_fields(before: &Document<StatefulSet>, after: &Document<StatefulSet>) -> Vec<String> {
    if template_sha256(before.value()) == template_sha256(after.value()) {
        return Vec::new();
    }
    let (before, after) = (template(before), template(after));
    let between = |rules: &Rules| {
        let lost = missing(&before, &after, rules);
        let added = missing(&after, &before, rules);
        let fields: BTreeSet<String> = lost.chain(added).map(|change| change.path).collect();
        fields
    };
    let mut fields = between(&rules());
    if fields.is_empty() {
        fields = between(&Rules::new());
    }
    if fields.is_empty() {
        fields.insert("/spec".to_owned()); // an empty field and an absent one
    }
    fields.into_iter().collect()
}

/// The spec without the fields that a run changes, below `/spec`.
fn template(stateful_set: &Document<StatefulSet>) -> Value {
    let mut spec = stateful_set.spec();
    spec.retain(|field, _| !CHANGED_BY_A_RUN.contains(&&**field));
    json!({ "spec": spec })
}

/// The fields of `wanted` that `found` lacks or has with another value.
fn missing(wanted: &Value, found: &Value, rules: &Rules) -> impl Iterator<Item = Change> + use<> {
    let changes = diff3(None, Some(found), wanted, rules).changes;
    changes
        .into_iter()
        .filter(|change| change.kind != ChangeKind::Same)
}

/// Whether the server shows the field as absent although it accepted it.
fn is_left_out(change: &Change) -> bool {
    let desired = change.desired.as_ref();
    let is_default = match &*change.path {
        "/spec/persistentVolumeClaimRetentionPolicy/whenDeleted"
        | "/spec/persistentVolumeClaimRetentionPolicy/whenScaled" => {
            desired.is_some_and(|policy| policy == "Retain")
        }
        "/spec/ordinals/start" => desired.is_some_and(|start| start == 0),
        _ => false,
    };
    change.live.is_none() && (is_default || desired.is_some_and(is_empty))
}

/// The lists of a StatefulSet to which admission may add elements. The kinds of volumes have none.
fn rules() -> Rules {
    let mut rules = Rules::new()
        .list_map(&format!("{POD}/volumes"), ["name"])
        .list_map(&format!("{POD}/imagePullSecrets"), ["name"])
        .list_map(&format!("{POD}/hostAliases"), ["ip"])
        .list_map(
            &format!("{POD}/topologySpreadConstraints"),
            ["topologyKey", "whenUnsatisfiable"],
        )
        .set(&format!("{POD}/tolerations"));
    for containers in ["containers", "initContainers"] {
        let list = format!("{POD}/{containers}");
        let port = [
            ListKey::new("containerPort"),
            ListKey::new("protocol").or("TCP"),
        ];
        rules = rules
            .list_map(&list, ["name"])
            .list_map(&format!("{list}/*/env"), ["name"])
            .list_map(&format!("{list}/*/ports"), port)
            .list_map(&format!("{list}/*/volumeMounts"), ["mountPath"])
            .list_map(&format!("{list}/*/volumeDevices"), ["devicePath"])
            .set(&format!("{list}/*/envFrom"));
    }
    rules
}

#[cfg(test)]
mod tests;
