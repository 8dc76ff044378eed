//! The contract between a kind and the engine.
//!
//! ```text
//! gather ─▶ next ─▶ calls ─▶ learn ─▶ next ─▶ … ─▶ Done or Stop ─▶ status ─▶ progress
//! ```
//! A [`KindCore`] decides (`next`, `learn`, `status`: pure); its [`KindIo`] gathers facts and makes calls
//! and decides nothing. Everything else belongs to the engine: order, concurrency, intents, finalizer,
//! guard, kill points, hold-off, writes of the object, events, progress. Production, the `plan` verbs,
//! dry-run and the simulator run the same core with other [`Effects`].

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
/// A step runs only if the object, as read, carries the finalizer and names the step's intent. Status
/// is computed on every exit path and written at most once, bound to the version read.
///
/// # When not to use it
/// For work that belongs to no object: that is a task of the feature.
pub trait KindCore: Send + Sync + 'static {
    /// The kind as a Rust type; `serde_json::Value` for one known only at run time.
    type Resource: DeserializeOwned + Clone + Debug + Send + Sync;
    /// Its status, without which it is the default one. `conditions` in it belong to the engine.
    type Status: Serialize + DeserializeOwned + Clone + Debug + Default + PartialEq + Send + Sync;
    /// What [`gather`](KindIo::gather) finds in the caches.
    type Facts: Send + Sync;
    /// What [`learn`](Self::learn) keeps of the answers of one pass.
    type Observed: Default + Send + Sync;
    /// What the process remembers between passes. Losing it costs calls, never correctness.
    type Memory: Default + Clone + Send + Sync;
    /// A question to the outside.
    type Read: Call;
    /// What it brings.
    type Answer: Send;
    /// An effect outside.
    type Step: Effect;
    /// What it brings.
    type Outcome: Send;
    /// What must be saved before an effect.
    type Intent: Clone + Debug + PartialEq + Send + Sync;

    /// A word for kill points and traces, such as `seed`.
    fn name(&self) -> &str;

    /// The finalizer of this kind.
    fn finalizer(&self) -> &str;

    /// Decides what should be in flight now. A deletion is the same plan with nothing desired.
    ///
    /// # Errors
    /// Why the pass ends here.
    fn next(&self, world: &World<Self>) -> Result<Next<Self::Read, Self::Step>, Stop>;

    /// Keeps what an answer or an error says, without a verdict: `next` decides.
    fn learn(&self, world: &mut World<Self>, learned: Learned<Self>);

    /// Computes status, conditions and events; asked for on every exit path.
    fn status(&self, world: &World<Self>, ended: &Ended<Self::Intent>) -> (Self::Status, Report);

    /// Adds what goes along with a write but is never the reason for one: times, ids, counters.
    fn stamp(&self, status: &mut Self::Status, world: &World<Self>, ended: &Ended<Self::Intent>) {
        let _ = (status, world, ended);
    }

    /// What the process remembers after a pass that ended so: what `learn` kept, and what only the end
    /// shows, such as when to read again.
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

    /// How long the same step is not repeated after this refusal, the `count`-th in a row (from 0).
    /// None: the error is no refusal.
    fn hold_off(&self, error: &CallError, count: u32) -> Option<Duration> {
        hold_off::usual(error.class, count)
    }

    /// A write of metadata that comes before this pass performs a step or ends; the next pass runs at
    /// once. For an annotation that has done its work, and for the finalizer of an object that needs it
    /// without a step.
    fn metadata(&self, world: &World<Self>) -> Option<ObjectWrite<'_>> {
        let _ = world;
        None
    }

    /// Whether this object asks for a dry run: steps are reported in status and not performed.
    fn is_dry_run(&self, object: &Object<Self>) -> bool {
        let _ = object;
        false
    }

    /// The outcome that a preview assumes, so that it can show the steps that follow. None: the
    /// preview ends there.
    fn foreseen(&self, world: &World<Self>, step: &Self::Step) -> Option<Self::Outcome> {
        let _ = (world, step);
        None
    }
}

