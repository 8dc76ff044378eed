//! Objects of a file, as they would be in the cluster after `kubectl apply`.

use std::sync::Arc;

use kernel::ObjectKey;
use serde_json::{Map, Value, json};

use super::{Failure, Kinds, Selected};
use crate::{Kind, Malformed, Projection, Stored};

/// Metadata that only the API server sets.
const SET_BY_SERVER: [&str; 5] = [
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
];

/// The objects of `file` that have a plan. Those of other API groups are skipped.
pub(super) fn objects<T: Copy>(
    kinds: &Kinds<T>,
    file: &str,
    namespace: &str,
) -> Result<Vec<Selected<T>>, Failure> {
    let text = if file == "-" {
        std::io::read_to_string(std::io::stdin())
    } else {
        std::fs::read_to_string(file)
    };
    let text = text.map_err(|error| {
        format!("{file} cannot be read: {error}; give a file with objects, or - for standard input")
    })?;
    let in_file = |error: Failure| Failure::from(format!("{file}: {error}"));
    let mut selected = Vec::new();
    for document in documents(&text).map_err(in_file)? {
        let object = object(kinds, document, namespace).map_err(in_file)?;
        selected.extend(object);
    }
    if selected.is_empty() {
        let names: Vec<_> = kinds.all.iter().map(|one| one.kind().to_string()).collect();
        let names = names.join(", ");
        return Err(format!("{file} holds no {names}; give a file that does").into());
    }
    Ok(selected)
}

/// The objects of a YAML or JSON text, including those in lists.
fn documents(text: &str) -> Result<Vec<Value>, Failure> {
    let documents: Vec<Value> = serde_saphyr::from_multiple(text)
        .map_err(|error| format!("neither YAML nor JSON; correct it: {error}"))?;
    let mut objects = Vec::new();
    for (number, mut document) in (1..).zip(documents) {
        let items = document.get_mut("items").map(Value::take);
        if let Some(Value::Array(items)) = items {
            objects.extend(items);
        } else if document.is_object() {
            objects.push(document);
        } else if !document.is_null() {
            return Err(format!("document {number} is not an object; correct it").into());
        }
    }
    Ok(objects)
}

/// The object of a document; none if it has no plan.
fn object<T: Copy>(
    kinds: &Kinds<T>,
    document: Value,
    namespace: &str,
) -> Result<Option<Selected<T>>, Failure> {
    let api_version = document["apiVersion"].as_str().unwrap_or_default();
    let group = api_version.split_once('/').map_or("", |(group, _)| group);
    let kind_name = document["kind"].as_str().unwrap_or_default();
    let is_ours = kinds.all.iter().any(|one| one.kind().group == group);
    if !is_ours || kinds.without_plan.contains(&kind_name) {
        return Ok(None);
    }
    let kind = kinds.kind(kind_name)?;
    let metadata = &document["metadata"];
    let Some(name) = metadata["name"].as_str() else {
        return Err(format!("a {kind_name} has no metadata.name; add it").into());
    };
    let key = if kind.kind().namespaced {
        let own = metadata["namespace"].as_str();
        ObjectKey::namespaced(own.unwrap_or(namespace), name)
    } else {
        ObjectKey::cluster(name)
    };
    let target = kind.target(key);
    let live = target.find();
    let object = as_applied(target.kind(), &target.key, document, live.as_deref())?;
    kind.check(&object)?;
    Ok(Some((target, Arc::new(object))))
}

