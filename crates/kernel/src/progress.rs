//! The outcome of a pass, and its reason.

use std::borrow::Cow;
use std::fmt;
use std::time::Duration;

use crate::cap;

/// The longest message we put into a condition or an event, in bytes.
///
/// The API server accepts 32 KiB; a message is repeated in status, event and log, so it stays short.
pub(crate) const MESSAGE_LIMIT: usize = 4096;

/// Why an object has its state: a CamelCase code for machines and a sentence for people.
///
/// The code names the state of the world (`VaultSealed`), not what we did (`ReconcileError`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reason {
    /// A CamelCase code, stable across releases.
    pub code: Cow<'static, str>,
    /// What happened to which resource, and what to do next. [`Reason::new`] limits it to 4096 bytes.
    pub message: String,
}

impl Reason {
    /// A reason whose message is cut, on a character boundary, to the limit of a condition.
    ///
    /// # When not to use it
    /// With an external text that may contain a secret: pass it through
    /// [`redact`](crate::redact()) first.
    pub fn new(code: impl Into<Cow<'static, str>>, message: impl Into<String>) -> Self {
        let message = message.into();
        let message = if message.len() > MESSAGE_LIMIT {
            cap(&message, MESSAGE_LIMIT)
        } else {
            message
        };
        Self {
            code: code.into(),
            message,
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.code, self.message)
    }
}

/// The outcome of a pass over one object without a failure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Progress {
    /// The live state is as desired.
    Done {
        /// Check again after this time, if the external service may change without an event.
        recheck: Option<Duration>,
    },
    /// This pass wrote a finalizer or an intent; the next pass, which acts on it, runs at once.
    Again,
    /// Something takes time. It is not an error.
    Waiting {
        /// What is waited for.
        reason: Reason,
        /// When to check again.
        after: Duration,
    },
    /// A person has to change something. The object is checked again at a slow pace.
    Blocked {
        /// What has to change.
        reason: Reason,
    },
}

impl Progress {
    /// Done, without a recheck: the next change or resync is soon enough.
    pub fn done() -> Self {
        Self::Done { recheck: None }
    }
}

/// Why a stage ended a pass early; the error of a stage's `Result`.
///
/// `?` passes it to the code that writes status, where [`Stop::progress`] separates outcomes (again,
/// waiting, blocked) from failures.
///
/// There is no general conversion from `E`: it would conflict with the conversion of every type to
/// itself. Each feature writes `impl From<Error> for Stop<Error>` next to its error, and decides
/// there which classes wait.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Stop<E> {
    /// This pass wrote a finalizer or an intent; run the next at once.
    Again,
    /// Something takes time.
    Waiting {
        /// What is waited for.
        reason: Reason,
        /// When to check again.
        after: Duration,
    },
    /// A person has to change something.
    Blocked {
        /// What has to change.
        reason: Reason,
    },
    /// An unexpected failure: it counts as an error and backs off.
    Failed(E),
}

impl<E> Stop<E> {
    /// Stops because something takes time.
    pub fn waiting(reason: Reason, after: Duration) -> Self {
        Self::Waiting { reason, after }
    }

    /// Stops until a person changes something.
    pub fn blocked(reason: Reason) -> Self {
        Self::Blocked { reason }
    }

    /// Stops because of an unexpected failure.
    pub fn failed(error: E) -> Self {
        Self::Failed(error)
    }

    /// The outcome of the pass; only a failure stays an error.
    pub fn progress(self) -> Result<Progress, E> {
        match self {
            Self::Again => Ok(Progress::Again),
            Self::Waiting { reason, after } => Ok(Progress::Waiting { reason, after }),
            Self::Blocked { reason } => Ok(Progress::Blocked { reason }),
            Self::Failed(error) => Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_prints_its_code_first() {
        let reason = Reason::new("VaultSealed", "unseal it");
        assert_eq!(reason.to_string(), "VaultSealed: unseal it");
    }

    #[test]
    fn a_long_message_is_cut_between_characters() {
        let reason = Reason::new("Invalid", "ä".repeat(3000));
        assert!(reason.message.len() <= MESSAGE_LIMIT);
        assert!(reason.message.len() > MESSAGE_LIMIT - 4);
        assert!(reason.message.ends_with('…'));
    }

    #[test]
    fn a_message_that_just_fits_stays_whole() {
        let text = "x".repeat(MESSAGE_LIMIT);
        assert_eq!(Reason::new("Invalid", text.clone()).message, text);
    }

    #[test]
    fn only_a_failure_becomes_an_error() {
        let reason = Reason::new("Creating", "takes minutes");
        let after = Duration::from_secs(3);
        assert_eq!(Stop::<()>::Again.progress(), Ok(Progress::Again));
        assert_eq!(
            Stop::<()>::waiting(reason.clone(), after).progress(),
            Ok(Progress::Waiting {
                reason: reason.clone(),
                after
            })
        );
        assert_eq!(
            Stop::<()>::blocked(reason.clone()).progress(),
            Ok(Progress::Blocked { reason })
        );
        assert_eq!(Stop::failed("lost").progress(), Err("lost"));
    }
}
