//! Whether changes have reached all name servers: one poll for all who wait for the same.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use aws::route53::ChangeStatus;
use aws::{Caller, Fault, Priority};
use futures::future::join_all;
use kernel::ObjectKey;
use parking_lot::Mutex;
use tokio::sync::Notify;

use super::Login;
use super::zones::role;
use crate::ctx::{Ctx, Ours};
use crate::failure::{self, Again, PATIENCE, Way};
use crate::outside::{BACKOFF, count};

/// The first and the longest time between two polls of a change.
const FIRST: Duration = Duration::from_secs(5);
const LONGEST: Duration = Duration::from_secs(30);
/// How long the end of a change is remembered: who comes to wait for it then need not.
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

#[derive(Debug, Clone, PartialEq, Eq)]
enum State {
    Pending {
        due: Duration,
        /// The time since the last poll, if that went well.
        wait: Duration,
        trouble: Option<Trouble>,
    },
    InSync {
        since: Duration,
    },
    Lost {
        since: Duration,
    },
}

/// That Route 53 does not tell.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Trouble {
    since: Duration,
    /// How often in a row it failed, where it should not for long.
    failures: u32,
    /// Why, once it is worth a word.
    text: Option<String>,
}

/// What is known of changes.
#[derive(Debug, Default)]
pub(crate) struct Ended {
    /// Those on all name servers.
    pub(crate) insync: BTreeSet<String>,
    /// Those that Route 53 knows nothing of.
    pub(crate) lost: BTreeSet<String>,
    /// Those that Route 53 does not tell of, and why.
    pub(crate) untold: BTreeMap<String, String>,
}

impl Ended {
    /// Whether a change has come to its end, good or bad.
    pub(crate) fn is_over(&self, change: &str) -> bool {
        self.insync.contains(change) || self.lost.contains(change)
    }
}

/// What a poll told.
#[derive(Debug, Clone)]
enum Told {
    Pending,
    InSync,
    /// Route 53 knows nothing of it.
    Lost,
    /// Nothing.
    Failed {
        fault: Fault,
        text: String,
    },
}

impl State {
    /// What it is after a poll at `now`; `random` of 0 to 1 spreads what would come together.
    fn next(&self, told: Told, now: Duration, random: f64) -> Self {
        let Self::Pending { wait, trouble, .. } = self else {
            return self.clone();
        };
        match told {
            Told::InSync => Self::InSync { since: now },
            Told::Lost => Self::Lost { since: now },
            Told::Pending => {
                let wait = (*wait * 2).min(LONGEST);
                Self::Pending {
                    due: now + wait,
                    wait,
                    trouble: None,
                }
            }
            Told::Failed { fault, text } => {
                let trouble = Trouble::next(trouble.as_ref(), fault, text, now);
                Self::Pending {
                    due: now + trouble.pause(fault, now, random),
                    wait: *wait,
                    trouble: Some(trouble),
                }
            }
        }
    }

    /// What those who wait have to hear of it.
    fn word(&self) -> Option<&str> {
        match self {
            Self::Pending { trouble, .. } => trouble.as_ref()?.text.as_deref(),
            Self::InSync { .. } | Self::Lost { .. } => None,
        }
    }
}

impl Trouble {
    /// | fault                        | is told                     | asked again        |
    /// |------------------------------|-----------------------------|--------------------|
    /// | slow down                    | as before                   | after a minute     |
    /// | it failed, or did not answer | when it did three times     | ever later         |
    /// | any other                    | at once                     | slowly             |
    fn next(before: Option<&Self>, fault: Fault, text: String, now: Duration) -> Self {
        let mut next = before.cloned().unwrap_or(Self {
            since: now,
            failures: 0,
            text: None,
        });
        match (fault, failure::failure(fault, Way::Dns).again) {
            (Fault::Throttled, _) => {}
            (_, Again::Backoff) => {
                next.failures = next.failures.saturating_add(1);
                if next.failures >= PATIENCE {
                    next.text = Some(text);
                }
            }
            (_, Again::AtOnce | Again::Slow | Again::After(_) | Again::Between(..)) => {
                next.text = Some(text);
            }
        }
        next
    }

