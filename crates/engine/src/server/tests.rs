use std::path::Path;

use axum::extract::Request;
use axum::routing::post;
use kernel::{ClusterId, TestClock};
use rustls::RootCertStore;
use rustls_pki_types::{CertificateDer, ServerName};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::Notify;
use tokio_rustls::TlsConnector;

use super::*;
use crate::{Clients, Deck};

const ANY: &str = "127.0.0.1:0";
/// A limit that a test waits for.
const SOON: Duration = Duration::from_millis(200);
/// A limit that a test waits for only if it fails.
const PATIENCE: Duration = Duration::from_secs(60);
const GET: &str = "GET / HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n";

fn deck(tasks: &Tasks) -> Deck {
    rustls::crypto::aws_lc_rs::default_provider()
        .install_default()
        .ok();
    let nowhere = kube::Config::new("http://127.0.0.1:9".parse().unwrap());
    let clients = Clients::new(nowhere, 1, Metrics::default()).unwrap();
    let cluster = ClusterId::new("c").unwrap();
    Deck::for_reading(
        "web",
        &clients,
        Metrics::default(),
        cluster,
        "n".into(),
        tasks,
    )
}

/// A server of a feature. The handler of `/slow` begins, and waits until it is released.
struct Server {
    address: SocketAddr,
    began: Arc<Notify>,
    release: Arc<Notify>,
    tasks: Tasks,
    deck: Deck,
}

impl Server {
    fn start() -> Self {
        Self::start_by(|deck, router| {
            let address = ANY.parse().unwrap();
            deck.serve("web-http-address", address, router, None)
                .unwrap()
        })
    }

    /// A server with these limits. Its connections end with `tasks`.
    fn limited(limits: Limits) -> Self {
        Self::start_by(|deck, router| {
            let listener = listen("web-http-address", ANY.parse().unwrap()).unwrap();
            let address = listener.local_addr().unwrap();
            accept(listener, router, None, limits, &deck.passes);
            address
        })
    }

    fn start_by(serve: impl FnOnce(&Deck, Router) -> SocketAddr) -> Self {
        let tasks = Tasks::default();
        let deck = deck(&tasks);
        let (began, release) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
        let (begin, wait) = (began.clone(), release.clone());
        let slow = move || async move {
            begin.notify_one();
            wait.notified().await;
            "at last"
        };
        let body = |request: Request| async {
            match axum::body::to_bytes(request.into_body(), 100).await {
                Ok(body) => format!("{} bytes", body.len()),
                Err(error) => format!("no body: {error}"),
            }
        };
        let router = Router::new()
            .route("/", get(|| async { "hello" }))
            .route("/slow", get(slow))
            .route("/body", post(body));
        Self {
            address: serve(&deck, router),
            began,
            release,
            tasks,
            deck,
        }
    }

    async fn send(&self, request: &str) -> TcpStream {
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        stream.write_all(request.as_bytes()).await.unwrap();
        stream
    }

    /// What the server does at shutdown, after the Lease is released.
    async fn shutdown_work(&self) {
        let work = std::mem::take(&mut *self.deck.shutdown_work.lock());
        futures::future::join_all(work).await;
    }
}

async fn answer(mut stream: impl AsyncRead + Unpin) -> String {
    let mut text = String::new();
    stream.read_to_string(&mut text).await.unwrap();
    text
}

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

#[tokio::test]
async fn a_feature_serves_on_a_replica_that_does_not_lead() {
    let server = Server::start();
    let text = answer(server.send(GET).await).await;
    assert!(
        text.starts_with("HTTP/1.1 200") && text.ends_with("hello"),
        "{text}"
    );
    let state = format!("listening on {}", server.address);
    let expected = ("server --web-http-address".to_owned(), true, state);
    assert_eq!(server.deck.notes.all(), [expected]);
    server.tasks.kill().await;
}

#[tokio::test]
async fn an_address_in_use_is_named_with_its_flag() {
    let server = Server::start();
    let second = server
        .deck
        .serve("web-http-address", server.address, Router::new(), None);
    let Usage(message) = second.unwrap_err();
    let address = server.address.to_string();
    assert!(message.contains(&address), "{message}");
    assert!(
        message.ends_with("choose another with --web-http-address"),
        "{message}"
    );
}

#[tokio::test]
async fn a_wrong_certificate_is_named_with_its_flag() {
    let tasks = Tasks::default();
    let certificate = ServerCertificate {
        flag: "web-cert-path",
        certificate: files(Path::new("nowhere")),
    };
    let address = ANY.parse().unwrap();
    let served = deck(&tasks).serve(
        "web-http-address",
        address,
        Router::new(),
        Some(certificate),
    );
    let Usage(message) = served.unwrap_err();
    assert!(message.contains("nowhere/tls.crt"), "{message}");
    assert!(message.contains("correct --web-cert-path"), "{message}");
}

#[tokio::test]
async fn a_running_request_ends_after_a_stop_and_no_other_begins() {
    let server = Server::start();
    let running = server.send(&GET.replace("/ ", "/slow ")).await;
    server.began.notified().await;
    server.tasks.stop();
    let mut work = pin!(server.shutdown_work());
    // The listener is closed without waiting for the request.
    while TcpStream::connect(server.address).await.is_ok() {
        tokio::task::yield_now().await;
    }
    assert!(
        futures::poll!(work.as_mut()).is_pending(),
        "it waits for the request"
    );
    server.release.notify_one();
    let text = answer(running).await;
    assert!(text.ends_with("at last"), "{text}");
    work.await;
}

