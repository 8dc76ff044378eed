//! Writes of the object of a pass that need no finalizer and no type of its status.

use serde_json::{Value, json};

use super::{Pass, Recorded, is_gone};
use crate::applier::ApplyMemory;
use crate::patch::{self, Bound, Form};
use crate::{ApiError, Applied, Applier, Onto};

/// What a pass needs to write its own object.
#[derive(Clone, Default)]
pub(crate) struct OwnWrites {
    /// Shared by all passes of a controller.
    memory: ApplyMemory,
    /// This pass has written metadata.
    pub(super) has_written_metadata: bool,
}

impl OwnWrites {
    pub(crate) fn new(memory: ApplyMemory) -> Self {
        Self {
            memory,
            has_written_metadata: false,
        }
    }
}

impl Pass {
    /// Edits metadata, spec and other fields but status. `edit` gets the object as this pass read it and
    /// returns a merge patch, or none if nothing is to be changed. It should be pure.
    ///
    /// Nothing is sent if the patch changes nothing. A pass makes one write of metadata: after another one
    /// this does nothing and returns [`Recorded::Now`], so that the next pass edits the object.
    /// # Errors
    /// `Stale` if the object has changed since it was read. `Invalid` if the API server accepts the patch and
    /// yet stores nothing of it, and, with nothing sent, if the patch is not a map or contains status.
    pub async fn edit(
        &mut self,
        edit: impl FnOnce(&Value) -> Option<Value>,
    ) -> Result<Recorded, ApiError> {
        if self.own.has_written_metadata {
            return Ok(Recorded::Now);
        }
        let object = self.parsed("edit")?;
        let Some(patch) = edit(&object) else {
            return Ok(Recorded::Already);
        };
        if patch::merged(&object, &patch) == object {
            return Ok(Recorded::Already);
        }
        self.send_edit(patch).await?;
        Ok(Recorded::Now)
    }

    /// Applies `body` to the object by server-side apply, under a field manager of its own. `body` needs no
    /// name, apiVersion or kind. Use it for labels or annotations that others may write, too.
    ///
    /// Nothing is sent if the object is as desired. To see this without a read, watch the objects with
    /// [`Projection::ManagedBy`](crate::Projection::ManagedBy) this manager. It is a request of its own and
    /// counts as the write of metadata: after another one this does nothing and returns [`Recorded::Now`].
    /// # Errors
    /// `Stale` if the object has changed since it was read. `Conflict` names the field and the manager that
    /// owns it, unless `force` takes it over.
    pub async fn apply_own(
        &mut self,
        manager: &str,
        body: Value,
        force: bool,
    ) -> Result<Recorded, ApiError> {
        if self.own.has_written_metadata {
            return Ok(Recorded::Now);
        }
        let live = self.parsed("apply")?;
        let version = self.object.resource_version();
        let object = self.object.clone();
        let onto = Onto {
            uid: object.uid(),
            version: Some(&version),
            force,
        };
        let (applier, body) = (self.own_applier(manager), self.named(body));
        match applier
            .apply_onto(&self.kind, body, onto, Some(&live))
            .await?
        {
            Applied::Unchanged => Ok(Recorded::Already),
            Applied::Written(written) => {
                self.metadata_written(&written.to_string());
                Ok(Recorded::Now)
            }
        }
    }

    /// Whether [`apply_own`](Self::apply_own) would send something.
    pub(crate) async fn needs_own_apply(
        &self,
        manager: &str,
        body: Value,
    ) -> Result<bool, ApiError> {
        let live = self.parsed("apply")?;
        let applier = self.own_applier(manager);
        applier
            .needs_apply(&self.kind, self.named(body), &live)
            .await
    }

    /// Replaces the whole status, also fields and conditions of others, or removes it. It also works for a
    /// kind without the status subresource, at the cost of one more request. Returns whether it wrote.
    ///
    /// The write is bound to the version that this pass read or has just written, and nothing is sent if the
    /// status is equal. Unlike [`write_status`](Self::write_status), it writes after a write of metadata, too.
    pub async fn replace_status(&mut self, status: Option<&Value>) -> Result<bool, ApiError> {
        let what = format!("write status of {} {}", self.kind.kind, self.key());
        let old = self.parsed(&what)?;
        let object = self.written.as_ref().unwrap_or(&self.object).clone();
        let version = object.resource_version();
        let bound = Bound::Version(object.uid(), &version);
        let Some(body) = patch::whole_status_patch(old.get("status"), status, bound) else {
            return Ok(false);
        };
        let path = self.kind.path(self.key());
        let subresource = format!("{path}/status");
        let mut sent = self
            .send_status_patch(&subresource, &what, &body, bound)
            .await;
        if sent.as_ref().is_err_and(ApiError::is_not_found) {
            // The kind has no status subresource, or the object is gone.
            sent = self.send_status_patch(&path, &what, &body, bound).await;
        }
        sent.map(|()| true)
    }

    /// Sends a merge patch of fields but status, bound to the version that this pass read.
    pub(crate) async fn send_edit(&mut self, mut patch: Value) -> Result<(), ApiError> {
        let what = format!("edit {} {}", self.kind.kind, self.key());
        let Some(fields) = patch
            .as_object_mut()
            .filter(|fields| !fields.contains_key("status"))
        else {
            let message = "the edit is not a map, or contains status".to_owned();
            return Err(ApiError::Refused { what, message });
        };
        let metadata = fields.entry("metadata").or_insert_with(|| json!({}));
        if !metadata.is_object() {
            let message = "metadata is not a map".to_owned();
            return Err(ApiError::Refused { what, message });
        }
        metadata["resourceVersion"] = json!(self.object.resource_version());
        let path = self.kind.path(self.key());
        let text = patch::patch(&self.client, &path, what.clone(), Form::Merge, &patch).await?;
        let answer = self.read(&text)?;
        let is_stored = answer.resource_version() != self.object.resource_version();
        // The answer to the removal of the last finalizer has the version of the request.
        if !is_stored && !is_gone(&answer) {
            return Err(not_stored(what));
        }
        self.metadata_written(&text);
        Ok(())
    }

    /// Takes in the answer to a write of metadata that was bound to the version read: nobody else has edited
    /// the object meanwhile.
    fn metadata_written(&mut self, text: &str) {
        self.learn(text);
        self.own.has_written_metadata = true;
        let written = self.written.as_ref();
        self.user_fields_hash = written.map(|written| written.user_fields_hash());
        if let Some(now) = self.written.as_ref().filter(|now| is_gone(now)) {
            self.cache.store().release(now); // later passes must not see it
            self.user_fields_hash = None;
        }
    }

    fn own_applier(&self, manager: &str) -> Applier {
        Applier::with_memory(self.client.clone(), manager, self.own.memory.clone())
    }

    /// `body` with the name of this object.
    fn named(&self, mut body: Value) -> Value {
        if body["metadata"].is_null() && (body.is_object() || body.is_null()) {
            body["metadata"] = json!({});
        }
        if let Some(metadata) = body.get_mut("metadata").and_then(Value::as_object_mut) {
            let key = self.object.key();
            metadata.insert("name".to_owned(), json!(&*key.name));
            metadata.insert("namespace".to_owned(), json!(key.namespace.as_deref()));
        }
        body
    }
}

/// The error of an edit that the API server accepts and drops. Without it, each pass would send the edit again.
fn not_stored(what: String) -> ApiError {
    ApiError::Answer {
        what,
        code: 422,
        reason: "NotStored".to_owned(),
        message: "the API server does not store this edit; correct it, or the schema".to_owned(),
    }
}
