//! The two clusters of a run, as a person reaches them.
//!
//! By the Secrets of a migration, which are vetted as the operator does; or by kubeconfig files of the person,
//! which may log in by a program.

pub(super) mod calls;
mod user_cluster;

use api::migrate::{ClusterAccess, StatefulSetMigrationSpec, StatefulSetMigrationStatus};
use clap::{Arg, ArgGroup, ArgMatches};
use cluster_client::{VettingRules, read_identity, vet};
use engine::ApiError;
use engine::cli::Failure;
use engine::cli::flags::{flag, value};
use k8s_openapi::api::core::v1::Secret;
use kernel::ObjectKey;
use kube::Api;

use super::session::{MigrateSession, in_namespace};
use crate::migration::observation::Side;

pub(super) use user_cluster::UserCluster;

const MIGRATION: &str = "migration";
const SOURCE: &str = "source-kubeconfig";
const DESTINATION: &str = "dest-kubeconfig";
const STATEFUL_SET: &str = "statefulset";
const DEST_NAMESPACE: &str = "dest-namespace";

/// The flags by which a verb finds both clusters, and the StatefulSet in them.
pub(super) fn args() -> [Arg; 5] {
    [
        flag(
            MIGRATION,
            "[NAMESPACE/]NAME",
            "Clusters and StatefulSet of this migration, by its Secrets",
        ),
        flag(SOURCE, "FILE", "A kubeconfig of the source cluster").requires(DESTINATION),
        flag(
            DESTINATION,
            "FILE",
            "A kubeconfig of the destination cluster",
        )
        .requires(SOURCE)
        .conflicts_with(MIGRATION),
        flag(
            STATEFUL_SET,
            "NAMESPACE/NAME",
            "The StatefulSet, with its namespace at the source",
        ),
        flag(
            DEST_NAMESPACE,
            "NAME",
            "Its namespace at the destination; default: as the lock at the source says, or the same",
        ),
    ]
}

/// Exactly one way to the clusters.
pub(super) fn group() -> ArgGroup {
    ArgGroup::new("clusters")
        .args([MIGRATION, SOURCE])
        .required(true)
}

/// Both clusters, and what was named in them.
pub(super) struct BothClusters {
    source: UserCluster,
    destination: UserCluster,
    /// The identities: the UIDs of the namespaces kube-system.
    identities: [String; 2],
    /// The StatefulSet at the source.
    pub(super) set: Option<ObjectKey>,
    /// Its namespace at the destination, if it was given.
    pub(super) dest_namespace: Option<String>,
}

impl BothClusters {
    /// Connects to both clusters of the arguments, and reads which clusters they are.
    ///
    /// # Errors
    /// A kubeconfig cannot be used, a cluster does not answer, or both are the same one.
    pub(super) async fn open(session: &MigrateSession, args: &ArgMatches) -> Result<Self, Failure> {
        let set = stateful_set(args)?;
        let dest_namespace = value(args, DEST_NAMESPACE).map(str::to_owned);
        let Some(named) = value(args, MIGRATION) else {
            let file = |name| value(args, name).expect("clap requires both files");
            let source = UserCluster::from_file(file(SOURCE)).await?;
            let destination = UserCluster::from_file(file(DESTINATION)).await?;
            return Self::identified(source, destination, set, dest_namespace).await;
        };
        let key = in_namespace(&named.parse()?, &session.cluster.scope.namespace);
        let migration = session.live(&key).await?;
        let spec = &migration.spec;
        let connect = async |access| by_secret(session, &key, access).await;
        let source = connect(&spec.source_cluster).await?;
        let destination = connect(&spec.dest_cluster).await?;
        let set = set.unwrap_or_else(|| set_of(spec));
        let dest_namespace = dest_namespace.unwrap_or_else(|| spec.dest_namespace.clone());
        let both = Self::identified(source, destination, Some(set), Some(dest_namespace)).await?;
        both.check_recorded(&key, &migration.status.unwrap_or_default())?;
        Ok(both)
    }

