//! The only module that reads time. All other code is given a [`Clock`].
#![allow(
    clippy::disallowed_methods,
    reason = "the only module that reads time: tests give all other code a clock that they control"
)]

use std::fmt::Debug;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use parking_lot::Mutex;

/// A test may advance a clock at any time, so sleepers check it again this often.
const GLANCE: Duration = Duration::from_millis(20);

/// A shared clock.
pub type SharedClock = Arc<dyn Clock>;

/// Wall time and monotonic time, both at the clock's own speed.
///
/// # When not to use it
/// For leases and time-outs of calls: other processes run in real time, so these use a [`RealClock`]
/// also in tests.
pub trait Clock: Send + Sync + Debug {
    /// The wall time.
    fn now(&self) -> Timestamp;

    /// How much of this clock's time has passed since it was created. Never decreases.
    fn elapsed(&self) -> Duration;

    /// How long to sleep in real time until `wait` of this clock's time may have passed.
    ///
    /// A sleeper checks [`Clock::elapsed`] afterwards and may have to sleep again.
    fn real(&self, wait: Duration) -> Duration;
}

/// The real time.
#[derive(Debug, Clone, Copy)]
pub struct RealClock {
    made: Instant,
}

impl RealClock {
    /// A clock whose elapsed time starts now.
    pub fn new() -> Self {
        Self {
            made: Instant::now(),
        }
    }
}

impl Default for RealClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for RealClock {
    fn now(&self) -> Timestamp {
        Timestamp::now()
    }

    fn elapsed(&self) -> Duration {
        self.made.elapsed()
    }

    fn real(&self, wait: Duration) -> Duration {
        wait
    }
}

/// A real clock that also counts the time the machine was suspended.
///
/// # When not to use it
/// For anything but leases: sleeps and time-outs use the clock that stops in a suspended machine.
#[derive(Debug, Clone, Copy)]
pub struct BootClock {
    made: Duration,
    source: fn() -> Duration,
}

impl BootClock {
    /// A clock whose elapsed time starts now.
    pub fn new() -> Self {
        Self::reading(since_boot)
    }

    fn reading(source: fn() -> Duration) -> Self {
        let made = source();
        Self { made, source }
    }
}

impl Default for BootClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for BootClock {
    fn now(&self) -> Timestamp {
        Timestamp::now()
    }

    fn elapsed(&self) -> Duration {
        (self.source)().saturating_sub(self.made)
    }

    fn real(&self, wait: Duration) -> Duration {
        wait
    }
}

#[cfg(target_os = "linux")]
fn since_boot() -> Duration {
    let time = nix::time::clock_gettime(nix::time::ClockId::CLOCK_BOOTTIME);
    time.expect("Linux has this clock since 2.6.39").into()
}

/// Other systems are for development: their monotonic clock is enough.
#[cfg(not(target_os = "linux"))]
fn since_boot() -> Duration {
    static START: std::sync::LazyLock<Instant> = std::sync::LazyLock::new(Instant::now);
    START.elapsed()
}

/// A clock that starts at the real time and runs N times as fast, so that an hour fits into a test.
///
/// # When not to use it
/// If a test must decide exactly when something happens: advance a [`TestClock`].
#[derive(Debug, Clone, Copy)]
pub struct ScaledClock {
    began: Timestamp,
    made: Instant,
    factor: f64,
}

impl ScaledClock {
    /// A clock that runs `factor` times as fast as real time.
    ///
    /// # Panics
    /// If `factor` is not a finite number above zero.
    pub fn new(factor: impl Into<f64>) -> Self {
        let factor = factor.into();
        assert!(
            factor.is_finite() && factor > 0.0,
            "a clock runs at a factor above zero, not {factor}"
        );
        Self {
            began: Timestamp::now(),
            made: Instant::now(),
            factor,
        }
    }
}

impl Clock for ScaledClock {
    fn now(&self) -> Timestamp {
        later(self.began, self.elapsed())
    }

    fn elapsed(&self) -> Duration {
        scaled(self.made.elapsed(), self.factor)
    }

    fn real(&self, wait: Duration) -> Duration {
        slept(wait, self.factor)
    }
}

/// A clock that stands still until a test advances it or sets its factor.
#[derive(Debug)]
pub struct TestClock {
    began: Timestamp,
    hand: Mutex<Hand>,
}

/// The time of a [`TestClock`], and how fast it runs.
#[derive(Debug)]
struct Hand {
    /// Clock time passed until `since`.
    passed: Duration,
    /// When the factor was last set.
    since: Instant,
    factor: f64,
}

impl Hand {
    fn elapsed(&self) -> Duration {
        self.passed
            .saturating_add(scaled(self.since.elapsed(), self.factor))
    }
}

impl TestClock {
    /// A clock that stands still at the real time.
    pub fn new() -> Self {
        Self::at(Timestamp::now())
    }

    /// A clock that stands still at `began`.
    pub fn at(began: Timestamp) -> Self {
        let hand = Hand {
            passed: Duration::ZERO,
            since: Instant::now(),
            factor: 0.0,
        };
        Self {
            began,
            hand: Mutex::new(hand),
        }
    }

    /// Advances the clock by `step`, at once.
    pub fn advance(&self, step: Duration) {
        let mut hand = self.hand.lock();
        hand.passed = hand.passed.saturating_add(step);
    }

    /// Lets the clock run `factor` times as fast as real time; zero stops it.
    ///
    /// # Panics
    /// If `factor` is negative or not finite: a clock never goes back.
    pub fn set_factor(&self, factor: impl Into<f64>) {
        let factor = factor.into();
        assert!(
            factor.is_finite() && factor >= 0.0,
            "a clock runs at a factor of zero or more, not {factor}"
        );
        let mut hand = self.hand.lock();
        *hand = Hand {
            passed: hand.elapsed(),
            since: Instant::now(),
            factor,
        };
    }
}

