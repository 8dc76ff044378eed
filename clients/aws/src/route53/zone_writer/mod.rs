//! Writes records in batches: one batch at a time for each zone, for all features of the process.
//!
//! ```text
//! submit ─▶ queue of a zone ─ 2 s, or while a batch is in flight ─▶ batch ─▶ Route 53
//!   ▲                                                                 │
//!   └────── ZoneUser::answered, then ZoneUser::propagated ◀───────────┘
//! ```
//! A [`ZoneWriter`] exists once in the process; a feature is a [`ZoneClient`] of it. What the records
//! mean, who owns them and who may change them is the feature's to decide.
//!
//! # Promises
//! - A [`ChangeSet`] is applied as a whole or not at all, in one batch.
//! - Change sets of different features, and those that are sent as different roles, are in different
//!   batches: the guards, credentials and errors of one do not concern the other.
//! - Each change set is answered once, unless its client's session ends before: [`Answer::Lost`] if
//!   nobody can know whether it was applied. A later session gets no answer to an earlier one's.
//! - A refused batch is halved until only the change sets to blame are refused.
//!
//! # When not to use it
//! For a write that nothing must wait for longer than a call: [`Route53::change_batch`](super::Route53)
//! sends it at once, and competes with the batches of this writer.

pub mod batch;
mod listing;
mod pace;
mod propagation;
mod queues;
mod sending;

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use futures::stream::{FuturesUnordered, StreamExt as _};
use kernel::{ObjectKey, SharedClock};
use parking_lot::Mutex;
use tokio::sync::{Mutex as AsyncMutex, Notify};

use super::Change;
use crate::{Account, Error, Role};

pub use propagation::Propagated;

use batch::Load;
use propagation::Propagation;
use queues::{Origin, Queues, SessionId};
use sending::Sending;

/// An idle writer wakes up after this long, though nothing was submitted.
const IDLE: Duration = Duration::from_hours(1);

/// Whose credentials reach a zone; by default the operator's own.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ZoneRole {
    /// The role to assume.
    pub role_arn: Option<String>,
    /// The external ID that its owner requires.
    pub external_id: Option<String>,
}

impl ZoneRole {
    /// The role to assume; `None` for the operator's own credentials.
    ///
    /// # Errors
    /// The text is not the ARN of a role.
    pub fn role(&self) -> Result<Option<Role>, Error> {
        let arn = self.role_arn.as_ref();
        let role = arn.map(|arn| Role::new(arn, self.external_id.as_ref()));
        Ok(role.transpose()?)
    }
}

/// A zone, and whose credentials reach it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ZoneAccess {
    /// The id of the zone.
    pub zone: String,
    /// Whose credentials reach it.
    pub login: ZoneRole,
}

/// Changes that belong together: all are applied, or none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChangeSet {
    /// Where they are sent.
    pub access: ZoneAccess,
    /// The name that they are about, for the answer. Their records may have other names.
    pub name: String,
    /// The changes, in the order in which they are applied.
    pub changes: Vec<Change>,
}

/// The answer to a change set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// Route 53 accepted it.
    Accepted {
        /// The id of the batch; see [`ZoneClient::follow`].
        change: String,
    },
    /// Refused, nothing changed: something exists already, or is not there as the changes assume.
    Differs {
        /// Route 53's message.
        text: String,
    },
    /// Refused for another reason, nothing changed.
    Refused {
        /// The message.
        text: String,
    },
    /// Refused: there is no such zone.
    NoZone {
        /// Route 53's message.
        text: String,
    },
    /// It may have been applied or not: no answer, or one that leaves it open.
    Lost,
}

/// What a feature does for the writer, and how it is notified. Methods without a future return at once.
pub trait ZoneUser: Send + Sync + 'static {
    /// The account to call: `role`, or our own without one. Its guards and observer are the feature's.
    fn account(&self, role: Option<Role>) -> BoxFuture<'_, Account>;

    /// A change set of `object` was answered.
    fn answered(&self, object: &ObjectKey, set: &ChangeSet, answer: Answer);

    /// A change set of `object` is delayed: [`ZoneClient::failing`] says why.
    fn delayed(&self, object: &ObjectKey, set: &ChangeSet);

    /// The propagation of a change that `object` follows ended, or could not be read:
    /// [`ZoneClient::propagated`] says which.
    fn propagated(&self, object: &ObjectKey);

    /// A call failed, for metrics.
    fn failed(&self, error: &Error);

    /// A batch of this many records is sent now, for metrics.
    fn sending(&self, records: usize);

    /// The call of a batch has ended.
    fn sent(&self) {}
}

/// The writer of zones. A clone is the same one.
///
/// Create one for the whole process: two of them would send two batches for one zone at once.
#[derive(Clone)]
pub struct ZoneWriter(Arc<Shared>);

