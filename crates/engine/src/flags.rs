//! Definition and parsing of feature flags, so that all features use the same forms.

use std::time::Duration;

use clap::{Arg, ArgMatches};

use crate::{LegacyLease, Usage};

/// The value that disables something.
const NONE: &str = "none";

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
