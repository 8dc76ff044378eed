//! What the engine gives to a feature: clients, caches, controllers, tasks.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use futures::future::BoxFuture;
use kernel::{ClusterId, Guard, ObjectKey, RealClock, SharedClock};
use kube::Client;
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::controller::{Controller, ControllerContext, ControllerSpec, FollowSpec, Following};
use crate::events::Events;
use crate::metrics::OfTask;
use crate::other_cluster::OtherClusters;
use crate::server::{self, FEATURE_LIMITS, ServerCertificate};
use crate::shared::{Shared, SharedValues};
use crate::slot::Slots;
use crate::tasks::supervise;
use crate::{
    Applier, Cache, Clients, CpuPool, Hub, Kind, Metrics, Pass, Stored, Tasks, Usage, tls,
};

/// Work that features do last, at shutdown.
pub(crate) type ShutdownWork = Arc<Mutex<Vec<BoxFuture<'static, ()>>>>;

/// When a controller ends, its passes may run this long before they are dropped.
const LAST_PASSES: Duration = Duration::from_secs(1);

/// Names a task in `/readyz?verbose`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct TaskName {
    pub(crate) feature: String,
    pub(crate) task: &'static str,
    /// The name of another cluster; none for the operator's own.
    pub(crate) cluster: Option<Arc<str>>,
}

/// How often each task was restarted after a panic.
pub(crate) type Restarts = Arc<Mutex<BTreeMap<TaskName, u32>>>;

/// Further lines of `/readyz?verbose`: name, whether it is fine, and its state.
#[derive(Clone, Default)]
pub(crate) struct Notes(Arc<Mutex<Vec<(String, bool, String)>>>);

impl Notes {
    /// Adds a line, or replaces the one of this name.
    pub(crate) fn set(&self, name: &str, is_fine: bool, state: String) {
        let mut notes = self.0.lock();
        notes.retain(|(other, ..)| other != name);
        notes.push((name.to_owned(), is_fine, state));
    }

    pub(crate) fn all(&self) -> Vec<(String, bool, String)> {
        self.0.lock().clone()
    }
}

/// Returns the function that logs and counts each panic of a task, and records it in `restarts`.
pub(crate) fn panic_recorder(
    name: TaskName,
    restarts: &Restarts,
    metrics: &Metrics,
) -> impl Fn(&str) + Send + Sync + 'static + use<> {
    let label = OfTask {
        feature: name.feature.clone(),
        task: name.task,
    };
    let (restarts, metrics) = (restarts.clone(), metrics.clone());
    move |panic: &str| {
        let OfTask { feature, task } = &label;
        let cluster = name.cluster.as_deref();
        tracing::error!(
            feature,
            task,
            cluster,
            panic,
            "task panicked; restarting it"
        );
        metrics.task_restarts.get_or_create(&label).inc();
        *restarts.lock().entry(name.clone()).or_default() += 1;
    }
}

/// Whether `cluster` is the name of this very connection. Another connection may have an equal name.
pub(crate) fn is_of_connection(cluster: Option<&Arc<str>>, connection: &Arc<str>) -> bool {
    cluster.is_some_and(|cluster| Arc::ptr_eq(cluster, connection))
}

/// The controllers of all features that have not ended.
#[derive(Clone, Default)]
pub(crate) struct Controllers(Arc<Mutex<Vec<ListedController>>>);

struct ListedController {
    controller: Arc<Controller>,
    /// The name of another cluster; none for the operator's own.
    cluster: Option<Arc<str>>,
    is_ending: bool,
    ended: CancellationToken,
}

impl ListedController {
    fn is_same(&self, feature: &str, kind: &Kind) -> bool {
        self.controller.label().feature == feature && self.controller.kind() == kind
    }

    fn is_of(&self, connection: &Arc<str>) -> bool {
        is_of_connection(self.cluster.as_ref(), connection)
    }
}

