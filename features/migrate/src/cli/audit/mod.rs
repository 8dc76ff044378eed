//! `audit`: what runs have left in both clusters; with `--release`, what may go is removed.
//!
//! ```text
//! clusters, migrations, EC2 ─▶ reads ─▶ leftovers (pure) ─▶ shown ─▶ consent ─▶ read again ─▶ changes
//! ```

mod fate;
mod fence;
mod leftovers;
mod reads;

use std::collections::BTreeSet;

use clap::ArgMatches;
use engine::ApiError;
use engine::cli::flags::is_set;
use engine::cli::{Answer, Failure, Finding, Outcome, confirm, counted};
use serde_json::json;

use self::leftovers::{AuditReads, Leftover, ReleaseVerdict, leftovers};
use super::clusters::{BothClusters, calls};
use super::session::MigrateSession;
use crate::migration::decision::Change;
use crate::migration::observation::Side;

/// The columns of the answer.
const COLUMNS: &[&str] = &["side", "kind", "object", "run", "state"];

/// Finds leftovers, and releases them if asked to.
pub(super) async fn audit(session: &MigrateSession, args: &ArgMatches) -> Result<Answer, Failure> {
    let both = BothClusters::open(session, args).await?;
    let by_hand = is_set(args, "by-hand");
    let reads = reads::read(session, args, &both).await?;
    let found = leftovers(&reads, by_hand);
    if !is_set(args, "release") {
        return Ok(answer(&found, &reads, &BTreeSet::new()));
    }
    let may_go: Vec<&Leftover> = found.iter().filter(|one| one.changes().is_some()).collect();
    if may_go.is_empty() {
        return Ok(answer(&found, &reads, &BTreeSet::new()));
    }
    for one in &may_go {
        eprintln!("{} {}: {}", one.side, one.object, one.verdict);
        for change in one.changes().unwrap_or_default() {
            eprintln!("  {change}");
        }
    }
    eprintln!("A run whose locks are removed can be neither restored nor rolled back.");
    confirm(args, &format!("Release these {}?", may_go.len()))?;
    both.allow_writes();
    let shown: BTreeSet<_> = may_go.iter().map(|one| one.identity()).collect();
    // The answer may have taken minutes: what was proven then must be proven again.
    let reads = reads::read(session, args, &both).await?;
    let mut found = leftovers(&reads, by_hand);
    let mut released = BTreeSet::new();
    for one in &mut found {
        let identity = one.identity();
        let Some(changes) = one.changes().filter(|_| shown.contains(&identity)) else {
            continue;
        };
        match release(&both, changes).await {
            Ok(()) => {
                released.insert(identity);
            }
            Err(error) => one.verdict = ReleaseVerdict::Stays(error.to_string()),
        }
    }
    Ok(answer(&found, &reads, &released))
}

async fn release(both: &BothClusters, changes: &[Change]) -> Result<(), ApiError> {
    for change in changes {
        let side = change.side().unwrap_or(Side::Source);
        calls::make(both.cluster(side), change).await?;
    }
    Ok(())
}

/// | leftovers                     | outcome  |
/// |-------------------------------|----------|
/// | something could not be read   | unknown  |
/// | some, and not released now    | does not |
/// | none, or all released         | holds    |
fn answer(found: &[Leftover], reads: &AuditReads, released: &BTreeSet<(Side, String)>) -> Answer {
    let findings = found.iter().map(|one| {
        let state = if released.contains(&one.identity()) {
            "released".to_owned()
        } else {
            one.verdict.to_string()
        };
        finding(one, &state)
    });
    let left = found
        .iter()
        .filter(|one| !released.contains(&one.identity()))
        .count();
    let outcome = match (reads.unread.is_empty(), left) {
        (false, _) => Outcome::Unknown,
        (true, 0) => Outcome::Holds,
        (true, _) => Outcome::DoesNot,
    };
    let mut remark = format!("{}.", counted(left, "leftover"));
    for (what, list) in [
        ("Not read", &reads.unread),
        ("Not covered", &reads.uncovered),
    ] {
        if !list.is_empty() {
            remark = format!("{remark} {what}: {}.", list.join("; "));
        }
    }
    Answer::table(COLUMNS, findings.collect(), outcome).with_remark(remark)
}

fn finding(one: &Leftover, state: &str) -> Finding {
    let kind = one.kind.as_str();
    let run = one.run.clone().unwrap_or_default();
    let changes = one.changes().unwrap_or_default().iter();
    let changes: Vec<String> = changes.map(ToString::to_string).collect();
    Finding {
        name: format!("{}/{}", one.side, one.object),
        cells: vec![
            one.side.to_string(),
            kind.to_owned(),
            one.object.clone(),
            run.clone(),
            state.to_owned(),
        ],
        full: json!({
            "side": one.side.as_str(),
            "kind": kind,
            "object": one.object,
            "run": run,
            "state": state,
            "changes": changes,
        }),
    }
}

#[cfg(test)]
mod tests;
