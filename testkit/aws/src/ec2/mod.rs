//! EC2's volumes, version 2016-11-15: volumes, attachments, snapshots, tags, and the instances that
//! attach them.
//!
//! CreateVolume, DeleteVolume, DescribeVolumes, DescribeVolumesModifications, AttachVolume,
//! DetachVolume, CreateSnapshot, DescribeSnapshots, CreateTags, DeleteTags, DescribeInstances; each
//! with `DryRun`. The `VolumeId` form of a Describe fails for an unknown id, the filter `volume-id`
//! does not. A zone such as `us-east-1a` exists in its region only; any other text in all regions.
//!
//! Control, under `/_emu/ec2/`:
//!
//! | request | body | answer |
//! |---|---|---|
//! | `PUT volumes/<id>` | `{az, size, type, iops, tags, kmsKeyId, multiAttach, account, modification, state}`: what changes; a new volume needs `az` | the volume |
//! | `GET volumes/<id>` | | the volume, with `attachments`, `snapshots`, `log`, `mounted`, `dirty`, `stuck` |
//! | `POST volumes/<id>/attach` | `{instance, device?}`: at once | the volume |
//! | `POST volumes/<id>/detach` | `{instance?}`: at once | the volume |
//! | `POST volumes/<id>/stick` | the next detach makes the attachment `busy` | the volume |
//! | `POST volumes/<id>/release` | a busy attachment goes on to detach | the volume |
//! | `POST volumes/<id>/mount`, `…/unmount` | `{instance}`, by a node | the volume |
//! | `POST volumes/<id>/log` | `{instance, podUid, podName, event: start or stop, set?}`, by a node | the volume |
//! | `PUT instances/<id>` | `{az, type, state, tags, account}`; comes with a root volume | the instance |
//! | `GET instances/<id>` | | the instance, with its `volumes` |
//! | `PUT timing`, `GET timing` | `{attachMs, detachMs, createMs, deleteMs, snapshotMs}`, on the emulator's clock; 1500 to attach and to detach at first | all |
//! | `PUT roles/<name>`, `GET roles/<name>` | `{deny: [action], requireTag: "key", "key=value" or {key: value}}` | the role's rules |
//!
//! `state` of a volume is `creating`, `available`, `deleting`, `deleted`, `error` (it stays so), or
//! `absent`; `available` detaches. `multiAttach: true` makes it an io2. `kmsKeyId: ""` removes the key.
//! `modification` is `modifying`, `optimizing`, `completed`, `failed` or `none`. An instance whose state
//! is `terminated` or `absent` loses its volumes. `mutate` takes `{"volume": {"id", …}}` or
//! `{"instance": {"id", …}}` with the same fields. A role is the name of a role or of an access key; a
//! PUT replaces its rules.
//!
//! Switches: `readLag`, `pageSize` (the longest page of any list).
//!
//! The oracle reports, and control is exempt:
//! - `twoAttachments`: a volume attached twice, unless control set its `multiAttach`;
//! - `operatorMovedDisk`: an operator's AttachVolume, DetachVolume or DeleteVolume, refused ones too;
//! - `writtenUnattached`: a mount or a log entry of an instance that has not attached the volume;
//! - `detachedDirty`: DetachVolume from an instance that has it mounted;
//! - `startedOnOtherDisk`: a pod that starts on a disk on which its log did not begin. The disks of its
//!   first UID are its disks. `set` distinguishes pods of one name.
//!
//! Timeline: `created`, `available`, `attaching`, `attached`, `detaching`, `busy`, `detached`,
//! `deleting`, `deleted`, `mounted`, `unmounted`, `started`, `stopped`, `snapshot`, each with `volume`
//! and, where there is one, `instance`, `caller`, `podUid`, `podName`.

mod access;
mod attachments;
mod content;
mod control;
mod document;
mod error;
mod filter;
mod in_memory;
mod instances;
mod inventory;
mod judge;
mod request;
mod seeds;
mod snapshots;
mod tagging;
#[cfg(test)]
mod tests;
mod timeline;
mod volume;
mod volumes;

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Deserialize;
use serde_json::{Map, Value, json};

pub use content::{ContentEntry, PodEvent};
pub use in_memory::{AttachedTo, Disks};
pub use inventory::{Snapshot, Timing};
pub use volume::{Attachment, Modification, Volume};

use access::{Asker, RoleRules};
use attachments::Detaching;
use inventory::Inventory;
use judge::Judge;
use request::{LONGEST_PAGE, Params};
use volumes::NewVolume;

use crate::control::read;
use crate::protocol::{ApiError, Protocol};
use crate::service::{
    Call, ControlError, Moment, Operation, Outcome, Service, TimelineEntry, Verb, Violation,
};
use crate::shelf::View;
use crate::switches::{Accepts, Switch};
use crate::wire::{Request, Response};
use crate::xml::Element;

