//! What `pontoon doctor` looks at, and what it found.

/// One thing looked at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Check {
    /// What it is.
    pub what: String,
    /// How it is.
    pub state: State,
    /// What was found, and what to do if that is not as it should be.
    pub finding: String,
}

/// How something is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// As it should be.
    Fine,
    /// Nothing stands in the way, but somebody should know.
    Doubtful,
    /// In the way.
    Wrong,
}

impl Check {
    /// It is as it should be.
    pub fn fine(what: impl Into<String>, finding: impl Into<String>) -> Self {
        Self::new(what, State::Fine, finding)
    }

    /// Somebody should know of it.
    pub fn doubtful(what: impl Into<String>, finding: impl Into<String>) -> Self {
        Self::new(what, State::Doubtful, finding)
    }

    /// It stands in the way; `finding` says what to do.
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
