//! What the core decides: one change, a wait, or why the run cannot go on. Plain values.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use api::migrate::{FailReason, HoldReason, StallReason, StepName};
use serde_json::Value;

use super::observation::{Side, Version};
use crate::record::hashes::sha256;

/// Hexadecimal digits of the token of an intent.
const TOKEN_LENGTH: usize = 16;

/// What comes next in a part of the run.
#[derive(Debug, Clone, PartialEq)]
pub enum Decision {
    /// Nothing is left to do in this part.
    Done,
    /// One change. Its intent must be saved first.
    Act(Step),
    /// Something takes time.
    Wait(Wait),
    /// EC2 must be read for these disks. Reads that began before this time, by the clock of the process, are
    /// not enough.
    ReadDisks {
        /// The step that needs it.
        step: StepName,
        /// The volume ids.
        ids: Vec<String>,
        /// The earliest time at which the read may begin.
        not_before: Duration,
    },
    /// EC2 must be searched for the snapshots of an ordinal. Searches that began before this time, by the clock of
    /// the process, are not enough.
    ReadSnapshots {
        /// The step that needs it.
        step: StepName,
        /// The ordinal.
        ordinal: i32,
        /// The tags that they have.
        tags: BTreeMap<String, String>,
        /// The earliest time at which the read may begin.
        not_before: Duration,
    },
    /// Somebody interferes. Nothing is written until the cause is gone and a person says go on.
    Hold(Interference),
    /// The run fails here, until a person says go on.
    Fail(Failure),
}

/// One change outside.
#[derive(Debug, Clone, PartialEq)]
pub struct Step {
    /// The step that it belongs to.
    pub name: StepName,
    /// The ordinal; none for steps of the whole run.
    pub ordinal: Option<i32>,
    /// The change.
    pub change: Change,
}

/// A kind of object that the run changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ObjectKind {
    /// `apps/v1` StatefulSet.
    StatefulSet,
    /// `apps/v1` ControllerRevision.
    ControllerRevision,
    /// Pod.
    Pod,
    /// PersistentVolumeClaim.
    Claim,
    /// PersistentVolume.
    Volume,
    /// ConfigMap: locks with their journal.
    ConfigMap,
    /// Secret: captures.
    Secret,
}

impl ObjectKind {
    /// As Kubernetes names it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::StatefulSet => "StatefulSet",
            Self::ControllerRevision => "ControllerRevision",
            Self::Pod => "Pod",
            Self::Claim => "PersistentVolumeClaim",
            Self::Volume => "PersistentVolume",
            Self::ConfigMap => "ConfigMap",
            Self::Secret => "Secret",
        }
    }
}

/// An object as it was read: the target of a change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// Its kind.
    pub kind: ObjectKind,
    /// Its namespace; none for PersistentVolumes.
    pub namespace: Option<String>,
    /// Its name.
    pub name: String,
    /// UID and resourceVersion: the preconditions of the change.
    pub version: Version,
}

/// A change of one object, or of one disk's tags or snapshots.
#[derive(Debug, Clone, PartialEq)]
pub enum Change {
    /// Creates an object. An existing one is compared, and never overwritten.
    Create {
        /// Where.
        side: Side,
        /// The kind.
        kind: ObjectKind,
        /// The whole object.
        body: Value,
    },
    /// Creates the Secret of the capture beside the migration, in the operator's own cluster.
    StoreCapture {
        /// The whole Secret.
        body: Value,
    },
    /// A merge patch of exactly the version that was read.
    Patch {
        /// Where.
        side: Side,
        /// Which.
        target: Target,
        /// The fields to change.
        patch: Value,
    },
    /// Creates tags of a disk, or changes their values.
    CreateTags {
        /// The volume id.
        disk: String,
        /// The tags.
        tags: BTreeMap<String, String>,
    },
    /// Deletes tags of a disk.
    DeleteTags {
        /// The volume id.
        disk: String,
        /// Their keys.
        keys: Vec<String>,
    },
    /// Creates a snapshot of a disk, and does not wait for its completion.
    CreateSnapshot {
        /// The volume id.
        disk: String,
        /// Its tags, by which it is found after a lost answer.
        tags: BTreeMap<String, String>,
        /// How many attempts have failed, as far as EC2 shows. Another attempt is another intent.
        attempt: i32,
    },
    /// Deletes exactly the version that was read, with the object's own grace period.
    Delete {
        /// Where.
        side: Side,
        /// Which.
        target: Target,
        /// Whether its dependents stay.
        orphans_dependents: bool,
    },
}

impl Change {
    /// Names the change by its text: the version that it is bound to may differ in the pass that makes it.
    pub fn token(&self) -> String {
        let mut token = sha256(self.to_string().as_bytes());
        token.truncate(TOKEN_LENGTH);
        token
    }
}

impl Decision {
    /// A change.
    pub fn act(name: StepName, ordinal: Option<i32>, change: Change) -> Self {
        Self::Act(Step {
            name,
            ordinal,
            change,
        })
    }

    /// A wait that ends with an event.
    pub fn wait(
        step: StepName,
        ordinal: Option<i32>,
        reason: StallReason,
        detail: impl Into<String>,
    ) -> Self {
        Self::Wait(Wait {
            step,
            ordinal,
            reason,
            detail: detail.into(),
            after: None,
        })
    }

