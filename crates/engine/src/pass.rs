//! One run for one object: what it has read, and how it writes.

mod own_writes;

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::ObjectReference;
use kernel::{Class, ObjectKey, SharedClock};
use kube::Client;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::events::{Events, Note};
use crate::hub::Cache;
use crate::patch::{self, Bound, Form};
use crate::slot::Slot;
use crate::stored::Stored;
use crate::{ApiError, Classified, Kind};
pub(crate) use own_writes::OwnWrites;

/// How often a metadata write is repeated after another client wrote the object.
const METADATA_RETRIES: u32 = 5;

/// The name of the log span of a pass. Its field `kind` is the kind of the object.
pub const PASS_SPAN: &str = "pass";

/// One pass. It writes metadata of the object at most once and status at most once, and the cache has the
/// written version at once.
pub struct Pass {
    pub(crate) id: String,
    pub(crate) kind: Kind,
    pub(crate) cache: Cache,
    pub(crate) object: Arc<Stored>,
    pub(crate) client: Client,
    pub(crate) events: Events,
    pub(crate) clock: SharedClock,
    pub(crate) slot: Slot,
    /// Fields that the feature adds to the last log line of the pass.
    pub(crate) details: tracing::Span,
    /// The object after the write of this pass.
    pub(crate) written: Option<Arc<Stored>>,
    /// [`Stored::user_fields_hash`] of the object that this pass handled; none if others changed it.
    pub(crate) user_fields_hash: Option<u64>,
    /// A random number from 0 to 1 that spreads the back-off of this pass.
    pub(crate) random: f64,
    /// The back-off if this pass fails.
    pub(crate) retry: Duration,
    /// There is no object of this key: `object` is a placeholder.
    pub(crate) is_absent: bool,
    pub(crate) own: OwnWrites,
}

/// Whether a pass may perform an effect, or must end so that the next pass performs it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum Recorded {
    /// The object as read has it already: continue.
    Already,
    /// This pass has written it: end with `Again`.
    Now,
}

impl Pass {
    /// Eight hex digits, the same in logs, status and events of this pass.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Namespace and name of the object.
    pub fn key(&self) -> &ObjectKey {
        self.object.key()
    }

    /// The object as this pass read it.
    pub fn object(&self) -> &Stored {
        &self.object
    }

    /// The engine's clock.
    pub fn clock(&self) -> &SharedClock {
        &self.clock
    }

    /// Adds the fields of `span` to the log line about the end of this pass. Earlier lines have them
    /// only if the feature runs its code in the span.
    pub fn describe(&mut self, span: &tracing::Span) {
        self.details = span.clone();
    }

    /// How long the engine waits before the next pass if this one ends in an error.
    pub fn retry_in(&self) -> Duration {
        self.retry
    }

    /// Whether a person waits for this pass: the object was edited, annotated or deleted.
    pub fn is_urgent(&self) -> bool {
        self.slot.urgent
    }

    /// Whether this pass has written the object. Then it must end, and the next pass continues.
    pub fn has_written(&self) -> bool {
        self.written.is_some()
    }

    /// Adds `finalizer` to the object if it is missing. Call it before an effect that needs it.
    pub async fn ensure_finalizer(&mut self, finalizer: &str) -> Result<Recorded, ApiError> {
        let has = |list: &[String]| list.iter().any(|one| one == finalizer);
        if has(&self.object.metadata().finalizers.unwrap_or_default()) {
            return Ok(Recorded::Already);
        }
        self.edit_metadata("add finalizer to", |metadata| {
            let mut list = metadata.finalizers.clone().unwrap_or_default();
            (!has(&list)).then(|| {
                list.push(finalizer.to_owned());
                json!({"finalizers": list})
            })
        })
        .await?;
        Ok(Recorded::Now)
    }

    /// Removes `finalizer`, so that the object can go. Retries if others write the object meanwhile.
    pub async fn drop_finalizer(&mut self, finalizer: &str) -> Result<(), ApiError> {
        let gone = self.edit_metadata("remove finalizer from", |metadata| {
            let list = metadata.finalizers.clone().unwrap_or_default();
            let others: Vec<_> = list.iter().filter(|one| *one != finalizer).collect();
            (others.len() < list.len()).then(|| json!({"finalizers": others}))
        });
        match gone.await {
            Err(ApiError::Stale { .. }) => Ok(()), // another object has this name: ours is gone
            Err(error) if error.is_not_found() => Ok(()),
            other => other,
        }
    }

    /// Adds `finalizer`, bound to the version that this pass read. Does not retry.
    pub(crate) async fn add_finalizer(&mut self, finalizer: &str) -> Result<(), ApiError> {
        let mut finalizers = self.object.metadata().finalizers.unwrap_or_default();
        finalizers.push(finalizer.to_owned());
        self.write_finalizers(finalizers).await
    }

