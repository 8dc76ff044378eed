//! The watch hub: all readers of the same objects share one watch.
//!
//! # Why not kube's
//! Its shared streams deliver no deletions and do not support kinds known only at run time. One
//! reflector per feature multiplies the memory (docs/decisions/0001-own-watch-hub.md).
//! # Guarantees
//! - A reader receives every existing object, then `Synced`, then every change, deletions included.
//! - No cached object becomes older, not even after a restart of the API server or 410 Gone. If etcd
//!   is restored from a backup, the hub lists everything again and accepts the older state.
//! - A 404 does not clear the cache. Objects are dropped only if the kind is confirmed to be absent.
//! - A slow reader receives `Resync`. It never delays other readers.

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

use crate::metrics::{Metrics, OTHER_CLUSTER, OWN_CLUSTER, OfKind, OfTask};
use crate::stored::{Projection, Stored};
use crate::tasks::supervise;
use crate::{Kind, Tasks};

/// A watch without readers ends after this time. A controller may start again within it.
const GRACE: Duration = Duration::from_secs(60);

/// Why a watch of an ended hub receives nothing.
const ENDED: &str = "the connection to the cluster was closed";

/// Selects the objects of a watch. Equal keys share one watch.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct WatchKey {
    /// The kind.
    pub kind: Kind,
    /// The namespace; none for all.
    pub namespace: Option<String>,
    /// A label selector.
    pub labels: Option<String>,
    /// A field selector.
    pub fields: Option<String>,
    /// Which parts of each object are cached.
    pub projection: Projection,
}

impl WatchKey {
    /// All objects of a kind, with all their fields.
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
        Self::all(Kind::of::<CustomResourceDefinition>()).with_projection(Projection::Metadata)
    }

    /// The same objects, of which only `projection` is cached.
    #[must_use]
    pub fn with_projection(self, projection: Projection) -> Self {
        Self { projection, ..self }
    }
}

/// The state of a watch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Health {
    /// The watch lists the existing objects.
    Starting,
    /// The cache is up to date.
    Synced,
    /// The API server answers 404, but the kind is not confirmed to be absent. The cached objects stay,
    /// and may be outdated.
    Unserved,
    /// The kind does not exist: there is no CRD, and discovery does not list it.
    Absent,
    /// The watch was interrupted for this reason. The hub retries it.
    Broken(String),
}

/// One watch with its cache.
struct Watch {
    key: WatchKey,
    store: Store,
    health: Mutex<Health>,
    /// When the server last sent something after the list was complete, by the hub's clock.
    last_received: Mutex<Option<Duration>>,
    readers: AtomicUsize,
    /// What this watch has added to the gauge of cached bytes.
    counted_bytes: AtomicI64,
    /// The last reader was dropped.
    unread: Notify,
    /// The CRD of the kind, or the login, has changed.
    woken: Notify,
    metrics: Metrics,
    /// The metric label.
    cluster: &'static str,
    /// The tasks of its hub. They are stopped when the hub ends.
    hub_tasks: Tasks,
}

impl Watch {
    fn read(&self, json: &str) -> Option<Stored> {
        match Stored::read(&self.key.kind, json, &self.key.projection) {
            Ok(object) => Some(object),
            Err(error) => {
                self.metrics.malformed.get_or_create(&self.label()).inc();
                tracing::warn!(%error, "object cannot be read; it is not in the cache");
                None
            }
        }
    }

    fn set_health(&self, health: Health) {
        let mut current = self.health.lock();
        // After a 404 the kind stays `Unserved` until it is listed again or confirmed to be absent.
        let stays_unserved =
            *current == Health::Unserved && matches!(health, Health::Starting | Health::Broken(_));
        if *current != health && !stays_unserved {
            tracing::debug!(kind = %self.key.kind, ?health, "watch");
            *current = health;
        }
    }

    fn label(&self) -> OfKind {
        OfKind {
            cluster: self.cluster,
            kind: self.key.kind.to_string(),
        }
    }

    /// Updates the gauge of cached bytes. Watches of one kind share it, so each adds its difference.
    fn count_bytes(&self) {
        let bytes = i64::try_from(self.store.bytes()).unwrap_or(i64::MAX);
        let before = self.counted_bytes.swap(bytes, Ordering::SeqCst);
        self.metrics
            .cache_bytes
            .get_or_create(&self.label())
            .inc_by(bytes - before);
    }

