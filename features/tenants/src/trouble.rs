//! What went wrong with one object, remembered between its passes: which condition says so, and
//! until when AWS is left alone.
//!
//! Kept in memory only: after a restart everything is tried once, and found out again.

use std::borrow::Cow;
use std::time::Duration;

use engine::{ApiError, Classified};
use kernel::Class;

use crate::failure::{Again, Failure, PATIENCE, Says, slow};
use crate::outside::BACKOFF;

/// What can surprise a pass.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    /// The API server did not do what was asked.
    #[error(transparent)]
    Api(#[from] ApiError),
    /// AWS did not.
    #[error(transparent)]
    Aws(#[from] aws::Error),
}

impl Classified for Error {
    fn class(&self) -> Class {
        match self {
            Self::Api(error) => error.class(),
            Self::Aws(error) => match error.class() {
                // Our view of AWS was old, not our object: the engine has nothing to wait for.
                Class::Stale => Class::Transient,
                class => class,
            },
        }
    }
}

/// When something happened, and to which wish.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Moment {
    pub(crate) generation: Option<i64>,
    /// By the engine's clock.
    pub(crate) elapsed: Duration,
    /// 0 to 1: spreads what would come together.
    pub(crate) random: f64,
}

/// Failures of one object.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Trouble {
    /// Failures in a row that should pass by themselves.
    passing: u32,
    /// What waits for a person, and since when.
    told: Option<(Cow<'static, str>, Duration)>,
    hold: Option<Hold>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
struct Hold {
    generation: Option<i64>,
    until: Duration,
}

/// What a failure means now.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Met {
    pub(crate) says: Says,
    /// When to try again; none: the engine's back-off.
    pub(crate) after: Option<Duration>,
}

impl Trouble {
    /// Takes in a failure.
    pub(crate) fn met(&mut self, failure: &Failure, at: &Moment) -> Met {
        let Failure { says, again, .. } = *failure;
        if again == Again::Backoff {
            self.passing = self.passing.saturating_add(1);
            let is_worth_a_word = self.passing >= PATIENCE;
            return Met {
                says: if is_worth_a_word { says } else { Says::Nothing },
                after: None,
            };
        }
        self.passing = 0;
        let since = match says {
            Says::Nothing => Duration::ZERO,
            Says::Ready(reason) | Says::Both(reason) | Says::Dns(reason) => self.since(reason, at),
        };
        // One that is stale time and again backs off.
        let after = again.wait(since, at.random).filter(|wait| !wait.is_zero());
        if let Some(wait) = after {
            self.hold(wait, at);
        }
        Met { says, after }
    }

    /// Takes in that somebody has to act about `reason`, though AWS refused nothing; gives when to
    /// look again.
    pub(crate) fn blocked(
        &mut self,
        reason: impl Into<Cow<'static, str>>,
        at: &Moment,
    ) -> Duration {
        let wait = self.paced(reason, at);
        self.hold(wait, at);
        wait
    }

    /// As [`blocked`](Self::blocked), where AWS is not asked: nothing has to be held back.
    pub(crate) fn paced(&mut self, reason: impl Into<Cow<'static, str>>, at: &Moment) -> Duration {
        self.passing = 0;
        slow(self.since(reason, at), at.random)
    }

    /// Takes in that others wrote whenever we wanted to; gives when to try again.
    pub(crate) fn outrun(&mut self, at: &Moment) -> Duration {
        self.passing = self.passing.saturating_add(1);
        let wait = BACKOFF.delay(self.passing, at.random);
        self.hold(wait, at);
        wait
    }

    /// All went well.
    pub(crate) fn over(&mut self) {
        *self = Self::default();
    }

    /// Lets AWS be asked at once: a person wants to know.
    pub(crate) fn forgive(&mut self) {
        self.hold = None;
    }

    /// How long AWS is still to be left alone. An edit is tried at once.
    pub(crate) fn holds_back(&self, at: &Moment) -> Option<Duration> {
        let hold = self.hold.filter(|hold| hold.generation == at.generation)?;
        let left = hold.until.saturating_sub(at.elapsed);
        (!left.is_zero()).then_some(left)
    }

    fn hold(&mut self, wait: Duration, at: &Moment) {
        self.hold = Some(Hold {
            generation: at.generation,
            until: at.elapsed.saturating_add(wait),
        });
    }

    /// How long `reason` has been told.
    fn since(&mut self, reason: impl Into<Cow<'static, str>>, at: &Moment) -> Duration {
        let reason = reason.into();
        let known = self.told.take().filter(|(told, _)| *told == reason);
        let (_, since) = self.told.insert(known.unwrap_or((reason, at.elapsed)));
        at.elapsed.saturating_sub(*since)
    }
}

#[cfg(test)]
mod tests {
    use api::tenants::reasons;
    use aws::Fault;
    use rstest::rstest;

    use super::*;
    use crate::failure::{Way, failure};

    const MINUTE: u64 = 60;

