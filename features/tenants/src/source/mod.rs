//! One pass over a TenantSource: leave, read, compare, apply, status.
//!
//! ```text
//! Secret, ConfigMap ──▶ read ──▶ rows ──▶ tenants ──▶ plan, prune ──▶ apply ──▶ status
//! DynamoDB, PostgreSQL            (pure)               (pure)
//! ```
//! # Promises
//! - A table that was not read to its end changes nothing.
//! - A wrong row changes nothing of its tenant, and nothing of the others.
//! - An object without the source's mark is neither changed nor deleted.
//! - Objects go only after several readings without their row, and many of them only when somebody
//!   has approved exactly these.
//! - What a connection string holds stays in memory, for as long as one reading takes.

mod address;
mod apply;
mod by_name;
mod compare;
mod csv;
mod dynamodb;
mod error;
mod leave;
mod object;
mod plan;
mod polls;
pub mod postgres;
mod prune;
mod read;
mod rows;
mod status;
mod valid;

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use api::tenants::{TenantSource, events, names, reasons};
use engine::{ControllerSpec, Index, Note, Pass, Reconcile, Stored};
use kernel::{ObjectKey, Progress, Reason};
use serde_json::Value;
use sha2::{Digest as _, Sha256};

pub(crate) use error::Error;
pub use rows::{Cell, Place, Row};
pub(crate) use valid::is_domain;

use self::apply::Done;
use self::polls::{Memory, Polls};
use self::read::{Reader, Unread};
use self::status::{Outcome, Report};
use crate::allowed::Leave;
use crate::ctx::{Ctx, UNSETTLED};
use crate::failure::{Says, Way, counted, failure};
use crate::trouble::{Met, Moment};
use crate::words::few;

/// A reading may take minutes, and so may two thousand objects on a slow API server.
const DEADLINE: Duration = Duration::from_secs(10 * 60);
/// When a pass goes on that had more to do than one takes, and when one looks again at what changed
/// while it worked.
const GO_ON: Duration = Duration::from_secs(1);
const LOOK_AGAIN: Duration = Duration::from_secs(30);
/// A table that could not be read is tried again after this long, or sooner if its interval is.
const RETRY: Duration = Duration::from_secs(5 * 60);
/// Passes at once: one that waits for its table does not count.
const AT_ONCE: usize = 4;

/// Objects by the UID of the source that made them.
const BY_SOURCE: &str = "tenants.source";

/// What an answer says that has more rows than the spec allows.
fn too_many(max: usize) -> String {
    format!("it has more than {max} rows; raise maxRows, or let the table have fewer")
}

/// The first bytes of the SHA-256 of `text`, in hex.
fn digest(text: &str, bytes: usize) -> String {
    let digest = Sha256::digest(text);
    let digits = digest.iter().take(bytes);
    digits.fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").expect("writing to a string cannot fail");
        text
    })
}

/// A text that the spec gives; an empty one is none.
fn given(text: Option<&str>) -> Option<&str> {
    text.filter(|text| !text.is_empty())
}

/// The namespace of a source.
fn own(source: &TenantSource) -> &str {
    source.metadata.namespace.as_deref().unwrap_or_default()
}

/// The namespace of its objects.
fn target(source: &TenantSource) -> &str {
    given(source.spec.target_namespace.as_deref()).unwrap_or_else(|| own(source))
}

/// Everything the engine has to know about sources.
pub(crate) fn controller(ctx: &Arc<Ctx>) -> ControllerSpec {
    let caches = &ctx.caches;
    caches.tenants.store().index(Index::by(BY_SOURCE, |object| {
        object.annotation(names::SOURCE_UID).into_iter().collect()
    }));
    let sources = Sources {
        ctx: ctx.clone(),
        polls: Polls::default(),
    };
    let (aimed, all) = (caches.sources.clone(), caches.sources.clone());
    ControllerSpec::new(caches.sources.key().clone(), sources)
        .deadline(DEADLINE)
        .concurrency(AT_ONCE)
        // Concerns nobody: a table is compared in its own time.
        .follow(caches.tenants.key().clone(), |_| Vec::new())
        .follow(caches.namespaces.key().clone(), move |namespace| {
            let mut found = aimed.store().all();
            found.retain(|source| concerns(source, &namespace.key().name));
            keys(&found)
        })
        .follow(caches.policies.key().clone(), move |_| {
            keys(&all.store().all())
        })
}

fn keys(found: &[Arc<Stored>]) -> Vec<ObjectKey> {
    found.iter().map(|one| one.key().clone()).collect()
}

