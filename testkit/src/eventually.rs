//! Waiting for something to become so, with an end.

use std::time::{Duration, Instant};

use anyhow::{Result, bail};

/// How long [`eventually`] waits: minutes of a busy machine are seconds of a quiet one.
pub(crate) const DEADLINE: Duration = Duration::from_secs(60);

/// How long to wait before the next look at what has been waited for this long. The servers are on
/// the same machine, so that looking often slows down what is waited for.
pub(crate) fn pause_after(waited: Duration) -> Duration {
    (waited / 8).clamp(Duration::from_millis(25), Duration::from_millis(250))
}

/// Asks `look` until it finds something.
///
/// # Errors
/// What `look` fails with, at once; after a minute, that `what` never came to be.
pub async fn eventually<T>(what: &str, look: impl AsyncFnMut() -> Result<Option<T>>) -> Result<T> {
    eventually_within(DEADLINE, what, look).await
}

/// The same with a deadline of its own, in real time.
///
/// # Errors
/// As [`eventually`].
pub async fn eventually_within<T>(
    deadline: Duration,
    what: &str,
    mut look: impl AsyncFnMut() -> Result<Option<T>>,
) -> Result<T> {
    let began = Instant::now();
    loop {
        if let Some(found) = look().await? {
            return Ok(found);
        }
        if began.elapsed() >= deadline {
            bail!("not within {} s: {what}", deadline.as_secs());
        }
        tokio::time::sleep(pause_after(began.elapsed())).await;
    }
}
