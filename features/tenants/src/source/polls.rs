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
use super::prune::{self, Facts, Misses, Missing, Verdict};

/// What is remembered of one source.
#[derive(Debug, Clone, Default)]
pub(super) struct Memory {
    /// Which source, as which spec: readings of another count for nothing.
    whose: (String, Option<i64>),
    /// When it is to be read; none: at once.
    pub(super) due: Option<Duration>,
    /// The last reading's work is not done. Reading on is no further confirmation.
    unfinished: bool,
    /// Nothing was read since the process began, or since the spec changed.
    first: bool,
    misses: Misses,
    /// Objects that were let go, by UID: those among them that are still there may go without being
    /// asked for again.
    let_go: BTreeSet<String>,
    pub(super) answers: Answers,
    /// Readings in a row that AWS failed to answer.
    pub(super) failures: u32,
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

    /// Decides on the objects without a row, and remembers that this reading missed them.
    pub(super) fn judge(&mut self, source: &TenantSource, found: &Found) -> Judged {
        let missing = &*found.plan.missing;
        let rules = source.spec.prune.unwrap_or_default();
        let known = source
            .status
            .as_ref()
            .and_then(|status| status.plan_hash.as_deref());
        let was_blocked = self.first && known == Some(&*prune::hash(missing));
        self.misses = if was_blocked {
            let confirmed = |one: &Missing| (one.uid.clone(), rules.confirm_polls);
            missing.iter().map(confirmed).collect()
        } else if self.unfinished {
            std::mem::take(&mut self.misses)
        } else {
            prune::counted(&self.misses, missing)
        };
        self.first = false;
        let here: BTreeSet<&str> = missing.iter().map(|one| &*one.uid).collect();
        self.let_go.retain(|uid| here.contains(&**uid));
        let annotations = source.metadata.annotations.as_ref();
        let approved = annotations.and_then(|all| all.get(names::APPROVE_PRUNE));
        let verdict = prune::verdict(&Facts {
            rules,
            rows: found.tenants.rows,
            marked: found.plan.marked,
            missing,
            misses: &self.misses,
            approved: approved.map(String::as_str),
        });
        let verdict = match verdict {
            Verdict::Blocked { set, .. }
                if set.iter().all(|one| self.let_go.contains(&one.uid)) =>
            {
                Verdict::Delete(set)
            }
            other => other,
        };
        if let Verdict::Delete(set) = &verdict {
            self.let_go.extend(set.iter().map(|one| one.uid.clone()));
        }
        Judged {
            verdict,
            misses: self.misses.clone(),
        }
    }

    /// The objects are about to be written. Until all are, reading on is no further confirmation.
    pub(super) fn begin(&mut self) {
        self.failures = 0;
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
