//! Volumes, instances and snapshots over all accounts, and the changes that take time.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Duration;

use jiff::Timestamp;
use serde::Serialize;
use sha2::{Digest as _, Sha256};

use super::content::Disk;
use super::timeline::Timeline;
use super::volume::{AttachmentStage, Volume, VolumeStage};
use crate::shelf::{Shelf, View};

/// The tags of a resource.
pub(super) type Tags = BTreeMap<String, String>;

/// How long changes take, on the emulator's clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timing {
    /// From AttachVolume to `attached`.
    pub attach: Duration,
    /// From DetachVolume to no attachment.
    pub detach: Duration,
    /// From CreateVolume to `available`.
    pub create: Duration,
    /// How long a volume is `deleting`.
    pub delete: Duration,
    /// How long a snapshot is `pending`.
    pub snapshot: Duration,
}

impl Default for Timing {
    fn default() -> Self {
        Self {
            attach: Duration::from_millis(1500),
            detach: Duration::from_millis(1500),
            create: Duration::from_millis(500),
            delete: Duration::from_millis(500),
            snapshot: Duration::from_secs(30),
        }
    }
}

/// An instance. Its root volume exists as long as it does.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Instance {
    pub(super) id: String,
    pub(super) account: String,
    pub(super) zone: String,
    #[serde(rename = "type")]
    pub(super) kind: String,
    /// `running`, `stopped`, …
    pub(super) state: String,
    pub(super) root: String,
    pub(super) tags: Tags,
    pub(super) launched: Timestamp,
}

/// A snapshot of a volume.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Snapshot {
    /// Its id.
    pub id: String,
    /// The owner.
    pub account: String,
    /// The volume of which it was made.
    pub volume: String,
    /// Zone of the volume: the snapshot is in its region.
    pub zone: String,
    /// Size of the volume in GiB.
    pub size: u64,
    /// Free text.
    pub description: String,
    /// Key of its encryption.
    pub kms_key: Option<String>,
    /// Its tags.
    pub tags: BTreeMap<String, String>,
    /// When it was made.
    pub started: Timestamp,
    /// When it is `completed`.
    pub completes: Timestamp,
}

impl Snapshot {
    /// Its state at a time: `pending` or `completed`.
    pub fn state(&self, at: Timestamp) -> &'static str {
        if self.completes <= at {
            "completed"
        } else {
            "pending"
        }
    }
}

/// A request that is executed once, by its client token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Once {
    pub(super) request: String,
    pub(super) volume: String,
}

/// All accounts.
#[derive(Debug, Clone, Default)]
pub(super) struct Inventory {
    volumes: Shelf<Volume>,
    pub(super) snapshots: Shelf<Snapshot>,
    pub(super) instances: BTreeMap<String, Instance>,
    /// What nodes wrote, by volume.
    pub(super) disks: BTreeMap<String, Disk>,
    /// Volumes whose next detach does not end.
    pub(super) stuck: BTreeSet<String>,
    /// By account and client token.
    pub(super) once: HashMap<(String, String), Once>,
    pub(super) timing: Timing,
    pub(super) timeline: Timeline,
    /// Volumes that change by themselves, by when.
    due: BTreeSet<(Timestamp, String)>,
    made: u64,
}

impl Inventory {
    /// A number that was never used before, for ids.
    fn next(&mut self) -> u64 {
        self.made += 1;
        self.made
    }

    /// A new id, such as `vol-0e00000000000001`.
    pub(super) fn id(&mut self, prefix: &str) -> String {
        format!("{prefix}-0e{:015x}", self.next())
    }

    /// The current volume.
    pub(super) fn volume(&self, id: &str) -> Option<&Volume> {
        self.volumes.get(id, View::Live)
    }

    /// A volume as a read sees it. A volume that control made is never missing.
    pub(super) fn volume_seen(&self, id: &str, view: View) -> Option<&Volume> {
        let earlier = self.volumes.get(id, view);
        earlier.or_else(|| {
            let live = self.volume(id).filter(|volume| volume.is_seeded);
            live.filter(|_| view == View::Previous)
        })
    }

