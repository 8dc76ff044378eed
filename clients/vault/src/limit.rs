//! Rate and concurrency of calls: a token bucket whose rate falls when Vault throttles or fails.
//!
//! | requests per second | rate |
//! |---|---|
//! | set | that; a 429 halves it, successful answers restore it |
//! | unset | from 100 up to 2,000 while answers succeed; a 429, a 5xx, a lost answer or growing latency halves it |

mod latency;

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use kernel::SharedClock;
use parking_lot::Mutex;
use tokio::sync::{Mutex as AsyncMutex, Semaphore, SemaphorePermit};

use crate::Limits;
use latency::Latency;

/// A successful answer restores this share of a configured rate: 50 of them undo a halving.
const RECOVERY: f64 = 0.01;
/// A configured rate never falls below this share of it.
const FLOOR: f64 = 0.01;
/// Bounds of a rate that is not configured: at the beginning, at most, and at least.
const FIRST: f64 = 100.0;
const MOST: f64 = 2_000.0;
const LEAST: f64 = 10.0;
/// A successful answer adds this many calls per second to a rate that is not configured, until the
/// first halving.
const GROWTH: f64 = 4.0;
/// The same after the first halving.
const CAREFUL_GROWTH: f64 = 1.0;
/// The rate is halved at most once in this time: later failures are of calls made before that.
const SETTLING: Duration = Duration::from_secs(1);
/// If no call got a slot for this long, Vault does not answer: callers stop queueing.
const STALLED: Duration = Duration::from_secs(2);

/// Rate and slots of one connection.
#[derive(Debug)]
pub(crate) struct Limiter {
    clock: SharedClock,
    bucket: Mutex<Bucket>,
    /// Locked by the caller that waits for a token; the others wait for the lock, first in first out.
    order: AsyncMutex<()>,
    slots: Semaphore,
    /// How many calls have got a slot.
    entered: AtomicU64,
    /// See [`STALLED`].
    stalled: Duration,
}

impl Limiter {
    pub(crate) fn new(limits: Limits, clock: SharedClock) -> Self {
        let now = clock.elapsed();
        Self {
            bucket: Mutex::new(Bucket::new(limits, now)),
            order: AsyncMutex::new(()),
            slots: Semaphore::new(limits.max_in_flight.max(1) as usize),
            entered: AtomicU64::new(0),
            stalled: STALLED,
            clock,
        }
    }

    /// Waits for a token and a slot. Dropping the future costs none.
    ///
    /// # Errors
    /// The error of `worth`, which is checked before each wait, so that callers do not queue in vain.
    /// Until the time of a `Retry-After`, `closed` of the remaining time, for which the caller should
    /// wait. The same if all slots belong to calls that Vault does not answer.
    pub(crate) async fn enter<E>(
        &self,
        worth: impl Fn() -> Result<(), E>,
        closed: impl Fn(Duration) -> E,
    ) -> Result<SemaphorePermit<'_>, E> {
        {
            let _order = self.order.lock().await;
            loop {
                worth()?;
                let wait = self.bucket.lock().take(self.clock.elapsed());
                match wait.map_err(&closed)? {
                    None => break,
                    Some(wait) => tokio::time::sleep(self.clock.real(wait)).await,
                }
            }
        }
        let slot = self.slots.acquire();
        tokio::pin!(slot);
        loop {
            let entered = self.entered.load(Ordering::Relaxed);
            match tokio::time::timeout(self.stalled, &mut slot).await {
                Ok(slot) => {
                    self.entered.fetch_add(1, Ordering::Relaxed);
                    return Ok(slot.expect("the slots are never closed"));
                }
                Err(_) if self.entered.load(Ordering::Relaxed) == entered => {
                    return Err(closed(self.stalled));
                }
                Err(_) => {}
            }
        }
    }

    /// Vault answered a call successfully, after this long in real time.
    pub(crate) fn answered(&self, took: Duration) {
        let now = self.clock.elapsed();
        self.bucket.lock().answered(now, took);
    }

    /// Vault failed or gave no answer.
    pub(crate) fn strained(&self) {
        let now = self.clock.elapsed();
        self.bucket.lock().strained(now);
    }

    /// Vault throttled a call.
    pub(crate) fn throttled(&self, retry_after: Option<Duration>) {
        let now = self.clock.elapsed();
        self.bucket.lock().throttled(now, retry_after);
    }
}

