//! How features write and read their flags, so that all of them speak alike.

use std::time::Duration;

use clap::{Arg, ArgMatches};

use crate::{LegacyLease, Usage};

/// The word that switches something off.
const NONE: &str = "none";

/// A flag with a value.
pub fn flag(name: &'static str, value: &'static str, help: impl Into<String>) -> Arg {
    Arg::new(name)
        .long(name)
        .value_name(value)
        .help(help.into())
}

/// What a flag says; empty where it says nothing.
pub fn text<'a>(args: &'a ArgMatches, name: &str) -> &'a str {
    args.get_one::<String>(name).map_or("", String::as_str)
}

/// A length of time: `90s`, `1h30m`, `1h0m0s`, `500ms`.
pub fn length(text: &str) -> Option<Duration> {
    let length: jiff::SignedDuration = text.parse().ok()?;
    length.try_into().ok()
}

/// A flag's time above zero: what it spaces would never rest otherwise.
///
/// # Errors
/// What `source`, whoever set it, should write instead; `hint` is an example.
pub fn time(args: &ArgMatches, name: &str, source: &str, hint: &str) -> Result<Duration, Usage> {
    let text = text(args, name);
    let time = length(text).filter(|time| !time.is_zero());
    time.ok_or_else(|| {
        Usage(format!(
            "{source}={text}: write a time above zero with its unit, such as {hint}"
        ))
    })
}

/// The predecessor's Lease that a flag names, or none.
///
/// # Errors
/// What to write instead.
pub fn legacy_lease(args: &ArgMatches, name: &str) -> Result<Option<LegacyLease>, Usage> {
    match text(args, name) {
        NONE => Ok(None),
        lease => lease
            .parse()
            .map(Some)
            .map_err(|Usage(why)| Usage(format!("--{name}: {why}"))),
    }
}
