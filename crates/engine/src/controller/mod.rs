//! Runs passes for the objects of one kind: as many at once as allowed, never two for one object.

mod spec;
mod telling;

use std::collections::HashMap;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use kernel::{Class, ObjectKey, Progress, SharedClock, spread};
use kube::Client;
use parking_lot::Mutex;
use tokio::sync::{Notify, watch};
use tracing::Instrument;

pub use spec::{ControllerSpec, Reconcile};

use crate::echo::{self, Echoes, Version};
use crate::events::Events;
use crate::hub::{Cache, Change, Followed, Hub};
use crate::metrics::{Metrics, OfController};
use crate::pass::Pass;
use crate::queue::{Cause, Next, Queue, Taken};
use crate::slot::{Slot, Slots};
use crate::stored::Stored;
use crate::{Classified, Tasks};
use spec::{Failure, Map};

/// Passes wait this long at most for what they follow to be read, looking this often.
const SETTLE: Duration = Duration::from_secs(30);
const LOOK: Duration = Duration::from_millis(20);
/// How often gauges are brought up to date.
const COUNT: Duration = Duration::from_secs(1);
/// Share by which resyncs are spread around their period.
const SPREAD: f64 = 0.1;

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
    /// Wish and version each object had when its last pass had dealt with it.
    settled: HashMap<ObjectKey, (u64, u64)>,
    /// The value of reconcile-now that was served and is to be removed.
    served: HashMap<ObjectKey, String>,
    echoes: Echoes,
    synced: bool,
    /// Passes have begun, and go on.
    begun: bool,
}

/// A running controller.
pub(crate) struct Controller {
    spec: ControllerSpec,
    around: Surroundings,
    label: OfController,
    cache: Cache,
    followed: Vec<Cache>,
    state: Mutex<State>,
    changed: Notify,
    slots: Slots,
}

impl Controller {
    /// Starts following and, whenever the feature leads, runs passes; until `tasks` are stopped.
    pub(crate) fn start(spec: ControllerSpec, around: Surroundings, tasks: &Tasks) -> Arc<Self> {
        let primary = around.hub.follow(spec.key.clone());
        let concurrency = spec.concurrency.unwrap_or(around.concurrency).max(1);
        let controller = Arc::new(Self {
            label: OfController {
                feature: around.feature.clone(),
                kind: spec.kind().kind.clone(),
            },
            cache: around.hub.cache(spec.key.clone()),
            state: Mutex::new(State {
                queue: Queue::new(spec.backoff),
                settled: HashMap::new(),
                served: HashMap::new(),
                echoes: Echoes::default(),
                synced: false,
                begun: false,
            }),
            changed: Notify::new(),
            slots: Slots::new(concurrency),
            followed: spec
                .follows
                .iter()
                .map(|(key, _)| around.hub.cache(key.clone()))
                .collect(),
            spec,
            around,
        });
        tasks.spawn(controller.clone().follow_primary(primary));
        for (key, map) in controller.spec.follows.clone() {
            let followed = controller.around.hub.follow(key);
            tasks.spawn(controller.clone().follow_other(followed, map));
        }
        tasks.run(controller.clone().count_on(tasks.clone()));
        tasks.run(controller.clone().drive(tasks.child()));
        controller
    }

    /// Asks for a pass, as a task that sweeps does.
    pub(crate) fn wake(&self, key: &ObjectKey) {
        self.add(key, Cause::Followed);
    }

    /// The same after a while, so that many who waited for one thing do not come at once.
    pub(crate) fn wake_in(&self, key: &ObjectKey, delay: Duration) {
        let now = self.now();
        self.state.lock().queue.add_in(key, delay, now);
        self.changed.notify_one();
    }

    async fn follow_primary(self: Arc<Self>, mut objects: Followed) {
        loop {
            match objects.next().await {
                Change::Apply(object) => self.saw(&object),
                Change::Delete(object) => self.lost(object.key()),
                Change::Synced => self.state.lock().synced = true,
                Change::Resync => {
                    for object in objects.store().all() {
                        self.saw(&object);
                    }
                    self.state.lock().synced = objects.store().is_synced();
                }
            }
        }
    }

    async fn follow_other(self: Arc<Self>, mut others: Followed, map: Map) {
        let mut synced = false;
        loop {
            match others.next().await {
                // Until passes have begun, each object has its first one ahead anyway.
                Change::Apply(_) if !synced && !self.state.lock().begun => {}
                Change::Apply(other) => {
                    for key in self.mapped(&map, &other) {
                        self.saw_other(&key, &other);
                    }
                }
                Change::Delete(other) => {
                    for key in self.mapped(&map, &other) {
                        self.add(&key, Cause::Followed);
                    }
                }
                Change::Synced => synced = true,
                Change::Resync => {
                    synced = others.store().is_synced();
                    for object in self.cache.store().all() {
                        self.add(object.key(), Cause::Followed);
                    }
                }
            }
        }
    }

    /// Whom a followed object concerns. A mapping that panics concerns nobody; the others go on.
    fn mapped(&self, map: &Map, other: &Stored) -> Vec<ObjectKey> {
        let keys = std::panic::catch_unwind(AssertUnwindSafe(|| map(other)));
        keys.unwrap_or_else(|panic| {
            self.around.metrics.panics.get_or_create(&self.label).inc();
            tracing::error!(object = %other.key(), panic = said(&*panic), "mapping panicked");
            Vec::new()
        })
    }

