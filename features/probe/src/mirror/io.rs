//! The reads and writes of a Mirror. Nothing is decided here.

use std::sync::Arc;

use api::probe::{MIRROR_LABEL, MIRROR_OF, SecretKey};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use cluster_client::{LoginSource, VersionedLogin, VettingRules, vet};
use engine::{ApiError, CallContext, Kind, KindIo, Object, Running};
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kernel::{CallError, Class, ObjectKey, Ownership};
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams, Preconditions};
use serde_json::json;

use super::connections::{Connections, marker};
use super::plan::same_cluster;
use super::{Answer, Connection, Copy, MirrorCore, Read, Step};
use crate::Ctx;

/// Reads and writes for Mirrors.
pub(crate) struct Mirrors {
    core: MirrorCore,
    ctx: Arc<Ctx>,
    connections: Arc<Connections>,
}

/// Gets the controller of Mirrors once it runs.
pub(crate) struct ControllerSlot(Arc<Connections>);

impl ControllerSlot {
    pub(crate) fn set(&self, controller: Running) {
        self.0.set_controller(controller);
    }
}

impl Mirrors {
    pub(crate) fn new(ctx: Arc<Ctx>) -> (Self, ControllerSlot) {
        let connections = Connections::new(&ctx.deck);
        let mirrors = Self {
            core: MirrorCore {
                cluster: ctx.deck.cluster.clone(),
            },
            ctx,
            connections: connections.clone(),
        };
        (mirrors, ControllerSlot(connections))
    }

    async fn connection(
        &self,
        mirror: &ObjectKey,
        kubeconfig: &SecretKey,
        pinned: Option<&str>,
        accepted: Option<&str>,
    ) -> Result<Connection, CallError> {
        let at = ObjectKey::of(mirror.namespace.as_deref(), &kubeconfig.name);
        let secret = self.ctx.applier.read(&Kind::of::<Secret>(), &at).await;
        let secret = secret.map_err(|error| CallError::from(&error))?;
        let secret = secret.unwrap_or_default();
        let encoded = secret["data"][&kubeconfig.key].as_str();
        let Some(bytes) = encoded.and_then(|text| STANDARD.decode(text).ok()) else {
            self.connections.release(mirror);
            return Ok(Connection::NoKubeconfig);
        };
        match vet(&bytes, VettingRules::default()) {
            Ok(vetted) => {
                let source = LoginSource {
                    secret: at,
                    key: kubeconfig.key.clone(),
                };
                let version = secret["metadata"]["resourceVersion"].as_str();
                let login = VersionedLogin::of(&vetted, version);
                let connections = &self.connections;
                let connected =
                    connections.connect(mirror, &vetted, source, login, pinned, accepted);
                connected.await
            }
            Err(refused) => {
                self.connections.release(mirror);
                Ok(Connection::Refused(refused.to_string()))
            }
        }
    }

    fn copies(&self, mirror: &ObjectKey, namespace: &str) -> Result<Api<ConfigMap>, CallError> {
        let cluster = self.connections.of(mirror)?;
        Ok(Api::namespaced(cluster.client(), namespace))
    }

    /// The same for a step that was decided for `cluster`.
    fn copies_in(
        &self,
        cluster: &str,
        mirror: &ObjectKey,
        namespace: &str,
    ) -> Result<Api<ConfigMap>, CallError> {
        let connected = self.connections.of(mirror)?;
        same_cluster(cluster, connected.pinned().as_ref())?;
        Ok(Api::namespaced(connected.client(), namespace))
    }

    fn marker(&self, mirror: &ObjectKey) -> String {
        marker(self.core.cluster.as_str(), mirror)
    }

