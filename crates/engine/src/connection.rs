//! The connections to one cluster, with a login that can change.

use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures::future::BoxFuture;
use http::{Request, Response};
use http_body_util::BodyExt;
use http_body_util::combinators::UnsyncBoxBody;
use hyper::body::Incoming;
use hyper_util::client::legacy::{self, connect::HttpConnector};
use hyper_util::rt::TokioExecutor;
use kernel::{Guard, GuardedBody, tcp};
use kube::Config;
use kube::client::{Body, ConfigExt};
use kube::config::AuthInfo;
use parking_lot::RwLock;
use tower::util::BoxCloneSyncService;
use tower::{BoxError, Service, ServiceBuilder, ServiceExt};

const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

pub(crate) type ResponseBody = UnsyncBoxBody<Bytes, BoxError>;
type HttpService = BoxCloneSyncService<Request<Body>, Response<ResponseBody>, BoxError>;

/// A pool of connections to one cluster. Clones share it.
///
/// # Guarantees
/// A request uses the login that is current when it is sent. A new login neither drops a request nor
/// closes an open watch: they continue on the connections that they have.
#[derive(Clone)]
pub(crate) struct ConnectionPool {
    current: Arc<RwLock<Current>>,
    user_timeout: Duration,
    max_idle: usize,
}

/// The login of new requests, and the connections that were opened with it. TLS binds a connection to
/// the certificate of its login, so each login has its own connections.
struct Current {
    config: Config,
    service: HttpService,
}

impl ConnectionPool {
    /// A pool for the cluster of `config`. The connections of `user_timeout` are closed if the server
    /// does not acknowledge bytes for that long.
    pub(crate) fn new(
        config: Config,
        user_timeout: Duration,
        max_idle: usize,
    ) -> Result<Self, kube::Error> {
        let service = http_service(&config, user_timeout, max_idle)?;
        Ok(Self {
            current: Arc::new(RwLock::new(Current { config, service })),
            user_timeout,
            max_idle,
        })
    }

    /// Another pool for the same cluster, with the current login.
    pub(crate) fn separate(&self, max_idle: usize) -> Result<Self, kube::Error> {
        let config = self.current.read().config.clone();
        Self::new(config, self.user_timeout, max_idle)
    }

    /// Sends later requests with `login`. Idle connections of the old login are closed.
    pub(crate) fn relogin(&self, login: AuthInfo) -> Result<(), kube::Error> {
        let mut config = self.current.read().config.clone();
        config.auth_info = login;
        let service = http_service(&config, self.user_timeout, self.max_idle)?;
        *self.current.write() = Current { config, service };
        Ok(())
    }

    /// The namespace of requests that name none.
    pub(crate) fn default_namespace(&self) -> String {
        self.current.read().config.default_namespace.clone()
    }
}

impl Service<Request<Body>> for ConnectionPool {
    type Response = Response<ResponseBody>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Response<ResponseBody>, BoxError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(())) // each call awaits the service of the current login
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let service = self.current.read().service.clone();
        Box::pin(service.oneshot(request))
    }
}

/// The guards of a write, as an extension of its request.
#[derive(Clone)]
pub(crate) struct WriteGuards(pub(crate) Vec<Guard>);

/// Binds the body to the guards of the request. The body checks them again when its bytes are sent:
/// a process that was frozen while the write was queued must not send it.
fn with_guarded_body(mut request: Request<Body>) -> Request<GuardedBody<Body>> {
    let guards = request.extensions_mut().remove::<WriteGuards>();
    let guards = guards.map(|WriteGuards(guards)| guards);
    let guards = guards.unwrap_or_default();
    request.map(|body| GuardedBody::wrap(body, guards))
}

fn http_service(
    config: &Config,
    user_timeout: Duration,
    max_idle: usize,
) -> Result<HttpService, kube::Error> {
    // kube's own stack does not fit: its body cannot be guarded, and its retries occupy a permit for
    // minutes.
    let mut http = HttpConnector::new();
    http.enforce_http(false);
    http.set_connect_timeout(Some(CONNECT_TIMEOUT));
    http.set_keepalive(Some(tcp::KEEPALIVE));
    http.set_keepalive_interval(Some(tcp::KEEPALIVE_INTERVAL));
    http.set_keepalive_retries(Some(tcp::KEEPALIVE_RETRIES));
    #[cfg(target_os = "linux")]
    http.set_tcp_user_timeout(Some(user_timeout));
    let https = config.rustls_https_connector_with_connector(http)?;
    let pool = legacy::Client::builder(TokioExecutor::new())
        .pool_max_idle_per_host(max_idle)
        .build(https);
    // There is no buffer layer as in kube's own client: it costs each call two task switches. kube's
    // layer for the login reads a token file again every minute.
    let service = ServiceBuilder::new()
        .layer(config.base_uri_layer())
        .option_layer(config.auth_layer()?)
        .layer(config.extra_headers_layer()?)
        .map_request(with_guarded_body)
        .map_err(BoxError::from)
        .service(pool)
        .map_response(|response: Response<Incoming>| {
            response.map(|body| body.map_err(BoxError::from).boxed_unsync())
        });
    Ok(BoxCloneSyncService::new(service))
}

#[cfg(test)]
mod tests;
