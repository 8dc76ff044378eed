//! The contract between a kind and the engine.
//!
//! ```text
//! gather ─▶ next ─▶ calls ─▶ learn ─▶ next ─▶ … ─▶ Done or Stop ─▶ status ─▶ progress
//! ```
//! A [`KindCore`] decides: `next`, `learn` and `status` are pure. Its [`KindIo`] gathers facts and makes
//! calls. The engine does everything else: order, concurrency, intents, finalizer, guard, kill points,
//! hold-off, writes of the object, events, progress. Production, the `plan` verbs, dry-run and the
//! simulator run the same core with other [`Effects`].

mod effects;
mod hold_off;
mod preview;
mod production;
mod report;
mod run;

use std::fmt::{Debug, Display};
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, ObjectMeta};
use kernel::{CallError, Class, ObjectKey, Reason};
use serde::Serialize;
use serde::de::DeserializeOwned;

pub use effects::{Effects, Mode, ObjectWrite};
pub use preview::preview;
pub(crate) use production::CorePasses;
pub use report::{Report, Truth};
pub use run::{Remembered, run_pass};

/// The pure core of one kind.
///
/// # Guarantees
/// A step runs only if the object, as read, has the finalizer and names the step's intent. Status is
/// computed on every exit path. It is written at most once, bound to the version read.
///
/// # When not to use it
/// For work that belongs to no object: use a task of the feature.
pub trait KindCore: Send + Sync + 'static {
    /// The kind as a Rust type; `serde_json::Value` for a kind that is known only at run time.
    type Resource: DeserializeOwned + Clone + Debug + Send + Sync;
    /// Its status; the default if the object has none. The engine owns `conditions` in it.
    type Status: Serialize + DeserializeOwned + Clone + Debug + Default + PartialEq + Send + Sync;
    /// The result of [`gather`](KindIo::gather), from the caches.
    type Facts: Send + Sync;
    /// What [`learn`](Self::learn) stores of the answers of one pass.
    type Observed: Default + Send + Sync;
    /// What the process remembers between passes. Losing it costs calls, never correctness.
    type Memory: Default + Clone + Send + Sync;
    /// A call that reads from outside.
    type Read: Call;
    /// The answer to a read.
    type Answer: Send;
    /// A call that changes something outside.
    type Step: Effect;
    /// The answer to a step.
    type Outcome: Send;
    /// What must be saved before a step.
    type Intent: Clone + Debug + PartialEq + Send + Sync;

    /// The name in kill points and traces, such as `seed`.
    fn name(&self) -> &str;

    /// The finalizer of this kind.
    fn finalizer(&self) -> &str;

    /// Decides which calls should be in flight now. A deletion is the same plan with nothing desired.
    ///
    /// # Errors
    /// The pass ends early, for this reason.
    fn next(&self, world: &World<Self>) -> Result<Next<Self::Read, Self::Step>, Stop>;

    /// Stores an answer or an error. It decides nothing: `next` does.
    fn learn(&self, world: &mut World<Self>, learned: Learned<Self>);

    /// Computes status, conditions and events. The engine calls it on every exit path.
    fn status(&self, world: &World<Self>, ended: &Ended<Self::Intent>) -> (Self::Status, Report);

    /// Adds times, ids and counters to a status that is written anyway. They never cause a write.
    fn stamp(&self, status: &mut Self::Status, world: &World<Self>, ended: &Ended<Self::Intent>) {
        let _ = (status, world, ended);
    }

    /// What the process remembers after a pass that ended so: what `learn` stored, and what follows from
    /// the end, such as the time of the next read.
    fn remember(&self, world: &World<Self>, ended: &Ended<Self::Intent>) -> Self::Memory {
        let _ = ended;
        world.memory.clone()
    }

    /// The intent that an earlier pass must have saved before this step.
    fn intent_for(&self, step: &Self::Step) -> Option<Self::Intent> {
        let _ = step;
        None
    }

    /// The intents that a status names.
    fn saved_intents(&self, status: &Self::Status) -> Vec<Self::Intent> {
        let _ = status;
        Vec::new()
    }

    /// How long the same step is not sent again after this error. `count` is the number of consecutive
    /// refusals before. None: the error is not a refusal.
    fn hold_off(&self, error: &CallError, count: u32) -> Option<Duration> {
        hold_off::default_hold_off(error.class, count)
    }

    /// A write of metadata that the engine makes before this pass performs a step or ends. The next pass
    /// then runs at once. Use it to remove an annotation, for a finalizer that is needed without a step, to edit
    /// several fields in one, or to apply fields of the object under an own manager.
    ///
    /// A pass makes one such write, and it precedes the finalizer that a step needs. So an
    /// [`Edit`](ObjectWrite::Edit) or [`ApplyOwn`](ObjectWrite::ApplyOwn) of a kind with steps should contain the
    /// finalizer ([`Object::finalizers_with`]); that saves a pass. These two may be named in every pass: the
    /// engine skips them if they change nothing. If the API server refuses the write as `Conflict` or `Invalid`,
    /// the pass ends as [`Stop::Failed`] with the reason `MetadataRefused`, and status is written.
    fn metadata(&self, world: &World<Self>) -> Option<ObjectWrite<'_>> {
        let _ = world;
        None
    }

    /// Whether the kind owns the whole status, so that fields and conditions of others do not stay. Then the
    /// engine owns only the conditions that the report names, and a status that serializes to null is removed.
    fn replaces_status(&self) -> bool {
        false
    }

    /// Whether this object has a dry run: steps are reported in status and not performed.
    fn is_dry_run(&self, object: &Object<Self>) -> bool {
        let _ = object;
        false
    }

    /// The outcome that a preview assumes for this step, so that it can show further steps. None: the
    /// preview ends here.
    fn assumed_outcome(&self, world: &World<Self>, step: &Self::Step) -> Option<Self::Outcome> {
        let _ = (world, step);
        None
    }

    /// The kill points of this kind at which a pass over this object begins, before it reads anything.
    ///
    /// A kind has points of its own if a chaos test has to name what those of the engine cannot, such as a
    /// child, or a step that only waits. They are asked for in a chaos build alone. A point is reached once
    /// for as long as each decision names it again, so a wait of many passes reaches its point once.
    fn points_at_begin(&self, object: &Object<Self>) -> Vec<KillPoint> {
        let _ = object;
        Vec::new()
    }

    /// The kill points that the pass has reached by what it decides now, before it makes another call or
    /// writes the object. Those at its begin are named again.
    fn points_reached(&self, world: &World<Self>) -> Vec<KillPoint> {
        self.points_at_begin(&world.object)
    }
}

