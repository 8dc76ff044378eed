//! When a call to Route 53 that failed is repeated.

use std::time::Duration;

use kernel::{Backoff, spread};

use crate::Fault;

/// The pause of a zone or an access that is throttled, busy or without credentials.
pub(super) const PAUSE: Duration = Duration::from_mins(1);
/// Pauses after failures that should pass.
pub(super) const BACKOFF: Backoff = Backoff {
    first: Duration::from_secs(1),
    cap: Duration::from_mins(5),
    jitter: 0.2,
};
/// A failure that should pass is reported after this many in a row.
pub(super) const REPORTED: u32 = 3;

/// The pause of what needs a person, and the pause once it has needed one for [`LONG`].
const SLOW: Duration = Duration::from_mins(5);
const SLOWER: Duration = Duration::from_mins(30);
const LONG: Duration = Duration::from_hours(1);
/// How far these pauses are spread.
const SPREAD: f64 = 0.2;

/// How a failed read is repeated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Pace {
    /// After [`PAUSE`].
    Pause,
    /// With growing pauses: it should pass.
    Backoff,
    /// Slowly: a person has to act.
    Slow,
}

impl Pace {
    /// | fault                                   | repeated            |
    /// |-----------------------------------------|---------------------|
    /// | throttled, busy, credentials            | after a minute      |
    /// | it failed, no answer, we do not lead    | with back-off       |
    /// | any other                               | slowly              |
    pub(super) fn of(fault: Fault) -> Self {
        match fault {
            Fault::Throttled | Fault::ZoneBusy | Fault::Credentials => Self::Pause,
            Fault::Passing | Fault::Deposed => Self::Backoff,
            Fault::DomainTaken
            | Fault::NameTaken
            | Fault::Denied
            | Fault::OwnershipUnverified
            | Fault::InvalidSpec
            | Fault::InvalidRecords
            | Fault::DistributionMissing
            | Fault::EntityMissing
            | Fault::ZoneMissing
            | Fault::ChangeMissing
            | Fault::OtherMissing
            | Fault::LimitExceeded
            | Fault::Stale
            | Fault::NotDisabled
            | Fault::InUse
            | Fault::Refused => Self::Slow,
        }
    }
}

/// The pause of what has needed a person for `since`.
pub(super) fn slow(since: Duration, random: f64) -> Duration {
    let pause = if since >= LONG { SLOWER } else { SLOW };
    spread(pause, SPREAD, random)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::at_first(0, 300)]
    #[case::after_an_hour(3600, 1800)]
    fn what_needs_a_person_is_repeated_ever_more_rarely(#[case] since: u64, #[case] pause: u64) {
        let since = Duration::from_secs(since);
        assert_eq!(slow(since, 0.5), Duration::from_secs(pause));
    }
}
