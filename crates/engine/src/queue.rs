//! Decides which object has the next pass. A plain structure: no task, no lock, and time is a parameter.
//!
//! # Guarantees
//! - An object has one pass at a time. Requests during a pass lead to one more pass after it.
//! - User changes come before followed changes, and these before resyncs. None of them starves.
//! - An object that a pass has begun to work on comes before most user changes.
//! - The delay after a failure grows with each failure. No object is ever dropped.
//! - Only a successful pass or a user's change clears the failures of an object.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::time::Duration;

use kernel::{Backoff, ObjectKey};

/// Why an object needs a pass. The order is the priority.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Cause {
    /// A user changed or deleted the object.
    User,
    /// Something that the object follows has changed, or its timer fired.
    Followed,
    /// The periodic pass, and the first one after a start.
    Resync,
}

impl Cause {
    /// All causes, highest priority first.
    pub(crate) const ALL: [Self; 3] = [Self::User, Self::Followed, Self::Resync];

    /// The value of the metric label.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::Followed => "followed",
            Self::Resync => "resync",
        }
    }
}

/// Of this many passes, the first is for resyncs and the next three are for followed changes, if any
/// wait. So neither starves behind many user changes.
const CYCLE: u8 = 16;

/// Of this many passes for user changes, one is for an object that no pass has begun. So these do not
/// starve either.
const NEW_EVERY: u8 = 4;

/// The default of [`Queue::with_pass_interval`].
pub(crate) const PASS_INTERVAL: Duration = Duration::from_millis(100);

/// Delay after a pass whose write was stale. By then the cache has the newer object.
const STALE_DELAY: Duration = Duration::from_millis(200);

/// A followed change shortens the delay of a failing object, but not below the delay divided by this.
const MAX_SHORTENING: u32 = 4;

/// This many consecutive passes that request another pass and write nothing count as a failure.
const IDLE_REPEATS: u32 = 10;

/// What the queue does after a pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Next {
    /// The next pass acts on what this one wrote: run it at once.
    Again,
    /// The object has changed during the pass: run another pass for this cause.
    News(Cause),
    /// The pass succeeded: run the next one after this time.
    After(Duration, Cause),
    /// The pass failed: back off.
    Failed,
    /// The write was based on an old object: retry soon. Twice in a row counts as a failure.
    Stale,
}

#[derive(Debug, Default)]
struct Entry {
    /// Cause and start of its wait in `ready`.
    waiting: Option<(Cause, Duration)>,
    running: bool,
    /// A request that came during its pass.
    again: Option<Cause>,
    /// When its timer fires, its key in `timers`, and the cause of that pass.
    timer: Option<(Duration, u64, Cause)>,
    failures: u32,
    /// Consecutive passes that requested another one and wrote nothing.
    idle_repeats: u32,
    /// While it fails, no pass begins before this time, except for a user's change.
    earliest: Duration,
    /// When its last pass began.
    began: Option<Duration>,
    /// Whether the write of its last pass was stale.
    stale: bool,
}

/// The queue of one controller.
#[derive(Debug)]
pub(crate) struct Queue {
    backoff: Backoff,
    /// The least time between the starts of two passes over one object.
    pass_interval: Duration,
    entries: HashMap<ObjectKey, Entry>,
    ready: [VecDeque<ObjectKey>; 3],
    /// Objects of the first priority that an earlier pass has begun to work on.
    begun: VecDeque<ObjectKey>,
    depth: [usize; 3],
    timers: BTreeMap<(Duration, u64), ObjectKey>,
    /// The position in the cycle of priorities.
    position: u8,
    stamp: u64,
    failing: usize,
}

/// A request for a pass that the queue has handed out.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct PassRequest {
    /// The object.
    pub(crate) key: ObjectKey,
    /// Why it needs a pass.
    pub(crate) cause: Cause,
    /// How long it has waited.
    pub(crate) waited: Duration,
}

impl Queue {
    /// An empty queue.
    pub(crate) fn new(backoff: Backoff) -> Self {
        Self {
            backoff,
            pass_interval: PASS_INTERVAL,
            entries: HashMap::new(),
            ready: Default::default(),
            begun: VecDeque::new(),
            depth: [0; 3],
            timers: BTreeMap::new(),
            position: 0,
            stamp: 0,
            failing: 0,
        }
    }

