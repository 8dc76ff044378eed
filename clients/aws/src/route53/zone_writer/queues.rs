//! What waits for each zone, and which zones cannot be reached. Pure.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::time::Duration;

use kernel::ObjectKey;

use super::batch::{self, Batch, Load};
use super::pace::{BACKOFF, REPORTED};
use super::{ZoneAccess, ZoneRole};

/// How long a zone collects before it is written.
pub(super) const COLLECT: Duration = Duration::from_secs(2);
/// A failure of an access is forgotten after this long without another one.
pub(super) const REMEMBERED: Duration = Duration::from_mins(10);

/// A session of a client; no two have the same, and none has 0.
pub(super) type SessionId = u64;

/// Who submitted a change set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Origin {
    pub(super) session: SessionId,
    pub(super) object: ObjectKey,
}

/// What waits for zones, and the sessions that it is from. Nothing is kept of a session that is over.
#[derive(Debug, Default)]
pub(super) struct Queues {
    /// The latest session.
    latest: SessionId,
    running: HashSet<SessionId>,
    /// By the id of the zone.
    zones: HashMap<String, Queue>,
}

/// What waits for one zone.
#[derive(Debug, Default)]
struct Queue {
    /// The oldest first.
    loads: Vec<Load<Origin>>,
    /// A batch is sent and not answered.
    busy: bool,
    not_before: Duration,
    /// Those that failed or pause. Guards and credentials differ by session and role.
    accesses: BTreeMap<(SessionId, ZoneRole), Access>,
}

/// How calls fare that one session sends to one zone as one role.
#[derive(Debug, Default)]
struct Access {
    not_before: Duration,
    failing: Option<Failing>,
}

/// That calls fail.
#[derive(Debug)]
struct Failing {
    /// How often in a row.
    count: u32,
    last: Duration,
    /// The last error.
    text: String,
    is_reported: bool,
}

impl Access {
    fn is_needed(&self, now: Duration) -> bool {
        let is_recent = |failing: &Failing| now.saturating_sub(failing.last) < REMEMBERED;
        self.not_before > now || self.failing.as_ref().is_some_and(is_recent)
    }
}

fn access(load: &Load<Origin>) -> (SessionId, ZoneRole) {
    (load.from.session, load.set.access.login.clone())
}

impl Queue {
    fn is_needed(&self, now: Duration) -> bool {
        let is_idle = self.loads.is_empty() && self.accesses.is_empty();
        self.busy || !is_idle || self.not_before > now
    }

    /// When a load may be sent, as far as its access is concerned.
    fn opens(&self, load: &Load<Origin>) -> Duration {
        let access = self.accesses.get(&access(load));
        access.map_or(Duration::ZERO, |access| access.not_before)
    }

    /// Whether something could be sent now.
    fn has_due(&self, now: Duration) -> bool {
        self.loads.iter().any(|load| self.opens(load) <= now)
    }

    /// The next batch, or when there may be one; never, if nothing waits.
    fn next(&mut self, now: Duration) -> Result<Batch<Origin>, Option<Duration>> {
        if self.not_before > now {
            return Err((!self.loads.is_empty()).then_some(self.not_before));
        }
        let mut loads = std::mem::take(&mut self.loads);
        let is_open = |load: &Load<Origin>| self.opens(load) <= now;
        let goes_with = |one: &Origin, other: &Origin| one.session == other.session;
        let batch = batch::next(&mut loads, is_open, goes_with);
        let found = batch.ok_or_else(|| loads.iter().map(|load| self.opens(load)).min());
        self.loads = loads;
        self.busy = found.is_ok();
        found
    }
}

impl Queues {
    /// Begins a session.
    pub(super) fn begin(&mut self) -> SessionId {
        self.latest += 1;
        self.running.insert(self.latest);
        self.latest
    }

    /// Ends a session: drops what waits for it, and how its calls fared. Batches in flight go on.
    pub(super) fn end(&mut self, session: SessionId) {
        self.running.remove(&session);
        for queue in self.zones.values_mut() {
            queue.loads.retain(|load| load.from.session != session);
            queue.accesses.retain(|(one, _), _| *one != session);
        }
    }

