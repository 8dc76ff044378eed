//! `migrate-volume`: a claim with its volume at the destination, once nothing uses its disk any more.

use std::collections::BTreeSet;

use cluster_client::read_identity;
use engine::cli::flags::is_set;
use engine::cli::{Answer, Failure, Finding, Outcome};
use k8s_openapi::api::core::v1::{Namespace, Node, PersistentVolume, PersistentVolumeClaim, Pod};
use k8s_openapi::api::storage::v1::VolumeAttachment;
use serde_json::{Value, json};

use super::create::create;
use super::free::{obstacle, wait_free};
use super::pair::{self, TranslatedPair};
use super::zone::text;
use super::{DEST_NAMESPACE, Mover};
use crate::cli::clusters::{UserCluster, calls};
use crate::cli::{ec2, refused};
use crate::migration::detach::remaining_use;
use crate::migration::extract;
use crate::migration::observation::ClusterState;
use crate::translate::pair::Pair;

/// Both clusters of the move.
struct MoverClusters {
    source: UserCluster,
    destination: UserCluster,
}

/// Checks, waits until the disk is free, and creates both objects. A dry run prints them instead.
pub(super) async fn migrate_volume(mover: &Mover<'_>) -> Result<Answer, Failure> {
    let clusters = open(mover).await?;
    let namespace = mover.required("source-namespace");
    let found = pair::read(&clusters.source, namespace, mover.required("pvc")).await?;
    let pair = match found {
        Ok(pair) => pair,
        Err(why) => return Ok(refused(why)),
    };
    let pods = calls::list::<Pod>(&clusters.source, Some(namespace)).await?;
    let volumes = calls::list::<PersistentVolume>(&clusters.destination, None).await?;
    let mut obstacles = source_obstacles(&pair, &pods);
    let translated = match pair::translated(mover, &pair, &volumes).await {
        Ok(translated) => translated,
        Err(why) => {
            return Ok(refused(
                obstacles
                    .into_iter()
                    .chain([why])
                    .collect::<Vec<_>>()
                    .join("\n"),
            ));
        }
    };
    let dest_namespace = mover.required(DEST_NAMESPACE);
    let target = Arrival::read(&clusters.destination, dest_namespace, &translated).await?;
    obstacles.extend(target.obstacles(dest_namespace, &translated));
    if !obstacles.is_empty() {
        return Ok(refused(obstacles.join("\n")));
    }
    if is_set(mover.args, "dry-run") {
        let remark = "Nothing was written.".to_owned();
        return Ok(pair::manifests(&translated.pair).with_remark(remark));
    }
    moved(mover, &clusters, &pair, &translated).await
}

async fn open(mover: &Mover<'_>) -> Result<MoverClusters, Failure> {
    let source = mover.source().await?;
    let destination = mover.destination().await?;
    let destination = destination.ok_or("which destination? give --dest-kubeconfig <file>")?;
    let identities = (
        read_identity(&source.reader).await?,
        read_identity(&destination.reader).await?,
    );
    if identities.0 == identities.1 {
        return Err("both kubeconfigs lead to the same cluster; give those of two".into());
    }
    Ok(MoverClusters {
        source,
        destination,
    })
}

/// Why a pair cannot leave the source.
///
/// | found                                    | so      |
/// |------------------------------------------|---------|
/// | claim and volume not bound to each other | refused |
/// | policy of the volume not Retain          | refused |
/// | a pod that names the claim               | refused |
fn source_obstacles(pair: &Pair, pods: &[Value]) -> Vec<String> {
    let (volume, claim) = (&pair.volume, &pair.claim);
    let mut all = Vec::new();
    let is_bound = text(claim.value(), "/status/phase") == "Bound"
        && volume.text("/spec/claimRef/uid") == claim.uid();
    if !is_bound {
        all.push(format!(
            "{} and {} are not bound to each other",
            claim.title(),
            volume.title()
        ));
    }
    let policy = text(volume.value(), "/spec/persistentVolumeReclaimPolicy");
    if policy != "Retain" {
        all.push(format!(
            "{}: found the policy {policy}, need Retain, else its disk may be deleted; set \
             spec.persistentVolumeReclaimPolicy",
            volume.title()
        ));
    }
    let consumers = pods.iter().filter(|pod| {
        let state = extract::pod(pod);
        !state.has_ended && state.claims.iter().any(|one| one == claim.name())
    });
    let consumers: Vec<String> = consumers.map(extract::name).collect();
    if !consumers.is_empty() {
        all.push(format!(
            "{} is used by {}; stop it first",
            claim.title(),
            consumers.join(", ")
        ));
    }
    all
}

