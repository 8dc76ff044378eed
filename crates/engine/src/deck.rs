//! What a feature stands on while it runs.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use kernel::{ClusterId, Guard, ObjectKey, RealClock, SharedClock};
use kube::Client;
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::controller::{Controller, ControllerSpec, Surroundings};
use crate::events::Events;
use crate::metrics::OfTask;
use crate::slot::Slots;
use crate::tasks::supervise;
use crate::{Applier, Cache, Clients, CpuPool, Hub, Kind, Metrics, Pass, Stored, Tasks};

/// What features do last of all.
pub(crate) type Farewells = Arc<Mutex<Vec<BoxFuture<'static, ()>>>>;

/// How long passes of a controller that ends may go on before they are dropped.
const LAST_PASSES: Duration = Duration::from_secs(1);

/// How often each task was started again after a panic, by feature and name.
pub(crate) type Restarts = Arc<Mutex<BTreeMap<(String, &'static str), u32>>>;

/// What is done about a panic of a task: it is logged, counted, and listed in `restarts`.
pub(crate) fn restarted(
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
        tracing::error!(feature, task, panic, "task panicked; it starts again");
        metrics.task_restarts.get_or_create(&label).inc();
        *restarts.lock().entry((feature.clone(), task)).or_default() += 1;
    }
}

/// The controllers of all features, until each has ended.
#[derive(Clone, Default)]
pub(crate) struct Controllers(Arc<Mutex<Vec<Listed>>>);

struct Listed {
    feature: String,
    kind: Kind,
    is_ending: bool,
    ended: CancellationToken,
}