    pub(super) fn submit(&mut self, load: Load<Origin>, now: Duration) {
        if !self.running.contains(&load.from.session) {
            return;
        }
        let queue = self.zones.entry(load.set.access.zone.clone()).or_default();
        if !queue.busy && !queue.has_due(now) {
            queue.not_before = queue.not_before.max(now + COLLECT);
        }
        queue.loads.push(load);
    }

    /// The accesses of a session whose failures are reported, and why they fail.
    pub(super) fn failing(&self, session: SessionId) -> BTreeMap<ZoneAccess, String> {
        let accesses = self.zones.iter().flat_map(|(zone, queue)| {
            let accesses = queue.accesses.iter();
            accesses.map(move |(of, access)| (zone, of, access))
        });
        let failing = accesses.filter_map(|(zone, (one, login), access)| {
            let failing = access.failing.as_ref().filter(|one| one.is_reported)?;
            let (zone, login) = (zone.clone(), login.clone());
            (*one == session).then(|| (ZoneAccess { zone, login }, failing.text.clone()))
        });
        failing.collect()
    }

    /// The batches that are due, and when the next may be.
    pub(super) fn due(&mut self, now: Duration) -> (Vec<Batch<Origin>>, Option<Duration>) {
        let (mut due, mut next) = (Vec::new(), None::<Duration>);
        for queue in self.zones.values_mut() {
            queue.accesses.retain(|_, access| access.is_needed(now));
        }
        self.zones.retain(|_, queue| queue.is_needed(now));
        for queue in self.zones.values_mut() {
            if queue.busy || queue.loads.is_empty() {
                continue;
            }
            match queue.next(now) {
                Ok(batch) => due.push(batch),
                Err(at) => next = [next, at].into_iter().flatten().min(),
            }
        }
        (due, next)
    }

    /// The zone answered, even if it refused: earlier failures of this access are over.
    pub(super) fn reached(&mut self, session: SessionId, access: &ZoneAccess) {
        if let Some(queue) = self.zones.get_mut(&access.zone) {
            queue.accesses.remove(&(session, access.login.clone()));
        }
    }

    /// A call failed in a way that should pass: the access pauses, each time longer.
    pub(super) fn failed(
        &mut self,
        session: SessionId,
        access: &ZoneAccess,
        text: String,
        now: Duration,
        random: f64,
    ) {
        let Some(access) = self.access(session, access) else {
            return;
        };
        let before = access.failing.as_ref();
        let count = before.map_or(0, |before| before.count).saturating_add(1);
        let was_reported = before.is_some_and(|before| before.is_reported);
        access.not_before = now + BACKOFF.delay(count, random);
        access.failing = Some(Failing {
            count,
            last: now,
            text,
            is_reported: was_reported || count >= REPORTED,
        });
    }

    /// An access is closed, which is reported at once. It is tried again at `not_before`.
    pub(super) fn closed(
        &mut self,
        session: SessionId,
        access: &ZoneAccess,
        text: String,
        now: Duration,
        not_before: Duration,
    ) {
        let Some(access) = self.access(session, access) else {
            return;
        };
        access.not_before = not_before;
        access.failing = Some(Failing {
            count: 0,
            last: now,
            text,
            is_reported: true,
        });
    }

    /// An access pauses, which is not reported.
    pub(super) fn paused(&mut self, session: SessionId, access: &ZoneAccess, not_before: Duration) {
        if let Some(access) = self.access(session, access) {
            access.not_before = not_before;
        }
    }

    /// How the calls of a session fare; `None` if it is over.
    fn access(&mut self, session: SessionId, access: &ZoneAccess) -> Option<&mut Access> {
        if !self.running.contains(&session) {
            return None;
        }
        let queue = self.zones.entry(access.zone.clone()).or_default();
        let of = (session, access.login.clone());
        Some(queue.accesses.entry(of).or_default())
    }

    /// A batch has ended. What was not answered goes back, ahead of the others, unless its session is over.
    pub(super) fn done(
        &mut self,
        zone: &str,
        back: Vec<Load<Origin>>,
        not_before: Option<Duration>,
    ) {
        let queue = self.zones.entry(zone.to_owned()).or_default();
        queue.busy = false;
        let is_running = |load: &Load<Origin>| self.running.contains(&load.from.session);
        let back = back.into_iter().filter(is_running);
        queue.loads.splice(0..0, back);
        if let Some(not_before) = not_before {
            queue.not_before = not_before;
        }
    }
}

#[cfg(test)]
mod tests;
