//! Server-side apply that compares first: an object that is as desired costs no request.
//!
//! ```text
//! live and our entry in managedFields ─▶ as desired? ─▶ nothing
//!                                            └─▶ apply ─▶ remember what the server made of it
//! ```
//! An object is as desired if it has all desired values, and our entry in managedFields owns exactly the
//! desired fields. A server may write values differently (`1000m` as `1`) or add fields to lists that are
//! merged as a whole. Such an object is as desired while these values stay as the server answered.

mod compare;
mod fields;
mod lru;
mod memory;
mod requests;
mod shape;

use std::collections::BTreeSet;
use std::sync::Arc;

use http::{Request, header};
use kernel::{Class, Diff, ObjectKey};
use kube::Client;
use serde_json::Value;

use crate::patch::{self, Form};
use crate::stored::{Projection, Stored};
use crate::{ApiError, Classified, Kind};
pub(crate) use compare::seems_to_need_apply;
use compare::{Verdict, diff, entry, has_lists, is_outdated, values_hash, verdict};
pub(crate) use memory::ApplyMemory;
use memory::ServerAnswer;
use requests::{Binding, binding, body, bound, key_of, parse, refused};
pub use requests::{Deletion, Propagation};
use shape::{Document, Shape};

/// What an apply did.
#[derive(Debug, Clone, PartialEq)]
pub enum Applied {
    /// The object was as desired; nothing was sent.
    Unchanged,
    /// The object was written. This is the answer of the API server.
    Written(Value),
}

/// Which object an apply is bound to, and whether it takes over fields.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Onto<'a> {
    /// The object's UID; not empty. The apply makes no object, and writes no other object of the same name.
    pub uid: &'a str,
    /// If given, only this resourceVersion is written.
    pub version: Option<&'a str>,
    /// Whether it takes over fields of other managers. Without it, they are a conflict.
    pub force: bool,
}

/// Applies objects to this cluster, under one field manager.
///
/// `live` is the object in the cache or as read. Compare with the cache of a watch whose projection is
/// [`Projection::ManagedBy`] this manager. Other caches lack our entry in managedFields. Then the applier
/// reads the object once in each process, before it counts as desired.
///
/// # When not to use it
/// For the object of a pass: [`crate::Pass`] writes it.
#[derive(Clone)]
pub struct Applier {
    client: Client,
    manager: String,
    dry_run: bool,
    memory: ApplyMemory,
}

impl Applier {
    /// An applier with the field manager `manager`.
    pub fn new(client: Client, manager: impl Into<String>) -> Self {
        Self::with_memory(client, manager, ApplyMemory::default())
    }

    /// An applier that shares what it remembers with others.
    pub(crate) fn with_memory(
        client: Client,
        manager: impl Into<String>,
        memory: ApplyMemory,
    ) -> Self {
        Self {
            client,
            manager: manager.into(),
            dry_run: false,
            memory,
        }
    }

    /// The same applier, but with dry runs: the API server answers and stores nothing.
    #[must_use]
    pub fn dry_run(self) -> Self {
        Self {
            dry_run: true,
            ..self
        }
    }

    /// Applies `desired`, if `live` differs from it. `live` is the object in the cache, if there is one.
    ///
    /// Fields of other managers stay. Fields that we applied before and no longer desire are removed. The
    /// write succeeds only for the UID of `live` or, without `live`, if there is no object.
    /// # Errors
    /// `Conflict` names the field and the manager that owns it. `Stale` if there is another object than
    /// `live`. `Invalid`, with nothing sent, if `desired` has no usable metadata.
    pub async fn apply(
        &self,
        kind: &Kind,
        desired: Value,
        live: Option<&Value>,
    ) -> Result<Applied, ApiError> {
        self.compare_and_send(kind, desired, live, binding(live, false))
            .await
    }

    /// The same, but takes over fields of other managers. Use it only if the user asked for that.
    pub async fn adopt(
        &self,
        kind: &Kind,
        desired: Value,
        live: Option<&Value>,
    ) -> Result<Applied, ApiError> {
        self.compare_and_send(kind, desired, live, binding(live, true))
            .await
    }

