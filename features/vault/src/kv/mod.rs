//! VaultKVSecret: writes the first version of a secret once. Later versions belong to its users.
//!
//! ```text
//! gather ─▶ engine, metadata, values (read as needed) ─▶ write ─▶ mark ─▶ status
//!                                                     └▶ delete, or hand over
//! ```
//! Status announces a write first, so that a crash or a lost answer causes no second version and no seed
//! without an owner. Values stay in memory. Not even their hash is recorded, because short values could be
//! guessed from it.

mod io;
mod marker;
#[cfg(test)]
mod model;
mod path;
mod plan;
mod status;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use api::vault::{IntentKind, VaultKVSecret, VaultKVSecretStatus, names};
use engine::{Call, Effect, Ended, KindCore, Learned, Next, Object, ObjectWrite, Report, Stop};
use jiff::Timestamp;
use kernel::{CallError, Class, Reason, Redacted};
use serde_json::{Map, Value};
use vault_client::{KvMetadata, SecretEngine};

use crate::cleanup::VaultLeftover;
use crate::language::text::{Header, Marker};
use crate::settings::Deadline;
use crate::sync::Unavailable;
pub(crate) use io::Seeds;
pub(crate) use marker::found as marker;
pub(crate) use path::KvPath;
pub(crate) use plan::{Decision, decision};

const KIND: &str = "VaultKVSecret";

/// Decides about seeds.
#[derive(Debug, Default)]
pub(crate) struct SeedCore {
    /// A planted defect: a refused write counts as a write whose answer was lost.
    #[cfg(test)]
    takes_refusals_for_lost_answers: bool,
}

/// The values of a seed, as they are sent to Vault. The core never inspects them, and they print as `***`.
/// The read itself compares them with the values in Vault.
pub(crate) type SeedValues = Redacted<Map<String, Value>>;

/// The location of a seed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Location {
    pub(crate) connection: String,
    pub(crate) path: KvPath,
}

/// Facts from the caches.
pub(crate) struct Facts {
    pub(crate) connection: Result<Connected, Unavailable>,
    /// The leftover to record; only for an object that is being deleted.
    pub(crate) leftover: Option<VaultLeftover>,
    pub(crate) deletion_deadline: Deadline,
    /// The longest pause between two attempts of a deletion.
    pub(crate) error_interval: Duration,
}

/// Facts about a usable connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Connected {
    /// The marker that we write.
    pub(crate) header: Header,
    /// Why the tenancy of the connection does not allow this namespace to seed this path.
    pub(crate) denial: Option<String>,
    /// A hash of the inputs that decide whether Vault finds the write invalid.
    pub(crate) write_inputs_hash: u64,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Read {
    /// The type of the mount.
    Engine(Location),
    Metadata(Location),
    /// Whether the newest version has these values.
    Values {
        at: Location,
        expected: SeedValues,
    },
    /// Whether Vault can be used at all, after a call over this connection had no answer.
    Health(String),
}

pub(crate) enum Answer {
    Engine(SecretEngine),
    Metadata(Option<KvMetadata>),
    /// None: there are no values to read.
    Values(Option<Compared>),
    Health {
        is_away: bool,
    },
}

/// The newest version, compared with the values of the spec.
pub(crate) struct Compared {
    pub(crate) version: u64,
    pub(crate) is_equal: bool,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Step {
    /// Writes the version after `cas`.
    Write {
        at: Location,
        cas: u64,
        kind: IntentKind,
        values: SeedValues,
    },
    /// Adds our marker to the version that we wrote.
    Mark {
        at: Location,
        version: u64,
        keys: BTreeMap<String, String>,
    },
    /// Deletes all versions and the metadata.
    Delete(Location),
    /// Records the leftover, which the cleanup deletes later.
    HandOver(VaultLeftover),
}

/// The intent that is saved before a write: a version at this path may be ours.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SeedIntent {
    pub(crate) path: String,
    /// `Create`: there was no secret. `Correct`: its newest version had been deleted.
    pub(crate) kind: IntentKind,
}

/// The intent in a status.
fn announcement(status: &VaultKVSecretStatus) -> Option<SeedIntent> {
    let intent = status.sync.intent.as_ref()?;
    Some(SeedIntent {
        path: intent.vault_path.clone()?,
        kind: intent.kind?,
    })
}

