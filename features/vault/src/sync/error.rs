//! What can surprise a pass, and what it means to the object.

use std::time::Duration;

use api::vault::reasons;
use engine::{ApiError, Classified};
use kernel::{Class, Reason};

/// How often a sealed Vault is looked at.
const SEALED: Duration = Duration::from_secs(10);

/// Said by nobody: Vault wants to be asked later.
pub(super) const THROTTLED: &str = "Throttled";

pub(crate) type Stop = kernel::Stop<Error>;

#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error(transparent)]
    Api(#[from] ApiError),
    #[error(transparent)]
    Vault(#[from] vault_client::Error),
}

impl Classified for Error {
    fn class(&self) -> Class {
        match self {
            Self::Api(error) => error.class(),
            Self::Vault(error) => error.class(),
        }
    }
}

/// Whether a reason is the connection's and not the object's.
pub(crate) fn is_about_connection(reason: &str) -> bool {
    [
        reasons::CONNECTION_NOT_READY,
        reasons::VAULT_SEALED,
        reasons::VAULT_NOT_INITIALIZED,
    ]
    .contains(&reason)
}

/// Whether an error says that the connection is not what its object says: its own pass should look.
pub(crate) fn doubts_connection(error: &vault_client::Error) -> bool {
    use vault_client::Error as E;
    matches!(
        error,
        E::Unreachable { .. }
            | E::Sealed { .. }
            | E::Uninitialised { .. }
            | E::AuthFailed { .. }
            | E::Credentials { .. }
    )
}

impl From<Error> for Stop {
    fn from(error: Error) -> Self {
        let Error::Vault(error) = error else {
            return Self::Failed(error);
        };
        let said = error.to_string();
        if let Some(after) = error.retry_after() {
            return Self::waiting(Reason::new(THROTTLED, said), after);
        }
        match reason(&error) {
            Some(reasons::VALIDATION_FAILED) => {
                Self::blocked(Reason::new(reasons::VALIDATION_FAILED, said))
            }
            Some(reasons::CONNECTION_NOT_READY) => {
                Self::blocked(Reason::new(reasons::CONNECTION_NOT_READY, said))
            }
            Some(code @ (reasons::VAULT_SEALED | reasons::VAULT_NOT_INITIALIZED)) => {
                Self::waiting(Reason::new(code, said), SEALED)
            }
            Some(_) | None => Self::Failed(error.into()),
        }
    }
}

/// The reason a dependent gives; none where its status stays as it is.
pub(crate) fn reason(error: &vault_client::Error) -> Option<&'static str> {
    use vault_client::Error as E;
    Some(match error {
        E::Unreachable { .. } | E::AuthFailed { .. } | E::Credentials { .. } => {
            reasons::CONNECTION_NOT_READY
        }
        E::Sealed { .. } => reasons::VAULT_SEALED,
        E::Uninitialised { .. } => reasons::VAULT_NOT_INITIALIZED,
        E::Denied { .. } => reasons::VAULT_PERMISSION_DENIED,
        E::Invalid { .. } | E::Redirect { .. } | E::Settings { .. } => reasons::VALIDATION_FAILED,
        E::NoAnswer { .. }
        | E::NotFound { .. }
        | E::AlreadyExists { .. }
        | E::Stale { .. }
        | E::CheckAndSet { .. }
        | E::Failed { .. } => reasons::FAILED,
        E::Throttled { .. } | E::Deposed(_) | E::Ended { .. } => return None,
    })
}
