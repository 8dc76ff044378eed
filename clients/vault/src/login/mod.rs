//! The login methods, and where their secrets come from.

mod aws;
mod gcp;

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::{AuthMount, CALL_TIMEOUT, Error, Secret};

pub use aws::AwsKeys;
pub use gcp::GCE_METADATA;

/// Why a [`Source`] failed. The author of the source can downcast it.
#[derive(Clone)]
pub struct SourceError(Arc<dyn std::error::Error + Send + Sync>);

impl SourceError {
    /// Wraps the source's own error.
    pub fn new(error: impl std::error::Error + Send + Sync + 'static) -> Self {
        Self(Arc::new(error))
    }

    /// The source's own error, if it is an `E`.
    pub fn downcast_ref<E: std::error::Error + 'static>(&self) -> Option<&E> {
        self.0.downcast_ref()
    }
}

impl fmt::Debug for SourceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for SourceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl std::error::Error for SourceError {}

/// A source took longer than a call to Vault may take.
#[derive(Debug, thiserror::Error)]
#[error("the source did not answer within {} s; it is tried again", CALL_TIMEOUT.as_secs())]
struct TooSlow;

type Fetched<T> = Pin<Box<dyn Future<Output = Result<T, SourceError>> + Send>>;

/// Where the credentials for a login come from; called at every login.
pub struct Source<T>(Arc<dyn Fn() -> Fetched<T> + Send + Sync>);

impl<T> Source<T> {
    /// Calls `fetch` at every login.
    pub fn new<F>(fetch: impl Fn() -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Result<T, SourceError>> + Send + 'static,
    {
        Self(Arc::new(move || Box::pin(fetch())))
    }

    /// A source that always returns this value.
    ///
    /// # When not to use it
    /// For a value that expires, such as the JWT of a ServiceAccount: the next login needs a new one.
    pub fn given(value: T) -> Self
    where
        T: Clone + Send + Sync + 'static,
    {
        Self::new(move || std::future::ready(Ok(value.clone())))
    }

    pub(crate) async fn fetch(&self, login: &Login) -> Result<T, Error> {
        // All callers wait for this one fetch.
        let fetched = tokio::time::timeout(CALL_TIMEOUT, (self.0)()).await;
        fetched
            .unwrap_or_else(|_| Err(SourceError::new(TooSlow)))
            .map_err(|source| login.without(source))
    }
}

impl<T> Clone for Source<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T> fmt::Debug for Source<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Source")
    }
}

/// How to log in.
#[derive(Debug, Clone)]
pub enum Login {
    /// A token that somebody else created. We never revoke it.
    Token {
        /// The token.
        token: Source<Secret>,
    },
    /// A role's ID and a secret ID.
    AppRole {
        /// Where the method is mounted.
        mount: AuthMount,
        /// The role's ID.
        role_id: String,
        /// The secret ID.
        secret_id: Source<Secret>,
    },
    /// The token of a ServiceAccount, which Vault checks with the API server (TokenReview).
    Kubernetes {
        /// Where the method is mounted.
        mount: AuthMount,
        /// The role.
        role: String,
        /// The ServiceAccount's token.
        jwt: Source<Secret>,
    },
    /// A JWT whose signature Vault checks itself; also for mounts of type oidc.
    Jwt {
        /// Where the method is mounted.
        mount: AuthMount,
        /// The role.
        role: String,
        /// The JWT.
        jwt: Source<Secret>,
    },
    /// An IAM principal of AWS, proven by a signed request that Vault sends to STS.
    Aws {
        /// Where the method is mounted.
        mount: AuthMount,
        /// The role.
        role: String,
        /// The region of STS; the global endpoint without it.
        region: Option<String>,
        /// Another endpoint of STS.
        sts_endpoint: Option<String>,
        /// The value of `X-Vault-AWS-IAM-Server-ID`, where Vault expects one.
        server_id: Option<String>,
        /// The keys.
        keys: Source<AwsKeys>,
    },
    /// A service account of Google Cloud, proven by a JWT signed with its key.
    GcpIam {
        /// Where the method is mounted.
        mount: AuthMount,
        /// The role.
        role: String,
        /// The account's e-mail address; that of the key without it.
        service_account: Option<String>,
        /// The key, as the JSON file from Google.
        credentials: Source<Secret>,
    },
    /// A machine in Google Cloud, proven by the identity token from its metadata server.
    Gce {
        /// Where the method is mounted.
        mount: AuthMount,
        /// The role.
        role: String,
        /// Address of the metadata server; [`GCE_METADATA`] outside tests.
        metadata: String,
    },
}

/// The body of a login, and the secrets in it to redact.
pub(crate) struct Proof {
    pub(crate) body: Value,
    pub(crate) secrets: Vec<String>,
}

