//! Logs on stderr: one flat JSON object a line for machines, text for people.

use std::fmt;
use std::io::{IsTerminal, Write};

use serde_json::{Map, Value};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::layer::{Context, SubscriberExt};
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Layer};

use crate::traces::{self, Traces};

/// Starts logging, and traces if they are wanted. `level` is a level or a filter such as
/// `info,engine=debug`. What it returns is to be finished at the end.
pub(crate) fn start(format: &str, level: &str) -> Result<Traces, String> {
    let filter = EnvFilter::try_new(level).map_err(|error| {
        format!("--log-level={level}: {error}; write error, warn, info, debug, trace or a filter")
    })?;
    let (traces, spans) = traces::start()?;
    let registry = tracing_subscriber::registry().with(filter).with(spans);
    if format == "json" {
        registry.with(JsonLines).init();
    } else {
        let colour = std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none();
        let text = tracing_subscriber::fmt::layer().with_ansi(colour);
        registry.with(text.with_writer(std::io::stderr)).init();
    }
    Ok(traces)
}

/// Writes `level`, `ts`, `logger`, `msg`, then the fields of the pass and of the line, side by side.
struct JsonLines;

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
        let mut line = head(event, own.0.remove("message"));
        for span in context
            .event_scope(event)
            .into_iter()
            .flat_map(tracing_subscriber::registry::Scope::from_root)
        {
            if let Some(fields) = span.extensions().get::<Fields>() {
                line.extend(fields.0.clone());
            }
        }
        line.extend(own.0);
        let text = format!("{}\n", Value::Object(line));
        // Nobody can be told that nobody can be told.
        std::io::stderr().write_all(text.as_bytes()).ok();
    }
}

#[allow(clippy::disallowed_methods)] // when a line was written, whatever clock the passes see
fn head(event: &Event<'_>, message: Option<Value>) -> Map<String, Value> {
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
        ("ts", jiff::Timestamp::now().to_string().into()),
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
    use super::*;

    #[test]
    fn a_wrong_filter_says_what_to_write() {
        let Err(error) = start("json", "pontoon=loud=x") else {
            panic!("it was accepted")
        };
        assert!(
            error.contains("--log-level") && error.contains("debug"),
            "{error}"
        );
    }
}
