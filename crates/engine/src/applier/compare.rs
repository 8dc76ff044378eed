//! Whether an object is as desired, and what differs. Pure.

use std::collections::BTreeSet;

use kernel::{Change, ChangeKind, Diff};
use serde_json::Value;

use super::fields::{self, Path, Pointer};
use super::memory::ServerAnswer;
use super::shape::{Document, Shape};
use crate::Kind;

/// The entry of `manager` in managedFields for this version of the kind; null if there is none.
pub(super) fn entry<'v>(manager: &str, kind: &Kind, live: &'v Value) -> &'v Value {
    let entries = live["metadata"]["managedFields"].as_array();
    let ours = entries.into_iter().flatten().find(|entry| {
        entry["manager"] == manager
            && entry["operation"] == "Apply"
            && entry["subresource"].is_null()
            && entry["apiVersion"] == kind.api_version()
    });
    ours.map_or(&Value::Null, |entry| &entry["fieldsV1"])
}

/// Whether `live` seems to need an apply by `manager`, without a request and without memory, for previews.
pub(crate) fn seems_to_need_apply(kind: &Kind, manager: &str, body: &Value, live: &Value) -> bool {
    let document = Document::of_metadata();
    let entry = entry(manager, kind, live);
    verdict(body, live, document.shape(kind), entry, None) == Verdict::Differs
}

/// Whether an object is as desired.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    AsDesired,
    Differs,
    /// It has the desired values. Whether we own them is not in the cache.
    Unknown,
}

/// | managedFields | values              | our entry                          | so        |
/// |---------------|---------------------|------------------------------------|-----------|
/// | present       | desired or answered | the desired fields, or as answered | AsDesired |
/// | present       | desired or answered | any other                          | Differs   |
/// | present       | any other           |                                    | Differs   |
/// | absent        | answered            |                                    | AsDesired |
/// | absent        | desired             |                                    | Unknown   |
/// | absent        | any other           |                                    | Differs   |
///
/// Answered: as the server answered our last apply of the same body.
pub(super) fn verdict(
    body: &Value,
    live: &Value,
    shape: Option<Shape<'_>>,
    entry: &Value,
    remembered: Option<ServerAnswer>,
) -> Verdict {
    let desired = fields::parts(body, shape, entry);
    let present = fields::parts(live, shape, entry);
    let has_values = || {
        let mut parts = desired.iter();
        parts.all(|(path, desired)| fields::is_same(desired, present.get(path).copied()))
    };
    let hash = fields::values_hash(&desired, &present);
    if !live["metadata"]["managedFields"].is_array() {
        return if remembered.is_some_and(|answer| answer.plain_values == hash) {
            Verdict::AsDesired
        } else if has_values() {
            Verdict::Unknown
        } else {
            Verdict::Differs
        };
    }
    // The server removes our entry if we own no field.
    let is_owned = remembered.is_some_and(|answer| answer.entry == fields::hash(entry))
        || fields::owns_exactly(&desired, &fields::owned_paths(entry));
    let is_answered = remembered.is_some_and(|answer| answer.values == hash);
    if is_owned && (is_answered || has_values()) {
        Verdict::AsDesired
    } else {
        Verdict::Differs
    }
}

pub(super) fn values_hash(
    body: &Value,
    live: &Value,
    shape: Option<Shape<'_>>,
    entry: &Value,
) -> u64 {
    let desired = fields::parts(body, shape, entry);
    fields::values_hash(&desired, &fields::parts(live, shape, entry))
}

/// Whether the server merged a field in another way than the schema has it.
pub(super) fn is_outdated(shape: Shape<'_>, body: &Value, entry: &Value) -> bool {
    let by_schema = fields::parts(body, Some(shape), &Value::Null);
    fields::is_merged_otherwise(&by_schema, &fields::owned_paths(entry))
}

/// Whether `body` has a list that needs a schema. The lists of metadata are the same for all kinds.
pub(super) fn has_lists(body: &Value) -> bool {
    fn has_list(value: &Value) -> bool {
        match value {
            Value::Array(_) => true,
            Value::Object(fields) => fields.values().any(has_list),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
        }
    }
    let fields = body.as_object().into_iter().flatten();
    fields
        .filter(|(name, _)| *name != "metadata")
        .any(|(_, value)| has_list(value))
}

pub(super) fn diff(body: &Value, live: &Value, shape: Option<Shape<'_>>, entry: &Value) -> Diff {
    let desired = fields::parts(body, shape, entry);
    let present = fields::parts(live, shape, entry);
    let owned = fields::owned_paths(entry);
    let paths: BTreeSet<&Path> = desired.keys().chain(&owned).collect();
    let change = |path: &Path| {
        let (desired, live) = (desired.get(path).copied(), present.get(path).copied());
        let is_owned = owned.contains(path);
        let kind = match (desired, live) {
            (Some(desired), live) if fields::is_same(desired, live) => ChangeKind::Same,
            (None, None) => ChangeKind::Same,
            (Some(_), None) if is_owned => ChangeKind::Drift,
            (Some(_), Some(_)) if !is_owned => ChangeKind::Both,
            (Some(_), None) | (_, Some(_)) => ChangeKind::Edit,
        };
        Change {
            path: Pointer(path).to_string(),
            kind,
            last: live.filter(|_| is_owned).cloned(),
            live: live.cloned(),
            desired: desired.cloned(),
        }
    };
    Diff {
        changes: paths.into_iter().map(change).collect(),
    }
}