impl Controllers {
    /// Lists a controller. Answers the ends of those of the same kind that are about to end.
    fn add(&self, feature: &str, kind: &Kind, ended: &CancellationToken) -> Vec<CancellationToken> {
        let mut all = self.0.lock();
        let same = all
            .iter()
            .filter(|one| one.is_ending && one.feature == feature && one.kind == *kind);
        let predecessors = same.map(|one| one.ended.clone()).collect();
        all.push(Listed {
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

    /// Takes a controller off the list and removes its metric series, unless others count there.
    fn remove(&self, ended: &CancellationToken, controller: &Controller) {
        let mut all = self.0.lock();
        let Some(at) = all.iter().position(|one| one.ended == *ended) else {
            return;
        };
        let gone = all.remove(at);
        let is_like = |one: &&Listed| one.kind.kind.eq_ignore_ascii_case(&gone.kind.kind);
        let alike: Vec<_> = all.iter().filter(is_like).collect();
        let is_same = |one: &&Listed| {
            one.feature == gone.feature
                && one.kind.group == gone.kind.group
                && one.kind.kind == gone.kind.kind
        };
        if !alike.iter().any(is_same) {
            controller.remove_series(!alike.is_empty());
        }
    }

    /// Feature and kind of each controller that is not about to end.
    pub(crate) fn kinds(&self) -> Vec<(String, Kind)> {
        let all = self.0.lock();
        let running = all.iter().filter(|one| !one.is_ending);
        running
            .map(|one| (one.feature.clone(), one.kind.clone()))
            .collect()
    }
}

/// Everything a feature is lent. Cheap to clone.
#[derive(Clone)]
pub struct Deck {
    /// The feature's name.
    pub feature: String,
    /// The Kubernetes API; writes only while we lead.
    pub client: Client,
    /// What others see of this cluster, cached.
    pub hub: Hub,
    /// Time.
    pub clock: SharedClock,
    /// Series, and the registry for more.
    pub metrics: Metrics,
    /// Where events go that belong to no pass.
    pub events: Events,
    /// Which cluster this is, to the outside.
    pub cluster: ClusterId,
    /// The operator's own namespace.
    pub namespace: String,
    /// Cores for heavy work.
    pub cpu: CpuPool,
    /// Outside clients ask these before each write: our Lease, and a predecessor's if there is one.
    pub guards: Vec<Guard>,
    /// Where controllers run; they end before `tasks`, on which their passes may wait.
    pub(crate) passes: Tasks,
    pub(crate) tasks: Tasks,
    pub(crate) farewells: Farewells,
    pub(crate) leading: watch::Receiver<bool>,
    pub(crate) concurrency: usize,
    pub(crate) controllers: Controllers,
    pub(crate) restarts: Restarts,
}

impl Deck {
    /// A deck for those who only look, such as verbs of the command line: it never leads, so its
    /// guards refuse every write, controllers on it do nothing, and events go nowhere.
    pub fn for_reading(
        feature: &str,
        clients: &Clients,
        metrics: Metrics,
        cluster: ClusterId,
        namespace: String,
        tasks: &Tasks,
    ) -> Self {
        let guards = vec![Guard::held()]; // a lease that nobody ever wins
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
            farewells: Farewells::default(),
            leading: watch::channel(false).1,
            concurrency: 1,
            controllers: Controllers::default(),
            restarts: Restarts::default(),
        }
    }

    /// A pass over `object` that nobody asked for: to let a feature's own code look at it.
    ///
    /// # When not to use it
    /// On a deck that leads: another pass over the same object may be under way.
    pub async fn look(&self, cache: &Cache, object: Arc<Stored>) -> Pass {
        Pass {
            id: "00000000".to_owned(),
            kind: cache.key().kind.clone(),
            cache: cache.clone(),
            wish: Some(object.wish()),
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

    /// Runs a controller until it is stopped or the process ends. Can be called at any time: while
    /// another controller of this feature and kind is about to end, the new one's passes wait.
    pub fn control(&self, spec: ControllerSpec) -> Running {
        let ended = CancellationToken::new();
        let predecessors = self.controllers.add(&self.feature, spec.kind(), &ended);
        let around = Surroundings {
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
        let controller = Controller::start(spec, around, &tasks, predecessors);
        Running {
            controller,
            tasks,
            above: self.passes.clone(),
            ended,
            controllers: self.controllers.clone(),
        }
    }

    /// Runs `work` whenever this process leads: dropped when it stops leading, begun anew when it
    /// leads again. For sweeps and batches that no single object asks for.
    ///
    /// A panic is logged, counted and shown by `/readyz?verbose` under `name`, and `work` begins anew
    /// after 1 s, later each time up to 5 min. Work that returns is over for good.
    pub fn task<F, W>(&self, name: &'static str, work: W)
    where
        W: Fn() -> F + Send + Sync + 'static,
        F: Future<Output = ()> + Send,
    {
        let mut leading = self.leading.clone();
        let clock = self.clock.clone();
        let panicked = restarted(&self.feature, name, &self.restarts, &self.metrics);
        self.tasks.spawn(async move {
            while leading.wait_for(|leads| *leads).await.is_ok() {
                tokio::select! {
                    _ = leading.wait_for(|leads| !*leads) => {}
                    () = supervise(&clock, &work, &panicked) => return,
                }
            }
        });
    }

    /// Runs `work` once, last of all: passes have ended and the Lease is given back, so it may only
    /// tidy up what this process alone knows of, such as a login. It gets a few seconds.
    pub fn at_the_end(&self, work: impl Future<Output = ()> + Send + 'static) {
        self.farewells.lock().push(Box::pin(work));
    }

    /// An applier for one concern of this feature.
    pub fn applier(&self, manager: impl Into<String>) -> Applier {
        Applier::new(self.client.clone(), manager)
    }
}

/// A controller under way.
pub struct Running {
    controller: Arc<Controller>,
    tasks: Tasks,
    above: Tasks,
    ended: CancellationToken,
    controllers: Controllers,
}

impl Running {
    /// Asks for a pass over `key`: something outside has changed.
    pub fn wake(&self, key: &ObjectKey) {
        self.controller.wake(key);
    }

    /// The same after `delay`, unless a pass comes sooner: for many who waited for one thing.
    pub fn wake_in(&self, key: &ObjectKey, delay: Duration) {
        self.controller.wake_in(key, delay);
    }

    /// Ends the controller and waits until its passes have ended or, after a second, been dropped.
    pub async fn stop(self) {
        let ended = self.ended.clone();
        self.end();
        ended.cancelled().await;
    }

    /// Ends the controller without waiting. Its passes are dropped after a second; a controller of
    /// the same kind that is started meanwhile waits for that.
    pub fn end(self) {
        let Self {
            controller,
            tasks,
            above,
            ended,
            controllers,
        } = self;
        controllers.set_ending(&ended);
        tasks.stop();
        above.run(async move {
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
