//! Writes of an object. Each is bound to the object or version that the pass read.

use http::{Request, header};
use kernel::ObjectKey;
use kube::Client;
use serde_json::{Value, json};

use crate::{ApiError, Kind, reach_kill_point};

/// The format of a patch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    Merge,
    Json,
    /// Server-side apply.
    Apply,
}

impl Form {
    fn media_type(self) -> &'static str {
        match self {
            Self::Merge => "application/merge-patch+json",
            Self::Json => "application/json-patch+json",
            Self::Apply => "application/apply-patch+yaml",
        }
    }
}

/// Sends one patch. Returns the text of the object after it.
pub(crate) async fn patch(
    client: &Client,
    path: &str,
    what: String,
    form: Form,
    body: &Value,
) -> Result<String, ApiError> {
    let request = Request::patch(path)
        .header(header::CONTENT_TYPE, form.media_type())
        .header(header::ACCEPT, "application/json")
        .body(body.to_string().into_bytes());
    let request = request.map_err(|error| ApiError::Unreadable {
        what: what.clone(),
        message: error.to_string(),
    })?;
    reach_kill_point("before-write").await;
    let answer = client
        .request_text(request)
        .await
        .map_err(|error| ApiError::classify(what, error));
    reach_kill_point("after-write").await;
    answer
}

/// Reads the text of one object.
pub(crate) async fn get(client: &Client, kind: &Kind, key: &ObjectKey) -> Result<String, ApiError> {
    let what = format!("get {} {key}", kind.kind);
    let request = Request::get(kind.path(key))
        .header(header::ACCEPT, "application/json")
        .body(Vec::new());
    let request = request.map_err(|error| ApiError::Unreadable {
        what: what.clone(),
        message: error.to_string(),
    })?;
    client
        .request_text(request)
        .await
        .map_err(|error| ApiError::classify(what, error))
}

/// What a status patch is bound to.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Bound<'a> {
    /// The object with this UID, in any version.
    Uid(&'a str),
    /// The object with this UID, in this version only: an intent must not hide a newer version.
    Version(&'a str, &'a str),
}

impl<'a> Bound<'a> {
    /// Binds a first status to the version read: it is written as a whole, and must not replace a status
    /// that others wrote meanwhile.
    pub(crate) fn over(self, old: Option<&Value>, version: &'a str) -> Self {
        match self {
            Self::Uid(uid) if !old.is_some_and(Value::is_object) => Self::Version(uid, version),
            Self::Uid(_) | Self::Version(..) => self,
        }
    }
}

/// The JSON patch that turns status `old` into `new`; none if they are equal.
///
/// It sends only top-level fields that differ, and removes only fields of `ours`, so that fields of
/// others stay.
pub(crate) fn status_patch(
    old: Option<&Value>,
    ours: Option<&Value>,
    new: &Value,
    bound: Bound<'_>,
) -> Option<Value> {
    let mut operations = tests(bound);
    let guards = operations.len();
    let new = &with_foreign_conditions(old, ours, new);
    match (old.and_then(Value::as_object), new.as_object()) {
        (Some(old), Some(new)) => {
            for (field, value) in new {
                if old.get(field) != Some(value) {
                    let path = format!("/status/{}", pointer(field));
                    operations.push(json!({"op": "add", "path": path, "value": value}));
                }
            }
            for field in ours
                .and_then(Value::as_object)
                .into_iter()
                .flat_map(serde_json::Map::keys)
            {
                if !new.contains_key(field) && old.contains_key(field) {
                    operations.push(
                        json!({"op": "remove", "path": format!("/status/{}", pointer(field))}),
                    );
                }
            }
        }
        (_, Some(new)) if new.is_empty() => {}
        _ => operations.push(json!({"op": "add", "path": "/status", "value": new})),
    }
    (operations.len() > guards).then_some(Value::Array(operations))
}

/// The JSON patch that replaces the whole status `old`, or removes it; none if nothing changes.
pub(crate) fn whole_status_patch(
    old: Option<&Value>,
    new: Option<&Value>,
    bound: Bound<'_>,
) -> Option<Value> {
    let present = |status: Option<&Value>| status.filter(|status| !status.is_null()).cloned();
    let (old, new) = (present(old), present(new));
    if old == new {
        return None;
    }
    let mut operations = tests(bound);
    operations.push(match new {
        Some(new) => json!({"op": "add", "path": "/status", "value": new}),
        None => json!({"op": "remove", "path": "/status"}),
    });
    Some(Value::Array(operations))
}