    /// Sets the least time between the starts of two passes over one object, so that many edits cause few
    /// passes.
    pub(crate) fn with_pass_interval(self, pass_interval: Duration) -> Self {
        Self {
            pass_interval,
            ..self
        }
    }

    /// Requests a pass over `key`. A user's change also clears its failures.
    pub(crate) fn add(&mut self, key: &ObjectKey, cause: Cause, now: Duration) {
        if cause == Cause::User {
            self.succeeded(key);
        }
        let entry = self.entries.entry(key.clone()).or_default();
        let next_start = entry
            .began
            .map_or(Duration::ZERO, |began| began + self.pass_interval);
        if entry.running {
            entry.again = Some(entry.again.map_or(cause, |before| before.min(cause)));
        } else if entry.waiting.is_some() {
            self.make_ready(key, cause, now); // at most raised in priority
        } else if cause == Cause::Resync && entry.timer.is_some() {
            // Its timer causes a pass anyway.
        } else if cause == Cause::Followed && entry.failures > 0 && now < entry.earliest {
            let at = entry.earliest; // sooner than the back-off, but not at once
            if entry.timer.is_none_or(|(planned, ..)| planned > at) {
                self.set_timer(key, at, Cause::Followed);
            }
        } else if now < next_start {
            let before = entry
                .timer
                .filter(|(at, ..)| *at <= next_start)
                .map(|(.., before)| before);
            self.set_timer(
                key,
                next_start,
                before.map_or(cause, |before| before.min(cause)),
            );
        } else {
            self.make_ready(key, cause, now);
        }
    }

    /// Requests a pass over `key` that goes on with what an earlier pass began. It comes before most user
    /// changes, but it does not end a back-off.
    pub(crate) fn resume(&mut self, key: &ObjectKey, now: Duration) {
        let entry = self.entries.entry(key.clone()).or_default();
        if entry.running || entry.failures > 0 && now < entry.earliest {
            return self.add(key, Cause::Followed, now);
        }
        let since = match entry.waiting.take() {
            Some((before, since)) => {
                self.depth[before as usize] -= 1;
                since
            }
            None => now,
        };
        self.make_begun(key, since);
    }

    /// Requests a pass over `key` after `delay`, unless one is due sooner.
    pub(crate) fn add_in(&mut self, key: &ObjectKey, delay: Duration, now: Duration) {
        let entry = self.entries.entry(key.clone()).or_default();
        let mut at = now.saturating_add(delay);
        if entry.failures > 0 {
            at = at.max(entry.earliest);
        }
        let sooner = entry.timer.is_some_and(|(planned, ..)| planned <= at);
        if delay.is_zero() || entry.running {
            self.add(key, Cause::Followed, now);
        } else if entry.waiting.is_none() && !sooner {
            self.set_timer(key, at, Cause::Followed);
        }
    }

    /// Requests the first pass over `key` after `delay`, unless one is due already.
    pub(crate) fn add_first(&mut self, key: &ObjectKey, delay: Duration, now: Duration) {
        let entry = self.entries.entry(key.clone()).or_default();
        if delay.is_zero() || entry.running {
            self.add(key, Cause::Resync, now);
        } else if entry.waiting.is_none() && entry.timer.is_none() {
            self.set_timer(key, now.saturating_add(delay), Cause::Resync);
        }
    }

    /// Clears the failures of `key`, because its pass succeeded.
    pub(crate) fn succeeded(&mut self, key: &ObjectKey) {
        if let Some(entry) = self.entries.get_mut(key) {
            entry.idle_repeats = 0;
            if std::mem::take(&mut entry.failures) > 0 {
                self.failing -= 1;
            }
        }
    }

    /// Counts idle passes over `key`: those that request another pass and write nothing. Returns whether
    /// this one counts as a failure, because too many in a row were idle.
    pub(crate) fn is_repeating_idly(&mut self, key: &ObjectKey, is_idle: bool) -> bool {
        let Some(entry) = self.entries.get_mut(key) else {
            return false;
        };
        entry.idle_repeats = if is_idle {
            entry.idle_repeats.saturating_add(1)
        } else {
            0
        };
        entry.idle_repeats >= IDLE_REPEATS
    }

