//! Server-side apply that looks first: an object that is as desired costs no request.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use http::{Request, header};
use kernel::{APPLIED, Class, ObjectKey};
use kube::Client;
use parking_lot::Mutex;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::patch::{self, Form};
use crate::stored::{Projection, Stored};
use crate::{ApiError, Classified, Kind};

/// Objects remembered that the server writes differently from how we say it.
const REMEMBERED: usize = 10_000;

/// What an apply did.
#[derive(Debug, Clone, PartialEq)]
pub enum Applied {
    /// It was as desired; nothing was sent.
    Unchanged,
    /// It is now as desired; this is how the server has it.
    Written(Value),
}

/// Makes objects in this cluster be as desired, under one field manager.
///
/// # When not to use it
/// For the object a pass is about: its status and finalizers are the [`crate::Pass`]'s.
#[derive(Clone)]
pub struct Applier {
    client: Client,
    manager: String,
    dry_run: bool,
    /// UID to (hash, version): the server has our words for this version, if in another form.
    known: Arc<Mutex<HashMap<String, (String, String)>>>,
}

impl Applier {
    /// An applier for one concern; `manager` is its name among the field managers.
    pub fn new(client: Client, manager: impl Into<String>) -> Self {
        Self {
            client,
            manager: manager.into(),
            dry_run: false,
            known: Arc::default(),
        }
    }

    /// The same, but the server only says what it would do.
    #[must_use]
    pub fn dry_run(self) -> Self {
        Self {
            dry_run: true,
            ..self
        }
    }

    /// Makes the object be as `desired` says. `live` is how it is, from the cache, if it is there.
    ///
    /// Fields that others own stay; fields we applied before and no longer desire go.
    /// # Errors
    /// `Conflict` names the field manager that owns a field we would set.
    pub async fn apply(
        &self,
        kind: &Kind,
        desired: Value,
        live: Option<&Value>,
    ) -> Result<Applied, ApiError> {
        self.send(kind, desired, live, false).await
    }

    /// The same, but takes over fields that others own: only where the user asked for that.
    pub async fn adopt(
        &self,
        kind: &Kind,
        desired: Value,
        live: Option<&Value>,
    ) -> Result<Applied, ApiError> {
        self.send(kind, desired, live, true).await
    }

    /// Reads how the object is, then applies. For kinds that are followed as metadata or not at all.
    pub async fn look_and_apply(&self, kind: &Kind, desired: Value) -> Result<Applied, ApiError> {
        let live = self.read(kind, &key_of(&desired)).await?;
        self.apply(kind, desired, live.as_ref()).await
    }

