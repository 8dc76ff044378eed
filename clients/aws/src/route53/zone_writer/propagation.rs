//! Whether accepted changes have reached all name servers: one poll for all objects that wait for the
//! same change.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Duration;

use futures::future::join_all;
use kernel::ObjectKey;
use parking_lot::Mutex;
use tokio::sync::Notify;

use super::pace::{BACKOFF, PAUSE, Pace, REPORTED, slow};
use super::{IDLE, ZoneClient, ZoneRole, ZoneUser};
use crate::route53::ChangeStatus;
use crate::{Caller, Error, Fault, Priority};

/// The first and the longest time between two polls of a change.
const FIRST: Duration = Duration::from_secs(5);
const LONGEST: Duration = Duration::from_secs(30);
/// The end of a change is remembered this long: an object that follows it later need not wait.
const REMEMBERED: Duration = Duration::from_mins(15);

/// The changes that propagate, or ended recently.
#[derive(Debug, Default)]
pub(super) struct Propagation {
    all: Mutex<HashMap<String, Followed>>,
    news: Notify,
}

#[derive(Debug)]
struct Followed {
    login: ZoneRole,
    waiting: BTreeSet<ObjectKey>,
    state: State,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum State {
    Pending {
        due: Duration,
        /// The time since the last successful poll.
        wait: Duration,
        unreadable: Option<Unreadable>,
    },
    InSync {
        since: Duration,
    },
    Lost {
        since: Duration,
    },
}

/// That polls of a change fail.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Unreadable {
    since: Duration,
    /// How many polls in a row failed in a way that should pass.
    failures: u32,
    /// The error, once it is reported.
    text: Option<String>,
}

/// What became of changes.
#[derive(Debug, Default)]
pub struct Propagated {
    /// Those that all name servers have.
    pub insync: BTreeSet<String>,
    /// Those that Route 53 does not have.
    pub lost: BTreeSet<String>,
    /// Those that cannot be read, and why.
    pub unreadable: BTreeMap<String, String>,
}

impl Propagated {
    /// Whether a change has ended, either way.
    pub fn is_over(&self, change: &str) -> bool {
        self.insync.contains(change) || self.lost.contains(change)
    }
}

/// The result of a poll.
#[derive(Debug, Clone)]
enum Polled {
    Pending,
    InSync,
    /// Route 53 does not have the change.
    Lost,
    Failed {
        fault: Fault,
        text: String,
    },
}

impl State {
    fn pending(now: Duration) -> Self {
        Self::Pending {
            due: now + FIRST,
            wait: FIRST,
            unreadable: None,
        }
    }

    /// The state after a poll at `now`; `random` of 0 to 1 spreads polls.
    fn next(&self, polled: Polled, now: Duration, random: f64) -> Self {
        let Self::Pending {
            wait, unreadable, ..
        } = self
        else {
            return self.clone();
        };
        match polled {
            Polled::InSync => Self::InSync { since: now },
            Polled::Lost => Self::Lost { since: now },
            Polled::Pending => {
                let wait = (*wait * 2).min(LONGEST);
                Self::Pending {
                    due: now + wait,
                    wait,
                    unreadable: None,
                }
            }
            Polled::Failed { fault, text } => {
                let unreadable = Unreadable::next(unreadable.as_ref(), fault, text, now);
                Self::Pending {
                    due: now + unreadable.pause(fault, now, random),
                    wait: *wait,
                    unreadable: Some(unreadable),
                }
            }
        }
    }

    /// The reported error.
    fn text(&self) -> Option<&str> {
        match self {
            Self::Pending { unreadable, .. } => unreadable.as_ref()?.text.as_deref(),
            Self::InSync { .. } | Self::Lost { .. } => None,
        }
    }
}

impl Unreadable {
    /// | fault                        | reported                 | polled again       |
    /// |------------------------------|--------------------------|--------------------|
    /// | throttled                    | as before                | after a minute     |
    /// | it failed, or did not answer | the third time in a row  | with back-off      |
    /// | any other                    | at once                  | by its [`Pace`]    |
    fn next(before: Option<&Self>, fault: Fault, text: String, now: Duration) -> Self {
        let mut next = before.cloned().unwrap_or(Self {
            since: now,
            failures: 0,
            text: None,
        });
        match (fault, Pace::of(fault)) {
            (Fault::Throttled, _) => {}
            (_, Pace::Backoff) => {
                next.failures = next.failures.saturating_add(1);
                if next.failures >= REPORTED {
                    next.text = Some(text);
                }
            }
            (_, Pace::Pause | Pace::Slow) => next.text = Some(text),
        }
        next
    }

    fn pause(&self, fault: Fault, now: Duration, random: f64) -> Duration {
        match Pace::of(fault) {
            Pace::Pause => PAUSE,
            Pace::Backoff => BACKOFF.delay(self.failures, random).max(FIRST),
            Pace::Slow => slow(now.saturating_sub(self.since), random),
        }
    }
}

impl Propagation {
    fn follow(&self, change: &str, login: &ZoneRole, object: &ObjectKey, now: Duration) -> bool {
        let mut all = self.all.lock();
        let followed = all.entry(change.to_owned()).or_insert_with(|| Followed {
            login: login.clone(),
            waiting: BTreeSet::new(),
            state: State::pending(now),
        });
        let is_over = match followed.state {
            State::Pending { .. } => {
                followed.waiting.insert(object.clone());
                false
            }
            State::InSync { .. } | State::Lost { .. } => true,
        };
        drop(all);
        self.news.notify_one();
        is_over
    }

