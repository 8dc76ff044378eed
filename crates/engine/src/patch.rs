//! Writes of an object. Each is bound to the object or version that the pass read.

use http::{Request, header};
use kernel::ObjectKey;
use kube::Client;
use serde_json::{Value, json};

use crate::{ApiError, Kind, kill_point};

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
    kill_point("before-write");
    let answer = client
        .request_text(request)
        .await
        .map_err(|error| ApiError::classify(what, error));
    kill_point("after-write");
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
    let mut operations = vec![match bound {
        Bound::Uid(uid) | Bound::Version(uid, _) => {
            json!({"op": "test", "path": "/metadata/uid", "value": uid})
        }
    }];
    if let Bound::Version(_, version) = bound {
        operations
            .push(json!({"op": "test", "path": "/metadata/resourceVersion", "value": version}));
    }
    let guards = operations.len();
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

/// A field's name within a JSON pointer.
fn pointer(field: &str) -> String {
    field.replace('~', "~0").replace('/', "~1")
}

#[cfg(test)]
mod tests {
    use super::*;

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
