//! One pass over a VaultConnection: is Vault there, are we logged in, is all in order around that.
//!
//! ```text
//! Secrets ──▶ client ──▶ health ──▶ bootstrap ──▶ login, lookup ──▶ reviewer token ──▶ status
//! ```
//! Its outcome is what everyone else goes by: see [`crate::links`].

mod authority;
mod aws_keys;
mod bootstrap;
mod config;
mod jwt;
mod look;
mod removal;
mod reviewer;
mod secrets;
mod status;
mod templates;

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use api::vault::{VaultConnection, names as words};
use engine::{Pass, Reconcile, Recorded};
use kernel::{ObjectKey, Progress, Reason};
use parking_lot::Mutex;

use crate::ctx::Ctx;
use crate::links::Standing;
use crate::sync::Error;

pub(crate) use aws_keys::ProcessAws;
pub(crate) use config::prepare;
pub(crate) use jwt::ServiceAccountRef;
use look::Look;

const KIND: &str = "VaultConnection";
/// No Vault is asked for its health more often.
const SHORTEST_INTERVAL: Duration = Duration::from_secs(5);

/// The controller of connections.
pub(crate) struct Connections {
    ctx: Arc<Ctx>,
    memory: Mutex<HashMap<ObjectKey, Memory>>,
}

/// What a process knows of a connection besides its status.
#[derive(Debug, Clone, Default)]
struct Memory {
    /// What its dependents have been told of.
    generation: Option<i64>,
    version: Option<String>,
    refused: Option<Refused>,
    /// How often in a row the reviewer token could not be replaced, and when to try again.
    review_failures: Option<(u32, Duration)>,
    /// How the last scan failed, as told.
    scan_failed: Option<crate::discovery::Failure>,
    /// Names that templates would have and others hold, as told.
    taken: BTreeSet<ObjectKey>,
}

/// A login that was refused: not repeated before its time, unless something it hangs on changes.
#[derive(Debug, Clone)]
struct Refused {
    fingerprint: String,
    generation: Option<i64>,
    failures: u32,
    not_before: Duration,
    reason: Reason,
}

impl Connections {
    pub(crate) fn new(ctx: Arc<Ctx>) -> Self {
        let memory = Mutex::default();
        Self { ctx, memory }
    }

    fn remembered(&self, key: &ObjectKey) -> Memory {
        self.memory.lock().get(key).cloned().unwrap_or_default()
    }

    /// While others are still to be removed over a connection that goes, it is looked after: after a
    /// restart nobody could reach Vault otherwise.
    async fn stay_reachable(&self, connection: &VaultConnection, pass: &mut Pass) {
        let ctx = &*self.ctx;
        let mut look = Look::new(connection, self.remembered(pass.key()));
        let ended = look.reach(connection, ctx, pass).await;
        let standing = match (ended, look.health) {
            (Ok(()), Some(health)) => Some(Standing::Up(health)),
            (Ok(()), None) => None,
            (Err(stop), _) => status::reason(&stop).map(|_| Standing::Down),
        };
        if let Some(standing) = standing {
            ctx.found(&pass.key().name, standing);
        }
    }

    /// Edits, and another version of the server, concern all who go through the connection.
    fn tell_dependents(&self, key: &ObjectKey, connection: &VaultConnection, look: &Look) {
        let mut memory = self.memory.lock();
        let known = memory.entry(key.clone()).or_default();
        let generation = connection.metadata.generation;
        let version = look.health.as_ref().map(|health| health.version.clone());
        let edited = known.generation.is_some() && known.generation != generation;
        let other = known.version.is_some() && version.is_some() && known.version != version;
        known.generation = generation;
        known.version = version.or(known.version.take());
        known.refused.clone_from(&look.refused);
        known.review_failures = look.review_failures;
        known.taken.clone_from(&look.taken);
        known.scan_failed.clone_from(&look.scan_failed);
        drop(memory);
        if edited || other {
            self.ctx.wake_dependents(&key.name);
        }
    }
}

impl Connections {
    /// The pass itself; see [`Reconcile::reconcile`].
    async fn pass(&self, connection: &VaultConnection, pass: &mut Pass) -> Result<Progress, Error> {
        let ctx = &*self.ctx;
        if connection.metadata.deletion_timestamp.is_some() {
            if removal::is_awaited(connection, ctx) {
                self.stay_reachable(connection, pass).await;
            }
            return removal::reconcile(connection, ctx, pass).await;
        }
        if pass.ensure_finalizer(words::FINALIZER).await? == Recorded::Now {
            return Ok(Progress::Again);
        }
        let mut look = Look::new(connection, self.remembered(pass.key()));
        let ended = look.around(connection, ctx, pass).await;
        let standing = match (&ended, &look.health) {
            (Ok(()), Some(health)) if !look.stepped => Some(Standing::Up(health.clone())),
            (Ok(()), _) => None,
            (Err(stop), _) => status::reason(stop).map(|_| Standing::Down),
        };
        self.tell_dependents(pass.key(), connection, &look);
        let progress = status::write(connection, look, ended, ctx, pass).await;
        // After the status: who is woken by this finds it in the cache.
        if let Some(standing) = standing {
            ctx.found(&pass.key().name, standing);
        }
        progress
    }
}

impl Reconcile for Connections {
    type Object = VaultConnection;
    type Error = Error;

    async fn reconcile(
        &self,
        connection: &VaultConnection,
        pass: &mut Pass,
    ) -> Result<Progress, Error> {
        let clock = &self.ctx.deck.clock;
        let began = clock.elapsed();
        let progress = self.pass(connection, pass).await;
        let took = clock.elapsed().saturating_sub(began);
        let well = matches!(progress, Ok(Progress::Done { .. } | Progress::Again));
        self.ctx.metrics.reconciled(KIND, pass.key(), well, took);
        progress
    }

    fn gone(&self, key: &ObjectKey) {
        self.memory.lock().remove(key);
        self.ctx.links.forget(&key.name);
        self.ctx.metrics.forget_connection(&key.name);
        self.ctx.metrics.forget_object(KIND, key);
    }
}

/// How often a connection is looked at.
fn interval(connection: &VaultConnection) -> Duration {
    let told = connection.spec.health_check_interval.as_std();
    told.max(SHORTEST_INTERVAL)
}
