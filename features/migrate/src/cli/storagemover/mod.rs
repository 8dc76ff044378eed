//! `pontoon storagemover …`: one volume and its claim, by hand. The verbs of the program of this name, with
//! its flags.

mod create;
mod free;
mod inspect;
mod migrate_volume;
mod pair;
mod validate;
mod zone;

use std::collections::BTreeMap;
use std::sync::Arc;

use clap::{Arg, ArgAction, ArgMatches, Command};
use engine::cli::flags::{self, flag, switch, value};
use engine::cli::{Answer, Failure, Verbs};
use engine::flags::aws_region;
use kernel::{RealClock, SharedClock};

use super::clusters::UserCluster;
use super::{duration, time_limit};
use crate::translate::classes::ClassMapping;

const SOURCE: &str = "source-kubeconfig";
const DESTINATION: &str = "dest-kubeconfig";
const DEST_NAMESPACE: &str = "dest-namespace";
const DEST_CLAIM: &str = "dest-pvc-name";
const CLASSES: &str = "storage-class-mapping";

pub(super) fn verbs() -> Verbs {
    Verbs {
        command: command(),
        run: |args| Box::pin(run(args)),
    }
}

fn command() -> Command {
    let globals = [
        flag(
            SOURCE,
            "FILE",
            "A kubeconfig of the source cluster; default: your own",
        ),
        flag(
            DESTINATION,
            "FILE",
            "A kubeconfig of the destination cluster",
        ),
        aws_region(),
        Arg::new("verbose")
            .short('v')
            .long("verbose")
            .action(ArgAction::Count)
            .help("Show what is waited for"),
    ];
    Command::new("storagemover")
        .about("Look at single EBS volumes, and move one with its claim to another cluster")
        .subcommand_required(true)
        .arg_required_else_help(true)
        .args(globals.map(|arg| arg.global(true)))
        .subcommands(inspecting())
        .subcommands(moving())
}

fn inspecting() -> [Command; 3] {
    let name = |kind: &'static str| flag("name", "NAME", kind).required(true);
    [
        Command::new("inspect-pv")
            .about("Show a PersistentVolume of the source")
            .arg(name("The PersistentVolume")),
        Command::new("inspect-pvc")
            .about("Show a PersistentVolumeClaim of the source and its volume")
            .arg(namespace())
            .arg(name("The PersistentVolumeClaim")),
        Command::new("validate")
            .about("Check whether a PersistentVolume of the source can move; exit 1 if not")
            .arg(name("The PersistentVolume")),
    ]
}

fn moving() -> [Command; 3] {
    let limit = || {
        flag("timeout", "DURATION", "Wait so long before exit 3")
            .default_value("5m")
            .value_parser(duration)
    };
    let dest_namespace =
        || flag(DEST_NAMESPACE, "NAME", "The namespace at the destination").required(true);
    let dest_claim = || {
        flag(
            DEST_CLAIM,
            "NAME",
            "The claim at the destination; default: the same name",
        )
    };
    [
        Command::new("translate")
            .about("Print a claim and its volume as they would be at the destination")
            .arg(namespace())
            .arg(flag("name", "NAME", "The PersistentVolumeClaim").required(true))
            .args([dest_namespace(), dest_claim(), classes()]),
        Command::new("wait-detach")
            .about("Wait until EC2 shows a volume as available")
            .arg(flag("volume-id", "ID", "The volume, such as vol-0123456789abcdef0").required(true))
            .arg(limit()),
        Command::new("migrate-volume")
            .about("Create a claim and its volume at the destination, once no pod uses the disk any more")
            .arg(flag("source-namespace", "NAME", "The namespace of the claim").short('s').required(true))
            .arg(flag("pvc", "NAME", "The claim").required(true))
            .arg(dest_namespace().short('d'))
            .args([dest_claim(), classes()])
            .arg(switch("dry-run", "Check and print, but neither wait nor write"))
            .arg(limit()),
    ]
}

fn namespace() -> Arg {
    flag(flags::NAMESPACE, "NAME", "The namespace of the claim")
        .short('n')
        .required(true)
}

fn classes() -> Arg {
    flag(
        CLASSES,
        "FROM=TO",
        "The name of a storage class at the destination; may be repeated",
    )
    .action(ArgAction::Append)
    .value_delimiter(',')
    .value_parser(renaming)
}

/// The value of `--storage-class-mapping`.
fn renaming(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((from, to)) if !from.is_empty() && !to.is_empty() => {
            Ok((from.to_owned(), to.to_owned()))
        }
        Some(_) | None => Err("write <class at the source>=<class at the destination>".to_owned()),
    }
}

