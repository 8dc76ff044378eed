//! What the run would make at the destination, and how an object of ours there differs from it.

use k8s_openapi::Resource;
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use kernel::Ownership;
use serde::Serialize;

use super::moved_claims::SetClaim;
use super::reading::Unread;
use super::survey::Survey;
use crate::record::marker::ownership;
use crate::translate::classes::ClassMapping;
use crate::translate::matches::differing_fields;
use crate::translate::names::ClaimOfVolume;
use crate::translate::pair::Pair;
use crate::translate::volume_id::VolumeId;
use crate::translate::{
    Destination, Document, PairTarget, RunMarker, dest_pair, dest_stateful_set, names,
};

/// A field that older servers do not have, so that they drop it.
const RETENTION: &str = "/spec/persistentVolumeClaimRetentionPolicy";

/// An object as a document; none if it has no name.
fn document<K: Serialize + Resource>(object: &K) -> Option<Document<K>> {
    let value = serde_json::to_value(object).expect("a Kubernetes object is JSON");
    Document::read(value).ok()
}

/// The name of the PersistentVolume of a claim at the destination; none if its volume is not EBS.
pub(super) fn volume_name(
    survey: &Survey,
    claim: &SetClaim<'_>,
    volumes: &[PersistentVolume],
) -> Option<String> {
    let source = claim.volume_name();
    let id = VolumeId::parse(&claim.volume_id()?)?;
    let is_foreign = |volume: &PersistentVolume| {
        let owner = ownership(volume.metadata.annotations.as_ref(), &survey.run);
        volume.metadata.name.as_deref() == Some(source) && owner != Ownership::Ours
    };
    let of_volume = ClaimOfVolume {
        id: &id,
        namespace: &survey.spec.dest_namespace,
        name: &claim.name,
    };
    let is_foreign = volumes.iter().any(is_foreign);
    Some(names::volume_name(source, is_foreign, &of_volume))
}

fn with_destination<T>(survey: &Survey, made: impl FnOnce(&Destination<'_>) -> T) -> T {
    let classes = ClassMapping::new(survey.spec.storage_class_mapping.clone());
    made(&Destination {
        namespace: &survey.spec.dest_namespace,
        classes: &classes,
        run: Some(RunMarker {
            run_id: &survey.run,
            migration_id: &survey.spec.migration_id,
        }),
    })
}

/// What the run would make of the StatefulSet of the source; none if it has no name.
pub(crate) fn arriving_set(
    survey: &Survey,
    source: &StatefulSet,
    replicas: i32,
) -> Option<Document<StatefulSet>> {
    let source = document(source)?;
    Some(with_destination(survey, |to| {
        dest_stateful_set(&source, to, replicas)
    }))
}

/// The fields of a StatefulSet of ours that are not as translated, but for its replicas.
pub(super) fn different_set_fields(
    survey: &Survey,
    source: &StatefulSet,
    live: &StatefulSet,
) -> Vec<String> {
    let replicas = live
        .spec
        .as_ref()
        .and_then(|spec| spec.replicas)
        .unwrap_or(0);
    let sent = arriving_set(survey, source, replicas);
    let (Some(sent), Some(document)) = (sent, document(live)) else {
        return vec!["/metadata/name".to_owned()];
    };
    let mut fields = differing_fields(&sent, &document);
    fields.retain(|field| !field.starts_with(RETENTION));
    fields
}

/// What the run would make of a claim and its volume. None where the source cannot be translated: that is the
/// finding of another check.
pub(crate) fn arriving_pair(survey: &Survey, claim: &SetClaim<'_>) -> Result<Option<Pair>, Unread> {
    let volumes = survey
        .destination
        .volumes
        .get("PersistentVolumes of the destination")?;
    let disks = survey.ec2.volumes.get("EBS volumes of the StatefulSet")?;
    let pair = || {
        let source = Pair {
            volume: document(claim.volume?)?,
            claim: document(claim.claim?)?,
        };
        let name = volume_name(survey, claim, volumes)?;
        let target = PairTarget {
            volume: &name,
            claim: &claim.name,
            zone: &disks.get(&claim.volume_id()?)?.zone,
        };
        with_destination(survey, |to| dest_pair(&source, to, &target)).ok()
    };
    Ok(pair())
}

/// The fields of a volume or claim of ours that are not as translated. None where the source cannot be
/// translated.
pub(super) fn different_pair_fields(
    survey: &Survey,
    claim: &SetClaim<'_>,
    live_volume: Option<&PersistentVolume>,
    live_claim: Option<&PersistentVolumeClaim>,
) -> Result<Vec<String>, Unread> {
    let Some(sent) = arriving_pair(survey, claim)? else {
        return Ok(Vec::new());
    };
    let mut fields = Vec::new();
    if let Some(live) = live_volume.and_then(document) {
        fields.extend(differing_fields(&sent.volume, &live));
    }
    if let Some(live) = live_claim.and_then(document) {
        fields.extend(differing_fields(&sent.claim, &live));
    }
    Ok(fields)
}
