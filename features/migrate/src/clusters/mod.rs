//! The two clusters of each migration: their connections, caches, live reads and changes.
//!
//! ```text
//! Secret ──▶ vet ──▶ Pool ──▶ OpenCluster ──▶ identity ──▶ Connection
//!                                 ├─ caches ──▶ Documents of waits; changes wake the runs they affect
//!                                 ├─ live reads ──▶ Documents of changes
//!                                 └─ create, patch, delete: only in the cluster that was verified
//! ```
//! # Promises
//! - All runs with the same kubeconfig share one connection and one watch for each kind.
//! - A new login changes the connection and ends no watch.
//! - Nothing is written to another cluster than the one that a run has connected to.

mod changes;
mod documents;
mod interests;
mod open_cluster;
mod requests;
mod selection;
mod watched;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use api::migrate::{ClusterAccess, StatefulSetMigrationStatus};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use cluster_client::{
    ClusterIdentity, LoginSource, Pool, Pooled, Verdict, VersionedLogin, VettedKubeconfig,
    VettingRules, vet,
};
use engine::{Applier, Deck, Kind, OtherCluster};
use k8s_openapi::api::core::v1::Secret;
use kernel::{CallError, Class, ObjectKey};
use parking_lot::Mutex;
use serde_json::Value;
use tokio::sync::mpsc;

use crate::controller::MigrationController;
use crate::migration::core::Connection;
use crate::migration::observation::Side;
use crate::preflight::reading::{Outage, Reading};
use crate::preflight::survey::KubeconfigState;
use crate::survey::SurveyedCluster;
use documents::Unwatched;
use interests::RunDisks;
use open_cluster::{Key, NamespaceWatches, OpenCluster};

pub(crate) use changes::create_in;

/// The field manager of our writes in all clusters.
pub(crate) const FIELD_MANAGER: &str = "pontoon-migrate";

/// The largest number of clusters.
const CLUSTERS: usize = 256;
/// A Secret and an identity that were read within this time are not read again, unless a call failed.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// A migration and one of its clusters.
pub(crate) type User = (ObjectKey, Side);

/// A cluster as one migration uses it.
struct Used {
    cluster: Pooled<OpenCluster, Key>,
    /// The cluster that answered when the migration last connected.
    identity: Option<String>,
    namespace: Option<Arc<NamespaceWatches>>,
    /// From the last live read; none before the first.
    unwatched: Option<Unwatched>,
}

/// The clusters of all migrations.
pub(crate) struct Clusters {
    deck: Deck,
    own: Applier,
    pool: Pool<OpenCluster, Key>,
    used: Mutex<HashMap<User, Used>>,
    disks: Mutex<HashMap<ObjectKey, RunDisks>>,
    controller: Arc<MigrationController>,
    unused: mpsc::UnboundedSender<Arc<OtherCluster>>,
}

impl Clusters {
    /// Connects to nothing yet.
    pub(crate) fn new(deck: &Deck, controller: Arc<MigrationController>) -> Self {
        let (unused, closing) = mpsc::unbounded_channel::<Arc<OtherCluster>>();
        let closing = Arc::new(tokio::sync::Mutex::new(closing));
        deck.task_on_every_replica("close connections", move || {
            let closing = closing.clone();
            async move {
                while let Some(cluster) = closing.lock().await.recv().await {
                    cluster.close().await;
                }
            }
        });
        Self {
            deck: deck.clone(),
            own: deck.applier(FIELD_MANAGER),
            pool: Pool::new(CLUSTERS),
            used: Mutex::default(),
            disks: Mutex::default(),
            controller,
            unused,
        }
    }

    /// Connects a migration to one of its clusters. `recorded` is the identity that the run has recorded.
    ///
    /// # Errors
    /// Those of the calls. A kubeconfig that cannot be used is no error.
    pub(crate) async fn connect(
        &self,
        user: &User,
        access: &ClusterAccess,
        recorded: Option<&str>,
    ) -> Result<Connection, CallError> {
        let source = LoginSource {
            secret: ObjectKey::of(user.0.namespace.as_deref(), &access.kube_config_secret),
            key: access.key().to_owned(),
        };
        let began = self.deck.clock.elapsed();
        if let Some(seen) = self.checked_recently(user, &source, began) {
            return Ok(compared(&seen, recorded));
        }
        let secret = self
            .own
            .read(&Kind::of::<Secret>(), &source.secret)
            .await
            .map_err(|error| unreadable(&source.secret, CallError::from(&error)))?;
        match kubeconfig(&source, secret.as_ref()) {
            Ok((kubeconfig, login)) => {
                let cluster = self.open(user, source, &kubeconfig, login)?;
                let seen = verified(&cluster, recorded).await?;
                cluster.set_checked(began, &seen);
                self.set_identity(user, &seen);
                Ok(compared(&seen, recorded))
            }
            Err(refusal) => {
                self.release(user);
                Ok(Connection::Refused(refusal))
            }
        }
    }