/// A kill point of a kind, beside those of the engine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KillPoint {
    /// The name by which a test chooses it.
    pub name: String,
    /// What tells two executions of the same name apart that follow each other, such as the intent.
    pub about: String,
}

/// The reads and writes of one kind in a running operator. It decides nothing.
pub trait KindIo: Send + Sync + 'static {
    /// The pure core of the kind.
    type Core: KindCore;

    /// The pure core of the kind.
    fn core(&self) -> &Self::Core;

    /// Whether this operator manages the object. It ignores objects that are out of scope.
    fn is_in_scope(&self, key: &ObjectKey) -> bool {
        let _ = key;
        true
    }

    /// Fields for the log lines of a pass over this object.
    fn log_span(&self, object: &Object<Self::Core>) -> tracing::Span {
        let _ = object;
        tracing::Span::none()
    }

    /// Reads facts from the caches. It cannot fail: a missing object is a fact, and `next` decides.
    fn gather(&self, object: &Object<Self::Core>) -> FactsOf<Self>;

    /// Makes one read.
    fn read(
        &self,
        read: &ReadOf<Self>,
        context: &CallContext<'_>,
    ) -> impl Future<Output = Result<AnswerOf<Self>, CallError>> + Send;

    /// Performs one step.
    fn apply(
        &self,
        step: &StepOf<Self>,
        context: &CallContext<'_>,
    ) -> impl Future<Output = Result<OutcomeOf<Self>, CallError>> + Send;

    /// A placeholder, as JSON, for a key without an object, if the kind has work for such keys: a copy or a
    /// leftover whose object is gone. The engine does not write it. `Done` ends the work.
    fn absent(&self, key: &ObjectKey) -> Option<serde_json::Value> {
        let _ = key;
        None
    }

    /// Counts a pass in the kind's own metrics.
    fn count(
        &self,
        world: &World<Self::Core>,
        ended: &Ended<<Self::Core as KindCore>::Intent>,
        took: Duration,
    ) {
        let _ = (world, ended, took);
    }

    /// Called when the object is gone. Drops what the kind has stored about it outside of `Memory`.
    fn gone(&self, key: &ObjectKey) {
        let _ = key;
    }
}

/// The facts of a kind.
pub type FactsOf<I> = <<I as KindIo>::Core as KindCore>::Facts;
/// The reads of a kind.
pub type ReadOf<I> = <<I as KindIo>::Core as KindCore>::Read;
/// The answers to its reads.
pub type AnswerOf<I> = <<I as KindIo>::Core as KindCore>::Answer;
/// The steps of a kind.
pub type StepOf<I> = <<I as KindIo>::Core as KindCore>::Step;
/// The outcomes of its steps.
pub type OutcomeOf<I> = <<I as KindIo>::Core as KindCore>::Outcome;

