//! One batch on its way: sent, halved if it is refused, answered.
//!
//! | Route 53 answers a batch      | consequence                                                      |
//! |-------------------------------|------------------------------------------------------------------|
//! | accepted                      | its objects are answered                                         |
//! | its records are invalid       | it is halved; a single change set is answered                    |
//! | throttled, zone busy          | all that is left goes back, and the zone pauses                  |
//! | credentials are not accepted  | the same for this access alone, which is reported                |
//! | failed, or no answer          | the same with growing pauses; what may have happened is `Lost`   |
//! | any other refusal             | its objects are answered                                         |
//!
//! What STS answers to a request for credentials, and what our own guard refuses, is about this access
//! alone.

use std::time::Duration;

use super::batch::{Batch, Load};
use super::pace::PAUSE;
use super::queues::{Origin, SessionId};
use super::{Answer, Shared, ZoneAccess, ZoneUser};
use crate::{Caller, Error, Fault, Priority};

/// A batch that is being sent. What is unanswered when this is dropped goes back into the queue, but
/// for the part in flight: that is lost. Once its session is over, nothing of it goes back.
pub(super) struct Sending<'w> {
    writer: &'w Shared,
    session: SessionId,
    access: ZoneAccess,
    /// In flight.
    sent: Vec<Load<Origin>>,
    /// To be sent, the last first.
    unsent: Vec<Batch<Origin>>,
    /// When the zone may be written again.
    not_before: Option<Duration>,
}

impl Drop for Sending<'_> {
    fn drop(&mut self) {
        let back = self.unsent.drain(..).rev().flat_map(|batch| batch.loads);
        let back = back.collect();
        let mut queues = self.writer.queues.lock();
        queues.done(&self.access.zone, back, self.not_before);
        drop(queues);
        self.writer.lost.lock().append(&mut self.sent);
        self.writer.news.notify_one();
    }
}

impl<'w> Sending<'w> {
    pub(super) fn new(writer: &'w Shared, batch: Batch<Origin>) -> Self {
        let first = batch.loads.first();
        Self {
            session: first.map_or(0, |load| load.from.session),
            access: batch.access.clone(),
            writer,
            sent: Vec::new(),
            unsent: vec![batch],
            not_before: None,
        }
    }

    /// Sends the batch, and its halves if it is refused, until the change sets to blame are alone.
    pub(super) async fn run(mut self) {
        while let Some(batch) = self.unsent.pop() {
            let Some(user) = self.writer.user(self.session) else {
                return; // the session is over
            };
            self.sent.clone_from(&batch.loads);
            let called = call(&*user, &batch).await;
            self.sent.clear();
            match called {
                Ok(change) => {
                    self.reached();
                    self.answer(batch, &Answer::Accepted { change });
                }
                Err(error) => {
                    user.failed(&error);
                    if self.refused(batch, &error) == Then::Stop {
                        break;
                    }
                }
            }
        }
    }

    fn refused(&mut self, batch: Batch<Origin>, error: &Error) -> Then {
        let now = self.writer.clock.elapsed();
        match consequence(error) {
            Consequence::Halve => {
                self.reached();
                match batch.halves() {
                    Ok([first, second]) => self.unsent.extend([second, first]),
                    Err(alone) => self.answer(alone, &refusal(error)),
                }
                Then::Continue
            }
            Consequence::PauseZone => {
                self.not_before = Some(now + PAUSE);
                self.unsent.push(batch);
                Then::Stop
            }
            Consequence::PauseAccess => {
                let mut queues = self.writer.queues.lock();
                queues.paused(self.session, &self.access, now + PAUSE);
                self.unsent.push(batch);
                Then::Stop
            }
            Consequence::Close => {
                let (text, again) = (error.to_string(), now + PAUSE);
                let mut queues = self.writer.queues.lock();
                queues.closed(self.session, &self.access, text, now, again);
                drop(queues);
                self.unsent.push(batch);
                for batch in &self.unsent {
                    self.delay(batch);
                }
                Then::Stop
            }
            Consequence::Backoff => {
                self.failed(batch, error, now);
                Then::Stop
            }
            Consequence::Answer => {
                self.reached();
                self.answer(batch, &refusal(error));
                Then::Continue
            }
        }
    }

    /// A call failed, and should not the next time.
    fn failed(&mut self, batch: Batch<Origin>, error: &Error, now: Duration) {
        let mut queues = self.writer.queues.lock();
        let text = error.to_string();
        queues.failed(self.session, &self.access, text, now, fastrand::f64());
        let is_reported = queues.failing(self.session).contains_key(&self.access);
        drop(queues);
        if error.may_have_happened() {
            self.answer(batch, &Answer::Lost);
        } else {
            if is_reported {
                self.delay(&batch);
            }
            self.unsent.push(batch);
        }
    }

    fn reached(&self) {
        let mut queues = self.writer.queues.lock();
        queues.reached(self.session, &self.access);
    }

