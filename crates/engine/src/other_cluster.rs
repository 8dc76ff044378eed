//! Clusters besides the operator's own.
//!
//! # Guarantees
//! - Each cluster has its own connections, limit of concurrent calls, watches and events. One that is
//!   away or slow delays neither another cluster nor a feature: its calls have time limits, and its
//!   watches are retried with back-off.
//! - Its writes need the same guards as those of the own cluster, and the guards that its user adds.
//! - A new login ends no watch and causes no list.

use std::sync::Arc;
use std::time::Duration;

use kernel::Guard;
use kube::Config;
use kube::config::AuthInfo;
use parking_lot::Mutex;

use crate::deck::{TaskName, end_passes, is_of_connection, panic_recorder};
use crate::events::Events;
use crate::hub::{Health, WatchKey};
use crate::tasks::supervise;
use crate::{Clients, Deck, Hub, Tasks};

/// Time limit for sending the waiting events when a cluster is closed. The others are dropped.
const LAST_EVENTS: Duration = Duration::from_secs(1);

/// The settings of [`Deck::other_cluster`].
#[derive(Debug, Clone)]
pub struct OtherClusterOptions {
    /// The largest number of concurrent calls to the cluster.
    pub api_calls: usize,
    /// Writes need these guards too. A guard that stays closed until the cluster's identity is verified
    /// ensures that nothing is written to the wrong one.
    pub guards: Vec<Guard>,
}

impl Default for OtherClusterOptions {
    fn default() -> Self {
        Self {
            api_calls: 16,
            guards: Vec::new(),
        }
    }
}

/// A cluster besides the operator's own. It runs until it is closed or the process ends: dropping this
/// value ends nothing.
pub struct OtherCluster {
    deck: Deck,
    clients: Clients,
    name: Arc<str>,
    /// The sender of events.
    tasks: Tasks,
}

impl Deck {
    /// Connects to the cluster of `config`. Returns at once: a cluster that is away is reported by
    /// `/readyz?verbose` under `name`, and its watches are retried.
    ///
    /// # Errors
    /// If a certificate, key or token of `config` cannot be used.
    /// # When not to use it
    /// For the operator's own cluster, or twice for one cluster: share one value. A name that is used
    /// twice makes `/readyz?verbose` ambiguous.
    pub fn other_cluster(
        &self,
        name: &str,
        config: Config,
        options: OtherClusterOptions,
    ) -> Result<OtherCluster, kube::Error> {
        let guards = [&*self.guards, &options.guards].concat();
        let metrics = self.metrics.clone();
        let clients = Clients::with_guards(&guards, config, options.api_calls, metrics)?;
        Ok(self.connect(name, clients.of_other_cluster(), &options.guards))
    }

    /// Connects by `clients`. Writes need `added` and the guards of this deck.
    fn connect(&self, name: &str, clients: Clients, added: &[Guard]) -> OtherCluster {
        let guards = [&*self.guards, added].concat();
        let versioned_guards = [&*self.versioned_guards, added].concat();
        let (name, tasks): (Arc<str>, _) = (name.into(), self.other_clusters.tasks.child());
        let hub_client = clients.unguarded("hub");
        let hub = Hub::new(hub_client, tasks.child(), self.metrics.clone()).of_other_cluster();
        let (events, sender) = Events::new(
            clients.client("events", guards.clone()),
            self.clock.clone(),
            self.metrics.clone(),
            self.events.instance().to_owned(),
        );
        let clock = self.clock.clone();
        let sender_name = TaskName {
            feature: self.feature.clone(),
            task: "events",
            cluster: Some(name.clone()),
        };
        let panicked = panic_recorder(sender_name, &self.restarts, &self.metrics);
        tasks.spawn(async move { supervise(&clock, || sender.clone().run(), panicked).await });
        self.other_clusters.list.lock().push(ListedCluster {
            feature: self.feature.clone(),
            name: name.clone(),
            hub: hub.clone(),
            events: events.clone(),
        });
        let deck = Deck {
            client: clients.client(&self.feature, guards.clone()),
            versioned_client: clients.versioned(&self.feature, versioned_guards.clone()),
            hub,
            events,
            guards,
            versioned_guards,
            passes: self.passes.child(),
            tasks: self.tasks.child(),
            other_cluster: Some(name.clone()),
            own_cluster: Some(Arc::new(self.of_own_cluster().clone())),
            ..self.clone()
        };
        OtherCluster {
            deck,
            clients,
            name,
            tasks,
        }
    }
}

impl OtherCluster {
    /// A deck whose client, hub and events are those of this cluster, for controllers and tasks whose
    /// objects are there. All else is as on the deck of the own cluster: in particular `cluster` and
    /// `namespace` are those of the operator.
    pub fn deck(&self) -> &Deck {
        &self.deck
    }

