//! Whom a person waits for, across changes of the leader; and what no object or reader can spoil.

mod absent;

use std::convert::Infallible;
use std::sync::atomic::{AtomicBool, Ordering};

use http::{Method, Request, Response, StatusCode};
use k8s_openapi::api::core::v1::{ConfigMap, Service};
use kernel::{Guard, Reason, TestClock};
use kube::client::Body;
use rstest::rstest;
use serde_json::{Value, json};

use super::*;
use crate::{ApiError, Kind, Projection};

/// One edit of a map; without a text, its deletion.
#[derive(Clone)]
struct Edit {
    name: String,
    uid: &'static str,
    text: Option<String>,
    /// Whether the map carries reconcile-now.
    asks: bool,
    /// How often others have changed its status.
    status: u32,
}

impl Edit {
    /// The versions of a map of the name `unnumbered` are no numbers.
    fn object(&self, version: usize) -> Value {
        let prefix = if self.name == "unnumbered" { "v" } else { "" };
        let mut metadata = json!({"name": self.name, "namespace": "a", "uid": self.uid,
            "resourceVersion": format!("{prefix}{version}")});
        if self.asks {
            metadata["annotations"] = json!({kernel::RECONCILE_NOW: "1"});
        }
        json!({"metadata": metadata, "data": {"text": self.text}, "status": {"count": self.status}})
    }
}

/// Every edit there was; the version is the place in the list.
type Log = Arc<Mutex<Vec<Edit>>>;
/// Every pass there was: whose, and whether a person waits for it.
type Passed = Arc<Mutex<Vec<(String, bool)>>>;

fn line(change: &str, object: Value) -> String {
    format!("{}\n", json!({"type": change, "object": object}))
}

fn end_of_list(version: usize) -> String {
    let end = json!({"k8s.io/initial-events-end": "true"});
    let metadata = json!({"resourceVersion": version.to_string(), "annotations": end});
    line("BOOKMARK", json!({"metadata": metadata}))
}

/// Answers a watch with what was logged since, and closes it.
fn answer(log: &Log, query: &str) -> Response<Body> {
    let mut parts = query.split('&');
    let from = parts.find_map(|part| part.strip_prefix("resourceVersion="));
    let log = log.lock();
    let known = from.map_or(0, |from| from.trim_start_matches('v').parse().unwrap());
    let mut lines = Vec::new();
    for (place, edit) in log.iter().enumerate().skip(known) {
        let is_last = || !log[place + 1..].iter().any(|later| later.name == edit.name);
        if from.is_none() && (edit.text.is_none() || !is_last()) {
            continue; // a list has what is there, once
        }
        let change = if edit.text.is_some() {
            "MODIFIED"
        } else {
            "DELETED"
        };
        lines.push(line(change, edit.object(place + 1)));
    }
    if from.is_none() {
        lines.push(end_of_list(log.len()));
    }
    Response::new(Body::from(lines.concat().into_bytes()))
}

/// Answers a patch, which takes reconcile-now off a map.
fn answer_patch(log: &Log, path: &str) -> Response<Body> {
    let mut log = log.lock();
    let name = path.rsplit('/').next().unwrap();
    let mut last = log.iter().rfind(|edit| edit.name == name).unwrap().clone();
    last.asks = false;
    log.push(last.clone());
    let object = last.object(log.len());
    Response::new(Body::from(object.to_string().into_bytes()))
}

/// Answers a list or a watch of Services: refused, or empty.
fn answer_services(are_served: bool, query: &str) -> Response<Body> {
    if !are_served {
        let status = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure",
            "code": 403, "reason": "Forbidden", "message": "no"});
        let mut refused = Response::new(Body::from(status.to_string().into_bytes()));
        *refused.status_mut() = StatusCode::FORBIDDEN;
        return refused;
    }
    let is_watch = query.contains("watch=");
    let is_resumed = query.contains("resourceVersion=");
    let text = if !is_watch {
        json!({"metadata": {"resourceVersion": "1"}, "items": []}).to_string()
    } else if is_resumed {
        String::new()
    } else {
        end_of_list(1)
    };
    Response::new(Body::from(text.into_bytes()))
}

/// Records passes and objects that went. Some names make it behave badly.
struct Recorder {
    passed: Passed,
    gone: Arc<Mutex<Vec<String>>>,
    gate: Arc<Notify>,
}

impl Reconcile for Recorder {
    type Object = Value;
    type Error = ApiError;

