//! Runs passes for the objects of one kind: as many at once as allowed, never two for one object.

mod followed;
mod spec;
mod telling;

use std::collections::{BTreeSet, HashMap};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use kernel::{Class, ObjectKey, Progress, SharedClock, spread};
use kube::Client;
use parking_lot::Mutex;
use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;
use tracing::Instrument;

pub use spec::{ControllerSpec, Reconcile};

use crate::echo::{self, Echoes, Version};
use crate::events::Events;
use crate::hub::{Cache, Change, Followed, Hub, WatchKey};
use crate::metrics::{Metrics, OfController};
use crate::pass::{PASS_SPAN, Pass};
use crate::queue::{Cause, Next, Queue, Taken};
use crate::slot::{Slot, Slots};
use crate::stored::Stored;
use crate::tasks::panic_message;
use crate::{Classified, Tasks};
use followed::{Following, LastSeen};
pub(crate) use spec::{Failure, Passes};

/// Passes wait this long at most for what they follow to be read, looking this often.
const SETTLE: Duration = Duration::from_secs(30);
const LOOK: Duration = Duration::from_millis(20);
/// How often gauges are brought up to date.
const COUNT: Duration = Duration::from_secs(1);
/// Share by which resyncs are spread around their period.
const SPREAD: f64 = 0.1;
/// No pass asks to be repeated sooner than this; what must run at once is `Again`.
const SHORTEST_RECHECK: Duration = Duration::from_secs(1);
/// The first passes of this many objects are due at once, those of the others this far apart, and
/// all within the window: 2,000 a second is more than an API server takes from us.
const FIRST_AT_ONCE: u32 = 100;
const FIRST_STEP: Duration = Duration::from_micros(500);
const FIRST_WINDOW: Duration = Duration::from_secs(30);

/// What the engine lends a controller.
#[derive(Clone)]
pub(crate) struct Surroundings {
    pub(crate) feature: String,
    pub(crate) client: Client,
    pub(crate) hub: Hub,
    pub(crate) clock: SharedClock,
    pub(crate) metrics: Metrics,
    pub(crate) events: Events,
    /// Passes at once for a controller that does not say.
    pub(crate) concurrency: usize,
    /// True while this process may act for the feature.
    pub(crate) leading: watch::Receiver<bool>,
}

struct State {
    queue: Queue,
    settled: HashMap<ObjectKey, Settled>,
    /// The value of reconcile-now that was served and is to be removed.
    served: HashMap<ObjectKey, String>,
    echoes: Echoes,
    synced: bool,
    /// Passes have begun, and go on. Until then nothing is queued.
    begun: bool,
    /// Something that objects follow changed, or woke one, while no passes ran.
    missed_changes: bool,
    /// Objects whose first pass was planned since passes began.
    first_passes: u32,
}

/// What an object's last pass has dealt with.
struct Settled {
    uid: Box<str>,
    /// The wish; none if others changed the object during the pass.
    wish: Option<u64>,
    version: Handled,
    /// Since when every pass found it blocked.
    blocked_since: Option<Duration>,
}

impl Settled {
    fn is_same_wish(&self, object: &Stored) -> bool {
        self.wish == Some(object.wish())
    }

    fn is_current(&self, object: &Stored) -> bool {
        self.is_same_wish(object) && !self.version.is_older_than(object)
    }
}

/// The version of an object that a pass has dealt with: its number, or a marked hash of its text if
/// it is no number. One word, for there is one of these an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Handled(u64);

impl Handled {
    /// Marks a hash. etcd never counts as far as this.
    const HASH: u64 = 1 << 63;

    fn of(object: &Stored) -> Self {
        match object.version() {
            0 => {
                let mut hash = DefaultHasher::new();
                object.resource_version().hash(&mut hash);
                Self(hash.finish() | Self::HASH)
            }
            number => Self(number),
        }
    }

    /// Whether `object` is news. Texts have no order, so any other text is.
    fn is_older_than(self, object: &Stored) -> bool {
        let version = Self::of(object);
        if (self.0 | version.0) & Self::HASH == 0 {
            self.0 < version.0
        } else {
            self != version
        }
    }
}