    /// Judges news of an object against what its last pass dealt with. While a pass runs nothing is
    /// judged: its end looks at the cache itself. What came before passes begin was for another
    /// leader to see to, so nobody waits for it here.
    fn saw(&self, object: &Stored) {
        let mut state = self.state.lock();
        let settled = state.settled.get(object.key()).copied();
        let cause = match settled {
            _ if state.queue.is_running(object.key()) => return,
            Some((wish, version)) if wish == object.wish() && version >= object.version() => return,
            Some((wish, _)) if wish == object.wish() => Cause::Followed,
            None if !state.synced || !state.begun => Cause::Resync,
            Some(_) if !state.begun => Cause::Followed,
            Some(_) | None => Cause::User,
        };
        let now = self.now();
        state.queue.add(object.key(), cause, now);
        drop(state);
        self.changed.notify_one();
    }

    /// Judges news of something `key` follows: what its own pass wrote is none.
    fn saw_other(&self, key: &ObjectKey, other: &Stored) {
        let seen = Version {
            uid: other.uid().into(),
            number: other.version(),
        };
        let mut state = self.state.lock();
        if state.queue.is_running(key) {
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
        self.state.lock().queue.add(key, cause, now);
        self.changed.notify_one();
    }

    fn now(&self) -> Duration {
        self.around.clock.elapsed()
    }

    /// Hands objects out to passes while the feature leads.
    async fn drive(self: Arc<Self>, tasks: Tasks) {
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

    /// Waits until what passes look up has been read, so that none takes the unread for absent.
    /// A watch that cannot be read at all (no permission) holds up nobody for ever.
    async fn settled(&self) {
        let all = async {
            while !self.followed.iter().all(Cache::is_settled) {
                tokio::time::sleep(LOOK).await;
            }
        };
        if tokio::time::timeout(SETTLE, all).await.is_err() {
            tracing::warn!(kind = %self.label.kind, "what it follows cannot be read yet; starting without");
        }
    }

    /// Keeps the gauges current; they end with the controller.
    async fn count_on(self: Arc<Self>, tasks: Tasks) {
        loop {
            self.count();
            tokio::select! {
                () = tasks.stopped() => break,
                () = tokio::time::sleep(COUNT) => {}
            }
        }
        self.uncount();
    }

    async fn hand_out(self: Arc<Self>, passes: &Tasks) {
        self.settled().await;
        self.state.lock().begun = true;
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
        let Some(object) = self.cache.store().get(&key) else {
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
            written: None,
        };
        let span = tracing::info_span!(
            "pass",
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
        let (ended, wrote) = echo::listen(attempt).await;
        drop(working);
        span.in_scope(|| self.tell(&pass, &ended, self.now().saturating_sub(began)));
        self.settle(&pass, ended, wrote);
    }

    async fn attempt(&self, pass: &mut Pass) -> Result<Progress, Failure> {
        if let Some(progress) = self.standing_orders(pass).await? {
            return Ok(progress);
        }
        let work = AssertUnwindSafe(self.spec.passes.pass(pass)).catch_unwind();
        match tokio::time::timeout(self.spec.deadline, work).await {
            Ok(Ok(ended)) => ended,
            Ok(Err(panic)) => Err(Failure::Panicked(said(&*panic))),
            Err(_) => Err(Failure::Deadline(self.spec.deadline)),
        }
    }

    /// Decides when the object is looked at next, from how its pass ended and what the cache holds.
    fn settle(&self, pass: &Pass, ended: Result<Progress, Failure>, wrote: Vec<Version>) {
        let key = pass.key();
        let resync = spread(self.spec.resync, SPREAD, fastrand::f64());
        let planned = match &ended {
            Ok(Progress::Again) => Next::Again,
            Ok(
                Progress::Done {
                    recheck: Some(after),
                }
                | Progress::Waiting { after, .. },
            ) => Next::After(*after, Cause::Followed),
            Ok(Progress::Done { recheck: None } | Progress::Blocked { .. })
            | Err(Failure::Malformed(_)) => Next::After(resync, Cause::Resync),
            // Ours was stale: the cache has the news by now, or will in a moment.
            Err(Failure::Failed {
                class: Class::Stale,
                ..
            }) => Next::Stale,
            Err(_) => Next::Failed,
        };
        let mut state = self.state.lock();
        let now = self.now();
        let handled = pass
            .written
            .as_ref()
            .map_or(pass.object.version(), |written| written.version());
        let next = match self.cache.store().get(key) {
            None => {
                drop(state);
                self.forget(key);
                return;
            }
            Some(held) if held.uid() != pass.object.uid() || Some(held.wish()) != pass.wish => {
                Next::News(Cause::User)
            }
            Some(held) if held.version() > handled && planned != Next::Failed => {
                Next::News(Cause::Followed)
            }
            Some(_) => planned,
        };
        if let Some(wish) = pass.wish {
            state.settled.insert(key.clone(), (wish, handled));
        }
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
        self.spec.passes.gone(key);
        let mut state = self.state.lock();
        state.settled.remove(key);
        state.served.remove(key);
        state.echoes.forget(key);
        let now = self.now();
        state.queue.forget(key, now);
        if self.cache.store().get(key).is_some() {
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
            let served = self.state.lock().served.remove(pass.key());
            if served.as_deref() == Some(&*value) {
                pass.drop_annotation(&name).await.map_err(failed)?;
                return Ok(Some(Progress::done()));
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

/// What a panic said.
fn said(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "no message".to_owned())
}

#[cfg(test)]
mod tests;
