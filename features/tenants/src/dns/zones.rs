//! What waits for zones to be written, and what is known of each object's changes.
//!
//! ```text
//! pass ──submit──▶ queue of a zone ──2 s, or while one is under way──▶ batch ──▶ Route 53
//!   ▲                                                                    │
//!   └─────────────── woken, with the answer in `Known` ◀──────────────────┘
//! ```

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use aws::Role;
use kernel::ObjectKey;
use parking_lot::Mutex;
use tokio::sync::Notify;

use super::batch::{self, Batch, Load};
use super::known::Known;
use super::plan::Step;
pub(crate) use super::writer::write;
use super::{Bundle, Login, Place};
use crate::failure::PATIENCE;
use crate::outside::BACKOFF;

/// How long a zone collects before it writes.
const COLLECT: Duration = Duration::from_secs(2);
/// How long it is remembered that a way failed, if nobody has taken it since.
const REMEMBERED: Duration = Duration::from_secs(10 * 60);

/// What is on its way to zones, and what became of it.
#[derive(Debug, Default)]
pub(crate) struct Zones {
    desks: Mutex<HashMap<String, Desk>>,
    known: Mutex<HashMap<ObjectKey, Known>>,
    pub(super) news: Notify,
}

/// What waits for one zone.
#[derive(Debug, Default)]
struct Desk {
    /// The oldest first.
    queue: Vec<Load<ObjectKey>>,
    /// A batch is sent and not answered.
    busy: bool,
    not_before: Duration,
    /// Ways in that are not as they should be.
    ways: BTreeMap<Login, Way>,
}

/// How one way into a zone fares. Another one may well be open.
#[derive(Debug, Default)]
struct Way {
    not_before: Duration,
    trouble: Option<Trouble>,
}

/// That a way fails, though it should not for long.
#[derive(Debug)]
struct Trouble {
    /// How often in a row.
    failures: u32,
    last: Duration,
    /// How it did last, in AWS's words.
    text: String,
    /// Whether that is worth a word.
    is_told: bool,
}

impl Way {
    fn is_needed(&self, now: Duration) -> bool {
        let is_new = |trouble: &Trouble| now.saturating_sub(trouble.last) < REMEMBERED;
        self.not_before > now || self.trouble.as_ref().is_some_and(is_new)
    }
}

impl Desk {
    /// Whether there is something to remember of the zone.
    fn is_needed(&self, now: Duration) -> bool {
        let is_idle = self.queue.is_empty() && self.ways.is_empty();
        self.busy || !is_idle || self.not_before > now
    }

    /// When a way may be used.
    fn opens(&self, login: &Login) -> Duration {
        let way = self.ways.get(login);
        way.map_or(Duration::ZERO, |way| way.not_before)
    }

    /// Whether something waits that could go now.
    fn is_waited_for(&self, now: Duration) -> bool {
        let mut logins = self.queue.iter().map(|load| &load.bundle.place.login);
        logins.any(|login| self.opens(login) <= now)
    }

    /// The next batch, or when there may be one.
    fn next(&mut self, now: Duration) -> Result<Batch<ObjectKey>, Duration> {
        if self.not_before > now {
            return Err(self.not_before);
        }
        let mut queue = std::mem::take(&mut self.queue);
        let batch = batch::next(&mut queue, |place| self.opens(&place.login) <= now);
        self.queue = queue;
        self.busy = batch.is_some();
        batch.ok_or_else(|| {
            let logins = self.queue.iter().map(|load| &load.bundle.place.login);
            let first = logins.map(|login| self.opens(login)).min();
            first.unwrap_or(self.not_before)
        })
    }
}

impl Zones {
    /// What is known of an object's changes.
    pub(crate) fn known(&self, key: &ObjectKey) -> Known {
        self.known.lock().get(key).cloned().unwrap_or_default()
    }

    /// Changes what is known of an object's changes.
    pub(crate) fn note<T>(&self, key: &ObjectKey, change: impl FnOnce(&mut Known) -> T) -> T {
        let mut known = self.known.lock();
        let of = known.entry(key.clone()).or_default();
        let noted = change(of);
        if of.is_empty() {
            known.remove(key);
        }
        noted
    }

    /// The records of `step` are in the object's status.
    pub(crate) fn stored(&self, key: &ObjectKey, step: &Step) {
        self.note(key, |known| known.stored(step));
    }

