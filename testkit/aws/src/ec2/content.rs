//! What nodes do with a disk: mount it, and write a log into it.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::Ec2;
use super::volume::AttachmentStage;

/// What is on a disk, as far as the oracle needs it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Disk {
    pub(super) log: Vec<ContentEntry>,
    /// The instances that have mounted it. Until they unmount it, it is dirty.
    pub(super) mounted: BTreeSet<String>,
}

/// The start or the stop of a pod, as its node writes it into the disk.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ContentEntry {
    /// When, on the emulator's clock.
    #[serde(skip_deserializing, default)]
    pub time: Timestamp,
    /// The instance that writes.
    pub instance: String,
    /// UID of the pod.
    pub pod_uid: String,
    /// Name of the pod.
    pub pod_name: String,
    /// Distinguishes pods of the same name: whatever stays the same when a StatefulSet moves.
    #[serde(default)]
    pub set: String,
    /// What the pod did.
    pub event: PodEvent,
}

/// What a pod did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum PodEvent {
    /// It began to use the disk.
    Start,
    /// It no longer uses the disk.
    Stop,
}

/// The disks of pods, by where their logs began.
#[derive(Debug, Clone, Default)]
pub(super) struct Beginnings {
    /// By set and name of the pod.
    by_pod: BTreeMap<(String, String), FirstRun>,
}

/// The first run of a pod: the disks that it started on are its disks.
#[derive(Debug, Clone)]
struct FirstRun {
    uid: String,
    disks: BTreeSet<String>,
}

impl Beginnings {
    /// What is wrong with the start of a pod on a disk. `log` is the disk's log before.
    fn check(
        &mut self,
        volume: &str,
        log: &[ContentEntry],
        entry: &ContentEntry,
    ) -> Option<String> {
        let ContentEntry {
            pod_uid,
            pod_name,
            set,
            ..
        } = entry;
        let starts = |entry: &&ContentEntry| entry.event == PodEvent::Start;
        if let Some(first) = log.iter().find(starts)
            && (&first.set, &first.pod_name) != (set, pod_name)
        {
            let other = &first.pod_name;
            return Some(format!(
                "pod {pod_name} started on {volume}, whose log began with pod {other}"
            ));
        }
        let key = (set.clone(), pod_name.clone());
        let first = self.by_pod.entry(key).or_insert_with(|| FirstRun {
            uid: pod_uid.clone(),
            disks: BTreeSet::new(),
        });
        if first.uid == *pod_uid {
            first.disks.insert(volume.to_owned());
        }
        (!first.disks.contains(volume)).then(|| {
            let disks: Vec<_> = first.disks.iter().map(String::as_str).collect();
            let disks = disks.join(", ");
            format!("pod {pod_name} started on {volume}, but its log began on {disks}")
        })
    }
}

impl Ec2 {
    /// Adds to the log of a disk; the time is now.
    pub(super) fn write_log(&mut self, volume: &str, entry: ContentEntry, now: Timestamp) {
        let entry = ContentEntry { time: now, ..entry };
        let stops = entry.event == PodEvent::Stop;
        if !self.is_usable(volume, &entry.instance, stops) {
            let detail = format!(
                "{} wrote to {volume} for pod {} without having it attached",
                entry.instance, entry.pod_name
            );
            self.judge.report("writtenUnattached", detail, now);
        }
        let disk = self.inventory.disks.entry(volume.to_owned()).or_default();
        let wrong = (entry.event == PodEvent::Start)
            .then(|| self.judge.beginnings.check(volume, &disk.log, &entry))
            .flatten();
        disk.log.push(entry.clone());
        if let Some(detail) = wrong {
            self.judge.report("startedOnOtherDisk", detail, now);
        }
        let event = match entry.event {
            PodEvent::Start => "started",
            PodEvent::Stop => "stopped",
        };
        let more = json!({
            "instance": entry.instance, "podUid": entry.pod_uid, "podName": entry.pod_name,
        });
        self.inventory.timeline.add_with(now, event, volume, more);
    }

    /// An instance mounts a disk, which makes it dirty.
    pub(super) fn mount(&mut self, volume: &str, instance: &str, now: Timestamp) {
        if !self.is_usable(volume, instance, false) {
            let detail = format!("{instance} mounted {volume} without having it attached");
            self.judge.report("writtenUnattached", detail, now);
        }
        let disk = self.inventory.disks.entry(volume.to_owned()).or_default();
        disk.mounted.insert(instance.to_owned());
        let timeline = &mut self.inventory.timeline;
        timeline.add(now, "mounted", volume, Some(instance));
    }

    /// An instance unmounts a disk, which makes it clean.
    pub(super) fn unmount(&mut self, volume: &str, instance: &str, now: Timestamp) {
        if let Some(disk) = self.inventory.disks.get_mut(volume) {
            disk.mounted.remove(instance);
        }
        let timeline = &mut self.inventory.timeline;
        timeline.add(now, "unmounted", volume, Some(instance));
    }

    /// Whether an instance may write to a volume. What ends there may end while a detach is under way.
    fn is_usable(&self, volume: &str, instance: &str, ends: bool) -> bool {
        let volume = self.inventory.volume(volume);
        let attachment = volume.and_then(|volume| volume.attachment(instance));
        attachment.is_some_and(|attachment| match attachment.stage {
            AttachmentStage::Attached => true,
            AttachmentStage::Detaching(_) | AttachmentStage::Busy => ends,
            AttachmentStage::Attaching(_) => false,
        })
    }
}
