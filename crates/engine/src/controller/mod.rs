//! Runs passes for the objects of one kind: several at once, but never two for one object.

mod followed;
mod handled;
mod record_outcome;
mod spec;

use std::collections::{BTreeSet, HashMap};
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures::FutureExt;
use kernel::{Class, ObjectKey, Progress, SharedClock, spread};
use kube::Client;
use parking_lot::Mutex;
use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;
use tracing::Instrument;

pub use followed::{FollowSpec, Following};
pub use spec::{ControllerSpec, Reconcile};

use crate::applier::ApplyMemory;
use crate::echo::{self, Echoes, Version};
use crate::events::Events;
use crate::hub::{Cache, Change, Followed, Hub, WatchKey};
use crate::metrics::{Metrics, OfController};
use crate::pass::{OwnWrites, PASS_SPAN, Pass};
use crate::queue::{Cause, Next, PassRequest, Queue};
use crate::slot::{Slot, Slots};
use crate::stored::Stored;
use crate::tasks::panic_message;
use crate::{Classified, Kind, Tasks, kill};
use followed::LastSeen;
use handled::Handled;
pub(crate) use spec::{Failure, Passes};

/// Passes wait this long at most until the followed objects have been read.
const SETTLE_TIMEOUT: Duration = Duration::from_secs(30);
/// How often a controller checks whether the caches have been read.
const SETTLE_POLL: Duration = Duration::from_millis(20);
/// How often a controller updates its gauges.
const GAUGE_INTERVAL: Duration = Duration::from_secs(1);
/// Resyncs are spread around their period by this share.
const RESYNC_SPREAD: f64 = 0.1;
/// The shortest recheck. A pass that must be repeated at once ends with `Again`.
const SHORTEST_RECHECK: Duration = Duration::from_secs(1);
/// The first passes of this many objects are due at once.
const FIRST_AT_ONCE: u32 = 100;
/// Further first passes are this far apart: 8,000 a second is three times what an API server accepts from us on
/// two cores, so the pace is the server's.
const FIRST_GAP: Duration = Duration::from_micros(125);
/// All first passes are due within this time.
const FIRST_WINDOW: Duration = Duration::from_secs(30);

/// What a controller needs from the engine.
#[derive(Clone)]
pub(crate) struct ControllerContext {
    pub(crate) feature: String,
    pub(crate) client: Client,
    pub(crate) hub: Hub,
    pub(crate) clock: SharedClock,
    pub(crate) metrics: Metrics,
    pub(crate) events: Events,
    /// The number of concurrent passes, for a controller that sets none.
    pub(crate) concurrency: usize,
    /// True while this process may act for the feature.
    pub(crate) leading: watch::Receiver<bool>,
}

struct State {
    queue: Queue,
    last_passes: HashMap<ObjectKey, LastPass>,
    /// The value of reconcile-now that a pass has served and the next pass removes.
    served: HashMap<ObjectKey, String>,
    echoes: Echoes,
    synced: bool,
    /// True while passes run. Otherwise nothing is queued.
    is_active: bool,
    /// While no passes ran, a followed object changed or a task woke an object.
    missed_changes: bool,
    /// The number of first passes that were planned since passes began.
    first_passes: u32,
}

/// What the last pass over an object handled.
struct LastPass {
    uid: Box<str>,
    /// [`Stored::user_fields_hash`]; none if others changed the object during the pass.
    user_fields_hash: Option<u64>,
    version: Handled,
    /// Every pass since then found the object blocked.
    blocked_since: Option<Duration>,
}

impl LastPass {
    fn has_same_user_fields(&self, object: &Stored) -> bool {
        self.user_fields_hash == Some(object.user_fields_hash())
    }

    fn is_current(&self, object: &Stored) -> bool {
        self.has_same_user_fields(object) && !self.version.is_older_than(object)
    }
}

/// A running controller.
pub(crate) struct Controller {
    spec: ControllerSpec,
    context: ControllerContext,
    label: OfController,
    /// The outcomes that have a metric series.
    outcomes: Mutex<BTreeSet<&'static str>>,
    cache: Cache,
    followed: Vec<Cache>,
    needed: Vec<Cache>,
    /// The number of running followers.
    followers: AtomicUsize,
    state: Mutex<State>,
    changed: Notify,
    slots: Slots,
    own_applies: ApplyMemory,
}

