//! What a service has refused is not asked again at once.

use std::collections::HashMap;
use std::time::Duration;

use kernel::{CallError, Class};

/// After the first refusal, and after every later one in a row.
const USUAL: [Duration; 2] = [Duration::from_secs(5 * 60), Duration::from_secs(30 * 60)];

/// How long a refusal usually holds; none for an error that time alone may cure.
pub(super) fn usual(class: Class, count: u32) -> Option<Duration> {
    match class {
        Class::Denied | Class::Invalid | Class::LimitExceeded => {
            Some(USUAL[usize::from(count > 0)])
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

/// The last refusal by concern. While it is in force, a step of that concern gets the same refusal again
/// without a call; so `next` and `status` behave as if the call had been made.
///
/// An edit of the spec, a success and a person who asks for a pass end it.
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

    /// Keeps how a step ended. `pace` says how long its refusal holds, from the refusals before it.
    pub(super) fn note(
        &mut self,
        concern: String,
        generation: i64,
        elapsed: Duration,
        error: Option<&CallError>,
        pace: impl Fn(&CallError, u32) -> Option<Duration>,
    ) {
        let before = self.refusals.get(&concern);
        let count = before.map_or(0, |refusal| refusal.count);
        let held = error.and_then(|error| Some((error.clone(), pace(error, count)?)));
        let Some((error, pause)) = held else {
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

    /// A person asks for a pass: everything may be tried again.
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

    fn note(hold_off: &mut HoldOff, elapsed: Duration, error: Option<&CallError>) {
        let pace = |error: &CallError, count| usual(error.class, count);
        hold_off.note("create".to_owned(), 1, elapsed, error, pace);
    }

    #[test]
    fn a_refusal_holds_five_minutes_then_thirty() {
        let mut hold_off = HoldOff::default();
        note(&mut hold_off, Duration::ZERO, Some(&denied()));
        assert_eq!(hold_off.refusal("create", 1, 4 * MINUTE), Some(denied()));
        assert_eq!(hold_off.refusal("create", 1, 5 * MINUTE), None);
        note(&mut hold_off, 5 * MINUTE, Some(&denied()));
        assert_eq!(hold_off.refusal("create", 1, 34 * MINUTE), Some(denied()));
        assert_eq!(hold_off.refusal("create", 1, 35 * MINUTE), None);
    }

    #[test]
    fn an_edit_a_success_and_a_person_end_it() {
        let mut hold_off = HoldOff::default();
        note(&mut hold_off, Duration::ZERO, Some(&denied()));
        assert_eq!(hold_off.refusal("create", 2, MINUTE), None);
        assert_eq!(hold_off.refusal("delete", 1, MINUTE), None);
        note(&mut hold_off, MINUTE, None);
        assert_eq!(hold_off.refusal("create", 1, MINUTE), None);
        note(&mut hold_off, MINUTE, Some(&denied()));
        hold_off.clear();
        assert_eq!(hold_off.refusal("create", 1, MINUTE), None);
    }

    #[test]
    fn what_time_cures_is_not_held_off() {
        let mut hold_off = HoldOff::default();
        let error = CallError::new(Class::Throttled, "too many");
        note(&mut hold_off, Duration::ZERO, Some(&error));
        assert_eq!(hold_off.refusal("create", 1, Duration::ZERO), None);
    }
}
