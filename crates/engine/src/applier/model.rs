//! Server-side apply in memory, as structured-merge-diff does it, for one small schema.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};

use super::shape::Document;

/// How a field is merged.
#[derive(Debug, Clone)]
pub(super) enum Type {
    Scalar,
    Struct(BTreeMap<&'static str, Type>),
    /// A map with any keys.
    Map(Box<Type>),
    AtomicMap,
    AtomicList,
    Set,
    /// Entries with the keys `port` and `protocol`, which is TCP by default.
    Ports(BTreeMap<&'static str, Type>),
}

/// The schema of the model's kind.
pub(super) fn schema() -> Type {
    let ports = BTreeMap::from([
        ("port", Type::Scalar),
        ("protocol", Type::Scalar),
        ("name", Type::Scalar),
        ("args", Type::AtomicList),
    ]);
    let inner = BTreeMap::from([("x", Type::Scalar), ("y", Type::Scalar)]);
    let spec = BTreeMap::from([
        ("a", Type::Scalar),
        ("inner", Type::Struct(inner)),
        ("texts", Type::Map(Box::new(Type::Scalar))),
        ("whole", Type::AtomicMap),
        ("args", Type::AtomicList),
        ("tags", Type::Set),
        ("ports", Type::Ports(ports)),
    ]);
    Type::Struct(BTreeMap::from([("spec", Type::Struct(spec))]))
}

/// The same schema as an OpenAPI document with a kind `Model`.
pub(super) fn document() -> Document {
    let mut model = openapi(&schema());
    model["x-kubernetes-group-version-kind"] =
        json!([{"group": "", "version": "v1", "kind": "Model"}]);
    let document = json!({"components": {"schemas": {"Model": model}}});
    Document::parse(&document.to_string()).unwrap()
}

fn openapi(of: &Type) -> Value {
    let properties = |fields: &BTreeMap<&'static str, Type>| -> Map<String, Value> {
        let fields = fields.iter();
        fields
            .map(|(name, of)| ((*name).to_owned(), openapi(of)))
            .collect()
    };
    match of {
        Type::Scalar => json!({"type": "string"}),
        Type::Struct(fields) => json!({"properties": properties(fields)}),
        Type::Map(values) => json!({"additionalProperties": openapi(values)}),
        Type::AtomicMap => json!({
            "additionalProperties": {"type": "string"}, "x-kubernetes-map-type": "atomic"}),
        Type::AtomicList => json!({"items": {}, "x-kubernetes-list-type": "atomic"}),
        Type::Set => json!({"items": {}, "x-kubernetes-list-type": "set"}),
        Type::Ports(fields) => {
            let mut items = json!({"properties": properties(fields)});
            items["properties"]["protocol"]["default"] = json!("TCP");
            json!({"items": items, "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["port", "protocol"]})
        }
    }
}

/// The names of managedFields, from the root.
type Owned = BTreeSet<Vec<String>>;

/// One object, and what each manager applied to it.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Server {
    pub(super) object: Value,
    owners: BTreeMap<String, Owned>,
}

impl Default for Server {
    fn default() -> Self {
        Self {
            object: json!({}),
            owners: BTreeMap::new(),
        }
    }
}

impl Server {
    /// Applies `desired`. Fails if another manager owns a field that differs.
    pub(super) fn apply(&mut self, manager: &str, desired: &Value, force: bool) -> Result<(), ()> {
        let mut owned = Owned::new();
        own(&schema(), desired, &mut Vec::new(), &mut owned);
        let mut merged = self.object.clone();
        merge(&schema(), &mut merged, desired);
        let changed: Owned = owned
            .iter()
            .filter(|path| has_changed(&self.object, &merged, path))
            .cloned()
            .collect();
        let others = self.owners.iter_mut().filter(|(name, _)| *name != manager);
        for (_, others) in others {
            if !force && others.intersection(&changed).next().is_some() {
                return Err(());
            }
            others.retain(|path| !changed.contains(path));
        }
        let before = self.owners.insert(manager.to_owned(), owned.clone());
        let is_owned = |path: &Vec<String>| {
            let mut owned = self.owners.values().flatten();
            owned.any(|owned| owned.starts_with(path))
        };
        // The shortest first: an entry goes before the fields that are its keys.
        for path in &before.unwrap_or_default() {
            if !is_owned(path) {
                remove(&mut merged, path);
            }
        }
        self.remove_empty_owners();
        self.object = merged;
        Ok(())
    }

    /// Someone writes a field without server-side apply.
    pub(super) fn update(&mut self, change: impl FnOnce(&mut Value)) {
        let before = self.object.clone();
        change(&mut self.object);
        let ports = self.object.pointer_mut("/spec/ports");
        for port in ports.and_then(Value::as_array_mut).into_iter().flatten() {
            ensure(&mut port["protocol"], json!("TCP")); // a default
        }
        for owned in self.owners.values_mut() {
            owned.retain(|path| !has_changed(&before, &self.object, path));
        }
        self.remove_empty_owners();
    }

    fn remove_empty_owners(&mut self) {
        self.owners.retain(|_, owned| !owned.is_empty());
    }

    /// The object as it is served.
    pub(super) fn live(&self) -> Value {
        let entries = self.owners.iter().map(|(manager, owned)| {
            json!({"manager": manager, "operation": "Apply", "apiVersion": "v1",
                "fieldsV1": fields(owned)})
        });
        let mut live = self.object.clone();
        live["metadata"] = json!({"uid": "u", "managedFields": entries.collect::<Vec<_>>()});
        live
    }
}

fn fields(owned: &Owned) -> Value {
    let mut root = json!({});
    for path in owned {
        let mut node = &mut root;
        for name in path {
            node = &mut node[name.as_str()];
            if node.is_null() {
                *node = json!({});
            }
        }
        // An entry of a list is owned itself, and so are fields of it.
        if path.last().is_some_and(|last| last.starts_with("k:")) {
            node["."] = json!({});
        }
    }
    root
}

fn key(entry: &Value) -> String {
    let protocol = entry.get("protocol").cloned().unwrap_or(json!("TCP"));
    format!("k:{}", json!({"port": entry["port"], "protocol": protocol}))
}

fn own(of: &Type, value: &Value, path: &mut Vec<String>, owned: &mut Owned) {
    let mut own_below = |name: String, of: &Type, value: &Value, is_member: bool| {
        path.push(name);
        own(of, value, path, owned);
        if is_member || value.as_object().is_some_and(Map::is_empty) {
            owned.insert(path.clone());
        }
        path.pop();
    };
    match (of, value) {
        (Type::Struct(types), Value::Object(fields)) => {
            for (name, value) in fields {
                own_below(format!("f:{name}"), &types[&**name], value, false);
            }
        }
        (Type::Map(of), Value::Object(fields)) => {
            for (name, value) in fields {
                own_below(format!("f:{name}"), of, value, true);
            }
        }
        (Type::Set, Value::Array(elements)) => {
            for element in elements {
                own_below(format!("v:{element}"), &Type::Scalar, element, true);
            }
        }
        (Type::Ports(types), Value::Array(entries)) => {
            for entry in entries {
                own_below(key(entry), &Type::Struct(types.clone()), entry, true);
            }
        }
        _ => {
            owned.insert(path.clone());
        }
    }
}

fn merge(of: &Type, live: &mut Value, desired: &Value) {
    match (of, desired) {
        (Type::Struct(types), Value::Object(fields)) => {
            for (name, desired) in fields {
                merge(&types[&**name], &mut live[name.as_str()], desired);
            }
            ensure(live, json!({}));
        }
        (Type::Map(of), Value::Object(fields)) => {
            for (name, desired) in fields {
                merge(of, &mut live[name.as_str()], desired);
            }
            ensure(live, json!({}));
        }
        (Type::Set, Value::Array(elements)) => {
            ensure(live, json!([]));
            let live = live.as_array_mut().unwrap();
            for element in elements {
                if !live.contains(element) {
                    live.push(element.clone());
                }
            }
        }
        (Type::Ports(types), Value::Array(entries)) => {
            ensure(live, json!([]));
            let live = live.as_array_mut().unwrap();
            for desired in entries {
                let same = live.iter().position(|entry| key(entry) == key(desired));
                let same = same.unwrap_or_else(|| {
                    live.push(json!({}));
                    live.len() - 1
                });
                merge(&Type::Struct(types.clone()), &mut live[same], desired);
                ensure(&mut live[same]["protocol"], json!("TCP")); // a default
            }
        }
        _ => *live = desired.clone(),
    }
}

fn ensure(value: &mut Value, default: Value) {
    if value.is_null() {
        *value = default;
    }
}

/// Whether a field has changed. A change of a part of it is not one.
fn has_changed(before: &Value, after: &Value, path: &[String]) -> bool {
    let of = path.iter().try_fold(schema(), |of, name| match of {
        Type::Struct(mut types) => types.remove(&name[2..]),
        Type::Map(of) => Some(*of),
        Type::Ports(types) => Some(Type::Struct(types)),
        Type::Scalar | Type::AtomicMap | Type::AtomicList | Type::Set => Some(Type::Scalar),
    });
    let (before, after) = (at(before, path), at(after, path));
    match of {
        Some(Type::Struct(_) | Type::Map(_)) => before.is_some() != after.is_some(),
        Some(_) | None => before != after,
    }
}

fn at<'v>(value: &'v Value, path: &[String]) -> Option<&'v Value> {
    path.iter().try_fold(value, |value, name| {
        let (kind, name) = name.split_at(2);
        match kind {
            "f:" => value.get(name),
            "k:" => {
                let entries = value.as_array()?;
                entries.iter().find(|entry| key(entry)[2..] == *name)
            }
            _ => {
                let elements = value.as_array()?;
                elements.iter().find(|element| text(element) == name)
            }
        }
    })
}

fn text(value: &Value) -> String {
    value.to_string()
}

fn remove(object: &mut Value, path: &[String]) {
    let Some((last, above)) = path.split_last() else {
        return;
    };
    let mut value = object;
    for name in above {
        let (kind, name) = name.split_at(2);
        let below = match kind {
            "f:" => value.get_mut(name),
            _ => value.as_array_mut().and_then(|entries| {
                let mut entries = entries.iter_mut();
                entries.find(|entry| key(entry)[2..] == *name)
            }),
        };
        let Some(below) = below else { return };
        value = below;
    }
    let (kind, name) = last.split_at(2);
    match value {
        Value::Object(fields) => drop(fields.remove(name)),
        Value::Array(entries) if kind == "k:" => entries.retain(|entry| key(entry)[2..] != *name),
        Value::Array(entries) => entries.retain(|entry| text(entry) != name),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}