/// The input and output of one kind in a running operator. It decides nothing.
pub trait KindIo: Send + Sync + 'static {
    /// What decides.
    type Core: KindCore;

    /// What decides.
    fn core(&self) -> &Self::Core;

    /// Whether this operator looks after the object at all. What is out of scope is left as it is.
    fn is_in_scope(&self, key: &ObjectKey) -> bool {
        let _ = key;
        true
    }

    /// Fields for the log lines of a pass over this object.
    fn log_span(&self, object: &Object<Self::Core>) -> tracing::Span {
        let _ = object;
        tracing::Span::none()
    }

    /// Takes facts from the caches. It cannot fail: what is missing is a fact, and `next` decides.
    fn gather(&self, object: &Object<Self::Core>) -> FactsOf<Self>;

    /// Makes one read.
    fn read(
        &self,
        read: &ReadOf<Self>,
        caller: &Caller<'_>,
    ) -> impl Future<Output = Result<AnswerOf<Self>, CallError>> + Send;

    /// Performs one step.
    fn apply(
        &self,
        step: &StepOf<Self>,
        caller: &Caller<'_>,
    ) -> impl Future<Output = Result<OutcomeOf<Self>, CallError>> + Send;

    /// The object, as JSON, that stands for a key without one, where a kind has work for such keys: a copy
    /// or a leftover whose object is gone. Nothing of it is written. The pass ends the work by `Done`.
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

    /// The object is gone: what the kind keeps of it outside of `Memory` goes too.
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

/// A read or a step: plain data that prints as a phrase ("create connection group edge").
pub trait Call: Clone + PartialEq + Debug + Display + Send + Sync {
    /// Whether the pass gives its slot back while this call runs, as calls to slow services do.
    fn leaves_cluster(&self) -> bool {
        true
    }
}

/// One effect outside.
///
/// Every step needs the finalizer, unless what it makes goes with the object by itself.
pub trait Effect: Call {
    /// Every value of [`name`](Self::name). Chaos tests take the kill points from here.
    const NAMES: &'static [&'static str];

    /// A word for kill points, metrics and logs.
    fn name(&self) -> &'static str;

    /// Steps of one lane never overlap. A kind with one thing outside needs one lane; a kind with many
    /// children has one for each. (Each different read has its own lane.)
    fn lane(&self) -> String {
        String::new()
    }

    /// Whether the object must carry the finalizer first. False for children that the API server removes
    /// with their owner.
    fn needs_finalizer(&self) -> bool {
        true
    }

    /// What a refusal of this step holds off. Steps of one concern are refused together.
    fn concern(&self) -> String {
        format!("{} {}", self.name(), self.lane())
    }
}

/// For kinds that ask nothing, or change nothing, outside.
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

/// On whose behalf a call is made.
#[derive(Debug, Clone, Copy)]
pub struct Caller<'a> {
    /// The object.
    pub key: &'a ObjectKey,
    /// Eight hex digits, the same in logs, status and events of this pass.
    pub pass_id: &'a str,
    /// A person waits for this pass: the object was edited, annotated or deleted.
    pub is_urgent: bool,
}

/// What `next` asks for.
#[derive(Debug, Clone, PartialEq)]
pub enum Next<Read, Step> {
    /// The calls that should be in flight now, given what is known. The engine starts the first one of
    /// each lane that is free, and asks again after each answer. A call that is still in flight is named
    /// again; its lane is busy, so it is not started twice.
    Calls {
        /// Reads run side by side.
        reads: Vec<Read>,
        /// Steps of one lane run in this order; each is decided anew when its turn comes.
        steps: Vec<Step>,
    },
    /// Nothing is left to do. An object that is being deleted may go.
    Done {
        /// Look again after this time, if the outside may change unseen.
        recheck: Option<Duration>,
    },
}

