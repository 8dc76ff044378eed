//! Whom a person waits for, across changes of the leader.

use std::convert::Infallible;

use http::{Request, Response};
use k8s_openapi::api::core::v1::ConfigMap;
use kernel::TestClock;
use kube::client::Body;
use serde_json::{Value, json};

use super::*;
use crate::hub::WatchKey;
use crate::{ApiError, Kind};

/// Every edit there was, as (name, text); the version is the place in the list.
type Log = Arc<Mutex<Vec<(&'static str, &'static str)>>>;
/// Every pass there was: whose, and whether a person waits for it.
type Passed = Arc<Mutex<Vec<(String, bool)>>>;

/// Answers a watch with what was logged since, and closes it.
fn answer(log: &Log, query: &str) -> Response<Body> {
    let line =
        |change: &str, object: Value| format!("{}\n", json!({"type": change, "object": object}));
    let mut parts = query.split('&');
    let from = parts.find_map(|part| part.strip_prefix("resourceVersion="));
    let log = log.lock();
    let known = from.map_or(0, |from| from.parse().unwrap());
    let edits = log.iter().enumerate().skip(known);
    let mut lines: Vec<String> = edits
        .map(|(place, (name, text))| {
            let version = (place + 1).to_string();
            let metadata =
                json!({"name": name, "namespace": "a", "uid": name, "resourceVersion": version});
            line(
                "MODIFIED",
                json!({"metadata": metadata, "data": {"text": text}}),
            )
        })
        .collect();
    if from.is_none() {
        let end = json!({"k8s.io/initial-events-end": "true"});
        let metadata = json!({"resourceVersion": log.len().to_string(), "annotations": end});
        lines.push(line("BOOKMARK", json!({"metadata": metadata})));
    }
    Response::new(Body::from(lines.concat().into_bytes()))
}

struct Recorder(Passed);

impl Reconcile for Recorder {
    type Object = Value;
    type Error = ApiError;

    async fn reconcile(&self, _: &Value, pass: &mut Pass) -> Result<Progress, ApiError> {
        let name = pass.key().name.to_string();
        self.0.lock().push((name, pass.is_asked_for()));
        Ok(Progress::done())
    }
}

/// A replica with one controller, and the cluster it looks at.
struct Replica {
    log: Log,
    passed: Passed,
    clock: Arc<TestClock>,
    leading: watch::Sender<bool>,
    tasks: Tasks,
}

impl Replica {
    /// A standby.
    fn start() -> Self {
        let log = Log::default();
        let logged = log.clone();
        let server = tower::service_fn(move |request: Request<Body>| {
            let answer = answer(&logged, request.uri().query().unwrap_or_default());
            async move { Ok::<_, Infallible>(answer) }
        });
        let client = Client::new(server, "a");
        let (metrics, tasks) = (Metrics::default(), Tasks::default());
        let clock = Arc::new(TestClock::new());
        let shared: SharedClock = clock.clone();
        let (events, _unsent) =
            Events::new(client.clone(), shared.clone(), metrics.clone(), "me".into());
        let (leading, leads) = watch::channel(false);
        let around = Surroundings {
            feature: "f".into(),
            hub: Hub::new(client.clone(), tasks.child(), metrics.clone()),
            client,
            clock: shared,
            metrics,
            events,
            concurrency: 4,
            leading: leads,
        };
        let passed = Passed::default();
        let maps = WatchKey::all(Kind::of::<ConfigMap>());
        let spec = ControllerSpec::new(maps, Recorder(passed.clone()));
        Controller::start(spec, around, &tasks);
        Self {
            log,
            passed,
            clock,
            leading,
            tasks,
        }
    }

    /// What an edit, or taking the lead, leads to: the passes that follow, by name.
    async fn after(&self, step: impl FnOnce(&Self)) -> Vec<(String, bool)> {
        step(self);
        self.clock.advance(Duration::from_secs(1)); // passes over one object keep a distance
        tokio::time::sleep(Duration::from_secs(5)).await; // time stands until everyone waits
        let mut passed = std::mem::take(&mut *self.passed.lock());
        passed.sort();
        passed
    }

    fn edit(&self, name: &'static str, text: &'static str) {
        self.log.lock().push((name, text));
    }

    fn lead(&self, leads: bool) {
        self.leading.send_replace(leads);
    }
}

fn passes(all: &[(&str, bool)]) -> Vec<(String, bool)> {
    all.iter()
        .map(|(name, asked)| ((*name).to_owned(), *asked))
        .collect()
}

#[tokio::test(start_paused = true)]
async fn a_standby_that_takes_over_is_asked_for_nothing_that_it_has_seen_before() {
    let replica = Replica::start();
    replica.after(|r| r.edit("there", "before")).await;
    replica.after(|r| r.edit("edited", "before")).await;
    let none = replica.after(|r| r.edit("edited", "meanwhile")).await;
    assert_eq!(none, passes(&[]), "a standby runs no pass");

    let first = replica.after(|r| r.lead(true)).await;
    assert_eq!(first, passes(&[("edited", false), ("there", false)]));
    let edit = replica.after(|r| r.edit("there", "now")).await;
    assert_eq!(edit, passes(&[("there", true)]), "now a person waits");
    let new = replica.after(|r| r.edit("new", "now")).await;
    assert_eq!(new, passes(&[("new", true)]));
    replica.tasks.kill().await;
}

#[tokio::test(start_paused = true)]
async fn one_that_leads_again_looks_at_what_changed_and_is_asked_for_nothing() {
    let replica = Replica::start();
    replica.edit("quiet", "before");
    replica.edit("edited", "before");
    replica.after(|r| r.lead(true)).await;
    replica.after(|r| r.lead(false)).await;
    replica.after(|r| r.edit("edited", "meanwhile")).await;
    replica.after(|r| r.edit("new", "meanwhile")).await;

    let again = replica.after(|r| r.lead(true)).await;
    assert_eq!(again, passes(&[("edited", false), ("new", false)]));
    let edit = replica.after(|r| r.edit("edited", "now")).await;
    assert_eq!(edit, passes(&[("edited", true)]), "now a person waits");
    replica.tasks.kill().await;
}