impl Controller {
    /// Starts the watches, and runs passes while the feature leads, until `tasks` are stopped.
    /// Passes begin when the passes of all `predecessors` have ended.
    pub(crate) fn start(
        spec: ControllerSpec,
        context: ControllerContext,
        tasks: &Tasks,
        predecessors: Vec<CancellationToken>,
    ) -> Arc<Self> {
        let cache = |hub: &Option<Hub>, key: &WatchKey| -> Cache {
            hub.as_ref().unwrap_or(&context.hub).cache(key.clone())
        };
        let followed = spec.follows.iter();
        let followed = followed
            .map(|(hub, follow)| cache(hub, &follow.key))
            .collect();
        let needed = spec.needs.iter();
        let needed = needed.map(|(hub, key)| cache(hub, key)).collect();
        let primary = context.hub.follow(spec.key.clone());
        let concurrency = spec.concurrency.unwrap_or(context.concurrency).max(1);
        let controller = Arc::new(Self {
            label: OfController {
                cluster: context.hub.cluster_label(),
                feature: context.feature.clone(),
                group: spec.kind().group.clone(),
                kind: spec.kind().kind.clone(),
            },
            outcomes: Mutex::default(),
            cache: context.hub.cache(spec.key.clone()),
            state: Mutex::new(State {
                queue: Queue::new(spec.backoff).with_pass_interval(spec.pass_interval),
                last_passes: HashMap::new(),
                served: HashMap::new(),
                echoes: Echoes::default(),
                synced: false,
                is_active: false,
                missed_changes: false,
                first_passes: 0,
            }),
            changed: Notify::new(),
            slots: Slots::new(concurrency),
            own_applies: ApplyMemory::default(),
            followed,
            needed,
            followers: AtomicUsize::new(0),
            spec,
            context,
        });
        tasks.spawn(controller.clone().follow_primary(primary));
        for (hub, follow) in controller.spec.follows.clone() {
            let hub = hub.unwrap_or_else(|| controller.context.hub.clone());
            controller.start_follower(&hub, follow, CancellationToken::new(), tasks);
        }
        tasks.run(
            controller
                .clone()
                .run_while_leading(tasks.child(), predecessors),
        );
        controller
    }

    /// The labels of its metrics.
    pub(crate) fn label(&self) -> &OfController {
        &self.label
    }

    /// The kind of its objects.
    pub(crate) fn kind(&self) -> &Kind {
        self.spec.kind()
    }

    /// Queues a pass over an object. Tasks that sweep call this.
    pub(crate) fn wake(&self, key: &ObjectKey) {
        self.add(key, Cause::Followed);
    }

    /// Queues a pass that goes on with what an earlier one began.
    pub(crate) fn resume(&self, key: &ObjectKey) {
        self.request(|queue, now| queue.resume(key, now));
    }

    /// Queues a pass after `delay`, so that many objects that waited for one event do not run at once.
    pub(crate) fn wake_in(&self, key: &ObjectKey, delay: Duration) {
        self.request(|queue, now| queue.add_in(key, delay, now));
    }

    /// Follows more objects, of any cluster, until the returned value is dropped or `tasks` are stopped.
    pub(crate) fn follow(
        self: &Arc<Self>,
        hub: &Hub,
        follow: FollowSpec,
        tasks: &Tasks,
    ) -> Following {
        let (cache, end) = (hub.cache(follow.key.clone()), CancellationToken::new());
        self.start_follower(hub, follow, end.clone(), tasks);
        Following::new(cache, end)
    }

    fn start_follower(
        self: &Arc<Self>,
        hub: &Hub,
        follow: FollowSpec,
        end: CancellationToken,
        tasks: &Tasks,
    ) {
        let followed = hub.follow(follow.key.clone());
        let (controller, hub) = (self.clone(), hub.clone());
        self.followers.fetch_add(1, Ordering::SeqCst);
        tasks.spawn(async move {
            tokio::select! {
                biased; // after its end a follower wakes nothing
                () = end.cancelled() => {}
                () = hub.stopped() => {}
                () = controller.clone().follow_other(followed, follow) => {}
            }
            controller.followers.fetch_sub(1, Ordering::SeqCst);
        });
    }

