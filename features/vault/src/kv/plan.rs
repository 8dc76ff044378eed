//! Decides the next read or step of a pass over a seed. Pure.

use std::fmt;
use std::time::Duration;

use api::vault::{DeletionPolicy, IntentKind, VaultKVSecretStatus, conditions, names, reasons};
use engine::{Ended, Next, ObjectWrite, Stop};
use kernel::{CallError, Class, Reason, is_true};
use serde_json::Value;

use super::path::KvPath;
use super::{
    Connected, Engine, Live, Location, Memory, Observed, Read, SeedIntent, SeedValues, Step,
    Values, World, announcement, is_dry_run, marker,
};
use crate::owner::{self, Ownership, Recorded};
use crate::settings::Deadline;
use crate::sync::{STARTING, THROTTLED, connection_not_ready};

/// The pause before the next pass while Vault is sealed or its connection is checked.
const OUTAGE_PAUSE: Duration = Duration::from_secs(10);

/// The plan of an object. While it is being deleted, nothing is desired, and the pass waits instead of
/// stopping.
pub(super) fn next(world: &World) -> Result<Next<Read, Step>, Stop> {
    match plan(world) {
        Err(stop) if world.object.is_deleting() => wait_to_delete(world, stop),
        planned => planned,
    }
}

/// The first row that fits decides.
///
/// | state                                              | next                                     |
/// |----------------------------------------------------|------------------------------------------|
/// | deleted, without calls: [`skipped_deletion`]       | done                                     |
/// | the path names no mount                            | blocked: ValidationFailed                |
/// | the connection cannot be used                      | wait, or blocked: ConnectionNotReady     |
/// | not deleted, and the tenancy denies it             | blocked: TenancyDenied                   |
/// | not deleted, and Vault found the same write invalid | blocked: ValidationFailed, without a call |
/// | a call failed                                      | [`after_failure`]                        |
/// | a read is missing                                  | that read, by [`situation`]              |
/// | marked, or deleted in Vault                        | done                                     |
/// | written                                            | mark                                     |
/// | refused, and no other writer was first             | stop: the refusal                        |
/// | any other                                          | by [`Situation::decision`]               |
fn plan(world: &World) -> Result<Next<Read, Step>, Stop> {
    let (object, observed) = (&world.object, &world.observed);
    if skipped_deletion(world).is_some() {
        return Ok(Next::done());
    }
    let at = location(world)?;
    let connected = connected(world)?;
    if !object.is_deleting() {
        permitted(world, connected, &at)?;
    }
    if let Some(error) = &observed.error {
        return after_failure(world, error);
    }
    let situation = match situation(world, connected, &at) {
        Ok(situation) => situation,
        Err(read) => return Ok(Next::read(read)),
    };
    let mark = |at: Location, version| {
        let is_first = situation.owner != Ownership::Ours;
        let keys = marker::keys(&connected.header, is_first, world.now);
        Next::step(Step::Mark { at, version, keys })
    };
    if observed.is_marked || observed.is_deleted {
        return Ok(Next::done());
    }
    if let Some(version) = observed.written {
        return Ok(mark(at, version));
    }
    let decision = situation.decision();
    if let Some(refusal) = &observed.refusal
        && !matches!(decision, Decision::Untouched { .. })
    {
        return Err(stop(refusal));
    }
    // A dry run does not stop, so that it reports every decision.
    let stops = !is_dry_run(object);
    Ok(match decision {
        Decision::Write { cas, kind } => Next::step(Step::Write {
            at,
            cas,
            kind,
            values: values(world),
        }),
        Decision::Claim { version } => mark(at, version),
        Decision::Delete => Next::step(Step::Delete(at)),
        Decision::Refuse { engine } if stops => {
            let (path, mount) = (&at.path, &at.path.mount);
            let message = format!("{path}: mount {mount} is {engine}; seeds need KV version 2");
            return Err(invalid(message));
        }
        Decision::Unreadable { owner } if stops => {
            let message = unreadable(&at.path, owner.as_deref());
            let reason = Reason::new(reasons::SEED_TARGET_DELETED, message);
            return Err(Stop::blocked(reason));
        }
        Decision::Refuse { .. }
        | Decision::Unreadable { .. }
        | Decision::Untouched { .. }
        | Decision::Unconfirmed
        | Decision::Absent
        | Decision::Left(_) => Next::done(),
    })
}

/// Why a deletion makes no call to Vault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SkippedDeletion {
    DryRun,
    Retained,
    NeverWritten,
}

