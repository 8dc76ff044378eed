//! The fields that an apply owns, in the terms of managedFields, and whether an object has them.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::Bound;

use kernel::APPLIED;
use serde_json::{Map, Value};

use super::shape::{ListType, Shape};

/// Fields of metadata that identify an object. No manager owns them.
const IDENTITY: &[&str] = &[
    "name",
    "namespace",
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "managedFields",
    "selfLink",
];

/// One part of a path, as in managedFields.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Segment {
    /// `f:`, a field.
    Field(String),
    /// `k:`, the entry of a list with these values of its keys.
    Entry(Identity),
    /// `v:`, a value of a set, as JSON.
    Value(String),
}

/// The keys of a list entry, with their values as JSON.
type Identity = BTreeMap<String, String>;

/// The path of a field.
pub(super) type Path = Vec<Segment>;

/// The smallest parts of `value` that a manager can own, by path. Maps and lists that are merged as a whole
/// are one part. So is an empty map.
///
/// `owned` is what we own of the object already, in the form of managedFields: it shows how the server merged
/// these fields, also where there is no `shape` or an outdated one. Without both, lists are merged as a whole.
pub(super) fn parts<'v>(
    value: &'v Value,
    shape: Option<Shape<'_>>,
    owned: &Value,
) -> BTreeMap<Path, &'v Value> {
    let mut parts = BTreeMap::new();
    collect(&mut Vec::new(), value, shape, owned, &mut parts);
    parts.retain(|path, _| !is_identity(path));
    parts
}

fn collect<'v>(
    path: &mut Path,
    value: &'v Value,
    shape: Option<Shape<'_>>,
    owned: &Value,
    parts: &mut BTreeMap<Path, &'v Value>,
) {
    match value {
        Value::Null => {}
        Value::Object(fields) if !fields.is_empty() && !is_atomic_map(shape, owned) => {
            for (name, value) in fields {
                let shape = shape.and_then(|shape| shape.field(name));
                let owned = &owned[format!("f:{name}")];
                path.push(Segment::Field(name.clone()));
                collect(path, value, shape, owned, parts);
                path.pop();
            }
        }
        Value::Array(elements) => match list_type(shape, owned) {
            ListType::Atomic => {
                parts.insert(path.clone(), value);
            }
            ListType::Set => {
                for element in elements {
                    path.push(Segment::Value(element.to_string()));
                    parts.insert(path.clone(), element);
                    path.pop();
                }
            }
            ListType::Map(keys) => {
                let owned = owned_entries(owned);
                let shape = shape.and_then(Shape::element);
                for element in elements {
                    let identity = identity(element, &keys);
                    let owned = owned.get(&identity).copied().unwrap_or(&Value::Null);
                    path.push(Segment::Entry(identity));
                    collect(path, element, shape, owned, parts);
                    path.pop();
                }
            }
        },
        Value::Object(_) | Value::Bool(_) | Value::Number(_) | Value::String(_) => {
            parts.insert(path.clone(), value);
        }
    }
}

fn is_identity(path: &[Segment]) -> bool {
    let is = |segment: &Segment, names: &[&str]| match segment {
        Segment::Field(name) => names.contains(&&**name),
        Segment::Entry(_) | Segment::Value(_) => false,
    };
    match path {
        [only] => is(only, &["apiVersion", "kind"]),
        [metadata, field, ..] => is(metadata, &["metadata"]) && is(field, IDENTITY),
        [] => true, // an empty object has no field
    }
}

/// The members of a node of managedFields: fields, entries and values below it.
fn members(owned: &Value) -> impl Iterator<Item = (&str, &str, &Value)> {
    let members = owned.as_object().into_iter().flatten();
    members.filter_map(|(name, below)| {
        let (kind, name) = name.split_at_checked(2)?;
        matches!(kind, "f:" | "k:" | "v:").then_some((kind, name, below))
    })
}

/// Whether we own the field as a whole.
fn is_owned_whole(owned: &Value) -> bool {
    owned.is_object() && members(owned).next().is_none()
}

