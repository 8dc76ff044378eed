//! `pontoon migrate …`: what people do with migrations, and with what a run has left behind.
//!
//! Verbs act with the rights of their user. The operator alone moves anything: a verb changes the spec of a
//! migration, or removes records of runs that are over.

mod audit;
mod clusters;
mod created;
mod ec2;
mod edit;
mod journal;
mod kubeconfig;
mod plan;
mod run_state;
mod session;
mod spec_edit;
mod status;
mod storagemover;
mod wait;

use clap::{Arg, ArgGroup, ArgMatches, Command};
use engine::cli::flags::{self, flag, switch, yes};
use engine::cli::{Answer, Failure, Outcome, Verbs};

use self::session::MigrateSession;
use self::spec_edit::SpecEdit;

/// The verbs of `pontoon migrate`.
pub(crate) fn verbs() -> Verbs {
    Verbs {
        command: command(),
        run: |args| Box::pin(run(args)),
    }
}

/// The verbs of `storagemover`, the program that this feature replaces.
pub(crate) fn storagemover_verbs() -> Verbs {
    storagemover::verbs()
}

fn command() -> Command {
    flags::command(
        "migrate",
        "Move StatefulSets with their EBS disks to another cluster, and back",
    )
    .subcommand(status_command())
    .subcommands(run_commands())
    .subcommands(abort_commands())
    .subcommands(record_commands())
    .subcommand(kubeconfig::command())
}

fn status_command() -> Command {
    let about = "Show migrations; exit 0 done, 1 failed, 3 still running, 4 waits for a person";
    flags::status(about)
        .arg(object(
            "This migration, ordinal by ordinal; default: all of the namespace",
        ))
        .arg(timeout("Wait so long for the end before exit 3"))
}

fn run_commands() -> [Command; 5] {
    let edit = |name: &'static str, about: &'static str| {
        Command::new(name)
            .about(about)
            .arg(object("The migration").required(true))
            .arg(timeout(
                "Wait so long for the end of the run; default: do not wait",
            ))
            .arg(yes())
    };
    let start = Command::new("start")
        .about(
            "Begin a run: create the migration of a file, or set dryRun of a planned one to false",
        )
        .arg(object("The planned migration").conflicts_with(flags::FILENAME))
        .arg(filename("The migration to create"))
        .group(one_of("migration", [flags::OBJECT, flags::FILENAME]))
        .arg(timeout(
            "Wait so long for the end of the run; default: do not wait",
        ))
        .arg(yes());
    let plan = Command::new("plan")
        .about("Show the checks and the steps of a migration; exit 1 if a check blocks it")
        .arg(object("The migration").conflicts_with(flags::FILENAME))
        .arg(filename("A migration to create with dryRun: true"))
        .group(one_of("migration", [flags::OBJECT, flags::FILENAME]))
        .arg(timeout("Wait so long for the plan of a new migration").default_value("5m"))
        .arg(yes());
    [
        start,
        plan,
        edit("pause", "Stop when no ordinal is on its way"),
        edit("resume", "Go on after a pause"),
        edit(
            "retry",
            "Go on after a failure or hold: raise spec.retry by one",
        ),
    ]
}

fn abort_commands() -> [Command; 2] {
    let abort = Command::new("abort")
        .about("Give up a run: bring every ordinal back, or leave everything where it is")
        .arg(object("The migration").required(true))
        .arg(switch("rollback", "Every ordinal goes back to the source"))
        .arg(switch("leave", "Everything stays where it is"))
        .group(one_of("how", ["rollback", "leave"]))
        .arg(timeout(
            "Wait so long for the end of the run; default: do not wait",
        ))
        .arg(yes());
    let rollback = Command::new("rollback")
        .about("The same as abort --rollback")
        .arg(object("The migration").required(true))
        .arg(timeout(
            "Wait so long for the end of the run; default: do not wait",
        ))
        .arg(yes());
    [abort, rollback]
}

fn record_commands() -> [Command; 2] {
    let journal = Command::new("journal")
        .about("Show the journal of a run from its locks in both clusters, or restore a lost migration from it")
        .args(clusters::args())
        .arg(switch("restore", "Create the lost migration again, with the id of its run").requires("statefulset"))
        .arg(yes());
    let audit = Command::new("audit")
        .about("Show what runs have left in both clusters, and disks that both name; exit 1 if anything")
        .args(clusters::args())
        .arg(switch("release", "Remove locks and markers of runs that are over, and fences that are proven safe"))
        .arg(
            switch("by-hand", "Also remove fences whose disks are free, for a rollback by hand")
                .requires("release"),
        )
        .arg(engine::flags::aws_region())
        .arg(yes());
    [journal, audit].map(|verb| verb.group(clusters::group()))
}

async fn run(args: &ArgMatches) -> Result<Answer, Failure> {
    let (verb, args) = args.subcommand().expect("clap requires a verb");
    if verb == "kubeconfig" {
        return kubeconfig::kubeconfig(args).await;
    }
    let session = MigrateSession::open(args).await?;
    let answer = match verb {
        "status" => status::status(&session, args).await,
        "start" if flags::value(args, flags::FILENAME).is_some() => {
            created::start(&session, args).await
        }
        "plan" => plan::plan(&session, args).await,
        "journal" => Box::pin(journal::journal(&session, args)).await,
        "audit" => Box::pin(audit::audit(&session, args)).await,
        other => edit::edit(&session, args, spec_edit(other, args)).await,
    };
    session.cluster.close();
    answer
}

/// The change of the verbs that change a spec.
fn spec_edit(verb: &str, args: &ArgMatches) -> SpecEdit {
    match verb {
        "start" => SpecEdit::Start,
        "pause" => SpecEdit::Pause,
        "resume" => SpecEdit::Resume,
        "retry" => SpecEdit::Retry,
        "abort" if flags::is_set(args, "leave") => SpecEdit::Leave,
        "abort" | "rollback" => SpecEdit::Rollback,
        _ => unreachable!("clap accepts no other verbs"),
    }
}

/// The answer to a request that cannot be followed, for this reason.
fn refused(reason: impl Into<String>) -> Answer {
    Answer::table(&[], Vec::new(), Outcome::DoesNot).with_remark(reason.into())
}

fn object(help: &'static str) -> Arg {
    Arg::new(flags::OBJECT)
        .value_name("[NAMESPACE/]NAME")
        .help(help)
}

fn filename(help: &'static str) -> Arg {
    flag(flags::FILENAME, "FILE", help).short('f').alias("file")
}

fn timeout(help: &'static str) -> Arg {
    flag("timeout", "DURATION", help).value_parser(duration)
}

/// Exactly one of two arguments.
fn one_of(name: &'static str, args: [&'static str; 2]) -> ArgGroup {
    ArgGroup::new(name).args(args).required(true)
}

/// A duration as a flag has it. The text stays, so that its default can be shown.
fn duration(text: &str) -> Result<String, String> {
    match engine::flags::duration(text) {
        Some(_) => Ok(text.to_owned()),
        None => Err("write a time with its unit, such as 90s or 5m".to_owned()),
    }
}

/// The value of `--timeout`.
fn time_limit(args: &ArgMatches) -> Option<std::time::Duration> {
    engine::flags::duration(flags::value(args, "timeout")?)
}

#[cfg(test)]
mod tests;
