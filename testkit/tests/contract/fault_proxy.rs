//! The fault proxy in front of a small server: each rule works, and streams stay streams.

// Tests wait in real time; nothing here is part of the product.
#![allow(clippy::disallowed_methods)]

use std::convert::Infallible;
use std::error::Error as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Channel, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use testkit::fault_proxy::{AnyMethod, FaultProxy, Listen, Rule, StartError, Upstream};
use tokio::net::TcpListener;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;

/// Two objects.
pub(crate) const LIST: &str = r#"{"items":[{"spec":{"a":1,"ordinals":1}},{"spec":{}}]}"#;

/// Longer than anything here takes.
pub(crate) const DEADLINE: Duration = Duration::from_secs(20);

/// A server that echoes and counts requests; `/watch` streams lines, `/list` answers [`LIST`], `/last`
/// closes the connection.
pub(crate) struct Server {
    pub(crate) url: String,
    served: watch::Receiver<usize>,
    pub(crate) lines: mpsc::UnboundedSender<&'static str>,
    _tasks: JoinSet<()>,
}

/// Certificates for `127.0.0.1` from a private CA, as PEM.
pub(crate) struct Certificates {
    ca: String,
    cert: String,
    key: String,
}

struct World {
    server: Server,
    proxy: FaultProxy,
    http: reqwest::Client,
}

impl Server {
    pub(crate) async fn start(tls: Option<&Certificates>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let scheme = if tls.is_some() { "https" } else { "http" };
        let url = format!("{scheme}://{}", listener.local_addr().unwrap());
        let acceptor = tls.map(acceptor);
        let (count, served) = watch::channel(0);
        let (lines, source) = mpsc::unbounded_channel();
        let world = Arc::new((count, tokio::sync::Mutex::new(source)));
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                let (world, acceptor) = (Arc::clone(&world), acceptor.clone());
                connections.spawn(async move {
                    let echo = service_fn(move |request| echo(request, Arc::clone(&world)));
                    let http = hyper::server::conn::http1::Builder::new();
                    match acceptor {
                        None => drop(http.serve_connection(TokioIo::new(stream), echo).await),
                        Some(acceptor) => {
                            let stream = acceptor
                                .accept(stream)
                                .await
                                .expect("the proxy trusts the CA");
                            drop(http.serve_connection(TokioIo::new(stream), echo).await);
                        }
                    }
                });
            }
        });
        Self {
            url,
            served,
            lines,
            _tasks: tasks,
        }
    }

    pub(crate) fn served(&self) -> usize {
        *self.served.borrow()
    }
}

type Told = (
    watch::Sender<usize>,
    tokio::sync::Mutex<mpsc::UnboundedReceiver<&'static str>>,
);

async fn echo(
    request: Request<Incoming>,
    world: Arc<Told>,
) -> Result<Response<BoxBody<Bytes, Infallible>>, Infallible> {
    let (is_watch, is_last) = (
        request.uri().path() == "/watch",
        request.uri().path() == "/last",
    );
    let is_list = request.uri().path() == "/list";
    let token = request.headers().get("authorization").cloned();
    let head = format!("{} {}", request.method(), request.uri());
    let body = request
        .into_body()
        .collect()
        .await
        .expect("a whole request")
        .to_bytes();
    world.0.send_modify(|served| *served += 1);
    if is_list {
        return Ok(Response::new(Full::new(Bytes::from(LIST)).boxed()));
    }
    if !is_watch {
        let text = format!("{head} {}", String::from_utf8_lossy(&body));
        let mut answer = Response::new(Full::new(Bytes::from(text)).boxed());
        if let Some(token) = token {
            answer.headers_mut().insert("x-seen-token", token);
        }
        if is_last {
            answer
                .headers_mut()
                .insert("connection", "close".parse().expect("a header"));
        }
        return Ok(answer);
    }
    let (mut sender, channel) = Channel::<_, Infallible>::new(1);
    tokio::spawn(async move {
        while let Some(line) = world.1.lock().await.recv().await {
            if sender.send_data(Bytes::from(line)).await.is_err() {
                return;
            }
        }
    });
    Ok(Response::new(channel.boxed()))
}

fn certificates() -> Certificates {
    let key = rcgen::KeyPair::generate().unwrap();
    let mut params = rcgen::CertificateParams::new(vec![]).unwrap();
    params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let ca = rcgen::CertifiedIssuer::self_signed(params, key).unwrap();
    let key = rcgen::KeyPair::generate().unwrap();
    let params = rcgen::CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap();
    let leaf = params.signed_by(&key, &ca).unwrap();
    Certificates {
        ca: ca.pem(),
        cert: leaf.pem(),
        key: key.serialize_pem(),
    }
}

