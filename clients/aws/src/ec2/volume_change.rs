//! Changes of a volume's size, type or speed that AWS works on.

use std::fmt;

use super::request::{Filter, LARGEST_FILTER};
use super::volume::states;
use super::{Ec2, required};
use crate::wire::{Answer, XmlNode};
use crate::{Error, Operation};

/// The latest change of a volume (`ModifyVolume`), by whoever made it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VolumeChange {
    /// The id of the volume.
    pub volume: String,
    /// Its state.
    pub state: VolumeChangeState,
}

states! {
    /// The state of a change.
    VolumeChangeState:
    /// The volume has its old properties.
    Modifying "modifying"
    /// The volume has its new size, but not yet its new speed.
    Optimizing "optimizing"
    /// The change is complete.
    Completed "completed"
    /// The change failed; the volume has its old properties.
    Failed "failed"
}

impl VolumeChange {
    /// Whether AWS still works on it. A state that is new to us counts as such.
    pub fn is_in_progress(&self) -> bool {
        match self.state {
            VolumeChangeState::Modifying
            | VolumeChangeState::Optimizing
            | VolumeChangeState::Unknown(_) => true,
            VolumeChangeState::Completed | VolumeChangeState::Failed => false,
        }
    }
}

impl Ec2 {
    /// The latest changes of these volumes. Volumes that never changed are missing in the answer.
    pub async fn volume_changes<V: AsRef<str>>(
        &self,
        ids: &[V],
    ) -> Result<Vec<VolumeChange>, Error> {
        let operation = Operation::DescribeVolumesModifications;
        let mut all = Vec::new();
        for ids in ids.chunks(LARGEST_FILTER) {
            let filters = [Filter::volumes(ids)];
            let changes = self.list(operation, &filters, "volumeModificationSet", read);
            all.extend(changes.await?);
        }
        Ok(all)
    }
}

pub(super) fn read(answer: &Answer, node: XmlNode<'_>) -> Result<VolumeChange, Error> {
    Ok(VolumeChange {
        volume: required(answer, node, "volumeId")?.to_owned(),
        state: VolumeChangeState::read(required(answer, node, "modificationState")?),
    })
}
