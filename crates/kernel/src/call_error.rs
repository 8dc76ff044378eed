//! A call to AWS, Vault or another cluster that failed.

use std::time::Duration;

use crate::progress::MESSAGE_LIMIT;
use crate::{Class, cap};

/// A failed call, as decisions see it. Clients classify; nothing above them reads messages.
///
/// # When not to use it
/// For a text that may hold a secret: pass it through [`redact`](crate::redact()) first.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct CallError {
    /// What the error means for the caller.
    pub class: Class,
    /// The code that the service gave, where the class is not fine enough. Only its client knows what it
    /// means. None: the service gave no answer, or was not asked.
    pub code: Option<String>,
    /// The call may have had its effect: the answer was lost. Only a read can decide.
    pub may_have_happened: bool,
    /// What happened, on what, in the words of the service.
    pub message: String,
    /// When the service, or our own limiter, allows the next call.
    pub retry_after: Option<Duration>,
}

impl CallError {
    /// An error that surely had no effect.
    pub fn new(class: Class, message: impl Into<String>) -> Self {
        Self {
            class,
            code: None,
            may_have_happened: false,
            message: cap(&message.into(), MESSAGE_LIMIT),
            retry_after: None,
        }
    }

    /// An error whose class tells whether the call may have had its effect: the service may have taken a
    /// write whose answer did not come, or failed after it.
    pub fn of_class(class: Class, message: impl Into<String>) -> Self {
        let error = Self::new(class, message);
        match class {
            Class::Unreachable | Class::Transient => error.with_unknown_effect(),
            Class::Throttled
            | Class::NotFound
            | Class::AlreadyExists
            | Class::Conflict
            | Class::Stale
            | Class::Denied
            | Class::Invalid
            | Class::LimitExceeded
            | Class::Sealed
            | Class::Deposed => error,
        }
    }

    /// An error after which only a read tells whether the call had its effect.
    #[must_use]
    pub fn with_unknown_effect(self) -> Self {
        Self {
            may_have_happened: true,
            ..self
        }
    }

    /// The same, with the code that the service gave.
    #[must_use]
    pub fn with_code(self, code: impl Into<String>) -> Self {
        Self {
            code: Some(code.into()),
            ..self
        }
    }

    /// The same, with the time after which the call may be made again.
    #[must_use]
    pub fn retry_after(self, after: Duration) -> Self {
        Self {
            retry_after: Some(after),
            ..self
        }
    }
}
