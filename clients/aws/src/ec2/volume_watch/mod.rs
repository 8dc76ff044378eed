//! Which volumes to read, and when: one watch per account and region, for all who wait. Pure: time and
//! chance are arguments.
//!
//! ```text
//! wait, want ──▶ next_read ──▶ begin ──▶ Ec2::read_batch ──▶ finish ──▶ users to wake
//!    user         (task sleeps)              (task calls)                    │
//!     └─────────────────────── reading, failure ◀────────────────────────────┘
//! ```
//! # Promises
//! - While anybody waits, every volume is read once a second, give or take 20 %. While nobody waits,
//!   nothing is read.
//! - A [wanted](VolumeWatch::want) read begins at once, or at the time for which it is wanted.
//! - A batch has at most 200 volumes. In `T` seconds with `W` volumes at most
//!   `1.25 * T + 1` rounds of `ceil(W / 200)` batches begin, and one batch for each wanted read.
//! - A [reading](Reading) has the time at which its call began, so what it shows is at least as new.
//!   Late answers of older calls replace nothing. A volume that EC2 does not return is
//!   [missing](Reading::volume), never free.
//!
//! # When not to use it
//! For volumes that are read once, as checks before a run do: [`Ec2::volumes`](super::Ec2::volumes).

mod due;
#[cfg(test)]
mod properties;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use super::request::LARGEST_FILTER;
use super::{Ec2, Volume};
use crate::Error;

/// From the beginning of one round to that of the next, before it is spread.
const PERIOD: Duration = Duration::from_secs(1);
/// How much a period may be shorter or longer.
const SPREAD: f64 = 0.2;
/// So many batches of a round may be unanswered.
const MOST_UNANSWERED: usize = 4;

/// The volumes that somebody waits for. `U` names who waits; see [`VolumeWatch::wait`].
#[derive(Debug)]
pub struct VolumeWatch<U> {
    users: BTreeMap<U, BTreeSet<String>>,
    /// By id; those that a user waits for.
    volumes: BTreeMap<String, Watched>,
    /// The earliest beginning of the next round. Kept while nobody waits, so that leaving and coming
    /// back makes no extra reads.
    next_round: Duration,
    /// Volumes of the current round that no batch has yet.
    rest_of_round: VecDeque<String>,
    /// Batches of rounds that are not answered.
    unanswered: usize,
    /// Whether a batch of wanted reads is not answered.
    is_want_unanswered: bool,
}

#[derive(Debug, Default)]
struct Watched {
    /// The times for which a read is wanted and not answered.
    wanted: BTreeSet<Duration>,
    /// When the latest read began, whether or not it is answered.
    begun: Option<Duration>,
    reading: Option<Reading>,
    failure: Option<Failure>,
}

/// What a read showed of one volume.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reading {
    /// When the read began.
    pub begun: Duration,
    /// The volume; `None` if EC2 did not return it.
    pub volume: Option<Volume>,
}

/// A read that failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// When the read began.
    pub begun: Duration,
    /// Why it failed.
    pub error: Error,
}

/// Volumes to read in one call.
///
/// Each must be given back to [`VolumeWatch::finish`], whatever became of the call: otherwise the
/// watch waits for its answer for ever.
#[derive(Debug)]
#[must_use = "the watch waits until the batch is given back to `finish`"]
pub struct Batch {
    /// When it began.
    begun: Duration,
    ids: Vec<String>,
    cause: Cause,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Cause {
    Round,
    Want,
}

impl Reading {
    /// Whether EC2 showed the volume as [free](Volume::is_free).
    pub fn is_free(&self) -> bool {
        self.volume.as_ref().is_some_and(Volume::is_free)
    }
}

impl Batch {
    /// The ids of its volumes.
    pub fn ids(&self) -> &[String] {
        &self.ids
    }
}

impl Ec2 {
    /// Reads the volumes of one batch.
    pub async fn read_batch(&self, batch: &Batch) -> Result<Vec<Volume>, Error> {
        self.volumes(&batch.ids).await
    }
}

impl<U> Default for VolumeWatch<U> {
    fn default() -> Self {
        Self {
            users: BTreeMap::new(),
            volumes: BTreeMap::new(),
            next_round: Duration::ZERO,
            rest_of_round: VecDeque::new(),
            unanswered: 0,
            is_want_unanswered: false,
        }
    }
}

impl<U: Ord + Clone> VolumeWatch<U> {
    /// From now on `user` waits for these volumes, and for no others. Without a volume it waits no
    /// longer.
    pub fn wait(&mut self, user: &U, ids: impl IntoIterator<Item = String>) {
        let ids: BTreeSet<String> = ids.into_iter().collect();
        for id in &ids {
            self.volumes.entry(id.clone()).or_default();
        }
        let before = if ids.is_empty() {
            self.users.remove(user)
        } else {
            self.users.insert(user.clone(), ids)
        };
        for id in before.unwrap_or_default() {
            if !self.users.values().any(|ids| ids.contains(&id)) {
                self.volumes.remove(&id);
            }
        }
    }

