//! The claims of the StatefulSet with their volumes.

use api::migrate::DormantClaims;
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};

use super::reading::Unread;
use super::survey::{Ec2Volume, Survey};
use crate::migration::observation::Side;
use crate::translate::Document;
use crate::translate::names::ClaimNames;
use crate::translate::volume_id::{EbsSource, NotEbs, ebs_source};
use crate::translate::window::Window;

/// A claim named after the StatefulSet, with what it is bound to.
#[derive(Debug, Clone)]
pub(crate) struct SetClaim<'a> {
    /// Its ordinal.
    pub(crate) ordinal: i32,
    /// Whether its ordinal is outside the window, so that no pod uses it.
    pub(crate) is_dormant: bool,
    /// Its name.
    pub(crate) name: String,
    /// The claim, if it exists.
    pub(crate) claim: Option<&'a PersistentVolumeClaim>,
    /// The PersistentVolume that the claim names, if that exists.
    pub(crate) volume: Option<&'a PersistentVolume>,
}

impl SetClaim<'_> {
    /// The id of its EBS volume; none if it has no volume, or none of EBS.
    pub(crate) fn volume_id(&self) -> Option<String> {
        Some(ebs(self.volume?).ok()?.id.to_string())
    }

    /// The name of its PersistentVolume.
    pub(super) fn volume_name(&self) -> &str {
        let claim = self.claim.and_then(|claim| claim.spec.as_ref());
        claim
            .and_then(|spec| spec.volume_name.as_deref())
            .unwrap_or_default()
    }
}

/// What the volume declares of its EBS volume.
pub(super) fn ebs(volume: &PersistentVolume) -> Result<EbsSource, NotEbs> {
    let value = serde_json::to_value(volume).expect("a PersistentVolume is JSON");
    let refused = |wrong: crate::translate::document::WrongKind| NotEbs::Source {
        found: wrong.to_string(),
    };
    ebs_source(&Document::read(value).map_err(refused)?)
}

/// The window of a StatefulSet.
pub(crate) fn window(set: &StatefulSet) -> Window {
    let spec = set.spec.as_ref();
    let ordinals = spec.and_then(|spec| spec.ordinals.as_ref());
    Window {
        start: ordinals.and_then(|ordinals| ordinals.start).unwrap_or(0),
        replicas: spec.and_then(|spec| spec.replicas).unwrap_or(1),
    }
}

/// The names of the volumeClaimTemplates of a StatefulSet.
pub(super) fn templates(set: &StatefulSet) -> Vec<String> {
    let spec = set.spec.as_ref();
    let templates = spec.and_then(|spec| spec.volume_claim_templates.as_deref());
    let names = templates.unwrap_or_default().iter();
    names
        .filter_map(|template| template.metadata.name.clone())
        .collect()
}

/// The claims that the run would move: those of the window, whether they exist or not, and with policy
/// `Move` the dormant ones.
pub(crate) fn moved_claims(survey: &Survey) -> Result<Vec<SetClaim<'_>>, Unread> {
    let mut claims = set_claims(survey)?;
    if survey.spec.dormant_claims != DormantClaims::Move {
        claims.retain(|claim| !claim.is_dormant);
    }
    Ok(claims)
}

/// The claims of the window, whether they exist or not, and all dormant ones.
pub(crate) fn set_claims(survey: &Survey) -> Result<Vec<SetClaim<'_>>, Unread> {
    let set = survey.set()?;
    let subject = |kind| survey.all_of(Side::Source, kind);
    let claims = survey
        .source
        .claims
        .get(subject("PersistentVolumeClaims"))?;
    let volumes = survey
        .source
        .volumes
        .get("PersistentVolumes of the source")?;
    let window = window(set);
    let templates = templates(set);
    let names = ClaimNames {
        stateful_set: &survey.spec.stateful_set_name,
        templates: &templates,
    };
    let found = |name: String, ordinal: i32, is_dormant: bool| {
        let claim = claims
            .iter()
            .find(|claim| claim.metadata.name.as_deref() == Some(&*name));
        SetClaim {
            ordinal,
            is_dormant,
            claim,
            volume: claim.and_then(|claim| volume_of(claim, volumes)),
            name,
        }
    };
    let of_window = window.ordinals().flat_map(|ordinal| {
        let claims = names.claim_set(ordinal).into_iter();
        claims.map(move |name| (name, ordinal))
    });
    let mut set_claims: Vec<_> = of_window
        .map(|(name, ordinal)| found(name, ordinal, false))
        .collect();
    let existing = claims
        .iter()
        .filter_map(|claim| claim.metadata.name.as_deref());
    for claim in names.dormant(existing, window) {
        let name = format!(
            "{}-{}-{}",
            claim.template, names.stateful_set, claim.ordinal
        );
        set_claims.push(found(name, claim.ordinal, true));
    }
    Ok(set_claims)
}

/// The PersistentVolume that a claim names.
fn volume_of<'a>(
    claim: &PersistentVolumeClaim,
    volumes: &'a [PersistentVolume],
) -> Option<&'a PersistentVolume> {
    let name = claim.spec.as_ref()?.volume_name.as_deref()?;
    let mut volumes = volumes.iter();
    volumes.find(|volume| volume.metadata.name.as_deref() == Some(name))
}

/// A claim of the set, its EBS volume as EC2 shows it.
pub(super) struct Disk<'a> {
    /// The claim.
    pub(super) claim: SetClaim<'a>,
    /// The id.
    pub(super) id: String,
    /// What EC2 shows; none if it does not have the id.
    pub(super) volume: Option<&'a Ec2Volume>,
}

/// The EBS volumes that the run would move. Claims without one are findings of other checks.
pub(super) fn disks(survey: &Survey) -> Result<Vec<Disk<'_>>, Unread> {
    let claims = moved_claims(survey)?;
    let mut with_ids = claims
        .into_iter()
        .filter_map(|claim| claim.volume_id().map(|id| (claim, id)))
        .peekable();
    if with_ids.peek().is_none() {
        return Ok(Vec::new());
    }
    let volumes = survey.ec2.volumes.get("EBS volumes of the StatefulSet")?;
    Ok(with_ids
        .map(|(claim, id)| Disk {
            volume: volumes.get(&id),
            claim,
            id,
        })
        .collect())
}