/// A running controller.
pub(crate) struct Controller {
    spec: ControllerSpec,
    around: Surroundings,
    label: OfController,
    /// Outcomes that have been counted.
    outcomes: Mutex<BTreeSet<&'static str>>,
    cache: Cache,
    followed: Vec<Cache>,
    needed: Vec<Cache>,
    state: Mutex<State>,
    changed: Notify,
    slots: Slots,
}

impl Controller {
    /// Starts following and, whenever the feature leads, runs passes; until `tasks` are stopped.
    /// Passes begin when those of its `predecessors` have ended.
    pub(crate) fn start(
        spec: ControllerSpec,
        around: Surroundings,
        tasks: &Tasks,
        predecessors: Vec<CancellationToken>,
    ) -> Arc<Self> {
        let caches = |keys: Vec<WatchKey>| -> Vec<Cache> {
            keys.into_iter().map(|key| around.hub.cache(key)).collect()
        };
        let followed = caches(spec.follows.iter().map(|one| one.key.clone()).collect());
        let needed = caches(spec.needs.clone());
        let primary = around.hub.follow(spec.key.clone());
        let concurrency = spec.concurrency.unwrap_or(around.concurrency).max(1);
        let controller = Arc::new(Self {
            label: OfController {
                feature: around.feature.clone(),
                group: spec.kind().group.clone(),
                kind: spec.kind().kind.clone(),
            },
            outcomes: Mutex::default(),
            cache: around.hub.cache(spec.key.clone()),
            state: Mutex::new(State {
                queue: Queue::new(spec.backoff),
                settled: HashMap::new(),
                served: HashMap::new(),
                echoes: Echoes::default(),
                synced: false,
                begun: false,
                missed_changes: false,
                first_passes: 0,
            }),
            changed: Notify::new(),
            slots: Slots::new(concurrency),
            followed,
            needed,
            spec,
            around,
        });
        tasks.spawn(controller.clone().follow_primary(primary));
        for following in controller.spec.follows.clone() {
            let followed = controller.around.hub.follow(following.key.clone());
            tasks.spawn(controller.clone().follow_other(followed, following));
        }
        tasks.run(controller.clone().drive(tasks.child(), predecessors));
        controller
    }

    /// Asks for a pass, as a task that sweeps does.
    pub(crate) fn wake(&self, key: &ObjectKey) {
        self.add(key, Cause::Followed);
    }

    /// The same after a while, so that many who waited for one thing do not come at once.
    pub(crate) fn wake_in(&self, key: &ObjectKey, delay: Duration) {
        let now = self.now();
        let mut state = self.state.lock();
        if state.begun {
            state.queue.add_in(key, delay, now);
        } else {
            state.missed_changes = true;
        }
        drop(state);
        self.changed.notify_one();
    }

    async fn follow_primary(self: Arc<Self>, mut objects: Followed) {
        loop {
            match objects.next().await {
                Change::Apply(object) => self.saw(&object),
                Change::Delete(object) => self.lost(object.key()),
                Change::Synced => self.state.lock().synced = true,
                Change::Resync => {
                    for key in self.replaced() {
                        self.lost(&key);
                    }
                    for object in objects.store().all() {
                        self.saw(&object);
                    }
                    self.state.lock().synced = objects.store().is_synced();
                }
            }
        }
    }

    async fn follow_other(self: Arc<Self>, mut others: Followed, following: Following) {
        let mut seen = LastSeen::default();
        loop {
            match others.next().await {
                Change::Synced => {}
                // While no passes run only what was seen is noted; passes then begin with every object.
                _ if !following.has_memory() && self.is_missed() => {}
                Change::Apply(other) => {
                    let keys = self.concerned(&other, || seen.applied(&other, &following));
                    if !self.is_missed() {
                        for key in keys {
                            self.saw_other(&key, &other);
                        }
                    }
                }
                Change::Delete(other) => {
                    let keys = self.concerned(&other, || seen.deleted(&other, &following));
                    if !self.is_missed() {
                        for key in keys {
                            self.add(&key, Cause::Followed);
                        }
                    }
                }
                Change::Resync => {
                    seen.clear();
                    if !self.is_missed() {
                        for object in self.cache.store().all() {
                            self.add(object.key(), Cause::Followed);
                        }
                    }
                }
            }
        }
    }

