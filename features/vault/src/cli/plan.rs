//! `plan` and `diff`: what the operator would do, by its own code.

use std::sync::Arc;

use api::vault::{
    DeletionPolicy, VaultClusterPolicy, VaultClusterRole, VaultKVSecret, VaultPolicy, VaultRole,
    reasons,
};
use clap::ArgMatches;
use engine::{Answer, Finding, Outcome, Stored};
use kernel::{ObjectKey, Reason};
use serde_json::json;

use super::site::Site;
use super::target::{self, Target};
use super::{Failure, file, text};
use crate::kv;
use crate::links::Dependent;
use crate::sync::{self, Ahead, Cause, Declared, Outlook, Step, Stop};

/// One line of a plan.
pub(super) struct Line {
    kind: &'static str,
    key: ObjectKey,
    place: String,
    step: &'static str,
    why: String,
    diff: String,
    outcome: Outcome,
}

pub(super) async fn plan(site: &Site, args: &ArgMatches) -> Result<Answer, Failure> {
    let lines = lines(site, args).await?;
    let count = objects(&lines);
    let steps = lines.iter().filter(|line| line.step != NOTHING).count();
    let remark = format!(
        "{steps} {} for {count} {}; nothing was written.",
        plural(steps, "step"),
        plural(count, "object")
    );
    let cells = |line: &Line| vec![line.step.to_owned(), line.why.clone()];
    Ok(answer(
        lines,
        &["kind", "name", "step", "why"],
        cells,
        remark,
    ))
}

pub(super) async fn diff(site: &Site, args: &ArgMatches) -> Result<Answer, Failure> {
    let mut lines = lines(site, args).await?;
    let count = objects(&lines);
    lines.retain(|line| line.step != NOTHING);
    let remark = format!(
        "{} of {count} {} differ; nothing was written.",
        objects(&lines),
        plural(count, "object")
    );
    let cells = |line: &Line| {
        let said = if line.diff.is_empty() {
            line.why.clone()
        } else {
            line.diff.clone()
        };
        vec![line.place.clone(), said]
    };
    Ok(answer(
        lines,
        &["kind", "name", "path", "difference"],
        cells,
        remark,
    ))
}

/// The step where there is none.
const NOTHING: &str = "-";

fn plural(count: usize, word: &str) -> String {
    if count == 1 {
        word.to_owned()
    } else {
        format!("{word}s")
    }
}

fn objects(lines: &[Line]) -> usize {
    let mut all: Vec<_> = lines.iter().map(|line| (line.kind, &line.key)).collect();
    all.dedup();
    all.len()
}

fn answer(
    lines: Vec<Line>,
    columns: &'static [&'static str],
    cells: impl Fn(&Line) -> Vec<String>,
    remark: String,
) -> Answer {
    let any = |outcome| lines.iter().any(|line| line.outcome == outcome);
    let outcome = if any(Outcome::Unknown) {
        Outcome::Unknown
    } else if any(Outcome::DoesNot) {
        Outcome::DoesNot
    } else {
        Outcome::Holds
    };
    let finding = |line: &Line| {
        let key = &line.key;
        let mut all = vec![line.kind.to_owned(), key.to_string()];
        all.extend(cells(line));
        Finding {
            name: format!("{}/{key}", line.kind),
            cells: all,
            full: json!({
                "kind": line.kind,
                "namespace": key.namespace.as_deref(),
                "name": &*key.name,
                "vaultPath": line.place,
                "step": line.step,
                "why": line.why,
                "diff": line.diff,
            }),
        }
    };
    Answer {
        columns,
        findings: lines.iter().map(finding).collect(),
        outcome,
        documents: false,
        remark: Some(remark),
    }
}

async fn lines(site: &Site, args: &ArgMatches) -> Result<Vec<Line>, Failure> {
    let chosen = match (text(args, "object"), text(args, "file")) {
        (Some(named), _) => {
            let target = Target::parse(named, site.namespace())?;
            let object = target.object(site)?;
            vec![(target, object)]
        }
        (None, Some(file)) => file::objects(site, file, site.namespace())?,
        (None, None) => all(site, text(args, "namespace")),
    };
    let mut lines = Vec::new();
    for (target, object) in chosen {
        lines.extend(look(site, &target, object).await);
    }
    Ok(lines)
}

/// All objects, or those of one namespace, in the order of their kinds.
fn all(site: &Site, namespace: Option<&str>) -> Vec<(Target, Arc<Stored>)> {
    let of = |kind: Dependent| {
        let mut objects = site.ctx.caches.of(kind).store().all();
        objects.sort_by(|a, b| a.key().cmp(b.key()));
        objects.into_iter().map(move |object| {
            let key = object.key().clone();
            (Target { kind, key }, object)
        })
    };
    let wanted = |(target, _): &(Target, Arc<Stored>)| {
        namespace.is_none_or(|name| target.key.namespace.as_deref() == Some(name))
    };
    Dependent::ALL
        .into_iter()
        .flat_map(of)
        .filter(wanted)
        .collect()
}

/// What is ahead of one object.
async fn look(site: &Site, target: &Target, object: Arc<Stored>) -> Vec<Line> {
    match target.kind {
        Dependent::Policy => thing::<VaultPolicy>(site, target, object).await,
        Dependent::ClusterPolicy => thing::<VaultClusterPolicy>(site, target, object).await,
        Dependent::Role => thing::<VaultRole>(site, target, object).await,
        Dependent::ClusterRole => thing::<VaultClusterRole>(site, target, object).await,
        Dependent::Seed => vec![seed(site, target, object).await],
    }
}

