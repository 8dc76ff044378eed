//! What a run makes, from its capture: the objects of the destination, tombstones, restored claims. Pure.

use std::collections::{BTreeMap, BTreeSet};

use api::migrate::StatefulSetMigrationSpec;
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use serde_json::Value;

use super::handover::HandoverClaim;
use crate::record::capture::Capture;
use crate::translate::classes::ClassMapping;
use crate::translate::document::WrongKind;
use crate::translate::names::{ClaimNames, ClaimOfVolume, volume_name};
use crate::translate::pair::{Pair, PairRefusal};
use crate::translate::restored::restored_claim;
use crate::translate::tombstone::tombstone;
use crate::translate::volume_id::{NotEbs, ebs_source};
use crate::translate::{
    Destination, Document, PairTarget, RunMarker, dest_pair, dest_stateful_set,
};

/// Everything that a run makes.
#[derive(Debug, Clone, PartialEq)]
pub struct Rendered {
    /// The volumes and claims of the destination, by name of the claim.
    pub pairs: BTreeMap<String, Pair>,
    /// The StatefulSet of the destination, without replicas.
    pub set: Document<StatefulSet>,
    /// The claims of each ordinal, dormant ones too.
    pub claims: BTreeMap<i32, Vec<HandoverClaim>>,
}

/// Why a capture cannot be translated. It prints as what was found and what is needed.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum Refusal {
    /// An object is of another kind.
    #[error(transparent)]
    Kind(#[from] WrongKind),
    /// A volume is no EBS volume.
    #[error("volume {volume}: {reason}")]
    NotEbs {
        /// The volume.
        volume: String,
        /// Why.
        reason: NotEbs,
    },
    /// A volume and its claim cannot move.
    #[error("claim {claim}: {reason}")]
    Pair {
        /// The claim.
        claim: String,
        /// Why.
        reason: PairRefusal,
    },
    /// A claim has no volume in the capture.
    #[error("claim {0}: found no volume in the capture, need the one that it is bound to")]
    NoVolume(String),
}

/// What the capture is translated for.
#[derive(Debug, Clone, Copy)]
pub struct Translation<'a> {
    /// The spec of the migration.
    pub spec: &'a StatefulSetMigrationSpec,
    /// The id of the run.
    pub run: &'a str,
    /// The ordinals that move, with dormant ones.
    pub ordinals: &'a BTreeSet<i32>,
    /// The zone of each disk, as EC2 shows it.
    pub zones: &'a BTreeMap<String, String>,
    /// The names of PersistentVolumes at the destination that are not of this run.
    pub foreign_volumes: &'a BTreeSet<String>,
    /// The names of those that this run has made, by claim: they stay, whatever foreign ones come or go.
    pub own_volumes: &'a BTreeMap<String, String>,
}

/// Translates a capture. Translating it again gives the same; until the volumes are recorded, as long as no foreign
/// one comes or goes.
///
/// # Errors
/// The capture has something that cannot move.
pub fn rendered(capture: &Capture, translation: &Translation<'_>) -> Result<Rendered, Refusal> {
    let spec = translation.spec;
    let source: Document<StatefulSet> = Document::read(capture.stateful_set().clone())?;
    let classes = ClassMapping::new(spec.storage_class_mapping.clone());
    let to = Destination {
        namespace: &spec.dest_namespace,
        classes: &classes,
        run: Some(RunMarker {
            run_id: translation.run,
            migration_id: &spec.migration_id,
        }),
    };
    let templates = templates(&source);
    let names = ClaimNames {
        stateful_set: &spec.stateful_set_name,
        templates: &templates,
    };
    let mut all = Rendered {
        pairs: BTreeMap::new(),
        set: dest_stateful_set(&source, &to, 0),
        claims: BTreeMap::new(),
    };
    for captured in capture.claims() {
        let claim: Document<PersistentVolumeClaim> = Document::read(captured.clone())?;
        let of_set = names.parse(claim.name());
        let Some(of_set) = of_set.filter(|of_set| translation.ordinals.contains(&of_set.ordinal))
        else {
            continue;
        };
        let volume = bound_volume(capture, &claim)?;
        let pair = Pair { volume, claim };
        let (translated, moved) = translated(&pair, translation, &to, of_set.ordinal)?;
        all.pairs.insert(moved.name.clone(), translated);
        all.claims.entry(of_set.ordinal).or_default().push(moved);
    }
    Ok(all)
}

/// The names of the volumeClaimTemplates of a StatefulSet.
pub fn templates(set: &Document<StatefulSet>) -> Vec<String> {
    let templates = set
        .field("/spec/volumeClaimTemplates")
        .and_then(Value::as_array);
    let names = templates.into_iter().flatten();
    let names = names.filter_map(|template| template["metadata"]["name"].as_str());
    names.map(str::to_owned).collect()
}

fn bound_volume(
    capture: &Capture,
    claim: &Document<PersistentVolumeClaim>,
) -> Result<Document<PersistentVolume>, Refusal> {
    let volume = claim
        .text("/spec/volumeName")
        .and_then(|name| capture.volume(name));
    let volume = volume.ok_or_else(|| Refusal::NoVolume(claim.name().to_owned()))?;
    Ok(Document::read(volume.clone())?)
}

fn translated(
    pair: &Pair,
    translation: &Translation<'_>,
    to: &Destination<'_>,
    ordinal: i32,
) -> Result<(Pair, HandoverClaim), Refusal> {
    let (volume, claim) = (&pair.volume, &pair.claim);
    let source = ebs_source(volume).map_err(|reason| Refusal::NotEbs {
        volume: volume.name().to_owned(),
        reason,
    })?;
    let disk = source.id.as_str();
    let of_volume = ClaimOfVolume {
        id: &source.id,
        namespace: to.namespace,
        name: claim.name(),
    };
    let is_foreign = translation.foreign_volumes.contains(volume.name());
    let own = translation.own_volumes.get(claim.name()).cloned();
    let target = PairTarget {
        volume: &own.unwrap_or_else(|| volume_name(volume.name(), is_foreign, &of_volume)),
        claim: claim.name(),
        zone: translation.zones.get(disk).map_or("", String::as_str),
    };
    let new = dest_pair(pair, to, &target).map_err(|reason| Refusal::Pair {
        claim: claim.name().to_owned(),
        reason,
    })?;
    let fence = |claim| tombstone(claim, translation.run, ordinal).into_value();
    let moved = HandoverClaim {
        name: claim.name().to_owned(),
        disk: disk.to_owned(),
        source_volume: volume.name().to_owned(),
        destination_volume: new.volume.name().to_owned(),
        source_tombstone: fence(claim),
        destination_tombstone: fence(&new.claim),
        restored: restored_claim(claim).into_value(),
    };
    Ok((new, moved))
}