/// The pure part: tokens arrive at `rate`, up to `burst`.
#[derive(Debug)]
struct Bucket {
    least: f64,
    most: f64,
    /// What a successful answer adds to the rate.
    growth: f64,
    /// The rate is not configured: it follows Vault's answers.
    adaptive: bool,
    latency: Latency,
    burst: f64,
    rate: f64,
    tokens: f64,
    /// When the tokens were counted.
    at: Duration,
    /// The rate is not halved again before this.
    settled_at: Duration,
    /// Vault asked for no calls before this.
    closed_until: Duration,
}

impl Bucket {
    fn new(limits: Limits, now: Duration) -> Self {
        let set = limits.requests_per_second.map(|set| f64::from(set.max(1)));
        let (least, rate, most, growth) = match set {
            Some(set) => (set * FLOOR, set, set, set * RECOVERY),
            None => (LEAST, FIRST, MOST, GROWTH),
        };
        let burst = f64::from(limits.burst.max(1));
        Self {
            least,
            most,
            growth,
            adaptive: set.is_none(),
            latency: Latency::default(),
            burst,
            rate,
            tokens: burst,
            at: now,
            settled_at: Duration::ZERO,
            closed_until: Duration::ZERO,
        }
    }

    /// Takes a token; `Some` is the time until there may be one, an error the time of `Retry-After`.
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

    fn answered(&mut self, now: Duration, took: Duration) {
        if self.adaptive && self.latency.grows(took) {
            self.halve(now);
        } else {
            self.rate = (self.rate + self.growth).min(self.most);
        }
    }

    fn strained(&mut self, now: Duration) {
        if self.adaptive {
            self.halve(now);
        }
    }

    fn throttled(&mut self, now: Duration, retry_after: Option<Duration>) {
        self.halve(now);
        // Vault would only refuse the calls of a burst.
        self.tokens = 0.0;
        self.at = now;
        let until = now.saturating_add(retry_after.unwrap_or_default());
        self.closed_until = self.closed_until.max(until);
    }

