//! Runs one watch: lists objects, follows changes, and reconnects after every interruption.

use std::collections::HashMap;
use std::pin::Pin;
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
use tokio::time::Sleep;

use super::{Health, Hub, Watch};
use crate::client::NoAnswer;
use crate::stored::{Projection, Stored};

/// The server ends a watch after this time. Then the hub opens another.
const WATCH_SECONDS: u32 = 290;
/// The server sends a bookmark every minute, so after a longer silence the connection is dead.
const SILENCE: Duration = Duration::from_secs(100);
/// Objects in a page, if the server does not stream lists.
const PAGE: u32 = 500;
const RETRY: Backoff = Backoff {
    first: Duration::from_millis(200),
    cap: Duration::from_secs(10),
    jitter: 0.3,
};
/// Pause between two connections, for a server that closes them at once.
const PAUSE: Duration = Duration::from_millis(100);
/// Pauses between the first retries of a kind that is not served; then `UNSERVED_PAUSE`. A change of its
/// CRD restarts the sequence: with several API servers, the next one may not serve the CRD yet.
const FIRST_UNSERVED_PAUSES: [Duration; 5] = [
    Duration::from_millis(200),
    Duration::from_millis(500),
    Duration::from_secs(1),
    Duration::from_secs(2),
    Duration::from_secs(5),
];
const UNSERVED_PAUSE: Duration = Duration::from_secs(30);
/// The longest silence within a streamed list. A server that ignores `sendInitialEvents` never ends it.
/// Controllers wait 30 s for the objects they follow. The pages must have been read by then.
const STREAM_SILENCE: Duration = Duration::from_secs(10);
/// A streamed list begins with all objects as ADDED events, and that may take long. After any other
/// event the end of the list must follow within this time. kube-apiserver tries to send it every
/// second. A server that ignores `sendInitialEvents` sends only changes.
const LIST_END_TIMEOUT: Duration = Duration::from_secs(10);
/// After this many consecutive unusable responses to a streamed list, the hub reads pages instead.
const STREAM_TRIES: u32 = 2;
/// The hub requests a streamed list again after this time, if the server did not stream one.
const STREAM_RETRY: Duration = Duration::from_hours(1);

/// Why a connection of a watch ended.
#[derive(Debug)]
enum Disconnect {
    /// The server closed it normally: continue from the last version.
    Closed,
    /// The version is too old, or the server sent nothing after it: list again.
    Expired,
    /// The server's versions are lower than before: list again, and accept older objects.
    WentBack,
    /// The server answered 404.
    NotServed,
    /// The server answered with another error, or did not follow the protocol.
    Refused(String),
    /// The server did not begin to answer in time, or sent a line that is no watch event.
    Unusable(String),
    /// The connection failed: continue from the last version after a pause.
    Broken(String),
}

/// What a watch remembers between two connections.
#[derive(Debug, Default)]
struct Position {
    /// The version to continue from; `None` before a list is complete.
    version: Option<String>,
    /// The highest version that the server has sent on this watch.
    newest: u64,
    /// When the server last failed to stream a list, by the hub's clock.
    no_streaming: Option<Duration>,
}

impl Position {
    fn uses_streaming(&self, now: Duration) -> bool {
        self.no_streaming
            .is_none_or(|since| now.saturating_sub(since) >= STREAM_RETRY)
    }

    fn continue_from(&mut self, version: String) {
        self.newest = self.newest.max(number(&version).unwrap_or(0));
        self.version = Some(version);
    }

    /// Whether a server that sends `version` has returned to an older state: a restored etcd.
    fn is_ahead_of(&self, version: &str) -> bool {
        number(version).is_some_and(|number| number < self.newest)
    }
}

/// The version as a number. Aggregated API servers may use other texts.
fn number(version: &str) -> Option<u64> {
    version.parse().ok()
}

type Fresh = HashMap<kernel::ObjectKey, Stored>;

#[derive(Deserialize)]
struct WireEvent<'a> {
    r#type: &'a str,
    #[serde(borrow)]
    object: &'a RawValue,
}

#[derive(Deserialize)]
struct WireList<'a> {
    metadata: WireListMeta,
    /// The server may send an empty list of metadata as null.
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

