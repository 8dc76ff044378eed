//! Empty disks for new claims, and the end of disks whose PersistentVolume has policy Delete.

use std::{sync::Arc, time::Duration};

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::{
    core::v1::{PersistentVolume, PersistentVolumeClaim},
    storage::v1::StorageClass,
};
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, PostParams, Preconditions},
};
use serde_json::json;
use tokio::time::sleep;

use super::{
    DRIVER, Simulation, done_if_gone,
    ec2::NewVolume,
    finalizers::{with_finalizer, without_finalizer},
    nodes::zone_of,
    volume_id,
};

const FINALIZER: &str = "external-provisioner.volume.kubernetes.io/finalizer";
/// The PersistentVolume controller names here who makes the disk of a claim.
const PROVISIONER: &str = "volume.kubernetes.io/storage-provisioner";
/// The scheduler names here where the pod of the claim will run.
const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";
/// Who made a disk.
pub(super) const PROVISIONED_BY: &str = "pv.kubernetes.io/provisioned-by";
/// The pause between two reads of a new volume.
const POLL: Duration = Duration::from_millis(250);

/// Makes an empty disk for a claim that needs one.
pub(super) async fn provision(simulation: Arc<Simulation>, claim: Arc<PersistentVolumeClaim>) {
    let uid = claim.uid().unwrap_or_default();
    let due = |claim: &PersistentVolumeClaim| needs_disk(claim).then(|| claim.clone());
    let Some(claim) = simulation.claims.until_one(&uid, due).await else {
        return;
    };
    let name = format!(
        "{}/{}",
        claim.namespace().unwrap_or_default(),
        claim.name_any()
    );
    let action = format!("making a disk for claim {name}");
    let make = async || make_disk(&simulation, &claim, &uid).await;
    simulation.errors.retried(&action, make).await;
}

fn needs_disk(claim: &PersistentVolumeClaim) -> bool {
    let is_ours = claim
        .annotations()
        .get(PROVISIONER)
        .is_some_and(|name| name == DRIVER);
    let volume = claim
        .spec
        .as_ref()
        .and_then(|spec| spec.volume_name.as_deref());
    is_ours && volume.is_none_or(str::is_empty) && claim.metadata.deletion_timestamp.is_none()
}

