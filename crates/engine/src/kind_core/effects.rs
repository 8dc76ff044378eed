//! The effects of a pass. Production, preview and simulator each implement them.

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

/// A write of the object itself. A pass makes at most one write of metadata and one of status.
#[derive(Debug, Clone, PartialEq)]
pub enum ObjectWrite<'a> {
    /// Adds the finalizer to the object.
    AddFinalizer(&'a str),
    /// Removes the finalizer, so that the object can go.
    RemoveFinalizer(&'a str),
    /// Removes an annotation.
    RemoveAnnotation(&'a str),
    /// Replaces the fields of the status that the kind's type has.
    Status {
        /// These fields of the old status, as JSON.
        before: &'a Value,
        /// The new status with its conditions.
        after: &'a Value,
    },
}

impl ObjectWrite<'_> {
    /// The name in the kill points of this write.
    pub(super) fn name(&self) -> &'static str {
        match self {
            Self::AddFinalizer(_) | Self::RemoveFinalizer(_) | Self::RemoveAnnotation(_) => {
                "metadata"
            }
            Self::Status { .. } => "status",
        }
    }
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

    /// A point at which a chaos build may end the process.
    fn kill_point(&self, name: &str) {
        let _ = name;
    }

    /// Emits an event about the object.
    fn event(&self, note: Note) {
        let _ = note;
    }

    /// Makes one read.
    fn read(&self, read: &K::Read) -> impl Future<Output = Result<K::Answer, CallError>> + Send;

    /// Performs one step.
    fn apply(&self, step: &K::Step) -> impl Future<Output = Result<K::Outcome, CallError>> + Send;

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