impl Login {
    /// The method's name in Vault.
    pub fn method(&self) -> &'static str {
        match self {
            Self::Token { .. } => "token",
            Self::AppRole { .. } => "approle",
            Self::Kubernetes { .. } => "kubernetes",
            Self::Jwt { .. } => "jwt",
            Self::Aws { .. } => "aws",
            Self::GcpIam { .. } | Self::Gce { .. } => "gcp",
        }
    }

    /// Where the method is mounted; `None` for a static token.
    pub fn mount(&self) -> Option<&AuthMount> {
        match self {
            Self::Token { .. } => None,
            Self::AppRole { mount, .. }
            | Self::Kubernetes { mount, .. }
            | Self::Jwt { mount, .. }
            | Self::Aws { mount, .. }
            | Self::GcpIam { mount, .. }
            | Self::Gce { mount, .. } => Some(mount),
        }
    }

    /// Its name in errors.
    pub(crate) fn name(&self) -> String {
        let role = match self {
            Self::Token { .. } => return "the static token".to_owned(),
            Self::AppRole { .. } => None,
            Self::Kubernetes { role, .. }
            | Self::Jwt { role, .. }
            | Self::Aws { role, .. }
            | Self::GcpIam { role, .. }
            | Self::Gce { role, .. } => Some(role),
        };
        let mount = self.mount().map_or("", AuthMount::as_str);
        match role {
            Some(role) => format!("{} login at auth/{mount} as role {role}", self.method()),
            None => format!("{} login at auth/{mount}", self.method()),
        }
    }

    /// The body of the login, built for each login; `None` for a static token, which needs none.
    pub(crate) async fn proof(&self, now: Timestamp) -> Result<Option<Proof>, Error> {
        let proof = match self {
            Self::Token { .. } => return Ok(None),
            Self::AppRole {
                role_id, secret_id, ..
            } => {
                let secret = secret_id.fetch(self).await?;
                let secret = secret.expose().trim().to_owned();
                Proof {
                    body: json!({ "role_id": role_id, "secret_id": secret }),
                    secrets: vec![secret],
                }
            }
            Self::Kubernetes { role, jwt, .. } | Self::Jwt { role, jwt, .. } => {
                by_jwt(role, &jwt.fetch(self).await?)
            }
            Self::Gce { role, metadata, .. } => {
                let identity = gcp::identity(metadata, role).await;
                by_jwt(role, &identity.map_err(|source| self.without(source))?)
            }
            Self::Aws {
                role,
                region,
                sts_endpoint,
                server_id,
                keys,
                ..
            } => {
                let question = aws::Question {
                    region: region.as_deref(),
                    endpoint: sts_endpoint.as_deref(),
                    server_id: server_id.as_deref(),
                };
                aws::proof(role, &question, &keys.fetch(self).await?, now)
                    .map_err(|wrong| self.unusable(wrong))?
            }
            Self::GcpIam {
                role,
                service_account,
                credentials,
                ..
            } => {
                let key = credentials.fetch(self).await?;
                let jwt = gcp::signed(role, service_account.as_deref(), &key, now)
                    .map_err(|wrong| self.unusable(wrong))?;
                by_jwt(role, &jwt)
            }
        };
        Ok(Some(proof))
    }

    /// The error for missing credentials.
    fn without(&self, source: SourceError) -> Error {
        Error::Credentials {
            login: self.name(),
            source,
        }
    }

    /// The error for unusable credentials.
    fn unusable(&self, message: String) -> Error {
        Error::AuthFailed {
            login: self.name(),
            message,
        }
    }
}

fn by_jwt(role: &str, jwt: &Secret) -> Proof {
    let jwt = jwt.expose().trim().to_owned();
    Proof {
        body: json!({ "role": role, "jwt": jwt }),
        secrets: vec![jwt],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("Secret team-a/vault has no key token")]
    struct NoKey;

    fn kubernetes(jwt: Source<Secret>) -> Login {
        Login::Kubernetes {
            mount: AuthMount::new("auth/k8s/"),
            role: "app".to_owned(),
            jwt,
        }
    }

    #[tokio::test]
    async fn a_failed_source_is_reported_with_its_own_error() {
        let login = kubernetes(Source::new(|| async { Err(SourceError::new(NoKey)) }));
        let error = login.proof(Timestamp::UNIX_EPOCH).await.err().unwrap();
        assert_eq!(
            error.to_string(),
            "kubernetes login at auth/k8s as role app: no credentials: \
             Secret team-a/vault has no key token"
        );
        let Error::Credentials { source, .. } = error else {
            panic!("{error:?}")
        };
        assert!(source.downcast_ref::<NoKey>().is_some());
    }

    #[tokio::test]
    async fn the_sent_credentials_are_redacted() {
        let login = kubernetes(Source::given(Secret::from("a.b.c\n".to_owned())));
        let proof = login.proof(Timestamp::UNIX_EPOCH).await.unwrap().unwrap();
        assert_eq!(proof.body, json!({ "role": "app", "jwt": "a.b.c" }));
        assert_eq!(proof.secrets, ["a.b.c"]);
        assert!(!format!("{login:?}").contains("a.b.c"));
    }
}
