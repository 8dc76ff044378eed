//! What the engine gives to a feature: clients, caches, controllers, tasks.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use kernel::{ClusterId, Guard, ObjectKey, RealClock, SharedClock};
use kube::Client;
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::controller::{Controller, ControllerContext, ControllerSpec};
use crate::events::Events;
use crate::metrics::OfTask;
use crate::slot::Slots;
use crate::tasks::supervise;
use crate::{Applier, Cache, Clients, CpuPool, Hub, Kind, Metrics, Pass, Stored, Tasks};

/// Work that features do last, at shutdown.
pub(crate) type ShutdownWork = Arc<Mutex<Vec<BoxFuture<'static, ()>>>>;

/// When a controller ends, its passes may run this long before they are dropped.
const LAST_PASSES: Duration = Duration::from_secs(1);

/// How often each task was restarted after a panic, by feature and task name.
pub(crate) type Restarts = Arc<Mutex<BTreeMap<(String, &'static str), u32>>>;

/// Returns the function that logs and counts each panic of a task, and records it in `restarts`.
pub(crate) fn panic_recorder(
    feature: &str,
    task: &'static str,
    restarts: &Restarts,
    metrics: &Metrics,
) -> impl Fn(&str) + Send + Sync + 'static + use<> {
    let label = OfTask {
        feature: feature.to_owned(),
        task,
    };
    let (restarts, metrics) = (restarts.clone(), metrics.clone());
    move |panic: &str| {
        let feature = &label.feature;
        tracing::error!(feature, task, panic, "task panicked; restarting it");
        metrics.task_restarts.get_or_create(&label).inc();
        *restarts.lock().entry((feature.clone(), task)).or_default() += 1;
    }
}

/// The controllers of all features that have not ended.
#[derive(Clone, Default)]
pub(crate) struct Controllers(Arc<Mutex<Vec<ListedController>>>);

struct ListedController {
    feature: String,
    kind: Kind,
    is_ending: bool,
    ended: CancellationToken,
}

impl Controllers {
    /// Lists a controller. Returns the `ended` tokens of the feature's controllers of this kind that are
    /// ending.
    fn add(&self, feature: &str, kind: &Kind, ended: &CancellationToken) -> Vec<CancellationToken> {
        let mut all = self.0.lock();
        let same = all
            .iter()
            .filter(|one| one.is_ending && one.feature == feature && one.kind == *kind);
        let predecessors = same.map(|one| one.ended.clone()).collect();
        all.push(ListedController {
            feature: feature.to_owned(),
            kind: kind.clone(),
            is_ending: false,
            ended: ended.clone(),
        });
        predecessors
    }

    fn set_ending(&self, ended: &CancellationToken) {
        for one in self.0.lock().iter_mut() {
            one.is_ending |= one.ended == *ended;
        }
    }

    /// Removes a controller from the list. Removes its metric series unless another one uses them.
    fn remove(&self, ended: &CancellationToken, controller: &Controller) {
        let mut all = self.0.lock();
        let Some(at) = all.iter().position(|one| one.ended == *ended) else {
            return;
        };
        let removed = all.remove(at);
        let has_kind_name =
            |one: &&ListedController| one.kind.kind.eq_ignore_ascii_case(&removed.kind.kind);
        let namesakes: Vec<_> = all.iter().filter(has_kind_name).collect();
        let is_same = |one: &&ListedController| {
            one.feature == removed.feature
                && one.kind.group == removed.kind.group
                && one.kind.kind == removed.kind.kind
        };
        if !namesakes.iter().any(is_same) {
            controller.remove_series(!namesakes.is_empty());
        }
    }

    /// Feature and kind of each controller that is not ending.
    pub(crate) fn kinds(&self) -> Vec<(String, Kind)> {
        let all = self.0.lock();
        let running = all.iter().filter(|one| !one.is_ending);
        running
            .map(|one| (one.feature.clone(), one.kind.clone()))
            .collect()
    }
}

/// Everything that the engine gives to a feature. Cheap to clone.
#[derive(Clone)]
pub struct Deck {
    /// The feature's name.
    pub feature: String,
    /// The client of the Kubernetes API. It writes only while this process leads.
    pub client: Client,
    /// The cached objects of this cluster.
    pub hub: Hub,
    /// The time source.
    pub clock: SharedClock,
    /// The engine's metric series, and the registry for those of the feature.
    pub metrics: Metrics,
    /// Records events that belong to no pass.
    pub events: Events,
    /// The cluster's identity in external systems.
    pub cluster: ClusterId,
    /// The operator's own namespace.
    pub namespace: String,
    /// A pool for CPU-bound work.
    pub cpu: CpuPool,
    /// Clients of external systems check these before each write: the guard of our Lease, and that of a
    /// predecessor's Lease if there is one.
    pub guards: Vec<Guard>,
    /// Runs controllers. They end before `tasks`, because their passes may wait for those.
    pub(crate) passes: Tasks,
    pub(crate) tasks: Tasks,
    pub(crate) shutdown_work: ShutdownWork,
    pub(crate) leading: watch::Receiver<bool>,
    pub(crate) concurrency: usize,
    pub(crate) controllers: Controllers,
    pub(crate) restarts: Restarts,
}