async fn make_disk(
    simulation: &Simulation,
    claim: &PersistentVolumeClaim,
    uid: &str,
) -> Result<()> {
    let claims = Api::<PersistentVolumeClaim>::namespaced(
        simulation.client.clone(),
        &claim.namespace().unwrap_or_default(),
    );
    let live = claims.get_opt(&claim.name_any()).await?;
    let Some(claim) = live.filter(|live| live.uid().as_deref() == Some(uid) && needs_disk(live))
    else {
        return Ok(());
    };
    let spec = claim.spec.clone().unwrap_or_default();
    let class = spec.storage_class_name.clone().unwrap_or_default();
    let classes = Api::<StorageClass>::all(simulation.client.clone());
    let class = classes
        .get(&class)
        .await
        .context("cannot read its StorageClass")?;
    let selected = claim.annotations().get(SELECTED_NODE);
    let selected = selected.and_then(|name| simulation.node(name));
    let zone = selected
        .as_deref()
        .and_then(zone_of)
        .or_else(|| simulation.first_zone());
    let zone = zone.context("no node has a zone")?;
    let requests = spec.resources.and_then(|resources| resources.requests);
    let size = requests.and_then(|requests| requests.get("storage").cloned());
    let size = size.context("it requests no storage")?.0;
    let parameters = class.parameters.unwrap_or_default();
    let kind = parameters.get("type").map_or("gp3", String::as_str);
    let (namespace, name) = (claim.namespace().unwrap_or_default(), claim.name_any());
    let object = format!("pvc-{uid}");
    let tags = [
        ("ebs.csi.aws.com/cluster", "true"),
        ("CSIVolumeName", object.as_str()),
        ("kubernetes.io/created-for/pvc/name", name.as_str()),
        (
            "kubernetes.io/created-for/pvc/namespace",
            namespace.as_str(),
        ),
        ("kubernetes.io/created-for/pv/name", object.as_str()),
    ];
    let new = NewVolume {
        zone: &zone,
        gibibytes: gibibytes(&size),
        kind,
        token: uid,
        tags: &tags,
    };
    let volume = simulation.ec2.create(new).await?;
    while simulation.ec2.describe(&volume).await?.state == "creating" {
        sleep(simulation.span(POLL)).await;
    }
    let policy = class.reclaim_policy.unwrap_or_else(|| "Delete".to_owned());
    let finalizers: &[&str] = if policy == "Delete" {
        &[FINALIZER]
    } else {
        &[]
    };
    let made = serde_json::from_value(json!({
        "metadata": {
            "name": object, "finalizers": finalizers,
            "annotations": { PROVISIONED_BY: DRIVER },
        },
        "spec": {
            "capacity": { "storage": size }, "accessModes": spec.access_modes,
            "volumeMode": spec.volume_mode, "mountOptions": class.mount_options,
            "persistentVolumeReclaimPolicy": policy, "storageClassName": class.metadata.name,
            "claimRef": {
                "apiVersion": "v1", "kind": "PersistentVolumeClaim",
                "namespace": namespace, "name": name, "uid": uid,
            },
            "csi": { "driver": DRIVER, "volumeHandle": volume, "fsType": "ext4" },
            "nodeAffinity": zone_affinity(&zone),
        },
    }))?;
    let volumes = Api::<PersistentVolume>::all(simulation.client.clone());
    match volumes.create(&PostParams::default(), &made).await {
        Err(kube::Error::Api(status)) if status.code == 409 => Ok(()),
        created => Ok(created.map(drop)?),
    }
}

/// The node affinity of a volume in a zone.
pub(super) fn zone_affinity(zone: &str) -> serde_json::Value {
    let zones = json!({
        "key": "topology.kubernetes.io/zone", "operator": "In", "values": [zone],
    });
    json!({ "required": { "nodeSelectorTerms": [{ "matchExpressions": [zones] }] } })
}

/// The size of a volume for a request, in whole GiB.
fn gibibytes(request: &str) -> u64 {
    let digits = request.trim_end_matches(|letter: char| !letter.is_ascii_digit());
    let number: u64 = digits.parse().unwrap_or(1);
    match &request[digits.len()..] {
        "Ti" => number * 1024,
        "Mi" => number.div_ceil(1024),
        "" => number.div_ceil(1 << 30),
        _ => number,
    }
}

/// What a PersistentVolume needs from its provisioner.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Need {
    Finalizer,
    NoFinalizer,
    Deletion,
}

/// Follows the reclaim policy of a PersistentVolume until the object is gone.
pub(super) async fn reclaim(simulation: Arc<Simulation>, volume: Arc<PersistentVolume>) {
    let uid = volume.uid().unwrap_or_default();
    let name = volume.name_any();
    let mut done = None;
    loop {
        // The cache still has the state before the last write for a moment.
        let due = |one: &PersistentVolume| {
            let need = (one.resource_version() != done).then(|| need(one))??;
            Some((need, one.resource_version(), volume_id(one)))
        };
        let Some((need, version, disk)) = simulation.volumes.until_one(&uid, due).await else {
            return;
        };
        let outcome = meet(&simulation, need, &name, &uid, disk.as_deref()).await;
        let action = format!("PersistentVolume {name}: {need:?}");
        simulation.errors.record(&action, &outcome);
        if outcome.is_ok() {
            done = version;
        } else {
            simulation.pause().await;
        }
    }
}