    /// Connects a migration to one of its clusters for the checks, whichever cluster it is.
    pub(crate) async fn surveyed(&self, user: User, access: &ClusterAccess) -> SurveyedCluster {
        let unconnected = |kubeconfig, uid| SurveyedCluster {
            client: None,
            kubeconfig,
            uid,
        };
        let accepted = Reading::Read(KubeconfigState::Accepted);
        match self.connect(&user, access, None).await {
            Ok(Connection::Cluster(uid)) => SurveyedCluster {
                client: self.cluster(&user).ok().map(|cluster| cluster.client()),
                kubeconfig: accepted,
                uid: Reading::Read(uid),
            },
            Ok(Connection::Refused(why) | Connection::Moved(why)) => {
                let refused = Reading::Read(KubeconfigState::Refused(why));
                unconnected(refused, Reading::NotRead)
            }
            Err(error) => unconnected(accepted, unread(&error)),
        }
    }

    /// The cluster that the user is connected to, if that was verified a moment ago.
    fn checked_recently(
        &self,
        user: &User,
        source: &LoginSource,
        now: Duration,
    ) -> Option<ClusterIdentity> {
        let mut used = self.used.lock();
        let used = used.get_mut(user)?;
        if used.cluster.key().1 != *source {
            return None;
        }
        let seen = used
            .cluster
            .checked_since(now.saturating_sub(CHECK_INTERVAL))?;
        used.identity = Some(seen.to_string());
        Some(seen)
    }

    /// The connection with this kubeconfig and login, used by `user` from now on.
    fn open(
        &self,
        user: &User,
        source: LoginSource,
        kubeconfig: &VettedKubeconfig,
        login: VersionedLogin,
    ) -> Result<Pooled<OpenCluster, Key>, CallError> {
        let key = (kubeconfig.connection_key(), source);
        let open = || {
            let controller = self.controller.running()?;
            let (unused, source) = (self.unused.clone(), &key.1);
            let login = login.clone();
            OpenCluster::open(&self.deck, controller, unused, source, kubeconfig, login)
        };
        let cluster = self.pool.get_or_insert(key.clone(), open)?;
        cluster.change_login(login)?;
        let is_in_use = {
            let used = self.used.lock();
            used.get(user)
                .is_some_and(|used| *used.cluster.key() == key)
        };
        if is_in_use {
            return Ok(cluster);
        }
        // Another server or another Secret: what was read of the old one says nothing about it.
        self.replace(
            user,
            Some(Used {
                cluster,
                identity: None,
                namespace: None,
                unwatched: None,
            }),
        );
        self.cluster(user)
    }

    fn set_identity(&self, user: &User, seen: &ClusterIdentity) {
        if let Some(used) = self.used.lock().get_mut(user) {
            used.identity = Some(seen.to_string());
        }
    }

    /// The connection that the last [`connect`](Self::connect) has made.
    fn cluster(&self, user: &User) -> Result<Pooled<OpenCluster, Key>, CallError> {
        let key = {
            let used = self.used.lock();
            used.get(user).map(|used| used.cluster.key().clone())
        };
        let cluster = key.and_then(|key| self.pool.get(&key));
        cluster.ok_or_else(unconnected)
    }

    /// The same for a write: the cluster must be the one that the user has connected to.
    fn writable(&self, user: &User) -> Result<Pooled<OpenCluster, Key>, CallError> {
        let cluster = self.cluster(user)?;
        let connected = {
            let used = self.used.lock();
            used.get(user).and_then(|used| used.identity.clone())
        };
        let pinned = cluster.pinned();
        if connected.is_some()
            && connected.as_deref() == pinned.as_ref().map(ClusterIdentity::as_str)
        {
            return Ok(cluster);
        }
        let message = format!(
            "the kubeconfig of the {} leads to another cluster than a moment ago; nothing was written",
            user.1
        );
        Err(CallError::new(Class::Stale, message))
    }

