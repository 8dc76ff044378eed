use std::convert::Infallible;
use std::sync::atomic::{AtomicU32, Ordering};

use http::{Request, Response};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::api::{Api, PostParams};
use kube::client::Body;
use serde_json::{Value, json};

use super::*;
use crate::{ApiError, Reconcile, WatchKey};
use kernel::Progress;

/// A deck for reading. No server listens at the API server's address.
pub(crate) fn reading_deck(tasks: &Tasks) -> Deck {
    rustls::crypto::aws_lc_rs::default_provider()
        .install_default()
        .ok();
    let nowhere = "http://127.0.0.1:9".parse().unwrap();
    let metrics = Metrics::default();
    let clients = Clients::new(kube::Config::new(nowhere), 1, metrics.clone()).unwrap();
    let cluster = ClusterId::new("c").unwrap();
    Deck::for_reading("f", &clients, metrics, cluster, "n".into(), tasks)
}

/// A deck that leads, in a cluster with one ConfigMap.
pub(crate) fn leading_deck(tasks: &Tasks) -> Deck {
    let server = tower::service_fn(|request: Request<Body>| async move {
        let query = request.uri().query().unwrap_or_default();
        if query.contains("resourceVersion=") {
            std::future::pending::<()>().await; // a watch without events
        }
        let end = json!({"k8s.io/initial-events-end": "true"});
        let map = json!({"metadata": {"name": "m", "namespace": "a", "uid": "u", "resourceVersion": "1"}});
        let events = [
            json!({"type": "ADDED", "object": map}),
            json!({"type": "BOOKMARK",
                "object": {"metadata": {"resourceVersion": "2", "annotations": end}}}),
        ];
        let text = events.map(|event| format!("{event}\n")).concat();
        Ok::<_, Infallible>(Response::new(Body::from(text.into_bytes())))
    });
    let client = Client::new(server, "a");
    let deck = reading_deck(tasks);
    let (leads, leading) = watch::channel(true);
    std::mem::forget(leads); // the deck always leads
    Deck {
        hub: Hub::new(client.clone(), tasks.child(), deck.metrics.clone()),
        client,
        guards: vec![Guard::always()],
        versioned_guards: Vec::new(),
        leading,
        ..deck
    }
}

pub(crate) type Log = Arc<Mutex<Vec<String>>>;

/// A reconciler whose passes never end by themselves.
struct Endless(&'static str, Log);

/// Logs the end of a pass, also when the pass is dropped.
struct EndLogger<'a>(&'a Endless);

impl Drop for EndLogger<'_> {
    fn drop(&mut self) {
        self.0.1.lock().push(format!("{} ends", self.0.0));
    }
}

impl Reconcile for Endless {
    type Object = Value;
    type Error = ApiError;

    async fn reconcile(&self, _: &Value, _: &mut Pass) -> Result<Progress, ApiError> {
        self.1.lock().push(format!("{} begins", self.0));
        let _end = EndLogger(self);
        std::future::pending().await
    }
}

pub(crate) fn endless(name: &'static str, log: &Log) -> ControllerSpec {
    let maps = WatchKey::all(Kind::of::<ConfigMap>());
    ControllerSpec::new(maps, Endless(name, log.clone()))
}

