//! Leadership: one process acts, the others are warm.
//!
//! # Protocol
//! The holder writes its Lease every `retry`. Others watch for a change: a Lease that has not
//! changed for its whole duration, *by their own clock since they saw it*, is free. Nobody trusts
//! another machine's clock, so skew does no harm.
//! # What holds
//! The guard lets writes through only until `deadline` after the last renewal was *sent*. The
//! duration is longer by the margin, and no write may take longer than the guard has left plus that
//! margin. So a holder that was frozen, cut off or slow has stopped writing before anyone else may
//! begin. Renewals have a thread and a connection of their own: no other work delays them.
//! # Permissions
//! get, create, update on `leases` in the Lease's namespace.
//! # Misuse
//! A deadline that is not well below the duration: then both may write for a moment.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use kernel::{Guard, RealClock, SharedClock};
use kube::Client;
use kube::api::{Api, PostParams};
use tokio::sync::{oneshot, watch};

use crate::{Clients, StartError};

/// A Lease that others hold is looked at this often at least.
const LOOK: Duration = Duration::from_secs(2);

/// The Lease is given back within this time, or runs out.
const RELEASE: Duration = Duration::from_secs(3);
/// Before the Lease is claimed again after a panic.
const AFTER_PANIC: Duration = Duration::from_secs(1);

/// How leadership is held.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeaseSettings {
    /// Where the Lease is.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Who we are; no other process has the same.
    pub identity: String,
    /// After this long without a change it is free.
    pub duration: Duration,
    /// After this long without a renewal we stop writing.
    pub deadline: Duration,
    /// How often it is written or looked at.
    pub retry: Duration,
}

impl LeaseSettings {
    /// How long after its guard has closed the Lease is free at the earliest.
    pub(crate) fn margin(&self) -> Duration {
        self.duration.saturating_sub(self.deadline)
    }
}

/// Who says so, and how long ago we saw it change.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Seen {
    holder: String,
    version: String,
    duration: Duration,
    at: Duration,
}

/// What to do about a Lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Move {
    Renew,
    Take,
    Wait,
}

/// | holder            | unchanged for     | so    |
/// |-------------------|-------------------|-------|
/// | we                | any               | renew |
/// | nobody            | any               | take  |
/// | another           | its duration      | take  |
/// | a fellow          | any               | take  |
/// | another           | less              | wait  |
fn judge(seen: &Seen, identity: &str, fellow: Option<&str>, now: Duration) -> Move {
    if seen.holder == identity {
        Move::Renew
    } else if seen.holder.is_empty()
        || now.saturating_sub(seen.at) >= seen.duration
        || fellow.is_some_and(|prefix| seen.holder.starts_with(prefix))
    {
        Move::Take
    } else {
        Move::Wait
    }
}

/// How long to wait before the next look: until the Lease runs out, if that comes first. A look one
/// period later would leave the cluster without a leader for that much longer.
fn pause(seen: Option<&Seen>, held: bool, retry: Duration, now: Duration) -> Duration {
    let look = retry.min(LOOK);
    match seen {
        Some(seen) if !held => {
            let left = (seen.at + seen.duration).saturating_sub(now);
            left.clamp(look / 20, look) // one that cannot be taken is not asked for in a spin
        }
        None if !held => look,
        Some(_) | None => retry,
    }
}

/// A claim on one Lease, and the guard that follows it.
pub(crate) struct Claim {
    settings: LeaseSettings,
    api: Api<Lease>,
    guard: Guard,
    clock: SharedClock,
    seen: Option<Seen>,
    /// Holders with this prefix are of our own Lease: theirs is ours once we lead.
    fellow: Option<String>,
}

impl Claim {
    pub(crate) fn new(
        settings: LeaseSettings,
        client: Client,
        guard: Guard,
        clock: SharedClock,
        fellow: Option<String>,
    ) -> Self {
        let api = Api::namespaced(client, &settings.namespace);
        Self {
            settings,
            api,
            guard,
            clock,
            seen: None,
            fellow,
        }
    }

