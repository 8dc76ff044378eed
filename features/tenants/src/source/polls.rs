//! What is remembered of sources between their readings. All of it may be lost with the process:
//! then a table is read at once, and deletions wait for as many readings as they would have.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use api::tenants::{TenantSource, names};
use kernel::ObjectKey;
use parking_lot::Mutex;

use super::apply::Done;
use super::compare::Found;
use super::plan::Answers;
use super::prune::{self, Facts, Misses, Missing, Objection, Verdict};
use crate::trouble::Trouble;

/// What is remembered of one source.
#[derive(Debug, Clone, Default)]
pub(super) struct Memory {
    /// Which source, as which spec: readings of another count for nothing.
    whose: (String, Option<i64>),
    /// When it is to be read; none: at once.
    pub(super) due: Option<Duration>,
    /// The last reading's work is not done. Reading on is no further confirmation, until the next
    /// reading would have been due: one object that fails for good holds up no other.
    unfinished: bool,
    /// When the last reading was counted.
    counted: Duration,
    /// Nothing was read since the process began, or since the spec changed.
    first: bool,
    misses: Misses,
    /// Objects that were let go, by UID: those among them that are still there do not become too
    /// many because others have gone.
    let_go: BTreeSet<String>,
    /// Those of them that somebody has approved: they go without being asked for again.
    approved: BTreeSet<String>,
    pub(super) answers: Answers,
    /// The tenant up to which the last pass came, if it could not do all. The next one begins after
    /// it, so that refused objects do not use up every pass.
    pub(super) stopped_at: Option<String>,
    /// What AWS did instead of giving the table.
    pub(super) trouble: Trouble,
    /// What was done and no status tells yet.
    pub(super) untold: Tally,
}

/// How many objects were made, changed and deleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Tally {
    pub(super) created: usize,
    pub(super) updated: usize,
    pub(super) pruned: usize,
}

impl Memory {
    fn new(whose: (String, Option<i64>)) -> Self {
        Self {
            whose,
            first: true,
            ..Self::default()
        }
    }

    /// Decides on the objects without a row, and remembers that this reading, begun at `now`,
    /// missed them.
    pub(super) fn judge(&mut self, source: &TenantSource, found: &Found, now: Duration) -> Judged {
        let missing = &*found.plan.missing;
        self.miss(source, missing, now);
        let annotations = source.metadata.annotations.as_ref();
        let approval = annotations.and_then(|all| all.get(names::APPROVE_PRUNE));
        let approval = approval.map(|given| given.trim());
        let verdict = prune::verdict(&Facts {
            rules: source.spec.prune.unwrap_or_default(),
            rows: found.tenants.rows,
            nameless: found.tenants.nameless,
            marked: found.plan.marked,
            missing,
            misses: &self.misses,
            approved: approval,
        });
        let verdict = match verdict {
            Verdict::Blocked { set, why, .. } if self.lets_go(&set, why) => Verdict::Delete(set),
            other => other,
        };
        if let Verdict::Delete(set) = &verdict {
            let uids = || set.iter().map(|one| one.uid.clone());
            self.let_go.extend(uids());
            if approval == Some(&*prune::hash(set)) {
                self.approved.extend(uids());
            }
        }
        Judged {
            verdict,
            misses: self.misses.clone(),
        }
    }

    /// Whether all of `set` was let go before, in spite of `why`.
    fn lets_go(&self, set: &[Missing], why: Objection) -> bool {
        let before = match why {
            Objection::TooMany { .. } => &self.let_go,
            Objection::Empty | Objection::Nameless(_) => &self.approved,
        };
        set.iter().all(|one| before.contains(&one.uid))
    }

    /// Counts the readings that missed each object. What has its row again is forgotten.
    fn miss(&mut self, source: &TenantSource, missing: &[Missing], now: Duration) {
        let here: BTreeSet<&str> = missing.iter().map(|one| &*one.uid).collect();
        let is_here = |uid: &String| here.contains(&**uid);
        self.let_go.retain(is_here);
        self.approved.retain(is_here);
        let known = source.status.as_ref();
        let known = known.and_then(|status| status.plan_hash.as_deref());
        let was_blocked = self.first && known == Some(&*prune::hash(missing));
        self.first = false;
        let interval = source.spec.poll_interval.length();
        if was_blocked {
            let confirm = source.spec.prune.unwrap_or_default().confirm_polls;
            let confirmed = |one: &Missing| (one.uid.clone(), confirm);
            self.misses = missing.iter().map(confirmed).collect();
        } else if self.unfinished && now < self.counted.saturating_add(interval) {
            self.misses.retain(|uid, _| is_here(uid));
            return;
        } else {
            self.misses = prune::counted(&self.misses, missing);
        }
        self.counted = now;
    }

    /// The objects are about to be written. Until all are, reading on is no further confirmation.
    pub(super) fn begin(&mut self) {
        self.trouble.over();
        self.unfinished = true;
        self.due = None;
    }

    /// Remembers what was done until a status tells it.
    pub(super) fn count(&mut self, done: &Done) {
        self.answers.extend(done.answers.clone());
        self.untold.created += done.created.len();
        self.untold.updated += done.updated.len();
        self.untold.pruned += done.pruned.len();
    }

    /// The status tells what was done; if that was all, the next reading is `due` then.
    pub(super) fn end(&mut self, done: &Done, due: Duration) {
        self.untold = Tally::default();
        if done.failed.is_none() && done.open() == 0 {
            self.unfinished = false;
            self.due = Some(due);
        }
    }
}

/// What becomes of the objects without a row, and how often each was missed.
#[derive(Debug)]
pub(super) struct Judged {
    pub(super) verdict: Verdict,
    pub(super) misses: Misses,
}

/// All of them.
#[derive(Debug, Default)]
pub(super) struct Polls(Mutex<HashMap<ObjectKey, Memory>>);

impl Polls {
    /// What is known of `source` as it is now.
    pub(super) fn of(&self, key: &ObjectKey, source: &TenantSource) -> Memory {
        let meta = &source.metadata;
        let whose = (meta.uid.clone().unwrap_or_default(), meta.generation);
        match self.0.lock().get(key) {
            Some(held) if held.whose == whose => held.clone(),
            Some(held) if held.whose.0 == whose.0 => Memory {
                untold: held.untold,
                ..Memory::new(whose)
            },
            Some(_) | None => Memory::new(whose),
        }
    }

    pub(super) fn keep(&self, key: &ObjectKey, memory: Memory) {
        self.0.lock().insert(key.clone(), memory);
    }

    pub(super) fn forget(&self, key: &ObjectKey) {
        self.0.lock().remove(key);
    }
}

#[cfg(test)]
mod tests;
