//! The pass over a record. It removes the leftover if that is due, unclaimed and still ours.

use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use kernel::{ObjectKey, Progress, Reason};
use tracing::Instrument;

use super::record::Record;
use super::{Claimant, Judgement, Leftover, LeftoverStore, Remover};
use crate::{ApiError, Cache, ControllerSpec, Deck, Note, Pass, Reconcile, Stop};

/// The pause before an undecided claim is checked again. The check makes no call.
const RECHECK: Duration = Duration::from_secs(10);
/// The pause while the caches have not read all objects.
const UNREAD_PAUSE: Duration = Duration::from_secs(1);

const FAILED: &str = "Failed";
const UNREADABLE: &str = "ValidationFailed";
const NOT_READY: &str = "DependencyNotReady";

/// The controller of the records of this feature.
///
/// Let it follow the kind of the targets by [`of_changed_target`](LeftoverStore::of_changed_target). Then a
/// changed target causes a pass over its records.
///
/// # When not to use it
/// On the deck of another cluster: the records are in the operator's own.
pub fn controller<R: Remover>(remover: R, deck: &Deck) -> ControllerSpec {
    let store = LeftoverStore::<R::Leftover>::new(deck);
    let key = store.watch_key();
    ControllerSpec::new(key, Worker::new(remover, store))
}

struct Worker<R: Remover> {
    remover: R,
    store: LeftoverStore<R::Leftover>,
    cache: Cache,
}

impl<R: Remover> Reconcile for Worker<R> {
    type Object = ConfigMap;
    type Error = ApiError;

    async fn reconcile(&self, map: &ConfigMap, pass: &mut Pass) -> Result<Progress, ApiError> {
        self.count_records();
        if map.metadata.deletion_timestamp.is_some() {
            return Ok(Progress::done());
        }
        let record = match Record::<R::Leftover>::read(map) {
            Ok(record) => record,
            Err(unreadable) => {
                let message = format!(
                    "{unreadable}; correct it, or delete the ConfigMap and check {}",
                    Self::OUTSIDE
                );
                pass.event(Note::warning("DeleteFailed", message.clone()));
                let reason = Reason::new(UNREADABLE, message);
                return Ok(Progress::Blocked { reason });
            }
        };
        let span = self.remover.log_span(&record.leftover);
        self.remove_leftover(&record, pass).instrument(span).await
    }

    fn gone(&self, _: &ObjectKey) {
        self.count_records();
    }
}

impl<R: Remover> Worker<R> {
    const OUTSIDE: &'static str = <R::Leftover as Leftover>::OUTSIDE;

    fn new(remover: R, store: LeftoverStore<R::Leftover>) -> Self {
        let cache = store.cache();
        Self {
            remover,
            store,
            cache,
        }
    }

    fn count_records(&self) {
        self.remover.count_records(self.cache.store().len());
    }

    async fn remove_leftover(
        &self,
        record: &Record<R::Leftover>,
        pass: &mut Pass,
    ) -> Result<Progress, ApiError> {
        match self.attempt(record, pass).await {
            Ok(note) => {
                self.store.close(pass).await?;
                pass.event(note);
                Ok(Progress::done())
            }
            Err(Stop::Waiting { reason, after }) => Ok(Progress::Waiting { reason, after }),
            Err(Stop::Blocked { reason }) => {
                let next = record.with_error(&reason.message);
                self.save(record, next, pass).await?;
                Ok(Progress::Blocked { reason })
            }
            Err(Stop::Failed { reason, .. }) => self.failed(record, reason, pass).await,
        }
    }

    /// Removes the leftover if that is permitted. Returns the last event of the record.
    async fn attempt(&self, record: &Record<R::Leftover>, pass: &mut Pass) -> Result<Note, Stop> {
        let (remover, leftover) = (&self.remover, &record.leftover);
        let outside = Self::OUTSIDE;
        if let Some(after) = record.due_in(self.store.now()) {
            let message = format!("the removal of {leftover} is retried later");
            return Err(Stop::waiting(Reason::new(FAILED, message), after));
        }
        let target = remover.target(leftover)?;
        if let Some(note) = self.superseded(leftover, &target)? {
            return Ok(note);
        }
        let client = remover.client(leftover, &target)?;
        let evidence = pass.outside(remover.read(leftover, &client)).await?;
        match remover.judge(leftover, &target, evidence) {
            Judgement::Gone => {
                remover.count_attempt(leftover, true);
                tracing::info!(%leftover, "was already gone");
                let message = format!("{leftover} was already gone from {outside}");
                Ok(Note::normal("Deleted", message))
            }
            Judgement::Leave(Reason { code, message }) => {
                tracing::warn!(%leftover, why = message, "left in {outside}");
                let message = format!("{leftover} was left in {outside}: {message}");
                Ok(Note::warning(code, message))
            }
            Judgement::Remove => {
                // Check again: an object may have been created during the read.
                if let Some(note) = self.superseded(leftover, &target)? {
                    return Ok(note);
                }
                pass.outside(remover.remove(leftover, &client)).await?;
                remover.count_attempt(leftover, true);
                tracing::info!(%leftover, "deleted");
                let message = format!("{leftover} was deleted from {outside}");
                Ok(Note::normal("Deleted", message))
            }
        }
    }

    /// The last event of a record whose leftover belongs to an object again; none if it does not.
    fn superseded(&self, leftover: &R::Leftover, target: &R::Target) -> Result<Option<Note>, Stop> {
        let waiting =
            |message: String, after| Stop::waiting(Reason::new(NOT_READY, message), after);
        match self.remover.claimant(leftover, target) {
            Claimant::Nobody => Ok(None),
            Claimant::Unread => {
                let message = "not all objects have been read yet".to_owned();
                Err(waiting(message, UNREAD_PAUSE))
            }
            Claimant::Undecided(object) => {
                let message = format!("{leftover} may belong to {object}, which is not synced yet");
                Err(waiting(message, RECHECK))
            }
            Claimant::Somebody(object) => {
                tracing::info!(%leftover, object, "superseded");
                let message = format!("{leftover} stays, because it belongs to {object} now");
                Ok(Some(Note::normal("Superseded", message)))
            }
        }
    }

    /// Counts and saves a failed attempt.
    async fn failed(
        &self,
        record: &Record<R::Leftover>,
        reason: Reason,
        pass: &Pass,
    ) -> Result<Progress, ApiError> {
        let (leftover, error) = (&record.leftover, &reason.message);
        self.remover.count_attempt(leftover, false);
        let message = format!("{leftover} is still in {}: {error}", Self::OUTSIDE);
        let now = self.store.now();
        let next = record.failed(&message, self.remover.first_pause(), now);
        let after = next.due_in(now).unwrap_or(RECHECK);
        tracing::warn!(%leftover, error, attempts = next.attempts, "not deleted");
        self.save(record, next, pass).await?;
        Ok(Progress::Waiting { reason, after })
    }

    /// Saves a record if it has changed, and reports a new error.
    async fn save(
        &self,
        before: &Record<R::Leftover>,
        after: Record<R::Leftover>,
        pass: &Pass,
    ) -> Result<(), ApiError> {
        if *before != after {
            self.store.update(pass, &after).await?;
        }
        match after.last_error {
            Some(error) if before.last_error.as_ref() != Some(&error) => {
                pass.event(Note::warning("DeleteFailed", error));
            }
            Some(_) | None => {}
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
