//! The connections to other clusters, shared by the Mirrors of one Secret.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use api::probe::{MIRROR_LABEL, MIRROR_OF};
use cluster_client::{
    ClusterIdentity, ConnectionKey, IdentityPin, LoginSource, Pool, Pooled, Verdict,
    VersionedLogin, VettedKubeconfig, read_identity,
};
use engine::{
    Deck, FollowSpec, Following, Kind, OtherCluster, OtherClusterOptions, Projection, Running,
    Stored, WatchKey,
};
use k8s_openapi::api::core::v1::ConfigMap;
use kernel::{CallError, Class, Guard, ObjectKey};
use parking_lot::Mutex;
use tokio::sync::mpsc;

use super::Connection;
use super::plan::is_accepted;

/// Writes are possible this long after the identity was read. Each pass reads it first.
const VALIDITY: Duration = Duration::from_secs(60);
/// The largest number of other clusters.
const CLUSTERS: usize = 16;

type Key = (ConnectionKey, LoginSource);

/// A connected cluster. It is closed some time after this is dropped.
pub(super) struct OpenCluster {
    other: Arc<OtherCluster>,
    pin: IdentityPin,
    login: Mutex<VersionedLogin>,
    /// Wakes Mirrors when their copies change.
    _following: Following,
    unused: mpsc::UnboundedSender<Arc<OtherCluster>>,
}

/// All connections of the feature.
pub(super) struct Connections {
    deck: Deck,
    pool: Pool<OpenCluster, Key>,
    /// The connection of each Mirror.
    used: Mutex<HashMap<ObjectKey, Pooled<OpenCluster, Key>>>,
    controller: OnceLock<Running>,
    unused: mpsc::UnboundedSender<Arc<OtherCluster>>,
}

impl Connections {
    pub(super) fn new(deck: &Deck) -> Arc<Self> {
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
        Arc::new(Self {
            deck: deck.clone(),
            pool: Pool::new(CLUSTERS),
            used: Mutex::default(),
            controller: OnceLock::new(),
            unused,
        })
    }

    /// The controller that changes in other clusters wake.
    pub(super) fn set_controller(&self, controller: Running) {
        let _ = self.controller.set(controller);
    }

    /// Connects `mirror` with a kubeconfig and its login, and reads which cluster it leads to. `accepted`
    /// counts only if this is the cluster that answers.
    pub(super) async fn connect(
        &self,
        mirror: &ObjectKey,
        kubeconfig: &VettedKubeconfig,
        source: LoginSource,
        login: VersionedLogin,
        pinned: Option<&str>,
        accepted: Option<&str>,
    ) -> Result<Connection, CallError> {
        let key = (kubeconfig.connection_key(), source.clone());
        let pinned = pinned.and_then(|uid| ClusterIdentity::new(uid).ok());
        let open = || self.open(&source, kubeconfig, login.clone(), pinned);
        let cluster = self.pool.get_or_insert(key, open)?;
        cluster.change_login(login)?;
        // Before the first await: a pass that is dropped there leaves the connection to the next one.
        self.replace(mirror, Some(cluster));
        let cluster = self.of(mirror)?;
        let (mut seen, mut verdict) = cluster.verify().await?;
        if is_accepted(&verdict, &seen, accepted) && cluster.pin.accept(&seen).is_ok() {
            (seen, verdict) = cluster.verify().await?;
        }
        match verdict {
            Verdict::First(_) | Verdict::Same => Ok(Connection::Cluster(seen.to_string())),
            ref another @ Verdict::Another { .. } => {
                let message = another.error().map(|error| error.message);
                Ok(Connection::Moved(message.unwrap_or_default()))
            }
            Verdict::Unverified(error) => Err(error),
        }
    }

    /// The connection that the last [`connect`](Self::connect) of `mirror` has made.
    pub(super) fn of(&self, mirror: &ObjectKey) -> Result<Pooled<OpenCluster, Key>, CallError> {
        let used = self.used.lock();
        let key = used.get(mirror).map(|pooled| pooled.key().clone());
        let pooled = key.and_then(|key| self.pool.get(&key));
        pooled
            .ok_or_else(|| CallError::new(Class::Transient, "the connection was closed meanwhile"))
    }

