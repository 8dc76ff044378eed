//! Waiting for a state, with a deadline.

use std::time::{Duration, Instant};

use anyhow::{Result, bail};

/// How long [`eventually`] waits: a busy machine may need a minute for what usually takes seconds.
pub(crate) const DEADLINE: Duration = Duration::from_secs(60);

/// The pause before the next attempt after this much waiting. The servers are on the same machine, so
/// frequent attempts would slow them down.
pub(crate) fn pause_after(waited: Duration) -> Duration {
    (waited / 8).clamp(Duration::from_millis(25), Duration::from_millis(250))
}

/// Repeats `attempt` until it returns a value.
///
/// # Errors
/// The error of `attempt`, at once; after a minute, an error that names `what`.
pub async fn eventually<T>(
    what: &str,
    attempt: impl AsyncFnMut() -> Result<Option<T>>,
) -> Result<T> {
    eventually_within(DEADLINE, what, attempt).await
}

/// The same with another deadline, in real time.
///
/// # Errors
/// As [`eventually`].
pub async fn eventually_within<T>(
    deadline: Duration,
    what: &str,
    mut attempt: impl AsyncFnMut() -> Result<Option<T>>,
) -> Result<T> {
    let began = Instant::now();
    loop {
        if let Some(found) = attempt().await? {
            return Ok(found);
        }
        if began.elapsed() >= deadline {
            bail!("not within {} s: {what}", deadline.as_secs());
        }
        tokio::time::sleep(pause_after(began.elapsed())).await;
    }
}