    fn follow_all(
        &self,
        pending: &BTreeMap<&str, ZoneRole>,
        known: &Propagated,
        object: &ObjectKey,
        now: Duration,
    ) -> bool {
        let unknown = pending.iter().filter(|(change, _)| !known.is_over(change));
        unknown.fold(false, |is_over, (change, login)| {
            self.follow(change, login, object, now) || is_over
        })
    }

    fn of<'c>(&self, changes: impl IntoIterator<Item = &'c str>) -> Propagated {
        let all = self.all.lock();
        let mut found = Propagated::default();
        for change in changes {
            let Some(followed) = all.get(change) else {
                continue;
            };
            match &followed.state {
                State::InSync { .. } => {
                    found.insync.insert(change.to_owned());
                }
                State::Lost { .. } => {
                    found.lost.insert(change.to_owned());
                }
                State::Pending { .. } => {
                    let text = followed.state.text().map(str::to_owned);
                    let text = text.map(|text| (change.to_owned(), text));
                    found.unreadable.extend(text);
                }
            }
        }
        found
    }

    fn poll_soon(&self, object: &ObjectKey, now: Duration) {
        for followed in self.all.lock().values_mut() {
            if let State::Pending {
                due, unreadable, ..
            } = &mut followed.state
                && unreadable.is_some()
                && followed.waiting.contains(object)
            {
                *due = now;
            }
        }
        self.news.notify_one();
    }

    /// The changes to poll, and when the next is due.
    fn due(&self, now: Duration) -> (Vec<(String, ZoneRole)>, Option<Duration>) {
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

    /// Records the result of a poll; returns the objects to notify.
    fn polled(
        &self,
        change: &str,
        polled: Polled,
        now: Duration,
        random: f64,
    ) -> BTreeSet<ObjectKey> {
        let mut all = self.all.lock();
        let Some(followed) = all.get_mut(change) else {
            return BTreeSet::new();
        };
        let next = followed.state.next(polled, now, random);
        let is_news = followed.state.text() != next.text();
        followed.state = next;
        match followed.state {
            State::InSync { .. } | State::Lost { .. } => std::mem::take(&mut followed.waiting),
            State::Pending { .. } if is_news => followed.waiting.clone(),
            State::Pending { .. } => BTreeSet::new(),
        }
    }
}

impl ZoneClient {
    /// Has [`ZoneUser::propagated`] called for `object` when the change has ended; returns whether it
    /// already has. `login` is the role that the change was sent as.
    pub fn follow(&self, change: &str, login: &ZoneRole, object: &ObjectKey) -> bool {
        let now = self.writer.clock.elapsed();
        self.propagation.follow(change, login, object, now)
    }

    /// The same for several changes; returns whether one has ended and `known` does not have it.
    pub fn follow_all(
        &self,
        pending: &BTreeMap<&str, ZoneRole>,
        known: &Propagated,
        object: &ObjectKey,
    ) -> bool {
        let now = self.writer.clock.elapsed();
        self.propagation.follow_all(pending, known, object, now)
    }

    /// What became of these changes, as far as they are followed.
    pub fn propagated<'c>(&self, changes: impl IntoIterator<Item = &'c str>) -> Propagated {
        self.propagation.of(changes)
    }

    /// Polls at once those changes of `object` that could not be read.
    pub fn poll_soon(&self, object: &ObjectKey) {
        self.propagation
            .poll_soon(object, self.writer.clock.elapsed());
    }

    /// Polls the followed changes for as long as it is polled itself. Run it once while the feature may
    /// write.
    pub async fn poll(&self, user: &dyn ZoneUser) {
        let clock = &self.writer.clock;
        loop {
            let now = clock.elapsed();
            let (due, next) = self.propagation.due(now);
            if !due.is_empty() {
                let polls = due
                    .iter()
                    .map(|(change, login)| self.read(user, change, login));
                join_all(polls).await;
                continue;
            }
            let wait = next.map_or(IDLE, |next| next.saturating_sub(now));
            tokio::select! {
                () = self.propagation.news.notified() => {}
                () = tokio::time::sleep(clock.real(wait)) => {}
            }
        }
    }

    async fn read(&self, user: &dyn ZoneUser, change: &str, login: &ZoneRole) {
        let polled = match status(user, change, login).await {
            Ok(ChangeStatus::InSync) => Polled::InSync,
            Ok(ChangeStatus::Pending) => Polled::Pending,
            Err(error) if error.fault() == Fault::ChangeMissing => Polled::Lost,
            Err(error) => {
                user.failed(&error);
                tracing::warn!(change, %error, "cannot read whether a change is in sync");
                Polled::Failed {
                    fault: error.fault(),
                    text: error.to_string(),
                }
            }
        };
        let now = self.writer.clock.elapsed();
        let random = fastrand::f64();
        for object in self.propagation.polled(change, polled, now, random) {
            user.propagated(&object);
        }
    }
}

async fn status(
    user: &dyn ZoneUser,
    change: &str,
    login: &ZoneRole,
) -> Result<ChangeStatus, Error> {
    let account = user.account(login.role()?).await;
    let route53 = account.route53(&Caller::new(Priority::Poll, ""));
    route53.change(change).await
}

#[cfg(test)]
mod tests;
