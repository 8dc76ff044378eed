//! What a team does in its namespace, and what it observes.

use std::{
    fmt::Write,
    path::PathBuf,
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};
use k8s_openapi::api::events::v1::Event;
use kube::{
    Api, Client, Resource, ResourceExt,
    api::{ApiResource, DeleteParams, DynamicObject},
    core::object::HasStatus,
};
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::{
    child,
    eventually::{DEADLINE, pause_after},
    manifests,
    scratch::Scratch,
    stories::{event_lines, events},
};

/// How much of the operator's log a failure shows.
const LOG_LINES: usize = 40;

/// A state of an object to wait for: a closure, [`is`] or [`holds`].
pub trait Sign<K> {
    /// Whether the object has this state; `raw` is the same object untyped.
    fn is_seen(&self, object: &K, raw: &DynamicObject) -> bool;
    /// Its text in error messages.
    fn description(&self) -> String;
}

impl<K, F: Fn(&K) -> bool> Sign<K> for F {
    fn is_seen(&self, object: &K, _: &DynamicObject) -> bool {
        self(object)
    }

    fn description(&self) -> String {
        "as the test wants it".into()
    }
}

/// A condition to wait for. See [`is`] and [`holds`].
#[derive(Debug, Clone)]
pub struct Holds {
    type_: String,
    field: &'static str,
    value: String,
}

/// The condition `type_` has this `reason`, whatever its status.
///
/// A condition about an older generation does not count: it is about the spec before the last edit.
pub fn is(type_: &str, reason: &str) -> Holds {
    Holds {
        type_: type_.into(),
        field: "reason",
        value: reason.into(),
    }
}

/// The condition `type_` is `True`; about older generations as in [`is`].
pub fn holds(type_: &str) -> Holds {
    Holds {
        type_: type_.into(),
        field: "status",
        value: "True".into(),
    }
}

impl Holds {
    fn is_in(&self, object: &DynamicObject) -> bool {
        let conditions = object.data["status"]["conditions"].as_array();
        conditions.into_iter().flatten().any(|condition| {
            let observed = condition["observedGeneration"]
                .as_i64()
                .filter(|observed| *observed > 0);
            let current = object.metadata.generation;
            condition["type"] == *self.type_
                && condition[self.field] == *self.value
                && (observed.is_none() || current.is_none() || observed == current)
        })
    }
}

impl<K> Sign<K> for Holds {
    fn is_seen(&self, _: &K, raw: &DynamicObject) -> bool {
        self.is_in(raw)
    }

    fn description(&self) -> String {
        format!(
            "with condition {} of {} {}",
            self.type_, self.field, self.value
        )
    }
}

/// A namespace, used as an administrator; or the whole cluster.
pub struct Story {
    client: Client,
    namespace: Option<String>,
    operator_log: Option<PathBuf>,
    scratch: Arc<Scratch>,
    deadline: Duration,
}

/// A story in a namespace.
pub type Team = Story;

impl Story {
    /// A story in `namespace`, or of cluster-scoped objects. Failures show the end of
    /// `operator_log` and keep `scratch`.
    pub fn new(
        client: Client,
        namespace: Option<String>,
        operator_log: Option<PathBuf>,
        scratch: Arc<Scratch>,
    ) -> Self {
        Self {
            client,
            namespace,
            operator_log,
            scratch,
            deadline: DEADLINE,
        }
    }

    /// Waits for `deadline` instead of a minute, in real time.
    #[must_use]
    pub fn within(mut self, deadline: Duration) -> Self {
        self.deadline = deadline;
        self
    }

    /// The namespace; empty for a story of cluster-scoped objects.
    pub fn name(&self) -> &str {
        self.namespace.as_deref().unwrap_or_default()
    }

    /// The administrator's client.
    pub fn client(&self) -> Client {
        self.client.clone()
    }

    /// Applies the objects in `yaml`; those without a namespace go into this one.
    pub async fn apply(&self, yaml: &str) -> Result<Vec<DynamicObject>> {
        manifests::apply(&self.client, self.namespace.as_deref(), yaml).await
    }

    /// Requests the deletion of an object. [`Self::gone`] waits for it.
    pub async fn delete<K: Resource<DynamicType = ()>>(&self, name: &str) -> Result<()> {
        let api = self.objects::<K>();
        let deleted = api.delete(name, &DeleteParams::default()).await;
        deleted
            .map(drop)
            .with_context(|| format!("cannot delete {}", self.label(&K::kind(&()), name)))
    }

    /// Waits until the object exists and has the state `sign`.
    ///
    /// # Errors
    /// After the deadline (a minute), with the last state of the object, its events and the end of the
    /// operator's log.
    pub async fn until<K>(&self, name: &str, sign: impl Sign<K>) -> Result<K>
    where
        K: Resource<DynamicType = ()> + Clone + DeserializeOwned + std::fmt::Debug,
    {
        let typed = |raw: &DynamicObject| {
            let value = serde_json::to_value(raw)?;
            Ok(serde_json::from_value(value)?)
        };
        self.wait(&ApiResource::erase::<K>(&()), name, &sign, typed)
            .await
    }

    /// The same; returns only the object's status.
    pub async fn until_status<K>(&self, name: &str, sign: impl Sign<K>) -> Result<K::Status>
    where
        K: Resource<DynamicType = ()> + HasStatus + Clone + DeserializeOwned + std::fmt::Debug,
        K::Status: Default,
    {
        let mut seen = self.until::<K>(name, sign).await?;
        Ok(seen.status_mut().take().unwrap_or_default())
    }

