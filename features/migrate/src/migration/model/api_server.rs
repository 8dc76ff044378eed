//! An API server as a map of JSON objects with UIDs and resourceVersions.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::migration::decision::{ObjectKind, Target};
use crate::migration::documents::{Documents, version};
use crate::migration::extract;
use crate::migration::preview::merge;

/// The objects of one cluster.
#[derive(Debug, Clone, Default)]
pub(super) struct ApiServer {
    pub(super) identity: String,
    pub(super) objects: BTreeMap<(ObjectKind, String), Value>,
    pub(super) attachments: Vec<Value>,
    pub(super) nodes: Vec<Value>,
    pub(super) last_version: u64,
    /// It drops `spec.ordinals`, as servers before 1.27 do.
    pub(super) drops_ordinals: bool,
}

impl ApiServer {
    pub(super) fn get(&self, kind: ObjectKind, name: &str) -> Option<&Value> {
        self.objects.get(&(kind, name.to_owned()))
    }

    pub(super) fn list(&self, kind: ObjectKind) -> Vec<Value> {
        let objects = self.objects.iter().filter(|((of, _), _)| *of == kind);
        objects.map(|(_, object)| object.clone()).collect()
    }

    fn next_version(&mut self) -> String {
        self.last_version += 1;
        self.last_version.to_string()
    }

    /// An existing object stays as it is.
    pub(super) fn create(&mut self, kind: ObjectKind, mut body: Value) {
        let name = extract::name(&body);
        if self.get(kind, &name).is_some() {
            return;
        }
        self.drop_unknown_fields(&mut body);
        let version = self.next_version();
        body["metadata"]["uid"] = format!("{}-{}-{version}", self.identity, kind.as_str()).into();
        body["metadata"]["resourceVersion"] = version.into();
        self.objects.insert((kind, name), body);
    }

    /// A change by a controller or by a person.
    pub(super) fn edit(&mut self, kind: ObjectKind, name: &str, edit: impl FnOnce(&mut Value)) {
        let version = self.next_version();
        if let Some(object) = self.objects.get_mut(&(kind, name.to_owned())) {
            edit(object);
            if self.drops_ordinals && kind == ObjectKind::StatefulSet {
                drop_ordinals(object);
            }
            object["metadata"]["resourceVersion"] = version.into();
        }
    }

    fn drop_unknown_fields(&self, body: &mut Value) {
        if self.drops_ordinals && body["kind"] == "StatefulSet" {
            drop_ordinals(body);
        }
    }

    /// The deletion of a StatefulSet that leaves its pods. The garbage collector has to release them first.
    pub(super) fn orphan(&mut self, target: &Target) {
        let live = self.get(target.kind, &target.name).map(version);
        if live.as_ref() == Some(&target.version) {
            self.edit(target.kind, &target.name, |set| {
                set["metadata"]["deletionTimestamp"] = "2030-01-01T00:00:00Z".into();
                set["metadata"]["finalizers"] = json!(["orphan"]);
            });
        }
    }

    /// The garbage collector: a StatefulSet that leaves its dependents goes after they have no owner.
    pub(super) fn collect(&mut self, set: &str) {
        let is_orphaning = |set: &Value| set["metadata"]["finalizers"] == json!(["orphan"]);
        if !self
            .get(ObjectKind::StatefulSet, set)
            .is_some_and(is_orphaning)
        {
            return;
        }
        for kind in [ObjectKind::Pod, ObjectKind::ControllerRevision] {
            let owned = self.list(kind);
            let owned = owned.iter().find(|one| extract::controller(one).is_some());
            if let Some(owned) = owned {
                return self.set_owner(kind, &extract::name(owned), &json!([]));
            }
        }
        self.remove(ObjectKind::StatefulSet, set);
    }

    pub(super) fn set_owner(&mut self, kind: ObjectKind, name: &str, owners: &Value) {
        self.edit(kind, name, |one| {
            one["metadata"]["ownerReferences"] = owners.clone();
        });
    }

    /// A merge patch, unless the object is no longer the one that was read.
    pub(super) fn patch(&mut self, target: &Target, patch: &Value) {
        let live = self.get(target.kind, &target.name).map(version);
        if live.as_ref() == Some(&target.version) {
            self.edit(target.kind, &target.name, |object| merge(object, patch));
        }
    }

    /// A deletion, unless the object is no longer the one that was read. A claim that a pod uses, and a pod,
    /// stay until their finalizers and kubelets let go.
    pub(super) fn delete(&mut self, target: &Target) {
        let live = self.get(target.kind, &target.name).map(version);
        if live.as_ref() == Some(&target.version) {
            self.terminate(target.kind, &target.name);
        }
    }

    /// The same for whatever version there is.
    pub(super) fn terminate(&mut self, kind: ObjectKind, name: &str) {
        let stays = match kind {
            ObjectKind::Pod => true,
            ObjectKind::Claim => self.is_claim_used(name),
            ObjectKind::StatefulSet
            | ObjectKind::ControllerRevision
            | ObjectKind::Volume
            | ObjectKind::ConfigMap
            | ObjectKind::Secret => false,
        };
        if stays {
            self.edit(kind, name, |object| {
                object["metadata"]["deletionTimestamp"] = "2030-01-01T00:00:00Z".into();
                object["status"]["conditions"] = json!([]);
            });
        } else {
            self.remove(kind, name);
        }
    }

    pub(super) fn remove(&mut self, kind: ObjectKind, name: &str) {
        self.objects.remove(&(kind, name.to_owned()));
    }

    pub(super) fn is_claim_used(&self, claim: &str) -> bool {
        let pods = self.list(ObjectKind::Pod);
        pods.iter()
            .any(|pod| extract::pod(pod).claims.iter().any(|one| one == claim))
    }

    /// Everything that a run reads of it.
    pub(super) fn documents(&self, set: &str, capture: &str) -> Documents {
        Documents {
            identity: Some(self.identity.clone()),
            set: self.get(ObjectKind::StatefulSet, set).cloned(),
            controller_revisions: self.list(ObjectKind::ControllerRevision),
            pods: self.list(ObjectKind::Pod),
            claims: self.list(ObjectKind::Claim),
            volumes: self.list(ObjectKind::Volume),
            attachments: self.attachments.clone(),
            nodes: self.nodes.clone(),
            lock: self
                .get(ObjectKind::ConfigMap, &format!("stsm-{set}"))
                .cloned(),
            capture: self.get(ObjectKind::Secret, capture).cloned(),
            budgets: Vec::new(),
            read_at: None,
            is_live: true,
        }
    }
}

fn drop_ordinals(set: &mut Value) {
    if let Some(spec) = set["spec"].as_object_mut() {
        spec.remove("ordinals");
    }
}
