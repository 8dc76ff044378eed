//! The reads and writes of a Probe. Nothing is decided here.

use std::collections::HashMap;
use std::sync::Arc;

use api::probe::{Behaviour, OWNED_LABEL, SecretKey};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use engine::{Applied, Cache, CallContext, Kind, KindIo, Object, WatchKey};
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kernel::{CallError, Class, ObjectKey, Redacted};
use parking_lot::Mutex;
use serde_json::{Value, json};

use super::{Answer, Cached, Child, Digest, Facts, ProbeCore, Read, Source, Step, Thing};
use crate::Ctx;
use crate::outside::{self, Outside};

/// Reads and writes for Probes.
pub(crate) struct Probes {
    core: ProbeCore,
    ctx: Arc<Ctx>,
    owned: Cache,
    /// Values of Secrets between the read and the put of a pass.
    secrets: Mutex<HashMap<ObjectKey, Redacted<String>>>,
}

impl Probes {
    pub(crate) fn new(ctx: Arc<Ctx>, owned: WatchKey) -> Self {
        Self {
            core: ProbeCore {
                cluster: ctx.deck.cluster.clone(),
            },
            owned: ctx.deck.hub.cache(owned),
            ctx,
            secrets: Mutex::default(),
        }
    }

    fn outside(&self) -> Result<&Outside, CallError> {
        let message =
            "the object names something outside, but no outside is configured; set --probe-outside";
        let outside = self.ctx.outside.as_ref();
        outside.ok_or_else(|| CallError::new(Class::Invalid, message))
    }

    async fn thing(&self, name: &str) -> Result<Option<Thing>, CallError> {
        let found = self.outside()?.find(name).await?;
        Ok(found.map(|thing| Thing {
            value: Digest::of(&thing.value),
            marker: thing.marker,
        }))
    }

    async fn config_map(
        &self,
        child: &Child,
        key: &ObjectKey,
    ) -> Result<Option<super::ConfigMap>, CallError> {
        let kind = Kind::of::<ConfigMap>();
        let live = self.ctx.applier.read(&kind, key).await;
        let live = live.map_err(|error| CallError::from(&error))?;
        Ok(live.map(|live| super::ConfigMap {
            owner: live["metadata"]["ownerReferences"][0]["uid"]
                .as_str()
                .map(str::to_owned),
            is_current: self
                .ctx
                .applier
                .is_applied(&kind, desired(child, key), &live),
            live,
        }))
    }

    /// The digest of a key of a Secret; its value is kept for the put.
    async fn secret(
        &self,
        named: &SecretKey,
        key: &ObjectKey,
    ) -> Result<Option<Digest>, CallError> {
        let at = ObjectKey::of(key.namespace.as_deref(), &named.name);
        let secret = self.ctx.applier.read(&Kind::of::<Secret>(), &at).await;
        let secret = secret.map_err(|error| CallError::from(&error))?;
        let text = secret
            .as_ref()
            .and_then(|secret| secret["data"][&named.key].as_str());
        let value = text.and_then(|text| String::from_utf8(STANDARD.decode(text).ok()?).ok());
        let digest = value.as_deref().map(Digest::of);
        if let Some(value) = value {
            self.secrets
                .lock()
                .insert(key.clone(), Redacted::new(value));
        }
        Ok(digest)
    }

    fn value(&self, source: &Source, key: &ObjectKey) -> Result<String, CallError> {
        match source {
            Source::Spec(value) => Ok(value.clone()),
            Source::Secret => {
                let value = self.secrets.lock().remove(key);
                let value = value.map(|value| value.expose().clone());
                value.ok_or_else(|| CallError::new(Class::Transient, "the Secret was not read"))
            }
        }
    }
}

impl KindIo for Probes {
    type Core = ProbeCore;

    fn core(&self) -> &ProbeCore {
        &self.core
    }

    fn gather(&self, object: &Object<ProbeCore>) -> Facts {
        let store = self.owned.store();
        let config_map = match store.get(&object.key) {
            Some(_) => Cached::Present,
            None if store.is_synced() => Cached::Absent,
            None => Cached::Unknown,
        };
        Facts { config_map }
    }

    async fn read(&self, read: &Read, context: &CallContext<'_>) -> Result<Answer, CallError> {
        match read {
            Read::Thing(name) => self.thing(name).await.map(Answer::Thing),
            Read::ConfigMap(child) => {
                let found = self.config_map(child, context.key).await;
                found.map(Answer::ConfigMap)
            }
            Read::Secret(named) => self.secret(named, context.key).await.map(Answer::Secret),
            Read::Misbehave(Behaviour::Panic) => panic!("the spec asks for a panic"),
            Read::Misbehave(_) => std::future::pending().await,
        }
    }

    async fn apply(&self, step: &Step, context: &CallContext<'_>) -> Result<(), CallError> {
        match step {
            Step::Put {
                name,
                marker,
                source,
                ..
            } => {
                let thing = outside::Thing {
                    name: name.clone(),
                    value: self.value(source, context.key)?,
                    marker: Some(marker.clone()),
                };
                Ok(self.outside()?.put(&thing).await?)
            }
            Step::Remove { name, marker } => Ok(self.outside()?.delete(name, marker).await?),
            Step::Write { child, over } => {
                let kind = Kind::of::<ConfigMap>();
                let desired = desired(child, context.key);
                // It is ours, so a hand that edited it does not keep what it took.
                let written = self.ctx.applier.adopt(&kind, desired, over.as_ref()).await;
                written
                    .map(|_: Applied| ())
                    .map_err(|error| CallError::from(&error))
            }
        }
    }

    fn gone(&self, key: &ObjectKey) {
        self.secrets.lock().remove(key);
    }
}

fn desired(child: &Child, key: &ObjectKey) -> Value {
    let metadata = json!({
        "name": &*key.name,
        "namespace": key.namespace.as_deref(),
        "labels": {OWNED_LABEL: "true"},
        "ownerReferences": [child.owner],
    });
    json!({"metadata": metadata, "data": {"text": child.text}})
}
