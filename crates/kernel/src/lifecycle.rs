//! The lifecycle of one external resource, as a state machine. Pure.
//!
//! ```text
//! NotRequested ─▶ Requested ─▶ Unconfirmed ─▶ Present ◀─▶ Superseded
//!       ▲             │             │           │  ▲
//!       └─────────────┴── no effect ┘           ▼  │ shown again
//!                                            Missing ─▶ Gone
//!                              Present ─▶ Disabling ─▶ Gone
//! ```
//! For services that are eventually consistent and have no client tokens: after a lost answer or a crash
//! only reads show whether a create had its effect, and a read may be older than our last write.
//!
//! # When not to use it
//! If a create may be repeated safely, with a name or a token that the service checks.

use std::time::Duration;

use jiff::Timestamp;

/// The state of one external resource. `V` is its version, such as an ETag.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Lifecycle<V> {
    /// Nothing of ours exists, and none may appear.
    #[default]
    NotRequested,
    /// The intent is saved, and this process knows that no create was sent under it: nothing of ours
    /// exists, and none may appear.
    Requested,
    /// A create was or may have been sent, at `since` at the latest. One of ours may exist or appear.
    Unconfirmed {
        /// No create was sent after this time.
        since: Timestamp,
    },
    /// It exists: a read or the answer to a write has shown this version.
    Present {
        /// The newest version known.
        version: V,
    },
    /// It exists: our last write replaced `before`, and reads may still show that.
    Superseded {
        /// The version that a stale read shows.
        before: V,
        /// The newest version known.
        version: V,
    },
    /// It existed, and a read that began at `since` was the first that did not show it.
    Missing {
        /// When that read began.
        since: Timestamp,
    },
    /// It exists, and we have disabled it, so that it can be deleted.
    Disabling {
        /// The newest version known.
        version: V,
    },
    /// It existed and is gone. None of ours may appear.
    Gone,
}

/// The result of a call. Only a resource of ours counts as shown: see
/// [`may_touch`](crate::may_touch()).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Observation<V> {
    /// This process saved an intent to create it.
    IntentSaved,
    /// A create is about to be sent.
    CreateSent(Timestamp),
    /// The create certainly had no effect.
    CreateRefused,
    /// A read shows it.
    Shown(V),
    /// A read that began at this time does not show it.
    NotShown(Timestamp),
    /// The answer to our write: the version it replaced, if there was one, and the new one.
    Written {
        /// The version that the write replaced.
        before: Option<V>,
        /// The new version.
        after: V,
    },
    /// The answer to the write that disabled it.
    Disabled(V),
    /// The service has deleted it, or answers that it does not exist to a call that changes it.
    Deleted,
}

/// How old the reads of a service may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timing {
    /// For this long after a create was sent, a read may not show the resource.
    pub appears_within: Duration,
    /// For this long after the first read that did not show it, a resource is only missing, not gone.
    pub missing_for: Duration,
}

/// What is desired.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wanted {
    /// It exists.
    Existing,
    /// It does not exist.
    Absent,
}

/// What to do next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ToDo {
    /// Save an intent to create it.
    SaveIntent,
    /// Create it.
    Create,
    /// Compare it with what is desired.
    Compare,
    /// Disable it.
    Disable,
    /// Delete it.
    Delete,
    /// Read again, at this time at the latest.
    ReadAgain(Timestamp),
    /// Nothing: none of ours exists or may appear.
    Nothing,
}

impl<V: Clone + PartialEq> Lifecycle<V> {
    /// The state for a process that has just started, from the record: the last recorded version, or
    /// the time at which an intent was saved and the time within which its create is sent.
    pub fn recovered(version: Option<V>, intent: Option<(Timestamp, Duration)>) -> Self {
        match (version, intent) {
            (Some(version), _) => Self::Present { version },
            (None, Some((saved, within))) => Self::Unconfirmed {
                since: saved + within,
            },
            (None, None) => Self::NotRequested,
        }
    }

