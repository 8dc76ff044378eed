//! Leader election: one replica acts, the others keep their caches up to date.
//!
//! # Protocol
//! The holder writes its Lease every `retry`. Standbys read the Lease. They may take it if it has not
//! changed for its whole duration, *by their own clock since they saw it*. No replica trusts the clock
//! of another machine, so clock skew does no harm.
//! # Guarantee
//! The guard allows writes only until `deadline` after the last renewal was *sent*. The duration is
//! longer by the margin. No write may take longer than the guard's remaining time plus that margin. So
//! a holder that was frozen, disconnected or slow stops writing before another replica may begin.
//! Renewals have their own thread and connection: no other work delays them.
//! # A predecessor's Lease in a namespace that does not exist
//! Nobody can hold it, so it counts as ours. The namespace is read again every two seconds: once it exists, the
//! Lease has to be taken. A predecessor begins later than that, since its pod has to be made and started first.
//! # Permissions
//! get, create, update on `leases` in the Lease's namespace; get on the namespace of a predecessor's Lease.
//! # Misuse
//! A deadline that is not well below the duration: then two replicas may write at the same time.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use kernel::{Guard, RealClock, SharedClock};
use kube::Client;
use kube::api::{Api, PostParams};
use tokio::sync::{oneshot, watch};

use crate::{Clients, StartError};

/// A standby reads the Lease at least this often.
const POLL_INTERVAL: Duration = Duration::from_secs(2);

/// That a namespace is missing counts for this time.
const ABSENCE_VALIDITY: Duration = Duration::from_secs(10);
/// Time limit for the release of the Lease. After it the Lease expires.
const RELEASE_TIMEOUT: Duration = Duration::from_secs(3);
/// Pause before the Lease is claimed again after a panic.
const PANIC_PAUSE: Duration = Duration::from_secs(1);

/// Settings of the leader election.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeaseSettings {
    /// The namespace of the Lease.
    pub namespace: String,
    /// The name of the Lease.
    pub name: String,
    /// The identity of this process. No other process may have the same.
    pub identity: String,
    /// Another replica may take the Lease if it has not changed for this time.
    pub duration: Duration,
    /// The holder stops writing after this time without a renewal.
    pub deadline: Duration,
    /// How often the holder renews the Lease.
    pub retry: Duration,
}

impl LeaseSettings {
    /// The shortest time between the end of our writes and the first write of another replica.
    pub(crate) fn margin(&self) -> Duration {
        self.duration.saturating_sub(self.deadline)
    }
}

/// The Lease as this process last read it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct ObservedLease {
    holder: String,
    version: String,
    duration: Duration,
    /// When this process first saw this version, by its own clock.
    at: Duration,
}

/// What to do with a Lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LeaseAction {
    Renew,
    Take,
    Wait,
}

/// | holder                   | unchanged for | action |
/// |--------------------------|---------------|--------|
/// | this process             | any           | renew  |
/// | none                     | any           | take   |
/// | other                    | its duration  | take   |
/// | has the `replica_prefix` | any           | take   |
/// | other                    | less          | wait   |
fn action(
    seen: &ObservedLease,
    identity: &str,
    replica_prefix: Option<&str>,
    now: Duration,
) -> LeaseAction {
    if seen.holder == identity {
        LeaseAction::Renew
    } else if seen.holder.is_empty()
        || now.saturating_sub(seen.at) >= seen.duration
        || replica_prefix.is_some_and(|prefix| seen.holder.starts_with(prefix))
    {
        LeaseAction::Take
    } else {
        LeaseAction::Wait
    }
}

/// How long to wait before the next read or renewal. A standby reads again when the Lease expires: with
/// a later read the cluster would have no leader for longer.
fn pause(
    seen: Option<&ObservedLease>,
    is_holder: bool,
    retry: Duration,
    now: Duration,
) -> Duration {
    let interval = retry.min(POLL_INTERVAL);
    match seen {
        Some(seen) if !is_holder => {
            let left = (seen.at + seen.duration).saturating_sub(now);
            left.clamp(interval / 20, interval) // no busy loop if the Lease cannot be taken
        }
        None if !is_holder => interval,
        Some(_) | None => retry,
    }
}

