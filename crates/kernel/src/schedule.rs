//! Intervals of recurring work.

use std::time::Duration;

/// `period`, shortened or lengthened by up to `share` of itself, so that objects that were created
/// together are not rechecked together.
///
/// `random` from 0 to 1 chooses the position in the range: 0 is the shortest, 0.5 the period itself.
/// Values outside 0 to 1, also of `share`, count as the nearest bound.
pub fn spread(period: Duration, share: f64, random: f64) -> Duration {
    let share = unit(share, 0.0);
    let factor = 1.0 + share * (2.0 * unit(random, 0.5) - 1.0);
    // Skipping the multiplication keeps an unspread period exact.
    if share == 0.0 {
        return period;
    }
    Duration::try_from_secs_f64(period.as_secs_f64() * factor).unwrap_or(Duration::MAX)
}

/// `value` within 0 to 1; `otherwise` if it is not a number.
fn unit(value: f64, otherwise: f64) -> f64 {
    if value.is_nan() {
        otherwise
    } else {
        value.clamp(0.0, 1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const HOUR: Duration = Duration::from_hours(1);

    #[test]
    fn the_random_number_chooses_the_position_in_the_range() {
        let minutes = |random| spread(HOUR, 0.5, random).as_secs() / 60;
        assert_eq!([minutes(0.0), minutes(0.5), minutes(1.0)], [30, 60, 90]);
    }

    #[test]
    fn no_share_leaves_the_period_exact() {
        let odd = Duration::from_nanos(1_234_567_890_123_456_789);
        assert_eq!(spread(odd, 0.0, 0.9), odd);
    }

    proptest! {
        #[test]
        fn a_spread_period_stays_in_its_range(share in 0.0..=1.0_f64, random in 0.0..=1.0_f64) {
            let seconds = spread(HOUR, share, random).as_secs_f64();
            prop_assert!(seconds >= 3600.0 * (1.0 - share) - 1e-6);
            prop_assert!(seconds <= 3600.0 * (1.0 + share) + 1e-6);
        }

        #[test]
        fn odd_numbers_never_panic(share in any::<f64>(), random in any::<f64>(), nanos in any::<u64>()) {
            spread(Duration::from_nanos(nanos), share, random);
            spread(Duration::MAX, share, random);
        }
    }
}
