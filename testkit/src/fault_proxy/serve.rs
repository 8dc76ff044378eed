//! Connections and requests: accept, apply the rule, forward, answer.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Request, Response, StatusCode, header};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full};
use hyper::body::{Frame, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use socket2::{SockRef, Socket};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, watch};
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;

use super::Shared;
use super::rule::{AnswerChange, Effect, Rule};
use super::selector::Head;
use super::upstream::{Failure, Target, UpstreamConnection};

/// What the thread needs to serve.
pub(super) struct Serving {
    pub(super) shared: Arc<Shared>,
    pub(super) acceptor: Option<TlsAcceptor>,
    pub(super) cuts: watch::Receiver<u64>,
}

/// Ends a connection without an answer: hyper closes it when the service fails.
#[derive(Debug, thiserror::Error)]
#[error("the connection ends here")]
struct Ended;

type Answer = Response<BoxBody<Bytes, hyper::Error>>;

/// Accepts and serves connections; they end with this future.
pub(super) async fn accept(listener: &TcpListener, serving: &Serving) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => {
                // A connection that failed while it was accepted concerns only its client.
                if let Ok((stream, _)) = accepted {
                    let (shared, acceptor) = (Arc::clone(&serving.shared), serving.acceptor.clone());
                    // Before the task runs: a cut from now on ends this connection.
                    let mut cuts = serving.cuts.clone();
                    cuts.mark_unchanged();
                    connections.spawn(connection(stream, shared, acceptor, cuts));
                }
            }
            Some(_) = connections.join_next() => {}
        }
    }
}

async fn connection(
    stream: TcpStream,
    shared: Arc<Shared>,
    acceptor: Option<TlsAcceptor>,
    mut cuts: watch::Receiver<u64>,
) {
    let _ = stream.set_nodelay(true);
    // A second handle on the socket: the first one moves into the stream.
    let Ok(socket) = SockRef::from(&stream).try_clone() else {
        return;
    };
    let client = Arc::new(Client {
        shared,
        socket,
        end: Arc::default(),
    });
    let served = async {
        match acceptor {
            None => requests(stream, &client).await,
            Some(acceptor) => {
                // TLS itself reports the error to a client that does not trust us or speaks no TLS.
                if let Ok(stream) = acceptor.accept(stream).await {
                    requests(stream, &client).await;
                }
            }
        }
    };
    tokio::select! {
        () = served => {}
        _ = cuts.changed() => end_by_reset(&client.socket),
        () = client.end.notified() => end_by_reset(&client.socket),
    }
}

/// One connection of a client.
struct Client {
    shared: Arc<Shared>,
    /// For a rule that ends the connection with a reset.
    socket: Socket,
    /// Notified when a new rule ends the watch on this connection.
    end: Arc<Notify>,
}

async fn requests<S: AsyncRead + AsyncWrite + Unpin>(stream: S, client: &Arc<Client>) {
    let upstream = Arc::new(tokio::sync::Mutex::new(UpstreamConnection::default()));
    let answering = service_fn(move |request| {
        let (client, upstream) = (Arc::clone(client), Arc::clone(&upstream));
        async move { answer(request, &client, &mut *upstream.lock().await).await }
    });
    // The client sees the error of its connection: it left, or we ended it on purpose.
    let _ = http1::Builder::new()
        .serve_connection(TokioIo::new(stream), answering)
        .await;
}

/// Closing with a linger time of zero sends a reset.
fn end_by_reset(socket: &Socket) {
    let _ = socket.set_linger(Some(Duration::ZERO));
}

/// Counts a watch as open until it is dropped.
struct WatchGuard {
    shared: Arc<Shared>,
    number: u64,
}

impl Drop for WatchGuard {
    fn drop(&mut self) {
        self.shared.rules.lock().closed(self.number);
    }
}

async fn answer(
    request: Request<Incoming>,
    client: &Client,
    upstream: &mut UpstreamConnection,
) -> Result<Answer, Ended> {
    let shared = &client.shared;
    let head = Head::of(&request);
    let is_watch = head.is_watch();
    let verdict = shared.rules.lock().decide(&head, &client.end);
    let open = verdict.watch.map(|number| WatchGuard {
        shared: Arc::clone(shared),
        number,
    });
    let token = request.headers().get("x-vault-token");
    let token = token.and_then(|token| Some(token.to_str().ok()?.to_owned()));
    let rule = verdict.hit.as_ref().map(|(id, _)| *id);
    let seq = shared.log.lock().arrived(head, token, rule);
    let (delay, effect) = match verdict.hit {
        None => (Duration::ZERO, Effect::Forward),
        Some((_, Rule { delay, effect, .. })) => (delay, effect),
    };
    if !delay.is_zero() {
        tokio::time::sleep(delay).await;
    }
    let answer = act(effect, is_watch, request, client, upstream).await?;
    shared.log.lock().answered(seq, answer.status());
    let Some(open) = open else {
        return Ok(answer);
    };
    // The watch is open as long as its body.
    Ok(answer.map(|body| {
        let unchanged = move |frame: Frame<Bytes>| {
            let _ = &open; // moves it into the body
            frame
        };
        body.map_frame(unchanged).boxed()
    }))
}

