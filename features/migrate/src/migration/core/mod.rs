//! StatefulSetMigration: moves one StatefulSet with its disks to another cluster, and back.
//!
//! ```text
//! caches ─▶ decide ─▶ wait
//!             └─▶ live reads ─▶ decide ─▶ one change (its intent was saved before) ─▶ live reads ─▶ …
//! ```
//! What comes next is decided in [`pass`](super::pass) from a record and from what was read. This module
//! names the reads and changes for the engine, and stores their answers.

mod between_passes;
mod conclude;
mod decide;
mod decided;
mod errors;
mod kill_points;
mod needed_reads;
mod next;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use api::migrate::names::FINALIZER;
use api::migrate::{
    ClusterAccess, StatefulSetMigrationSpec, StatefulSetMigrationStatus, StepName, StoredMigration,
};
use engine::{Call, Ended, KillPoint, KindCore, Learned, Next, Object, Report, Stop};
use kernel::{CallError, ClusterId};
use serde_json::Value;

use super::decision::{Change, Step};
use super::documents::Documents;
use super::observation::{DiskRead, Side, SnapshotRead};
use super::pass::Memory;
use super::status;
use crate::preflight::Survey;

pub use between_passes::{awaited, needs_no_cluster};
pub use decide::decide;
pub use decided::{Decided, Move, Situation};
#[cfg(test)]
pub(crate) use next::RECHECK;

/// Decides about migrations.
#[derive(Debug, Clone)]
pub struct MigrationCore {
    /// The cluster that the migrations are in.
    pub management_cluster: ClusterId,
}

/// What the caches have, and what was last read of objects that are not watched: locks, captures, identities.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Facts {
    /// The objects of each cluster. None of a cluster that was not read since the start of the process.
    pub documents: BTreeMap<Side, Documents>,
    /// The Secret beside the migration.
    pub capture: Option<Value>,
    /// The latest answers of EC2.
    pub disks: BTreeMap<String, DiskRead>,
}

/// A call that reads.
#[derive(Debug, Clone, PartialEq)]
pub enum Read {
    /// The migration itself, as the API server has it now.
    Migration,
    /// The kubeconfig of a cluster, and with it the identity of the cluster.
    Connection {
        /// Which cluster.
        side: Side,
        /// Where its kubeconfig is.
        access: ClusterAccess,
        /// The identity that is on record.
        pinned: Option<String>,
    },
    /// The objects of a cluster, from its API server.
    Documents {
        /// Which cluster.
        side: Side,
        /// Which objects.
        scope: Scope,
    },
    /// The Secret of this name beside the migration.
    Capture(String),
    /// Volumes in EC2.
    Disks {
        /// Their ids.
        ids: Vec<String>,
        /// The earliest time at which the read may begin, by the clock of the process.
        not_before: Duration,
    },
    /// Snapshots in EC2.
    Snapshots {
        /// The ordinal that they are of.
        ordinal: i32,
        /// The tags that they have.
        tags: BTreeMap<String, String>,
        /// The earliest time at which the read may begin, by the clock of the process.
        not_before: Duration,
    },
    /// Everything that the checks judge.
    Survey {
        /// The id of the run.
        run: String,
        /// The spec of the migration.
        spec: Box<StatefulSetMigrationSpec>,
        /// The identities on record, of source and destination.
        pinned: [Option<String>; 2],
    },
}

/// Which objects of a cluster a run reads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scope {
    /// The namespace.
    pub namespace: String,
    /// The name of the StatefulSet.
    pub set: String,
    /// The name of the Secret of the capture; none where it is not stored.
    pub capture: Option<String>,
}

/// The answer to a [`Read`].
#[derive(Debug, Clone, PartialEq)]
pub enum Answer {
    /// None if the migration is gone.
    Migration(Option<LiveMigration>),
    /// What a kubeconfig leads to.
    Connection(Connection),
    /// The objects of a cluster.
    Documents(Box<Documents>),
    /// None if there is no such Secret.
    Capture(Option<Value>),
    /// By volume id.
    Disks(BTreeMap<String, DiskRead>),
    /// Those with the tags of the search.
    Snapshots(SnapshotRead),
    /// Everything that the checks judge.
    Survey(Box<Survey>),
}

