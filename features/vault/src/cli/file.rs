//! Objects of a file, as they would be in the cluster.

use std::sync::Arc;

use engine::{Projection, Stored};
use kernel::ObjectKey;
use serde_json::{Value, json};

use api::vault::names as words;

use super::Failure;
use super::site::Site;
use super::target::{self, Target};

/// The objects of `file` that go through connections; others are not ours to plan.
pub(super) fn objects(
    site: &Site,
    file: &str,
    namespace: &str,
) -> Result<Vec<(Target, Arc<Stored>)>, Failure> {
    let text = if file == "-" {
        std::io::read_to_string(std::io::stdin())
    } else {
        std::fs::read_to_string(file)
    };
    let text = text.map_err(|error| format!("{file} cannot be read: {error}"))?;
    let documents: Vec<Value> = serde_saphyr::from_multiple(&text)
        .map_err(|error| format!("{file} is no YAML: {error}"))?;
    let mut objects = Vec::new();
    for document in flat(documents) {
        let group = document["apiVersion"].as_str().unwrap_or_default();
        let kind = document["kind"].as_str().unwrap_or_default();
        if group.split('/').next() != Some(words::GROUP) || kind == "VaultConnection" {
            continue;
        }
        let kind = target::kind(kind).map_err(|error| format!("{file}: {error}"))?;
        let Some(name) = document["metadata"]["name"].as_str() else {
            return Err(format!("{file}: a {} has no metadata.name", target::name(kind)).into());
        };
        let own = document["metadata"]["namespace"].as_str();
        let key = if target::is_namespaced(kind) {
            ObjectKey::namespaced(own.unwrap_or(namespace), name)
        } else {
            ObjectKey::cluster(name)
        };
        let target = Target { kind, key };
        let stored = stored(site, &target, document)?;
        objects.push((target, stored));
    }
    if objects.is_empty() {
        return Err(format!(
            "{file} holds no policy, role or seed of {}; give a file that does",
            words::GROUP
        )
        .into());
    }
    Ok(objects)
}

/// Lists of objects count as their objects.
fn flat(documents: Vec<Value>) -> Vec<Value> {
    let one = |mut document: Value| match document["items"].take() {
        Value::Array(items) => items,
        _ => vec![document],
    };
    documents.into_iter().flat_map(one).collect()
}

/// The object as it would be: what the file says, and what the cluster already knows of it.
pub(super) fn stored(
    site: &Site,
    target: &Target,
    mut object: Value,
) -> Result<Arc<Stored>, Failure> {
    let cache = site.ctx.caches.of(target.kind);
    let kind = &cache.key().kind;
    let what = format!("{} {}", target::name(target.kind), target.key);
    let Value::Object(fields) = &mut object else {
        return Err(format!("{what} is no object").into());
    };
    fields.retain(|field, _| matches!(&**field, "metadata" | "spec"));
    let metadata = &mut object["metadata"];
    if let Some(namespace) = &target.key.namespace {
        metadata["namespace"] = json!(&**namespace);
    }
    if let Some(held) = target.find(site) {
        let held: Value = held.parse(kind)?;
        for field in ["uid", "resourceVersion", "finalizers"] {
            metadata[field] = held["metadata"][field].clone();
        }
        let generation = held["metadata"]["generation"].as_i64().unwrap_or_default();
        let edited = i64::from(held["spec"] != object["spec"]);
        object["metadata"]["generation"] = json!(generation + edited);
        object["status"] = held["status"].clone();
    }
    let Value::Object(fields) = &mut object else {
        unreachable!("it was one before");
    };
    fields.retain(|_, value| !value.is_null());
    if let Some(Value::Object(metadata)) = fields.get_mut("metadata") {
        metadata.retain(|_, value| !value.is_null());
    }
    let stored = Stored::read(kind, &object.to_string(), &Projection::Full)?;
    Ok(Arc::new(stored))
}