/// The object after its manifest is applied: metadata and spec of the manifest, other fields of `live`.
///
/// # Errors
/// The live object cannot be parsed.
pub fn as_applied(
    kind: &Kind,
    key: &ObjectKey,
    mut manifest: Value,
    live: Option<&Stored>,
) -> Result<Stored, Malformed> {
    let live: Option<Value> = live.map(|live| live.parse(kind)).transpose()?;
    let mut object = Map::new();
    if let Some(spec) = manifest.get_mut("spec") {
        object.insert("spec".to_owned(), spec.take());
    }
    let mut metadata = match manifest.get_mut("metadata").map(Value::take) {
        Some(Value::Object(metadata)) => metadata,
        Some(_) | None => Map::new(),
    };
    metadata.insert("name".to_owned(), json!(&*key.name));
    if let Some(namespace) = &key.namespace {
        metadata.insert("namespace".to_owned(), json!(&**namespace));
    }
    metadata.retain(|field, value| !value.is_null() && !SET_BY_SERVER.contains(&&**field));
    if let Some(live) = live {
        metadata.remove("finalizers");
        for field in SET_BY_SERVER.into_iter().chain(["finalizers"]) {
            if let Some(value) = live["metadata"].get(field) {
                metadata.insert(field.to_owned(), value.clone());
            }
        }
        if live.get("spec") != object.get("spec") {
            let generation = live["metadata"]["generation"].as_i64().unwrap_or_default();
            metadata.insert("generation".to_owned(), json!(generation + 1));
        }
        if let Some(status) = live.get("status") {
            object.insert("status".to_owned(), status.clone());
        }
    }
    object.insert("metadata".to_owned(), Value::Object(metadata));
    let text = Value::Object(object).to_string();
    Stored::read(kind, &text, &Projection::Full)
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use rstest::rstest;

    use super::*;
    use crate::cli::kinds::tests::kinds;

    fn selected(text: &str) -> Result<Vec<String>, String> {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(text.as_bytes()).unwrap();
        let path = file.path().to_string_lossy();
        let all = objects(&kinds(), &path, "team-a").map_err(|error| error.to_string())?;
        Ok(all.iter().map(|(target, _)| target.to_string()).collect())
    }

    const MAP: &str = "{apiVersion: v1, kind: ConfigMap, metadata: {name: x}}";
    const VOLUME: &str = "{apiVersion: v1, kind: PersistentVolume, metadata: {name: x}}";

    #[rstest]
    #[case::one(MAP.to_owned(), &["ConfigMap team-a/x"])]
    #[case::json(r#"{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}}"#.to_owned(), &["ConfigMap team-a/x"])]
    #[case::several_documents(format!("---\n{MAP}\n---\n---\n{VOLUME}\n"), &["ConfigMap team-a/x", "PersistentVolume x"])]
    #[case::a_list(format!("{{apiVersion: v1, kind: List, items: [{MAP}, {VOLUME}]}}"), &["ConfigMap team-a/x", "PersistentVolume x"])]
    #[case::with_its_namespace(MAP.replace("{name", "{namespace: b, name"), &["ConfigMap b/x"])]
    #[case::beside_one_of_another_group(format!("{MAP}\n---\n{{apiVersion: apps/v1, kind: Deployment}}"), &["ConfigMap team-a/x"])]
    #[case::beside_one_without_plan(format!("{MAP}\n---\n{{apiVersion: v1, kind: Namespace}}"), &["ConfigMap team-a/x"])]
    #[tokio::test]
    async fn the_objects_of_a_file_are_selected(#[case] text: String, #[case] expected: &[&str]) {
        assert_eq!(selected(&text).unwrap(), expected);
    }

    #[rstest]
    #[case::broken("a: [b".to_owned(), "neither YAML nor JSON; correct it")]
    #[case::empty(String::new(), "holds no ConfigMap.v1, PersistentVolume.v1;")]
    #[case::of_another_group("{apiVersion: apps/v1, kind: ConfigMap}".to_owned(), "give a file that does")]
    #[case::no_object(format!("{MAP}\n---\n[a, b]"), "document 2 is not an object")]
    #[case::text_only("text".to_owned(), "document 1 is not an object")]
    #[case::unknown_kind(MAP.replace("ConfigMap", "ConfigMop"), "the kinds are: ConfigMap (cm)")]
    #[case::without_a_name(MAP.replace("name: x", ""), "a ConfigMap has no metadata.name; add it")]
    #[case::not_its_schema(VOLUME.replace("}}", "}, spec: 5}"), "PersistentVolume x: ")]
    #[tokio::test]
    async fn wrong_input_is_refused_with_what_to_do(#[case] text: String, #[case] hint: &str) {
        let error = selected(&text).unwrap_err();
        assert!(error.contains(hint), "{error}");
    }

    #[tokio::test]
    async fn a_file_that_cannot_be_read_is_named() {
        let error = objects(&kinds(), "/nonexistent", "a").err().unwrap();
        let error = error.to_string();
        assert!(error.starts_with("/nonexistent cannot be read"), "{error}");
        assert!(error.contains("- for standard input"), "{error}");
    }

    fn applied(manifest: Value, live: Option<Value>) -> Value {
        let kind = Kind::of::<k8s_openapi::api::core::v1::ConfigMap>();
        let live = live.map(|live| {
            let text = live.to_string();
            Stored::read(&kind, &text, &Projection::Full).unwrap()
        });
        let key = ObjectKey::namespaced("a", "x");
        let object = as_applied(&kind, &key, manifest, live.as_ref()).unwrap();
        object.parse(&kind).unwrap()
    }

    #[test]
    fn fields_that_only_the_cluster_has_stay() {
        let live = json!({
            "metadata": {"name": "x", "namespace": "a", "uid": "u", "generation": 3,
                "creationTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["f"]},
            "spec": {"size": 1},
            "status": {"id": "1"},
        });
        let manifest = |size: u8| {
            json!({
                "metadata": {"name": "x", "labels": {"l": "v"}, "uid": "other", "finalizers": []},
                "spec": {"size": size},
                "status": {"id": "2"},
            })
        };
        let object = applied(manifest(2), Some(live.clone()));
        let mut metadata = live["metadata"].clone();
        metadata["labels"] = json!({"l": "v"});
        metadata["generation"] = json!(4);
        assert_eq!(object["metadata"], metadata);
        assert_eq!(object["spec"], json!({"size": 2}));
        assert_eq!(object["status"], live["status"]);
        // Nothing was edited.
        let object = applied(manifest(1), Some(live));
        assert_eq!(object["metadata"]["generation"], 3);
    }

    #[test]
    fn a_new_object_has_only_fields_of_its_manifest() {
        let manifest = json!({
            "metadata": {"creationTimestamp": null, "uid": "other", "finalizers": ["f"]},
            "spec": {"size": 1},
            "status": {"id": "1"},
        });
        let object = applied(manifest, None);
        let metadata = json!({"name": "x", "namespace": "a", "finalizers": ["f"]});
        assert_eq!(object["metadata"], metadata);
        assert_eq!(object.get("status"), None);
    }
}
