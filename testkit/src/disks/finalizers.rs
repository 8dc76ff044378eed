//! Adding and removing finalizers without loss of concurrent changes.

use std::fmt::Debug;

use anyhow::Result;
use kube::{
    Api, Resource, ResourceExt,
    api::{Patch, PatchParams},
};
use serde::de::DeserializeOwned;
use serde_json::json;

use super::done_if_gone;

/// Adds a finalizer, unless the object has it, or is gone or deleted.
///
/// # Errors
/// Also if the object changed meanwhile.
pub(super) async fn with_finalizer<K>(api: &Api<K>, name: &str, finalizer: &str) -> Result<()>
where
    K: Resource + Clone + DeserializeOwned + Debug,
{
    let Some(object) = api.get_opt(name).await? else {
        return Ok(());
    };
    let mut finalizers = object.finalizers().to_vec();
    let is_deleted = object.meta().deletion_timestamp.is_some();
    if is_deleted || finalizers.iter().any(|one| one == finalizer) {
        return Ok(());
    }
    finalizers.push(finalizer.to_owned());
    write(api, &object, finalizers).await
}

/// Removes a finalizer, if the object has it.
///
/// # Errors
/// Also if the object changed meanwhile.
pub(super) async fn without_finalizer<K>(api: &Api<K>, name: &str, finalizer: &str) -> Result<()>
where
    K: Resource + Clone + DeserializeOwned + Debug,
{
    let Some(object) = api.get_opt(name).await? else {
        return Ok(());
    };
    let mut finalizers = object.finalizers().to_vec();
    if !finalizers.iter().any(|one| one == finalizer) {
        return Ok(());
    }
    finalizers.retain(|one| one != finalizer);
    write(api, &object, finalizers).await
}

async fn write<K>(api: &Api<K>, object: &K, finalizers: Vec<String>) -> Result<()>
where
    K: Resource + Clone + DeserializeOwned + Debug,
{
    let patch = json!({ "metadata": {
        "resourceVersion": object.resource_version(), "finalizers": finalizers,
    }});
    let patched = api
        .patch(
            &object.name_any(),
            &PatchParams::default(),
            &Patch::Merge(patch),
        )
        .await;
    match patched {
        // Somebody changed the object: the caller repeats.
        Err(error) if is_conflict(&error) => Err(error.into()),
        patched => done_if_gone(patched),
    }
}

fn is_conflict(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 409)
}