const NAMESPACE: &str = "http://ec2.amazonaws.com/doc/2016-11-15/";
const VERSION: &str = "2016-11-15";
const SWITCHES: &[Switch] = &[
    Switch {
        name: "readLag",
        accepts: Accepts::Span(Duration::ZERO),
    },
    Switch {
        name: "pageSize",
        accepts: Accepts::Count(LONGEST_PAGE as u64),
    },
];
/// The operations, with the parameters that name their resources; `.` for a list.
const OPERATIONS: &[(&str, &[&str])] = &[
    ("AttachVolume", &["VolumeId"]),
    ("CreateSnapshot", &["VolumeId"]),
    ("CreateTags", &["ResourceId."]),
    ("CreateVolume", &[]),
    ("DeleteTags", &["ResourceId."]),
    ("DeleteVolume", &["VolumeId"]),
    ("DescribeInstances", &["InstanceId."]),
    ("DescribeSnapshots", &["SnapshotId."]),
    ("DescribeVolumes", &["VolumeId."]),
    ("DescribeVolumesModifications", &["VolumeId."]),
    ("DetachVolume", &["VolumeId"]),
];

/// The emulated EC2.
#[derive(Debug, Clone, Default)]
pub struct Ec2 {
    inventory: Inventory,
    judge: Judge,
    /// By name of the role.
    roles: BTreeMap<String, RoleRules>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
enum Ec2Seed {
    Volume(Seeded),
    Instance(Seeded),
}

#[derive(Deserialize)]
struct Seeded {
    id: String,
    #[serde(flatten)]
    fields: Map<String, Value>,
}

impl Ec2 {
    /// An EC2 without volumes.
    pub fn new() -> Self {
        Self::default()
    }

    /// Executes a request; the answer is what is inside the root.
    fn execute(
        &mut self,
        asker: &Asker<'_>,
        request: &Request,
        longest: usize,
    ) -> Result<Element, ApiError> {
        let params = Params(request);
        let name = format!("{}Response", asker.operation);
        let done = || Element::new(&name).leaf("return", "true");
        self.allow(asker)?;
        match asker.operation {
            "AttachVolume" => {
                let volume = params.needed("VolumeId")?;
                let instance = params.needed("InstanceId")?;
                let device = params.needed("Device")?;
                let attached = self.attach_volume(asker, volume, instance, device)?;
                Ok(document::attachment(&name, volume, &attached))
            }
            "DetachVolume" => {
                let volume = params.needed("VolumeId")?;
                let detaching = Detaching {
                    instance: params.text("InstanceId"),
                    device: params.text("Device"),
                    force: params.flag("Force")?,
                };
                let attached = self.detach_volume(asker, volume, detaching)?;
                Ok(document::attachment(&name, volume, &attached))
            }
            "CreateVolume" => {
                let made = self.create_volume(asker, NewVolume::read(params)?)?;
                Ok(document::volume(&name, &made))
            }
            "DeleteVolume" => {
                self.delete_volume(asker, params.needed("VolumeId")?)?;
                Ok(done())
            }
            "CreateSnapshot" => {
                let volume = params.needed("VolumeId")?;
                let description = params.text("Description").unwrap_or_default();
                let tags = params.created_with("snapshot")?;
                let made = self.create_snapshot(asker, volume, description, tags)?;
                Ok(document::snapshot(&name, &made, asker.now))
            }
            "CreateTags" => {
                let tags = params.tags("Tag")?;
                self.create_tags(asker, &params.list("ResourceId"), &tags)?;
                Ok(done())
            }
            "DeleteTags" => {
                let tags = params.tag_list("Tag");
                self.delete_tags(asker, &params.list("ResourceId"), &tags)?;
                Ok(done())
            }
            _ => self.describe(asker, params, longest),
        }
    }

    fn describe(
        &self,
        asker: &Asker<'_>,
        params: Params<'_>,
        longest: usize,
    ) -> Result<Element, ApiError> {
        let (name, set, next): (_, Vec<_>, _) = match asker.operation {
            "DescribeVolumes" => {
                let selection = params.selection("VolumeId", "volumesSet", longest)?;
                let (page, next) = self.describe_volumes(asker, &selection)?;
                let set = page.into_iter();
                let set = set.map(|one| document::volume("item", one)).collect();
                ("volumeSet", set, next)
            }
            "DescribeVolumesModifications" => {
                let selection = params.selection("VolumeId", "volumesSet", longest)?;
                let (page, next) = self.describe_modifications(asker, &selection)?;
                let set = page.into_iter().filter_map(|one| {
                    let change = one.modification.as_ref()?;
                    Some(document::modification(one, change))
                });
                ("volumeModificationSet", set.collect(), next)
            }
            "DescribeSnapshots" => {
                let selection = params.selection("SnapshotId", "snapshotSet", longest)?;
                let owners = params.list("Owner");
                let (page, next) = self.describe_snapshots(asker, &owners, &selection)?;
                let shown = |one| document::snapshot("item", one, asker.now);
                ("snapshotSet", page.into_iter().map(shown).collect(), next)
            }
            _ => {
                let selection = params.selection("InstanceId", "instancesSet", longest)?;
                let (page, next) = self.describe_instances(asker, &selection)?;
                let volumes: Vec<_> = self.inventory.volumes_seen(asker.view).collect();
                let shown = |one| document::reservation(one, &volumes);
                (
                    "reservationSet",
                    page.into_iter().map(shown).collect(),
                    next,
                )
            }
        };
        Ok(Element::new(&format!("{}Response", asker.operation))
            .child(Element::new(name).children(set))
            .leaf_if("nextToken", next.as_deref()))
    }
}

impl Service for Ec2 {
    fn name(&self) -> &'static str {
        "ec2"
    }