fn is_atomic_map(shape: Option<Shape<'_>>, owned: &Value) -> bool {
    match (members(owned).next(), shape) {
        (Some(_), _) => false,
        (None, Some(shape)) if shape.is_atomic_map() => true,
        // We own it as a whole because we desired an empty map.
        (None, Some(shape)) if shape.has_fields() => false,
        (None, _) => owned.is_object(),
    }
}

fn list_type<'a>(shape: Option<Shape<'a>>, owned: &'a Value) -> ListType<'a> {
    let of_shape = shape.map_or(ListType::Atomic, Shape::list_type);
    let is_map = matches!(of_shape, ListType::Map(_));
    let first = members(owned).next().map(|(kind, ..)| kind);
    match first {
        None if owned.is_object() => ListType::Atomic,
        None => of_shape,
        Some("k:") if is_map => of_shape,
        Some("k:") => {
            // Each entry names its keys. The schema alone would give their defaults.
            let entries = owned.as_object().into_iter().flatten();
            let keys: BTreeSet<&str> = entries.flat_map(|(name, _)| key_names(name)).collect();
            ListType::Map(keys.into_iter().map(|key| (key, None)).collect())
        }
        Some("v:") => ListType::Set,
        Some(_) => ListType::Atomic,
    }
}

/// The names of the keys in a member such as `k:{"port":80}`.
fn key_names(member: &str) -> Vec<&str> {
    let Some(keys) = member.strip_prefix("k:") else {
        return Vec::new();
    };
    serde_json::from_str::<BTreeMap<&str, Value>>(keys)
        .map(|keys| keys.into_keys().collect())
        .unwrap_or_default()
}

fn owned_entries(owned: &Value) -> BTreeMap<Identity, &Value> {
    members(owned)
        .filter(|(kind, ..)| *kind == "k:")
        .map(|(_, keys, below)| (read_identity(keys), below))
        .collect()
}

fn read_identity(keys: &str) -> Identity {
    let keys = serde_json::from_str::<Map<String, Value>>(keys).unwrap_or_default();
    let texts = keys
        .into_iter()
        .map(|(key, value)| (key, value.to_string()));
    texts.collect()
}

/// The values of the keys of an entry. A key without value and default is left out, as the server does.
fn identity(entry: &Value, keys: &[(&str, Option<&Value>)]) -> Identity {
    let values = keys.iter().filter_map(|(key, default)| {
        let value = entry.get(*key).or(*default)?;
        Some(((*key).to_owned(), value.to_string()))
    });
    values.collect()
}

/// The paths that an entry of managedFields owns.
pub(super) fn owned_paths(owned: &Value) -> BTreeSet<Path> {
    let mut paths = BTreeSet::new();
    collect_owned(&mut Vec::new(), owned, &mut paths);
    paths.retain(|path| !is_identity(path));
    paths
}

fn collect_owned(path: &mut Path, owned: &Value, paths: &mut BTreeSet<Path>) {
    if is_owned_whole(owned) && !path.is_empty() {
        paths.insert(path.clone());
        return;
    }
    for (kind, name, below) in members(owned) {
        path.push(match kind {
            "k:" => Segment::Entry(read_identity(name)),
            "v:" => Segment::Value(canonical_json(name)),
            _ => Segment::Field(name.to_owned()),
        });
        collect_owned(path, below, paths);
        path.pop();
    }
}

fn canonical_json(text: &str) -> String {
    let value = serde_json::from_str::<Value>(text);
    value.map_or_else(|_| text.to_owned(), |value| value.to_string())
}

/// Whether the server has `live` at a part that is desired to be `desired`.
///
/// An empty map or list may be missing: the server drops it. Beside a desired empty map, others may have fields.
pub(super) fn is_same(desired: &Value, live: Option<&Value>) -> bool {
    match (desired, live) {
        (Value::Object(desired), None) => desired.is_empty(),
        (Value::Array(desired), None) => desired.is_empty(),
        (_, None) => false,
        (Value::Object(desired), Some(Value::Object(_))) if desired.is_empty() => true,
        (desired, Some(live)) => is_equal(desired, live),
    }
}