impl Controllers {
    /// The `ended` tokens of the feature's controllers of this kind and cluster that are ending.
    fn ending(
        &self,
        feature: &str,
        kind: &Kind,
        cluster: Option<&Arc<str>>,
    ) -> Vec<CancellationToken> {
        let all = self.0.lock();
        let same = all.iter().filter(|one| {
            one.is_ending && one.cluster.as_ref() == cluster && one.is_same(feature, kind)
        });
        same.map(|one| one.ended.clone()).collect()
    }

    fn set_ending(&self, ended: &CancellationToken) {
        for one in self.0.lock().iter_mut() {
            one.is_ending |= one.ended == *ended;
        }
    }

    /// Marks the controllers of another cluster as ending.
    pub(crate) fn set_all_ending_of(&self, cluster: &Arc<str>) {
        for one in self.0.lock().iter_mut() {
            one.is_ending |= one.is_of(cluster);
        }
    }

    /// Removes a controller from the list. Removes its metric series unless another one uses them.
    fn remove(&self, ended: &CancellationToken) {
        let mut all = self.0.lock();
        let Some(at) = all.iter().position(|one| one.ended == *ended) else {
            return;
        };
        let removed = all.remove(at).controller;
        let label = removed.label();
        let namesakes = all.iter().map(|one| one.controller.label());
        let namesakes = namesakes.filter(|one| one.kind.eq_ignore_ascii_case(&label.kind));
        let namesakes: Vec<_> = namesakes.collect();
        if !namesakes.contains(&label) {
            removed.remove_series(!namesakes.is_empty());
        }
    }

    /// Removes the controllers of another cluster, whose passes have ended.
    pub(crate) fn remove_all_of(&self, cluster: &Arc<str>) {
        let all = self.0.lock();
        let ended = all.iter().filter(|one| one.is_of(cluster));
        let ended: Vec<_> = ended.map(|one| one.ended.clone()).collect();
        drop(all);
        for ended in ended {
            self.remove(&ended);
            ended.cancel();
        }
    }

    /// Feature, kind and cluster of each controller that is not ending.
    pub(crate) fn kinds(&self) -> Vec<(String, Kind, Option<Arc<str>>)> {
        let all = self.0.lock();
        let running = all.iter().filter(|one| !one.is_ending);
        let kinds = running.map(|one| {
            let controller = &one.controller;
            let feature = controller.label().feature.clone();
            (feature, controller.kind().clone(), one.cluster.clone())
        });
        kinds.collect()
    }
}