    fn answer(&self, batch: Batch<Origin>, answer: &Answer) {
        for load in batch.loads {
            self.writer.answer(&load, answer.clone());
        }
    }

    /// Notifies the objects of a batch that it is delayed, unless its session is over.
    fn delay(&self, batch: &Batch<Origin>) {
        let Some(user) = self.writer.user(self.session) else {
            return;
        };
        for Load { from, set } in &batch.loads {
            user.delayed(&from.object, set);
        }
    }
}

async fn call(user: &dyn ZoneUser, batch: &Batch<Origin>) -> Result<String, Error> {
    let account = user.account(batch.access.login.role()?).await;
    let changes: Vec<_> = batch.changes().cloned().collect();
    let route53 = account.route53(&Caller::new(Priority::Edit, ""));
    user.sending(batch.weight().records);
    let answer = route53.change_batch(&batch.access.zone, &changes).await;
    user.sent();
    answer
}

/// Whether the other parts of a batch are sent after an error.
#[derive(Debug, PartialEq, Eq)]
enum Then {
    Continue,
    Stop,
}

/// What an error of a batch leads to.
#[derive(Debug, PartialEq, Eq)]
enum Consequence {
    /// One of its change sets is to blame.
    Halve,
    /// The zone pauses.
    PauseZone,
    /// The access pauses.
    PauseAccess,
    /// The access pauses, which is reported.
    Close,
    /// The access pauses, each time longer.
    Backoff,
    /// Its objects are answered.
    Answer,
}

fn consequence(error: &Error) -> Consequence {
    match error.fault() {
        Fault::InvalidRecords => Consequence::Halve,
        Fault::Throttled | Fault::ZoneBusy if !error.lacks_credentials() => Consequence::PauseZone,
        // A client that may not write now: others may.
        Fault::Throttled | Fault::ZoneBusy | Fault::Deposed => Consequence::PauseAccess,
        Fault::Passing => Consequence::Backoff,
        Fault::Credentials => Consequence::Close,
        Fault::DomainTaken
        | Fault::NameTaken
        | Fault::Denied
        | Fault::OwnershipUnverified
        | Fault::InvalidSpec
        | Fault::DistributionMissing
        | Fault::EntityMissing
        | Fault::ZoneMissing
        | Fault::ChangeMissing
        | Fault::OtherMissing
        | Fault::LimitExceeded
        | Fault::Stale
        | Fault::NotDisabled
        | Fault::InUse
        | Fault::Refused => Consequence::Answer,
    }
}