    async fn follow_primary(self: Arc<Self>, mut objects: Followed) {
        loop {
            match objects.next().await {
                Change::Apply(object) => self.object_changed(&object),
                Change::Delete(object) => self.object_deleted(object.key()),
                Change::Synced => self.state.lock().synced = true,
                Change::Resync => {
                    for key in self.deleted_or_replaced() {
                        self.object_deleted(&key);
                    }
                    for object in objects.store().all() {
                        self.object_changed(&object);
                    }
                    self.state.lock().synced = objects.store().is_synced();
                }
            }
        }
    }

    async fn follow_other(self: Arc<Self>, mut others: Followed, follow: FollowSpec) {
        let mut seen = LastSeen::default();
        loop {
            match others.next().await {
                Change::Synced => {}
                // While no passes run, only `seen` needs changes: passes begin with every object.
                _ if !follow.has_memory() && self.record_missed_change() => {}
                Change::Apply(other) => {
                    let keys = self.affected_keys(&other, || seen.applied(&other, &follow));
                    if !self.record_missed_change() {
                        for key in keys {
                            self.followed_object_changed(&key, &other);
                        }
                    }
                }
                Change::Delete(other) => {
                    let keys = self.affected_keys(&other, || seen.deleted(&other, &follow));
                    if !self.record_missed_change() {
                        for key in keys {
                            self.add(&key, Cause::Followed);
                        }
                    }
                }
                Change::Resync => {
                    seen.clear();
                    if !self.record_missed_change() {
                        for object in self.cache.store().all() {
                            self.add(object.key(), Cause::Followed);
                        }
                    }
                }
            }
        }
    }

    /// Records a followed change that arrives while no passes run. Returns whether it did.
    fn record_missed_change(&self) -> bool {
        let mut state = self.state.lock();
        state.missed_changes |= !state.is_active;
        !state.is_active
    }

    /// The keys that a followed object affects; none if the mapping panics.
    fn affected_keys(
        &self,
        other: &Stored,
        keys: impl FnOnce() -> Vec<ObjectKey>,
    ) -> Vec<ObjectKey> {
        let keys = std::panic::catch_unwind(AssertUnwindSafe(keys));
        keys.unwrap_or_else(|panic| {
            self.context.metrics.panics.get_or_create(&self.label).inc();
            tracing::error!(object = %other.key(), panic = panic_message(&*panic), "mapping panicked");
            Vec::new()
        })
    }

    /// Queues a pass if the object differs from what its last pass handled. Nothing is queued while a
    /// pass over it runs, because the end of that pass checks the cache.
    fn object_changed(&self, object: &Stored) {
        let mut state = self.state.lock();
        let (key, now) = (object.key(), self.now());
        match state.last_passes.get(key) {
            _ if !state.is_active || state.queue.is_running(key) => return,
            Some(last_pass) if last_pass.is_current(object) => return,
            Some(last_pass) if last_pass.has_same_user_fields(object) => {
                state.queue.add(key, Cause::Followed, now);
            }
            None if !state.synced => {
                let delay = self.spec.first_delay(object, fastrand::f64());
                state.plan_first_pass(key, delay, now);
            }
            Some(_) | None => state.queue.add(key, Cause::User, now),
        }
        drop(state);
        self.changed.notify_one();
    }

    /// Begins passes: queues the objects of the cache that need one. Until now another leader was
    /// responsible, so no person waits for these passes.
    fn begin(&self) {
        let mut state = self.state.lock();
        state.is_active = true;
        state.first_passes = 0;
        let missed_changes = std::mem::take(&mut state.missed_changes);
        let now = self.now();
        for object in self.cache.store().all() {
            let key = object.key();
            match state.last_passes.get(key) {
                None => {
                    let delay = self.spec.first_delay(&object, fastrand::f64());
                    state.plan_first_pass(key, delay, now);
                }
                Some(last_pass) if !last_pass.is_current(&object) => {
                    state.queue.add(key, Cause::Followed, now);
                }
                Some(_) if missed_changes => {
                    let delay = state.first_delay();
                    state.queue.add_in(key, delay, now);
                }
                Some(_) => {}
            }
        }
        drop(state);
        self.changed.notify_one();
    }

