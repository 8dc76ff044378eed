//! An API server that has some objects, records every request, and stores nothing.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::{Arc, Mutex};

use http::{Request, Response};
use kube::Client;
use kube::client::Body;
use serde_json::{Value, json};

/// Objects of a page, much fewer than requested.
const PAGE: usize = 3;

/// Paths of kinds that the server does not have.
const UNKNOWN: [&str; 5] = [
    "/verticalpodautoscalers",
    "/scaledobjects",
    "/volumesnapshots",
    "/storage.k8s.io/v1/volumeattributesclasses",
    "/v1beta1/volumeattributesclasses",
];

/// A request.
#[derive(Debug, Clone)]
pub(super) struct Sent {
    pub(super) method: String,
    pub(super) path: String,
    pub(super) query: String,
    /// Whether it asks for metadata without the other fields.
    pub(super) has_metadata_alone: bool,
}

impl Sent {
    pub(super) fn is_dry_run(&self) -> bool {
        self.query.split('&').any(|pair| pair == "dryRun=All")
    }
}

/// An answer to requests whose path ends like this.
#[derive(Clone)]
struct Refusal {
    method: &'static str,
    end: &'static str,
    code: u16,
    message: &'static str,
}

#[derive(Clone, Default)]
pub(super) struct ApiServer {
    objects: BTreeMap<String, Vec<Value>>,
    refusals: Arc<Mutex<Vec<Refusal>>>,
    sent: Arc<Mutex<Vec<Sent>>>,
}

impl ApiServer {
    pub(super) fn new() -> Self {
        Self::default()
    }

    /// Adds an object to the collection at `path`.
    pub(super) fn add(&mut self, path: &str, object: Value) {
        self.objects
            .entry(path.to_owned())
            .or_default()
            .push(object);
    }

    /// Refuses requests whose method and path end like this.
    pub(super) fn refuse(
        &self,
        method: &'static str,
        end: &'static str,
        code: u16,
        message: &'static str,
    ) {
        self.refusals.lock().unwrap().push(Refusal {
            method,
            end,
            code,
            message,
        });
    }

    /// The requests until now.
    pub(super) fn sent(&self) -> Vec<Sent> {
        self.sent.lock().unwrap().clone()
    }

    pub(super) fn client(&self) -> Client {
        let server = self.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            let server = server.clone();
            async move {
                let (head, body) = request.into_parts();
                let accept = head.headers.get("accept");
                let accept = accept.and_then(|accept| accept.to_str().ok());
                let sent = Sent {
                    method: head.method.to_string(),
                    path: head.uri.path().to_owned(),
                    query: head.uri.query().unwrap_or_default().to_owned(),
                    has_metadata_alone: accept
                        .is_some_and(|accept| accept.contains("as=PartialObjectMetadata;")),
                };
                server.sent.lock().unwrap().push(sent.clone());
                let body = body.collect_bytes().await.unwrap();
                let body = serde_json::from_slice(&body).unwrap_or_default();
                let (code, answer) = server.answer(&sent, body);
                let answer = Response::builder()
                    .status(code)
                    .body(Body::from(answer.to_string().into_bytes()));
                Ok::<_, Infallible>(answer.unwrap())
            }
        });
        Client::new(service, "default")
    }

    fn answer(&self, sent: &Sent, body: Value) -> (u16, Value) {
        let refusals = self.refusals.lock().unwrap().clone();
        let mut refusals = refusals.into_iter();
        let refusal = refusals.find(|refusal| {
            sent.method.ends_with(refusal.method) && sent.path.ends_with(refusal.end)
        });
        if let Some(refusal) = refusal {
            return status(refusal.code, refusal.message);
        }
        if sent.path.ends_with("/selfsubjectaccessreviews") {
            let mut review = body;
            review["status"] = json!({"allowed": true});
            return (201, review);
        }
        match &*sent.method {
            "GET" => self.read(sent),
            "POST" | "PATCH" => (200, body),
            other => panic!("unexpected {other} {}", sent.path),
        }
    }

    fn read(&self, sent: &Sent) -> (u16, Value) {
        if UNKNOWN.iter().any(|end| sent.path.ends_with(end)) {
            return status(404, "the server could not find the requested resource");
        }
        if sent.query.contains("limit=") {
            return (200, self.page(sent));
        }
        let (path, name) = sent.path.rsplit_once('/').unwrap();
        let objects = self.objects.get(path).into_iter().flatten();
        let found = objects
            .clone()
            .find(|object| object["metadata"]["name"] == name);
        match found {
            Some(object) => (200, object.clone()),
            None => status(404, "not found"),
        }
    }

    fn page(&self, sent: &Sent) -> Value {
        let objects = self.objects.get(&sent.path).cloned().unwrap_or_default();
        let is_second = sent.query.contains("continue=second");
        let (first, second) = objects.split_at(objects.len().min(PAGE));
        let has_more = !is_second && !second.is_empty();
        json!({
            "metadata": if has_more { json!({"continue": "second"}) } else { json!({}) },
            "items": if is_second { second } else { first },
        })
    }
}

fn status(code: u16, message: &str) -> (u16, Value) {
    let reason = match code {
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "NotFound",
        _ => "Unknown",
    };
    let status = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure",
        "message": message, "reason": reason, "code": code});
    (code, status)
}