    /// The cached objects of this cluster. Controllers of any cluster can follow them. A kind whose CRD is
    /// missing there is retried every 30 s; [`Hub::wake`] retries it at once.
    pub fn hub(&self) -> &Hub {
        &self.deck.hub
    }

    /// The name in `/readyz?verbose`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Replaces the login: a token, or a certificate with its key. Later requests use the new one.
    /// Requests in flight and open watches continue, and interrupted watches are retried at once.
    ///
    /// # Errors
    /// If a certificate, key or token cannot be used. Then the old login stays.
    /// # When not to use it
    /// With an unchanged login: each call begins new connections. With the login of another cluster: server and authority stay those of [`Deck::other_cluster`].
    pub fn relogin(&self, login: AuthInfo) -> Result<(), kube::Error> {
        self.clients.relogin(login)?;
        self.deck.hub.retry_interrupted();
        Ok(())
    }

    /// Ends the cluster's controllers, tasks and watches, and waits for them. Passes are dropped after a
    /// second. Later calls to the cluster are refused, and no cache of it is settled. Followers of it in
    /// other controllers end too, without a wait.
    ///
    /// The cluster may be opened again meanwhile. Its new controllers run no pass before the old passes of
    /// their kind have ended. If this is dropped, the cluster is partly closed: close it again.
    ///
    /// # When not to use it
    /// In a pass or task of this cluster's deck: it would wait for itself.
    pub async fn close(&self) {
        let deck = &self.deck;
        deck.controllers.set_all_ending_of(&self.name);
        end_passes(&deck.passes).await;
        deck.controllers.remove_all_of(&self.name);
        deck.tasks.kill().await;
        drop(tokio::time::timeout(LAST_EVENTS, deck.events.sent()).await);
        self.clients.close();
        deck.hub.end().await;
        self.tasks.kill().await;
        let is_here = |task: &TaskName| is_of_connection(task.cluster.as_ref(), &self.name);
        deck.restarts.lock().retain(|task, _| !is_here(task));
        let mut list = deck.other_clusters.list.lock();
        list.retain(|one| !Arc::ptr_eq(&one.name, &self.name));
    }
}

/// The open clusters of all features.
#[derive(Clone)]
pub(crate) struct OtherClusters {
    list: Arc<Mutex<Vec<ListedCluster>>>,
    /// Watches and senders of events. They end after the work of features.
    tasks: Tasks,
}

#[derive(Clone)]
struct ListedCluster {
    feature: String,
    name: Arc<str>,
    hub: Hub,
    events: Events,
}

/// The state of one cluster.
pub(crate) struct ClusterHealth {
    /// Feature and name.
    pub(crate) title: String,
    pub(crate) name: Arc<str>,
    pub(crate) watches: Vec<(WatchKey, Health)>,
}

impl OtherClusters {
    pub(crate) fn new(tasks: Tasks) -> Self {
        Self {
            list: Arc::default(),
            tasks,
        }
    }

    /// The state of each cluster, in the order in which they were opened.
    pub(crate) fn health(&self) -> Vec<ClusterHealth> {
        let list = self.list.lock();
        let health = list.iter().map(|one| ClusterHealth {
            title: format!("{}/{}", one.feature, one.name),
            name: one.name.clone(),
            watches: one.hub.health(),
        });
        health.collect()
    }

    /// Waits until the events of all clusters were sent or refused.
    pub(crate) async fn events_sent(&self) {
        let all: Vec<_> = self.list.lock().iter().cloned().collect();
        futures::future::join_all(all.iter().map(|one| one.events.sent())).await;
    }
}

impl ClusterHealth {
    /// Whether all watches are up to date, and the state of the cluster as text.
    ///
    /// | watches                     | state           |
    /// |-----------------------------|-----------------|
    /// | none                        | fine            |
    /// | all up to date or absent    | fine            |
    /// | one interrupted             | its error       |
    /// | one starting or unserved    | their number    |
    pub(crate) fn state(&self) -> (bool, String) {
        let all = self.watches.len();
        let is_current = |health: &Health| matches!(health, Health::Synced | Health::Absent);
        let current = self.watches.iter().filter(|(_, one)| is_current(one));
        let current = current.count();
        let state = format!("{current} of {all} watches are up to date");
        let interrupted = self.watches.iter().find_map(|(_, health)| match health {
            Health::Broken(why) => Some(why),
            Health::Starting | Health::Synced | Health::Unserved | Health::Absent => None,
        });
        match interrupted {
            Some(why) => (false, format!("{state}; interrupted: {why}")),
            None => (current == all, state),
        }
    }
}

#[cfg(test)]
mod tests;