/// The claim of this process on one Lease. It opens and closes the guard.
pub(crate) struct Claim {
    settings: LeaseSettings,
    api: Api<Lease>,
    namespaces: Api<Namespace>,
    guard: Guard,
    clock: SharedClock,
    seen: Option<ObservedLease>,
    /// The namespace does not exist, so nobody holds the Lease.
    is_absent: bool,
    /// Holders with this prefix are replicas of this operator. A leader may take their Lease at once.
    replica_prefix: Option<String>,
}

impl Claim {
    pub(crate) fn new(
        settings: LeaseSettings,
        client: Client,
        guard: Guard,
        clock: SharedClock,
        replica_prefix: Option<String>,
    ) -> Self {
        let api = Api::namespaced(client.clone(), &settings.namespace);
        Self {
            settings,
            api,
            namespaces: Api::all(client),
            guard,
            clock,
            seen: None,
            is_absent: false,
            replica_prefix,
        }
    }

    /// Tries once to take or renew the Lease. Returns whether this process holds it, or nobody can.
    pub(crate) async fn acquire_or_renew(&mut self) -> Result<bool, kube::Error> {
        let sent = self.guard.elapsed();
        if self.is_absent {
            if self.lacks_namespace().await? {
                self.guard.renewed(sent, ABSENCE_VALIDITY);
                return Ok(true);
            }
            self.is_absent = false;
            self.guard.revoke();
        }
        let answer = self.acquire_or_renew_lease().await;
        // Without the namespace there is no Role in it either.
        let is_refused =
            matches!(&answer, Err(kube::Error::Api(status)) if [403, 404].contains(&status.code));
        let is_predecessors = self.replica_prefix.is_some();
        if !is_refused || !is_predecessors || !self.lacks_namespace().await.unwrap_or(false) {
            return answer;
        }
        self.is_absent = true;
        self.seen = None;
        self.guard.renewed(sent, ABSENCE_VALIDITY);
        Ok(true)
    }

    /// Whether the API server says that the namespace does not exist.
    async fn lacks_namespace(&self) -> Result<bool, kube::Error> {
        let namespace = self.namespaces.get_metadata_opt(&self.settings.namespace);
        Ok(namespace.await?.is_none())
    }

    async fn acquire_or_renew_lease(&mut self) -> Result<bool, kube::Error> {
        let sent = self.guard.elapsed();
        let Some(lease) = self.api.get_opt(&self.settings.name).await? else {
            self.api
                .create(&PostParams::default(), &self.new_lease())
                .await?;
            self.guard.renewed(sent, self.settings.deadline);
            return Ok(true);
        };
        let seen = self.observe(&lease);
        let action = action(
            &seen,
            &self.settings.identity,
            self.replica_prefix.as_deref(),
            self.guard.elapsed(),
        );
        if action == LeaseAction::Wait {
            self.guard.revoke();
            return Ok(false);
        }
        let sent = self.guard.elapsed();
        let written = self
            .api
            .replace(
                &self.settings.name,
                &PostParams::default(),
                &self.with_our_identity(lease, action),
            )
            .await?;
        self.guard.renewed(sent, self.settings.deadline);
        self.observe(&written);
        Ok(true)
    }

    /// Releases the Lease, so that the next holder does not wait for its expiry. Retries once after a
    /// conflict: an earlier renewal may still be in flight.
    pub(crate) async fn release(&mut self) -> Result<(), kube::Error> {
        self.guard.revoke();
        match self.release_once().await {
            Err(kube::Error::Api(status)) if status.code == 409 => self.release_once().await,
            other => other,
        }
    }

    async fn release_once(&self) -> Result<(), kube::Error> {
        let Some(mut lease) = self.api.get_opt(&self.settings.name).await? else {
            return Ok(());
        };
        let spec = lease.spec.get_or_insert_default();
        if spec.holder_identity.as_deref() != Some(&self.settings.identity) {
            return Ok(());
        }
        spec.holder_identity = Some(String::new());
        spec.lease_duration_seconds = Some(1);
        let params = PostParams::default();
        let written = self.api.replace(&self.settings.name, &params, &lease);
        written.await.map(drop)
    }

    pub(crate) fn describe(&self) -> String {
        let LeaseSettings {
            namespace, name, ..
        } = &self.settings;
        match &self.seen {
            Some(seen) => format!("{namespace}/{name} held by {}", seen.holder),
            None if self.is_absent => {
                format!("{namespace}/{name} held by nobody: there is no namespace {namespace}")
            }
            None => format!("{namespace}/{name} not read yet"),
        }
    }