    /// Objects that had a pass, and that the cache does not have or has with another UID.
    fn deleted_or_replaced(&self) -> Vec<ObjectKey> {
        let state = self.state.lock();
        let exists = |key: &ObjectKey, last_pass: &LastPass| {
            let cached = self.cache.store().get(key);
            cached.is_some_and(|cached| cached.uid() == &*last_pass.uid)
        };
        let all = state.last_passes.iter();
        let missing = all.filter(|(key, last_pass)| !exists(key, last_pass));
        missing.map(|(key, _)| key.clone()).collect()
    }

    /// Queues a pass over `key` because `other` changed, unless its own pass wrote that version.
    fn followed_object_changed(&self, key: &ObjectKey, other: &Stored) {
        let seen = Version {
            uid: other.uid().into(),
            number: other.version(),
        };
        let mut state = self.state.lock();
        if state.is_active && state.queue.is_running(key) {
            state.echoes.defer(key, seen);
        } else if !state.echoes.is_echo(key, &seen) {
            drop(state);
            self.add(key, Cause::Followed);
        }
    }

    fn object_deleted(&self, key: &ObjectKey) {
        // A running pass checks the cache when it ends, and finds no object.
        if self.state.lock().queue.seize(key) {
            self.forget(key);
        }
    }

    fn add(&self, key: &ObjectKey, cause: Cause) {
        self.request(|queue, now| queue.add(key, cause, now));
    }

    /// Queues a pass. A standby only notes that it has missed a change.
    fn request(&self, add: impl FnOnce(&mut Queue, Duration)) {
        let now = self.now();
        let mut state = self.state.lock();
        if state.is_active {
            add(&mut state.queue, now);
        } else {
            state.missed_changes = true;
        }
        drop(state);
        self.changed.notify_one();
    }

    fn now(&self) -> Duration {
        self.context.clock.elapsed()
    }

    /// Starts passes while the feature leads.
    async fn run_while_leading(
        self: Arc<Self>,
        tasks: Tasks,
        predecessors: Vec<CancellationToken>,
    ) {
        let ended = predecessors.iter().map(CancellationToken::cancelled);
        tokio::select! {
            biased; // a controller of a closed cluster creates no series
            () = tasks.stopped() => return,
            _ = futures::future::join_all(ended) => {}
        }
        self.create_series();
        tasks.spawn(self.clone().keep_gauges_current());
        let mut leading = self.context.leading.clone();
        loop {
            tokio::select! {
                () = tasks.stopped() => return,
                led = leading.wait_for(|leads| *leads) => if led.is_err() { return },
            }
            let passes = tasks.child();
            tokio::select! {
                biased; // while the engine stops, the end of the lease is not its loss
                () = tasks.stopped() => {
                    passes.finish().await; // running passes may end within the engine's deadline
                    return;
                }
                () = async { drop(leading.wait_for(|leads| !*leads).await) } => {}
                () = self.clone().start_passes(&passes) => {}
            }
            passes.kill().await; // another process may lead by now
            let mut state = self.state.lock();
            state.is_active = false;
            state.queue.interrupted(self.now());
            state.echoes.interrupted();
        }
    }

    /// Waits until the caches have been read, so that no pass takes an unread object for absent. The
    /// wait for needed objects has no limit, the wait for followed objects has [`SETTLE_TIMEOUT`]. There
    /// is no wait for followed objects of a closed cluster.
    async fn wait_for_caches(&self) {
        let kind = &self.label.kind;
        let both = async {
            wait_for_all(&self.needed, Cache::is_settled).await;
            wait_for_all(&self.followed, is_read_or_ended).await;
        };
        if tokio::time::timeout(SETTLE_TIMEOUT, both).await.is_ok() {
            return;
        }
        if !self.needed.iter().all(Cache::is_settled) {
            tracing::warn!(%kind, "no passes yet: needed objects cannot be read; see /readyz?verbose");
            wait_for_all(&self.needed, Cache::is_settled).await;
        }
        if !self.followed.iter().all(is_read_or_ended) {
            tracing::warn!(%kind, "followed objects cannot be read yet; passes start without them");
        }
    }