    /// Takes changes in; the object is woken when they are answered.
    pub(crate) fn submit(&self, key: &ObjectKey, bundles: Vec<Bundle>, now: Duration) {
        for bundle in bundles {
            self.note(key, |known| known.submitted(bundle.clone()));
            let mut desks = self.desks.lock();
            let desk = desks.entry(bundle.place.zone.clone()).or_default();
            if !desk.busy && !desk.is_waited_for(now) {
                desk.not_before = desk.not_before.max(now + COLLECT);
            }
            desk.queue.push(Load {
                from: key.clone(),
                bundle,
            });
        }
        self.news.notify_one();
    }

    /// The object is gone.
    pub(crate) fn forget(&self, key: &ObjectKey) {
        self.known.lock().remove(key);
    }

    /// Forgets everything: passes plan it again.
    pub(super) fn clear(&self) {
        self.desks.lock().clear();
        self.known.lock().clear();
    }

    /// Ways into zones that fail in a way that is worth a word, and in which words.
    pub(crate) fn troubled(&self) -> BTreeMap<Place, String> {
        let desks = self.desks.lock();
        let ways = desks.iter().flat_map(|(zone, desk)| {
            let ways = desk.ways.iter();
            ways.map(move |(login, way)| (zone, login, way))
        });
        let troubled = ways.filter_map(|(zone, login, way)| {
            let trouble = way.trouble.as_ref().filter(|trouble| trouble.is_told)?;
            let (zone, login) = (zone.clone(), login.clone());
            Some((Place { zone, login }, trouble.text.clone()))
        });
        troubled.collect()
    }

    /// The batches that are due, and when the next may be.
    pub(super) fn due(&self, now: Duration) -> (Vec<Batch<ObjectKey>>, Option<Duration>) {
        let (mut due, mut next) = (Vec::new(), None::<Duration>);
        let mut desks = self.desks.lock();
        for desk in desks.values_mut() {
            desk.ways.retain(|_, way| way.is_needed(now));
        }
        desks.retain(|_, desk| desk.is_needed(now));
        for desk in desks.values_mut() {
            if desk.busy || desk.queue.is_empty() {
                continue;
            }
            match desk.next(now) {
                Ok(batch) => due.push(batch),
                Err(at) => next = Some(next.map_or(at, |next| next.min(at))),
            }
        }
        (due, next)
    }

    /// The zone answered, whatever it said: what failed before on this way in is over.
    pub(super) fn heard(&self, place: &Place) {
        if let Some(desk) = self.desks.lock().get_mut(&place.zone) {
            desk.ways.remove(&place.login);
        }
    }

    /// A way in failed: it rests, ever longer.
    pub(super) fn stumbled(&self, place: &Place, text: String, now: Duration, random: f64) {
        self.on_way(place, |way| {
            let before = way.trouble.as_ref();
            let failures = before.map_or(0, |before| before.failures).saturating_add(1);
            let was_told = before.is_some_and(|before| before.is_told);
            way.not_before = now + BACKOFF.delay(failures, random);
            way.trouble = Some(Trouble {
                failures,
                last: now,
                text,
                is_told: was_told || failures >= PATIENCE,
            });
        });
    }

    /// A way in is closed, which is told at once; it is tried `again`.
    pub(super) fn closed(&self, place: &Place, text: String, now: Duration, again: Duration) {
        self.on_way(place, |way| {
            way.not_before = again;
            way.trouble = Some(Trouble {
                failures: 0,
                last: now,
                text,
                is_told: true,
            });
        });
    }

    /// A way in rests, of which nobody has to hear.
    pub(super) fn rests(&self, place: &Place, not_before: Duration) {
        self.on_way(place, |way| way.not_before = not_before);
    }

    fn on_way(&self, place: &Place, change: impl FnOnce(&mut Way)) {
        let mut desks = self.desks.lock();
        let desk = desks.entry(place.zone.clone()).or_default();
        change(desk.ways.entry(place.login.clone()).or_default());
    }

    /// A batch is over. What it could not carry out goes back into the queue, ahead of the rest.
    pub(super) fn done(
        &self,
        zone: &str,
        back: Vec<Load<ObjectKey>>,
        not_before: Option<Duration>,
    ) {
        let mut desks = self.desks.lock();
        let desk = desks.entry(zone.to_owned()).or_default();
        desk.busy = false;
        desk.queue.splice(0..0, back);
        if let Some(not_before) = not_before {
            desk.not_before = not_before;
        }
        drop(desks);
        self.news.notify_one();
    }
}

/// The role of a login; none for our own credentials.
pub(crate) fn role(login: &Login) -> Result<Option<Role>, aws::Error> {
    let role = login.role_arn.as_ref();
    let role = role.map(|arn| Role::new(arn, login.external_id.as_ref()));
    Ok(role.transpose()?)
}

#[cfg(test)]
mod tests;