    /// | state        | shown                | not shown                        |
    /// |--------------|----------------------|----------------------------------|
    /// | NotRequested | present              | –                                |
    /// | Requested    | present              | –                                |
    /// | Unconfirmed  | present              | not requested, once it is certain|
    /// | Present      | present              | missing                          |
    /// | Superseded   | present; stale: –    | missing                          |
    /// | Missing      | present              | gone, once it is certain         |
    /// | Disabling    | disabling            | missing                          |
    /// | Gone         | present              | –                                |
    ///
    /// In every state: a saved intent makes it requested, a sent create unconfirmed, the answer to a
    /// write present or superseded, a deletion gone.
    #[must_use]
    pub fn observe(self, observation: Observation<V>, timing: &Timing) -> Self {
        match (observation, self) {
            (Observation::IntentSaved, _) => Self::Requested,
            (Observation::CreateSent(since), _) => Self::Unconfirmed { since },
            (Observation::CreateRefused, Self::Unconfirmed { .. }) => Self::Requested,
            (Observation::CreateRefused, other) => other,
            (Observation::Written { before, after }, _) => match before {
                Some(before) => Self::Superseded {
                    before,
                    version: after,
                },
                None => Self::Present { version: after },
            },
            (Observation::Disabled(version), _) => Self::Disabling { version },
            (Observation::Deleted, _) => Self::Gone,
            (Observation::Shown(shown), Self::Superseded { before, version })
                if shown == before =>
            {
                Self::Superseded { before, version }
            }
            (Observation::Shown(version), Self::Disabling { .. }) => Self::Disabling { version },
            (Observation::Shown(version), _) => Self::Present { version },
            (Observation::NotShown(began), state) => state.not_shown(began, timing),
        }
    }

    fn not_shown(self, began: Timestamp, timing: &Timing) -> Self {
        match self {
            Self::Unconfirmed { since } if began >= since + timing.appears_within => {
                Self::NotRequested
            }
            Self::Missing { since } if began >= since + timing.missing_for => Self::Gone,
            Self::Present { .. } | Self::Superseded { .. } | Self::Disabling { .. } => {
                Self::Missing { since: began }
            }
            Self::NotRequested
            | Self::Requested
            | Self::Unconfirmed { .. }
            | Self::Missing { .. }
            | Self::Gone => self,
        }
    }

    /// | state               | wanted: existing       | wanted: absent         |
    /// |---------------------|------------------------|------------------------|
    /// | NotRequested, Gone  | save an intent         | nothing                |
    /// | Requested           | create                 | nothing                |
    /// | Unconfirmed         | read again             | read again             |
    /// | Present, Superseded | compare                | disable                |
    /// | Missing             | read again             | read again             |
    /// | Disabling           | compare                | delete                 |
    pub fn next(&self, wanted: Wanted, timing: &Timing) -> ToDo {
        match (self, wanted) {
            (Self::NotRequested | Self::Gone, Wanted::Existing) => ToDo::SaveIntent,
            (Self::Requested, Wanted::Existing) => ToDo::Create,
            (Self::NotRequested | Self::Requested | Self::Gone, Wanted::Absent) => ToDo::Nothing,
            (Self::Unconfirmed { since }, _) => ToDo::ReadAgain(*since + timing.appears_within),
            (Self::Missing { since }, _) => ToDo::ReadAgain(*since + timing.missing_for),
            (
                Self::Present { .. } | Self::Superseded { .. } | Self::Disabling { .. },
                Wanted::Existing,
            ) => ToDo::Compare,
            (Self::Present { .. } | Self::Superseded { .. }, Wanted::Absent) => ToDo::Disable,
            (Self::Disabling { .. }, Wanted::Absent) => ToDo::Delete,
        }
    }

    /// Whether a read that shows this version is older than our last write.
    pub fn is_stale(&self, shown: &V) -> bool {
        matches!(self, Self::Superseded { before, .. } if before == shown)
    }
}

#[cfg(test)]
mod tests;