/// | deleted | dry-run | deletionPolicy | seeded or announced | so            |
/// |---------|---------|----------------|---------------------|---------------|
/// | no      |         |                |                     | –             |
/// | yes     | yes     |                |                     | dry run       |
/// | yes     | no      | Retain         |                     | retained      |
/// | yes     | no      | Delete         | no                  | never written |
/// | yes     | no      | Delete         | yes                 | –             |
pub(super) fn skipped_deletion(world: &World) -> Option<SkippedDeletion> {
    let (object, status) = (&world.object, &world.object.status);
    let is_retained = object.resource.spec.deletion_policy == DeletionPolicy::Retain;
    let may_be_written = status.seeded == Some(true) || status.sync.intent.is_some();
    let skipped = if is_dry_run(object) {
        Some(SkippedDeletion::DryRun)
    } else if is_retained {
        Some(SkippedDeletion::Retained)
    } else {
        (!may_be_written).then_some(SkippedDeletion::NeverWritten)
    };
    skipped.filter(|_| object.is_deleting())
}

fn location(world: &World) -> Result<Location, Stop> {
    let spec = &world.object.resource.spec;
    let text = &spec.path;
    let path = KvPath::parse(text).ok_or_else(|| {
        invalid(format!(
            "path {text:.200} is not <mount>/data/<path>; make another seed"
        ))
    })?;
    Ok(Location {
        connection: spec.connection_ref.clone(),
        path,
    })
}

fn connected(world: &World) -> Result<&Connected, Stop> {
    let name = &world.object.resource.spec.connection_ref;
    let connection = world.facts.connection.as_ref();
    connection.map_err(
        |unavailable| match unavailable.meaning(name, world.pass.is_urgent) {
            (reason, Some(after)) => Stop::waiting(reason, after),
            (reason, None) => Stop::blocked(reason),
        },
    )
}

fn permitted(world: &World, connected: &Connected, at: &Location) -> Result<(), Stop> {
    let object = &world.object;
    if let Some(denial) = &connected.denial {
        let message = if object.status.seeded == Some(true) {
            format!("{denial}; {} stays unchanged in Vault", at.path)
        } else {
            denial.clone()
        };
        return Err(Stop::blocked(Reason::new(reasons::TENANCY_DENIED, message)));
    }
    let has_begun = world.observed != Observed::default();
    let is_reconcile_now = object.annotation(names::RECONCILE_NOW).is_some();
    let invalid = world.memory.invalid.as_ref();
    match invalid.filter(|(hash, _)| *hash == connected.write_inputs_hash) {
        Some((_, reason)) if !has_begun && !is_reconcile_now => Err(Stop::blocked(reason.clone())),
        Some(_) | None => Ok(()),
    }
}

/// The decision after a failed call. A lost answer or a server error may be the first sign of an outage, so
/// Vault's health is read. Then all objects report an outage in the same words.
///
/// | error                         | Vault is away | next                        |
/// |-------------------------------|---------------|-----------------------------|
/// | no answer, or a failing server | not read     | read the health             |
/// | no answer, or a failing server | yes          | blocked: ConnectionNotReady |
/// | no answer, or a failing server | no           | [`stop`]                    |
/// | any other                     |               | [`stop`]                    |
fn after_failure(world: &World, error: &CallError) -> Result<Next<Read, Step>, Stop> {
    let is_lost = error.class == Class::Unreachable && error.may_have_happened;
    let may_be_outage = is_lost || error.class == Class::Transient;
    match world.observed.is_away {
        None if may_be_outage => {
            let connection = &world.object.resource.spec.connection_ref;
            Ok(Next::read(Read::Health(connection.clone())))
        }
        Some(true) => Err(Stop::blocked(connection_not_ready())),
        Some(false) | None => Err(stop(error)),
    }
}