    /// Tries once to hold the Lease; answers whether we do.
    pub(crate) async fn hold(&mut self) -> Result<bool, kube::Error> {
        let sent = self.guard.elapsed();
        let Some(lease) = self.api.get_opt(&self.settings.name).await? else {
            self.api
                .create(&PostParams::default(), &self.fresh())
                .await?;
            self.guard.renewed(sent, self.settings.deadline);
            return Ok(true);
        };
        let seen = self.see(&lease);
        let what = judge(
            &seen,
            &self.settings.identity,
            self.fellow.as_deref(),
            self.guard.elapsed(),
        );
        if what == Move::Wait {
            self.guard.revoke();
            return Ok(false);
        }
        let sent = self.guard.elapsed();
        let written = self
            .api
            .replace(
                &self.settings.name,
                &PostParams::default(),
                &self.held(lease, what),
            )
            .await?;
        self.guard.renewed(sent, self.settings.deadline);
        self.see(&written);
        Ok(true)
    }

    /// Gives the Lease up, so that the next holder need not wait. A renewal that was on its way may
    /// come between: then once more.
    pub(crate) async fn release(&mut self) -> Result<(), kube::Error> {
        self.guard.revoke();
        match self.give_up().await {
            Err(kube::Error::Api(status)) if status.code == 409 => self.give_up().await,
            other => other,
        }
    }

    async fn give_up(&self) -> Result<(), kube::Error> {
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
        match &self.seen {
            Some(seen) => format!(
                "{}/{} held by {}",
                self.settings.namespace, self.settings.name, seen.holder
            ),
            None => format!(
                "{}/{} not read yet",
                self.settings.namespace, self.settings.name
            ),
        }
    }

    fn pause(&self, held: bool) -> Duration {
        pause(
            self.seen.as_ref(),
            held,
            self.settings.retry,
            self.guard.elapsed(),
        )
    }

    fn see(&mut self, lease: &Lease) -> Seen {
        let spec = lease.spec.clone().unwrap_or_default();
        let version = lease.metadata.resource_version.clone().unwrap_or_default();
        let seconds = u64::try_from(spec.lease_duration_seconds.unwrap_or(0)).unwrap_or(0);
        let at = match &self.seen {
            Some(seen) if seen.version == version => seen.at,
            _ => self.guard.elapsed(),
        };
        let holder = spec.holder_identity.unwrap_or_default();
        let seen = Seen {
            holder,
            version,
            duration: Duration::from_secs(seconds),
            at,
        };
        self.seen = Some(seen.clone());
        seen
    }

    fn fresh(&self) -> Lease {
        let metadata = ObjectMeta {
            name: Some(self.settings.name.clone()),
            ..ObjectMeta::default()
        };
        self.held(
            Lease {
                metadata,
                spec: None,
            },
            Move::Take,
        )
    }

    fn held(&self, mut lease: Lease, what: Move) -> Lease {
        let now: Timestamp = self.clock.now();
        let before = lease.spec.take().unwrap_or_default();
        let taken = what == Move::Take;
        lease.spec = Some(LeaseSpec {
            holder_identity: Some(self.settings.identity.clone()),
            lease_duration_seconds: i32::try_from(self.settings.duration.as_secs()).ok(),
            renew_time: Some(MicroTime(now)),
            acquire_time: if taken {
                Some(MicroTime(now))
            } else {
                before.acquire_time
            },
            lease_transitions: Some(before.lease_transitions.unwrap_or(0) + i32::from(taken)),
            ..before
        });
        lease
    }
}

