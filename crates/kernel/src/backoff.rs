//! Delays after repeated failures.

use std::time::Duration;

use crate::spread;

/// Exponential back-off with jitter, for one object.
///
/// It never gives up: after enough failures the delay stays at the cap.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Backoff {
    /// The delay after the first failure.
    pub first: Duration,
    /// No delay is longer than this, apart from jitter.
    pub cap: Duration,
    /// The share by which a delay may be shorter or longer: 0.1 is ± 10 %.
    pub jitter: f64,
}

impl Default for Backoff {
    fn default() -> Self {
        Self {
            first: Duration::from_secs(1),
            cap: Duration::from_mins(5),
            jitter: 0.1,
        }
    }
}

impl Backoff {
    /// The delay after `failures` consecutive failures; `random` from 0 to 1 chooses the jitter.
    ///
    /// Zero without a failure.
    pub fn delay(&self, failures: u32, random: f64) -> Duration {
        let Some(doublings) = failures.checked_sub(1) else {
            return Duration::ZERO;
        };
        let first = self.first.as_nanos();
        let cap = self.cap.as_nanos();
        // Shifting by the leading zeros or more would lose bits; zero stays zero.
        let plain = match first.leading_zeros() {
            u128::BITS => 0,
            room if doublings < room => (first << doublings).min(cap),
            _ => cap,
        };
        spread(Duration::from_nanos_u128(plain), self.jitter, random)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_delay_doubles_up_to_the_cap() {
        let backoff = Backoff::default();
        let seconds: Vec<u64> = [0, 1, 2, 3, 9, 10, 40, u32::MAX]
            .map(|failures| backoff.delay(failures, 0.5).as_secs())
            .to_vec();
        assert_eq!(seconds, [0, 1, 2, 4, 256, 300, 300, 300]);
    }

    fn any_backoff() -> impl Strategy<Value = Backoff> {
        (any::<u64>(), any::<u64>(), 0.0..1.0_f64).prop_map(|(first, cap, jitter)| Backoff {
            first: Duration::from_nanos(first),
            cap: Duration::from_nanos(cap),
            jitter,
        })
    }

    proptest! {
        #[test]
        fn one_more_failure_never_shortens_a_delay(backoff in any_backoff(), failures in 0..u32::MAX) {
            let plain = Backoff { jitter: 0.0, ..backoff };
            prop_assert!(plain.delay(failures, 0.3) <= plain.delay(failures + 1, 0.9));
        }

        #[test]
        fn jitter_stays_in_its_band(
            backoff in any_backoff(),
            failures in any::<u32>(),
            random in 0.0..=1.0_f64,
        ) {
            let plain = Backoff { jitter: 0.0, ..backoff }.delay(failures, 0.5).as_secs_f64();
            let delay = backoff.delay(failures, random).as_secs_f64();
            let slack = 1e-6 * plain + 1e-9;
            prop_assert!(delay >= plain * (1.0 - backoff.jitter) - slack);
            prop_assert!(delay <= plain * (1.0 + backoff.jitter) + slack);
        }

        #[test]
        fn no_delay_overflows(
            first in any::<u64>(),
            failures in any::<u32>(),
            jitter in any::<f64>(),
            random in any::<f64>(),
        ) {
            let wide = Backoff { first: Duration::from_secs(first), cap: Duration::MAX, jitter };
            wide.delay(failures, random);
        }
    }
}