    fn halve(&mut self, now: Duration) {
        if now < self.settled_at {
            return;
        }
        self.settled_at = now + SETTLING;
        self.rate = (self.rate / 2.0).max(self.least);
        if self.adaptive {
            self.growth = CAREFUL_GROWTH;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use kernel::TestClock;
    use proptest::prelude::*;
    use rstest::rstest;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);
    const QUICK: Duration = Duration::from_millis(2);
    const SLOW: Duration = Duration::from_secs(1);

    /// An event for a bucket.
    #[derive(Debug, Clone, Copy)]
    enum Sign {
        Good,
        Slow,
        Failure,
        Throttled,
        /// A second passes.
        Second,
    }

    impl Sign {
        fn apply(self, bucket: &mut Bucket, now: Duration) -> Duration {
            match self {
                Self::Good => bucket.answered(now, QUICK),
                Self::Slow => bucket.answered(now, SLOW),
                Self::Failure => bucket.strained(now),
                Self::Throttled => bucket.throttled(now, None),
                Self::Second => return now + SECOND,
            }
            now
        }
    }

    fn bucket(requests_per_second: u32, burst: u32) -> Bucket {
        let limits = Limits {
            requests_per_second: Some(requests_per_second),
            burst,
            max_in_flight: 1,
        };
        Bucket::new(limits, Duration::ZERO)
    }

    fn sign() -> impl Strategy<Value = Sign> {
        prop_oneof![
            8 => Just(Sign::Good),
            1 => Just(Sign::Slow),
            1 => Just(Sign::Failure),
            1 => Just(Sign::Throttled),
            1 => Just(Sign::Second),
        ]
    }

    fn take_all(bucket: &mut Bucket, now: Duration) -> u32 {
        let mut count = 0;
        while bucket.take(now) == Ok(None) {
            count += 1;
        }
        count
    }

    #[test]
    fn a_burst_goes_at_once_and_the_rest_by_the_rate() {
        let mut bucket = bucket(10, 20);
        assert_eq!(take_all(&mut bucket, Duration::ZERO), 20);
        assert_eq!(take_all(&mut bucket, SECOND), 10);
        assert_eq!(bucket.take(SECOND), Ok(Some(Duration::from_millis(100))));
    }

    #[test]
    fn throttling_halves_the_rate_and_success_restores_it_slowly() {
        let mut bucket = bucket(100, 1);
        bucket.throttled(Duration::ZERO, None);
        assert!((bucket.rate - 50.0).abs() < 1e-9);
        (0..25).for_each(|_| bucket.answered(Duration::ZERO, QUICK));
        assert!((bucket.rate - 75.0).abs() < 1e-9);
        (0..1000).for_each(|_| bucket.answered(Duration::ZERO, QUICK));
        assert!((bucket.rate - 100.0).abs() < 1e-9);
    }

    #[test]
    fn a_set_rate_ignores_failures_and_latency() {
        let mut bucket = bucket(100, 1);
        bucket.answered(Duration::ZERO, QUICK);
        (0..100).for_each(|_| bucket.answered(Duration::ZERO, SLOW));
        bucket.strained(Duration::ZERO);
        assert!((bucket.rate - 100.0).abs() < 1e-9);
    }

    fn adaptive() -> Bucket {
        Bucket::new(Limits::default(), Duration::ZERO)
    }

    /// Events for a rate that starts at 100 and is not configured, and the rate after them.
    #[rstest]
    #[case::good_answers_raise_it(&[Sign::Good; 25], 200.0)]
    #[case::never_above_the_most(&[Sign::Good; 1000], 2_000.0)]
    #[case::throttling_halves_it(&[Sign::Throttled], 50.0)]
    #[case::a_failure_halves_it(&[Sign::Failure], 50.0)]
    #[case::one_halving_for_calls_of_one_time(&[Sign::Failure, Sign::Throttled, Sign::Failure], 50.0)]
    #[case::a_later_failure_halves_again(&[Sign::Failure, Sign::Second, Sign::Failure], 25.0)]
    #[case::slower_after_a_complaint(&[Sign::Failure, Sign::Good, Sign::Good], 52.0)]
    fn an_unset_rate_follows_the_answers(#[case] signs: &[Sign], #[case] rate: f64) {
        let mut bucket = adaptive();
        let mut now = Duration::ZERO;
        for sign in signs {
            now = sign.apply(&mut bucket, now);
        }
        assert!((bucket.rate - rate).abs() < 1e-9, "{}", bucket.rate);
    }

    #[test]
    fn growing_latency_halves_an_unset_rate() {
        let mut bucket = adaptive();
        (0..100).for_each(|_| bucket.answered(Duration::ZERO, QUICK));
        let before = bucket.rate;
        (0..100).for_each(|_| bucket.answered(Duration::ZERO, SLOW));
        assert!(bucket.rate < before, "{} of {before}", bucket.rate);
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
        fn no_interval_has_more_calls_than_burst_and_rate_allow(
            rate in 1..200_u32, burst in 1..50_u32, steps in prop::collection::vec(0..500_u64, 1..40),
        ) {
            let mut bucket = bucket(rate, burst);
            let (mut now, mut total) = (Duration::ZERO, 0);
            for step in steps {
                now += Duration::from_millis(step);
                total += take_all(&mut bucket, now);
            }
            let most = f64::from(burst) + f64::from(rate) * now.as_secs_f64();
            prop_assert!(f64::from(total) <= most + 1e-6);
        }

        #[test]
        fn the_rate_never_becomes_zero(complaints in 1..200_usize) {
            let mut bucket = bucket(100, 100);
            (0..complaints).for_each(|_| bucket.throttled(Duration::ZERO, None));
            prop_assert!(bucket.rate >= 1.0);
        }

        #[test]
        fn an_unset_rate_stays_within_its_bounds(signs in prop::collection::vec(sign(), 0..3000)) {
            let mut bucket = adaptive();
            let mut now = Duration::ZERO;
            for sign in signs {
                now = sign.apply(&mut bucket, now);
                prop_assert!((LEAST..=MOST).contains(&bucket.rate), "{}", bucket.rate);
            }
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

    #[tokio::test]
    async fn callers_do_not_queue_behind_calls_without_an_answer() {
        let limits = Limits {
            max_in_flight: 1,
            ..Limits::default()
        };
        let mut limiter = Limiter::new(limits, Arc::new(TestClock::new()));
        limiter.stalled = Duration::from_millis(20);
        let enter = || limiter.enter(|| Ok(()), |left| left);
        let first = enter().await.unwrap();
        assert_eq!(enter().await.err(), Some(limiter.stalled));
        drop(first);
        assert!(enter().await.is_ok());
    }
}
