//! The checks of `pontoon doctor` and their results.

/// The result of one check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Check {
    /// What was checked.
    pub what: String,
    /// The state.
    pub state: State,
    /// What was found, and what to do about it.
    pub finding: String,
}

/// The state of what was checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// Correct.
    Fine,
    /// The operator works, but a user should know about it.
    Doubtful,
    /// The operator cannot work.
    Wrong,
}

impl Check {
    /// A correct state.
    pub fn fine(what: impl Into<String>, finding: impl Into<String>) -> Self {
        Self::new(what, State::Fine, finding)
    }

    /// A state that a user should know about.
    pub fn doubtful(what: impl Into<String>, finding: impl Into<String>) -> Self {
        Self::new(what, State::Doubtful, finding)
    }

    /// A state in which the operator cannot work. `finding` says what to do.
    pub fn wrong(what: impl Into<String>, finding: impl Into<String>) -> Self {
        Self::new(what, State::Wrong, finding)
    }

    fn new(what: impl Into<String>, state: State, finding: impl Into<String>) -> Self {
        Self {
            what: what.into(),
            state,
            finding: finding.into(),
        }
    }
}
