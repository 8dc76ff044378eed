use std::convert::Infallible;

use http::{Method, Request, Response};
use http_body_util::BodyExt as _;
use k8s_openapi::api::core::v1::ConfigMap;
use kernel::RealClock;
use kube::client::Body;
use parking_lot::Mutex;

use super::*;
use crate::slot::Slots;
use crate::{Hub, Metrics, Tasks, WatchKey};

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
