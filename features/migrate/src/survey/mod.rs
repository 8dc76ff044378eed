//! The reads that fill a [`Survey`]: calls to both clusters and to EC2 that change nothing, and decide nothing.
//!
//! ```text
//! cluster, arrival ─▶ EC2, dependencies, ordinals ─▶ dry runs, sizes of records ─▶ Survey ─▶ preflight
//! ```
//! # Promises
//! - Each part is [read](Reading), or says why not. A part that fails loses no other part.
//! - The only requests besides reads are access reviews and dry runs, for which the server stores nothing.
//! - Secrets and ConfigMaps are read by name. Of those that a template names, only the metadata.
//! - A cluster gets at most eight calls at once, and none any more after one was not answered.
//!
//! # When not to use it
//! For the reads of a run under way: they are fewer, and some are cached.

mod arrival;
mod classify;
mod disks;
#[cfg(test)]
mod fixture;
mod ordinals;
mod reader;
mod records;
mod sides;
#[cfg(test)]
mod tests;
mod trials;

use std::collections::BTreeMap;

use api::migrate::StatefulSetMigrationSpec;
use aws::ec2::Ec2;
use futures::join;
use k8s_openapi::api::apps::v1::ControllerRevision;
use k8s_openapi::api::core::v1::Service;
use kube::Client;

use crate::migration::observation::Side;
use crate::preflight::Survey;
use crate::preflight::dependencies::Dependency;
use crate::preflight::reading::Reading;
use crate::preflight::survey::{
    ArrivalSurvey, ClusterSurvey, Ec2Survey, KubeconfigState, OrdinalsSupport, Snapshot,
};
use classify::of_cluster;
use reader::{Collection, Reader};

/// A cluster, as far as it could be connected.
pub(crate) struct SurveyedCluster {
    /// A client; none if there is no connection. Its guards must allow dry runs and access reviews.
    pub(crate) client: Option<Client>,
    /// What became of the kubeconfig.
    pub(crate) kubeconfig: Reading<KubeconfigState>,
    /// The UID of its namespace kube-system. Nothing else is read of a cluster without it.
    pub(crate) uid: Reading<String>,
}

/// What is surveyed.
pub(crate) struct Request<'a> {
    /// The spec of the migration.
    pub(crate) spec: &'a StatefulSetMigrationSpec,
    /// The namespace of the migration.
    pub(crate) namespace: &'a str,
    /// The id of the run.
    pub(crate) run: &'a str,
    /// The UIDs that the migration has on record for source and destination.
    pub(crate) pinned: [Option<String>; 2],
    /// The source.
    pub(crate) source: SurveyedCluster,
    /// The destination.
    pub(crate) destination: SurveyedCluster,
    /// EC2 in `region`.
    pub ec2: &'a Ec2,
    /// The region of the volumes.
    pub(crate) region: &'a str,
}

/// What is read of the source alone.
#[derive(Default)]
struct DepartureSurvey {
    snapshots: Reading<Vec<Snapshot>>,
    revisions: Reading<Vec<ControllerRevision>>,
}

/// Reads everything that preflight judges.
pub(crate) async fn survey(request: Request<'_>) -> Box<Survey> {
    // A survey has several KiB, and so has the future that fills it.
    Box::pin(filled(request)).await
}