    async fn keep_gauges_current(self: Arc<Self>) {
        loop {
            self.update_gauges();
            tokio::time::sleep(GAUGE_INTERVAL).await;
        }
    }

    async fn start_passes(self: Arc<Self>, passes: &Tasks) {
        self.wait_for_caches().await;
        self.begin();
        loop {
            // Take the slot last: a slot that waits for work is missing for passes that return from
            // calls outside.
            self.wait_for_ready().await;
            let mut slot = self.slots.take(self.wait_for_urgent()).await;
            let request = {
                let mut state = self.state.lock();
                if slot.is_reserved {
                    state.queue.take_urgent(self.now())
                } else {
                    state.queue.take(self.now())
                }
            };
            if let Some(request) = request {
                slot.urgent = request.cause == Cause::User;
                passes.run(self.clone().run(request, slot));
            }
        }
    }

    /// Waits until an object is ready for its pass.
    async fn wait_for_ready(&self) {
        self.wait_until(Queue::is_ready).await;
    }

    /// Waits until an object is ready that a person has changed.
    async fn wait_for_urgent(&self) {
        self.wait_until(|queue, now| queue.is_ready(now) && queue.depth(Cause::User) > 0)
            .await;
    }

    /// Waits until `condition` holds. Checks it when the queue changes and when its next timer is due.
    async fn wait_until(&self, condition: impl Fn(&mut Queue, Duration) -> bool) {
        loop {
            let now = self.now();
            let (is_met, due) = {
                let mut state = self.state.lock();
                (condition(&mut state.queue, now), state.queue.next_due())
            };
            if is_met {
                return;
            }
            let wait = due.map_or(Duration::from_secs(3600), |due| due.saturating_sub(now));
            tokio::select! {
                () = self.changed.notified() => {}
                () = tokio::time::sleep(self.context.clock.real(wait)) => {}
            }
        }
    }

    async fn run(self: Arc<Self>, request: PassRequest, slot: Slot) {
        let key = request.key;
        let cached = self.cache.store().get(&key);
        let is_absent = cached.is_none();
        let absent = || {
            self.spec
                .passes
                .absent(self.spec.kind(), &key)
                .map(Arc::new)
        };
        let Some(object) = cached.or_else(absent) else {
            self.forget(&key);
            return;
        };
        let random = fastrand::f64();
        let mut pass = Pass {
            id: format!("{:08x}", fastrand::u32(..)),
            retry: self.state.lock().queue.retry(&key, random),
            random,
            kind: self.spec.kind().clone(),
            cache: self.cache.clone(),
            user_fields_hash: Some(object.user_fields_hash()),
            object,
            client: self.context.client.clone(),
            events: self.context.events.clone(),
            clock: self.context.clock.clone(),
            slot,
            details: tracing::Span::none(),
            written: None,
            is_absent,
            own: OwnWrites::new(self.own_applies.clone()),
        };
        // An error span: log lines have its fields at --log-level=warn and error, too.
        let span = tracing::error_span!(
            PASS_SPAN,
            reconcileID = pass.id,
            feature = self.context.feature,
            kind = pass.kind.kind,
            namespace = key.namespace.as_deref().unwrap_or_default(),
            name = &*key.name,
            cause = request.cause.as_str(),
        );
        let began = self.now();
        let in_flight = self.count_in_flight();
        let attempt = self.attempt(&mut pass).instrument(span.clone());
        let (mut ended, writes) = echo::track_writes(attempt).await;
        drop(in_flight);
        let has_written = pass.has_written() || writes.any;
        let is_idle = matches!(ended, Ok(Progress::Again)) && !has_written;
        if self.state.lock().queue.is_repeating_idly(&key, is_idle) {
            ended = Err(Failure::Idle);
        }
        let took = self.now().saturating_sub(began);
        let details = pass.details.clone();
        span.in_scope(|| details.in_scope(|| self.record_outcome(&pass, &ended, took)));
        self.schedule_next(&pass, ended, writes.objects);
    }

