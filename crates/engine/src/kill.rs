//! Points at which a chaos test can abort the process, like a crash, or make a pass wait.

#[cfg(any(test, feature = "chaos"))]
mod choices;

use std::pin::pin;
use std::time::Duration;

/// Aborts the process if a test has chosen this point. Does nothing outside the chaos build.
///
/// The environment variable `PONTOON_TEST_KILL_POINT` is `name`, or `name#n` for the n-th execution of
/// the point, from 1. `PONTOON_TEST_KILL_FILE` is a file with lines `name abort` or `name#n abort`, which
/// may change while the process runs.
///
/// # When not to use it
/// In async code: [`reach_kill_point`] can also wait there.
#[cfg(feature = "chaos")]
pub fn kill_point(name: &str) {
    choices::reach(name, choices::file());
}

/// The same for async code, which also waits while the file has a line `name hold` or
/// `name#n hold`. No pass ends at its deadline meanwhile.
/// At a [`kill_point`] such a line has no effect.
#[cfg(feature = "chaos")]
pub async fn reach_kill_point(name: &str) {
    let file = choices::file();
    if let Some(wait) = choices::reach(name, file) {
        wait.end(file).await;
    }
}

/// Whether an execution of a point waits for its line to go.
#[cfg(feature = "chaos")]
pub(crate) fn has_waiting() -> bool {
    choices::has_waiting()
}

/// Nothing waits at a point outside the chaos build.
#[cfg(not(feature = "chaos"))]
pub(crate) const fn has_waiting() -> bool {
    false
}

/// Aborts the process if a test has chosen this point. Does nothing outside the chaos build.
#[cfg(not(feature = "chaos"))]
#[inline(always)]
pub const fn kill_point(_: &str) {}

/// The same for async code.
#[cfg(not(feature = "chaos"))]
#[inline]
pub fn reach_kill_point(_: &str) -> std::future::Ready<()> {
    std::future::ready(())
}

/// The result of `work`, or none after the deadline. Work goes on while something waits at a point.
pub(crate) async fn within<T>(
    deadline: Duration,
    work: impl Future<Output = T>,
    has_waiting: impl Fn() -> bool,
) -> Option<T> {
    let mut work = pin!(work);
    loop {
        match tokio::time::timeout(deadline, &mut work).await {
            Ok(ended) => return Some(ended),
            Err(_) if has_waiting() => {}
            Err(_) => return None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEADLINE: Duration = Duration::from_secs(60);

    #[tokio::test(start_paused = true)]
    async fn work_that_waits_at_a_point_has_no_deadline() {
        let hour = tokio::time::sleep(DEADLINE * 60);
        assert_eq!(within(DEADLINE, hour, || true).await, Some(()));
        let hour = tokio::time::sleep(DEADLINE * 60);
        assert_eq!(within(DEADLINE, hour, || false).await, None);
    }
}
