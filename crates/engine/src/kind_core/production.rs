//! Passes of a running operator.

use std::collections::HashMap;
use std::time::Duration;

use futures::future::BoxFuture;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kernel::{CallError, ObjectKey, Progress, SharedClock};
use parking_lot::Mutex;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tracing::Instrument;

use super::effects::{Effects, ObjectWrite};
use super::run::{Remembered, run_pass};
use super::{
    AnswerOf, CallContext, Ended, FactsOf, KindCore, KindIo, Object, OutcomeOf, PassFacts, ReadOf,
    StepOf, World,
};
use crate::applier::seems_to_need_apply;
use crate::controller::{Failure, Passes};
use crate::patch::merged;
use crate::stored::{Malformed, Stored};
use crate::{ApiError, Classified, Kind, Note, Pass, Projection, reach_kill_point};

/// The passes of a pure core, with what the engine remembers of each object.
pub(crate) struct CorePasses<I: KindIo> {
    io: I,
    remembered: Mutex<HashMap<ObjectKey, (Box<str>, Remembered<I::Core>)>>,
}

impl<I: KindIo> CorePasses<I> {
    pub(crate) fn new(io: I) -> Self {
        Self {
            io,
            remembered: Mutex::default(),
        }
    }

    async fn run(&self, pass: &mut Pass) -> Result<Progress, Failure> {
        let (key, uid) = (pass.key().clone(), Box::from(pass.object().uid()));
        if !self.io.is_in_scope(&key) {
            return Ok(Progress::done());
        }
        let mut object = object::<I::Core>(&pass.kind, &pass.object).map_err(Failure::Malformed)?;
        object.exists = !pass.is_absent;
        let span = self.io.log_span(&object);
        pass.describe(&span);
        // Removed, so that a pass that is dropped leaves nothing outdated. A replaced object starts empty.
        let before = self.remembered.lock().remove(&key);
        let before = before.filter(|(before, _)| *before == uid);
        let mut remembered = before.map(|(_, before)| before).unwrap_or_default();
        let facts = PassFacts {
            id: pass.id().to_owned(),
            random: pass.random,
            retry_in: pass.retry_in(),
            is_urgent: pass.is_urgent(),
        };
        let effects = Production {
            io: &self.io,
            id: facts.id.clone(),
            is_urgent: facts.is_urgent,
            clock: pass.clock().clone(),
            key: key.clone(),
            pass: tokio::sync::Mutex::new(pass),
        };
        let ended = run_pass(self.io.core(), object, facts, &mut remembered, &effects);
        let ended = ended.instrument(span).await;
        self.remembered.lock().insert(key, (uid, remembered));
        ended.map_err(|CallError { class, message, .. }| Failure::Failed { class, message })
    }
}

impl<I: KindIo> Passes for CorePasses<I> {
    fn pass<'a>(&'a self, pass: &'a mut Pass) -> BoxFuture<'a, Result<Progress, Failure>> {
        Box::pin(self.run(pass))
    }

    fn gone(&self, key: &ObjectKey) {
        self.remembered.lock().remove(key);
        self.io.gone(key);
    }

    fn absent(&self, kind: &Kind, key: &ObjectKey) -> Option<Stored> {
        let mut object = self.io.absent(key)?;
        object["metadata"]["name"] = json!(&*key.name);
        object["metadata"]["namespace"] = json!(key.namespace.as_deref());
        Stored::read(kind, &object.to_string(), &Projection::Full).ok()
    }
}

/// The object as the input of a core.
pub(super) fn object<K: KindCore>(kind: &Kind, stored: &Stored) -> Result<Object<K>, Malformed> {
    /// Only the status of an object.
    #[derive(Deserialize)]
    struct OnlyStatus<S> {
        #[serde(
            default = "Option::default",
            bound(deserialize = "S: DeserializeOwned")
        )]
        status: Option<S>,
    }
    #[derive(Deserialize, Default)]
    struct OnlyConditions {
        #[serde(default)]
        conditions: Vec<Value>,
    }
    let OnlyStatus { status } = stored.parse::<OnlyStatus<K::Status>>(kind)?;
    let conditions = stored.parse::<OnlyStatus<OnlyConditions>>(kind)?.status;
    let conditions = conditions.unwrap_or_default().conditions;
    Ok(Object {
        key: stored.key().clone(),
        metadata: stored.metadata(),
        resource: stored.parse(kind)?,
        status: status.unwrap_or_default(),
        conditions: readable(conditions),
        exists: true,
    })
}

/// The conditions that can be parsed. Malformed conditions of another release must not stop the passes.
fn readable(conditions: Vec<Value>) -> Vec<Condition> {
    let read = |condition| serde_json::from_value(condition).ok();
    conditions.into_iter().filter_map(read).collect()
}

type EndedOf<I> = Ended<<<I as KindIo>::Core as KindCore>::Intent>;

/// Effects of a running operator.
struct Production<'a, I> {
    io: &'a I,
    key: ObjectKey,
    id: String,
    is_urgent: bool,
    clock: SharedClock,
    /// Calls do not need the lock, and the object is written when no call is in flight.
    pass: tokio::sync::Mutex<&'a mut Pass>,
}

