//! Copies of the objects of both clusters, and of the disks. Changes take effect at once, and so does what the
//! controllers of Kubernetes and EBS do after them.

use std::collections::BTreeMap;
use std::time::Duration;

use api::migrate::StatefulSetMigrationStatus;
use serde_json::{Value, json};

use crate::migration::decision::{Change, ObjectKind, Target};
use crate::migration::documents::{Documents, version};
use crate::migration::extract;
use crate::migration::observation::{
    DiskAttachment, DiskRead, DiskState, Side, SnapshotRead, SnapshotState,
};
use crate::migration::pass::PassInput;
use crate::translate::window::Window;

/// The instance of the only node that the destination has here.
const INSTANCE: &str = "i-destination";

/// Copies of everything that a run reads.
pub(super) struct Copies {
    pub(super) source: Documents,
    pub(super) destination: Documents,
    pub(super) capture: Option<Value>,
    pub(super) disks: BTreeMap<String, DiskRead>,
    pub(super) snapshots: BTreeMap<i32, SnapshotRead>,
    made_snapshots: Vec<SnapshotState>,
    set: String,
    window: Window,
    /// The claims and disks of each ordinal.
    claims: BTreeMap<i32, Vec<(String, String)>>,
    last_version: u64,
}

impl Copies {
    /// Copies without pods, nodes and attachments: these follow from the windows.
    pub(super) fn new(known: &PassInput<'_>, record: &StatefulSetMigrationStatus) -> Self {
        let claims = record.ordinals.iter().map(|ordinal| {
            let claims = ordinal.claims.iter();
            let claims = claims.map(|claim| (claim.name.clone(), claim.volume_id.clone()));
            (ordinal.ordinal, claims.collect())
        });
        let node = json!({
            "metadata": {"name": "node"},
            "spec": {"providerID": format!("aws:///zone/{INSTANCE}")},
            "status": {"conditions": [{"type": "Ready", "status": "True"}]},
        });
        let copy = |documents: &Documents, nodes| Documents {
            pods: Vec::new(),
            attachments: Vec::new(),
            nodes,
            budgets: Vec::new(),
            read_at: None,
            ..documents.clone()
        };
        let window = record.window.unwrap_or_default();
        let mut copies = Self {
            source: copy(known.source, Vec::new()),
            destination: copy(known.destination, vec![node]),
            capture: known.capture.cloned(),
            disks: known.disks.clone(),
            snapshots: BTreeMap::new(),
            made_snapshots: Vec::new(),
            set: known.spec.stateful_set_name.clone(),
            window: Window {
                start: window.start,
                replicas: window.replicas,
            },
            claims: claims.collect(),
            last_version: 0,
        };
        copies.settle();
        copies
    }

    fn documents(&mut self, side: Side) -> &mut Documents {
        match side {
            Side::Source => &mut self.source,
            Side::Destination => &mut self.destination,
        }
    }

    pub(super) fn apply(&mut self, change: &Change) {
        match change {
            Change::StoreCapture { body } => self.capture = Some(self.stored(body)),
            Change::Create { side, kind, body } => {
                let body = self.stored(body);
                self.create(*side, *kind, body);
            }
            Change::Patch {
                side,
                target,
                patch,
            } => {
                let version = self.next_version();
                if let Some(object) = find(self.documents(*side), target) {
                    merge(object, patch);
                    object["metadata"]["resourceVersion"] = version.into();
                }
            }
            Change::Delete { side, target, .. } => self.delete(*side, target),
            Change::CreateSnapshot { tags, .. } => {
                let id = format!("snap-{}", self.next_version());
                self.made_snapshots.push(SnapshotState {
                    id,
                    tags: tags.clone(),
                });
                self.snapshots.clear();
            }
            Change::CreateTags { disk, tags } => {
                if let Some(tagged) = self.tags(disk) {
                    tagged.extend(tags.clone());
                }
            }
            Change::DeleteTags { disk, keys } => {
                if let Some(tagged) = self.tags(disk) {
                    tagged.retain(|key, _| !keys.contains(key));
                }
            }
        }
        self.settle();
    }

