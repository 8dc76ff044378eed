//! What was edited in the template of a StatefulSet, as a text for people.

use std::collections::BTreeMap;

use k8s_openapi::api::apps::v1::StatefulSet;
use kernel::{Change, Rules, cap};
use serde_json::{Value, json};

use super::Document;
use super::matches::{is_left_out, missing, rules};
use crate::record::hashes::{template, template_sha256};

/// Fields in which people write texts of their own, and so secrets.
const FREE_TEXTS: [&str; 9] = [
    "annotations",
    "args",
    "command",
    "env",
    "gitRepo",
    "httpGet",
    "httpHeaders",
    "options",
    "volumeAttributes",
];
/// The most fields that a text names.
const MOST_FIELDS: usize = 3;
/// The most bytes of a value.
const VALUE_BYTES: usize = 80;

/// The values of a field before and after its edit, by its JSON pointer.
type Edits = BTreeMap<String, (Option<Value>, Option<Value>)>;

/// The fields of the template in which two versions of a StatefulSet differ, with both values. Empty if there
/// is none.
///
/// It covers what `template_sha256` covers: if the hashes differ, at least one field is here. A value that may
/// be a secret is `***`. An element of a list has its name in the path, or its index if only the order of the
/// list differs.
pub fn edits(before: &Document<StatefulSet>, after: &Document<StatefulSet>) -> String {
    text(&between(before, after))
}

/// The fields of the template that were sent and have other values now, with both. If there is none, those
/// that were not sent: their defaults, and what admission has added, cannot be told from an edit.
pub fn edits_of_sent(sent: &Document<StatefulSet>, live: &Document<StatefulSet>) -> String {
    let (sent, live) = (spec(sent), spec(live));
    let changed = missing(&sent, &live, &rules()).filter(|change| !is_left_out(change));
    let changed: Edits = changed.map(of_lost).collect();
    if changed.is_empty() {
        text(&added(&sent, &live, &rules()))
    } else {
        text(&changed)
    }
}

fn between(before: &Document<StatefulSet>, after: &Document<StatefulSet>) -> Edits {
    if template_sha256(before.value()) == template_sha256(after.value()) {
        return Edits::new();
    }
    let (before, after) = (spec(before), spec(after));
    let by = |rules: &Rules| {
        let mut edits = added(&before, &after, rules);
        edits.extend(missing(&before, &after, rules).map(of_lost));
        edits
    };
    let mut edits = by(&rules());
    if edits.is_empty() {
        edits = by(&Rules::new());
    }
    if edits.is_empty() {
        edits.insert("/spec".to_owned(), (None, None)); // an empty field and an absent one
    }
    edits
}

/// The template, below `/spec`.
fn spec(set: &Document<StatefulSet>) -> Value {
    json!({ "spec": template(set.value()) })
}

/// The fields that had another value before the edit, or none.
fn added(before: &Value, after: &Value, rules: &Rules) -> Edits {
    let changes = missing(after, before, rules);
    changes
        .map(|change| (change.path, (change.live, change.desired)))
        .collect()
}

/// A field that has another value after the edit, or none.
fn of_lost(change: Change) -> (String, (Option<Value>, Option<Value>)) {
    (change.path, (change.desired, change.live))
}

fn text(edits: &Edits) -> String {
    let named = edits.iter().take(MOST_FIELDS);
    let named = named.map(|(field, (before, after))| {
        let [before, after] = [before, after].map(|value| shown(field, value.as_ref()));
        format!("{field}: {before} -> {after}")
    });
    let named: Vec<String> = named.collect();
    let named = named.join(", ");
    match edits.len().saturating_sub(MOST_FIELDS) {
        0 => named,
        more => format!("{named} and {more} more"),
    }
}

/// | field             | value                             | shown          |
/// |-------------------|-----------------------------------|----------------|
/// | any               | none                              | absent         |
/// | any               | number, boolean                   | as JSON        |
/// | of a free text    | any other                         | `***`          |
/// | any other         | text, list of texts               | as JSON, cut   |
/// | any other         | object, list with objects         | `***`          |
fn shown(field: &str, value: Option<&Value>) -> String {
    let Some(value) = value.filter(|value| !value.is_null()) else {
        return "absent".to_owned();
    };
    let is_free = field.split('/').any(|part| FREE_TEXTS.contains(&part));
    let is_plain = match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => true,
        Value::String(_) => !is_free,
        Value::Array(elements) => !is_free && elements.iter().all(Value::is_string),
        Value::Object(_) => false,
    };
    if is_plain {
        cap(&value.to_string(), VALUE_BYTES)
    } else {
        "***".to_owned()
    }
}

#[cfg(test)]
mod tests;