async fn filled(request: Request<'_>) -> Box<Survey> {
    let Request {
        spec,
        namespace,
        run,
        pinned: [source_uid, destination_uid],
        source,
        destination,
        ec2,
        region,
    } = request;
    let (source_reader, destination_reader) = (reader(&source), reader(&destination));
    let ((of_source, departure), (of_destination, arrival)) = join!(
        Box::pin(departing(source_reader.as_ref(), spec)),
        Box::pin(arriving(destination_reader.as_ref(), spec)),
    );
    let mut survey = Box::new(Survey {
        namespace: namespace.to_owned(),
        run: run.to_owned(),
        spec: spec.clone(),
        source: connected(of_source, source, source_uid),
        destination: connected(of_destination, destination, destination_uid),
        snapshots: departure.snapshots,
        arrival,
        ec2: Ec2Survey::default(),
        records: Reading::NotRead,
    });
    let (ec2, source_ordinals, of_set) = join!(
        Box::pin(disks::ec2(ec2, &survey, region)),
        Box::pin(source_ordinals(source_reader.as_ref(), &survey)),
        Box::pin(of_set(destination_reader.as_ref(), &survey)),
    );
    survey.ec2 = ec2;
    survey.source.ordinals = source_ordinals;
    survey.destination.ordinals = of_set.ordinals;
    survey.arrival.dependencies = of_set.dependencies;
    survey.arrival.service = of_set.service;
    if let Some(reader) = &destination_reader {
        let tried = Box::pin(trials::try_all(reader, &survey)).await;
        survey.arrival.dry_runs = tried.dry_runs;
        survey.arrival.admitted_pod = tried.admitted_pod;
    }
    survey.records = records::sizes(&survey, &departure.revisions);
    survey
}

/// None without a connection to a cluster of which we know which it is.
fn reader(cluster: &SurveyedCluster) -> Option<Reader> {
    let client = cluster.client.clone()?;
    matches!(cluster.uid, Reading::Read(_)).then(|| Reader::new(client))
}

fn connected(
    read: ClusterSurvey,
    cluster: SurveyedCluster,
    pinned_uid: Option<String>,
) -> ClusterSurvey {
    ClusterSurvey {
        kubeconfig: cluster.kubeconfig,
        uid: cluster.uid,
        pinned_uid,
        ..read
    }
}

async fn departing(
    reader: Option<&Reader>,
    spec: &StatefulSetMigrationSpec,
) -> (ClusterSurvey, DepartureSurvey) {
    let Some(reader) = reader else {
        return Default::default();
    };
    let (namespace, set) = (&*spec.source_namespace, &*spec.stateful_set_name);
    let revisions = Collection::of::<ControllerRevision>(Some(namespace));
    let (cluster, snapshots, revisions) = join!(
        sides::cluster(reader, Side::Source, namespace, set),
        sides::snapshots(reader, namespace),
        reader.list(&revisions),
    );
    let departure = DepartureSurvey {
        snapshots,
        revisions: of_cluster(revisions),
    };
    (cluster, departure)
}

async fn arriving(
    reader: Option<&Reader>,
    spec: &StatefulSetMigrationSpec,
) -> (ClusterSurvey, ArrivalSurvey) {
    let Some(reader) = reader else {
        return Default::default();
    };
    let (namespace, set) = (&*spec.dest_namespace, &*spec.stateful_set_name);
    join!(
        sides::cluster(reader, Side::Destination, namespace, set),
        arrival::arrival(reader, namespace),
    )
}

async fn source_ordinals(reader: Option<&Reader>, survey: &Survey) -> Reading<OrdinalsSupport> {
    match (reader, &survey.source.set) {
        (Some(reader), Reading::Read(Some(set))) => ordinals::at_source(reader, set).await,
        (Some(_) | None, _) => Reading::NotRead,
    }
}

/// What is read of the destination because of what the StatefulSet names.
#[derive(Default)]
struct OfSet {
    ordinals: Reading<OrdinalsSupport>,
    dependencies: BTreeMap<Dependency, Reading<bool>>,
    service: Reading<Option<Service>>,
}

async fn of_set(reader: Option<&Reader>, survey: &Survey) -> OfSet {
    let (Some(reader), Reading::Read(Some(set))) = (reader, &survey.source.set) else {
        return OfSet::default();
    };
    let namespace = &survey.spec.dest_namespace;
    let (ordinals, dependencies, service) = join!(
        ordinals::at_destination(reader, survey, set),
        arrival::dependencies(reader, set, namespace),
        arrival::service(reader, set, namespace),
    );
    OfSet {
        ordinals,
        dependencies,
        service,
    }
}