/// The operations that fail for any other object or version.
fn tests(bound: Bound<'_>) -> Vec<Value> {
    let test = |path: &str, value: &str| json!({"op": "test", "path": path, "value": value});
    match bound {
        Bound::Uid(uid) => vec![test("/metadata/uid", uid)],
        Bound::Version(uid, version) => vec![
            test("/metadata/uid", uid),
            test("/metadata/resourceVersion", version),
        ],
    }
}

/// `new` with what `old` has of conditions and `ours` does not show: conditions that the type of `ours` cannot
/// read, and fields that it does not have.
fn with_foreign_conditions(old: Option<&Value>, ours: Option<&Value>, new: &Value) -> Value {
    let list = |status: Option<&Value>| -> Vec<Value> {
        let conditions = status.and_then(|status| status["conditions"].as_array());
        conditions.cloned().unwrap_or_default()
    };
    let of_type =
        |all: &[Value], kind: &Value| all.iter().find(|one| one["type"] == *kind).cloned();
    let (raw, seen, after) = (list(old), list(ours), list(Some(new)));
    let unchanged = |one: &Value| of_type(&seen, &one["type"]).filter(|before| before == one);
    let mut conditions: Vec<Value> = after
        .iter()
        .map(|one| {
            let original = unchanged(one).and_then(|_| of_type(&raw, &one["type"]));
            original.unwrap_or_else(|| one.clone())
        })
        .collect();
    let is_unseen = |one: &&Value| {
        of_type(&seen, &one["type"]).is_none() && of_type(&after, &one["type"]).is_none()
    };
    let unseen: Vec<Value> = raw.iter().filter(is_unseen).cloned().collect();
    let mut new = new.clone();
    if !unseen.is_empty() {
        conditions.extend(unseen);
        conditions.sort_by(|one, other| one["type"].as_str().cmp(&other["type"].as_str()));
    }
    if conditions.len() == raw.len() && raw.iter().all(|one| conditions.contains(one)) {
        conditions = raw; // another order is no change
    }
    if let Some(fields) = new.as_object_mut().filter(|_| !conditions.is_empty()) {
        fields.insert("conditions".to_owned(), conditions.into());
    }
    new
}