    /// Removes `finalizer`, bound to the version that this pass read. Does not retry.
    pub(crate) async fn remove_finalizer(&mut self, finalizer: &str) -> Result<(), ApiError> {
        let mut finalizers = self.object.metadata().finalizers.unwrap_or_default();
        finalizers.retain(|one| one != finalizer);
        match self.write_finalizers(finalizers).await {
            Err(error) if error.is_not_found() => Ok(()),
            other => other,
        }
    }

    async fn write_finalizers(&mut self, finalizers: Vec<String>) -> Result<(), ApiError> {
        self.send_edit(json!({"metadata": {"finalizers": finalizers}}))
            .await
    }

    /// Writes status, bound to the version that this pass read or has just written. `before` has the
    /// fields of the old status that the caller owns; other fields and conditions stay.
    pub(crate) async fn update_status(
        &mut self,
        before: &Value,
        after: &Value,
    ) -> Result<(), ApiError> {
        let object = self.written.as_ref().unwrap_or(&self.object).clone();
        let version = object.resource_version();
        let bound = Bound::Version(object.uid(), &version);
        let what = format!("write status of {} {}", self.kind.kind, self.key());
        let old = self.parsed(&what)?;
        self.send_status(old.get("status"), Some(before), after, bound)
            .await
            .map(drop)
    }

    /// Removes an annotation.
    pub async fn remove_annotation(&mut self, annotation: &str) -> Result<(), ApiError> {
        self.edit_metadata("remove annotation from", |metadata| {
            let has = metadata
                .annotations
                .as_ref()
                .is_some_and(|all| all.contains_key(annotation));
            has.then(|| json!({"annotations": {annotation: null}}))
        })
        .await
    }

    /// Writes status at the end of a pass, if it differs from the status of the object. Returns whether
    /// it wrote. After another write of this pass it does nothing: the next pass writes status.
    pub async fn write_status<S: Serialize + DeserializeOwned>(
        &mut self,
        status: &S,
    ) -> Result<bool, ApiError> {
        if self.has_written() {
            return Ok(false);
        }
        let object = self.object.clone();
        self.patch_status(status, Bound::Uid(object.uid())).await
    }

    /// Writes status with an intent before its effect, bound to the version that this pass read. End the
    /// pass with `Again` if the result is [`Recorded::Now`].
    pub async fn write_intent<S: Serialize + DeserializeOwned>(
        &mut self,
        status: &S,
    ) -> Result<Recorded, ApiError> {
        if self.has_written() {
            return Ok(Recorded::Now); // the next pass writes it
        }
        let object = self.object.clone();
        let version = object.resource_version();
        let bound = Bound::Version(object.uid(), &version);
        Ok(if self.patch_status(status, bound).await? {
            Recorded::Now
        } else {
            Recorded::Already
        })
    }

    /// Emits an event about the object. Call it once per transition.
    pub fn event(&self, note: Note) {
        self.events
            .record(reference(&self.kind, &self.object), note.pass(&self.id));
    }

    /// Waits for a call that leaves the cluster. The pass gives its slot back meanwhile.
    pub async fn outside<T>(&mut self, wait: impl Future<Output = T> + Send) -> T {
        self.slot.outside(wait).await
    }

    async fn patch_status<S: Serialize + DeserializeOwned>(
        &mut self,
        status: &S,
        bound: Bound<'_>,
    ) -> Result<bool, ApiError> {
        let what = format!("write status of {} {}", self.kind.kind, self.key());
        let new = serde_json::to_value(status).map_err(|error| ApiError::Unreadable {
            what: what.clone(),
            message: error.to_string(),
        })?;
        let old = self.parsed(&what)?;
        let version = self.object.resource_version();
        let bound = bound.over(old.get("status"), &version);
        // The fields that our type has are ours to remove. Other fields belong to others.
        let ours = old
            .get("status")
            .and_then(|old| serde_json::to_value(S::deserialize(old).ok()?).ok());
        self.send_status(old.get("status"), ours.as_ref(), &new, bound)
            .await
    }

    /// The object as this pass read it, as JSON.
    fn parsed(&self, what: &str) -> Result<Value, ApiError> {
        let parsed = self.object.parse(&self.kind);
        parsed.map_err(|error| ApiError::Unreadable {
            what: what.to_owned(),
            message: error.to_string(),
        })
    }

