//! Errors of the Kubernetes API, classified where they enter.

use kernel::{Class, Deposed};
use kube::core::Status;

use crate::versioned::Unversioned;

/// The cause of a refused apply: another field manager owns a field that we set.
const FIELD_OWNED: &str = "FieldManagerConflict";

/// The field that the API server names when a write has the UID of another object.
const UID_FIELD: &str = "metadata.uid";
/// Our reason for that refusal.
const OTHER_OBJECT: &str = "OtherObject";

/// An error with a class. The error of a pass must implement it.
pub trait Classified: std::error::Error + Send + Sync + 'static {
    /// The class. Decisions depend on nothing else.
    fn class(&self) -> Class;
}

/// A failed call to the Kubernetes API.
#[derive(Debug, thiserror::Error)]
pub enum ApiError {
    /// The server refused the call.
    #[error("{what}: the API server answered {code} {reason}: {message}")]
    Answer {
        /// Verb and object.
        what: String,
        /// HTTP status.
        code: u16,
        /// Machine-readable reason.
        reason: String,
        /// The server's message, with its causes.
        message: String,
    },
    /// There was no response.
    #[error("{what}: the API server cannot be reached: {message}; the call is repeated")]
    Unreachable {
        /// Verb and object.
        what: String,
        /// The error of the connection.
        message: String,
    },
    /// The response cannot be parsed.
    #[error("{what}: the API server's answer cannot be read: {message}")]
    Unreadable {
        /// Verb and object.
        what: String,
        /// The parser's message.
        message: String,
    },
    /// The object was replaced or changed since it was read. Nothing was written.
    #[error("{what}: the object has changed since it was read; the pass runs again")]
    Stale {
        /// Verb and object.
        what: String,
    },
    /// The request is invalid. Nothing was sent.
    #[error("{what}: {message}; nothing was sent")]
    Refused {
        /// Verb and object.
        what: String,
        /// What is wrong with it.
        message: String,
    },
    /// This process does not lead. Nothing was sent.
    #[error("{what}: {source}")]
    Deposed {
        /// Verb and object.
        what: String,
        /// The guard's error.
        source: Deposed,
    },
}

impl ApiError {
    /// Classifies `error`. `what` names verb and object, such as `patch ConfigMap a/b`.
    pub fn classify(what: impl Into<String>, error: kube::Error) -> Self {
        let what = what.into();
        match error {
            kube::Error::Api(status) => Self::answer(what, &status),
            kube::Error::SerdeError(error) => Self::Unreadable {
                what,
                message: error.to_string(),
            },
            kube::Error::Service(error) => match error.downcast::<Deposed>() {
                Ok(source) => Self::Deposed {
                    what,
                    source: *source,
                },
                Err(error) if error.is::<Unversioned>() => Self::Refused {
                    what,
                    message: error.to_string(),
                },
                Err(error) => Self::Unreachable {
                    what,
                    message: chain(&*error),
                },
            },
            other => Self::Unreachable {
                what,
                message: chain(&other),
            },
        }
    }

    fn answer(what: String, status: &Status) -> Self {
        let causes = status.details.iter().flat_map(|details| &details.causes);
        let causes: Vec<_> = causes
            .map(|cause| format!("{}: {}", cause.field, cause.message))
            .filter(|cause| !status.message.contains(cause.as_str()))
            .collect();
        let mut message = status.message.clone();
        if !causes.is_empty() {
            message = format!("{message} ({})", causes.join("; "));
        }
        // A stale version and a field of another manager both give 409 Conflict. Only the causes differ.
        let mut causes = status.details.iter().flat_map(|details| &details.causes);
        let reason = if causes.clone().any(|cause| cause.reason == FIELD_OWNED) {
            FIELD_OWNED.to_owned()
        } else if causes.any(|cause| cause.field == UID_FIELD) {
            OTHER_OBJECT.to_owned()
        } else {
            status.reason.clone()
        };
        Self::Answer {
            what,
            code: status.code,
            reason,
            message,
        }
    }

    /// Whether the object does not exist.
    pub fn is_not_found(&self) -> bool {
        self.class() == Class::NotFound
    }
}

impl Classified for ApiError {
    fn class(&self) -> Class {
        match self {
            Self::Unreachable { .. } => Class::Unreachable,
            Self::Unreadable { .. } => Class::Transient,
            Self::Deposed { .. } => Class::Deposed,
            Self::Stale { .. } => Class::Stale,
            Self::Refused { .. } => Class::Invalid,
            Self::Answer { code, reason, .. } => match (code, reason.as_str()) {
                (404, _) => Class::NotFound,
                (409, "AlreadyExists") => Class::AlreadyExists,
                (409, FIELD_OWNED) => Class::Conflict,
                (409 | 410, _) | (_, OTHER_OBJECT) => Class::Stale,
                (401 | 403, _) => Class::Denied,
                (429, _) => Class::Throttled,
                (400..=499, _) => Class::Invalid,
                _ => Class::Transient,
            },
        }
    }
}

/// The messages of an error and all its causes, outermost first, without repetition.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text.push_str(": ");
            text.push_str(&cause_text);
        }
        source = cause.source();
    }
    text
}