/// What is at the destination.
struct Arrival {
    namespace: Option<Value>,
    claim: Option<Value>,
    volumes: Vec<Value>,
}

impl Arrival {
    async fn read(
        destination: &UserCluster,
        namespace: &str,
        translated: &TranslatedPair,
    ) -> Result<Self, Failure> {
        let claim = translated.pair.claim.name();
        Ok(Self {
            namespace: calls::get::<Namespace>(destination, None, namespace).await?,
            claim: calls::get::<PersistentVolumeClaim>(destination, Some(namespace), claim).await?,
            volumes: calls::list::<PersistentVolume>(destination, None).await?,
        })
    }

    /// Why a pair cannot arrive.
    fn obstacles(&self, namespace: &str, translated: &TranslatedPair) -> Vec<String> {
        let mut all = Vec::new();
        if self.namespace.is_none() {
            all.push(format!(
                "the destination has no namespace {namespace}; create it"
            ));
        }
        if self.claim.is_some() {
            let claim = translated.pair.claim.title();
            all.push(format!(
                "the destination has {claim} already; remove it, or pass --dest-pvc-name"
            ));
        }
        let disk = translated.id.as_str();
        let mut volumes = self.volumes.iter();
        let other =
            volumes.find(|volume| extract::volume(volume, "").disk.as_deref() == Some(disk));
        if let Some(other) = other {
            let name = extract::name(other);
            all.push(format!(
                "PersistentVolume {name} of the destination names disk {disk} already; remove it"
            ));
        }
        all
    }
}

async fn moved(
    mover: &Mover<'_>,
    clusters: &MoverClusters,
    pair: &Pair,
    translated: &TranslatedPair,
) -> Result<Answer, Failure> {
    let why_not = wait_free(mover, async || {
        in_use(mover, &clusters.source, pair, translated).await
    })
    .await?;
    if let Some(waiting) = why_not {
        let remark = format!("{waiting}; nothing was written. Run the command again.");
        return Ok(Answer::table(&[], Vec::new(), Outcome::InProgress).with_remark(remark));
    }
    // Somebody else may have moved the disk while this waited for it.
    let namespace = mover.required(DEST_NAMESPACE);
    let target = Arrival::read(&clusters.destination, namespace, translated).await?;
    let obstacles = target.obstacles(namespace, translated);
    if !obstacles.is_empty() {
        return Ok(refused(obstacles.join("\n")));
    }
    clusters.destination.allow_writes();
    if let Err(why) = create(mover, &clusters.destination, translated).await? {
        return Ok(refused(why));
    }
    let (volume, claim) = (
        translated.pair.volume.title(),
        translated.pair.claim.title(),
    );
    let finding = Finding {
        name: claim.clone(),
        cells: vec![
            claim.clone(),
            volume.clone(),
            translated.id.to_string(),
            "Bound".to_owned(),
        ],
        full: json!({
            "claim": translated.pair.claim.value(), "volume": translated.pair.volume.value(),
            "volumeId": translated.id.as_str(),
        }),
    };
    let remark = format!(
        "Delete {} in the source before a pod there can use the disk again; its volume keeps the disk.",
        pair.claim.title()
    );
    let columns = &["claim", "volume", "volume-id", "state"];
    Ok(Answer::table(columns, vec![finding], Outcome::Holds).with_remark(remark))
}

