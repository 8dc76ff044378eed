//! Control of volumes, instances, roles and timing, and what nodes report.

use std::collections::BTreeMap;
use std::time::Duration;

use http::Method;
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::Ec2;
use super::access::RoleRules;
use super::content::ContentEntry;
use super::inventory::after;
use super::seeds::{InstanceEdit, VolumeEdit, replace};
use super::volume::{Attachment, AttachmentStage, Volume};
use crate::control::read;
use crate::service::{ControlError, Verb};
use crate::shelf::View;

const DEVICE: &str = "/dev/xvdba";

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Attach {
    instance: String,
    device: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Detach {
    instance: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Mount {
    instance: String,
}

/// The delays that change, in milliseconds.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TimingEdit {
    #[serde(rename = "attachMs")]
    attach: Option<u64>,
    #[serde(rename = "detachMs")]
    detach: Option<u64>,
    #[serde(rename = "createMs")]
    create: Option<u64>,
    #[serde(rename = "deleteMs")]
    delete: Option<u64>,
    #[serde(rename = "snapshotMs")]
    snapshot: Option<u64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct RoleEdit {
    #[serde(default)]
    deny: Vec<String>,
    require_tag: Option<RequiredTag>,
}

/// `"key"`, `"key=value"` or `{"key": "value" or null}`.
#[derive(Deserialize)]
#[serde(untagged)]
enum RequiredTag {
    Text(String),
    Map(BTreeMap<String, Option<String>>),
}

type Answer = Result<Value, ControlError>;

/// The verbs, for error messages.
pub(super) const VERBS: &[&str] = &[
    "GET|PUT volumes/<id>",
    "POST volumes/<id>/attach|detach|stick|release",
    "POST volumes/<id>/mount|unmount|log",
    "GET|PUT instances/<id>",
    "GET|PUT timing",
    "GET|PUT roles/<name>",
];

impl Ec2 {
    /// Runs a verb; `None` if there is no such verb.
    pub(super) fn run(&mut self, verb: &Verb, now: Timestamp) -> Option<Answer> {
        let path: Vec<_> = verb.path.iter().map(String::as_str).collect();
        let body = verb.body.clone();
        Some(match (&verb.method, path.as_slice()) {
            (&Method::GET, ["volumes", id]) => self.shown_volume(id, now),
            (&Method::PUT, ["volumes", id]) => self.put_volume(id, body, now),
            (&Method::POST, ["volumes", id, action]) => return self.act(id, action, body, now),
            (&Method::GET, ["instances", id]) => self.shown_instance(id),
            (&Method::PUT, ["instances", id]) => self.put_instance(id, body, now),
            (&Method::GET, ["timing"]) => Ok(self.shown_timing()),
            (&Method::PUT, ["timing"]) => self.put_timing(body),
            (&Method::GET, ["roles", name]) => Ok(self.shown_role(name)),
            (&Method::PUT, ["roles", name]) => self.put_role(name, body),
            _ => return None,
        })
    }

    fn act(&mut self, id: &str, action: &str, body: Value, now: Timestamp) -> Option<Answer> {
        let what = format!("volume {action}");
        let done = match action {
            "attach" => read(&what, body).and_then(|attach: Attach| {
                let device = attach.device.as_deref().unwrap_or(DEVICE);
                self.attach_directly(id, &attach.instance, device, now)
            }),
            "detach" => read(&what, body).and_then(|detach: Detach| {
                self.detach_directly(id, detach.instance.as_deref(), now)
            }),
            "stick" => self.stick(id),
            "release" => self.release(id, now),
            "mount" => read(&what, body).and_then(|mount: Mount| {
                self.existing(id)?;
                self.mount(id, &mount.instance, now);
                Ok(())
            }),
            "unmount" => read(&what, body).map(|mount: Mount| {
                self.unmount(id, &mount.instance, now);
            }),
            "log" => read(&what, body).and_then(|entry: ContentEntry| {
                self.existing(id)?;
                self.write_log(id, entry, now);
                Ok(())
            }),
            _ => return None,
        };
        Some(done.and_then(|()| self.shown_or_gone(id, now)))
    }

    fn existing(&self, id: &str) -> Result<&Volume, ControlError> {
        let volume = self.inventory.volume(id);
        volume.ok_or_else(|| ControlError::unknown(format!("there is no volume {id:?}")))
    }

    /// PUT of a volume, or of a seed in `mutate`.
    pub(super) fn put_volume(&mut self, id: &str, body: Value, now: Timestamp) -> Answer {
        let edit: VolumeEdit = read("volume", body)?;
        self.edit_volume(id, edit, now)?;
        self.shown_or_gone(id, now)
    }

    /// PUT of an instance, or of a seed in `mutate`.
    pub(super) fn put_instance(&mut self, id: &str, body: Value, now: Timestamp) -> Answer {
        let edit: InstanceEdit = read("instance", body)?;
        self.edit_instance(id, edit, now)?;
        if self.inventory.instances.contains_key(id) {
            self.shown_instance(id)
        } else {
            Ok(json!({}))
        }
    }

    fn attach_directly(
        &mut self,
        id: &str,
        instance: &str,
        device: &str,
        now: Timestamp,
    ) -> Result<(), ControlError> {
        let mut volume = self.existing(id)?.clone();
        if !self.inventory.instances.contains_key(instance) {
            return Err(no_instance(instance));
        }
        let is_attached = !volume.attachments.is_empty();
        if is_attached && !volume.multi_attach || volume.attachment(instance).is_some() {
            let message = format!("{id} is attached; detach it first, or PUT multiAttach: true");
            return Err(conflict(message));
        }
        volume.attachments.push(Attachment {
            instance: instance.to_owned(),
            device: device.to_owned(),
            since: now,
            delete_on_termination: false,
            stage: AttachmentStage::Attached,
        });
        self.inventory.put(volume, now);
        let timeline = &mut self.inventory.timeline;
        timeline.add(now, "attached", id, Some(instance));
        Ok(())
    }

    /// Detaches at once, from one instance or from all. If the volume sticks, it stays busy.
    fn detach_directly(
        &mut self,
        id: &str,
        instance: Option<&str>,
        now: Timestamp,
    ) -> Result<(), ControlError> {
        let mut volume = self.existing(id)?.clone();
        let is_meant = |one: &Attachment| instance.is_none_or(|wanted| wanted == one.instance);
        if !volume.attachments.iter().any(is_meant) {
            let from = instance.unwrap_or("any instance");
            return Err(conflict(format!("{id} is not attached to {from}")));
        }
        let sticks = self.inventory.stuck.remove(id);
        let event = if sticks { "busy" } else { "detached" };
        let mut changed = Vec::new();
        for mut attachment in std::mem::take(&mut volume.attachments) {
            if is_meant(&attachment) {
                changed.push(attachment.instance.clone());
                if !sticks {
                    continue;
                }
                attachment.stage = AttachmentStage::Busy;
            }
            volume.attachments.push(attachment);
        }
        self.inventory.put(volume, now);
        for instance in changed {
            let timeline = &mut self.inventory.timeline;
            timeline.add(now, event, id, Some(&instance));
        }
        Ok(())
    }

    /// The next detach of the volume does not end.
    fn stick(&mut self, id: &str) -> Result<(), ControlError> {
        self.existing(id)?;
        self.inventory.stuck.insert(id.to_owned());
        Ok(())
    }

    /// The volume no longer sticks, and a busy attachment goes on to detach.
    pub(super) fn release(&mut self, id: &str, now: Timestamp) -> Result<(), ControlError> {
        let mut volume = self.existing(id)?.clone();
        self.inventory.stuck.remove(id);
        let until = after(now, self.inventory.timing.detach);
        let is_busy = |one: &&mut Attachment| one.stage == AttachmentStage::Busy;
        for attachment in volume.attachments.iter_mut().filter(is_busy) {
            attachment.stage = AttachmentStage::Detaching(until);
        }
        self.inventory.put(volume, now);
        self.inventory.settle(now);
        Ok(())
    }

    fn put_timing(&mut self, body: Value) -> Answer {
        let edit: TimingEdit = read("timing", body)?;
        let timing = &mut self.inventory.timing;
        let parts = [
            (&mut timing.attach, edit.attach),
            (&mut timing.detach, edit.detach),
            (&mut timing.create, edit.create),
            (&mut timing.delete, edit.delete),
            (&mut timing.snapshot, edit.snapshot),
        ];
        for (part, ms) in parts {
            replace(part, ms.map(Duration::from_millis));
        }
        Ok(self.shown_timing())
    }

    fn shown_timing(&self) -> Value {
        let timing = self.inventory.timing;
        json!({
            "attachMs": timing.attach.as_millis(), "detachMs": timing.detach.as_millis(),
            "createMs": timing.create.as_millis(), "deleteMs": timing.delete.as_millis(),
            "snapshotMs": timing.snapshot.as_millis(),
        })
    }

    /// Replaces the rules of a role; an empty body allows it everything.
    fn put_role(&mut self, name: &str, body: Value) -> Answer {
        let RoleEdit { deny, require_tag } = read("role", body)?;
        let bare = |action: String| action.strip_prefix("ec2:").unwrap_or(&action).to_owned();
        let require_tag = match require_tag {
            None => BTreeMap::new(),
            Some(RequiredTag::Map(tags)) => tags,
            Some(RequiredTag::Text(text)) => BTreeMap::from([match text.split_once('=') {
                Some((key, value)) => (key.to_owned(), Some(value.to_owned())),
                None => (text, None),
            }]),
        };
        let rules = RoleRules {
            deny: deny.into_iter().map(bare).collect(),
            require_tag,
        };
        self.roles.insert(name.to_owned(), rules);
        Ok(self.shown_role(name))
    }

    fn shown_role(&self, name: &str) -> Value {
        let none = RoleRules::default();
        let RoleRules { deny, require_tag } = self.roles.get(name).unwrap_or(&none);
        json!({ "deny": deny, "requireTag": require_tag })
    }

    fn shown_or_gone(&self, id: &str, now: Timestamp) -> Answer {
        match self.inventory.volume(id) {
            Some(_) => self.shown_volume(id, now),
            None => Ok(json!({ "id": id, "state": "absent" })),
        }
    }

    fn shown_volume(&self, id: &str, now: Timestamp) -> Answer {
        let volume = self.existing(id)?;
        let mut shown = json!(volume);
        shown["state"] = json!(volume.state());
        for (at, attachment) in volume.attachments.iter().enumerate() {
            shown["attachments"][at]["state"] = json!(attachment.state());
        }
        let all = self.inventory.snapshots.list(View::Live);
        let own = all.filter(|(_, snapshot)| snapshot.volume == id);
        let own = own.map(|(_, snapshot)| {
            let mut shown = json!(snapshot);
            shown["state"] = json!(snapshot.state(now));
            shown
        });
        shown["snapshots"] = own.collect();
        let disk = self.inventory.disks.get(id).cloned().unwrap_or_default();
        shown["log"] = json!(disk.log);
        shown["mounted"] = json!(disk.mounted);
        shown["dirty"] = json!(!disk.mounted.is_empty());
        shown["stuck"] = json!(self.inventory.stuck.contains(id));
        Ok(shown)
    }

    fn shown_instance(&self, id: &str) -> Answer {
        let instance = self.inventory.instances.get(id);
        let instance = instance.ok_or_else(|| no_instance(id))?;
        let mut shown = json!(instance);
        let all = self.inventory.volumes_seen(View::Live);
        let own = all.filter(|volume| volume.attachment(id).is_some());
        shown["volumes"] = own.map(|volume| json!(volume.id)).collect();
        Ok(shown)
    }

    /// All volumes and instances, as control shows each of them.
    pub(super) fn shown(&self, now: Timestamp) -> Value {
        let volumes = self.inventory.volumes_seen(View::Live);
        let volumes = volumes.filter_map(|volume| {
            let shown = self.shown_volume(&volume.id, now).ok()?;
            Some((volume.id.clone(), shown))
        });
        let volumes: Map<_, _> = volumes.collect();
        json!({ "volumes": volumes, "instances": self.inventory.instances })
    }
}

fn no_instance(id: &str) -> ControlError {
    ControlError::unknown(format!("there is no instance {id:?}; PUT it first"))
}

fn conflict(message: String) -> ControlError {
    ControlError {
        status: 409,
        message,
    }
}