async fn act(
    effect: Effect,
    is_watch: bool,
    request: Request<Incoming>,
    client: &Client,
    upstream: &mut UpstreamConnection,
) -> Result<Answer, Ended> {
    let target = &client.shared.target;
    match effect {
        Effect::BlackHole => std::future::pending().await,
        Effect::CutBefore => Err(Ended),
        Effect::Reset => {
            end_by_reset(&client.socket);
            Err(Ended)
        }
        Effect::Status(status, body) => {
            // Read the rest of the request, or the client may not receive the answer.
            let _ = request.into_body().collect().await;
            Ok(response(status, body))
        }
        Effect::CutAfter => {
            let answer = forward(request, target, upstream, &effect, is_watch).await?;
            let _ = answer.into_body().collect().await;
            Err(Ended)
        }
        Effect::Redirect(ref to) => forward(request, to, upstream, &effect, is_watch).await,
        Effect::Forward | Effect::Rewrite { .. } | Effect::Strip(_) => {
            forward(request, target, upstream, &effect, is_watch).await
        }
    }
}

async fn forward(
    request: Request<Incoming>,
    target: &Arc<Target>,
    upstream: &mut UpstreamConnection,
    effect: &Effect,
    is_watch: bool,
) -> Result<Answer, Ended> {
    let (mut parts, body) = request.into_parts();
    let body = body.collect().await.map_err(|_| Ended)?.to_bytes();
    let Some(body) = effect.change_request(body) else {
        let reason = "fault proxy: a field can be removed from JSON alone, and this body is not";
        return Ok(response(StatusCode::UNSUPPORTED_MEDIA_TYPE, reason.into()));
    };
    own_framing(&mut parts.headers);
    let change = effect.answer_change(is_watch);
    if !matches!(change, AnswerChange::Nothing) {
        parts.headers.remove(header::ACCEPT_ENCODING);
    }
    if matches!(effect, Effect::Strip(_)) {
        accept_json_alone(&mut parts.headers);
    }
    let request = Request::from_parts(parts, Full::new(body));
    let answer = match upstream.send(target, request).await {
        Ok(answer) => answer,
        Err(failure) => return unreachable(target, &failure),
    };
    let (mut parts, body) = answer.into_parts();
    let body = match change {
        AnswerChange::Nothing => {
            remove_hop_headers(&mut parts.headers);
            body.boxed()
        }
        AnswerChange::Whole(change) => {
            own_framing(&mut parts.headers);
            whole(change(body.collect().await.map_err(|_| Ended)?.to_bytes()))
        }
        AnswerChange::Watch(mut strip) => {
            own_framing(&mut parts.headers);
            let stripped = move |frame: Frame<Bytes>| match frame.into_data() {
                Ok(piece) => Frame::data(strip.push(&piece)),
                Err(trailers) => trailers,
            };
            body.map_frame(stripped).boxed()
        }
    };
    Ok(Response::from_parts(parts, body))
}

/// Go clients prefer protobuf, whose fields we cannot read.
fn accept_json_alone(headers: &mut HeaderMap) {
    let accepted = headers.get(header::ACCEPT).map(|all| all.to_str());
    let Some(Ok(accepted)) = accepted else {
        return;
    };
    let json: Vec<&str> = accepted
        .split(',')
        .filter(|one| one.contains("json"))
        .collect();
    let json = match json.join(",") {
        none if none.is_empty() => "application/json".to_owned(),
        some => some,
    };
    let value = header::HeaderValue::from_str(&json).expect("it is a part of a header value");
    headers.insert(header::ACCEPT, value);
}

/// Without a connection upstream the client gets 502. If the connection breaks during the answer,
/// the client's connection ends too.
fn unreachable(target: &Target, failure: &Failure) -> Result<Answer, Ended> {
    if failure.downcast_ref::<io::Error>().is_none() {
        return Err(Ended);
    }
    let body = format!("fault proxy: {target:?} cannot be reached: {failure}");
    Ok(response(StatusCode::BAD_GATEWAY, body.into()))
}

fn response(status: StatusCode, body: Bytes) -> Answer {
    let kind = if body.starts_with(b"{") {
        "application/json"
    } else {
        "text/plain; charset=utf-8"
    };
    let mut answer = Response::new(whole(body));
    *answer.status_mut() = status;
    answer
        .headers_mut()
        .insert(header::CONTENT_TYPE, header::HeaderValue::from_static(kind));
    answer
}

fn whole(body: Bytes) -> BoxBody<Bytes, hyper::Error> {
    Full::new(body).map_err(|never| match never {}).boxed()
}

/// hyper writes the framing of a complete body itself.
fn own_framing(headers: &mut HeaderMap) {
    headers.remove(header::CONTENT_LENGTH);
    remove_hop_headers(headers);
}

fn remove_hop_headers(headers: &mut HeaderMap) {
    for name in [
        header::CONNECTION,
        header::TRANSFER_ENCODING,
        header::UPGRADE,
    ] {
        headers.remove(name);
    }
    headers.remove("keep-alive");
}
