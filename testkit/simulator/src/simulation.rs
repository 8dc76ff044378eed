//! One run of one schedule.

use std::collections::BTreeSet;
use std::fmt;
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use engine::{KindCore, PassFacts, Remembered, run_pass};
use jiff::Timestamp;
use kernel::{CallError, Class, Progress};
use parking_lot::{Mutex, MutexGuard};
use serde_json::{Value, json};

use crate::Model;
use crate::effects::SimulatedEffects;
use crate::model_object::{self, is_deleting, is_gone, is_ready};
use crate::schedule::{Happening, Schedule};

/// Passes that may be needed to come to rest, once the tape has ended.
const PASSES_TO_REST: usize = 120;
/// Passes without a write in a row that count as rest, and how long they take at least. A kind that only waits
/// is not at rest: after a refusal for minutes, and then for reads that are not stale any more.
const QUIET_PASSES: usize = 3;
const QUIET_TIME: Duration = Duration::from_secs(15 * 60);
/// Longer than any hold-off and any blocked pace.
const LONG: Duration = Duration::from_secs(40 * 60);
/// After a failed pass.
const BACK_OFF: Duration = Duration::from_secs(5);
/// Passes that come at once, one after another, without a write: the kind asks without a pause.
const IDLE_PASSES: usize = 10;

/// A broken law, with what led to it.
#[derive(Debug)]
pub struct Failure {
    /// Which law.
    pub law: String,
    /// What happened, in words.
    pub trace: Vec<String>,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "law broken: {}", self.law)?;
        let mut entries = self.trace.iter();
        entries.try_for_each(|entry| writeln!(f, "  {entry}"))
    }
}

/// The cluster and the outside at one moment, and what led to it.
pub(crate) struct State<M> {
    pub(crate) object: Option<Value>,
    /// Every version of the object.
    pub(crate) versions: Vec<Value>,
    pub(crate) outside: M,
    /// The outside after each change, with the time since the beginning.
    pub(crate) snapshots: Vec<(Duration, M)>,
    pub(crate) elapsed: Duration,
    /// The operator that leads.
    pub(crate) leader: u32,
    /// Operators that are frozen in the middle of a pass.
    pub(crate) frozen: usize,
    pub(crate) writes: usize,
    pub(crate) has_crashed: bool,
    pub(crate) law: Option<String>,
    pub(crate) points: BTreeSet<String>,
    tape: Vec<Happening>,
    position: usize,
    trace: Option<Vec<String>>,
}

/// One run of one schedule.
pub(crate) struct Simulation<'k, K, M> {
    core: &'k K,
    pub(crate) is_guarded: bool,
    state: Mutex<State<M>>,
}

/// Runs `schedule`; returns the kill points that it reached. `is_guarded` is false only to show that the
/// leader's guard is needed.
///
/// # Errors
/// A law that does not hold; with `trace`, what led to it.
pub fn run<K: KindCore, M: Model<K>>(
    core: &K,
    schedule: &Schedule,
    is_guarded: bool,
    trace: bool,
) -> Result<BTreeSet<String>, Failure> {
    let (outside, object) = M::new(schedule.first);
    let object = model_object::created(object, Timestamp::UNIX_EPOCH);
    let happens = |happening: &Happening| {
        if M::can_happen(*happening) {
            *happening
        } else {
            Happening::Nothing
        }
    };
    let simulation = Simulation {
        core,
        is_guarded,
        state: Mutex::new(State {
            versions: vec![object.clone()],
            object: Some(object),
            snapshots: vec![(Duration::ZERO, outside.clone())],
            outside,
            elapsed: Duration::from_secs(100),
            leader: 1,
            frozen: 0,
            writes: 0,
            has_crashed: false,
            law: None,
            points: BTreeSet::new(),
            tape: schedule.tape.iter().map(happens).collect(),
            position: 0,
            trace: trace.then(Vec::new),
        }),
    };
    simulation.run_to_end();
    let state = simulation.state.into_inner();
    match state.law {
        Some(law) => Err(Failure {
            law,
            trace: state.trace.unwrap_or_default(),
        }),
        None => Ok(state.points),
    }
}

impl<M> State<M> {
    /// The wall time.
    pub(crate) fn now(&self) -> Timestamp {
        Timestamp::UNIX_EPOCH + self.elapsed
    }

    pub(crate) fn note(&mut self, text: impl FnOnce() -> String) {
        let seconds = self.elapsed.as_secs();
        if let Some(trace) = &mut self.trace {
            trace.push(format!("{seconds:>6} s  {}", text()));
        }
    }

    pub(crate) fn broken(&mut self, law: impl Into<String>) {
        let law = law.into();
        self.note(|| format!("LAW: {law}"));
        self.law.get_or_insert(law);
    }

