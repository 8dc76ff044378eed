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

/// Shows the change, asks, and makes it. With `--timeout` it waits for the end of the run.
pub(super) async fn edit(
    session: &MigrateSession,
    args: &ArgMatches,
    edit: SpecEdit,
) -> Result<Answer, Failure> {
    let key = session.required_name()?;
    let live = session.live(key).await?;
    let (patch, lines) = match edit.plan(&live) {
        EditPlan::Refused(why) => {
            return Ok(refused(format!("StatefulSetMigration {key}: {why}")));
        }
        EditPlan::Nothing(why) => return followed(session, args, key, &live, &why).await,
        EditPlan::Patch { patch, lines } => (patch, lines),
    };
    eprintln!("StatefulSetMigration {key}:");
    for line in &lines {
        eprintln!("  {line}");
    }
    confirm(args, "Change it?")?;
    match patched(session, key, &live, patch).await? {
        Ok(written) => followed(session, args, key, &written, &lines[0]).await,
        Err(why) => Ok(refused(why)),
    }
}

/// Patches exactly the version that was shown. The inner error is a refusal of the API server.
async fn patched(
    session: &MigrateSession,
    key: &ObjectKey,
    live: &StatefulSetMigration,
    mut patch: Value,
) -> Result<Result<StatefulSetMigration, String>, Failure> {
    patch["metadata"]["uid"] = json!(live.metadata.uid);
    patch["metadata"]["resourceVersion"] = json!(live.metadata.resource_version);
    session.cluster.allow_writes();
    let api = migrations(session.writer(), key);
    let answer = api
        .patch(&key.name, &PatchParams::default(), &Patch::Merge(patch))
        .await;
    match answer {
        Ok(written) => Ok(Ok(written)),
        Err(error) => refusal(ApiError::classify(
            format!("change StatefulSetMigration {key}"),
            error,
        ))
        .map(Err),
    }
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
