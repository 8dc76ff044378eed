//! Whether we may create, rewrite, release or remove the lock.

use super::{ForeignLock, Lock, LockOwnership, LockPhase, StoredLock, ownership};

/// What is to become of the lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LockGoal {
    /// Take it: at the freeze, and when a released run begins to move again.
    Acquire,
    /// Update its mirror during the run.
    Mirror,
    /// Leave it with the last journal, as the run has ended. Not to be repeated after that: a
    /// person may remove a released lock.
    Release,
    /// Remove it.
    Remove,
    /// Bind it to the migration that a person restored from it, also in another cluster or under
    /// another name. Only on the command of a person: the old migration then loses its lock.
    Restore,
}

impl LockGoal {
    /// The phase of a lock that is written for this goal.
    pub fn phase(self) -> LockPhase {
        match self {
            Self::Acquire | Self::Mirror | Self::Remove | Self::Restore => LockPhase::Active,
            Self::Release => LockPhase::Released,
        }
    }
}

/// What may be done with the lock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LockAction {
    /// Create it. If it exists by then, read it and decide again.
    Create,
    /// Rewrite exactly the version that was read.
    Rewrite,
    /// Delete exactly the version that was read.
    Delete,
    /// Nothing is to be done.
    Nothing,
    /// The run has lost its lock: somebody deleted it. Write nothing.
    Lost,
    /// It is not ours. Write nothing.
    Refuse(ForeignLock),
}

/// What may be done for a goal.
///
/// | found              | acquire | mirror  | release | remove  | restore |
/// |--------------------|---------|---------|---------|---------|---------|
/// | none               | create  | lost    | create  | nothing | create  |
/// | ours, current      | nothing | nothing | nothing | delete  | nothing |
/// | ours, outdated     | rewrite | rewrite | rewrite | delete  | rewrite |
/// | our run, elsewhere | refuse  | refuse  | refuse  | nothing | rewrite |
/// | another run        | refuse  | refuse  | refuse  | nothing | refuse  |
///
/// Current means that it equals `wanted` in every key, its state included. A foreign lock is
/// neither rewritten nor removed, whatever its state. A run that ends without its lock creates
/// it once more: the journal must not be lost with the migration.
pub fn next_action(goal: LockGoal, found: Option<&StoredLock>, wanted: &Lock) -> LockAction {
    match ownership(found, &wanted.identity) {
        LockOwnership::Missing => if_missing(goal),
        LockOwnership::Ours => if_ours(goal, found, wanted),
        LockOwnership::Foreign(owner) => if_foreign(goal, owner, wanted),
    }
}

fn if_missing(goal: LockGoal) -> LockAction {
    match goal {
        LockGoal::Acquire | LockGoal::Release | LockGoal::Restore => LockAction::Create,
        LockGoal::Mirror => LockAction::Lost,
        LockGoal::Remove => LockAction::Nothing,
    }
}

fn if_ours(goal: LockGoal, found: Option<&StoredLock>, wanted: &Lock) -> LockAction {
    let is_current = || {
        let found = found.map(StoredLock::content_sha256);
        found.as_deref() == Some(&*wanted.content_sha256())
    };
    match goal {
        LockGoal::Remove => LockAction::Delete,
        LockGoal::Acquire | LockGoal::Mirror | LockGoal::Release | LockGoal::Restore => {
            if is_current() {
                LockAction::Nothing
            } else {
                LockAction::Rewrite
            }
        }
    }
}

fn if_foreign(goal: LockGoal, owner: ForeignLock, wanted: &Lock) -> LockAction {
    match goal {
        LockGoal::Remove => LockAction::Nothing,
        LockGoal::Restore if owner.holder == wanted.identity.run_id => LockAction::Rewrite,
        LockGoal::Acquire | LockGoal::Mirror | LockGoal::Release | LockGoal::Restore => {
            LockAction::Refuse(owner)
        }
    }
}
