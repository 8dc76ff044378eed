//! One run for one object: what it may ask and write.

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

/// Tries of a guarded metadata write against others who write at the same time.
const TRIES: u32 = 5;

/// The name of the log span around a pass; its field `kind` says whose pass it is.
pub const PASS_SPAN: &str = "pass";

/// One pass. It writes the object at most once; what it writes, the cache knows at once.
pub struct Pass {
    pub(crate) id: String,
    pub(crate) kind: Kind,
    pub(crate) cache: Cache,
    pub(crate) object: Arc<Stored>,
    pub(crate) client: Client,
    pub(crate) events: Events,
    pub(crate) clock: SharedClock,
    pub(crate) slot: Slot,
    /// What the feature adds to the pass's last log line.
    pub(crate) details: tracing::Span,
    /// The object as our own write left it.
    pub(crate) written: Option<Arc<Stored>>,
    /// The wish this pass has dealt with; none if others changed it meanwhile.
    pub(crate) wish: Option<u64>,
    /// The draw that spreads this pass's back-off, and the back-off if it fails.
    pub(crate) random: f64,
    pub(crate) retry: Duration,
    /// There is no such object: `object` only stands for its key.
    pub(crate) is_absent: bool,
}

/// Whether an effect may go on, or the pass must end so that the next acts on what was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum Recorded {
    /// The object as read already says so: go on.
    Already,
    /// Written just now: end with `Again`.
    Now,
}

impl Pass {
    /// Eight hex digits, the same in logs, status and events of this pass.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Whose pass it is.
    pub fn key(&self) -> &ObjectKey {
        self.object.key()
    }

    /// The object as this pass read it.
    pub fn object(&self) -> &Stored {
        &self.object
    }

    /// Time, as the engine sees it.
    pub fn clock(&self) -> &SharedClock {
        &self.clock
    }

    /// Adds the fields of `span` to the log line that tells how this pass ended. Lines in between get
    /// them when the feature's work runs in the span, too.
    pub fn describe(&mut self, span: &tracing::Span) {
        self.details = span.clone();
    }

    /// How long the engine waits before the next pass if this one ends in an error.
    pub fn retry_in(&self) -> Duration {
        self.retry
    }

    /// Whether a person waits for this pass: the object was edited, annotated or deleted.
    pub fn is_asked_for(&self) -> bool {
        self.slot.urgent
    }

    /// Whether this pass has written the object: then it ends, and the next one acts.
    pub fn has_written(&self) -> bool {
        self.written.is_some()
    }

