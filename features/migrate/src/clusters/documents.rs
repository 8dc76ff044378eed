//! The objects of a cluster that a run reads: from the caches for waits, from the API server for changes.

use std::collections::BTreeSet;
use std::sync::Arc;

use engine::{Following, Kind, Stored};
use futures::future::{try_join_all, try_join3, try_join4};
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kernel::{CallError, ObjectKey};
use kube::Client;
use serde_json::Value;

use super::interests::Interest;
use super::open_cluster::{NamespaceWatches, OpenCluster};
use super::requests::{Text, get, list};
use super::selection::{Selected, Texts, current_nodes, selected};
use super::watched::{Watched, revision_kind};
use super::{Clusters, User};
use crate::migration::core::Scope;
use crate::migration::documents::Documents;
use crate::record::names::lock_name;

/// What is read by name and not watched, as it was last read.
#[derive(Debug, Clone)]
pub(super) struct Unwatched {
    scope: Scope,
    identity: Option<String>,
    lock: Option<Value>,
    capture: Option<Value>,
}

impl Clusters {
    /// The objects in the caches. None before the first live read, and while a cache is incomplete.
    pub(crate) fn cached_documents(&self, user: &User) -> Option<Documents> {
        // Parsing takes milliseconds, so it is done without the lock.
        let (unwatched, namespace) = {
            let used = self.used.lock();
            let used = used.get(user)?;
            (used.unwatched.clone()?, used.namespace.clone()?)
        };
        let cluster = self.cluster(user).ok()?;
        let read_at = Some(self.deck.clock.elapsed());
        let documents = cached(&cluster, user, &namespace, unwatched)?;
        Some(Documents {
            read_at,
            ..documents
        })
    }

    /// The objects as the API server has them now.
    pub(crate) async fn read_documents(
        &self,
        user: &User,
        scope: &Scope,
    ) -> Result<Documents, CallError> {
        let cluster = self.cluster(user)?;
        let namespace = cluster.namespace(self.controller.running()?, &scope.namespace);
        let disks = self.disks_of(&user.0);
        let interest = cluster.interests.set(user, scope, &disks);
        let documents = live(&cluster, scope, &interest).await;
        let documents = documents.inspect_err(|_| cluster.forget_check())?;
        self.store(user, namespace, scope, &documents);
        Ok(Documents {
            read_at: Some(self.deck.clock.elapsed()),
            is_live: true,
            ..documents
        })
    }

    fn store(
        &self,
        user: &User,
        namespace: Arc<NamespaceWatches>,
        scope: &Scope,
        documents: &Documents,
    ) {
        let mut used = self.used.lock();
        let Some(used) = used.get_mut(user) else {
            return;
        };
        used.unwatched = Some(Unwatched {
            scope: scope.clone(),
            identity: documents.identity.clone(),
            lock: documents.lock.clone(),
            capture: documents.capture.clone(),
        });
        used.namespace = Some(namespace);
    }
}

fn cached(
    cluster: &OpenCluster,
    user: &User,
    namespace: &NamespaceWatches,
    unwatched: Unwatched,
) -> Option<Documents> {
    let shared = [&cluster.volumes, &cluster.attachments, &cluster.nodes];
    let is_settled = shared.iter().all(|one| one.cache().is_settled());
    if !is_settled || !namespace.is_settled() {
        return None;
    }
    let Unwatched {
        scope,
        identity,
        lock,
        capture,
    } = unwatched;
    let interest = cluster.interests.of(user)?;
    let set = ObjectKey::namespaced(&*scope.namespace, &*scope.set);
    let set = namespace.sets.cache().store().get(&set);
    let pods = Sorted::of(&namespace.pods);
    let claims = Sorted::of(&namespace.claims);
    let budgets = Sorted::of(&namespace.budgets);
    let volumes = Sorted::of(&cluster.volumes);
    let attachments = Sorted::of(&cluster.attachments);
    let nodes = Sorted::of(&cluster.nodes);
    let texts = Texts {
        pods: pods.texts(),
        claims: claims.texts(),
        budgets: budgets.texts(),
        revisions: Vec::new(), // live reads have them
        volumes: volumes.texts(),
        attachments: attachments.texts(),
        nodes: nodes.texts(),
    };
    let named = Named {
        identity,
        set: set.and_then(|set| serde_json::from_str(set.json()).ok()),
        lock,
        capture,
    };
    Some(documents(named, selected(&interest, &texts)))
}

/// The objects of a cache, in the order of their names as in a list of the API server.
struct Sorted(Vec<Arc<Stored>>);

