//! Ctrl-C and SIGTERM, so that we stop all children before we end.

use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::verdict::{Error, While};

/// Receives the signals. Once it listens, the signals no longer end this process by themselves.
#[derive(Debug)]
pub(crate) struct Interrupt {
    terminal: Signal,
    termination: Signal,
}

impl Interrupt {
    pub(crate) fn listen() -> Result<Self, Error> {
        let on = |kind| signal(kind).doing("listening for signals");
        Ok(Self {
            terminal: on(SignalKind::interrupt())?,
            termination: on(SignalKind::terminate())?,
        })
    }

    /// Returns when the user or the system requests the end.
    pub(crate) async fn wait(&mut self) {
        tokio::select! {
            _ = self.terminal.recv() => {}
            _ = self.termination.recv() => {}
        }
    }
}
