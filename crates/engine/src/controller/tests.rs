//! Which passes run and which are urgent, across changes of the leader, panics and slow readers.

mod absent;
mod follow;

use std::convert::Infallible;
use std::sync::atomic::{AtomicBool, Ordering};

use http::{Method, Request, Response, StatusCode};
use k8s_openapi::api::core::v1::{ConfigMap, Service};
use kernel::{Guard, Reason, TestClock};
use kube::client::Body;
use rstest::rstest;
use serde_json::{Value, json};

use super::*;
use crate::{ApiError, Kind};

/// One edit of a ConfigMap; without a text, its deletion.
#[derive(Clone)]
struct Edit {
    name: String,
    uid: &'static str,
    text: Option<String>,
    /// Whether the ConfigMap has the annotation reconcile-now.
    has_reconcile_now: bool,
    /// How often others have changed its status.
    status: u32,
}

impl Edit {
    /// The versions of a ConfigMap named `unnumbered` are not numbers. One named `paused` has the annotation,
    /// and the condition that its kind sets for it.
    fn object(&self, version: usize) -> Value {
        let prefix = if self.name == "unnumbered" { "v" } else { "" };
        let mut metadata = json!({"name": self.name, "namespace": "a", "uid": self.uid,
            "resourceVersion": format!("{prefix}{version}")});
        if self.has_reconcile_now {
            metadata["annotations"] = json!({kernel::RECONCILE_NOW: "1"});
        }
        let mut status = json!({"count": self.status});
        if self.name == "paused" {
            metadata["annotations"] = json!({kernel::PAUSED: "true"});
            status["conditions"] = json!([{"type": crate::paused::CONDITION, "status": "True"}]);
        }
        json!({"metadata": metadata, "data": {"text": self.text}, "status": status})
    }
}

/// All edits. The version of an edit is its number in the list.
type EditLog = Arc<Mutex<Vec<Edit>>>;
/// All passes: the name of the object, and whether the pass was urgent.
type PassLog = Arc<Mutex<Vec<(String, bool)>>>;

fn watch_event(change: &str, object: Value) -> String {
    format!("{}\n", json!({"type": change, "object": object}))
}

fn end_of_list(version: usize) -> String {
    let end = json!({"k8s.io/initial-events-end": "true"});
    let metadata = json!({"resourceVersion": version.to_string(), "annotations": end});
    watch_event("BOOKMARK", json!({"metadata": metadata}))
}

/// Answers a watch with the edits since its version, and closes it.
fn answer(log: &EditLog, query: &str) -> Response<Body> {
    let mut parts = query.split('&');
    let from = parts.find_map(|part| part.strip_prefix("resourceVersion="));
    let log = log.lock();
    let seen = from.map_or(0, |from| from.trim_start_matches('v').parse().unwrap());
    let mut events = Vec::new();
    for (index, edit) in log.iter().enumerate().skip(seen) {
        let is_last = || !log[index + 1..].iter().any(|later| later.name == edit.name);
        if from.is_none() && (edit.text.is_none() || !is_last()) {
            continue; // a list has each object once, in its last version
        }
        let change = if edit.text.is_some() {
            "MODIFIED"
        } else {
            "DELETED"
        };
        events.push(watch_event(change, edit.object(index + 1)));
    }
    if from.is_none() {
        events.push(end_of_list(log.len()));
    }
    Response::new(Body::from(events.concat().into_bytes()))
}

/// Answers a patch, which removes reconcile-now from a ConfigMap.
fn answer_patch(log: &EditLog, path: &str) -> Response<Body> {
    let mut log = log.lock();
    let name = path.rsplit('/').next().unwrap();
    let mut last = log.iter().rfind(|edit| edit.name == name).unwrap().clone();
    last.has_reconcile_now = false;
    log.push(last.clone());
    let object = last.object(log.len());
    Response::new(Body::from(object.to_string().into_bytes()))
}

/// Answers a list or a watch of Services: with a refusal, or without objects.
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

/// Records passes and objects that are gone. It misbehaves for some names.
struct Recorder {
    passed: PassLog,
    gone: Arc<Mutex<Vec<String>>>,
    gate: Arc<Notify>,
}

