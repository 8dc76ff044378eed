//! The watch hub: one watch for all who follow the same objects of a cluster.
//!
//! # Why not kube's
//! Its shared streams deliver no deletions and carry no kinds known only at run time, and a
//! controller of its own per feature multiplies the memory (docs/decisions/0001-own-watch-hub.md).
//! # Guarantees
//! - A reader is told of all that exists, then `Synced`, then every change, deletions included.
//! - Nothing held ever becomes older, across restarts of the API server and 410 Gone. If etcd is
//!   restored from a backup, everything is read again and the older state is taken.
//! - A 404 is not emptiness: objects are dropped only when the kind is confirmed to be absent.
//! - A slow reader is told `Resync`; it never holds up the others.

mod store;
mod watch;

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};
use std::time::Duration;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kernel::{ObjectKey, RealClock, SharedClock};
use kube::Client;
use parking_lot::Mutex;
use tokio::sync::{Notify, broadcast};

pub use store::{Change, Index, Store};
pub(crate) use watch::encoded;

use crate::metrics::{Metrics, OfKind, OfTask};
use crate::stored::{Projection, Stored};
use crate::tasks::supervise;
use crate::{Kind, Tasks};

/// A watch without readers is kept this long: controllers come and go.
const GRACE: Duration = Duration::from_secs(60);

/// What is watched. Equal keys share one watch.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct WatchKey {
    /// Objects of this kind
    pub kind: Kind,
    /// in this namespace, or in all,
    pub namespace: Option<String>,
    /// that match this label selector
    pub labels: Option<String>,
    /// and this field selector,
    pub fields: Option<String>,
    /// kept as far as this.
    pub projection: Projection,
}

impl WatchKey {
    /// All objects of a kind, whole.
    pub fn all(kind: Kind) -> Self {
        Self {
            kind,
            namespace: None,
            labels: None,
            fields: None,
            projection: Projection::Full,
        }
    }

    /// The names of all CRDs.
    pub(crate) fn crds() -> Self {
        Self::all(Kind::of::<CustomResourceDefinition>()).keep(Projection::Metadata)
    }

    /// The same objects, kept only as far as `projection`.
    #[must_use]
    pub fn keep(self, projection: Projection) -> Self {
        Self { projection, ..self }
    }
}

/// How a watch is doing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Health {
    /// Reading what exists.
    Starting,
    /// Up to date.
    Synced,
    /// The API server answers 404, but nothing confirms that the kind is gone. What was read before
    /// is kept, and may be old.
    Unserved,
    /// The kind does not exist: its CRD is gone, and discovery does not list it.
    Absent,
    /// Interrupted, for this reason; being retried.
    Broken(String),
}

/// One watch and what it holds.
struct Watch {
    key: WatchKey,
    store: Store,
    health: Mutex<Health>,
    /// When the server last sent something of a complete watch, by the hub's clock.
    heard: Mutex<Option<Duration>>,
    readers: AtomicUsize,
    counted: AtomicI64,
    left: Notify,
    woken: Notify,
    metrics: Metrics,
}

impl Watch {
    fn read(&self, json: &str) -> Option<Stored> {
        match Stored::read(&self.key.kind, json, &self.key.projection) {
            Ok(object) => Some(object),
            Err(error) => {
                self.metrics.malformed.get_or_create(&self.label()).inc();
                tracing::warn!(%error, "left out of the cache");
                None
            }
        }
    }

    fn set_health(&self, health: Health) {
        let mut held = self.health.lock();
        // A kind that answered 404 is in doubt until it is read again, or known to be gone.
        let is_doubtful =
            *held == Health::Unserved && matches!(health, Health::Starting | Health::Broken(_));
        if *held != health && !is_doubtful {
            tracing::debug!(kind = %self.key.kind, ?health, "watch");
            *held = health;
        }
    }

    fn label(&self) -> OfKind {
        OfKind {
            kind: self.key.kind.to_string(),
        }
    }

    /// Watches of one kind share a gauge: each adds what it has more than before.
    fn count_bytes(&self) {
        let bytes = i64::try_from(self.store.bytes()).unwrap_or(i64::MAX);
        let before = self.counted.swap(bytes, Ordering::SeqCst);
        self.metrics
            .cache_bytes
            .get_or_create(&self.label())
            .inc_by(bytes - before);
    }

    /// The watch ends. With the last one of its kind, the series of the kind go.
    fn uncount(&self) {
        let (metrics, label) = (&self.metrics, self.label());
        let before = self.counted.swap(0, Ordering::SeqCst);
        metrics.cache_bytes.get_or_create(&label).dec_by(before);
        let watches = metrics.watches.get_or_create(&label).dec();
        if watches == 1 {
            metrics.watches.remove(&label);
            metrics.watch_lag.remove(&label);
            metrics.watch_restarts.remove(&label);
            metrics.malformed.remove(&label);
            metrics.cache_bytes.remove(&label);
        }
    }

