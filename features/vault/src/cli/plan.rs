//! `plan` and `diff`: what the operator would do, by its own code.

use std::sync::Arc;

use api::vault::{
    DeletionPolicy, VaultClusterPolicy, VaultClusterRole, VaultKVSecret, VaultPolicy, VaultRole,
    reasons,
};
use clap::ArgMatches;
use engine::cli::{Failure, ObjectRef, Outcome, PlanRow, PlanTable};
use engine::{Ended, Malformed, Stored};
use kernel::Reason;
use serde::Serialize;

use super::session::VaultSession;
use crate::kv::{self, Decision, Seeds};
use crate::links::Dependent;
use crate::sync::{self, Ahead, Cause, Declared, Outlook, Step, Stop};

/// The step where there is none.
const NOTHING: &str = "-";

/// One row of a plan.
#[derive(Serialize)]
pub(super) struct Row {
    #[serde(rename = "vaultPath")]
    path: String,
    step: &'static str,
    why: String,
    diff: String,
    #[serde(skip)]
    outcome: Outcome,
}

impl PlanRow for Row {
    const PLAN_COLUMNS: &'static [&'static str] = &["kind", "name", "step", "why"];
    const DIFF_COLUMNS: &'static [&'static str] = &["kind", "name", "path", "difference"];

    fn outcome(&self) -> Outcome {
        self.outcome
    }

    fn plan_cells(&self) -> Vec<String> {
        vec![self.step.to_owned(), self.why.clone()]
    }

    fn diff_cells(&self) -> Vec<String> {
        let difference = if self.diff.is_empty() {
            &self.why
        } else {
            &self.diff
        };
        vec![self.path.clone(), difference.clone()]
    }
}

/// The plan of all objects that `args` select.
pub(super) async fn plan(
    session: &VaultSession,
    args: &ArgMatches,
) -> Result<PlanTable<Row>, Failure> {
    let mut plan = PlanTable::new(&session.cluster);
    for (target, object) in session.kinds().select(&session.cluster.scope, args)? {
        plan.add(&target, preview(session, &target, object).await);
    }
    Ok(plan)
}

/// What the operator would do for one object.
async fn preview(
    session: &VaultSession,
    target: &ObjectRef<Dependent>,
    object: Arc<Stored>,
) -> Vec<Row> {
    match target.id {
        Dependent::Policy => managed::<VaultPolicy>(session, target, object).await,
        Dependent::ClusterPolicy => managed::<VaultClusterPolicy>(session, target, object).await,
        Dependent::Role => managed::<VaultRole>(session, target, object).await,
        Dependent::ClusterRole => managed::<VaultClusterRole>(session, target, object).await,
        Dependent::Seed => vec![seed(session, target, object).await],
    }
}

/// A row without a path.
fn row(step: &'static str, why: impl Into<String>, outcome: Outcome) -> Row {
    Row {
        path: String::new(),
        step,
        why: why.into(),
        diff: String::new(),
        outcome,
    }
}

fn unreadable(error: impl std::fmt::Display) -> Row {
    row("?", error.to_string(), Outcome::Unknown)
}

/// The operator's plan for a policy or a role.
pub(super) async fn planned<K: Declared>(
    session: &VaultSession,
    target: &ObjectRef<Dependent>,
    object: Arc<Stored>,
) -> Result<Outlook, Failure> {
    let outlook = attempted::<K>(session, target, object).await?;
    outlook.map_err(|stop| match stop {
        Stop::Waiting { reason, .. } | Stop::Blocked { reason } => reason.message.into(),
        Stop::Failed(error) => error.into(),
        Stop::Again => "it changed meanwhile; ask again".into(),
    })
}

/// The same, or where the pass would stop. An error is an object that does not fit its schema.
async fn attempted<K: Declared>(
    session: &VaultSession,
    target: &ObjectRef<Dependent>,
    object: Arc<Stored>,
) -> Result<Result<Outlook, Stop>, Malformed> {
    let cache = &target.cache;
    let parsed: K = object.parse(&cache.key().kind)?;
    // A failure is what the pass will find, too.
    Box::pin(session.vault(parsed.terms().connection))
        .await
        .ok();
    let mut pass = session.ctx.deck.reading_pass(cache, object).await;
    Ok(Box::pin(sync::outlook(&parsed, &session.ctx, &mut pass)).await)
}

async fn managed<K: Declared>(
    session: &VaultSession,
    target: &ObjectRef<Dependent>,
    object: Arc<Stored>,
) -> Vec<Row> {
    if object.is_deleting() {
        return leaving::<K>(target, &object);
    }
    let outlook = match attempted::<K>(session, target, object).await {
        Ok(Ok(outlook)) => outlook,
        Ok(Err(stop)) => return vec![stopped(stop)],
        Err(error) => return vec![unreadable(error)],
    };
    let Outlook {
        places,
        left,
        lacks,
        adoption_refused: _,
    } = outlook;
    let mut rows: Vec<_> = places.into_iter().map(|one| ahead(target, one)).collect();
    rows.extend(left.into_iter().map(|path| Row {
        path: path.to_string(),
        ..row(
            "leave",
            format!("{path} is its place no longer; deleted once nothing needs it"),
            Outcome::DoesNot,
        )
    }));
    if let Some(Reason { message, .. }) = lacks {
        rows.push(row(NOTHING, message, Outcome::Holds));
    }
    rows
}

