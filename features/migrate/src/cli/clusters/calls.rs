//! Calls to a cluster that decide nothing. Objects are JSON, so that no field is lost.

use engine::ApiError;
use k8s_openapi::api::apps::v1::{ControllerRevision, StatefulSet};
use k8s_openapi::api::core::v1::{ConfigMap, PersistentVolume, PersistentVolumeClaim, Pod, Secret};
use kube::api::{
    ApiResource, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams,
    Preconditions,
};
use kube::{Api, Client, Resource};
use serde_json::{Value, json};

use super::UserCluster;
use crate::migration::decision::{Change, ObjectKind, Target};

/// The resource of a kind.
pub(in crate::cli) fn resource<K: Resource<DynamicType = ()>>() -> ApiResource {
    ApiResource::erase::<K>(&())
}

fn api(client: Client, resource: &ApiResource, namespace: Option<&str>) -> Api<DynamicObject> {
    match namespace {
        Some(namespace) => Api::namespaced_with(client, namespace, resource),
        None => Api::all_with(client, resource),
    }
}

/// An object, or none.
pub(in crate::cli) async fn get<K: Resource<DynamicType = ()>>(
    cluster: &UserCluster,
    namespace: Option<&str>,
    name: &str,
) -> Result<Option<Value>, ApiError> {
    let resource = resource::<K>();
    let api = api(cluster.reader.clone(), &resource, namespace);
    let found = api.get_opt(name).await;
    let found = found
        .map_err(|error| ApiError::classify(format!("get {} {name}", resource.kind), error))?;
    Ok(found.map(|object| json!(object)))
}

/// The objects of a namespace, or of all.
pub(in crate::cli) async fn list<K: Resource<DynamicType = ()>>(
    cluster: &UserCluster,
    namespace: Option<&str>,
) -> Result<Vec<Value>, ApiError> {
    let resource = resource::<K>();
    let api = api(cluster.reader.clone(), &resource, namespace);
    let found = api.list(&ListParams::default()).await;
    let found =
        found.map_err(|error| ApiError::classify(format!("list {}", resource.plural), error))?;
    Ok(found.items.iter().map(|object| json!(object)).collect())
}

/// The names and namespaces of the objects of a kind, in all namespaces.
pub(in crate::cli) async fn list_names<K: Resource<DynamicType = ()>>(
    cluster: &UserCluster,
) -> Result<Vec<(String, String)>, ApiError> {
    let resource = resource::<K>();
    let api = api(cluster.reader.clone(), &resource, None);
    let found = api.list_metadata(&ListParams::default()).await;
    let found =
        found.map_err(|error| ApiError::classify(format!("list {}", resource.plural), error))?;
    let names = found.items.into_iter().map(|object| {
        let metadata = object.metadata;
        (
            metadata.namespace.unwrap_or_default(),
            metadata.name.unwrap_or_default(),
        )
    });
    Ok(names.collect())
}

/// Creates an object.
pub(in crate::cli) async fn create(
    cluster: &UserCluster,
    resource: &ApiResource,
    body: &Value,
) -> Result<Value, ApiError> {
    let name = body["metadata"]["name"].as_str().unwrap_or_default();
    let what = || format!("create {} {name}", resource.kind);
    let object: DynamicObject =
        serde_json::from_value(body.clone()).map_err(|error| ApiError::Unreadable {
            what: what(),
            message: error.to_string(),
        })?;
    let namespace = body["metadata"]["namespace"].as_str();
    let api = api(cluster.writer.clone(), resource, namespace);
    let created = api.create(&PostParams::default(), &object).await;
    let created = created.map_err(|error| ApiError::classify(what(), error))?;
    Ok(json!(created))
}

/// Deletes exactly this version. A target without version is deleted by its UID.
pub(in crate::cli) async fn delete(
    cluster: &UserCluster,
    resource: &ApiResource,
    target: &Target,
) -> Result<(), ApiError> {
    let preconditions = Preconditions {
        uid: Some(target.version.uid.clone()),
        resource_version: Some(target.version.version.clone())
            .filter(|version| !version.is_empty()),
    };
    let api = api(
        cluster.writer.clone(),
        resource,
        target.namespace.as_deref(),
    );
    let options = DeleteParams::default().preconditions(preconditions);
    let deleted = api.delete(&target.name, &options).await;
    deleted
        .map(drop)
        .map_err(|error| ApiError::classify(format!("delete {target}"), error))
}

/// Changes exactly this version by a merge patch.
pub(in crate::cli) async fn patch(
    cluster: &UserCluster,
    resource: &ApiResource,
    target: &Target,
    patch: &Value,
) -> Result<(), ApiError> {
    let mut patch = patch.clone();
    patch["metadata"]["uid"] = json!(target.version.uid);
    patch["metadata"]["resourceVersion"] = json!(target.version.version);
    let api = api(
        cluster.writer.clone(),
        resource,
        target.namespace.as_deref(),
    );
    let patched = api
        .patch(&target.name, &PatchParams::default(), &Patch::Merge(patch))
        .await;
    patched
        .map(drop)
        .map_err(|error| ApiError::classify(format!("change {target}"), error))
}

/// Makes a change of an object in its cluster.
pub(in crate::cli) async fn make(cluster: &UserCluster, change: &Change) -> Result<(), ApiError> {
    match change {
        Change::Create { kind, body, .. } => create(cluster, &of_kind(*kind), body).await.map(drop),
        Change::Patch {
            target,
            patch: fields,
            ..
        } => patch(cluster, &of_kind(target.kind), target, fields).await,
        Change::Delete { target, .. } => delete(cluster, &of_kind(target.kind), target).await,
        Change::StoreCapture { .. }
        | Change::CreateTags { .. }
        | Change::DeleteTags { .. }
        | Change::CreateSnapshot { .. } => Err(ApiError::Refused {
            what: change.to_string(),
            message: "no verb makes this change".to_owned(),
        }),
    }
}

fn of_kind(kind: ObjectKind) -> ApiResource {
    match kind {
        ObjectKind::StatefulSet => resource::<StatefulSet>(),
        ObjectKind::ControllerRevision => resource::<ControllerRevision>(),
        ObjectKind::Pod => resource::<Pod>(),
        ObjectKind::Claim => resource::<PersistentVolumeClaim>(),
        ObjectKind::Volume => resource::<PersistentVolume>(),
        ObjectKind::ConfigMap => resource::<ConfigMap>(),
        ObjectKind::Secret => resource::<Secret>(),
    }
}