/// | class                      | so                                          |
/// |----------------------------|---------------------------------------------|
/// | throttled                  | wait or fail, and report nothing            |
/// | deposed                    | fail, and report nothing                    |
/// | sealed                     | wait: ConnectionNotReady                    |
/// | unreachable, nothing sent  | wait: ConnectionNotReady                    |
/// | denied                     | fail: VaultPermissionDenied                 |
/// | invalid                    | blocked: ValidationFailed                   |
/// | any other                  | fail: Failed                                |
fn stop(error: &CallError) -> Stop {
    let failed = |code: &'static str| Stop::Failed {
        reason: Reason::new(code, error.message.clone()),
        class: error.class,
    };
    match (error.class, error.retry_after) {
        (Class::Throttled, Some(after)) => {
            Stop::waiting(Reason::new(THROTTLED, error.message.clone()), after)
        }
        (Class::Throttled, None) => failed(THROTTLED),
        (Class::Sealed, _) => Stop::waiting(connection_not_ready(), OUTAGE_PAUSE),
        (Class::Unreachable, _) if !error.may_have_happened => {
            Stop::waiting(connection_not_ready(), OUTAGE_PAUSE)
        }
        (Class::Denied, _) => failed(reasons::VAULT_PERMISSION_DENIED),
        (Class::Invalid, _) => invalid(error.message.clone()),
        (
            Class::Unreachable
            | Class::Transient
            | Class::NotFound
            | Class::AlreadyExists
            | Class::Conflict
            | Class::Stale
            | Class::LimitExceeded
            | Class::Deposed,
            _,
        ) => failed(reasons::FAILED),
    }
}

fn invalid(message: String) -> Stop {
    Stop::blocked(Reason::new(reasons::VALIDATION_FAILED, message))
}

/// Whether the stop is not reported, because it passes by itself.
pub(super) fn is_silent(stop: &Stop) -> bool {
    let code = &*stop.reason().code;
    match stop {
        Stop::Blocked { .. } => false,
        Stop::Waiting { .. } => [STARTING, THROTTLED].contains(&code),
        Stop::Failed { class, .. } => *class == Class::Deposed || code == THROTTLED,
    }
}

/// Whether Vault may have refused a write because another writer was first. Vault then denies the write to a
/// token that may create but not update.
pub(super) fn may_be_second(error: &CallError) -> bool {
    matches!(
        error.class,
        Class::Denied | Class::Conflict | Class::Invalid
    )
}

/// The time since the start of the deletion.
pub(super) fn deleting_for(world: &World) -> Duration {
    let since = world.object.metadata.deletion_timestamp.as_ref();
    let since = since.map_or(world.now, |time| time.0);
    Duration::try_from(world.now.duration_since(since)).unwrap_or_default()
}

/// | the record of the leftover | deadline | next                                             |
/// |----------------------------|----------|--------------------------------------------------|
/// | made                       |          | done                                             |
/// | failed                     |          | fail                                             |
/// | none                       | over     | make it                                          |
/// | none                       | ahead    | wait; until the deadline at the latest           |
///
/// A deposed operator only ends the pass.
fn wait_to_delete(world: &World, stop: Stop) -> Result<Next<Read, Step>, Stop> {
    let facts = &world.facts;
    if let Stop::Failed { class, .. } = &stop
        && *class == Class::Deposed
    {
        return Err(stop);
    }
    match &world.observed.hand_over {
        Some(Ok(())) => return Ok(Next::done()),
        Some(Err(error)) => {
            let reason = Reason::new(reasons::FAILED, error.message.clone());
            let class = error.class;
            return Err(Stop::Failed { reason, class });
        }
        None => {}
    }
    let left = match facts.deletion_deadline {
        Deadline::After(limit) => limit.saturating_sub(deleting_for(world)),
        Deadline::Never => Duration::MAX,
    };
    if left.is_zero()
        && let Some(leftover) = &facts.leftover
    {
        return Ok(Next::step(Step::HandOver(leftover.clone())));
    }
    let retry = world.pass.retry_in.min(facts.error_interval);
    let is_silent = is_silent(&stop);
    let (reason, after) = match stop {
        Stop::Waiting { reason, after } if is_silent => (reason, after),
        Stop::Waiting { reason, .. } | Stop::Blocked { reason } | Stop::Failed { reason, .. } => {
            (reason, retry)
        }
    };
    Err(Stop::waiting(reason, after.min(left)))
}

/// The inputs of the decision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Situation {
    /// False: the object is being deleted.
    pub(super) is_desired: bool,
    pub(super) live: Live,
    /// By the marker. Without a marker it is unmarked, even if status has a record.
    pub(super) owner: Ownership,
    /// A write was announced, and its result is unknown.
    pub(super) announced: Option<IntentKind>,
    /// The version that status records as ours.
    pub(super) recorded: Option<u64>,
    /// None: the values were not compared.
    pub(super) values: Option<Values>,
    /// A deleted version is written again.
    pub(super) reseed: bool,
}

/// The situation; none if a call failed or a read is missing.
pub(super) fn situation_of(world: &World) -> Option<Situation> {
    let connected = world.facts.connection.as_ref().ok()?;
    let at = location(world).ok()?;
    let situation = situation(world, connected, &at).ok()?;
    world.observed.error.is_none().then_some(situation)
}