/// Whether two values are equal. Null counts as absent, and 1 as 1.0.
fn is_equal(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Object(one), Value::Object(other)) => {
            let names: BTreeSet<&String> = one.keys().chain(other.keys()).collect();
            names.into_iter().all(|name| {
                let one = one.get(name).unwrap_or(&Value::Null);
                is_equal(one, other.get(name).unwrap_or(&Value::Null))
            })
        }
        (Value::Array(one), Value::Array(other)) => {
            one.len() == other.len()
                && one
                    .iter()
                    .zip(other)
                    .all(|(one, other)| is_equal(one, other))
        }
        (Value::Number(one), Value::Number(other)) => {
            one == other || (one.is_f64() || other.is_f64()) && one.as_f64() == other.as_f64()
        }
        (one, other) => one == other,
    }
}

/// Whether `owned` are exactly the paths of `desired`. The mark of older releases may be left: the next write
/// removes it.
pub(super) fn owns_exactly(desired: &BTreeMap<Path, &Value>, owned: &BTreeSet<Path>) -> bool {
    desired.keys().all(|path| owned.contains(path))
        && owned
            .iter()
            .all(|path| desired.contains_key(path) || is_old_mark(path))
}

/// Whether the server owns a field as a whole that is several parts by the schema, or the other way round.
pub(super) fn is_merged_otherwise(
    by_schema: &BTreeMap<Path, &Value>,
    owned: &BTreeSet<Path>,
) -> bool {
    // The first path after a path is below it, if any is.
    let after = |path: &Path| (Bound::Excluded(path.clone()), Bound::<Path>::Unbounded);
    let is_below =
        |found: Option<&Path>, path: &Path| found.is_some_and(|found| found.starts_with(path));
    owned.iter().any(|path| {
        is_below(
            by_schema.range(after(path)).next().map(|(found, _)| found),
            path,
        )
    }) || by_schema
        .keys()
        .any(|path| is_below(owned.range(after(path)).next(), path))
}

fn is_old_mark(path: &[Segment]) -> bool {
    let expected = ["metadata", "annotations", APPLIED];
    let mut names = path.iter().zip(expected);
    path.len() == expected.len()
        && names.all(|(segment, name)| matches!(segment, Segment::Field(field) if field == name))
}

/// A hash of the live values of all parts that `desired` has.
pub(super) fn values_hash(desired: &BTreeMap<Path, &Value>, live: &BTreeMap<Path, &Value>) -> u64 {
    let mut hasher = DefaultHasher::new();
    for path in desired.keys() {
        path.hash(&mut hasher);
        hash_into(live.get(path).copied().unwrap_or(&Value::Null), &mut hasher);
    }
    hasher.finish()
}

/// A hash of a value that does not depend on the order of fields.
pub(super) fn hash(value: &Value) -> u64 {
    let mut hasher = DefaultHasher::new();
    hash_into(value, &mut hasher);
    hasher.finish()
}

fn hash_into(value: &Value, hasher: &mut DefaultHasher) {
    match value {
        Value::Object(fields) => {
            let sorted: BTreeMap<_, _> = fields.iter().collect();
            sorted.len().hash(hasher);
            for (name, value) in sorted {
                name.hash(hasher);
                hash_into(value, hasher);
            }
        }
        Value::Array(elements) => {
            ('[', elements.len()).hash(hasher);
            for element in elements {
                hash_into(element, hasher);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {
            value.to_string().hash(hasher);
        }
    }
}

/// A path as a JSON pointer. An entry is named by its keys, as in [`kernel::Change`].
pub(super) struct Pointer<'a>(pub(super) &'a [Segment]);

impl fmt::Display for Pointer<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plain = |json: &str| match serde_json::from_str(json) {
            Ok(Value::String(text)) => text,
            Ok(_) | Err(_) => json.to_owned(),
        };
        for segment in self.0 {
            let text = match segment {
                Segment::Field(name) => name.clone(),
                Segment::Value(value) => plain(value),
                Segment::Entry(keys) => {
                    let keys = keys.iter();
                    let keys: Vec<_> = keys
                        .map(|(key, value)| format!("{key}={}", plain(value)))
                        .collect();
                    keys.join(",")
                }
            };
            write!(f, "/{}", text.replace('~', "~0").replace('/', "~1"))?;
        }
        Ok(())
    }
}
