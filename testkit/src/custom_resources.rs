//! Custom resources of any kind, by their definitions.

use anyhow::Result;
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{
    Api, ApiResource, DeleteParams, DynamicObject, GroupVersionKind, ListParams, Patch, PatchParams,
};
use kube::{Client, ResourceExt};
use serde_json::json;

use crate::eventually::eventually;

/// Deletes every custom resource, whatever its finalizers, and the ConfigMaps that have an owner.
/// CRDs stay.
///
/// # When not to use it
/// While an operator runs: it would act on the deletions.
pub async fn remove_custom_resources(client: &Client) -> Result<()> {
    let crds = Api::<CustomResourceDefinition>::all(client.clone());
    for crd in crds.list(&ListParams::default()).await? {
        remove_all(client, &crd).await?;
    }
    // Garbage collection is part of kube-controller-manager, which most tests do not run.
    let maps = Api::<ConfigMap>::all(client.clone());
    for map in maps.list(&ListParams::default()).await? {
        if !map.owner_references().is_empty() {
            let namespace = map.namespace().unwrap_or_default();
            let maps = Api::<ConfigMap>::namespaced(client.clone(), &namespace);
            maps.delete(&map.name_any(), &DeleteParams::default())
                .await?;
        }
    }
    Ok(())
}

/// The objects of the kind that `crd` defines; those of `namespace` if the kind has namespaces.
///
/// # Panics
/// When the definition serves no version.
pub fn objects_of(
    client: &Client,
    crd: &CustomResourceDefinition,
    namespace: &str,
) -> Api<DynamicObject> {
    let kind = kind_of(crd).expect("the definition serves a version");
    if crd.spec.scope == "Namespaced" {
        Api::namespaced_with(client.clone(), namespace, &kind)
    } else {
        Api::all_with(client.clone(), &kind)
    }
}

/// Waits until the API server has established `crd` and lists its objects.
pub async fn until_served(client: &Client, crd: &CustomResourceDefinition) -> Result<()> {
    let definitions = Api::<CustomResourceDefinition>::all(client.clone());
    let (name, objects) = (crd.name_any(), objects_of(client, crd, "default"));
    eventually(&format!("{name} is established and served"), async || {
        let established = is_established(&definitions.get(&name).await?);
        let listed = objects.list(&ListParams::default()).await;
        Ok((established && listed.is_ok()).then_some(()))
    })
    .await
}

fn is_established(crd: &CustomResourceDefinition) -> bool {
    let conditions = crd.status.iter().flat_map(|status| &status.conditions);
    let mut established = conditions
        .flatten()
        .filter(|one| one.type_ == "Established");
    established.any(|one| one.status == "True")
}

/// The kind that `crd` defines, at the first version it serves.
fn kind_of(crd: &CustomResourceDefinition) -> Option<ApiResource> {
    let version = crd.spec.versions.iter().find(|version| version.served)?;
    let names = &crd.spec.names;
    let kind = GroupVersionKind::gvk(&crd.spec.group, &version.name, &names.kind);
    Some(ApiResource::from_gvk_with_plural(&kind, &names.plural))
}

async fn remove_all(client: &Client, crd: &CustomResourceDefinition) -> Result<()> {
    let Some(kind) = kind_of(crd) else {
        return Ok(());
    };
    let all = Api::<DynamicObject>::all_with(client.clone(), &kind);
    // A definition that was just applied is not served at once.
    let what = format!("{} are served", kind.plural);
    let objects = eventually(&what, async || {
        match all.list(&ListParams::default()).await {
            Err(kube::Error::Api(refused)) if refused.code == 429 => Ok(None),
            answer => Ok(Some(answer?)),
        }
    });
    for object in objects.await? {
        let name = object.name_any();
        let api = match object.namespace() {
            Some(namespace) => Api::namespaced_with(client.clone(), &namespace, &kind),
            None => all.clone(),
        };
        let released = Patch::Merge(json!({"metadata": {"finalizers": null}}));
        api.patch(&name, &PatchParams::default(), &released).await?;
        if object.metadata.deletion_timestamp.is_none() {
            api.delete(&name, &DeleteParams::default()).await?;
        }
    }
    Ok(())
}