/// Holds the Lease whenever it can, telling `leading`, until dropped.
async fn keep(claim: &tokio::sync::Mutex<Claim>, leading: &watch::Sender<bool>) {
    loop {
        let (held, pause) = {
            let mut claim = claim.lock().await;
            let held = match tokio::time::timeout(claim.settings.deadline / 2, claim.hold()).await {
                Ok(Ok(held)) => held,
                Ok(Err(error)) => {
                    tracing::debug!(%error, lease = claim.settings.name, "lease not renewed");
                    claim.guard.check().is_ok()
                }
                Err(_) => claim.guard.check().is_ok(),
            };
            (held, claim.pause(held))
        };
        leading.send_if_modified(|leads| {
            let flips = *leads != held;
            if flips {
                tracing::info!(leading = held, "leadership");
            }
            *leads = held;
            flips
        });
        tokio::time::sleep(pause).await;
    }
}

/// Holds `claim` whenever we lead, and tells `both` whether we do both. `note` is told now and then
/// how the Lease stands.
pub(crate) async fn keep_while_leading(
    claim: Claim,
    mut leading: watch::Receiver<bool>,
    both: watch::Sender<bool>,
    note: impl Fn(bool, String),
) {
    let guard = claim.guard.clone();
    let claim = tokio::sync::Mutex::new(claim);
    while leading.wait_for(|leads| *leads).await.is_ok() {
        let noting = async {
            loop {
                let how = claim.lock().await.describe();
                note(*both.borrow(), how);
                tokio::time::sleep(LOOK).await;
            }
        };
        tokio::select! {
            () = keep_through_panics(&claim, &both) => {}
            () = noting => {}
            _ = leading.wait_for(|leads| !*leads) => {}
        }
        guard.revoke();
        both.send_replace(false);
    }
}

/// The thread that holds the Lease. When this is dropped it gives the Lease back and ends.
pub(crate) struct LeaseThread {
    stop: oneshot::Sender<()>,
    ended: oneshot::Receiver<()>,
}

impl LeaseThread {
    /// Starts to hold the Lease, telling `guard` and `leading`.
    pub(crate) fn start(
        settings: LeaseSettings,
        clients: &Clients,
        guard: Guard,
        leading: watch::Sender<bool>,
    ) -> Result<Self, StartError> {
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = runtime.enable_all().build().map_err(StartError::Thread)?;
        let client = {
            let _connections_live_there = runtime.enter();
            clients.reserved("lease", Vec::new())
        };
        let client = match client {
            Ok(client) => client,
            Err(error) => {
                runtime.shutdown_background(); // dropping it would block, which panics here
                return Err(error.into());
            }
        };
        // A lease is held in real time, whatever clock the passes see.
        let clock: SharedClock = Arc::new(RealClock::new());
        let claim = tokio::sync::Mutex::new(Claim::new(settings, client, guard, clock, None));
        let (stop, stopped) = oneshot::channel();
        let (done, ended) = oneshot::channel();
        let work = async move {
            tokio::select! {
                () = keep_through_panics(&claim, &leading) => {}
                _ = stopped => {}
            }
            if *leading.borrow() {
                give_back(claim).await;
            }
            done.send(()).ok();
        };
        let thread = std::thread::Builder::new().name("lease".to_owned());
        let thread = thread.spawn(move || runtime.block_on(work));
        thread.map_err(StartError::Thread)?;
        Ok(Self { stop, ended })
    }

    /// Gives the Lease back, so that the next replica need not wait.
    pub(crate) async fn release(self) {
        self.stop.send(()).ok();
        self.ended.await.ok();
    }
}

async fn keep_through_panics(claim: &tokio::sync::Mutex<Claim>, leading: &watch::Sender<bool>) {
    loop {
        let kept = AssertUnwindSafe(keep(claim, leading)).catch_unwind().await;
        tracing::error!(panicked = kept.is_err(), "the lease is claimed anew");
        tokio::time::sleep(AFTER_PANIC).await;
    }
}