    /// A hold.
    pub fn on_hold(reason: HoldReason, ordinal: Option<i32>, message: impl Into<String>) -> Self {
        Self::Hold(Interference {
            reason,
            ordinal,
            message: message.into(),
        })
    }

    /// The step that the part is at. None when nothing is left of it, and while a person has to act.
    pub fn step(&self) -> Option<StepName> {
        match self {
            Self::Act(step) => Some(step.name),
            Self::Wait(wait) => Some(wait.step),
            Self::ReadDisks { step, .. } | Self::ReadSnapshots { step, .. } => Some(*step),
            Self::Done | Self::Hold(_) | Self::Fail(_) => None,
        }
    }
}

impl Change {
    /// The cluster whose object it changes. None for EC2 and for the operator's own cluster.
    pub fn side(&self) -> Option<Side> {
        match self {
            Self::Create { side, .. } | Self::Patch { side, .. } | Self::Delete { side, .. } => {
                Some(*side)
            }
            Self::StoreCapture { .. }
            | Self::CreateTags { .. }
            | Self::DeleteTags { .. }
            | Self::CreateSnapshot { .. } => None,
        }
    }
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Create { side, kind, body } => {
                let name = body["metadata"]["name"].as_str().unwrap_or_default();
                write!(f, "create {} {name} in the {side}", kind.as_str())
            }
            Self::StoreCapture { body } => {
                let name = body["metadata"]["name"].as_str().unwrap_or_default();
                write!(f, "create Secret {name} beside the migration")
            }
            Self::Patch {
                side,
                target,
                patch,
            } => {
                let fields = changed_fields(patch).join(", ");
                write!(f, "change {fields} of {target} in the {side}")
            }
            Self::CreateTags { disk, tags } => {
                let keys: Vec<&str> = tags.keys().map(String::as_str).collect();
                write!(f, "create tags {} of disk {disk}", keys.join(", "))
            }
            Self::DeleteTags { disk, keys } => {
                write!(f, "delete tags {} of disk {disk}", keys.join(", "))
            }
            Self::CreateSnapshot { disk, attempt, .. } => {
                write!(f, "create a snapshot of disk {disk}")?;
                if *attempt > 0 {
                    write!(f, ", attempt {}", attempt.saturating_add(1))?;
                }
                Ok(())
            }
            Self::Delete {
                side,
                target,
                orphans_dependents,
            } => {
                let dependents = if *orphans_dependents {
                    ", its pods stay"
                } else {
                    ""
                };
                write!(f, "delete {target} in the {side}{dependents}")
            }
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.kind.as_str(), self.name)
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.name, self.change)
    }
}

/// The changed fields of a patch below `metadata` and `spec`, such as `spec.replicas`.
fn changed_fields(patch: &Value) -> Vec<String> {
    let sections = patch.as_object().into_iter().flatten();
    let fields = sections.flat_map(|(section, fields)| {
        let fields = fields.as_object().into_iter().flatten();
        fields.map(move |(field, _)| format!("{section}.{field}"))
    });
    fields.collect()
}

/// Something that takes time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wait {
    /// The step that waits.
    pub step: StepName,
    /// The ordinal that waits.
    pub ordinal: Option<i32>,
    /// The reason of the stall that it becomes at its limit.
    pub reason: StallReason,
    /// What it waits for, as a sentence.
    pub detail: String,
    /// When to decide again even if nothing changes.
    pub after: Option<Duration>,
}

/// Interference.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Interference {
    /// The reason.
    pub reason: HoldReason,
    /// The ordinal that it concerns.
    pub ordinal: Option<i32>,
    /// What was found, and what a person has to do.
    pub message: String,
}

/// A failure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// The reason.
    pub reason: FailReason,
    /// The ordinal that it concerns.
    pub ordinal: Option<i32>,
    /// What happened, and what a person has to do.
    pub message: String,
}

/// A setting that is not as it was before the run.
#[derive(Debug, Clone, PartialEq)]
pub struct Setting {
    /// The cluster.
    pub side: Side,
    /// The object as it was read.
    pub target: Target,
    /// The fields that differ.
    pub patch: Value,
    /// Why it must not be restored as things are.
    pub obstacle: Option<Interference>,
}

/// The first decision that is not [`Decision::Done`].
pub fn first_unfinished(mut decided: impl Iterator<Item = Decision>) -> Decision {
    decided
        .find(|decision| *decision != Decision::Done)
        .unwrap_or(Decision::Done)
}

/// The first of these settings is restored, unless something forbids it.
pub fn first_setting(name: StepName, settings: &[Setting]) -> Decision {
    let Some(setting) = settings.first() else {
        return Decision::Done;
    };
    if let Some(obstacle) = &setting.obstacle {
        return Decision::Hold(obstacle.clone());
    }
    let change = Change::Patch {
        side: setting.side,
        target: setting.target.clone(),
        patch: setting.patch.clone(),
    };
    first_change(name, &[change])
}

/// The first of these changes is made.
pub fn first_change(name: StepName, changes: &[Change]) -> Decision {
    match changes.first() {
        None => Decision::Done,
        Some(change) => Decision::act(name, None, change.clone()),
    }
}
