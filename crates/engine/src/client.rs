//! Clients of the Kubernetes API. All of them have the same limits, time-outs and guards.

use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures::future::BoxFuture;
use http::{HeaderValue, Method, Request, Response, header};
use http_body_util::{BodyExt, Full};
use kernel::{Guard, GuardedBody, tcp, write_timeout};
use kube::client::Body;
use kube::config::AuthInfo;
use kube::{Client, Config};
use prometheus_client::metrics::gauge::Gauge;
use tokio::sync::Semaphore;
use tower::{BoxError, Layer, Service, ServiceExt};

use crate::connection::{ConnectionPool, ResponseBody, WriteGuards};
use crate::metrics::{ApiCall, Metrics, OTHER_CLUSTER, OWN_CLUSTER};
use crate::versioned;

/// Time limit of a call. For a watch it covers only the time until the response begins.
const CALL_TIMEOUT: Duration = Duration::from_secs(15);
/// A throttled call, or a read without a response, is repeated this often. The server sets the pause
/// after throttling, up to `RETRY_PAUSE`.
const RETRIES: u32 = 2;
const RETRY_PAUSE: Duration = Duration::from_secs(2);
/// Concurrent calls of a reserved client.
const RESERVED_CALLS: usize = 2;

/// Makes clients for features. They share one connection pool and one limit of concurrent calls.
#[derive(Clone)]
pub struct Clients {
    pool: ConnectionPool,
    in_flight: Arc<Semaphore>,
    metrics: Metrics,
    /// The metric label.
    cluster: &'static str,
}

impl Clients {
    /// A connection pool to the cluster of `config`, with at most `max_in_flight` concurrent calls.
    pub fn new(
        config: Config,
        max_in_flight: usize,
        metrics: Metrics,
    ) -> Result<Self, kube::Error> {
        Self::with_guards(&[], config, max_in_flight, metrics)
    }

    /// The same for clients whose writes need `guards`. A connection is closed if the server does not
    /// acknowledge bytes in time: no write arrives after another process may have become leader.
    pub fn with_guards(
        guards: &[Guard],
        config: Config,
        max_in_flight: usize,
        metrics: Metrics,
    ) -> Result<Self, kube::Error> {
        Ok(Self {
            pool: ConnectionPool::new(config, tcp::user_timeout(guards), usize::MAX)?,
            in_flight: Arc::new(Semaphore::new(max_in_flight)),
            metrics,
            cluster: OWN_CLUSTER,
        })
    }

    /// The same clients, whose calls are counted as calls to another cluster.
    pub(crate) fn of_other_cluster(self) -> Self {
        Self {
            cluster: OTHER_CLUSTER,
            ..self
        }
    }

    /// Replaces the login of these clients: a token, or a certificate with its key. Later requests use
    /// the new one, a certificate on new connections. Requests in flight and watches continue.
    ///
    /// A token file needs no new login: it is read again every minute.
    ///
    /// # Errors
    /// If a certificate, key or token cannot be used. Then the old login stays.
    /// # When not to use it
    /// For a [`Clients::reserved`] client: it has its own connections and keeps its login.
    pub fn relogin(&self, login: AuthInfo) -> Result<(), kube::Error> {
        self.pool.relogin(login)
    }

    /// Refuses all later calls of these clients. Calls in flight continue.
    pub(crate) fn close(&self) {
        self.in_flight.close();
    }

    /// The client of one feature. It refuses writes while one of `guards` is closed.
    pub fn client(&self, feature: &str, guards: Vec<Guard>) -> Client {
        self.with_policy(self.policy(feature, guards))
    }

    /// A client for work on every replica. Its writes need no Lease, but each must name the version of the
    /// object that was read. A deletion may name its UID instead, and a create names neither. It refuses all
    /// others and sends nothing.
    pub fn versioned(&self, feature: &str, guards: Vec<Guard>) -> Client {
        self.with_policy(Policy {
            needs_version: true,
            ..self.policy(feature, guards)
        })
    }

    fn policy(&self, feature: &str, guards: Vec<Guard>) -> Policy {
        let agent = format!("pontoon/{} ({feature})", env!("CARGO_PKG_VERSION"));
        Policy {
            feature: feature.to_owned(),
            agent: HeaderValue::from_str(&agent).expect("features have plain names"),
            guards,
            needs_version: false,
            in_flight: self.in_flight.clone(),
            metrics: self.metrics.clone(),
            cluster: self.cluster,
        }
    }

    fn with_policy(&self, policy: Policy) -> Client {
        let layer = GuardLayer(policy);
        let namespace = self.pool.default_namespace();
        Client::new(layer.layer(self.pool.clone()), namespace)
    }

