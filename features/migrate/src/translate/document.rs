//! A Kubernetes object as JSON, with its kind as a type.

use std::marker::PhantomData;

use k8s_openapi::Resource;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

/// An object of kind `K` with every field that the server sent, also those that `K` lacks.
///
/// Its kind, API version and name are always there.
#[derive(Debug, Clone, PartialEq)]
pub struct Document<K> {
    value: Value,
    kind: PhantomData<fn() -> K>,
}

/// A JSON value that is not an object of the expected kind.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("found {found}, need an object of kind {need} with a name")]
pub struct WrongKind {
    found: String,
    need: &'static str,
}

impl<K: Resource> Document<K> {
    /// Reads `value`. An element of a list has no kind and API version of its own and gets them here.
    ///
    /// # Errors
    /// The value has another kind or API version, or no name.
    pub fn read(mut value: Value) -> Result<Self, WrongKind> {
        let named = value.pointer("/metadata/name").and_then(Value::as_str);
        let is_named = named.is_some_and(|name| !name.is_empty());
        for (field, need) in [("kind", K::KIND), ("apiVersion", K::API_VERSION)] {
            match value.get(field).and_then(Value::as_str) {
                Some(found) if found != need => return Err(wrong(found, K::KIND)),
                Some(_) => {}
                None if is_named => value[field] = need.into(),
                None => {}
            }
        }
        if !is_named {
            return Err(wrong("no metadata.name", K::KIND));
        }
        Ok(Self::trusted(value))
    }

    /// An object that we make: kind and API version are added to `metadata` and `spec`.
    pub(super) fn made(metadata: Value, spec: Value) -> Self {
        Self::trusted(json!({
            "apiVersion": K::API_VERSION,
            "kind": K::KIND,
            "metadata": metadata,
            "spec": spec,
        }))
    }

    /// `PersistentVolume pvc-1` or `PersistentVolumeClaim shop/data-web-0`, for messages.
    pub fn title(&self) -> String {
        match self.namespace() {
            Some(namespace) => format!("{} {namespace}/{}", K::KIND, self.name()),
            None => format!("{} {}", K::KIND, self.name()),
        }
    }
}

impl<K: DeserializeOwned> Document<K> {
    /// The object as its Kubernetes type, without the fields that the type lacks.
    ///
    /// # Errors
    /// A field has a value that the type does not accept.
    ///
    /// # When not to use it
    /// For anything that is sent to a server.
    pub fn typed(&self) -> Result<K, serde_json::Error> {
        K::deserialize(&self.value)
    }
}

impl<K> Document<K> {
    fn trusted(value: Value) -> Self {
        Self {
            value,
            kind: PhantomData,
        }
    }

    /// The object as JSON.
    pub fn value(&self) -> &Value {
        &self.value
    }

    /// The object as JSON.
    pub fn into_value(self) -> Value {
        self.value
    }

    /// `metadata.name`.
    pub fn name(&self) -> &str {
        self.text("/metadata/name").unwrap_or_default()
    }

    /// `metadata.namespace`.
    pub fn namespace(&self) -> Option<&str> {
        self.text("/metadata/namespace")
    }

    /// `metadata.uid`.
    pub fn uid(&self) -> Option<&str> {
        self.text("/metadata/uid")
    }

    /// `metadata.resourceVersion`.
    pub fn resource_version(&self) -> Option<&str> {
        self.text("/metadata/resourceVersion")
    }

    /// The value of the label `key`.
    pub fn label(&self, key: &str) -> Option<&str> {
        self.field("/metadata/labels")?.get(key)?.as_str()
    }

    /// The value of the annotation `key`.
    pub fn annotation(&self, key: &str) -> Option<&str> {
        self.field("/metadata/annotations")?.get(key)?.as_str()
    }

    /// The value at a JSON pointer; null counts as absent.
    pub fn field(&self, pointer: &str) -> Option<&Value> {
        self.value.pointer(pointer).filter(|value| !value.is_null())
    }

    /// The text at a JSON pointer.
    pub fn text(&self, pointer: &str) -> Option<&str> {
        self.field(pointer)?.as_str()
    }

    /// A copy of the spec to change.
    pub(super) fn spec(&self) -> Map<String, Value> {
        let spec = self.field("/spec").and_then(Value::as_object);
        spec.cloned().unwrap_or_default()
    }
}

/// Whether the server drops a field with this value.
pub(super) fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Object(fields) => fields.is_empty(),
        Value::Array(elements) => elements.is_empty(),
        Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}

fn wrong(found: &str, need: &'static str) -> WrongKind {
    WrongKind {
        found: found.to_owned(),
        need,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use k8s_openapi::api::apps::v1::StatefulSet;
    use k8s_openapi::api::core::v1::PersistentVolume;
    use rstest::rstest;

    #[test]
    fn an_element_of_a_list_gets_its_kind() {
        let read = Document::<StatefulSet>::read(json!({"metadata": {"name": "web"}})).unwrap();
        assert_eq!(read.value()["kind"], "StatefulSet");
        assert_eq!(read.value()["apiVersion"], "apps/v1");
    }

    #[rstest]
    #[case::another_kind(json!({"kind": "Pod", "apiVersion": "v1", "metadata": {"name": "a"}}))]
    #[case::another_version(json!({"apiVersion": "v2", "metadata": {"name": "a"}}))]
    #[case::no_name(json!({"kind": "PersistentVolume", "metadata": {}}))]
    #[case::an_empty_name(json!({"metadata": {"name": ""}}))]
    #[case::no_object(json!("PersistentVolume"))]
    #[case::null(json!(null))]
    fn a_value_of_another_kind_is_refused(#[case] value: Value) {
        Document::<PersistentVolume>::read(value).unwrap_err();
    }

    #[test]
    fn fields_that_the_type_lacks_are_kept() {
        let value = json!({"metadata": {"name": "a"}, "spec": {"fromTheFuture": {"a": 1}}});
        let read = Document::<PersistentVolume>::read(value).unwrap();
        assert_eq!(read.value()["spec"]["fromTheFuture"]["a"], 1);
        assert!(read.typed().unwrap().spec.unwrap().csi.is_none());
    }
}