    /// The volumes and disks that a run has recorded: they are read, and their changes wake it.
    pub(crate) fn set_disks(&self, migration: &ObjectKey, record: &StatefulSetMigrationStatus) {
        let disks = RunDisks::of(record);
        {
            let used = self.used.lock();
            for side in Side::BOTH {
                let user = (migration.clone(), side);
                if let Some(used) = used.get(&user) {
                    used.cluster.interests.set_disks(&user, &disks);
                }
            }
        }
        self.disks.lock().insert(migration.clone(), disks);
    }

    fn disks_of(&self, migration: &ObjectKey) -> RunDisks {
        let disks = self.disks.lock();
        disks.get(migration).cloned().unwrap_or_default()
    }

    /// The migration is gone.
    pub(crate) fn forget(&self, migration: &ObjectKey) {
        for side in Side::BOTH {
            self.release(&(migration.clone(), side));
        }
        self.disks.lock().remove(migration);
    }

    fn release(&self, user: &User) {
        self.replace(user, None);
    }

    fn replace(&self, user: &User, cluster: Option<Used>) {
        let mut used = self.used.lock();
        let before = used.remove(user);
        if let Some(before) = &before {
            before.cluster.interests.remove(user);
        }
        if let Some(cluster) = cluster {
            used.insert(user.clone(), cluster);
        }
        drop(used);
        drop(before); // closes the connection of a last user
    }
}

/// | error       | reading                 |
/// |-------------|-------------------------|
/// | denied      | unreachable: the login  |
/// | any other   | unreachable             |
fn unread<T>(error: &CallError) -> Reading<T> {
    let message = error.message.clone();
    Reading::Unreachable(if error.class == Class::Denied {
        Outage::Login(message)
    } else {
        Outage::Cluster(message)
    })
}

/// The chart may allow the operator to read Secrets in some namespaces alone.
fn unreadable(secret: &ObjectKey, error: CallError) -> CallError {
    if error.class != Class::Denied {
        return error;
    }
    let namespace = secret.namespace.as_deref().unwrap_or_default();
    let message = format!(
        "{}; add {namespace} to the chart's migrate.namespaces",
        error.message
    );
    CallError { message, ..error }
}

fn unconnected() -> CallError {
    CallError::new(Class::Transient, "the connection was closed meanwhile")
}

/// The kubeconfig in a Secret, or why it cannot be used. The message has no value of it.
fn kubeconfig(
    source: &LoginSource,
    secret: Option<&Value>,
) -> Result<(VettedKubeconfig, VersionedLogin), String> {
    let LoginSource { secret: name, key } = source;
    let Some(secret) = secret else {
        return Err(format!(
            "there is no Secret {name}; create it with a kubeconfig under the key {key}"
        ));
    };
    let encoded = secret["data"][key].as_str();
    let Some(bytes) = encoded.and_then(|text| STANDARD.decode(text).ok()) else {
        return Err(format!(
            "Secret {name} has no key {key}; store the kubeconfig under it"
        ));
    };
    let kubeconfig = vet(&bytes, VettingRules::default());
    let kubeconfig =
        kubeconfig.map_err(|refused| format!("Secret {name}, key {key}: {refused}"))?;
    let version = secret["metadata"]["resourceVersion"].as_str();
    let login = VersionedLogin::of(&kubeconfig, version);
    Ok((kubeconfig, login))
}

/// The cluster that answers now.
async fn verified(
    cluster: &OpenCluster,
    recorded: Option<&str>,
) -> Result<ClusterIdentity, CallError> {
    let verified = cluster.verify(recorded).await;
    let (seen, verdict) = verified.inspect_err(|_| cluster.forget_check())?;
    match verdict {
        Verdict::First(_) | Verdict::Same | Verdict::Another { .. } => Ok(seen),
        Verdict::Unverified(error) => Err(error),
    }
}

/// | recorded | seen | connection                              |
/// |----------|------|-----------------------------------------|
/// | none     | a    | cluster a                               |
/// | a        | a    | cluster a                               |
/// | a        | b    | moved: names both                       |
fn compared(seen: &ClusterIdentity, recorded: Option<&str>) -> Connection {
    match recorded {
        Some(recorded) if recorded != seen.as_str() => Connection::Moved(format!(
            "the kubeconfig leads to cluster {seen}, and the run began with cluster {recorded}; restore the \
             kubeconfig of that cluster"
        )),
        Some(_) | None => Connection::Cluster(seen.to_string()),
    }
}

#[cfg(test)]
mod tests;
