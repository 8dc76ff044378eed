//! Which writes are safe on a replica that does not lead: those bound to the object as it was read.

use http::{Method, header};
use serde_json::Value;

/// A write that could change an object that nobody has read. Nothing was sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Unversioned {
    /// The body names no version.
    #[error(
        "this client needs the object's version: set metadata.resourceVersion, \
         or preconditions of a deletion"
    )]
    NoVersion,
    /// Server-side apply.
    #[error("this client does not apply: create the object, or patch the version that was read")]
    Apply,
    /// A deletion of many objects.
    #[error("this client deletes single objects, with preconditions")]
    Collection,
    /// A request that acts on an object without a version, such as an eviction.
    #[error("this client does not send requests to this subresource: they have no version")]
    Action,
}

/// Whether a request may be sent. A UID names no version: others may have changed the object since it was
/// read. It is enough for a deletion, because an object of this UID was read.
///
/// | method    | path                 | body                                          | sent |
/// |-----------|----------------------|-----------------------------------------------|------|
/// | GET, HEAD | any                  | any                                           | yes  |
/// | POST      | collection           | any: a create changes no existing object      | yes  |
/// | POST      | `token` of an object | any: a token changes no object                | yes  |
/// | POST      | other subresource    | any                                           | no   |
/// | PUT       | any                  | `metadata.resourceVersion`                    | yes  |
/// | PATCH     | any                  | server-side apply                             | no   |
/// | PATCH     | any                  | JSON patch with a `test` of it                | yes  |
/// | PATCH     | any                  | other patch with it                           | yes  |
/// | DELETE    | collection           | any                                           | no   |
/// | DELETE    | object               | `preconditions.resourceVersion` or `….uid`    | yes  |
/// | others    | any                  | any                                           | no   |
pub(crate) fn check(
    method: &Method,
    path: &str,
    content_type: &str,
    body: &[u8],
) -> Result<(), Unversioned> {
    let body = || serde_json::from_slice::<Value>(body).unwrap_or_default();
    let versioned = |is_versioned: bool| is_versioned.then_some(()).ok_or(Unversioned::NoVersion);
    let target = RequestTarget::of(path);
    match *method {
        Method::GET | Method::HEAD => Ok(()),
        Method::POST => match target {
            RequestTarget::Collection | RequestTarget::Subresource("token") => Ok(()),
            RequestTarget::Object | RequestTarget::Subresource(_) => Err(Unversioned::Action),
        },
        Method::PUT => versioned(is_set(&body()["metadata"]["resourceVersion"])),
        Method::PATCH if content_type.contains("apply-patch") => Err(Unversioned::Apply),
        Method::PATCH if content_type.contains("json-patch") => {
            versioned(has_version_test(&body()))
        }
        Method::PATCH => versioned(is_set(&body()["metadata"]["resourceVersion"])),
        Method::DELETE if target == RequestTarget::Collection => Err(Unversioned::Collection),
        Method::DELETE => {
            let preconditions = &body()["preconditions"];
            versioned(is_set(&preconditions["resourceVersion"]) || is_set(&preconditions["uid"]))
        }
        _ => Err(Unversioned::Action),
    }
}

/// The same for a request whose body has been collected.
pub(crate) fn check_request(head: &http::request::Parts, body: &[u8]) -> Result<(), Unversioned> {
    let content_type = head.headers.get(header::CONTENT_TYPE);
    let content_type = content_type.and_then(|value| value.to_str().ok());
    check(
        &head.method,
        head.uri.path(),
        content_type.unwrap_or_default(),
        body,
    )
}

fn is_set(field: &Value) -> bool {
    field.as_str().is_some_and(|text| !text.is_empty())
}

/// Whether a JSON patch tests the version. One test that fails refuses the whole patch.
fn has_version_test(patch: &Value) -> bool {
    let is_test = |step: &Value| {
        step["op"] == "test"
            && step["path"] == "/metadata/resourceVersion"
            && is_set(&step["value"])
    };
    patch
        .as_array()
        .is_some_and(|steps| steps.iter().any(is_test))
}

/// What the path of a request names.
#[derive(Debug, PartialEq, Eq)]
enum RequestTarget<'a> {
    Collection,
    Object,
    Subresource(&'a str),
}