async fn run(args: &ArgMatches) -> Result<Answer, Failure> {
    let (verb, args) = args.subcommand().expect("clap requires a verb");
    let mover = Mover {
        args,
        clock: Arc::new(RealClock::new()),
    };
    match verb {
        "inspect-pv" => inspect::volume(&mover).await,
        "inspect-pvc" => inspect::claim(&mover).await,
        "validate" => validate::validate(&mover).await,
        "translate" => pair::translate(&mover).await,
        "wait-detach" => free::wait_detach(&mover).await,
        "migrate-volume" => Box::pin(migrate_volume::migrate_volume(&mover)).await,
        _ => unreachable!("clap accepts no other verbs"),
    }
}

/// What a verb works with.
struct Mover<'a> {
    args: &'a ArgMatches,
    clock: SharedClock,
}

impl Mover<'_> {
    /// The source cluster.
    async fn source(&self) -> Result<UserCluster, Failure> {
        match value(self.args, SOURCE) {
            Some(file) => UserCluster::from_file(file).await,
            None => UserCluster::current().await,
        }
    }

    /// The destination cluster, if it is named.
    async fn destination(&self) -> Result<Option<UserCluster>, Failure> {
        match value(self.args, DESTINATION) {
            Some(file) => UserCluster::from_file(file).await.map(Some),
            None => Ok(None),
        }
    }

    /// The value of a flag that clap requires.
    fn required(&self, name: &str) -> &str {
        value(self.args, name).unwrap_or_default()
    }

    /// The mapping of storage classes.
    fn classes(&self) -> ClassMapping {
        let given = self.args.get_many::<(String, String)>(CLASSES);
        let entries: BTreeMap<String, String> = given.into_iter().flatten().cloned().collect();
        ClassMapping::new(entries)
    }

    /// The time limit of a verb that waits.
    fn limit(&self) -> std::time::Duration {
        time_limit(self.args).unwrap_or_default()
    }

    /// Shows progress if `-v` asks for it.
    fn progress(&self, text: &str) {
        if self.args.get_count("verbose") > 0 {
            eprintln!("{text}");
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::error::ErrorKind;
    use rstest::rstest;

    use super::*;

    fn parsed(arguments: &str) -> Result<ArgMatches, clap::Error> {
        let all = arguments.split(' ').filter(|one| !one.is_empty());
        command().no_binary_name(true).try_get_matches_from(all)
    }

    #[rstest]
    #[case::inspect_pv("inspect-pv --name pvc-1")]
    #[case::inspect_pvc("inspect-pvc -n shop --name data-web-0 --source-kubeconfig a -v")]
    #[case::translate(
        "--source-kubeconfig a translate -n shop --name data-web-0 --dest-namespace store"
    )]
    #[case::translate_with_all(
        "translate -n a --name b --dest-namespace c --dest-pvc-name d --storage-class-mapping gp2=gp3,a=b"
    )]
    #[case::wait_detach(
        "wait-detach --volume-id vol-0123456789abcdef0 --timeout 10m --aws-region eu-west-1"
    )]
    #[case::migrate_volume(
        "migrate-volume -s shop --pvc data-web-0 -d store --dest-kubeconfig b --dry-run --timeout 1m"
    )]
    #[case::validate("validate --name pvc-1 -vv")]
    fn the_original_flags_are_accepted(#[case] arguments: &str) {
        parsed(arguments).unwrap();
    }

    #[rstest]
    #[case::no_verb(
        "",
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand,
        "migrate-volume"
    )]
    #[case::no_name("inspect-pv", ErrorKind::MissingRequiredArgument, "--name")]
    #[case::no_namespace(
        "inspect-pvc --name a",
        ErrorKind::MissingRequiredArgument,
        "--namespace"
    )]
    #[case::no_destination(
        "migrate-volume -s a --pvc b",
        ErrorKind::MissingRequiredArgument,
        "--dest-namespace"
    )]
    #[case::half_a_renaming(
        "translate -n a --name b --dest-namespace c --storage-class-mapping gp2",
        ErrorKind::ValueValidation,
        "<class at the source>=<class at the destination>"
    )]
    #[case::a_time_without_unit(
        "wait-detach --volume-id a --timeout 5",
        ErrorKind::ValueValidation,
        "90s or 5m"
    )]
    fn wrong_usage_names_what_is_valid(
        #[case] arguments: &str,
        #[case] kind: ErrorKind,
        #[case] hint: &str,
    ) {
        let error = parsed(arguments).unwrap_err();
        assert_eq!(error.kind(), kind, "{error}");
        assert!(error.to_string().contains(hint), "{error}");
    }

    #[test]
    fn storage_classes_are_renamed() {
        let matches = parsed(
            "translate -n a --name b --dest-namespace c --storage-class-mapping gp2=gp3 --storage-class-mapping x=y,z=w",
        );
        let matches = matches.unwrap();
        let (_, args) = matches.subcommand().unwrap();
        let mover = Mover {
            args,
            clock: Arc::new(RealClock::new()),
        };
        let classes = mover.classes();
        let renamed = ["gp2", "x", "z", "other"].map(|class| classes.renamed(class).to_owned());
        assert_eq!(renamed, ["gp3", "y", "w", "other"]);
        assert_eq!(mover.limit(), std::time::Duration::ZERO);
    }
}
