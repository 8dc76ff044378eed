//! Ctrl-C and SIGTERM, so that what was started is stopped before we go.

use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::verdict::{Error, While};

/// Told to stop. Once listening, the signals no longer end us by themselves.
#[derive(Debug)]
pub(crate) struct Interrupt {
    terminal: Signal,
    asked: Signal,
}

impl Interrupt {
    pub(crate) fn listen() -> Result<Self, Error> {
        let on = |kind| signal(kind).doing("listening for signals");
        Ok(Self {
            terminal: on(SignalKind::interrupt())?,
            asked: on(SignalKind::terminate())?,
        })
    }

    /// Returns when the user or the system wants us to stop.
    pub(crate) async fn wait(&mut self) {
        tokio::select! {
            _ = self.terminal.recv() => {}
            _ = self.asked.recv() => {}
        }
    }
}
