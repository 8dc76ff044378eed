//! How a pass over a tenant ends early.

use std::time::Duration;

use engine::{ApiError, Classified, Pass};
use kernel::{Class, Progress, Reason};

use super::draft::{Draft, Question};
use crate::ctx::{Ctx, NotYet};
use crate::failure::{self, Again, PATIENCE, Says, Way};

/// What can surprise a pass.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    /// AWS did not do what was asked.
    #[error(transparent)]
    Aws(#[from] aws::Error),
    /// The API server did not.
    #[error(transparent)]
    Api(#[from] ApiError),
}

impl Classified for Error {
    fn class(&self) -> Class {
        match self {
            Self::Aws(error) => match error.class() {
                // Our view of AWS was old, not our object: the engine has nothing to wait for.
                Class::Stale => Class::Transient,
                class => class,
            },
            Self::Api(error) => error.class(),
        }
    }
}

/// Why a stage ends the pass.
#[derive(Debug)]
pub(crate) enum Stop {
    /// Something was recorded on the object: the next pass acts on it, at once.
    Again,
    /// The draft says how things stand; look again then, unless woken sooner.
    Told(Duration),
    /// A surprise.
    Failed(Error),
}

impl From<NotYet> for Stop {
    fn from(NotYet { after }: NotYet) -> Self {
        Self::Told(after)
    }
}

impl From<ApiError> for Stop {
    fn from(error: ApiError) -> Self {
        Self::Failed(error.into())
    }
}

impl Stop {
    /// What the engine is told.
    pub(crate) fn progress(self, outcome: Reason) -> Result<Progress, Error> {
        match self {
            Self::Again => Ok(Progress::Again),
            Self::Told(after) => Ok(Progress::Waiting {
                reason: outcome,
                after,
            }),
            Self::Failed(error) => Err(error),
        }
    }
}

/// Says in `draft` what `error` means, counts it, and ends the pass.
pub(crate) fn failed(
    error: aws::Error,
    way: Way,
    draft: &mut Draft,
    ctx: &Ctx,
    pass: &Pass,
) -> Stop {
    let failure = failure::failure(error.fault(), way);
    if let Some(error_type) = failure.counted {
        ctx.metrics.failed(error_type);
    }
    let is_passing = failure.again == Again::Backoff;
    let patient = is_passing && ctx.memory.failed(pass.key()) < PATIENCE;
    let since = if patient {
        Duration::ZERO
    } else {
        say(failure.says, &error, draft, ctx)
    };
    match failure.again.wait(since, fastrand::f64()) {
        Some(after) => Stop::Told(after),
        None => Stop::Failed(error.into()),
    }
}

/// Puts an error into the conditions it speaks in; gives how long they have said so.
fn say(says: Says, error: &aws::Error, draft: &mut Draft, ctx: &Ctx) -> Duration {
    let (questions, reason): (&[Question], _) = match says {
        Says::Nothing => return Duration::ZERO,
        Says::Ready(reason) => (&[Question::Ready], reason),
        Says::Both(reason) => (&[Question::Ready, Question::Synced], reason),
        Says::Dns(reason) => {
            // Once the tenant is there, DNS holds Ready up only where the spec waits for it.
            if draft.is_held_up() {
                (&[Question::Dns, Question::Ready], reason)
            } else {
                (&[Question::Dns], reason)
            }
        }
    };
    let since = draft.since(questions[0], reason, ctx.now());
    for question in questions {
        draft.no(*question, Reason::new(reason, error.to_string()));
    }
    since
}
