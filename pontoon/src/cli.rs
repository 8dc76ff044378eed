//! Commands and flags. Each flag of `run` is also read from `PONTOON_<FLAG>`.

use std::ffi::OsString;
use std::path::Path;

use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};
use engine::Feature;
use engine::cli::Verbs;
use engine::cli::flags::{OUTPUT, output};

use crate::{listed, run};

/// Suffixes of flags that other commands share with `run`.
const LEGACY_LEASE: &str = "-legacy-lease";
const CONTROLLERS: &str = "-controllers";

/// The whole command line, including the flags of every feature.
pub(crate) fn command(features: &[Box<dyn Feature>]) -> Command {
    let names: Vec<_> = features
        .iter()
        .map(|feature| format!("{} ({})", feature.name(), feature.about()))
        .collect();
    Command::new("pontoon")
        .about("One Kubernetes operator for all that a cluster leans on outside itself")
        .version(env!("CARGO_PKG_VERSION"))
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommand(run_command(features).after_help(format!("Features: {}", names.join(", "))))
        .subcommand(
            with_output(Command::new("crds").about("Print the CRDs"), "yaml").arg(feature()),
        )
        .subcommand(
            with_output(
                Command::new("rbac").about("Print what each feature must be allowed to do"),
                "yaml",
            )
            .arg(feature())
            .args(operator())
            .args([listed::namespaces(), listed::as_values()])
            .args(flags_named(features, CONTROLLERS)),
        )
        .subcommand(
            with_output(
                Command::new("doctor")
                    .about("Check cluster, CRDs, permissions, leases and what lies outside"),
                "table",
            )
            .arg(feature())
            .args(operator())
            .arg(listed::namespaces())
            .args(shared_flags(features)),
        )
        .subcommand(with_output(
            Command::new("version").about("Print the version"),
            "table",
        ))
        .subcommand(
            Command::new("completions")
                .about("Print a completion script")
                .arg(
                    Arg::new("shell")
                        .required(true)
                        .value_parser(value_parser!(clap_complete::Shell)),
                ),
        )
        .subcommands(verbs(features).map(|verbs| verbs.command.mut_subcommands(answering)))
}

/// The verbs of every feature, and of the programs that it replaces.
pub(crate) fn verbs(features: &[Box<dyn Feature>]) -> impl Iterator<Item = Verbs> {
    let all = features.iter();
    all.flat_map(|feature| feature.verbs().into_iter().chain(feature.programs()))
}

/// The arguments to parse. If the executable is called by the name of a replaced program, that is its
/// first argument.
pub(crate) fn arguments(
    features: &[Box<dyn Feature>],
    given: impl IntoIterator<Item = OsString>,
) -> Vec<OsString> {
    let programs = features.iter().flat_map(|feature| feature.programs());
    let names = programs.map(|program| program.command.get_name().to_owned());
    with_program(names, given)
}

fn with_program(
    mut names: impl Iterator<Item = String>,
    given: impl IntoIterator<Item = OsString>,
) -> Vec<OsString> {
    let mut arguments: Vec<OsString> = given.into_iter().collect();
    let called = arguments
        .first()
        .and_then(|path| Path::new(path).file_stem());
    let called = called.and_then(|name| name.to_str());
    if let Some(program) = names.find(|name| Some(&**name) == called) {
        arguments.insert(1, program.into());
    }
    arguments
}

/// A command of a feature with the flag `-o`, unless it has one.
fn answering(verb: Command) -> Command {
    if verb.get_arguments().any(|arg| arg.get_id() == OUTPUT) {
        verb
    } else {
        verb.arg(output())
    }
}

pub(crate) fn run_command(features: &[Box<dyn Feature>]) -> Command {
    let own = run::args().into_iter();
    let command = Command::new("run")
        .about("Run the operator")
        .args_override_self(true)
        .args(own.chain(features.iter().flat_map(|f| f.args())));
    command.mut_args(|arg| {
        let name = format!(
            "PONTOON_{}",
            arg.get_id().as_str().to_uppercase().replace('-', "_")
        );
        if arg.get_env().is_some() {
            arg
        } else {
            arg.env(name)
        }
    })
}

/// The flags of `run` that `doctor` also needs.
fn shared_flags(features: &[Box<dyn Feature>]) -> impl Iterator<Item = Arg> {
    flags_named(features, LEGACY_LEASE).chain(flags_named(features, CONTROLLERS))
}

/// The features' flags of `run` with this suffix.
fn flags_named<'a>(
    features: &'a [Box<dyn Feature>],
    end: &'a str,
) -> impl Iterator<Item = Arg> + 'a {
    let all = features.iter().flat_map(|feature| feature.args());
    all.filter(move |arg| arg.get_id().as_str().ends_with(end))
}

/// The arguments of `run`, from the shared flags of another command and from the environment.
pub(crate) fn as_run(
    features: &[Box<dyn Feature>],
    args: &ArgMatches,
) -> Result<ArgMatches, clap::Error> {
    let value = |name: &str| args.get_one::<String>(name).cloned().unwrap_or_default();
    let mut flags = vec![format!("--namespace={}", value("namespace"))];
    for flag in shared_flags(features) {
        let name = flag.get_id().as_str();
        let is_known = args.try_contains_id(name).is_ok();
        if is_known && args.value_source(name) == Some(ValueSource::CommandLine) {
            flags.push(format!("--{name}={}", value(name)));
        }
    }
    run_command(features)
        .no_binary_name(true)
        .try_get_matches_from(flags)
}

/// Namespace and service account of the operator.
fn operator() -> [Arg; 2] {
    [
        flag("namespace", "NAME", "The operator's namespace").default_value("pontoon-system"),
        flag("service-account", "NAME", "The operator's service account").default_value("pontoon"),
    ]
}

fn feature() -> Arg {
    flag("feature", "NAME", "Only this feature; may be repeated").action(ArgAction::Append)
}

/// A flag that takes a value.
pub(crate) fn flag(name: &'static str, value: &'static str, help: &'static str) -> Arg {
    Arg::new(name).long(name).value_name(value).help(help)
}

fn with_output(command: Command, default: &'static str) -> Command {
    command.arg(output().default_value(default))
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        command(&crate::features::all()).debug_assert();
    }

    #[rstest]
    #[case::by_its_own_name(&["pontoon", "run"], &["pontoon", "run"])]
    #[case::by_a_path(&["/usr/bin/pontoon", "mover", "go"], &["/usr/bin/pontoon", "mover", "go"])]
    #[case::as_the_program(&["mover", "go"], &["mover", "mover", "go"])]
    #[case::as_the_program_by_a_path(&["/usr/bin/mover", "go"], &["/usr/bin/mover", "mover", "go"])]
    #[case::as_the_program_alone(&["mover"], &["mover", "mover"])]
    #[case::with_no_name(&[], &[])]
    fn the_name_of_the_executable_may_choose_a_program(
        #[case] given: &[&str],
        #[case] expected: &[&str],
    ) {
        let names = ["mover".to_owned()].into_iter();
        let arguments = with_program(names, given.iter().map(OsString::from));
        assert_eq!(arguments, expected);
    }
}
