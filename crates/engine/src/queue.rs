//! Which object is next. A plain structure over clock time: no task, no lock, no wait.
//!
//! # Guarantees
//! - An object is handed out to one pass at a time; what comes in meanwhile runs once after it.
//! - User changes come before followed changes, these before resyncs; none of them starves.
//! - What a pass has begun and another one is to finish comes before user changes, most of the time.
//! - A failed object waits longer each time; nothing is ever dropped.
//! - Only a pass that ends well, or a user's change, clears an object's failures.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::time::Duration;

use kernel::{Backoff, ObjectKey};

/// Why an object is to be looked at; the order is the priority.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Cause {
    /// A person changed it or asked for its deletion.
    User,
    /// Something it follows changed, or its time has come.
    Followed,
    /// The periodic look, and the first one after a start.
    Resync,
}

impl Cause {
    /// All of them, first priority first.
    pub(crate) const ALL: [Self; 3] = [Self::User, Self::Followed, Self::Resync];

    /// As a metric label.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::Followed => "followed",
            Self::Resync => "resync",
        }
    }
}

/// Of 16 turns, the first belongs to resyncs and the next three to followed changes, if any wait:
/// so neither starves behind a flood of user changes.
const TURNS: u8 = 16;

/// Of so many turns of user changes one goes to those that no pass has begun: they do not starve either.
const OTHERS_FIRST: u8 = 4;

/// Passes over one object begin at least this far apart, so that a flood of edits is a few passes.
const BREATH: Duration = Duration::from_millis(100);

/// A stale object is looked at again after this long: by then the cache has the news.
const STALE: Duration = Duration::from_millis(200);

/// A followed change brings a failing object's retry forward to this share of its delay, no further.
const EARLIEST_SHARE: u32 = 4;

/// So many passes in a row that only asked for another pass, and wrote nothing, are a failure.
const IDLE_REPEATS: u32 = 10;

/// How an object's pass ended, as far as the queue cares.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Next {
    /// It wrote what the next pass acts on: run that at once.
    Again,
    /// There is news of it already, for this cause.
    News(Cause),
    /// All well: again after this long.
    After(Duration, Cause),
    /// It failed: back off.
    Failed,
    /// What it wrote was based on an old object: soon again, but not twice in a row.
    Stale,
}

#[derive(Debug, Default)]
struct Entry {
    /// Waits in `ready` for this cause, since then.
    waiting: Option<(Cause, Duration)>,
    running: bool,
    /// Came in while running.
    again: Option<Cause>,
    /// When the timer rings, for which cause; its key in `timers`.
    timer: Option<(Duration, u64, Cause)>,
    failures: u32,
    /// Passes in a row that asked for another one and wrote nothing.
    idle_repeats: u32,
    /// No change runs before this, but for the user's own while it fails.
    earliest: Duration,
    /// When its last pass began.
    began: Option<Duration>,
    /// Its last pass ended stale.
    stale: bool,
}

/// The queue of one controller.
#[derive(Debug)]
pub(crate) struct Queue {
    backoff: Backoff,
    entries: HashMap<ObjectKey, Entry>,
    ready: [VecDeque<ObjectKey>; 3],
    /// Of those with the first priority, the ones whose last pass asks for another at once.
    begun: VecDeque<ObjectKey>,
    depth: [usize; 3],
    timers: BTreeMap<(Duration, u64), ObjectKey>,
    turn: u8,
    stamp: u64,
    failing: usize,
}

/// An object handed out to a pass.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Taken {
    /// Which.
    pub(crate) key: ObjectKey,
    /// Why.
    pub(crate) cause: Cause,
    /// How long it waited.
    pub(crate) waited: Duration,
}

impl Queue {
    /// An empty queue.
    pub(crate) fn new(backoff: Backoff) -> Self {
        Self {
            backoff,
            entries: HashMap::new(),
            ready: Default::default(),
            begun: VecDeque::new(),
            depth: [0; 3],
            timers: BTreeMap::new(),
            turn: 0,
            stamp: 0,
            failing: 0,
        }
    }

    /// Asks for a pass over `key`. A user's change also forgets the failures before it.
    pub(crate) fn add(&mut self, key: &ObjectKey, cause: Cause, now: Duration) {
        if cause == Cause::User {
            self.succeeded(key);
        }
        let entry = self.entries.entry(key.clone()).or_default();
        let breath = entry.began.map_or(Duration::ZERO, |began| began + BREATH);
        if entry.running {
            entry.again = Some(entry.again.map_or(cause, |before| before.min(cause)));
        } else if entry.waiting.is_some() {
            self.make_ready(key, cause, now); // at most raised in priority
        } else if cause == Cause::Resync && entry.timer.is_some() {
            // Its own time comes: a second look now would be a second look.
        } else if cause == Cause::Followed && entry.failures > 0 && now < entry.earliest {
            let at = entry.earliest; // in back-off: sooner than planned, but not at once
            if entry.timer.is_none_or(|(planned, ..)| planned > at) {
                self.set_timer(key, at, Cause::Followed);
            }
        } else if now < breath {
            let before = entry
                .timer
                .filter(|(at, ..)| *at <= breath)
                .map(|(.., before)| before);
            self.set_timer(
                key,
                breath,
                before.map_or(cause, |before| before.min(cause)),
            );
        } else {
            self.make_ready(key, cause, now);
        }
    }

    /// Asks for a pass over `key` after this long, unless one comes sooner anyway.
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

    /// Asks for the first pass over `key` after this long, unless it has a pass ahead already.
    pub(crate) fn add_first(&mut self, key: &ObjectKey, delay: Duration, now: Duration) {
        let entry = self.entries.entry(key.clone()).or_default();
        if delay.is_zero() || entry.running {
            self.add(key, Cause::Resync, now);
        } else if entry.waiting.is_none() && entry.timer.is_none() {
            self.set_timer(key, now.saturating_add(delay), Cause::Resync);
        }
    }

