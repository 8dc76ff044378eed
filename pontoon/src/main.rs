//! Pontoon: one operator for all external services that a cluster depends on.

mod cli;
mod doctor;
mod features;
mod listed;
mod logging;
mod print;
mod run;
mod traces;

use std::error::Error;
use std::process::ExitCode;

use clap::ArgMatches;
use engine::Feature;
use engine::cli::Outcome;

fn main() -> ExitCode {
    // The only TLS provider; installed before any code needs one.
    rustls::crypto::aws_lc_rs::default_provider()
        .install_default()
        .ok();
    let features = features::all();
    let arguments = cli::arguments(&features, std::env::args_os());
    let matches = cli::command(&features).get_matches_from(arguments);
    let done = match matches.subcommand() {
        Some(("run", args)) => run::run(features, args),
        Some(("crds", args)) => print::crds(&features, args),
        Some(("rbac", args)) => print::rbac(&features, args),
        Some(("doctor", args)) => doctor::doctor(&features, args),
        Some(("version", args)) => print::version(args),
        Some(("completions", args)) => print::completions(&features, args),
        Some((name, args)) => return code(run_verb(&features, name, args)),
        None => unreachable!("clap requires a command"),
    };
    code(done.map(Outcome::of))
}

fn code(done: Result<Outcome, Box<dyn Error>>) -> ExitCode {
    match done {
        Ok(outcome) => ExitCode::from(outcome.code()),
        Err(error) => {
            eprintln!("pontoon: {error}");
            ExitCode::from(Outcome::Unknown.code())
        }
    }
}

/// Runs a verb of the feature or program `name` and prints its answer.
fn run_verb(
    features: &[Box<dyn Feature>],
    name: &str,
    args: &ArgMatches,
) -> Result<Outcome, Box<dyn Error>> {
    let verbs = cli::verbs(features).find(|verbs| verbs.command.get_name() == name);
    let verbs = verbs.expect("clap accepts no other commands");
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let answer = runtime.block_on((verbs.run)(args))?;
    let (_, verb) = args.subcommand().expect("clap requires a command");
    answer.print(verb)?;
    Ok(answer.outcome)
}
