//! Errors of calls, and their classification.

use std::time::Duration;

use kernel::{Class, Deposed};

use crate::login::SourceError;

/// Why a call failed. Messages are redacted before they get here.
///
/// It can be cloned: all callers that wait for a login get its error.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Error {
    /// The name was not found, nothing listens there, or TLS failed. Nothing was sent.
    #[error("Vault at {address} cannot be reached: {reason}")]
    Unreachable {
        /// Vault's address.
        address: String,
        /// The error of the operating system or of TLS.
        reason: String,
    },
    /// The call was sent and no answer came: it may have had its effect. Read before repeating it.
    #[error("{call}: no answer from Vault at {address}: {reason}")]
    NoAnswer {
        /// Method and path.
        call: String,
        /// Vault's address.
        address: String,
        /// The error of the operating system, or the time-out.
        reason: String,
    },
    /// Vault is sealed.
    #[error("Vault at {address} is sealed; unseal it, and waiting objects continue by themselves")]
    Sealed {
        /// Vault's address.
        address: String,
    },
    /// Vault was never initialised.
    #[error("Vault at {address} is not initialised; run `vault operator init`, then unseal it")]
    Uninitialised {
        /// Vault's address.
        address: String,
    },
    /// The token is valid, but its policies do not allow this.
    #[error("{call}: Vault refuses this{}; a policy of our token must allow it", detail(.message))]
    Denied {
        /// Method and path.
        call: String,
        /// Vault's words.
        message: String,
    },
    /// Vault does not accept the login.
    #[error("{login} was refused: {message}; check the role, its bindings and the credentials")]
    AuthFailed {
        /// Which login, or the static token.
        login: String,
        /// Vault's words.
        message: String,
    },
    /// The credentials for the login could not be fetched; the source's own error is inside.
    #[error("{login}: no credentials: {source}")]
    Credentials {
        /// Which login.
        login: String,
        /// The error of the [`Source`](crate::Source); its author can downcast it.
        source: SourceError,
    },
    /// There is nothing at this path.
    #[error("{call}: not found{}", detail(.message))]
    NotFound {
        /// Method and path.
        call: String,
        /// Vault's message; empty if the object, and not its mount, is missing.
        message: String,
    },
    /// Something is mounted at this path already. Check its owner before going on.
    #[error("{call}: the path is taken{}", detail(.message))]
    AlreadyExists {
        /// Method and path.
        call: String,
        /// Vault's words.
        message: String,
    },
    /// The server is behind the others. Try again.
    #[error("{call}: this Vault server is behind the others{}; it is tried again", detail(.message))]
    Stale {
        /// Method and path.
        call: String,
        /// Vault's words.
        message: String,
    },
    /// Too many calls.
    #[error("{call}: Vault limits the rate of calls; calls are now made at a lower rate")]
    Throttled {
        /// Method and path.
        call: String,
        /// When to retry, if Vault sent that.
        retry_after: Option<Duration>,
    },
    /// The secret has another version than the write expected. Nothing was written.
    #[error("{call}: another version was written meanwhile{}", detail(.message))]
    CheckAndSet {
        /// Method and path.
        call: String,
        /// Vault's words.
        message: String,
    },
    /// The request is wrong.
    #[error("{call}: Vault refuses this: {message}")]
    Invalid {
        /// Method and path.
        call: String,
        /// Vault's words.
        message: String,
    },
    /// Vault failed with a transient error.
    #[error("{call}: Vault answered {status}: {message}")]
    Failed {
        /// Method and path.
        call: String,
        /// The HTTP status.
        status: u16,
        /// Vault's words.
        message: String,
    },
    /// Vault sent a redirect that we do not follow.
    #[error("{call}: {reason}; give the address that answers itself")]
    Redirect {
        /// Method and path.
        call: String,
        /// Why it is not followed.
        reason: String,
    },
    /// The settings of the connection are not valid.
    #[error("the connection to {address} is not usable: {wrong}")]
    Settings {
        /// Vault's address as given.
        address: String,
        /// What is wrong, and how to correct it.
        wrong: String,
    },
    /// We are no longer the leader and may not write.
    #[error(transparent)]
    Deposed(#[from] Deposed),
    /// The client was ended.
    #[error("the connection to {address} was ended; it makes no more calls")]
    Ended {
        /// Vault's address.
        address: String,
    },
}