/// Keeps the watch connected until it is dropped.
pub(super) async fn run(watch: Arc<Watch>, hub: Hub) {
    let mut position = Position::default();
    let (mut failures, mut unserved, mut unusable) = (0, 0, 0);
    loop {
        let ended = connection(&watch, &hub, &mut position, &mut failures).await;
        let restarts = &watch.metrics.watch_restarts;
        restarts.get_or_create(&watch.label()).inc();
        if !matches!(ended, Disconnect::NotServed) {
            unserved = 0;
        }
        let is_streamed_list = position.version.is_none() && position.uses_streaming(hub.now());
        if is_streamed_list && matches!(ended, Disconnect::Unusable(_)) {
            unusable += 1;
        } else {
            unusable = 0;
        }
        match ended {
            Disconnect::Closed => tokio::time::sleep(PAUSE).await,
            Disconnect::Expired | Disconnect::WentBack => {
                position.version = None;
                tokio::time::sleep(PAUSE).await;
            }
            Disconnect::NotServed => {
                position.version = None;
                not_served(&watch, &hub).await;
                let pause = FIRST_UNSERVED_PAUSES.get(unserved).copied();
                unserved += 1;
                tokio::select! {
                    () = watch.woken.notified() => unserved = 0,
                    () = tokio::time::sleep(pause.unwrap_or(UNSERVED_PAUSE)) => {}
                }
            }
            Disconnect::Refused(why) | Disconnect::Unusable(why)
                if is_streamed_list && (unusable == 0 || unusable >= STREAM_TRIES) =>
            {
                tracing::debug!(kind = %watch.key.kind, why, "list not streamed; reading pages");
                position.no_streaming = Some(hub.now());
            }
            Disconnect::Refused(why) | Disconnect::Unusable(why) | Disconnect::Broken(why) => {
                tracing::debug!(kind = %watch.key.kind, why, "watch interrupted");
                watch.set_health(Health::Broken(why));
                failures += 1;
                let pause = RETRY.delay(failures, fastrand::f64());
                tokio::select! {
                    () = watch.woken.notified() => {}
                    () = tokio::time::sleep(pause) => {}
                }
            }
        }
    }
}

/// Handles a 404. Clears the cache only if the kind is confirmed to be absent.
async fn not_served(watch: &Watch, hub: &Hub) {
    if hub.is_absent(&watch.key.kind).await {
        watch.store.clear();
        watch.count_bytes();
        watch.set_health(Health::Absent);
    } else {
        watch.set_health(Health::Unserved);
    }
}

async fn connection(
    watch: &Watch,
    hub: &Hub,
    position: &mut Position,
    failures: &mut u32,
) -> Disconnect {
    let client = &hub.client;
    if position.version.is_none() && !position.uses_streaming(hub.now()) {
        match list(watch, client).await {
            Ok((fresh, version)) => complete(watch, position, fresh, version),
            Err(ended) => return ended,
        }
        *watch.last_received.lock() = Some(hub.now());
    }
    // Without a version the server sends all existing objects, then a bookmark that ends the list.
    let mut fresh = position.version.is_none().then(HashMap::new);
    let mut body = match open(
        client,
        &watch.key.watch_path(position.version.as_deref()),
        accept(&watch.key.projection, "PartialObjectMetadata"),
    )
    .await
    {
        Ok(body) => body,
        Err(ended) => return ended,
    };
    if fresh.is_none() {
        watch.set_health(Health::Synced);
    } else if *watch.health.lock() == Health::Absent {
        watch.set_health(Health::Starting);
    }
    let mut pending = BytesMut::new();
    let mut has_received = false;
    let mut end_due: Option<Pin<Box<Sleep>>> = None;
    loop {
        let silence = if fresh.is_some() {
            STREAM_SILENCE
        } else {
            SILENCE
        };
        let overdue = async {
            match &mut end_due {
                Some(due) => due.await,
                None => std::future::pending().await,
            }
        };
        let frame = tokio::select! {
            biased; // a frame may always be ready
            () = overdue => return Disconnect::Refused("the streamed list has no end".to_owned()),
            frame = tokio::time::timeout(silence, body.frame()) => frame,
        };
        let frame = match frame {
            Err(_) if fresh.is_some() => {
                return Disconnect::Refused("the streamed list stopped before its end".to_owned());
            }
            // After a restore of etcd the server's versions may be lower than ours. Then it sends
            // neither changes nor bookmarks until its version is higher.
            Err(_) if !has_received => return Disconnect::Expired,
            Err(_) => return Disconnect::Broken(format!("no data for {} s", silence.as_secs())),
            Ok(None) if fresh.is_some() => {
                return Disconnect::Refused(
                    "the connection was closed within the streamed list".to_owned(),
                );
            }
            Ok(None) => return Disconnect::Closed,
            Ok(Some(Err(error))) => return Disconnect::Broken(crate::error::chain(&error)),
            Ok(Some(Ok(frame))) => frame,
        };
        if let Ok(bytes) = frame.into_data() {
            pending.extend_from_slice(&bytes);
        }
        while let Some(end) = pending.iter().position(|byte| *byte == b'\n') {
            has_received = true;
            let line = pending.split_to(end + 1);
            let is_added = match read_event(watch, position, &mut fresh, &line) {
                Ok(is_added) => is_added,
                Err(ended) => return ended,
            };
            if fresh.is_none() {
                end_due = None;
                *failures = 0;
                *watch.last_received.lock() = Some(hub.now());
            } else if !is_added && end_due.is_none() {
                end_due = Some(Box::pin(tokio::time::sleep(LIST_END_TIMEOUT)));
            }
        }
    }
}

