//! A cached object: its pruned JSON text, and the fields that every pass needs.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kernel::ObjectKey;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

use crate::Kind;

/// Which fields of an object are cached. managedFields are not, except the entry of one field manager.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub enum Projection {
    /// All fields.
    #[default]
    Full,
    /// `metadata` alone. The server sends no more.
    Metadata,
    /// `metadata` and these fields: `status`, or `status.conditions` for a part of it.
    Fields(Vec<String>),
    /// All fields, and the managedFields entry of one field manager.
    ManagedBy(String),
}

/// One cached object.
///
/// It is stored as text: a tree of JSON values needs five times the memory, and a pass parses the text in
/// microseconds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stored {
    key: ObjectKey,
    uid: Box<str>,
    version: u64,
    deleting: bool,
    user_fields_hash: u64,
    json: Box<str>,
}

/// An object that cannot be parsed. Other objects are not affected.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{kind} {key}: the stored object does not fit its schema: {cause}; correct the object")]
pub struct Malformed {
    /// The kind.
    pub kind: String,
    /// Namespace and name.
    pub key: String,
    /// The parser's message.
    pub cause: String,
}

type Fields<'a> = BTreeMap<String, &'a RawValue>;

impl Stored {
    /// Parses `json` from the API server, and stores the fields that `projection` selects.
    pub fn read(kind: &Kind, json: &str, projection: &Projection) -> Result<Self, Malformed> {
        let broken = |key: &str, error: serde_json::Error| Malformed {
            kind: kind.kind.clone(),
            key: key.to_owned(),
            cause: error.to_string(),
        };
        let mut fields: Fields<'_> = serde_json::from_str(json).map_err(|e| broken("?", e))?;
        let metadata = fields.remove("metadata").map_or("{}", RawValue::get);
        let mut metadata: Fields<'_> =
            serde_json::from_str(metadata).map_err(|e| broken("?", e))?;
        let text = |field: &str| {
            metadata
                .get(field)
                .and_then(|raw| serde_json::from_str::<String>(raw.get()).ok())
        };
        let name = text("name").unwrap_or_default();
        let key = ObjectKey::of(text("namespace").as_deref(), &name);
        let uid = text("uid").unwrap_or_default().into_boxed_str();
        let version = text("resourceVersion")
            .and_then(|v| v.parse().ok())
            .unwrap_or(0);
        let deleting = metadata.contains_key("deletionTimestamp");

        let managed = metadata.remove("managedFields");
        let managed_fields = match (projection, managed) {
            (Projection::ManagedBy(field_manager), Some(all)) => {
                Some(entries_of(field_manager, all).map_err(|e| broken(&key.to_string(), e))?)
            }
            _ => None,
        };
        let user_fields_hash = user_fields_hash(&fields, &metadata);
        if let Some(managed_fields) = &managed_fields {
            metadata.insert("managedFields".into(), managed_fields);
        }
        let parts = parts(&fields, projection).map_err(|e| broken(&key.to_string(), e))?;
        project(&mut fields, projection);
        fields.extend(parts.iter().map(|(name, part)| (name.clone(), &**part)));
        let json = write(kind, &fields, &metadata);
        Ok(Self {
            key,
            uid,
            version,
            deleting,
            user_fields_hash,
            json,
        })
    }

    /// Namespace and name.
    pub fn key(&self) -> &ObjectKey {
        &self.key
    }

    /// The UID. Another object of the same name has another UID.
    pub fn uid(&self) -> &str {
        &self.uid
    }

    /// resourceVersion as a number; 0 if it is no number, as in some aggregated API servers. Versions are
    /// comparable by contract since Kubernetes 1.35, and were numbers before.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// resourceVersion as the server sent it.
    pub fn resource_version(&self) -> String {
        match self.version {
            0 => self.metadata().resource_version.unwrap_or_default(),
            number => number.to_string(),
        }
    }

    /// Whether the object is being deleted.
    pub fn is_deleting(&self) -> bool {
        self.deleting
    }

    /// A hash of the fields that users set: all but status, resourceVersion and generation. If it is
    /// equal, only status has changed.
    pub fn user_fields_hash(&self) -> u64 {
        self.user_fields_hash
    }