    /// The delay of `key` if its pass fails.
    pub(crate) fn retry(&self, key: &ObjectKey, random: f64) -> Duration {
        let failures = self.entries.get(key).map_or(0, |entry| entry.failures);
        self.backoff.delay(failures.saturating_add(1), random)
    }

    /// Hands out the next request.
    pub(crate) fn take(&mut self, now: Duration) -> Option<PassRequest> {
        self.fire_timers(now);
        let cause = self.choose()?;
        self.take_of(cause, now)
    }

    /// Hands out the next request by a user.
    pub(crate) fn take_urgent(&mut self, now: Duration) -> Option<PassRequest> {
        self.fire_timers(now);
        self.take_of(Cause::User, now)
    }

    fn take_of(&mut self, cause: Cause, now: Duration) -> Option<PassRequest> {
        loop {
            // Skips entries of objects that have changed their priority or were removed.
            let key = self.pop(cause)?;
            let Some(entry) = self.entries.get_mut(&key) else {
                continue;
            };
            match entry.waiting {
                Some((waits_for, since)) if waits_for == cause => {
                    entry.waiting = None;
                    entry.running = true;
                    entry.began = Some(now);
                    self.depth[cause as usize] -= 1;
                    self.stop_timer(&key);
                    return Some(PassRequest {
                        key,
                        cause,
                        waited: now.saturating_sub(since),
                    });
                }
                // The object has another entry in the queue of its new priority.
                _ => {}
            }
        }
    }

    fn pop(&mut self, cause: Cause) -> Option<ObjectKey> {
        let ready = &mut self.ready[cause as usize];
        if cause != Cause::User {
            return ready.pop_front();
        }
        let new_first = self.position.is_multiple_of(NEW_EVERY);
        let (first, second) = if new_first {
            (ready, &mut self.begun)
        } else {
            (&mut self.begun, ready)
        };
        first.pop_front().or_else(|| second.pop_front())
    }

    /// Takes in how the pass over `key` ended. `random` in 0..1 spreads the back-off.
    pub(crate) fn finish(&mut self, key: &ObjectKey, next: Next, now: Duration, random: f64) {
        let Some(entry) = self.entries.get_mut(key) else {
            return;
        };
        entry.running = false;
        let again = entry.again.take();
        let stale = next == Next::Stale;
        let failed = next == Next::Failed || (stale && entry.stale);
        entry.stale = stale;
        let next_start = entry.began.map_or(now, |began| began + self.pass_interval);
        if failed {
            if entry.failures == 0 {
                self.failing += 1;
            }
            entry.failures = entry.failures.saturating_add(1);
            let delay = self.backoff.delay(entry.failures, random);
            let shortest = self.backoff.first.max(delay / MAX_SHORTENING);
            entry.earliest = now + shortest.min(delay);
            self.set_timer(key, now.saturating_add(delay), Cause::Followed);
        } else if matches!(next, Next::After(..)) {
            self.succeeded(key);
        }
        match next {
            Next::Again => self.make_begun(key, now),
            Next::News(cause) => self.add(key, cause, now),
            Next::After(delay, cause) => {
                self.set_timer(key, now.saturating_add(delay).max(next_start), cause);
            }
            Next::Stale if !failed => self.set_timer(key, now + STALE_DELAY, Cause::User),
            Next::Stale | Next::Failed => {}
        }
        if let Some(cause) = again {
            self.add(key, cause, now);
        }
    }

    /// Removes a deleted object. A request that came during its pass stays.
    pub(crate) fn forget(&mut self, key: &ObjectKey, now: Duration) {
        let Some(entry) = self.entries.get_mut(key) else {
            return;
        };
        entry.running = false;
        let again = entry.again.take();
        if let Some((cause, _)) = entry.waiting.take() {
            self.depth[cause as usize] -= 1;
        }
        if entry.failures > 0 {
            self.failing -= 1;
        }
        self.stop_timer(key);
        self.entries.remove(key);
        if let Some(cause) = again {
            self.add(key, cause, now);
        }
    }

    /// Marks an object as running without a pass. Returns false if a pass over it is running.
    pub(crate) fn seize(&mut self, key: &ObjectKey) -> bool {
        let entry = self.entries.entry(key.clone()).or_default();
        if entry.running {
            return false;
        }
        entry.running = true;
        if let Some((cause, _)) = entry.waiting.take() {
            self.depth[cause as usize] -= 1;
        }
        self.stop_timer(key);
        true
    }

