//! What can go wrong, and what it means to us.

use std::time::Duration;

use kernel::{Class, Deposed};

use crate::login::SourceError;

/// Why Vault did not do what was asked. Texts are redacted before they get here.
///
/// It can be cloned: everyone who waited for a login gets its error.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Error {
    /// The name was not found, nothing listens there, or TLS failed. Nothing was asked.
    #[error("Vault at {address} cannot be reached: {reason}")]
    Unreachable {
        /// Vault's address.
        address: String,
        /// What the system says.
        reason: String,
    },
    /// The call was sent and no answer came: it may have had its effect. Look before repeating it.
    #[error("{call}: no answer from Vault at {address}: {reason}")]
    NoAnswer {
        /// Method and path.
        call: String,
        /// Vault's address.
        address: String,
        /// What the system says.
        reason: String,
    },
    /// Vault is sealed.
    #[error("Vault at {address} is sealed; unseal it, and what waits goes on by itself")]
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
    /// The token is good, but not for this.
    #[error("{call}: Vault refuses this{}; a policy of our token must allow it", told(.message))]
    Denied {
        /// Method and path.
        call: String,
        /// Vault's words.
        message: String,
    },
    /// Who we say we are is not accepted.
    #[error("{login} was refused: {message}; check the role, its bindings and the credentials")]
    AuthFailed {
        /// Which login, or the static token.
        login: String,
        /// Vault's words.
        message: String,
    },
    /// What we would log in with could not be had; the source's own error is inside.
    #[error("{login}: no credentials: {source}")]
    Credentials {
        /// Which login.
        login: String,
        /// Whatever the [`Source`](crate::Source) said, to be downcast by who made it.
        source: SourceError,
    },
    /// There is nothing at this path.
    #[error("{call}: not found{}", told(.message))]
    NotFound {
        /// Method and path.
        call: String,
        /// Vault's words; empty when the thing, and not its mount, is missing.
        message: String,
    },
    /// Something is mounted at this path already. Find out whose it is before going on.
    #[error("{call}: the path is taken{}", told(.message))]
    AlreadyExists {
        /// Method and path.
        call: String,
        /// Vault's words.
        message: String,
    },
    /// A server that is behind was asked. Try again.
    #[error("{call}: this Vault server is behind the others{}; it is tried again", told(.message))]
    Stale {
        /// Method and path.
        call: String,
        /// Vault's words.
        message: String,
    },
    /// Too many calls.
    #[error("{call}: Vault is asked too often; we go on more slowly")]
    Throttled {
        /// Method and path.
        call: String,
        /// When to ask again, if Vault said so.
        retry_after: Option<Duration>,
    },
    /// The secret has another version than the write expected. Nothing was written.
    #[error("{call}: another version was written meanwhile{}", told(.message))]
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
    /// Vault failed in a way that passes.
    #[error("{call}: Vault answered {status}: {message}")]
    Failed {
        /// Method and path.
        call: String,
        /// The HTTP status.
        status: u16,
        /// Vault's words.
        message: String,
    },
    /// Vault sent us elsewhere in a way we do not follow.
    #[error("{call}: {reason}; give the address that answers itself")]
    Redirect {
        /// Method and path.
        call: String,
        /// What was wrong with it.
        reason: String,
    },
    /// The connection cannot be made as it is described.
    #[error("the connection to {address} is not usable: {wrong}")]
    Settings {
        /// Vault's address as given.
        address: String,
        /// What is wrong, and what would be right.
        wrong: String,
    },
    /// We may not write any more.
    #[error(transparent)]
    Deposed(#[from] Deposed),
    /// The client was ended.
    #[error("the connection to {address} was ended; nothing more is asked over it")]
    Ended {
        /// Vault's address.
        address: String,
    },
}

fn told(message: &str) -> String {
    if message.is_empty() {
        return String::new();
    }
    format!(": {message}")
}

impl Error {
    /// What it means to the caller.
    pub fn class(&self) -> Class {
        match self {
            Self::Unreachable { .. } => Class::Unreachable,
            // An effect is possible; the contract counts resets and time-outs as passing.
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

    /// When Vault wants to be asked again, if it said so.
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Throttled { retry_after, .. } => *retry_after,
            _ => None,
        }
    }

    /// Whether a write may have had its effect all the same: read before repeating it.
    pub fn may_have_happened(&self) -> bool {
        match self {
            // A server error, or an answer that cannot be read, does not tell how far Vault came.
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

    /// Why nobody answered, if that is what it is: the next caller would wait in vain, too.
    pub(crate) fn silence(&self) -> Option<&str> {
        match self {
            Self::Unreachable { reason, .. } | Self::NoAnswer { reason, .. } => Some(reason),
            _ => None,
        }
    }
}

/// A namespace was asked for on a server that has none: it would ignore the name and use the root.
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

    // What an answered call means is tested where statuses are read.
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
