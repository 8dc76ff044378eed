//! Points at which a chaos test can abort the process, like a crash.

/// Aborts the process if the test has selected this point. Does nothing outside the chaos build.
///
/// The environment variable `PONTOON_TEST_KILL_POINT` is `name`, or `name#n` for the n-th execution of
/// the point, from 1.
#[cfg(feature = "chaos")]
pub fn kill_point(name: &str) {
    use std::sync::atomic::{AtomicU32, Ordering};
    static EXECUTIONS: AtomicU32 = AtomicU32::new(0);
    let Ok(chosen) = std::env::var("PONTOON_TEST_KILL_POINT") else {
        return;
    };
    let (point, nth) = chosen.split_once('#').unwrap_or((&chosen, "1"));
    if point == name && EXECUTIONS.fetch_add(1, Ordering::SeqCst) + 1 == nth.parse().unwrap_or(1) {
        eprintln!("kill point {name}");
        std::process::abort();
    }
}

/// Aborts the process if the test has selected this point. Does nothing outside the chaos build.
#[cfg(not(feature = "chaos"))]
#[inline(always)]
pub const fn kill_point(_: &str) {}
