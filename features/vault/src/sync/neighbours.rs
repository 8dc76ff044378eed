//! Waiting for a neighbour that is about to change: writing before it would be writing twice.
//!
//! | the role | its policy | waits at most |
//! |---|---|---|
//! | not in Vault yet | exists, and its first pass is still to come | 10 s |
//! | bound the policy | has just gone: the role often goes, too | 10 s |

use std::collections::HashMap;
use std::time::Duration;

use kernel::ObjectKey;
use parking_lot::Mutex;

use crate::links::Dependent;

/// A waiting object looks again after this long, if no change of its neighbour wakes it.
const RECHECK: Duration = Duration::from_secs(2);
/// And waits no longer than this.
const PATIENCE: Duration = Duration::from_secs(10);

/// What a neighbour is about to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Neighbour {
    /// It has just gone, and may take the object with it.
    Leaving,
    /// It is about to be in Vault.
    Coming,
}

/// What each object waits for, and since when, for as long as the process lives.
#[derive(Default)]
pub(crate) struct Neighbours(Mutex<HashMap<(Dependent, ObjectKey), (Neighbour, Duration)>>);

impl Neighbours {
    /// How long the object should wait before it is looked at again; none if it should go on.
    pub(super) fn wait(
        &self,
        kind: Dependent,
        key: &ObjectKey,
        expected: Option<Neighbour>,
        now: Duration,
    ) -> Option<Duration> {
        let mut waiting = self.0.lock();
        let who = (kind, key.clone());
        let Some(expected) = expected else {
            waiting.remove(&who);
            return None;
        };
        let entry = waiting.entry(who).or_insert((expected, now));
        if entry.0 != expected {
            *entry = (expected, now);
        }
        let waited = now.saturating_sub(entry.1);
        let left = PATIENCE.saturating_sub(waited);
        (!left.is_zero()).then(|| left.min(RECHECK))
    }

    /// The object is gone.
    pub(super) fn forget(&self, kind: Dependent, key: &ObjectKey) {
        self.0.lock().remove(&(kind, key.clone()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn an_object_waits_for_its_neighbour_and_no_longer() {
        let neighbours = Neighbours::default();
        let key = ObjectKey::namespaced("team-a", "r");
        let wait = |expected, seconds: u32| {
            neighbours.wait(Dependent::Role, &key, expected, SECOND * seconds)
        };
        let coming = Some(Neighbour::Coming);
        assert_eq!(wait(coming, 100), Some(RECHECK));
        assert_eq!(wait(coming, 109), Some(SECOND));
        assert_eq!(wait(coming, 110), None, "its patience is over");
        assert_eq!(wait(coming, 500), None, "and does not begin anew");
        let leaving = Some(Neighbour::Leaving);
        assert_eq!(wait(leaving, 500), Some(RECHECK), "this is another matter");
        assert_eq!(wait(leaving, 510), None);
        assert_eq!(wait(None, 511), None);
        assert_eq!(
            wait(leaving, 512),
            Some(RECHECK),
            "the next time begins anew"
        );
    }
}
