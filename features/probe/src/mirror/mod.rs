//! Mirror: a text in a ConfigMap of the same name in another cluster.
//!
//! ```text
//! Secret ─▶ vetted kubeconfig ─▶ connection ─▶ identity ─▶ copy
//! ```

mod connections;
mod io;
#[cfg(test)]
mod model;
mod plan;
mod status;
#[cfg(test)]
mod tests;

use std::fmt;
use std::time::Duration;

use api::probe::{FINALIZER, Mirror, MirrorStatus, SecretKey};
use engine::{Call, Effect, Ended, KindCore, Learned, Next, Report, Stop};
use kernel::{CallError, ClusterId, Ownership};

pub(crate) use io::Mirrors;

/// Decides about Mirrors.
pub(crate) struct MirrorCore {
    pub(crate) cluster: ClusterId,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Read {
    /// The Secret, and with its kubeconfig the identity of the other cluster.
    Connection {
        kubeconfig: SecretKey,
        /// The cluster that was used before.
        pinned: Option<String>,
        /// The cluster that a person has accepted and that was not used yet.
        accepted: Option<String>,
    },
    /// The ConfigMap in this namespace of the other cluster.
    Copy(String),
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Answer {
    Connection(Connection),
    Copy(Option<Copy>),
}

/// What a kubeconfig leads to.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Connection {
    /// There is no such Secret, or it lacks the key.
    NoKubeconfig,
    /// The kubeconfig may not be used, for this reason.
    Refused(String),
    /// Another cluster than the one that this process has verified before, for this reason.
    Moved(String),
    /// The cluster of this identity.
    Cluster(String),
}

/// A ConfigMap in the other cluster.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Copy {
    pub(crate) ownership: Ownership,
    pub(crate) uid: String,
    pub(crate) text: Option<String>,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Step {
    /// Creates the copy, or edits the one of this UID.
    Write {
        cluster: String,
        namespace: String,
        text: String,
        over: Option<String>,
    },
    /// Deletes the copy of this UID.
    Remove {
        cluster: String,
        namespace: String,
        uid: String,
    },
}

/// Saved before the first write: there may be a copy in the cluster of this identity.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct PinnedCluster(pub(crate) String);

/// The copy, as far as this pass has read it.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) enum Seen {
    #[default]
    Unread,
    Absent,
    Present(Copy),
}

impl From<Option<Copy>> for Seen {
    fn from(found: Option<Copy>) -> Self {
        found.map_or(Self::Absent, Self::Present)
    }
}

/// What this pass has observed, as its own steps changed it since.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Observed {
    pub(crate) connection: Option<Connection>,
    pub(crate) copy: Seen,
    /// Why a call failed.
    pub(crate) error: Option<CallError>,
}

pub(crate) type World = engine::World<MirrorCore>;

impl KindCore for MirrorCore {
    type Resource = Mirror;
    type Status = MirrorStatus;
    type Facts = ();
    type Observed = Observed;
    type Memory = ();
    type Read = Read;
    type Answer = Answer;
    type Step = Step;
    type Outcome = String;
    type Intent = PinnedCluster;

    fn name(&self) -> &'static str {
        "mirror"
    }

    fn finalizer(&self) -> &'static str {
        FINALIZER
    }

    fn next(&self, world: &World) -> Result<Next<Read, Step>, Stop> {
        plan::next(world)
    }

    fn learn(&self, world: &mut World, learned: Learned<Self>) {
        let observed = &mut world.observed;
        match learned {
            Learned::Answer { answer, .. } => match answer {
                Ok(Answer::Connection(connection)) => observed.connection = Some(connection),
                Ok(Answer::Copy(found)) => observed.copy = found.into(),
                Err(error) => observed.error = Some(error),
            },
            Learned::Outcome { step, outcome } => match (step, outcome) {
                (Step::Write { text, .. }, Ok(uid)) => {
                    observed.copy = Seen::Present(Copy {
                        ownership: Ownership::Ours,
                        uid,
                        text: Some(text),
                    });
                }
                (Step::Remove { .. }, Ok(_)) => observed.copy = Seen::Absent,
                (_, Err(error)) => observed.error = Some(error),
            },
        }
    }

    fn status(&self, world: &World, ended: &Ended<PinnedCluster>) -> (MirrorStatus, Report) {
        status::status(world, ended)
    }

    fn intent_for(&self, step: &Step) -> Option<PinnedCluster> {
        match step {
            Step::Write { cluster, .. } => Some(PinnedCluster(cluster.clone())),
            Step::Remove { .. } => None,
        }
    }

    fn saved_intents(&self, status: &MirrorStatus) -> Vec<PinnedCluster> {
        let pinned = status.cluster.clone().map(PinnedCluster);
        pinned.into_iter().collect()
    }

    /// A refusal backs off like any other failure.
    fn hold_off(&self, _error: &CallError, _count: u32) -> Option<Duration> {
        None
    }
}

impl fmt::Display for Read {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Connection { kubeconfig, .. } => {
                write!(f, "connect with Secret {}", kubeconfig.name)
            }
            Self::Copy(namespace) => write!(f, "get the copy in namespace {namespace}"),
        }
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Write { namespace, .. } => write!(f, "write the copy in namespace {namespace}"),
            Self::Remove { namespace, .. } => write!(f, "delete the copy in namespace {namespace}"),
        }
    }
}

impl Call for Read {}

impl Call for Step {}

impl Effect for Step {
    const NAMES: &'static [&'static str] = &["write", "remove"];

    fn name(&self) -> &'static str {
        match self {
            Self::Write { .. } => "write",
            Self::Remove { .. } => "remove",
        }
    }
}
