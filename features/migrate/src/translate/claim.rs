//! A PersistentVolumeClaim at the destination.

use api::migrate::names::{MIGRATED_LABEL, SOURCE_PVC_LABEL, SOURCE_PVC_UID, VOLUME_ID};
use k8s_openapi::api::core::v1::PersistentVolumeClaim;

use super::keys::{self, LEGACY_CLASS};
use super::metadata::Metadata;
use super::volume_id::VolumeId;
use super::{Destination, Document, PairTarget};

/// Fields of the spec that would make the destination look for another volume.
const DROPPED: [&str; 3] = ["dataSource", "dataSourceRef", "selector"];

/// The claim at the destination, bound to its volume by name.
///
/// | part                          | at the destination                                      |
/// |-------------------------------|---------------------------------------------------------|
/// | storageClassName              | renamed; unset stays unset, and empty stays empty       |
/// | volumeName                    | the volume at the destination                           |
/// | dataSource, dataSourceRef, selector | dropped                                           |
/// | every other field of spec     | the same                                                |
/// | labels and annotations        | the user's, and those of a migration                    |
/// | all other metadata, status    | dropped                                                 |
pub(super) fn dest_claim(
    source: &Document<PersistentVolumeClaim>,
    id: &VolumeId,
    to: &Destination<'_>,
    target: &PairTarget<'_>,
) -> Document<PersistentVolumeClaim> {
    let mut spec = source.spec();
    spec.retain(|field, _| !DROPPED.contains(&&**field));
    to.classes.rename_in_spec(&mut spec);
    spec.insert("volumeName".to_owned(), target.volume.into());

    let mut metadata = Metadata::new(target.claim, Some(to.namespace))
        .with_user_keys(source, keys::is_dropped_from_claim)
        .with_marker(to.run);
    metadata.change_annotation(LEGACY_CLASS, |class| to.classes.renamed(class).to_owned());
    metadata.label(MIGRATED_LABEL, "true");
    metadata.label(SOURCE_PVC_LABEL, source.name());
    metadata.annotate(SOURCE_PVC_UID, source.uid().unwrap_or_default());
    metadata.annotate(VOLUME_ID, id.as_str());
    Document::made(metadata.into_value(), spec.into())
}

#[cfg(test)]
mod tests;
