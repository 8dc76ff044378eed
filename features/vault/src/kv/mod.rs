//! VaultKVSecret: a first version at a path of Vault, written once and then left to its users.
//!
//! ```text
//! gather ─▶ engine, metadata, values (read as needed) ─▶ write ─▶ mark ─▶ status
//!                                                     └▶ delete, or hand over
//! ```
//! Nothing is written before status has announced it, so that a crash or a lost answer leaves neither a
//! second version nor a seed that nobody owns. Values stay in memory: not even a hash of them is recorded,
//! from which a short one could be guessed.

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
    /// A planted mistake: a refused write counts as one whose answer was lost.
    #[cfg(test)]
    takes_refusals_for_lost_answers: bool,
}

/// The values of a seed, as Vault gets them. The core passes them on from the spec and never looks at
/// them; they print as `***`. What Vault holds is compared where it is read.
pub(crate) type SeedValues = Redacted<Map<String, Value>>;

/// Where a seed is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Location {
    pub(crate) connection: String,
    pub(crate) path: KvPath,
}

/// What the caches hold.
pub(crate) struct Facts {
    pub(crate) connection: Result<Connected, Unavailable>,
    /// What a record says that outlives the object; only of an object that is being deleted.
    pub(crate) leftover: Option<VaultLeftover>,
    pub(crate) deletion_deadline: Deadline,
    /// The longest pause between two tries of a deletion.
    pub(crate) error_interval: Duration,
}

/// What a usable connection means to a seed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Connected {
    /// The marker as it is written today.
    pub(crate) header: Header,
    /// Why the connection's tenancy does not let this namespace seed this path.
    pub(crate) denial: Option<String>,
    /// Stands for all that Vault's answer to the write depends on.
    pub(crate) question: u64,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Read {
    /// What is mounted there.
    Engine(Location),
    Metadata(Location),
    /// Whether the newest version has these values.
    Values {
        at: Location,
        expected: SeedValues,
    },
    /// Whether Vault can be used at all: a call over this connection got no answer.
    Health(String),
}

pub(crate) enum Answer {
    Engine(SecretEngine),
    Metadata(Option<KvMetadata>),
    /// None: there are none to read.
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
    /// Puts our marker on what we wrote.
    Mark {
        at: Location,
        version: u64,
        keys: BTreeMap<String, String>,
    },
    /// Deletes all versions and the metadata.
    Delete(Location),
    /// Records what may be left in Vault. It is deleted later, without the object.
    HandOver(VaultLeftover),
}

/// Saved before a write: a version at this path may be ours.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SeedIntent {
    pub(crate) path: String,
    /// `Create`: nothing was there; `Correct`: what was there had been deleted.
    pub(crate) kind: IntentKind,
}

/// The announcement in a status.
fn announcement(status: &VaultKVSecretStatus) -> Option<SeedIntent> {
    let intent = status.sync.intent.as_ref()?;
    Some(SeedIntent {
        path: intent.vault_path.clone()?,
        kind: intent.kind?,
    })
}

/// What stands at the path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Live {
    /// The mount keeps no versions: this is what it is.
    OtherEngine(String),
    /// Nothing, and nothing ever was.
    Absent,
    /// Nobody can read it: its newest version was deleted or destroyed, or there is none (0).
    Deleted { version: u64 },
    /// This version can be read.
    Current { version: u64 },
}

/// What is mounted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Engine {
    /// KV of version 2.
    Versioned,
    /// Anything else, for people.
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

/// What metadata shows.
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

/// Whether the values there are those of the spec.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Values {
    Equal,
    Different,
    /// Our token may not read them, or they are gone.
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
    /// How the record of a leftover was made.
    pub(crate) hand_over: Option<Result<(), CallError>>,
    /// Vault has refused the write, perhaps because somebody else was first.
    pub(crate) refusal: Option<CallError>,
    /// Why a call failed.
    pub(crate) error: Option<CallError>,
    /// After a call without an answer: whether Vault cannot be used at all.
    pub(crate) is_away: Option<bool>,
}

/// What the process remembers.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Memory {
    /// The question whose write Vault found invalid, and what it said.
    pub(crate) invalid: Option<(u64, Reason)>,
    /// An announced write that Vault has refused. The status that says so may not be stored yet.
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
    /// The version that a step is about; 0 where it is about none.
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
                        observed.found = None; // who was first is read now
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

    /// Back-off paces refusals; what Vault finds invalid is remembered by what it depends on.
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

/// Values count as equal only if they are of the version that metadata has shown.
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
