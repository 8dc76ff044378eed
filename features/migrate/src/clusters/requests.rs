//! Requests whose answers stay JSON: what a type does not know would be lost in a capture.

use engine::{ApiError, Kind};
use http::{Method, Request, header};
use kernel::{CallError, Class, ObjectKey};
use kube::Client;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use serde_json::value::RawValue;

/// The objects of one page of a list.
const PAGE: u32 = 500;

/// The text of one object.
pub(super) type Text = Box<RawValue>;

#[derive(Deserialize)]
struct Page {
    #[serde(default)]
    metadata: PageMetadata,
    #[serde(default)]
    items: Vec<Text>,
}

#[derive(Deserialize, Default)]
struct PageMetadata {
    /// Names the next page; empty on the last.
    #[serde(default, rename = "continue")]
    next: String,
}

/// Sends a request, and reads the answer. `what` names verb and object.
pub(super) async fn send<T: DeserializeOwned>(
    client: &Client,
    what: String,
    method: Method,
    path: &str,
    body: Option<(&str, &Value)>,
) -> Result<T, CallError> {
    let mut request = Request::builder()
        .method(method)
        .uri(path)
        .header(header::ACCEPT, "application/json");
    let mut bytes = Vec::new();
    if let Some((media_type, body)) = body {
        request = request.header(header::CONTENT_TYPE, media_type);
        bytes = body.to_string().into_bytes();
    }
    let request = request.body(bytes).map_err(|error| ApiError::Refused {
        what: what.clone(),
        message: error.to_string(),
    });
    let request = request.map_err(|error| CallError::from(&error))?;
    let answer = client.request_text(request).await;
    let text = answer.map_err(|error| CallError::from(&ApiError::classify(what.clone(), error)))?;
    // Not by kube: it logs a text that it cannot read, and that of a Secret must not be in a log.
    serde_json::from_str(&text).map_err(|error| {
        let message = error.to_string();
        CallError::from(&ApiError::Unreadable { what, message })
    })
}

/// The texts of all objects of a kind, of one namespace or of the cluster.
pub(super) async fn list(
    client: &Client,
    kind: &Kind,
    namespace: Option<&str>,
) -> Result<Vec<Text>, CallError> {
    let mut all = Vec::new();
    let mut next = String::new();
    loop {
        let what = match namespace {
            Some(namespace) => format!("list {} in {namespace}", kind.plural),
            None => format!("list {}", kind.plural),
        };
        let path = format!("{}?limit={PAGE}{next}", kind.collection(namespace));
        let page: Page = send(client, what, Method::GET, &path, None).await?;
        all.extend(page.items);
        if page.metadata.next.is_empty() {
            return Ok(all);
        }
        next = format!("&continue={}", in_query(&page.metadata.next));
    }
}

/// A token as a part of a query: base64 has characters that mean something else there.
fn in_query(token: &str) -> String {
    token
        .replace('%', "%25")
        .replace('+', "%2B")
        .replace('/', "%2F")
        .replace('=', "%3D")
}

/// Reads one object; none if it does not exist.
pub(super) async fn get<T: DeserializeOwned>(
    client: &Client,
    kind: &Kind,
    key: &ObjectKey,
) -> Result<Option<T>, CallError> {
    let what = format!("get {} {key}", kind.kind);
    match send(client, what, Method::GET, &kind.path(key), None).await {
        Ok(object) => Ok(Some(object)),
        Err(error) if error.class == Class::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}