    /// `mirror` is gone, or its kubeconfig may not be used any more.
    pub(super) fn release(&self, mirror: &ObjectKey) {
        self.replace(mirror, None);
    }

    fn replace(&self, mirror: &ObjectKey, cluster: Option<Pooled<OpenCluster, Key>>) {
        let mut used = self.used.lock();
        let before = match cluster {
            Some(cluster) => used.insert(mirror.clone(), cluster),
            None => used.remove(mirror),
        };
        drop(used);
        drop(before);
    }

    fn open(
        &self,
        source: &LoginSource,
        kubeconfig: &VettedKubeconfig,
        login: VersionedLogin,
        pinned: Option<ClusterIdentity>,
    ) -> Result<OpenCluster, CallError> {
        let controller = self.controller.get();
        let controller = controller
            .ok_or_else(|| CallError::new(Class::Transient, "the controller is starting"))?;
        let pin = IdentityPin::new(Guard::closed(), VALIDITY, pinned);
        let options = OtherClusterOptions {
            guards: vec![pin.guard()],
            ..OtherClusterOptions::default()
        };
        let name = format!("{source} at {}", kubeconfig.connection_key());
        let other = self.deck.other_cluster(&name, kubeconfig.config(), options);
        let other = other.map_err(|error| CallError::new(Class::Invalid, error.to_string()))?;
        let copies = WatchKey {
            labels: Some(format!("{MIRROR_LABEL}=true")),
            ..WatchKey::all(Kind::of::<ConfigMap>())
        };
        let copies = copies.with_projection(Projection::Metadata);
        let cluster = self.deck.cluster.clone();
        let follow = FollowSpec::new(copies, move |copy| {
            mirror_of(copy, cluster.as_str()).into_iter().collect()
        });
        Ok(OpenCluster {
            _following: controller.follow(other.hub(), follow),
            other: Arc::new(other),
            pin,
            login: Mutex::new(login),
            unused: self.unused.clone(),
        })
    }
}

impl OpenCluster {
    /// The client for the objects of the cluster. It writes only to the pinned cluster.
    pub(super) fn client(&self) -> kube::Client {
        self.other.deck().client.clone()
    }

    /// The cluster that it writes to.
    pub(super) fn pinned(&self) -> Option<ClusterIdentity> {
        self.pin.pinned()
    }

    /// Reads which cluster answers.
    async fn verify(&self) -> Result<(ClusterIdentity, Verdict), CallError> {
        let sent = self.pin.guard().elapsed();
        let seen = read_identity(&self.client()).await?;
        let verdict = self.pin.observe(sent, Ok(seen.clone()));
        Ok((seen, verdict))
    }

    /// Logs in anew, unless `read` is older than the login in use.
    fn change_login(&self, read: VersionedLogin) -> Result<(), CallError> {
        self.login.lock().replace(read, |login| {
            let changed = self.other.relogin(login.auth_info());
            changed.map_err(|error| CallError::new(Class::Invalid, error.to_string()))
        })
    }
}

impl Drop for OpenCluster {
    fn drop(&mut self) {
        // Without a receiver the process ends, and closes all clusters itself.
        let _ = self.unused.send(self.other.clone());
    }
}

/// The annotation of a copy: the cluster of its Mirror, and the Mirror.
pub(super) fn marker(cluster: &str, mirror: &ObjectKey) -> String {
    format!("{cluster}|{mirror}")
}

/// The Mirror of `cluster` that an object is a copy of.
fn mirror_of(copy: &Stored, cluster: &str) -> Option<ObjectKey> {
    let annotations = copy.metadata().annotations?;
    let mirror = annotations.get(MIRROR_OF)?.strip_prefix(cluster)?;
    let (namespace, name) = mirror.strip_prefix('|')?.split_once('/')?;
    Some(ObjectKey::namespaced(namespace, name))
}
