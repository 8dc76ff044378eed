//! Watches against a fake API server that ends, expires and refuses connections on request.

use std::collections::BTreeMap;
use std::convert::Infallible;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::Frame;
use k8s_openapi::api::core::v1::ConfigMap;
use kernel::{ObjectKey, TestClock};
use kube::client::Body;
use proptest::prelude::*;
use rstest::rstest;
use serde_json::{Value, json};

use super::*;
use crate::client::NoAnswer;

/// An API server in memory, with its objects and the log of their changes.
#[derive(Default)]
struct FakeServer {
    version: u64,
    objects: BTreeMap<String, u64>,
    log: Vec<(u64, &'static str, String, u64)>,
    /// Versions below this one are compacted: a watch from there is answered 410.
    compacted: u64,
    /// Each element closes one connection after this many events.
    cuts: Vec<usize>,
    streaming: Streaming,
    /// A streamed list contains an object that is deleted before the list ends.
    ghost: bool,
    /// Whether lists and watches are answered 404.
    unserved: bool,
    discovery: Discovery,
    /// Whether the CRD exists.
    crd: bool,
    bookmarks: Bookmarks,
    /// The client panics over this many of the next responses.
    panics: u32,
    /// How many pages were read.
    pages: u32,
}

/// The response to a request for a streamed list.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
enum Streaming {
    #[default]
    Yes,
    /// A refusal, as by servers whose feature gate is off.
    Forbidden,
    /// A refusal, as by servers before 1.27.
    Unknown,
    /// An error event after 200, as with an etcd that is too old.
    ErrorEvent,
    /// One object every five seconds, then the end of the list.
    Slow,
    /// No events and no end, as by servers that ignore the parameter.
    Silent,
    /// Changes without an end of the list, as by servers that ignore the parameter.
    Busy,
    /// The connection is closed before the list is complete.
    Short,
    /// No response at all.
    NoHead,
    /// Text that is no watch event, as by a proxy.
    NoEvent,
}

/// Which bookmarks the server sends on a watch.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
enum Bookmarks {
    /// Those above the requested version, as kube-apiserver does.
    #[default]
    Newer,
    All,
}

/// What discovery answers about ships.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
enum Discovery {
    #[default]
    Listed,
    /// Another version of the group lists them.
    InOtherVersion,
    /// The group is listed, but the list of its resources is answered with 404.
    Partial,
    /// Discovery answers 503.
    Fails,
    /// The group lists only other kinds.
    NotListed,
    /// The group is not listed.
    NoGroup,
}

#[derive(Debug, Clone)]
enum Act {
    Put(u8),
    Delete(u8),
    Compact,
}

impl FakeServer {
    fn act(&mut self, act: &Act) {
        self.version += 1;
        match act {
            Act::Put(n) => {
                let name = format!("o{n}");
                let change = if self.objects.contains_key(&name) {
                    "MODIFIED"
                } else {
                    "ADDED"
                };
                self.objects.insert(name.clone(), self.version);
                self.log.push((self.version, change, name, self.version));
            }
            Act::Delete(n) => {
                let name = format!("o{n}");
                if self.objects.remove(&name).is_some() {
                    self.log.push((self.version, "DELETED", name, self.version));
                }
            }
            Act::Compact => self.compacted = self.version,
        }
    }

    fn object(name: &str, version: u64) -> Value {
        json!({"metadata": {"name": name, "namespace": "a", "uid": name, "resourceVersion": version.to_string()}})
    }

