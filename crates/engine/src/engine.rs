//! Starts the parts of the operator in order, supervises them, and shuts them down in order.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use clap::ArgMatches;
use k8s_openapi::api::core::v1::Namespace;
use kernel::{Backoff, ClusterId, Guard, RealClock, SharedClock};
use kube::api::Api;
use tokio::sync::watch;

use crate::deck::{Controllers, Notes, Restarts, ShutdownWork, TaskName, panic_recorder};
use crate::lease::{self, Claim, LeaseSettings, LeaseThread};
use crate::other_cluster::OtherClusters;
use crate::review::Reviewer;
use crate::server::{self, ListenError, Readiness, Secure};
use crate::shared::SharedValues;
use crate::tasks::supervise;
use crate::tls::{self, Certificate, CertificateError};
use crate::{
    Clients, CpuPool, Deck, Events, Feature, Health, Hub, Kind, LegacyLease, Metrics, Tasks, Usage,
    WatchKey,
};

/// A predecessor's Lease has this duration. It is renewed every third of it.
const LEGACY_DURATION: Duration = Duration::from_secs(60);
const LEGACY_DEADLINE: Duration = Duration::from_secs(40);
const LEGACY_RETRY: Duration = Duration::from_secs(20);
/// Time limit for sending the waiting events at shutdown. The others are dropped.
const LAST_EVENTS: Duration = Duration::from_secs(1);
/// Time limit for the shutdown work of features. With drain and release it fits into the 30 s that a
/// pod has.
const SHUTDOWN_WORK_TIMEOUT: Duration = Duration::from_secs(5);
const START_RETRY: Backoff = Backoff {
    first: Duration::from_millis(200),
    cap: Duration::from_secs(5),
    jitter: 0.2,
};

/// Settings of the process that do not depend on its features.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The cluster's identity in external systems. Without one it is the UID of kube-system.
    pub cluster: Option<ClusterId>,
    /// The operator's own namespace.
    pub namespace: String,
    /// Leader election. Without one the process acts as the only replica.
    pub lease: Option<LeaseSettings>,
    /// Concurrent calls to the Kubernetes API.
    pub api_calls: usize,
    /// Concurrent passes of each controller.
    pub concurrency: usize,
    /// Time limit for passes to end at shutdown.
    pub drain: Duration,
    /// The address of the probes.
    pub probes: Option<SocketAddr>,
    /// The address of the metrics.
    pub metrics: Option<SocketAddr>,
    /// The certificate of the metrics server. With one it uses TLS and checks access.
    pub metrics_certificate: Option<Certificate>,
    /// The time source.
    pub clock: SharedClock,
}

