//! When the next batch begins, and what is in it.

use std::time::Duration;

use kernel::spread;

use super::{Batch, Cause, LARGEST_FILTER, MOST_UNANSWERED, PERIOD, SPREAD, VolumeWatch, Watched};

impl<U: Ord + Clone> VolumeWatch<U> {
    /// When the next batch may begin; a time that is past means now. `None` if nothing will begin
    /// until somebody waits, or until a batch is finished.
    pub fn next_read(&self) -> Option<Duration> {
        [self.next_want(), self.next_batch_of_round()]
            .into_iter()
            .flatten()
            .min()
    }

    /// Begins the next batch if it is due at `now`. `random` from 0 to 1 chooses the length of the
    /// next period. Call it again until it returns `None`: several batches may be due.
    ///
    /// | due | batch |
    /// |---|---|
    /// | a wanted read, at most 200 volumes are waited for | all of them; the period begins anew |
    /// | a wanted read, more are waited for | those wanted; the period stays |
    /// | a round | the first 200, and so on until all are begun |
    /// | nothing | none |
    pub fn begin(&mut self, now: Duration, random: f64) -> Option<Batch> {
        if self.next_want().is_some_and(|at| at <= now) {
            return Some(self.begin_wanted(now, random));
        }
        if self.next_batch_of_round().is_none_or(|at| at > now) {
            return None;
        }
        if self.rest_of_round.is_empty() {
            self.rest_of_round = self.volumes.keys().cloned().collect();
            self.next_round = now + spread(PERIOD, SPREAD, random);
        }
        let mut ids = Vec::new();
        while ids.len() < LARGEST_FILTER
            && let Some(id) = self.rest_of_round.pop_front()
        {
            if self.volumes.contains_key(&id) {
                ids.push(id);
            }
        }
        // Since the round began, users may have left all of its other volumes.
        if ids.is_empty() {
            return self.begin(now, random);
        }
        self.unanswered += 1;
        Some(self.batch(now, ids, Cause::Round))
    }

    fn begin_wanted(&mut self, now: Duration, random: f64) -> Batch {
        let all = self.volumes.len() <= LARGEST_FILTER;
        let chosen = self.volumes.iter().filter(|(_, watched)| {
            let is_due = watched.next_want().is_some_and(|at| at <= now);
            all || is_due
        });
        let ids = chosen.map(|(id, _)| id.clone()).take(LARGEST_FILTER);
        let ids = ids.collect();
        if all {
            self.rest_of_round.clear();
            self.next_round = now + spread(PERIOD, SPREAD, random);
        }
        self.is_want_unanswered = true;
        self.batch(now, ids, Cause::Want)
    }

    fn batch(&mut self, begun: Duration, ids: Vec<String>, cause: Cause) -> Batch {
        for id in &ids {
            if let Some(watched) = self.volumes.get_mut(id) {
                watched.begun = Some(begun);
            }
        }
        Batch { begun, ids, cause }
    }

    /// One batch of wanted reads at a time: while EC2 is slow, calls must not pile up.
    fn next_want(&self) -> Option<Duration> {
        if self.is_want_unanswered {
            return None;
        }
        self.volumes.values().filter_map(Watched::next_want).min()
    }

    fn next_batch_of_round(&self) -> Option<Duration> {
        let is_within = !self.rest_of_round.is_empty();
        let has_slot = if is_within {
            self.unanswered < MOST_UNANSWERED
        } else {
            self.unanswered == 0
        };
        if self.volumes.is_empty() || !has_slot {
            return None;
        }
        Some(if is_within {
            Duration::ZERO
        } else {
            self.next_round
        })
    }
}

impl Watched {
    /// The earliest time for which a read is wanted and none began; none after a failed read.
    fn next_want(&self) -> Option<Duration> {
        if self.failure.is_some() {
            return None;
        }
        let unbegun = |from: &&Duration| self.begun.is_none_or(|begun| begun < **from);
        self.wanted.iter().find(unbegun).copied()
    }
}