    async fn identified(
        source: UserCluster,
        destination: UserCluster,
        set: Option<ObjectKey>,
        dest_namespace: Option<String>,
    ) -> Result<Self, Failure> {
        let mut identities = Vec::new();
        for (side, cluster) in [(Side::Source, &source), (Side::Destination, &destination)] {
            let identity = read_identity(&cluster.reader).await;
            let identity = identity.map_err(|error| format!("the {side} cluster: {error}"))?;
            identities.push(identity.as_str().to_owned());
        }
        let [from, to] = [identities[0].clone(), identities[1].clone()];
        if from == to {
            return Err("both kubeconfigs lead to the same cluster; give those of two".into());
        }
        Ok(Self {
            source,
            destination,
            identities: [from, to],
            set,
            dest_namespace,
        })
    }

    /// The Secrets still lead to the clusters of the run.
    fn check_recorded(
        &self,
        key: &ObjectKey,
        status: &StatefulSetMigrationStatus,
    ) -> Result<(), Failure> {
        let recorded = [&status.source_cluster_uid, &status.dest_cluster_uid];
        for ((side, recorded), found) in Side::BOTH.into_iter().zip(recorded).zip(&self.identities)
        {
            if recorded.as_ref().is_some_and(|recorded| recorded != found) {
                return Err(format!(
                    "the kubeconfig of the {side} of StatefulSetMigration {key} leads to another cluster than the \
                     one on record; correct the Secret"
                )
                .into());
            }
        }
        Ok(())
    }

    /// One of the clusters.
    pub(super) fn cluster(&self, side: Side) -> &UserCluster {
        match side {
            Side::Source => &self.source,
            Side::Destination => &self.destination,
        }
    }

    /// The identity of one of the clusters.
    pub(super) fn identity(&self, side: Side) -> &str {
        match side {
            Side::Source => &self.identities[0],
            Side::Destination => &self.identities[1],
        }
    }

    /// Allows writes to both. Call it after the user has agreed.
    pub(super) fn allow_writes(&self) {
        self.source.allow_writes();
        self.destination.allow_writes();
    }
}

/// The StatefulSet of `--statefulset`.
fn stateful_set(args: &ArgMatches) -> Result<Option<ObjectKey>, Failure> {
    let Some(text) = value(args, STATEFUL_SET) else {
        return Ok(None);
    };
    let key: ObjectKey = text.parse()?;
    if key.namespace.is_none() {
        return Err(format!("--{STATEFUL_SET}={text}: write <namespace>/<name>").into());
    }
    Ok(Some(key))
}

fn set_of(spec: &StatefulSetMigrationSpec) -> ObjectKey {
    ObjectKey::namespaced(&*spec.source_namespace, &*spec.stateful_set_name)
}

/// The cluster of a Secret beside the migration.
async fn by_secret(
    session: &MigrateSession,
    key: &ObjectKey,
    access: &ClusterAccess,
) -> Result<UserCluster, Failure> {
    let namespace = key.namespace.as_deref().unwrap_or("default");
    let name = &access.kube_config_secret;
    let secrets = Api::<Secret>::namespaced(session.cluster.client(), namespace);
    let secret = secrets.get(name).await;
    let secret = secret
        .map_err(|error| ApiError::classify(format!("get Secret {namespace}/{name}"), error))?;
    let kubeconfig = secret.data.as_ref().and_then(|keys| keys.get(access.key()));
    let kubeconfig = kubeconfig.ok_or_else(|| {
        format!(
            "Secret {namespace}/{name} has no key {}; add it",
            access.key()
        )
    })?;
    let vetted = vet(&kubeconfig.0, VettingRules::default())
        .map_err(|refused| format!("Secret {namespace}/{name}: {refused}"))?;
    UserCluster::new(vetted.config())
}
