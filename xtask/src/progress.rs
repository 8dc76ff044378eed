//! Progress: a spinner on a terminal, plain lines elsewhere, always on stderr.

use std::io::{IsTerminal, stderr};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

/// Shows on stderr what is being done. Results are never printed here, but on stdout.
#[derive(Debug, Clone)]
pub(crate) struct Progress {
    bar: Option<ProgressBar>,
}

impl Progress {
    pub(crate) fn new() -> Self {
        let bar = stderr().is_terminal().then(|| {
            let bar = ProgressBar::new_spinner();
            let style = if colourless() {
                "{spinner} {msg} ({elapsed})"
            } else {
                "{spinner:.cyan} {msg} {elapsed:.dim}"
            };
            bar.set_style(ProgressStyle::with_template(style).expect("the template is constant"));
            bar.enable_steady_tick(Duration::from_millis(120));
            bar
        });
        Self { bar }
    }

    /// A new step began. Without a terminal this is a separate line.
    pub(crate) fn step(&self, what: &str) {
        match &self.bar {
            Some(bar) => bar.set_message(what.to_owned()),
            None => eprintln!("{what}"),
        }
    }

    /// A step that writes to stderr itself, as cargo does: the spinner is hidden meanwhile.
    pub(crate) fn aside<T>(&self, what: &str, step: impl FnOnce() -> T) -> T {
        let show = || {
            eprintln!("{what}");
            step()
        };
        match &self.bar {
            Some(bar) => bar.suspend(show),
            None => show(),
        }
    }

    /// The step continues. Only a terminal shows this, so that logs stay short.
    pub(crate) fn tick(&self, what: &str) {
        if let Some(bar) = &self.bar {
            bar.set_message(what.to_owned());
        }
    }

    /// A line that stays, above the spinner.
    pub(crate) fn note(&self, what: &str) {
        match &self.bar {
            Some(bar) => bar.println(what),
            None => eprintln!("{what}"),
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

fn colourless() -> bool {
    std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty())
}
