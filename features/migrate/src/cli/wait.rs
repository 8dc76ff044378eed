//! Waiting for the end of a run.

use std::time::Duration;

use kernel::ObjectKey;

use super::run_state::RunState;
use super::session::MigrateSession;

/// How often the cache is checked.
const POLL: Duration = Duration::from_millis(200);

/// Waits until `is_met`. Returns whether it was before the time limit; none means no limit.
pub(super) async fn until(
    session: &MigrateSession,
    limit: Option<Duration>,
    is_met: impl Fn() -> bool,
) -> bool {
    let clock = &session.cluster.deck.clock;
    let began = clock.elapsed();
    while !is_met() {
        let waited = clock.elapsed().saturating_sub(began);
        if limit.is_some_and(|limit| waited >= limit) {
            return false;
        }
        tokio::time::sleep(POLL).await;
    }
    true
}

/// Waits until the run of a migration no longer goes on by itself. A migration that is gone has ended.
/// `version` is the version that was written last: an older one in the cache counts as running.
pub(super) async fn until_decided(
    session: &MigrateSession,
    key: &ObjectKey,
    limit: Duration,
    version: Option<&str>,
) -> RunState {
    let written = version.and_then(|version| version.parse().ok());
    let state = || state(session, key, written);
    until(session, Some(limit), || state() != RunState::Running).await;
    state()
}

fn state(session: &MigrateSession, key: &ObjectKey, written: Option<u64>) -> RunState {
    let Some(stored) = session.migrations.store().get(key) else {
        // A new object may not be in the cache yet.
        return if written.is_some() {
            RunState::Running
        } else {
            RunState::Ended
        };
    };
    if written.is_some_and(|written| stored.version() < written) {
        return RunState::Running;
    }
    let seen = session.seen(key);
    seen.map_or(RunState::Running, |migration| RunState::of(&migration))
}