async fn give_back(claim: tokio::sync::Mutex<Claim>) {
    let release = async { claim.lock().await.release().await };
    match tokio::time::timeout(RELEASE, release).await {
        Ok(Ok(())) => tracing::info!("lease released"),
        Ok(Err(error)) => tracing::warn!(%error, "lease not released; it runs out by itself"),
        Err(_) => tracing::warn!("lease not released in time; it runs out by itself"),
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

    /// An API server with one Lease, on a thread a connection.
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
            let mut line = String::new();
            reader.read_line(&mut line).ok().filter(|read| *read > 0)?;
            if let Some(value) = line.to_lowercase().strip_prefix("content-length:") {
                length = value.trim().parse().ok()?;
            }
            if line == "\r\n" {
                break;
            }
            head.push_str(&line);
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
        let (guard, (leading, mut leads)) = (Guard::held(), watch::channel(false));
        let lease = LeaseThread::start(settings, &clients, guard.clone(), leading).unwrap();
        leads.wait_for(|leads| *leads).await.unwrap();
        std::thread::sleep(Duration::from_secs(3)); // the only worker of this runtime is stuck
        assert_eq!(guard.check(), Ok(()));
        assert_eq!(server.connections.load(Ordering::SeqCst), 1);
        lease.release().await;
        assert!(guard.check().is_err());
    }

    /// Answers to a claim of a Lease that nobody has; its first answer panics.
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
    async fn a_predecessors_lease_is_held_through_panics() {
        let settings = LeaseSettings {
            namespace: "a".into(),
            name: "old".into(),
            identity: "me".into(),
            duration: Duration::from_secs(60),
            deadline: Duration::from_secs(40),
            retry: Duration::from_secs(20),
        };
        let clock: SharedClock = Arc::new(RealClock::new());
        let guard = Guard::held();
        let claim = Claim::new(settings, panicking_client(), guard.clone(), clock, None);
        let (_leads, leading) = watch::channel(true);
        let (both, mut holds) = watch::channel(false);
        tokio::select! {
            () = keep_while_leading(claim, leading, both, |_, _| {}) => panic!("it leads"),
            holds = holds.wait_for(|holds| *holds) => assert!(holds.is_ok()),
        }
        assert_eq!(guard.check(), Ok(()));
    }

    #[rstest] //                      holder   age fellow         so
    #[case::ours_is_renewed("me", 99, None, Move::Renew)]
    #[case::a_free_one_is_taken("", 0, None, Move::Take)]
    #[case::a_live_one_is_waited_for("you", 14, None, Move::Wait)]
    #[case::a_dead_one_is_taken("you", 15, None, Move::Take)]
    #[case::a_fellows_is_taken("p/you", 1, Some("p/"), Move::Take)]
    #[case::a_strangers_is_not("you", 1, Some("p/"), Move::Wait)]
    fn rule(
        #[case] holder: &str,
        #[case] age: u64,
        #[case] fellow: Option<&str>,
        #[case] so: Move,
    ) {
        let seen = Seen {
            holder: holder.into(),
            version: "1".into(),
            duration: Duration::from_secs(15),
            at: Duration::from_secs(100),
        };
        assert_eq!(
            judge(&seen, "me", fellow, Duration::from_secs(100 + age)),
            so
        );
    }

    #[rstest]
    #[case::a_holder_renews_in_its_own_rhythm(true, 14_500, 20_000)]
    #[case::a_standby_looks_more_often(false, 1_000, 2_000)]
    #[case::and_is_there_when_the_lease_runs_out(false, 14_500, 500)]
    #[case::and_never_spins(false, 20_000, 100)]
    fn next_look(#[case] held: bool, #[case] age: u64, #[case] millis: u64) {
        let seen = Seen {
            holder: "you".into(),
            version: "1".into(),
            duration: Duration::from_secs(15),
            at: Duration::from_secs(100),
        };
        let now = seen.at + Duration::from_millis(age);
        let retry = Duration::from_secs(20);
        assert_eq!(
            pause(Some(&seen), held, retry, now),
            Duration::from_millis(millis)
        );
    }
}