    /// It panicked, and starts again.
    fn panicked(&self, panic: &str) {
        tracing::error!(kind = %self.key.kind, panic, "watch panicked; it starts again");
        let label = OfTask {
            feature: "engine".to_owned(),
            task: "watch",
        };
        self.metrics.task_restarts.get_or_create(&label).inc();
        self.set_health(Health::Broken(format!("panicked: {panic}")));
    }
}

/// The hub of one cluster. Cheap to clone.
#[derive(Clone)]
pub struct Hub {
    client: Client,
    tasks: Tasks,
    watches: Arc<Mutex<HashMap<WatchKey, Arc<Watch>>>>,
    metrics: Metrics,
    clock: SharedClock,
}

impl Hub {
    /// A hub whose watches end with `tasks`.
    pub fn new(client: Client, tasks: Tasks, metrics: Metrics) -> Self {
        Self {
            client,
            tasks,
            watches: Arc::default(),
            metrics,
            clock: Arc::new(RealClock::new()),
        }
    }

    /// The same hub, whose caches age by `clock`.
    ///
    /// # When not to use it
    /// Outside tests: API servers live in real time.
    #[must_use]
    pub fn with_clock(self, clock: SharedClock) -> Self {
        Self { clock, ..self }
    }

    /// Follows what `key` names, on a watch shared with all who ask the same.
    ///
    /// # When not to use it
    /// For Secrets: read them by name, or RBAC grows to every Secret there is.
    /// # Bounds
    /// A reader that falls behind gets `Resync`; `pontoon_watch_lag_total` counts it.
    pub fn follow(&self, key: WatchKey) -> Followed {
        let reader = self.reader(key);
        let (now, synced, changes) = reader.0.store.read();
        let mut first: VecDeque<_> = now.into_iter().map(Change::Apply).collect();
        if synced {
            first.push_back(Change::Synced);
        }
        Followed {
            reader,
            first,
            changes,
        }
    }

    /// Holds what `key` names for those who only look things up. It is the same watch.
    pub fn cache(&self, key: WatchKey) -> Cache {
        Cache {
            reader: Arc::new(self.reader(key)),
            clock: self.clock.clone(),
        }
    }

    fn reader(&self, key: WatchKey) -> Reader {
        let mut watches = self.watches.lock();
        let watch = watches
            .entry(key.clone())
            .or_insert_with(|| self.start(key));
        watch.readers.fetch_add(1, Ordering::SeqCst);
        Reader(watch.clone())
    }

    fn start(&self, key: WatchKey) -> Arc<Watch> {
        let watch = Arc::new(Watch {
            key,
            store: Store::default(),
            health: Mutex::new(Health::Starting),
            heard: Mutex::default(),
            readers: AtomicUsize::new(0),
            counted: AtomicI64::new(0),
            left: Notify::new(),
            woken: Notify::new(),
            metrics: self.metrics.clone(),
        });
        self.metrics.watches.get_or_create(&watch.label()).inc();
        let (hub, kept) = (self.clone(), watch.clone());
        self.tasks.spawn(async move {
            let keeping = || watch::keep(kept.clone(), hub.clone());
            tokio::select! {
                () = supervise(&hub.clock, keeping, |panic| kept.panicked(panic)) => {}
                () = hub.abandoned(&kept) => {}
            }
        });
        watch
    }

    /// Resolves when nobody has read `watch` for the grace period; it is then out of the hub.
    async fn abandoned(&self, watch: &Arc<Watch>) {
        loop {
            watch.left.notified().await;
            tokio::time::sleep(GRACE).await;
            let mut watches = self.watches.lock();
            if watch.readers.load(Ordering::SeqCst) == 0 {
                watches.remove(&watch.key);
                watch.uncount(); // under the lock: a watch that starts now counts after it
                return;
            }
        }
    }

    /// Each watch and how it is doing, for `/readyz?verbose`.
    pub fn health(&self) -> Vec<(WatchKey, Health)> {
        let watches = self.watches.lock();
        let mut all: Vec<_> = watches
            .values()
            .map(|w| (w.key.clone(), w.health.lock().clone()))
            .collect();
        all.sort_by(|a, b| a.0.cmp(&b.0));
        all
    }

    /// Wakes the watches whose CRD comes, changes or goes, as long as it is polled.
    pub(crate) async fn wake_on_crds(self, mut crds: Followed) {
        loop {
            match crds.next().await {
                Change::Apply(crd) | Change::Delete(crd) => self.wake_kind_of(&crd),
                // Which changes were missed is not known; one that went is noticed by its own watch.
                Change::Resync => {
                    for crd in crds.store().all() {
                        self.wake_kind_of(&crd);
                    }
                }
                Change::Synced => {}
            }
        }
    }

