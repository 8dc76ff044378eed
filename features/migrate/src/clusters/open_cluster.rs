//! A connection to a cluster, with its watches.

use std::collections::HashMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

use cluster_client::{
    ClusterIdentity, ConnectionKey, IdentityPin, LoginSource, Verdict, VersionedLogin,
    VettedKubeconfig, read_identity,
};
use engine::{
    Applier, Cache, Deck, FollowSpec, Following, OtherCluster, OtherClusterOptions, Running, Stored,
};
use kernel::{CallError, Class, Guard, ObjectKey};
use kube::Client;
use parking_lot::Mutex;
use serde_json::Value;
use tokio::sync::mpsc;

use super::FIELD_MANAGER;
use super::interests::Interests;
use super::watched::Watched;
use crate::migration::extract;

/// Writes are possible this long after the identity was read. Each pass that writes reads it first.
const VALIDITY: Duration = Duration::from_secs(60);

pub(super) type Key = (ConnectionKey, LoginSource);

/// A connected cluster. It is closed some time after this is dropped.
pub(super) struct OpenCluster {
    other: Arc<OtherCluster>,
    applier: Applier,
    pin: IdentityPin,
    login: Mutex<VersionedLogin>,
    /// When Secret and identity were last read, and which cluster answered.
    checked: Mutex<Option<(Duration, ClusterIdentity)>>,
    pub(super) interests: Arc<Interests>,
    pub(super) volumes: Following,
    pub(super) attachments: Following,
    pub(super) nodes: Following,
    namespaces: Mutex<HashMap<String, Weak<NamespaceWatches>>>,
    unused: mpsc::UnboundedSender<Arc<OtherCluster>>,
}

/// The watched objects of one namespace. The watches end with the last run that uses them.
pub(super) struct NamespaceWatches {
    pub(super) sets: Following,
    pub(super) pods: Following,
    pub(super) claims: Following,
    pub(super) budgets: Following,
}

impl OpenCluster {
    /// Connects. `controller` has the passes that changes in the cluster wake.
    pub(super) fn open(
        deck: &Deck,
        controller: &Running,
        unused: mpsc::UnboundedSender<Arc<OtherCluster>>,
        source: &LoginSource,
        kubeconfig: &VettedKubeconfig,
        login: VersionedLogin,
    ) -> Result<Self, CallError> {
        let pin = IdentityPin::new(Guard::closed(), VALIDITY, None);
        let options = OtherClusterOptions {
            guards: vec![pin.guard()],
            ..OtherClusterOptions::default()
        };
        let name = format!("{source} at {}", kubeconfig.connection_key());
        let other = deck.other_cluster(&name, kubeconfig.config(), options);
        let other = other.map_err(|error| CallError::new(Class::Invalid, error.to_string()))?;
        let interests = Arc::<Interests>::default();
        let follow =
            |watched| controller.follow(other.hub(), follow_spec(&interests, watched, None));
        Ok(Self {
            volumes: follow(Watched::Volumes),
            attachments: follow(Watched::Attachments),
            nodes: follow(Watched::Nodes),
            applier: other.deck().applier(FIELD_MANAGER),
            other: Arc::new(other),
            pin,
            login: Mutex::new(login),
            checked: Mutex::default(),
            interests,
            namespaces: Mutex::default(),
            unused,
        })
    }

    /// The client for the objects of the cluster. It writes only to the pinned cluster.
    pub(super) fn client(&self) -> Client {
        self.other.deck().client.clone()
    }

    /// Reads and deletes with the same client.
    pub(super) fn applier(&self) -> &Applier {
        &self.applier
    }

    /// The cluster that it writes to.
    pub(super) fn pinned(&self) -> Option<ClusterIdentity> {
        self.pin.pinned()
    }

    /// The watches of a namespace.
    pub(super) fn namespace(&self, controller: &Running, namespace: &str) -> Arc<NamespaceWatches> {
        let mut namespaces = self.namespaces.lock();
        if let Some(open) = namespaces.get(namespace).and_then(Weak::upgrade) {
            return open;
        }
        let follow = |watched| {
            let spec = follow_spec(&self.interests, watched, Some(namespace));
            controller.follow(self.other.hub(), spec)
        };
        let opened = Arc::new(NamespaceWatches {
            sets: follow(Watched::StatefulSets),
            pods: follow(Watched::Pods),
            claims: follow(Watched::Claims),
            budgets: follow(Watched::Budgets),
        });
        namespaces.retain(|_, open| open.strong_count() > 0);
        namespaces.insert(namespace.to_owned(), Arc::downgrade(&opened));
        opened
    }

    /// Reads which cluster answers. One that is not `recorded` is not written to. One that nobody has
    /// recorded, or that is the recorded one again, is.
    pub(super) async fn verify(
        &self,
        recorded: Option<&str>,
    ) -> Result<(ClusterIdentity, Verdict), CallError> {
        let (seen, verdict) = self.read_identity().await?;
        let is_expected = recorded.is_none_or(|recorded| recorded == seen.as_str());
        let has_moved = matches!(verdict, Verdict::Another { .. });
        if has_moved && is_expected && self.pin.accept(&seen).is_ok() {
            // Only a read that begins after the acceptance allows writes.
            return self.read_identity().await;
        }
        Ok((seen, verdict))
    }

    /// Reads which cluster answers. Another one than before closes the cluster for writes.
    pub(super) async fn read_identity(&self) -> Result<(ClusterIdentity, Verdict), CallError> {
        let sent = self.pin.guard().elapsed();
        let seen = read_identity(&self.client()).await?;
        let verdict = self.pin.observe(sent, Ok(seen.clone()));
        Ok((seen, verdict))
    }

    /// The cluster that answered, if Secret and identity were read at `since` or later.
    pub(super) fn checked_since(&self, since: Duration) -> Option<ClusterIdentity> {
        let checked = self.checked.lock();
        let checked = checked.as_ref().filter(|(began, _)| *began >= since);
        checked.map(|(_, seen)| seen.clone())
    }

    /// Secret and identity were read at this time.
    pub(super) fn set_checked(&self, began: Duration, seen: &ClusterIdentity) {
        *self.checked.lock() = Some((began, seen.clone()));
    }

    /// A call failed: the login or the cluster may have changed.
    pub(super) fn forget_check(&self) {
        *self.checked.lock() = None;
    }

    /// Logs in anew, unless `read` is older than the login in use.
    pub(super) fn change_login(&self, read: VersionedLogin) -> Result<(), CallError> {
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

impl NamespaceWatches {
    fn caches(&self) -> [&Cache; 4] {
        let Self {
            sets,
            pods,
            claims,
            budgets,
        } = self;
        [sets, pods, claims, budgets].map(Following::cache)
    }

    /// Whether an object that is not cached does not exist.
    pub(super) fn is_settled(&self) -> bool {
        self.caches().into_iter().all(Cache::is_settled)
    }
}

fn follow_spec(
    interests: &Arc<Interests>,
    watched: Watched,
    namespace: Option<&str>,
) -> FollowSpec {
    let interests = interests.clone();
    let affected = move |object: &Stored| -> Vec<ObjectKey> { interests.affected(watched, object) };
    let spec = FollowSpec::new(watched.watch_key(namespace), affected);
    if watched == Watched::Nodes {
        spec.when_changed(relevant_of_node)
    } else {
        spec
    }
}

/// The parts of a node that a run depends on. Kubelets write the others every few seconds.
fn relevant_of_node(object: &Stored) -> String {
    let value: Value = serde_json::from_str(object.json()).unwrap_or_default();
    format!("{:?}", extract::node(&value))
}
