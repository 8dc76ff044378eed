//! How fast: a token bucket whose rate falls when AWS throttles and grows when it does not.

use std::time::Duration;

/// The rate grows after this long without throttling.
const CALM: Duration = Duration::from_secs(10);
/// The factor of one growth.
const GROWTH: f64 = 1.05;
/// Throttled calls of one burst count once: the rate is halved again after this long at the earliest.
const PAUSE: Duration = Duration::from_secs(5);
/// Tolerance for rounding errors of the token count.
const CRUMB: f64 = 1e-6;

/// Calls per second: at first, at least, at most.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct RateRange {
    start: f64,
    lowest: f64,
    highest: f64,
}

impl RateRange {
    pub(crate) const fn new(start: f64, lowest: f64, highest: f64) -> Self {
        Self {
            start,
            lowest,
            highest,
        }
    }
}

/// Tokens arrive at `rate`. The bucket holds the tokens of one second, and at least one. A call
/// costs one token.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Bucket {
    rates: RateRange,
    rate: f64,
    /// Below zero when AWS throttled after a token had been promised to a caller.
    tokens: f64,
    /// When the tokens were counted.
    at: Duration,
    /// Time of the last throttling or growth.
    calm_since: Duration,
    halved: Option<Duration>,
}

impl Bucket {
    pub(crate) fn new(rates: RateRange, now: Duration) -> Self {
        Self {
            rates,
            rate: rates.start,
            tokens: rates.start.max(1.0),
            at: now,
            calm_since: now,
            halved: None,
        }
    }

    /// Computes rate and tokens as of `now`.
    pub(crate) fn settle(&mut self, now: Duration) {
        while self.rate < self.rates.highest {
            let grows = self.calm_since.saturating_add(CALM);
            if grows > now {
                break;
            }
            self.fill(grows);
            self.rate = (self.rate * GROWTH).min(self.rates.highest);
            self.calm_since = grows;
        }
        self.fill(now);
    }

    fn fill(&mut self, until: Duration) {
        let passed = until.saturating_sub(self.at).as_secs_f64();
        self.at = self.at.max(until);
        self.tokens = passed.mul_add(self.rate, self.tokens).min(self.burst());
    }

    /// The most tokens the bucket holds.
    fn burst(&self) -> f64 {
        self.rate.max(1.0)
    }

    /// Whether the bucket held this many tokens when it was last settled.
    pub(crate) fn has(&self, tokens: usize) -> bool {
        self.tokens + CRUMB >= count(tokens)
    }

    /// How long until the bucket holds this many tokens, as last settled; `None` if it never does.
    pub(crate) fn until(&self, tokens: usize) -> Option<Duration> {
        if self.has(tokens) {
            return Some(Duration::ZERO);
        }
        let wanted = count(tokens);
        if wanted > self.burst() + CRUMB {
            return None;
        }
        let wait = (wanted - self.tokens) / self.rate;
        let wait = Duration::try_from_secs_f64(wait).unwrap_or(Duration::MAX);
        // Never zero: the caller would wait again at once.
        Some(wait.max(Duration::from_nanos(1)))
    }

    /// Takes one token.
    pub(crate) fn spend(&mut self) {
        self.tokens -= 1.0;
    }

    /// Puts one token back.
    pub(crate) fn refund(&mut self) {
        self.tokens = (self.tokens + 1.0).min(self.burst());
    }

    /// AWS throttled a call.
    pub(crate) fn throttled(&mut self, now: Duration) {
        self.settle(now);
        // AWS would only refuse the calls of a burst.
        self.tokens = self.tokens.min(0.0);
        self.calm_since = now;
        let is_new = |halved: Duration| now.saturating_sub(halved) >= PAUSE;
        if self.halved.is_none_or(is_new) {
            self.rate = (self.rate / 2.0).max(self.rates.lowest);
            self.halved = Some(now);
        }
    }

    /// Calls per second, as last settled.
    pub(crate) fn rate(&self) -> f64 {
        self.rate
    }
}

