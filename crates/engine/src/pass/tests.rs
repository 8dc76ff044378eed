use std::convert::Infallible;

use http::{Method, Request, Response};
use http_body_util::BodyExt as _;
use k8s_openapi::api::core::v1::ConfigMap;
use kernel::RealClock;
use kube::client::Body;
use parking_lot::Mutex;

use super::*;
use crate::slot::Slots;
use crate::{Hub, Metrics, Projection, Tasks, WatchKey};

fn map(uid: &str) -> Value {
    json!({"metadata": {"name": "m", "namespace": "a", "uid": uid, "resourceVersion": "7",
        "finalizers": ["theirs"]}})
}

/// An API server that refuses every write as stale, and has `live` under the object's name.
fn server(request: &Request<Body>, live: &Value) -> Response<Body> {
    let (code, body) = match *request.method() {
        Method::GET if request.uri().path().ends_with("/m") => (200, live.clone()),
        Method::GET => (500, json!({})), // the watch
        _ => (
            409,
            json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 409,
                "reason": "Conflict", "message": "the object has been modified"}),
        ),
    };
    let mut response = Response::new(Body::from(body.to_string().into_bytes()));
    *response.status_mut() = http::StatusCode::from_u16(code).unwrap();
    response
}

/// A pass over the ConfigMap with the UID `old`, while the API server has `live`.
async fn pass(live: Value, tasks: &Tasks) -> Pass {
    let server = tower::service_fn(move |request: Request<Body>| {
        let answer = server(&request, &live);
        async move { Ok::<_, Infallible>(answer) }
    });
    pass_over(&map("old"), Client::new(server, "a"), tasks).await
}

async fn pass_over(object: &Value, client: Client, tasks: &Tasks) -> Pass {
    let metrics = Metrics::default();
    let clock: SharedClock = Arc::new(RealClock::new());
    let (events, _unsent) =
        Events::new(client.clone(), clock.clone(), metrics.clone(), "me".into());
    let kind = Kind::of::<ConfigMap>();
    let key = WatchKey::all(kind.clone());
    let object = Stored::read(&kind, &object.to_string(), &key.projection).unwrap();
    Pass {
        id: "0".into(),
        cache: Hub::new(client.clone(), tasks.child(), metrics).cache(key),
        kind,
        user_fields_hash: Some(object.user_fields_hash()),
        object: Arc::new(object),
        client,
        events,
        clock,
        slot: Slots::new(1).take(std::future::pending()).await,
        written: None,
        is_absent: false,
        random: 0.0,
        retry: Duration::ZERO,
        details: tracing::Span::none(),
        own: OwnWrites::default(),
    }
}

#[tokio::test(start_paused = true)]
async fn a_finalizer_for_a_replaced_object_is_a_stale_write() {
    let tasks = Tasks::default();
    let mut pass = pass(map("new"), &tasks).await;
    let answer = pass.ensure_finalizer("ours").await;
    assert_eq!(answer.unwrap_err().class(), Class::Stale);
    let answer = pass.remove_annotation("missing").await;
    assert!(answer.is_ok(), "there is nothing to write");
    tasks.kill().await;
}

#[tokio::test(start_paused = true)]
async fn a_replaced_object_needs_no_finalizer_removal() {
    let tasks = Tasks::default();
    let mut pass = pass(map("new"), &tasks).await;
    assert!(pass.drop_finalizer("theirs").await.is_ok());
    tasks.kill().await;
}

#[tokio::test(start_paused = true)]
async fn a_finalizer_removal_that_is_always_refused_fails() {
    let tasks = Tasks::default();
    let mut pass = pass(map("old"), &tasks).await;
    let answer = pass.drop_finalizer("theirs").await;
    assert_eq!(answer.unwrap_err().class(), Class::Stale);
    tasks.kill().await;
}

#[tokio::test(start_paused = true)]
async fn a_version_that_is_not_a_number_is_sent_unchanged() {
    let tasks = Tasks::default();
    let mut object = map("old");
    object["metadata"]["resourceVersion"] = json!("b3");
    let (bodies, live) = (Arc::new(Mutex::new(Vec::new())), object.clone());
    let log = bodies.clone();
    let server = tower::service_fn(move |request: Request<Body>| {
        let (answer, log) = (server(&request, &live), log.clone());
        async move {
            let body = request.into_body().collect().await?.to_bytes();
            log.lock().extend(serde_json::from_slice::<Value>(&body));
            Ok::<_, kube::Error>(answer)
        }
    });
    let mut pass = pass_over(&object, Client::new(server, "a"), &tasks).await;
    pass.ensure_finalizer("ours").await.unwrap_err();
    let first = bodies.lock()[0].clone();
    assert_eq!(first["metadata"]["resourceVersion"], "b3");
    pass.write_intent(&json!({"a": 1})).await.unwrap_err();
    let last = bodies.lock().last().cloned().unwrap();
    assert_eq!(last[1]["path"], "/metadata/resourceVersion");
    assert_eq!(last[1]["value"], "b3");
    tasks.kill().await;
}

