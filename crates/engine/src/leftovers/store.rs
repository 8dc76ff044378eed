//! The records as the API server keeps them. Each write is bound to the record as read.

use std::marker::PhantomData;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::ConfigMap;
use kernel::{Class, ObjectKey};
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams, Preconditions};
use serde_json::{Value, json};

use super::Leftover;
use super::record::{Record, labels, target_of};
use crate::{ApiError, Cache, Classified, Deck, Kind, Pass, Stored, WatchKey, kill_point};

/// The records of leftovers of one type: ConfigMaps in the operator's namespace. A handle, cheap to make.
///
/// Kill points are `<feature>-before-…` and `<feature>-after-…`, with `record`, `note`, `close` and
/// `abandon`; the field manager is `pontoon-<feature>`.
pub struct LeftoverStore<L> {
    deck: Deck,
    leftovers: PhantomData<fn() -> L>,
}

impl<L: Leftover> LeftoverStore<L> {
    /// The records of this feature.
    pub fn new(deck: &Deck) -> Self {
        Self {
            deck: deck.clone(),
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

    /// Records `leftover` until it is worked off. To record it twice is to record it once; of two that
    /// differ the later one counts.
    ///
    /// # Errors
    /// When it is not recorded: then the finalizer that guards the thing must stay.
    pub async fn record(&self, leftover: &L) -> Result<(), ApiError> {
        let record = Record::new(leftover.clone(), self.now());
        let name = leftover.record_name();
        let map = record.config_map(&self.deck.namespace);
        let params = PostParams {
            field_manager: Some(self.field_manager()),
            ..PostParams::default()
        };
        self.kill_point("before-record");
        let created = self.api().create(&params, &map).await;
        let created = created.map_err(|error| self.classified("create", &name, error));
        let recorded = match created {
            Err(error) if error.class() == Class::AlreadyExists => self.renew(&record).await,
            created => created.map(drop),
        };
        self.kill_point("after-record");
        recorded
    }

    /// Makes the record that exists say what the new one says.
    async fn renew(&self, record: &Record<L>) -> Result<(), ApiError> {
        let name = record.leftover.record_name();
        let live = self.api().get_opt(&name).await;
        let live = live.map_err(|error| self.classified("get", &name, error))?;
        let Some(live) = live else {
            let what = self.what("create", &name); // it was closed just now
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

    /// Saves what became of the record of this pass. One that is gone stays gone.
    pub(super) async fn update(&self, pass: &Pass, record: &Record<L>) -> Result<(), ApiError> {
        let metadata = json!({
            "uid": pass.object().uid(),
            "resourceVersion": pass.object().version().to_string(),
        });
        self.kill_point("before-note");
        let written = self.patch(&pass.key().name, record, metadata).await;
        self.kill_point("after-note");
        let written = match written {
            Err(error) if error.is_not_found() => return Ok(()),
            written => written?,
        };
        // So that no pass starts from what the record said before.
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

    /// Ends the record of this pass, unless it says something else by now: then the pass runs again.
    pub(super) async fn close(&self, pass: &Pass) -> Result<(), ApiError> {
        let bound = Preconditions {
            uid: Some(pass.object().uid().to_owned()),
            resource_version: Some(pass.object().version().to_string()),
        };
        self.kill_point("before-close");
        let closed = self.delete(&pass.key().name, bound).await;
        self.kill_point("after-close");
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

    /// What is still to be removed over a target, as last seen. The first call starts the watch.
    pub fn of_target(&self, target: &str) -> Vec<L> {
        let cache = self.cache();
        let all = cache.store().all().into_iter();
        let maps = all.filter_map(|map| map.parse::<ConfigMap>(&cache.key().kind).ok());
        let of_target = maps.filter(|map| target_of::<L>(map) == Some(target));
        of_target
            .filter_map(|map| Some(Record::<L>::read(&map).ok()?.leftover))
            .collect()
    }

    /// The same as the API server has them: the cache may not show a new record yet.
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

    /// Deletes all records of a target, and returns what stays outside.
    pub async fn abandon(&self, target: &str) -> Result<Vec<L>, ApiError> {
        let mut abandoned = Vec::new();
        for (map, leftover) in self.list_of_target(target).await? {
            let bound = Preconditions {
                uid: map.metadata.uid.clone(),
                resource_version: None,
            };
            let name = map.metadata.name.unwrap_or_default();
            self.kill_point("before-abandon");
            self.delete(&name, bound).await?;
            self.kill_point("after-abandon");
            tracing::warn!(%leftover, "abandoned; it stays in {}", L::OUTSIDE);
            abandoned.push(leftover);
        }
        Ok(abandoned)
    }

    /// The records of a target that has changed, for [`ControllerSpec::follow`](crate::ControllerSpec::follow).
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

    /// The records, as last seen.
    pub(super) fn cache(&self) -> Cache {
        self.deck.hub.cache(self.watch_key())
    }

    /// The time, to the second: as records keep it.
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

    fn kill_point(&self, name: &str) {
        kill_point(&format!("{}-{name}", self.deck.feature));
    }

    fn what(&self, verb: &str, name: &str) -> String {
        format!("{verb} ConfigMap {}/{name}", self.deck.namespace)
    }

    fn classified(&self, verb: &str, name: &str, error: kube::Error) -> ApiError {
        ApiError::classify(self.what(verb, name), error)
    }
}

/// Selects the records.
fn selector<L: Leftover>() -> String {
    let (key, value) = L::LABEL;
    format!("{key}={value}")
}
