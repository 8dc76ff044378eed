//! A step that a service refused is not sent again at once.

use std::collections::HashMap;
use std::time::Duration;

use kernel::{CallError, Class};

/// The hold-off after the first refusal, and after each further consecutive one.
const DEFAULT_HOLD_OFF: [Duration; 2] = [Duration::from_secs(5 * 60), Duration::from_secs(30 * 60)];

/// The default hold-off after an error; none for an error that may pass by itself.
pub(super) fn default_hold_off(class: Class, count: u32) -> Option<Duration> {
    match class {
        Class::Denied | Class::Invalid | Class::LimitExceeded => {
            Some(DEFAULT_HOLD_OFF[usize::from(count > 0)])
        }
        Class::Throttled
        | Class::Transient
        | Class::Unreachable
        | Class::NotFound
        | Class::AlreadyExists
        | Class::Conflict
        | Class::Stale
        | Class::Sealed
        | Class::Deposed => None,
    }
}

/// The last refusal of each concern. While it is in force, a step of that concern gets the same refusal
/// without a call. So `next` and `status` behave as after a call.
///
/// An edit of the spec, a success and an urgent pass end it.
#[derive(Debug, Default)]
pub(super) struct HoldOff {
    refusals: HashMap<String, Refusal>,
}

#[derive(Debug)]
struct Refusal {
    error: CallError,
    generation: i64,
    until: Duration,
    count: u32,
}

impl HoldOff {
    /// The refusal that is in force.
    pub(super) fn refusal(
        &self,
        concern: &str,
        generation: i64,
        elapsed: Duration,
    ) -> Option<CallError> {
        let refusal = self.refusals.get(concern)?;
        let is_in_force = refusal.generation == generation && elapsed < refusal.until;
        is_in_force.then(|| refusal.error.clone())
    }

    /// Records how a step ended. `pace` gives the hold-off from the error and the number of refusals before.
    pub(super) fn record(
        &mut self,
        concern: String,
        generation: i64,
        elapsed: Duration,
        error: Option<&CallError>,
        pace: impl Fn(&CallError, u32) -> Option<Duration>,
    ) {
        let before = self.refusals.get(&concern);
        let count = before.map_or(0, |refusal| refusal.count);
        let refused = error.and_then(|error| Some((error.clone(), pace(error, count)?)));
        let Some((error, pause)) = refused else {
            self.refusals.remove(&concern);
            return;
        };
        let refusal = Refusal {
            error,
            generation,
            until: elapsed.saturating_add(pause),
            count: count.saturating_add(1),
        };
        self.refusals.insert(concern, refusal);
    }

    /// Ends all hold-offs, because a person waits for the pass.
    pub(super) fn clear(&mut self) {
        self.refusals.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: Duration = Duration::from_secs(60);

    fn denied() -> CallError {
        CallError::new(Class::Denied, "not permitted")
    }

    fn record(hold_off: &mut HoldOff, elapsed: Duration, error: Option<&CallError>) {
        let pace = |error: &CallError, count| default_hold_off(error.class, count);
        hold_off.record("create".to_owned(), 1, elapsed, error, pace);
    }

    #[test]
    fn a_step_is_held_off_for_5_and_then_30_minutes() {
        let mut hold_off = HoldOff::default();
        record(&mut hold_off, Duration::ZERO, Some(&denied()));
        assert_eq!(hold_off.refusal("create", 1, 4 * MINUTE), Some(denied()));
        assert_eq!(hold_off.refusal("create", 1, 5 * MINUTE), None);
        record(&mut hold_off, 5 * MINUTE, Some(&denied()));
        assert_eq!(hold_off.refusal("create", 1, 34 * MINUTE), Some(denied()));
        assert_eq!(hold_off.refusal("create", 1, 35 * MINUTE), None);
    }

    #[test]
    fn an_edit_a_success_and_an_urgent_pass_end_a_hold_off() {
        let mut hold_off = HoldOff::default();
        record(&mut hold_off, Duration::ZERO, Some(&denied()));
        assert_eq!(hold_off.refusal("create", 2, MINUTE), None);
        assert_eq!(hold_off.refusal("delete", 1, MINUTE), None);
        record(&mut hold_off, MINUTE, None);
        assert_eq!(hold_off.refusal("create", 1, MINUTE), None);
        record(&mut hold_off, MINUTE, Some(&denied()));
        hold_off.clear();
        assert_eq!(hold_off.refusal("create", 1, MINUTE), None);
    }

    #[test]
    fn an_error_that_passes_by_itself_is_not_held_off() {
        let mut hold_off = HoldOff::default();
        let error = CallError::new(Class::Throttled, "too many");
        record(&mut hold_off, Duration::ZERO, Some(&error));
        assert_eq!(hold_off.refusal("create", 1, Duration::ZERO), None);
    }
}
