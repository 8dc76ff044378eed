//! Whether changes have reached all name servers: one poll for all who wait for the same.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use aws::route53::ChangeStatus;
use aws::{Asker, Fault, Priority};
use futures::future::join_all;
use kernel::ObjectKey;
use parking_lot::Mutex;
use tokio::sync::Notify;

use super::Login;
use super::zones::role;
use crate::ctx::{Ctx, Ours};
use crate::failure::{self, Way};

/// The first and the longest time between two polls of a change.
const FIRST: Duration = Duration::from_secs(5);
const LONGEST: Duration = Duration::from_secs(30);
/// How long the end of a change is remembered: passes that wait for it are woken at once.
const REMEMBERED: Duration = Duration::from_secs(15 * 60);

/// The changes that are under way or have just come to their end.
#[derive(Debug, Default)]
pub(crate) struct Changes {
    all: Mutex<HashMap<String, Followed>>,
    news: Notify,
}

#[derive(Debug)]
struct Followed {
    login: Login,
    waiting: BTreeSet<ObjectKey>,
    state: State,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Pending { due: Duration, wait: Duration },
    InSync { since: Duration },
    Lost { since: Duration },
}

/// What is known of changes.
#[derive(Debug, Default)]
pub(crate) struct Ended {
    /// Those on all name servers.
    pub(crate) insync: BTreeSet<String>,
    /// Those that Route 53 knows nothing of.
    pub(crate) lost: BTreeSet<String>,
}

impl Changes {
    /// Wakes `key` when the change has come to its end, if it has not yet.
    pub(crate) fn follow(&self, change: &str, login: &Login, key: &ObjectKey, now: Duration) {
        let mut all = self.all.lock();
        let followed = all.entry(change.to_owned()).or_insert_with(|| Followed {
            login: login.clone(),
            waiting: BTreeSet::new(),
            state: State::Pending {
                due: now + FIRST,
                wait: FIRST,
            },
        });
        if matches!(followed.state, State::Pending { .. }) {
            followed.waiting.insert(key.clone());
        }
        drop(all);
        self.news.notify_one();
    }

    /// What became of these changes.
    pub(crate) fn ended<'c>(&self, changes: impl IntoIterator<Item = &'c str>) -> Ended {
        let all = self.all.lock();
        let mut ended = Ended::default();
        for change in changes {
            match all.get(change).map(|followed| followed.state) {
                Some(State::InSync { .. }) => ended.insync.insert(change.to_owned()),
                Some(State::Lost { .. }) => ended.lost.insert(change.to_owned()),
                Some(State::Pending { .. }) | None => false,
            };
        }
        ended
    }

    /// The changes to ask for, and when the next is due.
    fn due(&self, now: Duration) -> (Vec<(String, Login)>, Option<Duration>) {
        let mut all = self.all.lock();
        all.retain(|_, followed| match followed.state {
            State::Pending { .. } => true,
            State::InSync { since } | State::Lost { since } => {
                now.saturating_sub(since) < REMEMBERED
            }
        });
        let (mut due, mut next) = (Vec::new(), None::<Duration>);
        for (change, followed) in all.iter() {
            if let State::Pending { due: at, .. } = followed.state {
                if at <= now {
                    due.push((change.clone(), followed.login.clone()));
                } else {
                    next = Some(next.map_or(at, |next| next.min(at)));
                }
            }
        }
        (due, next)
    }

    /// Notes what a poll told; whom to wake.
    fn told(&self, change: &str, told: Option<bool>, now: Duration) -> BTreeSet<ObjectKey> {
        let mut all = self.all.lock();
        let Some(followed) = all.get_mut(change) else {
            return BTreeSet::new();
        };
        let State::Pending { wait, .. } = followed.state else {
            return BTreeSet::new();
        };
        followed.state = match told {
            Some(true) => State::InSync { since: now },
            Some(false) => {
                let wait = (wait * 2).min(LONGEST);
                State::Pending {
                    due: now + wait,
                    wait,
                }
            }
            None => State::Lost { since: now },
        };
        if told == Some(false) {
            BTreeSet::new()
        } else {
            std::mem::take(&mut followed.waiting)
        }
    }
}

/// Polls for as long as it is polled itself.
pub(crate) async fn poll(ctx: Arc<Ctx>) {
    loop {
        let now = ctx.deck.clock.elapsed();
        let (due, next) = ctx.changes.due(now);
        if !due.is_empty() {
            join_all(due.iter().map(|(change, login)| ask(&ctx, change, login))).await;
            continue;
        }
        let wait = next.map_or(Duration::from_secs(3600), |next| next.saturating_sub(now));
        tokio::select! {
            () = ctx.changes.news.notified() => {}
            () = tokio::time::sleep(ctx.deck.clock.real(wait)) => {}
        }
    }
}

async fn ask(ctx: &Ctx, change: &str, login: &Login) {
    let told = match state(ctx, change, login).await {
        Ok(ChangeStatus::InSync) => Some(true),
        Ok(ChangeStatus::Pending) => Some(false),
        Err(error) if error.fault() == Fault::ChangeMissing => None,
        Err(error) => {
            let failure = failure::failure(error.fault(), Way::Dns);
            if let Some(error_type) = failure.counted {
                ctx.metrics.failed(error_type);
            }
            tracing::warn!(change, %error, "whether a change is in sync cannot be told");
            Some(false)
        }
    };
    for key in ctx.changes.told(change, told, ctx.deck.clock.elapsed()) {
        ctx.wake_in(Ours::Tenant, &key, Duration::ZERO);
    }
}

async fn state(ctx: &Ctx, change: &str, login: &Login) -> Result<ChangeStatus, aws::Error> {
    let account = ctx.account(role(login)?.as_ref()).await;
    let asker = Asker::new(Priority::Poll, "");
    account.route53(&asker).change(change).await
}

#[cfg(test)]
mod tests {
    use super::*;

    const AT: Duration = Duration::from_secs(100);

    fn key(name: &str) -> ObjectKey {
        ObjectKey::namespaced("web", name)
    }

    fn followed() -> Changes {
        let changes = Changes::default();
        for name in ["a", "b"] {
            changes.follow("C1", &Login::default(), &key(name), AT);
        }
        changes
    }

    #[test]
    fn many_who_wait_for_one_change_are_one_poll() {
        let changes = followed();
        assert!(changes.due(AT).0.is_empty());
        let (due, _) = changes.due(AT + FIRST);
        assert_eq!(due.len(), 1);
        let woken = changes.told("C1", Some(true), AT + FIRST);
        assert_eq!(woken, [key("a"), key("b")].into());
        assert!(changes.ended(["C1"]).insync.contains("C1"));
    }

    #[test]
    fn polls_become_rarer() {
        let changes = followed();
        let (mut now, mut waits) = (AT, Vec::new());
        for _ in 0..5 {
            let (_, next) = changes.due(now);
            let next = next.unwrap();
            waits.push((next - now).as_secs());
            now = next;
            assert!(changes.told("C1", Some(false), now).is_empty());
        }
        assert_eq!(waits, [5, 10, 20, 30, 30]);
    }

    #[test]
    fn a_lost_change_wakes_those_who_wait() {
        let changes = followed();
        assert_eq!(changes.told("C1", None, AT).len(), 2);
        assert!(changes.ended(["C1"]).lost.contains("C1"));
    }

    #[test]
    fn the_end_of_a_change_is_forgotten_after_a_while() {
        let changes = followed();
        changes.told("C1", Some(true), AT);
        changes.due(AT + REMEMBERED);
        assert!(changes.ended(["C1"]).insync.is_empty());
    }
}