    fn pause(&self, is_holder: bool) -> Duration {
        if self.is_absent {
            return POLL_INTERVAL;
        }
        pause(
            self.seen.as_ref(),
            is_holder,
            self.settings.retry,
            self.guard.elapsed(),
        )
    }

    fn observe(&mut self, lease: &Lease) -> ObservedLease {
        let spec = lease.spec.clone().unwrap_or_default();
        let version = lease.metadata.resource_version.clone().unwrap_or_default();
        let seconds = u64::try_from(spec.lease_duration_seconds.unwrap_or(0)).unwrap_or(0);
        let at = match &self.seen {
            Some(seen) if seen.version == version => seen.at,
            _ => self.guard.elapsed(),
        };
        let holder = spec.holder_identity.unwrap_or_default();
        let seen = ObservedLease {
            holder,
            version,
            duration: Duration::from_secs(seconds),
            at,
        };
        self.seen = Some(seen.clone());
        seen
    }

    fn new_lease(&self) -> Lease {
        let metadata = ObjectMeta {
            name: Some(self.settings.name.clone()),
            ..ObjectMeta::default()
        };
        let lease = Lease {
            metadata,
            spec: None,
        };
        self.with_our_identity(lease, LeaseAction::Take)
    }

    /// The Lease with this process as its holder.
    fn with_our_identity(&self, mut lease: Lease, action: LeaseAction) -> Lease {
        let now: Timestamp = self.clock.now();
        let before = lease.spec.take().unwrap_or_default();
        let is_new_holder = action == LeaseAction::Take;
        lease.spec = Some(LeaseSpec {
            holder_identity: Some(self.settings.identity.clone()),
            lease_duration_seconds: i32::try_from(self.settings.duration.as_secs()).ok(),
            renew_time: Some(MicroTime(now)),
            acquire_time: if is_new_holder {
                Some(MicroTime(now))
            } else {
                before.acquire_time
            },
            lease_transitions: Some(
                before.lease_transitions.unwrap_or(0) + i32::from(is_new_holder),
            ),
            ..before
        });
        lease
    }
}

/// Takes and renews the Lease until dropped. Sets `leading` to whether this process holds it.
async fn claim_repeatedly(claim: &tokio::sync::Mutex<Claim>, leading: &watch::Sender<bool>) {
    loop {
        let (is_holder, pause) = {
            let mut claim = claim.lock().await;
            let time_limit = claim.settings.deadline / 2;
            let attempt = tokio::time::timeout(time_limit, claim.acquire_or_renew()).await;
            let is_holder = match attempt {
                Ok(Ok(is_holder)) => is_holder,
                Ok(Err(error)) => {
                    tracing::debug!(%error, lease = claim.settings.name, "lease not renewed");
                    claim.guard.check().is_ok()
                }
                Err(_) => claim.guard.check().is_ok(),
            };
            (is_holder, claim.pause(is_holder))
        };
        leading.send_if_modified(|leads| {
            let changed = *leads != is_holder;
            if changed {
                tracing::info!(leading = is_holder, "leadership");
            }
            *leads = is_holder;
            changed
        });
        tokio::time::sleep(pause).await;
    }
}

/// Takes and renews the Lease of `claim` while this process leads. Sets `holds_both` to whether it leads
/// and holds that Lease. Calls `note` with the state of the Lease at every interval.
pub(crate) async fn claim_while_leading(
    claim: Claim,
    mut leading: watch::Receiver<bool>,
    holds_both: watch::Sender<bool>,
    note: impl Fn(bool, String),
) {
    let guard = claim.guard.clone();
    let claim = tokio::sync::Mutex::new(claim);
    while leading.wait_for(|leads| *leads).await.is_ok() {
        let noting = async {
            loop {
                let state = claim.lock().await.describe();
                note(*holds_both.borrow(), state);
                tokio::time::sleep(POLL_INTERVAL).await;
            }
        };
        tokio::select! {
            () = claim_through_panics(&claim, &holds_both) => {}
            () = noting => {}
            _ = leading.wait_for(|leads| !*leads) => {}
        }
        guard.revoke();
        holds_both.send_replace(false);
    }
}

