//! A failed call to AWS, Vault or another cluster.

use std::time::Duration;

use crate::progress::MESSAGE_LIMIT;
use crate::{Class, cap};

/// A failed call, for decisions. Clients classify errors; no other code reads messages.
///
/// # When not to use it
/// For a text that may contain a secret: pass it through [`redact`](crate::redact()) first.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct CallError {
    /// What the error means for the caller.
    pub class: Class,
    /// The service's error code, for finer distinctions than the class. Only the client of the service
    /// interprets it. None if the service did not answer or was not called.
    pub code: Option<String>,
    /// The call may have had its effect: the answer was lost. Only a read can decide.
    pub may_have_happened: bool,
    /// What happened on which resource, with the service's message.
    pub message: String,
    /// When the service, or our own limiter, allows the next call.
    pub retry_after: Option<Duration>,
}

impl CallError {
    /// An error of a call that certainly had no effect.
    pub fn new(class: Class, message: impl Into<String>) -> Self {
        Self {
            class,
            code: None,
            may_have_happened: false,
            message: cap(&message.into(), MESSAGE_LIMIT),
            retry_after: None,
        }
    }

    /// An error whose class decides whether the call may have had its effect: the service may have
    /// executed a write without an answer, or failed after it.
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

    /// An error after which only a read shows whether the call had its effect.
    #[must_use]
    pub fn with_unknown_effect(self) -> Self {
        Self {
            may_have_happened: true,
            ..self
        }
    }

    /// The same, with the service's error code.
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