#[tokio::test]
async fn a_request_that_does_not_end_is_dropped_after_a_stop() {
    let server = Server::limited(Limits {
        last_requests: SOON,
        ..FEATURE_LIMITS
    });
    let running = server.send(&GET.replace("/ ", "/slow ")).await;
    server.began.notified().await;
    let ended = tokio::time::timeout(PATIENCE, server.deck.passes.finish()).await;
    assert!(ended.is_ok(), "the request is not dropped");
    assert_eq!(answer(running).await, "");
}

#[tokio::test]
async fn a_stop_does_not_delay_the_end_of_passes() {
    let server = Server::start();
    let _running = server.send(&GET.replace("/ ", "/slow ")).await;
    server.began.notified().await;
    // Before the release of the Lease, the engine waits for these alone.
    let ended = tokio::time::timeout(PATIENCE, server.deck.passes.finish()).await;
    assert!(ended.is_ok());
    server.release.notify_one();
}

#[tokio::test]
async fn a_head_that_does_not_arrive_ends_its_connection() {
    let server = Server::limited(Limits {
        head: SOON,
        ..FEATURE_LIMITS
    });
    let slow = server.send("GET / HTTP/1.1\r\nhost:").await;
    let ended = tokio::time::timeout(PATIENCE, answer(slow)).await;
    let text = ended.expect("the connection is closed");
    assert!(!text.contains("hello"), "{text}");
    server.tasks.kill().await;
}

#[tokio::test]
async fn a_body_that_does_not_arrive_is_an_error_for_its_reader() {
    let server = Server::limited(Limits {
        body: SOON,
        ..FEATURE_LIMITS
    });
    let head = "POST /body HTTP/1.1\r\nhost: a\r\nconnection: close\r\ncontent-length: 5\r\n\r\n";
    let text = answer(server.send(&format!("{head}12345")).await).await;
    assert!(text.ends_with("5 bytes"), "{text}");
    let slow = server.send(&format!("{head}123")).await;
    let text = tokio::time::timeout(PATIENCE, answer(slow)).await.unwrap();
    assert!(text.ends_with("the body did not arrive in time"), "{text}");
    server.tasks.kill().await;
}

#[tokio::test]
async fn further_connections_wait_for_one_that_ends() {
    let server = Server::limited(Limits {
        connections: 1,
        ..FEATURE_LIMITS
    });
    let mut first = server.send(&GET.replace("connection: close\r\n", "")).await;
    let mut start = [0; 12];
    first.read_exact(&mut start).await.unwrap();
    assert_eq!(&start, b"HTTP/1.1 200"); // and its connection stays open

    let mut answered = pin!(answer(server.send(GET).await));
    let early = tokio::time::timeout(SOON, &mut answered).await;
    assert!(early.is_err(), "{early:?}");
    drop(first);
    let text = answered.await;
    assert!(text.ends_with("hello"), "{text}");
    server.tasks.kill().await;
}

fn files(folder: &Path) -> Certificate {
    Certificate::Files {
        certificate: folder.join("tls.crt"),
        key: folder.join("tls.key"),
    }
}

/// Writes a new certificate for `localhost` into the folder.
fn renew(folder: &Path) -> CertificateDer<'static> {
    let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    std::fs::write(folder.join("tls.crt"), made.cert.pem()).unwrap();
    std::fs::write(folder.join("tls.key"), made.signing_key.serialize_pem()).unwrap();
    made.cert.der().clone()
}

/// The answer over TLS to a client that trusts this certificate alone.
async fn secure_answer(
    address: SocketAddr,
    trusted: &CertificateDer<'static>,
) -> std::io::Result<String> {
    let mut roots = RootCertStore::empty();
    roots.add(trusted.clone()).unwrap();
    let config = rustls::ClientConfig::builder()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let stream = TcpStream::connect(address).await?;
    let name = ServerName::try_from("localhost").unwrap();
    let connector = TlsConnector::from(Arc::new(config));
    let mut stream = connector.connect(name, stream).await?;
    stream.write_all(GET.as_bytes()).await?;
    let mut text = Vec::new();
    stream.read_to_end(&mut text).await.ok(); // the server may close without a notice
    Ok(String::from_utf8_lossy(&text).into_owned())
}

#[tokio::test]
async fn a_feature_serves_a_renewed_certificate() {
    let (tasks, clock) = (Tasks::default(), Arc::new(TestClock::new()));
    let deck = Deck {
        clock: clock.clone(),
        ..deck(&tasks)
    };
    let folder = tempfile::tempdir().unwrap();
    let old = renew(folder.path());
    let certificate = ServerCertificate {
        flag: "web-cert-path",
        certificate: files(folder.path()),
    };
    let router = Router::new().route("/", get(|| async { "hello" }));
    let address = ANY.parse().unwrap();
    let address = deck.serve("web-http-address", address, router, Some(certificate));
    let address = address.unwrap();
    let text = secure_answer(address, &old).await.unwrap();
    assert!(text.ends_with("hello"), "{text}");

    let new = renew(folder.path());
    clock.advance(Duration::from_secs(10));
    let text = secure_answer(address, &new).await.unwrap();
    assert!(text.ends_with("hello"), "{text}");
    assert!(secure_answer(address, &old).await.is_err());
    tasks.kill().await;
}
