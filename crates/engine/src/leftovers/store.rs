//! The records in the API server. Each write is bound to the record as read.

use std::marker::PhantomData;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::ConfigMap;
use kernel::{Class, ObjectKey};
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams, Preconditions};
use serde_json::{Value, json};

use super::Leftover;
use super::record::{Record, labels, target_of};
use crate::{ApiError, Cache, Classified, Deck, Kind, Pass, Stored, WatchKey, reach_kill_point};

/// The records of one type of leftovers: ConfigMaps in the operator's namespace, in its own cluster. It is
/// cheap to create.
///
/// Kill points are `<feature>-before-…` and `<feature>-after-…`, with `record`, `note`, `close` and
/// `abandon`; the field manager is `pontoon-<feature>`.
pub struct LeftoverStore<L> {
    deck: Deck,
    leftovers: PhantomData<fn() -> L>,
}

impl<L: Leftover> LeftoverStore<L> {
    /// The records of this feature. From the deck of another cluster too, they are in the own cluster: the
    /// other one has no operator's namespace, and its users must not decide what is removed.
    pub fn new(deck: &Deck) -> Self {
        Self {
            deck: deck.of_own_cluster().clone(),
            leftovers: PhantomData,
        }
    }

    /// The watch of the records.
    pub fn watch_key(&self) -> WatchKey {
        WatchKey {
            namespace: Some(self.deck.namespace.clone()),
            labels: Some(selector::<L>()),
            ..WatchKey::all(Kind::of::<ConfigMap>())
        }
    }

    /// Records `leftover`, so that the worker removes it. A record that covers it stays as it is. A record
    /// that differs is replaced.
    ///
    /// # Errors
    /// It is not recorded. Then the caller must keep the finalizer of the object.
    pub async fn record(&self, leftover: &L) -> Result<(), ApiError> {
        let record = Record::new(leftover.clone(), self.now());
        let name = leftover.record_name();
        let map = record.config_map(&self.deck.namespace);
        let params = PostParams {
            field_manager: Some(self.field_manager()),
            ..PostParams::default()
        };
        self.kill_point("before-record").await;
        let created = self.api().create(&params, &map).await;
        let created = created.map_err(|error| self.classified("create", &name, error));
        let recorded = match created {
            Err(error) if error.class() == Class::AlreadyExists => self.replace(&record).await,
            created => created.map(drop),
        };
        self.kill_point("after-record").await;
        recorded
    }

    /// Replaces the record that exists, unless it covers the new one.
    async fn replace(&self, record: &Record<L>) -> Result<(), ApiError> {
        let name = record.leftover.record_name();
        let live = self.api().get_opt(&name).await;
        let live = live.map_err(|error| self.classified("get", &name, error))?;
        let Some(live) = live else {
            let what = self.what("create", &name); // the worker has just deleted it
            return Err(ApiError::Stale { what });
        };
        let before = Record::<L>::read(&live);
        let covers = before.is_ok_and(|before| before.leftover.covers(&record.leftover));
        let (label, value) = L::LABEL;
        let live_labels = live.metadata.labels.unwrap_or_default();
        if covers && live_labels.get(label).is_some_and(|live| live == value) {
            return Ok(());
        }
        let metadata = json!({
            "uid": live.metadata.uid,
            "resourceVersion": live.metadata.resource_version,
            "labels": labels::<L>(),
        });
        self.patch(&name, record, metadata).await.map(drop)
    }

    /// Writes the record of this pass. It does not create a record that is gone.
    pub(super) async fn update(&self, pass: &Pass, record: &Record<L>) -> Result<(), ApiError> {
        let metadata = json!({
            "uid": pass.object().uid(),
            "resourceVersion": pass.object().version().to_string(),
        });
        self.kill_point("before-note").await;
        let written = self.patch(&pass.key().name, record, metadata).await;
        self.kill_point("after-note").await;
        let written = match written {
            Err(error) if error.is_not_found() => return Ok(()),
            written => written?,
        };
        // The next pass must not start from the old record.
        let cache = self.cache();
        let text = serde_json::to_string(&written).unwrap_or_default();
        if let Ok(now) = Stored::read(&cache.key().kind, &text, &cache.key().projection) {
            cache.store().learn(now);
        }
        Ok(())
    }

    async fn patch(
        &self,
        name: &str,
        record: &Record<L>,
        metadata: Value,
    ) -> Result<ConfigMap, ApiError> {
        let patch = Patch::Merge(json!({"metadata": metadata, "data": record.patch()}));
        let params = PatchParams {
            field_manager: Some(self.field_manager()),
            ..PatchParams::default()
        };
        let written = self.api().patch(name, &params, &patch).await;
        written.map_err(|error| self.classified("patch", name, error))
    }

