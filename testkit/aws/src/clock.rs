//! The emulator's own time: real time multiplied by a factor, advanced on request, never set back.

use std::time::{Duration, Instant};

use jiff::Timestamp;

/// The largest factor: a microsecond of real time is a second here.
const FASTEST: f64 = 1_000_000.0;
/// The most that one request may advance the clock: ten years.
const FARTHEST: Duration = Duration::from_hours(10 * 365 * 24);

/// Virtual time: `start + real time passed * factor`, re-based at every change.
///
/// Delays of fault rules are real time and do not follow this clock.
#[derive(Debug)]
pub struct Clock {
    start: Timestamp,
    since: Instant,
    factor: f64,
    first_factor: f64,
}

impl Clock {
    /// A clock that starts at the real time and runs `factor` times as fast (0 stands still).
    pub fn new(factor: f64) -> Result<Self, String> {
        let factor = checked(factor)?;
        Ok(Self {
            start: Timestamp::now(),
            since: Instant::now(),
            factor,
            first_factor: factor,
        })
    }

    /// The current time for every service.
    pub fn now(&self) -> Timestamp {
        let passed = self.since.elapsed().as_secs_f64() * self.factor;
        later(
            self.start,
            Duration::try_from_secs_f64(passed).unwrap_or(Duration::MAX),
        )
    }

    /// How many seconds pass here per real second.
    pub fn factor(&self) -> f64 {
        self.factor
    }

    /// Advances the clock.
    pub fn advance(&mut self, by: Duration) -> Result<(), String> {
        if by > FARTHEST {
            return Err("the clock moves at most ten years at once; advance by less".to_owned());
        }
        self.rebase();
        self.start = later(self.start, by);
        Ok(())
    }

    /// Changes the factor from now on.
    pub fn run(&mut self, factor: f64) -> Result<(), String> {
        let factor = checked(factor)?;
        self.rebase();
        self.factor = factor;
        Ok(())
    }

    /// Restores the first factor. The time stays, so that it never goes backwards.
    pub fn reset(&mut self) {
        self.rebase();
        self.factor = self.first_factor;
    }

    fn rebase(&mut self) {
        self.start = self.now();
        self.since = Instant::now();
    }
}

fn later(from: Timestamp, by: Duration) -> Timestamp {
    from.saturating_add(by).unwrap_or(Timestamp::MAX)
}

fn checked(factor: f64) -> Result<f64, String> {
    if (0.0..=FASTEST).contains(&factor) {
        Ok(factor)
    } else {
        Err(format!(
            "clock factor {factor} is out of range; give a number from 0 (stand still) to {FASTEST}"
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_standing_clock_moves_only_by_advance() {
        let mut clock = Clock::new(0.0).unwrap();
        let before = clock.now();
        assert_eq!(clock.now(), before);
        clock.advance(Duration::from_secs(90)).unwrap();
        assert_eq!(clock.now().duration_since(before).as_secs(), 90);
    }

    #[test]
    fn time_never_goes_backwards_after_a_change_or_a_reset() {
        let mut clock = Clock::new(1000.0).unwrap();
        let first = clock.now();
        clock.run(0.0).unwrap();
        let second = clock.now();
        clock.reset();
        let third = clock.now();
        assert!(first <= second && second <= third);
        assert!((clock.factor() - 1000.0).abs() < f64::EPSILON);
    }

    #[test]
    fn an_invalid_factor_or_advance_is_refused() {
        assert!(Clock::new(-1.0).is_err());
        assert!(Clock::new(f64::NAN).is_err());
        assert!(Clock::new(1.0).unwrap().advance(Duration::MAX).is_err());
    }
}