    /// The next entry of the tape.
    pub(crate) fn take(&mut self) -> Happening {
        let happening = self.tape.get(self.position).copied();
        self.position += 1;
        happening.unwrap_or(Happening::Nothing)
    }

    pub(crate) fn advance<K: KindCore>(&mut self, by: Duration)
    where
        M: Model<K>,
    {
        self.elapsed += by;
        let now = self.now();
        self.outside.passes(now);
    }

    /// The outside has changed: keeps it for stale reads, and looks at the laws it sees itself.
    pub(crate) fn changed_outside<K: KindCore>(&mut self)
    where
        M: Model<K>,
    {
        self.snapshots.push((self.elapsed, self.outside.clone()));
        if self.law.is_none()
            && let Some(law) = self.outside.broken_law()
        {
            self.broken(law);
        }
    }

    /// Changes the object as the API server would, under a new version.
    pub(crate) fn change_object<K: KindCore>(&mut self, change: impl FnOnce(&mut Value))
    where
        M: Model<K>,
    {
        let Some(mut object) = self.object.take() else {
            return;
        };
        let (spec, version) = (object["spec"].clone(), model_object::version(&object));
        change(&mut object);
        if object["spec"] != spec {
            object["metadata"]["generation"] = json!(model_object::generation(&object) + 1);
        }
        model_object::set_version(&mut object, version + 1);
        self.versions.push(object.clone());
        if !is_gone(&object) {
            self.object = Some(object);
            return;
        }
        self.note(|| "the object is gone".to_owned());
        if let Some(leftover) = self.outside.leftover(&object) {
            self.broken(format!("nothing is leaked: {leftover}"));
        }
    }

    /// What people and time do, in a gap or while a call is under way.
    pub(crate) fn meanwhile<K: KindCore>(&mut self, happening: Happening)
    where
        M: Model<K>,
    {
        match happening {
            Happening::UserEdit(choice) => {
                self.note(|| format!("the user edits the object ({choice})"));
                let mut outside = self.outside.clone();
                self.change_object(|object| {
                    if !is_deleting(object) {
                        outside.edit(object, choice);
                    }
                });
                self.outside = outside;
            }
            Happening::UserDelete => {
                self.note(|| "the user deletes the object".to_owned());
                let now = self.now().to_string();
                self.change_object(|object| {
                    if !is_deleting(object) {
                        object["metadata"]["deletionTimestamp"] = json!(now);
                    }
                });
            }
            Happening::OutsiderActs(choice) => {
                let Some(object) = self.object.clone() else {
                    return;
                };
                let action = self.outside.meddle(&object, choice);
                self.note(|| format!("someone else {action}"));
                self.changed_outside();
            }
            Happening::TimePasses(pause) => {
                self.note(|| format!("{} s pass", pause.as_secs()));
                self.advance(pause);
            }
            Happening::Nothing
            | Happening::CrashBefore
            | Happening::CrashAfter
            | Happening::LostAnswer
            | Happening::FailureBefore(_)
            | Happening::StaleRead
            | Happening::StaleCache
            | Happening::TakeOver
            | Happening::WakesEarly
            | Happening::SlowAnswer => {}
        }
    }
}

/// How long the queue waits after a pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Pause(pub(crate) Duration);