impl<'a> RequestTarget<'a> {
    /// Parses `/api/v1/…` and `/apis/<group>/<version>/…`. A path of another form counts as a collection.
    fn of(path: &'a str) -> Self {
        let segments: Vec<_> = path.split('/').filter(|one| !one.is_empty()).collect();
        let version = if segments.first() == Some(&"api") {
            2
        } else {
            3
        };
        let segments = segments.get(version..).unwrap_or_default();
        let target = match segments {
            // A namespace itself, and its two subresources.
            ["namespaces", _] | ["namespaces", _, "status" | "finalize"] => segments,
            ["namespaces", _, within @ ..] => within,
            all => all,
        };
        match target {
            [] | [_] => Self::Collection,
            [_, _] => Self::Object,
            [_, _, part, ..] => Self::Subresource(part),
        }
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    const MAPS: &str = "/api/v1/namespaces/a/configmaps";
    const MAP: &str = "/api/v1/namespaces/a/configmaps/m";
    const MERGE: &str = "application/merge-patch+json";
    const JSON_PATCH: &str = "application/json-patch+json";
    const VERSION: &str = r#"{"metadata": {"resourceVersion": "7"}, "data": {}}"#;
    const UID: &str = r#"{"metadata": {"uid": "u"}, "data": {}}"#;

    #[rstest]
    #[case::a_read("GET", MAP, "", "", Ok(()))]
    #[case::a_create("POST", MAPS, "", "{}", Ok(()))]
    #[case::a_namespace("POST", "/api/v1/namespaces", "", "{}", Ok(()))]
    #[case::a_review("POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", "", "{}", Ok(()))]
    #[case::a_token("POST", "/api/v1/namespaces/a/serviceaccounts/s/token", "", "{}", Ok(()))]
    #[case::an_eviction(
        "POST",
        "/api/v1/namespaces/a/pods/p/eviction",
        "",
        "{}",
        Err(Unversioned::Action)
    )]
    #[case::a_post_to_an_object("POST", MAP, "", "{}", Err(Unversioned::Action))]
    #[case::a_put("PUT", MAP, "", VERSION, Ok(()))]
    #[case::a_put_of_a_status("PUT", "/apis/g.io/v1/namespaces/a/things/t/status", "", VERSION, Ok(()))]
    #[case::a_put_by_uid("PUT", MAP, "", UID, Err(Unversioned::NoVersion))]
    #[case::a_blind_put("PUT", MAP, "", r#"{"metadata": {}}"#, Err(Unversioned::NoVersion))]
    #[case::an_empty_version(
        "PUT",
        MAP,
        "",
        r#"{"metadata": {"resourceVersion": ""}}"#,
        Err(Unversioned::NoVersion)
    )]
    #[case::a_merge_by_version("PATCH", MAP, MERGE, VERSION, Ok(()))]
    #[case::a_merge_by_uid("PATCH", MAP, MERGE, UID, Err(Unversioned::NoVersion))]
    #[case::a_blind_merge("PATCH", MAP, MERGE, "{}", Err(Unversioned::NoVersion))]
    #[case::not_json("PATCH", MAP, MERGE, "data: {}", Err(Unversioned::NoVersion))]
    #[case::an_apply(
        "PATCH",
        MAP,
        "application/apply-patch+yaml",
        VERSION,
        Err(Unversioned::Apply)
    )]
    #[case::a_json_patch(
        "PATCH", MAP, JSON_PATCH,
        r#"[{"op": "test", "path": "/metadata/resourceVersion", "value": "7"}, {"op": "remove", "path": "/data"}]"#,
        Ok(())
    )]
    #[case::a_json_patch_by_uid(
        "PATCH", MAP, JSON_PATCH,
        r#"[{"op": "test", "path": "/metadata/uid", "value": "u"}, {"op": "remove", "path": "/data"}]"#,
        Err(Unversioned::NoVersion)
    )]
    #[case::a_blind_json_patch(
        "PATCH",
        MAP,
        JSON_PATCH,
        r#"[{"op": "test", "path": "/data/a", "value": "u"}]"#,
        Err(Unversioned::NoVersion)
    )]
    #[case::a_test_of_nothing(
        "PATCH",
        MAP,
        JSON_PATCH,
        r#"[{"op": "test", "path": "/metadata/resourceVersion", "value": null}]"#,
        Err(Unversioned::NoVersion)
    )]
    #[case::a_deletion("DELETE", MAP, "", r#"{"preconditions": {"uid": "u"}}"#, Ok(()))]
    #[case::a_deletion_by_version("DELETE", MAP, "", r#"{"preconditions": {"resourceVersion": "7"}}"#, Ok(()))]
    #[case::a_blind_deletion("DELETE", MAP, "", "", Err(Unversioned::NoVersion))]
    #[case::a_blind_deletion_of_a_namespace(
        "DELETE",
        "/api/v1/namespaces/a",
        "",
        "{}",
        Err(Unversioned::NoVersion)
    )]
    #[case::a_deletion_of_many(
        "DELETE",
        MAPS,
        "",
        r#"{"preconditions": {"uid": "u"}}"#,
        Err(Unversioned::Collection)
    )]
    #[case::another_method("CONNECT", MAP, "", VERSION, Err(Unversioned::Action))]
    fn a_write_needs_a_version(
        #[case] method: &str,
        #[case] path: &str,
        #[case] content_type: &str,
        #[case] body: &str,
        #[case] expected: Result<(), Unversioned>,
    ) {
        let method = method.parse().unwrap();
        let checked = check(&method, path, content_type, body.as_bytes());
        assert_eq!(checked, expected);
    }

    #[rstest]
    #[case("/api/v1/nodes", RequestTarget::Collection)]
    #[case("/api/v1/nodes/n", RequestTarget::Object)]
    #[case("/api/v1/nodes/n/status", RequestTarget::Subresource("status"))]
    #[case("/api/v1/namespaces", RequestTarget::Collection)]
    #[case("/api/v1/namespaces/a", RequestTarget::Object)]
    #[case(
        "/api/v1/namespaces/a/finalize",
        RequestTarget::Subresource("finalize")
    )]
    #[case("/api/v1/namespaces/a/pods", RequestTarget::Collection)]
    #[case("/api/v1/namespaces/a/pods/p", RequestTarget::Object)]
    #[case(
        "/api/v1/namespaces/a/pods/p/proxy/x",
        RequestTarget::Subresource("proxy")
    )]
    #[case("/apis/apps/v1/deployments", RequestTarget::Collection)]
    #[case(
        "/apis/apps/v1/namespaces/a/deployments/d/scale",
        RequestTarget::Subresource("scale")
    )]
    #[case("/version", RequestTarget::Collection)]
    fn a_path_names(#[case] path: &str, #[case] expected: RequestTarget<'_>) {
        assert_eq!(RequestTarget::of(path), expected);
    }
}