/// Whether a source has to do with a namespace: it is there, or makes its objects there. Policies
/// speak for namespaces by label, and the other one may accept it or not.
fn concerns(source: &Stored, namespace: &str) -> bool {
    let spec: Value = serde_json::from_str(source.json()).unwrap_or_default();
    source.key().namespace.as_deref() == Some(namespace)
        || spec["spec"]["targetNamespace"] == namespace
}

/// The controller of sources.
pub(crate) struct Sources {
    ctx: Arc<Ctx>,
    polls: Polls,
}

impl Reconcile for Sources {
    type Object = TenantSource;
    type Error = Error;

    async fn reconcile(&self, source: &TenantSource, pass: &mut Pass) -> Result<Progress, Error> {
        if source.metadata.deletion_timestamp.is_some() || source.spec.suspend {
            return Ok(Progress::done());
        }
        if !self.is_settled() {
            return Ok(waiting(
                reasons::POLL_FAILED,
                "the objects of the cluster are not read yet",
                UNSETTLED,
            ));
        }
        let mut memory = self.polls.of(pass.key(), source);
        let left = memory.due.map(|due| due.saturating_sub(self.elapsed()));
        let left = left.filter(|left| !left.is_zero() && !pass.is_urgent());
        if let Some(ended) = self.acquaint(source, pass, &memory, left).await {
            return ended;
        }
        let leave = match leave::leave(source, &self.ctx) {
            Ok(leave) => leave,
            Err(reason) => {
                memory.due = None; // once there is leave, the table is read at once
                self.polls.keep(pass.key(), memory);
                let denied = Outcome::Denied(reason.clone());
                self.say(source, pass, &denied).await?;
                return Ok(Progress::Blocked { reason });
            }
        };
        match left {
            Some(left) => Ok(recheck(left)),
            None => self.poll(source, pass, memory, &leave).await,
        }
    }

    fn gone(&self, key: &ObjectKey) {
        self.polls.forget(key);
        self.ctx.metrics.forget_source(key);
    }
}

impl Sources {
    fn is_settled(&self) -> bool {
        let caches = &self.ctx.caches;
        let needed = [
            &caches.tenants,
            &caches.namespaces,
            &caches.policies,
            &caches.groups,
        ];
        needed.iter().all(|cache| cache.is_settled())
    }

    /// Finds out which group is the default one, if leave depends on it. Gives how the pass ends if
    /// that cannot be told, or is not to be asked yet.
    async fn acquaint(
        &self,
        source: &TenantSource,
        pass: &mut Pass,
        memory: &Memory,
        left: Option<Duration>,
    ) -> Option<Result<Progress, Error>> {
        if !leave::hinges_on_default(source, &self.ctx) {
            return None;
        }
        if let Some(left) = left {
            return Some(Ok(recheck(left)));
        }
        let learnt = Box::pin(self.ctx.learn_default_group(target(source)));
        let error = pass.outside(learnt).await.err()?;
        let ended = self.unread(source, pass, memory.clone(), error.into());
        Some(ended.await)
    }

    /// Reads the table, and makes the objects be as it says.
    async fn poll(
        &self,
        source: &TenantSource,
        pass: &mut Pass,
        mut memory: Memory,
        leave: &Leave,
    ) -> Result<Progress, Error> {
        let began = self.elapsed();
        // Reads: Secret or ConfigMap, then the table.
        let rows = match self.read(source, pass, leave).await {
            Ok(rows) => rows,
            Err(unread) => return self.unread(source, pass, memory, unread).await,
        };
        let now = self.ctx.now();
        self.ctx.metrics.polled(pass.key(), now.as_second());

        // Pure, but for the cache: what differs, and what is too much.
        let found = compare::compare(source, rows, &memory, &self.ctx).await;
        let judged = memory.judge(source, &found, began);

        // Writes. If they do not come to their end, the next pass goes on from here.
        memory.begin();
        let stops_at = found.plan.stops_at().filter(|_| !source.spec.dry_run);
        memory.stopped_at = stops_at.map(str::to_owned);
        self.polls.keep(pass.key(), memory.clone());
        let work = apply::work(&found.plan, &judged.verdict, source.spec.dry_run);
        let done = apply::apply(&work, &found.origin, &self.ctx.deck.client).await;
        tell(pass, &done);
        memory.count(&done);
        self.polls.keep(pass.key(), memory.clone());

        let report = Report::new(&found, &judged, &done, memory.untold, &source.spec);
        self.say(source, pass, &Outcome::Read(report)).await?;
        memory.end(&done, began + source.spec.poll_interval.length());
        let due = memory.due;
        self.polls.keep(pass.key(), memory);
        let is_more = done.later > 0 && done.is_progress();
        match (due, done.failed) {
            (_, Some(error)) => Err(error.into()),
            (Some(due), None) => Ok(recheck(due.saturating_sub(self.elapsed()))),
            (None, None) if is_more => {
                Ok(waiting(reasons::POLLED, "there is more to write", GO_ON))
            }
            (None, None) => Ok(waiting(
                reasons::POLLED,
                "objects changed meanwhile, or are refused",
                LOOK_AGAIN,
            )),
        }
    }

