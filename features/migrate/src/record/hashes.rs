//! Hashes that are equal for equal JSON, whoever printed it.

use std::collections::BTreeMap;

use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

/// What a run changes in `spec` of a StatefulSet. It is not a part of the template hash.
const CHANGED_BY_A_RUN: [&str; 3] = [
    "replicas",
    "ordinals",
    "persistentVolumeClaimRetentionPolicy",
];

/// The SHA-256 of `bytes`, as 64 lower-case hexadecimal digits.
pub fn sha256(bytes: &[u8]) -> String {
    format!("{:x}", Sha256::digest(bytes))
}

/// `value` as JSON with sorted keys and without spaces.
pub fn canonical(value: &Value) -> String {
    sorted(value).to_string()
}

/// The SHA-256 of the canonical JSON of `value`.
pub fn canonical_sha256(value: &Value) -> String {
    sha256(canonical(value).as_bytes())
}

/// The hash of what a StatefulSet runs: its spec without replicas, ordinals and retention policy.
///
/// A field that is null counts as absent: servers differ in that, for example in
/// `template.metadata.creationTimestamp`. Pass the object as the API server answered; a typed
/// object lacks the fields that our version of the API does not have.
pub fn template_sha256(stateful_set: &Value) -> String {
    canonical_sha256(&without_nulls(&template(stateful_set)))
}

/// The spec of a StatefulSet without what a run changes.
pub fn template(stateful_set: &Value) -> Value {
    let empty = Map::new();
    let spec = stateful_set.get("spec").and_then(Value::as_object);
    let mut template = spec.unwrap_or(&empty).clone();
    template.retain(|field, _| !CHANGED_BY_A_RUN.contains(&&**field));
    Value::Object(template)
}

/// Also if a build enables the feature of serde_json that preserves the order of keys.
fn sorted(value: &Value) -> Value {
    match value {
        Value::Object(map) => {
            let fields: BTreeMap<_, _> = map.iter().collect();
            let fields = fields.into_iter();
            let fields = fields.map(|(field, value)| (field.clone(), sorted(value)));
            Value::Object(fields.collect())
        }
        Value::Array(list) => list.iter().map(sorted).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => value.clone(),
    }
}

fn without_nulls(value: &Value) -> Value {
    match value {
        Value::Object(map) => {
            let present = map.iter().filter(|(_, value)| !value.is_null());
            let present = present.map(|(field, value)| (field.clone(), without_nulls(value)));
            Value::Object(present.collect())
        }
        Value::Array(list) => list.iter().map(without_nulls).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => value.clone(),
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    fn set() -> Value {
        json!({
            "metadata": {"name": "web", "resourceVersion": "7"},
            "spec": {
                "replicas": 3,
                "ordinals": {"start": 5},
                "persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Delete"},
                "template": {"metadata": {"creationTimestamp": null, "labels": {"app": "web"}}},
            },
            "status": {"readyReplicas": 3},
        })
    }

    fn with(pointer: &str, value: Value) -> Value {
        let mut set = set();
        let (parent, field) = pointer.rsplit_once('/').unwrap();
        set.pointer_mut(parent).unwrap()[field] = value;
        set
    }

    #[test]
    fn the_hash_is_that_of_the_standard() {
        let empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        assert_eq!(sha256(b""), empty);
    }

    #[test]
    fn keys_are_sorted_on_every_level() {
        let value: Value =
            serde_json::from_str(r#"{"b": [{"d": 1, "c": "ä"}], "a": null}"#).unwrap();
        assert_eq!(canonical(&value), r#"{"a":null,"b":[{"c":"ä","d":1}]}"#);
    }

    #[test]
    fn the_order_of_a_list_is_a_part_of_the_hash() {
        assert_ne!(
            canonical_sha256(&json!([1, 2])),
            canonical_sha256(&json!([2, 1]))
        );
    }

    #[rstest]
    #[case::replicas("/spec/replicas", json!(1))]
    #[case::ordinals("/spec/ordinals", json!({"start": 6}))]
    #[case::retention("/spec/persistentVolumeClaimRetentionPolicy", json!({"whenDeleted": "Retain"}))]
    #[case::metadata("/metadata/resourceVersion", json!("8"))]
    #[case::status("/status/readyReplicas", json!(2))]
    #[case::null("/spec/template/spec", json!(null))]
    fn the_template_hash_ignores(#[case] pointer: &str, #[case] value: Value) {
        assert_eq!(
            template_sha256(&with(pointer, value)),
            template_sha256(&set())
        );
    }

    #[rstest]
    #[case::labels("/spec/template/metadata/labels", json!({"app": "other"}))]
    #[case::replicas_elsewhere("/spec/template/replicas", json!(1))]
    #[case::any_other_field("/spec/serviceName", json!("web"))]
    fn the_template_hash_covers(#[case] pointer: &str, #[case] value: Value) {
        assert_ne!(
            template_sha256(&with(pointer, value)),
            template_sha256(&set())
        );
    }

    #[test]
    fn a_set_without_spec_has_a_hash() {
        assert_eq!(
            template_sha256(&json!({})),
            template_sha256(&json!({"spec": {}}))
        );
    }
}
