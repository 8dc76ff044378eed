//! Followers that are added while a controller runs, and followers of another cluster.

use super::*;

/// Another cluster: its edits, and a hub of it. Its Services are served once the switch is on.
struct OtherCluster {
    log: EditLog,
    hub: Hub,
    are_services_served: Arc<AtomicBool>,
}

fn other_cluster() -> OtherCluster {
    let (log, are_services_served) = (EditLog::default(), Arc::new(AtomicBool::new(false)));
    let (logged, served) = (log.clone(), are_services_served.clone());
    let server = tower::service_fn(move |request: Request<Body>| {
        let query = request.uri().query().unwrap_or_default();
        let answer = if request.uri().path().ends_with("/services") {
            answer_services(served.load(Ordering::SeqCst), query)
        } else {
            answer(&logged, query)
        };
        std::future::ready(Ok::<_, Infallible>(answer))
    });
    let client = Client::new(server, "a");
    let hub = Hub::new(client, Tasks::default(), Metrics::default());
    let hub = hub.of_other_cluster();
    OtherCluster {
        log,
        hub,
        are_services_served,
    }
}

impl OtherCluster {
    fn edit(&self, name: &str, text: &str) {
        log_edit(&self.log, name, text);
    }
}

/// Returns the version of the edit.
fn log_edit(log: &EditLog, name: &str, text: &str) -> usize {
    let mut log = log.lock();
    log.push(Edit {
        name: name.to_owned(),
        uid: "other",
        text: Some(text.to_owned()),
        has_reconcile_now: false,
        status: 0,
    });
    log.len()
}

fn maps() -> WatchKey {
    WatchKey::all(Kind::of::<ConfigMap>())
}

/// Wakes the object of the same name as the followed one.
fn same_name() -> FollowSpec {
    FollowSpec::new(maps(), |other| vec![other.key().clone()])
}

fn text_of(object: &Stored) -> String {
    let value: Value = serde_json::from_str(object.json()).unwrap();
    value["data"]["text"].to_string()
}

/// A leading replica whose object `m` has had its first pass.
async fn leading() -> Replica {
    let replica = Replica::start();
    replica.edit("m", "1");
    let first = replica.after(|replica| {
        replica.leading.send_replace(true);
    });
    assert_eq!(first.await.len(), 1);
    replica
}

fn passed_once() -> Vec<(String, bool)> {
    vec![("m".to_owned(), false)]
}

#[tokio::test(start_paused = true)]
async fn a_follower_added_at_run_time_wakes_until_it_is_dropped() {
    let (replica, other) = (leading().await, other_cluster());
    other.edit("m", "1");
    let mut following = None;
    let existing = replica.after(|replica| {
        following = Some(
            replica
                .controller
                .follow(&other.hub, same_name(), &replica.tasks),
        );
    });
    assert_eq!(existing.await, passed_once());
    let following = following.unwrap();
    assert!(following.cache().is_settled());
    let changed = replica.after(|_| other.edit("m", "2")).await;
    assert_eq!(changed, passed_once());
    drop(following);
    let later = replica.after(|_| other.edit("m", "3")).await;
    assert_eq!(later, []);
    assert_eq!(replica.controller.followers.load(Ordering::SeqCst), 0);
    replica.tasks.kill().await;
}

#[tokio::test(start_paused = true)]
async fn followers_of_equal_keys_share_a_watch_and_filter_alone() {
    let (replica, other) = (leading().await, other_cluster());
    let by_text = same_name().when_changed(text_of);
    let filtered = replica
        .controller
        .follow(&other.hub, by_text, &replica.tasks);
    assert_eq!(replica.after(|_| other.edit("m", "1")).await, passed_once());
    assert_eq!(replica.after(|_| other.edit("m", "1")).await, []);
    let unfiltered = replica
        .controller
        .follow(&other.hub, same_name(), &replica.tasks);
    assert_eq!(replica.after(|_| {}).await, passed_once());
    assert_eq!(replica.after(|_| other.edit("m", "1")).await, passed_once());
    assert_eq!(other.hub.health().len(), 1);
    drop((filtered, unfiltered));
    replica.tasks.kill().await;
}

