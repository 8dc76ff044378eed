//! The capture: what a run needs to recreate the source, as it was before the run wrote anything.
//!
//! It is an immutable Secret, because pod templates may contain secrets. One copy is in the
//! namespace of the migration, one in the namespace of the source. The hash covers the compressed
//! bytes, so that a change of any byte is detected, and a copy has the hash of its original.

mod compare;
mod error;
mod packed;
#[cfg(test)]
mod tests;

use std::fmt;

use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::hashes;

pub use compare::{CaptureCopies, CopyLocation, any_intact, compare};
pub use error::{CapturePart, CaptureTooLarge, Damage, DamagedCapture};
pub use packed::PackedCapture;

/// The version of the JSON.
const VERSION: u32 = 1;

/// The source as it was read: objects as JSON, so that no field of a newer server is lost.
///
/// `metadata.managedFields` is dropped, and lists are sorted by namespace and name: the same
/// objects always make the same capture.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Capture {
    version: u32,
    run_id: String,
    stateful_set: Value,
    controller_revisions: Vec<Value>,
    claims: Vec<Value>,
    volumes: Vec<Value>,
}

/// The objects of a capture.
#[derive(Clone, PartialEq, Default)]
pub struct CapturedObjects {
    /// The StatefulSet.
    pub stateful_set: Value,
    /// Its ControllerRevisions.
    pub controller_revisions: Vec<Value>,
    /// The PersistentVolumeClaims of its claim set, and those outside its window.
    pub claims: Vec<Value>,
    /// The PersistentVolumes of these claims.
    pub volumes: Vec<Value>,
}

impl Capture {
    /// The capture of a run.
    pub fn new(run_id: &str, objects: CapturedObjects) -> Self {
        let CapturedObjects {
            stateful_set,
            controller_revisions,
            claims,
            volumes,
        } = objects;
        Self {
            version: VERSION,
            run_id: run_id.to_owned(),
            stateful_set: without_managed_fields(stateful_set),
            controller_revisions: normal(controller_revisions),
            claims: normal(claims),
            volumes: normal(volumes),
        }
    }

    /// The run.
    pub fn run_id(&self) -> &str {
        &self.run_id
    }

    /// The StatefulSet.
    pub fn stateful_set(&self) -> &Value {
        &self.stateful_set
    }

    /// The ControllerRevisions of the StatefulSet.
    pub fn controller_revisions(&self) -> &[Value] {
        &self.controller_revisions
    }

    /// The PersistentVolumeClaims of the claim set, and those outside the window.
    pub fn claims(&self) -> &[Value] {
        &self.claims
    }

    /// The PersistentVolumes of the claims.
    pub fn volumes(&self) -> &[Value] {
        &self.volumes
    }

    /// The claim of this name.
    pub fn claim(&self, name: &str) -> Option<&Value> {
        find(&self.claims, name)
    }

    /// The PersistentVolume of this name.
    pub fn volume(&self, name: &str) -> Option<&Value> {
        find(&self.volumes, name)
    }

    /// The hash of what the StatefulSet runs, for `status.capture.templateSha256`.
    pub fn template_sha256(&self) -> String {
        hashes::template_sha256(&self.stateful_set)
    }

    /// Compresses the capture. Equal captures give equal bytes.
    pub fn pack(&self) -> Result<PackedCapture, CaptureTooLarge> {
        PackedCapture::of(self)
    }

    /// The immutable Secret of this capture; see [`PackedCapture::secret`].
    pub fn to_secret(
        &self,
        namespace: &str,
        owner: Option<OwnerReference>,
    ) -> Result<Secret, CaptureTooLarge> {
        Ok(self.pack()?.secret(namespace, owner))
    }

    /// The capture in a Secret, if its hash is right and it is of this run.
    pub fn from_secret(secret: &Secret, run_id: &str) -> Result<Self, DamagedCapture> {
        PackedCapture::from_secret(secret, run_id).map(PackedCapture::into_capture)
    }

    fn as_value(&self) -> Value {
        serde_json::to_value(self).expect("texts and JSON values become JSON")
    }

    /// `<namespace>/<name>` of the StatefulSet.
    fn set_key(&self) -> String {
        let (namespace, name) = key(&self.stateful_set);
        format!("{namespace}/{name}")
    }

    fn largest_part(&self) -> CapturePart {
        let size = |list: &[Value]| -> usize { list.iter().map(|one| one.to_string().len()).sum() };
        let sizes = [
            (
                self.stateful_set.to_string().len(),
                CapturePart::StatefulSet,
            ),
            (size(&self.controller_revisions), CapturePart::Revisions),
            (size(&self.claims), CapturePart::Claims),
            (size(&self.volumes), CapturePart::Volumes),
        ];
        let largest = sizes.into_iter().max_by_key(|(size, _)| *size);
        largest.expect("there are four parts").1
    }
}

/// Without the objects: pod templates may contain secrets.
impl fmt::Debug for Capture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Capture")
            .field("run_id", &self.run_id)
            .field("stateful_set", &self.set_key())
            .field("controller_revisions", &self.controller_revisions.len())
            .field("claims", &self.claims.len())
            .field("volumes", &self.volumes.len())
            .finish_non_exhaustive()
    }
}

fn normal(objects: Vec<Value>) -> Vec<Value> {
    let mut objects: Vec<Value> = objects.into_iter().map(without_managed_fields).collect();
    objects.sort_by_cached_key(|object| {
        let (namespace, name) = key(object);
        (
            namespace.to_owned(),
            name.to_owned(),
            hashes::canonical(object),
        )
    });
    objects
}

fn without_managed_fields(mut object: Value) -> Value {
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove("managedFields");
    }
    object
}

/// Namespace and name; empty if absent.
fn key(object: &Value) -> (&str, &str) {
    let text = |field| object.get("metadata")?.get(field)?.as_str();
    (
        text("namespace").unwrap_or_default(),
        text("name").unwrap_or_default(),
    )
}

fn find<'o>(objects: &'o [Value], name: &str) -> Option<&'o Value> {
    objects.iter().find(|object| key(object).1 == name)
}