impl<K: KindCore, M: Model<K>> Simulation<'_, K, M> {
    pub(crate) fn state(&self) -> MutexGuard<'_, State<M>> {
        self.state.lock()
    }

    fn run_to_end(&self) {
        let mut remembered = Remembered::default();
        let mut pause = Duration::ZERO;
        while let Some(happening) = self.gap() {
            let is_urgent = matches!(happening, Happening::UserEdit(_) | Happening::UserDelete);
            let is_early = is_urgent || happening == Happening::WakesEarly;
            let wait = if is_early {
                Duration::from_secs(1)
            } else {
                pause
            };
            self.state().advance(wait);
            self.state().meanwhile(happening);
            let is_stale = happening == Happening::StaleCache;
            Pause(pause) = self.one_pass(&mut remembered, is_stale, is_urgent);
        }
        self.come_to_rest(&mut remembered);
        self.judge_rest();
        self.state().meanwhile(Happening::UserDelete);
        self.come_to_rest(&mut remembered);
        if self.is_going() {
            self.state()
                .broken("it converges: the deletion does not end");
        }
    }

    /// The next entry of the tape, while there is one and the object exists.
    fn gap(&self) -> Option<Happening> {
        let is_going = self.is_going();
        let mut state = self.state();
        (is_going && state.position < state.tape.len()).then(|| state.take())
    }

    fn is_going(&self) -> bool {
        let state = self.state();
        state.object.is_some() && state.law.is_none()
    }

    /// Without faults the kind comes to rest: some passes in a row write nothing.
    fn come_to_rest(&self, remembered: &mut Remembered<K>) {
        let (mut quiet, mut idle) = (0, 0);
        let mut quiet_for = Duration::ZERO;
        for _ in 0..PASSES_TO_REST {
            let is_at_rest = quiet >= QUIET_PASSES && quiet_for >= QUIET_TIME;
            if !self.is_going() || is_at_rest {
                return;
            }
            self.state().writes = 0;
            let Pause(pause) = self.one_pass(remembered, false, false);
            let mut state = self.state();
            state.advance(pause);
            quiet = if state.writes == 0 { quiet + 1 } else { 0 };
            let asks_on = state.writes == 0 && pause <= Duration::from_secs(1);
            idle = if asks_on { idle + 1 } else { 0 };
            // A pass that waits for its time counts as rest only if that time is not at once.
            if asks_on {
                quiet = 0;
            }
            quiet_for = if quiet == 0 {
                Duration::ZERO
            } else {
                quiet_for + pause
            };
            if idle == IDLE_PASSES {
                state.broken("it pauses: passes come at once, one after another, without a write");
            }
        }
        if self.is_going() && (quiet < QUIET_PASSES || quiet_for < QUIET_TIME) {
            self.state().broken("it converges, and then writes nothing");
        }
    }

    /// At rest, the object says Ready=True if and only if the outside is as desired.
    fn judge_rest(&self) {
        let mut state = self.state();
        let Some(object) = state.object.clone().filter(|object| !is_deleting(object)) else {
            return;
        };
        if state.law.is_some() {
            return;
        }
        let (is_ready, is_desired) = (is_ready(&object), state.outside.is_as_desired(&object));
        let may_rest = is_desired || state.outside.may_rest(&object);
        if is_ready != is_desired || !may_rest {
            let law =
                format!("it converges: at rest with Ready={is_ready}, as desired={is_desired}");
            state.broken(law);
        }
    }

    /// Runs one pass as the leader.
    pub(crate) fn one_pass(
        &self,
        remembered: &mut Remembered<K>,
        is_stale: bool,
        is_urgent: bool,
    ) -> Pause {
        let (operator, object, began) = {
            let state = self.state();
            let older = state.versions.len().checked_sub(2).filter(|_| is_stale);
            let older = older.map(|index| state.versions[index].clone());
            let Some(object) = state.object.clone().map(|newest| older.unwrap_or(newest)) else {
                return Pause(Duration::ZERO);
            };
            (state.leader, object, state.elapsed)
        };
        if is_stale {
            *remembered = Remembered::default(); // only a new process may see less than it wrote
            let version = model_object::version(&object);
            let mut state = self.state();
            state.note(|| format!("a new process starts from version {version}"));
        }
        let effects = SimulatedEffects {
            simulation: self,
            operator,
            began,
            object: object.clone(),
        };
        let facts = PassFacts {
            id: "00000000".to_owned(),
            random: 0.5,
            retry_in: BACK_OFF,
            is_urgent,
        };
        let object = model_object::read::<K>(&object);
        let ended = {
            let pass = run_pass(self.core, object, facts, remembered, &effects);
            let mut pass = pin!(pass);
            let mut context = Context::from_waker(Waker::noop());
            // A call that is only slow is ready when it is polled again; a crashed one never is.
            let mut polls = (0..50).map(|_| pass.as_mut().poll(&mut context));
            polls.find_map(|poll| match poll {
                Poll::Ready(ended) => Some(ended),
                Poll::Pending => None,
            })
        };
        if ended.is_none() {
            *remembered = Remembered::default(); // it was dropped midway
        }
        let mut state = self.state();
        let has_crashed = std::mem::take(&mut state.has_crashed);
        if has_crashed || state.leader != operator {
            state.leader += 1;
            drop(state);
            *remembered = Remembered::default();
            return Pause(Duration::from_secs(1));
        }
        state.note(|| format!("the pass ends: {}", shown(ended.as_ref())));
        Pause(pause_after(ended.as_ref()))
    }
}

fn shown(ended: Option<&Result<Progress, CallError>>) -> String {
    match ended {
        None => "it is dropped".to_owned(),
        Some(Ok(progress)) => format!("{progress:?}"),
        Some(Err(error)) => format!("{:?}: {error}", error.class),
    }
}

/// When the queue runs the next pass.
fn pause_after(ended: Option<&Result<Progress, CallError>>) -> Duration {
    let at_once = Duration::from_secs(1);
    match ended {
        None | Some(Ok(Progress::Again)) => at_once,
        Some(Ok(Progress::Waiting { after, .. })) => (*after).max(at_once),
        Some(Ok(Progress::Blocked { .. } | Progress::Done { recheck: None })) => LONG,
        Some(Ok(Progress::Done {
            recheck: Some(recheck),
        })) => (*recheck).clamp(at_once, LONG),
        Some(Err(error)) if error.class == Class::Stale => at_once,
        Some(Err(_)) => BACK_OFF,
    }
}