/// What still uses the disk: first by the source cluster, then by EC2. A driver may report a detach too early,
/// and EC2 may show a disk as free that is still mounted.
async fn in_use(
    mover: &Mover<'_>,
    source: &UserCluster,
    pair: &Pair,
    translated: &TranslatedPair,
) -> Result<Option<String>, Failure> {
    let id = translated.id.as_str();
    let namespace = pair.claim.namespace();
    let pods = calls::list::<Pod>(source, namespace).await?;
    let state = ClusterState {
        pods: extract::by_name(&pods, extract::pod),
        volumes: extract::by_name(
            &calls::list::<PersistentVolume>(source, None).await?,
            |one| extract::volume(one, ""),
        ),
        attachments: calls::list::<VolumeAttachment>(source, None)
            .await?
            .iter()
            .filter_map(extract::attachment)
            .collect(),
        nodes: extract::by_name(&calls::list::<Node>(source, None).await?, extract::node),
        ..ClusterState::default()
    };
    if let Some(used) = remaining_use(&state, pair.claim.name(), pair.volume.name(), id, None) {
        return Ok(Some(format!("disk {id}: {used}")));
    }
    // A pod that is not scheduled yet would get the disk.
    if let Some(obstacle) = source_obstacles(pair, &pods).into_iter().next() {
        return Err(obstacle.into());
    }
    let ids = BTreeSet::from([id.to_owned()]);
    let disks = ec2::disks(mover.args, mover.clock.clone(), &ids).await?;
    let disk = disks.get(id).and_then(|read| read.disk.as_ref());
    Ok(obstacle(id, disk)?)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;
    use crate::translate::Document;
    use crate::translate::volume_id::VolumeId;

    const DISK: &str = "vol-0a1b2c3d";

    fn pair(policy: &str, claim_uid: &str) -> Pair {
        let volume = json!({
            "metadata": {"name": "pvc-1"},
            "spec": {
                "csi": {"driver": "ebs.csi.aws.com", "volumeHandle": DISK},
                "persistentVolumeReclaimPolicy": policy,
                "claimRef": {"namespace": "shop", "name": "data-web-0", "uid": "claim-1"},
            },
        });
        let claim = json!({
            "metadata": {"namespace": "shop", "name": "data-web-0", "uid": claim_uid},
            "spec": {"volumeName": "pvc-1"}, "status": {"phase": "Bound"},
        });
        Pair {
            volume: Document::read(volume).unwrap(),
            claim: Document::read(claim).unwrap(),
        }
    }

    fn pod(claim: &str, phase: &str) -> Value {
        let volume = json!({"persistentVolumeClaim": {"claimName": claim}});
        json!({"metadata": {"name": "web-0"}, "spec": {"volumes": [volume]}, "status": {"phase": phase}})
    }

    #[rstest]
    #[case::nothing(pair("Retain", "claim-1"), vec![], None)]
    #[case::another_claim(pair("Retain", "claim-1"), vec![pod("other", "Running")], None)]
    #[case::a_pod_that_has_ended(pair("Retain", "claim-1"), vec![pod("data-web-0", "Succeeded")], None)]
    #[case::a_consumer(pair("Retain", "claim-1"), vec![pod("data-web-0", "Running")], Some("is used by web-0"))]
    #[case::a_consumer_that_waits(pair("Retain", "claim-1"), vec![pod("data-web-0", "Pending")], Some("is used by web-0"))]
    #[case::delete(pair("Delete", "claim-1"), vec![], Some("need Retain"))]
    #[case::a_namesake(pair("Retain", "claim-2"), vec![], Some("are not bound to each other"))]
    fn a_pair_must_be_unused_and_retained(
        #[case] pair: Pair,
        #[case] pods: Vec<Value>,
        #[case] expected: Option<&str>,
    ) {
        let found = source_obstacles(&pair, &pods);
        assert_eq!(found.len(), usize::from(expected.is_some()), "{found:?}");
        assert!(
            found.iter().all(|one| one.contains(expected.unwrap())),
            "{found:?}"
        );
    }

    #[rstest]
    #[case::room(Some(json!({})), None, &[], &[])]
    #[case::no_namespace(None, None, &[], &["no namespace store"])]
    #[case::a_claim(Some(json!({})), Some(json!({})), &[], &["has PersistentVolumeClaim shop/data-web-0 already"])]
    #[case::the_disk(Some(json!({})), None, &[DISK], &["names disk vol-0a1b2c3d already"])]
    #[case::another_disk(Some(json!({})), None, &["vol-0a1b2c3e"], &[])]
    fn the_destination_must_have_room(
        #[case] namespace: Option<Value>,
        #[case] claim: Option<Value>,
        #[case] disks: &[&str],
        #[case] expected: &[&str],
    ) {
        let volume = |disk: &&str| json!({"metadata": {"name": "pv"}, "spec": {"csi": {"driver": "ebs.csi.aws.com", "volumeHandle": disk}}});
        let arrival = Arrival {
            namespace,
            claim,
            volumes: disks.iter().map(volume).collect(),
        };
        let translated = TranslatedPair {
            pair: pair("Retain", "claim-1"),
            id: VolumeId::parse(DISK).unwrap(),
        };
        let found = arrival.obstacles("store", &translated);
        assert_eq!(found.len(), expected.len(), "{found:?}");
        for (found, expected) in found.iter().zip(expected) {
            assert!(found.contains(expected), "{found}");
        }
    }
}