    /// Deletes the record of this pass. If it has changed, this fails and the pass runs again.
    pub(super) async fn close(&self, pass: &Pass) -> Result<(), ApiError> {
        let bound = Preconditions {
            uid: Some(pass.object().uid().to_owned()),
            resource_version: Some(pass.object().version().to_string()),
        };
        self.kill_point("before-close").await;
        let closed = self.delete(&pass.key().name, bound).await;
        self.kill_point("after-close").await;
        closed
    }

    async fn delete(&self, name: &str, bound: Preconditions) -> Result<(), ApiError> {
        let params = DeleteParams {
            preconditions: Some(bound),
            ..DeleteParams::default()
        };
        let deleted = self.api().delete(name, &params).await.map(drop);
        match deleted.map_err(|error| self.classified("delete", name, error)) {
            Err(error) if error.is_not_found() => Ok(()),
            deleted => deleted,
        }
    }

    /// The leftovers of a target, from the cache. The first call starts the watch.
    pub fn of_target(&self, target: &str) -> Vec<L> {
        let cache = self.cache();
        let all = cache.store().all().into_iter();
        let maps = all.filter_map(|map| map.parse::<ConfigMap>(&cache.key().kind).ok());
        let of_target = maps.filter(|map| target_of::<L>(map) == Some(target));
        of_target
            .filter_map(|map| Some(Record::<L>::read(&map).ok()?.leftover))
            .collect()
    }

    /// The same from the API server: the cache may not have a new record yet.
    pub async fn list_of_target(&self, target: &str) -> Result<Vec<(ConfigMap, L)>, ApiError> {
        let labelled = ListParams::default().labels(&selector::<L>());
        let maps = self.api().list(&labelled).await.map_err(|error| {
            let what = format!("list cleanup records in {}", self.deck.namespace);
            ApiError::classify(what, error)
        })?;
        let maps = maps.into_iter();
        let of_target = maps.filter(|map| target_of::<L>(map) == Some(target));
        let records = of_target.filter_map(|map| {
            let leftover = Record::<L>::read(&map).ok()?.leftover;
            Some((map, leftover))
        });
        Ok(records.collect())
    }

    /// Deletes all records of a target. Returns their leftovers, which stay outside.
    pub async fn abandon(&self, target: &str) -> Result<Vec<L>, ApiError> {
        let mut abandoned = Vec::new();
        for (map, leftover) in self.list_of_target(target).await? {
            let bound = Preconditions {
                uid: map.metadata.uid.clone(),
                resource_version: None,
            };
            let name = map.metadata.name.unwrap_or_default();
            self.kill_point("before-abandon").await;
            self.delete(&name, bound).await?;
            self.kill_point("after-abandon").await;
            tracing::warn!(%leftover, "abandoned; it stays in {}", L::OUTSIDE);
            abandoned.push(leftover);
        }
        Ok(abandoned)
    }

    /// Maps a changed target to its records, for [`ControllerSpec::follow`](crate::ControllerSpec::follow).
    pub fn of_changed_target(
        &self,
    ) -> impl Fn(&Stored) -> Vec<ObjectKey> + Send + Sync + 'static + use<L> {
        let cache = self.cache();
        move |target| {
            let (kind, name) = (&cache.key().kind, target.key().to_string());
            let all = cache.store().all().into_iter();
            let concerned = all.filter(|record| {
                let map = record.parse::<ConfigMap>(kind);
                map.is_ok_and(|map| target_of::<L>(&map) == Some(&*name))
            });
            concerned.map(|record| record.key().clone()).collect()
        }
    }

    /// The cache of the records.
    pub(super) fn cache(&self) -> Cache {
        self.deck.hub.cache(self.watch_key())
    }

    /// The current time in whole seconds, as in records.
    pub(super) fn now(&self) -> Timestamp {
        let now = self.deck.clock.now();
        Timestamp::from_second(now.as_second()).expect("the second of a valid time is valid")
    }

    fn api(&self) -> Api<ConfigMap> {
        Api::namespaced(self.deck.client.clone(), &self.deck.namespace)
    }

    fn field_manager(&self) -> String {
        format!("pontoon-{}", self.deck.feature)
    }

    async fn kill_point(&self, name: &str) {
        reach_kill_point(&format!("{}-{name}", self.deck.feature)).await;
    }

    fn what(&self, verb: &str, name: &str) -> String {
        format!("{verb} ConfigMap {}/{name}", self.deck.namespace)
    }

    fn classified(&self, verb: &str, name: &str, error: kube::Error) -> ApiError {
        ApiError::classify(self.what(verb, name), error)
    }
}

/// The label selector of the records.
fn selector<L: Leftover>() -> String {
    let (key, value) = L::LABEL;
    format!("{key}={value}")
}
