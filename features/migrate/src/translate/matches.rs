//! Whether an object that exists is the one that we would create.

use kernel::{Change, ChangeKind, ListKey, Rules, diff3};
use serde_json::Value;

use super::Document;
use super::document::is_empty;

/// Where in a StatefulSet its pods are.
const POD: &str = "/spec/template/spec";

/// The fields of `sent` that `live` does not have with that value, as JSON pointers. Empty if it has all.
///
/// What the server and admission add does not count, also in the lists of a pod template whose elements have
/// names. Nor does a field that the server leaves out because it is empty or the default.
///
/// # When not to use it
/// To find edits: somebody may have added a field. That is [`edits`](super::edits::edits).
pub fn differing_fields<K>(sent: &Document<K>, live: &Document<K>) -> Vec<String> {
    let changes = missing(sent.value(), live.value(), &rules());
    let changes = changes.filter(|change| !is_left_out(change));
    changes.map(|change| change.path).collect()
}

/// The fields of `wanted` that `found` lacks or has with another value.
pub(super) fn missing(
    wanted: &Value,
    found: &Value,
    rules: &Rules,
) -> impl Iterator<Item = Change> + use<> {
    let changes = diff3(None, Some(found), wanted, rules).changes;
    changes
        .into_iter()
        .filter(|change| change.kind != ChangeKind::Same)
}

/// Whether the server shows the field as absent although it accepted it.
pub(super) fn is_left_out(change: &Change) -> bool {
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
pub(super) fn rules() -> Rules {
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