impl Deck {
    /// A deck for code that only reads, such as verbs of the command line. It never leads: its guards
    /// refuse every write, its controllers do nothing, and its events are discarded.
    pub fn for_reading(
        feature: &str,
        clients: &Clients,
        metrics: Metrics,
        cluster: ClusterId,
        namespace: String,
        tasks: &Tasks,
    ) -> Self {
        let guards = vec![Guard::closed()]; // nothing ever opens it
        let client = clients.client(feature, guards.clone());
        let clock: SharedClock = Arc::new(RealClock::new());
        let instance = "reader".to_owned();
        let (events, _unsent) =
            Events::new(client.clone(), clock.clone(), metrics.clone(), instance);
        Self {
            feature: feature.to_owned(),
            client,
            hub: Hub::new(clients.unguarded(feature), tasks.child(), metrics.clone()),
            clock,
            metrics,
            events,
            cluster,
            namespace,
            cpu: CpuPool::default(),
            guards,
            passes: tasks.child(),
            tasks: tasks.child(),
            shutdown_work: ShutdownWork::default(),
            leading: watch::channel(false).1,
            concurrency: 1,
            controllers: Controllers::default(),
            restarts: Restarts::default(),
        }
    }

    /// A pass over `object` outside a controller, so that a feature's own code can read with it.
    ///
    /// # When not to use it
    /// On a deck that leads: a controller may run another pass over the same object.
    pub async fn reading_pass(&self, cache: &Cache, object: Arc<Stored>) -> Pass {
        Pass {
            id: "00000000".to_owned(),
            kind: cache.key().kind.clone(),
            cache: cache.clone(),
            user_fields_hash: Some(object.user_fields_hash()),
            object,
            client: self.client.clone(),
            events: self.events.clone(),
            clock: self.clock.clone(),
            slot: Slots::new(1).take(std::future::pending()).await,
            details: tracing::Span::none(),
            written: None,
            is_absent: false,
            random: 0.0,
            retry: Duration::ZERO,
        }
    }

    /// Runs a controller until it is stopped or the process ends. Can be called at any time: the new
    /// controller's passes wait until an ending controller of this feature and kind has ended.
    pub fn control(&self, spec: ControllerSpec) -> Running {
        let ended = CancellationToken::new();
        let predecessors = self.controllers.add(&self.feature, spec.kind(), &ended);
        let context = ControllerContext {
            feature: self.feature.clone(),
            client: self.client.clone(),
            hub: self.hub.clone(),
            clock: self.clock.clone(),
            metrics: self.metrics.clone(),
            events: self.events.clone(),
            concurrency: self.concurrency,
            leading: self.leading.clone(),
        };
        let tasks = self.passes.child();
        let controller = Controller::start(spec, context, &tasks, predecessors);
        Running {
            controller,
            tasks,
            parent: self.passes.clone(),
            ended,
            controllers: self.controllers.clone(),
        }
    }

    /// Runs `work` while this process leads. It is dropped when the process stops leading, and restarted
    /// when the process leads again. For sweeps and batches that belong to no single object.
    ///
    /// A panic is logged, counted and shown by `/readyz?verbose` under `name`. `work` is restarted after
    /// 1 s, later each time up to 5 min. Work that returns is not restarted.
    pub fn task<F, W>(&self, name: &'static str, work: W)
    where
        W: Fn() -> F + Send + Sync + 'static,
        F: Future<Output = ()> + Send,
    {
        let mut leading = self.leading.clone();
        let clock = self.clock.clone();
        let panicked = panic_recorder(&self.feature, name, &self.restarts, &self.metrics);
        self.tasks.spawn(async move {
            while leading.wait_for(|leads| *leads).await.is_ok() {
                tokio::select! {
                    _ = leading.wait_for(|leads| !*leads) => {}
                    () = supervise(&clock, &work, &panicked) => return,
                }
            }
        });
    }

    /// Runs `work` once at shutdown, after passes have ended and the Lease is released. So it may only
    /// clean up what belongs to this process alone, such as a login. It has 5 s.
    pub fn on_shutdown(&self, work: impl Future<Output = ()> + Send + 'static) {
        self.shutdown_work.lock().push(Box::pin(work));
    }

    /// An applier that writes under this field manager.
    pub fn applier(&self, field_manager: impl Into<String>) -> Applier {
        Applier::new(self.client.clone(), field_manager)
    }
}

/// A running controller.
pub struct Running {
    controller: Arc<Controller>,
    tasks: Tasks,
    parent: Tasks,
    ended: CancellationToken,
    controllers: Controllers,
}

impl Running {
    /// Requests a pass over `key`, because something outside the cluster has changed.
    pub fn wake(&self, key: &ObjectKey) {
        self.controller.wake(key);
    }

    /// The same for an object whose last pass waited for a permit that is ready now. Its pass comes before
    /// most changes by users: a permit that nobody fetches expires.
    pub fn resume(&self, key: &ObjectKey) {
        self.controller.resume(key);
    }

    /// Like [`Running::wake`] after `delay`, unless a pass comes sooner. It spreads the passes of many
    /// objects that waited for the same change.
    pub fn wake_in(&self, key: &ObjectKey, delay: Duration) {
        self.controller.wake_in(key, delay);
    }

    /// Ends the controller and waits for its passes. After a second they are dropped.
    pub async fn stop(self) {
        let ended = self.ended.clone();
        self.end();
        ended.cancelled().await;
    }

    /// Ends the controller without waiting. Its passes are dropped after a second. A controller of the
    /// same kind that is started meanwhile waits until they have ended.
    pub fn end(self) {
        let Self {
            controller,
            tasks,
            parent,
            ended,
            controllers,
        } = self;
        controllers.set_ending(&ended);
        tasks.stop();
        parent.run(async move {
            if tokio::time::timeout(LAST_PASSES, tasks.finish())
                .await
                .is_err()
            {
                tasks.kill().await;
            }
            controllers.remove(&ended, &controller);
            ended.cancel();
        });
    }
}

#[cfg(test)]
mod tests;