    fn pause(&self, fault: Fault, now: Duration, random: f64) -> Duration {
        let again = failure::failure(fault, Way::Dns).again;
        let since = now.saturating_sub(self.since);
        let wait = again.wait(since, random);
        wait.unwrap_or_else(|| BACKOFF.delay(self.failures, random).max(FIRST))
    }
}

impl Changes {
    /// Wakes `key` when the change has come to its end; whether it has already.
    pub(crate) fn follow(
        &self,
        change: &str,
        login: &Login,
        key: &ObjectKey,
        now: Duration,
    ) -> bool {
        let mut all = self.all.lock();
        let followed = all.entry(change.to_owned()).or_insert_with(|| Followed {
            login: login.clone(),
            waiting: BTreeSet::new(),
            state: State::Pending {
                due: now + FIRST,
                wait: FIRST,
                trouble: None,
            },
        });
        let is_over = match followed.state {
            State::Pending { .. } => {
                followed.waiting.insert(key.clone());
                false
            }
            State::InSync { .. } | State::Lost { .. } => true,
        };
        drop(all);
        self.news.notify_one();
        is_over
    }

    /// Wakes `key` when one of these changes has come to its end; whether one has already, and who
    /// asks does not know it from `known`.
    pub(crate) fn follow_all(
        &self,
        pending: &BTreeMap<&str, Login>,
        known: &Ended,
        key: &ObjectKey,
        now: Duration,
    ) -> bool {
        let unknown = pending.iter().filter(|(change, _)| !known.is_over(change));
        unknown.fold(false, |is_over, (change, login)| {
            self.follow(change, login, key, now) || is_over
        })
    }

    /// What became of these changes.
    pub(crate) fn ended<'c>(&self, changes: impl IntoIterator<Item = &'c str>) -> Ended {
        let all = self.all.lock();
        let mut ended = Ended::default();
        for change in changes {
            let Some(followed) = all.get(change) else {
                continue;
            };
            match &followed.state {
                State::InSync { .. } => {
                    ended.insync.insert(change.to_owned());
                }
                State::Lost { .. } => {
                    ended.lost.insert(change.to_owned());
                }
                State::Pending { .. } => {
                    let word = followed.state.word().map(str::to_owned);
                    let word = word.map(|word| (change.to_owned(), word));
                    ended.untold.extend(word);
                }
            }
        }
        ended
    }

    /// An object was edited, or it is time for a slow look: what Route 53 did not tell is asked for
    /// at once.
    pub(crate) fn look_again(&self, key: &ObjectKey, now: Duration) {
        for followed in self.all.lock().values_mut() {
            if let State::Pending { due, trouble, .. } = &mut followed.state
                && trouble.is_some()
                && followed.waiting.contains(key)
            {
                *due = now;
            }
        }
        self.news.notify_one();
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
    fn told(&self, change: &str, told: Told, now: Duration, random: f64) -> BTreeSet<ObjectKey> {
        let mut all = self.all.lock();
        let Some(followed) = all.get_mut(change) else {
            return BTreeSet::new();
        };
        let next = followed.state.next(told, now, random);
        let is_news = followed.state.word() != next.word();
        followed.state = next;
        match followed.state {
            State::InSync { .. } | State::Lost { .. } => std::mem::take(&mut followed.waiting),
            State::Pending { .. } if is_news => followed.waiting.clone(),
            State::Pending { .. } => BTreeSet::new(),
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
        Ok(ChangeStatus::InSync) => Told::InSync,
        Ok(ChangeStatus::Pending) => Told::Pending,
        Err(error) if error.fault() == Fault::ChangeMissing => Told::Lost,
        Err(error) => {
            count(ctx, &error, Way::Dns);
            tracing::warn!(change, %error, "whether a change is in sync cannot be told");
            Told::Failed {
                fault: error.fault(),
                text: error.to_string(),
            }
        }
    };
    let now = ctx.deck.clock.elapsed();
    for key in ctx.changes.told(change, told, now, fastrand::f64()) {
        ctx.wake_in(Ours::Tenant, &key, Duration::ZERO);
    }
}

async fn state(ctx: &Ctx, change: &str, login: &Login) -> Result<ChangeStatus, aws::Error> {
    let account = ctx.account(role(login)?.as_ref()).await;
    let asker = Caller::new(Priority::Poll, "");
    account.route53(&asker).change(change).await
}

#[cfg(test)]
mod tests;
