//! The effects of a pass. Production, preview and simulator each implement them.

use std::fmt;
use std::time::Duration;

use jiff::Timestamp;
use kernel::CallError;
use serde_json::Value;

use super::{Ended, KindCore, Object, World};
use crate::Note;

/// Whether steps are performed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Steps are performed, and the object is written.
    Perform,
    /// Steps are collected. Finalizer and intents count as saved. Nothing is written.
    Preview,
}

/// A write of the object itself. A pass makes at most one write of metadata and one of status: of several
/// that are needed, the next pass makes the next.
#[derive(Debug, Clone, PartialEq)]
pub enum ObjectWrite<'a> {
    /// Adds the finalizer to the object.
    AddFinalizer(&'a str),
    /// Removes the finalizer, so that the object can go.
    RemoveFinalizer(&'a str),
    /// Removes an annotation.
    RemoveAnnotation(&'a str),
    /// A merge patch of metadata, spec and other fields but status, such as a finalizer, a record in an
    /// annotation and defaults of the spec in one. Nothing is sent if it changes nothing.
    Edit(Value),
    /// A server-side apply of the object itself under a field manager of its own. Nothing is sent if the object
    /// is as desired. It is a request of its own, so it is the only write of metadata of its pass.
    ApplyOwn {
        /// The field manager.
        manager: &'a str,
        /// The desired fields. Name, apiVersion and kind are added.
        body: Value,
        /// Whether it takes over fields of other managers. Without it, they are a conflict.
        force: bool,
    },
    /// Writes the fields of the status that the kind's type has. Other fields and conditions stay.
    Status {
        /// These fields of the old status, as JSON.
        before: &'a Value,
        /// The new status with its conditions.
        after: &'a Value,
    },
    /// Replaces the whole status, also fields of others, or removes it. For a kind that
    /// [replaces its status](KindCore::replaces_status).
    ReplaceStatus(Option<&'a Value>),
}

impl ObjectWrite<'_> {
    /// The name in the kill points of this write.
    pub(super) fn name(&self) -> &'static str {
        match self {
            Self::AddFinalizer(_)
            | Self::RemoveFinalizer(_)
            | Self::RemoveAnnotation(_)
            | Self::Edit(_)
            | Self::ApplyOwn { .. } => "metadata",
            Self::Status { .. } | Self::ReplaceStatus(_) => "status",
        }
    }

    /// Whether a preview shows it: it writes what the kind desires, and does not only prepare a step.
    pub(super) fn is_previewed(&self) -> bool {
        matches!(self, Self::Edit(_) | Self::ApplyOwn { .. })
    }
}

/// The write as a phrase, for previews and traces.
impl fmt::Display for ObjectWrite<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AddFinalizer(_) => f.write_str("add the finalizer"),
            Self::RemoveFinalizer(_) => f.write_str("remove the finalizer"),
            Self::RemoveAnnotation(name) => write!(f, "remove the annotation {name}"),
            Self::Edit(patch) => write!(f, "edit {}", field_names(patch)),
            Self::ApplyOwn { manager, body, .. } => {
                write!(f, "apply {} as {manager}", field_names(body))
            }
            Self::Status { after, .. } => write!(f, "write status {after}"),
            Self::ReplaceStatus(Some(status)) => write!(f, "replace the status by {status}"),
            Self::ReplaceStatus(None) => f.write_str("remove the status"),
        }
    }
}

/// The fields of a body, such as `metadata.finalizers, spec.size`. Values are not shown.
fn field_names(body: &Value) -> String {
    let sections = body.as_object().into_iter().flatten();
    let names = sections.flat_map(|(section, fields)| match fields.as_object() {
        Some(fields) if !fields.is_empty() => {
            let names = fields.keys().map(|field| format!("{section}.{field}"));
            names.collect::<Vec<_>>()
        }
        Some(_) | None => vec![section.clone()],
    });
    names.collect::<Vec<_>>().join(", ")
}

/// The effects of a pass.
///
/// Every write checks the leader's guard when its bytes are sent, so implementations have the guard and
/// not the loop. A closed guard returns [`Class::Deposed`](kernel::Class::Deposed). The loop then ends the
/// pass and writes nothing more.
pub trait Effects<K: KindCore>: Sync {
    /// Whether steps are performed.
    fn mode(&self) -> Mode {
        Mode::Perform
    }

    /// The current time.
    fn now(&self) -> Timestamp;

    /// The time since the start of the process.
    fn elapsed(&self) -> Duration;

    /// Reads facts from the caches.
    fn gather(&self, object: &Object<K>) -> K::Facts;

    /// Counts a pass in the kind's own metrics.
    fn count(&self, world: &World<K>, ended: &Ended<K::Intent>, took: Duration) {
        let _ = (world, ended, took);
    }

    /// Whether kill points may do anything. Without it, a kind is not asked for points of its own.
    fn has_kill_points(&self) -> bool {
        false
    }

    /// A point at which a chaos build may end the process or wait.
    fn kill_point(&self, name: &str) -> impl Future<Output = ()> + Send {
        let _ = name;
        std::future::ready(())
    }

    /// Emits an event about the object.
    fn event(&self, note: Note) {
        let _ = note;
    }

    /// Makes one read.
    fn read(&self, read: &K::Read) -> impl Future<Output = Result<K::Answer, CallError>> + Send;

    /// Performs one step.
    fn apply(&self, step: &K::Step) -> impl Future<Output = Result<K::Outcome, CallError>> + Send;

    /// Whether a write would change the object, so that it would send something. It writes nothing.
    fn is_needed(
        &self,
        write: &ObjectWrite<'_>,
    ) -> impl Future<Output = Result<bool, CallError>> + Send {
        let _ = write;
        std::future::ready(Ok(true))
    }

    /// Writes the object, bound to `version`. Returns its new version.
    fn write(
        &self,
        write: ObjectWrite<'_>,
        version: &str,
    ) -> impl Future<Output = Result<String, CallError>> + Send;

    /// Waits for calls that leave the cluster. The pass gives its slot back meanwhile.
    fn wait_outside<T: Send>(
        &self,
        wait: impl Future<Output = T> + Send,
    ) -> impl Future<Output = T> + Send {
        wait
    }
}
