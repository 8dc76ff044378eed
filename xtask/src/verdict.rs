//! How a verb ends: it holds (0), it does not (1), or it could not be told (2).

use std::fmt::Display;
use std::process::ExitCode;

/// What a verb found out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// What was asked for is true, or was made true.
    Holds,
    /// It is not true; the reasons are printed already.
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

/// Why a verb could not tell: wrong input, or something it needs is not there.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Error(String);

impl Error {
    pub(crate) fn new(message: impl Into<String>) -> Self {
        Self(message.into())
    }
}

/// Puts what was being done in front of an error from below.
pub(crate) trait While<T> {
    fn doing(self, what: impl Display) -> Result<T, Error>;
}

impl<T, E: Display> While<T> for Result<T, E> {
    fn doing(self, what: impl Display) -> Result<T, Error> {
        self.map_err(|error| Error(format!("{what}: {error}")))
    }
}
