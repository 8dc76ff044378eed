//! The HTTP server: a separate thread that ends when the [`Emulator`] is dropped.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::thread::JoinHandle;

use bytes::Bytes;
use http::Method;
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio::task::JoinSet;

use crate::accounts::Accounts;
use crate::clock::Clock;
use crate::control::{Control, RESERVED};
use crate::ec2::Ec2;
use crate::exclusive::ExclusiveResources;
use crate::faults::Faults;
use crate::limits::Limits;
use crate::log::Log;
use crate::oracle::Oracle;
use crate::probe::Probe;
use crate::protocol::{ApiError, Protocol};
use crate::router::{Ending, Mounted, World};
use crate::service::{ControlError, Service};
use crate::sts::Sts;
use crate::wire::{Request, Response};

/// The largest accepted body. The emulated services accept much less.
const LARGEST_BODY: usize = 16 << 20;

/// A running emulator: one HTTP server for all its services.
///
/// It has its own thread and runtime, so one instance can serve tests of several runtimes.
/// Dropping it closes the port and every connection.
#[derive(Debug)]
pub struct Emulator {
    address: SocketAddr,
    world: Shared,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// The parts of an emulator. STS is always included.
#[must_use = "nothing runs until start"]
pub struct Builder {
    services: Vec<Box<dyn Service>>,
    listen: SocketAddr,
    factor: f64,
}

/// Why an emulator did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The address is not available.
    #[error(
        "the AWS emulator cannot listen on {address}: {source}; choose another address, or port 0 for a free one"
    )]
    Listen {
        /// The requested address.
        address: SocketAddr,
        /// The error of the operating system.
        source: io::Error,
    },
    /// The factor of the clock is not valid.
    #[error("the AWS emulator's clock: {0}")]
    Clock(String),
    /// Two services have the same name, or a name is reserved for control.
    #[error("the AWS emulator cannot add service {0:?}: the name is taken; remove one of the two")]
    NameTaken(&'static str),
    /// The thread ended before it listened.
    #[error("the AWS emulator's thread did not start: {0}")]
    Thread(io::Error),
}

#[derive(Clone)]
struct Shared(Arc<Mutex<World>>);

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("World")
    }
}

impl Builder {
    /// Adds a service.
    pub fn service(mut self, service: Box<dyn Service>) -> Self {
        self.services.push(service);
        self
    }

    /// Adds all services: `probe`, EC2, and those of [`crate::tenants`].
    pub fn every_service(self) -> Self {
        let own: [Box<dyn Service>; 2] = [Box::new(Probe::new()), Box::new(Ec2::new())];
        let all = own.into_iter().chain(crate::tenants::services());
        all.fold(self, Self::service)
    }

    /// Listens here instead of on a free loopback port.
    pub fn listen(mut self, address: SocketAddr) -> Self {
        self.listen = address;
        self
    }

    /// Runs the emulator's clock this many times as fast as real time.
    pub fn clock_factor(mut self, factor: f64) -> Self {
        self.factor = factor;
        self
    }

    /// Starts the server; it answers when this returns.
    pub async fn start(self) -> Result<Emulator, StartError> {
        let listen = self.listen;
        let world = Shared(Arc::new(Mutex::new(self.world()?)));
        let (stop, stopped) = oneshot::channel();
        let (ready, listening) = oneshot::channel();
        let serving = world.clone();
        let thread = std::thread::Builder::new()
            .name("aws-emulator".to_owned())
            .spawn(move || run(listen, serving, ready, stopped))
            .map_err(StartError::Thread)?;
        let address = listening
            .await
            .map_err(|_| StartError::Thread(io::Error::other("it ended early")))?
            .map_err(|source| StartError::Listen {
                address: listen,
                source,
            })?;
        Ok(Emulator {
            address,
            world,
            stop: Some(stop),
            thread: Some(thread),
        })
    }

    pub(crate) fn world(self) -> Result<World, StartError> {
        let clock = Clock::new(self.factor).map_err(StartError::Clock)?;
        let accounts = Arc::new(Mutex::new(Accounts::default()));
        let mut services = vec![Mounted::new(Box::new(Sts::new(Arc::clone(&accounts))))];
        for service in self.services {
            let is_taken = |one: &Mounted| {
                one.service.name() == service.name()
                    || one.service.signing_name() == service.signing_name()
            };
            if RESERVED.contains(&service.name()) || services.iter().any(is_taken) {
                return Err(StartError::NameTaken(service.name()));
            }
            services.push(Mounted::new(service));
        }
        Ok(World {
            clock,
            accounts,
            services,
            faults: Faults::default(),
            limits: Limits::default(),
            exclusive: ExclusiveResources::default(),
            oracle: Oracle::default(),
            log: Log::default(),
            answered: 0,
        })
    }
}

impl Emulator {
    /// An emulator with only STS, on a free loopback port, in real time.
    pub fn builder() -> Builder {
        Builder {
            services: Vec::new(),
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
            factor: 1.0,
        }
    }

