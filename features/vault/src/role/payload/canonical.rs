//! What a role says, whoever wrote it and however Vault prints it.

use std::collections::{BTreeMap, BTreeSet};

use api::vault::RoleFamily;
use serde::Serialize;
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

use super::{Payload, fields};

/// The canonical form of a role: what it sets of the fields that are ours, without the marker.
///
/// A field at its zero is absent, so that a field we learn of later changes no hash.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Canonical {
    family: RoleFamily,
    fields: BTreeMap<&'static str, Value>,
}

impl Canonical {
    /// Of what is sent.
    pub(crate) fn of_payload(payload: &Payload) -> Self {
        Self::of_live(payload.family, &payload.fields)
    }

    /// Of what Vault answers.
    pub(crate) fn of_live(family: RoleFamily, live: &Map<String, Value>) -> Self {
        let set = fields::of(family)
            .filter_map(|(field, shape)| Some((field, shape.normal(live.get(field)?)?)));
        Self {
            family,
            fields: set.collect(),
        }
    }

    /// The fields that say something.
    pub(super) fn fields(&self) -> &BTreeMap<&'static str, Value> {
        &self.fields
    }

    /// The SHA-256 of its JSON, in hexadecimal: equal for equal roles only.
    pub(crate) fn hash(&self) -> String {
        let text = serde_json::to_string(self).expect("JSON values print");
        format!("{:x}", Sha256::digest(text))
    }

    /// Field by field, claims one by one.
    fn lines(&self) -> BTreeMap<String, &Value> {
        let mut lines = BTreeMap::new();
        for (field, value) in &self.fields {
            match value {
                Value::Object(parts) => {
                    lines.extend(parts.iter().map(|(key, of)| (format!("{field}.{key}"), of)));
                }
                value => {
                    lines.insert((*field).to_owned(), value);
                }
            }
        }
        lines
    }
}

/// What `after` lost (`-`) and gained (`+`) against `before`, field by field, of lists only the
/// members that differ; no line if they are equal, and at most `max_lines`, the last one counting
/// those left out.
pub(crate) fn diff(before: &Canonical, after: &Canonical, max_lines: usize) -> String {
    let (old, new) = (before.lines(), after.lines());
    let fields: BTreeSet<&String> = old.keys().chain(new.keys()).collect();
    let mut lines = Vec::new();
    for field in fields {
        let (old, new) = (old.get(field).copied(), new.get(field).copied());
        let signed = |sign, value: Value| format!("{sign} {field}: {value}");
        lines.extend(beyond(old, new).map(|lost| signed('-', lost)));
        lines.extend(beyond(new, old).map(|gained| signed('+', gained)));
    }
    if lines.len() > max_lines {
        let kept = max_lines.saturating_sub(1);
        let left_out = lines.len() - kept;
        lines.truncate(kept);
        lines.push(format!("… and {left_out} more"));
    }
    lines.join("\n")
}

/// What `one` says beyond `other`.
fn beyond(one: Option<&Value>, other: Option<&Value>) -> Option<Value> {
    match (one?, other) {
        (one, Some(other)) if one == other => None,
        (Value::Array(one), Some(Value::Array(other))) => {
            let own: Vec<Value> = one.iter().filter(|v| !other.contains(v)).cloned().collect();
            (!own.is_empty()).then_some(Value::Array(own))
        }
        (one, _) => Some(one.clone()),
    }
}