    /// Whether [`Queue::take`] has a request to hand out.
    pub(crate) fn is_ready(&mut self, now: Duration) -> bool {
        self.fire_timers(now);
        self.depth.iter().any(|depth| *depth > 0)
    }

    /// Queues all running objects again, because their passes were dropped. No user waits for them.
    pub(crate) fn interrupted(&mut self, now: Duration) {
        let running: Vec<_> = self
            .entries
            .iter()
            .filter(|(_, e)| e.running)
            .map(|(k, _)| k.clone())
            .collect();
        for key in running {
            if let Some(entry) = self.entries.get_mut(&key) {
                entry.running = false;
                let cause = entry.again.take().unwrap_or(Cause::Followed);
                self.make_ready(&key, cause, now);
            }
        }
    }

    /// Whether a pass over `key` is running.
    pub(crate) fn is_running(&self, key: &ObjectKey) -> bool {
        self.entries.get(key).is_some_and(|entry| entry.running)
    }

    /// When the next timer fires.
    pub(crate) fn next_due(&self) -> Option<Duration> {
        self.timers.keys().next().map(|(at, _)| *at)
    }

    /// The number of objects that wait for this cause.
    pub(crate) fn depth(&self, cause: Cause) -> usize {
        self.depth[cause as usize]
    }

    /// The longest wait of all waiting objects.
    pub(crate) fn oldest(&self, now: Duration) -> Duration {
        let all = self.ready.iter().chain([&self.begun]);
        let fronts = all.filter_map(|ready| ready.front());
        let since = fronts
            .filter_map(|key| self.entries.get(key)?.waiting.map(|(_, since)| since))
            .min();
        since.map_or(Duration::ZERO, |since| now.saturating_sub(since))
    }

    /// The number of objects in back-off.
    pub(crate) fn failing(&self) -> usize {
        self.failing
    }

    fn choose(&mut self) -> Option<Cause> {
        self.position = (self.position + 1) % CYCLE;
        let order = match self.position {
            0 => [Cause::Resync, Cause::Followed, Cause::User],
            1..=3 => [Cause::Followed, Cause::User, Cause::Resync],
            _ => Cause::ALL,
        };
        order
            .into_iter()
            .find(|cause| self.depth[*cause as usize] > 0)
    }

    fn make_ready(&mut self, key: &ObjectKey, cause: Cause, now: Duration) {
        let entry = self.entries.entry(key.clone()).or_default();
        match entry.waiting {
            Some((before, _)) if before <= cause => return,
            Some((before, since)) => {
                self.depth[before as usize] -= 1;
                entry.waiting = Some((cause, since));
            }
            None => entry.waiting = Some((cause, now)),
        }
        self.depth[cause as usize] += 1;
        self.ready[cause as usize].push_back(key.clone());
    }

    /// Queues an object that an earlier pass has begun to work on.
    fn make_begun(&mut self, key: &ObjectKey, since: Duration) {
        if let Some(entry) = self.entries.get_mut(key) {
            entry.waiting = Some((Cause::User, since));
            self.depth[Cause::User as usize] += 1;
            self.begun.push_back(key.clone());
        }
    }

    fn set_timer(&mut self, key: &ObjectKey, at: Duration, cause: Cause) {
        let Some(entry) = self.entries.get_mut(key) else {
            return;
        };
        if let Some((before, stamp, _)) = entry.timer {
            self.timers.remove(&(before, stamp));
        }
        self.stamp += 1;
        entry.timer = Some((at, self.stamp, cause));
        self.timers.insert((at, self.stamp), key.clone());
    }

    fn stop_timer(&mut self, key: &ObjectKey) {
        if let Some((at, stamp, _)) = self
            .entries
            .get_mut(key)
            .and_then(|entry| entry.timer.take())
        {
            self.timers.remove(&(at, stamp));
        }
    }

    fn fire_timers(&mut self, now: Duration) {
        while let Some(first) = self.timers.first_entry() {
            if first.key().0 > now {
                return;
            }
            let key = first.remove();
            let timer = self
                .entries
                .get_mut(&key)
                .and_then(|entry| entry.timer.take());
            if let Some((_, _, cause)) = timer {
                self.make_ready(&key, cause, now);
            }
        }
    }
}

#[cfg(test)]
mod tests;
