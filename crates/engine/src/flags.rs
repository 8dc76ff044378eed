//! Definition and parsing of feature flags, so that all features use the same forms.

use std::time::Duration;

use clap::{Arg, ArgMatches};

use crate::{LegacyLease, Usage};

/// The value that disables something.
const NONE: &str = "none";
const AWS_REGION: &str = "aws-region";
const WORKERS: &str = "max-concurrent-reconciles";

/// The flags of `pontoon run` that several features read. They belong to the process: with any set of
/// features they exist once.
pub fn of_process() -> Vec<Arg> {
    vec![
        aws_region(),
        flag(
            WORKERS,
            "N",
            "Passes at once over objects of a kind that lives in AWS",
        )
        .default_value("8"),
    ]
}

/// `--aws-region`, also for verbs.
pub fn aws_region() -> Arg {
    flag(
        AWS_REGION,
        "REGION",
        "Region of AWS calls that have one; default: as the AWS SDK finds it",
    )
}

/// The value of `--aws-region`; none without one, also for a command that does not have the flag.
pub fn given_aws_region(args: &ArgMatches) -> Option<&str> {
    let region = args.try_get_one::<String>(AWS_REGION).ok().flatten();
    region
        .map(String::as_str)
        .filter(|region| !region.is_empty())
}

/// The value of `--max-concurrent-reconciles`.
///
/// # Errors
/// It is not a number above zero.
pub fn workers(args: &ArgMatches) -> Result<usize, Usage> {
    let count = text(args, WORKERS);
    let workers = count.parse().ok().filter(|count| *count > 0);
    workers.ok_or_else(|| Usage(format!("--{WORKERS}={count}: write a number above 0")))
}

/// A flag with a value.
pub fn flag(name: &'static str, value: &'static str, help: impl Into<String>) -> Arg {
    Arg::new(name)
        .long(name)
        .value_name(value)
        .help(help.into())
}

/// The value of a flag; empty if it has none.
pub fn text<'a>(args: &'a ArgMatches, name: &str) -> &'a str {
    args.get_one::<String>(name).map_or("", String::as_str)
}

/// Parses a duration: `90s`, `1h30m`, `1h0m0s`, `500ms`.
pub fn duration(text: &str) -> Option<Duration> {
    let duration: jiff::SignedDuration = text.parse().ok()?;
    duration.try_into().ok()
}

/// The duration of a flag. It must be above zero: an interval of zero would be a busy loop.
///
/// # Errors
/// Names `source`, the flag or setting with the value, and `hint`, an example.
pub fn time(args: &ArgMatches, name: &str, source: &str, hint: &str) -> Result<Duration, Usage> {
    let text = text(args, name);
    let time = duration(text).filter(|time| !time.is_zero());
    time.ok_or_else(|| {
        Usage(format!(
            "{source}={text}: write a time above zero with its unit, such as {hint}"
        ))
    })
}

/// The predecessor's Lease that a flag names.
///
/// # Errors
/// Says what to write instead.
pub fn legacy_lease(args: &ArgMatches, name: &str) -> Result<Option<LegacyLease>, Usage> {
    match text(args, name) {
        NONE => Ok(None),
        lease => lease
            .parse()
            .map(Some)
            .map_err(|Usage(why)| Usage(format!("--{name}: {why}"))),
    }
}

#[cfg(test)]
mod tests {
    use clap::Command;
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::defaults(&[], None, Some(8))]
    #[case::given(&["--aws-region=eu-west-1", "--max-concurrent-reconciles=3"], Some("eu-west-1"), Some(3))]
    #[case::an_empty_region(&["--aws-region="], None, Some(8))]
    #[case::no_workers(&["--max-concurrent-reconciles=0"], None, None)]
    #[case::not_a_number(&["--max-concurrent-reconciles=many"], None, None)]
    fn flags_of_the_process_are_read(
        #[case] given: &[&str],
        #[case] region: Option<&str>,
        #[case] count: Option<usize>,
    ) {
        let command = Command::new("run").no_binary_name(true).args(of_process());
        let args = command.try_get_matches_from(given).unwrap();
        assert_eq!(given_aws_region(&args), region);
        assert_eq!(workers(&args).ok(), count);
    }
}
