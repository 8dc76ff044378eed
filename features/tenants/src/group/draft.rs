//! What a pass over a group finds out, gathered until its end: one status, and the events and
//! counts that go with it.

use std::time::Duration;

use api::tenants::{ConnectionGroupStatus, DriftedField, conditions, reasons};
use aws::cloudfront::Group;
use engine::Note;
use jiff::Timestamp;
use kernel::{Conditions, Reason, find, is_true};

use crate::failure::Says;

/// How a pass ends.
#[derive(Debug)]
pub(super) enum Ended {
    /// The status is an intent: it is stored, and the next pass acts on it at once.
    Again,
    /// The draft says how things stand; look again then, unless woken sooner.
    After(Duration),
    /// The object may go.
    Released(Note),
    /// AWS failed in a way that passes.
    Failed(aws::Error),
}

/// The status in the making. What no stage speaks of stays as it was.
#[derive(Debug)]
pub(super) struct Draft {
    pub(super) status: ConnectionGroupStatus,
    ready: Option<Verdict>,
    synced: Option<Verdict>,
    notes: Vec<Note>,
    /// Values of `error_type`.
    pub(super) counted: Vec<&'static str>,
    /// Somebody changed the group, otherwise than was known.
    pub(super) drifted: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Verdict {
    holds: bool,
    reason: Reason,
}

impl Draft {
    pub(super) fn new(status: &ConnectionGroupStatus) -> Self {
        Self {
            status: status.clone(),
            ready: None,
            synced: None,
            notes: Vec::new(),
            counted: Vec::new(),
            drifted: false,
        }
    }

    pub(super) fn ready(&mut self, reason: Reason) {
        self.ready = Some(Verdict {
            holds: true,
            reason,
        });
    }

    pub(super) fn not_ready(&mut self, reason: Reason) {
        self.ready = Some(Verdict {
            holds: false,
            reason,
        });
    }

    pub(super) fn synced(&mut self, reason: Reason) {
        self.synced = Some(Verdict {
            holds: true,
            reason,
        });
    }

    pub(super) fn not_synced(&mut self, reason: Reason) {
        self.synced = Some(Verdict {
            holds: false,
            reason,
        });
    }

    /// Says something in the conditions it is about.
    pub(super) fn say(&mut self, says: Says, message: &str) {
        match says {
            Says::Nothing => {}
            Says::Ready(reason) | Says::Dns(reason) => {
                self.not_ready(Reason::new(reason, message));
            }
            Says::Both(reason) => {
                self.not_synced(Reason::new(reason, message));
                self.not_ready(Reason::new(reason, message));
            }
        }
    }

    /// Tells of something that happened, once.
    pub(super) fn note(&mut self, note: Note) {
        if !self.notes.contains(&note) {
            self.notes.push(note);
        }
    }

    pub(super) fn count(&mut self, error_type: Option<&'static str>) {
        self.counted.extend(error_type);
    }

    /// Records how CloudFront shows the group.
    pub(super) fn record(&mut self, group: &Group) {
        let status = &mut self.status;
        status.id = Some(group.id.clone());
        status.arn = Some(group.arn.clone());
        status.e_tag = Some(group.etag.clone());
        status.routing_endpoint = Some(group.routing_endpoint.clone());
        status.state = Some(group.status.clone());
        status.is_default = Some(group.is_default);
    }

    /// Records what others changed; answers whether that is a drift of its own.
    pub(super) fn drift(&mut self, drift: &[DriftedField]) -> bool {
        let is_new = !drift.is_empty() && self.status.drift != drift;
        self.status.drift = drift.to_vec();
        self.drifted |= is_new;
        is_new
    }

    /// Forgets the group: it is gone.
    pub(super) fn forget(&mut self) {
        let ConnectionGroupStatus {
            tenants,
            conditions,
            create_requested_at,
            observed_generation: _,
            id: _,
            arn: _,
            e_tag: _,
            routing_endpoint: _,
            state: _,
            is_default: _,
            last_applied: _,
            drift: _,
        } = std::mem::take(&mut self.status);
        self.status = ConnectionGroupStatus {
            tenants,
            conditions,
            create_requested_at,
            ..ConnectionGroupStatus::default()
        };
    }