    /// Whether a followed change comes while no passes run: passes then begin with every object.
    fn is_missed(&self) -> bool {
        let mut state = self.state.lock();
        state.missed_changes |= !state.begun;
        !state.begun
    }

    /// Whom a followed object concerns. A mapping that panics concerns nobody; the others go on.
    fn concerned(&self, other: &Stored, keys: impl FnOnce() -> Vec<ObjectKey>) -> Vec<ObjectKey> {
        let keys = std::panic::catch_unwind(AssertUnwindSafe(keys));
        keys.unwrap_or_else(|panic| {
            self.around.metrics.panics.get_or_create(&self.label).inc();
            tracing::error!(object = %other.key(), panic = panic_message(&*panic), "mapping panicked");
            Vec::new()
        })
    }

    /// Judges news of an object against what its last pass dealt with. While a pass runs nothing is
    /// judged: its end looks at the cache itself. Before passes begin nothing is queued either.
    fn saw(&self, object: &Stored) {
        let mut state = self.state.lock();
        let (key, now) = (object.key(), self.now());
        match state.settled.get(key) {
            _ if !state.begun || state.queue.is_running(key) => return,
            Some(settled) if settled.is_current(object) => return,
            Some(settled) if settled.is_same_wish(object) => {
                state.queue.add(key, Cause::Followed, now);
            }
            None if !state.synced => state.plan_first_pass(key, now),
            Some(_) | None => state.queue.add(key, Cause::User, now),
        }
        drop(state);
        self.changed.notify_one();
    }