    fn at(seconds: u64) -> Moment {
        Moment {
            generation: Some(1),
            elapsed: Duration::from_secs(seconds),
            random: 0.5,
        }
    }

    fn met(trouble: &mut Trouble, fault: Fault, seconds: u64) -> Met {
        trouble.met(&failure(fault, Way::Group), &at(seconds))
    }

    #[test]
    fn what_passes_is_told_the_third_time() {
        let mut trouble = Trouble::default();
        let mut said = Vec::new();
        for second in 0..4 {
            said.push(met(&mut trouble, Fault::Passing, second).says);
        }
        let told = Says::Both(reasons::AWS_ERROR);
        assert_eq!(said, [Says::Nothing, Says::Nothing, told, told]);
        trouble.over();
        assert_eq!(met(&mut trouble, Fault::Passing, 5).says, Says::Nothing);
    }

    #[test]
    fn what_waits_for_a_person_is_tried_ever_more_slowly() {
        let mut trouble = Trouble::default();
        let mut waits = Vec::new();
        for minute in [0, 30, 59, 60, 120] {
            let met = met(&mut trouble, Fault::Denied, minute * MINUTE);
            waits.push(met.after.unwrap().as_secs() / MINUTE);
        }
        assert_eq!(waits, [5, 5, 5, 30, 30]);
        // Another reason begins anew.
        let other = met(&mut trouble, Fault::LimitExceeded, 121 * MINUTE);
        assert_eq!(other.after, Some(Duration::from_secs(5 * MINUTE)));
    }

    #[rstest]
    #[case::at_once(0, Some(1), Some(300))]
    #[case::later(200, Some(1), Some(100))]
    #[case::when_the_time_has_come(300, Some(1), None)]
    #[case::an_edit_is_tried_at_once(0, Some(2), None)]
    fn a_refusal_holds_back(
        #[case] elapsed: u64,
        #[case] generation: Option<i64>,
        #[case] left: Option<u64>,
    ) {
        let mut trouble = Trouble::default();
        met(&mut trouble, Fault::Denied, 0);
        let moment = Moment {
            generation,
            ..at(elapsed)
        };
        let left = left.map(Duration::from_secs);
        assert_eq!(trouble.holds_back(&moment), left);
    }

    #[test]
    fn a_person_who_asks_is_not_held_back() {
        let mut trouble = Trouble::default();
        met(&mut trouble, Fault::Denied, 0);
        trouble.forgive();
        assert_eq!(trouble.holds_back(&at(1)), None);
        // How long it has been so is not forgotten.
        let denied = met(&mut trouble, Fault::Denied, 61 * MINUTE);
        assert_eq!(denied.after, Some(Duration::from_secs(30 * MINUTE)));
    }

    #[test]
    fn one_who_is_outrun_tries_ever_later_and_an_edit_at_once() {
        let mut trouble = Trouble::default();
        let waits: Vec<_> = (0..4).map(|_| trouble.outrun(&at(0)).as_secs()).collect();
        assert_eq!(waits, [1, 2, 4, 8]);
        assert_eq!(trouble.holds_back(&at(0)), Some(Duration::from_secs(8)));
        trouble.over();
        assert_eq!(trouble.holds_back(&at(0)), None);
    }

    #[test]
    fn where_aws_is_not_asked_nothing_is_held_back() {
        let mut trouble = Trouble::default();
        let first = trouble.paced(reasons::POLICY_DENIED, &at(0));
        assert_eq!(first, Duration::from_secs(5 * MINUTE));
        assert_eq!(trouble.holds_back(&at(0)), None);
        let late = trouble.paced(reasons::POLICY_DENIED, &at(61 * MINUTE));
        assert_eq!(late, Duration::from_secs(30 * MINUTE));
    }

    #[test]
    fn what_passes_holds_nobody_back_here() {
        let mut trouble = Trouble::default();
        met(&mut trouble, Fault::Passing, 0);
        met(&mut trouble, Fault::Stale, 0);
        assert_eq!(trouble.holds_back(&at(0)), None);
    }

    #[test]
    fn throttling_says_nothing_and_does_not_make_a_refusal_younger() {
        let mut trouble = Trouble::default();
        met(&mut trouble, Fault::Denied, 0);
        let throttled = met(&mut trouble, Fault::Throttled, MINUTE);
        assert_eq!(throttled.says, Says::Nothing);
        assert_eq!(throttled.after, Some(Duration::from_secs(75)));
        let denied = met(&mut trouble, Fault::Denied, 61 * MINUTE);
        assert_eq!(denied.after, Some(Duration::from_secs(30 * MINUTE)));
    }

    #[test]
    fn a_stale_view_of_aws_is_no_stale_object() {
        let refusal = aws::Refusal {
            operation: aws::Operation::UpdateConnectionGroup,
            resource: "cg_1".to_owned(),
            code: "PreconditionFailed".to_owned(),
            message: String::new(),
            status: 412,
            request_id: None,
        };
        let error = Error::Aws(aws::Error::Refused(Box::new(refusal)));
        assert_eq!(error.class(), Class::Transient);
    }
}
