//! What can surprise a pass over a Probe.

use engine::{ApiError, Classified};
use kernel::Class;

use crate::outside;

#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error(transparent)]
    Api(#[from] ApiError),
    #[error(transparent)]
    Outside(#[from] outside::Error),
    #[error(
        "the object names something outside, but no outside is configured; set --probe-outside"
    )]
    NoOutside,
}

impl Classified for Error {
    fn class(&self) -> Class {
        match self {
            Self::Api(error) => error.class(),
            Self::Outside(error) => error.class(),
            Self::NoOutside => Class::Invalid,
        }
    }
}

impl From<Error> for super::Stop {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}
