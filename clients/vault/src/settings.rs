//! What a connection consists of.

use std::time::Duration;

use kernel::Redacted;

use crate::Login;

/// A secret text: a token, a JWT, a key.
pub type Secret = Redacted<String>;

/// How long a call may take, from connecting to the last byte of the answer.
pub const CALL_TIMEOUT: Duration = Duration::from_secs(10);

/// Everything that makes a connection what it is.
#[derive(Debug, Clone)]
pub struct Config {
    /// A hash of all below, with the contents of every secret behind it. A client that is given
    /// another one logs in anew; see [`Client::configure`](crate::Client::configure).
    pub fingerprint: String,
    /// Where Vault is and how to speak to it.
    pub settings: Settings,
    /// Who we are.
    pub login: Login,
    /// What to do with a token that is about to end.
    pub renewal: Renewal,
}

/// Where Vault is and how to speak to it.
#[derive(Debug, Clone)]
pub struct Settings {
    /// `http://` or `https://`, host, port, and a path if Vault is below one.
    pub address: String,
    /// The namespace calls are made in.
    pub vault_namespace: Option<String>,
    /// The namespace of the login and of the token; the one of calls unless said otherwise.
    pub auth_namespace: Option<String>,
    /// How TLS is done.
    pub tls: Tls,
    /// How much we ask of the server.
    pub limits: Limits,
    /// How long one call may take; [`CALL_TIMEOUT`] outside tests.
    pub timeout: Duration,
}

impl Settings {
    /// Everything but the address as it is by default.
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

/// How TLS is done. All of it is text in memory: no file is read.
#[derive(Debug, Clone, Default)]
pub struct Tls {
    /// Takes any certificate for Vault's. Whoever stands in between reads every token.
    pub skip_verify: bool,
    /// The only authorities trusted, as PEM; those of the system without it.
    pub ca_pem: Option<String>,
    /// The certificate we show, as PEM.
    pub client_cert_pem: Option<Secret>,
    /// Its key, as PEM.
    pub client_key_pem: Option<Secret>,
    /// The name asked for (SNI) and expected in the certificate, instead of the address's host.
    pub server_name: Option<String>,
}

/// How much we ask of the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Calls a second, in the long run; unset, from 100 up to 2,000 as Vault's answers allow.
    pub requests_per_second: Option<u32>,
    /// Calls that may follow one another at once after a quiet time.
    pub burst: u32,
    /// Calls under way at the same time.
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

/// What to do with a token that has a quarter of its life left, or less.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Renewal {
    /// Renew it; log in when that fails or gives less than a quarter of the first life.
    #[default]
    Renew,
    /// Log in.
    Reauth,
}
