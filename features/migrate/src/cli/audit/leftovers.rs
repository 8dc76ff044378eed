//! What is left of runs, and what may be removed of it. Pure.

use std::collections::BTreeMap;
use std::fmt;

use api::migrate::StatefulSetMigration;
use api::migrate::names::{MIGRATED_FROM, MIGRATED_LABEL, MOVED_TO, RUN, TOMBSTONE_LABEL};
use serde_json::{Value, json};

use super::fate::RunFate;
use super::fence;
use crate::cli::journal::{FoundLock, target as lock_target};
use crate::migration::decision::{Change, ObjectKind, Target};
use crate::migration::documents::version;
use crate::migration::extract;
use crate::migration::observation::{DiskRead, Side};
use crate::record::lock::StoredLock;

/// The objects of one cluster that runs may have left something at, or that prove that it is unused.
#[derive(Debug, Default)]
pub(super) struct AuditedCluster {
    pub(super) sets: Vec<Value>,
    pub(super) claims: Vec<Value>,
    pub(super) volumes: Vec<Value>,
    pub(super) pods: Vec<Value>,
    pub(super) attachments: Vec<Value>,
    pub(super) nodes: Vec<Value>,
}

/// Everything that the audit judges.
#[derive(Default)]
pub(super) struct AuditReads {
    pub(super) source: AuditedCluster,
    pub(super) destination: AuditedCluster,
    /// The locks in both clusters.
    pub(super) locks: Vec<FoundLock>,
    /// The migrations of the management cluster.
    pub(super) migrations: Vec<StatefulSetMigration>,
    /// The identity of the management cluster.
    pub(super) management: String,
    /// The disks of fences, by volume id. A disk that EC2 does not have is there without a state.
    pub(super) disks: BTreeMap<String, DiskRead>,
    /// What could not be read, and why.
    pub(super) unread: Vec<String>,
    /// What the logins may not list, so that the audit does not cover it.
    pub(super) uncovered: Vec<String>,
}

impl AuditReads {
    /// One of the clusters.
    pub(super) fn cluster(&self, side: Side) -> &AuditedCluster {
        match side {
            Side::Source => &self.source,
            Side::Destination => &self.destination,
        }
    }

    /// What has become of a run.
    pub(super) fn fate(&self, run: &str) -> RunFate {
        let locks: Vec<&StoredLock> = self.locks.iter().map(|lock| &lock.stored).collect();
        RunFate::of(run, &self.migrations, &locks, &self.management)
    }
}

/// A kind of leftover.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LeftoverKind {
    /// A tombstone.
    Fence,
    /// The marker of a StatefulSet, or of a volume of the source.
    Marker,
    /// A disk that volumes of both clusters name.
    SharedDisk,
    /// A lock with its journal.
    Lock,
}

impl LeftoverKind {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Fence => "fence",
            Self::Marker => "marker",
            Self::SharedDisk => "shared disk",
            Self::Lock => "lock",
        }
    }
}

/// Whether a leftover may be removed.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum ReleaseVerdict {
    /// By these changes, for this reason.
    Release { changes: Vec<Change>, why: String },
    /// It stays, for this reason.
    Stays(String),
}

impl fmt::Display for ReleaseVerdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Release { why, .. } => write!(f, "may go: {why}"),
            Self::Stays(why) => write!(f, "stays: {why}"),
        }
    }
}

/// Something that a run has left.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Leftover {
    pub(super) side: Side,
    pub(super) kind: LeftoverKind,
    /// The object, for people.
    pub(super) object: String,
    /// The run, if it is recorded.
    pub(super) run: Option<String>,
    pub(super) verdict: ReleaseVerdict,
}

impl Leftover {
    /// Names it among all leftovers.
    pub(super) fn identity(&self) -> (Side, String) {
        (self.side, format!("{} {}", self.kind.as_str(), self.object))
    }

    /// The changes that remove it, if it may be removed.
    pub(super) fn changes(&self) -> Option<&[Change]> {
        match &self.verdict {
            ReleaseVerdict::Release { changes, .. } => Some(changes),
            ReleaseVerdict::Stays(_) => None,
        }
    }
}

/// All leftovers, in the order in which they are removed: the records of a run go last.
pub(super) fn leftovers(reads: &AuditReads, by_hand: bool) -> Vec<Leftover> {
    let mut all = Vec::new();
    for side in Side::BOTH {
        let claims = reads.cluster(side).claims.iter();
        let tombstones = claims.filter(|claim| label(claim, TOMBSTONE_LABEL) == Some("true"));
        all.extend(tombstones.map(|claim| fence::leftover(reads, side, claim, by_hand)));
    }
    for side in Side::BOTH {
        all.extend(
            reads
                .cluster(side)
                .sets
                .iter()
                .filter_map(|set| marked_set(reads, side, set)),
        );
        let volumes = reads.cluster(side).volumes.iter();
        all.extend(volumes.filter_map(|volume| marked_volume(reads, side, volume)));
    }
    all.extend(shared_disks(reads));
    all.extend(reads.locks.iter().map(|lock| lock_left(reads, lock)));
    all
}

/// A StatefulSet that was the source of a run. One that a run has made names its origin, and is no leftover.
fn marked_set(reads: &AuditReads, side: Side, set: &Value) -> Option<Leftover> {
    let run = annotation(set, RUN)?;
    if annotation(set, MIGRATED_FROM).is_some() {
        return None;
    }
    let patch = json!({"metadata": {"annotations": {RUN: null}}});
    Some(Leftover {
        side,
        kind: LeftoverKind::Marker,
        object: title("StatefulSet", set),
        run: Some(run.to_owned()),
        verdict: of_run(
            reads,
            run,
            vec![patched(side, ObjectKind::StatefulSet, set, patch)],
        ),
    })
}

