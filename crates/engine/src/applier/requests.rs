//! What is sent to the API server.

use kernel::ObjectKey;
use serde_json::{Value, json};

use crate::{ApiError, Kind};

/// No object has this version: a write bound to it succeeds only if there is no object.
pub(super) const NO_VERSION: &str = "1";

/// What happens to the objects that a deleted object owns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Propagation {
    /// They are deleted after it.
    #[default]
    Background,
    /// They are deleted before it.
    Foreground,
    /// They stay.
    Orphan,
}

/// Which object is deleted, and how.
#[derive(Debug, Clone, Copy, Default)]
pub struct Deletion<'a> {
    /// The object's UID: another object of the same name is not deleted.
    pub uid: &'a str,
    /// If given, only this version is deleted.
    pub version: Option<u64>,
    /// What happens to the objects it owns.
    pub propagation: Propagation,
    /// The grace period in seconds, if the default of the kind does not fit.
    pub grace_seconds: Option<u32>,
}

impl Deletion<'_> {
    pub(super) fn options(&self, dry_run: bool) -> Value {
        let propagation = match self.propagation {
            Propagation::Background => "Background",
            Propagation::Foreground => "Foreground",
            Propagation::Orphan => "Orphan",
        };
        let mut options = json!({
            "preconditions": {"uid": self.uid},
            "propagationPolicy": propagation,
        });
        if let Some(version) = self.version {
            options["preconditions"]["resourceVersion"] = json!(version.to_string());
        }
        if let Some(seconds) = self.grace_seconds {
            options["gracePeriodSeconds"] = json!(seconds);
        }
        if dry_run {
            options["dryRun"] = json!(["All"]);
        }
        options
    }
}

/// What the server checks before it applies.
#[derive(Debug, Clone, Copy)]
pub(super) struct Binding<'a> {
    /// None: there must be no object.
    pub(super) uid: Option<&'a str>,
    pub(super) version: Option<&'a str>,
    pub(super) force: bool,
}

pub(super) fn binding(live: Option<&Value>, force: bool) -> Binding<'_> {
    let uid = live.map(|live| live["metadata"]["uid"].as_str().unwrap_or_default());
    Binding {
        uid,
        version: None,
        force,
    }
}

pub(super) fn refused(what: &str, message: String) -> ApiError {
    ApiError::Refused {
        what: what.to_owned(),
        message,
    }
}

/// `desired` as it is sent: with apiVersion and kind, and without nulls. Fails if its metadata has a wrong
/// type.
pub(super) fn body(mut desired: Value, kind: &Kind) -> Result<Value, String> {
    drop_nulls(&mut desired);
    let Some(object) = desired.as_object_mut() else {
        return Err("the desired object is not a map".to_owned());
    };
    object.insert("apiVersion".to_owned(), json!(kind.api_version()));
    object.insert("kind".to_owned(), json!(kind.kind));
    let Some(metadata) = object.get("metadata").and_then(Value::as_object) else {
        return Err("metadata is not a map".to_owned());
    };
    let name = metadata.get("name").and_then(Value::as_str);
    if name.unwrap_or_default().is_empty() {
        return Err("metadata.name is missing".to_owned());
    }
    for field in ["annotations", "labels"] {
        let Some(texts) = metadata.get(field) else {
            continue;
        };
        let Some(texts) = texts.as_object() else {
            return Err(format!("metadata.{field} is not a map"));
        };
        if let Some((name, _)) = texts.iter().find(|(_, value)| !value.is_string()) {
            return Err(format!(
                "metadata.{field}: the value of {name} is not a string"
            ));
        }
    }
    Ok(desired)
}

pub(super) fn drop_nulls(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.retain(|_, value| !value.is_null());
            fields.values_mut().for_each(drop_nulls);
        }
        Value::Array(elements) => elements.iter_mut().for_each(drop_nulls),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// `body`, bound to an object: the API server refuses it for any other object.
pub(super) fn bound(mut body: Value, binding: Binding<'_>) -> Value {
    let metadata = &mut body["metadata"];
    match (binding.uid, binding.version) {
        (None, _) => metadata["resourceVersion"] = json!(NO_VERSION),
        (Some(uid), version) => {
            if !uid.is_empty() {
                metadata["uid"] = json!(uid);
            }
            if let Some(version) = version {
                metadata["resourceVersion"] = json!(version);
            }
        }
    }
    body
}

pub(super) fn parse(what: String, text: &str) -> Result<Value, ApiError> {
    serde_json::from_str(text).map_err(|error| ApiError::Unreadable {
        what,
        message: error.to_string(),
    })
}

pub(super) fn key_of(desired: &Value) -> ObjectKey {
    let metadata = &desired["metadata"];
    ObjectKey::of(
        metadata["namespace"].as_str(),
        metadata["name"].as_str().unwrap_or_default(),
    )
}