    async fn attempt(&self, pass: &mut Pass) -> Result<Progress, Failure> {
        let slow = pass.slot.give_back_when_slow();
        let work = async {
            match self.obey_annotations(pass).await? {
                Some(progress) => Ok(progress),
                None => self.spec.passes.pass(pass).await,
            }
        };
        let work = AssertUnwindSafe(work).catch_unwind();
        let work = kill::within(self.spec.deadline, work, kill::has_waiting);
        let ended = tokio::select! {
            biased;
            ended = work => ended,
            never = slow => match never {},
        };
        match ended {
            Some(Ok(ended)) => ended,
            Some(Err(panic)) => Err(Failure::Panicked(panic_message(&*panic))),
            None => Err(Failure::Deadline(self.spec.deadline)),
        }
    }

    /// Decides when the next pass is due, from how this pass ended and what the cache has.
    fn schedule_next(&self, pass: &Pass, ended: Result<Progress, Failure>, wrote: Vec<Version>) {
        let key = pass.key();
        let resync = spread(self.spec.resync, RESYNC_SPREAD, fastrand::f64());
        let mut state = self.state.lock();
        let now = self.now();
        let blocked_since = matches!(ended, Ok(Progress::Blocked { .. })).then(|| {
            let before = state.last_passes.get(key);
            let before = before.filter(|before| before.user_fields_hash == pass.user_fields_hash);
            before
                .and_then(|before| before.blocked_since)
                .unwrap_or(now)
        });
        let blocked_for = blocked_since.map_or(Duration::ZERO, |since| now.saturating_sub(since));
        let blocked = self.spec.blocked_delay(blocked_for, pass.random);
        let planned = planned(&ended, resync, blocked);
        let handled = Handled::of(pass.written.as_ref().unwrap_or(&pass.object));
        let next = match self.cache.store().get(key) {
            Some(cached) if cached.uid() == pass.object.uid() => {
                if Some(cached.user_fields_hash()) != pass.user_fields_hash {
                    Next::News(Cause::User)
                } else if handled.is_older_than(&cached) && planned != Next::Failed {
                    Next::News(Cause::Followed)
                } else {
                    planned
                }
            }
            // There is no object, but its key still has work.
            None if pass.is_absent && !matches!(ended, Ok(Progress::Done { .. })) => planned,
            // The object is gone, or another object has its name.
            Some(_) | None => {
                drop(state);
                self.forget(key);
                return;
            }
        };
        if matches!(planned, Next::After(..)) {
            state.queue.succeeded(key);
        }
        let last_pass = LastPass {
            uid: pass.object.uid().into(),
            user_fields_hash: pass.user_fields_hash,
            version: handled,
            blocked_since,
        };
        state.last_passes.insert(key.clone(), last_pass);
        let wrote = if self.followers.load(Ordering::SeqCst) == 0 {
            Vec::new()
        } else {
            wrote
        };
        if state.echoes.ended(key, wrote) {
            state.queue.add(key, Cause::Followed, now); // runs after this pass
        }
        let latest = pass.written.as_ref().unwrap_or(&pass.object);
        let reconcile_now = self.reconcile_now(latest);
        if let (Ok(Progress::Done { .. }), Some((_, value))) = (&ended, reconcile_now) {
            state.served.insert(key.clone(), value); // the next pass removes it: one write per pass
            state.queue.finish(key, Next::Again, now, 0.0);
        } else {
            state.queue.finish(key, next, now, pass.random);
        }
        drop(state);
        self.changed.notify_one();
    }

    /// Drops the state of an object that is gone. Its key counts as running meanwhile, so that the
    /// first pass over a new object of this name runs afterwards.
    fn forget(&self, key: &ObjectKey) {
        let gone = AssertUnwindSafe(|| self.spec.passes.gone(key));
        if let Err(panic) = std::panic::catch_unwind(gone) {
            self.context.metrics.panics.get_or_create(&self.label).inc();
            tracing::error!(object = %key, panic = panic_message(&*panic), "clean-up of a deleted object panicked");
        }
        let mut state = self.state.lock();
        state.last_passes.remove(key);
        state.served.remove(key);
        state.echoes.forget(key);
        let now = self.now();
        state.queue.forget(key, now);
        if state.is_active && self.cache.store().get(key).is_some() {
            state.queue.add(key, Cause::User, now);
        }
        drop(state);
        self.changed.notify_one();
    }