impl Default for TestClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for TestClock {
    fn now(&self) -> Timestamp {
        later(self.began, self.elapsed())
    }

    fn elapsed(&self) -> Duration {
        self.hand.lock().elapsed()
    }

    fn real(&self, wait: Duration) -> Duration {
        slept(wait, self.hand.lock().factor).min(GLANCE)
    }
}

/// A clock that advances by a second each time its elapsed time is read, so that a test can choose
/// at which read a guard closes.
#[derive(Debug, Default)]
pub struct SteppingClock {
    readings: AtomicU32,
}

impl Clock for SteppingClock {
    fn now(&self) -> Timestamp {
        Timestamp::UNIX_EPOCH
    }

    fn elapsed(&self) -> Duration {
        Duration::from_secs(1) * self.readings.fetch_add(1, Ordering::SeqCst)
    }

    fn real(&self, wait: Duration) -> Duration {
        wait
    }
}

/// `began` plus `passed`, or the end of time.
fn later(began: Timestamp, passed: Duration) -> Timestamp {
    began.checked_add(passed).unwrap_or(Timestamp::MAX)
}

fn scaled(duration: Duration, factor: f64) -> Duration {
    Duration::try_from_secs_f64(duration.as_secs_f64() * factor).unwrap_or(Duration::MAX)
}

/// The real time in which a clock of `factor` advances by `wait`.
fn slept(wait: Duration, factor: f64) -> Duration {
    if wait.is_zero() {
        return Duration::ZERO;
    }
    // Never zero, or a sleeper that wakes a nanosecond early would spin.
    Duration::try_from_secs_f64(wait.as_secs_f64() / factor)
        .unwrap_or(Duration::MAX)
        .max(Duration::from_nanos(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Duration = Duration::from_hours(1);

    #[test]
    fn a_test_clock_stands_still_until_it_is_advanced() {
        let clock = TestClock::at(Timestamp::UNIX_EPOCH);
        assert_eq!(clock.elapsed(), Duration::ZERO);
        clock.advance(HOUR);
        assert_eq!(clock.elapsed(), HOUR);
        assert_eq!(clock.now().to_string(), "1970-01-01T01:00:00Z");
    }

    #[test]
    fn a_change_of_the_factor_does_not_change_the_elapsed_time() {
        let clock = TestClock::at(Timestamp::UNIX_EPOCH);
        clock.advance(HOUR);
        clock.set_factor(1e6);
        clock.set_factor(0);
        let stopped = clock.elapsed();
        assert!(stopped > HOUR);
        assert_eq!(clock.elapsed(), stopped);
    }

    #[test]
    fn a_sleeper_on_a_test_clock_checks_again_soon() {
        let clock = TestClock::new();
        assert_eq!(clock.real(HOUR), GLANCE);
        assert_eq!(clock.real(Duration::ZERO), Duration::ZERO);
        clock.set_factor(1000);
        assert_eq!(clock.real(Duration::from_secs(1)), Duration::from_millis(1));
    }

    #[test]
    fn a_scaled_clock_runs_n_times_as_fast() {
        let real = RealClock::new();
        let clock = ScaledClock::new(60);
        assert_eq!(clock.real(HOUR), Duration::from_mins(1));
        let lower = clock.made.elapsed();
        let elapsed = clock.elapsed();
        assert!(elapsed >= scaled(lower, 60.0));
        assert!(elapsed <= scaled(real.elapsed(), 60.0));
    }

    #[test]
    fn a_scaled_clock_begins_at_the_real_time() {
        let clock = ScaledClock::new(1);
        let apart = clock.now().duration_since(RealClock::new().now());
        assert!(apart.abs() < jiff::SignedDuration::from_mins(1));
    }

    #[test]
    #[should_panic(expected = "above zero")]
    fn a_scaled_clock_cannot_stand_still() {
        ScaledClock::new(0);
    }

    #[test]
    fn a_real_clock_sleeps_the_requested_time() {
        let clock = RealClock::new();
        assert_eq!(clock.real(HOUR), HOUR);
        let earlier = clock.elapsed();
        assert!(clock.elapsed() >= earlier);
    }

    #[test]
    fn a_boot_clock_runs_as_fast_as_a_real_one() {
        let (boot, real) = (BootClock::new(), RealClock::new());
        while real.elapsed() < Duration::from_millis(5) {}
        assert!(boot.elapsed() >= Duration::from_millis(5));
        assert!(boot.elapsed() < HOUR);
    }

    #[test]
    fn a_boot_clock_counts_suspended_time() {
        static SINCE_BOOT: AtomicU32 = AtomicU32::new(1000);
        let source = || Duration::from_secs(1) * SINCE_BOOT.load(Ordering::SeqCst);
        let guard = crate::Guard::new(Arc::new(BootClock::reading(source)));
        guard.renewed(guard.elapsed(), Duration::from_secs(10));
        SINCE_BOOT.fetch_add(9, Ordering::SeqCst);
        assert_eq!(guard.check(), Ok(()));
        SINCE_BOOT.fetch_add(3600, Ordering::SeqCst); // the machine was suspended
        assert_eq!(guard.check(), Err(crate::Deposed));
    }

    #[test]
    fn a_clock_reaches_the_end_of_time_without_a_panic() {
        let clock = TestClock::new();
        clock.advance(Duration::MAX);
        clock.advance(Duration::MAX);
        assert_eq!(clock.now(), Timestamp::MAX);
        assert_eq!(ScaledClock::new(0.1).real(Duration::MAX), Duration::MAX);
    }
}
