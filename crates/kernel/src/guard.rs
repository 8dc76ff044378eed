//! Whether this process may write.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::{BootClock, SharedClock};

const CLOSED: u64 = 0;
const ALWAYS: u64 = u64::MAX;

thread_local! {
    static ALLOWED: Cell<u64> = const { Cell::new(0) };
}

/// Checked before every write, also to external services: whether we still have the lease.
///
/// A clone is the same guard. It opens when the lease is won, and closes by itself without a renewal
/// in time, so that a leader that was frozen or cut off writes nothing after it continues. Writes to
/// another cluster need a second guard, which its verifications renew in the same manner.
///
/// ```
/// # use kernel::Guard;
/// # use std::time::Duration;
/// let guard = Guard::closed();
/// let sent = guard.elapsed(); // before the renewal is sent
/// // ... the API server confirms the renewal ...
/// guard.renewed(sent, Duration::from_secs(10));
/// assert!(guard.check().is_ok());
/// ```
/// The time in which a machine was suspended counts, so the guard is closed after a suspension.
/// # Limits
/// A write that was sent before the lease is lost may still arrive. So a write may take no longer
/// than the guard has left plus its margin, the time between its closing and the next leader's first
/// write: see [`write_timeout`].
#[derive(Debug, Clone)]
pub struct Guard {
    clock: SharedClock,
    margin: Duration,
    /// Nanoseconds of `clock` until which writing is allowed.
    until: Arc<AtomicU64>,
}

/// A guard is closed: the lease was lost, or another cluster could not be verified. Nothing was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "this replica no longer holds the leader's lease, or the cluster that it writes to is not verified, \
     so nothing was written; the next leader or the next verification goes on from here"
)]
pub struct Deposed;

impl Guard {
    /// A guard that is always open, for a process without leader election.
    pub fn always() -> Self {
        let guard = Self::closed();
        guard.until.store(ALWAYS, Ordering::Release);
        guard
    }

    /// A guard for a process with leader election: closed until the lease is won.
    pub fn closed() -> Self {
        Self::new(Arc::new(BootClock::new()))
    }

    /// A closed guard that reads `clock`.
    ///
    /// # When not to use it
    /// Outside tests: other replicas use real time, so a lease runs in real time. Use
    /// [`Guard::closed`].
    pub fn new(clock: SharedClock) -> Self {
        Self {
            clock,
            margin: Duration::ZERO,
            until: Arc::new(AtomicU64::new(CLOSED)),
        }
    }

    /// The same guard, which closes `margin` before another process may write.
    #[must_use]
    pub fn with_margin(self, margin: Duration) -> Self {
        Self { margin, ..self }
    }

    /// The time between the closing of this guard and the first write of another process.
    pub fn margin(&self) -> Duration {
        self.margin
    }

    /// How long the guard stays open without a further renewal; `None` if it never closes by itself.
    pub fn left(&self) -> Option<Duration> {
        match self.until.load(Ordering::Acquire) {
            ALWAYS => None,
            until => Some(Duration::from_nanos(until).saturating_sub(self.clock.elapsed())),
        }
    }

    /// The guard's own time. Read it *before* a renewal is sent: the lease runs from then at the
    /// latest, however long the answer took.
    pub fn elapsed(&self) -> Duration {
        self.clock.elapsed()
    }

    /// Allows writing until the guard's own time is `elapsed`, and not longer.
    pub fn allow_until(&self, elapsed: Duration) {
        self.until.store(nanos(elapsed), Ordering::Release);
    }

    /// A renewal sent at `since` was confirmed: allows writing for `lease` from then on.
    ///
    /// A late answer does not shorten what a newer one allowed.
    pub fn renewed(&self, since: Duration, lease: Duration) {
        let until = nanos(since.saturating_add(lease));
        self.until.fetch_max(until, Ordering::AcqRel);
    }

    /// Closes the guard at once: the lease was lost or released.
    pub fn revoke(&self) {
        self.until.store(CLOSED, Ordering::Release);
    }

    /// Whether writing is allowed now. Each success counts in [`Guard::allowed_on_this_thread`].
    ///
    /// # Errors
    /// [`Deposed`] if not: end the pass.
    pub fn check(&self) -> Result<(), Deposed> {
        match self.until.load(Ordering::Acquire) {
            CLOSED => return Err(Deposed),
            ALWAYS => {}
            until if nanos(self.clock.elapsed()) < until => {}
            _ => return Err(Deposed),
        }
        ALLOWED.set(ALLOWED.get().wrapping_add(1));
        Ok(())
    }

    /// How many writes guards have allowed on this thread. Every client checks its guards before a
    /// write, so this number shows whether a polled future wrote, to any service.
    pub fn allowed_on_this_thread() -> u64 {
        ALLOWED.get()
    }
}

