//! One watch, kept alive: list, follow, and start again after whatever happens.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::BytesMut;
use http::Request;
use http_body_util::BodyExt;
use kernel::Backoff;
use kube::Client;
use kube::client::Body;
use kube::core::Status;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::{Health, Watch};
use crate::metrics::OfKind;
use crate::stored::{Projection, Stored};

/// The server ends a watch after this long; another takes its place.
const WATCH_SECONDS: u32 = 290;
/// Bookmarks come every minute, so a longer silence is a dead connection.
const SILENCE: Duration = Duration::from_secs(100);
/// Objects a page, where the server does not stream lists.
const PAGE: u32 = 500;
const RETRY: Backoff = Backoff {
    first: Duration::from_millis(200),
    cap: Duration::from_secs(10),
    jitter: 0.3,
};
/// Between two connections, so that a server that closes at once is not hammered.
const PAUSE: Duration = Duration::from_millis(100);
/// A kind that is not served is looked for this often; a new CRD wakes it at once.
const UNSERVED: Duration = Duration::from_secs(30);

/// Why a watch must start again.
enum Ended {
    /// The server closed it in good order: go on from the last version.
    Normally,
    /// The version is too old: list again.
    Expired,
    /// The kind is not served.
    NotServed,
    /// The server does not stream lists.
    NoStreaming,
    /// Anything else; go on from the last version after a pause.
    Broken(String),
}

/// Where a watch stands between two connections.
struct Position {
    version: Option<String>,
    streaming: bool,
}

#[derive(Deserialize)]
struct WireEvent<'a> {
    r#type: &'a str,
    #[serde(borrow)]
    object: &'a RawValue,
}

#[derive(Deserialize)]
struct WireList<'a> {
    metadata: WireListMeta,
    /// An empty list of metadata can come as null.
    #[serde(borrow, default)]
    items: Option<Vec<&'a RawValue>>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct WireListMeta {
    resource_version: String,
    r#continue: String,
}

