//! Errors of the simulators, which repeat what failed.

use std::{sync::Arc, time::Duration};

use anyhow::Result;
use parking_lot::Mutex;
use tokio::time::sleep;

/// The pause before the next attempt.
pub(super) const RETRY: Duration = Duration::from_millis(200);

/// The last error. Clones share it.
#[derive(Debug, Clone, Default)]
pub(super) struct Errors(Arc<Mutex<Option<String>>>);

impl Errors {
    pub(super) fn record(&self, action: &str, outcome: &Result<()>) {
        if let Err(error) = outcome {
            *self.0.lock() = Some(format!("{action}: {error:#}"));
        }
    }

    pub(super) fn last(&self) -> Option<String> {
        self.0.lock().clone()
    }

    /// Repeats `attempt` until it succeeds.
    pub(super) async fn retried<T>(&self, action: &str, attempt: impl AsyncFn() -> Result<T>) -> T {
        loop {
            match attempt().await {
                Ok(value) => return value,
                Err(error) => self.record(action, &Err(error)),
            }
            sleep(RETRY).await;
        }
    }
}
