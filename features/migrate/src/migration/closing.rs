//! What is left to restore and to remove at the end of a run, as lists of changes. Pure.

use api::migrate::names::{MOVED_TO, RUN};
use api::migrate::{
    DestReclaimPolicy, HoldReason, StatefulSetMigrationSpec, StatefulSetMigrationStatus,
};
use kernel::Ownership;
use serde_json::{Map, Value, json};

use super::decision::{Change, Interference, ObjectKind, Setting, Target};
use super::documents::{Documents, version};
use super::extract;
use super::observation::{Side, VolumePhase};
use crate::record::lock::{Lock, LockAction, LockGoal, LockOwnership, next_action, ownership};
use crate::record::marker::ownership_of;
use crate::record::names::{capture_name, lock_name};

/// The field of a StatefulSet that says what becomes of its claims.
const RETENTION: &str = "persistentVolumeClaimRetentionPolicy";

/// A run at its end.
#[derive(Debug, Clone)]
pub struct Closing<'a> {
    /// The spec.
    pub spec: &'a StatefulSetMigrationSpec,
    /// The record.
    pub record: &'a StatefulSetMigrationStatus,
    /// The id of the run.
    pub run: &'a str,
    /// The objects of the source.
    pub source: &'a Documents,
    /// The objects of the destination.
    pub destination: &'a Documents,
}