impl Sorted {
    fn of(following: &Following) -> Self {
        let mut all = following.cache().store().all();
        all.sort_by(|one, other| one.key().cmp(other.key()));
        Self(all)
    }

    fn texts(&self) -> Vec<&str> {
        self.0.iter().map(|object| object.json()).collect()
    }
}

/// What is read by name.
struct Named {
    identity: Option<String>,
    set: Option<Value>,
    lock: Option<Value>,
    capture: Option<Value>,
}

fn documents(named: Named, selected: Selected) -> Documents {
    Documents {
        identity: named.identity,
        set: named.set,
        pods: selected.pods,
        claims: selected.claims,
        volumes: selected.volumes,
        attachments: selected.attachments,
        nodes: selected.nodes,
        lock: named.lock,
        capture: named.capture,
        budgets: selected.budgets,
        controller_revisions: selected.revisions,
        read_at: None,
        is_live: false,
    }
}

/// All reads at once. In a cluster with thousands of nodes, a list of them takes seconds: if the run depends on
/// few of them, these are read after that, and of the others the cache has what does not change.
async fn live(
    cluster: &OpenCluster,
    scope: &Scope,
    interest: &Interest,
) -> Result<Documents, CallError> {
    let client = &cluster.client();
    let is_settled = cluster.nodes.cache().is_settled();
    let current = interest.current.as_ref().filter(|_| is_settled);
    let all_nodes = async {
        match current {
            Some(_) => Ok(Vec::new()),
            None => listed(client, Watched::Nodes, None).await,
        }
    };
    let (namespace, revision_kind) = (Some(&*scope.namespace), revision_kind());
    let of_namespace = try_join4(
        listed(client, Watched::Pods, namespace),
        listed(client, Watched::Claims, namespace),
        listed(client, Watched::Budgets, namespace),
        list(client, &revision_kind, namespace),
    );
    let of_cluster = try_join3(
        listed(client, Watched::Volumes, None),
        listed(client, Watched::Attachments, None),
        all_nodes,
    );
    let all = try_join3(named(cluster, scope), of_namespace, of_cluster);
    let (named, (pods, claims, budgets, revisions), of_cluster) = all.await?;
    let (volumes, attachments, mut nodes) = of_cluster;
    let mut cached = Sorted(Vec::new());
    if let Some(current) = current {
        let names = current_nodes(interest, current, &texts(&pods));
        nodes = nodes_by_name(client, &names).await?;
        cached = Sorted::of(&cluster.nodes);
        cached.0.retain(|node| !names.contains(&*node.key().name));
    }
    let texts = Texts {
        pods: texts(&pods),
        claims: texts(&claims),
        budgets: texts(&budgets),
        revisions: texts(&revisions),
        volumes: texts(&volumes),
        attachments: texts(&attachments),
        nodes: [texts(&nodes), cached.texts()].concat(),
    };
    Ok(documents(named, selected(interest, &texts)))
}

/// Those of the nodes that exist.
async fn nodes_by_name(client: &Client, names: &BTreeSet<String>) -> Result<Vec<Text>, CallError> {
    let kind = Watched::Nodes.kind();
    let reads = names.iter().map(|name| {
        let (kind, key) = (&kind, ObjectKey::of(None, name));
        async move { get(client, kind, &key).await }
    });
    let found = try_join_all(reads).await?;
    Ok(found.into_iter().flatten().collect())
}

fn texts(objects: &[Text]) -> Vec<&str> {
    objects.iter().map(|object| object.get()).collect()
}

async fn listed(
    client: &Client,
    watched: Watched,
    namespace: Option<&str>,
) -> Result<Vec<Text>, CallError> {
    list(client, &watched.kind(), namespace).await
}

async fn named(cluster: &OpenCluster, scope: &Scope) -> Result<Named, CallError> {
    let client = &cluster.client();
    let in_namespace = |name: &str| ObjectKey::namespaced(&*scope.namespace, name);
    let (set, lock) = (
        in_namespace(&scope.set),
        in_namespace(&lock_name(&scope.set)),
    );
    let (sets, maps, secrets) = (
        Kind::of::<StatefulSet>(),
        Kind::of::<ConfigMap>(),
        Kind::of::<Secret>(),
    );
    let capture = async {
        match &scope.capture {
            Some(name) => get(client, &secrets, &in_namespace(name)).await,
            None => Ok(None),
        }
    };
    let all = try_join4(
        cluster.read_identity(),
        get(client, &sets, &set),
        get(client, &maps, &lock),
        capture,
    );
    let ((seen, _), set, lock, capture) = all.await?;
    Ok(Named {
        identity: Some(seen.to_string()),
        set,
        lock,
        capture,
    })
}