    /// The pruned JSON text.
    pub fn json(&self) -> &str {
        &self.json
    }

    /// The approximate memory of this object in bytes.
    pub fn size(&self) -> usize {
        std::mem::size_of::<Self>() + self.json.len() + self.uid.len() + self.key.name.len()
    }

    /// Parses the object as a Rust type or as `serde_json::Value`.
    pub fn parse<K: DeserializeOwned>(&self, kind: &Kind) -> Result<K, Malformed> {
        serde_json::from_str(&self.json).map_err(|error| Malformed {
            kind: kind.kind.clone(),
            key: self.key.to_string(),
            cause: error.to_string(),
        })
    }

    /// The metadata; empty if it is malformed.
    pub fn metadata(&self) -> ObjectMeta {
        #[derive(Deserialize)]
        struct OnlyMetadata {
            metadata: ObjectMeta,
        }
        serde_json::from_str::<OnlyMetadata>(&self.json)
            .map(|object| object.metadata)
            .unwrap_or_default()
    }

    /// The value of an annotation.
    pub fn annotation(&self, name: &str) -> Option<String> {
        self.json
            .contains(name)
            .then(|| self.metadata().annotations?.remove(name))
            .flatten()
    }
}

fn user_fields_hash(fields: &Fields<'_>, metadata: &Fields<'_>) -> u64 {
    let mut hash = DefaultHasher::new();
    for (name, raw) in fields {
        if !matches!(name.as_str(), "status" | "kind" | "apiVersion") {
            (name, raw.get()).hash(&mut hash);
        }
    }
    for (name, raw) in metadata {
        if !matches!(
            name.as_str(),
            "resourceVersion" | "generation" | "managedFields"
        ) {
            (name, raw.get()).hash(&mut hash);
        }
    }
    hash.finish()
}

/// Removes the top-level fields that `projection` does not select.
fn project(fields: &mut Fields<'_>, projection: &Projection) {
    match projection {
        Projection::Full | Projection::ManagedBy(_) => {}
        Projection::Metadata => fields.clear(),
        Projection::Fields(chosen) => fields.retain(|name, _| chosen.contains(name)),
    }
}

/// The top-level fields of which `projection` selects a part, with that part.
fn parts(
    fields: &Fields<'_>,
    projection: &Projection,
) -> Result<BTreeMap<String, Box<RawValue>>, serde_json::Error> {
    let mut parts = BTreeMap::new();
    let Projection::Fields(chosen) = projection else {
        return Ok(parts);
    };
    for (name, raw) in fields {
        let of_field = |path: &String| {
            let (field, part) = path.split_once('.')?;
            (field == name).then(|| part.to_owned())
        };
        let chosen: Vec<String> = chosen.iter().filter_map(of_field).collect();
        if !chosen.is_empty() {
            let mut part: Fields<'_> = serde_json::from_str(raw.get())?;
            part.retain(|name, _| chosen.contains(name));
            parts.insert(name.clone(), serde_json::value::to_raw_value(&part)?);
        }
    }
    Ok(parts)
}

fn entries_of(field_manager: &str, all: &RawValue) -> Result<Box<RawValue>, serde_json::Error> {
    let entries: Vec<&RawValue> = serde_json::from_str(all.get())?;
    let selected: Vec<&RawValue> = entries
        .into_iter()
        .filter(|entry| {
            serde_json::from_str::<serde_json::Value>(entry.get())
                .is_ok_and(|entry| entry["manager"] == field_manager)
        })
        .collect();
    serde_json::value::to_raw_value(&selected)
}

