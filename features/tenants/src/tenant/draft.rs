//! What a pass finds out, gathered until its end: one status, and the events that go with it.

use api::tenants::{
    DistributionTenant, DistributionTenantStatus, DriftPolicy, DriftedField, conditions, reasons,
};
use engine::{Note, Pass};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kernel::{Conditions, Reason, find};

use crate::diff::drift_reason;
use crate::dns::plan::Step;

/// One of the four questions a tenant answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Question {
    Ready,
    Synced,
    Certificate,
    Dns,
}

impl Question {
    const ALL: [Self; 4] = [Self::Ready, Self::Synced, Self::Certificate, Self::Dns];

    fn word(self) -> &'static str {
        match self {
            Self::Ready => conditions::READY,
            Self::Synced => conditions::SYNCED,
            Self::Certificate => conditions::CERTIFICATE_READY,
            Self::Dns => conditions::DNS_READY,
        }
    }
}

/// An answer to one of them.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Verdict {
    holds: bool,
    reason: Reason,
}

/// The status in the making. What no stage speaks of stays as it was.
pub(crate) struct Draft {
    pub(crate) status: DistributionTenantStatus,
    before: Vec<Condition>,
    generation: Option<i64>,
    verdicts: [Option<Verdict>; 4],
    notes: Vec<Note>,
    /// CloudFront took something in this pass: the status must tell.
    pub(crate) acted: bool,
    /// The spec waits for DNS: its errors are Ready's, too.
    pub(crate) held_up: bool,
    /// Why the certificate's names were not compared with the domains, if they should have been.
    pub(crate) unchecked: Option<String>,
    /// The step of the records that the status holds once it is written.
    pub(crate) step: Option<Step>,
    /// What others changed of the records.
    pub(crate) drifted_records: Vec<DriftedField>,
    /// That others' changes are only reported.
    pub(crate) reports: bool,
}

impl Draft {
    pub(crate) fn new(object: &DistributionTenant) -> Self {
        let status = object.status.clone().unwrap_or_default();
        Self {
            before: status.conditions.clone(),
            generation: object.metadata.generation,
            status,
            verdicts: Default::default(),
            notes: Vec::new(),
            acted: false,
            held_up: false,
            unchecked: None,
            step: None,
            drifted_records: Vec::new(),
            reports: false,
        }
    }

    pub(crate) fn generation(&self) -> Option<i64> {
        self.generation
    }

    /// What a condition said of this very spec, before this pass.
    pub(crate) fn told(&self, question: Question) -> Option<&Condition> {
        let told = find(&self.before, question.word());
        told.filter(|one| one.observed_generation == self.generation)
    }

    /// Whether a condition says `reason` already.
    pub(crate) fn says(&self, question: Question, reason: &str) -> bool {
        find(&self.before, question.word()).is_some_and(|one| one.reason == reason)
    }

    /// Leaves the text of a condition as it is, if it tells of `error` and of more.
    pub(crate) fn keep_message(&mut self, question: Question, error: &str) {
        let before = find(&self.before, question.word());
        let Some(before) = before.filter(|one| one.message.starts_with(error)) else {
            return;
        };
        let message = before.message.clone();
        if let Some(verdict) = &mut self.verdicts[question as usize]
            && verdict.reason.code == before.reason
        {
            verdict.reason.message = message;
        }
    }

    /// What a condition says is so of this spec, too.
    pub(crate) fn restate(&mut self, question: Question) {
        if let Some(before) = find(&self.before, question.word()) {
            let reason = Reason::new(before.reason.clone(), before.message.clone());
            let holds = before.status == "True";
            self.answer(question, holds, reason);
        }
    }

    /// As [`no`](Self::no), unless the question is answered already.
    pub(crate) fn no_yet(&mut self, question: Question, reason: Reason) {
        if self.verdicts[question as usize].is_none() {
            self.no(question, reason);
        }
    }

    pub(crate) fn yes(&mut self, question: Question, reason: Reason) {
        self.answer(question, true, reason);
    }

    pub(crate) fn no(&mut self, question: Question, reason: Reason) {
        self.answer(question, false, reason);
    }

    fn answer(&mut self, question: Question, holds: bool, reason: Reason) {
        self.verdicts[question as usize] = Some(Verdict { holds, reason });
    }

    /// Tells of something that happened, once the status has been written or needs no writing.
    pub(crate) fn note(&mut self, note: Note) {
        self.notes.push(note);
    }

    /// How long a condition has said `reason`; zero if it does not.
    pub(crate) fn since(
        &self,
        question: Question,
        reason: &str,
        now: Timestamp,
    ) -> std::time::Duration {
        let condition = find(&self.before, question.word());
        let Some(condition) = condition.filter(|one| one.reason == reason) else {
            return std::time::Duration::ZERO;
        };
        let since = now.duration_since(condition.last_transition_time.0);
        since.try_into().unwrap_or_default()
    }

    /// Why it is not ready, or that it is: how the pass's end is told in logs.
    pub(crate) fn outcome(&self) -> Reason {
        let ready = self.verdicts[Question::Ready as usize].as_ref();
        ready.map_or_else(
            || Reason::new(reasons::DEPLOYED, "as before"),
            |verdict| verdict.reason.clone(),
        )
    }

    /// The first thing that does not hold.
    pub(crate) fn refusal(&self) -> Option<Reason> {
        let mut answered = self.verdicts.iter().flatten();
        let refused = answered.find(|verdict| !verdict.holds)?;
        Some(refused.reason.clone())
    }