impl<I> Production<'_, I> {
    fn context(&self) -> CallContext<'_> {
        CallContext {
            key: &self.key,
            pass_id: &self.id,
            is_urgent: self.is_urgent,
        }
    }
}

impl<I: KindIo> Effects<I::Core> for Production<'_, I> {
    fn gather(&self, object: &Object<I::Core>) -> FactsOf<I> {
        self.io.gather(object)
    }

    fn count(&self, world: &World<I::Core>, ended: &EndedOf<I>, took: Duration) {
        self.io.count(world, ended, took);
    }

    fn now(&self) -> Timestamp {
        self.clock.now()
    }

    fn elapsed(&self) -> Duration {
        self.clock.elapsed()
    }

    fn has_kill_points(&self) -> bool {
        cfg!(feature = "chaos")
    }

    async fn kill_point(&self, name: &str) {
        reach_kill_point(name).await;
    }

    fn event(&self, note: Note) {
        let pass = self.pass.try_lock();
        pass.expect("events are emitted when no call is in flight")
            .event(note);
    }

    async fn read(&self, read: &ReadOf<I>) -> Result<AnswerOf<I>, CallError> {
        self.io.read(read, &self.context()).await
    }

    async fn apply(&self, step: &StepOf<I>) -> Result<OutcomeOf<I>, CallError> {
        self.io.apply(step, &self.context()).await
    }

    async fn is_needed(&self, write: &ObjectWrite<'_>) -> Result<bool, CallError> {
        let pass = self.pass.lock().await;
        match write {
            ObjectWrite::ApplyOwn { manager, body, .. } => {
                let needed = pass.needs_own_apply(manager, body.clone()).await;
                needed.map_err(|error| CallError::from(&error))
            }
            write => Ok(changes(&pass.kind, &pass.object, write)),
        }
    }

    async fn write(&self, write: ObjectWrite<'_>, _version: &str) -> Result<String, CallError> {
        let mut pass = self.pass.lock().await;
        let written = match write {
            ObjectWrite::AddFinalizer(finalizer) => pass.add_finalizer(finalizer).await,
            ObjectWrite::RemoveFinalizer(finalizer) => pass.remove_finalizer(finalizer).await,
            ObjectWrite::RemoveAnnotation(annotation) => pass.remove_annotation(annotation).await,
            ObjectWrite::Edit(patch) => pass.send_edit(patch).await,
            ObjectWrite::ApplyOwn {
                manager,
                body,
                force,
            } => pass.apply_own(manager, body, force).await.map(drop),
            ObjectWrite::Status { before, after } => pass.update_status(before, after).await,
            ObjectWrite::ReplaceStatus(status) => pass.replace_status(status).await.map(drop),
        };
        written.map_err(|error| CallError::from(&error))?;
        let latest = pass.written.as_ref().unwrap_or(&pass.object);
        Ok(latest.resource_version())
    }

    async fn wait_outside<T: Send>(&self, wait: impl Future<Output = T> + Send) -> T {
        let mut pass = self.pass.lock().await;
        pass.outside(wait).await
    }
}

/// Whether a write would change the object, as far as the object alone shows it.
pub(super) fn changes(kind: &Kind, stored: &Stored, write: &ObjectWrite<'_>) -> bool {
    let object: Value = stored.parse(kind).unwrap_or_default();
    match write {
        ObjectWrite::Edit(patch) => merged(&object, patch) != object,
        ObjectWrite::ApplyOwn { manager, body, .. } => {
            seems_to_need_apply(kind, manager, body, &object)
        }
        ObjectWrite::ReplaceStatus(status) => {
            let present = |status: Option<&Value>| status.filter(|one| !one.is_null()).cloned();
            present(object.get("status")) != present(*status)
        }
        ObjectWrite::AddFinalizer(_)
        | ObjectWrite::RemoveFinalizer(_)
        | ObjectWrite::RemoveAnnotation(_)
        | ObjectWrite::Status { .. } => true,
    }
}

/// An error of the API server as the error of a call. Its code is the status of the answer, such as `403`.
impl From<&ApiError> for CallError {
    fn from(error: &ApiError) -> Self {
        let code = match error {
            ApiError::Answer { code, .. } => Some(code.to_string()),
            ApiError::Unreachable { .. }
            | ApiError::Unreadable { .. }
            | ApiError::Deposed { .. }
            | ApiError::Stale { .. }
            | ApiError::Refused { .. } => None,
        };
        Self {
            code,
            ..Self::of_class(error.class(), error.to_string())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_malformed_condition_is_ignored() {
        let time = "2026-01-02T03:04:05Z";
        let synced = json!({"type": "Synced", "status": "True", "lastTransitionTime": time});
        let conditions = readable(vec![json!({"type": "Ready"}), synced]);
        let kinds: Vec<_> = conditions.iter().map(|one| &*one.type_).collect();
        assert_eq!(kinds, ["Synced"]);
    }
}