/// The decision; none if a call failed or a read is missing.
pub(crate) fn decision(world: &World) -> Option<Decision> {
    situation_of(world).map(|situation| situation.decision())
}

/// The situation, or the next missing read.
///
/// | desired | synced before | engine  | metadata   | so                                            |
/// |---------|---------------|---------|------------|-----------------------------------------------|
/// | any     | any           | other   |            | complete: such an engine has no metadata      |
/// | yes     | no            | no      | no         | read the engine                               |
/// | any     | any           | any     | no         | read the metadata                             |
/// | yes     | any           | no      | nothing    | read the engine: the mount may be another one |
/// | any     | any           | any     | yes        | complete; [in doubt](Situation::is_in_doubt): compare |
fn situation(world: &World, connected: &Connected, at: &Location) -> Result<Situation, Read> {
    let (object, observed) = (&world.object, &world.observed);
    let (spec, status) = (&object.resource.spec, &object.status);
    let is_desired = !object.is_deleting();
    let was_synced = status.vault_path.as_ref() == Some(&spec.path)
        && is_true(&object.conditions, conditions::SYNCED);
    let live = match (&observed.engine, &observed.found) {
        (Some(Engine::Other(engine)), _) => Live::OtherEngine(engine.clone()),
        (None, None) if is_desired && !was_synced => return Err(Read::Engine(at.clone())),
        (_, None) => return Err(Read::Metadata(at.clone())),
        (None, Some(found)) if is_desired && found.live == Live::Absent => {
            return Err(Read::Engine(at.clone()));
        }
        (_, Some(found)) => found.live.clone(),
    };
    let marker = observed.found.as_ref();
    let marker = marker.and_then(|found| found.marker.as_ref());
    // The record does not replace the marker: without a marker, the seed is no longer ours.
    let binding = status.sync.binding.as_ref();
    let recorded = Recorded {
        owner: binding.and_then(|binding| binding.owner.as_deref()),
        name: None,
    };
    let announced = announced(world, at);
    let refused = announced.as_ref().filter(|_| is_refused(world));
    let situation = Situation {
        is_desired,
        live,
        owner: owner::judge(marker, &connected.header, recorded),
        // A refused write does not make equal values ours.
        announced: announced
            .as_ref()
            .filter(|_| refused.is_none())
            .map(|announced| announced.kind),
        recorded: match refused.map(|refused| refused.kind) {
            // The recorded version was gone before this write.
            Some(IntentKind::Create) => None,
            Some(IntentKind::Correct) | None => recorded_version(status),
        },
        values: observed.values,
        reseed: spec.reseed_deleted == Some(true),
    };
    if situation.is_in_doubt() && situation.values.is_none() {
        return Err(Read::Values {
            at: at.clone(),
            expected: values(world),
        });
    }
    Ok(situation)
}

/// The write that status announces, if it is for this path.
fn announced(world: &World, at: &Location) -> Option<SeedIntent> {
    let announced = announcement(&world.object.status)?;
    (announced.path == at.path.to_string()).then_some(announced)
}

/// Whether the write that status announces was refused.
pub(super) fn is_refused(world: &World) -> bool {
    let refused = world.memory.refused.as_ref();
    refused.is_some() && refused == announcement(&world.object.status).as_ref()
}

/// | ended                                    | invalid    | refused                            |
/// |------------------------------------------|------------|------------------------------------|
/// | done                                     | forgotten  | kept while status announces it     |
/// | blocked: Vault found the write invalid   | remembered | kept while status announces it     |
/// | any other                                | kept       | kept while status announces it     |
pub(super) fn remember(world: &World, ended: &Ended<SeedIntent>) -> Memory {
    let connected = world.facts.connection.as_ref().ok();
    let inputs_hash = connected.map(|connected| connected.write_inputs_hash);
    let invalid = match (ended, inputs_hash) {
        (Ended::Done { .. }, _) => None,
        (Ended::Stopped(Stop::Blocked { reason }), Some(inputs_hash))
            if world.observed.refusal.is_some() && reason.code == reasons::VALIDATION_FAILED =>
        {
            Some((inputs_hash, reason.clone()))
        }
        (Ended::Stopped(_) | Ended::Announcing(_) | Ended::Previewed(_), _) => {
            world.memory.invalid.clone()
        }
    };
    let refused = world.memory.refused.clone();
    Memory {
        invalid,
        refused: refused.filter(|_| is_refused(world)),
    }
}

