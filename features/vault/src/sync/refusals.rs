//! What a server has refused as wrong: it is not asked again until something about it changes.

use std::collections::HashMap;

use api::vault::{names as words, reasons};
use engine::Pass;
use kernel::{ObjectKey, Reason};
use parking_lot::Mutex;

use super::Stop;
use crate::links::Dependent;

/// The last refusal of each object, for as long as the process lives.
#[derive(Default)]
pub(crate) struct Refusals(Mutex<HashMap<(Dependent, ObjectKey), (u64, Reason)>>);

impl Refusals {
    /// Stops the pass if the server has refused the same question. Who asks for a pass by hand gets
    /// one.
    pub(crate) fn check(&self, kind: Dependent, pass: &Pass, asked: u64) -> Result<(), Stop> {
        if pass.object().annotation(words::RECONCILE_NOW).is_some() {
            return Ok(());
        }
        let key = (kind, pass.key().clone());
        match self.0.lock().get(&key) {
            Some((question, reason)) if *question == asked => Err(Stop::blocked(reason.clone())),
            Some(_) | None => Ok(()),
        }
    }

    /// Takes in how the question was answered.
    pub(crate) fn note(
        &self,
        kind: Dependent,
        key: &ObjectKey,
        asked: u64,
        ended: &Result<(), Stop>,
    ) {
        let key = (kind, key.clone());
        match ended {
            Err(Stop::Blocked { reason }) if reason.code == reasons::VALIDATION_FAILED => {
                self.0.lock().insert(key, (asked, reason.clone()));
            }
            Ok(()) => drop(self.0.lock().remove(&key)),
            Err(_) => {}
        }
    }

    /// The object is gone.
    pub(crate) fn forget(&self, kind: Dependent, key: &ObjectKey) {
        self.0.lock().remove(&(kind, key.clone()));
    }
}
