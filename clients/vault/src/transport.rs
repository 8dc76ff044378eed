//! HTTP and TLS: sends a request and returns the answer, or why there is none.

use std::error::Error as _;
use std::net::IpAddr;
use std::time::Duration;

use kernel::{Guard, GuardedBody, redact, tcp, write_timeout};
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use reqwest::header::{CONTENT_TYPE, HOST, LOCATION, RETRY_AFTER};
use reqwest::{Certificate, Identity, Method, Url, redirect};

use crate::call::Call;
use crate::{Error, Settings, Tls};

/// Distinguishes a host that drops our packets from one that is slow.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Enough for 50,000 names of policies or roles; all other answers are much smaller.
const LARGEST_ANSWER: usize = 8 << 20;
/// An absurd Retry-After must not stop a connection for days.
const LONGEST_RETRY_AFTER: Duration = Duration::from_secs(300);

/// Idle connections are closed after this long: earlier than load balancers drop them silently.
const IDLE: Duration = Duration::from_secs(30);

/// An answer. It has no `Debug`, because bodies contain secrets.
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) retry_after: Option<Duration>,
    pub(crate) body: Vec<u8>,
}

/// The credentials and guards of a request.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Caller<'a> {
    pub(crate) token: Option<&'a str>,
    pub(crate) namespace: Option<&'a str>,
    /// Must be open when the request is sent; empty for reads.
    pub(crate) guards: &'a [Guard],
}

/// One server, as the settings describe it.
#[derive(Debug)]
pub(crate) struct Transport {
    settings: Settings,
    address: Url,
    user_timeout: Duration,
    http: reqwest::Client,
}

impl Transport {
    /// `guards` are those of later writes: their margin limits how long sent bytes stay in flight.
    pub(crate) fn new(settings: Settings, guards: &[Guard]) -> Result<Self, Error> {
        let wrong = |wrong: String| Error::Settings {
            address: settings.address.clone(),
            wrong,
        };
        let address = Url::parse(&settings.address)
            .ok()
            .filter(is_plain)
            .ok_or_else(|| wrong("the address must look like https://vault:8200".to_owned()))?;
        if let Some(name) = &settings.tls.server_name
            && (name.parse::<IpAddr>().is_ok() || with_host(&address, name).is_none())
        {
            return Err(wrong(format!("{name:?} is no DNS name to ask for")));
        }
        let user_timeout = tcp::user_timeout(guards);
        let http = http_client(&settings, &address, user_timeout).map_err(wrong)?;
        Ok(Self {
            settings,
            address,
            user_timeout,
            http,
        })
    }

    /// The address as configured.
    pub(crate) fn address(&self) -> &str {
        &self.settings.address
    }

    /// Sends the request and follows one redirect. Any status is an answer.
    pub(crate) async fn send(&self, call: &Call, caller: Caller<'_>) -> Result<Answer, Error> {
        let base = self.address.as_str().trim_end_matches('/');
        let url = Url::parse(&format!("{base}/v1/{}", call.path))
            .expect("an address and an encoded path make a URL");
        let sent = self.sent(&self.http, &url, call, caller).await?;
        if !sent.status().is_redirection() {
            return self.answer(call, caller, sent).await;
        }
        let url = self.redirected(call, &url, &sent)?;
        let http = self.http_for(&url)?;
        let sent = self.sent(&http, &url, call, caller).await?;
        if sent.status().is_redirection() {
            return Err(self.no_redirect(call, "Vault redirects more than once"));
        }
        self.answer(call, caller, sent).await
    }

    /// The client for the host a redirect names.
    fn http_for(&self, url: &Url) -> Result<reqwest::Client, Error> {
        if self.settings.tls.server_name.is_none() {
            return Ok(self.http.clone());
        }
        // Our client resolves the name to one host only.
        http_client(&self.settings, url, self.user_timeout).map_err(|wrong| Error::Settings {
            address: url.to_string(),
            wrong,
        })
    }

    async fn sent(
        &self,
        http: &reqwest::Client,
        url: &Url,
        call: &Call,
        caller: Caller<'_>,
    ) -> Result<reqwest::Response, Error> {
        let target = sni_url(&self.settings.tls, url);
        let mut request = http
            .request(call.method.clone(), target)
            .header("X-Vault-Request", "true");
        // Another SNI name changes the URL; the Host header keeps the real host for proxies.
        if self.settings.tls.server_name.is_some() {
            request = request.header(HOST, authority(url));
        }
        if let Some(token) = caller.token {
            request = request.header("X-Vault-Token", token);
        }
        if let Some(namespace) = caller.namespace {
            request = request.header("X-Vault-Namespace", namespace);
        }
        if caller.guards.is_empty() {
            request = match &call.body {
                Some(body) => request.body(body.to_string()),
                None => request,
            };
        } else {
            let body = call.body.as_ref().map(ToString::to_string);
            let body = GuardedBody::new(body.unwrap_or_default(), caller.guards.to_vec());
            request = request
                .body(reqwest::Body::wrap(body))
                .timeout(write_timeout(self.settings.timeout, caller.guards));
        }
        if call.body.is_some() {
            let kind = if call.method == Method::PATCH {
                "application/merge-patch+json"
            } else {
                "application/json"
            };
            request = request.header(CONTENT_TYPE, kind);
        }
        request
            .send()
            .await
            .map_err(|error| self.silence(call, caller, error))
    }