fn count(tokens: usize) -> f64 {
    f64::from(u32::try_from(tokens).unwrap_or(u32::MAX))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const CLOUDFRONT: RateRange = RateRange::new(5.0, 0.2, 20.0);

    fn at(seconds: f64) -> Duration {
        Duration::from_secs_f64(seconds)
    }

    fn bucket() -> Bucket {
        Bucket::new(CLOUDFRONT, Duration::ZERO)
    }

    /// Spends all tokens there are at `now`.
    fn drained(bucket: &mut Bucket, now: Duration) -> u32 {
        bucket.settle(now);
        let mut spent = 0;
        while bucket.has(1) {
            bucket.spend();
            spent += 1;
        }
        spent
    }

    fn rate_at(bucket: &mut Bucket, now: f64) -> f64 {
        bucket.settle(at(now));
        bucket.rate()
    }

    fn same(one: f64, other: f64) -> bool {
        (one - other).abs() < 1e-9
    }

    #[test]
    fn a_second_of_calls_goes_at_once_and_the_rest_at_the_rate() {
        let mut bucket = bucket();
        assert_eq!(drained(&mut bucket, at(0.0)), 5);
        assert_eq!(bucket.until(1), Some(at(0.2)));
        assert_eq!(drained(&mut bucket, at(1.0)), 5);
        assert_eq!(drained(&mut bucket, at(9.0)), 5);
    }

    #[test]
    fn each_ten_seconds_without_throttling_add_a_twentieth() {
        let mut bucket = bucket();
        assert!(same(rate_at(&mut bucket, 9.9), 5.0));
        assert!(same(rate_at(&mut bucket, 10.0), 5.25));
        assert!(same(rate_at(&mut bucket, 20.0), 5.5125));
        assert!(same(rate_at(&mut bucket, 3600.0), 20.0));
    }

    #[test]
    fn throttling_halves_the_rate_at_most_once_in_five_seconds() {
        let mut bucket = bucket();
        bucket.throttled(at(1.0));
        bucket.throttled(at(5.9));
        assert!(same(rate_at(&mut bucket, 5.9), 2.5));
        bucket.throttled(at(6.0));
        assert!(same(rate_at(&mut bucket, 6.0), 1.25));
        // Ten seconds from the last throttling, not from the last halving.
        bucket.throttled(at(10.0));
        assert!(same(rate_at(&mut bucket, 19.9), 1.25));
        assert!(same(rate_at(&mut bucket, 20.0), 1.3125));
    }

    #[test]
    fn throttling_removes_the_saved_tokens() {
        let mut bucket = bucket();
        bucket.throttled(at(0.0));
        assert_eq!(drained(&mut bucket, at(0.0)), 0);
        assert_eq!(bucket.until(1), Some(at(0.4)));
    }

    #[test]
    fn the_rate_never_leaves_its_bounds() {
        let mut bucket = bucket();
        for second in 0..60 {
            bucket.throttled(Duration::from_secs(second * 5));
        }
        assert!(same(bucket.rate(), 0.2));
        assert_eq!(bucket.until(1), Some(at(5.0)));
        bucket.settle(Duration::MAX);
        assert!(same(bucket.rate(), 20.0));
    }

    #[test]
    fn a_bucket_below_one_a_second_still_holds_a_call() {
        let mut bucket = Bucket::new(RateRange::new(0.5, 0.05, 0.5), Duration::ZERO);
        assert_eq!(drained(&mut bucket, at(0.0)), 1);
        assert_eq!(bucket.until(1), Some(at(2.0)));
        assert_eq!(bucket.until(2), None);
        assert_eq!(drained(&mut bucket, at(2.0)), 1);
    }

    #[test]
    fn a_caller_gets_a_token_after_the_computed_wait() {
        let mut bucket = Bucket::new(RateRange::new(3.0, 0.2, 10.0), Duration::ZERO);
        let mut now = Duration::ZERO;
        for _ in 0..10_000 {
            bucket.settle(now);
            let wait = bucket.until(1).expect("one fits");
            now += wait;
            bucket.settle(now);
            assert!(bucket.has(1), "{bucket:?}");
            bucket.spend();
        }
    }

    #[derive(Debug, Clone)]
    enum Event {
        Pass(u64),
        Drain,
        Throttle,
        Refund,
    }

    fn events() -> impl Strategy<Value = Vec<Event>> {
        let event = prop_oneof![
            (0..30_000_u64).prop_map(Event::Pass),
            Just(Event::Drain),
            Just(Event::Throttle),
            Just(Event::Refund),
        ];
        proptest::collection::vec(event, 0..80)
    }

    proptest! {
        #[test]
        fn rate_and_tokens_stay_in_bounds(events in events()) {
            let mut bucket = bucket();
            let mut now = Duration::ZERO;
            for event in events {
                match event {
                    Event::Pass(millis) => now += Duration::from_millis(millis),
                    Event::Drain => { drained(&mut bucket, now); }
                    Event::Throttle => bucket.throttled(now),
                    Event::Refund => bucket.refund(),
                }
                bucket.settle(now);
                prop_assert!((0.2..=20.0).contains(&bucket.rate()));
                prop_assert!(bucket.tokens <= bucket.rate().max(1.0) + CRUMB);
            }
        }

        #[test]
        fn no_interval_gives_more_than_its_rate_and_a_burst(
            steps in proptest::collection::vec(1..2_000_u64, 1..200),
        ) {
            let rates = RateRange::new(4.0, 4.0, 4.0);
            let mut bucket = Bucket::new(rates, Duration::ZERO);
            let (mut now, mut spent) = (Duration::ZERO, 0);
            for millis in steps {
                spent += drained(&mut bucket, now);
                now += Duration::from_millis(millis);
            }
            let most = now.as_secs_f64().mul_add(4.0, 4.0);
            prop_assert!(f64::from(spent) <= most + CRUMB);
        }

        #[test]
        fn settling_often_equals_settling_once(
            steps in proptest::collection::vec(1..20_000_u64, 1..60),
        ) {
            let (mut often, mut once) = (bucket(), bucket());
            let mut now = Duration::ZERO;
            for bucket in [&mut often, &mut once] {
                drained(bucket, now);
                bucket.throttled(now);
            }
            for millis in steps {
                now += Duration::from_millis(millis);
                often.settle(now);
            }
            once.settle(now);
            prop_assert!((often.rate() - once.rate()).abs() < 1e-9);
            prop_assert!((often.tokens - once.tokens).abs() < 1e-3);
        }
    }
}