    /// A client with its own connections, whose calls never wait for calls of other clients. The Lease
    /// needs it for its renewals. Its connections belong to the tokio runtime of the caller.
    pub fn reserved(&self, purpose: &str, guards: Vec<Guard>) -> Result<Client, kube::Error> {
        let own = Self {
            pool: self.pool.separate(1)?,
            in_flight: Arc::new(Semaphore::new(RESERVED_CALLS)),
            ..self.clone()
        };
        Ok(own.client(purpose, guards))
    }

    /// A client without guards, for what every replica does: watches, leases, reviews.
    pub fn unguarded(&self, purpose: &str) -> Client {
        self.client(purpose, Vec::new())
    }
}

#[derive(Clone)]
struct Policy {
    feature: String,
    agent: HeaderValue,
    guards: Vec<Guard>,
    /// Whether each write must name the version of its object.
    needs_version: bool,
    in_flight: Arc<Semaphore>,
    metrics: Metrics,
    cluster: &'static str,
}

/// The cluster was closed, so no call was made.
#[derive(Debug, thiserror::Error)]
#[error("the connection to this cluster was closed, so nothing was sent")]
pub(crate) struct Closed;

/// The server did not answer in time.
#[derive(Debug, thiserror::Error)]
#[error("no answer within {:.1} s", .0.as_secs_f64())]
pub(crate) struct NoAnswer(pub(crate) Duration);

struct GuardLayer(Policy);

impl<S> Layer<S> for GuardLayer {
    type Service = Guarded<S>;
    fn layer(&self, inner: S) -> Guarded<S> {
        Guarded {
            inner,
            policy: self.0.clone(),
        }
    }
}

struct Guarded<S> {
    inner: S,
    policy: Policy,
}

impl<S> Service<Request<Body>> for Guarded<S>
where
    S: Service<Request<Body>, Response = Response<ResponseBody>, Error = BoxError>
        + Clone
        + Send
        + 'static,
    S::Future: Send,
{
    type Response = Response<ResponseBody>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Response<ResponseBody>, BoxError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(())) // each call awaits the inner service, within the limit of concurrent calls
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        Box::pin(send(self.inner.clone(), self.policy.clone(), request))
    }
}

/// Sends a request and repeats it where that is safe. A body can be sent only once, so it is collected
/// into bytes first.
async fn send<S>(
    service: S,
    policy: Policy,
    request: Request<Body>,
) -> Result<Response<ResponseBody>, BoxError>
where
    S: Service<Request<Body>, Response = Response<ResponseBody>, Error = BoxError>
        + Clone
        + Send
        + 'static,
    S::Future: Send,
{
    let verb = verb(&request);
    let (mut parts, body) = request.into_parts();
    parts
        .headers
        .insert(header::USER_AGENT, policy.agent.clone());
    let body = body.collect().await?.to_bytes();
    if policy.needs_version {
        versioned::check_request(&parts, &body)?;
    }
    let mut attempt = 0;
    loop {
        let request = Request::from_parts(parts.clone(), Body::from(body.clone()));
        let answer = once(service.clone(), &policy, verb, request).await;
        let pause = match &answer {
            Ok(response) if response.status() == 429 => Some(retry_after(response)),
            // Without a response a read may be repeated. A write may have happened.
            Err(error) if is_read(verb) && !error.is::<kernel::Deposed>() => {
                Some(Duration::from_millis(100))
            }
            Ok(_) | Err(_) => None,
        };
        match pause {
            Some(pause) if attempt < RETRIES && verb != "watch" => {
                attempt += 1;
                tokio::time::sleep(pause).await;
            }
            _ => return answer,
        }
    }
}

async fn once<S>(
    service: S,
    policy: &Policy,
    verb: &'static str,
    mut request: Request<Body>,
) -> Result<Response<ResponseBody>, BoxError>
where
    S: Service<Request<Body>, Response = Response<ResponseBody>, Error = BoxError> + Send + 'static,
    S::Future: Send,
{
    let _permit = policy.in_flight.acquire().await.map_err(|_| Closed)?;
    if !is_read(verb) {
        // Checked after the wait for a permit. The body checks again after the waits of the pool.
        policy.guards.iter().try_for_each(Guard::check)?;
        request
            .extensions_mut()
            .insert(WriteGuards(policy.guards.clone()));
    }
    let time_limit = if is_read(verb) {
        CALL_TIMEOUT
    } else {
        write_timeout(CALL_TIMEOUT, &policy.guards)
    };
    let _counted = InFlight::new(&policy.metrics);
    let call = async {
        let response = service.oneshot(request).await?;
        if verb == "watch" {
            return Ok(response);
        }
        // Reading the body counts as part of the call, for the time-out and for the permit.
        let (parts, body) = response.into_parts();
        let body = Full::new(body.collect().await?.to_bytes());
        let body = body.map_err(|never| match never {}).boxed_unsync();
        Ok(Response::from_parts(parts, body))
    };
    let answer: Result<Result<_, BoxError>, _> = tokio::time::timeout(time_limit, call).await;
    let result = match &answer {
        Ok(Ok(response)) if response.status().is_success() => "2xx".to_owned(),
        Ok(Ok(response)) => response.status().as_u16().to_string(),
        Ok(Err(_)) => "unreachable".to_owned(),
        Err(_) => "timeout".to_owned(),
    };
    let call = ApiCall {
        cluster: policy.cluster,
        feature: policy.feature.clone(),
        verb,
        result,
    };
    policy.metrics.api_calls.get_or_create(&call).inc();
    let answer = answer.map_err(|_| NoAnswer(time_limit))?;
    answer.map_err(|error| match GuardedBody::refused(&*error) {
        Some(deposed) => deposed.into(),
        None => error,
    })
}