fn detail(message: &str) -> String {
    if message.is_empty() {
        return String::new();
    }
    format!(": {message}")
}

impl Error {
    /// Its class.
    pub fn class(&self) -> Class {
        match self {
            Self::Unreachable { .. } => Class::Unreachable,
            // An effect is possible; the contract counts resets and time-outs as transient.
            Self::NoAnswer { .. } | Self::Failed { .. } => Class::Transient,
            Self::Sealed { .. } | Self::Uninitialised { .. } => Class::Sealed,
            Self::Denied { .. } | Self::AuthFailed { .. } | Self::Credentials { .. } => {
                Class::Denied
            }
            Self::NotFound { .. } => Class::NotFound,
            Self::AlreadyExists { .. } => Class::AlreadyExists,
            Self::Stale { .. } => Class::Stale,
            Self::Throttled { .. } => Class::Throttled,
            Self::CheckAndSet { .. } => Class::Conflict,
            Self::Invalid { .. } | Self::Redirect { .. } | Self::Settings { .. } => Class::Invalid,
            Self::Deposed(_) | Self::Ended { .. } => Class::Deposed,
        }
    }

    /// When to retry, if Vault sent that.
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Throttled { retry_after, .. } => *retry_after,
            _ => None,
        }
    }

    /// Whether a write may have had its effect although it failed: read before repeating it.
    pub fn may_have_happened(&self) -> bool {
        match self {
            // A server error, or an unreadable answer, does not show how far the write got.
            Self::NoAnswer { .. } | Self::Failed { .. } => true,
            Self::Unreachable { .. }
            | Self::Sealed { .. }
            | Self::Uninitialised { .. }
            | Self::Denied { .. }
            | Self::AuthFailed { .. }
            | Self::Credentials { .. }
            | Self::NotFound { .. }
            | Self::AlreadyExists { .. }
            | Self::Stale { .. }
            | Self::Throttled { .. }
            | Self::CheckAndSet { .. }
            | Self::Invalid { .. }
            | Self::Redirect { .. }
            | Self::Settings { .. }
            | Self::Deposed(_)
            | Self::Ended { .. } => false,
        }
    }

    /// Why no answer came, if none did: the next call would get none either.
    pub(crate) fn silence(&self) -> Option<&str> {
        match self {
            Self::Unreachable { reason, .. } | Self::NoAnswer { reason, .. } => Some(reason),
            _ => None,
        }
    }
}

/// The server has no namespaces: it would ignore the requested one and use the root.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "Vault {version} has no namespaces and would use the root instead of {namespace:?}; \
     remove the namespace, or use a server that has them"
)]
pub struct NoNamespaces {
    pub(crate) version: String,
    pub(crate) namespace: String,
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn text() -> String {
        "x".to_owned()
    }

    // The classification of answers is tested in `call`.
    #[rstest]
    #[case::sent_and_not_answered(Error::NoAnswer { call: text(), address: text(), reason: text() }, true)]
    #[case::not_connected(Error::Unreachable { address: text(), reason: text() }, false)]
    #[case::redirected(Error::Redirect { call: text(), reason: text() }, false)]
    #[case::not_logged_in(Error::AuthFailed { login: text(), message: text() }, false)]
    #[case::lease_lost(Error::from(Deposed), false)]
    #[case::ended(Error::Ended { address: text() }, false)]
    fn only_what_was_sent_may_have_happened(#[case] error: Error, #[case] may: bool) {
        assert_eq!(error.may_have_happened(), may, "{error}");
    }
}