/// A read or a step: plain data that prints as a phrase, such as "create connection group edge".
pub trait Call: Clone + PartialEq + Debug + Display + Send + Sync {
    /// Whether the call goes to a service outside the cluster. The pass gives its slot back meanwhile.
    fn leaves_cluster(&self) -> bool {
        true
    }
}

/// A step: one effect outside.
///
/// Every step needs the finalizer, unless the API server removes its result together with the object.
pub trait Effect: Call {
    /// Every value of [`name`](Self::name). Chaos tests take the kill points from here.
    const NAMES: &'static [&'static str];

    /// The name in kill points, metrics and logs.
    fn name(&self) -> &'static str;

    /// Steps of one lane never overlap. A kind with one resource outside needs one lane. A kind with many
    /// children has one lane for each. (Each different read has its own lane.)
    fn lane(&self) -> String {
        String::new()
    }

    /// Whether the object must have the finalizer first. False for children that the API server removes
    /// with their owner.
    fn needs_finalizer(&self) -> bool {
        true
    }

    /// The kind's own kill points once the step has had its effect.
    fn points_after(&self) -> Vec<String> {
        Vec::new()
    }

    /// A refusal of this step holds off all steps of the same concern.
    fn concern(&self) -> String {
        format!("{} {}", self.name(), self.lane())
    }
}

/// The reads or steps of a kind that has none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Never {}

impl Display for Never {
    fn fmt(&self, _: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match *self {}
    }
}

impl Call for Never {}

impl Effect for Never {
    const NAMES: &'static [&'static str] = &[];

    fn name(&self) -> &'static str {
        match *self {}
    }
}

/// The object and the pass that a call belongs to.
#[derive(Debug, Clone, Copy)]
pub struct CallContext<'a> {
    /// The object.
    pub key: &'a ObjectKey,
    /// Eight hex digits, the same in logs, status and events of this pass.
    pub pass_id: &'a str,
    /// A person waits for this pass: the object was edited, annotated or deleted.
    pub is_urgent: bool,
}

/// The decision of `next`.
#[derive(Debug, Clone, PartialEq)]
pub enum Next<Read, Step> {
    /// The calls that should be in flight now. The engine starts the first call of each free lane, and
    /// calls `next` again after each answer. `next` names a call again while it is in flight: its lane is
    /// busy, so the engine does not start it twice.
    Calls {
        /// Reads run concurrently.
        reads: Vec<Read>,
        /// Steps of one lane run in this order. `next` decides again before each one.
        steps: Vec<Step>,
    },
    /// Nothing is left to do. An object that is being deleted may go.
    Done {
        /// Run a pass after this time, if the outside may change without an event.
        recheck: Option<Duration>,
    },
}

impl<Read, Step> Next<Read, Step> {
    /// Nothing is left to do. The next pass is the resync.
    pub fn done() -> Self {
        Self::Done { recheck: None }
    }

    /// One read.
    pub fn read(read: Read) -> Self {
        Self::reads([read])
    }

    /// Concurrent reads.
    pub fn reads(reads: impl IntoIterator<Item = Read>) -> Self {
        Self::Calls {
            reads: reads.into_iter().collect(),
            steps: Vec::new(),
        }
    }

    /// One step.
    pub fn step(step: Step) -> Self {
        Self::steps([step])
    }

    /// Steps; those of one lane in this order.
    pub fn steps(steps: impl IntoIterator<Item = Step>) -> Self {
        Self::Calls {
            reads: Vec::new(),
            steps: steps.into_iter().collect(),
        }
    }
}

/// Why `next` ends a pass before everything is done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Stop {
    /// Something takes time. It is not an error.
    Waiting {
        /// What the object waits for.
        reason: Reason,
        /// The delay of the next pass.
        after: Duration,
    },
    /// A person has to change something. The next pass comes at the controller's blocked pace.
    Blocked {
        /// What has to change.
        reason: Reason,
    },
    /// The pass failed. It counts as an error, and the next pass backs off.
    Failed {
        /// What happened.
        reason: Reason,
        /// The class of the error.
        class: Class,
    },
}

impl Stop {
    /// Stops because something takes time.
    pub fn waiting(reason: Reason, after: Duration) -> Self {
        Self::Waiting { reason, after }
    }

    /// Stops until a person changes something.
    pub fn blocked(reason: Reason) -> Self {
        Self::Blocked { reason }
    }

    /// The default meaning of a failed call, for a kind that has no own rule for it.
    pub fn from_call(error: &CallError, code: &'static str) -> Self {
        let reason = Reason::new(code, error.message.clone());
        let pause =
            |seconds| Duration::from_secs(seconds).max(error.retry_after.unwrap_or_default());
        match error.class {
            Class::Denied | Class::Invalid | Class::LimitExceeded | Class::Conflict => {
                Self::Blocked { reason }
            }
            Class::Throttled | Class::Sealed => Self::waiting(reason, pause(30)),
            Class::Stale => Self::waiting(reason, pause(5)),
            class @ (Class::Transient
            | Class::Unreachable
            | Class::NotFound
            | Class::AlreadyExists
            | Class::Deposed) => Self::Failed { reason, class },
        }
    }

