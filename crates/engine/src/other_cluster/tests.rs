use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};

use axum::Router;
use http::{Method, Request, Response};
use k8s_openapi::api::core::v1::ConfigMap;
use kernel::Progress;
use kube::api::{Api, PostParams};
use kube::client::Body;
use rstest::rstest;
use serde_json::{Value, json};
use tower::BoxError;

use super::*;
use crate::deck::tests::{Log, endless, leading_deck, reading_deck, until};
use crate::events::Note;
use crate::{ApiError, ControllerSpec, Kind, Pass, Reconcile, Usage};

fn maps() -> WatchKey {
    WatchKey::all(Kind::of::<ConfigMap>())
}

/// A server with one ConfigMap, if the switch is on; it logs the paths of writes.
fn other_cluster(deck: &Deck, is_served: &Arc<AtomicBool>, writes: &Log) -> OtherCluster {
    let (is_served, writes) = (is_served.clone(), writes.clone());
    let answer = move |request: Request<Body>| {
        let (is_served, writes) = (is_served.load(Ordering::SeqCst), writes.clone());
        async move {
            let query = request.uri().query().unwrap_or_default();
            if request.method() != Method::GET {
                writes.lock().push(request.uri().path().to_owned());
                let event = json!({"apiVersion": "events.k8s.io/v1", "kind": "Event",
                    "metadata": {"name": "e"}, "eventTime": null});
                return Ok(Response::new(Body::from(event.to_string().into_bytes())));
            }
            if !is_served {
                return Err(BoxError::from("connection refused"));
            }
            if query.contains("resourceVersion=") {
                std::future::pending::<()>().await; // a watch without events
            }
            let end = json!({"k8s.io/initial-events-end": "true"});
            let metadata =
                json!({"name": "m", "namespace": "a", "uid": "u", "resourceVersion": "1"});
            let events = [
                json!({"type": "ADDED", "object": {"metadata": metadata}}),
                json!({"type": "BOOKMARK",
                    "object": {"metadata": {"resourceVersion": "2", "annotations": end}}}),
            ];
            let text = events.map(|event| format!("{event}\n")).concat();
            Ok::<_, BoxError>(Response::new(Body::from(text.into_bytes())))
        }
    };
    let clients = crate::client::tests::clients(8, answer).of_other_cluster();
    deck.connect("other", clients, &[])
}

fn served() -> Arc<AtomicBool> {
    Arc::new(AtomicBool::new(true))
}