    fn protocol(&self) -> Protocol {
        Protocol::Ec2
    }

    fn operation(&self, request: &Request) -> Option<Operation> {
        if request.param("Version") != Some(VERSION) {
            return None;
        }
        let name = request.param("Action")?;
        let (_, named) = OPERATIONS
            .iter()
            .find(|(operation, _)| *operation == name)?;
        Some(Operation {
            name: name.to_owned(),
            resource: resources(Params(request), named),
        })
    }

    fn is_dry_run(&self, request: &Request) -> bool {
        Params(request).flag("DryRun").unwrap_or_default()
    }

    fn call(&mut self, call: &Call<'_>, request: &Request) -> Result<Response, ApiError> {
        let Moment { now, switches, .. } = call.moment;
        self.inventory.settle(now);
        let missing = || ApiError::new(401, "AuthFailure", "Sign the request.");
        let caller = call.caller.ok_or_else(missing)?;
        let asker = Asker {
            account: &caller.account,
            region: call.region,
            caller: Some(caller),
            operation: call.operation,
            now,
            view: call.view.lagged(now, switches.span("readLag")),
            dry_run: Params(request).flag("DryRun")?,
        };
        let longest = usize::try_from(switches.count("pageSize")).unwrap_or(usize::MAX);
        let answer = self.execute(&asker, request, longest.clamp(1, LONGEST_PAGE))?;
        // A change without delay is complete once it is answered.
        self.inventory.settle(now);
        let answer = answer.leaf("requestId", call.request_id);
        Ok(Response::xml(200, answer.xmlns(NAMESPACE).document()))
    }

    fn seen(&mut self, moment: &Moment<'_>, outcome: &Outcome<'_>) {
        self.judge_call(moment, outcome);
    }

    fn switches(&self) -> &'static [Switch] {
        SWITCHES
    }

    fn mutate(&mut self, moment: &Moment<'_>, change: Value) -> Result<Value, ControlError> {
        self.inventory.settle(moment.now);
        match read("mutate ec2", change)? {
            Ec2Seed::Volume(Seeded { id, fields }) => {
                self.put_volume(&id, Value::Object(fields), moment.now)
            }
            Ec2Seed::Instance(Seeded { id, fields }) => {
                self.put_instance(&id, Value::Object(fields), moment.now)
            }
        }
    }

    fn verbs(&self) -> &'static [&'static str] {
        control::VERBS
    }

    fn verb(&mut self, moment: &Moment<'_>, verb: &Verb) -> Option<Result<Value, ControlError>> {
        self.inventory.settle(moment.now);
        self.run(verb, moment.now)
    }

    fn state(&self, moment: &Moment<'_>) -> Value {
        let mut settled = self.clone();
        settled.inventory.settle(moment.now);
        let mut shown = settled.shown(moment.now);
        let snapshots = settled.inventory.snapshots.list(View::Live);
        shown["snapshots"] = snapshots.map(|(_, snapshot)| json!(snapshot)).collect();
        shown
    }

    fn violations(&self) -> Vec<Violation> {
        self.judge.violations.clone()
    }

    fn timeline(&mut self, moment: &Moment<'_>) -> Vec<TimelineEntry> {
        self.inventory.settle(moment.now);
        self.inventory.timeline.entries().cloned().collect()
    }

    fn reset(&mut self) {
        self.inventory.reset();
        self.judge = Judge::default();
        self.roles.clear();
    }
}

/// The ids that a request names, also those in filters.
fn resources(params: Params<'_>, named: &[&str]) -> Option<String> {
    let mut ids = Vec::new();
    for name in named {
        match name.strip_suffix('.') {
            Some(list) => ids.extend(params.list(list)),
            None => ids.extend(params.text(name)),
        }
    }
    for n in 1.. {
        match params.text(&format!("Filter.{n}.Name")) {
            Some("volume-id" | "snapshot-id" | "instance-id") => {
                ids.extend(params.list(&format!("Filter.{n}.Value")));
            }
            Some(_) => {}
            None => break,
        }
    }
    (!ids.is_empty()).then(|| ids.join(","))
}
