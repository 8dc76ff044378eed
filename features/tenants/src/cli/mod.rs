//! `pontoon tenants …`: what people ask of tenants, their records and domains.
//!
//! A verb sees what the operator sees and judges by the same code; it never leads, so nothing can
//! be written. Everything runs with the rights of whoever asks: the kubeconfig's in the cluster,
//! and in AWS those that the AWS SDK finds.

mod advice;
mod conflicts;
mod dns;
mod file;
mod import;
mod plan;
mod reach;
mod site;
mod status;

use std::error::Error;

use clap::{Arg, ArgAction, ArgMatches, Command};
use engine::{Answer, Outcome, Verbs};

pub(crate) use reach::reach;
use site::Site;

type Failure = Box<dyn Error>;

/// The verbs, for the engine.
pub(crate) fn verbs() -> Verbs {
    Verbs {
        command: command(),
        run: |args| Box::pin(run(args)),
    }
}

fn command() -> Command {
    let tenant = |help: &'static str| Arg::new("name").value_name("NAME").help(help);
    Command::new("tenants")
        .about("Ask about CloudFront tenants, their records and domains")
        .subcommand_required(true)
        .arg_required_else_help(true)
        .args(site::args())
        .subcommand(
            Command::new("status")
                .about("Show how tenants are; exit 1 unless all are Ready")
                .arg(switch("watch", "Go on and print each one that changes").short('w')),
        )
        .subcommand(
            Command::new("plan")
                .about("Show what the operator would do, field by field; exit 1 if anything")
                .arg(tenant("Only this tenant; default: all of the namespace").conflicts_with("file"))
                .arg(
                    flag("file", "FILE", "Objects of this file instead of those of the cluster")
                        .short('f'),
                )
                .args(site::judgement()),
        )
        .subcommand(
            Command::new("import")
                .about("Print objects that take over the tenants of a distribution that none declares")
                .arg(flag("distribution", "ID", "The distribution").required(true))
                .arg(switch(
                    "dns",
                    "Take over their records in Route 53, too, where they lead to the tenant",
                ))
                .arg(flag("out", "DIR", "Write a file for each into this folder")),
        )
        .subcommand(
            Command::new("dns")
                .about("Show the records that have to be made for tenants by hand")
                .arg(tenant(
                    "This tenant, whoever makes its records; default: all whose records Pontoon does not make",
                ))
                .arg(dns::output()),
        )
        .subcommand(
            Command::new("conflicts")
                .about("Show who else has or wants a tenant's name or domains; exit 1 if anybody")
                .arg(
                    Arg::new("domain")
                        .value_name("DOMAIN")
                        .help("Only this domain, and ask CloudFront for it, too"),
                )
                .arg(flag(
                    "distribution",
                    "ID",
                    "A distribution whose certificate covers the domain, where no object wants it",
                )),
        )
}

fn flag(name: &'static str, value: &'static str, help: &'static str) -> Arg {
    Arg::new(name).long(name).value_name(value).help(help)
}

fn switch(name: &'static str, help: &'static str) -> Arg {
    let arg = Arg::new(name).long(name).help(help);
    arg.action(ArgAction::SetTrue)
}

async fn run(args: &ArgMatches) -> Result<Answer, Failure> {
    let (verb, args) = args.subcommand().expect("clap demands a verb");
    let site = Site::open(args).await?;
    let answer = match verb {
        "status" => status::status(&site, args).await,
        "plan" => plan::plan(&site, args).await,
        "import" => Box::pin(import::import(&site, args)).await,
        "dns" => dns::dns(&site, args).await,
        "conflicts" => conflicts::conflicts(&site, args).await,
        _ => unreachable!("clap knows no other verbs"),
    };
    site.close();
    answer
}

/// What a flag or argument says, if the verb has it and it was given.
fn text<'a>(args: &'a ArgMatches, name: &str) -> Option<&'a str> {
    let given = args.try_get_one::<String>(name).ok().flatten();
    given.map(String::as_str)
}

fn outcome(holds: bool) -> Outcome {
    if holds {
        Outcome::Holds
    } else {
        Outcome::DoesNot
    }
}

fn plural(count: usize, word: &str) -> String {
    if count == 1 {
        format!("{count} {word}")
    } else {
        format!("{count} {word}s")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_verbs_are_consistent() {
        command().debug_assert();
    }
}