    async fn answer(
        &self,
        call: &Call,
        caller: Caller<'_>,
        mut sent: reqwest::Response,
    ) -> Result<Answer, Error> {
        let status = sent.status().as_u16();
        let retry_after = sent
            .headers()
            .get(RETRY_AFTER)
            .and_then(|value| value.to_str().ok()?.trim().parse().ok())
            .map(|seconds| Duration::from_secs(seconds).min(LONGEST_RETRY_AFTER));
        let mut body = Vec::new();
        loop {
            match sent.chunk().await {
                Ok(None) => break,
                Ok(Some(chunk)) if body.len() + chunk.len() <= LARGEST_ANSWER => {
                    body.extend_from_slice(&chunk);
                }
                Ok(Some(_)) => {
                    return Err(Error::Failed {
                        call: call.name(),
                        status,
                        message: format!("the answer is larger than {LARGEST_ANSWER} bytes"),
                    });
                }
                Err(error) => return Err(self.silence(call, caller, error)),
            }
        }
        Ok(Answer {
            status,
            retry_after,
            body,
        })
    }

    /// The target of a redirect, if we may follow it.
    fn redirected(&self, call: &Call, from: &Url, sent: &reqwest::Response) -> Result<Url, Error> {
        let location = sent
            .headers()
            .get(LOCATION)
            .and_then(|value| value.to_str().ok())
            .and_then(|location| from.join(location).ok())
            .ok_or_else(|| self.no_redirect(call, "Vault redirects to nowhere"))?;
        match (from.scheme(), location.scheme()) {
            ("https", "https") | ("http", "http" | "https") => Ok(location),
            ("https", _) => Err(self.no_redirect(call, "Vault redirects from TLS to plain text")),
            _ => Err(self.no_redirect(call, "Vault redirects to something that is not HTTP")),
        }
    }

    fn no_redirect(&self, call: &Call, reason: &str) -> Error {
        Error::Redirect {
            call: call.name(),
            reason: format!("{reason} ({})", self.address()),
        }
    }

    fn silence(&self, call: &Call, caller: Caller<'_>, error: reqwest::Error) -> Error {
        if let Some(deposed) = GuardedBody::refused(&error) {
            return Error::Deposed(deposed);
        }
        if error.is_builder() {
            return Error::Invalid {
                call: call.name(),
                message: "token or namespace has characters that no HTTP header allows".to_owned(),
            };
        }
        let address = self.address().to_owned();
        let never_asked = error.is_connect() || is_tls(&error);
        let secret = caller.token.unwrap_or_default();
        let reason = redact(&reason(error), &[secret]);
        if never_asked {
            Error::Unreachable { address, reason }
        } else {
            Error::NoAnswer {
                call: call.name(),
                address,
                reason,
            }
        }
    }
}

/// Scheme, host, port and path, and nothing else: a password in an address would get into logs.
fn is_plain(url: &Url) -> bool {
    matches!(url.scheme(), "http" | "https")
        && url.has_host()
        && url.username().is_empty()
        && url.password().is_none()
        && url.query().is_none()
        && url.fragment().is_none()
}

/// A client that reads nothing from the environment and trusts only what the settings trust.
fn http_client(
    settings: &Settings,
    url: &Url,
    user_timeout: Duration,
) -> Result<reqwest::Client, String> {
    let Tls {
        skip_verify,
        ca_pem,
        client_cert_pem,
        client_key_pem,
        server_name,
    } = &settings.tls;
    let mut builder = reqwest::Client::builder()
        .no_proxy()
        // We follow redirects ourselves: a login is a POST and must stay one.
        .redirect(redirect::Policy::none())
        .timeout(settings.timeout)
        .connect_timeout(CONNECT_TIMEOUT.min(settings.timeout))
        .pool_idle_timeout(IDLE)
        .tcp_keepalive(tcp::KEEPALIVE)
        .tcp_keepalive_interval(tcp::KEEPALIVE_INTERVAL)
        .tcp_keepalive_retries(tcp::KEEPALIVE_RETRIES)
        .pool_max_idle_per_host(settings.limits.max_in_flight as usize)
        .tls_danger_accept_invalid_certs(*skip_verify);
    #[cfg(target_os = "linux")]
    {
        builder = builder.tcp_user_timeout(user_timeout);
    }
    if let Some(pem) = ca_pem {
        let authorities = Certificate::from_pem_bundle(pem.as_bytes())
            .ok()
            .filter(|authorities| !authorities.is_empty())
            .ok_or("the CA is no PEM certificate")?;
        builder = builder.tls_certs_only(authorities);
    }
    match (client_cert_pem, client_key_pem) {
        (Some(cert), Some(key)) => {
            let both = format!("{}\n{}", cert.expose(), key.expose());
            let identity = Identity::from_pem(both.as_bytes())
                .map_err(|_| "client certificate and key are no PEM of their kind")?;
            builder = builder.identity(identity);
        }
        (None, None) => {}
        _ => return Err("a client certificate needs its key, and a key its certificate".into()),
    }
    if server_name.is_some() {
        let host = url.host_str().unwrap_or_default();
        let host = host.trim_matches(['[', ']']).to_owned();
        builder = builder.dns_resolver(AtHost { host });
    }
    builder.build().map_err(reason)
}