    /// The endpoint to give to clients, without a slash at the end.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// A control request without HTTP: `path` is what follows `/_emu/`, query included.
    ///
    /// The same requests and answers as over HTTP (see [`crate::control`]).
    pub fn control(&self, method: Method, path: &str, body: Value) -> Result<Value, ControlError> {
        let (path, query) = path.split_once('?').unwrap_or((path, ""));
        let request = Request::new(method, path, query, http::HeaderMap::new(), Bytes::new());
        let control = Control {
            path: request.segments(),
            method: request.method,
            query: request.query,
            body,
        };
        self.world.0.lock().control(control)
    }

    /// Stops the server and waits until the port is free. Dropping does the same.
    pub fn stop(self) {
        drop(self);
    }
}

impl Drop for Emulator {
    fn drop(&mut self) {
        // Without a receiver the thread has ended already.
        let _ = self.stop.take().map(|stop| stop.send(()));
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
            && !std::thread::panicking()
        {
            panic!("the AWS emulator's thread panicked; its message is above");
        }
    }
}

/// The thread: listens and serves; when it stops, it ends every connection.
fn run(
    listen: SocketAddr,
    world: Shared,
    ready: oneshot::Sender<io::Result<SocketAddr>>,
    stopped: oneshot::Receiver<()>,
) {
    let runtime = match tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
    {
        Ok(runtime) => runtime,
        Err(error) => {
            let _ = ready.send(Err(error));
            return;
        }
    };
    runtime.block_on(async move {
        let bound = TcpListener::bind(listen)
            .await
            .and_then(|listener| Ok((listener.local_addr()?, listener)));
        let listener = match bound {
            Ok((address, listener)) => {
                let _ = ready.send(Ok(address));
                listener
            }
            Err(error) => {
                let _ = ready.send(Err(error));
                return;
            }
        };
        tokio::select! {
            () = accept(listener, world) => {}
            _ = stopped => {}
        }
    });
}

async fn accept(listener: TcpListener, world: Shared) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => {
                // A connection that failed while it was accepted concerns only its client.
                if let Ok((stream, _)) = accepted {
                    connections.spawn(serve(stream, world.clone()));
                }
            }
            Some(_) = connections.join_next() => {}
        }
    }
}

async fn serve(stream: TcpStream, world: Shared) {
    let answering = service_fn(move |request| answer(request, world.clone()));
    // The client sees the error of its connection: it left, or we cut it on purpose.
    let _ = hyper::server::conn::http1::Builder::new()
        .serve_connection(TokioIo::new(stream), answering)
        .await;
}

/// Ends a connection without an answer: hyper closes it when the service fails.
#[derive(Debug, thiserror::Error)]
#[error("cut by a fault rule")]
struct Cut;

type Written = hyper::Response<Full<Bytes>>;

async fn answer(request: hyper::Request<Incoming>, world: Shared) -> Result<Written, Cut> {
    let (parts, body) = request.into_parts();
    let Ok(body) = Limited::new(body, LARGEST_BODY).collect().await else {
        let error = ApiError::new(
            413,
            "RequestEntityTooLarge",
            "The emulator takes bodies up to 16 MiB.",
        );
        return Ok(written(Protocol::RestJson.error(&error, "none")));
    };
    let query = parts.uri.query().unwrap_or_default();
    let request = Request::new(
        parts.method,
        parts.uri.path(),
        query,
        parts.headers,
        body.to_bytes(),
    );
    if request.path == "/_emu" || request.path.starts_with("/_emu/") {
        return Ok(written(controlled(request, &world)));
    }
    let admitted = match world.0.lock().admit(&request) {
        Ok(admitted) => admitted,
        Err(refused) => return Ok(written(refused)),
    };
    tokio::time::sleep(admitted.delay()).await;
    match world.0.lock().execute(admitted, &request) {
        Ending::Answer(answer) => Ok(written(answer)),
        Ending::Cut => Err(Cut),
    }
}

fn controlled(request: Request, world: &Shared) -> Response {
    let result = control_request(request).and_then(|control| world.0.lock().control(control));
    match result {
        Ok(body) => Response::json(200, "application/json", &body),
        Err(error) => Response::json(
            error.status,
            "application/json",
            &json!({ "error": error.message }),
        ),
    }
}

fn control_request(request: Request) -> Result<Control, ControlError> {
    let body = if request.body.is_empty() {
        Value::Null
    } else {
        serde_json::from_slice(&request.body)
            .map_err(|wrong| ControlError::invalid(format!("the body is no JSON: {wrong}")))?
    };
    let path = request.segments().into_iter().skip(1).collect();
    Ok(Control {
        method: request.method,
        path,
        query: request.query,
        body,
    })
}

fn written(answer: Response) -> Written {
    let mut response = hyper::Response::builder()
        .status(answer.status)
        .header("content-type", answer.content_type);
    for (name, value) in answer.headers {
        response = response.header(name, value);
    }
    response
        .body(Full::new(answer.body))
        .unwrap_or_else(|error: http::Error| -> Written {
            let body = format!("the answer of the emulated service is not valid HTTP: {error}");
            let mut response = hyper::Response::new(Full::new(Bytes::from(body)));
            *response.status_mut() = http::StatusCode::INTERNAL_SERVER_ERROR;
            response
        })
}
