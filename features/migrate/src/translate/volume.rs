//! A PersistentVolume at the destination.

use api::migrate::names::{
    DEST_NAMESPACE_LABEL, DEST_PVC_LABEL, MIGRATED_LABEL, SOURCE_PV_LABEL, SOURCE_PV_UID, VOLUME_ID,
};
use k8s_openapi::api::core::v1::PersistentVolume;
use serde_json::{Map, Value, json};

use super::keys::{self, IN_TREE_PROVISIONER, LEGACY_CLASS, PROVISIONED_BY};
use super::metadata::Metadata;
use super::volume_id::{DRIVER, EbsSource, NotEbs, ebs_source};
use super::zone::{ZoneRefusal, node_affinity};
use super::{Destination, Document, PairTarget};

/// Why a PersistentVolume cannot move. It prints as what was found and what is needed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum VolumeRefusal {
    /// It is no EBS volume.
    #[error(transparent)]
    NotEbs(#[from] NotEbs),
    /// Its zone is contradictory.
    #[error(transparent)]
    Zone(#[from] ZoneRefusal),
}

/// The PersistentVolume of the same disk at the destination, bound to its claim by name.
///
/// | part                         | at the destination                                           |
/// |------------------------------|--------------------------------------------------------------|
/// | csi                          | the same                                                     |
/// | awsElasticBlockStore         | csi with fsType, readOnly and partition                      |
/// | persistentVolumeReclaimPolicy | `Retain`                                                    |
/// | storageClassName             | renamed                                                      |
/// | claimRef                     | the claim by name, never by UID                              |
/// | nodeAffinity                 | by [`node_affinity`]                                         |
/// | every other field of spec    | the same                                                     |
/// | labels and annotations       | the user's, and those of a migration                         |
/// | all other metadata, status   | dropped                                                      |
///
/// # Errors
/// The volume is no EBS volume, or its zone is contradictory.
pub(super) fn dest_volume(
    source: &Document<PersistentVolume>,
    to: &Destination<'_>,
    target: &PairTarget<'_>,
) -> Result<Document<PersistentVolume>, VolumeRefusal> {
    let ebs = ebs_source(source)?;
    let affinity = node_affinity(source, ebs.zone.as_deref(), target.zone)?;
    let mut spec = source.spec();
    if let Some(in_tree) = spec.remove("awsElasticBlockStore") {
        spec.insert("csi".to_owned(), csi(&ebs, &in_tree));
    }
    to.classes.rename_in_spec(&mut spec);
    spec.insert("persistentVolumeReclaimPolicy".to_owned(), "Retain".into());
    spec.insert("nodeAffinity".to_owned(), affinity);
    spec.insert("claimRef".to_owned(), claim_ref(to.namespace, target.claim));
    let metadata = metadata(source, &ebs, to, target);
    Ok(Document::made(metadata.into_value(), spec.into()))
}

fn csi(ebs: &EbsSource, in_tree: &Value) -> Value {
    let mut csi = Map::new();
    csi.insert("driver".to_owned(), DRIVER.into());
    csi.insert("volumeHandle".to_owned(), ebs.id.as_str().into());
    for field in ["fsType", "readOnly"] {
        if let Some(value) = in_tree.get(field).filter(|value| !value.is_null()) {
            csi.insert(field.to_owned(), value.clone());
        }
    }
    let partition = in_tree.get("partition").and_then(Value::as_i64);
    if let Some(partition) = partition.filter(|partition| *partition != 0) {
        let attributes = json!({"partition": partition.to_string()});
        csi.insert("volumeAttributes".to_owned(), attributes);
    }
    csi.into()
}

/// Without a UID the volume waits for whichever claim has this name.
fn claim_ref(namespace: &str, claim: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "namespace": namespace,
        "name": claim,
    })
}

fn metadata(
    source: &Document<PersistentVolume>,
    ebs: &EbsSource,
    to: &Destination<'_>,
    target: &PairTarget<'_>,
) -> Metadata {
    let mut metadata = Metadata::new(target.volume, None)
        .with_user_keys(source, keys::is_dropped_from_volume)
        .with_marker(to.run);
    let provisioner = |found: &str| match found {
        IN_TREE_PROVISIONER => DRIVER.to_owned(),
        other => other.to_owned(),
    };
    metadata.change_annotation(PROVISIONED_BY, provisioner);
    metadata.change_annotation(LEGACY_CLASS, |class| to.classes.renamed(class).to_owned());
    metadata.label(MIGRATED_LABEL, "true");
    metadata.label(SOURCE_PV_LABEL, source.name());
    metadata.label(DEST_NAMESPACE_LABEL, to.namespace);
    metadata.label(DEST_PVC_LABEL, target.claim);
    metadata.annotate(SOURCE_PV_UID, source.uid().unwrap_or_default());
    metadata.annotate(VOLUME_ID, ebs.id.as_str());
    metadata
}

#[cfg(test)]
mod tests;
