//! Waiting for something to become so, with an end.

use std::time::{Duration, Instant};

use anyhow::{Result, bail};

/// How long [`eventually`] waits.
const DEADLINE: Duration = Duration::from_secs(30);
const PAUSE: Duration = Duration::from_millis(50);

/// Asks `look` until it finds something.
///
/// # Errors
/// What `look` fails with, at once; after 30 s, that `what` never came to be.
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
        tokio::time::sleep(PAUSE).await;
    }
}