/// Counts a call as in flight until it is dropped.
struct InFlight(Gauge);

impl InFlight {
    fn new(metrics: &Metrics) -> Self {
        metrics.api_in_flight.inc();
        Self(metrics.api_in_flight.clone())
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        self.0.dec();
    }
}

fn retry_after<B>(response: &Response<B>) -> Duration {
    let seconds = response.headers().get(header::RETRY_AFTER);
    let seconds = seconds.and_then(|value| value.to_str().ok()?.parse().ok());
    seconds
        .map_or(Duration::from_millis(200), Duration::from_secs)
        .min(RETRY_PAUSE)
}

fn is_read(verb: &str) -> bool {
    matches!(verb, "get" | "watch")
}

fn verb<B>(request: &Request<B>) -> &'static str {
    match *request.method() {
        Method::GET
            if request
                .uri()
                .query()
                .is_some_and(|query| query.contains("watch=true")) =>
        {
            "watch"
        }
        Method::GET | Method::HEAD => "get",
        Method::POST => "create",
        Method::PUT => "update",
        Method::PATCH => "patch",
        Method::DELETE => "delete",
        _ => "other",
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::Tasks;
    use kernel::{Clock as _, Deposed, RealClock, SteppingClock, TestClock};
    use parking_lot::Mutex;
    use std::net::TcpListener;
    use std::pin::pin;
    use std::sync::atomic::{AtomicU32, Ordering};
    use tokio::sync::Notify;

    pub(crate) fn install_crypto() {
        rustls::crypto::aws_lc_rs::default_provider()
            .install_default()
            .ok();
    }

    /// Clients without a server: `answer` makes the responses.
    pub(crate) fn clients<F>(
        max_in_flight: usize,
        answer: impl Fn(Request<Body>) -> F + Clone + Send + Sync + 'static,
    ) -> Clients
    where
        F: Future<Output = Result<Response<Body>, BoxError>> + Send + 'static,
    {
        install_crypto();
        let nowhere = Config::new("http://127.0.0.1:9".parse().unwrap());
        let clients = Clients::new(nowhere, max_in_flight, Metrics::default()).unwrap();
        Clients {
            pool: ConnectionPool::answered_by(answer),
            ..clients
        }
    }

    fn get_version() -> Request<Vec<u8>> {
        Request::get("/version").body(Vec::new()).unwrap()
    }

    #[tokio::test]
    async fn a_closed_client_sends_nothing() {
        let clients = clients(1, |_| std::future::ready(Err("it was sent".into())));
        let client = clients.unguarded("f");
        clients.close();
        let error = client.request_text(get_version()).await.unwrap_err();
        let message = crate::error::chain(&error);
        assert!(message.contains("nothing was sent"), "{message}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_waits_until_one_in_flight_has_ended() {
        let (arrived, gate) = (Arc::new(AtomicU32::new(0)), Arc::new(Notify::new()));
        let (counted, opened) = (arrived.clone(), gate.clone());
        let clients = clients(1, move |_| {
            let (counted, opened) = (counted.clone(), opened.clone());
            async move {
                counted.fetch_add(1, Ordering::SeqCst);
                opened.notified().await;
                Ok(Response::new(Body::empty()))
            }
        });
        let (first, second) = (clients.unguarded("first"), clients.unguarded("second"));
        let mut both = pin!(futures::future::join(
            first.request_text(get_version()),
            second.request_text(get_version()),
        ));
        for calls in 1..=2 {
            let moment = tokio::time::timeout(Duration::from_secs(1), &mut both);
            assert!(moment.await.is_err(), "a call waits");
            assert_eq!(arrived.load(Ordering::SeqCst), calls);
            gate.notify_one();
        }
        let (first, second) = both.await;
        assert!(first.is_ok() && second.is_ok());
    }

    #[tokio::test]
    async fn a_versioned_client_sends_no_blind_write() {
        let arrived = Arc::new(AtomicU32::new(0));
        let counted = arrived.clone();
        let clients = clients(1, move |_| {
            counted.fetch_add(1, Ordering::SeqCst);
            std::future::ready(Ok(Response::new(Body::empty())))
        });
        let client = clients.versioned("f", Vec::new());
        let patch = |body: &'static str| {
            let patch = Request::patch("/api/v1/namespaces/a/configmaps/m");
            let patch = patch.header(header::CONTENT_TYPE, "application/merge-patch+json");
            client.request_text(patch.body(body.as_bytes().to_vec()).unwrap())
        };
        let error = patch("{}").await.unwrap_err();
        let error = crate::ApiError::classify("patch ConfigMap a/m", error);
        let refused = matches!(error, crate::ApiError::Refused { .. });
        assert!(refused, "{error}");
        assert_eq!(arrived.load(Ordering::SeqCst), 0);
        let versioned = patch(r#"{"metadata": {"resourceVersion": "7"}}"#).await;
        assert!(versioned.is_ok(), "{versioned:?}");
        assert_eq!(arrived.load(Ordering::SeqCst), 1);
    }

    #[tokio::test]
    async fn the_user_agent_names_version_and_feature() {
        let agents = Arc::new(Mutex::new(Vec::new()));
        let log = agents.clone();
        let clients = clients(1, move |request| {
            let agent = request.headers()[header::USER_AGENT].clone();
            log.lock().push(agent);
            std::future::ready(Ok(Response::new(Body::empty())))
        });
        for feature in ["vault", "tenants"] {
            let client = clients.unguarded(feature);
            client.request_text(get_version()).await.unwrap();
        }
        let version = env!("CARGO_PKG_VERSION");
        let expected = ["vault", "tenants"].map(|name| format!("pontoon/{version} ({name})"));
        assert_eq!(*agents.lock(), expected);
    }

    /// A guard that closes after its clock was read `readings` times.
    fn closing(readings: u64) -> Guard {
        let guard = Guard::new(Arc::new(SteppingClock::default()));
        guard.allow_until(Duration::from_secs(readings));
        guard.with_margin(Duration::from_secs(5))
    }

    #[tokio::test]
    async fn a_guard_that_closes_before_the_bytes_leave_stops_them() {
        install_crypto();
        let arrived = Arc::new(AtomicU32::new(0));
        let counted = arrived.clone();
        let router = axum::Router::new().fallback(move || {
            counted.fetch_add(1, Ordering::SeqCst);
            std::future::ready("{}")
        });
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let tasks = Tasks::default();
        tasks.spawn(async move { axum::serve(listener, router).await.unwrap() });

        let (mut stopped, mut sent) = (0, 0);
        for readings in 1..12 {
            for (method, body) in [(Method::PATCH, "{}"), (Method::DELETE, "")] {
                let guards = vec![closing(readings)];
                let config = Config::new(url.parse().unwrap());
                let clients = Clients::with_guards(&guards, config, 1, Metrics::default()).unwrap();
                let client = clients.client("f", guards);
                let request = Request::builder()
                    .method(method.clone())
                    .uri("/api/v1/namespaces/a")
                    .body(body.as_bytes().to_vec());
                match client.request_text(request.unwrap()).await {
                    Ok(_) => sent += 1,
                    Err(error) => {
                        let refused = GuardedBody::refused(&error);
                        assert_eq!(refused, Some(Deposed), "{method}, {readings}: {error}");
                        stopped += 1;
                    }
                }
                let arrived = arrived.load(Ordering::SeqCst);
                assert_eq!(arrived, sent, "{method} after {readings} readings");
            }
        }
        assert!(stopped >= 4 && sent >= 4, "{stopped} stopped, {sent} sent");
        tasks.kill().await;
    }

    #[tokio::test]
    async fn a_write_ends_before_another_leader_may_write() {
        install_crypto();
        // The kernel accepts connections into the backlog, and nothing answers.
        let silent = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", silent.local_addr().unwrap());
        // The clock of this guard stands still, so the guard stays open for another 500 ms.
        let guard = Guard::new(Arc::new(TestClock::new())).with_margin(Duration::from_millis(300));
        guard.allow_until(Duration::from_millis(500));
        let guards = vec![guard];
        let config = Config::new(url.parse().unwrap());
        let clients = Clients::with_guards(&guards, config, 1, Metrics::default()).unwrap();
        let client = clients.client("f", guards);
        let (real, allowed) = (RealClock::new(), Guard::allowed_on_this_thread());
        let request = Request::patch("/api/v1/namespaces/a").body(b"{}".to_vec());
        let error = client.request_text(request.unwrap()).await.unwrap_err();
        let message = crate::error::chain(&error);
        assert!(message.contains("no answer within 0.8 s"), "{message}");
        assert!(real.elapsed() < CALL_TIMEOUT / 2, "{message}");
        assert!(
            Guard::allowed_on_this_thread() > allowed,
            "the write was counted"
        );
    }
}
