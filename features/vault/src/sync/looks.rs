//! When each object was last found in order: what only its neighbours changed needs no second look.

use std::collections::HashMap;
use std::time::Duration;

use api::vault::{SyncStatus, conditions};
use engine::Pass;
use kernel::{ObjectKey, is_true};
use parking_lot::Mutex;

use super::{Applied, Ground};
use crate::links::Dependent;

/// The last good look at each object, for as long as the process lives: what was asked, and when.
#[derive(Default)]
pub(crate) struct Looks(Mutex<HashMap<(Dependent, ObjectKey), (u64, Duration)>>);

impl Looks {
    /// How long the last look still serves, if Vault was found in order with the same question less
    /// than half a `resync` ago. A resync comes later than that, and so always looks; so does what a
    /// person asked for.
    pub(super) fn serves(
        &self,
        kind: Dependent,
        pass: &Pass,
        asked: u64,
        resync: Duration,
    ) -> Option<Duration> {
        if pass.is_urgent() {
            return None;
        }
        let key = (kind, pass.key().clone());
        let (question, at) = *self.0.lock().get(&key)?;
        let age = pass.clock().elapsed().saturating_sub(at);
        let is_fresh = question == asked && age < resync / 2;
        is_fresh.then(|| resync.saturating_sub(age))
    }

    /// Takes in how a look ended; none if it did not come to its end.
    pub(super) fn note(&self, kind: Dependent, pass: &Pass, asked: u64, applied: Option<&Applied>) {
        let key = (kind, pass.key().clone());
        let is_well = |applied: &Applied| applied.drift.is_empty() && applied.next.is_none();
        if applied.is_some_and(is_well) {
            let now = pass.clock().elapsed();
            self.0.lock().insert(key, (asked, now));
        } else {
            self.0.lock().remove(&key);
        }
    }

    /// The object is gone.
    pub(super) fn forget(&self, kind: Dependent, key: &ObjectKey) {
        self.0.lock().remove(&(kind, key.clone()));
    }
}

/// Whether the status says that nothing is open.
pub(super) fn is_settled(sync: &SyncStatus, ground: &Ground) -> bool {
    is_true(&sync.conditions, conditions::READY)
        && !ground.unobserved
        && !ground.dry_run
        && sync.drift_detected != Some(true)
        && sync.intent.is_none()
        && sync.previous_names.is_empty()
}
