//! The credentials of one account: concurrent callers share one fetch; renewed before they expire.

use std::error::Error as StdError;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use aws_credential_types::Credentials;
use aws_credential_types::provider::error::CredentialsError;
use aws_credential_types::provider::{ProvideCredentials, SharedCredentialsProvider, future};
use aws_sdk_sts::operation::assume_role::AssumeRoleError;
use aws_sdk_sts::operation::assume_role_with_web_identity::AssumeRoleWithWebIdentityError;
use aws_smithy_runtime_api::client::orchestrator::HttpResponse;
use aws_smithy_runtime_api::client::result::SdkError;
use jiff::Timestamp;
use kernel::SharedClock;
use parking_lot::RwLock;
use tokio::sync::Mutex;

use crate::account::{Principal, View};
use crate::call::{Call, causes, chain};
use crate::{Account, Caller, Error, Keys, Operation, Priority, Role, Secret};

/// Credentials are renewed this long before they expire.
const EARLY: Duration = Duration::from_mins(5);
/// A failed renewal is tried again after this long, while the old credentials are still valid.
const AGAIN: Duration = Duration::from_mins(1);

/// Keys that were just fetched.
#[derive(Debug)]
pub(crate) struct Fetched {
    pub(crate) keys: Keys,
    /// When they expire; never, if `None`.
    pub(crate) expires: Option<Timestamp>,
}

pub(crate) type Fetching<'a> = Pin<Box<dyn Future<Output = Result<Fetched, Error>> + Send + 'a>>;

/// Where credentials come from.
pub(crate) trait KeySource: Send + Sync {
    /// Fetches keys; calls to AWS are those of `view`.
    fn fetch<'a>(&'a self, view: &'a Arc<View>) -> Fetching<'a>;
}

/// The keys in use, and the lock for fetching new ones.
pub(crate) struct Keyring {
    source: Box<dyn KeySource>,
    clock: SharedClock,
    current: RwLock<Option<CurrentKeys>>,
    /// The error of the last attempt. Only the owner of the lock may fetch.
    failed: Mutex<Option<Error>>,
    /// Finished attempts, successful or not.
    attempts: AtomicU64,
}

#[derive(Clone)]
struct CurrentKeys {
    keys: Keys,
    expires: Option<Timestamp>,
    renew_at: Option<Timestamp>,
    /// AWS does not accept them.
    refused: bool,
}

impl CurrentKeys {
    fn new(fetched: Fetched, now: Timestamp) -> Self {
        let Fetched { keys, expires } = fetched;
        Self {
            keys,
            expires,
            renew_at: expires.map(|end| renewal(now, end)),
            refused: false,
        }
    }

    /// Whether they are valid and need no renewal yet.
    fn is_fresh(&self, now: Timestamp) -> bool {
        !self.refused && self.renew_at.is_none_or(|at| now < at)
    }

    /// Whether they are valid.
    fn is_good(&self, now: Timestamp) -> bool {
        !self.refused && self.expires.is_none_or(|end| now < end)
    }
}

/// Five minutes before the expiry; half of the remaining time if that is sooner.
fn renewal(now: Timestamp, end: Timestamp) -> Timestamp {
    let early = end.saturating_sub(EARLY).unwrap_or(Timestamp::MIN);
    if early > now {
        return early;
    }
    let left = Duration::try_from(end.duration_since(now)).unwrap_or_default();
    now.saturating_add(left / 2).unwrap_or(Timestamp::MAX)
}

impl Keyring {
    pub(crate) fn new(source: Box<dyn KeySource>, clock: SharedClock) -> Self {
        Self {
            source,
            clock,
            current: RwLock::default(),
            failed: Mutex::default(),
            attempts: AtomicU64::new(0),
        }
    }

    fn attempts(&self) -> u64 {
        self.attempts.load(Ordering::Acquire)
    }

    /// Valid keys, fetched for `view` if necessary. Concurrent callers share one fetch and its error.
    pub(crate) async fn fresh(&self, view: &Arc<View>) -> Result<Keys, Error> {
        let since = self.attempts();
        if let Some(keys) = self.keys(CurrentKeys::is_fresh) {
            return Ok(keys);
        }
        let mut failed = self.failed.lock().await;
        if let Some(keys) = self.keys(CurrentKeys::is_fresh) {
            return Ok(keys);
        }
        if self.attempts() > since
            && let Some(error) = &*failed
        {
            return self.old_keys(error.clone());
        }
        match self.fetch(view, &mut failed).await {
            Ok(keys) => Ok(keys),
            Err(error) => self.old_keys(error),
        }
    }

    /// Keys that are fetched for this call, whatever keys there are; calls to AWS use them from now
    /// on. Concurrent callers share one fetch and its error. Old keys never replace an error.
    pub(crate) async fn anew(&self, view: &Arc<View>) -> Result<Keys, Error> {
        let since = self.attempts();
        let mut failed = self.failed.lock().await;
        if self.attempts() > since {
            if let Some(error) = &*failed {
                return Err(error.clone());
            }
            if let Some(keys) = self.keys(CurrentKeys::is_fresh) {
                return Ok(keys);
            }
        }
        self.fetch(view, &mut failed).await
    }

    /// Only for the owner of the lock.
    async fn fetch(&self, view: &Arc<View>, failed: &mut Option<Error>) -> Result<Keys, Error> {
        let outcome = self.source.fetch(view).await;
        self.attempts.fetch_add(1, Ordering::Release);
        match outcome {
            Ok(fetched) => {
                let current = CurrentKeys::new(fetched, self.clock.now());
                let keys = current.keys.clone();
                *self.current.write() = Some(current);
                *failed = None;
                Ok(keys)
            }
            Err(error) => {
                *failed = Some(error.clone());
                Err(error)
            }
        }
    }

