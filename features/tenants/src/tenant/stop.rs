//! How a pass over a tenant ends early.

use std::time::Duration;

use engine::{ApiError, Pass};
use kernel::{ObjectKey, Progress, Reason};

use super::draft::{Draft, Question};
use crate::ctx::{Ctx, NotYet, Ours};
use crate::failure::{self, Says, Way};
use crate::outside;
use crate::trouble::{Error, Moment};

/// Why a stage ends the pass.
#[derive(Debug)]
pub(crate) enum Stop {
    /// Something was recorded on the object: the next pass acts on it, at once.
    Again,
    /// All is well so far and takes time; look again then, unless woken sooner.
    Told(Duration),
    /// AWS is left alone until then.
    Held(Duration),
    /// A surprise.
    Failed(Error),
}

impl From<NotYet> for Stop {
    fn from(NotYet { after }: NotYet) -> Self {
        Self::Held(after)
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
            Self::Told(after) | Self::Held(after) => Ok(Progress::Waiting {
                reason: outcome,
                after,
            }),
            Self::Failed(error) => Err(error),
        }
    }
}

/// Now, for an object of this generation.
pub(crate) fn moment(draft: &Draft, ctx: &Ctx) -> Moment {
    Moment {
        generation: draft.generation(),
        elapsed: ctx.deck.clock.elapsed(),
        random: fastrand::f64(),
    }
}

/// Ends a pass that asks AWS for nothing, though its turn may have come.
pub(crate) fn left_alone(after: Duration, key: &ObjectKey, ctx: &Ctx) -> Stop {
    ctx.withdraw(Ours::Tenant, key);
    Stop::Held(after)
}

/// Says `reason`, about which somebody has to act, and leaves AWS alone for a while.
pub(crate) fn blocked(
    reason: &Reason,
    questions: &[Question],
    draft: &mut Draft,
    ctx: &Ctx,
    key: &ObjectKey,
) -> Stop {
    for question in questions {
        draft.no(*question, reason.clone());
    }
    let (code, at) = (reason.code.clone(), moment(draft, ctx));
    let wait = ctx
        .memory
        .note(key, |memory| memory.trouble.blocked(code, &at));
    Stop::Held(wait)
}

/// Says in `draft` what `error` means, counts it, and ends the pass.
pub(crate) fn failed(
    error: aws::Error,
    way: Way,
    draft: &mut Draft,
    ctx: &Ctx,
    pass: &Pass,
) -> Stop {
    count(&error, way, ctx);
    ended(error, way, draft, ctx, pass)
}

/// Counts an answer that was an error.
pub(crate) fn count(error: &aws::Error, way: Way, ctx: &Ctx) {
    outside::count(ctx, error, way);
}

/// As [`failed`], for an error that was counted when it came.
pub(crate) fn ended(
    error: aws::Error,
    way: Way,
    draft: &mut Draft,
    ctx: &Ctx,
    pass: &Pass,
) -> Stop {
    let failure = failure::failure(error.fault(), way);
    let at = moment(draft, ctx);
    let met = ctx.memory.note(pass.key(), |memory| match way {
        Way::Dns | Way::Target => memory.dns_trouble.met(&failure, &at),
        Way::Validation | Way::Tenant { .. } | Way::Group => memory.trouble.met(&failure, &at),
    });
    say(met.says, &error, draft);
    match met.after {
        Some(after) => Stop::Held(after),
        None => Stop::Failed(error.into()),
    }
}

/// Puts an error into the conditions it speaks in.
fn say(says: Says, error: &aws::Error, draft: &mut Draft) {
    let (questions, reason): (&[Question], _) = match says {
        Says::Nothing => return,
        Says::Ready(reason) => (&[Question::Ready], reason),
        Says::Both(reason) => (&[Question::Ready, Question::Synced], reason),
        Says::Dns(reason) => {
            // Once the tenant is there, DNS holds Ready up only where the spec waits for it.
            if draft.held_up {
                (&[Question::Dns, Question::Ready], reason)
            } else {
                (&[Question::Dns], reason)
            }
        }
    };
    for question in questions {
        draft.no(*question, Reason::new(reason, error.to_string()));
    }
}