    /// Removes an ended watch from the metrics.
    fn remove_from_metrics(&self) {
        let (metrics, label) = (&self.metrics, self.label());
        let before = self.counted_bytes.swap(0, Ordering::SeqCst);
        metrics.cache_bytes.get_or_create(&label).dec_by(before);
        metrics.watch_ended(&label);
    }

    /// Ends the watch for good. Its cache is empty and no longer settled, because nothing updates it.
    fn end(&self) {
        *self.health.lock() = Health::Broken(ENDED.to_owned());
        self.store.end();
        self.remove_from_metrics();
    }

    /// Logs and counts a panic of the watch.
    fn record_panic(&self, panic: &str) {
        tracing::error!(kind = %self.key.kind, panic, "watch panicked; restarting it");
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
    /// The metric label.
    cluster: &'static str,
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
            cluster: OWN_CLUSTER,
        }
    }

    /// The same hub, whose watches are counted as watches of another cluster.
    pub(crate) fn of_other_cluster(self) -> Self {
        Self {
            cluster: OTHER_CLUSTER,
            ..self
        }
    }

    /// The value of the metric label `cluster`.
    pub(crate) fn cluster_label(&self) -> &'static str {
        self.cluster
    }

    /// The same hub with another clock for the age of its caches.
    ///
    /// # When not to use it
    /// Outside tests: API servers use real time.
    #[must_use]
    pub fn with_clock(self, clock: SharedClock) -> Self {
        Self { clock, ..self }
    }

    /// Follows the objects of `key`. Readers with an equal key share the watch.
    ///
    /// # When not to use it
    /// For Secrets: read them by name. A watch would need permission for every Secret.
    /// # Bounds
    /// A reader that falls behind receives `Resync`; `pontoon_watch_lag_total` counts it.
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

    /// Caches the objects of `key` for lookups. [`Hub::follow`] with an equal key shares the watch.
    pub fn cache(&self, key: WatchKey) -> Cache {
        Cache {
            reader: Arc::new(self.reader(key)),
            clock: self.clock.clone(),
        }
    }

    fn reader(&self, key: WatchKey) -> Reader {
        let mut watches = self.watches.lock();
        let watch = match watches.get(&key) {
            Some(watch) => watch.clone(),
            None if self.tasks.is_stopped() => self.watch(key, Health::Broken(ENDED.to_owned())),
            None => {
                let watch = self.start(key.clone());
                watches.insert(key, watch.clone());
                watch
            }
        };
        watch.readers.fetch_add(1, Ordering::SeqCst);
        Reader(watch)
    }

    fn watch(&self, key: WatchKey, health: Health) -> Arc<Watch> {
        Arc::new(Watch {
            key,
            store: Store::default(),
            health: Mutex::new(health),
            last_received: Mutex::default(),
            readers: AtomicUsize::new(0),
            counted_bytes: AtomicI64::new(0),
            unread: Notify::new(),
            woken: Notify::new(),
            metrics: self.metrics.clone(),
            cluster: self.cluster,
            hub_tasks: self.tasks.clone(),
        })
    }

    fn start(&self, key: WatchKey) -> Arc<Watch> {
        let watch = self.watch(key, Health::Starting);
        self.metrics.watch_started(&watch.label());
        let (hub, started) = (self.clone(), watch.clone());
        self.tasks.spawn(async move {
            let run = || watch::run(started.clone(), hub.clone());
            tokio::select! {
                () = supervise(&hub.clock, run, |panic| started.record_panic(panic)) => {}
                () = hub.abandoned(&started) => {}
            }
        });
        watch
    }

    /// Resolves when `watch` had no reader for the grace period, and removes it from the hub.
    async fn abandoned(&self, watch: &Arc<Watch>) {
        loop {
            watch.unread.notified().await;
            tokio::time::sleep(GRACE).await;
            let mut watches = self.watches.lock();
            if watch.readers.load(Ordering::SeqCst) == 0 {
                watches.remove(&watch.key);
                watch.remove_from_metrics();
                return;
            }
        }
    }

    /// Resolves when the hub ends.
    pub(crate) async fn stopped(&self) {
        self.tasks.stopped().await;
    }

    /// Ends all watches and waits for them. Readers receive nothing more. The caches are empty, and none is
    /// settled.
    pub(crate) async fn end(&self) {
        self.tasks.kill().await;
        for watch in std::mem::take(&mut *self.watches.lock()).into_values() {
            watch.end();
        }
    }

    /// Retries interrupted and unserved watches at once, because the login has changed.
    pub(crate) fn retry_interrupted(&self) {
        self.wake_where(|watch| {
            matches!(*watch.health.lock(), Health::Broken(_) | Health::Unserved)
        });
    }

    /// The state of each watch, for `/readyz?verbose`.
    pub fn health(&self) -> Vec<(WatchKey, Health)> {
        let watches = self.watches.lock();
        let mut all: Vec<_> = watches
            .values()
            .map(|w| (w.key.clone(), w.health.lock().clone()))
            .collect();
        all.sort_by(|a, b| a.0.cmp(&b.0));
        all
    }

    /// Wakes the watches of a kind when its CRD is created, changed or deleted. Runs until dropped.
    pub(crate) async fn wake_on_crds(self, mut crds: Followed) {
        loop {
            match crds.next().await {
                Change::Apply(crd) | Change::Delete(crd) => self.wake_kind_of(&crd),
                // Any change may have been missed. The watch of a deleted kind notices that itself.
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

    /// Retries the unserved watches of a kind at once, because its CRD has changed.
    pub fn wake(&self, group: &str, plural: &str) {
        self.wake_where(|watch| watch.key.kind.group == group && watch.key.kind.plural == plural);
    }

    fn wake_where(&self, is_concerned: impl Fn(&Watch) -> bool) {
        let watches = self.watches.lock();
        for watch in watches.values().filter(|watch| is_concerned(watch)) {
            watch.woken.notify_one();
        }
    }
}

impl Hub {
    fn now(&self) -> Duration {
        self.clock.elapsed()
    }

    /// Whether `kind` is confirmed to be absent: no CRD of that name is cached, and discovery lists it in
    /// no version of its group. If discovery fails, the kind is not absent.
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

/// Keeps a watch alive.
struct Reader(Arc<Watch>);

impl Drop for Reader {
    fn drop(&mut self) {
        if self.0.readers.fetch_sub(1, Ordering::SeqCst) == 1 {
            self.0.unread.notify_one();
        }
    }
}

/// A reader of a watch that receives every change.
pub struct Followed {
    reader: Reader,
    first: VecDeque<Change>,
    changes: broadcast::Receiver<Change>,
}

impl Followed {
    /// The next change. Never resolves once the hub has ended.
    pub async fn next(&mut self) -> Change {
        if let Some(change) = self.first.pop_front() {
            return change;
        }
        match self.changes.recv().await {
            Ok(change) => change,
            Err(broadcast::error::RecvError::Lagged(_)) => {
                let watch = &self.reader.0;
                watch.metrics.watch_lag.get_or_create(&watch.label()).inc();
                // The store already has the changes that are in the backlog.
                self.changes = self.changes.resubscribe();
                Change::Resync
            }
            Err(broadcast::error::RecvError::Closed) => std::future::pending().await,
        }
    }

    /// The cached objects of the watch.
    pub fn store(&self) -> &Store {
        &self.reader.0.store
    }
}

/// The cache of a watch. The watch runs while this handle or a clone of it exists.
#[derive(Clone)]
pub struct Cache {
    reader: Arc<Reader>,
    clock: SharedClock,
}

impl Cache {
    /// The cached objects.
    pub fn store(&self) -> &Store {
        &self.reader.0.store
    }

    /// The key of the watch.
    pub fn key(&self) -> &WatchKey {
        &self.reader.0.key
    }

    /// The state of the watch.
    pub fn health(&self) -> Health {
        self.reader.0.health.lock().clone()
    }

    /// Whether its hub has ended, so that nothing updates it any more.
    pub(crate) fn has_ended(&self) -> bool {
        self.reader.0.hub_tasks.is_stopped()
    }

    /// Whether an object that is not cached does not exist: the list is complete, or the kind is absent.
    /// A watch whose requests are answered with 404 is not settled.
    pub fn is_settled(&self) -> bool {
        match self.health() {
            Health::Unserved => false,
            Health::Absent => true,
            Health::Starting | Health::Synced | Health::Broken(_) => self.store().is_synced(),
        }
    }

    /// Whether it is settled, and the server has sent something on this watch within `age`. A kind
    /// that is confirmed to be absent is fresh: the hub confirms that twice a minute.
    ///
    /// # When not to use it
    /// With less than five minutes: an idle watch may receive nothing for three minutes before it lists
    /// again.
    pub fn is_fresh_within(&self, age: Duration) -> bool {
        if self.health() == Health::Absent {
            return true;
        }
        let last_received = *self.reader.0.last_received.lock();
        let now = self.clock.elapsed();
        self.is_settled() && last_received.is_some_and(|last| now.saturating_sub(last) <= age)
    }
}

#[cfg(test)]
mod tests;
