//! The flags of verbs. They mean the same in every feature.

use clap::{Arg, ArgAction, ArgMatches, Command, ValueEnum, value_parser};

pub use crate::flags::flag;
use crate::flags::of_process;

use super::Format;

/// `-n`: the namespace of objects.
pub const NAMESPACE: &str = "namespace";
/// `-A`: objects of all namespaces.
pub const ALL_NAMESPACES: &str = "all-namespaces";
/// The namespace the operator runs in.
pub const OPERATOR_NAMESPACE: &str = "operator-namespace";
/// The cluster's identity, if the operator has that flag.
pub const CLUSTER_ID: &str = "cluster-id";
/// `-o`: how to print.
pub const OUTPUT: &str = "output";
/// `-f`: a file with objects.
pub const FILENAME: &str = "filename";
/// The object of `plan`, `diff` and other verbs.
pub const OBJECT: &str = "object";
/// `status` keeps running and prints changes.
pub const WATCH: &str = "watch";
/// Consent without a prompt.
pub const YES: &str = "yes";

/// The command of a feature, with the flags of all its verbs. The feature adds the verbs.
pub fn command(feature: &'static str, about: &'static str) -> Command {
    Command::new(feature)
        .about(about)
        .subcommand_required(true)
        .arg_required_else_help(true)
        .args(shared())
}

fn shared() -> impl Iterator<Item = Arg> {
    let all = [
        flag(
            NAMESPACE,
            "NAME",
            "Objects of this namespace; default: that of the kubeconfig",
        )
        .short('n'),
        switch(
            ALL_NAMESPACES,
            "Objects of all namespaces, and those in none",
        )
        .short('A')
        .conflicts_with(NAMESPACE),
        flag(OPERATOR_NAMESPACE, "NAME", "The operator's namespace")
            .default_value("pontoon-system"),
        flag(
            CLUSTER_ID,
            "NAME",
            "This cluster's name outside, if the operator was given one",
        )
        .env("PONTOON_CLUSTER_ID"),
    ];
    all.into_iter().map(|arg| arg.global(true))
}

/// The verb `status`.
pub fn status(about: &'static str) -> Command {
    let watch = switch(WATCH, "Keep running, and print each row that changes").short('w');
    Command::new("status").about(about).arg(watch)
}

/// The verbs `plan` and `diff`. `object` shows the form of an object's name. `outside` is the service
/// that objects are compared with.
pub fn plan_and_diff(object: &'static str, outside: &str) -> [Command; 2] {
    let verb = |name: &'static str, about: String| {
        let object = Arg::new(OBJECT)
            .value_name(object)
            .help("Only this object; default: all of the namespace")
            .conflicts_with(FILENAME);
        Command::new(name).about(about).arg(object).arg(filename())
    };
    [
        verb(
            "plan",
            "Show what the operator would do; exit 1 if anything".to_owned(),
        ),
        verb(
            "diff",
            format!("Show how {outside} differs from the objects; exit 1 if it does"),
        ),
    ]
}

/// `-f`. `--file` is an earlier name of it.
fn filename() -> Arg {
    flag(
        FILENAME,
        "FILE",
        "Objects of this file instead of those of the cluster; - for standard input",
    )
    .short('f')
    .alias("file")
}

/// `-o`.
pub fn output() -> Arg {
    Arg::new(OUTPUT)
        .short('o')
        .long(OUTPUT)
        .value_name("FORMAT")
        .help("How to print")
        .value_parser(value_parser!(Format))
}

/// `--yes`, for verbs that write.
pub fn yes() -> Arg {
    switch(YES, "Do not ask for confirmation")
}

/// A flag without a value.
pub fn switch(name: &'static str, help: &'static str) -> Arg {
    let arg = Arg::new(name).long(name).help(help);
    arg.action(ArgAction::SetTrue)
}

/// The value of a flag or argument, if the verb has it and it was given.
pub fn value<'a>(args: &'a ArgMatches, name: &str) -> Option<&'a str> {
    let given = args.try_get_one::<String>(name).ok().flatten();
    given.map(String::as_str)
}

/// Whether a flag without a value was given.
pub fn is_set(args: &ArgMatches, name: &str) -> bool {
    matches!(args.try_get_one::<bool>(name), Ok(Some(true)))
}

/// `-o`, if it was given. A format that only this verb has prints one name per line.
pub fn format(args: &ArgMatches) -> Option<Format> {
    if let Ok(format) = args.try_get_one::<Format>(OUTPUT) {
        return format.copied();
    }
    let name = value(args, OUTPUT)?;
    Some(Format::from_str(name, false).unwrap_or(Format::Name))
}