    /// The status as it is written, and what is told of it.
    pub(crate) fn finished(mut self, now: Timestamp) -> (DistributionTenantStatus, Vec<Note>) {
        self.report();
        let mut set = Conditions::new(&self.before, self.generation, now);
        let mut told: Vec<(String, String)> = Vec::new();
        for question in Question::ALL {
            let Some(Verdict { holds, reason }) = self.verdicts[question as usize].take() else {
                continue;
            };
            if holds {
                set.yes(question.word(), &reason);
                continue;
            }
            set.no(question.word(), &reason);
            let before = find(&self.before, question.word());
            let is_news = before.is_none_or(|before| {
                before.reason != reason.code || before.message != reason.message
            });
            let said = (reason.code.to_string(), reason.message.clone());
            if is_news && is_warning(&reason.code) && !told.contains(&said) {
                self.notes
                    .push(Note::warning(reason.code.to_string(), reason.message));
                told.push(said);
            }
        }
        self.status.conditions = set.into_parts().0;
        (self.status, self.notes)
    }

    /// Says that others changed something and it is left so, if nothing worse is to be said.
    fn report(&mut self) {
        let synced = self.verdicts[Question::Synced as usize].as_ref();
        let is_well = synced.is_some_and(|verdict| {
            verdict.holds || verdict.reason.code == reasons::UPDATE_NOT_EFFECTIVE
        });
        if self.reports && is_well && !self.status.drift.is_empty() {
            let reason = drift_reason(&self.status.drift, DriftPolicy::Report);
            self.no(Question::Synced, reason);
        }
    }

    /// Sends what is to be told.
    pub(crate) fn tell(notes: Vec<Note>, pass: &Pass) {
        for note in notes {
            pass.event(note);
        }
    }
}

/// Whether a reason is worth a Warning: what only takes time is not.
fn is_warning(reason: &str) -> bool {
    ![
        reasons::CREATING,
        reasons::DEPLOYING,
        reasons::DISABLING,
        reasons::DELETING,
        reasons::DEPENDENCY_NOT_READY,
        reasons::PENDING_VALIDATION,
        reasons::ATTACHING,
        reasons::DNS_RECORD_CREATING,
        reasons::DNS_PROPAGATING,
        reasons::RECORDS_REQUIRED,
        // Told by an event of its own when it happens.
        reasons::EXTERNALLY_DELETED,
    ]
    .contains(&reason)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    fn tenant(conditions: &serde_json::Value) -> DistributionTenant {
        let object = json!({
            "apiVersion": "cloudfront-tenant-operator.io/v1alpha1",
            "kind": "DistributionTenant",
            "metadata": {"name": "acme", "namespace": "web", "generation": 2},
            "spec": {"distributionId": "E1", "domains": [{"domain": "a.example.com"}]},
            "status": {"conditions": conditions},
        });
        serde_json::from_value(object).unwrap()
    }

    fn denied(message: &str) -> Reason {
        Reason::new(reasons::ACCESS_DENIED, message)
    }

    fn said(draft: Draft) -> Vec<Note> {
        draft.finished(Timestamp::UNIX_EPOCH).1
    }

    #[test]
    fn one_cause_in_two_conditions_is_one_event() {
        let mut draft = Draft::new(&tenant(&json!([])));
        draft.no(Question::Ready, denied("x"));
        draft.no(Question::Synced, denied("x"));
        assert_eq!(said(draft).len(), 1);
    }

    #[test]
    fn what_was_said_before_is_not_told_again_and_a_new_text_is() {
        let conditions = json!([{
            "type": "Ready", "status": "False", "reason": "AccessDenied", "message": "x",
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        }]);
        let mut draft = Draft::new(&tenant(&conditions));
        draft.no(Question::Ready, denied("x"));
        assert_eq!(said(draft).len(), 0);
        let mut draft = Draft::new(&tenant(&conditions));
        draft.no(Question::Ready, denied("y"));
        assert_eq!(said(draft).len(), 1);
    }

    #[rstest]
    #[case::well(false, true, "DriftDetected")]
    #[case::worse(true, true, "AccessDenied")]
    #[case::undone(false, false, "InSync")]
    fn drift_is_reported_if_there_is_nothing_worse(
        #[case] is_denied: bool,
        #[case] is_there: bool,
        #[case] expected: &str,
    ) {
        let mut draft = Draft::new(&tenant(&json!([])));
        draft.reports = true;
        draft.yes(Question::Synced, Reason::new(reasons::IN_SYNC, "x"));
        if is_denied {
            draft.no(Question::Synced, denied("x"));
        }
        if is_there {
            draft.status.drift = vec![DriftedField {
                field: "enabled".to_owned(),
                want: Some("true".to_owned()),
                live: Some("false".to_owned()),
            }];
        }
        let (status, _) = draft.finished(Timestamp::UNIX_EPOCH);
        assert_eq!(status.conditions[0].reason, expected);
    }

    #[test]
    fn what_only_takes_time_is_no_warning() {
        let mut draft = Draft::new(&tenant(&json!([])));
        draft.no(Question::Ready, Reason::new(reasons::CREATING, "x"));
        draft.no(Question::Dns, Reason::new(reasons::DNS_PROPAGATING, "x"));
        assert_eq!(said(draft).len(), 0);
    }

    #[test]
    fn what_nobody_spoke_of_stays() {
        let conditions = json!([{
            "type": "DNSReady", "status": "True", "reason": "DNSReady", "message": "x",
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        }]);
        let mut draft = Draft::new(&tenant(&conditions));
        draft.no(Question::Ready, denied("x"));
        let (status, _) = draft.finished(Timestamp::UNIX_EPOCH);
        let kinds: Vec<_> = status.conditions.iter().map(|one| &*one.type_).collect();
        assert_eq!(kinds, ["DNSReady", "Ready"]);
    }
}
