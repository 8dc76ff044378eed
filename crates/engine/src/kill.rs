//! Places where a chaos test can end the process, as a crash would.

/// Ends the process here if the test named this point. Nothing at all outside the chaos build.
///
/// The environment `PONTOON_TEST_KILL_POINT` is `name` or `name#n`: the n-th passage, from 1.
#[cfg(feature = "chaos")]
pub fn kill_point(name: &str) {
    use std::sync::atomic::{AtomicU32, Ordering};
    static PASSAGES: AtomicU32 = AtomicU32::new(0);
    let Ok(chosen) = std::env::var("PONTOON_TEST_KILL_POINT") else {
        return;
    };
    let (point, nth) = chosen.split_once('#').unwrap_or((&chosen, "1"));
    if point == name && PASSAGES.fetch_add(1, Ordering::SeqCst) + 1 == nth.parse().unwrap_or(1) {
        eprintln!("kill point {name}");
        std::process::abort();
    }
}

/// Ends the process here if the test named this point. Nothing at all outside the chaos build.
#[cfg(not(feature = "chaos"))]
#[inline(always)]
pub const fn kill_point(_: &str) {}