    /// Name and value of the object's reconcile-now annotation.
    fn reconcile_now(&self, object: &Stored) -> Option<(String, String)> {
        self.spec
            .reconcile_now
            .iter()
            .find_map(|name| Some((name.clone(), object.annotation(name)?)))
    }

    /// Obeys the annotations of every kind: pauses the object, and removes a served reconcile-now.
    async fn obey_annotations(&self, pass: &mut Pass) -> Result<Option<Progress>, Failure> {
        let failed = |error: crate::ApiError| Failure::Failed {
            class: error.class(),
            message: error.to_string(),
        };
        if let Some((name, value)) = self.reconcile_now(&pass.object) {
            let (served, is_edited) = {
                let mut state = self.state.lock();
                let last_pass = state.last_passes.get(pass.key());
                let is_edited =
                    !last_pass.is_some_and(|last| last.has_same_user_fields(&pass.object));
                (state.served.remove(pass.key()), is_edited)
            };
            if served.as_deref() == Some(&*value) {
                pass.remove_annotation(&name).await.map_err(failed)?;
                if is_edited {
                    pass.user_fields_hash = None; // the next pass handles the edit at once
                }
                // The next pass replaces the recheck of the pass before, and covers followed changes
                // since then. No person waits for it, so it is not `Again`.
                let recheck = Some(SHORTEST_RECHECK);
                return Ok(Some(Progress::Done { recheck }));
            }
        }
        let is_true = |name: &String| pass.object.annotation(name).as_deref() == Some("true");
        if self.spec.paused.is_empty() {
            return Ok(None);
        }
        let paused = self.spec.paused.iter().any(is_true);
        if let Some(progress) = crate::paused::observe(pass, paused).await.map_err(failed)? {
            return Ok(Some(progress));
        }
        Ok(None)
    }
}

impl State {
    /// Plans the first pass over an object that existed before passes began: after `delay`, or after those
    /// of other objects.
    fn plan_first_pass(&mut self, key: &ObjectKey, delay: Option<Duration>, now: Duration) {
        let delay = delay.unwrap_or_else(|| self.first_delay());
        self.queue.add_first(key, delay, now);
    }

    /// The delay of the next first pass.
    fn first_delay(&mut self) -> Duration {
        let delay = first_delay(self.first_passes);
        self.first_passes = self.first_passes.saturating_add(1);
        delay
    }
}

/// The delay of a first pass after `before` other ones.
fn first_delay(before: u32) -> Duration {
    let ahead = before.saturating_sub(FIRST_AT_ONCE);
    FIRST_GAP.saturating_mul(ahead).min(FIRST_WINDOW)
}

async fn wait_for_all(caches: &[Cache], is_ready: fn(&Cache) -> bool) {
    while !caches.iter().all(is_ready) {
        tokio::time::sleep(SETTLE_POLL).await;
    }
}

/// Whether a followed cache has been read, or never will be because its cluster was closed.
fn is_read_or_ended(cache: &Cache) -> bool {
    cache.is_settled() || cache.has_ended()
}

/// When the next pass is due, from how this one ended.
fn planned(ended: &Result<Progress, Failure>, resync: Duration, blocked: Duration) -> Next {
    match ended {
        Ok(Progress::Again) => Next::Again,
        Ok(Progress::Done {
            recheck: Some(after),
        }) if *after < resync => Next::After((*after).max(SHORTEST_RECHECK), Cause::Followed),
        Ok(Progress::Waiting { after, .. }) => {
            Next::After((*after).max(SHORTEST_RECHECK), Cause::Followed)
        }
        Ok(Progress::Blocked { .. }) => Next::After(blocked, Cause::Resync),
        Ok(Progress::Done { .. }) | Err(Failure::Malformed(_)) => {
            Next::After(resync, Cause::Resync)
        }
        // The pass read an old version. The cache has the new one, or gets it soon.
        Err(Failure::Failed {
            class: Class::Stale,
            ..
        }) => Next::Stale,
        Err(
            Failure::Failed { .. } | Failure::Panicked(_) | Failure::Deadline(_) | Failure::Idle,
        ) => Next::Failed,
    }
}

#[cfg(test)]
mod tests;
