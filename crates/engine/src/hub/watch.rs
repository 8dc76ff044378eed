//! One watch, kept alive: list, follow, and start again after whatever happens.

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
/// A kind that is not served is tried again after these pauses, then every `UNSERVED`. A CRD that
/// comes starts the sequence anew: in a highly available cluster the next server may not have it yet.
const UNSERVED_FIRST: [Duration; 5] = [
    Duration::from_millis(200),
    Duration::from_millis(500),
    Duration::from_secs(1),
    Duration::from_secs(2),
    Duration::from_secs(5),
];
const UNSERVED: Duration = Duration::from_secs(30);
/// A streamed list pauses at most this long; a server that ignores the request sends no end of it.
/// Controllers wait 30 s for what they follow: by then the pages must have been read.
const STREAM_SILENCE: Duration = Duration::from_secs(10);
/// The objects of a streamed list come first, all as ADDED, however long that takes. After any other
/// event its end must follow within this time: kube-apiserver tries to send it every second, and a
/// server that ignores the request would go on with changes alone.
const LIST_END: Duration = Duration::from_secs(10);
/// So many unusable answers in a row to the request for a streamed list: the server does not stream.
const STREAM_TRIES: u32 = 2;
/// A server that did not stream a list is asked for it again after this long.
const NO_STREAMING: Duration = Duration::from_hours(1);

/// Why a watch must start again.
#[derive(Debug)]
enum Ended {
    /// The server closed it in good order: go on from the last version.
    Normally,
    /// The version is too old, or nothing came from there on: list again.
    Expired,
    /// The server has older versions than it had: list again, and believe it.
    WentBack,
    /// The server answered 404.
    NotServed,
    /// The server answered with another error, or not as asked.
    Refused(String),
    /// The server did not begin to answer in time, or sent a line that is no event.
    Unusable(String),
    /// The connection failed; go on from the last version after a pause.
    Broken(String),
}

/// Where a watch stands between two connections.
#[derive(Debug, Default)]
struct Position {
    /// Where to go on; `None` before a list is complete.
    version: Option<String>,
    /// The highest version that the server has shown on this watch.
    newest: u64,
    /// When the server last failed to stream a list, by the hub's clock.
    no_streaming: Option<Duration>,
}

impl Position {
    fn streams(&self, now: Duration) -> bool {
        self.no_streaming
            .is_none_or(|since| now.saturating_sub(since) >= NO_STREAMING)
    }

    fn go_on_from(&mut self, version: String) {
        self.newest = self.newest.max(number(&version).unwrap_or(0));
        self.version = Some(version);
    }

    /// Whether a server that shows `version` went back: etcd was restored from a backup.
    fn is_ahead_of(&self, version: &str) -> bool {
        number(version).is_some_and(|number| number < self.newest)
    }
}

/// Versions of aggregated API servers need not be numbers.
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
pub(super) async fn keep(watch: Arc<Watch>, hub: Hub) {
    let mut position = Position::default();
    let (mut failures, mut unserved, mut unusable) = (0, 0, 0);
    loop {
        let ended = connection(&watch, &hub, &mut position, &mut failures).await;
        let restarts = &watch.metrics.watch_restarts;
        restarts.get_or_create(&watch.label()).inc();
        if !matches!(ended, Ended::NotServed) {
            unserved = 0;
        }
        let is_streamed_list = position.version.is_none() && position.streams(hub.now());
        if is_streamed_list && matches!(ended, Ended::Unusable(_)) {
            unusable += 1;
        } else {
            unusable = 0;
        }
        match ended {
            Ended::Normally => tokio::time::sleep(PAUSE).await,
            Ended::Expired | Ended::WentBack => {
                position.version = None;
                tokio::time::sleep(PAUSE).await;
            }
            Ended::NotServed => {
                position.version = None;
                not_served(&watch, &hub).await;
                let pause = UNSERVED_FIRST.get(unserved).copied();
                unserved += 1;
                tokio::select! {
                    () = watch.woken.notified() => unserved = 0,
                    () = tokio::time::sleep(pause.unwrap_or(UNSERVED)) => {}
                }
            }
            Ended::Refused(why) | Ended::Unusable(why)
                if is_streamed_list && (unusable == 0 || unusable >= STREAM_TRIES) =>
            {
                tracing::debug!(kind = %watch.key.kind, why, "list not streamed; reading pages");
                position.no_streaming = Some(hub.now());
            }
            Ended::Refused(why) | Ended::Unusable(why) | Ended::Broken(why) => {
                tracing::debug!(kind = %watch.key.kind, why, "watch interrupted");
                watch.set_health(Health::Broken(why));
                failures += 1;
                tokio::time::sleep(RETRY.delay(failures, fastrand::f64())).await;
            }
        }
    }
}