/// Stores a complete list, as of `version`.
fn complete(watch: &Watch, position: &mut Position, fresh: Fresh, version: String) {
    let restored = position.is_ahead_of(&version);
    if restored {
        tracing::error!(
            kind = %watch.key.kind, version, newest = position.newest,
            "the API server returned to an older state (was etcd restored from a backup?); \
             all objects were listed again; restart the operator to clear its memory of the newer state"
        );
        position.newest = 0;
    }
    watch.store.replace(fresh, restored);
    watch.count_bytes();
    watch.set_health(Health::Synced);
    position.continue_from(version);
}

/// Processes one event of a watch. Returns whether it is an addition.
fn read_event(
    watch: &Watch,
    position: &mut Position,
    fresh: &mut Option<Fresh>,
    line: &[u8],
) -> Result<bool, Disconnect> {
    let event: WireEvent<'_> = serde_json::from_slice(line)
        .map_err(|error| Disconnect::Unusable(format!("a line is no watch event: {error}")))?;
    match event.r#type {
        "ERROR" => return Err(server_error(event.object.get())),
        "BOOKMARK" => {
            bookmark(watch, position, fresh, event.object.get())?;
            return Ok(false);
        }
        _ => {}
    }
    let is_added = event.r#type == "ADDED";
    // An object that cannot be read is counted and skipped. The watch continues.
    let Some(object) = watch.read(event.object.get()) else {
        return Ok(is_added);
    };
    // The watch cannot continue from a version that it has seen before the list is complete.
    match (fresh, event.r#type) {
        (Some(fresh), "DELETED") => {
            fresh.remove(object.key());
        }
        (Some(fresh), _) => {
            fresh.insert(object.key().clone(), object);
        }
        (None, "DELETED") => {
            position.continue_from(object.resource_version());
            watch.store.delete(object.key());
            watch.count_bytes();
        }
        (None, _) => {
            position.continue_from(object.resource_version());
            watch.store.apply(object);
            watch.count_bytes();
        }
    }
    Ok(is_added)
}

fn bookmark(
    watch: &Watch,
    position: &mut Position,
    fresh: &mut Option<Fresh>,
    object: &str,
) -> Result<(), Disconnect> {
    let Ok(WireBookmark { metadata }) = serde_json::from_str(object) else {
        return Ok(());
    };
    let version = metadata.resource_version;
    let ends_list = metadata
        .annotations
        .contains_key("k8s.io/initial-events-end");
    match fresh.take_if(|_| ends_list) {
        Some(all) => complete(watch, position, all, version),
        None if fresh.is_some() => {} // the list continues
        None if position.is_ahead_of(&version) => return Err(Disconnect::WentBack),
        None => position.continue_from(version),
    }
    Ok(())
}

fn server_error(status: &str) -> Disconnect {
    let status: Status = serde_json::from_str(status).unwrap_or_default();
    if status.code == 410 || status.reason == "Expired" {
        Disconnect::Expired
    } else {
        Disconnect::Refused(format!("{} {}", status.code, status.message))
    }
}

/// Lists all objects page by page. Returns them and the version to watch from.
async fn list(watch: &Watch, client: &Client) -> Result<(Fresh, String), Disconnect> {
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
            .map_err(|e| Disconnect::Broken(crate::error::chain(&e)))?
            .to_bytes();
        let page: WireList<'_> =
            serde_json::from_slice(&bytes).map_err(|e| Disconnect::Broken(e.to_string()))?;
        for json in page.items.into_iter().flatten() {
            if let Some(object) = watch.read(json.get()) {
                fresh.insert(object.key().clone(), object);
            }
        }
        token = page.metadata.r#continue;
        if token.is_empty() {
            return Ok((fresh, page.metadata.resource_version));
        }
    }
}

/// The Accept header. Metadata alone has different type names for a watch and for a list.
fn accept(projection: &Projection, metadata: &str) -> String {
    match projection {
        Projection::Metadata => format!("application/json;as={metadata};g=meta.k8s.io;v=v1"),
        Projection::Full | Projection::Fields(_) | Projection::ManagedBy(_) => {
            "application/json".to_owned()
        }
    }
}

async fn open(client: &Client, path: &str, accept: String) -> Result<Body, Disconnect> {
    let request = Request::get(path)
        .header(http::header::ACCEPT, accept)
        .body(Body::empty());
    let request = request.map_err(|error| Disconnect::Broken(error.to_string()))?;
    let response = client.send(request).await.map_err(|error| {
        let why = crate::error::chain(&error);
        match error {
            kube::Error::Service(cause) if cause.is::<NoAnswer>() => Disconnect::Unusable(why),
            _ => Disconnect::Broken(why),
        }
    })?;
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
        404 => Disconnect::NotServed,
        410 => Disconnect::Expired,
        code => {
            let status: Status = serde_json::from_str(&text).unwrap_or_default();
            Disconnect::Refused(format!(
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
