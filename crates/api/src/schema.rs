//! What the schemas of all groups share: rules, no nulls, and defaults that are not written out.

use schemars::Schema;
use serde_json::{Map, Value, json};

/// One rule in CEL, and what the API server says to whoever breaks it.
pub(crate) fn rule(cel: &str, message: &str) -> Value {
    json!({"rule": cel, "message": message})
}

/// `field` is the same for the whole life of the object, and so is its absence.
pub(crate) fn unchanging(field: &str, message: &str) -> Value {
    rule(
        &format!(
            "has(self.{field}) == has(oldSelf.{field}) \
             && (!has(self.{field}) || self.{field} == oldSelf.{field})"
        ),
        message,
    )
}

/// Takes `required` away: for entries of a status, which must never be the reason for a refusal.
pub(crate) fn none_required(schema: &mut Schema) {
    schema.remove("required");
}

/// Whether a value is what its absence means, so that manifests need not say it.
pub(crate) fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// Takes null out of what the fields of a struct accept.
///
/// For schemars an `Option` may be null. The API server prunes nulls that a schema does not allow,
/// so without them `has(self.field)` in a rule means that there is a value.
pub(crate) fn never_null(schema: &mut Schema) {
    let Some(fields) = schema.get_mut("properties").and_then(Value::as_object_mut) else {
        return;
    };
    for field in fields.values_mut().filter_map(Value::as_object_mut) {
        without_null_type(field);
        without_null_choice(field);
    }
}

fn without_null_type(field: &mut Map<String, Value>) {
    if let Some(Value::Array(types)) = field.get_mut("type") {
        types.retain(|kind| kind != "null");
        if let [only] = types.as_slice() {
            let only = only.clone();
            field.insert("type".into(), only);
        }
    }
    if let Some(Value::Array(values)) = field.get_mut("enum") {
        values.retain(|value| !value.is_null());
    }
}

fn without_null_choice(field: &mut Map<String, Value>) {
    let Some(Value::Array(choices)) = field.remove("anyOf") else {
        return;
    };
    let is_null = |choice: &Value| choice["type"] == "null";
    for choice in choices.into_iter().filter(|choice| !is_null(choice)) {
        if let Value::Object(choice) = choice {
            for (key, value) in choice {
                field.entry(key).or_insert(value);
            }
        }
    }
}

/// The fields of `schema` that none of `values` has.
#[cfg(test)]
pub(crate) fn unused(schema: &Value, values: Vec<&Value>) -> Vec<String> {
    if schema["items"].is_object() {
        let entries = values.into_iter().filter_map(Value::as_array).flatten();
        return unused(&schema["items"], entries.collect());
    }
    let fields = schema["properties"].as_object().into_iter().flatten();
    let missing = fields.flat_map(|(name, field)| {
        let found: Vec<_> = values.iter().filter_map(|value| value.get(name)).collect();
        if found.is_empty() {
            return vec![name.clone()];
        }
        let below = unused(field, found).into_iter();
        below.map(|path| format!("{name}.{path}")).collect()
    });
    missing.collect()
}
