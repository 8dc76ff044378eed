//! The object as the API server keeps it.

use engine::{KindCore, Object};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, ObjectMeta};
use kernel::{ObjectKey, is_true};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// The API server's part of an object that was just made.
pub(crate) fn created(mut object: Value, at: Timestamp) -> Value {
    let metadata = &mut object["metadata"];
    metadata["uid"] = json!("uid-1");
    metadata["generation"] = json!(1);
    metadata["creationTimestamp"] = json!(at.to_string());
    set_version(&mut object, 1);
    object
}

pub(crate) fn version(object: &Value) -> u64 {
    let version = object["metadata"]["resourceVersion"].as_str();
    version
        .and_then(|text| text.parse().ok())
        .unwrap_or_default()
}

pub(crate) fn set_version(object: &mut Value, version: u64) {
    object["metadata"]["resourceVersion"] = json!(version.to_string());
}

pub(crate) fn generation(object: &Value) -> i64 {
    object["metadata"]["generation"]
        .as_i64()
        .unwrap_or_default()
}

pub(crate) fn is_deleting(object: &Value) -> bool {
    object["metadata"].get("deletionTimestamp").is_some()
}

/// Whether the API server removes the object: it is being deleted, and nothing holds it.
pub(crate) fn is_gone(object: &Value) -> bool {
    let finalizers = object["metadata"]["finalizers"].as_array();
    is_deleting(object) && finalizers.is_none_or(Vec::is_empty)
}

/// Whether it says Ready=True of its generation.
pub(crate) fn is_ready(object: &Value) -> bool {
    ready_generation(&conditions(object)) == Some(generation(object))
}

/// The generation of which the conditions say Ready=True.
pub(crate) fn ready_generation(conditions: &[Condition]) -> Option<i64> {
    let ready = conditions.iter().find(|one| one.type_ == "Ready")?;
    ready
        .observed_generation
        .filter(|_| is_true(conditions, "Ready"))
}

pub(crate) fn conditions(object: &Value) -> Vec<Condition> {
    parsed(&object["status"]["conditions"]).unwrap_or_default()
}

/// The object as a core sees it.
///
/// # Panics
/// If the model's object does not fit the kind's type: the model is wrong.
pub(crate) fn read<K: KindCore>(object: &Value) -> Object<K> {
    let metadata: ObjectMeta = parsed(&object["metadata"]).expect("the model's metadata fits");
    let name = metadata.name.clone().unwrap_or_default();
    let key = ObjectKey::of(metadata.namespace.as_deref(), &name);
    Object {
        key,
        metadata,
        resource: parsed(object).expect("the model's object fits its type"),
        status: match &object["status"] {
            Value::Null => K::Status::default(),
            status => parsed(status).expect("the kind reads the status it has written"),
        },
        conditions: conditions(object),
        exists: true,
    }
}

fn parsed<T: DeserializeOwned>(value: &Value) -> Option<T> {
    T::deserialize(value).ok()
}