    /// Applies `desired` to the object `onto` and to no other. Without `live` it sends the request in any
    /// case.
    /// # Errors
    /// As [`apply`](Self::apply); `Stale` also if the object is gone or has another version. `Invalid`, with
    /// nothing sent, if the UID is empty.
    pub async fn apply_onto(
        &self,
        kind: &Kind,
        desired: Value,
        onto: Onto<'_>,
        live: Option<&Value>,
    ) -> Result<Applied, ApiError> {
        if onto.uid.is_empty() {
            // Without a UID, the write would be bound to no object.
            let what = format!("apply {} {}", kind.kind, key_of(&desired));
            return Err(refused(
                &what,
                "the UID of the object is missing".to_owned(),
            ));
        }
        let live = live.filter(|live| live["metadata"]["uid"] == onto.uid);
        let binding = Binding {
            uid: Some(onto.uid),
            version: onto.version,
            force: onto.force,
        };
        self.compare_and_send(kind, desired, live, binding).await
    }

    /// Creates the object. Returns it as the API server answered.
    ///
    /// It is a server-side apply, so it needs the verbs `create` and `patch`. After a POST, a later apply would
    /// not remove fields that are no longer desired.
    /// # Errors
    /// `AlreadyExists` if there is an object of this name, whosever it is. `Invalid`, with nothing sent, if
    /// `desired` has no usable metadata.
    pub async fn create(&self, kind: &Kind, desired: Value) -> Result<Value, ApiError> {
        let what = format!("create {} {}", kind.kind, key_of(&desired));
        let body = body(desired, kind).map_err(|message| refused(&what, message))?;
        let document = self.document(kind, &body).await;
        let shape = document.as_ref().and_then(|document| document.shape(kind));
        let created = self
            .send(kind, &what, &body, binding(None, false), shape)
            .await;
        created.map_err(already_exists)
    }

    /// Whether `live` is as desired, so that an apply would send nothing. `live` needs our entry in
    /// managedFields, or a write by this process.
    pub fn is_applied(&self, kind: &Kind, desired: Value, live: &Value) -> bool {
        let Ok(body) = body(desired, kind) else {
            return false;
        };
        let document = if has_lists(&body) {
            self.memory.read_document(kind)
        } else {
            Some(Document::of_metadata())
        };
        let shape = document.as_ref().and_then(|document| document.shape(kind));
        self.verdict(kind, &body, live, shape) == Verdict::AsDesired
    }

    /// What an apply would change, for plan verbs. It writes nothing.
    ///
    /// | we own it | live    | desired | kind                                 |
    /// |-----------|---------|---------|--------------------------------------|
    /// | any       | a       | a       | `Same`                               |
    /// | yes       | a       | b, none | `Edit`                               |
    /// | yes       | none    | b       | `Drift`                              |
    /// | no        | none    | b       | `Edit`                               |
    /// | no        | a       | b       | `Both`: another manager has set it   |
    pub async fn diff(
        &self,
        kind: &Kind,
        desired: Value,
        live: Option<&Value>,
    ) -> Result<Diff, ApiError> {
        let what = format!("compare {} {}", kind.kind, key_of(&desired));
        let body = body(desired, kind).map_err(|message| refused(&what, message))?;
        let document = self.document(kind, &body).await;
        let shape = document.as_ref().and_then(|document| document.shape(kind));
        let Some(live) = live else {
            return Ok(kernel::diff3(None, None, &body, &kernel::Rules::new()));
        };
        Ok(diff(&body, live, shape, self.entry(kind, live)))
    }

    /// Reads the object, then applies. For kinds whose full objects are not in a cache.
    pub async fn read_and_apply(&self, kind: &Kind, desired: Value) -> Result<Applied, ApiError> {
        let live = self.read(kind, &key_of(&desired)).await?;
        self.apply(kind, desired, live.as_ref()).await
    }

