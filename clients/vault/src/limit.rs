//! How fast and how much at once: a token bucket that slows down when Vault complains.

use std::time::Duration;

use kernel::SharedClock;
use parking_lot::Mutex;
use tokio::sync::{Mutex as Turn, Semaphore, SemaphorePermit};

use crate::Limits;

/// A success gives back this share of the full rate: a hundred of them undo a halving twice over.
const RECOVERY: f64 = 0.01;
/// However much Vault complains, this share of the full rate stays.
const FLOOR: f64 = 0.01;

/// Rate and slots of one connection.
#[derive(Debug)]
pub(crate) struct Limiter {
    clock: SharedClock,
    bucket: Mutex<Bucket>,
    /// Held by the one who waits for the bucket; the others queue behind, first come first served.
    turn: Turn<()>,
    slots: Semaphore,
}

impl Limiter {
    pub(crate) fn new(limits: Limits, clock: SharedClock) -> Self {
        let now = clock.elapsed();
        Self {
            bucket: Mutex::new(Bucket::new(limits, now)),
            turn: Turn::new(()),
            slots: Semaphore::new(limits.max_in_flight.max(1) as usize),
            clock,
        }
    }

    /// Waits for a turn and a slot. Dropping the wait costs nothing.
    ///
    /// # Errors
    /// What `worth` says when the turn comes: nobody stays in a queue that leads nowhere. While
    /// Vault has told us to stay away, `closed` of the time left: that is for the caller to wait
    /// out.
    pub(crate) async fn enter<E>(
        &self,
        worth: impl Fn() -> Result<(), E>,
        closed: impl Fn(Duration) -> E,
    ) -> Result<SemaphorePermit<'_>, E> {
        {
            let _turn = self.turn.lock().await;
            loop {
                worth()?;
                let taken = self.bucket.lock().take(self.clock.elapsed());
                match taken.map_err(&closed)? {
                    None => break,
                    Some(wait) => tokio::time::sleep(self.clock.real(wait)).await,
                }
            }
        }
        let slot = self.slots.acquire().await;
        Ok(slot.expect("the slots are never closed"))
    }

    /// Vault took a call.
    pub(crate) fn eased(&self) {
        self.bucket.lock().eased();
    }

    /// Vault said: too many.
    pub(crate) fn throttled(&self, retry_after: Option<Duration>) {
        let now = self.clock.elapsed();
        self.bucket.lock().throttled(now, retry_after);
    }
}

/// The pure part: tokens drip in at `rate`, up to `burst`.
#[derive(Debug)]
struct Bucket {
    full: f64,
    burst: f64,
    rate: f64,
    tokens: f64,
    /// When the tokens were counted.
    at: Duration,
    /// Vault wants no call before this.
    closed_until: Duration,
}

impl Bucket {
    fn new(limits: Limits, now: Duration) -> Self {
        let full = f64::from(limits.requests_per_second.max(1));
        let burst = f64::from(limits.burst.max(1));
        Self {
            full,
            burst,
            rate: full,
            tokens: burst,
            at: now,
            closed_until: Duration::ZERO,
        }
    }

    /// Takes a token; `Some` is how long until there may be one.
    fn take(&mut self, now: Duration) -> Result<Option<Duration>, Duration> {
        if let Some(left) = self.closed_until.checked_sub(now)
            && !left.is_zero()
        {
            return Err(left);
        }
        let passed = now.saturating_sub(self.at).as_secs_f64();
        self.at = now;
        self.tokens = passed.mul_add(self.rate, self.tokens).min(self.burst);
        if self.tokens >= 1.0 {
            self.tokens -= 1.0;
            return Ok(None);
        }
        let wait = (1.0 - self.tokens) / self.rate;
        Ok(Some(Duration::from_secs_f64(wait)))
    }

    fn eased(&mut self) {
        self.rate = self.full.mul_add(RECOVERY, self.rate).min(self.full);
    }

    fn throttled(&mut self, now: Duration, retry_after: Option<Duration>) {
        self.rate = (self.rate / 2.0).max(self.full * FLOOR);
        // What was saved up would only be refused.
        self.tokens = 0.0;
        self.at = now;
        let until = now.saturating_add(retry_after.unwrap_or_default());
        self.closed_until = self.closed_until.max(until);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use kernel::TestClock;
    use proptest::prelude::*;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn bucket(requests_per_second: u32, burst: u32) -> Bucket {
        let limits = Limits {
            requests_per_second,
            burst,
            max_in_flight: 1,
        };
        Bucket::new(limits, Duration::ZERO)
    }

    fn taken(bucket: &mut Bucket, now: Duration) -> u32 {
        let mut taken = 0;
        while bucket.take(now) == Ok(None) {
            taken += 1;
        }
        taken
    }

    #[test]
    fn a_burst_goes_at_once_and_the_rest_by_the_rate() {
        let mut bucket = bucket(10, 20);
        assert_eq!(taken(&mut bucket, Duration::ZERO), 20);
        assert_eq!(taken(&mut bucket, SECOND), 10);
        assert_eq!(bucket.take(SECOND), Ok(Some(Duration::from_millis(100))));
    }

    #[test]
    fn a_complaint_halves_the_rate_and_success_restores_it_slowly() {
        let mut bucket = bucket(100, 1);
        bucket.throttled(Duration::ZERO, None);
        assert!((bucket.rate - 50.0).abs() < 1e-9);
        (0..25).for_each(|_| bucket.eased());
        assert!((bucket.rate - 75.0).abs() < 1e-9);
        (0..1000).for_each(|_| bucket.eased());
        assert!((bucket.rate - 100.0).abs() < 1e-9);
    }

    #[test]
    fn retry_after_closes_the_bucket_until_then() {
        let mut bucket = bucket(100, 100);
        bucket.throttled(SECOND, Some(SECOND * 3));
        bucket.throttled(SECOND, Some(SECOND));
        assert_eq!(bucket.take(SECOND * 2), Err(SECOND * 2));
        assert!(bucket.take(SECOND * 4).is_ok());
    }

    proptest! {
        #[test]
        fn no_window_sees_more_than_burst_and_rate_allow(
            rate in 1..200_u32, burst in 1..50_u32, steps in prop::collection::vec(0..500_u64, 1..40),
        ) {
            let mut bucket = bucket(rate, burst);
            let (mut now, mut total) = (Duration::ZERO, 0);
            for step in steps {
                now += Duration::from_millis(step);
                total += taken(&mut bucket, now);
            }
            let most = f64::from(burst) + f64::from(rate) * now.as_secs_f64();
            prop_assert!(f64::from(total) <= most + 1e-6);
        }

        #[test]
        fn the_rate_never_stops_whatever_vault_says(complaints in 1..200_usize) {
            let mut bucket = bucket(100, 100);
            (0..complaints).for_each(|_| bucket.throttled(Duration::ZERO, None));
            prop_assert!(bucket.rate >= 1.0);
        }
    }

    #[tokio::test]
    async fn a_slot_is_free_again_when_its_call_ends() {
        let limits = Limits {
            max_in_flight: 1,
            ..Limits::default()
        };
        let limiter = Limiter::new(limits, Arc::new(TestClock::new()));
        let enter = || limiter.enter(|| Ok(()), |left| left);
        let first = enter().await.unwrap();
        let second = enter();
        tokio::pin!(second);
        let waits = tokio::select! {
            biased;
            _ = &mut second => false,
            () = std::future::ready(()) => true,
        };
        assert!(waits);
        drop(first);
        assert!(second.await.is_ok());
    }
}
