//! Volumes without HTTP: the emulator's state and rules for a test that simulates callers.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;

use super::Ec2;
use super::access::Asker;
use super::attachments::Detaching;
use super::content::ContentEntry;
use super::filter::Filter;
use super::inventory::{Snapshot, Timing};
use super::request::Selection;
use super::seeds::{InstanceEdit, VolumeEdit};
use super::timeline::Timeline;
use super::volume::{Attachment, Volume};
use super::volumes::NewVolume;
use crate::protocol::ApiError;
use crate::service::Violation;
use crate::shelf::View;

/// The volumes, snapshots and instances of one account.
///
/// A clone is a snapshot. Its calls are allowed to everybody, and it has no timeline. The oracle reports
/// all but `operatorMovedDisk`: the test knows whom it lets attach and detach.
///
/// # When not to use it
/// For what HTTP, signatures, roles, limits or faults have a part in: that is
/// [`Emulator`](crate::Emulator).
#[derive(Debug, Clone)]
pub struct Disks {
    ec2: Ec2,
    now: Timestamp,
}

/// An instance, and the name of the device that a volume has or gets there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AttachedTo<'a> {
    /// The instance.
    pub instance: &'a str,
    /// The device.
    pub device: &'a str,
}

impl Default for Disks {
    fn default() -> Self {
        let mut ec2 = Ec2::default();
        ec2.inventory.timeline = Timeline::off();
        let now = Timestamp::UNIX_EPOCH;
        Self { ec2, now }
    }
}

impl Disks {
    /// Moves its clock, and makes the changes that are due.
    pub fn set_time(&mut self, now: Timestamp) {
        self.now = now;
        self.ec2.inventory.settle(now);
    }

    /// Sets how long changes take from now on.
    pub fn set_timing(&mut self, timing: Timing) {
        self.ec2.inventory.timing = timing;
    }

    /// Adds a running instance with its root volume.
    pub fn add_instance(&mut self, id: &str, zone: &str) {
        let edit = InstanceEdit {
            az: Some(zone.to_owned()),
            ..InstanceEdit::default()
        };
        let added = self.ec2.edit_instance(id, edit, self.now);
        added.unwrap_or_else(|error| panic!("{error}"));
    }

    /// Ends an instance: it loses its volumes at once.
    pub fn remove_instance(&mut self, id: &str) {
        let edit = InstanceEdit {
            state: Some("absent".to_owned()),
            ..InstanceEdit::default()
        };
        let removed = self.ec2.edit_instance(id, edit, self.now);
        removed.unwrap_or_else(|error| panic!("{error}"));
    }

    /// Adds an available volume.
    pub fn add_volume(&mut self, id: &str, zone: &str, tags: &BTreeMap<String, String>) {
        let edit = VolumeEdit {
            az: Some(zone.to_owned()),
            tags: Some(tags.clone()),
            ..VolumeEdit::default()
        };
        self.edit(id, edit);
    }

    /// Somebody puts a volume into a state: `error`, `deleted`, `absent`, …
    pub fn set_state(&mut self, id: &str, state: &str) {
        let edit = VolumeEdit {
            state: Some(state.to_owned()),
            ..VolumeEdit::default()
        };
        self.edit(id, edit);
    }

    fn edit(&mut self, id: &str, edit: VolumeEdit) {
        let edited = self.ec2.edit_volume(id, edit, self.now);
        edited.unwrap_or_else(|error| panic!("{error}"));
    }

    /// The current volume.
    pub fn volume(&self, id: &str) -> Option<&Volume> {
        self.ec2.inventory.volume(id)
    }

    /// The volume as it was this long ago.
    pub fn volume_before(&self, id: &str, lag: Duration) -> Option<&Volume> {
        let view = View::Live.lagged(self.now, lag);
        self.ec2.inventory.volume_seen(id, view)
    }

    /// All current volumes, by id; also the root volumes of instances.
    pub fn volumes(&self) -> impl Iterator<Item = &Volume> {
        self.ec2.inventory.volumes_seen(View::Live)
    }

    /// DescribeVolumes by the filter `volume-id`: unknown ids are left out.
    pub fn describe(&self, ids: &[&str]) -> Result<Vec<&Volume>, ApiError> {
        let selection = Selection {
            filters: vec![Filter::new("volume-id", ids.iter().copied())],
            ..Selection::default()
        };
        let asker = self.asker("DescribeVolumes");
        let (volumes, _) = self.ec2.describe_volumes(&asker, &selection)?;
        Ok(volumes)
    }