fn recorded_version(status: &VaultKVSecretStatus) -> Option<u64> {
    let version = status.seeded_version;
    let version = version.filter(|_| status.seeded == Some(true))?;
    u64::try_from(version).ok()
}

/// The values of the spec, to be written.
fn values(world: &World) -> SeedValues {
    let values = world.object.resource.spec.data.0.iter();
    let values = values.map(|(key, value)| (key.clone(), Value::from(value.as_str())));
    SeedValues::new(values.collect())
}

/// | decided | annotation restore-managed-markers | finalizer | step | write first           |
/// |---------|------------------------------------|-----------|------|-----------------------|
/// | no      |                                    |           |      | –                     |
/// | yes     | yes                                |           |      | remove the annotation |
/// | yes     | no                                 | no        | no   | add the finalizer     |
/// | yes     | no                                 | no        | yes  | – (the engine adds it) |
/// | yes     | no                                 | yes       |      | –                     |
///
/// A deletion must check the secret even if it is not ours. So the object needs the finalizer even without a
/// step.
pub(super) fn metadata(world: &World) -> Option<ObjectWrite<'static>> {
    let object = &world.object;
    let decision = decision(world).filter(|_| !object.is_deleting())?;
    let obsolete = names::RESTORE_MANAGED_MARKERS;
    if object.annotation(obsolete).is_some() {
        return Some(ObjectWrite::RemoveAnnotation(obsolete));
    }
    let has_step = matches!(decision, Decision::Write { .. } | Decision::Claim { .. });
    let needs_finalizer = !has_step && !object.has_finalizer(names::FINALIZER);
    needs_finalizer.then_some(ObjectWrite::AddFinalizer(names::FINALIZER))
}

/// One step, or why there is none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Decision {
    /// This engine cannot have seeds.
    Refuse { engine: String },
    /// Announce, write the version after `cas`, mark it and record it.
    Write { cas: u64, kind: IntentKind },
    /// We wrote this version before a crash: mark it and record it.
    Claim { version: u64 },
    /// The secret stays as it is: we wrote a version once, or it is not ours.
    Untouched {
        seeded: Option<u64>,
        owner: Option<String>,
    },
    /// Whether we wrote it cannot be determined.
    Unconfirmed,
    /// Its newest version was deleted, and it is not written again.
    Unreadable { owner: Option<String> },
    /// Nothing is left to delete.
    Absent,
    /// It is as we wrote it, and is no longer desired.
    Delete,
    /// It is no longer desired, and stays for this reason.
    Left(String),
}

impl Situation {
    /// The version that we wrote. If a create was announced and the secret has our marker, it is version 1:
    /// a crash came before the record.
    fn seeded(&self) -> Option<u64> {
        match (self.announced, &self.owner) {
            (Some(IntentKind::Create), Ownership::Ours) => Some(1),
            (Some(IntentKind::Create), Ownership::Unmarked | Ownership::Foreign(_)) => None,
            (Some(IntentKind::Correct) | None, _) => self.recorded,
        }
    }

    /// Whether only the values show that this version is the announced one.
    pub(super) fn is_in_doubt(&self) -> bool {
        let Live::Current { version } = self.live else {
            return false;
        };
        match (self.announced, &self.owner) {
            (None, _)
            | (Some(_), Ownership::Foreign(_))
            | (Some(IntentKind::Create), Ownership::Ours) => false,
            (Some(IntentKind::Create), Ownership::Unmarked) => version == 1,
            (Some(IntentKind::Correct), Ownership::Ours | Ownership::Unmarked) => {
                self.recorded != Some(version)
            }
        }
    }