    fn answer(&mut self, path: &str, query: &str) -> Response<ResponseBody> {
        match path {
            "/apis" | "/apis/example.io/v1" | "/apis/example.io/v2" => return self.discover(path),
            CRDS => return self.crds(query),
            _ if self.unserved => return text(404, "404 page not found"),
            _ => {}
        }
        let cut = self.cuts.pop().unwrap_or(usize::MAX);
        let line = |change: &str, object: Value| {
            format!("{}\n", json!({"type": change, "object": object}))
        };
        let end = |version: u64| {
            let metadata = json!({"resourceVersion": version.to_string(), "annotations": {"k8s.io/initial-events-end": "true"}});
            line("BOOKMARK", json!({"metadata": metadata}))
        };
        let mark = |version: u64| {
            let metadata = json!({"resourceVersion": version.to_string()});
            line("BOOKMARK", json!({"metadata": metadata}))
        };
        let from = query
            .split('&')
            .find_map(|part| part.strip_prefix("resourceVersion="));
        let lines: Vec<String> = if let Some(from) = from {
            let from: u64 = from.parse().unwrap();
            if from < self.compacted {
                // The server sends it as a status code or as an event of the stream.
                let status = json!({"code": 410, "reason": "Expired", "message": "too old"});
                let (code, text) = if from.is_multiple_of(2) {
                    (410, status.to_string())
                } else {
                    (200, line("ERROR", status))
                };
                let answer = Response::builder().status(code);
                return answer.body(whole(text.into_bytes())).unwrap();
            }
            let has_mark = self.version > from || self.bookmarks == Bookmarks::All;
            if self.version < from && !has_mark {
                return silent();
            }
            let changes = self.log.iter().filter(|(version, ..)| *version > from);
            let changes = changes
                .map(|(_, change, name, version)| line(change, Self::object(name, *version)));
            let mark = has_mark.then(|| mark(self.version));
            changes.chain(mark).collect()
        } else if query.contains("sendInitialEvents") {
            match self.streaming {
                Streaming::Yes
                | Streaming::Slow
                | Streaming::Busy
                | Streaming::Short
                | Streaming::NoHead => {}
                Streaming::Forbidden => return text(422, "sendInitialEvents is forbidden"),
                Streaming::Unknown => {
                    return text(422, "resourceVersionMatch is forbidden for watch");
                }
                Streaming::ErrorEvent => {
                    let status =
                        json!({"code": 500, "message": "the required storage feature is disabled"});
                    return Response::new(whole(line("ERROR", status).into_bytes()));
                }
                Streaming::NoEvent => return Response::new(whole(b"<html>\n".to_vec())),
                Streaming::Silent => return silent(),
            }
            let all = self.objects.iter();
            let mut lines: Vec<_> = all
                .map(|(name, version)| line("ADDED", Self::object(name, *version)))
                .collect();
            if self.ghost {
                lines.insert(0, line("ADDED", Self::object("ghost", self.version)));
                lines.push(mark(self.version));
                lines.push(line("DELETED", Self::object("ghost", self.version)));
            }
            if self.streaming == Streaming::Busy {
                let change = line("MODIFIED", Self::object("busy", self.version));
                let all = std::iter::once(lines.concat());
                return slowly(all.chain(std::iter::repeat(change)));
            }
            if matches!(self.streaming, Streaming::Yes | Streaming::Slow) {
                lines.push(end(self.version));
            }
            if self.streaming == Streaming::Slow {
                return slowly(lines.into_iter());
            }
            lines
        } else {
            self.pages += 1;
            let items: Vec<_> = self
                .objects
                .iter()
                .map(|(name, version)| Self::object(name, *version))
                .collect();
            let list =
                json!({"metadata": {"resourceVersion": self.version.to_string()}, "items": items});
            return Response::new(whole(list.to_string().into_bytes()));
        };
        let text: String = lines.into_iter().take(cut).collect();
        Response::new(whole(text.into_bytes()))
    }

    fn discover(&self, path: &str) -> Response<ResponseBody> {
        let resources = |names: &[&str]| {
            let all: Vec<_> = names
                .iter()
                .map(|name| json!({"name": name, "singularName": "", "namespaced": true, "kind": "X", "verbs": []}))
                .collect();
            json!({"groupVersion": "example.io/v1", "resources": all})
        };
        let versions = ["v1", "v2"].map(
            |version| json!({"groupVersion": format!("example.io/{version}"), "version": version}),
        );
        let ships = path.ends_with("v1") && self.discovery == Discovery::Listed
            || path.ends_with("v2") && self.discovery == Discovery::InOtherVersion;
        let answer = match (self.discovery, path) {
            (Discovery::Fails, _) => return text(503, "not now"),
            (Discovery::NoGroup, "/apis") => json!({"groups": []}),
            (_, "/apis") => json!({"groups": [{"name": "example.io", "versions": versions}]}),
            (Discovery::Partial, _) => return text(404, "404 page not found"),
            _ if ships => resources(&["ships", "ships/status"]),
            _ => resources(&["boats"]),
        };
        Response::new(whole(answer.to_string().into_bytes()))
    }

