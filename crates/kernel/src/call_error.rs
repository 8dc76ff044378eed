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
            may_have_happened: false,
            message: cap(&message.into(), MESSAGE_LIMIT),
            retry_after: None,
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

    /// The same, with the time after which the call may be made again.
    #[must_use]
    pub fn retry_after(self, after: Duration) -> Self {
        Self {
            retry_after: Some(after),
            ..self
        }
    }
}
