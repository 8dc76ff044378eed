//! What the schemas of this group share: rules, patterns, and no nulls.

use schemars::Schema;
use serde_json::{Map, Value, json};

/// A shell glob: `*`, `?`, `[abc]`, `[!abc]`, `\x`. Every `[` is closed around at least one
/// character, and no backslash stands alone at the end.
pub(super) const GLOB: &str =
    r"^([^\\\[]|\\.|\[([!^](\\.|[^\\\]])+|(\\.|[^\\\]!^])(\\.|[^\\\]])*)\])*$";
/// Text on one line.
pub(super) const LINE: &str = r"^[^\x00-\x1f\x7f]*$";
/// Text on one line in which Vault's parser finds no interpolation: no `${`.
pub(super) const LITERAL: &str = r"^([^\x00-\x1f\x7f$]|\$+[^\x00-\x1f\x7f${])*\$*$";
/// A path of Vault's policy language; what a pattern cannot say of it is in [`path_rules`].
pub(super) const PATH: &str = r"^[a-zA-Z0-9/_*.{}+-]+$";
/// What a header of HTTP can carry.
pub(super) const VISIBLE: &str = "^[!-~]+$";

/// One rule in CEL, and what the API server says to whoever breaks it.
pub(super) fn rule(cel: &str, message: &str) -> Value {
    json!({"rule": cel, "message": message})
}

/// What holds of every path beyond [`PATH`].
pub(super) fn path_rules() -> [Value; 2] {
    [
        rule("!self.contains('..')", "a path must not contain '..'"),
        rule("!self.contains('+*')", "a path must not contain '+*'"),
    ]
}

/// `field` is the same for the whole life of the object, and so is its absence.
pub(super) fn fixed(field: &str) -> Value {
    rule(
        &format!(
            "has(self.{field}) == has(oldSelf.{field}) \
             && (!has(self.{field}) || self.{field} == oldSelf.{field})"
        ),
        &format!("{field} can be neither added, changed nor removed; make another object"),
    )
}

/// Schema of a map whose values are lists of [`LITERAL`] texts.
pub(super) fn lists_of_literals() -> Value {
    json!({"type": "array", "items": {"type": "string", "pattern": LITERAL}})
}

/// Takes null out of what the fields of a struct accept.
///
/// For schemars an `Option` may be null. The API server prunes nulls that a schema does not allow,
/// so without them `has(self.field)` in a rule means that there is a value.
pub(super) fn never_null(schema: &mut Schema) {
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
