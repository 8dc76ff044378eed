//! A kubeconfig that may be used, and what follows from it.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::Uri;
use kernel::Redacted;
use kube::Config;
use kube::config::AuthInfo;
use sha2::{Digest, Sha256};

/// A kubeconfig that [`vet`](crate::vet) accepted. Debug prints no secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VettedKubeconfig {
    server: Uri,
    authorities: Redacted<Vec<Vec<u8>>>,
    tls_server_name: Option<String>,
    namespace: Option<String>,
    login: Login,
}

/// With what a connection logs in. It is apart from the address, so that it can be changed under open
/// watches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Login {
    /// A bearer token.
    Token(Redacted<String>),
    /// A client certificate, both parts as PEM. The key belongs to the first certificate.
    Certificate {
        /// The certificate and those between it and its authority.
        chain: Redacted<Vec<u8>>,
        /// Its private key.
        key: Redacted<Vec<u8>>,
    },
}

impl Login {
    /// The same for a [`kube::Config`]. It names no file and no program.
    pub fn auth_info(&self) -> AuthInfo {
        let mut auth = AuthInfo::default();
        match self {
            Self::Token(token) => auth.token = Some(token.expose().clone().into()),
            Self::Certificate { chain, key } => {
                auth.client_certificate_data = Some(STANDARD.encode(chain.expose()));
                auth.client_key_data = Some(STANDARD.encode(key.expose()).into());
            }
        }
        auth
    }
}

impl VettedKubeconfig {
    pub(crate) fn new(
        server: Uri,
        authorities: Vec<Vec<u8>>,
        tls_server_name: Option<String>,
        namespace: Option<String>,
        login: Login,
    ) -> Self {
        Self {
            server,
            authorities: Redacted::new(authorities),
            tls_server_name,
            namespace,
            login,
        }
    }

    /// The address of the API server, in lower case and without the default port.
    pub fn server(&self) -> &Uri {
        &self.server
    }

    /// The namespace of the current context.
    pub fn namespace(&self) -> Option<&str> {
        self.namespace.as_deref()
    }

    /// With what a connection logs in.
    pub fn login(&self) -> &Login {
        &self.login
    }

    /// What connections that can be shared have in common.
    pub fn connection_key(&self) -> ConnectionKey {
        ConnectionKey {
            server: self.server.to_string(),
            trust: self.trust(),
            namespace: self.namespace.clone(),
        }
    }

    /// Whether `other` leads to the same server: address, authorities and the name that the server's
    /// certificate must have are equal. Then a change of the [login](Self::login) is enough, and open
    /// watches stay.
    ///
    /// # When not to use it
    /// To decide whether it is the same cluster: only an [`IdentityPin`](crate::IdentityPin) shows that.
    pub fn same_server(&self, other: &Self) -> bool {
        self.server == other.server && self.trust() == other.trust()
    }

    /// The configuration of a client.
    ///
    /// It is put together from the fields of this value: no file is opened, and the variables of the
    /// environment for proxies, kubeconfigs and debugging do not apply, because `kube` reads them only
    /// where it loads a configuration itself.
    pub fn config(&self) -> Config {
        let mut config = Config::new(self.server.clone());
        if let Some(namespace) = &self.namespace {
            config.default_namespace.clone_from(namespace);
        }
        config.root_cert = Some(self.authorities.expose().clone());
        config.tls_server_name.clone_from(&self.tls_server_name);
        config.auth_info = self.login.auth_info();
        config
    }

    /// A digest of what makes the server trusted. The order of the authorities is of no meaning.
    fn trust(&self) -> [u8; 32] {
        let mut authorities: Vec<_> = self
            .authorities
            .expose()
            .iter()
            .map(Sha256::digest)
            .collect();
        authorities.sort_unstable();
        authorities.dedup();
        let name = self.tls_server_name.as_deref().unwrap_or_default();
        let mut digest = Sha256::new();
        digest.update(name.len().to_be_bytes());
        digest.update(name);
        for authority in authorities {
            digest.update(authority);
        }
        digest.finalize().into()
    }
}

/// What connections that can be shared have in common: the server's address, what makes the server
/// trusted, and the namespace.
///
/// The login is not part of it, so that a new one changes the connection instead of opening a second.
///
/// # When not to use it
/// Alone, if kubeconfigs come from users who must not use each other's logins: pool by this key
/// together with the user.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnectionKey {
    server: String,
    trust: [u8; 32],
    namespace: Option<String>,
}

impl fmt::Display for ConnectionKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let server = self.server.trim_end_matches('/');
        match &self.namespace {
            Some(namespace) => write!(f, "{server}, namespace {namespace}"),
            None => f.write_str(server),
        }
    }
}
