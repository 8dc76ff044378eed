//! Snapshots of volumes.

use std::fmt;

use super::request::Filter;
use super::volume::states;
use super::{Ec2, Tags, request, required, tags};
use crate::wire::{Answer, XmlNode};
use crate::{Error, Operation};

/// A snapshot to create.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewSnapshot {
    /// The id of the volume.
    pub volume: String,
    /// What the console shows.
    pub description: String,
    /// Its tags. EC2 sets them together with creating it, so that [`Ec2::snapshots`] finds it after a
    /// lost answer.
    pub tags: Tags,
}

/// A snapshot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Snapshot {
    /// Its id: `snap-0123456789abcdef0`.
    pub id: String,
    /// The id of its volume.
    pub volume: String,
    /// Its state.
    pub state: SnapshotState,
    /// Its tags.
    pub tags: Tags,
}

states! {
    /// The state of a snapshot.
    SnapshotState:
    /// AWS copies the volume as it was when the snapshot was created.
    Pending "pending"
    /// It is complete.
    Completed "completed"
    /// It failed.
    Error "error"
    /// It is in the recycle bin.
    Recoverable "recoverable"
    /// It is being restored from the recycle bin.
    Recovering "recovering"
}

impl Ec2 {
    /// Creates a snapshot and does not wait for its completion.
    ///
    /// EC2 has no token that makes a repetition harmless: after a lost answer search by the tags,
    /// and repeatedly, because a new snapshot may show late.
    pub async fn create_snapshot(&self, snapshot: &NewSnapshot) -> Result<Snapshot, Error> {
        let call = self.call(Operation::CreateSnapshot, &snapshot.volume);
        let answer = self
            .send(&call, &request::create_snapshot(snapshot))
            .await?;
        let document = answer.xml()?;
        read(&answer, document.root())
    }

    /// Our account's snapshots with all of these tags.
    ///
    /// # Errors
    /// [`Error::Request`] without a tag: that would be all snapshots.
    pub async fn snapshots(&self, tags: &Tags) -> Result<Vec<Snapshot>, Error> {
        let operation = Operation::DescribeSnapshots;
        if tags.is_empty() {
            return Err(self.call(operation, "").wrong(&"it selects by no tag"));
        }
        let filters = tags.iter().map(|(key, value)| Filter::tag(key, value));
        let filters: Vec<Filter> = filters.collect();
        self.list(operation, &filters, "snapshotSet", read).await
    }
}

pub(super) fn read(answer: &Answer, node: XmlNode<'_>) -> Result<Snapshot, Error> {
    Ok(Snapshot {
        id: required(answer, node, "snapshotId")?.to_owned(),
        volume: required(answer, node, "volumeId")?.to_owned(),
        state: SnapshotState::read(required(answer, node, "status")?),
        tags: tags::read(node),
    })
}
