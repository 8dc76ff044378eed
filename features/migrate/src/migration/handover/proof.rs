//! What this process has seen of the disks of an ordinal in motion. Losing it costs two seconds: the reads are
//! made again.

use std::collections::BTreeMap;
use std::time::Duration;

use super::{Handover, Snapshots, detach, fence, unclean};

/// The time between the two reads that must show a disk as free.
const BETWEEN_READS: Duration = Duration::from_secs(2);

/// The times at which evidence was first seen, by the clock of the process.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Proof {
    /// The ordinal and the direction that it is about.
    handover: Option<(i32, bool)>,
    /// Since when the old cluster shows no use of a disk.
    unused_since: BTreeMap<String, Duration>,
    /// When the first read began that showed a disk as free after that.
    first_free: BTreeMap<String, Duration>,
    /// Since when all claims of the old cluster are fenced.
    fenced_since: Option<Duration>,
    /// When the last read of a disk began that showed it as free after all of that.
    confirmed: BTreeMap<String, Duration>,
    /// Why the disks were not detached cleanly.
    unclean: Option<String>,
    /// The intent whose change may have been made, and since when this process knows it.
    unconfirmed: Option<(String, Duration)>,
}

impl Proof {
    /// Takes the observation of this pass into account. A disk that is used or attached again loses its proof.
    #[must_use]
    pub fn advanced(&self, handover: &Handover<'_>) -> Self {
        let about = (
            handover.ordinal,
            handover.direction == super::Direction::Forward,
        );
        let mut proof = if self.handover == Some(about) {
            self.clone()
        } else {
            Self {
                handover: Some(about),
                unclean: unclean::missed(handover),
                ..Self::default()
            }
        };
        proof.unclean = proof.unclean.or_else(|| unclean::seen(handover));
        for claim in handover.claims {
            proof.observe_disk(handover, claim);
        }
        let unconfirmed = handover.snapshots.and_then(Snapshots::unconfirmed);
        if unconfirmed != proof.unconfirmed.as_ref().map(|(token, _)| token) {
            proof.unconfirmed = unconfirmed.map(|token| (token.clone(), handover.elapsed));
        }
        if !fence::is_complete(handover) {
            proof.fenced_since = None;
            proof.confirmed.clear();
        } else if proof.fenced_since.is_none() {
            proof.fenced_since = Some(handover.read_at());
        }
        for claim in handover.claims {
            let earliest = proof.earliest_confirmation(&claim.disk);
            let read = handover.observation.disks.get(&claim.disk);
            if let (Some(earliest), Some(read)) = (earliest, read)
                && read.began >= earliest
            {
                proof.confirmed.insert(claim.disk.clone(), read.began);
            }
        }
        proof
    }

    fn observe_disk(&mut self, handover: &Handover<'_>, claim: &super::HandoverClaim) {
        let disk = &claim.disk;
        let read = handover.observation.disks.get(disk);
        let is_free = read
            .and_then(|read| read.disk.as_ref())
            .is_some_and(super::super::observation::DiskState::is_free);
        if detach::remaining(handover, claim).is_some() {
            self.forget(disk);
            return;
        }
        let unused_since = *self
            .unused_since
            .entry(disk.clone())
            .or_insert(handover.read_at());
        match read {
            Some(read) if read.began >= unused_since && is_free => {
                self.first_free.entry(disk.clone()).or_insert(read.began);
            }
            Some(_) if !is_free => {
                self.first_free.remove(disk);
                self.confirmed.remove(disk);
            }
            Some(_) | None => {}
        }
    }

    fn forget(&mut self, disk: &str) {
        self.unused_since.remove(disk);
        self.first_free.remove(disk);
        self.confirmed.remove(disk);
    }

    /// Since when the change of this intent may have been made without showing.
    pub fn unconfirmed_since(&self, token: &str) -> Option<Duration> {
        let (of, since) = self.unconfirmed.as_ref()?;
        (of == token).then_some(*since)
    }

    /// Why the disks were not detached cleanly.
    pub fn unclean(&self) -> Option<&str> {
        self.unclean.as_deref()
    }

    /// Since when the old cluster shows no use of a disk.
    pub fn unused_since(&self, disk: &str) -> Option<Duration> {
        self.unused_since.get(disk).copied()
    }

    /// Whether a read has shown the disk as free after the old cluster stopped using it.
    pub fn was_free(&self, disk: &str) -> bool {
        self.first_free.contains_key(disk)
    }

    /// The earliest begin of the read that confirms the disk; none before the fence.
    pub fn earliest_confirmation(&self, disk: &str) -> Option<Duration> {
        let first = self.first_free.get(disk)?;
        Some(self.fenced_since?.max(*first + BETWEEN_READS))
    }

    /// Whether a read that began after the fence has shown the disk as free.
    pub fn is_confirmed(&self, disk: &str) -> bool {
        self.confirmed.contains_key(disk)
    }
}
