//! Reads what the audit judges. Nothing is decided here.

use std::collections::BTreeSet;

use api::migrate::StatefulSetMigration;
use api::migrate::names::RECORD_PREFIX;
use clap::ArgMatches;
use engine::ApiError;
use engine::cli::Failure;
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{ConfigMap, Node, PersistentVolume, PersistentVolumeClaim, Pod};
use k8s_openapi::api::storage::v1::VolumeAttachment;
use kube::api::ListParams;
use kube::{Api, Resource};
use serde_json::Value;

use super::fence;
use super::leftovers::{AuditReads, AuditedCluster, namespace};
use crate::cli::clusters::{BothClusters, UserCluster, calls};
use crate::cli::ec2;
use crate::cli::journal::{FoundLock, found_lock};
use crate::cli::session::MigrateSession;
use crate::migration::extract;
use crate::migration::observation::Side;
use crate::record::names::lock_name;

/// Reads both clusters, then the migrations, then EC2: what shows a disk as free is read last.
pub(super) async fn read(
    session: &MigrateSession,
    args: &ArgMatches,
    both: &BothClusters,
) -> Result<AuditReads, Failure> {
    let mut reads = AuditReads {
        management: session.cluster.deck.cluster.to_string(),
        ..AuditReads::default()
    };
    for side in Side::BOTH {
        let scope = own_namespace(both, side);
        let cluster = both.cluster(side);
        let audited = AuditedCluster {
            sets: namespaced::<StatefulSet>(cluster, scope, side, &mut reads).await?,
            claims: namespaced::<PersistentVolumeClaim>(cluster, scope, side, &mut reads).await?,
            pods: namespaced::<Pod>(cluster, scope, side, &mut reads).await?,
            volumes: calls::list::<PersistentVolume>(cluster, None).await?,
            attachments: calls::list::<VolumeAttachment>(cluster, None).await?,
            nodes: calls::list::<Node>(cluster, None).await?,
        };
        let found = locks(both, side, &audited, &mut reads.uncovered).await?;
        reads.locks.extend(found);
        match side {
            Side::Source => reads.source = audited,
            Side::Destination => reads.destination = audited,
        }
    }
    reads.migrations = migrations(session).await?;
    let disks = fence::disks(&reads);
    if !disks.is_empty() {
        match ec2::disks(args, session.cluster.deck.clock.clone(), &disks).await {
            Ok(found) => reads.disks = found,
            Err(error) => reads.unread.push(format!("the disks of fences: {error}")),
        }
    }
    Ok(reads)
}

/// The namespace that a login of the shipped role may read.
fn own_namespace(both: &BothClusters, side: Side) -> Option<&str> {
    let set = both.set.as_ref()?;
    let source = set.namespace.as_deref();
    match side {
        Side::Source => source,
        Side::Destination => both.dest_namespace.as_deref().or(source),
    }
}

/// The objects of all namespaces, or of this one if the login may not read all.
async fn namespaced<K: Resource<DynamicType = ()>>(
    cluster: &UserCluster,
    scope: Option<&str>,
    side: Side,
    reads: &mut AuditReads,
) -> Result<Vec<Value>, ApiError> {
    match calls::list::<K>(cluster, None).await {
        Err(ApiError::Answer { code: 403, .. }) => {}
        other => return other,
    }
    let plural = calls::resource::<K>().plural;
    let Some(scope) = scope else {
        let why = "the login may not list them; name a namespace by --statefulset";
        reads.unread.push(format!("{plural} of the {side}: {why}"));
        return Ok(Vec::new());
    };
    let uncovered = format!("{plural} of the {side} outside of namespace {scope}");
    reads.uncovered.push(uncovered);
    calls::list::<K>(cluster, Some(scope)).await
}

/// The locks of a cluster. A login that may not list ConfigMaps finds those of StatefulSets and claims that it
/// sees, and of the named StatefulSet.
async fn locks(
    both: &BothClusters,
    side: Side,
    audited: &AuditedCluster,
    uncovered: &mut Vec<String>,
) -> Result<Vec<FoundLock>, Failure> {
    let cluster = both.cluster(side);
    let names: BTreeSet<(String, String)> = match calls::list_names::<ConfigMap>(cluster).await {
        Ok(all) => {
            let ours = all
                .into_iter()
                .filter(|(_, name)| name.starts_with(RECORD_PREFIX));
            ours.collect()
        }
        Err(ApiError::Answer { code: 403, .. }) => {
            uncovered.push(format!("locks of the {side} whose StatefulSet is gone"));
            let sets = audited.sets.iter();
            let of_sets = sets.map(|set| {
                let namespace = namespace(set).unwrap_or_default().to_owned();
                (namespace, lock_name(&extract::name(set)))
            });
            let named = both.set.iter().filter_map(|set| {
                Some((own_namespace(both, side)?.to_owned(), lock_name(&set.name)))
            });
            of_sets.chain(named).collect()
        }
        Err(error) => return Err(error.into()),
    };
    let mut locks = Vec::new();
    for (namespace, name) in names {
        let found = calls::get::<ConfigMap>(cluster, Some(&namespace), &name).await?;
        let found = found.map(|object| found_lock(side, &namespace, object));
        // A ConfigMap of somebody else may begin like ours; a lock names its run and its migration.
        let is_lock =
            |lock: &FoundLock| !lock.stored.holder.is_empty() && !lock.stored.object.is_empty();
        locks.extend(found.filter(is_lock));
    }
    Ok(locks)
}

/// The migrations of all namespaces of the management cluster.
async fn migrations(session: &MigrateSession) -> Result<Vec<StatefulSetMigration>, Failure> {
    let api = Api::<StatefulSetMigration>::all(session.cluster.client());
    let listed = api.list(&ListParams::default()).await;
    let listed = listed.map_err(|error| {
        let error = ApiError::classify("list StatefulSetMigrations of all namespaces", error);
        format!("{error}; without them it is not known which runs go on")
    })?;
    Ok(listed.items)
}