/// The parts of the live migration that a change depends on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LiveMigration {
    /// Its UID.
    pub uid: String,
    /// The generation of its spec.
    pub generation: i64,
    /// Whether it is being deleted.
    pub is_deleting: bool,
    /// Whether its annotation asks for a pause.
    pub is_paused: bool,
    /// The token of its intent.
    pub token: Option<String>,
}

/// What a kubeconfig leads to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Connection {
    /// The cluster of this identity. Writes to it are allowed.
    Cluster(String),
    /// Another cluster than the one that is on record, for this reason. Writes to it are refused.
    Moved(String),
    /// The kubeconfig may not be used, for this reason. It contains no value of the kubeconfig.
    Refused(String),
}

/// One change, or the rewrite of a lock.
#[derive(Debug, Clone, PartialEq)]
pub enum Write {
    /// A change whose intent was saved.
    Change(Step),
    /// The rewrite of a lock, so that its journal shows the saved intent or phase.
    Mirror(Step),
}

/// What status names before a change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Announced {
    /// The step.
    pub step: StepName,
    /// The ordinal; none for a step of the whole run.
    pub ordinal: Option<i32>,
    /// Differs from that of any other change of the step.
    pub token: String,
}

/// What this pass has read.
#[derive(Debug, Clone, Default)]
pub struct Observed {
    /// The migration, unless it is gone.
    pub migration: Option<Option<LiveMigration>>,
    /// What each kubeconfig leads to.
    pub connections: BTreeMap<Side, Connection>,
    /// The objects of each cluster.
    pub documents: BTreeMap<Side, Documents>,
    /// The Secret beside the migration.
    pub capture: Option<Option<Value>>,
    /// Answers of EC2.
    pub disks: BTreeMap<String, DiskRead>,
    /// When this pass has changed the tags of a disk: earlier reads of it are old.
    pub retagged: BTreeMap<String, Duration>,
    /// Snapshots by ordinal.
    pub snapshots: BTreeMap<i32, SnapshotRead>,
    /// How many reads of EC2 this pass has made.
    pub disk_reads: usize,
    /// Everything that the checks judge.
    pub survey: Option<Box<Survey>>,
    /// Calls that failed, and why.
    pub failures: Vec<(FailedCall, CallError)>,
    /// The changes that this pass has made.
    pub changes: Vec<Write>,
}

/// A call that failed.
#[derive(Debug, Clone, PartialEq)]
pub enum FailedCall {
    /// A read.
    Read(Read),
    /// A change.
    Write(Write),
}

/// What a pass works on.
pub type World = engine::World<MigrationCore>;

impl KindCore for MigrationCore {
    type Resource = StoredMigration;
    type Status = StatefulSetMigrationStatus;
    type Facts = Facts;
    type Observed = Observed;
    type Memory = Memory;
    type Read = Read;
    type Answer = Answer;
    type Step = Write;
    type Outcome = ();
    type Intent = Announced;