    fn wake_kind_of(&self, crd: &Stored) {
        if let Some((plural, group)) = crd.key().name.split_once('.') {
            self.wake(group, plural);
        }
    }

    /// A CRD came, changed or went: its kinds are looked for at once if they were not served.
    pub fn wake(&self, group: &str, plural: &str) {
        for watch in self.watches.lock().values() {
            if watch.key.kind.group == group && watch.key.kind.plural == plural {
                watch.woken.notify_one();
            }
        }
    }
}

impl Hub {
    fn now(&self) -> Duration {
        self.clock.elapsed()
    }

    /// Whether `kind` is confirmed to be gone: no CRD of that name is known, and discovery answers
    /// and has it in no version of its group. Any doubt means no.
    async fn is_absent(&self, kind: &Kind) -> bool {
        let name = ObjectKey::cluster(kind.crd_name());
        let crds = self.watches.lock().get(&WatchKey::crds()).cloned();
        if crds.is_some_and(|crds| crds.store.get(&name).is_some()) {
            return false;
        }
        self.is_undiscovered(kind).await.unwrap_or(false)
    }

    async fn is_undiscovered(&self, kind: &Kind) -> Result<bool, kube::Error> {
        let client = &self.client;
        if kind.group.is_empty() {
            let core = client.list_core_api_resources(&kind.version).await?;
            return Ok(core.resources.iter().all(|one| one.name != kind.plural));
        }
        let groups = client.list_api_groups().await?.groups;
        let Some(group) = groups.into_iter().find(|group| group.name == kind.group) else {
            return Ok(true);
        };
        for version in &group.versions {
            let served = client.list_api_group_resources(&version.group_version);
            if served
                .await?
                .resources
                .iter()
                .any(|one| one.name == kind.plural)
            {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// One who keeps a watch alive.
struct Reader(Arc<Watch>);

impl Drop for Reader {
    fn drop(&mut self) {
        if self.0.readers.fetch_sub(1, Ordering::SeqCst) == 1 {
            self.0.left.notify_one();
        }
    }
}

/// A reader of a watch, told of every change.
pub struct Followed {
    reader: Reader,
    first: VecDeque<Change>,
    changes: broadcast::Receiver<Change>,
}

impl Followed {
    /// The next thing to know. Waits for ever once the hub has ended.
    pub async fn next(&mut self) -> Change {
        if let Some(change) = self.first.pop_front() {
            return change;
        }
        match self.changes.recv().await {
            Ok(change) => change,
            Err(broadcast::error::RecvError::Lagged(_)) => {
                let watch = &self.reader.0;
                watch.metrics.watch_lag.get_or_create(&watch.label()).inc();
                // What is still in the backlog is in the store too.
                self.changes = self.changes.resubscribe();
                Change::Resync
            }
            Err(broadcast::error::RecvError::Closed) => std::future::pending().await,
        }
    }

    /// All that the watch holds.
    pub fn store(&self) -> &Store {
        &self.reader.0.store
    }
}

/// What a watch holds, for as long as this handle or a clone of it lives.
#[derive(Clone)]
pub struct Cache {
    reader: Arc<Reader>,
    clock: SharedClock,
}

impl Cache {
    /// Its objects.
    pub fn store(&self) -> &Store {
        &self.reader.0.store
    }

    /// What is watched.
    pub fn key(&self) -> &WatchKey {
        &self.reader.0.key
    }

    /// How the watch is doing.
    pub fn health(&self) -> Health {
        self.reader.0.health.lock().clone()
    }

    /// Whether an object that is not here does not exist: all that exists has been read, or nothing
    /// can exist. A watch that is answered 404 is not settled, whatever it holds.
    pub fn is_settled(&self) -> bool {
        match self.health() {
            Health::Unserved => false,
            Health::Absent => true,
            Health::Starting | Health::Synced | Health::Broken(_) => self.store().is_synced(),
        }
    }

    /// Whether it is settled, and the server has sent something on this watch within `age`. A kind
    /// that is confirmed to be absent is fresh: that is confirmed twice a minute.
    ///
    /// # When not to use it
    /// With less than five minutes: a quiet watch may be silent for over three before it lists again.
    pub fn is_fresh_within(&self, age: Duration) -> bool {
        if self.health() == Health::Absent {
            return true;
        }
        let heard = *self.reader.0.heard.lock();
        let now = self.clock.elapsed();
        self.is_settled() && heard.is_some_and(|heard| now.saturating_sub(heard) <= age)
    }
}

#[cfg(test)]
mod tests;
