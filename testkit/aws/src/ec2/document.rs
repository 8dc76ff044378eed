//! The answers as XML.

use jiff::Timestamp;

use super::inventory::{Instance, Snapshot, Tags};
use super::seeds::STATES;
use super::volume::{Attachment, Modification, Volume};
use crate::xml::Element;

pub(super) fn volume(name: &str, of: &Volume) -> Element {
    let attachments = of.attachments.iter();
    let attachments = attachments.map(|one| attachment("item", &of.id, one));
    let iops = of.iops.or_else(|| (of.kind == "gp3").then_some(3000));
    Element::new(name)
        .leaf("volumeId", &of.id)
        .leaf("size", &of.size.to_string())
        .leaf("snapshotId", of.snapshot_id.as_deref().unwrap_or_default())
        .leaf("availabilityZone", &of.zone)
        .leaf("status", of.state())
        .leaf("createTime", &time(of.created))
        .child(Element::new("attachmentSet").children(attachments))
        .children(tag_set(&of.tags))
        .leaf("volumeType", &of.kind)
        .leaf_if("iops", iops.map(|iops| iops.to_string()).as_deref())
        .leaf("encrypted", &of.kms_key_id.is_some().to_string())
        .leaf_if("kmsKeyId", of.kms_key_id.as_deref())
        .leaf("multiAttachEnabled", &of.multi_attach.to_string())
}

pub(super) fn attachment(name: &str, volume: &str, of: &Attachment) -> Element {
    Element::new(name)
        .leaf("volumeId", volume)
        .leaf("instanceId", &of.instance)
        .leaf("device", &of.device)
        .leaf("status", of.state())
        .leaf("attachTime", &time(of.since))
        .leaf("deleteOnTermination", &of.delete_on_termination.to_string())
}

pub(super) fn modification(of: &Volume, change: &Modification) -> Element {
    let progress = if change.state == "completed" {
        "100"
    } else {
        "0"
    };
    Element::new("item")
        .leaf("volumeId", &of.id)
        .leaf("modificationState", &change.state)
        .leaf("targetSize", &of.size.to_string())
        .leaf("targetVolumeType", &of.kind)
        .leaf("originalSize", &change.original_size.to_string())
        .leaf("originalVolumeType", &of.kind)
        .leaf("progress", progress)
        .leaf("startTime", &time(change.started))
}

pub(super) fn snapshot(name: &str, of: &Snapshot, now: Timestamp) -> Element {
    let state = of.state(now);
    let progress = if state == "completed" { "100%" } else { "0%" };
    Element::new(name)
        .leaf("snapshotId", &of.id)
        .leaf("volumeId", &of.volume)
        .leaf("status", state)
        .leaf("startTime", &time(of.started))
        .leaf("progress", progress)
        .leaf("ownerId", &of.account)
        .leaf("volumeSize", &of.size.to_string())
        .leaf("description", &of.description)
        .leaf("encrypted", &of.kms_key.is_some().to_string())
        .leaf_if("kmsKeyId", of.kms_key.as_deref())
        .children(tag_set(&of.tags))
}

/// A reservation with one instance, with the volumes that are attached to it.
pub(super) fn reservation(of: &Instance, volumes: &[&Volume]) -> Element {
    let instance = instance("item", of, volumes);
    Element::new("item")
        .leaf("reservationId", &of.id.replacen("i-", "r-", 1))
        .leaf("ownerId", &of.account)
        .child(Element::new("instancesSet").child(instance))
}

fn instance(name: &str, of: &Instance, volumes: &[&Volume]) -> Element {
    let code = STATES.iter().find(|(name, _)| *name == of.state);
    let code = code.map_or(0, |(_, code)| *code);
    let state = Element::new("instanceState")
        .leaf("code", &code.to_string())
        .leaf("name", &of.state);
    let placement = Element::new("placement").leaf("availabilityZone", &of.zone);
    let mappings = volumes.iter().filter_map(|volume| {
        let attached = volume.attachment(&of.id)?;
        let ebs = Element::new("ebs")
            .leaf("volumeId", &volume.id)
            .leaf("status", attached.state())
            .leaf("attachTime", &time(attached.since))
            .leaf(
                "deleteOnTermination",
                &attached.delete_on_termination.to_string(),
            );
        let mapping = Element::new("item").leaf("deviceName", &attached.device);
        Some(mapping.child(ebs))
    });
    Element::new(name)
        .leaf("instanceId", &of.id)
        .child(state)
        .leaf("instanceType", &of.kind)
        .leaf("launchTime", &time(of.launched))
        .child(placement)
        .leaf("rootDeviceName", "/dev/xvda")
        .leaf("rootDeviceType", "ebs")
        .child(Element::new("blockDeviceMapping").children(mappings))
        .children(tag_set(&of.tags))
}

fn tag_set(tags: &Tags) -> Option<Element> {
    let tag = |(key, value): (&String, &String)| {
        Element::new("item").leaf("key", key).leaf("value", value)
    };
    (!tags.is_empty()).then(|| Element::new("tagSet").children(tags.iter().map(tag)))
}

fn time(time: Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%S.%3fZ").to_string()
}
