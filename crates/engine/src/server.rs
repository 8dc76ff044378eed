//! Serves probes over HTTP, metrics over HTTP or over HTTPS with access control, and what features serve.

use std::future::ready;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, HttpBody as _};
use axum::extract::{Query, State};
use axum::http::{HeaderMap, Request, StatusCode, header};
use axum::middleware::map_request;
use axum::response::IntoResponse;
use axum::routing::get;
use futures::{StreamExt, stream};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_rustls::TlsAcceptor;
use tower::BoxError;

use crate::review::Reviewer;
use crate::{Certificate, Metrics, Tasks, Usage};

/// The limits of the engine's own servers. A scraper needs one connection.
const ENGINE_LIMITS: Limits = Limits {
    connections: 64,
    head: Duration::from_secs(30),
    body: Duration::from_secs(30),
    last_requests: Duration::from_secs(4), // shorter than the time for work at shutdown
};
/// The limits of a feature's server. A browser opens six connections.
pub(crate) const FEATURE_LIMITS: Limits = Limits {
    connections: 256,
    ..ENGINE_LIMITS
};
/// Pause after a connection that could not be accepted, for example without free file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// Time limit of a TLS handshake.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(5);

/// The limits of a server.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    /// Concurrent connections. Others wait.
    connections: usize,
    /// Time limit for the head of a request. An idle connection is closed after it too.
    head: Duration,
    /// Time limit for the body of a request, from the end of its head.
    body: Duration,
    /// Time limit for running requests after a stop.
    last_requests: Duration,
}

/// What `/readyz?verbose` prints, one line for each part.
pub trait Readiness: Send + Sync + 'static {
    /// Name, whether it is fine, and its state.
    fn details(&self) -> Vec<(String, bool, String)>;
}

/// An address that cannot be served on.
#[derive(Debug, thiserror::Error)]
#[error("cannot listen on {address}: {source}; choose another with --{flag}")]
pub struct ListenError {
    flag: &'static str,
    address: String,
    source: std::io::Error,
}

impl From<ListenError> for Usage {
    fn from(error: ListenError) -> Self {
        Self(error.to_string())
    }
}

/// The certificate of a feature's server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerCertificate {
    /// The flag that names it.
    pub flag: &'static str,
    /// Where it comes from.
    pub certificate: Certificate,
}

/// Parses an address. `:8081` means every interface, `0` means none.
pub fn parse_address(text: &str) -> Result<Option<SocketAddr>, String> {
    let full = match text {
        "0" | "" => return Ok(None),
        _ if text.starts_with(':') => format!("0.0.0.0{text}"),
        _ => text.to_owned(),
    };
    full.parse()
        .map(Some)
        .map_err(|_| format!("{text:?} is no address; write <ip>:<port>, :<port>, or 0 for none"))
}

/// Serves `/healthz` and `/readyz`.
pub(crate) fn probes(
    address: SocketAddr,
    readiness: Arc<dyn Readiness>,
    tasks: &Tasks,
) -> Result<(), ListenError> {
    let router = Router::new()
        .route("/healthz", get(|| async { "ok" }))
        .route("/livez", get(|| async { "ok" }))
        .route("/readyz", get(readyz))
        .with_state(readiness);
    serve("health-probe-bind-address", address, router, None, tasks)
}

/// Serves `/metrics`. If `secure`, uses TLS and lets the API server check access.
pub(crate) fn metrics(
    address: SocketAddr,
    metrics: Metrics,
    secure: Option<Secure>,
    tasks: &Tasks,
) -> Result<(), ListenError> {
    let reviewer = secure.as_ref().map(|secure| secure.reviewer.clone());
    let router = Router::new()
        .route("/metrics", get(text))
        .with_state((metrics, reviewer));
    let acceptor = secure.map(|secure| secure.acceptor);
    serve("metrics-bind-address", address, router, acceptor, tasks)
}

/// TLS and access control of a server.
pub(crate) struct Secure {
    pub(crate) acceptor: TlsAcceptor,
    pub(crate) reviewer: Arc<Reviewer>,
}

async fn readyz(
    State(readiness): State<Arc<dyn Readiness>>,
    Query(query): Query<Vec<(String, String)>>,
) -> String {
    if !query.iter().any(|(name, _)| name == "verbose") {
        return "ok".to_owned();
    }
    // The probe never fails for a missing CRD, an unreachable external system or a standby: a restart
    // would not help.
    let mut lines: Vec<_> = readiness
        .details()
        .into_iter()
        .map(|(name, is_fine, state)| {
            format!("[{}]{name} {state}", if is_fine { '+' } else { '-' })
        })
        .collect();
    lines.push("readyz check passed\n".to_owned());
    lines.join("\n")
}