/// Why the process could not start. An external system that is unreachable is no reason: the process
/// waits for it.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// A flag has an invalid value.
    #[error(transparent)]
    Usage(#[from] Usage),
    /// An address cannot be served on.
    #[error(transparent)]
    Listen(#[from] ListenError),
    /// A certificate cannot be used.
    #[error(transparent)]
    Certificate(#[from] CertificateError),
    /// The kubeconfig or service account cannot be used.
    #[error(
        "the Kubernetes client cannot be set up: {0}; check KUBECONFIG or the pod's service account"
    )]
    Client(#[from] kube::Error),
    /// The thread of the Lease cannot be started.
    #[error("the thread that renews the lease cannot be started: {0}; check the limits of the pod")]
    Thread(std::io::Error),
}

/// The running engine.
pub struct Engine {
    settings: Settings,
    clients: Clients,
    metrics: Metrics,
    tasks: Tasks,
    hub: Hub,
    events: Events,
    guard: Guard,
    cpu: CpuPool,
    shutdown_work: ShutdownWork,
    leading: watch::Sender<bool>,
    status: Arc<EngineReadiness>,
    shared: SharedValues,
}

/// The running tasks of features.
struct Work {
    /// Controllers and their passes. They end first.
    passes: Tasks,
    /// All other tasks.
    tasks: Tasks,
}

/// The state that `/readyz` reports.
struct EngineReadiness {
    hub: Hub,
    leading: watch::Receiver<bool>,
    controllers: Controllers,
    restarts: Restarts,
    other_clusters: OtherClusters,
    notes: Notes,
}

impl Engine {
    /// Sets the parts up. Only probes, metrics and the event sender run afterwards.
    #[allow(clippy::unused_async)] // async, because it needs a tokio runtime to listen
    pub async fn new(settings: Settings, config: kube::Config) -> Result<Self, StartError> {
        let metrics = Metrics::default();
        let tasks = Tasks::default();
        let guard = match &settings.lease {
            Some(lease) => Guard::closed().with_margin(lease.margin()),
            None => Guard::always(),
        };
        let guards = std::slice::from_ref(&guard);
        let clients = Clients::with_guards(guards, config, settings.api_calls, metrics.clone())?;
        let hub = Hub::new(clients.unguarded("hub"), tasks.child(), metrics.clone());
        let instance = settings
            .lease
            .as_ref()
            .map_or_else(|| "pontoon".to_owned(), |lease| lease.identity.clone());
        let (events, sender) = Events::new(
            clients.client("events", vec![guard.clone()]),
            settings.clock.clone(),
            metrics.clone(),
            instance,
        );
        let (leading, leads) = watch::channel(false);
        let status = Arc::new(EngineReadiness {
            hub: hub.clone(),
            leading: leads,
            controllers: Controllers::default(),
            restarts: Restarts::default(),
            other_clusters: OtherClusters::new(tasks.child()),
            notes: Notes::default(),
        });
        let engine = Self {
            settings,
            clients,
            metrics,
            tasks,
            hub,
            events,
            guard,
            cpu: CpuPool::default(),
            shutdown_work: ShutdownWork::default(),
            leading,
            status,
            shared: SharedValues::default(),
        };
        engine.supervise("events", move || sender.clone().run());
        engine.serve()?;
        Ok(engine)
    }

    /// Runs `features` until `stop` resolves. Then drains passes, releases the Lease and returns.
    pub async fn run(
        self,
        features: &[Box<dyn Feature>],
        args: &ArgMatches,
        stop: impl Future<Output = ()>,
    ) -> Result<(), StartError> {
        tokio::pin!(stop);
        for feature in features {
            feature.check(args)?;
            if self.settings.lease.is_none() && feature.legacy_lease(args).is_some() {
                let name = feature.name();
                return Err(Usage(format!(
                    "--{name}-legacy-lease needs --leader-elect=true, or both controllers would write"
                ))
                .into());
            }
        }
        let cluster = tokio::select! {
            cluster = self.identify() => cluster,
            () = &mut stop => return Ok(()),
        };
        tracing::info!(%cluster, features = ?features.iter().map(|f| f.name()).collect::<Vec<_>>(), "starting");
        self.wake_on_crds();
        let work = Work {
            passes: self.tasks.child(),
            tasks: self.tasks.child(),
        };
        for feature in features {
            let deck = self.deck(feature.as_ref(), args, &cluster, &work)?;
            feature.start(args, &deck)?;
        }
        let (guard, leading) = (self.guard.clone(), self.leading.clone());
        let lease = self.settings.lease.clone();
        if lease.is_none() {
            leading.send_replace(true);
        }
        let lease = lease.map(|lease| LeaseThread::start(lease, &self.clients, guard, leading));
        let lease = lease.transpose()?;
        // The Lease is renewed until the passes have ended.
        tokio::select! {
            () = self.count_leading() => {}
            () = async { stop.await; self.drain(&work).await } => {}
        }
        if let Some(lease) = lease {
            lease.release().await;
        }
        let shutdown_work = std::mem::take(&mut *self.shutdown_work.lock());
        let shutdown_work = futures::future::join_all(shutdown_work);
        let in_time = tokio::time::timeout(SHUTDOWN_WORK_TIMEOUT, shutdown_work).await;
        if in_time.is_err() {
            tracing::warn!("the shutdown work of a feature did not end in time and was dropped");
        }
        self.tasks.stop();
        Ok(())
    }

    /// Starts no more passes and waits for the running ones. Drops those that do not end in time. Tasks
    /// end after the passes that may wait for them. The events of both are sent last.
    async fn drain(&self, work: &Work) {
        tracing::info!("stopping");
        if tokio::time::timeout(self.settings.drain, work.passes.finish())
            .await
            .is_err()
        {
            tracing::warn!("some passes did not end before the deadline and were dropped");
            work.passes.kill().await;
        }
        work.tasks.kill().await;
        let sent =
            futures::future::join(self.events.sent(), self.status.other_clusters.events_sent());
        if tokio::time::timeout(LAST_EVENTS, sent).await.is_err() {
            tracing::warn!("some events could not be sent in time and were dropped");
        }
    }

    fn serve(&self) -> Result<(), StartError> {
        let clock = &self.settings.clock;
        if let Some(address) = self.settings.probes {
            server::probes(address, self.status.clone(), &self.tasks)?;
        }
        if let Some(address) = self.settings.metrics {
            let secure = match &self.settings.metrics_certificate {
                Some(certificate) => Some(Secure {
                    acceptor: tls::acceptor("metrics-cert-path", certificate, clock.clone())?,
                    reviewer: Arc::new(Reviewer::new(
                        self.clients.unguarded("metrics"),
                        clock.clone(),
                    )),
                }),
                None => None,
            };
            server::metrics(address, self.metrics.clone(), secure, &self.tasks)?;
        }
        Ok(())
    }

    /// The cluster's identity. Waits for the API server without a time limit.
    async fn identify(&self) -> ClusterId {
        if let Some(cluster) = &self.settings.cluster {
            return cluster.clone();
        }
        let api = Api::<Namespace>::all(self.clients.unguarded("engine"));
        let mut failures = 0;
        loop {
            let why = match api.get_metadata("kube-system").await {
                Ok(home) => match ClusterId::new(home.metadata.uid.unwrap_or_default()) {
                    Ok(cluster) => {
                        self.status.note("cluster", true, cluster.to_string());
                        return cluster;
                    }
                    Err(error) => error.to_string(),
                },
                Err(error) => crate::error::chain(&error),
            };
            tracing::warn!(
                why,
                "cannot read the cluster's identity (UID of namespace kube-system); retrying"
            );
            self.status.note("cluster", false, why);
            failures += 1;
            tokio::time::sleep(START_RETRY.delay(failures, fastrand::f64())).await;
        }
    }

    /// Runs `work` on every replica until the process ends. After a panic it is restarted like the tasks
    /// of features.
    fn supervise<F, W>(&self, name: &'static str, work: W)
    where
        W: Fn() -> F + Send + Sync + 'static,
        F: Future<Output = ()> + Send,
    {
        let clock = self.settings.clock.clone();
        let name = TaskName {
            feature: "engine".to_owned(),
            task: name,
            cluster: None,
        };
        let panicked = panic_recorder(name, &self.status.restarts, &self.metrics);
        self.tasks
            .spawn(async move { supervise(&clock, work, panicked).await });
    }

    /// Wakes the watches of a kind when its CRD is created, changed or deleted.
    fn wake_on_crds(&self) {
        let hub = self.hub.clone();
        let crds = hub.cache(WatchKey::crds()); // keeps the watch alive through a panic
        self.supervise("crds", move || {
            let followed = hub.follow(crds.key().clone());
            hub.clone().wake_on_crds(followed)
        });
    }

    fn deck(
        &self,
        feature: &dyn Feature,
        args: &ArgMatches,
        cluster: &ClusterId,
        work: &Work,
    ) -> Result<Deck, StartError> {
        let mut guards = vec![self.guard.clone()];
        let mut leading = self.leading.subscribe();
        if let (Some(lease), Some(legacy)) = (&self.settings.lease, feature.legacy_lease(args)) {
            let guard =
                Guard::closed().with_margin(LEGACY_DURATION.saturating_sub(LEGACY_DEADLINE));
            guards.push(guard.clone());
            leading = self.claim_legacy_lease(lease, legacy, guard, feature.name(), &work.tasks)?;
        }
        Ok(Deck {
            feature: feature.name().to_owned(),
            client: self.clients.client(feature.name(), guards.clone()),
            versioned_client: self.clients.versioned(feature.name(), Vec::new()),
            hub: self.hub.clone(),
            clock: self.settings.clock.clone(),
            metrics: self.metrics.clone(),
            events: self.events.clone(),
            cluster: cluster.clone(),
            namespace: self.settings.namespace.clone(),
            cpu: self.cpu.clone(),
            guards,
            versioned_guards: Vec::new(),
            passes: work.passes.clone(),
            tasks: work.tasks.clone(),
            shutdown_work: self.shutdown_work.clone(),
            leading,
            concurrency: self.settings.concurrency,
            controllers: self.status.controllers.clone(),
            restarts: self.status.restarts.clone(),
            other_clusters: self.status.other_clusters.clone(),
            other_cluster: None,
            own_cluster: None,
            notes: self.status.notes.clone(),
            shared: self.shared.clone(),
        })
    }

    /// While this process leads, also holds the Lease of the controller that this feature replaces. If a
    /// replica of this operator holds it, this process takes it at once. Otherwise it waits for it.
    fn claim_legacy_lease(
        &self,
        lease: &LeaseSettings,
        legacy: LegacyLease,
        guard: Guard,
        feature: &'static str,
        work: &Tasks,
    ) -> Result<watch::Receiver<bool>, StartError> {
        let replica_prefix = format!("pontoon/{}/", lease.namespace);
        let settings = LeaseSettings {
            namespace: legacy
                .namespace
                .unwrap_or_else(|| self.settings.namespace.clone()),
            name: legacy.name,
            identity: format!("{replica_prefix}{}", lease.identity),
            duration: LEGACY_DURATION,
            deadline: LEGACY_DEADLINE,
            retry: LEGACY_RETRY,
        };
        let clock: SharedClock = Arc::new(RealClock::new());
        let client = self.clients.reserved("lease", vec![self.guard.clone()])?;
        let claim = Claim::new(settings, client, guard, clock, Some(replica_prefix));
        let (holds_both, reader) = watch::channel(false);
        let (leading, status) = (self.leading.subscribe(), self.status.clone());
        let name = format!("{feature} predecessor's lease");
        work.spawn(lease::claim_while_leading(
            claim,
            leading,
            holds_both,
            move |is_holder, state| status.note(&name, is_holder, state),
        ));
        Ok(reader)
    }

    async fn count_leading(&self) {
        let mut leading = self.leading.subscribe();
        loop {
            self.metrics
                .leader
                .set(i64::from(*leading.borrow_and_update()));
            if leading.changed().await.is_err() {
                return;
            }
        }
    }
}

impl EngineReadiness {
    fn note(&self, name: &str, is_fine: bool, state: String) {
        self.notes.set(name, is_fine, state);
    }
}

impl Readiness for EngineReadiness {
    fn details(&self) -> Vec<(String, bool, String)> {
        let leads = *self.leading.borrow();
        let mut details = vec![(
            "lease".to_owned(),
            true,
            if leads { "leading" } else { "standby" }.to_owned(),
        )];
        details.extend(self.notes.all());
        for (name, count) in self.restarts.lock().iter() {
            let times = if *count == 1 { "time" } else { "times" };
            let state = format!("restarted {count} {times}");
            let TaskName {
                feature,
                task,
                cluster,
            } = name;
            let title = match cluster {
                Some(cluster) => format!("task {feature}/{task} on {cluster}"),
                None => format!("task {feature}/{task}"),
            };
            details.push((title, false, state));
        }
        let own = self.hub.health();
        let others = self.other_clusters.health();
        for (feature, kind, cluster) in self.controllers.kinds() {
            let other = cluster
                .as_ref()
                .and_then(|name| others.iter().find(|one| Arc::ptr_eq(&one.name, name)));
            let watches = other.map_or(&own, |other| &other.watches);
            let health = watches.iter().find(|(key, _)| key.kind == kind);
            let (is_fine, state) = watch_state(health.map(|(_, health)| health), &kind);
            let title = match cluster {
                Some(name) => format!("feature {feature} on {name}"),
                None => format!("feature {feature}"),
            };
            details.push((title, is_fine, state));
        }
        for (key, health) in &own {
            let (is_fine, state) = watch_state(Some(health), &key.kind);
            details.push((format!("watch {}", key.kind), is_fine, state));
        }
        for other in &others {
            let (is_fine, state) = other.state();
            details.push((format!("cluster {}", other.title), is_fine, state));
            for (key, health) in &other.watches {
                let (is_fine, state) = watch_state(Some(health), &key.kind);
                let title = format!("watch {} on {}", key.kind, other.title);
                details.push((title, is_fine, state));
            }
        }
        details
    }
}

/// Whether a watch is up to date, and its state as text.
fn watch_state(health: Option<&Health>, kind: &Kind) -> (bool, String) {
    match health {
        Some(Health::Synced) => (true, format!("{} up to date", kind.kind)),
        Some(Health::Unserved) => (
            false,
            format!(
                "{} answered with 404, but its absence is not confirmed; cached objects stay; \
                 check that the CRD {} serves {}",
                kind.kind,
                kind.crd_name(),
                kind.version
            ),
        ),
        Some(Health::Absent) => (
            false,
            format!("kind not found; apply the CRD {}", kind.crd_name()),
        ),
        Some(Health::Broken(why)) => (false, format!("{} interrupted: {why}", kind.kind)),
        Some(Health::Starting) | None => (false, format!("{} is being listed", kind.kind)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::OtherClusterOptions;
    use std::sync::atomic::{AtomicU32, Ordering};
    use tokio::sync::oneshot;

    async fn engine() -> Engine {
        rustls::crypto::aws_lc_rs::default_provider()
            .install_default()
            .ok();
        let settings = Settings {
            cluster: None,
            namespace: "n".into(),
            lease: None,
            api_calls: 1,
            concurrency: 1,
            drain: Duration::from_secs(20),
            probes: None,
            metrics: None,
            metrics_certificate: None,
            clock: Arc::new(RealClock::new()),
        };
        let nowhere = kube::Config::new("http://127.0.0.1:9".parse().unwrap());
        Engine::new(settings, nowhere).await.unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn a_pass_may_wait_for_a_task_while_the_engine_stops() {
        let engine = engine().await;
        let work = Work {
            passes: engine.tasks.child(),
            tasks: engine.tasks.child(),
        };
        let (request, requested) = oneshot::channel::<oneshot::Sender<()>>();
        work.tasks.spawn(async move {
            let answer = requested.await.unwrap();
            tokio::time::sleep(Duration::from_secs(1)).await;
            answer.send(()).unwrap();
            std::future::pending::<()>().await;
        });
        let (ended, has_ended) = oneshot::channel();
        work.passes.run(async move {
            tokio::time::sleep(Duration::from_secs(1)).await; // meanwhile the engine begins to stop
            let (answer, answered) = oneshot::channel();
            request.send(answer).ok();
            ended.send(answered.await.is_ok()).ok();
        });
        tokio::task::yield_now().await;
        let drained = tokio::time::timeout(Duration::from_secs(10), engine.drain(&work)).await;
        assert!(drained.is_ok());
        assert_eq!(has_ended.await, Ok(true));
    }

    #[tokio::test(start_paused = true)]
    async fn work_of_the_engine_that_panics_is_restarted() {
        let engine = engine().await;
        let runs = Arc::new(AtomicU32::new(0));
        let counted = runs.clone();
        engine.supervise("work", move || {
            let run = counted.fetch_add(1, Ordering::SeqCst);
            async move {
                assert!(run > 0, "a mistake");
                std::future::pending::<()>().await;
            }
        });
        tokio::time::sleep(Duration::from_secs(2)).await; // the first back-off is 1 s
        assert_eq!(runs.load(Ordering::SeqCst), 2);
        let details = engine.status.details();
        let (name, state) = ("task engine/work".into(), "restarted 1 time".into());
        assert!(details.contains(&(name, false, state)), "{details:?}");
        let text = engine.metrics.text();
        let count = r#"pontoon_task_restarts_total{feature="engine",task="work"} 1"#;
        assert!(text.contains(count), "{text}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_task_that_was_restarted_is_named_in_readyz() {
        let engine = engine().await;
        let name = |cluster: Option<&str>| TaskName {
            feature: "vault".to_owned(),
            task: "orphans",
            cluster: cluster.map(Arc::from),
        };
        let restarts = &engine.status.restarts;
        restarts.lock().insert(name(None), 2);
        restarts.lock().insert(name(Some("other")), 1);
        let details = engine.status.details();
        let of_own = (
            "task vault/orphans".into(),
            false,
            "restarted 2 times".into(),
        );
        let of_other = (
            "task vault/orphans on other".into(),
            false,
            "restarted 1 time".into(),
        );
        assert!(details.contains(&of_own), "{details:?}");
        assert!(details.contains(&of_other), "{details:?}");
    }

    #[tokio::test]
    async fn readyz_names_each_cluster_and_its_watches() {
        let engine = engine().await;
        let deck = Deck {
            other_clusters: engine.status.other_clusters.clone(),
            ..crate::deck::tests::reading_deck(&engine.tasks)
        };
        let connect = |name: &str| {
            let nowhere = kube::Config::new("http://127.0.0.1:9".parse().unwrap());
            let other = deck.other_cluster(name, nowhere, OtherClusterOptions::default());
            other.unwrap()
        };
        let (unused, away) = (connect("unused"), connect("away"));
        let _cache = away.hub().cache(WatchKey::crds());
        let state = |title: &str| {
            let details = engine.status.details();
            let found = details.into_iter().find(|(name, ..)| name == title);
            found.map(|(_, is_fine, state)| (is_fine, state))
        };
        let is_away = || state("cluster f/away").unwrap().1.contains("interrupted:");
        crate::deck::tests::until(is_away).await;
        let fine = (true, "0 of 0 watches are up to date".to_owned());
        assert_eq!(state("cluster f/unused"), Some(fine));
        let kind = WatchKey::crds().kind;
        let (is_fine, watch) = state(&format!("watch {kind} on f/away")).unwrap();
        assert!(!is_fine && watch.contains("interrupted"), "{watch}");
        away.close().await;
        assert_eq!(state("cluster f/away"), None);
        unused.close().await;
    }
}
