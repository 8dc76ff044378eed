//! A cache of all objects of a kind, by list and watch.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Debug,
    pin::pin,
    sync::Arc,
    time::Duration,
};

use anyhow::{Context, Result, bail};
use futures::TryStreamExt;
use kube::{
    Api, Resource, ResourceExt,
    api::{ListParams, WatchEvent, WatchParams},
};
use serde::de::DeserializeOwned;
use tokio::{
    sync::watch,
    task::JoinSet,
    time::{sleep, timeout},
};

use super::errors::{Errors, RETRY};

/// The API server ends a watch after this many seconds; ours may not be longer than five minutes.
const WATCH_SECONDS: u32 = 240;
/// A connection that the server froze answers nothing, not even the end of the watch.
const SILENCE: Duration = Duration::from_secs(300);

/// The objects of a kind, by UID.
pub(super) type ByUid<K> = BTreeMap<String, Arc<K>>;

/// All objects of a kind as the API server last reported them. Clones are the same cache.
#[derive(Clone)]
pub(super) struct Objects<K>(watch::Receiver<ByUid<K>>);

impl<K> Objects<K>
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + 'static,
{
    /// Lists the objects, and watches them in one of `tasks`.
    pub(super) async fn start(
        api: Api<K>,
        tasks: &mut JoinSet<()>,
        errors: &Errors,
    ) -> Result<Self> {
        let (sender, objects) = watch::channel(BTreeMap::new());
        let mut version = list(&api, &sender).await?;
        let errors = errors.clone();
        tasks.spawn_local(async move {
            loop {
                let ended = watch_from(&api, &sender, &version).await;
                errors.record(&format!("watching {}", K::plural(&())), &ended);
                sleep(RETRY).await;
                let listed = async || list(&api, &sender).await;
                version = errors.retried("listing", listed).await;
            }
        });
        Ok(Self(objects))
    }

    /// What `found` returns for the objects; waits until it is something.
    pub(super) async fn until<T>(&self, mut found: impl FnMut(&ByUid<K>) -> Option<T>) -> T {
        let mut objects = self.0.clone();
        loop {
            let value = found(&objects.borrow_and_update());
            if let Some(value) = value {
                return value;
            }
            if objects.changed().await.is_err() {
                // The watch has ended, and with it the simulation.
                std::future::pending::<()>().await;
            }
        }
    }

    /// What `found` returns for one object and its later states, and `None` once it is gone.
    pub(super) async fn until_one<T>(
        &self,
        uid: &str,
        mut found: impl FnMut(&K) -> Option<T>,
    ) -> Option<T> {
        let found = |all: &ByUid<K>| match all.get(uid) {
            None => Some(None),
            Some(object) => found(object).map(Some),
        };
        self.until(found).await
    }

    /// The first object that `is_meant`, now.
    pub(super) fn find(&self, is_meant: impl Fn(&K) -> bool) -> Option<Arc<K>> {
        let objects = self.0.borrow();
        objects.values().find(|object| is_meant(object)).cloned()
    }

    /// The smallest value that `value` returns for an object, now.
    pub(super) fn min_of<T: Ord>(&self, value: impl Fn(&K) -> Option<T>) -> Option<T> {
        let objects = self.0.borrow();
        objects.values().filter_map(|object| value(object)).min()
    }

    /// Runs `life` for each object, old or new, until it ends by itself.
    pub(super) async fn each<F>(&self, life: impl Fn(Arc<K>) -> F)
    where
        F: Future<Output = ()> + 'static,
    {
        let mut lives = JoinSet::new();
        let mut begun = BTreeSet::new();
        loop {
            let unseen = |all: &ByUid<K>| {
                begun.retain(|uid: &String| all.contains_key(uid));
                let fresh = all.iter().filter(|(uid, _)| !begun.contains(*uid));
                let fresh: Vec<_> = fresh.map(|(uid, one)| (uid.clone(), one.clone())).collect();
                (!fresh.is_empty()).then_some(fresh)
            };
            let fresh = self.until(unseen).await;
            for (uid, object) in fresh {
                lives.spawn_local(life(object));
                begun.insert(uid);
            }
            while lives.try_join_next().is_some() {}
        }
    }
}

async fn list<K>(api: &Api<K>, sender: &watch::Sender<ByUid<K>>) -> Result<String>
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug,
{
    let listed = api.list(&ListParams::default()).await;
    let listed = listed.with_context(|| format!("cannot list {}", K::plural(&())))?;
    let objects = listed.items.into_iter();
    sender.send_replace(objects.filter_map(with_uid).collect());
    let version = listed.metadata.resource_version;
    version.context("the list has no resourceVersion")
}

/// Returns when the watch has to begin again with a list.
async fn watch_from<K>(api: &Api<K>, sender: &watch::Sender<ByUid<K>>, version: &str) -> Result<()>
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug,
{
    let mut version = version.to_owned();
    let params = WatchParams::default().timeout(WATCH_SECONDS);
    loop {
        let mut events = pin!(api.watch(&params, &version).await?);
        while let Some(event) = timeout(SILENCE, events.try_next()).await?? {
            match event {
                WatchEvent::Added(object) | WatchEvent::Modified(object) => {
                    version = object.resource_version().unwrap_or(version);
                    sender.send_modify(|all| all.extend(with_uid(object)));
                }
                WatchEvent::Deleted(object) => {
                    version = object.resource_version().unwrap_or(version);
                    let uid = object.uid().unwrap_or_default();
                    sender.send_modify(|all| drop(all.remove(&uid)));
                }
                WatchEvent::Bookmark(bookmark) => version = bookmark.metadata.resource_version,
                WatchEvent::Error(status) => bail!("the watch was refused: {status:?}"),
            }
        }
    }
}

fn with_uid<K: Resource>(object: K) -> Option<(String, Arc<K>)> {
    Some((object.meta().uid.clone()?, Arc::new(object)))
}
