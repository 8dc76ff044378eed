//! The watch hub: one watch for all who follow the same objects of a cluster.
//!
//! # Why not kube's
//! Its shared streams deliver no deletions and carry no kinds known only at run time, and a
//! controller of its own per feature multiplies the memory (docs/decisions/0001-own-watch-hub.md).
//! # Guarantees
//! - A reader is told of all that exists, then `Synced`, then every change, deletions included.
//! - Nothing held ever becomes older, across restarts of the API server and 410 Gone.
//! - A slow reader is told `Resync`; it never holds up the others.

mod store;
mod watch;

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};
use std::time::Duration;

use kube::Client;
use parking_lot::Mutex;
use tokio::sync::{Notify, broadcast};

pub use store::{Change, Index, Store};
pub(crate) use watch::encoded;

use crate::metrics::{Metrics, OfKind};
use crate::stored::{Projection, Stored};
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
    /// The API server does not serve the kind: its CRD is missing.
    NotServed,
    /// Interrupted, for this reason; being retried.
    Broken(String),
}

/// One watch and what it holds.
struct Watch {
    key: WatchKey,
    store: Store,
    health: Mutex<Health>,
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
        if *held != health {
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

    fn uncount(&self) {
        let before = self.counted.swap(0, Ordering::SeqCst);
        self.metrics
            .cache_bytes
            .get_or_create(&self.label())
            .dec_by(before);
        self.metrics.watches.get_or_create(&self.label()).dec();
    }
}

/// The hub of one cluster. Cheap to clone.
#[derive(Clone)]
pub struct Hub {
    client: Client,
    tasks: Tasks,
    watches: Arc<Mutex<HashMap<WatchKey, Arc<Watch>>>>,
    metrics: Metrics,
}

impl Hub {
    /// A hub whose watches end with `tasks`.
    pub fn new(client: Client, tasks: Tasks, metrics: Metrics) -> Self {
        Self {
            client,
            tasks,
            watches: Arc::default(),
            metrics,
        }
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
        Cache(Arc::new(self.reader(key)))
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
            readers: AtomicUsize::new(0),
            counted: AtomicI64::new(0),
            left: Notify::new(),
            woken: Notify::new(),
            metrics: self.metrics.clone(),
        });
        self.metrics.watches.get_or_create(&watch.label()).inc();
        let (hub, kept) = (self.clone(), watch.clone());
        self.tasks.spawn(async move {
            tokio::select! {
                () = watch::keep(kept.clone(), hub.client.clone()) => {}
                () = hub.abandoned(&kept) => {}
            }
            kept.uncount();
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

    /// A CRD came or changed: kinds that were not served are looked for at once.
    pub fn wake(&self, group: &str, plural: &str) {
        for watch in self.watches.lock().values() {
            if watch.key.kind.group == group && watch.key.kind.plural == plural {
                watch.woken.notify_one();
            }
        }
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
pub struct Cache(Arc<Reader>);

impl Cache {
    /// Its objects.
    pub fn store(&self) -> &Store {
        &self.0.0.store
    }

    /// What is watched.
    pub fn key(&self) -> &WatchKey {
        &self.0.0.key
    }

    /// Whether looking things up makes sense: all that exists has been read, or nothing can exist.
    pub fn is_settled(&self) -> bool {
        self.store().is_synced() || *self.0.0.health.lock() == Health::NotServed
    }
}

#[cfg(test)]
mod tests;