    /// Reads the object; none if it does not exist.
    pub async fn read(&self, kind: &Kind, key: &ObjectKey) -> Result<Option<Value>, ApiError> {
        match patch::get(&self.client, kind, key).await {
            Ok(text) => parse(format!("get {} {key}", kind.kind), &text).map(Some),
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Deletes the object with this UID. It is no error if the object is gone or replaced.
    pub async fn delete(&self, kind: &Kind, key: &ObjectKey, uid: &str) -> Result<(), ApiError> {
        let deletion = Deletion {
            uid,
            ..Deletion::default()
        };
        self.delete_with(kind, key, &deletion).await
    }

    /// The same, with all options of a [`Deletion`].
    /// # Errors
    /// `Stale` if a version is given and the object of this name has another version.
    pub async fn delete_with(
        &self,
        kind: &Kind,
        key: &ObjectKey,
        deletion: &Deletion<'_>,
    ) -> Result<(), ApiError> {
        let what = format!("delete {} {key}", kind.kind);
        let options = deletion.options(self.dry_run);
        let request = Request::delete(kind.path(key))
            .header(header::CONTENT_TYPE, "application/json")
            .body(options.to_string().into_bytes())
            .map_err(|error| ApiError::Unreadable {
                what: what.clone(),
                message: error.to_string(),
            })?;
        let Err(error) = self.client.request_text(request).await else {
            return Ok(());
        };
        let error = ApiError::classify(what, error);
        match error.class() {
            Class::NotFound => Ok(()),
            Class::Stale if deletion.version.is_none() => Ok(()), // it was replaced
            _ => Err(error),
        }
    }

    /// Deletes the objects of `kind` that have `labels` and are not in `retained`. Returns their keys.
    /// # Errors
    /// `Invalid`, with nothing sent, if `labels` is empty: it would select every object.
    pub async fn prune(
        &self,
        kind: &Kind,
        namespace: Option<&str>,
        labels: &str,
        retained: &BTreeSet<ObjectKey>,
    ) -> Result<Vec<ObjectKey>, ApiError> {
        let what = format!("list {} labelled {labels}", kind.kind);
        if labels.trim().is_empty() {
            let message = "pruning needs a label selector".to_owned();
            return Err(ApiError::Refused { what, message });
        }
        let selector = crate::hub::encoded(labels);
        let path = format!("{}?labelSelector={selector}", kind.collection(namespace));
        let request = Request::get(path)
            .header(
                header::ACCEPT,
                "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1",
            )
            .body(Vec::new())
            .map_err(|error| ApiError::Unreadable {
                what: what.clone(),
                message: error.to_string(),
            })?;
        let text = self
            .client
            .request_text(request)
            .await
            .map_err(|error| ApiError::classify(what.clone(), error))?;
        let list = parse(what, &text)?;
        let mut deleted = Vec::new();
        for item in list["items"].as_array().into_iter().flatten() {
            let Ok(found) = Stored::read(kind, &item.to_string(), &Projection::Metadata) else {
                continue;
            };
            if !retained.contains(found.key()) {
                self.delete(kind, found.key(), found.uid()).await?;
                deleted.push(found.key().clone());
            }
        }
        Ok(deleted)
    }

    async fn document(&self, kind: &Kind, body: &Value) -> Option<Arc<Document>> {
        if has_lists(body) {
            self.memory.document(&self.client, kind).await
        } else {
            Some(Document::of_metadata())
        }
    }

    async fn compare_and_send(
        &self,
        kind: &Kind,
        desired: Value,
        live: Option<&Value>,
        binding: Binding<'_>,
    ) -> Result<Applied, ApiError> {
        let what = format!("apply {} {}", kind.kind, key_of(&desired));
        let body = body(desired, kind).map_err(|message| refused(&what, message))?;
        let document = self.document(kind, &body).await;
        let shape = document.as_ref().and_then(|document| document.shape(kind));
        if let Some(live) = live
            && self.is_as_desired(kind, &body, live, shape).await?
        {
            return Ok(Applied::Unchanged);
        }
        let written = self.send(kind, &what, &body, binding, shape).await?;
        Ok(Applied::Written(written))
    }

    /// Applies `body` without a comparison. Returns the answer of the API server.
    async fn send(
        &self,
        kind: &Kind,
        what: &str,
        body: &Value,
        binding: Binding<'_>,
        shape: Option<Shape<'_>>,
    ) -> Result<Value, ApiError> {
        let dry = if self.dry_run { "&dryRun=All" } else { "" };
        let path = format!(
            "{}?fieldManager={}&force={}{dry}",
            kind.path(&key_of(body)),
            self.manager,
            binding.force
        );
        let sent = bound(body.clone(), binding);
        let text = patch::patch(&self.client, &path, what.to_owned(), Form::Apply, &sent).await?;
        let written = parse(what.to_owned(), &text)?;
        if self.dry_run {
            return Ok(written);
        }
        self.record_echo(&written);
        let answer = self.answer(kind, body, &written, shape);
        self.memory.set_answer(&self.manager, &written, answer);
        let entry = self.entry(kind, &written);
        if has_lists(body) && shape.is_none_or(|shape| is_outdated(shape, body, entry)) {
            self.memory.forget_document(kind);
        }
        Ok(written)
    }

    /// Whether an apply to the object `live` would send something.
    pub(crate) async fn needs_apply(
        &self,
        kind: &Kind,
        desired: Value,
        live: &Value,
    ) -> Result<bool, ApiError> {
        let what = format!("apply {} {}", kind.kind, key_of(&desired));
        let body = body(desired, kind).map_err(|message| refused(&what, message))?;
        let document = self.document(kind, &body).await;
        let shape = document.as_ref().and_then(|document| document.shape(kind));
        Ok(!self.is_as_desired(kind, &body, live, shape).await?)
    }

    /// Reads the object if `live` does not show what we own.
    async fn is_as_desired(
        &self,
        kind: &Kind,
        body: &Value,
        live: &Value,
        shape: Option<Shape<'_>>,
    ) -> Result<bool, ApiError> {
        let verdict = self.verdict(kind, body, live, shape);
        if verdict != Verdict::Unknown {
            return Ok(verdict == Verdict::AsDesired);
        }
        let read = self.read(kind, &key_of(body)).await?;
        let uid = &live["metadata"]["uid"];
        let Some(read) = read.filter(|read| read["metadata"]["uid"] == *uid) else {
            return Ok(false);
        };
        let is_as_desired = self.verdict(kind, body, &read, shape) == Verdict::AsDesired;
        if is_as_desired {
            let answer = self.answer(kind, body, &read, shape);
            self.memory.set_answer(&self.manager, &read, answer);
        }
        Ok(is_as_desired)
    }

    fn record_echo(&self, written: &Value) {
        if is_managed_only_by(written, &self.manager) {
            crate::echo::record_write(written);
        }
    }

    fn entry<'v>(&self, kind: &Kind, live: &'v Value) -> &'v Value {
        entry(&self.manager, kind, live)
    }

