//! Circuit breaker: stops calls to a server that does not answer.

use std::time::Duration;

use parking_lot::Mutex;

/// After this many consecutive calls without an answer, calls fail without being sent.
const PATIENCE: u32 = 3;
/// Then one call is sent after this long, to see whether the server answers.
const PAUSE: Duration = Duration::from_secs(10);

/// Counts calls without an answer.
///
/// The health call is always sent, and its answer allows all calls again.
#[derive(Debug, Default)]
pub(crate) struct Breaker {
    state: Mutex<BreakerState>,
}

#[derive(Debug, Default)]
struct BreakerState {
    silences: u32,
    /// Once there are too many, no call is sent before this.
    next: Duration,
    reason: String,
}

impl BreakerState {
    fn allows(&self, now: Duration) -> Result<(), String> {
        if self.silences < PATIENCE || now >= self.next {
            return Ok(());
        }
        // The same text each time: with a counter in it every status write would differ.
        Err(format!("{}; it is tried again every 10 s", self.reason))
    }
}

impl Breaker {
    /// Whether a call may be sent soon; if not, queueing for it is useless.
    ///
    /// # Errors
    /// Why the last call got no answer.
    pub(crate) fn allows(&self, now: Duration) -> Result<(), String> {
        self.state.lock().allows(now)
    }

    /// Whether a call may be sent now; call this right before sending it.
    ///
    /// # Errors
    /// Why the last call got no answer.
    pub(crate) fn check(&self, now: Duration) -> Result<(), String> {
        let mut state = self.state.lock();
        state.allows(now)?;
        if state.silences >= PATIENCE {
            // This call tests the server; the others fail until it is answered, or until the next test.
            state.next = now + PAUSE;
        }
        Ok(())
    }

    /// The server answered, with any status.
    pub(crate) fn answered(&self) {
        let mut state = self.state.lock();
        if state.silences > 0 {
            *state = BreakerState::default();
        }
    }

    /// The server did not answer.
    pub(crate) fn silent(&self, now: Duration, reason: &str) {
        let mut state = self.state.lock();
        state.silences = state.silences.saturating_add(1);
        state.next = now + PAUSE;
        reason.clone_into(&mut state.reason);
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
    fn a_few_lost_answers_stop_no_calls() {
        assert_eq!(silent(PATIENCE - 1).check(NOW), Ok(()));
    }

    #[test]
    fn many_lost_answers_make_calls_fail_at_once_with_the_reason() {
        let reason = silent(PATIENCE).check(NOW).unwrap_err();
        assert_eq!(reason, "refused; it is tried again every 10 s");
    }

    #[test]
    fn one_call_per_pause_tests_the_server() {
        let breaker = silent(PATIENCE);
        assert_eq!(breaker.allows(NOW + PAUSE), Ok(()));
        assert_eq!(breaker.check(NOW + PAUSE), Ok(()));
        assert!(breaker.check(NOW + PAUSE).is_err());
        assert_eq!(breaker.check(NOW + PAUSE * 2), Ok(()));
    }

    #[test]
    fn any_answer_allows_all_calls() {
        let breaker = silent(PATIENCE);
        breaker.answered();
        assert_eq!(breaker.check(NOW), Ok(()));
    }
}
