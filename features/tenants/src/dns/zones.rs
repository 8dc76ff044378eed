//! The writers of zones: what passes hand in goes out in batches, one at a time for each zone.
//!
//! ```text
//! pass ──submit──▶ queue of a zone ──2 s, or while one is under way──▶ batch ──▶ Route 53
//!   ▲                                                                    │
//!   └─────────────── woken, with the answer in `Known` ◀──────────────────┘
//! ```

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use aws::{Asker, Fault, Priority, Role};
use engine::kill_point;
use futures::stream::{FuturesUnordered, StreamExt};
use kernel::ObjectKey;
use parking_lot::Mutex;
use tokio::sync::Notify;

use super::batch::{Batch, Load, packed};
use super::known::{Answer, Known};
use super::plan::Step;
use super::{Bundle, Login};
use crate::ctx::{Ctx, Ours};
use crate::failure::{self, Again, Way};

/// How long a zone collects before it writes.
const COLLECT: Duration = Duration::from_secs(2);
/// How long a zone rests that is throttled or not done.
const REST: Duration = Duration::from_secs(60);

/// What is on its way to zones, and what became of it.
#[derive(Debug, Default)]
pub(crate) struct Zones {
    desks: Mutex<HashMap<String, Desk>>,
    known: Mutex<HashMap<ObjectKey, Known>>,
    news: Notify,
}

/// What waits for one zone.
#[derive(Debug, Default)]
struct Desk {
    queue: Vec<Load<ObjectKey>>,
    /// A batch is sent and not answered.
    busy: bool,
    not_before: Duration,
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

    /// The batches that are due, and when the next may be.
    fn due(&self, now: Duration) -> (Vec<Batch<ObjectKey>>, Option<Duration>) {
        let (mut due, mut next) = (Vec::new(), None::<Duration>);
        let mut desks = self.desks.lock();
        desks.retain(|_, desk| desk.busy || !desk.queue.is_empty() || desk.not_before > now);
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

    fn answered(&self, zone: &str, not_before: Option<Duration>, back: Vec<Load<ObjectKey>>) {
        let mut desks = self.desks.lock();
        let desk = desks.entry(zone.to_owned()).or_default();
        desk.busy = false;
        desk.queue.splice(0..0, back);
        if let Some(not_before) = not_before {
            desk.not_before = not_before;
        }
    }
}

/// Writes what is handed in, for as long as it is polled. What an earlier run left is forgotten:
/// passes plan it again.
pub(crate) async fn write(ctx: Arc<Ctx>) {
    ctx.zones.desks.lock().clear();
    ctx.zones.known.lock().clear();
    let mut under_way = FuturesUnordered::new();
    loop {
        let now = ctx.deck.clock.elapsed();
        let (due, next) = ctx.zones.due(now);
        for batch in due {
            under_way.push(send(&ctx, batch));
        }
        let wait = next.map_or(Duration::from_secs(3600), |next| next.saturating_sub(now));
        tokio::select! {
            Some(()) = under_way.next(), if !under_way.is_empty() => {}
            () = ctx.zones.news.notified() => {}
            () = tokio::time::sleep(ctx.deck.clock.real(wait)) => {}
        }
    }
}

/// Sends a batch, and its halves if it is refused, until whoever is to blame is alone.
async fn send(ctx: &Ctx, batch: Batch<ObjectKey>) {
    let zone = batch.place.zone.clone();
    let (mut queue, mut back, mut rest) = (vec![batch], Vec::new(), None);
    while let Some(batch) = queue.pop() {
        let error = match try_once(ctx, &batch).await {
            Ok(change) => {
                accepted(ctx, batch, &change);
                continue;
            }
            Err(error) => error,
        };
        let failure = failure::failure(error.fault(), Way::Dns);
        if let Some(error_type) = failure.counted {
            ctx.metrics.failed(error_type);
        }
        match error.fault() {
            Fault::InvalidRecords => match batch.halves() {
                Ok([first, second]) => queue.extend([second, first]),
                Err(alone) => refused(ctx, alone, &error),
            },
            Fault::Throttled | Fault::ZoneBusy => {
                let wait = match failure.again {
                    Again::After(wait) => wait,
                    Again::AtOnce | Again::Slow | Again::Between(..) | Again::Backoff => REST,
                };
                rest = Some(ctx.deck.clock.elapsed() + wait);
                queue.push(batch);
                queue.reverse();
                back = queue.drain(..).flat_map(|batch| batch.loads).collect();
            }
            Fault::DomainTaken
            | Fault::NameTaken
            | Fault::Denied
            | Fault::Credentials
            | Fault::OwnershipUnverified
            | Fault::InvalidSpec
            | Fault::DistributionMissing
            | Fault::EntityMissing
            | Fault::ZoneMissing
            | Fault::ChangeMissing
            | Fault::OtherMissing
            | Fault::LimitExceeded
            | Fault::Stale
            | Fault::NotDisabled
            | Fault::InUse
            | Fault::Refused
            | Fault::Passing
            | Fault::Deposed => refused(ctx, batch, &error),
        }
    }
    ctx.zones.answered(&zone, rest, back);
    ctx.zones.news.notify_one();
}

async fn try_once(ctx: &Ctx, batch: &Batch<ObjectKey>) -> Result<String, aws::Error> {
    let account = ctx.account(role(&batch.place.login)?.as_ref()).await;
    let changes: Vec<_> = batch.changes().map(Into::into).collect();
    ctx.metrics.batched(batch.weight().records);
    let asker = Asker::new(Priority::Edit, "");
    kill_point("tenants-before-batch");
    let route53 = account.route53(&asker);
    let answer = route53.change_batch(&batch.place.zone, &changes).await;
    kill_point("tenants-after-batch");
    answer
}

/// The role of a login; none for our own credentials.
pub(crate) fn role(login: &Login) -> Result<Option<Role>, aws::Error> {
    let role = login.role_arn.as_ref();
    let role = role.map(|arn| Role::new(arn, login.external_id.as_ref()));
    Ok(role.transpose()?)
}

fn accepted(ctx: &Ctx, batch: Batch<ObjectKey>, change: &str) {
    let login = batch.place.login.clone();
    answer(ctx, batch, |key| {
        ctx.changes
            .follow(change, &login, key, ctx.deck.clock.elapsed());
        Answer::Accepted {
            change: change.to_owned(),
        }
    });
}

fn refused(ctx: &Ctx, batch: Batch<ObjectKey>, error: &aws::Error) {
    let text = error.to_string();
    answer(ctx, batch, |_| {
        if error.may_have_happened() {
            return Answer::Lost;
        }
        let text = text.clone();
        match error.fault() {
            Fault::ZoneMissing => Answer::NoZone { text },
            // Something is there, or is not there as it should be; a read tells.
            Fault::InvalidRecords if error.code() == Some("InvalidChangeBatch") => {
                Answer::Differs { text }
            }
            _ => Answer::Refused { text },
        }
    });
}

/// Tells all who handed something in, and wakes them.
fn answer(ctx: &Ctx, batch: Batch<ObjectKey>, answer: impl Fn(&ObjectKey) -> Answer) {
    for Load { from, bundle } in batch.loads {
        let answer = answer(&from);
        ctx.zones
            .note(&from, |known| known.answered(&bundle.spot(), answer));
        ctx.wake_in(Ours::Tenant, &from, Duration::ZERO);
    }
}