    /// [`Self::until`] for a kind without a Rust type.
    pub async fn until_dynamic(
        &self,
        kind: &ApiResource,
        name: &str,
        sign: impl Sign<DynamicObject>,
    ) -> Result<DynamicObject> {
        self.wait(kind, name, &sign, |raw| Ok(raw.clone())).await
    }

    /// The story's objects of a kind.
    pub(crate) fn objects<K: Resource<DynamicType = ()>>(&self) -> Api<DynamicObject> {
        self.api(&ApiResource::erase::<K>(&()))
    }

    /// Waits until the object is gone.
    pub async fn gone<K: Resource<DynamicType = ()>>(&self, name: &str) -> Result<()> {
        self.gone_dynamic(&ApiResource::erase::<K>(&()), name).await
    }

    /// The same for a kind without a Rust type.
    pub async fn gone_dynamic(&self, kind: &ApiResource, name: &str) -> Result<()> {
        let api = self.api(kind);
        let started = Instant::now();
        loop {
            let last = api.get_opt(name).await;
            match last {
                Ok(None) => return Ok(()),
                last if started.elapsed() > self.deadline => {
                    bail!(self.failure(kind, name, "gone", last.as_ref()).await)
                }
                _ => tokio::time::sleep(pause_after(started.elapsed())).await,
            }
        }
    }

    async fn wait<K>(
        &self,
        kind: &ApiResource,
        name: &str,
        sign: &impl Sign<K>,
        typed: impl Fn(&DynamicObject) -> Result<K>,
    ) -> Result<K> {
        let api = self.api(kind);
        let started = Instant::now();
        loop {
            let last = api.get_opt(name).await;
            if let Ok(Some(raw)) = &last {
                let object = typed(raw).with_context(|| {
                    format!("{} does not fit its type", self.label(&kind.kind, name))
                })?;
                if sign.is_seen(&object, raw) {
                    return Ok(object);
                }
            }
            if started.elapsed() > self.deadline {
                bail!(
                    self.failure(kind, name, &sign.description(), last.as_ref())
                        .await
                );
            }
            tokio::time::sleep(pause_after(started.elapsed())).await;
        }
    }

    fn api(&self, kind: &ApiResource) -> Api<DynamicObject> {
        match &self.namespace {
            Some(namespace) => Api::namespaced_with(self.client.clone(), namespace, kind),
            None => Api::all_with(self.client.clone(), kind),
        }
    }

    fn label(&self, kind: &str, name: &str) -> String {
        match &self.namespace {
            Some(namespace) => format!("{kind} {namespace}/{name}"),
            None => format!("{kind} {name}"),
        }
    }

    async fn failure(
        &self,
        kind: &ApiResource,
        name: &str,
        wanted: &str,
        last: Result<&Option<DynamicObject>, &kube::Error>,
    ) -> String {
        self.scratch.preserve();
        let mut text = format!(
            "{} is not {wanted} after {:?}",
            self.label(&kind.kind, name),
            self.deadline
        );
        let object = match last {
            Ok(Some(object)) => yaml(object.clone()),
            Ok(None) => "it does not exist".into(),
            Err(error) => format!("it cannot be read: {error}"),
        };
        let events = self.event_lines(kind, name).await;
        let _ = write!(
            text,
            "\n--- the object ---\n{object}\n--- its events ---\n{events}"
        );
        if let Some(log) = &self.operator_log {
            let _ = write!(
                text,
                "\n--- the operator's log ---\n{}",
                child::tail(log, LOG_LINES)
            );
        }
        text
    }

    /// The events about an object, one per line.
    async fn event_lines(&self, kind: &ApiResource, name: &str) -> String {
        let is_of_kind = |event: &Event| {
            let about = event.regarding.as_ref();
            about.and_then(|about| about.kind.as_deref()) == Some(kind.kind.as_str())
        };
        match events(self, name).await {
            Ok(mut all) => {
                all.retain(is_of_kind);
                event_lines(&all)
            }
            Err(error) => format!("they cannot be listed: {error}"),
        }
    }
}

/// The object as YAML, without managedFields.
fn yaml(mut object: DynamicObject) -> String {
    object.managed_fields_mut().clear();
    let value = serde_json::to_value(&object).unwrap_or(Value::Null);
    serde_saphyr::to_string(&value).unwrap_or_else(|_| value.to_string())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn object(generation: i64, observed: i64) -> DynamicObject {
        serde_json::from_value(json!({
            "apiVersion": "v1", "kind": "Thing",
            "metadata": { "name": "a", "generation": generation },
            "status": { "conditions": [
                { "type": "Ready", "status": "False", "reason": "Waiting", "observedGeneration": observed },
                { "type": "Synced", "status": "True", "reason": "Succeeded" },
            ] },
        }))
        .unwrap()
    }

    #[test]
    fn a_condition_is_matched_by_type_and_reason() {
        assert!(is("Ready", "Waiting").is_in(&object(1, 1)));
        assert!(!is("Ready", "Succeeded").is_in(&object(1, 1)));
        assert!(holds("Synced").is_in(&object(1, 1)));
        assert!(!holds("Ready").is_in(&object(1, 1)));
    }

    #[test]
    fn a_condition_about_an_older_spec_does_not_count() {
        assert!(!is("Ready", "Waiting").is_in(&object(2, 1)));
        assert!(
            holds("Synced").is_in(&object(2, 1)),
            "without observedGeneration age is unknown"
        );
    }
}