#[derive(Deserialize)]
struct WireBookmark {
    metadata: WireBookmarkMeta,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct WireBookmarkMeta {
    resource_version: String,
    #[serde(default)]
    annotations: HashMap<String, String>,
}

/// Runs until dropped.
pub(super) async fn keep(watch: Arc<Watch>, client: Client) {
    let mut position = Position {
        version: None,
        streaming: true,
    };
    let mut failures = 0;
    loop {
        let ended = connection(&watch, &client, &mut position, &mut failures).await;
        let label = OfKind {
            kind: watch.key.kind.to_string(),
        };
        watch.metrics.watch_restarts.get_or_create(&label).inc();
        match ended {
            Ended::Normally => tokio::time::sleep(PAUSE).await,
            Ended::Expired => {
                position.version = None;
                tokio::time::sleep(PAUSE).await;
            }
            Ended::NoStreaming => position.streaming = false,
            Ended::NotServed => {
                watch.store.clear();
                watch.count_bytes();
                watch.set_health(Health::NotServed);
                position.version = None;
                tokio::select! {
                    () = watch.woken.notified() => {}
                    () = tokio::time::sleep(UNSERVED) => {}
                }
            }
            Ended::Broken(why) => {
                tracing::debug!(kind = %watch.key.kind, why, "watch interrupted");
                watch.set_health(Health::Broken(why));
                failures += 1;
                tokio::time::sleep(RETRY.delay(failures, fastrand::f64())).await;
            }
        }
    }
}

async fn connection(
    watch: &Watch,
    client: &Client,
    position: &mut Position,
    failures: &mut u32,
) -> Ended {
    if position.version.is_none() && !position.streaming {
        match list(watch, client).await {
            Ok(version) => position.version = Some(version),
            Err(ended) => return ended,
        }
    }
    // Without a version the server sends all there is first, then a marked bookmark.
    let mut fresh = position.version.is_none().then(HashMap::new);
    let mut body = match open(
        client,
        &watch.key.watch_path(position.version.as_deref()),
        accept(&watch.key.projection, "PartialObjectMetadata"),
    )
    .await
    {
        Ok(body) => body,
        Err(Ended::Broken(why)) if fresh.is_some() && why.contains("sendInitialEvents") => {
            return Ended::NoStreaming;
        }
        Err(ended) => return ended,
    };
    if fresh.is_none() {
        watch.set_health(Health::Synced);
    }
    let mut pending = BytesMut::new();
    loop {
        let frame = match tokio::time::timeout(SILENCE, body.frame()).await {
            Err(_) => return Ended::Broken(format!("nothing heard for {} s", SILENCE.as_secs())),
            Ok(None) if fresh.is_some() => return Ended::Broken("the list ended early".to_owned()),
            Ok(None) => return Ended::Normally,
            Ok(Some(Err(error))) => return Ended::Broken(crate::error::chain(&error)),
            Ok(Some(Ok(frame))) => frame,
        };
        if let Ok(bytes) = frame.into_data() {
            pending.extend_from_slice(&bytes);
        }
        while let Some(end) = pending.iter().position(|byte| *byte == b'\n') {
            let line = pending.split_to(end + 1);
            if let Err(ended) = take(watch, position, &mut fresh, &line) {
                return ended;
            }
            if fresh.is_none() {
                *failures = 0;
            }
        }
    }
}

/// Takes in one line of a watch.
fn take(
    watch: &Watch,
    position: &mut Position,
    fresh: &mut Option<HashMap<kernel::ObjectKey, Stored>>,
    line: &[u8],
) -> Result<(), Ended> {
    let event: WireEvent<'_> = serde_json::from_slice(line)
        .map_err(|error| Ended::Broken(format!("a line that is no event: {error}")))?;
    match event.r#type {
        "ERROR" => return Err(server_error(event.object.get())),
        "BOOKMARK" => {
            let Ok(bookmark) = serde_json::from_str::<WireBookmark>(event.object.get()) else {
                return Ok(());
            };
            position.version = Some(bookmark.metadata.resource_version);
            if bookmark
                .metadata
                .annotations
                .contains_key("k8s.io/initial-events-end")
                && let Some(fresh) = fresh.take()
            {
                watch.store.replace(fresh);
                watch.count_bytes();
                watch.set_health(Health::Synced);
            }
            return Ok(());
        }
        _ => {}
    }
    // One object that cannot be read is counted and left out; the watch goes on.
    let Some(object) = watch.read(event.object.get()) else {
        return Ok(());
    };
    match (fresh.as_mut(), event.r#type) {
        (Some(fresh), _) => {
            fresh.insert(object.key().clone(), object);
            return Ok(()); // its version is no place to resume before the list is complete
        }
        (None, "DELETED") => {
            position.version = Some(object.version().to_string());
            watch.store.delete(object.key());
        }
        (None, _) => {
            position.version = Some(object.version().to_string());
            watch.store.apply(object);
        }
    }
    watch.count_bytes();
    Ok(())
}

fn server_error(status: &str) -> Ended {
    let status: Status = serde_json::from_str(status).unwrap_or_default();
    if status.code == 410 || status.reason == "Expired" {
        Ended::Expired
    } else {
        Ended::Broken(format!("{} {}", status.code, status.message))
    }
}

/// Reads the whole collection page by page; answers the version to follow from.
async fn list(watch: &Watch, client: &Client) -> Result<String, Ended> {
    let mut fresh = HashMap::new();
    let mut token = String::new();
    loop {
        let body = open(
            client,
            &watch.key.list_path(PAGE, &token),
            accept(&watch.key.projection, "PartialObjectMetadataList"),
        )
        .await?;
        let bytes = body
            .collect()
            .await
            .map_err(|e| Ended::Broken(crate::error::chain(&e)))?
            .to_bytes();
        let page: WireList<'_> =
            serde_json::from_slice(&bytes).map_err(|e| Ended::Broken(e.to_string()))?;
        for item in page.items.into_iter().flatten() {
            if let Some(object) = watch.read(item.get()) {
                fresh.insert(object.key().clone(), object);
            }
        }
        token = page.metadata.r#continue;
        if token.is_empty() {
            watch.store.replace(fresh);
            watch.count_bytes();
            return Ok(page.metadata.resource_version);
        }
    }
}