    async fn reconcile(&self, _: &Value, pass: &mut Pass) -> Result<Progress, ApiError> {
        let name = pass.key().name.to_string();
        self.passed.lock().push((name.clone(), pass.is_asked_for()));
        match name.as_str() {
            "idle" => return Ok(Progress::Again),
            "writer" if self.passed.lock().len() < 25 => {
                Guard::always().check().expect("it is always open"); // as every client does
                return Ok(Progress::Again);
            }
            "stumbling" if self.passed.lock().len().is_multiple_of(6) => {
                let (what, message) = ("stumble".into(), "no".into());
                return Err(ApiError::Unreachable { what, message });
            }
            "stumbling" => return Ok(Progress::Again),
            "rechecked" => return Ok(done(20_000)),
            "blocked" => {
                let reason = Reason::new("Foreign", "rename it");
                return Ok(Progress::Blocked { reason });
            }
            "slow" => self.gate.notified().await,
            "hanging" => std::future::pending().await,
            _ => {}
        }
        Ok(Progress::done())
    }

    fn gone(&self, key: &ObjectKey) {
        self.gone.lock().push(key.name.to_string());
        assert!(&*key.name != "bad", "a clean-up with a mistake");
    }
}

/// A replica with one controller, and the cluster it looks at.
struct Replica {
    log: Log,
    passed: Passed,
    gone: Arc<Mutex<Vec<String>>>,
    gate: Arc<Notify>,
    are_services_served: Arc<AtomicBool>,
    controller: Arc<Controller>,
    metrics: Metrics,
    clock: Arc<TestClock>,
    leading: watch::Sender<bool>,
    tasks: Tasks,
}

impl Replica {
    /// A standby.
    fn start() -> Self {
        Self::start_with(|spec| spec)
    }