/// The thread that renews the Lease. When this handle is dropped, the thread releases the Lease and
/// ends.
pub(crate) struct LeaseThread {
    stop: oneshot::Sender<()>,
    ended: oneshot::Receiver<()>,
}

impl LeaseThread {
    /// Starts the thread. It opens and closes `guard`, and sets `leading`.
    pub(crate) fn start(
        settings: LeaseSettings,
        clients: &Clients,
        guard: Guard,
        leading: watch::Sender<bool>,
    ) -> Result<Self, StartError> {
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = runtime.enable_all().build().map_err(StartError::Thread)?;
        let client = {
            let _context = runtime.enter(); // the connections belong to this runtime
            clients.reserved("lease", Vec::new())
        };
        let client = match client {
            Ok(client) => client,
            Err(error) => {
                runtime.shutdown_background(); // a drop would block, which panics in async code
                return Err(error.into());
            }
        };
        // The Lease needs real time, also if passes use a test clock.
        let clock: SharedClock = Arc::new(RealClock::new());
        let claim = tokio::sync::Mutex::new(Claim::new(settings, client, guard, clock, None));
        let (stop, stopped) = oneshot::channel();
        let (done, ended) = oneshot::channel();
        let work = async move {
            tokio::select! {
                () = claim_through_panics(&claim, &leading) => {}
                _ = stopped => {}
            }
            if *leading.borrow() {
                release_within_limit(claim).await;
            }
            done.send(()).ok();
        };
        let thread = std::thread::Builder::new().name("lease".to_owned());
        let thread = thread.spawn(move || runtime.block_on(work));
        thread.map_err(StartError::Thread)?;
        Ok(Self { stop, ended })
    }

    /// Releases the Lease, so that the next replica does not wait for its expiry.
    pub(crate) async fn release(self) {
        self.stop.send(()).ok();
        self.ended.await.ok();
    }
}

/// Claims the Lease again after a panic.
async fn claim_through_panics(claim: &tokio::sync::Mutex<Claim>, leading: &watch::Sender<bool>) {
    loop {
        let claimed = AssertUnwindSafe(claim_repeatedly(claim, leading)).catch_unwind();
        let panicked = claimed.await.is_err();
        tracing::error!(panicked, "the lease is claimed again");
        tokio::time::sleep(PANIC_PAUSE).await;
    }
}

