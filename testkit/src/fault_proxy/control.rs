//! A control address: rules and the log of proxies over HTTP, for work by hand and other programs.
//!
//! | request               | answer                                                               |
//! |-----------------------|----------------------------------------------------------------------|
//! | `GET /rules`          | `{rules: [{id, target, method, path, agent, effect, hits, left}]}`   |
//! | `POST /rules`         | `{id}`                                                               |
//! | `DELETE /rules[?id=]` | `{removed}`, how many; all without an id                             |
//! | `GET /log[?since=]`   | `{last, entries: [{seq, at, method, path, agent, status, fault}]}`   |
//!
//! `/faults` is another name of `/rules`. An error is `{error}` with status 4xx.

use std::convert::Infallible;
use std::sync::Arc;

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode, header};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::task::JoinSet;

use super::log::Logged;
use super::posted::PostedRule;
use super::rules::RuleId;
use super::thread::ServerThread;
use super::upstream::Upstream;
use super::{FaultProxy, Shared, StartError};

/// The largest accepted rule.
const LARGEST_BODY: usize = 1 << 20;

/// A control address on loopback, plain HTTP. It ends with this value.
#[derive(Debug)]
pub struct FaultControl {
    url: String,
    _thread: ServerThread,
}

impl FaultControl {
    /// Starts one for these proxies. With several, a rule names its `target`, and so does `GET /log`
    /// (`?target=`). `upstreams` are the servers that the effect `redirect` may name.
    pub async fn start(
        proxies: &[(&str, &FaultProxy)],
        upstreams: Vec<(String, Upstream)>,
    ) -> Result<Self, StartError> {
        let proxies = proxies.iter();
        let targets = Targets {
            proxies: proxies
                .map(|(name, proxy)| ((*name).to_owned(), Arc::clone(&proxy.shared)))
                .collect(),
            upstreams,
        };
        let serve = async move |listener: TcpListener| accept(&listener, &Arc::new(targets)).await;
        let thread = ServerThread::start("fault-control", serve)
            .await
            .map_err(StartError::Listen)?;
        Ok(Self {
            url: format!("http://{}", thread.address()),
            _thread: thread,
        })
    }

    /// The address, without a slash at the end.
    pub fn url(&self) -> &str {
        &self.url
    }
}

/// What the address controls.
struct Targets {
    proxies: Vec<(String, Arc<Shared>)>,
    upstreams: Vec<(String, Upstream)>,
}

async fn accept(listener: &TcpListener, targets: &Arc<Targets>) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => {
                let Ok((stream, _)) = accepted else { continue };
                let targets = Arc::clone(targets);
                connections.spawn(async move {
                    let answering = service_fn(|request| answer(request, &targets));
                    // The client sees the error of its connection.
                    let _ = http1::Builder::new()
                        .serve_connection(TokioIo::new(stream), answering)
                        .await;
                });
            }
            Some(_) = connections.join_next() => {}
        }
    }
}

async fn answer(
    request: Request<Incoming>,
    targets: &Targets,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let (parts, body) = request.into_parts();
    let (path, query) = (parts.uri.path(), parts.uri.query().unwrap_or_default());
    let answered = match Limited::new(body, LARGEST_BODY).collect().await {
        Ok(body) => targets.answer(&parts.method, path, query, &body.to_bytes()),
        Err(error) => Err(Refusal::of(StatusCode::BAD_REQUEST, error)),
    };
    let (status, value) = match answered {
        Ok(value) => (StatusCode::OK, value),
        Err(Refusal { status, reason }) => (status, json!({ "error": reason })),
    };
    let mut answer = Response::new(Full::new(Bytes::from(format!("{value}\n"))));
    *answer.status_mut() = status;
    let json = header::HeaderValue::from_static("application/json");
    answer.headers_mut().insert(header::CONTENT_TYPE, json);
    Ok(answer)
}

/// Why a request was not served.
struct Refusal {
    status: StatusCode,
    reason: String,
}

impl Refusal {
    fn of(status: StatusCode, reason: impl ToString) -> Self {
        Self {
            status,
            reason: reason.to_string(),
        }
    }
}

