//! What a pass says of an invalidation. Pure.

use api::tenants::{InvalidationPhase as Phase, InvalidationStatus, conditions, events, reasons};
use aws::cloudfront::Invalidation as Live;
use engine::Note;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kernel::{Conditions, Reason, find};

use crate::failure::Says;

/// As CloudFront calls an invalidation that is done.
const COMPLETED: &str = "Completed";

/// The status in the making. What is not spoken of stays as it was.
#[derive(Debug)]
pub(super) struct Said {
    pub(super) status: InvalidationStatus,
    now: Timestamp,
    ready: Option<(bool, Reason)>,
    notes: Vec<Note>,
}

impl Said {
    pub(super) fn new(status: &InvalidationStatus, now: Timestamp) -> Self {
        Self {
            status: status.clone(),
            now,
            ready: None,
            notes: Vec::new(),
        }
    }

    /// CloudFront shows it.
    pub(super) fn shown(&mut self, live: &Live) {
        let Live {
            id,
            status,
            created,
        } = live;
        if self.status.id.is_none() {
            let message = format!("CloudFront took invalidation {id}");
            let note = Note::normal(events::INVALIDATION_CREATED, message);
            self.notes.push(note);
        }
        // Times in a status have no fraction.
        let created = created.map(|at| Timestamp::from_second(at.as_second()));
        let created = created.and_then(Result::ok).unwrap_or(self.now);
        self.status.create_time.get_or_insert(Time(created));
        self.status.id = Some(id.clone());
        if status == COMPLETED {
            self.status.phase = Some(Phase::Completed);
            self.status.finished_time = Some(Time(self.now));
            let done = Reason::new(reasons::COMPLETED, "the paths are forgotten everywhere");
            self.ready = Some((true, done));
        } else {
            self.status.phase = Some(Phase::InProgress);
            let message = format!("CloudFront is at work on invalidation {id}");
            self.no(reasons::IN_PROGRESS, &message);
        }
    }

    /// Its tenant is not there.
    pub(super) fn waits(&mut self, why: &str) {
        self.no(reasons::WAITING, why);
    }

    /// It has failed for good.
    pub(super) fn ends(&mut self, why: &str) {
        self.status.phase = Some(Phase::Failed);
        self.status.finished_time = Some(Time(self.now));
        self.no(reasons::INVALID_SPEC, why);
    }

    /// Something is in its way.
    pub(super) fn says(&mut self, says: Says, why: &str) {
        match says {
            Says::Nothing => {}
            Says::Ready(reason) | Says::Both(reason) | Says::Dns(reason) => self.no(reason, why),
        }
    }

    fn no(&mut self, reason: &'static str, why: &str) {
        self.ready = Some((false, Reason::new(reason, why)));
    }

    /// The status as it is written, and what is told of it.
    pub(super) fn finished(mut self, generation: Option<i64>) -> (InvalidationStatus, Vec<Note>) {
        self.status.phase.get_or_insert(Phase::Pending);
        let before = std::mem::take(&mut self.status.conditions);
        let mut set = Conditions::new(&before, generation, self.now);
        match self.ready {
            Some((true, reason)) => {
                set.yes(conditions::READY, &reason);
            }
            Some((false, reason)) => {
                set.no(conditions::READY, &reason);
                let known = find(&before, conditions::READY)
                    .is_some_and(|one| one.reason == reason.code && one.message == reason.message);
                if !known && is_warning(&reason.code) {
                    let note = Note::warning(reason.code.into_owned(), reason.message);
                    self.notes.push(note);
                }
            }
            None => {}
        }
        self.status.conditions = set.into_parts().0;
        (self.status, self.notes)
    }
}

/// Whether a reason is worth a Warning: what only takes time is not.
fn is_warning(reason: &str) -> bool {
    ![reasons::IN_PROGRESS, reasons::WAITING].contains(&reason)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn live(status: &str) -> Live {
        Live {
            id: "I1".to_owned(),
            status: status.to_owned(),
            created: Some(Timestamp::new(5, 700_000_000).unwrap()),
        }
    }

    fn ready(status: &InvalidationStatus) -> (&str, &str) {
        let ready = find(&status.conditions, conditions::READY).unwrap();
        (&ready.status, &ready.reason)
    }

    #[test]
    fn one_is_told_of_when_it_is_made_and_done_when_it_is() {
        let mut said = Said::new(&InvalidationStatus::default(), at(10));
        said.shown(&live("InProgress"));
        let (made, notes) = said.finished(Some(1));
        assert_eq!(ready(&made), ("False", "InProgress"));
        assert_eq!(made.phase, Some(Phase::InProgress));
        assert_eq!(made.create_time, Some(Time(at(5))));
        assert_eq!(notes.len(), 1);

        let mut said = Said::new(&made, at(20));
        said.shown(&live("InProgress"));
        assert_eq!(said.finished(Some(1)), (made.clone(), vec![]));

        let mut said = Said::new(&made, at(30));
        said.shown(&live("Completed"));
        let (done, notes) = said.finished(Some(1));
        assert_eq!(ready(&done), ("True", "Completed"));
        assert_eq!(done.finished_time, Some(Time(at(30))));
        assert_eq!(notes, []);
    }

    #[test]
    fn one_that_waits_is_pending_and_no_warning() {
        let mut said = Said::new(&InvalidationStatus::default(), at(10));
        said.waits("no tenant");
        let (status, notes) = said.finished(Some(1));
        assert_eq!(ready(&status), ("False", "Waiting"));
        assert_eq!((status.phase, notes), (Some(Phase::Pending), vec![]));
    }

    #[test]
    fn a_refusal_is_told_once() {
        let tell = |status: &InvalidationStatus| {
            let mut said = Said::new(status, at(10));
            said.says(Says::Ready(reasons::TOO_MANY_INVALIDATIONS), "too many");
            said.finished(Some(1))
        };
        let (status, notes) = tell(&InvalidationStatus::default());
        let warning = Note::warning(reasons::TOO_MANY_INVALIDATIONS, "too many");
        assert_eq!(notes, [warning]);
        assert_eq!(tell(&status), (status, vec![]));
    }

    #[test]
    fn what_failed_for_good_has_ended() {
        let mut said = Said::new(&InvalidationStatus::default(), at(10));
        said.ends("bad paths");
        let (status, _) = said.finished(Some(1));
        assert_eq!(ready(&status), ("False", "InvalidSpec"));
        assert_eq!(status.phase, Some(Phase::Failed));
        assert_eq!(status.finished_time, Some(Time(at(10))));
    }
}
