//! One pass over a record: is it due, is it nobody's, is it still ours; then it goes.

use std::sync::Arc;
use std::time::Duration;

use api::vault::{VaultConnection, reasons};
use engine::{ApiError, Cache, Note, Pass, Reconcile, Stored, kill_point};
use k8s_openapi::api::core::v1::ConfigMap;
use kernel::{Class, ObjectKey, Progress, Reason};
use vault_client::{Client, Error};

use super::claimants::{Claimant, claimant};
use super::judgement::{self, Evidence, Judgement};
use super::leftover::{Leftover, Site};
use super::record::{Record, connection_of};
use super::{cached, kept};
use crate::ctx::Ctx;
use crate::kv::KvPath;
use crate::place::{self, Place};
use crate::realm::namespace;
use crate::sync::doubts_connection;

/// How often a record looks whether its connection is up: that costs no call.
const LOOK: Duration = Duration::from_secs(10);
/// The same of a connection that does not exist; a new one is told of anyway.
const LOOK_FOR_CONNECTION: Duration = Duration::from_secs(300);
/// Until all objects have been read.
const SOON: Duration = Duration::from_secs(1);

/// The controller of records.
pub(super) struct Records {
    ctx: Arc<Ctx>,
    cache: Cache,
}

/// Why a record is not closed.
enum Halt {
    /// Its time has not come. Nobody is told.
    Waits { reason: Reason, after: Duration },
    /// Somebody has to change something. That is told once.
    Stuck(Reason),
    /// Vault did not do it.
    Failed(Error),
}

impl Halt {
    fn waits(code: &'static str, message: String, after: Duration) -> Self {
        let reason = Reason::new(code, message);
        Self::Waits { reason, after }
    }
}

impl Records {
    pub(super) fn new(ctx: Arc<Ctx>) -> Self {
        let cache = cached(&ctx);
        Self { ctx, cache }
    }

    /// A connection that changes concerns its records.
    pub(super) fn of_changed_connection(
        &self,
    ) -> impl Fn(&Stored) -> Vec<ObjectKey> + Send + Sync + 'static {
        let cache = self.cache.clone();
        move |connection| {
            let kind = &cache.key().kind;
            let names_it = |record: &Arc<Stored>| {
                let record = record.parse::<ConfigMap>(kind);
                let named = record.as_ref().ok().and_then(connection_of);
                named == Some(&*connection.key().name)
            };
            let all = cache.store().all().into_iter();
            let concerned = all.filter(names_it);
            concerned.map(|record| record.key().clone()).collect()
        }
    }

    fn count(&self) {
        self.ctx.metrics.cleanup_records(self.cache.store().len());
    }
}

impl Reconcile for Records {
    type Object = ConfigMap;
    type Error = ApiError;

    async fn reconcile(&self, map: &ConfigMap, pass: &mut Pass) -> Result<Progress, ApiError> {
        self.count();
        if map.metadata.deletion_timestamp.is_some() {
            return Ok(Progress::done());
        }
        let ctx = &*self.ctx;
        let record = match Record::read(map) {
            Ok(record) => record,
            Err(unreadable) => return Ok(unread(&unreadable.to_string(), pass)),
        };
        match work(&record, ctx, pass).await {
            Ok(note) => {
                kept::close(ctx, pass).await?;
                pass.event(note);
                Ok(Progress::done())
            }
            Err(Halt::Waits { reason, after }) => Ok(Progress::Waiting { reason, after }),
            Err(Halt::Stuck(reason)) => {
                tell(&record, record.said(&reason.message), ctx, pass).await?;
                Ok(Progress::Blocked { reason })
            }
            Err(Halt::Failed(error)) => failed(&record, &error, ctx, pass).await,
        }
    }

    fn gone(&self, _: &ObjectKey) {
        self.count();
    }
}

/// Nobody can tell what such a record is about.
fn unread(why: &str, pass: &Pass) -> Progress {
    pass.event(Note::warning("DeleteFailed", why));
    Progress::Blocked {
        reason: Reason::new(reasons::VALIDATION_FAILED, why),
    }
}

/// Closes the record of what is gone or is not ours to delete, and deletes what is.
async fn work(record: &Record, ctx: &Ctx, pass: &mut Pass) -> Result<Note, Halt> {
    let left = &record.leftover;
    if let Some(after) = record.due_in(ctx.now()) {
        let message = format!("{left} is tried again later");
        return Err(Halt::waits(reasons::FAILED, message, after));
    }
    let Some(connection) = ctx.connection(&left.connection) else {
        let message = format!("there is no VaultConnection {}", left.connection);
        let code = reasons::CONNECTION_NOT_READY;
        return Err(Halt::waits(code, message, LOOK_FOR_CONNECTION));
    };
    if let Some(superseded) = claimed(left, &connection, ctx)? {
        return Ok(superseded);
    }
    let vault = vault(left, &connection, ctx)?;
    let key = left.resource.parse();
    let key = key.unwrap_or_else(|_| ObjectKey::cluster(&*left.resource));
    let today = ctx.header(&connection, &left.kind, &key);
    let found = read(&vault, &left.site, pass).await.map_err(Halt::Failed)?;
    let word = left.site.word();
    match judgement::judge(left, found.as_ref(), &today) {
        Judgement::Gone => {
            ctx.metrics.cleanup_tried(word, true);
            tracing::info!(vaultConnection = left.connection, path = %left, "gone already");
            Ok(Note::normal(
                "Deleted",
                format!("{left} was gone from Vault already"),
            ))
        }
        Judgement::Leave(why) => {
            tracing::warn!(vaultConnection = left.connection, path = %left, why, "left in Vault");
            Ok(Note::warning(
                not_deleted(&left.site),
                format!("{left} was left in Vault: {why}"),
            ))
        }
        Judgement::Delete => {
            // Once more: somebody may have been made while Vault was asked.
            if let Some(superseded) = claimed(left, &connection, ctx)? {
                return Ok(superseded);
            }
            delete(&vault, &left.site, pass)
                .await
                .map_err(Halt::Failed)?;
            ctx.metrics.cleanup_tried(word, true);
            tracing::info!(vaultConnection = left.connection, path = %left, "deleted");
            Ok(Note::normal(
                "Deleted",
                format!("{left} is gone from Vault"),
            ))
        }
    }
}