    /// The old keys, for some more time, if they are still valid when a renewal failed.
    fn old_keys(&self, error: Error) -> Result<Keys, Error> {
        let Some(keys) = self.keys(CurrentKeys::is_good) else {
            return Err(error);
        };
        tracing::warn!(%error, "cannot renew AWS credentials; still using the old ones");
        self.postpone();
        Ok(keys)
    }

    /// AWS does not accept these keys; the next call fetches others.
    pub(crate) fn refuse(&self, keys: &Keys) {
        let mut current = self.current.write();
        if let Some(current) = current.as_mut().filter(|current| current.keys == *keys) {
            current.refused = true;
        }
    }

    /// Whether there are valid keys.
    pub(crate) fn is_live(&self) -> bool {
        self.keys(CurrentKeys::is_good).is_some()
    }

    fn keys(&self, so: impl Fn(&CurrentKeys, Timestamp) -> bool) -> Option<Keys> {
        let now = self.clock.now();
        let current = self.current.read();
        current
            .as_ref()
            .filter(|current| so(current, now))
            .map(|current| current.keys.clone())
    }

    fn postpone(&self) {
        let later = self.clock.now().saturating_add(AGAIN);
        if let Some(current) = self.current.write().as_mut() {
            current.renew_at = Some(later.unwrap_or(Timestamp::MAX));
        }
    }
}

impl fmt::Debug for Keyring {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let current = self.current.read();
        f.debug_struct("Keyring")
            .field("keys", &current.as_ref().map(|current| &current.keys))
            .finish_non_exhaustive()
    }
}

/// The SDK signs with the current keys; a call makes sure beforehand that there are some.
impl ProvideCredentials for Keyring {
    fn provide_credentials<'a>(&'a self) -> future::ProvideCredentials<'a>
    where
        Self: 'a,
    {
        let current = self.current.read();
        let keys = current
            .as_ref()
            .map(|current| sdk_credentials(&current.keys));
        let keys = keys.ok_or_else(CredentialsError::not_loaded_no_source);
        future::ProvideCredentials::ready(keys)
    }
}

/// Keys in the SDK's form, without their expiry: the keyring decides when to renew.
pub(crate) fn sdk_credentials(keys: &Keys) -> Credentials {
    let token = keys.session_token.as_ref();
    Credentials::new(
        &keys.access_key_id,
        keys.secret_access_key.expose(),
        token.map(|token| token.expose().clone()),
        None,
        "pontoon",
    )
}

/// Our own credentials, from AWS's default chain or from the settings.
pub(crate) struct Chain {
    pub(crate) provider: SharedCredentialsProvider,
    /// How long all its sources together may take.
    pub(crate) timeout: Duration,
}

impl KeySource for Chain {
    fn fetch<'a>(&'a self, _: &'a Arc<View>) -> Fetching<'a> {
        Box::pin(async move {
            let provided = tokio::time::timeout(self.timeout, self.provider.provide_credentials());
            match provided.await {
                Ok(Ok(credentials)) => Ok(fetched(&credentials)),
                Ok(Err(error)) => Err(chain_error(&error)),
                Err(_) => Err(Error::Credentials {
                    reason: format!("no source returned any within {} s", self.timeout.as_secs()),
                    passing: true,
                }),
            }
        })
    }
}

fn fetched(credentials: &Credentials) -> Fetched {
    let expires = credentials.expiry();
    Fetched {
        keys: Keys {
            access_key_id: credentials.access_key_id().to_owned(),
            secret_access_key: Secret::new(credentials.secret_access_key().to_owned()),
            session_token: credentials
                .session_token()
                .map(|token| Secret::new(token.to_owned())),
        },
        expires: expires.and_then(|end| Timestamp::try_from(end).ok()),
    }
}

/// STS's error if the chain called STS; otherwise the messages of the sources.
fn chain_error(error: &CredentialsError) -> Error {
    for source in causes(error) {
        if let Some(refused) =
            source.downcast_ref::<SdkError<AssumeRoleWithWebIdentityError, HttpResponse>>()
        {
            return Call::new(Operation::AssumeRoleWithWebIdentity, "").failed(refused, None);
        }
        if let Some(refused) = source.downcast_ref::<SdkError<AssumeRoleError, HttpResponse>>() {
            return Call::new(Operation::AssumeRole, "").failed(refused, None);
        }
    }
    let passing = match error {
        CredentialsError::CredentialsNotLoaded(_) | CredentialsError::InvalidConfiguration(_) => {
            false
        }
        // A missing file stays missing until a person creates it: not transient.
        _ => error
            .source()
            .is_none_or(|source| !source.is::<std::io::Error>()),
    };
    Error::Credentials {
        reason: chain(error),
        passing,
    }
}

/// A role's credentials, from STS with our own.
pub(crate) struct Assumed {
    pub(crate) own: Arc<Principal>,
    pub(crate) role: Arc<Role>,
}

impl KeySource for Assumed {
    fn fetch<'a>(&'a self, view: &'a Arc<View>) -> Fetching<'a> {
        // All callers of the role wait for this, whatever their own priority.
        let caller = Caller::new(Priority::Delete, "");
        let own = Account::new(Arc::clone(&self.own), Arc::clone(view));
        Box::pin(async move {
            let session = own.sts(&caller).assume_role(&self.role).await?;
            Ok(Fetched {
                keys: session.keys,
                expires: Some(session.expires),
            })
        })
    }
}

#[cfg(test)]
mod tests;