fn acceptor(certificates: &Certificates) -> TlsAcceptor {
    use rustls::pki_types::pem::PemObject as _;
    let chain =
        rustls::pki_types::CertificateDer::from_pem_slice(certificates.cert.as_bytes()).unwrap();
    let key =
        rustls::pki_types::PrivateKeyDer::from_pem_slice(certificates.key.as_bytes()).unwrap();
    let config = rustls::ServerConfig::builder()
        .with_no_client_auth()
        .with_single_cert(vec![chain], key)
        .unwrap();
    TlsAcceptor::from(Arc::new(config))
}

pub(crate) fn install_crypto() {
    // Another test of this binary may have installed it already.
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
}

impl World {
    async fn start() -> Self {
        install_crypto();
        let server = Server::start(None).await;
        let upstream = Upstream {
            url: server.url.clone(),
            ca_pem: None,
        };
        let proxy = FaultProxy::start(upstream, Listen::Http).await.unwrap();
        let http = reqwest::Client::builder()
            .timeout(DEADLINE)
            .build()
            .unwrap();
        Self {
            server,
            proxy,
            http,
        }
    }

    fn get(&self, path: &str) -> reqwest::RequestBuilder {
        self.http.get(format!("{}{path}", self.proxy.url()))
    }

    async fn text(&self, path: &str) -> String {
        self.get(path).send().await.unwrap().text().await.unwrap()
    }

    /// Statuses of all requests so far.
    fn statuses(&self) -> Vec<Option<u16>> {
        self.proxy
            .requests()
            .iter()
            .map(|one| one.status.map(|status| status.as_u16()))
            .collect()
    }
}

/// The kind of the I/O error at the bottom of `error`, if there is one.
fn io_kind(error: &reqwest::Error) -> Option<std::io::ErrorKind> {
    let mut at = error.source();
    while let Some(inner) = at {
        if let Some(io) = inner.downcast_ref::<std::io::Error>() {
            return Some(io.kind());
        }
        at = inner.source();
    }
    None
}

#[tokio::test]
async fn without_rules_everything_is_forwarded_and_logged() {
    let world = World::start().await;
    let url = format!("{}/a/b?x=1", world.proxy.url());
    let answer = world
        .http
        .post(url)
        .header("authorization", "Bearer t")
        .body("hello")
        .send()
        .await
        .unwrap();
    assert_eq!(answer.headers()["x-seen-token"], "Bearer t");
    assert_eq!(answer.text().await.unwrap(), "POST /a/b?x=1 hello");

    let log = world.proxy.requests();
    let first = &log[0];
    assert_eq!(
        (
            first.seq,
            first.method.as_str(),
            first.path.as_str(),
            first.query.as_str()
        ),
        (1, "POST", "/a/b", "x=1")
    );
    assert_eq!((first.status, first.rule), (Some(StatusCode::OK), None));
    assert_eq!(world.proxy.count(Method::POST, "/a/*"), 1);
    assert_eq!(world.proxy.count(Method::GET, "/a/*"), 0);
    assert_eq!(world.proxy.count(AnyMethod::any(), "*"), 1);
}

#[tokio::test]
async fn a_status_is_answered_n_times_and_nothing_is_forwarded() {
    let world = World::start().await;
    let rule = world.proxy.rule(
        Rule::on(Method::GET, "/a")
            .times(2)
            .status(StatusCode::SERVICE_UNAVAILABLE, "{\"busy\":true}"),
    );
    for _ in 0..2 {
        let answer = world.get("/a").send().await.unwrap();
        assert_eq!(
            (answer.status().as_u16(), &answer.headers()["content-type"]),
            (503, &"application/json".parse().unwrap())
        );
        assert_eq!(answer.text().await.unwrap(), "{\"busy\":true}");
    }
    assert_eq!(world.server.served(), 0);
    assert_eq!(world.text("/a").await, "GET /a ");
    assert_eq!(world.statuses(), [Some(503), Some(503), Some(200)]);
    assert_eq!(world.proxy.requests()[0].rule, Some(rule));
    assert!(!world.proxy.remove(rule), "it is used up");
}

