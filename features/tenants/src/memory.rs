//! What is known of tenants beyond their status, and may be lost with the process: the next look
//! finds it again.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use kernel::ObjectKey;
use parking_lot::Mutex;

use crate::body::{Body, Summary};
use crate::diff::{Ineffective, Plan};
use crate::trouble::Trouble;

/// What is known of one tenant. Times are the engine's clock's.
///
/// There are many, and most know little: what is large and rare is boxed.
#[derive(Debug, Clone, Default)]
pub(crate) struct Memory {
    /// Something gives reason to look at the tenant in CloudFront.
    pub(crate) doubted: bool,
    /// How the last list showed it.
    pub(crate) seen: Option<Box<Summary>>,
    /// When it is next compared whole, tags included.
    pub(crate) whole: Option<Duration>,
    /// When it was last asked for without an answer.
    pub(crate) asked: Option<Duration>,
    /// When CloudFront made it for us.
    pub(crate) made: Option<Duration>,
    /// What a Create was refused with while an older one may still come to light.
    pub(crate) refused: Option<aws::Error>,
    /// That every Create since the first was answered; not known after a restart.
    pub(crate) answered: bool,
    /// When it was first found missing.
    pub(crate) missed: Option<Duration>,
    /// The version that our last write replaced: a read that shows it is behind.
    pub(crate) replaced: Option<String>,
    /// An Update without an answer, until a new version shows what became of it.
    pub(crate) unheard: Option<Box<Unheard>>,
    /// When others' changes were last undone.
    pub(crate) corrected: Option<Duration>,
    /// The last Update, until a read shows what came of it.
    pub(crate) sent: Option<Box<Accepted>>,
    /// The spec whose Update CloudFront refused: its records go on without it.
    pub(crate) update_refused: Option<i64>,
    /// The spec of which a pass planned records while CloudFront is left alone: the next pass only
    /// sends them.
    pub(crate) sends_records: Option<i64>,
    /// An Update that had no effect.
    pub(crate) ineffective: Option<Box<Ineffective>>,
    /// That the condition was asked for one that an earlier process sent.
    pub(crate) recalled: bool,
    /// How often its certificate was looked at without news, and when it is next.
    pub(crate) certificate_polls: u32,
    pub(crate) certificate_due: Option<Duration>,
    /// How often its request was sent again because CloudFront knew nothing of it.
    pub(crate) resent: u32,
    /// The same of records that somebody else makes.
    pub(crate) record_polls: u32,
    pub(crate) records_due: Option<Duration>,
    /// The generation for which the holder of its domains was asked.
    pub(crate) asked_holder: Option<i64>,
    /// The spec for which its records were last looked at, and when those refused are again.
    pub(crate) dns_generation: Option<i64>,
    pub(crate) dns_again: Option<Duration>,
    /// What went wrong in CloudFront, with the tags there, and in Route 53.
    pub(crate) trouble: Trouble,
    pub(crate) tags_trouble: Trouble,
    pub(crate) dns_trouble: Trouble,
    /// Who wants something that this one has.
    waiters: BTreeSet<ObjectKey>,
}

/// An Update that may have been taken.
#[derive(Debug, Clone)]
pub(crate) struct Unheard {
    /// The version it was for.
    pub(crate) etag: String,
    pub(crate) generation: Option<i64>,
    pub(crate) plan: Plan,
}

/// An Update that CloudFront accepted.
#[derive(Debug, Clone)]
pub(crate) struct Accepted {
    pub(crate) body: Body,
    /// The version it made.
    pub(crate) etag: String,
}

/// All of them.
#[derive(Debug, Default)]
pub(crate) struct Memories(Mutex<HashMap<ObjectKey, Box<Memory>>>);

impl Memories {
    /// What is known of `key`.
    pub(crate) fn of(&self, key: &ObjectKey) -> Memory {
        let all = self.0.lock();
        all.get(key)
            .map(|memory| (**memory).clone())
            .unwrap_or_default()
    }

    /// Changes what is known of `key`.
    pub(crate) fn note<T>(&self, key: &ObjectKey, change: impl FnOnce(&mut Memory) -> T) -> T {
        let mut all = self.0.lock();
        if !all.contains_key(key) {
            all.insert(key.clone(), Box::default());
        }
        change(all.get_mut(key).expect("it was put there just now"))
    }

    /// Has `waiter` told when `holder` changes.
    pub(crate) fn wait_for(&self, holder: &ObjectKey, waiter: &ObjectKey) {
        self.note(holder, |memory| memory.waiters.insert(waiter.clone()));
    }

    /// Those who are to be told that `holder` changed. Who is still in want waits anew.
    pub(crate) fn waiting(&self, holder: &ObjectKey) -> BTreeSet<ObjectKey> {
        let mut all = self.0.lock();
        let memory = all.get_mut(holder);
        memory
            .map(|memory| std::mem::take(&mut memory.waiters))
            .unwrap_or_default()
    }

    /// The tenant is gone, and another is made: who waits for the object waits on.
    pub(crate) fn begin_anew(&self, key: &ObjectKey) {
        self.note(key, |memory| {
            let waiters = std::mem::take(&mut memory.waiters);
            *memory = Memory {
                waiters,
                ..Memory::default()
            };
        });
    }

    /// The object is gone.
    pub(crate) fn forget(&self, key: &ObjectKey) {
        self.0.lock().remove(key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_waits_is_told_once_and_may_wait_anew() {
        let memories = Memories::default();
        let (holder, waiter) = (ObjectKey::of(Some("a"), "x"), ObjectKey::of(Some("b"), "x"));
        memories.wait_for(&holder, &waiter);
        memories.wait_for(&holder, &waiter);
        assert_eq!(memories.waiting(&holder), BTreeSet::from([waiter.clone()]));
        assert_eq!(memories.waiting(&holder), BTreeSet::new());
        memories.wait_for(&holder, &waiter);
        assert_eq!(memories.waiting(&holder).len(), 1);
    }

    #[test]
    fn one_takes_little_room() {
        assert!(size_of::<Memory>() <= 640, "{}", size_of::<Memory>());
    }

    #[test]
    fn nobody_waits_for_one_who_is_gone() {
        let memories = Memories::default();
        let (holder, waiter) = (ObjectKey::of(Some("a"), "x"), ObjectKey::of(Some("b"), "x"));
        memories.wait_for(&holder, &waiter);
        memories.forget(&holder);
        assert_eq!(memories.waiting(&holder), BTreeSet::new());
    }
}
