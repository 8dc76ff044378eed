//! One change of an object. Each is bound to the version that the run has read; nothing is decided here.

use engine::{Applier, Deletion, Kind, Propagation};
use http::Method;
use k8s_openapi::api::apps::v1::{ControllerRevision, StatefulSet};
use k8s_openapi::api::core::v1::{ConfigMap, PersistentVolume, PersistentVolumeClaim, Pod, Secret};
use kernel::{CallError, Class, ObjectKey};
use kube::Client;
use serde::de::IgnoredAny;
use serde_json::Value;

use super::requests::send;
use super::{Clusters, FIELD_MANAGER, User};
use crate::migration::decision::{ObjectKind, Target};

impl Clusters {
    /// Creates an object.
    ///
    /// # Errors
    /// `AlreadyExists` if there is one of its name, whosever it is.
    pub(crate) async fn create(
        &self,
        user: &User,
        kind: ObjectKind,
        body: &Value,
    ) -> Result<(), CallError> {
        let cluster = self.writable(user)?;
        let created = create_in(&cluster.client(), kind, body).await;
        created.inspect_err(|_| cluster.forget_check())
    }

    /// Changes an object.
    ///
    /// # Errors
    /// `Stale` if it has changed since it was read, `NotFound` if it is gone.
    pub(crate) async fn patch(
        &self,
        user: &User,
        target: &Target,
        patch: &Value,
    ) -> Result<(), CallError> {
        let cluster = self.writable(user)?;
        let patched = patch_in(&cluster.client(), target, patch).await;
        patched.inspect_err(|_| cluster.forget_check())
    }

    /// Deletes an object. One that is gone already is no error.
    ///
    /// # Errors
    /// `Stale` if it has changed since it was read.
    pub(crate) async fn delete(
        &self,
        user: &User,
        target: &Target,
        orphans_dependents: bool,
    ) -> Result<(), CallError> {
        let cluster = self.writable(user)?;
        let deleted = delete_in(cluster.applier(), target, orphans_dependents).await;
        deleted.inspect_err(|_| cluster.forget_check())
    }
}

/// Creates an object in the cluster of `client`.
pub(crate) async fn create_in(
    client: &Client,
    kind: ObjectKind,
    body: &Value,
) -> Result<(), CallError> {
    let kind = kind_of(kind);
    let metadata = &body["metadata"];
    let name = metadata["name"].as_str().unwrap_or_default();
    let key = ObjectKey::of(metadata["namespace"].as_str(), name);
    let path = format!(
        "{}?fieldManager={FIELD_MANAGER}",
        kind.collection(key.namespace.as_deref())
    );
    let mut body = body.clone();
    body["apiVersion"] = kind.api_version().into();
    body["kind"] = kind.kind.clone().into();
    let what = format!("create {} {key}", kind.kind);
    let sent = Some(("application/json", &body));
    send::<IgnoredAny>(client, what, Method::POST, &path, sent).await?;
    Ok(())
}

/// Changes exactly the version of `target`.
pub(super) async fn patch_in(
    client: &Client,
    target: &Target,
    patch: &Value,
) -> Result<(), CallError> {
    let (kind, key) = (kind_of(target.kind), key_of(target));
    let path = format!("{}?fieldManager={FIELD_MANAGER}", kind.path(&key));
    let body = bound(target, patch);
    let what = format!("patch {} {key}", kind.kind);
    let sent = Some(("application/merge-patch+json", &body));
    send::<IgnoredAny>(client, what, Method::PATCH, &path, sent).await?;
    Ok(())
}

/// Deletes exactly the version of `target`, with its own grace period.
pub(super) async fn delete_in(
    applier: &Applier,
    target: &Target,
    orphans_dependents: bool,
) -> Result<(), CallError> {
    let (kind, key) = (kind_of(target.kind), key_of(target));
    let version = target.version.version.parse();
    let version = version.map_err(|_| {
        let message = format!(
            "delete {} {key}: its resourceVersion is not a number",
            kind.kind
        );
        CallError::new(Class::Invalid, message)
    })?;
    let deletion = Deletion {
        uid: &target.version.uid,
        version: Some(version),
        propagation: if orphans_dependents {
            Propagation::Orphan
        } else {
            Propagation::Background
        },
        grace_seconds: None,
    };
    let deleted = applier.delete_with(&kind, &key, &deletion).await;
    deleted.map_err(|error| CallError::from(&error))
}

/// The patch with the UID and resourceVersion that it is bound to: the API server refuses it for others.
fn bound(target: &Target, patch: &Value) -> Value {
    let mut patch = patch.clone();
    patch["metadata"]["uid"] = target.version.uid.clone().into();
    patch["metadata"]["resourceVersion"] = target.version.version.clone().into();
    patch
}

fn key_of(target: &Target) -> ObjectKey {
    ObjectKey::of(target.namespace.as_deref(), &target.name)
}

fn kind_of(kind: ObjectKind) -> Kind {
    match kind {
        ObjectKind::StatefulSet => Kind::of::<StatefulSet>(),
        ObjectKind::ControllerRevision => Kind::of::<ControllerRevision>(),
        ObjectKind::Pod => Kind::of::<Pod>(),
        ObjectKind::Claim => Kind::of::<PersistentVolumeClaim>(),
        ObjectKind::Volume => Kind::of::<PersistentVolume>(),
        ObjectKind::ConfigMap => Kind::of::<ConfigMap>(),
        ObjectKind::Secret => Kind::of::<Secret>(),
    }
}

#[cfg(test)]
mod tests;
