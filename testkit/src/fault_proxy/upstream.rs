//! The connection to the real server.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use http::uri::{Authority, Scheme};
use http::{HeaderValue, Request, Response, Uri, header};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio_rustls::TlsConnector;

/// The server behind the proxy.
#[derive(Debug, Clone)]
pub struct Upstream {
    /// `http://host:port` or `https://host:port`, without a path.
    pub url: String,
    /// The CA that signed an `https` server's certificate. The system's CAs are not used.
    pub ca_pem: Option<String>,
}

/// An [`Upstream`] that was checked.
pub(super) struct Target {
    authority: Authority,
    host: HeaderValue,
    port: u16,
    tls: Option<(TlsConnector, ServerName<'static>)>,
}

impl fmt::Debug for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Target({})", self.authority)
    }
}

pub(super) type Failure = Box<dyn std::error::Error + Send + Sync>;

/// The connection upstream of one client connection; opened at the first request, and again after a
/// loss or for another server.
#[derive(Default)]
pub(super) struct UpstreamConnection {
    /// The server, and how to send to it.
    open: Option<(Arc<Target>, SendRequest<Full<Bytes>>)>,
    /// Ends with this value.
    driver: JoinSet<()>,
}

pub(super) fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::aws_lc_rs::default_provider())
}

impl Target {
    pub(super) fn new(upstream: &Upstream) -> Result<Self, String> {
        let uri: Uri = upstream
            .url
            .parse()
            .map_err(|error| format!("no URL: {error}"))?;
        let authority = uri
            .authority()
            .ok_or("write http://host:port or https://host:port")?
            .clone();
        if uri.path() != "/" && !uri.path().is_empty() {
            return Err(format!(
                "leave out the path {:?}; clients send theirs",
                uri.path()
            ));
        }
        let is_tls = match uri.scheme() {
            Some(scheme) if *scheme == Scheme::HTTPS => true,
            Some(scheme) if *scheme == Scheme::HTTP => false,
            Some(_) | None => return Err("write http:// or https://".to_owned()),
        };
        let port = authority
            .port_u16()
            .unwrap_or(if is_tls { 443 } else { 80 });
        let tls = if is_tls {
            Some(tls(upstream, authority.host())?)
        } else {
            None
        };
        let host = HeaderValue::from_str(authority.as_str()).map_err(|error| error.to_string())?;
        Ok(Self {
            authority,
            host,
            port,
            tls,
        })
    }

    async fn connect(&self, driver: &mut JoinSet<()>) -> Result<SendRequest<Full<Bytes>>, Failure> {
        let host = self.authority.host().trim_matches(['[', ']']);
        let stream = TcpStream::connect((host, self.port)).await?;
        stream.set_nodelay(true)?;
        // The caller that waits for the answer gets the error of the connection.
        match &self.tls {
            None => {
                let (sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
                driver.spawn(async { drop(connection.await) });
                Ok(sender)
            }
            Some((connector, name)) => {
                let stream = connector.connect(name.clone(), stream).await?;
                let (sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
                driver.spawn(async { drop(connection.await) });
                Ok(sender)
            }
        }
    }
}

impl UpstreamConnection {
    /// Sends `request` to `target`; the answer's body streams.
    pub(super) async fn send(
        &mut self,
        target: &Arc<Target>,
        mut request: Request<Full<Bytes>>,
    ) -> Result<Response<Incoming>, Failure> {
        request
            .headers_mut()
            .insert(header::HOST, target.host.clone());
        let usable = match &mut self.open {
            Some((to, sender)) if Arc::ptr_eq(to, target) => sender.ready().await.is_ok(),
            Some(_) | None => false,
        };
        if !usable {
            self.driver.abort_all();
            let sender = target.connect(&mut self.driver).await?;
            self.open = Some((Arc::clone(target), sender));
        }
        let (_, sender) = self
            .open
            .as_mut()
            .ok_or("there is no connection upstream")?;
        Ok(sender.send_request(request).await?)
    }
}

fn tls(upstream: &Upstream, host: &str) -> Result<(TlsConnector, ServerName<'static>), String> {
    let pem = upstream
        .ca_pem
        .as_ref()
        .ok_or("an https upstream needs ca_pem, the CA of its certificate")?;
    let mut roots = rustls::RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(pem.as_bytes()) {
        let certificate = certificate.map_err(|error| format!("ca_pem is no PEM: {error}"))?;
        roots
            .add(certificate)
            .map_err(|error| format!("ca_pem: {error}"))?;
    }
    if roots.is_empty() {
        return Err("ca_pem holds no certificate".to_owned());
    }
    let mut config = rustls::ClientConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    let name = ServerName::try_from(host.trim_matches(['[', ']']).to_owned())
        .map_err(|error| format!("{host:?}: {error}"))?;
    Ok((TlsConnector::from(Arc::new(config)), name))
}