#[tokio::test(start_paused = true)]
async fn a_closed_cluster_has_no_controller_watch_or_series() {
    let (tasks, log) = (Tasks::default(), Log::default());
    let own = leading_deck(&tasks);
    let other = other_cluster(&own, &served(), &Log::default());
    let own_controller = own.control(endless("own", &log));
    until(|| log.lock().len() == 1).await;
    let controller = other.deck().control(endless("other", &log));
    let cache = other.hub().cache(maps());
    until(|| log.lock().len() == 2 && cache.is_settled()).await;
    let series = |of: &str| {
        let text = own.metrics.text();
        text.lines().filter(|line| line.contains(of)).count()
    };
    assert!(series(r#"pontoon_watches{cluster="own",kind="ConfigMap.v1"} 1"#) == 1);
    assert!(series(r#"pontoon_watches{cluster="other",kind="ConfigMap.v1"} 1"#) == 1);
    let passes = |cluster: &str| {
        let labels = format!(r#"cluster="{cluster}",feature="f",group="",kind="ConfigMap""#);
        series(&format!("pontoon_passes_in_flight{{{labels}}} 1"))
    };
    assert_eq!((passes("own"), passes("other")), (1, 1));
    assert_eq!(own.other_clusters.health().len(), 1);
    assert_eq!(own.controllers.kinds().len(), 2);

    tokio::time::timeout(Duration::from_secs(3), other.close())
        .await
        .expect("it does not wait for the pass");
    assert_eq!(*log.lock(), ["own begins", "other begins", "other ends"]);
    assert_eq!(series(r#"cluster="other""#), 0);
    assert!(series(r#"kind="ConfigMap",priority"#) > 0, "the own one");
    assert_eq!(own.other_clusters.health().len(), 0);
    assert_eq!(own.controllers.kinds().len(), 1);
    assert!(!cache.is_settled());
    assert!(!other.hub().cache(maps()).is_settled());
    assert_eq!(series(r#"cluster="other""#), 0, "no watch begins");
    let maps = Api::<ConfigMap>::namespaced(other.deck().client.clone(), "a");
    let refused = maps.get("m").await.unwrap_err();
    let message = crate::error::chain(&refused);
    assert!(message.contains("nothing was sent"), "{message}");
    controller.stop().await;
    other.deck().control(endless("late", &log)).stop().await;
    assert_eq!(own.controllers.kinds().len(), 1);
    other.close().await;
    own_controller.end();
    tasks.kill().await;
}

#[tokio::test(start_paused = true)]
async fn restarts_of_tasks_are_counted_by_cluster_until_it_is_closed() {
    let tasks = Tasks::default();
    let own = leading_deck(&tasks);
    let other = other_cluster(&own, &served(), &Log::default());
    own.task("sweep", || async { panic!("a mistake") });
    other.deck().task("sweep", || async { panic!("a mistake") });
    until(|| own.restarts.lock().len() == 2).await;
    other.close().await;
    let remaining: Vec<_> = own.restarts.lock().keys().cloned().collect();
    assert_eq!(remaining, [own.task_name("sweep")]);
    tasks.kill().await;
}

#[tokio::test]
async fn a_server_belongs_to_no_other_cluster() {
    let tasks = Tasks::default();
    let own = leading_deck(&tasks);
    let other = other_cluster(&own, &served(), &Log::default());
    let address = "127.0.0.1:0".parse().unwrap();
    let refused = other
        .deck()
        .serve("web-http-address", address, Router::new(), None);
    let Usage(message) = refused.unwrap_err();
    assert!(message.contains("--web-http-address"), "{message}");
    tasks.kill().await;
}

#[tokio::test(start_paused = true)]
async fn a_controller_of_a_closed_cluster_creates_no_series() {
    let tasks = Tasks::default();
    let own = leading_deck(&tasks);
    let other = other_cluster(&own, &served(), &Log::default());
    other.close().await;
    for _ in 0..20 {
        other.deck().control(endless("late", &Log::default()));
    }
    other.deck.passes.finish().await;
    let text = own.metrics.text();
    let has_series = text.to_lowercase().contains("configmap");
    assert!(!has_series, "{text}");
    tasks.kill().await;
}

#[tokio::test(start_paused = true)]
async fn a_reopened_cluster_waits_for_the_passes_of_the_closed_one() {
    let (tasks, log) = (Tasks::default(), Log::default());
    let own = leading_deck(&tasks);
    let old = other_cluster(&own, &served(), &Log::default());
    old.deck().control(endless("old", &log));
    until(|| log.lock().len() == 1).await;
    let mut closing = pin!(old.close());
    assert!(futures::poll!(&mut closing).is_pending(), "a pass runs");
    let reopened = other_cluster(&own, &served(), &Log::default());
    reopened.deck().control(endless("new", &log));
    let begun = until(|| log.lock().len() == 3);
    futures::future::join(closing, begun).await;
    assert_eq!(*log.lock(), ["old begins", "old ends", "new begins"]);
    tasks.kill().await;
}

#[tokio::test(start_paused = true)]
async fn an_ending_controller_delays_none_of_another_cluster() {
    let (tasks, log) = (Tasks::default(), Log::default());
    let own = leading_deck(&tasks);
    let other = other_cluster(&own, &served(), &Log::default());
    let ending = own.control(endless("own", &log));
    until(|| log.lock().len() == 1).await;
    ending.end();
    other.deck().control(endless("other", &log));
    until(|| log.lock().len() == 3).await;
    assert_eq!(*log.lock(), ["own begins", "other begins", "own ends"]);
    tasks.kill().await;
}

/// Records an event in each pass.
struct Announcer;

impl Reconcile for Announcer {
    type Object = Value;
    type Error = ApiError;

    async fn reconcile(&self, _: &Value, pass: &mut Pass) -> Result<Progress, ApiError> {
        pass.event(Note::normal("Seen", "by a pass"));
        Ok(Progress::done())
    }
}

#[tokio::test(start_paused = true)]
async fn events_go_to_the_cluster_of_their_object() {
    let (tasks, writes) = (Tasks::default(), Log::default());
    let own = leading_deck(&tasks);
    let other = other_cluster(&own, &served(), &writes);
    other.deck().control(ControllerSpec::new(maps(), Announcer));
    until(|| !writes.lock().is_empty()).await;
    assert_eq!(
        *writes.lock(),
        ["/apis/events.k8s.io/v1/namespaces/a/events"]
    );
    tasks.kill().await;
}

#[rstest]
#[case::all_open(true, true)]
#[case::the_lead_is_lost(false, true)]
#[case::the_identity_is_not_verified(true, false)]
#[tokio::test]
async fn a_write_needs_every_guard(#[case] leads: bool, #[case] is_verified: bool) {
    let guard = |is_open| {
        if is_open {
            Guard::always()
        } else {
            Guard::closed()
        }
    };
    let tasks = Tasks::default();
    let own = Deck {
        guards: vec![guard(leads)],
        ..leading_deck(&tasks)
    };
    let options = OtherClusterOptions {
        guards: vec![guard(is_verified)],
        ..OtherClusterOptions::default()
    };
    let other = own.other_cluster("other", nowhere(), options).unwrap();
    let other = other.deck();
    assert_eq!(is_refused(&other.client).await, !(leads && is_verified));
    let is_refused = is_refused(&other.versioned_client).await;
    assert_eq!(is_refused, !is_verified, "it needs no Lease");
    tasks.kill().await;
}

/// An address at which no server listens.
fn nowhere() -> Config {
    Config::new("http://127.0.0.1:9".parse().unwrap())
}

/// Whether a guard refuses a create. Otherwise it fails because no server listens.
async fn is_refused(client: &kube::Client) -> bool {
    let api = Api::<ConfigMap>::namespaced(client.clone(), "a");
    let created = api
        .create(&PostParams::default(), &ConfigMap::default())
        .await;
    let error = ApiError::classify("create", created.unwrap_err());
    matches!(error, ApiError::Deposed { .. })
}

#[tokio::test]
async fn a_deck_for_reading_writes_to_no_other_cluster() {
    let tasks = Tasks::default();
    let own = reading_deck(&tasks);
    let other = own.other_cluster("other", nowhere(), OtherClusterOptions::default());
    let other = other.unwrap();
    assert!(is_refused(&other.deck().client).await);
    assert!(is_refused(&other.deck().versioned_client).await);
    tasks.kill().await;
}

#[tokio::test(start_paused = true)]
async fn interrupted_watches_are_retried_at_once_after_a_login() {
    let (tasks, is_served) = (Tasks::default(), Arc::new(AtomicBool::new(false)));
    let own = leading_deck(&tasks);
    let other = other_cluster(&own, &is_served, &Log::default());
    let cache = other.hub().cache(maps());
    tokio::time::sleep(Duration::from_mins(5)).await; // the pauses are about 10 s now
    is_served.store(true, Ordering::SeqCst);
    other.hub().retry_interrupted();
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert_eq!(cache.health(), Health::Synced);
    tasks.kill().await;
}

#[rstest]
#[case::without_watches(&[], true, "0 of 0 watches are up to date")]
#[case::up_to_date(&[Health::Synced, Health::Absent], true, "2 of 2 watches are up to date")]
#[case::listing(&[Health::Starting, Health::Synced], false, "1 of 2 watches are up to date")]
#[case::unserved(&[Health::Unserved], false, "0 of 1 watches are up to date")]
#[case::away(&[Health::Synced, Health::Broken("refused".into())], false,
    "1 of 2 watches are up to date; interrupted: refused")]
fn the_state_of_a_cluster(
    #[case] watches: &[Health],
    #[case] is_fine: bool,
    #[case] expected: &str,
) {
    let health = ClusterHealth {
        title: "f/other".to_owned(),
        name: "other".into(),
        watches: watches.iter().map(|one| (maps(), one.clone())).collect(),
    };
    assert_eq!(health.state(), (is_fine, expected.to_owned()));
}