/// How long a write under `guards` may take: `longest`, but it ends before another process may write.
pub fn write_timeout(longest: Duration, guards: &[Guard]) -> Duration {
    let ends = guards
        .iter()
        .filter_map(|guard| Some(guard.left()?.saturating_add(guard.margin)));
    ends.fold(longest, Duration::min)
}

/// Nanoseconds in 64 bits last 584 years; at most one below the value of a guard that is always open.
fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).map_or(ALWAYS - 1, |nanos| nanos.min(ALWAYS - 1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::TestClock;

    const LEASE: Duration = Duration::from_secs(10);
    const TICK: Duration = Duration::from_nanos(1);
    const ALMOST: Duration = Duration::from_nanos(9_999_999_999);

    fn guard() -> (Guard, Arc<TestClock>) {
        let clock = Arc::new(TestClock::new());
        (Guard::new(clock.clone()), clock)
    }

    #[test]
    fn a_guard_is_closed_until_the_lease_is_won() {
        let guard = Guard::closed();
        assert_eq!(guard.check(), Err(Deposed));
        guard.renewed(guard.elapsed(), Duration::from_hours(1));
        assert_eq!(guard.check(), Ok(()));
    }

    #[test]
    fn a_guard_closes_by_itself_without_a_renewal() {
        let (guard, clock) = guard();
        guard.renewed(guard.elapsed(), LEASE);
        clock.advance(ALMOST);
        assert_eq!(guard.check(), Ok(()));
        clock.advance(TICK);
        assert_eq!(guard.check(), Err(Deposed));
    }

    #[test]
    fn a_renewal_counts_from_the_time_it_was_sent() {
        let (guard, clock) = guard();
        let sent = guard.elapsed();
        clock.advance(LEASE);
        guard.renewed(sent, LEASE);
        assert_eq!(guard.check(), Err(Deposed));
    }

    #[test]
    fn a_late_answer_shortens_nothing() {
        let (guard, clock) = guard();
        let early = guard.elapsed();
        clock.advance(LEASE / 2);
        guard.renewed(guard.elapsed(), LEASE);
        guard.renewed(early, LEASE);
        clock.advance(ALMOST);
        assert_eq!(guard.check(), Ok(()));
    }

    #[test]
    fn a_revoked_guard_is_closed_for_every_clone_until_renewed() {
        let (guard, _clock) = guard();
        let clone = guard.clone();
        guard.renewed(guard.elapsed(), LEASE);
        clone.revoke();
        assert_eq!(guard.check(), Err(Deposed));
        clone.renewed(clone.elapsed(), LEASE);
        assert_eq!(guard.check(), Ok(()));
    }

    #[test]
    fn an_allowance_may_be_shortened() {
        let (guard, clock) = guard();
        guard.allow_until(LEASE);
        guard.allow_until(TICK);
        clock.advance(TICK);
        assert_eq!(guard.check(), Err(Deposed));
    }

    #[test]
    fn without_leader_election_the_guard_is_always_open() {
        assert_eq!(Guard::always().check(), Ok(()));
    }

    #[test]
    fn an_unlimited_lease_can_still_be_revoked() {
        let (guard, clock) = guard();
        guard.renewed(Duration::MAX, Duration::MAX);
        clock.advance(Duration::from_hours(1_000_000));
        assert_eq!(guard.check(), Ok(()));
        guard.revoke();
        assert_eq!(guard.check(), Err(Deposed));
    }

    #[test]
    fn a_write_ends_before_another_process_may_write() {
        let (guard, clock) = guard();
        let guard = guard.with_margin(Duration::from_secs(5));
        guard.renewed(guard.elapsed(), LEASE);
        let timeout = || write_timeout(Duration::from_secs(12), &[Guard::always(), guard.clone()]);
        assert_eq!(timeout(), Duration::from_secs(12));
        clock.advance(Duration::from_secs(8));
        assert_eq!(timeout(), Duration::from_secs(7));
        clock.advance(LEASE);
        assert_eq!(timeout(), Duration::from_secs(5));
        assert_eq!(Guard::always().left(), None);
    }

    #[test]
    fn allowed_writes_are_counted() {
        let (guard, _clock) = guard();
        let before = Guard::allowed_on_this_thread();
        assert_eq!(guard.check(), Err(Deposed));
        assert_eq!(Guard::allowed_on_this_thread(), before);
        guard.allow_until(LEASE);
        assert_eq!(guard.check(), Ok(()));
        assert_eq!(Guard::allowed_on_this_thread(), before + 1);
    }

    #[test]
    fn being_deposed_says_that_nothing_was_written() {
        assert!(Deposed.to_string().contains("nothing was written"));
    }
}
