//! Whether this process may write.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::{RealClock, SharedClock};

const CLOSED: u64 = 0;
const ALWAYS: u64 = u64::MAX;

/// Asked before every write, outside too: does our hold on the lease still stand?
///
/// A clone is the same guard. It opens when the lease is won, and closes by itself when no renewal
/// comes in time, so that a leader that was frozen or cut off writes nothing after thawing.
///
/// ```
/// # use kernel::Guard;
/// # use std::time::Duration;
/// let guard = Guard::held();
/// let sent = guard.elapsed(); // before the renewal is sent
/// // ... the API server confirms the renewal ...
/// guard.renewed(sent, Duration::from_secs(10));
/// assert!(guard.check().is_ok());
/// ```
/// # Limits
/// A machine that is suspended as a whole stops its monotonic clock; the time asleep is not seen.
/// A write already sent when the lease is lost may still land: the hold granted by a renewal must
/// be shorter than the lease by the time a call may take.
#[derive(Debug, Clone)]
pub struct Guard {
    clock: SharedClock,
    /// Nanoseconds of `clock` until which writing is allowed.
    until: Arc<AtomicU64>,
}

/// The lease was lost; nothing was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "this replica no longer holds the leader's lease, so nothing was written; \
     the next leader goes on from here, and nothing needs to be done"
)]
pub struct Deposed;

impl Guard {
    /// A guard that is always open, for a process without leader election.
    pub fn always() -> Self {
        let guard = Self::held();
        guard.until.store(ALWAYS, Ordering::Release);
        guard
    }

    /// A guard for a process with leader election: closed until the lease is won.
    pub fn held() -> Self {
        Self::new(Arc::new(RealClock::new()))
    }

    /// A closed guard that reads `clock`.
    ///
    /// # When not to use it
    /// Outside tests: other replicas see real time only, so a lease is held in real time. Use
    /// [`Guard::held`].
    pub fn new(clock: SharedClock) -> Self {
        Self {
            clock,
            until: Arc::new(AtomicU64::new(CLOSED)),
        }
    }

    /// The guard's own time. Take it *before* a renewal is sent: the lease runs from then at the
    /// latest, however long the answer took.
    pub fn elapsed(&self) -> Duration {
        self.clock.elapsed()
    }

    /// Allows writing until the guard's own time is `elapsed`, and not longer.
    pub fn allow_until(&self, elapsed: Duration) {
        self.until.store(nanos(elapsed), Ordering::Release);
    }

    /// A renewal sent at `since` was confirmed: allows writing for `hold` from then on.
    ///
    /// An answer that comes late does not shorten what a newer one granted.
    pub fn renewed(&self, since: Duration, hold: Duration) {
        let until = nanos(since.saturating_add(hold));
        self.until.fetch_max(until, Ordering::AcqRel);
    }

    /// Closes the guard at once: the lease was lost or given back.
    pub fn revoke(&self) {
        self.until.store(CLOSED, Ordering::Release);
    }

    /// Whether writing is allowed now.
    ///
    /// # Errors
    /// [`Deposed`] if not: drop the work in hand.
    pub fn check(&self) -> Result<(), Deposed> {
        match self.until.load(Ordering::Acquire) {
            CLOSED => Err(Deposed),
            ALWAYS => Ok(()),
            until if nanos(self.clock.elapsed()) < until => Ok(()),
            _ => Err(Deposed),
        }
    }
}

/// Nanoseconds in 64 bits last 584 years; one below the mark of a guard that is always open.
fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).map_or(ALWAYS - 1, |nanos| nanos.min(ALWAYS - 1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::TestClock;

    const HOLD: Duration = Duration::from_secs(10);
    const TICK: Duration = Duration::from_nanos(1);
    const ALMOST: Duration = Duration::from_nanos(9_999_999_999);

    fn guard() -> (Guard, Arc<TestClock>) {
        let clock = Arc::new(TestClock::new());
        (Guard::new(clock.clone()), clock)
    }

    #[test]
    fn a_guard_is_closed_until_the_lease_is_won() {
        let guard = Guard::held();
        assert_eq!(guard.check(), Err(Deposed));
        guard.renewed(guard.elapsed(), Duration::from_hours(1));
        assert_eq!(guard.check(), Ok(()));
    }

    #[test]
    fn a_guard_closes_by_itself_when_no_renewal_comes() {
        let (guard, clock) = guard();
        guard.renewed(guard.elapsed(), HOLD);
        clock.advance(ALMOST);
        assert_eq!(guard.check(), Ok(()));
        clock.advance(TICK);
        assert_eq!(guard.check(), Err(Deposed));
    }

    #[test]
    fn a_renewal_counts_from_when_it_was_sent() {
        let (guard, clock) = guard();
        let sent = guard.elapsed();
        clock.advance(HOLD);
        guard.renewed(sent, HOLD);
        assert_eq!(guard.check(), Err(Deposed));
    }

    #[test]
    fn a_late_answer_shortens_nothing() {
        let (guard, clock) = guard();
        let early = guard.elapsed();
        clock.advance(HOLD / 2);
        guard.renewed(guard.elapsed(), HOLD);
        guard.renewed(early, HOLD);
        clock.advance(ALMOST);
        assert_eq!(guard.check(), Ok(()));
    }

    #[test]
    fn a_revoked_guard_is_closed_for_every_clone_until_renewed() {
        let (guard, _clock) = guard();
        let clone = guard.clone();
        guard.renewed(guard.elapsed(), HOLD);
        clone.revoke();
        assert_eq!(guard.check(), Err(Deposed));
        clone.renewed(clone.elapsed(), HOLD);
        assert_eq!(guard.check(), Ok(()));
    }

    #[test]
    fn an_allowance_may_be_shortened() {
        let (guard, clock) = guard();
        guard.allow_until(HOLD);
        guard.allow_until(TICK);
        clock.advance(TICK);
        assert_eq!(guard.check(), Err(Deposed));
    }

    #[test]
    fn without_leader_election_the_guard_is_always_open() {
        assert_eq!(Guard::always().check(), Ok(()));
    }

    #[test]
    fn an_endless_hold_can_still_be_revoked() {
        let (guard, clock) = guard();
        guard.renewed(Duration::MAX, Duration::MAX);
        clock.advance(Duration::from_hours(1_000_000));
        assert_eq!(guard.check(), Ok(()));
        guard.revoke();
        assert_eq!(guard.check(), Err(Deposed));
    }

    #[test]
    fn being_deposed_says_that_nothing_was_written() {
        assert!(Deposed.to_string().contains("nothing was written"));
    }
}