    fn verdict(
        &self,
        kind: &Kind,
        body: &Value,
        live: &Value,
        shape: Option<Shape<'_>>,
    ) -> Verdict {
        let remembered = self.memory.answer(&self.manager, live);
        let remembered = remembered.filter(|answer| answer.desired == fields::hash(body));
        verdict(body, live, shape, self.entry(kind, live), remembered)
    }

    /// `live` as the answer to `body`.
    fn answer(
        &self,
        kind: &Kind,
        body: &Value,
        live: &Value,
        shape: Option<Shape<'_>>,
    ) -> ServerAnswer {
        let entry = self.entry(kind, live);
        ServerAnswer {
            desired: fields::hash(body),
            values: values_hash(body, live, shape, entry),
            plain_values: values_hash(body, live, shape, &Value::Null),
            entry: fields::hash(entry),
        }
    }
}

/// An apply that may only create is refused as stale, or for fields of others, if there is an object.
fn already_exists(error: ApiError) -> ApiError {
    match error {
        ApiError::Answer {
            what,
            code: code @ 409,
            message,
            ..
        } => ApiError::Answer {
            what,
            code,
            reason: "AlreadyExists".to_owned(),
            message,
        },
        other => other,
    }
}

/// Whether `manager` alone manages the object, so that the watch event of our write shows nothing new.
/// If others write it, too, they may have changed it between our read and our write.
fn is_managed_only_by(object: &Value, manager: &str) -> bool {
    let entries = object["metadata"]["managedFields"].as_array();
    entries.is_some_and(|entries| entries.iter().all(|entry| entry["manager"] == manager))
}

#[cfg(test)]
mod model;
#[cfg(test)]
mod properties;
#[cfg(test)]
mod tests;
