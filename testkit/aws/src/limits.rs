//! Rate limits per account and service: token buckets on the emulator's clock.

use std::collections::HashMap;

use jiff::Timestamp;

/// The buckets in use, by service and account.
#[derive(Debug, Default)]
pub(crate) struct Limits {
    buckets: HashMap<(&'static str, String), Bucket>,
}

#[derive(Debug)]
struct Bucket {
    tokens: f64,
    at: Timestamp,
}

impl Limits {
    /// Whether `account` may call `service` now at `rate` calls per second; 0 is no limit.
    ///
    /// A bucket holds the calls of one second, and at least one, so a rate below one works.
    pub(crate) fn admits(
        &mut self,
        service: &'static str,
        account: &str,
        rate: f64,
        now: Timestamp,
    ) -> bool {
        if rate <= 0.0 {
            return true;
        }
        let full = rate.max(1.0);
        let bucket = self
            .buckets
            .entry((service, account.to_owned()))
            .or_insert(Bucket {
                tokens: full,
                at: now,
            });
        let passed = now.duration_since(bucket.at).as_secs_f64().max(0.0);
        bucket.tokens = (bucket.tokens + passed * rate).min(full);
        bucket.at = now;
        let admitted = bucket.tokens >= 1.0;
        if admitted {
            bucket.tokens -= 1.0;
        }
        admitted
    }

    /// Fills all buckets.
    pub(crate) fn reset(&mut self) {
        self.buckets.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: i64) -> Timestamp {
        Timestamp::from_millisecond(millis).expect("a small number")
    }

    #[test]
    fn a_bucket_allows_its_rate_and_refills_with_time() {
        let mut limits = Limits::default();
        let mut admitted = |millis| limits.admits("cdn", "1", 2.0, at(millis));
        assert_eq!([0, 0, 0].map(&mut admitted), [true, true, false]);
        assert_eq!([499, 500, 501].map(&mut admitted), [false, true, false]);
    }

    #[test]
    fn a_low_rate_allows_one_call_at_a_time() {
        let mut limits = Limits::default();
        let mut admitted = |millis| limits.admits("cdn", "1", 0.5, at(millis));
        assert_eq!([0, 1900, 2000].map(&mut admitted), [true, false, true]);
    }

    #[test]
    fn accounts_and_services_have_their_own_buckets() {
        let mut limits = Limits::default();
        assert!(limits.admits("cdn", "1", 1.0, at(0)));
        assert!(limits.admits("cdn", "2", 1.0, at(0)));
        assert!(limits.admits("dns", "1", 1.0, at(0)));
        assert!(!limits.admits("cdn", "1", 1.0, at(0)));
    }
}
