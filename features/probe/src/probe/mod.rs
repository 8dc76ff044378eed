//! Probe: a text in a ConfigMap of the same name, and a value outside.

mod io;
#[cfg(test)]
mod model;
mod plan;
mod status;
#[cfg(test)]
mod tests;

use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::sync::LazyLock;
use std::time::Duration;

use api::probe::{Behaviour, FINALIZER, Probe, ProbeStatus, SecretKey};
use engine::{Call, Effect, Ended, KindCore, Learned, Next, Report, Stop};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kernel::{CallError, Class, ClusterId};
use serde_json::Value;

pub(crate) use io::Probes;

/// Decides about Probes.
pub(crate) struct ProbeCore {
    pub(crate) cluster: ClusterId,
}

/// A value as this process knows it: equal values have equal digests, and none shows its value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Digest(u64);

impl Digest {
    pub(crate) fn of(value: &str) -> Self {
        static SALT: LazyLock<RandomState> = LazyLock::new(RandomState::new);
        Self(SALT.hash_one(value))
    }
}

/// What the caches hold.
pub(crate) struct Facts {
    pub(crate) config_map: Cached,
}

/// What the cache of owned ConfigMaps says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cached {
    /// There is one that carries the label.
    Present,
    /// There is none with the label. One without it may exist.
    Absent,
    /// The cache has not been read yet.
    Unknown,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Read {
    /// The thing of this name.
    Thing(String),
    /// The ConfigMap, compared with this one.
    ConfigMap(Child),
    Secret(SecretKey),
    /// The spec asks for a panic or a call without end.
    Misbehave(Behaviour),
}

pub(crate) enum Answer {
    Thing(Option<Thing>),
    ConfigMap(Option<ConfigMap>),
    Secret(Option<Digest>),
}

/// A thing outside.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Thing {
    pub(crate) marker: Option<String>,
    pub(crate) value: Digest,
}

/// A ConfigMap of our name.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ConfigMap {
    /// The UID of its first owner.
    pub(crate) owner: Option<String>,
    /// It holds what we would apply.
    pub(crate) is_current: bool,
    /// All of it.
    pub(crate) live: Value,
}

/// The ConfigMap that a Probe desires.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Child {
    pub(crate) owner: OwnerReference,
    pub(crate) text: String,
}

/// Where a value comes from.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Source {
    Spec(String),
    Secret,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Step {
    Put {
        name: String,
        marker: String,
        source: Source,
        value: Digest,
    },
    Remove {
        name: String,
        marker: String,
    },
    /// Applies the ConfigMap over the one that was read, if any.
    Write {
        child: Child,
        over: Option<Value>,
    },
}

/// Saved before the first put: a thing of this name may exist.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct OutsideName(pub(crate) String);

/// One thing that a pass looks for.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) enum Seen<T> {
    #[default]
    Unread,
    Absent,
    Present(T),
}

impl<T> From<Option<T>> for Seen<T> {
    fn from(found: Option<T>) -> Self {
        found.map_or(Self::Absent, Self::Present)
    }
}

/// What this pass has observed, as its own steps changed it since.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Observed {
    pub(crate) thing: Seen<Thing>,
    pub(crate) config_map: Seen<ConfigMap>,
    pub(crate) secret: Seen<Digest>,
    /// The ConfigMap was written without a look, and there was one.
    pub(crate) must_read_config_map: bool,
    /// Why a call failed.
    pub(crate) error: Option<CallError>,
}

pub(crate) type World = engine::World<ProbeCore>;

impl KindCore for ProbeCore {
    type Resource = Probe;
    type Status = ProbeStatus;
    type Facts = Facts;
    type Observed = Observed;
    type Memory = ();
    type Read = Read;
    type Answer = Answer;
    type Step = Step;
    type Outcome = ();
    type Intent = OutsideName;

    fn name(&self) -> &'static str {
        "probe"
    }

    fn finalizer(&self) -> &'static str {
        FINALIZER
    }

    fn next(&self, world: &World) -> Result<Next<Read, Step>, Stop> {
        plan::next(self, world)
    }

    fn learn(&self, world: &mut World, learned: Learned<Self>) {
        let observed = &mut world.observed;
        match learned {
            Learned::Answer { answer, .. } => match answer {
                Ok(Answer::Thing(found)) => observed.thing = found.into(),
                Ok(Answer::ConfigMap(found)) => observed.config_map = found.into(),
                Ok(Answer::Secret(found)) => observed.secret = found.into(),
                Err(error) => observed.error = Some(error),
            },
            Learned::Outcome { step, outcome } => match (step, outcome) {
                (Step::Put { marker, value, .. }, Ok(())) => {
                    let marker = Some(marker);
                    observed.thing = Seen::Present(Thing { marker, value });
                }
                (Step::Remove { .. }, Ok(())) => observed.thing = Seen::Absent,
                (Step::Write { child, .. }, Ok(())) => {
                    observed.config_map = Seen::Present(ConfigMap {
                        owner: Some(child.owner.uid),
                        is_current: true,
                        live: Value::Null,
                    });
                }
                (Step::Write { over: None, .. }, Err(error)) if error.class == Class::Stale => {
                    observed.config_map = Seen::Unread;
                    observed.must_read_config_map = true;
                }
                (_, Err(error)) => observed.error = Some(error),
            },
        }
    }

    fn status(&self, world: &World, ended: &Ended<OutsideName>) -> (ProbeStatus, Report) {
        status::status(self, world, ended)
    }

    fn stamp(&self, status: &mut ProbeStatus, world: &World, _ended: &Ended<OutsideName>) {
        status.last_reconcile_id = Some(world.pass.id.clone());
    }

    fn intent_for(&self, step: &Step) -> Option<OutsideName> {
        match step {
            Step::Put { name, .. } => Some(OutsideName(name.clone())),
            Step::Remove { .. } | Step::Write { .. } => None,
        }
    }

    fn saved_intents(&self, status: &ProbeStatus) -> Vec<OutsideName> {
        status
            .outside_name
            .clone()
            .map(OutsideName)
            .into_iter()
            .collect()
    }

    /// A refusal backs off like any other failure: tests look at the engine's back-off here.
    fn hold_off(&self, _error: &CallError, _count: u32) -> Option<Duration> {
        None
    }
}

impl fmt::Display for Read {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Thing(name) => write!(f, "get thing {name}"),
            Self::ConfigMap(_) => write!(f, "get the ConfigMap"),
            Self::Secret(key) => write!(f, "get Secret {}", key.name),
            Self::Misbehave(behaviour) => write!(f, "behave as asked: {behaviour:?}"),
        }
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Put { name, .. } => write!(f, "put thing {name}"),
            Self::Remove { name, .. } => write!(f, "remove thing {name}"),
            Self::Write { .. } => write!(f, "write the ConfigMap"),
        }
    }
}

impl Call for Read {
    fn leaves_cluster(&self) -> bool {
        matches!(self, Self::Thing(_))
    }
}

impl Call for Step {
    fn leaves_cluster(&self) -> bool {
        !matches!(self, Self::Write { .. })
    }
}

impl Effect for Step {
    const NAMES: &'static [&'static str] = &["put", "remove", "write"];

    fn name(&self) -> &'static str {
        match self {
            Self::Put { .. } => "put",
            Self::Remove { .. } => "remove",
            Self::Write { .. } => "write",
        }
    }

    fn needs_finalizer(&self) -> bool {
        !matches!(self, Self::Write { .. })
    }
}