#[tokio::test]
async fn a_cut_before_is_not_executed() {
    let world = World::start().await;
    world
        .proxy
        .rule(Rule::on(Method::GET, "/a").times(1).cut_before());
    let error = world.get("/a").send().await.unwrap_err();
    assert!(!error.is_timeout(), "{error:?}");
    assert_eq!((world.server.served(), world.statuses()), (0, vec![None]));
}

#[tokio::test]
async fn a_cut_after_is_executed_but_not_answered() {
    let world = World::start().await;
    world
        .proxy
        .rule(Rule::on(Method::GET, "/a").times(1).cut_after());
    let error = world.get("/a").send().await.unwrap_err();
    assert!(!error.is_timeout(), "{error:?}");
    assert_eq!((world.server.served(), world.statuses()), (1, vec![None]));
}

#[tokio::test]
async fn a_reset_arrives_as_a_tcp_reset() {
    let world = World::start().await;
    world
        .proxy
        .rule(Rule::on(Method::GET, "/a").times(1).reset());
    let error = world.get("/a").send().await.unwrap_err();
    assert_eq!(
        io_kind(&error),
        Some(std::io::ErrorKind::ConnectionReset),
        "{error:?}"
    );
    assert_eq!(world.server.served(), 0);
}

#[tokio::test]
async fn a_delayed_request_is_forwarded_after_the_delay() {
    let world = World::start().await;
    world.proxy.rule(
        Rule::on(Method::GET, "/a")
            .times(1)
            .delay(Duration::from_millis(300)),
    );
    let began = Instant::now();
    assert_eq!(world.text("/a").await, "GET /a ");
    assert!(began.elapsed() >= Duration::from_millis(300));
}

#[tokio::test]
async fn a_black_hole_never_answers_until_all_is_cut() {
    let world = World::start().await;
    world
        .proxy
        .rule(Rule::on(Method::GET, "/a").times(1).black_hole());
    let impatient = world
        .get("/a")
        .timeout(Duration::from_millis(300))
        .send()
        .await;
    assert!(impatient.unwrap_err().is_timeout());

    world.proxy.rule(Rule::on(Method::GET, "/a").black_hole());
    let mut held = Box::pin(world.get("/a").send());
    tokio::select! {
        answer = &mut held => panic!("a black hole answered {answer:?}"),
        () = arrived(&world, 2) => {}
    }
    world.proxy.cut_all();
    assert!(!held.await.unwrap_err().is_timeout());
    assert_eq!(world.server.served(), 0);
    world.proxy.clear();
    assert_eq!(world.text("/a").await, "GET /a ");
}