    /// The status as it is written, and what is told of it.
    pub(super) fn finished(
        mut self,
        generation: Option<i64>,
        now: Timestamp,
    ) -> (ConnectionGroupStatus, Vec<Note>) {
        let before = std::mem::take(&mut self.status.conditions);
        let mut set = Conditions::new(&before, generation, now);
        let mut told: Vec<Reason> = Vec::new();
        let verdicts = [
            (conditions::READY, self.ready),
            (conditions::SYNCED, self.synced),
        ];
        for (kind, verdict) in verdicts {
            let Some(Verdict { holds, reason }) = verdict else {
                continue;
            };
            if holds {
                set.yes(kind, &reason);
                continue;
            }
            set.no(kind, &reason);
            let known = find(&before, kind)
                .is_some_and(|one| one.reason == reason.code && one.message == reason.message);
            if !known && is_warning(&reason.code) && !told.contains(&reason) {
                told.push(reason);
            }
        }
        let warnings = told.into_iter();
        let warnings = warnings.map(|one| Note::warning(one.code.into_owned(), one.message));
        self.notes.extend(warnings);
        self.status.conditions = set.into_parts().0;
        (self.status, self.notes)
    }
}

/// Whether a group is ready, by its status.
pub(super) fn is_ready(status: &ConnectionGroupStatus) -> bool {
    is_true(&status.conditions, conditions::READY)
}

/// The reason of a condition that does not hold; none if it holds or is not there.
pub(super) fn unmet<'a>(status: &'a ConnectionGroupStatus, kind: &str) -> Option<&'a str> {
    let condition = find(&status.conditions, kind)?;
    (condition.status == "False").then_some(&*condition.reason)
}

/// Whether a reason is worth a Warning: what only takes time is not, and some have an event of
/// their own.
fn is_warning(reason: &str) -> bool {
    ![
        reasons::CREATING,
        reasons::DEPLOYING,
        reasons::DISABLING,
        reasons::DELETING,
        reasons::EXTERNALLY_DELETED,
    ]
    .contains(&reason)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp::UNIX_EPOCH;

    fn said(status: &ConnectionGroupStatus, text: &str) -> (ConnectionGroupStatus, Vec<Note>) {
        let mut draft = Draft::new(status);
        draft.say(Says::Both(reasons::ACCESS_DENIED), text);
        draft.finished(Some(1), NOW)
    }

    #[test]
    fn one_cause_in_two_conditions_is_one_event_and_the_same_again_is_none() {
        let (status, notes) = said(&ConnectionGroupStatus::default(), "x");
        assert_eq!(notes, [Note::warning(reasons::ACCESS_DENIED, "x")]);
        assert_eq!(status.conditions.len(), 2);
        let (again, notes) = said(&status, "x");
        assert_eq!((&again, notes.len()), (&status, 0));
        assert_eq!(said(&status, "y").1.len(), 1);
    }

    #[test]
    fn what_only_takes_time_is_no_warning() {
        let mut draft = Draft::new(&ConnectionGroupStatus::default());
        draft.not_ready(Reason::new(reasons::CREATING, "x"));
        assert_eq!(draft.finished(Some(1), NOW).1, []);
    }

    #[test]
    fn the_same_drift_is_counted_once() {
        let drift = vec![DriftedField {
            field: "enabled".to_owned(),
            want: Some("true".to_owned()),
            live: Some("false".to_owned()),
        }];
        let mut draft = Draft::new(&ConnectionGroupStatus::default());
        assert!(draft.drift(&drift) && !draft.drift(&drift));
        assert!(draft.drifted);
        let mut next = Draft::new(&draft.status);
        assert!(!next.drift(&drift) && !next.drift(&[]));
        assert!(!next.drifted);
    }

    #[test]
    fn what_is_gone_leaves_no_trace_but_its_conditions() {
        let mut draft = Draft::new(&ConnectionGroupStatus {
            id: Some("cg_1".to_owned()),
            state: Some("Deployed".to_owned()),
            tenants: Some(2),
            ..ConnectionGroupStatus::default()
        });
        draft.forget();
        let expected = ConnectionGroupStatus {
            tenants: Some(2),
            ..ConnectionGroupStatus::default()
        };
        assert_eq!(draft.status, expected);
    }
}