#[tokio::test(start_paused = true)]
async fn concurrent_finalizers_are_both_kept() {
    let tasks = Tasks::default();
    let mut live = map("old");
    live["metadata"]["resourceVersion"] = json!("8");
    live["metadata"]["finalizers"] = json!(["theirs", "another"]);
    let patches = Arc::new(Mutex::new(Vec::<Value>::new()));
    let log = patches.clone();
    let server = tower::service_fn(move |request: Request<Body>| {
        let (answer, log) = (server(&request, &live), log.clone());
        let mut written = live.clone();
        async move {
            if request.method() != Method::PATCH {
                return Ok::<_, kube::Error>(answer);
            }
            let body = request.into_body().collect().await?.to_bytes();
            let patch: Value = serde_json::from_slice(&body).unwrap();
            let finalizers = patch["metadata"]["finalizers"].clone();
            log.lock().push(patch);
            if log.lock().len() == 1 {
                return Ok(answer); // refused as stale
            }
            written["metadata"]["resourceVersion"] = json!("9");
            written["metadata"]["finalizers"] = finalizers;
            let body = Body::from(written.to_string().into_bytes());
            Ok(Response::new(body))
        }
    });
    let mut pass = pass_over(&map("old"), Client::new(server, "a"), &tasks).await;
    assert_eq!(pass.ensure_finalizer("ours").await.unwrap(), Recorded::Now);
    let patches = patches.lock().clone();
    let sent: Vec<_> = patches.iter().map(|patch| &patch["metadata"]).collect();
    let stale = json!({"resourceVersion": "7", "finalizers": ["theirs", "ours"]});
    let both = json!({"resourceVersion": "8", "finalizers": ["theirs", "another", "ours"]});
    assert_eq!(sent, [&stale, &both]);
    tasks.kill().await;
}

/// Requests with their bodies, and an API server that answers each write with the object in version 8.
type Requests = Arc<Mutex<Vec<(String, Value)>>>;

/// A pass over `object`. `refused` is a path that does not exist.
async fn recording_pass(object: &Value, refused: &'static str, tasks: &Tasks) -> (Pass, Requests) {
    let requests = Requests::default();
    let (log, live) = (requests.clone(), object.clone());
    let server = tower::service_fn(move |request: Request<Body>| {
        let (log, mut live) = (log.clone(), live.clone());
        async move {
            let path = request.uri().path().to_owned();
            let call = format!("{} {path}", request.method());
            let body = request.into_body().collect().await?.to_bytes();
            if path.ends_with("/m") || path.ends_with("/status") {
                let body = serde_json::from_slice(&body).unwrap_or_default();
                log.lock().push((call, body));
            }
            live["metadata"]["resourceVersion"] = json!("8");
            let mut response = Response::new(Body::from(live.to_string().into_bytes()));
            if !refused.is_empty() && path.ends_with(refused) {
                let status = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure",
                    "code": 404, "reason": "NotFound", "message": "not found"});
                response = Response::new(Body::from(status.to_string().into_bytes()));
                *response.status_mut() = http::StatusCode::NOT_FOUND;
            }
            Ok::<_, kube::Error>(response)
        }
    });
    let pass = pass_over(object, Client::new(server, "a"), tasks).await;
    (pass, requests)
}

const OBJECT: &str = "PATCH /api/v1/namespaces/a/configmaps/m";
const STATUS: &str = "PATCH /api/v1/namespaces/a/configmaps/m/status";

fn calls(requests: &Requests) -> Vec<String> {
    let requests = requests.lock();
    requests.iter().map(|(call, _)| call.clone()).collect()
}

#[tokio::test(start_paused = true)]
async fn an_edit_of_metadata_and_spec_is_one_write() {
    let tasks = Tasks::default();
    let (mut pass, requests) = recording_pass(&map("old"), "", &tasks).await;
    let edit = |object: &Value| {
        let finalizers = object["metadata"]["finalizers"].clone();
        Some(
            json!({"metadata": {"finalizers": finalizers, "labels": {"a": "b"}}, "spec": {"x": 1}}),
        )
    };
    assert_eq!(pass.edit(edit).await.unwrap(), Recorded::Now);
    let sent = json!({"metadata": {"resourceVersion": "7", "finalizers": ["theirs"],
        "labels": {"a": "b"}}, "spec": {"x": 1}});
    assert_eq!(*requests.lock(), [(OBJECT.to_owned(), sent)]);
    // The next pass makes further writes of metadata. Status is written.
    assert_eq!(pass.edit(edit).await.unwrap(), Recorded::Now);
    let labels = json!({"metadata": {"labels": {"a": "b"}}});
    let applied = pass.apply_own("labeller", labels, false).await;
    assert_eq!(applied.unwrap(), Recorded::Now);
    assert_eq!(pass.ensure_finalizer("ours").await.unwrap(), Recorded::Now);
    pass.drop_finalizer("theirs").await.unwrap();
    let status = json!({"a": 1});
    assert!(pass.replace_status(Some(&status)).await.unwrap());
    assert_eq!(calls(&requests), [OBJECT, STATUS]);
    let bound = requests.lock()[1].1[1].clone();
    assert_eq!(bound["value"], "8", "the version just written");
    tasks.kill().await;
}