    fn tags(&mut self, disk: &str) -> Option<&mut BTreeMap<String, String>> {
        let read = self.disks.get_mut(disk)?;
        Some(&mut read.disk.as_mut()?.tags)
    }

    fn next_version(&mut self) -> String {
        self.last_version += 1;
        format!("preview-{}", self.last_version)
    }

    fn stored(&mut self, body: &Value) -> Value {
        let version = self.next_version();
        let mut object = body.clone();
        object["metadata"]["uid"] = version.clone().into();
        object["metadata"]["resourceVersion"] = version.into();
        object
    }

    fn create(&mut self, side: Side, kind: ObjectKind, body: Value) {
        let documents = self.documents(side);
        match kind {
            ObjectKind::StatefulSet => documents.set = Some(body),
            ObjectKind::ConfigMap => documents.lock = Some(body),
            ObjectKind::Secret => documents.capture = Some(body),
            ObjectKind::Claim => documents.claims.push(body),
            ObjectKind::Volume => documents.volumes.push(body),
            ObjectKind::ControllerRevision => documents.controller_revisions.push(body),
            ObjectKind::Pod => documents.pods.push(body),
        }
    }

    fn delete(&mut self, side: Side, target: &Target) {
        let documents = self.documents(side);
        let stays = |object: &Value| extract::name(object) != target.name;
        match target.kind {
            ObjectKind::StatefulSet => {
                documents.set = None;
                for one in documents
                    .pods
                    .iter_mut()
                    .chain(&mut documents.controller_revisions)
                {
                    one["metadata"]["ownerReferences"] = json!([]);
                }
            }
            ObjectKind::ConfigMap => documents.lock = None,
            ObjectKind::Secret => documents.capture = None,
            ObjectKind::Claim => documents.claims.retain(stays),
            ObjectKind::Volume => documents.volumes.retain(stays),
            ObjectKind::ControllerRevision => documents.controller_revisions.retain(stays),
            ObjectKind::Pod => documents.pods.retain(stays),
        }
    }

    /// Controllers run the pods of each window, and bind claims.
    fn settle(&mut self) {
        for side in Side::BOTH {
            self.run_pods(side);
            for volume in &mut self.documents(side).volumes {
                volume["metadata"]["finalizers"] = json!([]);
            }
            bind(self.documents(side));
        }
    }

    fn run_pods(&mut self, side: Side) {
        let Some(set) = self.documents(side).set.clone() else {
            return; // its pods run on alone
        };
        let window = extract::set(&set, "").window();
        let whole = self.window;
        let ordinals = window.ordinals().filter(|one| whole.contains(*one));
        let pods = ordinals.map(|ordinal| self.pod(&version(&set).uid, ordinal));
        let pods: Vec<Value> = pods.collect();
        self.documents(side).pods = pods;
    }

    /// A pod that has been Ready for long.
    fn pod(&self, owner: &str, ordinal: i32) -> Value {
        let claims = self.claims.get(&ordinal).into_iter().flatten();
        let volumes =
            claims.map(|(claim, _)| json!({"persistentVolumeClaim": {"claimName": claim}}));
        json!({
            "metadata": {"name": self.pod_name(ordinal), "uid": format!("{owner}-{ordinal}"),
                "resourceVersion": "1",
                "ownerReferences": [{"kind": "StatefulSet", "controller": true, "uid": owner}]},
            "spec": {"volumes": volumes.collect::<Vec<Value>>()},
            "status": {"conditions": [{"type": "Ready", "status": "True"}]},
        })
    }

    fn pod_name(&self, ordinal: i32) -> String {
        format!("{}-{ordinal}", self.set)
    }

