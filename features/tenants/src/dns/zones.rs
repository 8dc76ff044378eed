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

use super::batch::{Batch, Load, packed};
use super::known::Known;
use super::plan::Step;
pub(crate) use super::writer::write;
use super::{Bundle, Login};
use crate::failure::PATIENCE;
use crate::outside::BACKOFF;

/// How long a zone collects before it writes.
const COLLECT: Duration = Duration::from_secs(2);
/// How long it is remembered that a zone failed, if nobody has written it since.
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
    queue: Vec<Load<ObjectKey>>,
    /// A batch is sent and not answered.
    busy: bool,
    not_before: Duration,
    trouble: Option<Trouble>,
}

/// That a zone fails, though it should not for long.
#[derive(Debug)]
struct Trouble {
    /// How often in a row.
    failures: u32,
    last: Duration,
    /// How it did last, in Route 53's words.
    text: String,
}

impl Desk {
    /// Whether there is something to remember of the zone.
    fn is_needed(&self, now: Duration) -> bool {
        let is_new = |trouble: &Trouble| now.saturating_sub(trouble.last) < REMEMBERED;
        self.busy
            || !self.queue.is_empty()
            || self.not_before > now
            || self.trouble.as_ref().is_some_and(is_new)
    }
}

impl Zones {
    /// What is known of an object's changes.
    pub(crate) fn known(&self, key: &ObjectKey) -> Known {
        self.known.lock().get(key).cloned().unwrap_or_default()
    }

    /// Changes what is known of an object's changes.
    pub(crate) fn note(&self, key: &ObjectKey, change: impl FnOnce(&mut Known)) {
        let mut known = self.known.lock();
        let of = known.entry(key.clone()).or_default();
        change(of);
        if of.is_empty() {
            known.remove(key);
        }
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
            if desk.queue.is_empty() && !desk.busy {
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

    /// Zones that have failed so often that it is worth a word, by id, and in which words.
    pub(crate) fn troubled(&self) -> BTreeMap<String, String> {
        let desks = self.desks.lock();
        let troubled = desks.iter().filter_map(|(zone, desk)| {
            let trouble = desk.trouble.as_ref();
            let trouble = trouble.filter(|trouble| trouble.failures >= PATIENCE)?;
            Some((zone.clone(), trouble.text.clone()))
        });
        troubled.collect()
    }

    /// The batches that are due, and when the next may be.
    pub(super) fn due(&self, now: Duration) -> (Vec<Batch<ObjectKey>>, Option<Duration>) {
        let (mut due, mut next) = (Vec::new(), None::<Duration>);
        let mut desks = self.desks.lock();
        desks.retain(|_, desk| desk.is_needed(now));
        for desk in desks.values_mut() {
            if desk.busy || desk.queue.is_empty() {
                continue;
            }
            if desk.not_before > now {
                next = Some(next.map_or(desk.not_before, |next| next.min(desk.not_before)));
                continue;
            }
            let mut batches = packed(std::mem::take(&mut desk.queue)).into_iter();
            due.extend(batches.next());
            desk.queue = batches.flat_map(|batch| batch.loads).collect();
            desk.busy = true;
        }
        (due, next)
    }

    /// The zone answered the last batch, whatever it said: what failed before is over.
    pub(super) fn heard(&self, zone: &str) {
        if let Some(desk) = self.desks.lock().get_mut(zone) {
            desk.trouble = None;
        }
    }

    /// The zone failed; when it is tried again.
    pub(super) fn stumbled(
        &self,
        zone: &str,
        text: String,
        now: Duration,
        random: f64,
    ) -> Duration {
        let mut desks = self.desks.lock();
        let desk = desks.entry(zone.to_owned()).or_default();
        let before = desk.trouble.as_ref().map_or(0, |trouble| trouble.failures);
        let failures = before.saturating_add(1);
        desk.trouble = Some(Trouble {
            failures,
            last: now,
            text,
        });
        now + BACKOFF.delay(failures, random)
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
mod tests {
    use super::*;
    use crate::dns::tests::a_bundle;

    const AT: Duration = Duration::from_secs(100);

    fn key() -> ObjectKey {
        ObjectKey::namespaced("web", "acme")
    }

    fn seconds(time: Duration) -> u64 {
        time.saturating_sub(AT).as_secs()
    }

    /// A zone whose batches have failed so often, each handed in again, and when it is written next.
    fn after(failures: usize) -> (Zones, u64) {
        let zones = Zones::default();
        zones.submit(&key(), vec![a_bundle()], AT);
        let mut now = AT + COLLECT;
        for _ in 0..failures {
            assert_eq!(zones.due(now).0.len(), 1);
            let rest = zones.stumbled("Z1", "broken".to_owned(), now, 0.5);
            zones.submit(&key(), vec![a_bundle()], now);
            zones.done("Z1", Vec::new(), Some(rest));
            assert_eq!(zones.due(now).1, Some(rest));
            now = rest;
        }
        (zones, seconds(now))
    }

    #[test]
    fn a_zone_collects_for_two_seconds() {
        let zones = Zones::default();
        zones.submit(&key(), vec![a_bundle()], AT);
        let (due, next) = zones.due(AT);
        assert_eq!((due.len(), next.map(seconds)), (0, Some(2)));
        assert_eq!(zones.due(AT + COLLECT).0.len(), 1);
        // One batch at a time.
        zones.submit(&key(), vec![a_bundle()], AT + COLLECT);
        assert_eq!(zones.due(AT + 2 * COLLECT).0.len(), 0);
        zones.done("Z1", Vec::new(), None);
        assert_eq!(zones.due(AT + 2 * COLLECT).0.len(), 1);
    }

    #[test]
    fn a_zone_that_fails_is_written_ever_more_rarely() {
        // Two seconds to collect, then 1, 2, 4 and 8 for the failures.
        let rests = [1, 2, 3, 4].map(|failures| after(failures).1);
        assert_eq!(rests, [3, 5, 9, 17]);
        let (zones, _) = after(12);
        let rest = zones.stumbled("Z1", String::new(), AT, 0.5);
        assert_eq!(seconds(rest), 300, "five minutes at most");
    }

    #[test]
    fn a_zone_that_fails_is_told_of_the_third_time() {
        let told = |failures| after(failures).0.troubled();
        assert_eq!(told(2), BTreeMap::new());
        let trouble = BTreeMap::from([("Z1".to_owned(), "broken".to_owned())]);
        assert_eq!(told(3), trouble);
        let (zones, _) = after(3);
        zones.heard("Z1");
        assert_eq!(zones.troubled(), BTreeMap::new());
    }

    #[test]
    fn failures_are_counted_however_late_a_batch_is_handed_in_again() {
        let zones = Zones::default();
        let mut now = AT;
        for _ in 0..3 {
            zones.stumbled("Z1", "broken".to_owned(), now, 0.5);
            now += Duration::from_secs(9 * 60);
            zones.due(now);
        }
        assert_eq!(zones.troubled().len(), 1);
        zones.due(now + REMEMBERED);
        assert_eq!(zones.troubled().len(), 0, "long ago");
    }
}