/// A line about `target` that names no place.
fn line(target: &Target, step: &'static str, why: String, outcome: Outcome) -> Line {
    Line {
        kind: target::name(target.kind),
        key: target.key.clone(),
        place: String::new(),
        step,
        why,
        diff: String::new(),
        outcome,
    }
}

fn unreadable(target: &Target, error: impl std::fmt::Display) -> Line {
    line(target, "?", error.to_string(), Outcome::Unknown)
}

/// The operator's plan for a policy or a role.
pub(super) async fn outlook<K: Declared>(
    site: &Site,
    target: &Target,
    object: Arc<Stored>,
) -> Result<(K, Result<Outlook, Stop>), Failure> {
    let cache = site.ctx.caches.of(target.kind);
    let parsed: K = object.parse(&cache.key().kind)?;
    // A failure is what the pass will find, too.
    Box::pin(site.vault(parsed.terms().connection)).await.ok();
    let mut pass = site.ctx.deck.look(cache, object).await;
    let outlook = Box::pin(sync::outlook(&parsed, &site.ctx, &mut pass)).await;
    Ok((parsed, outlook))
}

async fn thing<K: Declared>(site: &Site, target: &Target, object: Arc<Stored>) -> Vec<Line> {
    if object.is_deleting() {
        return going::<K>(site, target, &object);
    }
    let outlook = match outlook::<K>(site, target, object).await {
        Ok((_, Ok(outlook))) => outlook,
        Ok((_, Err(stop))) => return vec![stopped(target, stop)],
        Err(error) => return vec![unreadable(target, error)],
    };
    let Outlook {
        places,
        left,
        lacks,
        adoption_refused: _,
    } = outlook;
    let mut lines: Vec<_> = places.into_iter().map(|one| ahead(target, one)).collect();
    lines.extend(left.into_iter().map(|place| Line {
        place: place.to_string(),
        ..line(
            target,
            "leave",
            format!("{place} is its place no longer; deleted once nothing needs it"),
            Outcome::DoesNot,
        )
    }));
    if let Some(Reason { message, .. }) = lacks {
        lines.push(line(target, NOTHING, message, Outcome::Holds));
    }
    lines
}

/// What becomes of the places of an object that is being deleted.
fn going<K: Declared>(site: &Site, target: &Target, object: &Stored) -> Vec<Line> {
    let parsed: K = match object.parse(&site.ctx.caches.of(target.kind).key().kind) {
        Ok(parsed) => parsed,
        Err(error) => return vec![unreadable(target, error)],
    };
    let retained = parsed.terms().deletion == DeletionPolicy::Retain;
    let records = K::records(&parsed.status()).into_iter();
    let lines = records.map(|record| {
        let (step, why, outcome) = if retained {
            (
                NOTHING,
                "the object goes, and this stays (Retain)",
                Outcome::Holds,
            )
        } else {
            ("delete", "the object is being deleted", Outcome::DoesNot)
        };
        Line {
            place: record.place.to_string(),
            ..line(target, step, why.to_owned(), outcome)
        }
    });
    lines.collect()
}

fn stopped(target: &Target, stop: Stop) -> Line {
    match stop {
        Stop::Blocked { reason } if reason.code == reasons::DISCOVERY_PENDING => {
            line(target, NOTHING, reason.message, Outcome::Holds)
        }
        Stop::Blocked { reason } if reason.code != reasons::CONNECTION_NOT_READY => {
            let why = format!("{}: {}", reason.code, reason.message);
            line(target, "refuse", why, Outcome::DoesNot)
        }
        Stop::Blocked { reason } | Stop::Waiting { reason, .. } => {
            unreadable(target, reason.message)
        }
        Stop::Failed(error) => unreadable(target, error),
        Stop::Again => unreadable(target, "it changed meanwhile; ask again"),
    }
}

/// A step for people.
fn ahead(target: &Target, one: Ahead) -> Line {
    let Ahead { place, step, diff } = one;
    let named = format!("{}/{}", target::name(target.kind), target.key);
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
    Line {
        place: place.to_string(),
        diff,
        ..line(target, step, why, outcome)
    }
}

async fn seed(site: &Site, target: &Target, object: Arc<Stored>) -> Line {
    if object.is_deleting() {
        let why = "the object is being deleted; only what we seeded goes with it".to_owned();
        return line(target, "delete", why, Outcome::DoesNot);
    }
    let cache = site.ctx.caches.of(target.kind);
    let parsed: VaultKVSecret = match object.parse(&cache.key().kind) {
        Ok(parsed) => parsed,
        Err(error) => return unreadable(target, error),
    };
    Box::pin(site.vault(&parsed.spec.connection_ref)).await.ok();
    let mut pass = site.ctx.deck.look(cache, object).await;
    let outlook = match Box::pin(kv::outlook(&parsed, &site.ctx, &mut pass)).await {
        Ok(outlook) => outlook,
        Err(stop) => return stopped(target, stop),
    };
    let (step, outcome) = match (outlook.writes, outlook.wrong) {
        (true, _) => ("write", Outcome::DoesNot),
        (false, true) => ("refuse", Outcome::DoesNot),
        (false, false) => (NOTHING, Outcome::Holds),
    };
    Line {
        place: outlook.path,
        ..line(target, step, outlook.said, outcome)
    }
}