    /// What the poller does while a run waits.
    pub(super) fn read_disks_again(&mut self, began: Duration) {
        let ids: Vec<String> = self.disks.keys().cloned().collect();
        self.read_disks(&ids, began);
    }

    /// A disk is where the pod of its ordinal is.
    pub(super) fn read_disks(&mut self, ids: &[String], began: Duration) {
        for id in ids {
            let mut ordinals = self.claims.iter();
            let ordinal = ordinals.find(|(_, claims)| claims.iter().any(|(_, disk)| disk == id));
            let name = ordinal.map(|(ordinal, _)| self.pod_name(*ordinal));
            let mut there = self.destination.pods.iter();
            let is_there = there.any(|pod| Some(extract::name(pod)) == name);
            let attachment = DiskAttachment {
                instance: INSTANCE.to_owned(),
                device: "/dev/xvda".to_owned(),
                state: "attached".to_owned(),
            };
            let state = if is_there { "in-use" } else { "available" };
            let before = self.disks.get(id).and_then(|read| read.disk.as_ref());
            let disk = DiskState {
                state: state.to_owned(),
                attachments: is_there.then_some(attachment).into_iter().collect(),
                tags: before.map(|disk| disk.tags.clone()).unwrap_or_default(),
            };
            let read = DiskRead {
                disk: Some(disk),
                began,
            };
            self.disks.insert(id.clone(), read);
        }
    }

    pub(super) fn read_snapshots(&mut self, ordinal: i32, began: Duration) {
        let read = SnapshotRead {
            found: self.made_snapshots.clone(),
            began,
        };
        self.snapshots.insert(ordinal, read);
    }
}

fn find<'d>(documents: &'d mut Documents, target: &Target) -> Option<&'d mut Value> {
    let list = match target.kind {
        ObjectKind::StatefulSet => return documents.set.as_mut(),
        ObjectKind::ConfigMap => return documents.lock.as_mut(),
        ObjectKind::Secret => return documents.capture.as_mut(),
        ObjectKind::Claim => &mut documents.claims,
        ObjectKind::Volume => &mut documents.volumes,
        ObjectKind::ControllerRevision => &mut documents.controller_revisions,
        ObjectKind::Pod => &mut documents.pods,
    };
    let mut objects = list.iter_mut();
    objects.find(|object| extract::name(object) == target.name)
}

/// | volume names                    | so                        |
/// |---------------------------------|---------------------------|
/// | a claim by UID that is there    | bound                     |
/// | a claim by UID that is gone     | released                  |
/// | a claim by name that wants it   | bind both                 |
/// | any other                       | available                 |
fn bind(documents: &mut Documents) {
    for volume in &mut documents.volumes {
        let reference = &volume["spec"]["claimRef"];
        let mut claims = documents.claims.iter_mut();
        let claim = claims.find(|claim| {
            extract::name(claim) == reference["name"]
                && claim["metadata"]["namespace"] == reference["namespace"]
        });
        let name = extract::name(volume);
        let phase = match (reference["uid"].as_str(), claim) {
            (Some(uid), Some(claim)) if version(claim).uid == uid => "Bound",
            (Some(_), _) => "Released",
            (None, Some(claim)) if claim["spec"]["volumeName"] == *name => {
                volume["spec"]["claimRef"]["uid"] = version(claim).uid.into();
                claim["status"]["phase"] = "Bound".into();
                "Bound"
            }
            (None, _) => "Available",
        };
        volume["status"]["phase"] = phase.into();
    }
}

/// RFC 7386.
pub(in crate::migration) fn merge(object: &mut Value, patch: &Value) {
    let Value::Object(fields) = patch else {
        object.clone_from(patch);
        return;
    };
    if !object.is_object() {
        *object = json!({});
    }
    for (field, value) in fields {
        if value.is_null() {
            object
                .as_object_mut()
                .expect("it is an object")
                .remove(field);
        } else {
            merge(&mut object[field], value);
        }
    }
}