/// The flags of `pontoon run`, parsed from the values `given`. `own` are the flags of the feature. The
/// flags of the process and the operator's namespace are always there.
///
/// # Errors
/// A value is invalid for its flag.
pub fn as_run<'a>(
    args: &'a ArgMatches,
    own: Vec<Arg>,
    given: impl IntoIterator<Item = (&'a str, Option<&'a str>)>,
) -> Result<ArgMatches, clap::Error> {
    let namespace = (NAMESPACE, value(args, OPERATOR_NAMESPACE));
    let all = given.into_iter().chain([namespace]);
    let arguments = all.filter_map(|(name, value)| Some(format!("--{name}={}", value?)));
    Command::new("run")
        .no_binary_name(true)
        .args(own)
        .args(of_process())
        .arg(Arg::new(NAMESPACE).long(NAMESPACE))
        .try_get_matches_from(arguments)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn parsed(arguments: &[&str]) -> Result<ArgMatches, clap::Error> {
        let verbs = plan_and_diff("KIND/NAME", "the sea").map(|verb| verb.arg(output()));
        let zone = Arg::new(OUTPUT).short('o').value_parser(["json", "zone"]);
        let command = command("ships", "Ask about ships")
            .subcommand(status("Show ships").arg(yes()).arg(output()))
            .subcommand(Command::new("chart").arg(zone))
            .subcommands(verbs)
            .no_binary_name(true);
        let matches = command.try_get_matches_from(arguments)?;
        let (_, verb) = matches.subcommand().expect("a verb is required");
        Ok(verb.clone())
    }

    #[test]
    fn the_flags_are_consistent() {
        let command = command("ships", "").subcommand(status("").arg(yes()));
        let verbs = plan_and_diff("KIND/NAME", "the sea");
        command.subcommands(verbs).debug_assert();
    }

    #[rstest]
    #[case::namespace(&["status", "-n", "a"], NAMESPACE, Some("a"))]
    #[case::before_the_verb(&["--namespace", "a", "status"], NAMESPACE, Some("a"))]
    #[case::not_given(&["status"], NAMESPACE, None)]
    #[case::default(&["status"], OPERATOR_NAMESPACE, Some("pontoon-system"))]
    #[case::file(&["plan", "-f", "x"], FILENAME, Some("x"))]
    #[case::filename(&["diff", "--filename", "x"], FILENAME, Some("x"))]
    #[case::earlier_name(&["plan", "--file", "x"], FILENAME, Some("x"))]
    #[case::object(&["plan", "ship/x"], OBJECT, Some("ship/x"))]
    #[case::not_of_this_verb(&["status"], FILENAME, None)]
    fn a_value_is_read(
        #[case] arguments: &[&str],
        #[case] name: &str,
        #[case] expected: Option<&str>,
    ) {
        assert_eq!(value(&parsed(arguments).unwrap(), name), expected);
    }

    #[rstest]
    #[case::all(&["status", "-A"], ALL_NAMESPACES, true)]
    #[case::watch(&["status", "-w"], WATCH, true)]
    #[case::yes(&["status", "--yes"], YES, true)]
    #[case::not_given(&["status"], YES, false)]
    #[case::not_of_this_verb(&["plan"], WATCH, false)]
    fn a_switch_is_read(#[case] arguments: &[&str], #[case] name: &str, #[case] expected: bool) {
        assert_eq!(is_set(&parsed(arguments).unwrap(), name), expected);
    }

    #[rstest]
    #[case::one_or_all_namespaces(&["status", "-n", "a", "-A"], "cannot be used with")]
    #[case::an_object_or_a_file(&["plan", "ship/x", "-f", "y"], "cannot be used with")]
    #[case::an_unknown_format(&["status", "-o", "xml"], "table, json, yaml, name")]
    fn wrong_usage_is_refused(#[case] arguments: &[&str], #[case] hint: &str) {
        let error = parsed(arguments).unwrap_err();
        assert_eq!(error.exit_code(), 2);
        assert!(error.to_string().contains(hint), "{error}");
    }

    #[rstest]
    #[case::none(&["status"], None)]
    #[case::of_all_verbs(&["status", "-o", "yaml"], Some(Format::Yaml))]
    #[case::of_all_verbs_beside_own(&["chart", "-o", "json"], Some(Format::Json))]
    #[case::of_one_verb(&["chart", "-o", "zone"], Some(Format::Name))]
    fn a_format_is_read(#[case] arguments: &[&str], #[case] expected: Option<Format>) {
        assert_eq!(format(&parsed(arguments).unwrap()), expected);
    }

    #[test]
    fn flags_of_the_operator_are_parsed_as_by_run() {
        let args = parsed(&["status", "--operator-namespace", "home"]).unwrap();
        let own = || {
            vec![
                flag("speed", "N", "").default_value("5"),
                flag("port", "P", ""),
            ]
        };
        let run = as_run(&args, own(), [("port", Some("x")), ("speed", None)]).unwrap();
        assert_eq!(value(&run, "speed"), Some("5"));
        assert_eq!(value(&run, "port"), Some("x"));
        assert_eq!(value(&run, NAMESPACE), Some("home"));
    }
}
