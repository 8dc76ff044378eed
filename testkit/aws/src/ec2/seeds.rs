//! What control changes of volumes and instances, past all rules.

use jiff::Timestamp;
use serde::Deserialize;

use super::Ec2;
use super::inventory::{Instance, Tags, root_volume};
use super::request::is_id;
use super::volume::{Attachment, AttachmentStage, Modification, Volume, VolumeStage};
use super::volumes::can_share;
use crate::accounts::DEFAULT_ACCOUNT;
use crate::service::ControlError;
use crate::shelf::View;

const ROOT_DEVICE: &str = "/dev/xvda";

/// The fields of a volume that change; of a new one, `az` is required.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
pub(super) struct VolumeEdit {
    pub(super) account: Option<String>,
    pub(super) az: Option<String>,
    pub(super) size: Option<u64>,
    #[serde(rename = "type")]
    pub(super) kind: Option<String>,
    pub(super) iops: Option<u64>,
    pub(super) tags: Option<Tags>,
    pub(super) kms_key_id: Option<String>,
    pub(super) multi_attach: Option<bool>,
    pub(super) state: Option<String>,
    pub(super) modification: Option<String>,
}

/// The fields of an instance that change; of a new one, `az` is required.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
pub(super) struct InstanceEdit {
    pub(super) account: Option<String>,
    pub(super) az: Option<String>,
    #[serde(rename = "type")]
    pub(super) kind: Option<String>,
    pub(super) state: Option<String>,
    pub(super) tags: Option<Tags>,
}

impl Ec2 {
    pub(super) fn edit_volume(
        &mut self,
        id: &str,
        edit: VolumeEdit,
        now: Timestamp,
    ) -> Result<(), ControlError> {
        if !is_id(id, "vol-") {
            let message = format!("{id:?} is no volume id; write vol- and 8 or 17 of 0-9a-f");
            return Err(ControlError::invalid(message));
        }
        if edit.state.as_deref() == Some("absent") {
            self.inventory.remove(id, now);
            return Ok(());
        }
        let (volume, since) = if let Some(volume) = self.inventory.volume(id) {
            (volume.clone(), now)
        } else {
            // What was on another volume of this id is not on this one.
            self.inventory.disks.remove(id);
            (seeded_volume(id, edit.az.clone(), now)?, Timestamp::MIN)
        };
        let volume = edited(volume, edit, now)?;
        self.inventory.put(volume, since);
        Ok(())
    }

    pub(super) fn edit_instance(
        &mut self,
        id: &str,
        edit: InstanceEdit,
        now: Timestamp,
    ) -> Result<(), ControlError> {
        if !is_id(id, "i-") {
            let message = format!("{id:?} is no instance id; write i- and 8 or 17 of 0-9a-f");
            return Err(ControlError::invalid(message));
        }
        let InstanceEdit {
            account,
            az,
            kind,
            state,
            tags,
        } = edit;
        if state.as_deref() == Some("absent") {
            self.unplug(id, now);
            self.inventory.instances.remove(id);
            return Ok(());
        }
        let is_new = !self.inventory.instances.contains_key(id);
        let mut instance = match self.inventory.instances.get(id) {
            Some(instance) => instance.clone(),
            None => seeded_instance(id, az.clone(), now)?,
        };
        replace(&mut instance.account, account);
        replace(&mut instance.zone, az);
        replace(&mut instance.kind, kind);
        replace(&mut instance.state, state);
        replace(&mut instance.tags, tags);
        if !STATES.iter().any(|(name, _)| *name == instance.state) {
            let names: Vec<_> = STATES.iter().map(|(name, _)| *name).collect();
            let message = format!(
                "state {:?} is none of {}, absent",
                instance.state,
                names.join(", ")
            );
            return Err(ControlError::invalid(message));
        }
        let ends = instance.state == "terminated";
        if is_new {
            self.inventory.put(root_of(&instance), Timestamp::MIN);
        }
        self.inventory.instances.insert(id.to_owned(), instance);
        if ends {
            self.unplug(id, now);
        }
        Ok(())
    }

    /// An instance that ends loses all its volumes, and its root volume is deleted.
    fn unplug(&mut self, id: &str, now: Timestamp) {
        let has = |volume: &&Volume| volume.attachment(id).is_some();
        let all = self.inventory.volumes_seen(View::Live).filter(has);
        let theirs: Vec<_> = all.cloned().collect();
        for mut volume in theirs {
            let deletes = volume
                .attachment(id)
                .is_some_and(|one| one.delete_on_termination);
            if deletes {
                self.inventory.remove(&volume.id, now);
                continue;
            }
            volume.attachments.retain(|one| one.instance != id);
            let timeline = &mut self.inventory.timeline;
            timeline.add(now, "detached", &volume.id, Some(id));
            self.inventory.put(volume, now);
        }
    }
}

