//! `status`: the migrations of a namespace, or one of them ordinal by ordinal.

mod live;
mod ordinals;
mod rows;
mod time;

use std::io::IsTerminal;

use clap::ArgMatches;
use engine::Stored;
use engine::cli::flags::{self, is_set};
use engine::cli::{Answer, Failure, Format, Outcome, StatusRow, StatusTable};
use futures::future::{Either, select};
use jiff::Timestamp;
use kernel::ObjectKey;

use super::run_state::RunState;
use super::session::{MigrateSession, kind};
use super::{time_limit, wait};

/// Shows all migrations, or the named one.
pub(super) async fn status(session: &MigrateSession, args: &ArgMatches) -> Result<Answer, Failure> {
    match session.named() {
        Some(key) => one(session, args, key).await,
        None => all(session, args).await,
    }
}

/// Without `--watch` it waits for the ends first if there is a time limit.
async fn all(session: &MigrateSession, args: &ArgMatches) -> Result<Answer, Failure> {
    let limit = time_limit(args);
    let states = || {
        session
            .all()
            .iter()
            .map(|one| state(one))
            .collect::<Vec<_>>()
    };
    let is_decided = || !states().contains(&Some(RunState::Running));
    let answer = if is_set(args, flags::WATCH) {
        let table = table(session, true);
        let limit = std::pin::pin!(wait::until(session, limit, || false));
        watched(std::pin::pin!(table.answer(&session.cluster, args)), limit).await?;
        ended(args, || (table_rows(session, true), rows::WATCH_COLUMNS))
    } else {
        if limit.is_some() {
            wait::until(session, limit, is_decided).await;
        }
        table(session, false).answer(&session.cluster, args).await?
    };
    let outcome = Outcome::of_all(states().into_iter().map(outcome));
    Ok(Answer { outcome, ..answer })
}

/// With `--watch` it shows every change until the run ends or a person has to act.
async fn one(
    session: &MigrateSession,
    args: &ArgMatches,
    key: &ObjectKey,
) -> Result<Answer, Failure> {
    let limit = time_limit(args);
    let now = || session.cluster.deck.clock.now();
    drop(session.live(key).await?); // its error says what to check
    let state = || session.migrations.store().get(key).map(|one| state(&one));
    let is_decided = || state() != Some(Some(RunState::Running));
    let rows = |now| {
        let seen = session.seen(key);
        seen.map_or_else(Vec::new, |migration| ordinals::rows(key, &migration, now))
    };
    let answer = if is_set(args, flags::WATCH) {
        let end = std::pin::pin!(wait::until(session, limit, is_decided));
        if format(args) == Format::Table && std::io::stdout().is_terminal() {
            let frame = || session.seen(key).map(|seen| live::frame(key, &seen, now()));
            live::draw(frame, end).await;
        } else {
            let table = ordinal_table(session, key, &rows);
            watched(std::pin::pin!(table.answer(&session.cluster, args)), end).await?;
        }
        ended(args, || (rows(None), ordinals::COLUMNS))
    } else {
        if limit.is_some() {
            wait::until(session, limit, is_decided).await;
        }
        let findings = rows(Some(now())).into_iter().map(|row| row.finding);
        Answer::table(ordinals::COLUMNS, findings.collect(), Outcome::Holds)
    };
    let is_terminal = std::io::stderr().is_terminal() && !is_set(args, flags::WATCH);
    let remark = session
        .seen(key)
        .map(|migration| live::summary(key, &migration, is_terminal));
    let outcome = state().map_or(Outcome::Holds, outcome);
    Ok(Answer { outcome, ..answer }.with_remark(remark))
}

/// Runs until the reader of stdout or `end` ends it.
async fn watched(
    watch: impl Future<Output = Result<Answer, Failure>> + Unpin,
    end: impl Future<Output = bool> + Unpin,
) -> Result<(), Failure> {
    match select(watch, end).await {
        Either::Left((answer, _)) => answer.map(drop),
        Either::Right(_) => Ok(()),
    }
}

/// What is left to print after `--watch`: nothing more in a table, and the last state in other formats.
fn ended(
    args: &ArgMatches,
    last: impl FnOnce() -> (Vec<StatusRow>, &'static [&'static str]),
) -> Answer {
    if format(args) == Format::Table {
        return Answer::table(&[], Vec::new(), Outcome::Holds);
    }
    let (rows, columns) = last();
    let findings = rows.into_iter().map(|row| row.finding).collect();
    Answer::table(columns, findings, Outcome::Holds)
}

fn format(args: &ArgMatches) -> Format {
    flags::format(args).unwrap_or(Format::Table)
}

/// How far the run of an object is; none if the object cannot be parsed.
fn state(stored: &Stored) -> Option<RunState> {
    let migration = stored.parse(&kind()).ok()?;
    Some(RunState::of(&migration))
}

fn outcome(state: Option<RunState>) -> Outcome {
    state.map_or(Outcome::Unknown, RunState::outcome)
}

fn table(session: &MigrateSession, is_watch: bool) -> StatusTable<'_> {
    StatusTable {
        columns: if is_watch {
            rows::WATCH_COLUMNS
        } else {
            rows::COLUMNS
        },
        name_columns: 2,
        noun: "migration",
        empty_remark: session.cluster.scope.empty_remark("StatefulSetMigration"),
        rows: Box::new(move || table_rows(session, is_watch)),
        caches: vec![&session.migrations],
    }
}

fn table_rows(session: &MigrateSession, is_watch: bool) -> Vec<StatusRow> {
    let now: Option<Timestamp> = (!is_watch).then(|| session.cluster.deck.clock.now());
    let all = session.all();
    all.iter()
        .map(|stored| rows::of_stored(stored, now))
        .collect()
}

fn ordinal_table<'a>(
    session: &'a MigrateSession,
    key: &ObjectKey,
    rows: &'a dyn Fn(Option<Timestamp>) -> Vec<StatusRow>,
) -> StatusTable<'a> {
    StatusTable {
        columns: ordinals::COLUMNS,
        name_columns: 1,
        noun: "ordinal",
        empty_remark: format!("No ordinal of {key} is on record yet."),
        rows: Box::new(move || rows(None)),
        caches: vec![&session.migrations],
    }
}