/// Writes apiVersion, kind, metadata, then the other fields. The API server omits the first two in lists
/// of built-in kinds.
fn write(kind: &Kind, fields: &Fields<'_>, metadata: &Fields<'_>) -> Box<str> {
    let mut out = String::with_capacity(1024);
    out.push_str(r#"{"apiVersion":""#);
    out.push_str(&kind.api_version());
    out.push_str(r#"","kind":""#);
    out.push_str(&kind.kind);
    out.push_str(r#"","metadata":"#);
    write_map(&mut out, metadata.iter());
    for (name, raw) in fields {
        if name != "apiVersion" && name != "kind" {
            out.push(',');
            write_field(&mut out, name, raw);
        }
    }
    out.push('}');
    out.into_boxed_str()
}

fn write_map<'a>(out: &mut String, entries: impl Iterator<Item = (&'a String, &'a &'a RawValue)>) {
    out.push('{');
    for (n, (name, raw)) in entries.enumerate() {
        if n > 0 {
            out.push(',');
        }
        write_field(out, name, raw);
    }
    out.push('}');
}

fn write_field(out: &mut String, name: &str, raw: &RawValue) {
    out.push_str(&serde_json::to_string(name).expect("a string is always JSON"));
    out.push(':');
    out.push_str(raw.get());
}

#[cfg(test)]
mod tests {
    use super::*;
    use k8s_openapi::api::core::v1::ConfigMap;
    use serde_json::{Value, json};

    fn object(version: &str, status: &str, managers: &[&str]) -> String {
        let managed: Vec<_> = managers.iter().map(|m| json!({"manager": m})).collect();
        json!({"metadata": {"name": "n", "namespace": "a", "uid": "u", "resourceVersion": version,
            "generation": 3, "managedFields": managed}, "data": {"k": "v"}, "status": {"phase": status}})
        .to_string()
    }

    fn read(json: &str, projection: &Projection) -> Stored {
        Stored::read(&Kind::of::<ConfigMap>(), json, projection).unwrap()
    }

    #[test]
    fn a_status_change_does_not_change_the_user_fields_hash() {
        let before = read(&object("1", "x", &["a"]), &Projection::Full);
        let after = read(&object("2", "y", &["a", "b"]), &Projection::Full);
        assert_eq!(before.user_fields_hash(), after.user_fields_hash());
        assert!(after.version() > before.version());
        let edited = object("3", "y", &[]).replace(r#""k":"v""#, r#""k":"w""#);
        assert_ne!(
            read(&edited, &Projection::Full).user_fields_hash(),
            after.user_fields_hash()
        );
    }

    #[test]
    fn only_managed_fields_of_the_selected_manager_are_stored() {
        let full: Value =
            serde_json::from_str(read(&object("1", "x", &["a", "b"]), &Projection::Full).json())
                .unwrap();
        assert_eq!(full["metadata"].get("managedFields"), None);
        assert_eq!(full["kind"], "ConfigMap");
        let projected = read(
            &object("1", "x", &["a", "b"]),
            &Projection::ManagedBy("b".into()),
        );
        let projected: Value = serde_json::from_str(projected.json()).unwrap();
        assert_eq!(
            projected["metadata"]["managedFields"],
            json!([{"manager": "b"}])
        );
    }

    #[test]
    fn a_projection_stores_only_the_selected_fields() {
        let metadata: Value =
            serde_json::from_str(read(&object("1", "x", &[]), &Projection::Metadata).json())
                .unwrap();
        assert_eq!((metadata.get("data"), metadata.get("status")), (None, None));
        let chosen = read(
            &object("1", "x", &[]),
            &Projection::Fields(vec!["status".into()]),
        );
        let chosen: Value = serde_json::from_str(chosen.json()).unwrap();
        assert_eq!(chosen["status"]["phase"], "x");
        assert_eq!(chosen.get("data"), None);
    }

    #[test]
    fn a_projection_stores_only_the_selected_parts_of_a_field() {
        let json = json!({"metadata": {"name": "n"}, "spec": {"a": 1},
            "status": {"phase": "x", "images": ["i"], "conditions": []}});
        let chosen = ["status.phase", "status.conditions", "spec"].map(str::to_owned);
        let chosen = read(&json.to_string(), &Projection::Fields(chosen.to_vec()));
        let chosen: Value = serde_json::from_str(chosen.json()).unwrap();
        assert_eq!(chosen["status"], json!({"phase": "x", "conditions": []}));
        assert_eq!(chosen["spec"], json!({"a": 1}));
    }

    #[test]
    fn the_error_of_a_malformed_object_names_it() {
        let kind = Kind::of::<ConfigMap>();
        let stored = read(
            &object("1", "x", &[]).replace(r#"{"k":"v"}"#, "7"),
            &Projection::Full,
        );
        let error = stored.parse::<ConfigMap>(&kind).unwrap_err();
        assert!(error.to_string().starts_with("ConfigMap a/n: "), "{error}");
    }
}
