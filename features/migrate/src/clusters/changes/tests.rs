use std::convert::Infallible;
use std::sync::Arc;

use http::{Request, Response, StatusCode};
use kube::client::Body;
use parking_lot::Mutex;
use rstest::rstest;
use serde_json::json;

use super::*;
use crate::migration::observation::Version;

/// Method and path of a request, its media type, and its body.
type Sent = (String, String, Value);

/// A cluster that answers each request so, and what was sent to it.
fn cluster(status: u16, reason: &'static str) -> (Client, Arc<Mutex<Vec<Sent>>>) {
    let sent = Arc::<Mutex<Vec<Sent>>>::default();
    let log = sent.clone();
    let server = tower::service_fn(move |request: Request<Body>| {
        let log = log.clone();
        async move {
            let (parts, body) = request.into_parts();
            let body = body.collect_bytes().await.unwrap();
            let line = format!("{} {}", parts.method, parts.uri);
            let media_type = parts.headers["content-type"].to_str().unwrap().to_owned();
            log.lock()
                .push((line, media_type, serde_json::from_slice(&body).unwrap()));
            let answer = json!({"kind": "Status", "apiVersion": "v1", "metadata": {},
                "status": if status < 300 { "Success" } else { "Failure" },
                "code": status, "reason": reason, "message": "answered"});
            let mut response = Response::new(Body::from(answer.to_string().into_bytes()));
            *response.status_mut() = StatusCode::from_u16(status).unwrap();
            Ok::<_, Infallible>(response)
        }
    });
    (Client::new(server, "default"), sent)
}

fn target(kind: ObjectKind, namespace: Option<&str>) -> Target {
    Target {
        kind,
        namespace: namespace.map(str::to_owned),
        name: "web".to_owned(),
        version: Version {
            uid: "uid-1".to_owned(),
            version: "42".to_owned(),
        },
    }
}

#[tokio::test]
async fn a_patch_is_bound_to_uid_and_version() {
    let (client, sent) = cluster(200, "");
    let patch = json!({"spec": {"replicas": 2}, "metadata": {"annotations": {"a": "b"}}});
    let set = target(ObjectKind::StatefulSet, Some("db"));
    patch_in(&client, &set, &patch).await.unwrap();
    let bound = json!({"spec": {"replicas": 2}, "metadata": {
        "annotations": {"a": "b"}, "uid": "uid-1", "resourceVersion": "42"}});
    let path = "PATCH /apis/apps/v1/namespaces/db/statefulsets/web?fieldManager=pontoon-migrate";
    let media_type = "application/merge-patch+json";
    assert_eq!(
        *sent.lock(),
        [(path.to_owned(), media_type.to_owned(), bound)]
    );
}

#[tokio::test]
async fn an_object_is_created_where_its_body_says() {
    let (client, sent) = cluster(201, "");
    let body = json!({"metadata": {"name": "pv"}, "spec": {"unknownField": 1}});
    create_in(&client, ObjectKind::Volume, &body).await.unwrap();
    let expected = json!({"apiVersion": "v1", "kind": "PersistentVolume",
        "metadata": {"name": "pv"}, "spec": {"unknownField": 1}});
    let path = "POST /api/v1/persistentvolumes?fieldManager=pontoon-migrate";
    let json = "application/json";
    assert_eq!(*sent.lock(), [(path.to_owned(), json.to_owned(), expected)]);
}

#[rstest]
#[case::with_dependents(false, "Background")]
#[case::without_dependents(true, "Orphan")]
#[tokio::test]
async fn a_deletion_is_bound_to_uid_and_version(
    #[case] orphans_dependents: bool,
    #[case] propagation: &str,
) {
    let (client, sent) = cluster(200, "");
    let applier = Applier::new(client, FIELD_MANAGER);
    let pod = target(ObjectKind::Pod, Some("db"));
    delete_in(&applier, &pod, orphans_dependents).await.unwrap();
    let options = json!({
        "preconditions": {"uid": "uid-1", "resourceVersion": "42"},
        "propagationPolicy": propagation,
    });
    let path = "DELETE /api/v1/namespaces/db/pods/web";
    let json = "application/json";
    assert_eq!(*sent.lock(), [(path.to_owned(), json.to_owned(), options)]);
}

#[rstest]
#[case::gone(404, "NotFound", None)]
#[case::changed(409, "Conflict", Some(Class::Stale))]
#[case::denied(403, "Forbidden", Some(Class::Denied))]
#[case::failed(500, "InternalError", Some(Class::Transient))]
#[tokio::test]
async fn a_deletion_ends(
    #[case] status: u16,
    #[case] reason: &'static str,
    #[case] class: Option<Class>,
) {
    let applier = Applier::new(cluster(status, reason).0, FIELD_MANAGER);
    let claim = target(ObjectKind::Claim, Some("db"));
    let ended = delete_in(&applier, &claim, false).await;
    assert_eq!(ended.err().map(|error| error.class), class);
}

#[rstest]
#[case::gone(404, "NotFound", Class::NotFound)]
#[case::changed(409, "Conflict", Class::Stale)]
#[case::login(401, "Unauthorized", Class::Denied)]
#[case::invalid(422, "Invalid", Class::Invalid)]
#[tokio::test]
async fn a_patch_fails(#[case] status: u16, #[case] reason: &'static str, #[case] class: Class) {
    let (client, _) = cluster(status, reason);
    let set = target(ObjectKind::StatefulSet, Some("db"));
    let error = patch_in(&client, &set, &json!({})).await.unwrap_err();
    assert_eq!(error.class, class);
    assert!(
        error.message.starts_with("patch StatefulSet db/web: "),
        "{error}"
    );
}

#[rstest]
#[case::exists(409, "AlreadyExists", Class::AlreadyExists, false)]
#[case::lost(500, "InternalError", Class::Transient, true)]
#[tokio::test]
async fn a_create_fails(
    #[case] status: u16,
    #[case] reason: &'static str,
    #[case] class: Class,
    #[case] may_have_happened: bool,
) {
    let (client, _) = cluster(status, reason);
    let body = json!({"metadata": {"name": "stsm-web", "namespace": "db"}});
    let error = create_in(&client, ObjectKind::ConfigMap, &body)
        .await
        .unwrap_err();
    assert_eq!(
        (error.class, error.may_have_happened),
        (class, may_have_happened)
    );
}
