//! Logs on stderr: one flat JSON object per line for machines, text for people.

use std::fmt;
use std::io::{IsTerminal, Write};

use clap::ValueEnum;
use jiff::Timestamp;
use serde_json::{Map, Value};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::layer::{Context, SubscriberExt};
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Layer};

use crate::traces::{self, Traces};

/// Settings of the logs.
#[derive(Debug)]
pub(crate) struct Settings {
    /// `json`, or else text.
    pub(crate) format: String,
    /// A level, or a filter such as `info,engine=debug`.
    pub(crate) level: String,
    /// The time format in JSON.
    pub(crate) times: Times,
}

/// The format of `ts`, with the names of controller-runtime.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub(crate) enum Times {
    /// Seconds since 1970, with a fraction.
    Epoch,
    /// The same in milliseconds.
    Millis,
    /// The same in nanoseconds, as an integer.
    Nano,
    /// With milliseconds.
    Iso8601,
    /// Without a fraction.
    Rfc3339,
    /// With the full fraction.
    #[default]
    #[value(name = "rfc3339nano")]
    Rfc3339Nano,
}

impl Times {
    fn write(self, now: Timestamp) -> Value {
        match self {
            Self::Epoch => now.as_duration().as_secs_f64().into(),
            Self::Millis => now.as_duration().as_millis_f64().into(),
            Self::Nano => i64::try_from(now.as_nanosecond())
                .unwrap_or(i64::MAX)
                .into(),
            Self::Iso8601 => now.strftime("%Y-%m-%dT%H:%M:%S.%3fZ").to_string().into(),
            Self::Rfc3339 => now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string().into(),
            Self::Rfc3339Nano => now.to_string().into(),
        }
    }
}

/// Starts logging, and traces if they are configured. Finish the returned value at the end.
pub(crate) fn start(settings: &Settings) -> Result<Traces, String> {
    let Settings {
        format,
        level,
        times,
    } = settings;
    let filter = EnvFilter::try_new(level).map_err(|error| {
        format!("--log-level={level}: {error}; write error, warn, info, debug, trace or a filter")
    })?;
    let (traces, spans) = traces::start()?;
    let registry = tracing_subscriber::registry().with(filter).with(spans);
    if format == "json" {
        registry.with(JsonLines { times: *times }).init();
    } else {
        let colour = std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none();
        let text = tracing_subscriber::fmt::layer().with_ansi(colour);
        registry.with(text.with_writer(std::io::stderr)).init();
    }
    Ok(traces)
}

/// Writes `level`, `ts`, `logger`, `msg`, then the fields of the pass and of the line. `logger` is the
/// kind inside a pass, and the module outside.
struct JsonLines {
    times: Times,
}

/// Fields of a span, kept until its lines are written.
struct Fields(Map<String, Value>);

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for JsonLines {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let mut fields = Fields(Map::new());
        attributes.record(&mut fields);
        if let Some(span) = context.span(id) {
            span.extensions_mut().insert(fields);
        }
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, context: Context<'_, S>) {
        if let Some(span) = context.span(id)
            && let Some(fields) = span.extensions_mut().get_mut::<Fields>()
        {
            values.record(fields);
        }
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        let mut own = Fields(Map::new());
        event.record(&mut own);
        let mut line = head(event, self.times, own.0.remove("message"));
        for span in context
            .event_scope(event)
            .into_iter()
            .flat_map(tracing_subscriber::registry::Scope::from_root)
        {
            if let Some(fields) = span.extensions().get::<Fields>() {
                line.extend(fields.0.clone());
                if let Some(kind) = kind_of_pass(span.name(), &fields.0) {
                    line.insert("logger".to_owned(), kind.into());
                }
            }
        }
        line.extend(own.0);
        let text = format!("{}\n", Value::Object(line));
        // If stderr cannot be written, the error cannot be reported.
        std::io::stderr().write_all(text.as_bytes()).ok();
    }
}

/// The logger of lines inside a pass: its kind in lower case.
fn kind_of_pass(span: &str, fields: &Map<String, Value>) -> Option<String> {
    let kind = fields.get("kind").filter(|_| span == engine::PASS_SPAN)?;
    Some(kind.as_str()?.to_lowercase())
}

#[allow(clippy::disallowed_methods)] // the real time of the line, whatever clock passes use
fn head(event: &Event<'_>, times: Times, message: Option<Value>) -> Map<String, Value> {
    let level = match *event.metadata().level() {
        Level::ERROR => "error",
        Level::WARN => "warn",
        Level::INFO => "info",
        Level::DEBUG => "debug",
        Level::TRACE => "trace",
    };
    let logger = event.metadata().target().replace("::", ".");
    [
        ("level", level.into()),
        ("ts", times.write(Timestamp::now())),
        ("logger", logger.into()),
        ("msg", message.unwrap_or_default()),
    ]
    .into_iter()
    .map(|(name, value): (&str, Value)| (name.to_owned(), value))
    .collect()
}

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.0
            .insert(field.name().to_owned(), format!("{value:?}").into());
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.0.insert(field.name().to_owned(), value.into());
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.0.insert(field.name().to_owned(), value.into());
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.0.insert(field.name().to_owned(), value.into());
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.0.insert(field.name().to_owned(), value.into());
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    #[rstest]
    #[case(Times::Epoch, json!(1_700_000_000.25))]
    #[case(Times::Millis, json!(1_700_000_000_250.0))]
    #[case(Times::Nano, json!(1_700_000_000_250_000_000_i64))]
    #[case(Times::Iso8601, json!("2023-11-14T22:13:20.250Z"))]
    #[case(Times::Rfc3339, json!("2023-11-14T22:13:20Z"))]
    #[case(Times::Rfc3339Nano, json!("2023-11-14T22:13:20.25Z"))]
    fn a_time_is_written_in_the_chosen_format(#[case] times: Times, #[case] written: Value) {
        let now = Timestamp::from_millisecond(1_700_000_000_250).unwrap();
        assert_eq!(times.write(now), written);
    }

    #[rstest]
    #[case::inside_a_pass(engine::PASS_SPAN, json!({"kind": "VaultPolicy"}), Some("vaultpolicy"))]
    #[case::another_span("connection", json!({"kind": "VaultPolicy"}), None)]
    #[case::no_kind(engine::PASS_SPAN, json!({}), None)]
    fn the_logger_inside_a_pass_is_its_kind(
        #[case] span: &str,
        #[case] fields: Value,
        #[case] logger: Option<&str>,
    ) {
        let fields = fields.as_object().unwrap();
        assert_eq!(kind_of_pass(span, fields).as_deref(), logger);
    }

    #[test]
    fn a_wrong_filter_says_what_to_write() {
        let wrong = Settings {
            format: "json".into(),
            level: "pontoon=loud=x".into(),
            times: Times::default(),
        };
        let Err(error) = start(&wrong) else {
            panic!("it was accepted")
        };
        assert!(
            error.contains("--log-level") && error.contains("debug"),
            "{error}"
        );
    }
}
