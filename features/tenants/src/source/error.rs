//! What can surprise a pass.

use engine::{ApiError, Classified};
use kernel::Class;

/// A pass that could not be carried through. The engine repeats it.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error(transparent)]
    Api(#[from] ApiError),
    #[error(transparent)]
    Aws(#[from] aws::Error),
}

impl Classified for Error {
    fn class(&self) -> Class {
        match self {
            Self::Api(error) => error.class(),
            Self::Aws(error) => error.class(),
        }
    }
}