/// The form to ask for; where metadata is enough, a watch and a list have it by different names.
fn accept(projection: &Projection, metadata: &str) -> String {
    match projection {
        Projection::Metadata => format!("application/json;as={metadata};g=meta.k8s.io;v=v1"),
        Projection::Full | Projection::Fields(_) | Projection::ManagedBy(_) => {
            "application/json".to_owned()
        }
    }
}

async fn open(client: &Client, path: &str, accept: String) -> Result<Body, Ended> {
    let request = Request::get(path)
        .header(http::header::ACCEPT, accept)
        .body(Body::empty());
    let request = request.map_err(|error| Ended::Broken(error.to_string()))?;
    let response = client
        .send(request)
        .await
        .map_err(|error| Ended::Broken(crate::error::chain(&error)))?;
    let status = response.status();
    if status.is_success() {
        return Ok(response.into_body());
    }
    let text = response
        .into_body()
        .collect()
        .await
        .map(http_body_util::Collected::to_bytes)
        .unwrap_or_default();
    let text = String::from_utf8_lossy(&text).into_owned();
    Err(match status.as_u16() {
        404 => Ended::NotServed,
        410 => Ended::Expired,
        code => {
            let status: Status = serde_json::from_str(&text).unwrap_or_default();
            Ended::Broken(format!(
                "the API server answered {code}: {}",
                status.message
            ))
        }
    })
}

impl super::WatchKey {
    fn query(&self) -> String {
        let mut query = String::new();
        for (name, value) in [
            ("labelSelector", &self.labels),
            ("fieldSelector", &self.fields),
        ] {
            if let Some(value) = value {
                query.push('&');
                query.push_str(name);
                query.push('=');
                query.push_str(&encoded(value));
            }
        }
        query
    }

    fn watch_path(&self, version: Option<&str>) -> String {
        let from = match version {
            Some(version) => format!("resourceVersion={version}"),
            None => "sendInitialEvents=true&resourceVersionMatch=NotOlderThan".to_owned(),
        };
        format!(
            "{}?watch=true&allowWatchBookmarks=true&timeoutSeconds={WATCH_SECONDS}&{from}{}",
            self.kind.collection(self.namespace.as_deref()),
            self.query()
        )
    }

    fn list_path(&self, limit: u32, token: &str) -> String {
        let next = if token.is_empty() {
            String::new()
        } else {
            format!("&continue={}", encoded(token))
        };
        format!(
            "{}?limit={limit}{next}{}",
            self.kind.collection(self.namespace.as_deref()),
            self.query()
        )
    }
}

/// Percent-encodes a query value.
pub(crate) fn encoded(value: &str) -> String {
    value.bytes().fold(String::new(), |mut out, byte| {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            out.push(byte.into());
        } else {
            use std::fmt::Write as _;
            write!(out, "%{byte:02X}").expect("writing to a string never fails");
        }
        out
    })
}

#[cfg(test)]
mod tests {
    use super::WireList;
    use rstest::rstest;

    #[rstest]
    #[case(r#"{"metadata": {"resourceVersion": "7"}, "items": []}"#)]
    #[case(r#"{"metadata": {"resourceVersion": "7"}, "items": null}"#)]
    #[case(r#"{"metadata": {"resourceVersion": "7"}}"#)]
    fn an_empty_list_is_a_list(#[case] text: &str) {
        let list: WireList<'_> = serde_json::from_str(text).unwrap();
        assert_eq!(list.items.into_iter().flatten().count(), 0);
        assert_eq!(list.metadata.resource_version, "7");
    }
}