/// Everything that the engine gives to a feature. Cheap to clone.
#[derive(Clone)]
pub struct Deck {
    /// The feature's name.
    pub feature: String,
    /// The client of the Kubernetes API. It writes only while this process leads.
    pub client: Client,
    /// The client for work on every replica. It writes without the Lease, so each write must name the
    /// `resourceVersion` of the object that was read; for a deletion its UID is enough. It creates objects,
    /// but it never applies them.
    pub versioned_client: Client,
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
    /// The guards of `versioned_client`.
    pub(crate) versioned_guards: Vec<Guard>,
    /// Runs controllers. They end before `tasks`, because their passes may wait for those.
    pub(crate) passes: Tasks,
    pub(crate) tasks: Tasks,
    pub(crate) shutdown_work: ShutdownWork,
    pub(crate) leading: watch::Receiver<bool>,
    pub(crate) concurrency: usize,
    pub(crate) controllers: Controllers,
    pub(crate) restarts: Restarts,
    pub(crate) other_clusters: OtherClusters,
    /// The name of this cluster, if it is not the operator's own.
    pub(crate) other_cluster: Option<Arc<str>>,
    /// The deck of the operator's own cluster, if this is the deck of another one.
    pub(crate) own_cluster: Option<Arc<Deck>>,
    pub(crate) notes: Notes,
    pub(crate) shared: SharedValues,
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
            versioned_client: clients.versioned(feature, guards.clone()),
            hub: Hub::new(clients.unguarded(feature), tasks.child(), metrics.clone()),
            clock,
            metrics,
            events,
            cluster,
            namespace,
            cpu: CpuPool::default(),
            versioned_guards: guards.clone(),
            guards,
            passes: tasks.child(),
            tasks: tasks.child(),
            shutdown_work: ShutdownWork::default(),
            leading: watch::channel(false).1,
            concurrency: 1,
            controllers: Controllers::default(),
            restarts: Restarts::default(),
            other_clusters: OtherClusters::new(tasks.child()),
            other_cluster: None,
            own_cluster: None,
            notes: Notes::default(),
            shared: SharedValues::default(),
        }
    }

    /// The deck of the operator's own cluster.
    pub(crate) fn of_own_cluster(&self) -> &Self {
        self.own_cluster.as_deref().unwrap_or(self)
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
            own: crate::pass::OwnWrites::default(),
        }
    }

    /// Runs a controller until it is stopped or the process ends. Can be called at any time: the new
    /// controller's passes wait until an ending controller of this feature and kind has ended.
    pub fn control(&self, spec: ControllerSpec) -> Running {
        let ended = CancellationToken::new();
        let cluster = self.other_cluster.clone();
        let predecessors = self
            .controllers
            .ending(&self.feature, spec.kind(), cluster.as_ref());
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
        self.controllers.0.lock().push(ListedController {
            controller: controller.clone(),
            cluster,
            is_ending: false,
            ended: ended.clone(),
        });
        if self.passes.is_stopped() {
            // Its cluster is closed, or the process ends: it runs nothing.
            self.controllers.remove(&ended);
            ended.cancel();
        }
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
    pub fn task<F, W>(&self, name: &'static str, work: W) -> RunningTask
    where
        W: Fn() -> F + Send + Sync + 'static,
        F: Future<Output = ()> + Send,
    {
        let mut leading = self.leading.clone();
        let clock = self.clock.clone();
        let panicked = panic_recorder(self.task_name(name), &self.restarts, &self.metrics);
        self.start_task(name, async move {
            while leading.wait_for(|leads| *leads).await.is_ok() {
                tokio::select! {
                    _ = leading.wait_for(|leads| !*leads) => {}
                    () = supervise(&clock, &work, &panicked) => return,
                }
            }
        })
    }

    /// Runs `work` on every replica, whether it leads or not, until the process ends. After a panic it is
    /// restarted like a [`task`](Self::task). It writes with [`versioned_client`](Self::versioned_client).
    ///
    /// # When not to use it
    /// For writes to external systems: [`client`](Self::client) and [`guards`](Self::guards) refuse them on
    /// a replica that does not lead, and without them two replicas could write at the same time.
    pub fn task_on_every_replica<F, W>(&self, name: &'static str, work: W) -> RunningTask
    where
        W: Fn() -> F + Send + Sync + 'static,
        F: Future<Output = ()> + Send,
    {
        let clock = self.clock.clone();
        let panicked = panic_recorder(self.task_name(name), &self.restarts, &self.metrics);
        self.start_task(
            name,
            async move { supervise(&clock, &work, &panicked).await },
        )
    }

    pub(crate) fn task_name(&self, task: &'static str) -> TaskName {
        TaskName {
            feature: self.feature.clone(),
            task,
            cluster: self.other_cluster.clone(),
        }
    }

    fn start_task(
        &self,
        name: &'static str,
        work: impl Future<Output = ()> + Send + 'static,
    ) -> RunningTask {
        let tasks = self.tasks.child();
        tasks.spawn(work);
        RunningTask {
            name: self.task_name(name),
            tasks,
            restarts: self.restarts.clone(),
        }
    }

    /// Serves `router` at `address` on every replica until the process stops, over HTTPS with a
    /// `certificate`. Its files are loaded again when they change. `flag` is the one that sets the address.
    /// Returns the address, whose port is chosen if it was 0. `/readyz?verbose` names the server.
    ///
    /// At most 256 connections are open; others wait. Head and body of a request must each arrive within
    /// 30 s. After a stop, running requests have 4 s, which do not delay the release of the Lease.
    ///
    /// Its requests write with [`versioned_client`](Self::versioned_client).
    ///
    /// # Errors
    /// If the address or the certificate cannot be used. The error names the flag to correct. Also on the
    /// deck of another cluster: a server belongs to no cluster, and closing one must not end it.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub fn serve(
        &self,
        flag: &'static str,
        address: SocketAddr,
        router: Router,
        certificate: Option<ServerCertificate>,
    ) -> Result<SocketAddr, Usage> {
        if let Some(cluster) = &self.other_cluster {
            return Err(Usage(format!(
                "the server of --{flag} belongs to no cluster; serve it on the deck of the operator's \
                 own cluster, not on that of {cluster}"
            )));
        }
        let acceptor = certificate.map(|ServerCertificate { flag, certificate }| {
            tls::acceptor(flag, &certificate, self.clock.clone())
        });
        let acceptor = acceptor.transpose();
        let acceptor = acceptor.map_err(|error| Usage(error.to_string()))?;
        let listener = server::listen(flag, address)?;
        let address = listener.local_addr().unwrap_or(address);
        // Passes and tasks end before the Lease is released, which must not wait for requests.
        let server = self.passes.outliving();
        server::accept(listener, router, acceptor, FEATURE_LIMITS, &server);
        self.on_shutdown(async move { server.finish().await });
        let name = format!("server --{flag}");
        self.notes
            .set(&name, true, format!("listening on {address}"));
        Ok(address)
    }

    /// Like [`Deck::task`], for work on a value that all features share. Of the tasks of this name that
    /// the features of this process run, one works. When it ends, for example because its feature no
    /// longer leads, the next one begins.
    pub fn shared_task<F, W>(&self, name: &'static str, work: W)
    where
        W: Fn() -> F + Send + Sync + 'static,
        F: Future<Output = ()> + Send,
    {
        let (turn, work) = (self.shared.lock_of(name), Arc::new(work));
        self.task(name, move || {
            let (turn, work) = (Arc::clone(&turn), Arc::clone(&work));
            async move {
                let _turn = turn.lock().await;
                work().await;
            }
        });
    }

    /// The value of type `T` that all features of this process share. It is made on first use, by one
    /// of the methods of [`Shared`]. A deck for reading has values of its own.
    pub fn shared<T: Send + Sync + 'static>(&self) -> Shared<T> {
        self.shared.of()
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

/// Ends controllers. Drops passes that do not end soon.
pub(crate) async fn end_passes(passes: &Tasks) {
    if tokio::time::timeout(LAST_PASSES, passes.finish())
        .await
        .is_err()
    {
        passes.kill().await;
    }
}

/// A running task. It goes on when this value is dropped.
#[derive(Debug)]
pub struct RunningTask {
    name: TaskName,
    tasks: Tasks,
    restarts: Restarts,
}

impl RunningTask {
    /// Ends the task: drops its work at its current await, and waits until it is dropped.
    pub async fn stop(self) {
        self.tasks.finish().await;
        self.restarts.lock().remove(&self.name);
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

    /// Follows more objects, of this cluster or of another one. A change of one wakes the objects that
    /// `follow` names; the existing ones count as changed at first. Followers of equal keys share a watch.
    /// Passes begin without waiting for the new cache.
    pub fn follow(&self, hub: &Hub, follow: FollowSpec) -> Following {
        self.controller.follow(hub, follow, &self.tasks)
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
            controller: _,
            tasks,
            parent,
            ended,
            controllers,
        } = self;
        controllers.set_ending(&ended);
        tasks.stop();
        parent.run(async move {
            end_passes(&tasks).await;
            controllers.remove(&ended);
            ended.cancel();
        });
    }
}

#[cfg(test)]
pub(crate) mod tests;