fn need(volume: &PersistentVolume) -> Option<Need> {
    let is_ours = volume
        .annotations()
        .get(PROVISIONED_BY)
        .is_some_and(|name| name == DRIVER);
    let policy = volume
        .spec
        .as_ref()?
        .persistent_volume_reclaim_policy
        .as_deref();
    let deletes = is_ours && policy == Some("Delete");
    let phase = volume
        .status
        .as_ref()
        .and_then(|status| status.phase.as_deref());
    let is_deleted = volume.metadata.deletion_timestamp.is_some();
    let has_finalizer = volume.finalizers().iter().any(|one| one == FINALIZER);
    let ends = phase == Some("Released") || is_deleted && phase != Some("Bound");
    if deletes && ends && has_finalizer {
        Some(Need::Deletion)
    } else if deletes && !has_finalizer && !is_deleted {
        Some(Need::Finalizer)
    } else if !deletes && has_finalizer {
        Some(Need::NoFinalizer)
    } else {
        None
    }
}

async fn meet(
    simulation: &Simulation,
    need: Need,
    name: &str,
    uid: &str,
    disk: Option<&str>,
) -> Result<()> {
    let volumes = Api::<PersistentVolume>::all(simulation.client.clone());
    match need {
        Need::Finalizer => with_finalizer(&volumes, name, FINALIZER).await,
        Need::NoFinalizer => without_finalizer(&volumes, name, FINALIZER).await,
        Need::Deletion => {
            let in_use = simulation
                .attachments
                .find(|one| one.spec.source.persistent_volume_name.as_deref() == Some(name));
            ensure!(in_use.is_none(), "it is still attached");
            match simulation.ec2.delete(disk.unwrap_or_default()).await {
                Err(error) if error.is_absence() => {}
                outcome => outcome?,
            }
            let params = DeleteParams {
                preconditions: Some(Preconditions {
                    uid: Some(uid.to_owned()),
                    resource_version: None,
                }),
                ..DeleteParams::default()
            };
            done_if_gone(volumes.delete(name, &params).await)?;
            without_finalizer(&volumes, name, FINALIZER).await
        }
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::Value;

    use super::*;

    fn volume(policy: &str, phase: &str, deleted: bool, finalizers: &[&str]) -> PersistentVolume {
        let deleted = if deleted {
            json!("2026-01-01T00:00:00Z")
        } else {
            Value::Null
        };
        serde_json::from_value(json!({
            "metadata": {
                "name": "a", "finalizers": finalizers, "deletionTimestamp": deleted,
                "annotations": { PROVISIONED_BY: DRIVER },
            },
            "spec": { "persistentVolumeReclaimPolicy": policy },
            "status": { "phase": phase },
        }))
        .expect("a PersistentVolume")
    }

    #[rstest]
    #[case::delete_needs_the_finalizer("Delete", "Bound", false, &[], Some(Need::Finalizer))]
    #[case::bound_is_steady("Delete", "Bound", false, &[FINALIZER], None)]
    #[case::released_loses_its_disk("Delete", "Released", false, &[FINALIZER], Some(Need::Deletion))]
    #[case::deleted_loses_its_disk("Delete", "Available", true, &[FINALIZER], Some(Need::Deletion))]
    #[case::deleted_but_bound_waits("Delete", "Bound", true, &[FINALIZER], None)]
    #[case::retain_frees_the_object("Retain", "Bound", false, &[FINALIZER], Some(Need::NoFinalizer))]
    #[case::released_retain_is_kept("Retain", "Released", false, &[], None)]
    #[case::deleted_without_finalizer_ends("Delete", "Released", true, &[], None)]
    fn the_policy_decides(
        #[case] policy: &str,
        #[case] phase: &str,
        #[case] deleted: bool,
        #[case] finalizers: &[&str],
        #[case] expected: Option<Need>,
    ) {
        assert_eq!(need(&volume(policy, phase, deleted, finalizers)), expected);
    }

    #[rstest]
    #[case::gibibytes("10Gi", 10)]
    #[case::tebibytes("2Ti", 2048)]
    #[case::rounded_up("1500Mi", 2)]
    #[case::bytes("1073741825", 2)]
    fn sizes_are_whole_gibibytes(#[case] request: &str, #[case] expected: u64) {
        assert_eq!(gibibytes(request), expected);
    }
}