impl<Read, Step> Next<Read, Step> {
    /// Nothing is left to do; the resync is soon enough.
    pub fn done() -> Self {
        Self::Done { recheck: None }
    }

    /// One read.
    pub fn read(read: Read) -> Self {
        Self::reads([read])
    }

    /// Reads, side by side.
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
        /// What is waited for.
        reason: Reason,
        /// When to look again.
        after: Duration,
    },
    /// A person has to change something. The engine looks again at the controller's blocked pace.
    Blocked {
        /// What has to change.
        reason: Reason,
    },
    /// A surprise: it counts as an error and backs off.
    Failed {
        /// What happened.
        reason: Reason,
        /// What it means.
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

    /// The usual meaning of a failed call, for a kind that has no rule of its own for it.
    pub fn from_call(error: &CallError, code: &'static str) -> Self {
        let reason = Reason::new(code, error.message.clone());
        let pause = |usual| Duration::from_secs(usual).max(error.retry_after.unwrap_or_default());
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

    /// Why.
    pub fn reason(&self) -> &Reason {
        match self {
            Self::Waiting { reason, .. }
            | Self::Blocked { reason }
            | Self::Failed { reason, .. } => reason,
        }
    }
}

/// What the engine hands to `learn`.
pub enum Learned<K: KindCore + ?Sized> {
    /// A read has ended.
    Answer {
        /// Which.
        read: K::Read,
        /// When it began: it shows nothing that happened later.
        began: Timestamp,
        /// What it brought.
        answer: Result<K::Answer, CallError>,
    },
    /// A step has ended, or a hold-off repeated its last refusal.
    Outcome {
        /// Which.
        step: K::Step,
        /// What it brought.
        outcome: Result<K::Outcome, CallError>,
    },
}

/// How a pass ended.
#[derive(Debug, Clone, PartialEq)]
pub enum Ended<Intent> {
    /// Nothing is left to do.
    Done {
        /// Look again after this time.
        recheck: Option<Duration>,
    },
    /// The status must now name these intents. The next pass performs their steps. Without intents, only
    /// metadata is written first.
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
    /// False for a key without an object: nothing is desired, and nothing of the object is written.
    pub exists: bool,
}

impl<K: KindCore + ?Sized> Object<K> {
    /// Whether a deletion was asked for, or there is no object.
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

    /// Whether the object carries this finalizer.
    pub fn has_finalizer(&self, finalizer: &str) -> bool {
        let finalizers = self.metadata.finalizers.iter().flatten();
        finalizers.into_iter().any(|held| held == finalizer)
    }

    /// One annotation.
    pub fn annotation(&self, name: &str) -> Option<&str> {
        let annotations = self.metadata.annotations.as_ref()?;
        annotations.get(name).map(String::as_str)
    }
}

/// What holds for one pass as a whole.
#[derive(Debug, Clone, PartialEq)]
pub struct PassFacts {
    /// Eight hex digits, the same in logs, status and events of this pass.
    pub id: String,
    /// 0 to 1: spreads what would come together.
    pub random: f64,
    /// The back-off if this pass fails.
    pub retry_in: Duration,
    /// A person waits for this pass: the object was edited, annotated or deleted.
    pub is_urgent: bool,
}

/// Everything a decision needs, as plain data: no client, no secret values. The engine builds it; a kind
/// adds facts and answers.
pub struct World<K: KindCore + ?Sized> {
    /// The object.
    pub object: Object<K>,
    /// What `gather` found in the caches.
    pub facts: K::Facts,
    /// What `learn` kept of the answers of this pass.
    pub observed: K::Observed,
    /// What the process remembers.
    pub memory: K::Memory,
    /// Intents that this process saved and whose step it has not begun. After a crash there are none.
    pub fresh_intents: Vec<K::Intent>,
    /// The wall time.
    pub now: Timestamp,
    /// Time since the process began, for what is remembered.
    pub elapsed: Duration,
    /// What holds for the whole pass.
    pub pass: PassFacts,
}
