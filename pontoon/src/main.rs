//! Pontoon: one operator for all that a cluster leans on outside itself.

mod cli;
mod doctor;
mod features;
mod logging;
mod output;
mod print;
mod run;
mod traces;

use std::error::Error;
use std::process::ExitCode;

use clap::{ArgMatches, ValueEnum};
use engine::{Answer, Feature, Finding, Outcome};

use output::{Format, Listing, Row};

fn main() -> ExitCode {
    // The only TLS provider there is; before anything could ask for one.
    rustls::crypto::aws_lc_rs::default_provider()
        .install_default()
        .ok();
    let features = features::all();
    let matches = cli::command(&features).get_matches();
    let done = match matches.subcommand() {
        Some(("run", args)) => run::run(features, args),
        Some(("crds", args)) => print::crds(&features, args),
        Some(("rbac", args)) => print::rbac(&features, args),
        Some(("doctor", args)) => doctor::doctor(&features, args),
        Some(("version", args)) => print::version(args),
        Some(("completions", args)) => print::completions(&features, args),
        Some((name, args)) => return code(ask(&features, name, args)),
        None => unreachable!("clap demands a verb"),
    };
    let outcome = |holds| {
        if holds {
            Outcome::Holds
        } else {
            Outcome::DoesNot
        }
    };
    code(done.map(outcome))
}

fn code(done: Result<Outcome, Box<dyn Error>>) -> ExitCode {
    match done {
        Ok(Outcome::Holds) => ExitCode::SUCCESS,
        Ok(Outcome::DoesNot) => ExitCode::from(1),
        Ok(Outcome::Unknown) => ExitCode::from(2),
        Err(error) => {
            eprintln!("pontoon: {error}");
            ExitCode::from(2)
        }
    }
}

/// The form that was asked for; one that only the verb knows is lines, as names are.
fn asked(verb: &ArgMatches) -> Option<Format> {
    if let Ok(known) = verb.try_get_one::<Format>(cli::OUTPUT) {
        return known.copied();
    }
    let word = verb.get_one::<String>(cli::OUTPUT)?;
    Some(Format::from_str(word, false).unwrap_or(Format::Name))
}

/// Has the feature `name` answer, and prints it.
fn ask(
    features: &[Box<dyn Feature>],
    name: &str,
    args: &ArgMatches,
) -> Result<Outcome, Box<dyn Error>> {
    let feature = features.iter().find(|feature| feature.name() == name);
    let verbs = feature.and_then(|feature| feature.verbs());
    let verbs = verbs.expect("clap knows no other words");
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let answer = runtime.block_on((verbs.run)(args))?;
    let Answer {
        columns,
        findings,
        outcome,
        documents,
        remark,
    } = answer;
    let (_, verb) = args.subcommand().expect("clap demands a verb");
    let asked = asked(verb);
    let usual = if documents {
        Format::Yaml
    } else {
        Format::Table
    };
    let row = |Finding { name, cells, full }| Row { name, cells, full };
    let rows = findings.into_iter().map(row).collect();
    Listing { columns, rows }.print(asked.unwrap_or(usual))?;
    if let Some(remark) = remark {
        eprintln!("{remark}");
    }
    Ok(outcome)
}