    async fn copy(&self, mirror: &ObjectKey, namespace: &str) -> Result<Option<Copy>, CallError> {
        let found = self.copies(mirror, namespace)?.get_opt(&mirror.name).await;
        let found = found.map_err(|error| classified("get", mirror, error))?;
        Ok(found.map(|live| Copy {
            ownership: match live
                .metadata
                .annotations
                .and_then(|mut all| all.remove(MIRROR_OF))
            {
                Some(owner) if owner == self.marker(mirror) => Ownership::Ours,
                Some(owner) => Ownership::Foreign(owner),
                None => Ownership::Unmarked,
            },
            uid: live.metadata.uid.unwrap_or_default(),
            text: live.data.and_then(|mut data| data.remove("text")),
        }))
    }

    /// Creates the copy, or edits the one of UID `over`. Returns its UID.
    async fn write(
        &self,
        copies: &Api<ConfigMap>,
        mirror: &ObjectKey,
        text: &str,
        over: Option<&str>,
    ) -> Result<String, CallError> {
        let written = if let Some(uid) = over {
            let edit = json!({"metadata": {"uid": uid}, "data": {"text": text}});
            let parameters = PatchParams::default();
            copies
                .patch(&mirror.name, &parameters, &Patch::Merge(edit))
                .await
        } else {
            let mut copy = ConfigMap::default();
            copy.metadata.name = Some((*mirror.name).to_owned());
            copy.metadata.labels = Some([(MIRROR_LABEL.to_owned(), "true".to_owned())].into());
            copy.metadata.annotations = Some([(MIRROR_OF.to_owned(), self.marker(mirror))].into());
            copy.data = Some([("text".to_owned(), text.to_owned())].into());
            copies.create(&PostParams::default(), &copy).await
        };
        let written = written.map_err(|error| classified("write", mirror, error))?;
        Ok(written.metadata.uid.unwrap_or_default())
    }
}

impl KindIo for Mirrors {
    type Core = MirrorCore;

    fn core(&self) -> &MirrorCore {
        &self.core
    }

    fn gather(&self, _object: &Object<MirrorCore>) {}

    async fn read(&self, read: &Read, context: &CallContext<'_>) -> Result<Answer, CallError> {
        match read {
            Read::Connection {
                kubeconfig,
                pinned,
                accepted,
            } => {
                let (pinned, accepted) = (pinned.as_deref(), accepted.as_deref());
                let connection = self.connection(context.key, kubeconfig, pinned, accepted);
                connection.await.map(Answer::Connection)
            }
            Read::Copy(namespace) => self.copy(context.key, namespace).await.map(Answer::Copy),
        }
    }

    async fn apply(&self, step: &Step, context: &CallContext<'_>) -> Result<String, CallError> {
        match step {
            Step::Write {
                cluster,
                namespace,
                text,
                over,
            } => {
                let copies = self.copies_in(cluster, context.key, namespace)?;
                self.write(&copies, context.key, text, over.as_deref())
                    .await
            }
            Step::Remove {
                cluster,
                namespace,
                uid,
            } => {
                let copies = self.copies_in(cluster, context.key, namespace)?;
                remove(&copies, context.key, uid).await?;
                Ok(String::new())
            }
        }
    }

    fn gone(&self, key: &ObjectKey) {
        self.connections.release(key);
    }
}

/// Deletes the copy of this UID. One that is gone already is a success.
async fn remove(copies: &Api<ConfigMap>, mirror: &ObjectKey, uid: &str) -> Result<(), CallError> {
    let parameters = DeleteParams {
        preconditions: Some(Preconditions {
            uid: Some(uid.to_owned()),
            resource_version: None,
        }),
        ..DeleteParams::default()
    };
    match copies.delete(&mirror.name, &parameters).await {
        Ok(_) => Ok(()),
        Err(error) => match classified("delete", mirror, error) {
            gone if gone.class == Class::NotFound => Ok(()),
            error => Err(error),
        },
    }
}

fn classified(verb: &str, mirror: &ObjectKey, error: kube::Error) -> CallError {
    let what = format!("{verb} ConfigMap {} in the other cluster", mirror.name);
    CallError::from(&ApiError::classify(what, error))
}