    async fn read(
        &self,
        source: &TenantSource,
        pass: &mut Pass,
        leave: &Leave,
    ) -> Result<Vec<Row>, Unread> {
        let max = usize::try_from(source.spec.max_rows).unwrap_or_default();
        let external_id = leave.external_id.as_deref();
        let reader = Reader::of(&source.spec)?;
        let rows = reader.rows(&self.ctx, own(source), external_id, max);
        pass.outside(rows).await
    }

    /// Says that the table could not be read, unless that passes by itself, and looks again.
    async fn unread(
        &self,
        source: &TenantSource,
        pass: &mut Pass,
        mut memory: Memory,
        unread: Unread,
    ) -> Result<Progress, Error> {
        let retry = RETRY.min(source.spec.poll_interval.length());
        if let Unread::Aws(error) = &unread
            && let Some(counted) = counted(error, Way::Validation)
        {
            self.ctx.metrics.failed(counted);
        }
        let at = Moment {
            generation: source.metadata.generation,
            elapsed: self.elapsed(),
            random: fastrand::f64(),
        };
        let Setback { told, next } = setback(unread, &mut memory, retry, &at);
        let wait = next.as_ref().ok();
        memory.due = wait.map(|wait| self.elapsed() + *wait);
        self.polls.keep(pass.key(), memory);
        if let Some(why) = told {
            self.say(source, pass, &Outcome::Unread(why)).await?;
        }
        next.map(|wait| waiting(reasons::POLL_FAILED, "the table could not be read", wait))
    }

    /// Writes the status if it says something new, and the warnings that go with it.
    async fn say(
        &self,
        source: &TenantSource,
        pass: &mut Pass,
        outcome: &Outcome,
    ) -> Result<(), Error> {
        let Some(after) = status::status(source, outcome, self.ctx.now()) else {
            return Ok(());
        };
        let before = source.status.as_ref();
        let before = before.map(|status| &*status.conditions).unwrap_or_default();
        for note in status::warnings(before, &after.conditions) {
            pass.event(note);
        }
        pass.write_status(&after).await?;
        Ok(())
    }

    fn elapsed(&self) -> Duration {
        self.ctx.deck.clock.elapsed()
    }
}

/// What follows from a table that could not be read.
struct Setback {
    /// What the source says of it; none while it may pass unnoticed.
    told: Option<String>,
    /// When it is read again; an error: by the engine's back-off.
    next: Result<Duration, Error>,
}

fn setback(unread: Unread, memory: &mut Memory, retry: Duration, at: &Moment) -> Setback {
    let why = unread.to_string();
    match unread {
        Unread::Table(_) => Setback {
            told: Some(why),
            next: Ok(retry),
        },
        Unread::Api(error) => Setback {
            told: None,
            next: Err(error.into()),
        },
        Unread::Aws(error) => {
            let met = failure(error.fault(), Way::Validation);
            let Met { says, after } = memory.trouble.met(&met, at);
            Setback {
                told: Some(why).filter(|_| says != Says::Nothing),
                next: after.ok_or_else(|| error.into()),
            }
        }
    }
}

/// One event a kind of change, however many objects it concerns.
fn tell(pass: &Pass, done: &Done) {
    let changes = [
        (events::TENANT_CREATED, "made", &done.created),
        (events::TENANT_UPDATED, "changed", &done.updated),
        (events::TENANT_PRUNED, "deleted", &done.pruned),
    ];
    for (reason, did, objects) in changes.into_iter().filter(|(.., all)| !all.is_empty()) {
        let count = objects.len();
        let objects = few(objects);
        pass.event(Note::normal(
            reason,
            format!("{did} {count} objects: {objects}"),
        ));
    }
}

fn waiting(code: &'static str, what: &str, after: Duration) -> Progress {
    Progress::Waiting {
        reason: Reason::new(code, what),
        after,
    }
}

fn recheck(after: Duration) -> Progress {
    Progress::Done {
        recheck: Some(after),
    }
}

#[cfg(test)]
mod tests;