    /// Makes sure the object carries `finalizer` before an effect that needs it.
    pub async fn ensure_finalizer(&mut self, finalizer: &str) -> Result<Recorded, ApiError> {
        let has = |list: &[String]| list.iter().any(|held| held == finalizer);
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

    /// Lets the object go: what it stood for is gone, or the policy says keep.
    pub async fn drop_finalizer(&mut self, finalizer: &str) -> Result<(), ApiError> {
        let gone = self.edit_metadata("remove finalizer from", |metadata| {
            let list = metadata.finalizers.clone().unwrap_or_default();
            let rest: Vec<_> = list.iter().filter(|held| *held != finalizer).collect();
            (rest.len() < list.len()).then(|| json!({"finalizers": rest}))
        });
        match gone.await {
            Err(ApiError::Stale { .. }) => Ok(()), // a namesake is there: this one has gone
            Err(error) if error.is_not_found() => Ok(()),
            other => other,
        }
    }

    /// Puts `finalizer` on the object under the version that this pass read, in one try.
    pub(crate) async fn add_finalizer(&mut self, finalizer: &str) -> Result<(), ApiError> {
        let mut finalizers = self.object.metadata().finalizers.unwrap_or_default();
        finalizers.push(finalizer.to_owned());
        self.write_finalizers("add finalizer to", finalizers).await
    }

    /// Removes `finalizer` under the version that this pass read, in one try.
    pub(crate) async fn remove_finalizer(&mut self, finalizer: &str) -> Result<(), ApiError> {
        let mut finalizers = self.object.metadata().finalizers.unwrap_or_default();
        finalizers.retain(|held| held != finalizer);
        match self
            .write_finalizers("remove finalizer from", finalizers)
            .await
        {
            Err(error) if error.is_not_found() => {}
            other => other?,
        }
        if let Some(now) = self.written.as_ref().filter(|now| is_gone(now)) {
            self.cache.store().release(now); // what follows must not meet it again
            self.wish = None;
        }
        Ok(())
    }

    async fn write_finalizers(
        &mut self,
        verb: &str,
        finalizers: Vec<String>,
    ) -> Result<(), ApiError> {
        let version = self.object.resource_version();
        let body = json!({"metadata": {"resourceVersion": version, "finalizers": finalizers}});
        let what = format!("{verb} {} {}", self.kind.kind, self.key());
        let path = self.kind.path(self.key());
        let text = patch::patch(&self.client, &path, what, Form::Merge, &body).await?;
        self.learn(&text);
        self.wish = self.written.as_ref().map(|written| written.wish());
        Ok(())
    }

    /// Replaces status under the version that this pass read, or has just written. `before` is what the
    /// writer knows of the old status; other fields of it belong to others and stay.
    pub(crate) async fn replace_status(
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

    /// Removes an annotation that has done its work.
    pub async fn drop_annotation(&mut self, annotation: &str) -> Result<(), ApiError> {
        self.edit_metadata("remove annotation from", |metadata| {
            let held = metadata
                .annotations
                .as_ref()
                .is_some_and(|all| all.contains_key(annotation));
            held.then(|| json!({"annotations": {annotation: null}}))
        })
        .await
    }

    /// Writes status once, at the end, and only if it differs from what the object has.
    /// After another write of this pass it does nothing: the next pass starts from that.
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

    /// Records an intent in status before its effect; bound to the version this pass has read, so
    /// that it never hides news. End the pass with `Again` when it answers [`Recorded::Now`].
    pub async fn write_intent<S: Serialize + DeserializeOwned>(
        &mut self,
        status: &S,
    ) -> Result<Recorded, ApiError> {
        if self.has_written() {
            return Ok(Recorded::Now); // the next pass starts from that
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

    /// Tells of something on the object, once per transition.
    pub fn event(&self, note: Note) {
        self.events
            .record(reference(&self.kind, &self.object), note.pass(&self.id));
    }

    /// Waits for an outside limiter without holding a place among the running passes.
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
        // What our type knows of the old status is ours to remove; the rest is others'.
        let ours = old
            .get("status")
            .and_then(|old| serde_json::to_value(S::deserialize(old).ok()?).ok());
        self.send_status(old.get("status"), ours.as_ref(), &new, bound)
            .await
    }

    /// The object as it was read, as JSON.
    fn parsed(&self, what: &str) -> Result<Value, ApiError> {
        let parsed = self.object.parse(&self.kind);
        parsed.map_err(|error| ApiError::Unreadable {
            what: what.to_owned(),
            message: error.to_string(),
        })
    }

    /// Sends what differs between `old` and `new`; false: nothing does.
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
        let text = match patch::patch(&self.client, &path, what.clone(), Form::Json, &body).await {
            Err(error) if error.class() == Class::Invalid => {
                return Err(self.stale(bound).await?.unwrap_or(error));
            }
            other => other?,
        };
        self.learn(&text);
        Ok(true)
    }

    /// A failed test of a patch answers like any invalid one; only a look at the object tells.
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

    /// Edits metadata under the version just read; others who write meanwhile are not undone.
    async fn edit_metadata(
        &mut self,
        verb: &str,
        edit: impl Fn(&k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta) -> Option<Value>,
    ) -> Result<(), ApiError> {
        let path = self.kind.path(self.key());
        let what = format!("{verb} {} {}", self.kind.kind, self.key());
        let mut seen = self.object.clone();
        let mut tries = 0;
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
                    // Our own edit is no news to us, unless somebody else's came with it.
                    let alone = seen.wish() == self.object.wish();
                    self.wish = match &self.written {
                        // It went with its last finalizer. What follows must not meet it again.
                        Some(now) if is_gone(now) => {
                            self.cache.store().release(now);
                            None
                        }
                        Some(now) if alone => Some(now.wish()),
                        Some(_) | None => None,
                    };
                    return Ok(());
                }
                Err(error) if error.class() == Class::Stale && tries < TRIES => tries += 1,
                Err(error) => return Err(error),
            }
            let text = patch::get(&self.client, &self.kind, self.object.key()).await?;
            let now = self.read(&text)?;
            if now.uid() != self.object.uid() {
                return Err(ApiError::Stale { what }); // a namesake: nothing of ours
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

/// Whether the answer to an edit tells of an object that the edit has let go.
fn is_gone(answer: &Stored) -> bool {
    answer.is_deleting()
        && answer
            .metadata()
            .finalizers
            .is_none_or(|held| held.is_empty())
}

/// The object as events name it.
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
