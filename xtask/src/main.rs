//! The commands of the workspace: `cargo xtask <verb>`. Each builds what it needs, so none depends on
//! another.
//!
//! Results go to stdout, everything else to stderr. Exit 0: it holds; 1: it does not; 2: wrong usage,
//! or it could not be determined.
// Builds and measures in real time; nothing here is part of the product.
#![allow(clippy::disallowed_methods)]

mod bench;
mod cargo;
mod check;
mod generate;
mod interrupt;
mod live;
mod operator;
mod progress;
mod sim;
mod table;
mod test;
mod tools;
mod verdict;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::generate::Set;
use crate::live::{MigrateFlags, Up};
use crate::sim::Sim;
use crate::test::Chosen;
use crate::verdict::{Error, Verdict, While};

/// The verbs of the workspace.
#[derive(Debug, Parser)]
#[command(
    name = "cargo xtask",
    bin_name = "cargo xtask",
    disable_version_flag = true
)]
struct Cli {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Build or find the programs that tests and worlds stand on
    Tools {
        /// Which; all when none is named
        names: Vec<String>,
        /// Only tell which there are, and where
        #[arg(long)]
        list: bool,
    },
    /// Run the tests: all tiers, or one, or those with a word in their name
    Test {
        /// all, check, unit, contract, integration, chaos or start
        #[arg(default_value = "all", value_parser = Chosen::parse)]
        tier: Chosen,
        /// Only tests that have this in their name, or whose target does
        filter: Option<String>,
        /// Only tell which there are
        #[arg(long)]
        list: bool,
    },
    /// Look at the source: format, clippy, generated files, arrows, licences, cases, traces, vocabulary
    Check,
    /// Write the chart's CRDs
    Crds,
    /// Write the chart's RBAC and the schema of its values
    Chart,
    /// Write the reference pages
    Docs,
    /// Run Pontoon with all it needs on this machine, apply the examples, show how they stand
    Up(Up),
    /// Start a feature's test world for work by hand; settings go to target/world/env
    World {
        /// Which feature; an unknown name prints the list
        feature: String,
        #[command(flatten)]
        flags: MigrateFlags,
    },
    /// Run the pure cores of a feature on seeded schedules of crashes, lost answers and meddling
    Sim(Sim),
    /// Measure
    Bench {
        /// What; an unknown name prints the list
        name: String,
    },
}

fn main() -> ExitCode {
    match Cli::parse().verb.run() {
        Ok(verdict) => verdict.into(),
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::from(2)
        }
    }
}

impl Verb {
    fn run(self) -> Result<Verdict, Error> {
        match self {
            Self::Tools { names, list } => tools::tools(&names, list),
            Self::Test {
                tier,
                filter,
                list: true,
            } => wait(test::list(tier, filter.as_deref())),
            Self::Test {
                tier,
                filter,
                list: false,
            } => wait(test::test(tier, filter.as_deref())),
            Self::Check => check::check(),
            Self::Crds => generate::write(Set::Crds),
            Self::Chart => generate::write(Set::Chart),
            Self::Docs => generate::write(Set::Docs),
            Self::Up(how) => wait(live::up(how)),
            Self::World { feature, flags } => wait(live::world(&feature, &flags)),
            Self::Sim(chosen) => sim::sim(&chosen),
            Self::Bench { name } => bench::bench(&name),
        }
    }
}

fn wait(verb: impl Future<Output = Result<Verdict, Error>>) -> Result<Verdict, Error> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .doing("starting the runtime")?;
    runtime.block_on(verb)
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::Cli;

    #[test]
    fn the_command_line_is_well_formed() {
        Cli::command().debug_assert();
    }
}