    /// Sends the differences between `old` and `new`. Returns false if there are none.
    async fn send_status(
        &mut self,
        old: Option<&Value>,
        ours: Option<&Value>,
        new: &Value,
        bound: Bound<'_>,
    ) -> Result<bool, ApiError> {
        let Some(body) = patch::status_patch(old, ours, new, bound) else {
            return Ok(false);
        };
        let what = format!("write status of {} {}", self.kind.kind, self.key());
        let path = format!("{}/status", self.kind.path(self.key()));
        self.send_status_patch(&path, &what, &body, bound).await?;
        Ok(true)
    }

    async fn send_status_patch(
        &mut self,
        path: &str,
        what: &str,
        body: &Value,
        bound: Bound<'_>,
    ) -> Result<(), ApiError> {
        let sent = patch::patch(&self.client, path, what.to_owned(), Form::Json, body).await;
        let text = match sent {
            Err(error) if error.class() == Class::Invalid => {
                return Err(self.stale(bound).await?.unwrap_or(error));
            }
            other => other?,
        };
        self.learn(&text);
        Ok(())
    }

    /// `Stale` if the object is not the one that the patch is bound to. The API server answers a failed
    /// test of a JSON patch like an invalid patch, so this reads the object.
    async fn stale(&self, bound: Bound<'_>) -> Result<Option<ApiError>, ApiError> {
        let text = patch::get(&self.client, &self.kind, self.key()).await?;
        let now = self.read(&text)?;
        let stale = match bound {
            Bound::Uid(uid) => now.uid() != uid,
            Bound::Version(uid, version) => now.uid() != uid || now.resource_version() != version,
        };
        self.cache.store().learn(now);
        Ok(stale.then(|| ApiError::Stale {
            what: format!("write status of {} {}", self.kind.kind, self.key()),
        }))
    }

    /// Edits metadata, bound to the version just read, so that it undoes no write of others. Reads the
    /// object and retries if it has changed. After another write of metadata it does nothing: the next pass
    /// edits the object.
    async fn edit_metadata(
        &mut self,
        verb: &str,
        edit: impl Fn(&k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta) -> Option<Value>,
    ) -> Result<(), ApiError> {
        if self.own.has_written_metadata {
            return Ok(());
        }
        let path = self.kind.path(self.key());
        let what = format!("{verb} {} {}", self.kind.kind, self.key());
        let mut seen = self.object.clone();
        let mut retries = 0;
        loop {
            let Some(mut metadata) = edit(&seen.metadata()) else {
                return Ok(());
            };
            metadata["resourceVersion"] = json!(seen.resource_version());
            match patch::patch(
                &self.client,
                &path,
                what.clone(),
                Form::Merge,
                &json!({"metadata": metadata}),
            )
            .await
            {
                Ok(text) => {
                    self.learn(&text);
                    self.own.has_written_metadata = true;
                    // The next pass must handle edits that others made before ours.
                    let is_only_edit = seen.user_fields_hash() == self.object.user_fields_hash();
                    self.user_fields_hash = match &self.written {
                        // It is gone with its last finalizer. Later passes must not see it.
                        Some(now) if is_gone(now) => {
                            self.cache.store().release(now);
                            None
                        }
                        Some(now) if is_only_edit => Some(now.user_fields_hash()),
                        Some(_) | None => None,
                    };
                    return Ok(());
                }
                Err(error) if error.class() == Class::Stale && retries < METADATA_RETRIES => {
                    retries += 1;
                }
                Err(error) => return Err(error),
            }
            let text = patch::get(&self.client, &self.kind, self.object.key()).await?;
            let now = self.read(&text)?;
            if now.uid() != self.object.uid() {
                return Err(ApiError::Stale { what }); // another object has this name
            }
            seen = self.cache.store().learn(now);
        }
    }

    fn learn(&mut self, text: &str) {
        let Ok(now) = self.read(text) else { return };
        let now = self.cache.store().learn(now);
        self.written = Some(now);
    }

    fn read(&self, text: &str) -> Result<Stored, ApiError> {
        Stored::read(&self.kind, text, &self.cache.key().projection).map_err(|error| {
            ApiError::Unreadable {
                what: format!("read {} {}", self.kind.kind, self.key()),
                message: error.to_string(),
            }
        })
    }
}

/// Whether the object of this answer is gone: it is being deleted and has no finalizer.
fn is_gone(answer: &Stored) -> bool {
    answer.is_deleting()
        && answer
            .metadata()
            .finalizers
            .is_none_or(|finalizers| finalizers.is_empty())
}

/// The reference to the object in its events.
fn reference(kind: &Kind, object: &Stored) -> ObjectReference {
    ObjectReference {
        api_version: Some(kind.api_version()),
        kind: Some(kind.kind.clone()),
        namespace: object.key().namespace.as_deref().map(str::to_owned),
        name: Some(object.key().name.to_string()),
        uid: Some(object.uid().to_owned()),
        ..ObjectReference::default()
    }
}

#[cfg(test)]
mod tests;
