//! Connections and requests: accept, apply the rule, forward, answer.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Request, Response, StatusCode, header};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use socket2::{SockRef, Socket};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{oneshot, watch};
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;

use super::Shared;
use super::rule::{Effect, Rule};
use super::upstream::{Failure, UpstreamConnection};

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

/// The thread: listens and serves; when it stops, it ends every connection.
pub(super) fn run(
    serving: &Serving,
    ready: oneshot::Sender<io::Result<SocketAddr>>,
    stopped: oneshot::Receiver<()>,
) {
    let started = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .and_then(|runtime| {
            let listener = runtime.block_on(TcpListener::bind((Ipv4Addr::LOCALHOST, 0)))?;
            Ok((listener.local_addr()?, listener, runtime))
        });
    match started {
        Ok((address, listener, runtime)) => {
            let _ = ready.send(Ok(address));
            runtime.block_on(async {
                tokio::select! {
                    () = accept(&listener, serving) => {}
                    _ = stopped => {}
                }
            });
        }
        Err(error) => {
            let _ = ready.send(Err(error));
        }
    }
}

async fn accept(listener: &TcpListener, serving: &Serving) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => {
                // A connection that failed while it was accepted concerns only its client.
                if let Ok((stream, _)) = accepted {
                    let (shared, acceptor) = (Arc::clone(&serving.shared), serving.acceptor.clone());
                    connections.spawn(connection(stream, shared, acceptor, serving.cuts.clone()));
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
    cuts.mark_unchanged();
    let _ = stream.set_nodelay(true);
    // A second handle on the socket, so that a rule can end the connection with a reset.
    let Ok(socket) = SockRef::from(&stream).try_clone() else {
        return;
    };
    let socket = Arc::new(socket);
    let served = async {
        match acceptor {
            None => requests(stream, shared, &socket).await,
            Some(acceptor) => {
                // TLS itself reports the error to a client that does not trust us or speaks no TLS.
                if let Ok(stream) = acceptor.accept(stream).await {
                    requests(stream, shared, &socket).await;
                }
            }
        }
    };
    tokio::select! {
        () = served => {}
        _ = cuts.changed() => end_by_reset(&socket),
    }
}

async fn requests<S: AsyncRead + AsyncWrite + Unpin>(
    stream: S,
    shared: Arc<Shared>,
    socket: &Arc<Socket>,
) {
    let upstream = Arc::new(tokio::sync::Mutex::new(UpstreamConnection::default()));
    let answering = service_fn(move |request| {
        let (shared, upstream, socket) = (
            Arc::clone(&shared),
            Arc::clone(&upstream),
            Arc::clone(socket),
        );
        async move { answer(request, &shared, &mut *upstream.lock().await, &socket).await }
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

async fn answer(
    request: Request<Incoming>,
    shared: &Shared,
    upstream: &mut UpstreamConnection,
    socket: &Socket,
) -> Result<Answer, Ended> {
    let (method, uri) = (request.method().clone(), request.uri().clone());
    let (path, query) = (uri.path(), uri.query().unwrap_or_default());
    let hit = shared.rules.lock().hit(&method, path, query);
    let token = request.headers().get("x-vault-token");
    let token = token.and_then(|token| Some(token.to_str().ok()?.to_owned()));
    let seq = shared.log.lock().arrived(
        method,
        path.to_owned(),
        query.to_owned(),
        token,
        hit.as_ref().map(|(id, _)| *id),
    );
    let answer = match hit {
        None => forward(request, shared, upstream, &Effect::Forward).await,
        Some((_, Rule { delay, effect, .. })) => {
            tokio::time::sleep(delay).await;
            act(effect, request, shared, upstream, socket).await
        }
    }?;
    shared.log.lock().answered(seq, answer.status());
    Ok(answer)
}

async fn act(
    effect: Effect,
    request: Request<Incoming>,
    shared: &Shared,
    upstream: &mut UpstreamConnection,
    socket: &Socket,
) -> Result<Answer, Ended> {
    match effect {
        Effect::BlackHole => std::future::pending().await,
        Effect::CutBefore => Err(Ended),
        Effect::Reset => {
            end_by_reset(socket);
            Err(Ended)
        }
        Effect::Status(status, body) => {
            // Read the rest of the request, or the client may not receive the answer.
            let _ = request.into_body().collect().await;
            Ok(response(status, body))
        }
        Effect::CutAfter => {
            let answer = forward(request, shared, upstream, &effect).await?;
            let _ = answer.into_body().collect().await;
            Err(Ended)
        }
        Effect::Forward | Effect::Rewrite { .. } => {
            forward(request, shared, upstream, &effect).await
        }
    }
}

async fn forward(
    request: Request<Incoming>,
    shared: &Shared,
    upstream: &mut UpstreamConnection,
    effect: &Effect,
) -> Result<Answer, Ended> {
    let (rewrite_request, rewrite_answer) = match effect {
        Effect::Rewrite { request, answer } => (request.as_ref(), answer.as_ref()),
        Effect::Forward
        | Effect::BlackHole
        | Effect::Reset
        | Effect::Status(..)
        | Effect::CutBefore
        | Effect::CutAfter => (None, None),
    };
    let (mut parts, body) = request.into_parts();
    let body = body.collect().await.map_err(|_| Ended)?.to_bytes();
    let body = rewrite_request.map_or(body.clone(), |change| change(body));
    own_framing(&mut parts.headers);
    if rewrite_answer.is_some() {
        parts.headers.remove(header::ACCEPT_ENCODING);
    }
    let answer = match upstream
        .send(&shared.target, Request::from_parts(parts, Full::new(body)))
        .await
    {
        Ok(answer) => answer,
        Err(failure) => return unreachable(shared, &failure),
    };
    let (mut parts, body) = answer.into_parts();
    let Some(change) = rewrite_answer else {
        remove_hop_headers(&mut parts.headers);
        return Ok(Response::from_parts(parts, body.boxed()));
    };
    own_framing(&mut parts.headers);
    let body = body.collect().await.map_err(|_| Ended)?.to_bytes();
    Ok(Response::from_parts(parts, whole(change(body))))
}

/// Without a connection upstream the client gets 502. If the connection breaks during the answer,
/// the client's connection ends too.
fn unreachable(shared: &Shared, failure: &Failure) -> Result<Answer, Ended> {
    if failure.downcast_ref::<io::Error>().is_none() {
        return Err(Ended);
    }
    let body = format!(
        "fault proxy: {:?} cannot be reached: {failure}",
        shared.target
    );
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
