//! Server-side apply that compares first: an object that is as desired costs no request.

use std::collections::{BTreeSet, HashMap};
use std::hash::{DefaultHasher, Hash, Hasher};
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

/// The number of [`Accepted`] objects that are remembered; about 5 MB.
const ACCEPTED_CAPACITY: usize = 100_000;

/// No object has this version: a write bound to it succeeds only if there is no object.
const NO_VERSION: &str = "1";

/// What an apply did.
#[derive(Debug, Clone, PartialEq)]
pub enum Applied {
    /// The object was as desired; nothing was sent.
    Unchanged,
    /// The object was written. This is the answer of the API server.
    Written(Value),
}

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
    fn options(&self, dry_run: bool) -> Value {
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

/// Applies objects to this cluster, under one field manager.
///
/// # When not to use it
/// For the object of a pass: [`crate::Pass`] writes its status and finalizers.
#[derive(Clone)]
pub struct Applier {
    client: Client,
    manager: String,
    dry_run: bool,
    /// By the hash of the UID: a version that is as desired although its fields differ.
    accepted: Arc<Mutex<HashMap<u64, Accepted>>>,
}

impl Applier {
    /// An applier with the field manager `manager`.
    pub fn new(client: Client, manager: impl Into<String>) -> Self {
        Self {
            client,
            manager: manager.into(),
            dry_run: false,
            accepted: Arc::default(),
        }
    }

    /// The same applier, but with dry runs: the API server answers and stores nothing.
    #[must_use]
    pub fn dry_run(self) -> Self {
        Self {
            dry_run: true,
            ..self
        }
    }

    /// Applies `desired`, if `live` differs from it. `live` is the object in the cache, if there is one.
    ///
    /// Fields of other managers stay. Fields that we applied before and no longer desire are removed. The
    /// write succeeds only for the UID of `live` or, without `live`, if there is no object.
    /// # Errors
    /// `Conflict` names the field manager that owns a field of `desired`. `Stale` if there is another
    /// object than `live`. `Invalid`, with nothing sent, if `desired` has no usable metadata.
    pub async fn apply(
        &self,
        kind: &Kind,
        desired: Value,
        live: Option<&Value>,
    ) -> Result<Applied, ApiError> {
        self.send(kind, desired, live, false).await
    }

    /// The same, but takes over fields of other managers. Use it only if the user asked for that.
    pub async fn adopt(
        &self,
        kind: &Kind,
        desired: Value,
        live: Option<&Value>,
    ) -> Result<Applied, ApiError> {
        self.send(kind, desired, live, true).await
    }

    /// Whether `live` is as desired, so that an apply would send nothing.
    pub fn is_applied(&self, kind: &Kind, mut desired: Value, live: &Value) -> bool {
        let hash = hash(&desired);
        complete(&mut desired, kind, &hash).is_ok() && self.is_as_desired(live, &desired, &hash)
    }

    /// Reads the object, then applies. For kinds whose full objects are not in a cache.
    pub async fn read_and_apply(&self, kind: &Kind, desired: Value) -> Result<Applied, ApiError> {
        let live = self.read(kind, &key_of(&desired)).await?;
        self.apply(kind, desired, live.as_ref()).await
    }

    /// Reads the object; none if it does not exist.
    pub async fn read(&self, kind: &Kind, key: &ObjectKey) -> Result<Option<Value>, ApiError> {
        match patch::get(&self.client, kind, key).await {
            Ok(text) => parse(format!("get {} {key}", kind.kind), &text).map(Some),
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Deletes the object with this UID. It is no error if the object is gone or replaced.
    pub async fn delete(&self, kind: &Kind, key: &ObjectKey, uid: &str) -> Result<(), ApiError> {
        let deletion = Deletion {
            uid,
            ..Deletion::default()
        };
        self.delete_with(kind, key, &deletion).await
    }

    /// The same, with all options of a [`Deletion`].
    /// # Errors
    /// `Stale` if a version is given and the object of this name has another version.
    pub async fn delete_with(
        &self,
        kind: &Kind,
        key: &ObjectKey,
        deletion: &Deletion<'_>,
    ) -> Result<(), ApiError> {
        let what = format!("delete {} {key}", kind.kind);
        let options = deletion.options(self.dry_run);
        let request = Request::delete(kind.path(key))
            .header(header::CONTENT_TYPE, "application/json")
            .body(options.to_string().into_bytes())
            .map_err(|error| ApiError::Unreadable {
                what: what.clone(),
                message: error.to_string(),
            })?;
        let Err(error) = self.client.request_text(request).await else {
            return Ok(());
        };
        let error = ApiError::classify(what, error);
        match error.class() {
            Class::NotFound => Ok(()),
            Class::Stale if deletion.version.is_none() => Ok(()), // it was replaced
            _ => Err(error),
        }
    }

    /// Deletes the objects of `kind` that have `labels` and are not in `retained`. Returns their keys.
    /// # Errors
    /// `Invalid`, with nothing sent, if `labels` is empty: it would select every object.
    pub async fn prune(
        &self,
        kind: &Kind,
        namespace: Option<&str>,
        labels: &str,
        retained: &BTreeSet<ObjectKey>,
    ) -> Result<Vec<ObjectKey>, ApiError> {
        let what = format!("list {} labelled {labels}", kind.kind);
        if labels.trim().is_empty() {
            let message = "pruning needs a label selector".to_owned();
            return Err(ApiError::Refused { what, message });
        }
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
        let mut deleted = Vec::new();
        for item in list["items"].as_array().into_iter().flatten() {
            let Ok(found) = Stored::read(kind, &item.to_string(), &Projection::Metadata) else {
                continue;
            };
            if !retained.contains(found.key()) {
                self.delete(kind, found.key(), found.uid()).await?;
                deleted.push(found.key().clone());
            }
        }
        Ok(deleted)
    }

    async fn send(
        &self,
        kind: &Kind,
        mut desired: Value,
        live: Option<&Value>,
        force: bool,
    ) -> Result<Applied, ApiError> {
        let key = key_of(&desired);
        let what = format!("apply {} {key}", kind.kind);
        let hash = hash(&desired);
        if let Err(message) = complete(&mut desired, kind, &hash) {
            return Err(ApiError::Refused { what, message });
        }
        if live.is_some_and(|live| self.is_as_desired(live, &desired, &hash)) {
            return Ok(Applied::Unchanged);
        }
        let dry = if self.dry_run { "&dryRun=All" } else { "" };
        let path = format!(
            "{}?fieldManager={}&force={force}{dry}",
            kind.path(&key),
            self.manager
        );
        let body = bound(desired.clone(), live);
        let text = patch::patch(&self.client, &path, what.clone(), Form::Apply, &body).await?;
        let written = parse(what, &text)?;
        if is_managed_only_by(&written, &self.manager) {
            crate::echo::record_write(&written);
        }
        // A cache may have the object without managedFields, so this comparison ignores list types.
        if !contains(&written, &desired, &Value::Null) {
            self.accept(&written, &hash);
        }
        Ok(Applied::Written(written))
    }

    fn is_as_desired(&self, live: &Value, desired: &Value, hash: &str) -> bool {
        // Only the hash shows that we applied fields which are no longer desired.
        if live["metadata"]["annotations"][APPLIED] != hash {
            return false;
        }
        self.contains(live, desired) || {
            let Some((uid, accepted)) = Accepted::of(live, hash) else {
                return false;
            };
            self.accepted.lock().get(&uid) == Some(&accepted)
        }
    }

    /// Whether `live` has every field of `desired`. Our entry in managedFields shows the list types.
    fn contains(&self, live: &Value, desired: &Value) -> bool {
        let entries = live["metadata"]["managedFields"].as_array();
        let ours = entries.into_iter().flatten().find(|entry| {
            entry["manager"] == *self.manager
                && entry["operation"] == "Apply"
                && entry["subresource"].is_null()
        });
        contains(
            live,
            desired,
            ours.map_or(&Value::Null, |entry| &entry["fieldsV1"]),
        )
    }

    fn accept(&self, written: &Value, hash: &str) {
        let Some((uid, accepted)) = Accepted::of(written, hash) else {
            return;
        };
        let mut all = self.accepted.lock();
        if all.len() >= ACCEPTED_CAPACITY && !all.contains_key(&uid) {
            // Any entry can go: its object costs one more write at its next apply.
            let evicted = all.keys().next().copied();
            evicted.and_then(|evicted| all.remove(&evicted));
        }
        all.insert(uid, accepted);
    }
}

/// A version of an object that the API server wrote differently from our desired state, as hashes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Accepted {
    desired: u64,
    version: u64,
}

impl Accepted {
    /// The hash of the object's UID, and the accepted version.
    fn of(object: &Value, hash: &str) -> Option<(u64, Self)> {
        let metadata = &object["metadata"];
        let accepted = Self {
            desired: number(hash),
            version: number(metadata["resourceVersion"].as_str()?),
        };
        Some((number(metadata["uid"].as_str()?), accepted))
    }
}

fn number(text: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    hasher.finish()
}

/// Adds apiVersion, kind and the hash annotation. Fails if `desired` is not an object.
fn complete(desired: &mut Value, kind: &Kind, hash: &str) -> Result<(), String> {
    let Some(object) = desired.as_object_mut() else {
        return Err("the desired object is not a map".to_owned());
    };
    object.insert("apiVersion".to_owned(), json!(kind.api_version()));
    object.insert("kind".to_owned(), json!(kind.kind));
    let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) else {
        return Err("metadata is not a map".to_owned());
    };
    let name = metadata.get("name").and_then(Value::as_str);
    if name.unwrap_or_default().is_empty() {
        return Err("metadata.name is missing".to_owned());
    }
    let annotations = metadata.entry("annotations").or_insert(Value::Null);
    if annotations.is_null() {
        *annotations = json!({});
    }
    let Some(annotations) = annotations.as_object_mut() else {
        return Err("metadata.annotations is not a map".to_owned());
    };
    annotations.insert(APPLIED.to_owned(), json!(hash));
    Ok(())
}

/// `desired`, bound to the object `live`: the API server refuses it for any other object.
fn bound(mut desired: Value, live: Option<&Value>) -> Value {
    match live {
        Some(live) if live["metadata"]["uid"].is_string() => {
            desired["metadata"]["uid"] = live["metadata"]["uid"].clone();
        }
        Some(_) => {}
        None => desired["metadata"]["resourceVersion"] = json!(NO_VERSION),
    }
    desired
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

/// Whether `manager` alone manages the object, so that the watch event of our write shows nothing new.
/// If others write it, too, they may have changed it between our read and our write.
fn is_managed_only_by(object: &Value, manager: &str) -> bool {
    let entries = object["metadata"]["managedFields"].as_array();
    entries.is_some_and(|entries| entries.iter().all(|entry| entry["manager"] == manager))
}

/// A short hash of the desired object. `serde_json` sorts keys, so equal values have equal hashes.
fn hash(desired: &Value) -> String {
    let digest = Sha256::digest(desired.to_string().as_bytes());
    digest
        .iter()
        .take(8)
        .fold(String::new(), |text, byte| format!("{text}{byte:02x}"))
}

/// Whether `live` has every field of `desired`. `fields` is what we own, in the form of managedFields.
/// A list whose entries we own by key or value may have further entries. Any other list must be equal.
fn contains(live: &Value, desired: &Value, fields: &Value) -> bool {
    match (live, desired) {
        (Value::Object(live), Value::Object(desired)) => {
            desired.iter().all(|(field, want)| match live.get(field) {
                Some(have) => contains(have, want, &fields[format!("f:{field}")]),
                None => want.is_null() || want.as_object().is_some_and(serde_json::Map::is_empty),
            })
        }
        (Value::Array(live), Value::Array(desired)) => {
            let keys = entry_keys(fields);
            if keys.is_empty() {
                let mut pairs = live.iter().zip(desired);
                return live.len() == desired.len()
                    && pairs.all(|(have, want)| contains(have, want, &Value::Null));
            }
            desired.iter().all(|want| {
                keys.iter().any(|(key, of)| {
                    key.is_of(want)
                        && live
                            .iter()
                            .any(|have| key.is_of(have) && contains(have, want, of))
                })
            })
        }
        (Value::Number(live), Value::Number(desired)) => {
            live == desired || live.as_f64() == desired.as_f64()
        }
        (live, desired) => live == desired,
    }
}

/// How managedFields names one entry of a list.
enum EntryKey {
    /// `k:`: these fields of the entry.
    Fields(Value),
    /// `v:`: the entry itself.
    Value(Value),
}

impl EntryKey {
    fn is_of(&self, entry: &Value) -> bool {
        match self {
            // The API server sets a default for a key field that the entry omits.
            Self::Fields(key) => key.as_object().is_some_and(|key| {
                let has = |(field, value)| entry.get(field).is_none_or(|has| has == value);
                entry.is_object() && key.iter().all(has)
            }),
            Self::Value(value) => entry == value,
        }
    }
}

/// The list entries that `fields` names, and the fields that we own of each.
fn entry_keys(fields: &Value) -> Vec<(EntryKey, &Value)> {
    let named = fields.as_object().into_iter().flatten();
    let keys = named.filter_map(|(name, of)| {
        let key = match name.split_at_checked(2)? {
            ("k:", key) => EntryKey::Fields(serde_json::from_str(key).ok()?),
            ("v:", value) => EntryKey::Value(serde_json::from_str(value).ok()?),
            _ => return None,
        };
        Some((key, of))
    });
    keys.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    #[rstest]
    #[case::equal(json!({"a": 1}), json!({"a": 1}), true)]
    #[case::a_field_of_others(json!({"a": 1, "b": 2}), json!({"a": 1}), true)]
    #[case::a_missing_field(json!({}), json!({"a": 1}), false)]
    #[case::another_value(json!({"a": {"b": 2}}), json!({"a": {"b": 1}}), false)]
    #[case::an_empty_map_is_dropped_by_the_server(json!({}), json!({"a": {}}), true)]
    #[case::a_list_of_unknown_type_is_whole(json!([{"name": "x"}, {"name": "y"}]), json!([{"name": "y"}]), false)]
    #[case::plain_lists_are_whole(json!([1, 2]), json!([1]), false)]
    #[case::an_empty_list_is_empty(json!([{"name": "x"}]), json!([]), false)]
    #[case::numbers_are_values(json!(1.0), json!(1), true)]
    fn live_contains_desired(#[case] live: Value, #[case] desired: Value, #[case] expected: bool) {
        assert_eq!(contains(&live, &desired, &Value::Null), expected);
    }

    #[rstest]
    #[case::named_entries_merge(json!([{"name": "x", "v": 1}, {"name": "y"}]), json!([{"name": "y"}]), true)]
    #[case::in_any_order(json!([{"name": "y"}, {"name": "x"}]), json!([{"name": "x"}, {"name": "y"}]), true)]
    #[case::an_entry_is_missing(json!([{"name": "x"}]), json!([{"name": "y"}]), false)]
    #[case::an_entry_differs(json!([{"name": "y", "v": 2}]), json!([{"name": "y", "v": 1}]), false)]
    #[case::an_entry_we_did_not_own(json!([{"name": "z"}]), json!([{"name": "z"}]), false)]
    fn entries_owned_by_key_are_compared_by_key(
        #[case] live: Value,
        #[case] desired: Value,
        #[case] expected: bool,
    ) {
        let fields = json!({
            r#"k:{"name":"x"}"#: {".": {}, "f:name": {}},
            r#"k:{"name":"y"}"#: {".": {}, "f:name": {}, "f:v": {}},
        });
        assert_eq!(contains(&live, &desired, &fields), expected);
    }

    #[rstest]
    #[case::theirs_beside_ours(json!(["theirs", "ours"]), json!(["ours"]), true)]
    #[case::ours_is_missing(json!(["theirs"]), json!(["ours"]), false)]
    fn a_set_may_have_values_of_others(
        #[case] live: Value,
        #[case] desired: Value,
        #[case] expected: bool,
    ) {
        let fields = json!({r#"v:"ours""#: {}});
        assert_eq!(contains(&live, &desired, &fields), expected);
    }

    #[rstest]
    #[case::an_extra_entry(json!([{"name": "x"}, {"name": "y"}]), false)]
    #[case::another_order(json!([{"name": "y"}, {"name": "x"}]), false)]
    #[case::as_desired(json!([{"name": "x"}]), true)]
    fn an_atomic_list_of_named_entries_is_whole(#[case] live: Value, #[case] expected: bool) {
        let fields = json!({"f:list": {}});
        let (live, desired) = (json!({"list": live}), json!({"list": [{"name": "x"}]}));
        assert_eq!(contains(&live, &desired, &fields), expected);
    }

    #[rstest]
    #[case::not_a_map(json!("text"))]
    #[case::no_metadata(json!({}))]
    #[case::metadata_is_text(json!({"metadata": "text"}))]
    #[case::no_name(json!({"metadata": {}}))]
    #[case::annotations_are_text(json!({"metadata": {"name": "n", "annotations": "text"}}))]
    fn a_malformed_object_is_refused(#[case] mut desired: Value) {
        let kind = Kind::of::<k8s_openapi::api::core::v1::ConfigMap>();
        assert!(complete(&mut desired, &kind, "hash").is_err());
    }

    #[test]
    fn a_write_is_bound_to_the_object_it_was_decided_on() {
        let live = json!({"metadata": {"uid": "u", "resourceVersion": "7"}});
        let desired = json!({"metadata": {"name": "n"}});
        let update = bound(desired.clone(), Some(&live));
        assert_eq!(update, json!({"metadata": {"name": "n", "uid": "u"}}));
        let create = bound(desired, None);
        assert_eq!(create["metadata"]["resourceVersion"], NO_VERSION);
    }

    #[tokio::test]
    async fn the_number_of_accepted_objects_is_limited() {
        let client = Client::new(
            tower::service_fn(|_: Request<kube::client::Body>| async {
                Ok::<_, std::convert::Infallible>(http::Response::new(kube::client::Body::empty()))
            }),
            "a",
        );
        let applier = Applier::new(client, "us");
        let object = |n: usize| json!({"metadata": {"uid": n.to_string(), "resourceVersion": "1"}});
        for n in 0..=ACCEPTED_CAPACITY {
            applier.accept(&object(n), "hash");
        }
        assert_eq!(applier.accepted.lock().len(), ACCEPTED_CAPACITY);
    }

    #[test]
    fn a_deletion_is_bound_to_uid_and_version() {
        let deletion = Deletion {
            uid: "u",
            version: Some(7),
            propagation: Propagation::Orphan,
            grace_seconds: Some(0),
        };
        assert_eq!(
            deletion.options(false),
            json!({"preconditions": {"uid": "u", "resourceVersion": "7"},
                "propagationPolicy": "Orphan", "gracePeriodSeconds": 0})
        );
        let plain = Deletion {
            uid: "u",
            ..Deletion::default()
        };
        assert_eq!(
            plain.options(true),
            json!({"preconditions": {"uid": "u"}, "propagationPolicy": "Background",
                "dryRun": ["All"]})
        );
    }

    #[test]
    fn an_object_may_have_one_or_several_managers() {
        let by = |managers: &[&str]| {
            let entries: Vec<_> = managers.iter().map(|m| json!({"manager": m})).collect();
            is_managed_only_by(&json!({"metadata": {"managedFields": entries}}), "us")
        };
        assert!(by(&["us", "us"]));
        assert!(!by(&["us", "their-status"]));
        assert!(!is_managed_only_by(&json!({"metadata": {}}), "us"));
    }

    #[test]
    fn the_hash_does_not_depend_on_the_order_of_keys() {
        let one: Value = serde_json::from_str(r#"{"a":1,"b":{"c":2,"d":3}}"#).unwrap();
        let two: Value = serde_json::from_str(r#"{"b":{"d":3,"c":2},"a":1}"#).unwrap();
        assert_eq!(hash(&one), hash(&two));
        assert_ne!(hash(&one), hash(&json!({"a": 2})));
    }
}