#[rstest::rstest]
#[case::nothing_to_edit(None)]
#[case::no_change(Some(json!({"metadata": {"name": "m", "labels": {"a": null}}})))]
#[tokio::test(start_paused = true)]
async fn an_edit_that_changes_nothing_is_not_sent(#[case] patch: Option<Value>) {
    let tasks = Tasks::default();
    let (mut pass, requests) = recording_pass(&map("old"), "", &tasks).await;
    assert_eq!(pass.edit(|_| patch).await.unwrap(), Recorded::Already);
    assert!(calls(&requests).is_empty() && !pass.has_written());
    tasks.kill().await;
}

#[tokio::test(start_paused = true)]
async fn an_edit_that_the_server_drops_is_invalid() {
    let tasks = Tasks::default();
    let mut object = map("old");
    object["metadata"]["resourceVersion"] = json!("8"); // the version of the answer
    let (mut pass, requests) = recording_pass(&object, "", &tasks).await;
    let edit = json!({"spec": {"unknown": 1}});
    let error = pass.edit(|_| Some(edit)).await.unwrap_err();
    assert_eq!(error.class(), Class::Invalid);
    assert!(!pass.has_written());
    assert_eq!(calls(&requests), [OBJECT]);
    tasks.kill().await;
}

#[tokio::test(start_paused = true)]
async fn the_removal_of_the_last_finalizer_is_stored() {
    let tasks = Tasks::default();
    let mut object = map("old");
    object["metadata"]["resourceVersion"] = json!("8");
    object["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    let mut gone = object.clone();
    gone["metadata"]["finalizers"] = json!([]);
    let (mut pass, _) = recording_pass(&gone, "", &tasks).await;
    let stored = Stored::read(&pass.kind, &object.to_string(), &Projection::Full);
    pass.object = Arc::new(stored.unwrap());
    assert!(pass.remove_finalizer("theirs").await.is_ok());
    tasks.kill().await;
}

#[rstest::rstest]
#[case::status(json!({"status": {"a": 1}}))]
#[case::metadata_is_text(json!({"metadata": "text"}))]
#[case::not_a_map(json!("text"))]
#[tokio::test(start_paused = true)]
async fn an_edit_of_status_is_refused(#[case] patch: Value) {
    let tasks = Tasks::default();
    let (mut pass, requests) = recording_pass(&map("old"), "", &tasks).await;
    let refused = pass.edit(|_| Some(patch)).await.unwrap_err();
    assert_eq!(refused.class(), Class::Invalid);
    assert!(calls(&requests).is_empty());
    tasks.kill().await;
}

#[tokio::test(start_paused = true)]
async fn an_own_apply_is_sent_only_if_the_object_differs() {
    let tasks = Tasks::default();
    let mut object = map("old");
    object["metadata"]["labels"] = json!({"a": "b"});
    object["metadata"]["managedFields"] = json!([{"manager": "labeller", "operation": "Apply",
        "apiVersion": "v1", "fieldsV1": {"f:metadata": {"f:labels": {"f:a": {}}}}}]);
    let (mut pass, requests) = recording_pass(&object, "", &tasks).await;
    let labels = |value: &str| json!({"metadata": {"labels": {"a": value}}});
    let same = pass.apply_own("labeller", labels("b"), false).await;
    assert_eq!(same.unwrap(), Recorded::Already);
    // The cache of this pass has no managedFields, so the object was read.
    let read = "GET /api/v1/namespaces/a/configmaps/m";
    assert_eq!(calls(&requests), [read]);
    let other = pass.apply_own("labeller", labels("c"), true).await;
    assert_eq!(other.unwrap(), Recorded::Now);
    let sent = requests.lock()[1].1.clone();
    let metadata = json!({"name": "m", "namespace": "a", "uid": "old", "resourceVersion": "7",
        "labels": {"a": "c"}});
    let expected = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata});
    assert_eq!(sent, expected);
    tasks.kill().await;
}

#[tokio::test(start_paused = true)]
async fn a_whole_status_is_replaced_without_the_subresource_too() {
    let tasks = Tasks::default();
    let mut object = map("old");
    object["status"] = json!({"theirs": 1});
    let (mut pass, requests) = recording_pass(&object, "/status", &tasks).await;
    let same = json!({"theirs": 1});
    assert!(!pass.replace_status(Some(&same)).await.unwrap());
    assert!(pass.replace_status(None).await.unwrap());
    assert_eq!(calls(&requests), [STATUS, OBJECT]);
    let body = requests.lock()[1].1.clone();
    assert_eq!(body[2], json!({"op": "remove", "path": "/status"}));
    tasks.kill().await;
}
