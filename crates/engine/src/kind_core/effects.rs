//! What a pass may do to the world. Production, preview and simulator each bring their own.

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
    /// Steps are collected. Finalizer and intents count as saved; nothing is written.
    Preview,
}

/// A write of the object itself. A pass makes at most one of metadata and one of status.
#[derive(Debug, Clone, PartialEq)]
pub enum ObjectWrite<'a> {
    /// Puts the finalizer on the object.
    AddFinalizer(&'a str),
    /// Lets the object go.
    RemoveFinalizer(&'a str),
    /// Removes an annotation that has done its work.
    RemoveAnnotation(&'a str),
    /// Replaces what the kind's type knows of the status.
    Status {
        /// What the kind's type knew of the old one, as JSON.
        before: &'a Value,
        /// The new one, conditions included.
        after: &'a Value,
    },
}

impl ObjectWrite<'_> {
    /// The word in the kill points around this write.
    pub(super) fn name(&self) -> &'static str {
        match self {
            Self::AddFinalizer(_) | Self::RemoveFinalizer(_) | Self::RemoveAnnotation(_) => {
                "metadata"
            }
            Self::Status { .. } => "status",
        }
    }
}

/// What a pass may do to the world.
///
/// Every write asks the leader's guard when its bytes leave, so the guard is behind these functions and
/// not in the loop. A closed guard answers [`Class::Deposed`](kernel::Class::Deposed); the loop then ends
/// the pass and writes nothing more.
pub trait Effects<K: KindCore>: Sync {
    /// Whether steps are performed.
    fn mode(&self) -> Mode {
        Mode::Perform
    }

    /// The wall time.
    fn now(&self) -> Timestamp;

    /// Time since the process began.
    fn elapsed(&self) -> Duration;

    /// Takes facts from the caches.
    fn gather(&self, object: &Object<K>) -> K::Facts;

    /// Counts a pass in the kind's own metrics.
    fn count(&self, world: &World<K>, ended: &Ended<K::Intent>, took: Duration) {
        let _ = (world, ended, took);
    }

    /// A chaos build may end the process here.
    fn kill_point(&self, name: &str) {
        let _ = name;
    }

    /// Records an event about the object.
    fn event(&self, note: Note) {
        let _ = note;
    }

    /// Makes one read.
    fn read(&self, read: &K::Read) -> impl Future<Output = Result<K::Answer, CallError>> + Send;

    /// Performs one step.
    fn apply(&self, step: &K::Step) -> impl Future<Output = Result<K::Outcome, CallError>> + Send;

    /// Writes the object under the version given, and returns its new version.
    fn write(
        &self,
        write: ObjectWrite<'_>,
        version: &str,
    ) -> impl Future<Output = Result<String, CallError>> + Send;

    /// Waits for calls that leave the cluster, without a place among the running passes.
    fn wait_outside<T: Send>(
        &self,
        wait: impl Future<Output = T> + Send,
    ) -> impl Future<Output = T> + Send {
        wait
    }
}
