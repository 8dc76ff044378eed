//! Not asking again and again where nobody answers.

use std::time::Duration;

use parking_lot::Mutex;

/// This many silences in a row, and calls fail without being made.
const PATIENCE: u32 = 3;
/// So often one call is let through to look.
const PAUSE: Duration = Duration::from_secs(10);

/// Whether anybody has answered of late.
///
/// The health call is never held back, and its answer closes the breaker for all.
#[derive(Debug, Default)]
pub(crate) struct Breaker {
    seen: Mutex<Seen>,
}

#[derive(Debug, Default)]
struct Seen {
    silences: u32,
    /// No call before this, once the silences are too many.
    next: Duration,
    reason: String,
}

impl Seen {
    fn hopes(&self, now: Duration) -> Result<(), String> {
        if self.silences < PATIENCE || now >= self.next {
            return Ok(());
        }
        // The same words each time: a message that counts would make every status differ.
        Err(format!("{}; it is asked again in a while", self.reason))
    }
}

impl Breaker {
    /// Whether it is worth queueing for a call.
    ///
    /// # Errors
    /// What the last silence was, if not.
    pub(crate) fn hopes(&self, now: Duration) -> Result<(), String> {
        self.seen.lock().hopes(now)
    }

    /// Whether a call may be made now; ask right before it.
    ///
    /// # Errors
    /// What the last silence was, if not.
    pub(crate) fn check(&self, now: Duration) -> Result<(), String> {
        let mut seen = self.seen.lock();
        seen.hopes(now)?;
        if seen.silences >= PATIENCE {
            // This one looks; the others wait for what it finds, or for the next.
            seen.next = now + PAUSE;
        }
        Ok(())
    }

    /// Somebody answered, whatever it was.
    pub(crate) fn answered(&self) {
        let mut seen = self.seen.lock();
        if seen.silences > 0 {
            *seen = Seen::default();
        }
    }

    /// Nobody did.
    pub(crate) fn silent(&self, now: Duration, reason: &str) {
        let mut seen = self.seen.lock();
        seen.silences = seen.silences.saturating_add(1);
        seen.next = now + PAUSE;
        reason.clone_into(&mut seen.reason);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Duration = Duration::from_secs(100);

    fn silent(times: u32) -> Breaker {
        let breaker = Breaker::default();
        (0..times).for_each(|_| breaker.silent(NOW, "refused"));
        breaker
    }

    #[test]
    fn a_few_silences_are_nothing() {
        assert_eq!(silent(PATIENCE - 1).check(NOW), Ok(()));
    }

    #[test]
    fn many_silences_make_calls_fail_at_once_and_say_why() {
        let told = silent(PATIENCE).check(NOW).unwrap_err();
        assert_eq!(told, "refused; it is asked again in a while");
    }

    #[test]
    fn one_call_a_while_looks_again() {
        let breaker = silent(PATIENCE);
        assert_eq!(breaker.hopes(NOW + PAUSE), Ok(()));
        assert_eq!(breaker.check(NOW + PAUSE), Ok(()));
        assert!(breaker.check(NOW + PAUSE).is_err());
        assert_eq!(breaker.check(NOW + PAUSE * 2), Ok(()));
    }

    #[test]
    fn any_answer_lets_all_calls_through() {
        let breaker = silent(PATIENCE);
        breaker.answered();
        assert_eq!(breaker.check(NOW), Ok(()));
    }
}