    /// CreateVolume of 10 GiB.
    pub fn create(
        &mut self,
        zone: &str,
        tags: &BTreeMap<String, String>,
    ) -> Result<Volume, ApiError> {
        let new = NewVolume {
            zone: zone.to_owned(),
            kind: "gp3".to_owned(),
            size: Some(10),
            iops: None,
            snapshot: None,
            encrypted: false,
            kms_key: None,
            multi_attach: false,
            tags: tags.clone(),
            token: None,
        };
        self.call("CreateVolume", |ec2, asker| ec2.create_volume(asker, new))
    }

    /// DeleteVolume.
    pub fn delete(&mut self, id: &str) -> Result<(), ApiError> {
        self.call("DeleteVolume", |ec2, asker| ec2.delete_volume(asker, id))
    }

    /// AttachVolume.
    pub fn attach(&mut self, id: &str, to: AttachedTo<'_>) -> Result<Attachment, ApiError> {
        self.call("AttachVolume", |ec2, asker| {
            ec2.attach_volume(asker, id, to.instance, to.device)
        })
    }

    /// DetachVolume.
    pub fn detach(&mut self, id: &str, instance: &str) -> Result<Attachment, ApiError> {
        let detaching = Detaching {
            instance: Some(instance),
            ..Detaching::default()
        };
        self.call("DetachVolume", |ec2, asker| {
            ec2.detach_volume(asker, id, detaching)
        })
    }

    /// The next detach of a volume does not end.
    pub fn stick(&mut self, id: &str) {
        self.ec2.inventory.stuck.insert(id.to_owned());
    }

    /// A detach that does not end goes on.
    pub fn release(&mut self, id: &str) {
        let released = self.ec2.release(id, self.now);
        released.unwrap_or_else(|error| panic!("{error}"));
    }

    /// CreateSnapshot.
    pub fn create_snapshot(
        &mut self,
        volume: &str,
        tags: &BTreeMap<String, String>,
    ) -> Result<Snapshot, ApiError> {
        let tags = tags.clone();
        self.call("CreateSnapshot", |ec2, asker| {
            ec2.create_snapshot(asker, volume, "", tags)
        })
    }

    /// DescribeSnapshots: those that have all these tags, as they were this long ago.
    pub fn snapshots(
        &self,
        tags: &BTreeMap<String, String>,
        lag: Duration,
    ) -> Result<Vec<&Snapshot>, ApiError> {
        let filter =
            |(key, value): (&String, &String)| Filter::new(&format!("tag:{key}"), [value.as_str()]);
        let selection = Selection {
            filters: tags.iter().map(filter).collect(),
            ..Selection::default()
        };
        let asker = Asker {
            view: View::Live.lagged(self.now, lag),
            ..self.asker("DescribeSnapshots")
        };
        let (snapshots, _) = self.ec2.describe_snapshots(&asker, &[], &selection)?;
        Ok(snapshots)
    }

    /// CreateTags.
    pub fn tag(&mut self, id: &str, tags: &BTreeMap<String, String>) -> Result<(), ApiError> {
        self.call("CreateTags", |ec2, asker| {
            ec2.create_tags(asker, &[id], tags)
        })
    }

    /// DeleteTags, whatever the values.
    pub fn untag(&mut self, id: &str, keys: &[String]) -> Result<(), ApiError> {
        if keys.is_empty() {
            return Ok(());
        }
        let tags: Vec<_> = keys.iter().map(|key| (key.clone(), None)).collect();
        self.call("DeleteTags", |ec2, asker| {
            ec2.delete_tags(asker, &[id], &tags)
        })
    }

    /// A node mounts a volume.
    pub fn mount(&mut self, volume: &str, instance: &str) {
        self.ec2.mount(volume, instance, self.now);
    }

    /// A node unmounts a volume.
    pub fn unmount(&mut self, volume: &str, instance: &str) {
        self.ec2.unmount(volume, instance, self.now);
    }

    /// A node writes to the log of a disk.
    pub fn write_log(&mut self, volume: &str, entry: ContentEntry) {
        self.ec2.write_log(volume, entry, self.now);
    }

    /// The log of a disk.
    pub fn log(&self, volume: &str) -> &[ContentEntry] {
        let disk = self.ec2.inventory.disks.get(volume);
        disk.map_or(&[], |disk| disk.log.as_slice())
    }

    /// The rules that callers broke.
    pub fn violations(&self) -> &[Violation] {
        &self.ec2.judge.violations
    }

    fn asker(&self, operation: &'static str) -> Asker<'static> {
        Asker {
            operation,
            ..Asker::anybody(self.now)
        }
    }

    fn call<T>(
        &mut self,
        operation: &'static str,
        call: impl FnOnce(&mut Ec2, &Asker<'_>) -> Result<T, ApiError>,
    ) -> Result<T, ApiError> {
        let asker = self.asker(operation);
        let answer = call(&mut self.ec2, &asker);
        // A change without delay is complete once it is answered.
        self.ec2.inventory.settle(self.now);
        answer
    }
}