    /// The object as it is, or none.
    pub async fn read(&self, kind: &Kind, key: &ObjectKey) -> Result<Option<Value>, ApiError> {
        match patch::get(&self.client, kind, key).await {
            Ok(text) => parse(format!("get {} {key}", kind.kind), &text).map(Some),
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Deletes this very object: a namesake made since is left alone. Gone already is fine.
    pub async fn delete(&self, kind: &Kind, key: &ObjectKey, uid: &str) -> Result<(), ApiError> {
        let what = format!("delete {} {key}", kind.kind);
        let mut options = json!({"preconditions": {"uid": uid}, "propagationPolicy": "Background"});
        if self.dry_run {
            options["dryRun"] = json!(["All"]);
        }
        let request = Request::delete(kind.path(key))
            .header(header::CONTENT_TYPE, "application/json")
            .body(options.to_string().into_bytes())
            .map_err(|error| ApiError::Unreadable {
                what: what.clone(),
                message: error.to_string(),
            })?;
        match self.client.request_text(request).await {
            Ok(_) => Ok(()),
            Err(error) => match ApiError::classify(what, error) {
                error if matches!(error.class(), Class::NotFound | Class::Stale) => Ok(()),
                error => Err(error),
            },
        }
    }

    /// Deletes the objects of `kind` that carry `labels` and are not among `keep`; answers which.
    pub async fn prune(
        &self,
        kind: &Kind,
        namespace: Option<&str>,
        labels: &str,
        keep: &BTreeSet<ObjectKey>,
    ) -> Result<Vec<ObjectKey>, ApiError> {
        let what = format!("list {} labelled {labels}", kind.kind);
        let selector = crate::hub::encoded(labels);
        let path = format!("{}?labelSelector={selector}", kind.collection(namespace));
        let request = Request::get(path)
            .header(
                header::ACCEPT,
                "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1",
            )
            .body(Vec::new())
            .map_err(|error| ApiError::Unreadable {
                what: what.clone(),
                message: error.to_string(),
            })?;
        let text = self
            .client
            .request_text(request)
            .await
            .map_err(|error| ApiError::classify(what.clone(), error))?;
        let list = parse(what, &text)?;
        let mut gone = Vec::new();
        for item in list["items"].as_array().into_iter().flatten() {
            let Ok(found) = Stored::read(kind, &item.to_string(), &Projection::Metadata) else {
                continue;
            };
            if !keep.contains(found.key()) {
                self.delete(kind, found.key(), found.uid()).await?;
                gone.push(found.key().clone());
            }
        }
        Ok(gone)
    }

    async fn send(
        &self,
        kind: &Kind,
        mut desired: Value,
        live: Option<&Value>,
        force: bool,
    ) -> Result<Applied, ApiError> {
        let hash = hash(&desired);
        desired["apiVersion"] = json!(kind.api_version());
        desired["kind"] = json!(kind.kind);
        desired["metadata"]["annotations"][APPLIED] = json!(hash);
        if live.is_some_and(|live| self.is_as_desired(live, &desired, &hash)) {
            return Ok(Applied::Unchanged);
        }
        let key = key_of(&desired);
        let dry = if self.dry_run { "&dryRun=All" } else { "" };
        let path = format!(
            "{}?fieldManager={}&force={force}{dry}",
            kind.path(&key),
            self.manager
        );
        let what = format!("apply {} {key}", kind.kind);
        let text = patch::patch(&self.client, &path, what.clone(), Form::Apply, &desired).await?;
        let written = parse(what, &text)?;
        if is_all_by(&written, &self.manager) {
            crate::echo::wrote(&written);
        }
        if !contains(&written, &desired) {
            self.remember(&written, hash);
        }
        Ok(Applied::Written(written))
    }

    fn is_as_desired(&self, live: &Value, desired: &Value, hash: &str) -> bool {
        // Another hash betrays fields we applied and no longer desire; contents cannot.
        if live["metadata"]["annotations"][APPLIED] != hash {
            return false;
        }
        contains(live, desired) || {
            let metadata = &live["metadata"];
            let known = self.known.lock();
            known
                .get(metadata["uid"].as_str().unwrap_or_default())
                .is_some_and(|(of, version)| of == hash && metadata["resourceVersion"] == **version)
        }
    }

    fn remember(&self, written: &Value, hash: String) {
        let text = |field: &str| {
            written["metadata"][field]
                .as_str()
                .unwrap_or_default()
                .to_owned()
        };
        let mut known = self.known.lock();
        if known.len() >= REMEMBERED {
            known.clear();
        }
        known.insert(text("uid"), (hash, text("resourceVersion")));
    }
}

fn parse(what: String, text: &str) -> Result<Value, ApiError> {
    serde_json::from_str(text).map_err(|error| ApiError::Unreadable {
        what,
        message: error.to_string(),
    })
}

fn key_of(desired: &Value) -> ObjectKey {
    let metadata = &desired["metadata"];
    ObjectKey::of(
        metadata["namespace"].as_str(),
        metadata["name"].as_str().unwrap_or_default(),
    )
}

/// Whether nobody else has a hand in the object, so that its echo can hold nothing new: where others
/// write too, such as a status, a change of theirs may lie between our look and our write.
fn is_all_by(object: &Value, manager: &str) -> bool {
    let entries = object["metadata"]["managedFields"].as_array();
    entries.is_some_and(|entries| entries.iter().all(|entry| entry["manager"] == manager))
}

/// A short hash of what is desired; serde_json keeps keys sorted, so equal values hash alike.
fn hash(desired: &Value) -> String {
    let digest = Sha256::digest(desired.to_string().as_bytes());
    digest
        .iter()
        .take(8)
        .fold(String::new(), |text, byte| format!("{text}{byte:02x}"))
}

/// Whether `live` has every field of `desired`. Lists of named entries are matched by name, as the
/// server merges them; other lists must be equal.
fn contains(live: &Value, desired: &Value) -> bool {
    match (live, desired) {
        (Value::Object(live), Value::Object(desired)) => {
            desired.iter().all(|(field, want)| match live.get(field) {
                Some(have) => contains(have, want),
                None => want.is_null() || want.as_object().is_some_and(serde_json::Map::is_empty),
            })
        }
        (Value::Array(live), Value::Array(desired))
            if !desired.is_empty() && desired.iter().all(|entry| entry["name"].is_string()) =>
        {
            desired.iter().all(|want| {
                live.iter()
                    .any(|have| have["name"] == want["name"] && contains(have, want))
            })
        }
        (Value::Array(live), Value::Array(desired)) => {
            live.len() == desired.len()
                && live
                    .iter()
                    .zip(desired)
                    .all(|(have, want)| contains(have, want))
        }
        (Value::Number(live), Value::Number(desired)) => {
            live == desired || live.as_f64() == desired.as_f64()
        }
        (live, desired) => live == desired,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    #[rstest]
    #[case::equal(json!({"a": 1}), json!({"a": 1}), true)]
    #[case::a_field_of_others_is_theirs(json!({"a": 1, "b": 2}), json!({"a": 1}), true)]
    #[case::a_missing_field(json!({}), json!({"a": 1}), false)]
    #[case::another_value(json!({"a": {"b": 2}}), json!({"a": {"b": 1}}), false)]
    #[case::an_empty_map_is_dropped_by_the_server(json!({}), json!({"a": {}}), true)]
    #[case::named_entries_merge(json!([{"name": "x", "v": 1}, {"name": "y"}]), json!([{"name": "y"}]), true)]
    #[case::plain_lists_are_whole(json!([1, 2]), json!([1]), false)]
    #[case::an_empty_list_is_empty(json!([{"name": "x"}]), json!([]), false)]
    #[case::numbers_are_values(json!(1.0), json!(1), true)]
    fn live_contains_desired(#[case] live: Value, #[case] desired: Value, #[case] expected: bool) {
        assert_eq!(contains(&live, &desired), expected);
    }

    #[test]
    fn only_an_object_that_is_all_ours_has_an_echo_without_news() {
        let by = |managers: &[&str]| {
            let entries: Vec<_> = managers.iter().map(|m| json!({"manager": m})).collect();
            is_all_by(&json!({"metadata": {"managedFields": entries}}), "us")
        };
        assert!(by(&["us", "us"]));
        assert!(!by(&["us", "their-status"]));
        assert!(!is_all_by(&json!({"metadata": {}}), "us"));
    }

    #[test]
    fn the_hash_is_of_the_content_not_of_its_order() {
        let one: Value = serde_json::from_str(r#"{"a":1,"b":{"c":2,"d":3}}"#).unwrap();
        let two: Value = serde_json::from_str(r#"{"b":{"d":3,"c":2},"a":1}"#).unwrap();
        assert_eq!(hash(&one), hash(&two));
        assert_ne!(hash(&one), hash(&json!({"a": 2})));
    }
}