impl Reconcile for Recorder {
    type Object = Value;
    type Error = ApiError;

    async fn reconcile(&self, _: &Value, pass: &mut Pass) -> Result<Progress, ApiError> {
        let name = pass.key().name.to_string();
        self.passed.lock().push((name.clone(), pass.is_urgent()));
        match name.as_str() {
            "idle" => return Ok(Progress::Again),
            "writer" if self.passed.lock().len() < 25 => {
                Guard::always().check().expect("it is always open"); // as every client does before a write
                return Ok(Progress::Again);
            }
            "sometimes-failing" if self.passed.lock().len().is_multiple_of(6) => {
                let (what, message) = ("call".into(), "refused".into());
                return Err(ApiError::Unreachable { what, message });
            }
            "sometimes-failing" => return Ok(Progress::Again),
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
        assert!(&*key.name != "bad", "a clean-up that panics");
    }
}

/// A replica with one controller, and the cluster that it watches.
struct Replica {
    log: EditLog,
    passed: PassLog,
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

    /// A standby with further settings of its controller.
    fn start_with(settings: impl FnOnce(ControllerSpec) -> ControllerSpec) -> Self {
        let log = EditLog::default();
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
                assert!(!is_bad, "a client that panics");
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
        let context = ControllerContext {
            feature: "f".into(),
            hub: Hub::new(client.clone(), tasks.child(), metrics.clone()),
            client,
            clock: shared,
            metrics: metrics.clone(),
            events,
            concurrency: 4,
            leading: leads,
        };
        let (passed, gone, gate) = (PassLog::default(), Arc::default(), Arc::default());
        let maps = WatchKey::all(Kind::of::<ConfigMap>());
        let recorder = Recorder {
            passed: Arc::clone(&passed),
            gone: Arc::clone(&gone),
            gate: Arc::clone(&gate),
        };
        let spec = settings(ControllerSpec::new(maps, recorder));
        Self {
            controller: Controller::start(spec, context, &tasks, Vec::new()),
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

    /// The passes that follow `step`, such as an edit or a change of the leader; sorted by name.
    async fn after(&self, step: impl FnOnce(&Self)) -> Vec<(String, bool)> {
        step(self);
        self.clock.advance(Duration::from_secs(1)); // the queue spaces passes over one object
        tokio::time::sleep(Duration::from_secs(5)).await; // paused time runs when all tasks wait
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
            has_reconcile_now: false,
            status: 0,
        });
    }

    /// Others change only the status of a ConfigMap.
    fn change_status(&self, name: &str) {
        let mut log = self.log.lock();
        let last = log.iter().rfind(|edit| edit.name == name);
        let mut edit = last.expect("an edit").clone();
        edit.status += 1;
        log.push(edit);
    }

    /// The same edit, with the annotation reconcile-now.
    fn edit_with_reconcile_now(&self, name: &str, text: &str) {
        self.edit(name, text);
        let mut log = self.log.lock();
        log.last_mut().expect("an edit").has_reconcile_now = true;
    }