    /// The pass over `key` ended well, whatever comes next: its failures no longer count.
    pub(crate) fn succeeded(&mut self, key: &ObjectKey) {
        if let Some(entry) = self.entries.get_mut(key) {
            entry.idle_repeats = 0;
            if std::mem::take(&mut entry.failures) > 0 {
                self.failing -= 1;
            }
        }
    }

    /// The pass over `key` has ended; `is_idle` if it asks for another one at once and wrote nothing.
    /// Answers whether that counts as a failure: too many in a row were idle.
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

    /// How long `key` would wait if its next end were a failure.
    pub(crate) fn retry(&self, key: &ObjectKey, random: f64) -> Duration {
        let failures = self.entries.get(key).map_or(0, |entry| entry.failures);
        self.backoff.delay(failures.saturating_add(1), random)
    }

    /// The next object whose turn it is.
    pub(crate) fn take(&mut self, now: Duration) -> Option<Taken> {
        self.ring(now);
        let cause = self.choose()?;
        self.take_of(cause, now)
    }

    /// The next object that a person has changed.
    pub(crate) fn take_urgent(&mut self, now: Duration) -> Option<Taken> {
        self.ring(now);
        self.take_of(Cause::User, now)
    }

    fn take_of(&mut self, cause: Cause, now: Duration) -> Option<Taken> {
        loop {
            // Copies of those that were moved or forgotten are passed over.
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
                    return Some(Taken {
                        key,
                        cause,
                        waited: now.saturating_sub(since),
                    });
                }
                // Moved to another priority since; that copy counts.
                _ => {}
            }
        }
    }

    fn pop(&mut self, cause: Cause) -> Option<ObjectKey> {
        let ready = &mut self.ready[cause as usize];
        if cause != Cause::User {
            return ready.pop_front();
        }
        let others_first = self.turn.is_multiple_of(OTHERS_FIRST);
        let (first, second) = if others_first {
            (ready, &mut self.begun)
        } else {
            (&mut self.begun, ready)
        };
        first.pop_front().or_else(|| second.pop_front())
    }

    /// The pass over `key` has ended. `random` in 0..1 spreads the back-off.
    pub(crate) fn finish(&mut self, key: &ObjectKey, next: Next, now: Duration, random: f64) {
        let Some(entry) = self.entries.get_mut(key) else {
            return;
        };
        entry.running = false;
        let again = entry.again.take();
        let stale = next == Next::Stale;
        let failed = next == Next::Failed || (stale && entry.stale);
        entry.stale = stale;
        let breath = entry.began.map_or(now, |began| began + BREATH);
        if failed {
            if entry.failures == 0 {
                self.failing += 1;
            }
            entry.failures = entry.failures.saturating_add(1);
            let delay = self.backoff.delay(entry.failures, random);
            let soonest = self.backoff.first.max(delay / EARLIEST_SHARE);
            entry.earliest = now + soonest.min(delay);
            self.set_timer(key, now.saturating_add(delay), Cause::Followed);
        } else if matches!(next, Next::After(..)) {
            self.succeeded(key);
        }
        match next {
            Next::Again => self.make_begun(key, now),
            Next::News(cause) => self.add(key, cause, now),
            Next::After(delay, cause) => {
                self.set_timer(key, now.saturating_add(delay).max(breath), cause);
            }
            Next::Stale if !failed => self.set_timer(key, now + STALE, Cause::User),
            Next::Stale | Next::Failed => {}
        }
        if let Some(cause) = again {
            self.add(key, cause, now);
        }
    }

    /// The object is gone: nothing of it stays, unless it was asked for again meanwhile.
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

    /// Takes an object out of the queue without a pass, as if one ran; not if one does.
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

    /// Whether [`Queue::take`] would hand something out.
    pub(crate) fn is_ready(&mut self, now: Duration) -> bool {
        self.ring(now);
        self.depth.iter().any(|depth| *depth > 0)
    }

    /// Everything that ran was dropped: it runs again, but nobody waits for it.
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

    /// Whether a pass over `key` is under way.
    pub(crate) fn is_running(&self, key: &ObjectKey) -> bool {
        self.entries.get(key).is_some_and(|entry| entry.running)
    }

    /// When the next timer rings, if nothing is ready.
    pub(crate) fn next_due(&self) -> Option<Duration> {
        self.timers.keys().next().map(|(at, _)| *at)
    }

    /// Objects that wait, by priority.
    pub(crate) fn depth(&self, cause: Cause) -> usize {
        self.depth[cause as usize]
    }

    /// How long the longest-waiting object of all has waited.
    pub(crate) fn oldest(&self, now: Duration) -> Duration {
        let all = self.ready.iter().chain([&self.begun]);
        let fronts = all.filter_map(|ready| ready.front());
        let since = fronts
            .filter_map(|key| self.entries.get(key)?.waiting.map(|(_, since)| since))
            .min();
        since.map_or(Duration::ZERO, |since| now.saturating_sub(since))
    }

    /// Objects in back-off.
    pub(crate) fn failing(&self) -> usize {
        self.failing
    }

    fn choose(&mut self) -> Option<Cause> {
        self.turn = (self.turn + 1) % TURNS;
        let order = match self.turn {
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

    /// Its last pass asks for another at once.
    fn make_begun(&mut self, key: &ObjectKey, now: Duration) {
        if let Some(entry) = self.entries.get_mut(key) {
            entry.waiting = Some((Cause::User, now));
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

    fn ring(&mut self, now: Duration) {
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