/// `object` after the merge patch `patch` (RFC 7396). An empty map or list is not added where nothing was: the
/// API server would drop it.
pub fn merged(object: &Value, patch: &Value) -> Value {
    let Value::Object(fields) = patch else {
        return patch.clone();
    };
    let mut after = object.as_object().cloned().unwrap_or_default();
    for (name, value) in fields {
        if value.is_null() {
            after.remove(name);
            continue;
        }
        let before = after.get(name);
        let value = merged(before.unwrap_or(&Value::Null), value);
        if before.is_some() || !is_empty(&value) {
            after.insert(name.clone(), value);
        }
    }
    Value::Object(after)
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Object(fields) => fields.is_empty(),
        Value::Array(elements) => elements.is_empty(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}

/// A field's name within a JSON pointer.
fn pointer(field: &str) -> String {
    field.replace('~', "~0").replace('/', "~1")
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    const BOUND: Bound<'_> = Bound::Uid("u");

    #[test]
    fn an_equal_status_needs_no_patch() {
        let status = json!({"phase": "x"});
        assert_eq!(
            status_patch(Some(&status), Some(&status), &status, BOUND),
            None
        );
        assert_eq!(status_patch(None, None, &json!({}), BOUND), None);
    }

    #[test]
    fn only_differences_are_sent_and_foreign_fields_stay() {
        let old = json!({"phase": "x", "theirs": 1, "same": true});
        let ours = json!({"phase": "x", "same": true});
        let patch = status_patch(
            Some(&old),
            Some(&ours),
            &json!({"phase": "y", "same": true}),
            BOUND,
        )
        .unwrap();
        assert_eq!(
            patch,
            json!([{"op": "test", "path": "/metadata/uid", "value": "u"},
                   {"op": "add", "path": "/status/phase", "value": "y"}])
        );
    }

    #[test]
    fn a_field_of_ours_that_is_no_longer_set_is_removed() {
        let old = json!({"a": 1, "theirs": 2});
        let patch = status_patch(Some(&old), Some(&json!({"a": 1})), &json!({}), BOUND).unwrap();
        assert_eq!(patch[1], json!({"op": "remove", "path": "/status/a"}));
        assert_eq!(patch.as_array().unwrap().len(), 2);
    }

    #[test]
    fn only_a_first_status_is_bound_to_the_version() {
        let first = BOUND.over(None, "b7");
        let patch = status_patch(None, None, &json!({"a": 1}), first).unwrap();
        assert_eq!(
            patch[1],
            json!({"op": "test", "path": "/metadata/resourceVersion", "value": "b7"})
        );
        let later = BOUND.over(Some(&json!({})), "b7");
        assert!(matches!(later, Bound::Uid("u")));
    }

    fn foreign() -> Value {
        json!({"type": "ACK.Synced", "status": "False", "severity": "Info"})
    }

    fn ready(status: &str) -> Value {
        json!({"type": "Ready", "status": status})
    }

    fn seen_foreign() -> Value {
        json!({"type": "ACK.Synced", "status": "False"})
    }

    #[rstest]
    #[case::a_field_that_we_do_not_know(vec![ready("False"), seen_foreign()], vec![seen_foreign(), ready("True")], vec![foreign(), ready("True")])]
    #[case::one_that_we_cannot_read(vec![ready("False")], vec![ready("True")], vec![foreign(), ready("True")])]
    #[case::one_that_we_remove(vec![ready("False"), seen_foreign()], vec![ready("True")], vec![ready("True")])]
    #[case::one_that_we_change(vec![seen_foreign()], vec![json!({"type": "ACK.Synced", "status": "True"})], vec![json!({"type": "ACK.Synced", "status": "True"}), ready("False")])]
    fn foreign_conditions_keep_what_we_do_not_see(
        #[case] ours: Vec<Value>,
        #[case] new: Vec<Value>,
        #[case] expected: Vec<Value>,
    ) {
        let old = json!({"conditions": [foreign(), ready("False")]});
        let (ours, new) = (json!({"conditions": ours}), json!({"conditions": new}));
        let patch = status_patch(Some(&old), Some(&ours), &new, BOUND).unwrap();
        assert_eq!(patch[1]["value"], json!(expected));
    }

    #[test]
    fn an_unchanged_foreign_condition_needs_no_patch() {
        let old = json!({"conditions": [foreign()]});
        let seen = json!({"conditions": [seen_foreign()]});
        assert_eq!(status_patch(Some(&old), Some(&seen), &seen, BOUND), None);
    }

    #[rstest]
    #[case::equal(Some(json!({"a": 1})), Some(json!({"a": 1})), None)]
    #[case::nothing(None, None, None)]
    #[case::null_is_nothing(None, Some(Value::Null), None)]
    #[case::others_are_not_kept(Some(json!({"a": 1, "theirs": 2})), Some(json!({"a": 1})), Some(json!({"op": "add", "path": "/status", "value": {"a": 1}})))]
    #[case::removed(Some(json!({"a": 1})), None, Some(json!({"op": "remove", "path": "/status"})))]
    fn a_whole_status_is_replaced(
        #[case] old: Option<Value>,
        #[case] new: Option<Value>,
        #[case] expected: Option<Value>,
    ) {
        let patch = whole_status_patch(old.as_ref(), new.as_ref(), BOUND);
        assert_eq!(patch.map(|patch| patch[1].clone()), expected);
    }

    #[test]
    fn a_merge_patch_adds_replaces_and_removes() {
        let object = json!({"a": {"b": 1, "c": 2}, "d": [1], "e": 1});
        let patch = json!({"a": {"b": null, "x": {"y": null, "z": 1}}, "d": [2], "e": {"f": 1}});
        let expected = json!({"a": {"c": 2, "x": {"z": 1}}, "d": [2], "e": {"f": 1}});
        assert_eq!(merged(&object, &patch), expected);
        assert_eq!(merged(&object, &json!({})), object);
        let removals = json!({"x": {"y": null, "z": {"a": null}}});
        assert_eq!(merged(&object, &removals), object);
        let empty = json!({"x": {}, "y": [], "z": {"a": {"b": []}}});
        assert_eq!(merged(&object, &empty), object);
        let emptied = json!({"a": {}, "d": []});
        assert_eq!(merged(&json!({"a": 1, "d": [1]}), &emptied), emptied);
    }

    #[test]
    fn an_intent_is_bound_to_the_version() {
        let patch = status_patch(None, None, &json!({"a/b": 1}), Bound::Version("u", "7")).unwrap();
        assert_eq!(
            patch[1],
            json!({"op": "test", "path": "/metadata/resourceVersion", "value": "7"})
        );
        assert_eq!(patch[2]["path"], "/status");
    }
}