/// A volume that was the source of a move.
///
/// | volume                                   | so                                            |
/// |------------------------------------------|-----------------------------------------------|
/// | without marker and `moved-to`            | no leftover                                   |
/// | made by a run, its disk named here alone | no leftover                                   |
/// | its run goes on, or is elsewhere         | stays                                         |
/// | `moved-to`, the disk is named in both    | the marker goes, `moved-to` stays             |
/// | any other                                | both go                                       |
fn marked_volume(reads: &AuditReads, side: Side, volume: &Value) -> Option<Leftover> {
    let (run, moved_to) = (annotation(volume, RUN), annotation(volume, MOVED_TO));
    let is_shared = disk(volume).is_some_and(|disk| named_by(reads, side.other(), &disk).is_some());
    let is_made = label(volume, MIGRATED_LABEL) == Some("true");
    if (run.is_none() && moved_to.is_none()) || (is_made && !is_shared) {
        return None;
    }
    let leftover = |verdict| Leftover {
        side,
        kind: LeftoverKind::Marker,
        object: title("PersistentVolume", volume),
        run: run.map(str::to_owned),
        verdict,
    };
    let change = |annotations: Value| {
        let patch = json!({"metadata": {"annotations": annotations}});
        vec![patched(side, ObjectKind::Volume, volume, patch)]
    };
    let verdict = match (run, moved_to) {
        (None, Some(to)) if is_shared => ReleaseVerdict::Stays(moved(to)),
        (None, _) => ReleaseVerdict::Release {
            changes: change(json!({MOVED_TO: null})),
            why: "no volume of the other cluster names its disk".to_owned(),
        },
        (Some(run), Some(_)) if !is_shared => {
            of_run(reads, run, change(json!({RUN: null, MOVED_TO: null})))
        }
        (Some(run), _) => of_run(reads, run, change(json!({RUN: null}))),
    };
    Some(leftover(verdict))
}

fn moved(to: &str) -> String {
    format!(
        "its disk is in use as {to}; delete the volume, whose policy keeps the disk, if nobody rolls back"
    )
}

/// Disks that volumes of both clusters name.
fn shared_disks(reads: &AuditReads) -> impl Iterator<Item = Leftover> {
    reads.source.volumes.iter().filter_map(|volume| {
        let disk = disk(volume)?;
        let other = named_by(reads, Side::Destination, &disk)?;
        let why = format!(
            "PersistentVolume {} in the source and {} in the destination name it; keep both while a run goes on, \
             else delete the one that is not used",
            extract::name(volume),
            extract::name(other)
        );
        Some(Leftover {
            side: Side::Source,
            kind: LeftoverKind::SharedDisk,
            object: disk,
            run: None,
            verdict: ReleaseVerdict::Stays(why),
        })
    })
}

fn lock_left(reads: &AuditReads, lock: &FoundLock) -> Leftover {
    let run = &lock.stored.holder;
    let change = Change::Delete {
        side: lock.side,
        target: lock_target(lock),
        orphans_dependents: false,
    };
    Leftover {
        side: lock.side,
        kind: LeftoverKind::Lock,
        object: title("ConfigMap", &lock.object),
        run: Some(run.clone()),
        verdict: of_run(reads, run, vec![change]),
    }
}

/// What belongs to a run goes only when nobody goes on with it.
fn of_run(reads: &AuditReads, run: &str, changes: Vec<Change>) -> ReleaseVerdict {
    let fate = reads.fate(run);
    if fate.is_ended() {
        let why = fate.to_string();
        ReleaseVerdict::Release { changes, why }
    } else {
        ReleaseVerdict::Stays(fate.to_string())
    }
}

/// The volume of a cluster that names a disk.
pub(super) fn named_by<'r>(reads: &'r AuditReads, side: Side, id: &str) -> Option<&'r Value> {
    let mut volumes = reads.cluster(side).volumes.iter();
    volumes.find(|volume| disk(volume).as_deref() == Some(id))
}

/// The disk of a volume.
pub(super) fn disk(volume: &Value) -> Option<String> {
    extract::volume(volume, "").disk
}

/// The value of an annotation that is not empty.
pub(super) fn annotation<'v>(object: &'v Value, key: &str) -> Option<&'v str> {
    let value = object["metadata"]["annotations"][key].as_str();
    value.filter(|value| !value.is_empty())
}

/// The value of a label.
pub(super) fn label<'v>(object: &'v Value, key: &str) -> Option<&'v str> {
    object["metadata"]["labels"][key].as_str()
}

/// The namespace of an object.
pub(super) fn namespace(object: &Value) -> Option<&str> {
    object["metadata"]["namespace"].as_str()
}

/// Kind, namespace and name, for people.
pub(super) fn title(kind: &str, object: &Value) -> String {
    let name = extract::name(object);
    match namespace(object) {
        Some(namespace) => format!("{kind} {namespace}/{name}"),
        None => format!("{kind} {name}"),
    }
}

/// The object as the target of a change.
pub(super) fn target(kind: ObjectKind, object: &Value) -> Target {
    Target {
        kind,
        namespace: namespace(object).map(str::to_owned),
        name: extract::name(object),
        version: version(object),
    }
}

/// A patch of exactly this version.
pub(super) fn patched(side: Side, kind: ObjectKind, object: &Value, patch: Value) -> Change {
    Change::Patch {
        side,
        target: target(kind, object),
        patch,
    }
}
