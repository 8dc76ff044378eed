//! Objects of a file, as they would be in the cluster.

use std::sync::Arc;

use api::tenants::names;
use engine::{Projection, Stored};
use kernel::ObjectKey;
use serde_json::{Value, json};

use super::Failure;
use super::site::{Held, Site, kind};

/// The tenants of `file`; other objects are not ours to plan.
pub(super) fn tenants(site: &Site, file: &str) -> Result<Vec<Held>, Failure> {
    let text = if file == "-" {
        std::io::read_to_string(std::io::stdin())
    } else {
        std::fs::read_to_string(file)
    };
    let text = text.map_err(|error| {
        format!("{file} cannot be read: {error}; give a file with objects, or - for standard input")
    })?;
    let documents: Vec<Value> = serde_saphyr::from_multiple(&text)
        .map_err(|error| format!("{file} is neither YAML nor JSON; correct it: {error}"))?;
    let mut held = Vec::new();
    for document in flat(documents).into_iter().filter(is_tenant) {
        let Some(name) = document["metadata"]["name"].as_str() else {
            return Err(
                format!("{file}: a DistributionTenant has no metadata.name; add it").into(),
            );
        };
        let own = document["metadata"]["namespace"].as_str();
        let key = ObjectKey::namespaced(own.unwrap_or(site.namespace()), name);
        let there = site.ctx.caches.tenants.store().get(&key);
        let there = there.map(|there| there.parse(&kind())).transpose()?;
        let object = merged(&key, document, there);
        held.push(read(&object).map_err(|error| format!("{file}: {error}"))?);
    }
    if held.is_empty() {
        return Err(format!(
            "{file} holds no DistributionTenant of {}; give a file that does",
            names::GROUP
        )
        .into());
    }
    Ok(held)
}

fn read(object: &Value) -> Result<Held, Failure> {
    let stored = Stored::read(&kind(), &object.to_string(), &Projection::Full)?;
    Held::read(Arc::new(stored))
}

fn is_tenant(document: &Value) -> bool {
    let group = document["apiVersion"].as_str().unwrap_or_default();
    group.split('/').next() == Some(names::GROUP) && document["kind"] == "DistributionTenant"
}

/// Lists of objects count as their objects.
fn flat(documents: Vec<Value>) -> Vec<Value> {
    let one = |mut document: Value| match document.get_mut("items").map(Value::take) {
        Some(Value::Array(items)) => items,
        Some(_) | None => vec![document],
    };
    documents.into_iter().flat_map(one).collect()
}

/// The object as it would be: what the file says, and what the cluster already knows of it.
fn merged(key: &ObjectKey, document: Value, there: Option<Value>) -> Value {
    let mut metadata = document["metadata"].clone();
    metadata["namespace"] = json!(key.namespace.as_deref());
    let spec = document["spec"].clone();
    let Some(there) = there else {
        return json!({"metadata": metadata, "spec": spec});
    };
    for field in ["uid", "resourceVersion", "finalizers", "creationTimestamp"] {
        if let Some(value) = there["metadata"].get(field) {
            metadata[field] = value.clone();
        }
    }
    let generation = there["metadata"]["generation"].as_i64().unwrap_or_default();
    let edited = i64::from(there["spec"] != spec);
    metadata["generation"] = json!(generation + edited);
    let mut object = json!({"metadata": metadata, "spec": spec});
    if let Some(status) = there.get("status") {
        object["status"] = status.clone();
    }
    object
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_cluster_knows_is_kept() {
        let key = ObjectKey::namespaced("web", "acme");
        let file = json!({"metadata": {"name": "acme"}, "spec": {"distributionId": "E2"}});
        let there = json!({
            "metadata": {"name": "acme", "uid": "u", "generation": 3},
            "spec": {"distributionId": "E1"},
            "status": {"id": "dt_1"},
        });
        let object = merged(&key, file, Some(there));
        assert_eq!(object["metadata"]["generation"], 4);
        assert_eq!(object["metadata"]["uid"], "u");
        assert_eq!(object["metadata"]["namespace"], "web");
        assert_eq!(object["spec"]["distributionId"], "E2");
        assert_eq!(object["status"]["id"], "dt_1");
    }

    #[test]
    fn a_list_is_its_objects() {
        let list = json!({"kind": "List", "items": [{"a": 1}, {"b": 2}]});
        assert_eq!(flat(vec![list, json!({"c": 3})]).len(), 3);
    }
}