async fn release_within_limit(claim: tokio::sync::Mutex<Claim>) {
    let release = async { claim.lock().await.release().await };
    match tokio::time::timeout(RELEASE_TIMEOUT, release).await {
        Ok(Ok(())) => tracing::info!("lease released"),
        Ok(Err(error)) => tracing::warn!(%error, "lease not released; it will expire"),
        Err(_) => tracing::warn!("lease not released in time; it will expire"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Metrics;
    use http::Request;
    use http_body_util::BodyExt as _;
    use kube::client::Body;
    use rstest::rstest;
    use serde_json::{Value, json};
    use std::io::{BufRead as _, BufReader, Read as _, Write as _};
    use std::net::{TcpListener, TcpStream};
    use std::sync::atomic::{AtomicUsize, Ordering};

    /// An API server with one Lease and one thread per connection.
    struct LeaseServer {
        url: String,
        connections: Arc<AtomicUsize>,
    }

    impl LeaseServer {
        fn start() -> Self {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let url = format!("http://{}", listener.local_addr().unwrap());
            let (connections, lease) = (Arc::default(), Arc::default());
            let counted: Arc<AtomicUsize> = Arc::clone(&connections);
            std::thread::spawn(move || {
                for stream in listener.incoming().map_while(Result::ok) {
                    counted.fetch_add(1, Ordering::SeqCst);
                    let lease = Arc::clone(&lease);
                    std::thread::spawn(move || while answer(&stream, &lease).is_some() {});
                }
            });
            Self { url, connections }
        }
    }

    /// Answers one request; `None` at the end of the connection.
    fn answer(mut stream: &TcpStream, lease: &parking_lot::Mutex<Option<Value>>) -> Option<()> {
        let mut reader = BufReader::new(stream);
        let (mut head, mut length) = (String::new(), 0);
        loop {
            let mut header = String::new();
            reader
                .read_line(&mut header)
                .ok()
                .filter(|read| *read > 0)?;
            if let Some(value) = header.to_lowercase().strip_prefix("content-length:") {
                length = value.trim().parse().ok()?;
            }
            if header == "\r\n" {
                break;
            }
            head.push_str(&header);
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body).ok()?;
        let mut lease = lease.lock();
        if !head.starts_with("GET") {
            let mut written: Value = serde_json::from_slice(&body).ok()?;
            let before = lease.as_ref().map_or(0, version);
            written["metadata"]["resourceVersion"] = json!((before + 1).to_string());
            *lease = Some(written);
        }
        let (status, text) = match &*lease {
            Some(lease) => (200, lease.to_string()),
            None => (
                404,
                json!({"kind": "Status", "status": "Failure", "message": "no",
                "reason": "NotFound", "code": 404})
                .to_string(),
            ),
        };
        let length = text.len();
        let head = format!("HTTP/1.1 {status} OK\r\ncontent-type: application/json\r\n");
        write!(stream, "{head}content-length: {length}\r\n\r\n{text}").ok()
    }

    fn version(lease: &Value) -> u64 {
        let version = lease["metadata"]["resourceVersion"].as_str();
        version
            .and_then(|version| version.parse().ok())
            .unwrap_or(0)
    }

    #[tokio::test]
    async fn the_lease_is_renewed_while_all_other_work_is_stuck() {
        rustls::crypto::aws_lc_rs::default_provider()
            .install_default()
            .ok();
        let server = LeaseServer::start();
        let config = kube::Config::new(server.url.parse().unwrap());
        let clients = Clients::new(config, 1, Metrics::default()).unwrap();
        let settings = LeaseSettings {
            namespace: "a".into(),
            name: "pontoon".into(),
            identity: "me".into(),
            duration: Duration::from_secs(3),
            deadline: Duration::from_secs(2),
            retry: Duration::from_millis(100),
        };
        let (guard, (leading, mut leads)) = (Guard::closed(), watch::channel(false));
        let lease = LeaseThread::start(settings, &clients, guard.clone(), leading).unwrap();
        leads.wait_for(|leads| *leads).await.unwrap();
        std::thread::sleep(Duration::from_secs(3)); // blocks the only worker of this runtime
        assert_eq!(guard.check(), Ok(()));
        assert_eq!(server.connections.load(Ordering::SeqCst), 1);
        lease.release().await;
        assert!(guard.check().is_err());
    }

    /// A client for a Lease that does not exist. Its first call panics.
    fn panicking_client() -> Client {
        let calls = Arc::new(AtomicUsize::new(0));
        let server = tower::service_fn(move |request: Request<Body>| {
            let call = calls.fetch_add(1, Ordering::SeqCst);
            async move {
                assert!(call > 0, "a mistake");
                let (status, text) = if request.method() == http::Method::GET {
                    let text = json!({"kind": "Status", "status": "Failure", "code": 404,
                        "reason": "NotFound", "message": "no"});
                    (404, text.to_string().into_bytes())
                } else {
                    let body = request.into_body().collect().await?;
                    (201, body.to_bytes().to_vec())
                };
                let answer = http::Response::builder().status(status);
                Ok::<_, tower::BoxError>(answer.body(Body::from(text))?)
            }
        });
        Client::new(server, "a")
    }

    #[tokio::test(start_paused = true)]
    async fn a_predecessors_lease_is_renewed_after_a_panic() {
        let guard = Guard::closed();
        let claim = claim_in(panicking_client(), None, &guard);
        let (_leads, leading) = watch::channel(true);
        let (holds_both, mut holds) = watch::channel(false);
        tokio::select! {
            () = claim_while_leading(claim, leading, holds_both, |_, _| {}) => panic!("it leads"),
            holds = holds.wait_for(|holds| *holds) => assert!(holds.is_ok()),
        }
        assert_eq!(guard.check(), Ok(()));
    }

    /// A client for a cluster in which nothing exists, until `namespace` does. Then the Lease may not be read.
    fn empty_cluster(namespace: Arc<AtomicUsize>) -> Client {
        let server = tower::service_fn(move |request: Request<Body>| {
            let is_namespace = !request.uri().path().contains("leases");
            let exists = namespace.load(Ordering::SeqCst) > 0;
            async move {
                let (status, text) = match (is_namespace, exists) {
                    (true, true) => (200, json!({"metadata": {"name": "a"}})),
                    (true, false) => (404, failure(404, "NotFound")),
                    (false, _) => (403, failure(403, "Forbidden")),
                };
                let answer = http::Response::builder().status(status);
                Ok::<_, tower::BoxError>(answer.body(Body::from(text.to_string().into_bytes()))?)
            }
        });
        Client::new(server, "a")
    }

    fn failure(code: u16, reason: &str) -> Value {
        json!({"kind": "Status", "status": "Failure", "code": code, "reason": reason, "message": "no"})
    }

    fn claim_in(client: Client, replica_prefix: Option<&str>, guard: &Guard) -> Claim {
        let settings = LeaseSettings {
            namespace: "a".into(),
            name: "old".into(),
            identity: "me".into(),
            duration: Duration::from_secs(60),
            deadline: Duration::from_secs(40),
            retry: Duration::from_secs(20),
        };
        let clock: SharedClock = Arc::new(RealClock::new());
        let replica_prefix = replica_prefix.map(str::to_owned);
        Claim::new(settings, client, guard.clone(), clock, replica_prefix)
    }

    #[tokio::test]
    async fn a_predecessors_lease_counts_as_ours_without_its_namespace() {
        let namespace = Arc::<AtomicUsize>::default();
        let guard = Guard::closed();
        let client = empty_cluster(namespace.clone());
        let mut claim = claim_in(client, Some("pontoon/own/"), &guard);
        for _ in 0..2 {
            assert!(claim.acquire_or_renew().await.unwrap());
            assert_eq!(guard.check(), Ok(()));
            assert_eq!(claim.pause(true), POLL_INTERVAL);
        }
        assert_eq!(
            claim.describe(),
            "a/old held by nobody: there is no namespace a"
        );
        namespace.store(1, Ordering::SeqCst);
        assert!(claim.acquire_or_renew().await.is_err());
        assert!(guard.check().is_err());
    }

    #[tokio::test]
    async fn our_own_lease_needs_its_namespace() {
        let guard = Guard::closed();
        let mut claim = claim_in(empty_cluster(Arc::default()), None, &guard);
        assert!(claim.acquire_or_renew().await.is_err());
        assert!(guard.check().is_err());
    }

    #[rstest] // holder, age, replica prefix, action
    #[case::our_lease_is_renewed("me", 99, None, LeaseAction::Renew)]
    #[case::a_lease_without_holder_is_taken("", 0, None, LeaseAction::Take)]
    #[case::a_valid_lease_is_not_taken("you", 14, None, LeaseAction::Wait)]
    #[case::an_expired_lease_is_taken("you", 15, None, LeaseAction::Take)]
    #[case::the_lease_of_a_replica_is_taken("p/you", 1, Some("p/"), LeaseAction::Take)]
    #[case::the_lease_of_another_program_is_not("you", 1, Some("p/"), LeaseAction::Wait)]
    fn rule(
        #[case] holder: &str,
        #[case] age: u64,
        #[case] replica_prefix: Option<&str>,
        #[case] expected: LeaseAction,
    ) {
        let seen = ObservedLease {
            holder: holder.into(),
            version: "1".into(),
            duration: Duration::from_secs(15),
            at: Duration::from_secs(100),
        };
        let now = Duration::from_secs(100 + age);
        assert_eq!(action(&seen, "me", replica_prefix, now), expected);
    }

    #[rstest]
    #[case::a_holder_renews_at_its_own_interval(true, 14_500, 20_000)]
    #[case::a_standby_reads_more_often(false, 1_000, 2_000)]
    #[case::a_standby_reads_when_the_lease_expires(false, 14_500, 500)]
    #[case::a_standby_never_loops_without_pause(false, 20_000, 100)]
    fn the_next_attempt_is_after(#[case] is_holder: bool, #[case] age: u64, #[case] millis: u64) {
        let seen = ObservedLease {
            holder: "you".into(),
            version: "1".into(),
            duration: Duration::from_secs(15),
            at: Duration::from_secs(100),
        };
        let now = seen.at + Duration::from_millis(age);
        let retry = Duration::from_secs(20);
        assert_eq!(
            pause(Some(&seen), is_holder, retry, now),
            Duration::from_millis(millis)
        );
    }
}