pub(super) struct Shared {
    clock: SharedClock,
    queues: Mutex<Queues>,
    /// Change sets whose batch was in flight when the task that sent it was dropped.
    lost: Mutex<Vec<Load<Origin>>>,
    /// By the session that each has.
    users: Mutex<HashMap<SessionId, Arc<dyn ZoneUser>>>,
    /// Held by the task that sends the batches of all clients.
    turn: AsyncMutex<()>,
    news: Notify,
}

impl ZoneWriter {
    /// A writer without clients. `clock` is the one of collecting and of pauses.
    pub fn new(clock: SharedClock) -> Self {
        Self(Arc::new(Shared {
            clock,
            queues: Mutex::default(),
            lost: Mutex::default(),
            users: Mutex::default(),
            turn: AsyncMutex::default(),
            news: Notify::new(),
        }))
    }

    /// A new client, for one feature.
    pub fn client(&self) -> ZoneClient {
        ZoneClient {
            writer: self.0.clone(),
            session: Mutex::default(),
            propagation: Propagation::default(),
        }
    }
}

impl fmt::Debug for ZoneWriter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ZoneWriter").finish_non_exhaustive()
    }
}

impl Shared {
    /// Whom a session notifies; `None` if it is over.
    fn user(&self, session: SessionId) -> Option<Arc<dyn ZoneUser>> {
        self.users.lock().get(&session).cloned()
    }

    fn end(&self, session: SessionId) {
        self.queues.lock().end(session);
        self.users.lock().remove(&session);
    }

    /// Answers a change set, unless its session is over.
    fn answer(&self, load: &Load<Origin>, answer: Answer) {
        if let Some(user) = self.user(load.from.session) {
            user.answered(&load.from.object, &load.set, answer);
        }
    }

    /// Answers what a dropped task left without an answer.
    fn answer_lost(&self) {
        let lost = std::mem::take(&mut *self.lost.lock());
        for load in lost {
            self.answer(&load, Answer::Lost);
        }
    }

    /// Sends the batches of all clients.
    async fn send_all(&self) {
        let mut in_flight = FuturesUnordered::new();
        loop {
            self.answer_lost();
            let now = self.clock.elapsed();
            let (due, next) = self.queues.lock().due(now);
            for batch in due {
                in_flight.push(Sending::new(self, batch).run());
            }
            let wait = next.map_or(IDLE, |next| next.saturating_sub(now));
            tokio::select! {
                Some(()) = in_flight.next(), if !in_flight.is_empty() => {}
                () = self.news.notified() => {}
                () = tokio::time::sleep(self.clock.real(wait)) => {}
            }
        }
    }
}

/// A feature's access to the [`ZoneWriter`].
pub struct ZoneClient {
    writer: Arc<Shared>,
    /// The latest session; 0 before the first.
    session: Mutex<SessionId>,
    propagation: Propagation,
}

impl ZoneClient {
    /// Queues change sets of `object`; [`ZoneUser::answered`] gets an answer for each. Those of
    /// a client without a session are dropped.
    pub fn submit(&self, object: &ObjectKey, sets: impl IntoIterator<Item = ChangeSet>) {
        let now = self.writer.clock.elapsed();
        let session = *self.session.lock();
        for set in sets {
            let from = Origin {
                session,
                object: object.clone(),
            };
            self.writer.queues.lock().submit(Load { from, set }, now);
        }
        self.writer.news.notify_one();
    }

    /// Zones that this client cannot reach for longer than usual, and why; none without a session.
    pub fn failing(&self) -> BTreeMap<ZoneAccess, String> {
        let session = *self.session.lock();
        self.writer.queues.lock().failing(session)
    }

    /// Begins to serve this client: `user` is notified from now on. A session that it still has is over:
    /// what was submitted in it is forgotten without an answer. Do this once while the feature may write.
    pub fn begin(&self, user: Arc<dyn ZoneUser>) -> ZoneSession<'_> {
        ZoneSession::new(self, user)
    }
}

impl fmt::Debug for ZoneClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ZoneClient")
            .field("session", &*self.session.lock())
            .finish_non_exhaustive()
    }
}

/// A client that is served until this is dropped.
pub struct ZoneSession<'c> {
    client: &'c ZoneClient,
    id: SessionId,
}

impl<'c> ZoneSession<'c> {
    fn new(client: &'c ZoneClient, user: Arc<dyn ZoneUser>) -> Self {
        let writer = &client.writer;
        let mut latest = client.session.lock();
        writer.end(*latest);
        let id = writer.queues.lock().begin();
        writer.users.lock().insert(id, user);
        *latest = id;
        drop(latest);
        Self { client, id }
    }

    /// Sends batches for as long as it is polled, those of other clients too: of all sessions one does
    /// so at a time, and another continues when that one is dropped.
    pub async fn write(&self) {
        let writer = &self.client.writer;
        let _turn = writer.turn.lock().await;
        writer.send_all().await;
    }
}

impl Drop for ZoneSession<'_> {
    fn drop(&mut self) {
        self.client.writer.end(self.id);
    }
}

impl fmt::Debug for ZoneSession<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ZoneSession")
            .field("id", &self.id)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