    fn crds(&self, query: &str) -> Response<ResponseBody> {
        let crd = json!({"type": "ADDED", "object": {"metadata": {
            "name": "ships.example.io", "uid": "crd", "resourceVersion": "1"}}});
        let end = json!({"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": "1",
            "annotations": {"k8s.io/initial-events-end": "true"}}}});
        let lines = match (query.contains("sendInitialEvents"), self.crd) {
            (false, _) => String::new(),
            (true, true) => format!("{crd}\n{end}\n"),
            (true, false) => format!("{end}\n"),
        };
        Response::new(whole(lines.into_bytes()))
    }
}

type ResponseBody = UnsyncBoxBody<Bytes, Infallible>;

fn whole(text: Vec<u8>) -> ResponseBody {
    Full::new(Bytes::from(text)).boxed_unsync()
}

/// A response that begins and sends nothing more.
fn silent() -> Response<ResponseBody> {
    let never = futures::stream::pending::<Result<Frame<Bytes>, Infallible>>();
    Response::new(StreamBody::new(never).boxed_unsync())
}

/// A response that sends one line every five seconds.
fn slowly(lines: impl Iterator<Item = String> + Send + 'static) -> Response<ResponseBody> {
    let frames = futures::stream::unfold(lines, |mut lines| async move {
        tokio::time::sleep(Duration::from_secs(5)).await;
        let frame = Frame::data(Bytes::from(lines.next()?));
        Some((Ok::<_, Infallible>(frame), lines))
    });
    Response::new(StreamBody::new(frames).boxed_unsync())
}

const CRDS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

fn text(status: u16, message: &str) -> Response<ResponseBody> {
    let status_object = json!({"code": status, "message": message});
    let answer = Response::builder().status(status);
    let body = whole(status_object.to_string().into_bytes());
    answer.body(body).unwrap()
}

fn hub(server: &Arc<Mutex<FakeServer>>) -> Hub {
    let server = server.clone();
    let service = tower::service_fn(move |request: Request<Body>| {
        let query = request.uri().query().unwrap_or_default();
        let mut server = server.lock();
        let answer = server.answer(request.uri().path(), query);
        let panics = server.panics > 0;
        server.panics = server.panics.saturating_sub(1);
        let has_head =
            server.streaming != Streaming::NoHead || !query.contains("sendInitialEvents");
        async move {
            assert!(!panics, "a mistake");
            tokio::time::sleep(Duration::from_millis(500)).await; // a connection takes time
            if has_head {
                return Ok(answer);
            }
            let time_limit = Duration::from_secs(15);
            tokio::time::sleep(time_limit).await;
            Err(NoAnswer(time_limit))
        }
    });
    Hub::new(
        Client::new(service, "a"),
        Tasks::default(),
        Metrics::default(),
    )
}

fn maps() -> WatchKey {
    WatchKey::all(Kind::of::<ConfigMap>())
}

fn ships() -> WatchKey {
    WatchKey::all(Kind {
        group: "example.io".into(),
        version: "v1".into(),
        kind: "Ship".into(),
        plural: "ships".into(),
        namespaced: true,
    })
}

/// Long enough for the fall-back from a streamed list to pages.
const QUIET: Duration = Duration::from_secs(40);

/// Applies all changes that a reader receives to `objects`, until none comes for `QUIET`.
async fn receive(followed: &mut Followed, objects: &mut BTreeMap<ObjectKey, u64>) {
    while let Ok(change) = tokio::time::timeout(QUIET, followed.next()).await {
        match change {
            Change::Apply(object) => {
                objects.insert(object.key().clone(), object.version());
            }
            Change::Delete(object) => {
                objects.remove(object.key());
            }
            Change::Synced => {}
            Change::Resync => {
                *objects = followed
                    .store()
                    .all()
                    .iter()
                    .map(|o| (o.key().clone(), o.version()))
                    .collect();
            }
        }
    }
}