    fn name(&self) -> &'static str {
        "migration"
    }

    fn finalizer(&self) -> &'static str {
        FINALIZER
    }

    fn next(&self, world: &World) -> Result<Next<Read, Write>, Stop> {
        next::next(self, world)
    }

    fn learn(&self, world: &mut World, learned: Learned<Self>) {
        let observed = &mut world.observed;
        match learned {
            Learned::Answer { read, answer, .. } => match answer {
                Ok(answer) => observed.store(&read, answer),
                Err(error) => observed.failures.push((FailedCall::Read(read), error)),
            },
            Learned::Outcome { step, outcome } => {
                // What was read before the change is old, also if its answer was lost.
                if let Change::CreateTags { disk, .. } | Change::DeleteTags { disk, .. } =
                    &step.step().change
                {
                    observed.retagged.insert(disk.clone(), world.elapsed);
                }
                observed.migration = None;
                observed.documents.clear();
                observed.capture = None;
                observed.snapshots.clear();
                match outcome {
                    Ok(()) => observed.changes.push(step),
                    Err(error) => observed.failures.push((FailedCall::Write(step), error)),
                }
            }
        }
    }

    fn status(
        &self,
        world: &World,
        ended: &Ended<Announced>,
    ) -> (StatefulSetMigrationStatus, Report) {
        status::status(&decide(self, world), world, ended)
    }

    fn remember(&self, world: &World, _: &Ended<Announced>) -> Memory {
        decide(self, world).memory
    }

    fn intent_for(&self, write: &Write) -> Option<Announced> {
        match write {
            Write::Change(step) => Some(Announced::of(step)),
            Write::Mirror(_) => None,
        }
    }

    fn saved_intents(&self, status: &StatefulSetMigrationStatus) -> Vec<Announced> {
        let intent = status.intent.as_ref();
        let saved = intent.map(|intent| Announced {
            step: intent.step,
            ordinal: intent.ordinal,
            token: intent.token.clone(),
        });
        saved.into_iter().collect()
    }

    /// A refused change is decided again on new reads.
    fn hold_off(&self, _: &CallError, _: u32) -> Option<Duration> {
        None
    }

    fn points_at_begin(&self, object: &Object<Self>) -> Vec<KillPoint> {
        kill_points::at_begin(&object.status)
    }

    fn points_reached(&self, world: &World) -> Vec<KillPoint> {
        kill_points::reached(&world.object.status, &decide(self, world))
    }
}

impl Observed {
    fn store(&mut self, read: &Read, answer: Answer) {
        match (read, answer) {
            (_, Answer::Migration(found)) => self.migration = Some(found),
            (Read::Connection { side, .. }, Answer::Connection(connection)) => {
                self.connections.insert(*side, connection);
            }
            (Read::Documents { side, .. }, Answer::Documents(documents)) => {
                self.documents.insert(*side, *documents);
            }
            (_, Answer::Capture(found)) => self.capture = Some(found),
            (_, Answer::Disks(disks)) => {
                self.disks.extend(disks);
                self.disk_reads += 1;
            }
            (Read::Snapshots { ordinal, .. }, Answer::Snapshots(snapshots)) => {
                self.snapshots.insert(*ordinal, snapshots);
                self.disk_reads += 1;
            }
            (_, Answer::Survey(survey)) => self.survey = Some(survey),
            (_, Answer::Connection(_) | Answer::Documents(_) | Answer::Snapshots(_)) => {}
        }
    }
}

impl Announced {
    /// The intent of a change.
    pub fn of(step: &Step) -> Self {
        Self {
            step: step.name,
            ordinal: step.ordinal,
            token: step.change.token(),
        }
    }
}

impl Write {
    /// The change.
    pub fn step(&self) -> &Step {
        match self {
            Self::Change(step) | Self::Mirror(step) => step,
        }
    }
}

impl fmt::Display for Read {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Migration => f.write_str("get the migration"),
            Self::Connection { side, .. } => write!(f, "connect to the {side}"),
            Self::Documents { side, .. } => write!(f, "read the objects of the {side}"),
            Self::Capture(name) => write!(f, "get Secret {name}"),
            Self::Disks { ids, .. } => write!(f, "describe volumes {}", ids.join(", ")),
            Self::Snapshots { ordinal, .. } => write!(f, "find snapshots of ordinal {ordinal}"),
            Self::Survey { .. } => f.write_str("read what the checks judge"),
        }
    }
}

impl fmt::Display for Write {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Change(step) => step.fmt(f),
            Self::Mirror(step) => write!(f, "mirror the journal: {}", step.change),
        }
    }
}

impl Call for Read {}

impl Call for Write {}
