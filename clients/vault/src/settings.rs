//! Settings of a connection.

use std::time::Duration;

use kernel::Redacted;

use crate::Login;

/// A secret text: a token, a JWT, a key.
pub type Secret = Redacted<String>;

/// How long a call may take, from connecting to the last byte of the answer.
pub const CALL_TIMEOUT: Duration = Duration::from_secs(10);

/// The configuration of a connection.
#[derive(Debug, Clone)]
pub struct Config {
    /// A hash of all fields below and of the contents of every secret they refer to. A client with a
    /// new fingerprint logs in again; see [`Client::configure`](crate::Client::configure).
    pub fingerprint: String,
    /// Address and transport.
    pub settings: Settings,
    /// How to log in.
    pub login: Login,
    /// What to do with a token that expires soon.
    pub renewal: Renewal,
}

/// Address and transport of a connection.
#[derive(Debug, Clone)]
pub struct Settings {
    /// `http://` or `https://`, host, port, and a path if Vault is below one.
    pub address: String,
    /// The namespace calls are made in.
    pub vault_namespace: Option<String>,
    /// The namespace of the login and of the token; by default that of calls.
    pub auth_namespace: Option<String>,
    /// TLS settings.
    pub tls: Tls,
    /// Rate and concurrency of calls.
    pub limits: Limits,
    /// How long one call may take; [`CALL_TIMEOUT`] outside tests.
    pub timeout: Duration,
}

impl Settings {
    /// The default settings for this address.
    pub fn new(address: impl Into<String>) -> Self {
        Self {
            address: address.into(),
            vault_namespace: None,
            auth_namespace: None,
            tls: Tls::default(),
            limits: Limits::default(),
            timeout: CALL_TIMEOUT,
        }
    }

    /// The namespace of the login and of the token.
    pub(crate) fn login_namespace(&self) -> Option<&str> {
        self.auth_namespace
            .as_deref()
            .or(self.vault_namespace.as_deref())
    }
}

/// TLS settings. All values are in memory: no file is read.
#[derive(Debug, Clone, Default)]
pub struct Tls {
    /// Accepts any certificate. Every token can be intercepted.
    pub skip_verify: bool,
    /// The only authorities trusted, as PEM; those of the system without it.
    pub ca_pem: Option<String>,
    /// Our client certificate, as PEM.
    pub client_cert_pem: Option<Secret>,
    /// Its key, as PEM.
    pub client_key_pem: Option<Secret>,
    /// The name for SNI and for the check of the certificate, instead of the address's host.
    pub server_name: Option<String>,
}

/// Rate and concurrency of calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Calls per second; unset, from 100 up to 2,000 as Vault's answers allow.
    pub requests_per_second: Option<u32>,
    /// Calls that may be made at once after a pause.
    pub burst: u32,
    /// Concurrent calls.
    pub max_in_flight: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            requests_per_second: None,
            burst: 200,
            max_in_flight: 16,
        }
    }
}

/// What to do with a token that has at most a quarter of its TTL left.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Renewal {
    /// Renew it; log in if that fails or gives less than a quarter of the first TTL.
    #[default]
    Renew,
    /// Log in.
    Reauth,
}