/// The end of a record whose thing is an object's again.
fn claimed(left: &Leftover, connection: &VaultConnection, ctx: &Ctx) -> Result<Option<Note>, Halt> {
    let waits = |message: String, after| Halt::waits(reasons::DEPENDENCY_NOT_READY, message, after);
    match claimant(ctx, left, connection) {
        Claimant::Nobody => Ok(None),
        Claimant::Unread => Err(waits("not all objects have been read yet".to_owned(), SOON)),
        Claimant::Undecided(who) => Err(waits(
            format!("{left} may be {who}'s, which is not synced yet"),
            LOOK,
        )),
        Claimant::Somebody(who) => {
            tracing::info!(vaultConnection = left.connection, path = %left, who, "superseded");
            let message = format!("{left} is {who}'s now and stays");
            Ok(Some(Note::normal("Superseded", message)))
        }
    }
}

/// A client for where the leftover is.
fn vault(left: &Leftover, connection: &VaultConnection, ctx: &Ctx) -> Result<Client, Halt> {
    let name = &left.connection;
    if !left.is_behind(connection) {
        return Err(Halt::Stuck(Reason::new(
            reasons::CONNECTION_NOT_READY,
            format!(
                "{left} is at {}, and VaultConnection {name} leads to {} now; make one that leads \
                 there, or remove it by hand and delete this record",
                left.address.as_deref().unwrap_or_default(),
                connection.spec.address
            ),
        )));
    }
    let (Some(health), Some(vault)) = (ctx.links.health(name), ctx.links.client(name)) else {
        let message = format!("VaultConnection {name} is not ready");
        return Err(Halt::waits(reasons::CONNECTION_NOT_READY, message, LOOK));
    };
    let there = left.namespace(connection);
    if let Some(namespace) = &there {
        health.takes_namespace(namespace).map_err(|missing| {
            Halt::Stuck(Reason::new(
                reasons::UNSUPPORTED_BY_SERVER,
                missing.to_string(),
            ))
        })?;
    }
    let usual = namespace(connection.spec.vault_namespace.as_deref(), None);
    Ok(if there == usual {
        vault
    } else {
        vault.in_namespace(&there.unwrap_or_default())
    })
}

async fn read(vault: &Client, site: &Site, pass: &mut Pass) -> Result<Option<Evidence>, Error> {
    match site {
        Site::Place(place) => {
            let found = pass.outside(place::read(vault, place)).await?;
            Ok(found.as_ref().map(Evidence::from))
        }
        Site::Seed(KvPath { mount, path }) => {
            let found = pass.outside(vault.read_metadata(mount, path)).await?;
            Ok(found.as_ref().map(Evidence::from))
        }
    }
}

async fn delete(vault: &Client, site: &Site, pass: &mut Pass) -> Result<(), Error> {
    match site {
        Site::Place(place) => pass.outside(place::delete(vault, place)).await,
        Site::Seed(KvPath { mount, path }) => {
            kill_point("vault-before-delete");
            pass.outside(vault.delete_metadata(mount, path)).await?;
            kill_point("vault-after-delete");
            Ok(())
        }
    }
}

fn not_deleted(site: &Site) -> &'static str {
    match site {
        Site::Place(Place::Policy { .. }) => "ForeignPolicyNotDeleted",
        Site::Place(Place::Role { .. }) => "ForeignRoleNotDeleted",
        Site::Seed(_) => "ForeignSecretNotDeleted",
    }
}

/// A try that did not succeed. What the connection is to blame for does not count.
async fn failed(
    record: &Record,
    error: &Error,
    ctx: &Ctx,
    pass: &Pass,
) -> Result<Progress, ApiError> {
    let left = &record.leftover;
    let waits = |code, after| Progress::Waiting {
        reason: Reason::new(code, error.to_string()),
        after,
    };
    if doubts_connection(error) {
        ctx.doubt(&left.connection);
        return Ok(waits(reasons::CONNECTION_NOT_READY, LOOK));
    }
    if matches!(error.class(), Class::Deposed | Class::Throttled) {
        return Ok(waits(reasons::FAILED, error.retry_after().unwrap_or(LOOK)));
    }
    ctx.metrics.cleanup_tried(left.site.word(), false);
    let message = format!("{left} is still in Vault: {error}");
    let next = record.failed(&message, ctx.settings.cleanup_retry, ctx.now());
    let after = next.due_in(ctx.now()).unwrap_or(LOOK);
    tracing::warn!(vaultConnection = left.connection, path = %left, %error, attempts = next.attempts, "not deleted");
    tell(record, next, ctx, pass).await?;
    Ok(waits(reasons::FAILED, after))
}

/// Writes down what has become of the record, and tells of it if that is news.
async fn tell(before: &Record, after: Record, ctx: &Ctx, pass: &Pass) -> Result<(), ApiError> {
    if *before != after {
        kept::note(ctx, pass, &after).await?;
    }
    match after.last_error {
        Some(why) if before.last_error.as_ref() != Some(&why) => {
            pass.event(Note::warning("DeleteFailed", why));
        }
        Some(_) | None => {}
    }
    Ok(())
}
