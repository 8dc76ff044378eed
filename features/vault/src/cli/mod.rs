//! `pontoon vault …`: what people ask of connections, policies, roles and seeds.
//!
//! A verb sees what the operator sees and judges by the same code; it never leads, so nothing can
//! be written but by a verb that has asked first. Everything runs with the rights of whoever asks:
//! the kubeconfig's in the cluster, and in Vault those of the connection's login or of a token that
//! is given instead.

mod adopt;
mod check;
mod consent;
mod explain;
mod export;
mod file;
mod orphans;
mod plan;
mod reach;
mod site;
mod status;
mod target;

use std::error::Error;

use clap::{Arg, ArgAction, ArgMatches, Command};
use engine::{Answer, Verbs};

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
    let thing = || Arg::new("object").value_name("KIND/NAME");
    let file = flag(
        "file",
        "FILE",
        "Objects of this file instead of those of the cluster",
    )
    .short('f');
    let plan = |verb: &'static str, about: &'static str| {
        let object = thing()
            .help("Only this object; default: all")
            .conflicts_with("file");
        Command::new(verb)
            .about(about)
            .arg(object)
            .arg(file.clone())
    };
    Command::new("vault")
        .about("Ask about connections, policies, roles and seeds in Vault")
        .subcommand_required(true)
        .arg_required_else_help(true)
        .args(site::args())
        .subcommand(
            Command::new("status")
                .about("Show connections and what goes through them; exit 1 unless all is Ready")
                .arg(Arg::new("connection").help("Only this connection, with all its objects")),
        )
        .subcommand(plan(
            "plan",
            "Show what the operator would do; exit 1 if anything",
        ))
        .subcommand(plan(
            "diff",
            "Show how Vault differs from the objects; exit 1 if it does",
        ))
        .subcommand(
            Command::new("adopt")
                .about("Let an object take over what Vault already has under its name")
                .arg(thing().required(true).help("The object"))
                .arg(flag(
                    "from",
                    "OWNER",
                    "The owner it is taken from, as plan shows it",
                ))
                .arg(yes()),
        )
        .subcommand(
            Command::new("explain")
                .about("Show whether a service account can log in by a role; exit 1 and why if not")
                .arg(thing().required(true).help("The role"))
                .arg(flag("sa", "NAMESPACE/NAME", "The service account").required(true))
                .arg(flag("jwt", "FILE", "A token of it, to look at too")),
        )
        .subcommand(
            Command::new("export")
                .about("Print objects for what Vault has and no object declares")
                .arg(flag(
                    "connection",
                    "NAME",
                    "From this connection; needed if there are several",
                ))
                .arg(flag(
                    "policies",
                    "GLOB",
                    "Only policies of such names; roles only if --roles is given too",
                ))
                .arg(flag(
                    "roles",
                    "GLOB",
                    "Only roles of such names; policies only if --policies is given too",
                )),
        )
        .subcommand(
            Command::new("orphans")
                .about("Show what is ours in Vault and wanted by no object; exit 1 if anything is")
                .arg(flag("connection", "NAME", "Only behind this connection"))
                .arg(
                    Arg::new("delete")
                        .long("delete")
                        .action(ArgAction::SetTrue)
                        .help("Delete it, if it still is"),
                )
                .arg(yes()),
        )
}

fn flag(name: &'static str, value: &'static str, help: &'static str) -> Arg {
    Arg::new(name).long(name).value_name(value).help(help)
}

fn yes() -> Arg {
    Arg::new("yes")
        .long("yes")
        .action(ArgAction::SetTrue)
        .help("Do not ask")
}

async fn run(args: &ArgMatches) -> Result<Answer, Failure> {
    let (verb, args) = args.subcommand().expect("clap demands a verb");
    let site = Site::open(args).await?;
    if let Some(doubt) = site.doubt().filter(|_| verb != "status") {
        eprintln!("pontoon: {doubt}");
    }
    let answer = match verb {
        "status" => status::status(&site, args),
        "plan" => plan::plan(&site, args).await,
        "diff" => plan::diff(&site, args).await,
        "adopt" => adopt::adopt(&site, args).await,
        "explain" => explain::explain(&site, args).await,
        "export" => export::export(&site, args).await,
        "orphans" => orphans::orphans(&site, args).await,
        _ => unreachable!("clap knows no other verbs"),
    };
    // Whatever came of it: nobody else knows of our logins.
    site.close().await;
    answer
}

fn text<'a>(args: &'a ArgMatches, name: &str) -> Option<&'a str> {
    args.get_one::<String>(name).map(String::as_str)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_verbs_are_consistent() {
        command().debug_assert();
    }
}