    /// All volumes as a read sees them, by id: under `Previous` each one before its own last change.
    pub(super) fn volumes_seen(&self, view: View) -> impl Iterator<Item = &Volume> {
        let ids = ids_seen(&self.volumes, view);
        ids.into_iter()
            .filter_map(move |id| self.volume_seen(id, view))
    }

    /// All snapshots as a read sees them, by id.
    pub(super) fn snapshots_seen(&self, view: View) -> impl Iterator<Item = &Snapshot> {
        let ids = ids_seen(&self.snapshots, view);
        ids.into_iter()
            .filter_map(move |id| self.snapshots.get(id, view))
    }

    /// Stores a volume, new or changed.
    pub(super) fn put(&mut self, volume: Volume, now: Timestamp) {
        if let Some(when) = volume.next_change() {
            self.due.insert((when, volume.id.clone()));
        }
        let id = volume.id.clone();
        self.volumes.put(&id, Some(volume), now);
    }

    /// Removes a volume. What was written to it stays, so that the oracle knows where logs began.
    pub(super) fn remove(&mut self, id: &str, now: Timestamp) {
        self.stuck.remove(id);
        self.volumes.put(id, None, now);
    }

    /// Makes the changes that are due, each at its own time.
    pub(super) fn settle(&mut self, now: Timestamp) {
        while let Some((when, id)) = self.due.first().cloned().filter(|(when, _)| *when <= now) {
            self.due.pop_first();
            if let Some(volume) = self.volume(&id).cloned() {
                self.change(volume, when);
            }
        }
    }

    /// Makes the changes of a volume that are due at a time.
    fn change(&mut self, mut volume: Volume, when: Timestamp) {
        let is_due = |until: Option<Timestamp>| until.is_some_and(|until| until <= when);
        let before = volume.clone();
        match volume.stage {
            VolumeStage::Creating(until) if is_due(until) => {
                self.timeline.add(when, "available", &volume.id, None);
                volume.stage = VolumeStage::Ready;
            }
            VolumeStage::Deleting(until) if is_due(until) => {
                self.timeline.add(when, "deleted", &volume.id, None);
                self.remove(&volume.id, when);
                return;
            }
            VolumeStage::Creating(_)
            | VolumeStage::Deleting(_)
            | VolumeStage::Ready
            | VolumeStage::Deleted
            | VolumeStage::Error => {}
        }
        for attachment in std::mem::take(&mut volume.attachments) {
            let instance = attachment.instance.clone();
            match attachment.stage {
                AttachmentStage::Attaching(until) if until <= when => {
                    self.timeline
                        .add(when, "attached", &volume.id, Some(&instance));
                    let mut attached = attachment;
                    attached.stage = AttachmentStage::Attached;
                    volume.attachments.push(attached);
                }
                AttachmentStage::Detaching(until) if until <= when => {
                    self.timeline
                        .add(when, "detached", &volume.id, Some(&instance));
                }
                AttachmentStage::Attaching(_)
                | AttachmentStage::Detaching(_)
                | AttachmentStage::Attached
                | AttachmentStage::Busy => volume.attachments.push(attachment),
            }
        }
        if volume != before {
            self.put(volume, when);
        }
    }

    /// Clears everything but the numbers of ids.
    pub(super) fn reset(&mut self) {
        *self = Self {
            made: self.made,
            ..Self::default()
        };
    }
}

/// The names of what a read may see: also of what has just gone, under `Previous`.
fn ids_seen<T>(shelf: &Shelf<T>, view: View) -> BTreeSet<&str> {
    let mut ids: BTreeSet<_> = shelf.list(view).map(|(id, _)| id).collect();
    if view == View::Previous {
        ids.extend(shelf.list(View::Live).map(|(id, _)| id));
    }
    ids
}

/// The id of an instance's root volume.
pub(super) fn root_volume(instance: &str) -> String {
    let digest = Sha256::digest(instance.as_bytes());
    let number = digest
        .iter()
        .take(8)
        .fold(0_u64, |all, byte| all << 8 | u64::from(*byte));
    format!("vol-0{number:016x}")
}

/// The time after a delay.
pub(super) fn after(now: Timestamp, delay: Duration) -> Timestamp {
    now.saturating_add(delay).unwrap_or(Timestamp::MAX)
}