/// The answer to the change sets of a refused batch.
fn refusal(error: &Error) -> Answer {
    let text = error.to_string();
    match error.fault() {
        Fault::ZoneMissing => Answer::NoZone { text },
        // Something exists, or is not there as it should be; a read shows which.
        Fault::InvalidRecords if error.code() == Some("InvalidChangeBatch") => {
            Answer::Differs { text }
        }
        _ => Answer::Refused { text },
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::Arc;

    use futures::future::BoxFuture;
    use kernel::{ObjectKey, RealClock};
    use parking_lot::Mutex;
    use rstest::rstest;

    use super::*;
    use crate::route53::zone_writer::tests::{a_set, key};
    use crate::route53::zone_writer::{ChangeSet, ZoneClient, ZoneWriter};
    use crate::{Account, Operation, Refusal, Role};

    /// A user without an account that records how it is notified.
    #[derive(Default)]
    struct Notified(Mutex<Vec<&'static str>>);

    impl ZoneUser for Notified {
        fn account(&self, _role: Option<Role>) -> BoxFuture<'_, Account> {
            unreachable!("nothing is sent")
        }

        fn answered(&self, _object: &ObjectKey, _set: &ChangeSet, _answer: Answer) {
            self.0.lock().push("answered");
        }

        fn delayed(&self, _object: &ObjectKey, _set: &ChangeSet) {
            self.0.lock().push("delayed");
        }

        fn propagated(&self, _object: &ObjectKey) {}

        fn failed(&self, _error: &Error) {}

        fn sending(&self, _records: usize) {}
    }

    fn writer() -> (ZoneWriter, ZoneClient) {
        let writer = ZoneWriter::new(Arc::new(RealClock::new()));
        let client = writer.client();
        (writer, client)
    }

    /// The batches that would be sent an hour later.
    fn waiting(writer: &ZoneWriter) -> Vec<Batch<Origin>> {
        let later = writer.0.clock.elapsed() + Duration::from_hours(1);
        writer.0.queues.lock().due(later).0
    }

    /// Submits a change set, and takes its batch out of the queue.
    fn submitted<'w>(writer: &'w ZoneWriter, client: &ZoneClient) -> Sending<'w> {
        client.submit(&key(), [a_set()]);
        Sending::new(&writer.0, waiting(writer).remove(0))
    }

    #[rstest]
    #[case::throttled(refused(400, "Throttling"))]
    #[case::failed(refused(500, "InternalError"))]
    #[case::without_credentials(refused(403, "ExpiredToken"))]
    #[case::throttled_by_sts(error(Operation::AssumeRole, 400, "Throttling"))]
    #[case::failed_by_sts(error(Operation::AssumeRole, 500, "InternalError"))]
    #[case::denied(refused(403, "AccessDenied"))]
    fn a_refusal_concerns_only_the_session_of_the_batch(#[case] error: Error) {
        let (writer, client) = writer();
        let users = [(); 2].map(|()| Arc::<Notified>::default());
        let _earlier = client.begin(users[0].clone());
        let mut sending = submitted(&writer, &client);
        let batch = sending.unsent.pop().unwrap();
        let _session = client.begin(users[1].clone());
        sending.refused(batch, &error);
        drop(sending);
        writer.0.answer_lost();
        assert_eq!(users.map(|user| user.0.lock().len()), [0, 0]);
        assert_eq!(client.failing(), BTreeMap::new());
        assert_eq!(waiting(&writer), []);
    }

    #[test]
    fn what_was_in_flight_is_lost_to_its_own_session_alone() {
        let (writer, client) = writer();
        let users = [(); 2].map(|()| Arc::<Notified>::default());
        let _earlier = client.begin(users[0].clone());
        let sent = || {
            let mut sending = submitted(&writer, &client);
            sending.sent = sending.unsent.remove(0).loads;
            sending
        };
        drop(sent());
        writer.0.answer_lost();
        assert_eq!(*users[0].0.lock(), ["answered"]);
        drop(sent());
        let in_flight = sent();
        let _session = client.begin(users[1].clone());
        drop(in_flight);
        writer.0.answer_lost();
        assert_eq!(users.map(|user| user.0.lock().len()), [1, 0]);
    }

    #[tokio::test]
    async fn a_batch_of_an_ended_session_is_not_sent() {
        let (writer, client) = writer();
        let _earlier = client.begin(Arc::<Notified>::default());
        let sending = submitted(&writer, &client);
        let _session = client.begin(Arc::<Notified>::default());
        sending.run().await;
        assert_eq!(waiting(&writer), []);
    }

    #[test]
    fn the_end_of_an_earlier_session_leaves_the_later_one() {
        let (writer, client) = writer();
        let user = Arc::<Notified>::default();
        let earlier = client.begin(Arc::<Notified>::default());
        let later = client.begin(user.clone());
        client.submit(&key(), [a_set()]);
        drop(earlier);
        let batch = waiting(&writer).remove(0);
        writer.0.answer(&batch.loads[0], Answer::Lost);
        assert_eq!(*user.0.lock(), ["answered"]);
        client.submit(&key(), [a_set()]);
        drop(later);
        client.submit(&key(), [a_set()]);
        drop(Sending::new(&writer.0, batch));
        assert_eq!(waiting(&writer), [], "its session is over");
    }

    fn error(operation: Operation, status: u16, code: &str) -> Error {
        Error::Refused(Box::new(Refusal {
            operation,
            resource: "Z1".to_owned(),
            code: code.to_owned(),
            message: "no".to_owned(),
            status,
            request_id: None,
        }))
    }

    fn refused(status: u16, code: &str) -> Error {
        error(Operation::ChangeResourceRecordSets, status, code)
    }

    #[rstest]
    #[case::failed(500, "InternalError", Consequence::Backoff)]
    #[case::throttled(400, "Throttling", Consequence::PauseZone)]
    #[case::busy(400, "PriorRequestNotComplete", Consequence::PauseZone)]
    #[case::bad(400, "InvalidChangeBatch", Consequence::Halve)]
    #[case::denied(403, "AccessDenied", Consequence::Answer)]
    #[case::without_credentials(403, "ExpiredToken", Consequence::Close)]
    #[case::without_a_zone(404, "NoSuchHostedZone", Consequence::Answer)]
    fn a_refused_batch(#[case] status: u16, #[case] code: &str, #[case] expected: Consequence) {
        assert_eq!(consequence(&refused(status, code)), expected);
    }

    #[test]
    fn throttling_by_sts_pauses_the_access_alone() {
        let throttled = error(Operation::AssumeRole, 400, "Throttling");
        assert_eq!(consequence(&throttled), Consequence::PauseAccess);
    }

    #[rstest]
    #[case::exists(refused(400, "InvalidChangeBatch"), "differs")]
    #[case::invalid(refused(400, "InvalidInput"), "refused")]
    #[case::denied(refused(403, "AccessDenied"), "refused")]
    #[case::without_a_zone(refused(404, "NoSuchHostedZone"), "no zone")]
    fn objects_of_a_refused_batch_are_answered(#[case] error: Error, #[case] expected: &str) {
        let answer = match refusal(&error) {
            Answer::Differs { .. } => "differs",
            Answer::Refused { .. } => "refused",
            Answer::NoZone { .. } => "no zone",
            Answer::Accepted { .. } | Answer::Lost => "none",
        };
        assert_eq!(answer, expected);
    }
}