/// Resolves every name to the real host.
#[derive(Debug)]
struct AtHost {
    host: String,
}

impl Resolve for AtHost {
    fn resolve(&self, _name: Name) -> Resolving {
        let host = self.host.clone();
        Box::pin(async move {
            let found: Vec<_> = tokio::net::lookup_host((host.as_str(), 0)).await?.collect();
            Ok(Box::new(found.into_iter()) as Addrs)
        })
    }
}

/// `url` with the SNI name as host; [`AtHost`] resolves it to the real host.
fn sni_url(tls: &Tls, url: &Url) -> Url {
    tls.server_name
        .as_deref()
        .and_then(|name| with_host(url, name))
        .unwrap_or_else(|| url.clone())
}

fn with_host(url: &Url, host: &str) -> Option<Url> {
    let mut url = url.clone();
    url.set_host(Some(host)).ok()?;
    Some(url)
}

fn authority(url: &Url) -> String {
    let host = url.host_str().unwrap_or_default();
    url.port()
        .map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"))
}

/// Whether TLS failed. With TLS 1.3 a refused client certificate shows only when the answer is
/// read, after the connection was established.
fn is_tls(error: &reqwest::Error) -> bool {
    let mut source = error.source();
    while let Some(cause) = source {
        let wrapped = cause
            .downcast_ref::<std::io::Error>()
            .and_then(|error| error.get_ref()?.downcast_ref::<rustls::Error>());
        if wrapped.is_some() || cause.is::<rustls::Error>() {
            return true;
        }
        source = cause.source();
    }
    false
}

/// The error and its sources without the URL, which our own error already names.
fn reason(error: reqwest::Error) -> String {
    let timed_out = error.is_timeout();
    let error = error.without_url();
    let mut texts = vec![error.to_string()];
    let mut source = error.source();
    while let Some(cause) = source {
        let text = cause.to_string();
        // Wrappers often repeat the text of their source.
        if !texts.iter().any(|before| before.contains(&text)) {
            texts.push(text);
        }
        source = cause.source();
    }
    if timed_out && !texts.iter().any(|text| text.contains("timed out")) {
        texts.push("timed out".to_owned());
    }
    texts.join(": ")
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn settings(address: &str) -> Settings {
        rustls::crypto::aws_lc_rs::default_provider()
            .install_default()
            .ok();
        Settings::new(address)
    }

    #[rstest]
    #[case::no_scheme("vault:8200")]
    #[case::another_scheme("ftp://vault")]
    #[case::nothing("")]
    #[case::with_a_user("https://user@vault:8200")]
    #[case::with_a_query("https://vault:8200/?x=1")]
    fn an_invalid_address_is_refused(#[case] address: &str) {
        let error = Transport::new(settings(address), &[])
            .unwrap_err()
            .to_string();
        assert!(error.contains("must look like"), "{error}");
    }

    #[test]
    fn the_server_name_must_be_a_dns_name() {
        let mut settings = settings("https://vault:8200");
        settings.tls.server_name = Some("10.0.0.1".to_owned());
        let error = Transport::new(settings, &[]).unwrap_err().to_string();
        assert!(error.contains("no DNS name"), "{error}");
    }

    #[test]
    fn half_a_client_certificate_is_refused() {
        let mut settings = settings("https://vault:8200");
        settings.tls.client_cert_pem = Some("x".to_owned().into());
        let error = Transport::new(settings, &[]).unwrap_err().to_string();
        assert!(error.contains("needs its key"), "{error}");
    }

    #[test]
    fn a_ca_that_is_no_certificate_is_refused() {
        let mut settings = settings("https://vault:8200");
        settings.tls.ca_pem = Some("hello".to_owned());
        let error = Transport::new(settings, &[]).unwrap_err().to_string();
        assert!(error.contains("no PEM certificate"), "{error}");
    }

    #[test]
    fn the_server_name_replaces_only_the_host() {
        let tls = Tls {
            server_name: Some("vault.internal".to_owned()),
            ..Tls::default()
        };
        let url = Url::parse("https://10.1.2.3:8200/v1/sys/health").unwrap();
        assert_eq!(
            sni_url(&tls, &url).as_str(),
            "https://vault.internal:8200/v1/sys/health"
        );
        assert_eq!(authority(&url), "10.1.2.3:8200");
    }
}