async fn text(
    State((metrics, reviewer)): State<(Metrics, Option<Arc<Reviewer>>)>,
    headers: HeaderMap,
) -> impl IntoResponse {
    let token = headers
        .get(header::AUTHORIZATION)
        .and_then(|value| value.to_str().ok()?.strip_prefix("Bearer "));
    if let Some(reviewer) = reviewer
        && let Err(refused) = reviewer.may_read_metrics(token).await
    {
        return (
            refused,
            [(header::CONTENT_TYPE, "text/plain")],
            String::new(),
        );
    }
    let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    (
        StatusCode::OK,
        [(header::CONTENT_TYPE, kind)],
        metrics.text(),
    )
}

/// Listens at `address`. Must be called within a tokio runtime.
pub(crate) fn listen(flag: &'static str, address: SocketAddr) -> Result<TcpListener, ListenError> {
    let listener = std::net::TcpListener::bind(address).and_then(|listener| {
        listener.set_nonblocking(true)?;
        TcpListener::from_std(listener)
    });
    let listener = listener.map_err(|source| ListenError {
        flag,
        address: address.to_string(),
        source,
    })?;
    tracing::info!(%address, flag, "serving");
    Ok(listener)
}

fn serve(
    flag: &'static str,
    address: SocketAddr,
    router: Router,
    tls: Option<TlsAcceptor>,
    tasks: &Tasks,
) -> Result<(), ListenError> {
    let listener = listen(flag, address)?;
    accept(listener, router, tls, ENGINE_LIMITS, tasks);
    Ok(())
}

/// Answers requests until `tasks` are stopped. Then accepts no more connections; requests that have begun
/// may run on for the limit.
pub(crate) fn accept(
    listener: TcpListener,
    router: Router,
    tls: Option<TlsAcceptor>,
    limits: Limits,
    tasks: &Tasks,
) {
    let with_limit = move |request| ready(limit_body_time(request, limits.body));
    let router = router.layer(map_request(with_limit));
    let permits = Arc::new(Semaphore::new(limits.connections));
    let open = tasks.child();
    tasks.spawn(async move {
        loop {
            let Ok(permit) = permits.clone().acquire_owned().await else {
                return;
            };
            let Ok((stream, _)) = listener.accept().await else {
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            };
            let (router, tls, stop) = (router.clone(), tls.clone(), open.clone());
            open.run(async move {
                if let Err(error) = connection(stream, router, tls, limits, &stop).await {
                    tracing::debug!(error, "connection ended");
                }
                drop(permit);
            });
        }
    });
}

async fn connection(
    stream: TcpStream,
    router: Router,
    tls: Option<TlsAcceptor>,
    limits: Limits,
    tasks: &Tasks,
) -> Result<(), String> {
    let Some(tls) = tls else {
        return requests(stream, router, limits, tasks).await;
    };
    let handshake = tokio::time::timeout(HANDSHAKE_TIMEOUT, tls.accept(stream));
    let stream = tokio::select! {
        stream = handshake => stream,
        () = tasks.stopped() => return Ok(()),
    };
    let stream = stream
        .map_err(|_| "handshake took too long")?
        .map_err(|error| error.to_string())?;
    requests(stream, router, limits, tasks).await
}

/// Answers the requests of one connection.
async fn requests(
    stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
    router: Router,
    limits: Limits,
    tasks: &Tasks,
) -> Result<(), String> {
    let mut http = hyper::server::conn::http1::Builder::new();
    // Without a timer a silent connection would never end.
    http.timer(TokioTimer::new())
        .header_read_timeout(limits.head);
    let service = TowerToHyperService::new(router);
    let mut connection = pin!(http.serve_connection(TokioIo::new(stream), service));
    tokio::select! {
        ended = connection.as_mut() => return ended.map_err(|error| error.to_string()),
        () = tasks.stopped() => connection.as_mut().graceful_shutdown(),
    }
    match tokio::time::timeout(limits.last_requests, connection).await {
        Ok(ended) => ended.map_err(|error| error.to_string()),
        Err(_) => Err("the last request did not end in time".to_owned()),
    }
}

/// Bounds the time in which a body must arrive. A later part is an error for its reader.
fn limit_body_time(request: Request<Body>, limit: Duration) -> Request<Body> {
    request.map(|body| {
        if body.is_end_stream() {
            return body;
        }
        let deadline = Box::pin(tokio::time::sleep(limit));
        let parts = Some((body.into_data_stream(), deadline));
        Body::from_stream(stream::unfold(parts, |parts| async {
            let (mut body, mut deadline) = parts?;
            tokio::select! {
                biased;
                () = &mut deadline => Some((Err("the body did not arrive in time".into()), None)),
                part = body.next() => Some((part?.map_err(BoxError::from), Some((body, deadline)))),
            }
        }))
    })
}

#[cfg(test)]
mod tests;
