//! What is known of tenants beyond their status, and may be lost with the process: the next look
//! finds it again.

use std::collections::HashMap;
use std::time::Duration;

use kernel::ObjectKey;
use parking_lot::Mutex;

use crate::body::Summary;
use crate::diff::Ineffective;

/// What is known of one tenant.
#[derive(Debug, Clone, Default)]
pub(crate) struct Memory {
    /// Something gives reason to look at the tenant in CloudFront.
    pub(crate) doubted: bool,
    /// How the last list showed it.
    pub(crate) seen: Option<Summary>,
    /// When it is next compared whole, tags included.
    pub(crate) whole: Option<Duration>,
    /// When CloudFront made it for us.
    pub(crate) made: Option<Duration>,
    /// When it was first found missing.
    pub(crate) missed: Option<Duration>,
    /// An Update that had no effect.
    pub(crate) ineffective: Option<Ineffective>,
    /// How often its certificate, and its records by hand, were looked at without news.
    pub(crate) certificate_polls: u32,
    pub(crate) record_polls: u32,
    /// The generation for which the holder of its domains was asked.
    pub(crate) asked_holder: Option<i64>,
    /// The spec for which its records were last looked at, and when those refused are again.
    pub(crate) dns_generation: Option<i64>,
    pub(crate) dns_again: Option<Duration>,
    /// Failures of the passing sort in a row.
    failures: u32,
}

/// All of them.
#[derive(Debug, Default)]
pub(crate) struct Memories(Mutex<HashMap<ObjectKey, Memory>>);

impl Memories {
    /// What is known of `key`.
    pub(crate) fn of(&self, key: &ObjectKey) -> Memory {
        self.0.lock().get(key).cloned().unwrap_or_default()
    }

    /// Changes what is known of `key`.
    pub(crate) fn note<T>(&self, key: &ObjectKey, change: impl FnOnce(&mut Memory) -> T) -> T {
        let mut all = self.0.lock();
        if !all.contains_key(key) {
            all.insert(key.clone(), Memory::default());
        }
        change(all.get_mut(key).expect("it was put there just now"))
    }

    /// Counts a failure that should pass by itself; how many there were in a row before it.
    pub(crate) fn failed(&self, key: &ObjectKey) -> u32 {
        self.note(key, |memory| {
            let before = memory.failures;
            memory.failures = before.saturating_add(1);
            before
        })
    }

    /// AWS answered again.
    pub(crate) fn succeeded(&self, key: &ObjectKey) {
        if let Some(memory) = self.0.lock().get_mut(key) {
            memory.failures = 0;
        }
    }

    /// The object is gone.
    pub(crate) fn forget(&self, key: &ObjectKey) {
        self.0.lock().remove(key);
    }
}