pub(crate) async fn until(condition: impl Fn() -> bool) {
    let check = async {
        while !condition() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    let in_time = tokio::time::timeout(Duration::from_secs(60), check).await;
    in_time.expect("the condition becomes true within a minute");
}

#[tokio::test]
async fn a_deck_for_reading_refuses_every_write() {
    let tasks = Tasks::default();
    // No server listens, so a write that was sent would fail with another message.
    let deck = reading_deck(&tasks);
    let api = Api::<Namespace>::all(deck.client.clone());
    let refused = api
        .create(&PostParams::default(), &Namespace::default())
        .await;
    let message = crate::error::chain(&refused.unwrap_err());
    assert!(message.contains("no longer holds"), "{message}");
    assert!(deck.guards.iter().all(|guard| guard.check().is_err()));
}

#[tokio::test(start_paused = true)]
async fn a_controller_drops_its_passes_before_the_next_begins() {
    let (tasks, log) = (Tasks::default(), Log::default());
    let deck = leading_deck(&tasks);
    let first = deck.control(endless("first", &log));
    until(|| log.lock().len() == 1).await;
    first.end();
    let second = deck.control(endless("second", &log));
    until(|| log.lock().len() == 3).await;
    assert_eq!(*log.lock(), ["first begins", "first ends", "second begins"]);
    let stopped = tokio::time::timeout(Duration::from_secs(2), second.stop()).await;
    assert!(stopped.is_ok(), "stop() does not wait for the pass");
    assert_eq!(log.lock().last().unwrap(), "second ends");
    tasks.kill().await;
}

#[tokio::test(start_paused = true)]
async fn the_series_of_an_ended_controller_are_removed() {
    let (tasks, log) = (Tasks::default(), Log::default());
    let deck = leading_deck(&tasks);
    let first = deck.control(endless("first", &log));
    let other = Kind {
        group: "other.example".into(),
        ..Kind::of::<ConfigMap>()
    };
    let other = ControllerSpec::new(WatchKey::all(other), Endless("other", log.clone()));
    let second = deck.control(other);
    until(|| log.lock().len() == 2).await;
    let series = |of: &str| {
        let text = deck.metrics.text();
        text.lines().filter(|line| line.contains(of)).count()
    };
    assert!(series(r#"group="",kind="ConfigMap""#) > 0);
    first.stop().await;
    assert_eq!(series(r#"group="",kind="ConfigMap""#), 0);
    assert!(series(r#"group="other.example",kind="ConfigMap""#) > 0);
    assert!(
        series(r#"controller="configmap""#) > 0,
        "the other controller uses them"
    );
    second.stop().await;
    tokio::time::sleep(Duration::from_mins(2)).await; // its watch ends after a grace period
    assert_eq!(series("ConfigMap") + series("configmap"), 0);
    tasks.kill().await;
}

#[tokio::test(start_paused = true)]
async fn a_task_that_panics_is_counted_and_restarted() {
    let (tasks, runs) = (Tasks::default(), Arc::new(AtomicU32::new(0)));
    let deck = leading_deck(&tasks);
    let counted = runs.clone();
    deck.task("sweep", move || {
        let run = counted.fetch_add(1, Ordering::SeqCst);
        async move {
            assert!(run > 1, "a mistake");
            std::future::pending::<()>().await;
        }
    });
    until(|| runs.load(Ordering::SeqCst) == 3).await;
    assert_eq!(deck.restarts.lock()[&deck.task_name("sweep")], 2);
    let text = deck.metrics.text();
    let count = r#"pontoon_task_restarts_total{feature="f",task="sweep"} 2"#;
    assert!(text.contains(count), "{text}");
    tasks.kill().await;
}

/// Work that never ends, and that logs when it begins and when it is dropped.
fn endless_work(
    log: &Log,
) -> impl Fn() -> futures::future::BoxFuture<'static, ()> + Send + Sync + use<> {
    struct DropLogger(Log);
    impl Drop for DropLogger {
        fn drop(&mut self) {
            self.0.lock().push("dropped".to_owned());
        }
    }
    let log = log.clone();
    move || {
        log.lock().push("began".to_owned());
        let end = DropLogger(log.clone());
        Box::pin(async move {
            let _end = end;
            std::future::pending::<()>().await;
        })
    }
}

#[tokio::test(start_paused = true)]
async fn a_task_on_every_replica_runs_without_the_lease() {
    let (tasks, log) = (Tasks::default(), Log::default());
    let deck = reading_deck(&tasks); // it never leads
    deck.task("sweep", endless_work(&Log::clone(&log)));
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(log.lock().len(), 0);
    deck.task_on_every_replica("server", endless_work(&log));
    until(|| *log.lock() == ["began"]).await;
    tasks.kill().await;
    assert_eq!(*log.lock(), ["began", "dropped"]);
}

#[tokio::test(start_paused = true)]
async fn a_task_on_every_replica_is_restarted_after_a_panic() {
    let (tasks, runs) = (Tasks::default(), Arc::new(AtomicU32::new(0)));
    let deck = reading_deck(&tasks);
    let counted = runs.clone();
    let task = deck.task_on_every_replica("server", move || {
        let run = counted.fetch_add(1, Ordering::SeqCst);
        async move {
            assert!(run > 0, "a mistake");
            std::future::pending::<()>().await;
        }
    });
    until(|| runs.load(Ordering::SeqCst) == 2).await;
    let name = deck.task_name("server");
    assert_eq!(deck.restarts.lock()[&name], 1);
    task.stop().await;
    assert!(!deck.restarts.lock().contains_key(&name), "it has ended");
    tasks.kill().await;
}

#[tokio::test(start_paused = true)]
async fn a_stopped_task_is_dropped_and_others_go_on() {
    let tasks = Tasks::default();
    let deck = leading_deck(&tasks);
    let logs = [(); 3].map(|()| Log::default());
    let [first, second, third] = &logs;
    let led = deck.task("led", endless_work(first));
    let everywhere = deck.task_on_every_replica("everywhere", endless_work(second));
    drop(deck.task("other", endless_work(third)));
    until(|| logs.iter().all(|log| log.lock().len() == 1)).await;
    led.stop().await;
    everywhere.stop().await;
    tokio::time::sleep(Duration::from_mins(10)).await;
    assert_eq!(*first.lock(), ["began", "dropped"]);
    assert_eq!(*second.lock(), ["began", "dropped"]);
    assert_eq!(*third.lock(), ["began"]);
    tasks.kill().await;
}

#[tokio::test]
async fn a_shared_task_runs_for_one_feature_at_a_time() {
    let (tasks, log) = (Tasks::default(), Log::default());
    let second = leading_deck(&tasks);
    let (leads, leading) = watch::channel(true);
    let first = Deck {
        leading,
        ..second.clone()
    };
    let attend = |deck: &Deck, name| {
        let log = log.clone();
        deck.shared_task("attend", move || {
            let endless = Endless(name, log.clone());
            async move {
                endless.1.lock().push(format!("{name} begins"));
                let _end = EndLogger(&endless);
                std::future::pending::<()>().await;
            }
        });
    };
    attend(&first, "first");
    until(|| log.lock().len() == 1).await;
    attend(&second, "second");
    let early = tokio::time::timeout(Duration::from_millis(50), until(|| log.lock().len() > 1));
    assert!(early.await.is_err(), "{:?}", log.lock());
    leads.send(false).unwrap();
    until(|| log.lock().len() == 3).await;
    assert_eq!(*log.lock(), ["first begins", "first ends", "second begins"]);
    tasks.kill().await;
}

#[tokio::test]
async fn a_deck_for_reading_refuses_versioned_writes_too() {
    let tasks = Tasks::default();
    let deck = reading_deck(&tasks);
    let api = Api::<Namespace>::all(deck.versioned_client.clone());
    let refused = api
        .create(&PostParams::default(), &Namespace::default())
        .await;
    let message = crate::error::chain(&refused.unwrap_err());
    assert!(message.contains("no longer holds"), "{message}");
}

#[tokio::test]
async fn decks_of_one_process_share_values() {
    let tasks = Tasks::default();
    let deck = leading_deck(&tasks);
    let other = Deck {
        feature: "other".to_owned(),
        ..deck.clone()
    };
    assert_eq!(
        *deck
            .shared::<String>()
            .get_or_init(async || "a".to_owned())
            .await,
        "a"
    );
    assert_eq!(
        other.shared::<String>().get().map(String::as_str),
        Some("a")
    );
    assert_eq!(reading_deck(&tasks).shared::<String>().get(), None);
    tasks.kill().await;
}
