//! Flags of predecessors: the log settings of controller-runtime, and flags without effect here.
//!
//! Several predecessors share them, so they belong to no feature. Help does not show them.

use clap::parser::ValueSource;
use clap::{Arg, ArgMatches, value_parser};

use super::{switch, text};
use crate::cli::flag;
use crate::logging::{self, Times};

const ENCODER: &str = "zap-encoder";
const LEVEL: &str = "zap-log-level";
const DEVEL: &str = "zap-devel";
const TIME_ENCODING: &str = "zap-time-encoding";

const NO_WEBHOOK: &str = "there is no webhook: its rules are in the CRDs";

/// Flags that are accepted without effect, and why.
const MEANINGLESS: [(&str, &str); 7] = [
    (
        "enable-http2",
        "metrics and probes are served over HTTP/1.1",
    ),
    ("enable-webhooks", NO_WEBHOOK),
    ("managed-markers", "ownership is always marked and checked"),
    ("webhook-cert-path", NO_WEBHOOK),
    ("webhook-cert-name", NO_WEBHOOK),
    ("webhook-cert-key", NO_WEBHOOK),
    (
        "zap-stacktrace-level",
        "errors name their causes; there are no stack traces",
    ),
];

/// The flags.
pub(super) fn args() -> impl Iterator<Item = Arg> {
    let log = [
        flag(
            LEVEL,
            "LEVEL",
            "debug, info, error, panic, or a number above 0",
        )
        .value_parser(level),
        flag(ENCODER, "FORMAT", "json or console").value_parser(["json", "console"]),
        switch(DEVEL, "The same as console and debug", "false"),
        flag(TIME_ENCODING, "FORMAT", "How ts is written").value_parser(value_parser!(Times)),
    ];
    let meaningless = MEANINGLESS.iter().map(|(name, why)| {
        let arg = flag(name, "VALUE", why);
        match *name {
            "enable-http2" | "enable-webhooks" | "managed-markers" => arg
                .num_args(0..=1)
                .require_equals(true)
                .default_missing_value("true"),
            _ => arg,
        }
    });
    log.into_iter().chain(meaningless).map(|arg| arg.hide(true))
}

/// The log settings: ours where given, else the predecessors', else our defaults.
pub(super) fn log(args: &ArgMatches) -> logging::Settings {
    let devel = args.get_one::<bool>(DEVEL) == Some(&true);
    let format = args
        .get_one::<String>(ENCODER)
        .map(|encoder| match encoder.as_str() {
            "console" => "text",
            _ => "json",
        });
    let level = args.get_one::<&'static str>(LEVEL).copied();
    let ours = |name: &str, theirs: Option<&'static str>| match theirs {
        Some(value) if !is_given(args, name) => value.to_owned(),
        _ => text(args, name),
    };
    logging::Settings {
        format: ours("log-format", format.or(devel.then_some("text"))),
        level: ours("log-level", level.or(devel.then_some("debug"))),
        times: args.get_one(TIME_ENCODING).copied().unwrap_or_default(),
    }
}

/// Logs one line for each given flag without effect. Logging has started.
pub(super) fn warn_ineffective(args: &ArgMatches) {
    for (name, reason) in ineffective(args) {
        tracing::warn!(flag = %format_args!("--{name}"), reason, "this flag has no effect");
    }
}

fn ineffective(args: &ArgMatches) -> Vec<(&'static str, &'static str)> {
    let [format, level] = ["log-format", "log-level"].map(|name| is_given(args, name));
    let overridden = [
        (ENCODER, format, "--log-format overrides it"),
        (LEVEL, level, "--log-level overrides it"),
        (
            DEVEL,
            format && level,
            "--log-format and --log-level override it",
        ),
    ];
    let overridden = overridden
        .into_iter()
        .filter(|(_, overridden, _)| *overridden)
        .map(|(name, _, why)| (name, why));
    MEANINGLESS
        .into_iter()
        .chain(overridden)
        .filter(|(name, _)| is_given(args, name))
        .collect()
}

fn is_given(args: &ArgMatches, name: &str) -> bool {
    let source = args.value_source(name);
    source.is_some_and(|source| source != ValueSource::DefaultValue)
}

/// In controller-runtime level 1 is debug; each higher level has more detail.
fn level(text: &str) -> Result<&'static str, String> {
    match text.to_lowercase().as_str() {
        "debug" | "1" => Ok("debug"),
        "info" => Ok("info"),
        "error" | "panic" => Ok("error"),
        number if number.parse().is_ok_and(|number: u8| number > 1) => Ok("trace"),
        _ => Err("write debug, info, error, panic, or a number above 0".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn args(flags: &[&str]) -> ArgMatches {
        let command = clap::Command::new("run").no_binary_name(true);
        let command = command.args(crate::run::args());
        command.try_get_matches_from(flags).unwrap()
    }

    #[rstest] //                                                  format  level
    #[case::nothing(&[], "json", "info")]
    #[case::level(&["--zap-log-level=debug"], "json", "debug")]
    #[case::panic_is_the_least(&["--zap-log-level=panic"], "json", "error")]
    #[case::first_detail(&["--zap-log-level=1"], "json", "debug")]
    #[case::more_detail(&["--zap-log-level=5"], "json", "trace")]
    #[case::for_people(&["--zap-encoder=console"], "text", "info")]
    #[case::developing(&["--zap-devel"], "text", "debug")]
    #[case::not_developing(&["--zap-devel=false"], "json", "info")]
    #[case::developing_but(&["--zap-devel=true", "--zap-encoder=json", "--zap-log-level=Error"], "json", "error")]
    #[case::ours_count(&["--log-level=warn", "--zap-log-level=debug", "--log-format=json", "--zap-devel"], "json", "warn")]
    fn log_flags_of_predecessors_map_to_ours(
        #[case] flags: &[&str],
        #[case] format: &str,
        #[case] level: &str,
    ) {
        let log = log(&args(flags));
        assert_eq!((log.format.as_str(), log.level.as_str()), (format, level));
    }

    #[rstest]
    #[case("epoch", Times::Epoch)]
    #[case("millis", Times::Millis)]
    #[case("nano", Times::Nano)]
    #[case("iso8601", Times::Iso8601)]
    #[case("rfc3339", Times::Rfc3339)]
    #[case("rfc3339nano", Times::Rfc3339Nano)]
    fn time_formats_have_the_names_of_controller_runtime(#[case] name: &str, #[case] times: Times) {
        let flag = format!("--zap-time-encoding={name}");
        assert_eq!(log(&args(&[&flag])).times, times);
    }

    #[rstest]
    #[case("0")]
    #[case("-1")]
    #[case("loud")]
    fn an_unknown_level_is_refused(#[case] text: &str) {
        assert!(level(text).unwrap_err().contains("debug"));
    }

    #[test]
    fn each_flag_without_effect_is_named_once() {
        let flags = [
            "--enable-http2",
            "--enable-webhooks=false",
            "--managed-markers=true",
            "--webhook-cert-path",
            "/certs",
            "--webhook-cert-name=tls.crt",
            "--webhook-cert-key=tls.key",
            "--zap-stacktrace-level=error",
            "--zap-log-level=debug",
            "--log-level=info",
            "--zap-encoder=json",
            "--zap-devel",
        ];
        let named: Vec<_> = ineffective(&args(&flags))
            .into_iter()
            .map(|(name, _)| name)
            .collect();
        let expected: Vec<_> = MEANINGLESS
            .iter()
            .map(|(name, _)| *name)
            .chain([LEVEL])
            .collect();
        assert_eq!(named, expected);
        assert_eq!(ineffective(&args(&[])), []);
    }
}
