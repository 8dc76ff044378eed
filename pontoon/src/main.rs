//! Pontoon: one operator for all that a cluster leans on outside itself.

mod cli;
mod doctor;
mod features;
mod logging;
mod output;
mod print;
mod run;
mod traces;

use std::process::ExitCode;

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
        _ => unreachable!("clap demands one of the verbs above"),
    };
    match done {
        Ok(holds) => ExitCode::from(u8::from(!holds)),
        Err(error) => {
            eprintln!("pontoon: {error}");
            ExitCode::from(2)
        }
    }
}
