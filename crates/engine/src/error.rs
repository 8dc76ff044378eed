//! Errors of the Kubernetes API, classified where they enter.

use kernel::{Class, Deposed};
use kube::core::Status;

/// The cause of a refused apply: another field manager owns a field we would set.
const FIELD_OWNED: &str = "FieldManagerConflict";

/// The field that a write bound to another object's UID is refused for.
const UID_FIELD: &str = "metadata.uid";
/// The reason we give that refusal.
const OTHER_OBJECT: &str = "OtherObject";

/// An error that knows what it is to us. What a pass fails with implements it.
pub trait Classified: std::error::Error + Send + Sync + 'static {
    /// Its class; the only thing code decides by.
    fn class(&self) -> Class;
}

/// A call to the Kubernetes API that did not do what was asked.
#[derive(Debug, thiserror::Error)]
pub enum ApiError {
    /// The server answered, and said no.
    #[error("{what}: the API server answered {code} {reason}: {message}")]
    Answer {
        /// Verb and object.
        what: String,
        /// HTTP status.
        code: u16,
        /// Machine-readable reason.
        reason: String,
        /// What the server says, with the causes it names.
        message: String,
    },
    /// There was no answer.
    #[error("{what}: the API server cannot be reached: {message}; the call is repeated")]
    Unreachable {
        /// Verb and object.
        what: String,
        /// What the connection says.
        message: String,
    },
    /// The answer could not be read.
    #[error("{what}: the API server's answer cannot be read: {message}")]
    Unreadable {
        /// Verb and object.
        what: String,
        /// What the parser says.
        message: String,
    },
    /// The object is another by now, or newer than what was read; nothing was written.
    #[error("{what}: it has changed since it was read; the pass runs again")]
    Stale {
        /// Verb and object.
        what: String,
    },
    /// The request makes no sense; nothing was sent.
    #[error("{what}: {message}; nothing was sent")]
    Refused {
        /// Verb and object.
        what: String,
        /// What is wrong with it.
        message: String,
    },
    /// Somebody else leads; nothing was sent.
    #[error("{what}: {source}")]
    Deposed {
        /// Verb and object.
        what: String,
        /// The guard's word.
        source: Deposed,
    },
}

impl ApiError {
    /// Gives `error` its class. `what` names verb and object, such as `patch ConfigMap a/b`.
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
        // Both a stale version and a field that others own answer 409 Conflict; only causes tell.
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

    /// Whether the object is not there.
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

/// An error with all its causes, outermost first, without repetition.
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