/// Waits until the proxy has received this many requests.
async fn arrived(world: &World, requests: usize) {
    let seen = async {
        while world.proxy.requests().len() < requests {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(DEADLINE, seen)
        .await
        .expect("the requests arrive");
}

#[tokio::test]
async fn bodies_can_be_rewritten_both_ways() {
    let world = World::start().await;
    let rule = Rule::on(AnyMethod::any(), "/a")
        .rewrite_request(|body| [b"<".as_slice(), &body, b">"].concat().into())
        .rewrite_body(|body| String::from_utf8_lossy(&body).to_uppercase().into());
    let id = world.proxy.rule(rule);
    let post = || {
        world
            .http
            .post(format!("{}/a", world.proxy.url()))
            .body("x")
            .send()
    };
    assert_eq!(post().await.unwrap().text().await.unwrap(), "POST /A <X>");
    assert!(world.proxy.remove(id));
    assert_eq!(post().await.unwrap().text().await.unwrap(), "POST /a x");
}

#[tokio::test]
async fn a_watch_streams_line_by_line_and_ends_when_all_is_cut() {
    let world = World::start().await;
    let mut watch = world.get("/watch").send().await.unwrap();
    for line in ["one\n", "two\n"] {
        // The next line is sent only after the previous one arrived: the proxy may not buffer.
        world.server.lines.send(line).unwrap();
        assert_eq!(watch.chunk().await.unwrap().unwrap(), line);
    }
    world.proxy.cut_all();
    assert!(watch.chunk().await.is_err());
    assert_eq!(world.text("/a").await, "GET /a ");
}

#[tokio::test]
async fn a_rule_can_match_only_watches() {
    let world = World::start().await;
    world
        .proxy
        .rule(Rule::on(Method::GET, "/pods?*watch=true*").status(StatusCode::GONE, "gone"));
    assert_eq!(
        world.get("/pods?limit=1").send().await.unwrap().status(),
        200
    );
    assert_eq!(
        world
            .get("/pods?limit=1&watch=true")
            .send()
            .await
            .unwrap()
            .status(),
        410
    );
}

#[tokio::test]
async fn concurrent_requests_get_their_own_answers() {
    let world = Arc::new(World::start().await);
    let right = Arc::new(AtomicUsize::new(0));
    let mut all = JoinSet::new();
    for one in 0..50 {
        let (world, right) = (Arc::clone(&world), Arc::clone(&right));
        all.spawn(async move {
            let path = format!("/n/{one}");
            right.fetch_add(
                usize::from(world.text(&path).await == format!("GET {path} ")),
                Ordering::Relaxed,
            );
        });
    }
    all.join_all().await;
    assert_eq!(
        (
            right.load(Ordering::Relaxed),
            world.proxy.count(Method::GET, "/n/*")
        ),
        (50, 50)
    );
}

#[tokio::test]
async fn https_works_on_both_sides() {
    install_crypto();
    let (inner, outer) = (certificates(), certificates());
    let server = Server::start(Some(&inner)).await;
    let listen = Listen::Https {
        cert_pem: outer.cert.clone(),
        key_pem: outer.key.clone(),
    };
    let proxy = FaultProxy::start(
        Upstream {
            url: server.url.clone(),
            ca_pem: Some(inner.ca),
        },
        listen,
    )
    .await
    .unwrap();
    let trust = |pem: &str| {
        let ca = reqwest::Certificate::from_pem(pem.as_bytes()).unwrap();
        reqwest::Client::builder()
            .tls_certs_only([ca])
            .timeout(DEADLINE)
            .build()
            .unwrap()
    };
    let url = format!("{}/a", proxy.url());
    assert!(url.starts_with("https://127.0.0.1:"));
    assert_eq!(
        trust(&outer.ca)
            .get(&url)
            .send()
            .await
            .unwrap()
            .text()
            .await
            .unwrap(),
        "GET /a "
    );
    assert!(
        trust(&certificates().ca)
            .get(&url)
            .send()
            .await
            .unwrap_err()
            .is_connect()
    );
}

#[tokio::test]
async fn an_unreachable_upstream_is_a_bad_gateway() {
    install_crypto();
    let free = TcpListener::bind("127.0.0.1:0")
        .await
        .unwrap()
        .local_addr()
        .unwrap();
    let upstream = Upstream {
        url: format!("http://{free}"),
        ca_pem: None,
    };
    let proxy = FaultProxy::start(upstream, Listen::Http).await.unwrap();
    let http = reqwest::Client::builder()
        .timeout(DEADLINE)
        .build()
        .unwrap();
    let answer = http.get(proxy.url()).send().await.unwrap();
    assert_eq!(answer.status(), 502);
    assert!(answer.text().await.unwrap().contains(&free.to_string()));
}

#[tokio::test]
async fn a_lost_connection_upstream_is_opened_again() {
    let world = World::start().await;
    assert_eq!(world.text("/a").await, "GET /a ");
    // The server closes after this answer; the client's connection to the proxy stays.
    let last = world.get("/last").send().await.unwrap();
    assert!(!last.headers().contains_key("connection"));
    assert_eq!(last.text().await.unwrap(), "GET /last ");
    assert_eq!(world.text("/a").await, "GET /a ");
}

#[tokio::test]
async fn an_invalid_upstream_is_refused_with_the_reason() {
    let refused = async |url: &str| {
        let upstream = Upstream {
            url: url.to_owned(),
            ca_pem: None,
        };
        match FaultProxy::start(upstream, Listen::Http).await {
            Err(error @ StartError::Upstream { .. }) => error.to_string(),
            other => panic!("{other:?}"),
        }
    };
    assert!(
        refused("https://127.0.0.1:1")
            .await
            .contains("needs ca_pem")
    );
    assert!(
        refused("http://127.0.0.1:1/api")
            .await
            .contains("leave out the path")
    );
    assert!(refused("ftp://127.0.0.1:1").await.contains("http://"));
}

#[tokio::test]
async fn a_dropped_proxy_frees_its_port_and_ends_its_connections() {
    let world = World::start().await;
    let mut watch = world.get("/watch").send().await.unwrap();
    let address = world.proxy.url().trim_start_matches("http://").to_owned();
    drop(world.proxy);
    assert!(watch.chunk().await.is_err());
    let refused = tokio::net::TcpStream::connect(&address).await.unwrap_err();
    assert_eq!(refused.kind(), std::io::ErrorKind::ConnectionRefused);
}
