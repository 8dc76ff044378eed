//! Bucket: keeps one bucket in a cloud equal to the object.
//!
//! The cloud of this example is the worst case: it assigns ids itself, accepts two buckets of one name,
//! has no client tokens, and its lists may be as old as [`simulator::LAG`].

pub(crate) mod cloud;
pub(crate) mod plan;
pub(crate) mod status;
mod tests;

use std::fmt;
use std::time::Duration;

use engine::{Call, Effect, Ended, KindCore, Learned, Next, Report, Stop};
use jiff::Timestamp;
use kernel::{CallError, Class, Ownership};
use serde::{Deserialize, Serialize};

use crate::mistakes::{self, Mistake};
use cloud::Bucket;

/// An intent may be used for this long after it was saved.
pub(crate) const CLAIM_WITHIN: Duration = Duration::from_secs(30);

/// All of the object that the kind reads.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct BucketResource {
    pub(crate) spec: BucketSpec,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct BucketSpec {
    pub(crate) config: String,
    pub(crate) drift: DriftPolicy,
    /// An unmarked bucket of this name is adopted.
    pub(crate) adopt: bool,
    /// The bucket stays when the object is deleted.
    pub(crate) retain: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(crate) enum DriftPolicy {
    Correct,
    Report,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Status {
    /// A bucket may have become ours since.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) intent: Option<ClaimIntent>,
    /// The bucket on record.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) bucket: Option<BucketRecord>,
}

/// Saved before a step that makes a bucket ours: a create, or the marker of an adoption.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct ClaimIntent {
    pub(crate) at: Timestamp,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct BucketRecord {
    pub(crate) id: u32,
    /// The newest version observed or written. A read of an older one is stale.
    pub(crate) version: u64,
    /// When the bucket was first observed. Lists may miss it until they are newer than this.
    pub(crate) since: Timestamp,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) last_applied: Option<String>,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Read {
    List { name: String },
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Step {
    Create {
        name: String,
        config: String,
        intent: ClaimIntent,
    },
    Mark {
        id: u32,
        version: u64,
        intent: ClaimIntent,
    },
    Update {
        id: u32,
        version: u64,
        config: String,
    },
    Disable {
        id: u32,
        version: u64,
    },
    Delete {
        id: u32,
        version: u64,
    },
}

impl fmt::Display for Read {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self::List { name } = self;
        write!(f, "list buckets named {name}")
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Create { name, config, .. } => {
                write!(f, "create bucket {name} with config {config}")
            }
            Self::Mark { id, .. } => write!(f, "mark bucket {id} as ours"),
            Self::Update { id, config, .. } => write!(f, "update bucket {id} to config {config}"),
            Self::Disable { id, .. } => write!(f, "disable bucket {id}"),
            Self::Delete { id, .. } => write!(f, "delete bucket {id}"),
        }
    }
}

impl Call for Read {}

impl Call for Step {}

impl Effect for Step {
    const NAMES: &'static [&'static str] = &["create", "mark", "update", "disable", "delete"];

    fn name(&self) -> &'static str {
        match self {
            Self::Create { .. } => "create",
            Self::Mark { .. } => "mark",
            Self::Update { .. } => "update",
            Self::Disable { .. } => "disable",
            Self::Delete { .. } => "delete",
        }
    }
}

/// What this pass has observed.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Observed {
    /// Buckets of our name, as listed and as our own steps changed them since.
    pub(crate) buckets: Option<Vec<Bucket>>,
    /// The time before the list was read: a slow call makes the list older, not newer.
    pub(crate) read_at: Option<Timestamp>,
    /// Why the last call failed.
    pub(crate) error: Option<CallError>,
}

#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Memory {
    /// The generation that a list last showed as desired, and when.
    pub(crate) compared: Option<(i64, Duration)>,
}

pub(crate) type World = engine::World<Buckets>;

/// The core of the kind, with at most one planted mistake.
#[derive(Debug, Default)]
pub(crate) struct Buckets {
    pub(crate) mistake: Option<Mistake>,
}

impl KindCore for Buckets {
    type Resource = BucketResource;
    type Status = Status;
    type Facts = ();
    type Observed = Observed;
    type Memory = Memory;
    type Read = Read;
    type Answer = Vec<Bucket>;
    type Step = Step;
    type Outcome = Option<Bucket>;
    type Intent = ClaimIntent;

    fn name(&self) -> &'static str {
        "bucket"
    }

    fn finalizer(&self) -> &'static str {
        "example.pontoon.io/bucket"
    }

    fn next(&self, world: &World) -> Result<Next<Read, Step>, Stop> {
        match self.mistake {
            None => plan::next(world),
            Some(mistake) => mistakes::next(mistake, world),
        }
    }

    fn learn(&self, world: &mut World, learned: Learned<Self>) {
        world.observed.error = None;
        match learned {
            Learned::Answer {
                read: Read::List { name },
                began,
                answer: Ok(buckets),
            } => {
                let is_ours = |bucket: &&Bucket| plan::ownership(bucket, &name) == Ownership::Ours;
                let desired = &world.object.resource.spec.config;
                let ours = buckets.iter().find(is_ours);
                let is_desired = ours.is_some_and(|bucket| bucket.config == *desired);
                let compared = (world.object.generation(), world.elapsed);
                world.memory.compared = is_desired.then_some(compared);
                world.observed.read_at = Some(began);
                world.observed.buckets = Some(buckets);
            }
            Learned::Outcome {
                step: Step::Create { .. },
                outcome: Ok(after),
            } => {
                let buckets = world.observed.buckets.get_or_insert_default();
                buckets.extend(after);
            }
            Learned::Outcome {
                step:
                    Step::Mark { id, .. }
                    | Step::Update { id, .. }
                    | Step::Disable { id, .. }
                    | Step::Delete { id, .. },
                outcome: Ok(after),
            } => replace(world, id, after),
            // A bucket that is gone needs no disable and no delete.
            Learned::Outcome {
                step: Step::Disable { id, .. } | Step::Delete { id, .. },
                outcome: Err(error),
            } if error.class == Class::NotFound => replace(world, id, None),
            Learned::Answer {
                answer: Err(error), ..
            }
            | Learned::Outcome {
                outcome: Err(error),
                ..
            } => world.observed.error = Some(error),
        }
    }

    fn status(&self, world: &World, ended: &Ended<ClaimIntent>) -> (Status, Report) {
        match self.mistake {
            None => status::status(world, ended),
            Some(mistake) => mistakes::status(mistake, world, ended),
        }
    }

    fn intent_for(&self, step: &Step) -> Option<ClaimIntent> {
        if self.mistake == Some(Mistake::CreateWithoutIntent) {
            return None;
        }
        match step {
            Step::Create { intent, .. } | Step::Mark { intent, .. } => Some(intent.clone()),
            Step::Update { .. } | Step::Disable { .. } | Step::Delete { .. } => None,
        }
    }

    fn saved_intents(&self, status: &Status) -> Vec<ClaimIntent> {
        status.intent.clone().into_iter().collect()
    }
}

fn replace(world: &mut World, id: u32, after: Option<Bucket>) {
    let buckets = world.observed.buckets.get_or_insert_default();
    buckets.retain(|bucket| bucket.id != id);
    buckets.extend(after);
}
