//! A proxy that injects faults: in front of an API server, Vault or the AWS emulator.
//!
//! ```text
//! client -> accept (TLS or not) -> rules (which fault) -> upstream (TLS or not)
//!        <- answer, streamed as it arrives, or none
//! ```
//! HTTP/1.1 on both sides; each connection of a client has its own connection upstream. Answers are
//! streamed without a buffer, so watches work; upgrades (exec, port-forward) do not.
//!
//! Rules come from stories ([`FaultProxy::rule`]), or over HTTP ([`FaultControl`]) for work by hand.
//!
//! # When not to use it
//! For callers that log in with a client certificate: the proxy terminates TLS and has no
//! certificate of its own. Give them a token.

mod control;
mod log;
mod posted;
mod rule;
mod rules;
mod selector;
mod serve;
mod strip;
mod thread;
mod upstream;

use std::sync::Arc;

use jiff::Timestamp;
use parking_lot::Mutex;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio_rustls::TlsAcceptor;

pub use control::FaultControl;
pub use log::Logged;
pub use rule::{AnyMethod, InvalidRule, Rule};
pub use rules::{RuleId, RuleUse};
pub use upstream::Upstream;

use log::Log;
use rules::Rules;
use selector::{Pattern, Selector};
use thread::ServerThread;
use upstream::Target;

/// The protocol between clients and the proxy.
#[derive(Debug, Clone)]
pub enum Listen {
    /// Plain HTTP.
    Http,
    /// HTTPS with this certificate (chain) and key.
    Https {
        /// Certificate chain.
        cert_pem: String,
        /// Private key.
        key_pem: String,
    },
}

/// Why a proxy did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The upstream's URL or CA cannot be used.
    #[error("fault proxy: upstream {url}: {wrong}")]
    Upstream {
        /// URL as given.
        url: String,
        /// What is wrong and how to correct it.
        wrong: String,
    },
    /// Certificate or key of [`Listen::Https`] cannot be used.
    #[error("fault proxy: certificate to listen with: {0}")]
    Certificate(String),
    /// No port, or no thread.
    #[error("fault proxy: cannot listen on a loopback port: {0}")]
    Listen(std::io::Error),
}

/// A running proxy with its own thread; dropping it ends every connection.
#[derive(Debug)]
pub struct FaultProxy {
    url: String,
    shared: Arc<Shared>,
    // Ends before the channel that its connections listen to.
    _thread: ServerThread,
    cut: watch::Sender<u64>,
}

/// What the connections of one proxy share.
#[derive(Debug)]
struct Shared {
    target: Arc<Target>,
    rules: Mutex<Rules>,
    log: Mutex<Log>,
}

impl FaultProxy {
    /// Starts a proxy on a free loopback port; it accepts connections when this returns.
    pub async fn start(upstream: Upstream, listen: Listen) -> Result<Self, StartError> {
        let target = Target::new(&upstream).map_err(|wrong| StartError::Upstream {
            url: upstream.url.clone(),
            wrong,
        })?;
        let (scheme, acceptor) = match listen {
            Listen::Http => ("http", None),
            Listen::Https { cert_pem, key_pem } => (
                "https",
                Some(acceptor(&cert_pem, &key_pem).map_err(StartError::Certificate)?),
            ),
        };
        let shared = Arc::new(Shared {
            target: Arc::new(target),
            rules: Mutex::default(),
            log: Mutex::default(),
        });
        let (cut, cuts) = watch::channel(0);
        let serving = serve::Serving {
            shared: Arc::clone(&shared),
            acceptor,
            cuts,
        };
        let serve = async move |listener: TcpListener| serve::accept(&listener, &serving).await;
        let thread = ServerThread::start("fault-proxy", serve)
            .await
            .map_err(StartError::Listen)?;
        Ok(Self {
            url: format!("{scheme}://{}", thread.address()),
            shared,
            cut,
            _thread: thread,
        })
    }

    /// The address for clients, without a slash at the end.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Adds a rule. If several match a request, only the oldest applies.
    pub fn rule(&self, rule: Rule) -> RuleId {
        self.shared.rules.lock().add(rule)
    }

    /// Removes a rule; `false` if it was used up or removed before.
    ///
    /// Requests that it already delays or never answers are not released: see
    /// [`FaultProxy::cut_all`].
    pub fn remove(&self, id: RuleId) -> bool {
        self.shared.rules.lock().remove(id)
    }

    /// All rules that were not removed, oldest first, with how often each was applied.
    pub fn rules(&self) -> Vec<RuleUse> {
        self.shared.rules.lock().all()
    }

    /// To how many requests a rule was applied; 0 once it is removed.
    pub fn hits(&self, id: RuleId) -> u64 {
        let used = self.rules().into_iter().find(|one| one.id == id);
        used.map_or(0, |one| one.hits)
    }

    /// Removes all rules.
    pub fn clear(&self) {
        self.shared.rules.lock().clear();
    }

    /// Drops every accepted connection at once, also watches and black holes. New ones are accepted, and
    /// so are those that still wait in the listen backlog.
    pub fn cut_all(&self) {
        self.cut.send_modify(|cuts| *cuts += 1);
    }

    /// All requests so far, in order of arrival; at most the last 100,000.
    pub fn requests(&self) -> Vec<Logged> {
        self.requests_since(0)
    }

    /// The requests after the one of this number.
    pub fn requests_since(&self, seq: u64) -> Vec<Logged> {
        self.shared.log.lock().since(seq)
    }

    /// How many requests so far had this method and a path that fits `pattern` (see [`Rule::on`]).
    pub fn count(&self, method: impl Into<AnyMethod>, pattern: &str) -> usize {
        self.shared.log.lock().count(matching(method, pattern))
    }

    /// When each of these requests arrived, in order.
    pub fn arrivals(&self, method: impl Into<AnyMethod>, pattern: &str) -> Vec<Timestamp> {
        self.shared.log.lock().arrivals(matching(method, pattern))
    }
}

fn matching(method: impl Into<AnyMethod>, pattern: &str) -> impl Fn(&Logged) -> bool {
    let AnyMethod(method) = method.into();
    let selector = Selector {
        method,
        pattern: Pattern::Glob(pattern.to_owned()),
        agent: None,
    };
    move |one: &Logged| selector.fits(&one.head())
}

fn acceptor(cert_pem: &str, key_pem: &str) -> Result<TlsAcceptor, String> {
    let chain: Vec<_> = CertificateDer::pem_slice_iter(cert_pem.as_bytes())
        .collect::<Result<_, _>>()
        .map_err(|error| format!("cert_pem is no PEM: {error}"))?;
    let key = PrivateKeyDer::from_pem_slice(key_pem.as_bytes())
        .map_err(|error| format!("key_pem holds no private key: {error}"))?;
    let mut config = rustls::ServerConfig::builder_with_provider(upstream::provider())
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .map_err(|error| format!("certificate and key do not fit: {error}"))?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(TlsAcceptor::from(Arc::new(config)))
}