/// What becomes of what Vault has of an object that is being deleted.
fn leaving<K: Declared>(target: &ObjectRef<Dependent>, object: &Stored) -> Vec<Row> {
    let parsed: K = match object.parse(target.kind()) {
        Ok(parsed) => parsed,
        Err(error) => return vec![unreadable(error)],
    };
    let (step, why, outcome) = if parsed.terms().deletion == DeletionPolicy::Retain {
        (
            NOTHING,
            "the object goes, and this stays (Retain)",
            Outcome::Holds,
        )
    } else {
        ("delete", "the object is being deleted", Outcome::DoesNot)
    };
    let records = K::records(&parsed.status()).into_iter();
    let rows = records.map(|record| Row {
        path: record.place.to_string(),
        ..row(step, why, outcome)
    });
    rows.collect()
}

fn stopped(stop: Stop) -> Row {
    match stop {
        Stop::Blocked { reason } if reason.code == reasons::DISCOVERY_PENDING => {
            row(NOTHING, reason.message, Outcome::Holds)
        }
        Stop::Blocked { reason } if reason.code != reasons::CONNECTION_NOT_READY => {
            let why = format!("{}: {}", reason.code, reason.message);
            row("refuse", why, Outcome::DoesNot)
        }
        Stop::Blocked { reason } | Stop::Waiting { reason, .. } => unreadable(reason.message),
        Stop::Failed(error) => unreadable(error),
        Stop::Again => unreadable("it changed meanwhile; ask again"),
    }
}

/// A step for people.
fn ahead(target: &ObjectRef<Dependent>, one: Ahead) -> Row {
    let Ahead { place, step, diff } = one;
    let named = target.argument();
    let (step, why, outcome) = match step {
        Step::Keep { .. } => (NOTHING, String::new(), Outcome::Holds),
        Step::Leave => (NOTHING, "driftMode is ignore".to_owned(), Outcome::Holds),
        // All that changes is whose it is.
        Step::Write {
            cause: Cause::Adopt | Cause::Transfer,
            ..
        } if diff.is_empty() => (
            "mark",
            "it is as wanted, and becomes ours".to_owned(),
            Outcome::Holds,
        ),
        Step::Write { cause, .. } => ("write", cause.word().to_owned(), Outcome::DoesNot),
        Step::Report { .. } => ("report", "drift".to_owned(), Outcome::DoesNot),
        Step::Block { .. } => (
            "block",
            "drift; annotate vault.platform.io/allow-destructive=true to correct it".to_owned(),
            Outcome::DoesNot,
        ),
        Step::Conflict { owner: Some(owner) } => (
            "conflict",
            format!("{place} belongs to {owner}; pontoon vault adopt {named} --from {owner:?}"),
            Outcome::DoesNot,
        ),
        Step::Conflict { owner: None } => (
            "conflict",
            format!("{place} is there already; pontoon vault adopt {named}"),
            Outcome::DoesNot,
        ),
        Step::Unsupported { fields } => (
            "refuse",
            format!("the server does not keep {}", fields.join(", ")),
            Outcome::DoesNot,
        ),
    };
    Row {
        path: place.to_string(),
        diff,
        ..row(step, why, outcome)
    }
}

async fn seed(session: &VaultSession, target: &ObjectRef<Dependent>, object: Arc<Stored>) -> Row {
    if object.is_deleting() {
        let why = "the object is being deleted; only what we seeded goes with it";
        return row("delete", why, Outcome::DoesNot);
    }
    let parsed: VaultKVSecret = match object.parse(target.kind()) {
        Ok(parsed) => parsed,
        Err(error) => return unreadable(error),
    };
    Box::pin(session.vault(&parsed.spec.connection_ref))
        .await
        .ok();
    let (seeds, clock) = (Seeds::new(session.ctx.clone()), &session.ctx.deck.clock);
    let preview = Box::pin(engine::preview(&seeds, target.kind(), &object, clock)).await;
    let (world, ended) = match preview {
        Ok(preview) => preview,
        Err(error) => return unreadable(error),
    };
    let Some(decision) = kv::decision(&world) else {
        return match ended {
            Ended::Stopped(engine::Stop::Blocked { reason }) => stopped(Stop::blocked(reason)),
            Ended::Stopped(stop) => unreadable(&stop.reason().message),
            Ended::Done { .. } | Ended::Announcing(_) | Ended::Previewed(_) => {
                unreadable("nothing was decided")
            }
        };
    };
    let (step, outcome) = match &decision {
        Decision::Write { .. } | Decision::Claim { .. } => ("write", Outcome::DoesNot),
        Decision::Refuse { .. } | Decision::Unreadable { .. } => ("refuse", Outcome::DoesNot),
        Decision::Untouched { .. }
        | Decision::Unconfirmed
        | Decision::Absent
        | Decision::Delete
        | Decision::Left(_) => (NOTHING, Outcome::Holds),
    };
    Row {
        path: parsed.spec.path,
        ..row(step, decision.to_string(), outcome)
    }
}
