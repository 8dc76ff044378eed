//! Points at which a chaos test can abort the process, like a crash, or make a pass wait.

#[cfg(any(test, feature = "chaos"))]
mod choices;

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
/// `name#n hold`. The deadline of the pass continues meanwhile.
/// At a [`kill_point`] such a line has no effect.
#[cfg(feature = "chaos")]
pub async fn reach_kill_point(name: &str) {
    let file = choices::file();
    if let Some(wait) = choices::reach(name, file) {
        wait.end(file).await;
    }
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
