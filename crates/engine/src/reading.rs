//! The cluster as the verbs of a feature see it on the command line.

use std::error::Error;
use std::time::Duration;

use k8s_openapi::api::core::v1::Namespace;
use kernel::ClusterId;
use kube::{Api, Client};

use crate::{Cache, Clients, Deck, Health, Metrics, Tasks, WatchKey};

/// Calls to the Kubernetes API at once.
const API_CALLS: usize = 16;
/// All objects have been read by then, or something keeps us from it.
const READING: Duration = Duration::from_secs(20);
/// A watch that is broken for this long will not heal by itself.
const BROKEN: Duration = Duration::from_secs(2);
/// How often it is looked whether all has been read.
const PAUSE: Duration = Duration::from_millis(20);

type Failure = Box<dyn Error>;

/// What a verb stands on: the cluster of the kubeconfig, with the rights of whoever asks.
///
/// Its deck never leads, so nothing can be written before [`allow_writes`](Self::allow_writes).
pub struct Reading {
    /// For the feature's own code.
    pub deck: Deck,
    /// The namespace of what does not say its own.
    pub namespace: String,
    clients: Clients,
    tasks: Tasks,
}

/// What a verb was told.
#[derive(Debug, Clone, Copy, Default)]
pub struct Asked<'a> {
    /// Where objects are looked for; none: the kubeconfig's namespace.
    pub namespace: Option<&'a str>,
    /// The operator's own namespace.
    pub home: &'a str,
    /// The cluster's identity, if the operator was given one; none: the UID of kube-system.
    pub cluster: Option<&'a str>,
}

impl Reading {
    /// Opens the kubeconfig's cluster for the verbs of `feature`. No object is read yet.
    ///
    /// # Errors
    /// What is wrong with kubeconfig, cluster or rights, and what to do.
    pub async fn open(feature: &str, asked: Asked<'_>) -> Result<Self, Failure> {
        let config = kube::Config::infer().await.map_err(|error| {
            format!("no cluster is configured: {error}; set KUBECONFIG and run again")
        })?;
        let namespace = asked.namespace.unwrap_or(&config.default_namespace);
        let namespace = namespace.to_owned();
        let metrics = Metrics::default();
        let clients = Clients::new(config, API_CALLS, metrics.clone())
            .map_err(|error| format!("the kubeconfig cannot be used: {error}"))?;
        let cluster = match asked.cluster {
            Some(given) => ClusterId::new(given)?,
            None => cluster(clients.unguarded(feature)).await?,
        };
        let tasks = Tasks::default();
        let home = asked.home.to_owned();
        let deck = Deck::for_reading(feature, &clients, metrics, cluster, home, &tasks);
        Ok(Self {
            deck,
            namespace,
            clients,
            tasks,
        })
    }

    /// Waits until `caches` hold all objects; the first is of the kind the feature is about, whose
    /// API group is `group`.
    ///
    /// # Errors
    /// What keeps us from reading them, and which rights to ask for.
    pub async fn settle(&self, caches: &[&Cache], group: &str) -> Result<(), Failure> {
        let began = self.deck.clock.elapsed();
        while !caches.iter().all(|cache| cache.is_settled()) {
            let waited = self.deck.clock.elapsed().saturating_sub(began);
            let broken = self.deck.hub.health().into_iter();
            let mut broken = broken.filter_map(|(key, health)| match health {
                Health::Broken(why) => Some(format!("{}: {why}", key.kind.plural)),
                Health::Starting if waited > READING => {
                    Some(format!("{}: no answer in time", key.kind.plural))
                }
                Health::Unserved => Some(format!(
                    "{}: the API server answers 404 and does not say that the kind is gone",
                    key.kind.plural
                )),
                Health::Starting | Health::Synced | Health::Absent => None,
            });
            if waited > BROKEN
                && let Some(why) = broken.next()
            {
                return Err(format!(
                    "the objects cannot be read ({why}); ask for the rights to list and watch \
                     namespaces and all of {group}, in the whole cluster"
                )
                .into());
            }
            tokio::time::sleep(PAUSE).await;
        }
        let first = caches.first().map(|cache| cache.key());
        let is_missing =
            |(key, health): &(WatchKey, Health)| *health == Health::Absent && first == Some(key);
        if self.deck.hub.health().iter().any(is_missing) {
            let feature = &self.deck.feature;
            return Err(format!(
                "the cluster does not know the kinds of the {feature} feature; run: \
                 pontoon crds --feature {feature} | kubectl apply --server-side -f -"
            )
            .into());
        }
        Ok(())
    }

    /// A client for what is asked of the API server directly.
    pub fn client(&self) -> Client {
        self.clients.unguarded(&self.deck.feature)
    }

    /// Somebody has consented: from now on what a verb writes is sent.
    pub fn allow_writes(&self) {
        for guard in &self.deck.guards {
            guard.allow_until(Duration::MAX);
        }
    }

    /// Ends the watches.
    pub fn close(self) {
        self.tasks.stop();
    }
}

/// The cluster's identity, as the operator has it in markers.
async fn cluster(client: Client) -> Result<ClusterId, Failure> {
    let api = Api::<Namespace>::all(client);
    let home = api.get_metadata("kube-system").await.map_err(|error| {
        format!(
            "namespace kube-system, whose UID is the cluster's identity, cannot be read: {error}; \
             check KUBECONFIG, the network and your rights"
        )
    })?;
    Ok(ClusterId::new(home.metadata.uid.unwrap_or_default())?)
}