fn any_act() -> impl Strategy<Value = Act> {
    prop_oneof![
        4 => (0..6_u8).prop_map(Act::Put),
        2 => (0..6_u8).prop_map(Act::Delete),
        1 => Just(Act::Compact),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn readers_have_all_objects_after_any_interruptions(
        bursts in prop::collection::vec(prop::collection::vec(any_act(), 0..8), 1..6),
        cuts in prop::collection::vec(0..6_usize, 0..6),
        streaming in prop::sample::select(vec![
            Streaming::Yes, Streaming::Yes, Streaming::Yes, Streaming::Forbidden,
            Streaming::Unknown, Streaming::ErrorEvent, Streaming::Silent, Streaming::Short,
            Streaming::NoHead, Streaming::NoEvent, Streaming::Busy,
        ]),
        ghost in any::<bool>(),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
        runtime.block_on(async {
            let server = FakeServer { cuts, streaming, ghost, version: 1, ..FakeServer::default() };
            let server = Arc::new(Mutex::new(server));
            let hub = hub(&server);
            let mut followed = hub.follow(maps());
            let mut objects = BTreeMap::new();
            for burst in bursts {
                for act in &burst {
                    server.lock().act(act);
                }
                receive(&mut followed, &mut objects).await;
            }
            let existing: BTreeMap<_, _> = server.lock().objects.iter()
                .map(|(name, version)| (ObjectKey::namespaced("a", name.as_str()), *version)).collect();
            prop_assert_eq!(&objects, &existing);
            let stored: BTreeMap<_, _> = followed.store().all().iter().map(|o| (o.key().clone(), o.version())).collect();
            prop_assert_eq!(&stored, &existing);
            Ok(())
        })?;
    }
}

#[rstest]
#[case::the_list_never_ends(Streaming::Silent, 20)]
#[case::only_changes_come(Streaming::Busy, 25)]
#[case::no_response_comes(Streaming::NoHead, 35)]
#[case::the_text_is_no_event(Streaming::NoEvent, 20)]
#[tokio::test(start_paused = true)]
async fn a_list_that_is_not_streamed_is_read_by_pages(
    #[case] streaming: Streaming,
    #[case] seconds: u64,
) {
    let server = Arc::new(Mutex::new(FakeServer {
        streaming,
        version: 1,
        ..FakeServer::default()
    }));
    let cache = hub(&server).cache(maps());
    tokio::time::sleep(Duration::from_secs(seconds)).await;
    assert_eq!(cache.health(), Health::Synced);
}

#[tokio::test(start_paused = true)]
async fn a_long_list_is_streamed_to_its_end() {
    let server = Arc::new(Mutex::new(FakeServer {
        streaming: Streaming::Slow,
        version: 1,
        ..FakeServer::default()
    }));
    for n in 0..60 {
        server.lock().act(&Act::Put(n));
    }
    let cache = hub(&server).cache(maps());
    tokio::time::sleep(Duration::from_mins(4)).await;
    assert_eq!(cache.health(), Health::Starting);
    tokio::time::sleep(Duration::from_mins(2)).await;
    assert_eq!(cache.health(), Health::Synced);
    assert_eq!((cache.store().len(), server.lock().pages), (60, 0));
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_panics_is_restarted() {
    let server = Arc::new(Mutex::new(FakeServer {
        panics: 2,
        version: 1,
        ..FakeServer::default()
    }));
    let hub = hub(&server);
    let cache = hub.cache(maps());
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert_eq!(cache.health(), Health::Broken("panicked: a mistake".into()));
    tokio::time::sleep(Duration::from_secs(5)).await; // the back-offs are 1 s and 2 s
    assert_eq!(cache.health(), Health::Synced);
    let text = hub.metrics.text();
    let count = r#"pontoon_task_restarts_total{feature="engine",task="watch"} 2"#;
    assert!(text.contains(count), "{text}");
}

#[tokio::test(start_paused = true)]
async fn the_last_watch_of_a_kind_removes_its_series() {
    let server = Arc::new(Mutex::new(FakeServer {
        version: 1,
        ..FakeServer::default()
    }));
    let hub = hub(&server);
    let metrics = hub.metrics.clone();
    let series = || {
        let text = metrics.text();
        let lines = text.lines().filter(|line| line.contains("ConfigMap"));
        lines.map(str::to_owned).collect::<Vec<_>>()
    };
    let (first, second) = (
        hub.cache(maps()),
        hub.cache(maps().with_projection(Projection::Metadata)),
    );
    tokio::time::sleep(QUIET).await;
    first.reader.0.read("no object");
    let lag = &metrics.watch_lag;
    lag.get_or_create(&first.reader.0.label()).inc();
    assert_eq!(series().len(), 5, "{:?}", series());
    drop(first);
    tokio::time::sleep(GRACE * 2).await;
    assert_eq!(series().len(), 5, "the other watch uses them");
    drop(second);
    tokio::time::sleep(GRACE * 2).await;
    assert_eq!(series(), Vec::<String>::new());
    let _again = hub.cache(maps());
    tokio::time::sleep(QUIET).await;
    let watches = r#"pontoon_watches{cluster="own",kind="ConfigMap.v1"} 1"#;
    assert!(
        series().iter().any(|line| line == watches),
        "{:?}",
        series()
    );
}

#[tokio::test(start_paused = true)]
async fn readers_of_one_key_share_a_watch_until_the_last_ends() {
    let server = Arc::new(Mutex::new(FakeServer {
        version: 1,
        ..FakeServer::default()
    }));
    let hub = hub(&server);
    let (first, second) = (hub.follow(maps()), hub.cache(maps()));
    let other = hub.follow(maps().with_projection(Projection::Metadata));
    assert_eq!(hub.health().len(), 2);
    drop((first, other));
    tokio::time::sleep(GRACE * 2).await;
    assert_eq!(hub.health().len(), 1, "one watch still has a reader");
    drop(second);
    tokio::time::sleep(GRACE / 2).await;
    let back = hub.follow(maps());
    tokio::time::sleep(GRACE * 2).await;
    assert_eq!(
        hub.health().len(),
        1,
        "a reader came back within the grace period"
    );
    drop(back);
    tokio::time::sleep(GRACE * 2).await;
    assert_eq!(hub.health().len(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_slow_reader_gets_resync_and_delays_no_other_reader() {
    let server = Arc::new(Mutex::new(FakeServer {
        version: 1,
        ..FakeServer::default()
    }));
    let hub = hub(&server);
    let (mut slow, mut fast) = (hub.follow(maps()), hub.follow(maps()));
    assert!(matches!(slow.next().await, Change::Synced));
    for _ in 0..6000 {
        server.lock().act(&Act::Put(1));
    }
    let mut objects = BTreeMap::new();
    receive(&mut fast, &mut objects).await;
    assert_eq!(objects.values().copied().collect::<Vec<_>>(), [6001]);
    assert!(matches!(slow.next().await, Change::Resync));
}

#[rstest]
#[case::at_the_limit(256, false)]
#[case::one_more(257, true)]
#[tokio::test(start_paused = true)]
async fn a_reader_may_be_256_changes_behind(#[case] changes: u64, #[case] is_late: bool) {
    let server = Arc::new(Mutex::new(FakeServer {
        version: 1,
        ..FakeServer::default()
    }));
    let hub = hub(&server);
    let mut followed = hub.follow(maps());
    assert!(matches!(followed.next().await, Change::Synced));
    for version in 2..2 + changes {
        let json = FakeServer::object("o1", version).to_string();
        let object = Stored::read(&maps().kind, &json, &Projection::Full);
        followed.store().apply(object.unwrap());
    }
    let change = followed.next().await;
    assert_eq!(matches!(change, Change::Resync), is_late, "{change:?}");
}

/// A hub that has cached two ships; a third one was deleted.
async fn hub_of_ships(
    server: &Arc<Mutex<FakeServer>>,
) -> (Hub, Cache, Followed, BTreeMap<ObjectKey, u64>) {
    for act in [Act::Put(1), Act::Put(2), Act::Put(3), Act::Delete(2)] {
        server.lock().act(&act);
    }
    let hub = hub(server);
    let (cache, mut followed) = (hub.cache(ships()), hub.follow(ships()));
    let mut objects = BTreeMap::new();
    receive(&mut followed, &mut objects).await;
    assert_eq!((objects.len(), cache.health()), (2, Health::Synced));
    (hub, cache, followed, objects)
}

#[rstest]
#[case::it_is_listed(Discovery::Listed, false, Health::Unserved)]
#[case::another_version_has_it(Discovery::InOtherVersion, false, Health::Unserved)]
#[case::discovery_is_incomplete(Discovery::Partial, false, Health::Unserved)]
#[case::discovery_does_not_answer(Discovery::Fails, false, Health::Unserved)]
#[case::its_crd_is_there(Discovery::NoGroup, true, Health::Unserved)]
#[case::its_group_lacks_it(Discovery::NotListed, false, Health::Absent)]
#[case::its_group_is_gone(Discovery::NoGroup, false, Health::Absent)]
#[tokio::test(start_paused = true)]
async fn a_404_clears_the_cache_only_if_the_kind_is_absent(
    #[case] discovery: Discovery,
    #[case] crd: bool,
    #[case] health: Health,
) {
    let server = Arc::new(Mutex::new(FakeServer {
        crd,
        version: 1,
        ..FakeServer::default()
    }));
    let (hub, cache, mut followed, mut objects) = hub_of_ships(&server).await;
    let _crds = hub.cache(WatchKey::crds());
    tokio::time::sleep(QUIET).await;
    {
        let mut server = server.lock();
        (server.unserved, server.discovery) = (true, discovery);
    }
    receive(&mut followed, &mut objects).await;
    let is_absent = health == Health::Absent;
    assert_eq!(cache.health(), health);
    assert_eq!(cache.is_settled(), is_absent);
    assert_eq!(
        objects.len(),
        if is_absent { 0 } else { 2 },
        "what a reader has received"
    );
    assert_eq!(cache.store().len(), objects.len());

    server.lock().unserved = false;
    receive(&mut followed, &mut objects).await;
    assert_eq!((cache.health(), cache.is_settled()), (Health::Synced, true));
    assert_eq!(objects.len(), 2);
}

#[tokio::test(start_paused = true)]
async fn an_unserved_kind_stays_unserved_while_disconnected() {
    let server = Arc::new(Mutex::new(FakeServer {
        version: 1,
        ..FakeServer::default()
    }));
    let (_hub, cache, _followed, _) = hub_of_ships(&server).await;
    let watch = &cache.reader.0;
    watch.set_health(Health::Unserved);
    watch.set_health(Health::Broken("away".into()));
    assert!(!cache.is_settled());
    watch.set_health(Health::Synced);
    watch.set_health(Health::Broken("away".into()));
    assert!(cache.is_settled());
}

#[tokio::test(start_paused = true)]
async fn a_kind_is_retried_within_seconds_of_its_new_crd() {
    let server = Arc::new(Mutex::new(FakeServer {
        unserved: true,
        discovery: Discovery::NoGroup,
        version: 1,
        ..FakeServer::default()
    }));
    let hub = hub(&server);
    let cache = hub.cache(ships());
    tokio::time::sleep(Duration::from_mins(10)).await;
    assert_eq!(cache.health(), Health::Absent);
    hub.wake("example.io", "ships");
    tokio::time::sleep(Duration::from_millis(500)).await; // this API server does not serve it yet
    assert_eq!(cache.health(), Health::Absent);
    server.lock().unserved = false;
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(cache.health(), Health::Synced);
}

#[tokio::test(start_paused = true)]
async fn an_unserved_kind_is_retried_after_a_login() {
    let server = Arc::new(Mutex::new(FakeServer {
        unserved: true,
        version: 1,
        ..FakeServer::default()
    }));
    let hub = hub(&server);
    let cache = hub.cache(ships());
    tokio::time::sleep(Duration::from_mins(10)).await; // the pauses are 30 s now
    assert_eq!(cache.health(), Health::Unserved);
    server.lock().unserved = false;
    hub.retry_interrupted();
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(cache.health(), Health::Synced);
}

#[tokio::test(start_paused = true)]
async fn a_lagging_reader_of_crds_wakes_every_kind() {
    let server = Arc::new(Mutex::new(FakeServer {
        unserved: true,
        discovery: Discovery::NoGroup,
        version: 1,
        ..FakeServer::default()
    }));
    let hub = hub(&server);
    let (cache, crds) = (hub.cache(ships()), hub.follow(WatchKey::crds()));
    tokio::time::sleep(Duration::from_mins(10)).await;
    assert_eq!(cache.health(), Health::Absent);
    for version in 2..500_u32 {
        // More than the reader may be behind.
        let name = if version == 2 { "ships" } else { "boats" };
        let json = json!({"metadata": {"name": format!("{name}.example.io"), "uid": name,
            "resourceVersion": version.to_string()}});
        let crds_key = WatchKey::crds();
        let crd = Stored::read(&crds_key.kind, &json.to_string(), &crds_key.projection);
        crds.store().apply(crd.unwrap());
    }
    server.lock().unserved = false;
    let waking = hub.clone().wake_on_crds(crds);
    let woken = tokio::time::timeout(Duration::from_secs(2), waking).await;
    assert!(woken.is_err(), "it runs until it is dropped");
    assert_eq!(cache.health(), Health::Synced);
}

#[rstest]
#[case::after_a_silence(Bookmarks::Newer)]
#[case::after_an_old_bookmark(Bookmarks::All)]
#[tokio::test(start_paused = true)]
async fn the_older_state_of_a_restored_etcd_is_accepted(#[case] bookmarks: Bookmarks) {
    let server = Arc::new(Mutex::new(FakeServer {
        version: 100,
        bookmarks,
        ..FakeServer::default()
    }));
    let (_hub, cache, mut followed, mut objects) = hub_of_ships(&server).await;
    {
        let mut server = server.lock();
        server.version = 50;
        server.log.clear();
        server.objects = [("o1".to_owned(), 40), ("o9".to_owned(), 45)].into();
    }
    tokio::time::sleep(Duration::from_mins(2)).await; // longer than the server's longest silence
    receive(&mut followed, &mut objects).await;
    let restored = [("o1", 40), ("o9", 45)];
    let restored = restored.map(|(name, version)| (ObjectKey::namespaced("a", name), version));
    assert_eq!(objects, restored.into());
    assert_eq!(cache.health(), Health::Synced);

    server.lock().act(&Act::Put(1));
    receive(&mut followed, &mut objects).await;
    assert_eq!(objects[&ObjectKey::namespaced("a", "o1")], 51);
}

#[tokio::test(start_paused = true)]
async fn a_cache_is_fresh_while_the_server_sends() {
    let server = Arc::new(Mutex::new(FakeServer {
        version: 1,
        ..FakeServer::default()
    }));
    let clock = Arc::new(TestClock::new());
    let hub = hub(&server).with_clock(clock.clone());
    let cache = hub.cache(ships());
    let is_fresh = || cache.is_fresh_within(Duration::from_mins(5));
    assert!(!is_fresh(), "nothing is cached yet");
    tokio::time::sleep(QUIET).await;
    assert!(is_fresh());
    clock.advance(Duration::from_mins(6));
    assert!(!is_fresh() && cache.is_settled(), "no event since then");
    server.lock().act(&Act::Put(1));
    tokio::time::sleep(QUIET).await;
    assert!(is_fresh());
    server.lock().unserved = true;
    tokio::time::sleep(QUIET).await;
    assert!(!is_fresh(), "unserved, but not confirmed to be absent");
    server.lock().discovery = Discovery::NoGroup;
    tokio::time::sleep(QUIET).await;
    clock.advance(Duration::from_mins(6));
    assert!(is_fresh(), "the kind is confirmed to be absent");
}