    /// The reason of the stop.
    pub fn reason(&self) -> &Reason {
        match self {
            Self::Waiting { reason, .. }
            | Self::Blocked { reason }
            | Self::Failed { reason, .. } => reason,
        }
    }
}

/// The input of `learn`.
pub enum Learned<K: KindCore + ?Sized> {
    /// A read has ended.
    Answer {
        /// The read.
        read: K::Read,
        /// The start of the read. The answer may miss later changes.
        began: Timestamp,
        /// Its result.
        answer: Result<K::Answer, CallError>,
    },
    /// A step has ended, or a hold-off repeated its last refusal.
    Outcome {
        /// The step.
        step: K::Step,
        /// Its result.
        outcome: Result<K::Outcome, CallError>,
    },
}

/// How a pass ended.
#[derive(Debug, Clone, PartialEq)]
pub enum Ended<Intent> {
    /// Nothing is left to do.
    Done {
        /// Run a pass after this time.
        recheck: Option<Duration>,
    },
    /// The status must now name these intents. The next pass performs their steps. Without intents, the
    /// pass only writes metadata.
    Announcing(Vec<Intent>),
    /// A dry run: these are the steps it would perform.
    Previewed(Vec<String>),
    /// `next` has stopped the pass.
    Stopped(Stop),
}

/// The object as the pass read it.
pub struct Object<K: KindCore + ?Sized> {
    /// Namespace and name.
    pub key: ObjectKey,
    /// Its metadata.
    pub metadata: ObjectMeta,
    /// All of it as a Rust type.
    pub resource: K::Resource,
    /// Its status; the default one if it has none.
    pub status: K::Status,
    /// The conditions in its status.
    pub conditions: Vec<Condition>,
    /// False for a key without an object: nothing is desired, and the engine writes no object.
    pub exists: bool,
}

impl<K: KindCore + ?Sized> Object<K> {
    /// Whether the object is being deleted, or there is no object.
    pub fn is_deleting(&self) -> bool {
        !self.exists || self.metadata.deletion_timestamp.is_some()
    }

    /// The version that this pass read.
    pub fn version(&self) -> &str {
        self.metadata
            .resource_version
            .as_deref()
            .unwrap_or_default()
    }

    /// The generation of the spec.
    pub fn generation(&self) -> i64 {
        self.metadata.generation.unwrap_or_default()
    }

    /// Whether the object has this finalizer.
    pub fn has_finalizer(&self, finalizer: &str) -> bool {
        let finalizers = self.metadata.finalizers.iter().flatten();
        finalizers.into_iter().any(|one| one == finalizer)
    }

    /// The finalizers of the object with this one, for an [`Edit`](ObjectWrite::Edit).
    pub fn finalizers_with(&self, finalizer: &str) -> Vec<String> {
        let mut finalizers = self.metadata.finalizers.clone().unwrap_or_default();
        if !self.has_finalizer(finalizer) {
            finalizers.push(finalizer.to_owned());
        }
        finalizers
    }

    /// One annotation.
    pub fn annotation(&self, name: &str) -> Option<&str> {
        let annotations = self.metadata.annotations.as_ref()?;
        annotations.get(name).map(String::as_str)
    }
}

/// Facts about the pass.
#[derive(Debug, Clone, PartialEq)]
pub struct PassFacts {
    /// Eight hex digits, the same in logs, status and events of this pass.
    pub id: String,
    /// A random number from 0 to 1. It spreads events that would come together.
    pub random: f64,
    /// The back-off if this pass fails.
    pub retry_in: Duration,
    /// A person waits for this pass: the object was edited, annotated or deleted.
    pub is_urgent: bool,
}

/// The input of every decision, as plain data: no client, no secret values. The engine builds it, and the
/// kind adds facts and answers.
pub struct World<K: KindCore + ?Sized> {
    /// The object.
    pub object: Object<K>,
    /// What `gather` found in the caches.
    pub facts: K::Facts,
    /// What `learn` stored of the answers of this pass.
    pub observed: K::Observed,
    /// What the process remembers of earlier passes.
    pub memory: K::Memory,
    /// Intents that this process saved and whose step it has not begun. After a crash there are none.
    pub fresh_intents: Vec<K::Intent>,
    /// The last pass of this process could not write the object: status may lack what `memory` has.
    pub is_unsaved: bool,
    /// The current time.
    pub now: Timestamp,
    /// The time since the start of the process, for times in `memory`.
    pub elapsed: Duration,
    /// Facts about the pass.
    pub pass: PassFacts,
}
