//! Scripted watches: a server in memory that ends, expires and refuses at will.

use std::collections::BTreeMap;
use std::convert::Infallible;

use http::{Request, Response};
use k8s_openapi::api::core::v1::ConfigMap;
use kernel::ObjectKey;
use kube::client::Body;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

/// What the server in memory holds, and all that ever happened to it.
#[derive(Default)]
struct Sea {
    version: u64,
    objects: BTreeMap<String, u64>,
    log: Vec<(u64, &'static str, String, u64)>,
    /// Versions up to this one are forgotten: a watch from there is answered 410.
    forgotten: u64,
    /// How many more connections end after so many events.
    cuts: Vec<usize>,
    streaming: bool,
}

#[derive(Debug, Clone)]
enum Act {
    Put(u8),
    Delete(u8),
    Forget,
}

impl Sea {
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
            Act::Forget => self.forgotten = self.version,
        }
    }

    fn object(name: &str, version: u64) -> Value {
        json!({"metadata": {"name": name, "namespace": "a", "uid": name, "resourceVersion": version.to_string()}})
    }

    fn answer(&mut self, query: &str) -> Response<Body> {
        let cut = self.cuts.pop().unwrap_or(usize::MAX);
        let line = |change: &str, object: Value| {
            format!("{}\n", json!({"type": change, "object": object}))
        };
        let end = |version: u64| {
            let metadata = json!({"resourceVersion": version.to_string(), "annotations": {"k8s.io/initial-events-end": "true"}});
            line("BOOKMARK", json!({"metadata": metadata}))
        };
        let from = query
            .split('&')
            .find_map(|part| part.strip_prefix("resourceVersion="));
        let lines: Vec<String> = if let Some(from) = from {
            let from: u64 = from.parse().unwrap();
            if from < self.forgotten {
                // The server says so in its answer, or in the stream.
                let status = json!({"code": 410, "reason": "Expired", "message": "too old"});
                let (code, text) = if from.is_multiple_of(2) {
                    (410, status.to_string())
                } else {
                    (200, line("ERROR", status))
                };
                let answer = Response::builder().status(code);
                return answer.body(Body::from(text.into_bytes())).unwrap();
            }
            let news = self.log.iter().filter(|(version, ..)| *version > from);
            news.map(|(_, change, name, version)| line(change, Self::object(name, *version)))
                .collect()
        } else if query.contains("sendInitialEvents") {
            if !self.streaming {
                let status = json!({"message": "sendInitialEvents is forbidden", "code": 422});
                return Response::builder()
                    .status(422)
                    .body(Body::from(status.to_string().into_bytes()))
                    .unwrap();
            }
            let all = self
                .objects
                .iter()
                .map(|(name, version)| line("ADDED", Self::object(name, *version)));
            all.chain([end(self.version)]).collect()
        } else {
            let items: Vec<_> = self
                .objects
                .iter()
                .map(|(name, version)| Self::object(name, *version))
                .collect();
            let list =
                json!({"metadata": {"resourceVersion": self.version.to_string()}, "items": items});
            return Response::new(Body::from(list.to_string().into_bytes()));
        };
        let text: String = lines.into_iter().take(cut).collect();
        Response::new(Body::from(text.into_bytes()))
    }
}

fn hub(sea: &Arc<Mutex<Sea>>) -> Hub {
    let sea = sea.clone();
    let server = tower::service_fn(move |request: Request<Body>| {
        let answer = sea.lock().answer(request.uri().query().unwrap_or_default());
        async move {
            tokio::time::sleep(Duration::from_millis(10)).await; // connections are not free
            Ok::<_, Infallible>(answer)
        }
    });
    Hub::new(
        Client::new(server, "a"),
        Tasks::default(),
        Metrics::default(),
    )
}

fn maps() -> WatchKey {
    WatchKey::all(Kind::of::<ConfigMap>())
}

/// What a reader that believes all it is told would hold.
async fn listen(followed: &mut Followed, held: &mut BTreeMap<ObjectKey, u64>) {
    while let Ok(change) = tokio::time::timeout(Duration::from_secs(15), followed.next()).await {
        match change {
            Change::Apply(object) => {
                held.insert(object.key().clone(), object.version());
            }
            Change::Delete(object) => {
                held.remove(object.key());
            }
            Change::Synced => {}
            Change::Resync => {
                *held = followed
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
        1 => Just(Act::Forget),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn whatever_happens_to_the_connection_readers_end_up_with_what_is_there(
        bursts in prop::collection::vec(prop::collection::vec(any_act(), 0..8), 1..6),
        cuts in prop::collection::vec(0..6_usize, 0..6),
        streaming in any::<bool>(),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
        runtime.block_on(async {
            let sea = Arc::new(Mutex::new(Sea { cuts, streaming, version: 1, ..Sea::default() }));
            let hub = hub(&sea);
            let mut followed = hub.follow(maps());
            let mut held = BTreeMap::new();
            for burst in bursts {
                for act in &burst {
                    sea.lock().act(act);
                }
                listen(&mut followed, &mut held).await;
            }
            let there: BTreeMap<_, _> = sea.lock().objects.iter()
                .map(|(name, version)| (ObjectKey::namespaced("a", name.as_str()), *version)).collect();
            prop_assert_eq!(&held, &there);
            let stored: BTreeMap<_, _> = followed.store().all().iter().map(|o| (o.key().clone(), o.version())).collect();
            prop_assert_eq!(&stored, &there);
            Ok(())
        })?;
    }
}

#[tokio::test(start_paused = true)]
async fn those_who_ask_the_same_share_one_watch_and_it_ends_after_the_last_of_them() {
    let sea = Arc::new(Mutex::new(Sea {
        streaming: true,
        version: 1,
        ..Sea::default()
    }));
    let hub = hub(&sea);
    let (first, second) = (hub.follow(maps()), hub.cache(maps()));
    let other = hub.follow(maps().keep(Projection::Metadata));
    assert_eq!(hub.health().len(), 2);
    drop((first, other));
    tokio::time::sleep(GRACE * 2).await;
    assert_eq!(hub.health().len(), 1, "one is still read");
    drop(second);
    tokio::time::sleep(GRACE / 2).await;
    let back = hub.follow(maps());
    tokio::time::sleep(GRACE * 2).await;
    assert_eq!(
        hub.health().len(),
        1,
        "it came back within the grace period"
    );
    drop(back);
    tokio::time::sleep(GRACE * 2).await;
    assert_eq!(hub.health().len(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_reader_that_falls_behind_is_told_to_look_again_and_holds_up_nobody() {
    let sea = Arc::new(Mutex::new(Sea {
        streaming: true,
        version: 1,
        ..Sea::default()
    }));
    let hub = hub(&sea);
    let (mut slow, mut quick) = (hub.follow(maps()), hub.follow(maps()));
    assert!(matches!(slow.next().await, Change::Synced));
    for _ in 0..6000 {
        sea.lock().act(&Act::Put(1));
    }
    let mut held = BTreeMap::new();
    listen(&mut quick, &mut held).await;
    assert_eq!(held.values().copied().collect::<Vec<_>>(), [6001]);
    assert!(matches!(slow.next().await, Change::Resync));
}