    /// Whether the ConfigMap that was written last has reconcile-now.
    fn has_reconcile_now(&self) -> bool {
        self.log.lock().last().expect("an edit").has_reconcile_now
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
        .map(|(name, is_urgent)| ((*name).to_owned(), *is_urgent))
        .collect()
}

#[tokio::test(start_paused = true)]
async fn a_kind_that_pauses_by_itself_has_passes() {
    let replica = Replica::start_with(ControllerSpec::pauses_by_itself);
    replica.after(|r| r.lead(true)).await;
    let passed = replica.after(|r| r.edit("paused", "now")).await;
    assert_eq!(passed, passes(&[("paused", true)]));
    let written = replica.log.lock().len();
    assert_eq!(written, 1, "its condition Paused is its own");
    replica.tasks.kill().await;
}

#[tokio::test(start_paused = true)]
async fn edits_before_a_replica_leads_are_not_urgent() {
    let replica = Replica::start();
    replica.after(|r| r.edit("there", "before")).await;
    replica.after(|r| r.edit("edited", "before")).await;
    let none = replica.after(|r| r.edit("edited", "meanwhile")).await;
    assert_eq!(none, passes(&[]), "a standby runs no pass");

    let first = replica.after(|r| r.lead(true)).await;
    assert_eq!(first, passes(&[("edited", false), ("there", false)]));
    let edit = replica.after(|r| r.edit("there", "now")).await;
    assert_eq!(edit, passes(&[("there", true)]), "an edit is urgent");
    let new = replica.after(|r| r.edit("new", "now")).await;
    assert_eq!(new, passes(&[("new", true)]));
    replica.tasks.kill().await;
}

#[tokio::test(start_paused = true)]
async fn changes_under_another_leader_are_not_urgent() {
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
    assert_eq!(edit, passes(&[("edited", true)]), "an edit is urgent");
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
async fn a_wake_up_before_a_replica_leads_leads_to_passes_later() {
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
    tokio::time::sleep(Duration::from_secs(5)).await; // the queue's clock does not move
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

#[tokio::test(start_paused = true)]
async fn urgent_first_passes_come_before_those_of_the_window() {
    let is_urgent = |object: &Stored| match &*object.key().name {
        "panics" => panic!("a mistake"),
        name => name.starts_with("urgent"),
    };
    let window = Duration::from_secs(600);
    let replica =
        Replica::start_with(|spec| spec.first_window(window, is_urgent).resync(10 * window));
    for name in ["urgent-1", "urgent-2", "panics"] {
        replica.edit(name, "there");
    }
    for n in 0..100 {
        replica.edit(format!("map-{n:03}"), "there");
    }
    replica.after(|_| {}).await;
    let at_once = replica.after(|r| r.lead(true)).await;
    let names = at_once.iter().map(|(name, _)| name.as_str());
    let others = names.filter(|name| name.starts_with("map-")).count();
    assert_eq!(at_once.len() - others, 3, "{at_once:?}");
    assert!(others < 10, "{at_once:?}"); // one of 300 is expected in two seconds
    replica.clock.advance(window / 2);
    let first_half = others + replica.after(|_| {}).await.len();
    assert!((20..80).contains(&first_half), "{first_half} of 100");
    replica.clock.advance(window / 2);
    assert_eq!(first_half + replica.after(|_| {}).await.len(), 100);
    replica.tasks.kill().await;
}

#[rstest]
#[case::the_first(0, 0)]
#[case::the_last_of_those_at_once(100, 0)]
#[case::eight_thousand_take_a_second(8_100, 1_000)]
#[case::a_window_is_bounded(u32::MAX, 30_000)]
fn a_first_pass_waits_for_those_before_it(#[case] before: u32, #[case] expected: u64) {
    assert_eq!(first_delay(before), Duration::from_millis(expected));
}

#[rstest]
#[case::a_number("numbered")]
#[case::no_number("unnumbered")]
#[tokio::test(start_paused = true)]
async fn a_status_change_by_others_causes_a_pass(#[case] name: &str) {
    let replica = Replica::start();
    replica.edit(name, "there");
    let first = replica.after(|r| r.lead(true)).await;
    assert_eq!(first, passes(&[(name, false)]));
    for _ in 0..2 {
        let changed = replica.after(|r| r.change_status(name)).await;
        assert_eq!(changed, passes(&[(name, false)]));
        assert_eq!(replica.after(|_| {}).await, passes(&[]), "nothing changed");
    }
    replica.tasks.kill().await;
}

#[tokio::test(start_paused = true)]
async fn a_pass_that_hangs_ends_at_its_deadline_and_backs_off() {
    let replica = Replica::start_with(|spec| spec.deadline(Duration::from_secs(30)));
    replica.edit("hanging", "there");
    let first = replica.after(|r| r.lead(true)).await;
    assert_eq!(first, passes(&[("hanging", false)]));
    let other = replica.after(|r| r.edit("other", "now")).await;
    assert_eq!(
        other,
        passes(&[("other", true)]),
        "it does not wait for the other pass"
    );

    let is_counted = |times: u32| {
        let count = format!(r#"kind="ConfigMap",outcome="deadline"}} {times}"#);
        replica.metrics.text().contains(&count)
    };
    let failing = || replica.controller.state.lock().queue.failing();
    assert_eq!((is_counted(1), failing()), (false, 0), "it still hangs");
    tokio::time::sleep(Duration::from_secs(30)).await;
    assert_eq!((is_counted(1), failing()), (true, 1));
    assert!(
        replica.passed.lock().is_empty(),
        "the queue's clock does not move"
    );
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
async fn a_deletion_that_a_lagging_reader_missed_is_handled() {
    let replica = Replica::start();
    replica.edit("deleted", "there");
    replica.edit("replaced", "there");
    replica.edit("stays", "there");
    replica.after(|r| r.lead(true)).await;
    replica
        .after(|r| {
            r.delete("deleted");
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
    assert!(lag > 0, "the reader did not lag, so nothing was tested");
    let mut gone = replica.gone();
    gone.sort();
    assert_eq!(gone, ["deleted", "replaced"]);
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
        "the next pass fails too"
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
async fn a_failure_ends_a_series_of_idle_repeats() {
    let replica = Replica::start();
    replica.edit("sometimes-failing", "there");
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
    replica.edit_with_reconcile_now("rechecked", "there");
    let first = replica.after(|r| r.lead(true)).await;
    assert_eq!(first, passes(&[("rechecked", false)]));
    assert!(!replica.has_reconcile_now(), "it was served");
    let next = replica.after(|_| {}).await;
    assert_eq!(next, passes(&[("rechecked", false)]), "it is not urgent");
    let later = |r: &Replica| r.clock.advance(Duration::from_secs(20));
    assert_eq!(replica.after(later).await, passes(&[("rechecked", false)]));
    replica.tasks.kill().await;
}

#[tokio::test(start_paused = true)]
async fn an_edit_during_a_served_reconcile_now_causes_a_pass() {
    let replica = Replica::start();
    replica.edit_with_reconcile_now("slow", "there");
    replica.after(|r| r.lead(true)).await;
    let edit = |r: &Replica| r.edit_with_reconcile_now("slow", "edited");
    let none = replica.after(edit).await;
    assert_eq!(none, passes(&[]), "its pass still runs");
    replica.after(|r| r.gate.notify_one()).await;
    assert!(!replica.has_reconcile_now(), "it was served");
    replica.gate.notify_one();
    let edited = replica.after(|_| {}).await;
    assert_eq!(edited, passes(&[("slow", true)]));
    replica.tasks.kill().await;
}

#[tokio::test(start_paused = true)]
async fn a_panic_before_a_pass_is_caught_too() {
    let replica = Replica::start();
    replica.edit_with_reconcile_now("unpatchable", "there");
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
async fn passes_wait_without_limit_for_needed_objects() {
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
async fn passes_wait_30_s_for_followed_objects() {
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
        passed: PassLog::default(),
        gone: Arc::default(),
        gate: Arc::default(),
    };
    let spec = ControllerSpec::new(WatchKey::all(Kind::of::<ConfigMap>()), recorder);
    let delay = spec.blocked_delay(Duration::from_secs(60 * minutes), random);
    let difference = delay.abs_diff(Duration::from_secs(expected));
    assert!(difference < Duration::from_millis(1), "{delay:?}");
}

#[tokio::test(start_paused = true)]
async fn a_blocked_object_has_fewer_passes_after_an_hour() {
    let replica = Replica::start();
    replica.edit("blocked", "there");
    replica.after(|r| r.lead(true)).await;
    let count_in = async |minutes: u64| {
        for _ in 0..minutes {
            replica.clock.advance(Duration::from_secs(60));
            tokio::time::sleep(Duration::from_millis(100)).await; // the queue reads its clock
        }
        std::mem::take(&mut *replica.passed.lock()).len()
    };
    let first_hour = count_in(60).await;
    assert!((10..=16).contains(&first_hour), "{first_hour} passes");
    count_in(10).await; // the last pass at the first pace
    let later = count_in(180).await;
    assert!((4..=8).contains(&later), "{later} passes");
    replica.tasks.kill().await;
}