impl Closing<'_> {
    fn documents(&self, side: Side) -> &Documents {
        match side {
            Side::Source => self.source,
            Side::Destination => self.destination,
        }
    }

    fn namespace(&self, side: Side) -> &str {
        match side {
            Side::Source => &self.spec.source_namespace,
            Side::Destination => &self.spec.dest_namespace,
        }
    }

    fn setting(&self, side: Side, kind: ObjectKind, object: &Value, patch: Value) -> Setting {
        Setting {
            side,
            target: Target {
                kind,
                namespace: (kind != ObjectKind::Volume).then(|| self.namespace(side).to_owned()),
                name: extract::name(object),
                version: version(object),
            },
            patch,
            obstacle: None,
        }
    }

    /// Why a volume must not get its reclaim policy back: any other than `Retain` deletes the disk of a volume that
    /// is not bound.
    fn unbound(&self, side: Side, volume: &Value, policy: &str) -> Option<Interference> {
        let state = extract::volume(volume, self.run);
        let reference = state.claim.unwrap_or_default();
        let is_its_claim = |claim: &&Value| {
            let live = extract::claim(claim, self.run);
            extract::name(claim) == reference.name
                && reference.uid == Some(live.version.uid)
                && !live.is_terminating
        };
        let has_claim = self
            .documents(side)
            .claims
            .iter()
            .any(|one| is_its_claim(&one));
        if policy == "Retain" || (state.phase == VolumePhase::Bound && has_claim) {
            return None;
        }
        let name = extract::name(volume);
        Some(Interference {
            reason: match side {
                Side::Source => HoldReason::SourceEdited,
                Side::Destination => HoldReason::DestinationEdited,
            },
            ordinal: None,
            message: format!(
                "volume {name} in the {side} had reclaim policy {policy} before the run, and is not bound to claim \
                 {} any more: with that policy its disk would be deleted; bind it to its claim, or remove its \
                 annotation {RUN}, and raise spec.retry",
                reference.name
            ),
        })
    }

    /// The recorded retention policy, as JSON; null if the StatefulSet had none.
    fn retention(&self) -> Value {
        let policy = self.record.retention_policy.as_ref();
        policy.map_or(Value::Null, |policy| json!(policy))
    }

    fn is_ours(&self, object: &Value) -> bool {
        ownership_of(object, self.run) == Ownership::Ours
    }

    /// The volumes of the run in a cluster with their recorded reclaim policy.
    fn volumes(&self, side: Side) -> impl Iterator<Item = (&Value, &str)> {
        let claims = self
            .record
            .ordinals
            .iter()
            .flat_map(|ordinal| &ordinal.claims);
        claims.filter_map(move |claim| {
            let mut volumes = self.documents(side).volumes.iter();
            let volume = volumes.find(|volume| {
                let state = extract::volume(volume, self.run);
                state.disk.as_ref() == Some(&claim.volume_id) && self.is_ours(volume)
            })?;
            Some((volume, &*claim.reclaim_policy))
        })
    }

    /// What the destination still lacks:
    ///
    /// | object      | field            | value                                             |
    /// |-------------|------------------|---------------------------------------------------|
    /// | StatefulSet | retention policy | the source's                                      |
    /// | volume      | reclaim policy   | the source volume's, if `destReclaimPolicy` is so |
    ///
    /// A volume that is not bound keeps its disk: it gets no other policy.
    pub fn destination_settings(&self) -> Vec<Setting> {
        let side = Side::Destination;
        let mut settings = Vec::new();
        if let Some(set) = &self.destination.set {
            let wanted = self.retention();
            if is_other_policy(&set["spec"][RETENTION], &wanted) {
                let patch = json!({"spec": {RETENTION: wanted}});
                settings.push(self.setting(side, ObjectKind::StatefulSet, set, patch));
            }
        }
        if self.spec.dest_reclaim_policy == DestReclaimPolicy::Restore {
            for (volume, policy) in self.volumes(side) {
                if volume["spec"]["persistentVolumeReclaimPolicy"] != policy {
                    let patch = json!({"spec": {"persistentVolumeReclaimPolicy": policy}});
                    settings.push(Setting {
                        obstacle: self.unbound(side, volume, policy),
                        ..self.setting(side, ObjectKind::Volume, volume, patch)
                    });
                }
            }
        }
        settings
    }

    /// What the source still has of the run:
    ///
    /// | object      | field                           | value                           |
    /// |-------------|---------------------------------|---------------------------------|
    /// | StatefulSet | ordinals                        | absent if they were absent      |
    /// | StatefulSet | retention policy                | the recorded one                |
    /// | StatefulSet | the marker of the run           | absent                          |
    /// | volume      | reclaim policy                  | the recorded one, if it is bound |
    /// | volume      | both markers of the run         | absent                          |
    ///
    /// Volumes come last: until then no deletion takes a disk along.
    pub fn source_settings(&self) -> Vec<Setting> {
        let side = Side::Source;
        let mut settings = Vec::new();
        if let Some(set) = &self.source.set {
            let mut spec = Map::new();
            let had_ordinals = self
                .record
                .window
                .as_ref()
                .is_some_and(|window| window.had_ordinals);
            if !had_ordinals && !set["spec"]["ordinals"].is_null() {
                spec.insert("ordinals".to_owned(), Value::Null);
            }
            let wanted = self.retention();
            if is_other_policy(&set["spec"][RETENTION], &wanted) {
                spec.insert(RETENTION.to_owned(), wanted);
            }
            if let Some(patch) = with_marker_removed(spec, set, self.is_ours(set)) {
                settings.push(self.setting(side, ObjectKind::StatefulSet, set, patch));
            }
        }
        for (volume, policy) in self.volumes(side) {
            let mut spec = Map::new();
            let mut obstacle = None;
            if volume["spec"]["persistentVolumeReclaimPolicy"] != policy {
                spec.insert("persistentVolumeReclaimPolicy".to_owned(), policy.into());
                obstacle = self.unbound(side, volume, policy);
            }
            if let Some(patch) = with_marker_removed(spec, volume, true) {
                settings.push(Setting {
                    obstacle,
                    ..self.setting(side, ObjectKind::Volume, volume, patch)
                });
            }
        }
        settings
    }

    /// The locks, the source's last, then the capture in the source: it may be the only one. Those of a kept source
    /// are released and stay, with the capture. So does that of a run that was restored elsewhere.
    pub fn unlock(&self, locks: &[(Side, Lock)], goal: LockGoal) -> Vec<Change> {
        let is_elsewhere = locks.iter().any(|(side, wanted)| {
            let found = self.documents(*side).stored_lock();
            matches!(ownership(found.as_ref(), &wanted.identity),
                LockOwnership::Foreign(owner) if owner.holder == self.run)
        });
        let removes = goal == LockGoal::Remove && !is_elsewhere;
        let capture = self.source.capture.as_ref();
        let capture = capture.filter(|capture| removes && self.is_ours(capture));
        let capture = capture.map(|capture| Change::Delete {
            side: Side::Source,
            target: Target {
                kind: ObjectKind::Secret,
                namespace: Some(self.spec.source_namespace.clone()),
                name: capture_name(&self.spec.stateful_set_name, self.run),
                version: version(capture),
            },
            orphans_dependents: false,
        });
        let locks = locks.iter().rev();
        let locks = locks.filter_map(|(side, wanted)| self.lock_change(*side, wanted, goal));
        locks.chain(capture).collect()
    }

    /// The change of the lock in one cluster that brings it to the goal.
    pub fn lock_change(&self, side: Side, wanted: &Lock, goal: LockGoal) -> Option<Change> {
        let documents = self.documents(side);
        let found = documents.stored_lock();
        let target = || {
            let lock = documents.lock.as_ref()?;
            Some(Target {
                kind: ObjectKind::ConfigMap,
                namespace: Some(self.namespace(side).to_owned()),
                name: lock_name(&self.spec.stateful_set_name),
                version: version(lock),
            })
        };
        match next_action(goal, found.as_ref(), wanted) {
            LockAction::Delete => Some(Change::Delete {
                side,
                target: target()?,
                orphans_dependents: false,
            }),
            LockAction::Rewrite => Some(Change::Patch {
                side,
                target: target()?,
                patch: wanted.patch(),
            }),
            LockAction::Create => {
                let map = wanted.config_map(self.namespace(side), &self.spec.stateful_set_name);
                Some(Change::Create {
                    side,
                    kind: ObjectKind::ConfigMap,
                    body: serde_json::to_value(map).expect("Kubernetes types become JSON"),
                })
            }
            LockAction::Nothing | LockAction::Lost | LockAction::Refuse(_) => None,
        }
    }
}

/// Whether two retention policies differ. An absent one keeps the claims.
fn is_other_policy(live: &Value, wanted: &Value) -> bool {
    let of = |policy: &Value, when: &str| policy[when].as_str().unwrap_or("Retain").to_owned();
    ["whenDeleted", "whenScaled"]
        .iter()
        .any(|when| of(live, when) != of(wanted, when))
}

/// A patch of these fields of the spec; it removes our markers if the object is ours. None if it changes nothing.
fn with_marker_removed(spec: Map<String, Value>, object: &Value, is_ours: bool) -> Option<Value> {
    let mut patch = Map::new();
    if !spec.is_empty() {
        patch.insert("spec".to_owned(), spec.into());
    }
    if is_ours {
        let present = |marker: &&str| object["metadata"]["annotations"][*marker].is_string();
        let markers = [RUN, MOVED_TO].into_iter().filter(present);
        let absent: Map<String, Value> = markers.map(|one| (one.to_owned(), Value::Null)).collect();
        patch.insert("metadata".to_owned(), json!({"annotations": absent}));
    }
    (!patch.is_empty()).then_some(patch.into())
}

#[cfg(test)]
mod tests;