impl Targets {
    fn answer(
        &self,
        method: &Method,
        path: &str,
        query: &str,
        body: &[u8],
    ) -> Result<Value, Refusal> {
        let bad = |reason| Refusal::of(StatusCode::BAD_REQUEST, reason);
        match (method, path) {
            (&Method::GET, "/rules" | "/faults") => Ok(self.rules()),
            (&Method::POST, "/rules" | "/faults") => self.add(body).map_err(bad),
            (&Method::DELETE, "/rules" | "/faults") => match number(query, "id").map_err(bad)? {
                None => Ok(json!({ "removed": self.remove_all() })),
                Some(id) => self.remove(id.into()),
            },
            (&Method::GET, "/log") => {
                let since = number(query, "since").map_err(bad)?.unwrap_or(0);
                let proxy = self.proxy(parameter(query, "target")).map_err(bad)?;
                Ok(log(proxy, since))
            }
            _ => Err(Refusal::of(
                StatusCode::NOT_FOUND,
                "there are GET, POST and DELETE /rules, and GET /log",
            )),
        }
    }

    fn rules(&self) -> Value {
        let mut all = Vec::new();
        for (name, proxy) in &self.proxies {
            for used in proxy.rules.lock().all() {
                let mut rule = json!(used);
                rule["target"] = json!(name);
                all.push(rule);
            }
        }
        json!({ "rules": all })
    }

    fn add(&self, body: &[u8]) -> Result<Value, String> {
        let posted = PostedRule::parse(body)?;
        let proxy = self.proxy(posted.target.as_deref())?;
        let rule = posted.rule(&self.upstreams)?;
        let id = proxy.rules.lock().add(rule);
        Ok(json!({ "id": id }))
    }

    fn remove_all(&self) -> usize {
        let mut removed = 0;
        for (_, proxy) in &self.proxies {
            let mut rules = proxy.rules.lock();
            removed += rules.all().len();
            rules.clear();
        }
        removed
    }

    fn remove(&self, id: RuleId) -> Result<Value, Refusal> {
        for (_, proxy) in &self.proxies {
            let mut rules = proxy.rules.lock();
            if rules.all().iter().any(|one| one.id == id) {
                rules.remove(id);
                return Ok(json!({ "removed": 1 }));
            }
        }
        Err(Refusal::of(StatusCode::NOT_FOUND, "no rule has this id"))
    }

    /// The proxy of this name; the only one if none is named.
    fn proxy(&self, target: Option<&str>) -> Result<&Shared, String> {
        let mut named = self.proxies.iter().filter(|(name, _)| match target {
            Some(target) => name == target,
            None => true,
        });
        if let (Some((_, proxy)), None) = (named.next(), named.next()) {
            return Ok(proxy);
        }
        let names: Vec<&str> = self.proxies.iter().map(|(name, _)| &**name).collect();
        Err(format!("`target` is one of {}", names.join(", ")))
    }
}

fn log(proxy: &Shared, since: u64) -> Value {
    let log = proxy.log.lock();
    let entries: Vec<Value> = log.since(since).iter().map(entry).collect();
    json!({ "last": log.last(), "entries": entries })
}

fn entry(one: &Logged) -> Value {
    let path = match &*one.query {
        "" => one.path.clone(),
        query => format!("{}?{query}", one.path),
    };
    json!({
        "seq": one.seq,
        "at": one.at,
        "method": one.method.as_str(),
        "path": path,
        "agent": one.agent,
        "status": one.status.map(|status| status.as_u16()),
        "fault": one.rule,
    })
}

fn parameter<'a>(query: &'a str, name: &str) -> Option<&'a str> {
    let pairs = query.split('&').filter_map(|part| part.split_once('='));
    let mut named = pairs.filter(|(own, _)| *own == name);
    named.next().map(|(_, value)| value)
}

fn number(query: &str, name: &str) -> Result<Option<u64>, String> {
    let value = parameter(query, name);
    let parsed = value.map(str::parse).transpose();
    parsed.map_err(|_| format!("`{name}` is a number"))
}
