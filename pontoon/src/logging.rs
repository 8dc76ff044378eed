//! Logs on stderr: JSON for machines, text for people.

use std::io::IsTerminal;

use tracing_subscriber::EnvFilter;

/// Starts logging. `level` is a level or a filter such as `info,engine=debug`.
pub(crate) fn start(format: &str, level: &str) -> Result<(), String> {
    let filter = EnvFilter::try_new(level).map_err(|error| {
        format!("--log-level={level}: {error}; write error, warn, info, debug, trace or a filter")
    })?;
    let base = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr);
    match format {
        "json" => base
            .json()
            .flatten_event(true)
            .with_current_span(true)
            .with_span_list(false)
            .init(),
        _ => {
            let colour = std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none();
            base.with_ansi(colour).init();
        }
    }
    Ok(())
}
