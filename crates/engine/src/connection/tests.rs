use std::convert::Infallible;
use std::path::Path;

use axum::Router;
use axum::routing::get;
use futures::{StreamExt as _, stream};
use http::{HeaderMap, header};
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use rustls::RootCertStore;
use rustls::server::WebPkiClientVerifier;
use rustls_pki_types::PrivateKeyDer;
use serde_json::json;
use tokio::net::TcpListener;
use tokio::sync::Notify;
use tokio_rustls::TlsAcceptor;

use super::*;
use crate::{Clients, Metrics, Tasks};

impl ConnectionPool {
    /// A pool without a server: `answer` makes the responses.
    pub(crate) fn answered_by<F>(
        answer: impl Fn(Request<Body>) -> F + Clone + Send + Sync + 'static,
    ) -> Self
    where
        F: Future<Output = Result<Response<Body>, BoxError>> + Send + 'static,
    {
        let service = tower::service_fn(answer).map_response(|response: Response<Body>| {
            response.map(|body| body.map_err(BoxError::from).boxed_unsync())
        });
        let nowhere = Config::new("http://127.0.0.1:9".parse().unwrap());
        Self {
            current: Arc::new(RwLock::new(Current {
                config: nowhere,
                service: BoxCloneSyncService::new(service),
            })),
            user_timeout: CONNECT_TIMEOUT,
            max_idle: 1,
        }
    }
}

fn token(token: &str) -> AuthInfo {
    serde_json::from_value(json!({"token": token})).unwrap()
}

/// Clients of the server at `address`.
fn clients(url: &str, login: AuthInfo) -> Clients {
    crate::client::tests::install_crypto();
    let mut config = Config::new(url.parse().unwrap());
    config.auth_info = login;
    config.accept_invalid_certs = true; // the certificate of these tests is the client's
    Clients::new(config, 8, Metrics::default()).unwrap()
}

fn request(path: &str) -> Request<Vec<u8>> {
    Request::get(path).body(Vec::new()).unwrap()
}

async fn until(condition: impl Fn() -> bool) {
    while !condition() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn a_new_login_is_used_at_once_and_nothing_open_ends() {
    let (seen, gate) = (Arc::new(Mutex::new(Vec::new())), Arc::new(Notify::new()));
    let log = |headers: &HeaderMap, seen: &Mutex<Vec<String>>| {
        let login = headers[header::AUTHORIZATION].to_str().unwrap().to_owned();
        seen.lock().push(login);
    };
    let (for_slow, for_watch, for_fast) = (seen.clone(), seen.clone(), seen.clone());
    let (slow_gate, watch_gate) = (gate.clone(), gate.clone());
    let router = Router::new()
        .route(
            "/slow",
            get(async move |headers: HeaderMap| {
                log(&headers, &for_slow);
                slow_gate.notified().await;
                "{}"
            }),
        )
        .route(
            "/events",
            get(async move |headers: HeaderMap| {
                log(&headers, &for_watch);
                let later = stream::once(async move {
                    watch_gate.notified().await;
                    Ok("later")
                });
                let first = stream::once(async { Ok::<_, Infallible>("first ") });
                axum::body::Body::from_stream(first.chain(later))
            }),
        )
        .route(
            "/fast",
            get(async move |headers: HeaderMap| log(&headers, &for_fast)),
        );
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let tasks = Tasks::default();
    tasks.spawn(async move { axum::serve(listener, router).await.unwrap() });

    let clients = clients(&url, token("old"));
    let client = clients.unguarded("f");
    let watch = Request::get("/events?watch=true").body(Body::empty());
    let watch = client.send(watch.unwrap()).await.unwrap();
    let slow = client.request_text(request("/slow"));
    let change = async {
        until(|| seen.lock().len() == 2).await;
        clients.relogin(token("new")).unwrap();
        client.request_text(request("/fast")).await.unwrap();
        gate.notify_waiters();
    };
    let (slow, ()) = tokio::join!(slow, change);
    assert_eq!(slow.unwrap(), "{}");
    let events = watch.into_body().collect().await.unwrap().to_bytes();
    assert_eq!(events, "first later");
    assert_eq!(*seen.lock(), ["Bearer old", "Bearer old", "Bearer new"]);
    tasks.kill().await;
}

/// Writes a certificate of `issuer` for the client `name`, with its key. Returns the login and the
/// certificate.
fn certificate(
    issuer: &CertifiedIssuer<'static, KeyPair>,
    folder: &Path,
    name: &str,
) -> (AuthInfo, Vec<u8>) {
    let key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, name);
    let signed = params.signed_by(&key, issuer).unwrap();
    let file = |end: &str, text: String| {
        let path = folder.join(format!("{name}.{end}"));
        std::fs::write(&path, text).unwrap();
        path
    };
    let login = json!({"client-certificate": file("crt", signed.pem()),
        "client-key": file("key", key.serialize_pem())});
    let login = serde_json::from_value(login).unwrap();
    (login, signed.der().to_vec())
}

#[tokio::test]
async fn new_requests_use_connections_with_the_new_certificate() {
    crate::client::tests::install_crypto();
    let folder = tempfile::tempdir().unwrap();
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
    let (old, old_der) = certificate(&issuer, folder.path(), "old");
    let (new, new_der) = certificate(&issuer, folder.path(), "new");

    let mut roots = RootCertStore::empty();
    roots.add(issuer.der().clone()).unwrap();
    let verifier = WebPkiClientVerifier::builder(Arc::new(roots));
    let key = PrivateKeyDer::try_from(issuer.key().serialize_der()).unwrap();
    let config = rustls::ServerConfig::builder()
        .with_client_cert_verifier(verifier.build().unwrap())
        .with_single_cert(vec![issuer.der().clone()], key);
    let acceptor = TlsAcceptor::from(Arc::new(config.unwrap()));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("https://{}", listener.local_addr().unwrap());
    let (tasks, seen) = (Tasks::default(), Arc::new(Mutex::new(Vec::new())));
    let (connections, log) = (tasks.clone(), seen.clone());
    tasks.spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            let (acceptor, log) = (acceptor.clone(), log.clone());
            connections.spawn(async move {
                let stream = acceptor.accept(stream).await.unwrap();
                let peer = stream.get_ref().1.peer_certificates().unwrap()[0].to_vec();
                let service = hyper::service::service_fn(move |_: Request<Incoming>| {
                    log.lock().push(peer.clone());
                    std::future::ready(Ok::<_, Infallible>(Response::new("{}".to_owned())))
                });
                let connection = hyper::server::conn::http1::Builder::new();
                // An error means that the client has closed the connection.
                let _ = connection
                    .serve_connection(TokioIo::new(stream), service)
                    .await;
            });
        }
    });

    let clients = clients(&url, old);
    let client = clients.unguarded("f");
    client.request_text(request("/version")).await.unwrap();
    clients.relogin(new).unwrap();
    client.request_text(request("/version")).await.unwrap();
    assert_eq!(*seen.lock(), [old_der, new_der.clone()]);

    let missing = json!({"client-certificate": "nowhere", "client-key": "nowhere"});
    let missing = serde_json::from_value(missing).unwrap();
    assert!(clients.relogin(missing).is_err());
    client.request_text(request("/version")).await.unwrap();
    assert_eq!(seen.lock().last(), Some(&new_der), "the last login stays");
    tasks.kill().await;
}