    /// `user` waits for nothing any longer.
    pub fn leave(&mut self, user: &U) {
        self.wait(user, []);
    }

    /// Wants a read of the volume that begins at `from` or later: at once if that is past and no such
    /// read began. The same request again makes no second read. Only for a volume that is waited for.
    ///
    /// After a failed read there are only the regular ones, until one succeeds.
    ///
    /// | wanted | `from` |
    /// |---|---|
    /// | a read after an event | the time of the event |
    /// | a second read, two seconds after the first | beginning of the first, and two seconds |
    /// | one no older than five seconds | now, less five seconds |
    pub fn want(&mut self, id: &str, from: Duration) {
        let Some(watched) = self.volumes.get_mut(id) else {
            return;
        };
        let reading = watched.reading.as_ref();
        if reading.is_none_or(|reading| reading.begun < from) {
            watched.wanted.insert(from);
        }
    }

    /// The latest successful read of the volume.
    pub fn reading(&self, id: &str) -> Option<&Reading> {
        self.volumes.get(id)?.reading.as_ref()
    }

    /// The latest successful read of the volume if it began at `from` or later.
    pub fn reading_since(&self, id: &str, from: Duration) -> Option<&Reading> {
        let reading = self.reading(id);
        reading.filter(|reading| reading.begun >= from)
    }

    /// The latest failed read of the volume, if no later one succeeded.
    pub fn failure(&self, id: &str) -> Option<&Failure> {
        self.volumes.get(id)?.failure.as_ref()
    }

    /// How many volumes are waited for.
    pub fn waiting(&self) -> usize {
        self.volumes.len()
    }

    /// Takes the result of a batch. Returns the users to wake: those with a volume that changed, that
    /// fails or fails no longer, or whose wanted read is there.
    pub fn finish(&mut self, batch: Batch, result: Result<Vec<Volume>, Error>) -> BTreeSet<U> {
        let Batch { begun, ids, cause } = batch;
        match cause {
            Cause::Round => self.unanswered = self.unanswered.saturating_sub(1),
            Cause::Want => self.is_want_unanswered = false,
        }
        let result = result.map(|volumes| {
            let by_id = volumes
                .into_iter()
                .map(|volume| (volume.id.clone(), volume));
            by_id.collect::<BTreeMap<_, _>>()
        });
        let mut changed = BTreeSet::new();
        for id in ids {
            // Nobody may wait for it any longer.
            let Some(watched) = self.volumes.get_mut(&id) else {
                continue;
            };
            let is_news = match &result {
                Ok(volumes) => watched.succeeded(begun, volumes.get(&id).cloned()),
                Err(error) => watched.failed(begun, error),
            };
            if is_news {
                changed.insert(id);
            }
        }
        let users = self.users.iter();
        let woken = users.filter(|(_, ids)| !ids.is_disjoint(&changed));
        woken.map(|(user, _)| user.clone()).collect()
    }
}

impl Watched {
    /// The time of the latest answer, good or bad.
    fn answered(&self) -> Option<Duration> {
        let reading = self.reading.as_ref().map(|reading| reading.begun);
        reading.max(self.failure.as_ref().map(|failure| failure.begun))
    }

    /// Whether the user has to see it.
    fn succeeded(&mut self, begun: Duration, volume: Option<Volume>) -> bool {
        // Calls may be answered in another order than they began.
        if self.answered().is_some_and(|answered| answered > begun) {
            return false;
        }
        let before = self.reading.as_ref().map(|reading| &reading.volume);
        let is_changed = before != Some(&volume);
        let has_recovered = self.failure.take().is_some();
        self.reading = Some(Reading { begun, volume });
        let wanted = self.wanted.len();
        self.wanted.retain(|&from| from > begun);
        is_changed || has_recovered || self.wanted.len() < wanted
    }

    /// Whether the user has to see it.
    fn failed(&mut self, begun: Duration, error: &Error) -> bool {
        if self.answered().is_some_and(|answered| answered > begun) {
            return false;
        }
        let before = self.failure.as_ref().map(|failure| failure.error.class());
        self.failure = Some(Failure {
            begun,
            error: error.clone(),
        });
        before != Some(error.class())
    }
}
