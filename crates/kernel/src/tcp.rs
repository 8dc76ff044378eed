//! Settings with which a connection detects that the other end is gone.

use std::time::Duration;

use crate::Guard;

/// An idle connection is probed after this long.
pub const KEEPALIVE: Duration = Duration::from_secs(15);
/// Time between two probes.
pub const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(5);
/// Probes without an answer before the connection is closed.
pub const KEEPALIVE_RETRIES: u32 = 3;

const LONGEST_USER_TIMEOUT: Duration = Duration::from_secs(15);
const SHORTEST_USER_TIMEOUT: Duration = Duration::from_secs(1);

/// How long sent bytes may stay unacknowledged before the connection is closed: the smallest margin
/// of `guards`. Otherwise the kernel would send a write again long after its caller stopped waiting.
pub fn user_timeout(guards: &[Guard]) -> Duration {
    let margins = guards.iter().map(Guard::margin);
    let shortest = margins
        .filter(|margin| !margin.is_zero())
        .fold(LONGEST_USER_TIMEOUT, Duration::min);
    shortest.max(SHORTEST_USER_TIMEOUT)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    #[rstest]
    #[case::without_a_lease(&[0], 15)]
    #[case::the_margin_of_the_lease(&[5], 5)]
    #[case::the_smaller_of_two(&[20, 5], 5)]
    #[case::never_longer_than_a_call(&[60], 15)]
    fn a_connection_with_unacknowledged_bytes_is_closed_after(
        #[case] margins: &[u64],
        #[case] seconds: u64,
    ) {
        let guard = |margin: &u64| Guard::closed().with_margin(Duration::from_secs(*margin));
        let guards: Vec<_> = margins.iter().map(guard).collect();
        assert_eq!(user_timeout(&guards), Duration::from_secs(seconds));
    }
}
