//! The exit of a command: it holds (0), it does not (1), or it could not be determined (2).

use std::fmt::Display;
use std::process::ExitCode;

/// The result of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It holds, or was made to hold.
    Holds,
    /// It does not hold; the reasons are printed already.
    DoesNot,
}

impl Verdict {
    pub(crate) fn of(holds: bool) -> Self {
        if holds { Self::Holds } else { Self::DoesNot }
    }
}

impl From<Verdict> for ExitCode {
    fn from(verdict: Verdict) -> Self {
        match verdict {
            Verdict::Holds => Self::SUCCESS,
            Verdict::DoesNot => Self::from(1),
        }
    }
}

/// Why a command has no result: wrong input, or something it needs is missing.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Error(String);

impl Error {
    pub(crate) fn new(message: impl Into<String>) -> Self {
        Self(message.into())
    }
}

/// Adds the current action to an error.
pub(crate) trait While<T> {
    fn doing(self, what: impl Display) -> Result<T, Error>;
}

impl<T, E: Display> While<T> for Result<T, E> {
    fn doing(self, what: impl Display) -> Result<T, Error> {
        self.map_err(|error| Error(format!("{what}: {error}")))
    }
}
