//! `OrphanAdopt`: the source has no StatefulSet while ordinals move, and its pods run on without a controller. A
//! rollback creates the StatefulSet again, and it adopts the pods that never moved. Pure.

use api::migrate::names::RUN;
use api::migrate::{HoldReason, Location, OrdinalRecord, StatefulSetMigrationStatus};
use kernel::Ownership;
use serde_json::{Value, json};

use super::decision::Interference;
use super::observation::{Observation, PodState, SetState};
use crate::translate::window::Window;

/// Metadata of a StatefulSet that its user has set.
const USER_METADATA: [&str; 5] = [
    "name",
    "namespace",
    "labels",
    "annotations",
    "ownerReferences",
];

/// Whether the source has no StatefulSet, and that is the work of this run.
pub fn is_orphaned(record: &StatefulSetMigrationStatus, observation: &Observation) -> bool {
    record.orphan_started && observation.source.set.is_none()
}

/// Whether a StatefulSet of the source is the one that a rollback of this run has created.
pub fn is_recreated(record: &StatefulSetMigrationStatus, set: &SetState) -> bool {
    set.ownership == Ownership::Ours
        && record.source_stateful_set_uid.as_ref() != Some(&set.version.uid)
}

/// A StatefulSet that somebody has created while the pods of the source run without one.
pub fn recreated_by_others(set: &SetState, name: &str) -> Interference {
    Interference {
        reason: HoldReason::SourceRecreated,
        ordinal: None,
        message: format!(
            "StatefulSet {name} in the source was created again with UID {}; delete it, its pods may stay with \
             --cascade=orphan, and raise spec.retry",
            set.version.uid
        ),
    }
}

/// The ordinals that the source still runs: those above the last one that has left it.
///
/// | ordinal                                     | still runs in the source |
/// |---------------------------------------------|--------------------------|
/// | at the source                               | yes                      |
/// | in motion, its pod in the source not ending | yes                      |
/// | in motion, the destination wants its pod    | no                       |
/// | any other                                   | no                       |
pub fn remaining(
    record: &StatefulSetMigrationStatus,
    observation: &Observation,
    set: &str,
) -> Option<Window> {
    let window = record.window.as_ref()?;
    let window = Window {
        start: window.start,
        replicas: window.replicas,
    };
    let wanted = observation.destination.set.as_ref().map(SetState::window);
    let has_left = |ordinal: &i32| {
        let Some(one) = record.ordinal(*ordinal) else {
            return true;
        };
        let is_wanted = wanted.is_some_and(|wanted| wanted.contains(*ordinal));
        let pod = observation.source.pods.get(&format!("{set}-{ordinal}"));
        match one.location {
            Location::Source => false,
            Location::Moving => is_wanted || !pod.is_some_and(|pod| is_running(one, pod)),
            Location::Destination => true,
        }
    };
    let start = window.ordinals().rev().find(has_left);
    let start = start.map_or(window.start, |last| last + 1);
    Some(Window {
        start,
        replicas: window.end() - start,
    })
}

fn is_running(record: &OrdinalRecord, pod: &PodState) -> bool {
    let recorded = record.source_pod_uid.as_ref();
    !pod.is_terminating && recorded.is_none_or(|uid| *uid == pod.version.uid)
}

/// The captured StatefulSet, to be created again for these ordinals; none: for all, as it was.
///
/// | part                                                | created again                             |
/// |-----------------------------------------------------|-------------------------------------------|
/// | replicas, ordinals                                  | these ordinals; absent if all and absent  |
/// | persistentVolumeClaimRetentionPolicy                | both `Retain` until the rollback ends     |
/// | the rest of spec, labels, annotations, owners       | as captured, and the marker of the run    |
/// | any other metadata, status                          | dropped                                   |
pub fn recreated(captured: &Value, run: &str, ordinals: Option<Window>) -> Value {
    let fields = captured["metadata"].as_object().into_iter().flatten();
    let fields = fields.filter(|(field, _)| USER_METADATA.contains(&field.as_str()));
    let metadata = fields.map(|(field, value)| (field.clone(), value.clone()));
    let mut set = json!({
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": Value::Object(metadata.collect()),
        "spec": captured["spec"],
    });
    set["metadata"]["annotations"][RUN] = run.into();
    set["spec"]["persistentVolumeClaimRetentionPolicy"] =
        json!({"whenDeleted": "Retain", "whenScaled": "Retain"});
    if let Some(window) = ordinals {
        set["spec"]["replicas"] = window.replicas.into();
        set["spec"]["ordinals"] = json!({"start": window.start});
    }
    set
}

#[cfg(test)]
mod tests;
