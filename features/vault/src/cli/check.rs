//! What must hold for a login, check by check, up to the first that fails.

use engine::cli::{Answer, Finding, Outcome};
use serde_json::json;

/// How a check ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    Holds,
    Fails,
    /// It could not be looked at; the finding says why.
    Unchecked,
}

impl State {
    fn word(self) -> &'static str {
        match self {
            Self::Holds => "ok",
            Self::Fails => "FAILS",
            Self::Unchecked => "unchecked",
        }
    }
}

/// What a check found: a sentence, that it fails, or that it could not be told.
pub(super) type Found = Result<String, Refusal>;

/// Why a check does not hold.
#[derive(Debug)]
pub(super) enum Refusal {
    Fails(String),
    Unchecked(String),
}

pub(super) fn fails<T>(why: impl Into<String>) -> Result<T, Refusal> {
    Err(Refusal::Fails(why.into()))
}

pub(super) fn unchecked<T>(why: impl Into<String>) -> Result<T, Refusal> {
    Err(Refusal::Unchecked(why.into()))
}

/// The checks so far.
#[derive(Default)]
pub(super) struct Checks(Vec<(&'static str, State, String)>);

/// A check has failed; the rest need not be looked at.
pub(super) struct Failed;

impl Checks {
    pub(super) fn add(&mut self, what: &'static str, found: Found) -> Result<(), Failed> {
        let (state, said) = match found {
            Ok(said) => (State::Holds, said),
            Err(Refusal::Fails(said)) => (State::Fails, said),
            Err(Refusal::Unchecked(said)) => (State::Unchecked, said),
        };
        self.0.push((what, state, said));
        if state == State::Fails {
            return Err(Failed);
        }
        Ok(())
    }

    pub(super) fn answer(self) -> Answer {
        let failed = self.0.iter().find(|(_, state, _)| *state == State::Fails);
        let unchecked = self
            .0
            .iter()
            .filter(|(_, state, _)| *state == State::Unchecked);
        let remark = match (failed, unchecked.count()) {
            (Some((what, _, said)), _) => format!("It cannot log in: {what}: {said}"),
            (None, 0) => "It can log in.".to_owned(),
            (None, _) => "Nothing that was checked keeps it from logging in.".to_owned(),
        };
        let outcome = Outcome::of(failed.is_none());
        let findings = self.0.into_iter().map(|(what, state, said)| Finding {
            name: what.to_owned(),
            full: json!({"check": what, "state": state.word(), "finding": said}),
            cells: vec![what.to_owned(), state.word().to_owned(), said],
        });
        let columns = &["check", "state", "finding"];
        Answer::table(columns, findings.collect(), outcome).with_remark(remark)
    }
}
