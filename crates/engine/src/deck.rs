//! What a feature stands on while it runs.

use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use kernel::{ClusterId, Guard, ObjectKey, RealClock, SharedClock};
use kube::Client;
use parking_lot::Mutex;
use tokio::sync::watch;

use crate::controller::{Controller, ControllerSpec, Surroundings};
use crate::events::Events;
use crate::slot::Slots;
use crate::{Applier, Cache, Clients, CpuPool, Hub, Kind, Metrics, Pass, Stored, Tasks};

/// What features do last of all.
pub(crate) type Farewells = Arc<Mutex<Vec<BoxFuture<'static, ()>>>>;

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
    pub(crate) tasks: Tasks,
    pub(crate) farewells: Farewells,
    pub(crate) leading: watch::Receiver<bool>,
    pub(crate) concurrency: usize,
    pub(crate) kinds: Arc<Mutex<Vec<(String, Kind)>>>,
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
            tasks: tasks.child(),
            farewells: Farewells::default(),
            leading: watch::channel(false).1,
            concurrency: 1,
            kinds: Arc::default(),
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
            written: None,
            random: 0.0,
            retry: Duration::ZERO,
        }
    }

    /// Runs a controller until it is stopped or the process ends. Can be called at any time.
    pub fn control(&self, spec: ControllerSpec) -> Running {
        self.kinds
            .lock()
            .push((self.feature.clone(), spec.kind().clone()));
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
        let tasks = self.tasks.child();
        let kind = (self.feature.clone(), spec.kind().clone());
        let controller = Controller::start(spec, around, &tasks);
        Running {
            controller,
            tasks,
            kind,
            kinds: self.kinds.clone(),
        }
    }

    /// Runs `work` whenever this process leads: dropped when it stops leading, begun anew when it
    /// leads again. For sweeps and batches that no single object asks for.
    pub fn task<F, W>(&self, work: W)
    where
        W: Fn() -> F + Send + Sync + 'static,
        F: Future<Output = ()> + Send,
    {
        let mut leading = self.leading.clone();
        self.tasks.spawn(async move {
            while leading.wait_for(|leads| *leads).await.is_ok() {
                tokio::select! {
                    _ = leading.wait_for(|leads| !*leads) => {}
                    () = work() => return,
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
    kind: (String, Kind),
    kinds: Arc<Mutex<Vec<(String, Kind)>>>,
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

    /// Ends the controller and waits until its passes have been dropped.
    pub async fn stop(self) {
        let tasks = self.tasks.clone();
        self.end();
        tasks.finish().await;
    }

    /// Tells the controller to end; does not wait.
    pub fn end(self) {
        self.tasks.stop();
        let mut kinds = self.kinds.lock();
        if let Some(at) = kinds.iter().position(|kind| *kind == self.kind) {
            kinds.remove(at);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use k8s_openapi::api::core::v1::Namespace;
    use kube::api::{Api, PostParams};

    #[tokio::test]
    async fn a_deck_for_reading_refuses_every_write() {
        rustls::crypto::aws_lc_rs::default_provider()
            .install_default()
            .ok();
        // Nothing listens there: a write that was sent would fail otherwise.
        let nowhere = "http://127.0.0.1:9".parse().unwrap();
        let metrics = Metrics::default();
        let clients = Clients::new(kube::Config::new(nowhere), 1, metrics.clone()).unwrap();
        let cluster = ClusterId::new("c").unwrap();
        let tasks = Tasks::default();
        let deck = Deck::for_reading("f", &clients, metrics, cluster, "n".into(), &tasks);
        let api = Api::<Namespace>::all(deck.client.clone());
        let refused = api
            .create(&PostParams::default(), &Namespace::default())
            .await;
        let said = crate::error::chain(&refused.unwrap_err());
        assert!(said.contains("no longer holds"), "{said}");
        assert!(deck.guards.iter().all(|guard| guard.check().is_err()));
    }
}
