//! Serves probes over HTTP, and metrics over HTTP or over HTTPS with access control.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::{Query, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::IntoResponse;
use axum::routing::get;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_rustls::TlsAcceptor;

use crate::review::Reviewer;
use crate::{Metrics, Tasks};

/// Concurrent connections of a server. A scraper needs one.
const CONNECTIONS: usize = 64;
/// Pause after a connection that could not be accepted, for example without free file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// Time limit of a TLS handshake.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(5);

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
pub(crate) async fn probes(
    address: SocketAddr,
    readiness: Arc<dyn Readiness>,
    tasks: &Tasks,
) -> Result<(), ListenError> {
    let router = Router::new()
        .route("/healthz", get(|| async { "ok" }))
        .route("/livez", get(|| async { "ok" }))
        .route("/readyz", get(readyz))
        .with_state(readiness);
    serve("health-probe-bind-address", address, router, None, tasks).await
}

/// Serves `/metrics`. If `secure`, uses TLS and lets the API server check access.
pub(crate) async fn metrics(
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
    serve("metrics-bind-address", address, router, acceptor, tasks).await
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

async fn serve(
    flag: &'static str,
    address: SocketAddr,
    router: Router,
    tls: Option<TlsAcceptor>,
    tasks: &Tasks,
) -> Result<(), ListenError> {
    let listener = TcpListener::bind(address).await;
    let listener = listener.map_err(|source| ListenError {
        flag,
        address: address.to_string(),
        source,
    })?;
    tracing::info!(%address, flag, "serving");
    let connections = tasks.child();
    let permits = Arc::new(Semaphore::new(CONNECTIONS));
    tasks.spawn(async move {
        loop {
            let Ok(permit) = permits.clone().acquire_owned().await else {
                return;
            };
            let Ok((stream, _)) = listener.accept().await else {
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            };
            let (router, tls) = (router.clone(), tls.clone());
            connections.spawn(async move {
                if let Err(error) = connection(stream, router, tls).await {
                    tracing::debug!(error, "connection ended");
                }
                drop(permit);
            });
        }
    });
    Ok(())
}

async fn connection(
    stream: TcpStream,
    router: Router,
    tls: Option<TlsAcceptor>,
) -> Result<(), String> {
    let service = TowerToHyperService::new(router);
    let mut http = hyper::server::conn::http1::Builder::new();
    http.timer(TokioTimer::new()); // without it a silent connection would never end
    match tls {
        None => http
            .serve_connection(TokioIo::new(stream), service)
            .await
            .map_err(|e| e.to_string()),
        Some(tls) => {
            let stream = tokio::time::timeout(HANDSHAKE_TIMEOUT, tls.accept(stream)).await;
            let stream = stream
                .map_err(|_| "handshake took too long")?
                .map_err(|e| e.to_string())?;
            http.serve_connection(TokioIo::new(stream), service)
                .await
                .map_err(|e| e.to_string())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_parsed_as_in_controller_runtime() {
        assert_eq!(parse_address("0"), Ok(None));
        assert_eq!(
            parse_address(":8081"),
            Ok(Some("0.0.0.0:8081".parse().unwrap()))
        );
        assert_eq!(
            parse_address("127.0.0.1:9"),
            Ok(Some("127.0.0.1:9".parse().unwrap()))
        );
        assert!(parse_address("nope").unwrap_err().contains("<port>"));
    }
}