    /// A version is in doubt in two cases. A create was announced, and version 1 has no marker. Or a second
    /// write was announced, and the version is neither recorded nor of another owner.
    ///
    /// | desired | at the path          | marker     | announced | values     | decision                     |
    /// |---------|----------------------|------------|-----------|------------|------------------------------|
    /// | yes     | another engine       |            |           |            | refuse                       |
    /// | yes     | nothing              |            |           |            | write the first version      |
    /// | yes     | deleted              | another's  |           |            | unreadable                   |
    /// | yes     | deleted              | ours, none |           |            | unreadable; reseed: write    |
    /// | yes     | a version in doubt   |            |           | equal      | claim: a crash, a lost answer |
    /// | yes     | a version in doubt   |            |           | unreadable | unconfirmed                  |
    /// | yes     | a version in doubt   |            |           | different  | untouched: as recorded       |
    /// | yes     | any version          | ours       | a create  |            | untouched: we wrote version 1 |
    /// | yes     | any other            |            |           |            | untouched: as recorded       |
    /// | no      | another engine       |            |           |            | left                         |
    /// | no      | nothing              |            |           |            | absent                       |
    /// | no      | a version in doubt   |            |           | equal      | delete                       |
    /// | no      | the version we wrote | ours       |           |            | delete                       |
    /// | no      | any other            |            |           |            | left                         |
    pub(super) fn decision(&self) -> Decision {
        let owner = match &self.owner {
            Ownership::Foreign(owner) => Some(owner.clone()),
            Ownership::Ours | Ownership::Unmarked => None,
        };
        let is_equal = self.is_in_doubt() && self.values == Some(Values::Equal);
        let is_unreadable = self.is_in_doubt() && self.values == Some(Values::Unreadable);
        match (self.is_desired, &self.live) {
            (true, Live::OtherEngine(engine)) => Decision::Refuse {
                engine: engine.clone(),
            },
            (true, Live::Absent) => Decision::Write {
                cas: 0,
                kind: IntentKind::Create,
            },
            (true, Live::Deleted { version }) if self.reseed && owner.is_none() => {
                Decision::Write {
                    cas: *version,
                    kind: IntentKind::Correct,
                }
            }
            (true, Live::Deleted { .. }) => Decision::Unreadable { owner },
            (true, Live::Current { version }) if is_equal => Decision::Claim { version: *version },
            (true, Live::Current { .. }) if is_unreadable => Decision::Unconfirmed,
            (true, Live::Current { .. }) => Decision::Untouched {
                seeded: self.seeded(),
                owner,
            },
            (false, Live::OtherEngine(engine)) => {
                Decision::Left(format!("its mount is {engine} now"))
            }
            (false, Live::Absent) => Decision::Absent,
            (false, Live::Current { .. }) if is_equal => Decision::Delete,
            (false, Live::Deleted { version } | Live::Current { version }) => {
                self.undesired(*version)
            }
        }
    }

    /// The decision for a version that is no longer desired, by owner and record.
    fn undesired(&self, version: u64) -> Decision {
        Decision::Left(match (&self.owner, self.seeded()) {
            (Ownership::Ours, Some(seeded)) if seeded == version => return Decision::Delete,
            (Ownership::Foreign(owner), _) => format!("it belongs to {owner}"),
            (Ownership::Ours | Ownership::Unmarked, None) => {
                "there is no evidence that it is ours".to_owned()
            }
            (Ownership::Ours, Some(seeded)) => {
                format!("version {version} is not the version that we wrote, which was {seeded}")
            }
            (Ownership::Unmarked, Some(_)) => "it no longer has our marker".to_owned(),
        })
    }
}

/// The message about a deleted version that is not written again.
fn unreadable(at: &KvPath, owner: Option<&str>) -> String {
    match owner {
        Some(owner) => format!(
            "{at}: its newest version was deleted, so it cannot be read; it belongs to {owner}, so \
             the operator does not change it"
        ),
        None => format!(
            "{at}: its newest version was deleted, so it cannot be read; undelete it, or set \
             reseedDeleted to write it again"
        ),
    }
}

/// The text of a decision in plans and dry runs.
impl fmt::Display for Decision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refuse { engine } => write!(f, "refused: the mount is {engine}"),
            Self::Write { cas: 0, .. } => f.write_str("write the first version"),
            Self::Write { cas, .. } => write!(f, "write again, after deleted version {cas}"),
            Self::Claim { version } => write!(f, "mark version {version}, which we wrote"),
            Self::Untouched {
                seeded: Some(version),
                ..
            } => write!(f, "nothing to do: version {version} was ours"),
            Self::Untouched {
                seeded: None,
                owner: Some(owner),
            } => write!(f, "nothing to do: it belongs to {owner}"),
            Self::Untouched {
                seeded: None,
                owner: None,
            } => f.write_str("nothing to do: it existed already"),
            Self::Unconfirmed => {
                f.write_str("nothing to do: whether it is ours cannot be determined")
            }
            Self::Unreadable { .. } => f.write_str("nothing to do: its newest version was deleted"),
            Self::Absent => f.write_str("nothing to do: it is gone"),
            Self::Delete => f.write_str("delete it"),
            Self::Left(why) => write!(f, "nothing to do: {why}"),
        }
    }
}
