//! `pontoon tenants …`: what people ask of tenants, their records and domains.
//!
//! A verb sees what the operator sees and decides by the same code; it never leads, so nothing can
//! be written. Everything runs with the rights of the user: the kubeconfig's in the cluster, and in
//! AWS those that the AWS SDK finds.

mod advice;
mod conflicts;
mod dns;
mod doctor;
mod import;
mod plan;
mod session;
mod status;

use clap::{Arg, ArgMatches, Command};
use engine::cli::flags::{self, flag, switch};
use engine::cli::{Answer, Failure, PlanTable, Verbs};

pub(crate) use doctor::doctor_checks;
use session::TenantsSession;

/// The verbs, for the engine.
pub(crate) fn verbs() -> Verbs {
    Verbs {
        command: command(),
        run: |args| Box::pin(run(args)),
    }
}

fn command() -> Command {
    let plan_and_diff = flags::plan_and_diff("[KIND/]NAME", "AWS");
    flags::command(
        "tenants",
        "Ask about CloudFront tenants, their records and domains",
    )
    .args(session::args())
    .subcommand(flags::status(
        "Show how tenants are; exit 1 unless all are Ready",
    ))
    .subcommands(plan_and_diff.map(|verb| verb.args(session::deciding())))
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
            .arg(Arg::new(flags::OBJECT).value_name("NAME").help(
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

async fn run(args: &ArgMatches) -> Result<Answer, Failure> {
    let (verb, args) = args.subcommand().expect("clap demands a verb");
    let session = TenantsSession::open(args).await?;
    let answer = match verb {
        "status" => status::status(&session, args).await,
        "plan" => plan::plan(&session, args).await.map(PlanTable::plan),
        "diff" => plan::plan(&session, args).await.map(PlanTable::diff),
        "import" => Box::pin(import::import(&session, args)).await,
        "dns" => dns::dns(&session, args).await,
        "conflicts" => conflicts::conflicts(&session, args).await,
        _ => unreachable!("clap knows no other verbs"),
    };
    session.cluster.close();
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
