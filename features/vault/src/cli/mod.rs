//! `pontoon vault …`: what people ask of connections, policies, roles and seeds.
//!
//! A verb sees what the operator sees and decides by the same code; it never leads, so only a verb
//! that has asked first can write. Everything runs with the rights of the user: the kubeconfig's in
//! the cluster, and in Vault those of the connection's login or of a token that is given instead.

mod adopt;
mod check;
mod doctor;
mod explain;
mod export;
mod orphans;
mod plan;
mod session;
mod status;

use clap::{Arg, ArgMatches, Command};
use engine::cli::flags::{self, flag, switch, yes};
use engine::cli::{Answer, Failure, PlanTable, Verbs};

pub(crate) use doctor::doctor_checks;
use session::VaultSession;

/// The verbs, for the engine.
pub(crate) fn verbs() -> Verbs {
    Verbs {
        command: command(),
        run: |args| Box::pin(run(args)),
    }
}

fn command() -> Command {
    let object = |help: &'static str| {
        let arg = Arg::new(flags::OBJECT).value_name("KIND/NAME");
        arg.required(true).help(help)
    };
    flags::command(
        "vault",
        "Ask about connections, policies, roles and seeds in Vault",
    )
    .args(session::args())
    .subcommand(
        flags::status("Show connections and what goes through them; exit 1 unless all is Ready")
            .arg(Arg::new("connection").help("Only this connection, with all its objects")),
    )
    .subcommands(flags::plan_and_diff("KIND/NAME", "Vault"))
    .subcommand(
        Command::new("adopt")
            .about("Let an object take over what Vault already has under its name")
            .arg(object("The object"))
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
            .arg(object("The role"))
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
            .arg(switch("delete", "Delete it, if it still is"))
            .arg(yes()),
    )
}

async fn run(args: &ArgMatches) -> Result<Answer, Failure> {
    let (verb, args) = args.subcommand().expect("clap demands a verb");
    let session = VaultSession::open(args).await?;
    if let Some(doubt) = session.doubt().filter(|_| verb != "status") {
        eprintln!("pontoon: {doubt}");
    }
    let answer = match verb {
        "status" => status::status(&session, args).await,
        "plan" => plan::plan(&session, args).await.map(PlanTable::plan),
        "diff" => plan::plan(&session, args).await.map(PlanTable::diff),
        "adopt" => adopt::adopt(&session, args).await,
        "explain" => explain::explain(&session, args).await,
        "export" => export::export(&session, args).await,
        "orphans" => orphans::orphans(&session, args).await,
        _ => unreachable!("clap knows no other verbs"),
    };
    // Whatever came of it: nobody else knows of our logins.
    session.close().await;
    answer
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_verbs_are_consistent() {
        command().debug_assert();
    }
}
