//! Conditions and events of one pass.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kernel::{Conditions, Reason, find};

use crate::Note;

/// Whether a condition holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Truth {
    /// It holds.
    True,
    /// It does not.
    False,
    /// It cannot be determined.
    Unknown,
}

impl Truth {
    fn as_str(self) -> &'static str {
        match self {
            Self::True => "True",
            Self::False => "False",
            Self::Unknown => "Unknown",
        }
    }
}

impl From<bool> for Truth {
    fn from(holds: bool) -> Self {
        if holds { Self::True } else { Self::False }
    }
}

/// Conditions and events of one pass. Conditions that the report does not name keep their value.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Report {
    conditions: Vec<(&'static str, Option<(Truth, Reason)>)>,
    transitions: Vec<(&'static str, Compared, Note)>,
    events: Vec<Note>,
}

/// Which part of a condition must differ for an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Compared {
    Reason,
    Message,
}

impl Report {
    /// Sets a condition.
    #[must_use]
    pub fn condition(
        mut self,
        kind: &'static str,
        truth: impl Into<Truth>,
        reason: Reason,
    ) -> Self {
        self.conditions.push((kind, Some((truth.into(), reason))));
        self
    }

    /// Removes a condition that no longer applies to this object.
    #[must_use]
    pub fn without(mut self, kind: &'static str) -> Self {
        self.conditions.push((kind, None));
        self
    }

    /// Emits `note` if this report changes the status or the reason of the condition `kind`.
    #[must_use]
    pub fn event_on_new_reason(mut self, kind: &'static str, note: Note) -> Self {
        self.transitions.push((kind, Compared::Reason, note));
        self
    }

    /// The same, also if only the message changes.
    #[must_use]
    pub fn event_on_new_message(mut self, kind: &'static str, note: Note) -> Self {
        self.transitions.push((kind, Compared::Message, note));
        self
    }

    /// Emits `note` in any case: something has happened outside.
    #[must_use]
    pub fn event(mut self, note: Note) -> Self {
        self.events.push(note);
        self
    }

    /// The condition `kind` of this report, if it has one.
    pub fn get(&self, kind: &str) -> Option<(Truth, &Reason)> {
        let named = self.conditions.iter().rev().find(|(one, _)| *one == kind)?;
        let (truth, reason) = named.1.as_ref()?;
        Some((*truth, reason))
    }

    /// The conditions after this report.
    pub(super) fn conditions(
        &self,
        before: &[Condition],
        generation: i64,
        now: Timestamp,
    ) -> Vec<Condition> {
        let mut set = Conditions::new(before, Some(generation), now);
        for (kind, condition) in &self.conditions {
            match condition {
                Some((Truth::True, reason)) => set.yes(kind, reason),
                Some((Truth::False, reason)) => set.no(kind, reason),
                Some((Truth::Unknown, reason)) => set.unknown(kind, reason),
                None => set.drop(kind),
            };
        }
        set.into_parts().0
    }

    /// The events of [`event`](Self::event), without duplicates.
    pub(super) fn events(&self) -> Vec<Note> {
        let mut events: Vec<Note> = Vec::new();
        for note in &self.events {
            if !events.contains(note) {
                events.push(note.clone());
            }
        }
        events
    }

    /// The events of conditions that differ from `before`, without duplicates.
    pub(super) fn transitions(&self, before: &[Condition]) -> Vec<Note> {
        let mut events: Vec<Note> = Vec::new();
        for (kind, compared, note) in &self.transitions {
            let Some((truth, reason)) = self.get(kind) else {
                continue;
            };
            let is_unchanged = find(before, kind).is_some_and(|old| {
                old.status == truth.as_str()
                    && old.reason == reason.code
                    && (*compared == Compared::Reason || old.message == reason.message)
            });
            if !is_unchanged && !events.contains(note) {
                events.push(note.clone());
            }
        }
        events
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp::UNIX_EPOCH;

    fn denied(message: &str) -> Report {
        let reason = || Reason::new("AccessDenied", message);
        Report::default()
            .condition("Ready", false, reason())
            .condition("Synced", false, reason())
            .event_on_new_reason("Ready", Note::warning("SyncFailed", "first"))
            .event_on_new_message("Synced", Note::warning("AccessDenied", message))
    }

    #[test]
    fn a_transition_causes_one_event() {
        let before = denied("x").conditions(&[], 1, NOW);
        assert_eq!(denied("x").transitions(&[]).len(), 2);
        assert_eq!(denied("x").transitions(&before), []);
        let expected = [Note::warning("AccessDenied", "y")];
        assert_eq!(denied("y").transitions(&before), expected);
    }

    #[test]
    fn one_cause_in_two_conditions_is_one_event() {
        let note = || Note::warning("AccessDenied", "x");
        let report = Report::default()
            .condition("Ready", false, Reason::new("AccessDenied", "x"))
            .condition("Synced", false, Reason::new("AccessDenied", "x"))
            .event_on_new_reason("Ready", note())
            .event_on_new_reason("Synced", note());
        assert_eq!(report.transitions(&[]), [note()]);
    }

    #[test]
    fn conditions_that_no_report_names_keep_their_value() {
        let before = denied("x").conditions(&[], 1, NOW);
        let report = Report::default()
            .condition("Ready", true, Reason::new("Succeeded", "done"))
            .without("Drifted");
        let after = report.conditions(&before, 2, NOW);
        assert!(kernel::is_true(&after, "Ready"));
        assert_eq!(find(&after, "Synced"), find(&before, "Synced"));
    }
}