    /// Passes begin: walks the cache once. What changed meanwhile was for another leader to see to,
    /// so nobody waits for it here.
    fn begin(&self) {
        let mut state = self.state.lock();
        state.begun = true;
        state.first_passes = 0;
        let missed_changes = std::mem::take(&mut state.missed_changes);
        let now = self.now();
        for object in self.cache.store().all() {
            let key = object.key();
            match state.settled.get(key) {
                None => state.plan_first_pass(key, now),
                Some(settled) if !settled.is_current(&object) => {
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

    /// Objects that had a pass and, by the cache, are gone or have a namesake.
    fn replaced(&self) -> Vec<ObjectKey> {
        let state = self.state.lock();
        let is_there = |key: &ObjectKey, settled: &Settled| {
            let held = self.cache.store().get(key);
            held.is_some_and(|held| held.uid() == &*settled.uid)
        };
        let all = state.settled.iter();
        let replaced = all.filter(|(key, settled)| !is_there(key, settled));
        replaced.map(|(key, _)| key.clone()).collect()
    }

    /// Judges news of something `key` follows: what its own pass wrote is none.
    fn saw_other(&self, key: &ObjectKey, other: &Stored) {
        let seen = Version {
            uid: other.uid().into(),
            number: other.version(),
        };
        let mut state = self.state.lock();
        if state.begun && state.queue.is_running(key) {
            state.echoes.hold(key, seen);
        } else if !state.echoes.is_echo(key, &seen) {
            drop(state);
            self.add(key, Cause::Followed);
        }
    }

    fn lost(&self, key: &ObjectKey) {
        // A pass that runs looks at the cache when it ends, and finds nothing.
        if self.state.lock().queue.seize(key) {
            self.forget(key);
        }
    }

    fn add(&self, key: &ObjectKey, cause: Cause) {
        let now = self.now();
        let mut state = self.state.lock();
        if state.begun {
            state.queue.add(key, cause, now);
        } else {
            state.missed_changes = true;
        }
        drop(state);
        self.changed.notify_one();
    }

    fn now(&self) -> Duration {
        self.around.clock.elapsed()
    }

    /// Hands objects out to passes while the feature leads.
    async fn drive(self: Arc<Self>, tasks: Tasks, predecessors: Vec<CancellationToken>) {
        let ended = predecessors.iter().map(CancellationToken::cancelled);
        tokio::select! {
            () = tasks.stopped() => return,
            _ = futures::future::join_all(ended) => {}
        }
        self.create_series();
        tasks.spawn(self.clone().count_on());
        let mut leading = self.around.leading.clone();
        loop {
            tokio::select! {
                () = tasks.stopped() => return,
                led = leading.wait_for(|leads| *leads) => if led.is_err() { return },
            }
            let passes = tasks.child();
            tokio::select! {
                biased; // told to stop, a lease that ends with us is no lost one
                () = tasks.stopped() => {
                    passes.finish().await; // those under way may still end, within the engine's deadline
                    return;
                }
                () = async { drop(leading.wait_for(|leads| !*leads).await) } => {}
                () = self.clone().hand_out(&passes) => {}
            }
            passes.kill().await; // somebody else may lead by now
            let mut state = self.state.lock();
            state.begun = false;
            state.queue.interrupted(self.now());
            state.echoes.interrupted();
        }
    }

    /// Waits until what passes look up has been read, so that none takes the unread for absent: for
    /// ever for what is needed, a while for what is followed.
    async fn wait_for_caches(&self) {
        let kind = &self.label.kind;
        let both = async {
            all_read(&self.needed).await;
            all_read(&self.followed).await;
        };
        if tokio::time::timeout(SETTLE, both).await.is_ok() {
            return;
        }
        if !self.needed.iter().all(Cache::is_settled) {
            tracing::warn!(%kind, "no passes yet: what they need cannot be read; see /readyz?verbose");
            all_read(&self.needed).await;
        }
        if !self.followed.iter().all(Cache::is_settled) {
            tracing::warn!(%kind, "what it follows cannot be read yet; starting without");
        }
    }

    /// Keeps the gauges current.
    async fn count_on(self: Arc<Self>) {
        loop {
            self.count();
            tokio::time::sleep(COUNT).await;
        }
    }

    async fn hand_out(self: Arc<Self>, passes: &Tasks) {
        self.wait_for_caches().await;
        self.begin();
        loop {
            // Work first, then a slot: one that waits for work would be missed by those who come
            // back from outside.
            self.work().await;
            let mut slot = self.slots.take(self.person_waits()).await;
            let taken = {
                let mut state = self.state.lock();
                if slot.kept {
                    state.queue.take_urgent(self.now())
                } else {
                    state.queue.take(self.now())
                }
            };
            if let Some(taken) = taken {
                slot.urgent = taken.cause == Cause::User;
                passes.run(self.clone().run(taken, slot));
            }
        }
    }

    /// Waits until an object is ready for its pass.
    async fn work(&self) {
        self.until(Queue::is_ready).await;
    }

    /// Waits until an object is ready that a person has changed.
    async fn person_waits(&self) {
        self.until(|queue, now| queue.is_ready(now) && queue.depth(Cause::User) > 0)
            .await;
    }

    /// Waits until the queue is `so`: looked at whenever it changes, and when its next timer rings.
    async fn until(&self, so: impl Fn(&mut Queue, Duration) -> bool) {
        loop {
            let now = self.now();
            let (is_so, due) = {
                let mut state = self.state.lock();
                (so(&mut state.queue, now), state.queue.next_due())
            };
            if is_so {
                return;
            }
            let wait = due.map_or(Duration::from_secs(3600), |due| due.saturating_sub(now));
            tokio::select! {
                () = self.changed.notified() => {}
                () = tokio::time::sleep(self.around.clock.real(wait)) => {}
            }
        }
    }

    async fn run(self: Arc<Self>, taken: Taken, slot: Slot) {
        let key = taken.key;
        let held = self.cache.store().get(&key);
        let is_absent = held.is_none();
        let absent = || {
            self.spec
                .passes
                .absent(self.spec.kind(), &key)
                .map(Arc::new)
        };
        let Some(object) = held.or_else(absent) else {
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
            wish: Some(object.wish()),
            object,
            client: self.around.client.clone(),
            events: self.around.events.clone(),
            clock: self.around.clock.clone(),
            slot,
            details: tracing::Span::none(),
            written: None,
            is_absent,
        };
        // At the level of errors, so that --log-level=warn and error leave its fields in their lines.
        let span = tracing::error_span!(
            PASS_SPAN,
            reconcileID = pass.id,
            feature = self.around.feature,
            kind = pass.kind.kind,
            namespace = key.namespace.as_deref().unwrap_or_default(),
            name = &*key.name,
            cause = taken.cause.as_str(),
        );
        let began = self.now();
        let working = self.working();
        let attempt = self.attempt(&mut pass).instrument(span.clone());
        let (mut ended, writes) = echo::listen(attempt).await;
        drop(working);
        let has_written = pass.has_written() || writes.any;
        let is_idle = matches!(ended, Ok(Progress::Again)) && !has_written;
        if self.state.lock().queue.is_repeating_idly(&key, is_idle) {
            ended = Err(Failure::Idle);
        }
        let took = self.now().saturating_sub(began);
        let details = pass.details.clone();
        span.in_scope(|| details.in_scope(|| self.tell(&pass, &ended, took)));
        self.settle(&pass, ended, writes.objects);
    }

    async fn attempt(&self, pass: &mut Pass) -> Result<Progress, Failure> {
        let slow = pass.slot.give_back_when_slow();
        let work = async {
            match self.standing_orders(pass).await? {
                Some(progress) => Ok(progress),
                None => self.spec.passes.pass(pass).await,
            }
        };
        let work = AssertUnwindSafe(work).catch_unwind();
        let work = tokio::time::timeout(self.spec.deadline, work);
        let ended = tokio::select! {
            biased;
            ended = work => ended,
            never = slow => match never {},
        };
        match ended {
            Ok(Ok(ended)) => ended,
            Ok(Err(panic)) => Err(Failure::Panicked(panic_message(&*panic))),
            Err(_) => Err(Failure::Deadline(self.spec.deadline)),
        }
    }

    /// Decides when the object is looked at next, from how its pass ended and what the cache holds.
    fn settle(&self, pass: &Pass, ended: Result<Progress, Failure>, wrote: Vec<Version>) {
        let key = pass.key();
        let resync = spread(self.spec.resync, SPREAD, fastrand::f64());
        let mut state = self.state.lock();
        let now = self.now();
        let blocked_since = matches!(ended, Ok(Progress::Blocked { .. })).then(|| {
            let before = state.settled.get(key);
            let before = before.filter(|before| before.wish == pass.wish);
            before
                .and_then(|before| before.blocked_since)
                .unwrap_or(now)
        });
        let blocked_for = blocked_since.map_or(Duration::ZERO, |since| now.saturating_sub(since));
        let blocked = self.spec.blocked_delay(blocked_for, pass.random);
        let planned = planned(&ended, resync, blocked);
        let handled = Handled::of(pass.written.as_ref().unwrap_or(&pass.object));
        let next = match self.cache.store().get(key) {
            Some(held) if held.uid() == pass.object.uid() => {
                if Some(held.wish()) != pass.wish {
                    Next::News(Cause::User)
                } else if handled.is_older_than(&held) && planned != Next::Failed {
                    Next::News(Cause::Followed)
                } else {
                    planned
                }
            }
            // There is none, and there is still work for its key.
            None if pass.is_absent && !matches!(ended, Ok(Progress::Done { .. })) => planned,
            // Gone, or a namesake has come.
            Some(_) | None => {
                drop(state);
                self.forget(key);
                return;
            }
        };
        if matches!(planned, Next::After(..)) {
            state.queue.succeeded(key);
        }
        let settled = Settled {
            uid: pass.object.uid().into(),
            wish: pass.wish,
            version: handled,
            blocked_since,
        };
        state.settled.insert(key.clone(), settled);
        let wrote = if self.spec.follows.is_empty() {
            Vec::new()
        } else {
            wrote
        };
        if state.echoes.ended(key, wrote) {
            state.queue.add(key, Cause::Followed, now); // it runs still, so this is for after it
        }
        let left = pass.written.as_ref().unwrap_or(&pass.object);
        if let (Ok(Progress::Done { .. }), Some((_, value))) = (&ended, self.order(left)) {
            state.served.insert(key.clone(), value); // the next pass removes it: one write a pass
            state.queue.finish(key, Next::Again, now, 0.0);
        } else {
            state.queue.finish(key, next, now, pass.random);
        }
        drop(state);
        self.changed.notify_one();
    }

    /// Takes apart what was kept for an object that is gone. Its key counts as running meanwhile, so
    /// that a namesake's first pass comes after.
    fn forget(&self, key: &ObjectKey) {
        let gone = AssertUnwindSafe(|| self.spec.passes.gone(key));
        if let Err(panic) = std::panic::catch_unwind(gone) {
            self.around.metrics.panics.get_or_create(&self.label).inc();
            tracing::error!(object = %key, panic = panic_message(&*panic), "clean-up of a deleted object panicked");
        }
        let mut state = self.state.lock();
        state.settled.remove(key);
        state.served.remove(key);
        state.echoes.forget(key);
        let now = self.now();
        state.queue.forget(key, now);
        if state.begun && self.cache.store().get(key).is_some() {
            state.queue.add(key, Cause::User, now);
        }
        drop(state);
        self.changed.notify_one();
    }

    /// The reconcile-now annotation the object carries, with its value.
    fn order(&self, object: &Stored) -> Option<(String, String)> {
        self.spec
            .reconcile_now
            .iter()
            .find_map(|name| Some((name.clone(), object.annotation(name)?)))
    }

    /// What every kind obeys before its own rules: paused, and the removal of a served reconcile-now.
    async fn standing_orders(&self, pass: &mut Pass) -> Result<Option<Progress>, Failure> {
        let failed = |error: crate::ApiError| Failure::Failed {
            class: error.class(),
            message: error.to_string(),
        };
        if let Some((name, value)) = self.order(&pass.object) {
            let (served, is_edited) = {
                let mut state = self.state.lock();
                let settled = state.settled.get(pass.key());
                let is_edited = !settled.is_some_and(|s| s.is_same_wish(&pass.object));
                (state.served.remove(pass.key()), is_edited)
            };
            if served.as_deref() == Some(&*value) {
                pass.drop_annotation(&name).await.map_err(failed)?;
                if is_edited {
                    pass.wish = None; // the next pass deals with the edit, at once
                }
                // The next pass also stands in for the recheck of the one before, and for followed
                // changes since. Nobody waits for it, so it is not `Again`.
                let recheck = Some(SHORTEST_RECHECK);
                return Ok(Some(Progress::Done { recheck }));
            }
        }
        let says = |name: &String| pass.object.annotation(name).as_deref() == Some("true");
        let paused = self.spec.paused.iter().any(says);
        if let Some(progress) = crate::paused::observe(pass, paused).await.map_err(failed)? {
            return Ok(Some(progress));
        }
        Ok(None)
    }
}

impl State {
    /// Plans the first pass over an object that was there before passes began.
    fn plan_first_pass(&mut self, key: &ObjectKey, now: Duration) {
        let delay = self.first_delay();
        self.queue.add_first(key, delay, now);
    }

    /// How long the next first pass waits.
    fn first_delay(&mut self) -> Duration {
        let delay = first_delay(self.first_passes);
        self.first_passes = self.first_passes.saturating_add(1);
        delay
    }
}

/// How long a first pass waits that comes after `before` others.
fn first_delay(before: u32) -> Duration {
    let ahead = before.saturating_sub(FIRST_AT_ONCE);
    FIRST_STEP.saturating_mul(ahead).min(FIRST_WINDOW)
}

async fn all_read(caches: &[Cache]) {
    while !caches.iter().all(Cache::is_settled) {
        tokio::time::sleep(LOOK).await;
    }
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
        // Ours was stale: the cache has the news by now, or will in a moment.
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
