//! The feature's side of the zone writer: what passes remember of their changes, and what an answer of
//! the writer does to them.
//!
//! ```text
//! pass ──submit──▶ zone writer ──▶ Route 53
//!   ▲                  │
//!   └── woken, with the answer in `Known`
//! ```

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use aws::route53::zone_writer::{Answer, ChangeSet, ZoneAccess, ZoneClient, ZoneUser, ZoneWriter};
use aws::{Account, Error, Role};
use engine::{Deck, kill_point};
use futures::future::BoxFuture;
use kernel::ObjectKey;
use parking_lot::Mutex;

use super::known::Known;
use super::plan::Step;
use super::{Bundle, Spot};
use crate::ctx::{Ctx, Ours};
use crate::failure::Way;
use crate::outside::count;

/// The changes of all objects: those on their way, and what is known of them.
pub(crate) struct Zones {
    known: Mutex<HashMap<ObjectKey, Known>>,
    /// The writer of the whole process.
    pub(crate) writer: ZoneClient,
}

impl Zones {
    pub(crate) fn new(deck: &Deck) -> Self {
        let writer = deck.shared::<ZoneWriter>();
        let writer = writer.get_or_make(|| ZoneWriter::new(deck.clock.clone()));
        Self {
            known: Mutex::default(),
            writer: writer.client(),
        }
    }

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
    pub(crate) fn submit(&self, key: &ObjectKey, bundles: Vec<Bundle>) {
        let sets: Vec<ChangeSet> = bundles.iter().map(Into::into).collect();
        self.note(key, |known| {
            for bundle in bundles {
                known.submitted(bundle);
            }
        });
        self.writer.submit(key, sets);
    }

    /// The object is gone.
    pub(crate) fn forget(&self, key: &ObjectKey) {
        self.known.lock().remove(key);
    }

    /// Zones that cannot be reached for longer than usual, and why.
    pub(crate) fn troubled(&self) -> BTreeMap<ZoneAccess, String> {
        self.writer.failing()
    }
}

/// Writes zones for as long as it is polled. What an earlier run left is forgotten: passes plan it
/// again.
pub(crate) async fn write(ctx: Arc<Ctx>) {
    let session = ctx.zones.writer.begin(Arc::new(TenantRecords(ctx.clone())));
    ctx.zones.known.lock().clear(); // after `begin`: what is known to wait is in the writer's queue
    session.write().await;
}

/// Follows accepted changes for as long as it is polled.
pub(crate) async fn poll(ctx: Arc<Ctx>) {
    ctx.zones.writer.poll(&TenantRecords(ctx.clone())).await;
}

/// The objects whose records the writer writes.
pub(super) struct TenantRecords(pub(super) Arc<Ctx>);

impl TenantRecords {
    fn wake(&self, key: &ObjectKey, only_marks: bool) {
        if only_marks {
            // Nothing in its status says that it waits: it would be left alone.
            self.0.memory.note(key, |memory| memory.doubted = true);
        }
        self.0.wake_in(Ours::Tenant, key, Duration::ZERO);
    }
}

impl ZoneUser for TenantRecords {
    fn account(&self, role: Option<Role>) -> BoxFuture<'_, Account> {
        Box::pin(async move { self.0.account(role.as_ref()).await })
    }

    fn answered(&self, key: &ObjectKey, set: &ChangeSet, answer: Answer) {
        let zones = &self.0.zones;
        if let Answer::Accepted { change } = &answer {
            zones.writer.follow(change, &set.access.login, key);
        }
        let spot = Spot::from(set);
        let (is_awaited, only_marks) = zones.note(key, |known| {
            let only_marks = known.only_marks(&spot);
            (known.answered(&spot, answer.into()), only_marks)
        });
        if is_awaited {
            self.wake(key, only_marks);
        }
    }

    fn delayed(&self, key: &ObjectKey, set: &ChangeSet) {
        let known = self.0.zones.known(key);
        self.wake(key, known.only_marks(&Spot::from(set)));
    }

    fn propagated(&self, key: &ObjectKey) {
        self.0.wake_in(Ours::Tenant, key, Duration::ZERO);
    }

    fn failed(&self, error: &Error) {
        count(&self.0, error, Way::Dns);
    }

    fn sending(&self, records: usize) {
        self.0.metrics.batched(records);
        kill_point("tenants-before-batch");
    }

    fn sent(&self) {
        kill_point("tenants-after-batch");
    }
}