/// What Vault has at the path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Live {
    /// The mount has no versions. The text describes its type.
    OtherEngine(String),
    /// There is no secret.
    Absent,
    /// It cannot be read: its newest version was deleted or destroyed, or there is none (0).
    Deleted { version: u64 },
    /// This version can be read.
    Current { version: u64 },
}

/// The type of a mount.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Engine {
    /// KV of version 2.
    Versioned,
    /// Any other type, as text for messages.
    Other(String),
}

impl From<SecretEngine> for Engine {
    fn from(engine: SecretEngine) -> Self {
        if engine.is_kv2() {
            return Self::Versioned;
        }
        Self::Other(match (&*engine.kind, engine.version) {
            ("kv" | "generic", version) => format!("KV of version {}", version.unwrap_or(1)),
            (kind, _) => format!("of type {kind}"),
        })
    }
}

/// The metadata of a seed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SeedMetadata {
    pub(crate) live: Live,
    pub(crate) marker: Option<Marker>,
}

impl SeedMetadata {
    fn new(metadata: Option<&KvMetadata>, now: Timestamp) -> Self {
        let live = metadata.map_or(Live::Absent, |metadata| {
            let version = metadata.current_version;
            if metadata.has_current(now) {
                Live::Current { version }
            } else {
                Live::Deleted { version }
            }
        });
        Self {
            live,
            marker: metadata.and_then(|metadata| marker::found(&metadata.custom_metadata)),
        }
    }
}

/// Whether the values in Vault equal those of the spec.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Values {
    Equal,
    Different,
    /// Our token has no permission to read them, or they are gone.
    Unreadable,
}

/// What this pass has observed.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Observed {
    pub(crate) engine: Option<Engine>,
    pub(crate) found: Option<SeedMetadata>,
    pub(crate) values: Option<Values>,
    /// The version that this pass wrote.
    pub(crate) written: Option<u64>,
    pub(crate) is_marked: bool,
    pub(crate) is_deleted: bool,
    /// The result of recording the leftover.
    pub(crate) hand_over: Option<Result<(), CallError>>,
    /// Vault refused the write, perhaps because another writer was first.
    pub(crate) refusal: Option<CallError>,
    /// Why a call failed.
    pub(crate) error: Option<CallError>,
    /// After a call without an answer: whether Vault cannot be used at all.
    pub(crate) is_away: Option<bool>,
}

/// What the process remembers.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Memory {
    /// The write that Vault found invalid, by the hash of its inputs, and the reason.
    pub(crate) invalid: Option<(u64, Reason)>,
    /// An announced write that Vault refused. The status without this intent may not be stored yet.
    pub(crate) refused: Option<SeedIntent>,
}

pub(crate) type World = engine::World<SeedCore>;

fn is_dry_run(object: &Object<SeedCore>) -> bool {
    object.annotation(names::DRY_RUN) == Some("true")
}

impl KindCore for SeedCore {
    type Resource = VaultKVSecret;
    type Status = VaultKVSecretStatus;
    type Facts = Facts;
    type Observed = Observed;
    type Memory = Memory;
    type Read = Read;
    type Answer = Answer;
    type Step = Step;
    /// The version of the step; 0 if it has none.
    type Outcome = u64;
    type Intent = SeedIntent;

