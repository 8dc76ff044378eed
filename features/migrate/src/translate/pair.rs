//! A volume with its claim at the destination.

use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};

use super::claim::dest_claim;
use super::verify::{Difference, differences};
use super::volume::{VolumeRefusal, dest_volume};
use super::volume_id::ebs_source;
use super::{Destination, Document, PairTarget};

/// A PersistentVolume and the claim that it is bound to.
#[derive(Debug, Clone, PartialEq)]
pub struct Pair {
    /// The volume.
    pub volume: Document<PersistentVolume>,
    /// The claim.
    pub claim: Document<PersistentVolumeClaim>,
}

/// Why a pair cannot move. It prints as what was found and what is needed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PairRefusal {
    /// The volume cannot move.
    #[error(transparent)]
    Volume(#[from] VolumeRefusal),
    /// The translation is not what the contract promises; the source may contradict itself.
    #[error("the translation differs from the source: {}", joined(.0))]
    Differs(Vec<Difference>),
}

/// The pair at the destination, verified.
///
/// Translating the same source twice gives the same pair.
///
/// # Errors
/// The volume cannot move, or the verification found differences.
pub fn dest_pair(
    source: &Pair,
    to: &Destination<'_>,
    target: &PairTarget<'_>,
) -> Result<Pair, PairRefusal> {
    let id = ebs_source(&source.volume).map_err(VolumeRefusal::from)?.id;
    let pair = Pair {
        volume: dest_volume(&source.volume, to, target)?,
        claim: dest_claim(&source.claim, &id, to, target),
    };
    let differences = differences(source, &pair, to, target);
    if differences.is_empty() {
        Ok(pair)
    } else {
        Err(PairRefusal::Differs(differences))
    }
}

fn joined(differences: &[Difference]) -> String {
    let differences: Vec<String> = differences.iter().map(Difference::to_string).collect();
    differences.join("; ")
}
