//! AttachVolume and DetachVolume.

use serde_json::json;

use super::Ec2;
use super::access::Asker;
use super::error::{bad, incorrect_state, invalid, missing, no_instance};
use super::inventory::{Instance, after};
use super::request::{instance_id, volume_id};
use super::volume::{Attachment, AttachmentStage, Volume, VolumeStage};
use super::volumes::on;
use crate::protocol::ApiError;
use crate::shelf::View;

/// How many instances may share a volume.
const SHARERS: usize = 16;

/// What DetachVolume names beside the volume.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Detaching<'a> {
    pub(super) instance: Option<&'a str>,
    pub(super) device: Option<&'a str>,
    pub(super) force: bool,
}

impl Ec2 {
    /// AttachVolume.
    pub(super) fn attach_volume(
        &mut self,
        asker: &Asker<'_>,
        id: &str,
        instance: &str,
        device: &str,
    ) -> Result<Attachment, ApiError> {
        volume_id(id, "volumeId")?;
        instance_id(instance)?;
        let volume = self.own_volume(asker, id)?;
        let target = self.inventory.instances.get(instance);
        let target = target
            .filter(|target| target.account == asker.account)
            .ok_or_else(|| no_instance(instance))?;
        self.allow_on(asker, on(volume))?;
        self.check_attach(volume, target, device)?;
        let mut volume = volume.clone();
        let attachment = Attachment {
            instance: instance.to_owned(),
            device: device.to_owned(),
            since: asker.now,
            delete_on_termination: false,
            stage: AttachmentStage::Attaching(after(asker.now, self.inventory.timing.attach)),
        };
        volume.attachments.push(attachment.clone());
        self.judge.attached(&volume, asker.now);
        self.inventory.put(volume, asker.now);
        let more = json!({ "instance": instance, "caller": asker.name() });
        let timeline = &mut self.inventory.timeline;
        timeline.add_with(asker.now, "attaching", id, more);
        Ok(attachment)
    }

    fn check_attach(
        &self,
        volume: &Volume,
        target: &Instance,
        device: &str,
    ) -> Result<(), ApiError> {
        let (id, instance) = (&volume.id, &target.id);
        if !["running", "stopped"].contains(&target.state.as_str()) {
            let message = format!("Instance '{instance}' is not 'running'.");
            return Err(incorrect_state(&message));
        }
        if volume.zone != target.zone {
            let message = format!(
                "The volume '{id}' is not in the same availability zone as instance '{instance}'"
            );
            return Err(bad("InvalidVolume.ZoneMismatch", &message));
        }
        if volume.stage != VolumeStage::Ready {
            return Err(incorrect_state(&format!("{id} is not 'available'.")));
        }
        let is_attached = !volume.attachments.is_empty();
        if is_attached && !volume.multi_attach || volume.attachment(instance).is_some() {
            let message = format!("{id} is already attached to an instance");
            return Err(bad("VolumeInUse", &message));
        }
        if volume.attachments.len() >= SHARERS {
            let message = format!("{id} is attached to the maximum of {SHARERS} instances");
            return Err(bad("AttachmentLimitExceeded", &message));
        }
        let mut all = self.inventory.volumes_seen(View::Live);
        let uses = |other: &Volume| {
            let own = other.attachment(instance);
            own.is_some_and(|own| own.device == device)
        };
        if all.any(uses) {
            return Err(invalid(&format!(
                "Invalid value '{device}' for unixDevice. Attachment point {device} is already in use"
            )));
        }
        Ok(())
    }

    /// DetachVolume. A detach that is under way already is answered the same.
    pub(super) fn detach_volume(
        &mut self,
        asker: &Asker<'_>,
        id: &str,
        detaching: Detaching<'_>,
    ) -> Result<Attachment, ApiError> {
        volume_id(id, "volumeId")?;
        if let Some(instance) = detaching.instance {
            instance_id(instance)?;
        }
        let volume = self.own_volume(asker, id)?;
        self.allow_on(asker, on(volume))?;
        let at = self.attachment_meant(volume, detaching)?;
        let mut volume = volume.clone();
        let instance = volume.attachments[at].instance.clone();
        let done = AttachmentStage::Detaching(after(asker.now, self.inventory.timing.detach));
        let attachment = &mut volume.attachments[at];
        let before = attachment.stage;
        attachment.stage = match before {
            AttachmentStage::Attaching(_) | AttachmentStage::Attached => {
                if self.inventory.stuck.remove(id) && !detaching.force {
                    AttachmentStage::Busy
                } else {
                    done
                }
            }
            AttachmentStage::Busy if detaching.force => done,
            AttachmentStage::Busy | AttachmentStage::Detaching(_) => before,
        };
        let attachment = attachment.clone();
        if attachment.stage != before {
            self.judge_detach(id, &instance, asker.name(), asker.now);
            self.inventory.put(volume, asker.now);
            let more = json!({ "instance": instance, "caller": asker.name() });
            let timeline = &mut self.inventory.timeline;
            timeline.add_with(asker.now, attachment.state(), id, more);
        }
        Ok(attachment)
    }

    /// The attachment that a DetachVolume means, by its position.
    fn attachment_meant(
        &self,
        volume: &Volume,
        detaching: Detaching<'_>,
    ) -> Result<usize, ApiError> {
        let id = &volume.id;
        if volume.attachments.is_empty() {
            let state = volume.state();
            let message = format!("Volume '{id}' is in the '{state}' state.");
            return Err(incorrect_state(&message));
        }
        if volume.attachments.len() > 1 && detaching.instance.is_none() {
            return Err(missing("InstanceId"));
        }
        let is_meant = |attachment: &Attachment| {
            let same = |wanted: Option<&str>, is: &str| wanted.is_none_or(|wanted| wanted == is);
            same(detaching.instance, &attachment.instance)
                && same(detaching.device, &attachment.device)
        };
        let Some(at) = volume.attachments.iter().position(is_meant) else {
            let from = detaching.instance.unwrap_or("this device");
            let message = format!("Volume '{id}' is not attached to {from}.");
            return Err(bad("InvalidAttachment.NotFound", &message));
        };
        let attachment = &volume.attachments[at];
        let instance = self.inventory.instances.get(&attachment.instance);
        if instance.is_some_and(|one| one.root == *id && one.state == "running") {
            let message = format!(
                "Unable to detach root volume '{}' from instance '{}'",
                attachment.device, attachment.instance
            );
            return Err(bad("OperationNotPermitted", &message));
        }
        Ok(at)
    }
}
