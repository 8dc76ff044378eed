//! What a pass does next, and where its run stands.

use std::time::Duration;

use api::migrate::{Phase, StatefulSetMigrationStatus};
use kernel::Class;

use super::{Read, Write};
use crate::migration::decision::{Interference, Wait};
use crate::migration::pass::Memory;

/// What a pass does next, and what status shows of it.
#[derive(Debug, Clone, PartialEq)]
pub struct Decided {
    /// What the pass does next.
    pub next: Move,
    /// Where the run stands.
    pub situation: Situation,
    /// The record after this pass.
    pub record: StatefulSetMigrationStatus,
    /// What the process remembers after it.
    pub memory: Memory,
    /// The phases that the run has entered in this pass.
    pub phases: Vec<Phase>,
    /// The reason of `Ready` while the run has not ended: that of the situation, or the phase.
    pub reason: String,
    /// What goes with it.
    pub message: String,
}

/// What a pass does next.
#[derive(Debug, Clone, PartialEq)]
pub enum Move {
    /// It reads.
    Read(Vec<Read>),
    /// It changes something.
    Write(Box<Write>),
    /// It ends, and another one comes after this time at the latest.
    Wait(Duration),
    /// It ends. A person has to change something.
    Block,
    /// It ends: nothing is left to do.
    End,
    /// It ends with an error of the own cluster.
    Fail(Class),
}

/// Where a run stands.
#[derive(Debug, Clone, PartialEq)]
pub enum Situation {
    /// It goes on.
    Progressing,
    /// Something takes time.
    Waiting {
        /// What.
        wait: Wait,
        /// Whether the wait is beyond its limit.
        is_stalled: bool,
    },
    /// Somebody interferes.
    Held(Interference),
    /// A person has asked for a pause.
    PauseRequested,
    /// As many ordinals have moved as `ordinalLimit` allows.
    LimitReached,
    /// The object is being deleted, and `spec.abort` has to say what happens to its ordinals.
    AwaitingAbort,
    /// The run has ended or failed, or was not allowed to begin: a person acts next.
    Resting,
    /// The stored spec breaks a rule.
    InvalidSpec,
    /// A call of the operator's own cluster failed.
    CallFailed,
}
