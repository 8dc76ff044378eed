//! YAML manifests, applied as an administrator.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use kube::{
    Api, Client, ResourceExt,
    api::{ApiResource, DynamicObject, Patch, PatchParams},
    core::GroupVersionKind,
    discovery::{self, Scope},
};

/// How long a kind may take to be served after its CRD was applied.
const SERVED: Duration = Duration::from_secs(15);
/// The field manager of what tests apply.
const FIELD_MANAGER: &str = "testkit";

/// The objects in `yaml`, which may contain several documents; empty ones are skipped.
pub fn parse(yaml: &str) -> Result<Vec<DynamicObject>> {
    let documents: Vec<serde_json::Value> =
        serde_saphyr::from_multiple(yaml).with_context(|| format!("no valid YAML:\n{yaml}"))?;
    let mut objects = Vec::new();
    for document in documents.into_iter().filter(|document| !document.is_null()) {
        let object: DynamicObject = serde_json::from_value(document.clone())
            .with_context(|| format!("not a Kubernetes object: {document}"))?;
        if object.types.is_none() {
            bail!("this document lacks apiVersion or kind: {document}");
        }
        objects.push(object);
    }
    Ok(objects)
}

/// Applies the objects in `yaml` in their order, by server-side apply, and returns them as stored.
/// Those without a namespace go into `namespace`.
pub async fn apply(
    client: &Client,
    namespace: Option<&str>,
    yaml: &str,
) -> Result<Vec<DynamicObject>> {
    let mut applied = Vec::new();
    for object in parse(yaml)? {
        let types = object.types.clone().expect("parse lets none pass without");
        let label = format!("{} {}", types.kind, object.name_any());
        let api = api_for(client, namespace, &object)
            .await
            .with_context(|| label.clone())?;
        let how = PatchParams::apply(FIELD_MANAGER).force();
        let stored = api
            .patch(&object.name_any(), &how, &Patch::Apply(&object))
            .await;
        applied.push(stored.with_context(|| format!("cannot apply {label}"))?);
    }
    Ok(applied)
}

async fn api_for(
    client: &Client,
    namespace: Option<&str>,
    object: &DynamicObject,
) -> Result<Api<DynamicObject>> {
    let types = object.types.as_ref().expect("parse lets none pass without");
    let (resource, scope) = served(client, &types.api_version, &types.kind).await?;
    let namespace = object.metadata.namespace.as_deref().or(namespace);
    Ok(match (scope, namespace) {
        (Scope::Cluster, _) => Api::all_with(client.clone(), &resource),
        (Scope::Namespaced, Some(namespace)) => {
            Api::namespaced_with(client.clone(), namespace, &resource)
        }
        (Scope::Namespaced, None) => {
            bail!("it needs a namespace, and neither it nor the caller names one")
        }
    })
}

/// How the API server serves `kind`; waits a little, because its CRD may be new.
pub(crate) async fn served(
    client: &Client,
    api_version: &str,
    kind: &str,
) -> Result<(ApiResource, Scope)> {
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    let gvk = GroupVersionKind::gvk(group, version, kind);
    let started = Instant::now();
    loop {
        match discovery::oneshot::pinned_kind(client, &gvk).await {
            Ok((resource, capabilities)) => return Ok((resource, capabilities.scope)),
            Err(error) if started.elapsed() > SERVED => {
                return Err(error).with_context(|| {
                    format!("{kind} ({api_version}) is not served; apply its CRD first")
                });
            }
            Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn empty_documents_are_skipped_and_integers_stay_integers() {
        let yaml =
            "---\n---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\nn: 9007199254740993\n";
        let objects = parse(yaml).unwrap();
        assert_eq!(objects.len(), 1);
        assert_eq!(objects[0].data["n"], 9_007_199_254_740_993_i64);
    }

    #[test]
    fn a_document_without_a_kind_is_refused() {
        let text = format!(
            "{:#}",
            parse("apiVersion: v1\nmetadata: {name: a}\n").unwrap_err()
        );
        assert!(text.contains("lacks apiVersion or kind"), "{text}");
    }
}