/// The states of instances, with their codes.
pub(super) const STATES: &[(&str, u64)] = &[
    ("pending", 0),
    ("running", 16),
    ("shutting-down", 32),
    ("terminated", 48),
    ("stopping", 64),
    ("stopped", 80),
];

/// Changes a field that is named.
pub(super) fn replace<T>(field: &mut T, value: Option<T>) {
    if let Some(value) = value {
        *field = value;
    }
}

fn seeded_volume(id: &str, az: Option<String>, now: Timestamp) -> Result<Volume, ControlError> {
    let message = || format!("volume {id} does not exist yet; give its az");
    let zone = az.ok_or_else(|| ControlError::invalid(message()))?;
    Ok(available(id, zone, now))
}

/// An available volume of the default account.
fn available(id: &str, zone: String, created: Timestamp) -> Volume {
    Volume {
        id: id.to_owned(),
        account: DEFAULT_ACCOUNT.to_owned(),
        zone,
        size: 10,
        kind: "gp3".to_owned(),
        iops: None,
        kms_key_id: None,
        snapshot_id: None,
        multi_attach: false,
        tags: Tags::new(),
        created,
        attachments: Vec::new(),
        modification: None,
        stage: VolumeStage::Ready,
        is_seeded: true,
        may_share: false,
    }
}

fn edited(mut volume: Volume, edit: VolumeEdit, now: Timestamp) -> Result<Volume, ControlError> {
    let VolumeEdit {
        account,
        az,
        size,
        kind,
        iops,
        tags,
        kms_key_id,
        multi_attach,
        state,
        modification,
    } = edit;
    if let Some(modification) = modification {
        let original_size = volume.size;
        volume.modification = match modification.as_str() {
            "none" => None,
            "modifying" | "optimizing" | "completed" | "failed" => Some(Modification {
                state: modification,
                original_size,
                started: now,
            }),
            _ => {
                let message = format!(
                    "modification {modification:?} is none of modifying, optimizing, completed, failed, none"
                );
                return Err(ControlError::invalid(message));
            }
        };
    }
    replace(&mut volume.account, account);
    replace(&mut volume.zone, az);
    replace(&mut volume.size, size);
    replace(&mut volume.kind, kind);
    replace(&mut volume.tags, tags);
    volume.iops = iops.or(volume.iops);
    volume.kms_key_id = match kms_key_id {
        None => volume.kms_key_id,
        Some(key) => Some(key).filter(|key| !key.is_empty()),
    };
    if let Some(multi_attach) = multi_attach {
        volume.multi_attach = multi_attach;
        volume.may_share = multi_attach;
        if multi_attach && !can_share(&volume.kind) {
            "io2".clone_into(&mut volume.kind);
        }
    }
    if let Some(state) = state {
        force(&mut volume, &state)?;
    }
    Ok(volume)
}

/// Puts a volume into a state, in which it stays.
fn force(volume: &mut Volume, state: &str) -> Result<(), ControlError> {
    volume.stage = match state {
        "creating" => VolumeStage::Creating(None),
        "available" => {
            volume.attachments.clear();
            VolumeStage::Ready
        }
        "in-use" if !volume.attachments.is_empty() => VolumeStage::Ready,
        "deleting" => VolumeStage::Deleting(None),
        "deleted" => VolumeStage::Deleted,
        "error" => VolumeStage::Error,
        "in-use" => {
            let message = format!(
                "{} is in-use once it is attached: POST its attach",
                volume.id
            );
            return Err(ControlError::invalid(message));
        }
        _ => {
            let message = format!(
                "state {state:?} is none of creating, available, in-use, deleting, deleted, error, absent"
            );
            return Err(ControlError::invalid(message));
        }
    };
    if matches!(
        volume.stage,
        VolumeStage::Deleting(_) | VolumeStage::Deleted
    ) {
        volume.attachments.clear();
    }
    Ok(())
}

fn seeded_instance(id: &str, az: Option<String>, now: Timestamp) -> Result<Instance, ControlError> {
    let zone = az.ok_or_else(|| {
        ControlError::invalid(format!("instance {id} does not exist yet; give its az"))
    })?;
    Ok(Instance {
        id: id.to_owned(),
        account: DEFAULT_ACCOUNT.to_owned(),
        zone,
        kind: "m6i.large".to_owned(),
        state: "running".to_owned(),
        root: root_volume(id),
        tags: Tags::new(),
        launched: now,
    })
}

fn root_of(instance: &Instance) -> Volume {
    let root = Attachment {
        instance: instance.id.clone(),
        device: ROOT_DEVICE.to_owned(),
        since: instance.launched,
        delete_on_termination: true,
        stage: AttachmentStage::Attached,
    };
    Volume {
        account: instance.account.clone(),
        size: 20,
        attachments: vec![root],
        ..available(&instance.root, instance.zone.clone(), instance.launched)
    }
}