/// The server answered 404. What is held goes only if the kind is confirmed to be gone.
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
) -> Ended {
    let client = &hub.client;
    if position.version.is_none() && !position.streams(hub.now()) {
        match list(watch, client).await {
            Ok((fresh, version)) => complete(watch, position, fresh, version),
            Err(ended) => return ended,
        }
        *watch.heard.lock() = Some(hub.now());
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
        Err(ended) => return ended,
    };
    if fresh.is_none() {
        watch.set_health(Health::Synced);
    } else if *watch.health.lock() == Health::Absent {
        watch.set_health(Health::Starting);
    }
    let mut pending = BytesMut::new();
    let mut has_lines = false;
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
            () = overdue => return Ended::Refused("the list has no end".to_owned()),
            frame = tokio::time::timeout(silence, body.frame()) => frame,
        };
        let frame = match frame {
            Err(_) if fresh.is_some() => {
                return Ended::Refused("the list did not come to its end".to_owned());
            }
            // After a restore of etcd the server may have no version as high as the one we go on
            // from. Then it sends neither changes nor bookmarks until it has.
            Err(_) if !has_lines => return Ended::Expired,
            Err(_) => return Ended::Broken(format!("nothing heard for {} s", silence.as_secs())),
            Ok(None) if fresh.is_some() => {
                return Ended::Refused("the list ended early".to_owned());
            }
            Ok(None) => return Ended::Normally,
            Ok(Some(Err(error))) => return Ended::Broken(crate::error::chain(&error)),
            Ok(Some(Ok(frame))) => frame,
        };
        if let Ok(bytes) = frame.into_data() {
            pending.extend_from_slice(&bytes);
        }
        while let Some(end) = pending.iter().position(|byte| *byte == b'\n') {
            has_lines = true;
            let line = pending.split_to(end + 1);
            let is_added = match take(watch, position, &mut fresh, &line) {
                Ok(is_added) => is_added,
                Err(ended) => return ended,
            };
            if fresh.is_none() {
                end_due = None;
                *failures = 0;
                *watch.heard.lock() = Some(hub.now());
            } else if !is_added && end_due.is_none() {
                end_due = Some(Box::pin(tokio::time::sleep(LIST_END)));
            }
        }
    }
}

/// All that exists has been read, as of `version`.
fn complete(watch: &Watch, position: &mut Position, fresh: Fresh, version: String) {
    let restored = position.is_ahead_of(&version);
    if restored {
        tracing::error!(
            kind = %watch.key.kind, version, newest = position.newest,
            "the API server went back to an older state (was etcd restored from a backup?); \
             all objects were read again; restart the operator so that it forgets the newer state"
        );
        position.newest = 0;
    }
    watch.store.replace(fresh, restored);
    watch.count_bytes();
    watch.set_health(Health::Synced);
    position.go_on_from(version);
}

/// Takes in one line of a watch. Answers whether it is an addition.
fn take(
    watch: &Watch,
    position: &mut Position,
    fresh: &mut Option<Fresh>,
    line: &[u8],
) -> Result<bool, Ended> {
    let event: WireEvent<'_> = serde_json::from_slice(line)
        .map_err(|error| Ended::Unusable(format!("a line that is no event: {error}")))?;
    match event.r#type {
        "ERROR" => return Err(server_error(event.object.get())),
        "BOOKMARK" => {
            bookmark(watch, position, fresh, event.object.get())?;
            return Ok(false);
        }
        _ => {}
    }
    let is_added = event.r#type == "ADDED";
    // One object that cannot be read is counted and left out; the watch goes on.
    let Some(object) = watch.read(event.object.get()) else {
        return Ok(is_added);
    };
    // Before the list is complete no version is one to go on from.
    match (fresh, event.r#type) {
        (Some(fresh), "DELETED") => {
            fresh.remove(object.key());
        }
        (Some(fresh), _) => {
            fresh.insert(object.key().clone(), object);
        }
        (None, "DELETED") => {
            position.go_on_from(object.resource_version());
            watch.store.delete(object.key());
            watch.count_bytes();
        }
        (None, _) => {
            position.go_on_from(object.resource_version());
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
) -> Result<(), Ended> {
    let Ok(WireBookmark { metadata }) = serde_json::from_str(object) else {
        return Ok(());
    };
    let version = metadata.resource_version;
    let ends_list = metadata
        .annotations
        .contains_key("k8s.io/initial-events-end");
    match fresh.take_if(|_| ends_list) {
        Some(all) => complete(watch, position, all, version),
        None if fresh.is_some() => {} // the list goes on
        None if position.is_ahead_of(&version) => return Err(Ended::WentBack),
        None => position.go_on_from(version),
    }
    Ok(())
}

fn server_error(status: &str) -> Ended {
    let status: Status = serde_json::from_str(status).unwrap_or_default();
    if status.code == 410 || status.reason == "Expired" {
        Ended::Expired
    } else {
        Ended::Refused(format!("{} {}", status.code, status.message))
    }
}

/// Reads the whole collection page by page; answers the version to follow from.
async fn list(watch: &Watch, client: &Client) -> Result<(Fresh, String), Ended> {
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
            return Ok((fresh, page.metadata.resource_version));
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
    let response = client.send(request).await.map_err(|error| {
        let why = crate::error::chain(&error);
        match error {
            kube::Error::Service(cause) if cause.is::<NoAnswer>() => Ended::Unusable(why),
            _ => Ended::Broken(why),
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
        404 => Ended::NotServed,
        410 => Ended::Expired,
        code => {
            let status: Status = serde_json::from_str(&text).unwrap_or_default();
            Ended::Refused(format!(
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