#[tokio::test(start_paused = true)]
async fn a_reference_followed_at_run_time_wakes_both_ends() {
    let (replica, other) = (leading().await, other_cluster());
    replica.after(|replica| replica.edit("n", "1")).await;
    let by_text = |object: &Stored| {
        let name = text_of(object).trim_matches('"').to_owned();
        vec![ObjectKey::namespaced("a", name)]
    };
    let references = FollowSpec::new(maps(), by_text).with_references();
    let following = replica
        .controller
        .follow(&other.hub, references, &replica.tasks);
    assert_eq!(
        replica.after(|_| other.edit("ref", "m")).await,
        passed_once()
    );
    let both = replica.after(|_| other.edit("ref", "n")).await;
    assert_eq!(both, [("m".to_owned(), false), ("n".to_owned(), false)]);
    drop(following);
    replica.tasks.kill().await;
}

#[tokio::test(start_paused = true)]
async fn a_follower_ends_with_the_followed_cluster() {
    let (replica, other) = (leading().await, other_cluster());
    let following = replica
        .controller
        .follow(&other.hub, same_name(), &replica.tasks);
    assert_eq!(replica.after(|_| other.edit("m", "1")).await, passed_once());
    other.hub.end().await;
    assert_eq!(replica.after(|_| other.edit("m", "2")).await, []);
    assert_eq!(replica.controller.followers.load(Ordering::SeqCst), 0);
    assert!(!following.cache().is_settled());
    let edited = replica.after(|replica| replica.edit("m", "2")).await;
    assert_eq!(edited, [("m".to_owned(), true)]);
    replica.tasks.kill().await;
}

#[tokio::test(start_paused = true)]
async fn passes_wait_for_no_followed_objects_of_a_closed_cluster() {
    let other = other_cluster();
    other.edit("m", "1");
    let replica = Replica::start_with(|spec| spec.follow_on(&other.hub, same_name()));
    replica.edit("m", "1");
    assert_eq!(replica.after(|_| {}).await, []);
    let followed = &replica.controller.followed[0];
    assert_eq!(followed.store().len(), 1);
    other.hub.end().await;
    assert!(followed.store().is_empty() && followed.store().bytes() == 0);
    assert_eq!(replica.after(|r| r.lead(true)).await, passed_once());
    replica.tasks.kill().await;
}

#[tokio::test(start_paused = true)]
async fn passes_wait_for_needed_objects_of_another_cluster() {
    let other = other_cluster();
    let services = WatchKey::all(Kind::of::<Service>());
    let replica = Replica::start_with(|spec| spec.needs_on(&other.hub, services));
    replica.edit("m", "1");
    replica.leading.send_replace(true);
    tokio::time::sleep(Duration::from_mins(10)).await;
    assert_eq!(replica.after(|_| {}).await, []);
    other.are_services_served.store(true, Ordering::SeqCst);
    tokio::time::sleep(Duration::from_secs(15)).await; // the longest pause between two tries
    assert_eq!(replica.after(|_| {}).await, passed_once());
    replica.tasks.kill().await;
}

/// Each pass writes an object of the same name to another cluster.
struct Copier(EditLog, PassLog);

impl Reconcile for Copier {
    type Object = Value;
    type Error = ApiError;

    async fn reconcile(&self, _: &Value, pass: &mut Pass) -> Result<Progress, ApiError> {
        let name = pass.key().name.to_string();
        let version = log_edit(&self.0, &name, "copy");
        let version = version.to_string();
        let metadata = json!({"uid": "other", "resourceVersion": version});
        echo::record_write(&json!({"metadata": metadata}));
        self.1.lock().push((name, pass.is_urgent()));
        Ok(Progress::done())
    }
}

#[tokio::test(start_paused = true)]
async fn an_echo_from_another_cluster_causes_no_pass() {
    let (other, passed) = (other_cluster(), PassLog::default());
    let copier = Copier(other.log.clone(), passed.clone());
    let replica = Replica::start_with(|_| ControllerSpec::new(maps(), copier));
    let following = replica
        .controller
        .follow(&other.hub, same_name(), &replica.tasks);
    replica.edit("m", "1");
    let first = replica.after(|replica| {
        replica.leading.send_replace(true);
    });
    first.await;
    assert_eq!(std::mem::take(&mut *passed.lock()), passed_once());
    replica.after(|_| other.edit("m", "by others")).await;
    assert_eq!(std::mem::take(&mut *passed.lock()), passed_once());
    drop(following);
    replica.tasks.kill().await;
}