    /// A standby whose controller has more to say.
    fn start_with(more: impl FnOnce(ControllerSpec) -> ControllerSpec) -> Self {
        let log = Log::default();
        let are_services_served = Arc::new(AtomicBool::new(false));
        let (logged, served) = (log.clone(), are_services_served.clone());
        let server = tower::service_fn(move |request: Request<Body>| {
            let query = request.uri().query().unwrap_or_default();
            let path = request.uri().path();
            let answer = if path.ends_with("/services") {
                answer_services(served.load(Ordering::SeqCst), query)
            } else if request.method() == Method::PATCH {
                answer_patch(&logged, path)
            } else {
                answer(&logged, query)
            };
            let is_bad = path.ends_with("/unpatchable");
            async move {
                assert!(!is_bad, "a client with a mistake");
                Ok::<_, Infallible>(answer)
            }
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
            metrics: metrics.clone(),
            events,
            concurrency: 4,
            leading: leads,
        };
        let (passed, gone, gate) = (Passed::default(), Arc::default(), Arc::default());
        let maps = WatchKey::all(Kind::of::<ConfigMap>());
        let recorder = Recorder {
            passed: Arc::clone(&passed),
            gone: Arc::clone(&gone),
            gate: Arc::clone(&gate),
        };
        let spec = more(ControllerSpec::new(maps, recorder));
        Self {
            controller: Controller::start(spec, around, &tasks, Vec::new()),
            log,
            passed,
            gone,
            gate,
            are_services_served,
            metrics,
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

    fn edit(&self, name: impl Into<String>, text: &str) {
        self.log_edit(name.into(), "first", Some(text.to_owned()));
    }

    fn delete(&self, name: &str) {
        self.log_edit(name.to_owned(), "first", None);
    }

    fn log_edit(&self, name: String, uid: &'static str, text: Option<String>) {
        self.log.lock().push(Edit {
            name,
            uid,
            text,
            asks: false,
            status: 0,
        });
    }

    /// Others change the status of a map, and nothing else.
    fn change_status(&self, name: &str) {
        let mut log = self.log.lock();
        let last = log.iter().rfind(|edit| edit.name == name);
        let mut edit = last.expect("an edit").clone();
        edit.status += 1;
        log.push(edit);
    }

    /// The same edit, by someone who asks for a pass at once.
    fn edit_and_ask(&self, name: &str, text: &str) {
        self.edit(name, text);
        self.log.lock().last_mut().expect("an edit").asks = true;
    }

    /// Whether the last map that was written carries reconcile-now.
    fn asks(&self) -> bool {
        self.log.lock().last().expect("an edit").asks
    }

    fn lead(&self, leads: bool) {
        self.leading.send_replace(leads);
    }

    fn gone(&self) -> Vec<String> {
        std::mem::take(&mut *self.gone.lock())
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

#[tokio::test(start_paused = true)]
async fn a_standby_queues_nothing() {
    let replica = Replica::start();
    for n in 0..20 {
        replica.edit(format!("map-{n}"), "there");
    }
    let phantom = ObjectKey::namespaced("a", "phantom");
    replica
        .after(|r| {
            r.controller.wake(&phantom);
            r.controller.wake_in(&phantom, Duration::from_secs(5));
        })
        .await;
    let waiting = || {
        let state = replica.controller.state.lock();
        let ready: usize = Cause::ALL
            .map(|cause| state.queue.depth(cause))
            .iter()
            .sum();
        (ready, state.queue.next_due())
    };
    assert_eq!(waiting(), (0, None));
    let first = replica.after(|r| r.lead(true)).await;
    assert_eq!(first.len(), 20);
    replica.tasks.kill().await;
}

#[tokio::test(start_paused = true)]
async fn one_that_leads_again_makes_up_for_the_changes_it_missed() {
    let replica = Replica::start();
    replica.edit("one", "before");
    replica.edit("two", "before");
    replica.after(|r| r.lead(true)).await;
    replica.after(|r| r.lead(false)).await;
    let one = ObjectKey::namespaced("a", "one");
    assert_eq!(
        replica.after(|r| r.controller.wake(&one)).await,
        passes(&[])
    );
    let again = replica.after(|r| r.lead(true)).await;
    assert_eq!(again, passes(&[("one", false), ("two", false)]));
    replica.tasks.kill().await;
}

#[tokio::test(start_paused = true)]
async fn first_passes_are_spread_and_an_edit_does_not_wait() {
    let replica = Replica::start();
    for n in 0..300 {
        replica.edit(format!("map-{n:03}"), "there");
    }
    replica.after(|_| {}).await;
    replica.lead(true);
    tokio::time::sleep(Duration::from_secs(5)).await; // the clock of the queue stands
    let at_once = std::mem::take(&mut *replica.passed.lock());
    assert_eq!(at_once.len(), 101);
    let is_late = |n: &u32| {
        !at_once
            .iter()
            .any(|(name, _)| *name == format!("map-{n:03}"))
    };
    let late = (0..300).find(is_late).unwrap();

    replica.edit(format!("map-{late:03}"), "now");
    tokio::time::sleep(Duration::from_secs(5)).await;
    let edited = std::mem::take(&mut *replica.passed.lock());
    assert_eq!(edited.len(), 1, "{edited:?}");
    let others = replica.after(|_| {}).await;
    assert_eq!(others.len(), 198);
    replica.tasks.kill().await;
}

#[rstest]
#[case::the_first(0, 0)]
#[case::the_last_of_those_at_once(100, 0)]
#[case::four_thousand_take_two_seconds(4_100, 2_000)]
#[case::a_window_is_bounded(u32::MAX, 30_000)]
fn a_first_pass_waits_for_those_before_it(#[case] before: u32, #[case] expected: u64) {
    assert_eq!(first_delay(before), Duration::from_millis(expected));
}

#[rstest]
#[case::a_number("numbered")]
#[case::no_number("unnumbered")]
#[tokio::test(start_paused = true)]
async fn a_status_change_by_others_has_its_pass(#[case] name: &str) {
    let replica = Replica::start();
    replica.edit(name, "there");
    let first = replica.after(|r| r.lead(true)).await;
    assert_eq!(first, passes(&[(name, false)]));
    for _ in 0..2 {
        let changed = replica.after(|r| r.change_status(name)).await;
        assert_eq!(changed, passes(&[(name, false)]));
        assert_eq!(replica.after(|_| {}).await, passes(&[]), "no news");
    }
    replica.tasks.kill().await;
}

#[rstest]
#[case::equal("7", "7", false)]
#[case::higher("7", "8", true)]
#[case::lower("7", "6", false)]
#[case::equal_text("b7", "b7", false)]
#[case::other_text("b7", "a6", true)]
#[case::text_after_a_number("7", "b7", true)]
#[case::number_after_a_text("b7", "7", true)]
fn a_version_is_news(#[case] handled: &str, #[case] seen: &str, #[case] expected: bool) {
    let stored = |version: &str| {
        let object = json!({"metadata": {"name": "n", "resourceVersion": version}});
        let kind = Kind::of::<ConfigMap>();
        Stored::read(&kind, &object.to_string(), &Projection::Full).unwrap()
    };
    let handled = Handled::of(&stored(handled));
    assert_eq!(handled.is_older_than(&stored(seen)), expected);
}

#[tokio::test(start_paused = true)]
async fn a_pass_that_hangs_ends_at_its_deadline_and_backs_off() {
    let replica = Replica::start_with(|spec| spec.deadline(Duration::from_secs(30)));
    replica.edit("hanging", "there");
    let first = replica.after(|r| r.lead(true)).await;
    assert_eq!(first, passes(&[("hanging", false)]));
    let other = replica.after(|r| r.edit("other", "now")).await;
    assert_eq!(other, passes(&[("other", true)]), "it waits for nobody");

    let is_counted = |times: u32| {
        let count = format!(r#"kind="ConfigMap",outcome="deadline"}} {times}"#);
        replica.metrics.text().contains(&count)
    };
    let failing = || replica.controller.state.lock().queue.failing();
    assert_eq!((is_counted(1), failing()), (false, 0), "it still hangs");
    tokio::time::sleep(Duration::from_secs(30)).await;
    assert_eq!((is_counted(1), failing()), (true, 1));
    assert!(replica.passed.lock().is_empty(), "the queue's clock stands");
    let next = |r: &Replica| r.clock.advance(Duration::from_secs(1)); // the delay and its jitter
    assert_eq!(replica.after(next).await, passes(&[("hanging", false)]));
    tokio::time::sleep(Duration::from_secs(30)).await;
    assert_eq!((is_counted(2), failing()), (true, 1));
    replica.tasks.kill().await;
}

#[tokio::test(start_paused = true)]
async fn a_panic_over_a_deleted_object_stops_nothing() {
    let replica = Replica::start();
    replica.edit("bad", "there");
    replica.after(|r| r.lead(true)).await;
    replica.after(|r| r.delete("bad")).await;
    assert_eq!(replica.gone(), ["bad"]);
    let next = replica.after(|r| r.edit("next", "now")).await;
    assert_eq!(next, passes(&[("next", true)]));
    let namesake = replica.after(|r| r.edit("bad", "again")).await;
    assert_eq!(namesake, passes(&[("bad", true)]));
    let label = &replica.controller.label;
    assert_eq!(replica.metrics.panics.get_or_create(label).get(), 1);
    replica.tasks.kill().await;
}

#[tokio::test(start_paused = true)]
async fn an_object_replaced_during_its_pass_is_forgotten_first() {
    let replica = Replica::start();
    replica.edit("slow", "there");
    replica.after(|r| r.lead(true)).await;
    let none = replica
        .after(|r| {
            r.delete("slow");
            r.log_edit("slow".into(), "second", Some("there".into()));
        })
        .await;
    assert_eq!(none, passes(&[]), "its pass still runs");
    assert!(replica.gone().is_empty());
    let second = replica.after(|r| r.gate.notify_one()).await;
    assert_eq!(second, passes(&[("slow", true)]));
    assert_eq!(replica.gone(), ["slow"]);
    replica.tasks.kill().await;
}

#[tokio::test(start_paused = true)]
async fn an_object_that_went_while_the_reader_lagged_is_forgotten() {
    let replica = Replica::start();
    replica.edit("went", "there");
    replica.edit("replaced", "there");
    replica.edit("stays", "there");
    replica.after(|r| r.lead(true)).await;
    replica
        .after(|r| {
            r.delete("went");
            r.delete("replaced");
            r.log_edit("replaced".into(), "second", Some("there".into()));
            for n in 0..5_000 {
                r.edit("stays", &n.to_string());
            }
        })
        .await;
    let lag: u64 = replica.metrics.text().lines().fold(0, |sum, line| {
        let is_lag = line.starts_with("pontoon_watch_lag_total");
        let count = line.rsplit(' ').next().filter(|_| is_lag);
        sum + count.map_or(0, |count| count.parse().unwrap())
    });
    assert!(lag > 0, "the reader kept up, so nothing was tested");
    let mut gone = replica.gone();
    gone.sort();
    assert_eq!(gone, ["replaced", "went"]);
    replica.tasks.kill().await;
}

#[tokio::test(start_paused = true)]
async fn passes_that_repeat_and_write_nothing_back_off() {
    let replica = Replica::start();
    replica.edit("idle", "there");
    let first = replica.after(|r| r.lead(true)).await;
    assert_eq!(first.len(), 10);
    let next = |r: &Replica| r.clock.advance(Duration::from_secs(1)); // the delay and its jitter
    assert_eq!(
        replica.after(next).await.len(),
        1,
        "the next is a failure too"
    );
    let text = replica.metrics.text();
    let idle = r#"kind="ConfigMap",outcome="idle"} 2"#;
    assert!(text.contains(idle), "{text}");
    replica.tasks.kill().await;
}

#[tokio::test(start_paused = true)]
async fn passes_that_write_outside_may_repeat() {
    let replica = Replica::start();
    replica.edit("writer", "there");
    let all = replica.after(|r| r.lead(true)).await;
    assert_eq!(all.len(), 25);
    let text = replica.metrics.text();
    assert!(!text.contains(r#"outcome="idle""#), "{text}");
    replica.tasks.kill().await;
}

#[tokio::test(start_paused = true)]
async fn a_failure_ends_a_row_of_idle_repeats() {
    let replica = Replica::start();
    replica.edit("stumbling", "there");
    replica.lead(true);
    for _ in 0..100 {
        replica.clock.advance(Duration::from_secs(1)); // past the back-off
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let count = replica.passed.lock().len();
    assert!(count >= 18, "{count} passes");
    let text = replica.metrics.text();
    assert!(!text.contains(r#"outcome="idle""#), "{text}");
    replica.tasks.kill().await;
}

#[tokio::test(start_paused = true)]
async fn reconcile_now_keeps_the_recheck_of_its_pass() {
    let replica = Replica::start();
    replica.edit_and_ask("rechecked", "there");
    let first = replica.after(|r| r.lead(true)).await;
    assert_eq!(first, passes(&[("rechecked", false)]));
    assert!(!replica.asks(), "it was served");
    let next = replica.after(|_| {}).await;
    assert_eq!(next, passes(&[("rechecked", false)]), "nobody waits for it");
    let later = |r: &Replica| r.clock.advance(Duration::from_secs(20));
    assert_eq!(replica.after(later).await, passes(&[("rechecked", false)]));
    replica.tasks.kill().await;
}

#[tokio::test(start_paused = true)]
async fn an_edit_with_a_served_reconcile_now_has_its_pass() {
    let replica = Replica::start();
    replica.edit_and_ask("slow", "there");
    replica.after(|r| r.lead(true)).await;
    let none = replica.after(|r| r.edit_and_ask("slow", "edited")).await;
    assert_eq!(none, passes(&[]), "its pass still runs");
    replica.after(|r| r.gate.notify_one()).await;
    assert!(!replica.asks(), "it was served");
    replica.gate.notify_one();
    let edited = replica.after(|_| {}).await;
    assert_eq!(edited, passes(&[("slow", true)]));
    replica.tasks.kill().await;
}

#[tokio::test(start_paused = true)]
async fn a_panic_before_a_pass_is_caught_too() {
    let replica = Replica::start();
    replica.edit_and_ask("unpatchable", "there");
    let first = replica.after(|r| r.lead(true)).await;
    assert_eq!(first, passes(&[("unpatchable", false)]));
    let label = &replica.controller.label;
    assert_eq!(replica.metrics.panics.get_or_create(label).get(), 1);
    let edited = replica.after(|r| r.edit("unpatchable", "edited")).await;
    assert_eq!(edited, passes(&[("unpatchable", true)]));
    replica.tasks.kill().await;
}

fn services() -> WatchKey {
    WatchKey::all(Kind::of::<Service>())
}

#[tokio::test(start_paused = true)]
async fn passes_wait_for_ever_for_what_they_need() {
    let replica = Replica::start_with(|spec| spec.needs(services()));
    replica.edit("map", "there");
    replica.lead(true);
    tokio::time::sleep(Duration::from_secs(120)).await;
    assert_eq!(replica.after(|_| {}).await, passes(&[]));
    replica.are_services_served.store(true, Ordering::SeqCst);
    tokio::time::sleep(Duration::from_secs(120)).await; // the watch backs off
    assert_eq!(replica.after(|_| {}).await, passes(&[("map", false)]));
    replica.tasks.kill().await;
}

#[tokio::test(start_paused = true)]
async fn passes_wait_half_a_minute_for_what_they_follow() {
    let replica = Replica::start_with(|spec| spec.follow(services(), |_| Vec::new()));
    replica.edit("map", "there");
    replica.lead(true);
    tokio::time::sleep(Duration::from_secs(20)).await;
    assert_eq!(replica.after(|_| {}).await, passes(&[]));
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert_eq!(replica.after(|_| {}).await, passes(&[("map", false)]));
    replica.tasks.kill().await;
}

#[tokio::test(start_paused = true)]
async fn all_results_of_controller_runtime_exist_from_the_start() {
    let replica = Replica::start();
    replica.after(|_| {}).await;
    let text = replica.metrics.text();
    for result in ["success", "requeue", "requeue_after", "error"] {
        let series = format!(
            r#"controller_runtime_reconcile_total{{controller="configmap",result="{result}"}} 0"#
        );
        assert!(text.contains(&series), "{text}");
    }
    replica.edit("idle", "there");
    replica.after(|r| r.lead(true)).await;
    let text = replica.metrics.text();
    assert!(
        text.contains(r#"controller="configmap",result="requeue"} 9"#),
        "{text}"
    );
    replica.tasks.kill().await;
}

const RESYNC: Duration = Duration::from_secs(300);
const BLOCKED: Duration = Duration::from_secs(77);

fn done(recheck: u64) -> Progress {
    Progress::Done {
        recheck: Some(Duration::from_millis(recheck)),
    }
}

fn blocked() -> Progress {
    Progress::Blocked {
        reason: Reason::new("Foreign", "rename it"),
    }
}

fn waiting(after: u64) -> Progress {
    Progress::Waiting {
        reason: Reason::new("Slow", "it takes time"),
        after: Duration::from_millis(after),
    }
}

#[rstest]
#[case::a_recheck(done(20_000), 20_000, Cause::Followed)]
#[case::a_recheck_has_a_floor(done(0), 1_000, Cause::Followed)]
#[case::a_late_recheck_leaves_the_resync(done(900_000), 300_000, Cause::Resync)]
#[case::blocked(blocked(), 77_000, Cause::Resync)]
#[case::no_recheck(Progress::done(), 300_000, Cause::Resync)]
#[case::waiting(waiting(20_000), 20_000, Cause::Followed)]
#[case::waiting_has_a_floor(waiting(1), 1_000, Cause::Followed)]
#[case::waiting_has_its_own_time(waiting(900_000), 900_000, Cause::Followed)]
fn the_next_pass_is_due(#[case] progress: Progress, #[case] expected: u64, #[case] cause: Cause) {
    let expected = Next::After(Duration::from_millis(expected), cause);
    assert_eq!(planned(&Ok(progress), RESYNC, BLOCKED), expected);
}

#[rstest]
#[case::the_earliest(0, 0.0, 240)]
#[case::the_middle(0, 0.5, 300)]
#[case::the_latest(0, 1.0, 360)]
#[case::the_earliest_after_an_hour(61, 0.0, 1_440)]
#[case::the_latest_after_an_hour(61, 1.0, 2_160)]
fn passes_over_blocked_objects_are_spread(
    #[case] minutes: u64,
    #[case] random: f64,
    #[case] expected: u64,
) {
    let recorder = Recorder {
        passed: Passed::default(),
        gone: Arc::default(),
        gate: Arc::default(),
    };
    let spec = ControllerSpec::new(WatchKey::all(Kind::of::<ConfigMap>()), recorder);
    let delay = spec.blocked_delay(Duration::from_secs(60 * minutes), random);
    let difference = delay.abs_diff(Duration::from_secs(expected));
    assert!(difference < Duration::from_millis(1), "{delay:?}");
}

#[tokio::test(start_paused = true)]
async fn a_blocked_object_is_looked_at_less_often_after_an_hour() {
    let replica = Replica::start();
    replica.edit("blocked", "there");
    replica.after(|r| r.lead(true)).await;
    let count_in = async |minutes: u64| {
        for _ in 0..minutes {
            replica.clock.advance(Duration::from_secs(60));
            tokio::time::sleep(Duration::from_millis(100)).await; // the queue looks at its clock
        }
        std::mem::take(&mut *replica.passed.lock()).len()
    };
    let first_hour = count_in(60).await;
    assert!((10..=16).contains(&first_hour), "{first_hour} passes");
    count_in(10).await; // the last by the first pace
    let later = count_in(180).await;
    assert!((4..=8).contains(&later), "{later} passes");
    replica.tasks.kill().await;
}
