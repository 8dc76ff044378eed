//! `start`, `pause`, `resume`, `retry`, `abort`, `rollback`: change the spec of a migration.

use api::migrate::StatefulSetMigration;
use clap::ArgMatches;
use engine::ApiError;
use engine::cli::{Answer, Failure, Finding, Outcome, confirm};
use kernel::ObjectKey;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

use super::run_state::RunState;
use super::session::{MigrateSession, migrations};
use super::spec_edit::{EditPlan, SpecEdit};
use super::{refused, time_limit, wait};

/// The columns of the answer.
const COLUMNS: &[&str] = &["namespace", "name", "state", "detail"];
/// How often a change is tried while the operator writes the status.
const ATTEMPTS: usize = 10;

/// Shows the change, asks, and makes it. With `--timeout` it waits for the end of the run.
pub(super) async fn edit(
    session: &MigrateSession,
    args: &ArgMatches,
    edit: SpecEdit,
) -> Result<Answer, Failure> {
    let key = session.required_name()?;
    let live = session.live(key).await?;
    let shown = edit.plan(&live);
    let (patch, lines) = match &shown {
        EditPlan::Refused(why) => {
            return Ok(refused(format!("StatefulSetMigration {key}: {why}")));
        }
        EditPlan::Nothing(why) => return followed(session, args, key, &live, why).await,
        EditPlan::Patch { patch, lines } => (patch, lines),
    };
    eprintln!("StatefulSetMigration {key}:");
    for line in lines {
        eprintln!("  {line}");
    }
    confirm(args, "Change it?")?;
    session.cluster.allow_writes();
    let is_as_shown = |newer: &StatefulSetMigration| {
        newer.metadata.uid == live.metadata.uid && edit.plan(newer) == shown
    };
    match patched(session, key, &live, patch, is_as_shown).await? {
        Ok(written) => followed(session, args, key, &written, &lines[0]).await,
        Err(why) => Ok(refused(why)),
    }
}

/// Patches the version that was shown, or a later one that is as shown: the status of a run changes all the time.
/// The inner error is a refusal of the API server.
async fn patched(
    session: &MigrateSession,
    key: &ObjectKey,
    live: &StatefulSetMigration,
    patch: &Value,
    is_as_shown: impl Fn(&StatefulSetMigration) -> bool,
) -> Result<Result<StatefulSetMigration, String>, Failure> {
    let mut newer = None;
    for _ in 0..ATTEMPTS {
        let error = match patched_once(session, key, newer.as_ref().unwrap_or(live), patch).await {
            Ok(written) => return Ok(Ok(written)),
            Err(error) => error,
        };
        let is_outdated = matches!(
            error,
            ApiError::Stale { .. } | ApiError::Answer { code: 409, .. }
        );
        let found = if is_outdated {
            Some(session.live(key).await?).filter(&is_as_shown)
        } else {
            None
        };
        match found {
            Some(found) => newer = Some(found),
            None => return refusal(error).map(Err),
        }
    }
    let what = format!("change StatefulSetMigration {key}");
    refusal(ApiError::Stale { what }).map(Err)
}

async fn patched_once(
    session: &MigrateSession,
    key: &ObjectKey,
    version: &StatefulSetMigration,
    patch: &Value,
) -> Result<StatefulSetMigration, ApiError> {
    let mut patch = patch.clone();
    patch["metadata"]["uid"] = json!(version.metadata.uid);
    patch["metadata"]["resourceVersion"] = json!(version.metadata.resource_version);
    let api = migrations(session.writer(), key);
    let answer = api
        .patch(&key.name, &PatchParams::default(), &Patch::Merge(patch))
        .await;
    answer.map_err(|error| ApiError::classify(format!("change StatefulSetMigration {key}"), error))
}

/// What the API server refuses, for people. Other errors leave open what has happened.
pub(super) fn refusal(error: ApiError) -> Result<String, Failure> {
    match error {
        ApiError::Stale { what }
        | ApiError::Answer {
            what, code: 409, ..
        } => Ok(format!(
            "{what}: it has changed since it was shown, so nothing was written; run the command again"
        )),
        ApiError::Answer {
            code: 400..=499, ..
        } => Ok(error.to_string()),
        ApiError::Answer { .. }
        | ApiError::Unreachable { .. }
        | ApiError::Unreadable { .. }
        | ApiError::Refused { .. }
        | ApiError::Deposed { .. } => Err(error.into()),
    }
}

/// The answer after a change, or where none was needed.
pub(super) async fn followed(
    session: &MigrateSession,
    args: &ArgMatches,
    key: &ObjectKey,
    written: &StatefulSetMigration,
    detail: &str,
) -> Result<Answer, Failure> {
    let Some(limit) = time_limit(args) else {
        return Ok(answer(key, None, detail));
    };
    let version = written.metadata.resource_version.as_deref();
    let state = wait::until_decided(session, key, limit, version).await;
    Ok(answer(key, Some(state), detail))
}

fn answer(key: &ObjectKey, state: Option<RunState>, detail: &str) -> Answer {
    let shown = state.map_or("Written", RunState::as_str);
    let namespace = key.namespace.as_deref().unwrap_or_default();
    let cells = [namespace, &key.name, shown, detail].map(str::to_owned);
    let full = json!({"state": shown, "detail": detail});
    let finding = Finding::about("StatefulSetMigration", key, cells.into(), full);
    let outcome = state.map_or(Outcome::Holds, RunState::outcome);
    let remark = format!("pontoon migrate status {key} --watch shows how it goes on.");
    Answer::table(COLUMNS, vec![finding], outcome).with_remark(remark)
}