    fn name(&self) -> &'static str {
        "seed"
    }

    fn finalizer(&self) -> &'static str {
        names::FINALIZER
    }

    fn next(&self, world: &World) -> Result<Next<Read, Step>, Stop> {
        plan::next(world)
    }

    fn learn(&self, world: &mut World, learned: Learned<Self>) {
        let (now, observed) = (world.now, &mut world.observed);
        match learned {
            Learned::Answer { read, answer, .. } => match (read, answer) {
                (_, Ok(Answer::Engine(engine))) => observed.engine = Some(engine.into()),
                (_, Ok(Answer::Metadata(metadata))) => {
                    observed.found = Some(SeedMetadata::new(metadata.as_ref(), now));
                }
                (_, Ok(Answer::Values(compared))) => {
                    observed.values = Some(compared_values(compared, observed.found.as_ref()));
                }
                (_, Ok(Answer::Health { is_away })) => observed.is_away = Some(is_away),
                (Read::Values { .. }, Err(error)) if error.class == Class::Denied => {
                    observed.values = Some(Values::Unreadable);
                }
                (Read::Health(_), Err(_)) => observed.is_away = Some(true),
                (Read::Engine(_) | Read::Metadata(_) | Read::Values { .. }, Err(error)) => {
                    observed.error = Some(error);
                }
            },
            Learned::Outcome { step, outcome } => match (step, outcome) {
                (Step::Write { .. }, Ok(version)) => {
                    observed.written = Some(version);
                    world.memory.refused = None;
                }
                (Step::Mark { .. }, Ok(_)) => observed.is_marked = true,
                (Step::Delete(_), Ok(_)) => observed.is_deleted = true,
                (Step::HandOver(_), outcome) => observed.hand_over = Some(outcome.map(|_| ())),
                (Step::Write { at, kind, .. }, Err(error)) => {
                    let is_refused = !error.may_have_happened;
                    #[cfg(test)]
                    let is_refused = is_refused && !self.takes_refusals_for_lost_answers;
                    let path = at.path.to_string();
                    world.memory.refused = is_refused.then_some(SeedIntent { path, kind });
                    if is_refused && plan::may_be_second(&error) {
                        observed.found = None; // read again: another writer may have been first
                        observed.refusal = Some(error);
                    } else {
                        observed.error = Some(error);
                    }
                }
                (Step::Mark { .. } | Step::Delete(_), Err(error)) => observed.error = Some(error),
            },
        }
    }

    fn status(&self, world: &World, ended: &Ended<SeedIntent>) -> (VaultKVSecretStatus, Report) {
        status::status(world, ended)
    }

    fn stamp(&self, status: &mut VaultKVSecretStatus, world: &World, ended: &Ended<SeedIntent>) {
        status::stamp(status, world, ended);
    }

    fn remember(&self, world: &World, ended: &Ended<SeedIntent>) -> Memory {
        plan::remember(world, ended)
    }

    fn intent_for(&self, step: &Step) -> Option<SeedIntent> {
        match step {
            Step::Write { at, kind, .. } => Some(SeedIntent {
                path: at.path.to_string(),
                kind: *kind,
            }),
            Step::Mark { .. } | Step::Delete(_) | Step::HandOver(_) => None,
        }
    }

    fn saved_intents(&self, status: &VaultKVSecretStatus) -> Vec<SeedIntent> {
        announcement(status).into_iter().collect()
    }

    /// The back-off limits refused calls. `Memory::invalid` holds off an invalid write.
    fn hold_off(&self, _error: &CallError, _count: u32) -> Option<Duration> {
        None
    }

    fn metadata(&self, world: &World) -> Option<ObjectWrite<'_>> {
        plan::metadata(world)
    }

    fn is_dry_run(&self, object: &Object<Self>) -> bool {
        is_dry_run(object)
    }
}

/// Compares values. They are equal only if they belong to the version in the metadata.
fn compared_values(compared: Option<Compared>, found: Option<&SeedMetadata>) -> Values {
    let Some(Compared { version, is_equal }) = compared else {
        return Values::Unreadable;
    };
    let is_shown = found.is_some_and(|found| found.live == Live::Current { version });
    if is_shown && is_equal {
        Values::Equal
    } else {
        Values::Different
    }
}

impl fmt::Display for Read {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Engine(at) => write!(f, "read what is mounted at {}", at.path.mount),
            Self::Metadata(at) => write!(f, "read the metadata of {}", at.path),
            Self::Values { at, .. } => write!(f, "compare the values of {}", at.path),
            Self::Health(connection) => write!(f, "read the health of Vault behind {connection}"),
        }
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Write { at, cas, .. } => write!(f, "write {} after version {cas}", at.path),
            Self::Mark { at, version, .. } => write!(f, "mark version {version} of {}", at.path),
            Self::Delete(at) => write!(f, "delete {}", at.path),
            Self::HandOver(leftover) => write!(f, "record {leftover} for a later deletion"),
        }
    }
}

impl Call for Read {}

impl Call for Step {
    fn leaves_cluster(&self) -> bool {
        !matches!(self, Self::HandOver(_))
    }
}

impl Effect for Step {
    const NAMES: &'static [&'static str] = &["write", "mark", "delete", "hand-over"];

    fn name(&self) -> &'static str {
        match self {
            Self::Write { .. } => "write",
            Self::Mark { .. } => "mark",
            Self::Delete(_) => "delete",
            Self::HandOver(_) => "hand-over",
        }
    }
}
