//! The loop of one pass over one object. Production, preview and simulator all run it.

use std::collections::HashMap;

use futures::future::{BoxFuture, FutureExt};
use futures::stream::{FuturesUnordered, StreamExt};
use kernel::{CallError, Class, Progress, Reason};
use serde_json::Value;

use super::effects::{Effects, Mode, ObjectWrite};
use super::hold_off::HoldOff;
use super::{
    Call, Effect, Ended, KillPoint, KindCore, Learned, Next, Object, PassFacts, Report, Stop, World,
};

/// The largest number of calls per lane in one pass. With more, `next` ignores its answers.
const CALLS_PER_LANE: usize = 12;
/// The largest number of calls in flight in one pass.
const IN_FLIGHT: usize = 20;

/// What the engine remembers about one object between passes. It ends with the object or the process.
pub struct Remembered<K: KindCore> {
    memory: K::Memory,
    fresh_intents: Vec<K::Intent>,
    hold_off: HoldOff,
    /// The last pass could not write the object.
    is_unsaved: bool,
    /// The kill points of the kind that were named when the last new one was reached.
    points: Vec<KillPoint>,
}

impl<K: KindCore> Default for Remembered<K> {
    fn default() -> Self {
        Self {
            memory: K::Memory::default(),
            fresh_intents: Vec::new(),
            hold_off: HoldOff::default(),
            is_unsaved: false,
            points: Vec::new(),
        }
    }
}

/// Runs one pass. The caller catches panics, sets the deadline and drops the future when it ends.
///
/// # Errors
/// The pass failed. The class decides when the next pass comes: `Stale` if the pass read an old version of
/// the object, `Deposed` if another operator leads.
pub async fn run_pass<K: KindCore, E: Effects<K>>(
    kind: &K,
    object: Object<K>,
    pass: PassFacts,
    remembered: &mut Remembered<K>,
    effects: &E,
) -> Result<Progress, CallError> {
    if object.exists && object.is_deleting() && !object.has_finalizer(kind.finalizer()) {
        return Ok(Progress::done()); // without a finalizer there was no effect, so nothing is left
    }
    let began = effects.elapsed();
    let (world, mut ended) = decide(kind, object, pass, remembered, effects).await?;
    remembered.is_unsaved = world.object.exists; // also if the pass is dropped during the write
    let progress = conclude(kind, &world, &mut ended, remembered, effects).await;
    let took = effects.elapsed().saturating_sub(began);
    effects.count(&world, &ended, took);
    progress
}

/// Gathers facts and makes calls until none is left: the part of a pass before the object is written.
pub(super) async fn decide<K: KindCore, E: Effects<K>>(
    kind: &K,
    object: Object<K>,
    pass: PassFacts,
    remembered: &mut Remembered<K>,
    effects: &E,
) -> Result<(World<K>, Ended<K::Intent>), CallError> {
    if pass.is_urgent {
        remembered.hold_off.clear();
    }
    reach_points(|| kind.points_at_begin(&object), remembered, effects).await;
    let mut world = World {
        facts: effects.gather(&object),
        observed: K::Observed::default(),
        // Taken, not copied: a pass that is dropped leaves no outdated memory.
        memory: std::mem::take(&mut remembered.memory),
        fresh_intents: remembered.fresh_intents.clone(),
        is_unsaved: remembered.is_unsaved,
        now: effects.now(),
        elapsed: effects.elapsed(),
        object,
        pass,
    };
    let ended = make_calls(kind, &mut world, remembered, effects).await?;
    remembered.memory = kind.remember(&world, &ended);
    Ok((world, ended))
}

/// Reaches the kill points that no decision before has named. Returns whether there is one.
async fn reach_points<K: KindCore, E: Effects<K>>(
    points: impl FnOnce() -> Vec<KillPoint>,
    remembered: &mut Remembered<K>,
    effects: &E,
) -> bool {
    if !effects.has_kill_points() {
        return false;
    }
    let points = points();
    let known = &remembered.points;
    let new = points.iter().filter(|point| !known.contains(point));
    let new: Vec<&KillPoint> = new.collect();
    for point in &new {
        effects.kill_point(&point.name).await;
    }
    let is_any = !new.is_empty();
    if is_any {
        remembered.points = points;
    }
    is_any
}

/// What the engine records about a step that was performed.
struct Performed<Intent> {
    concern: String,
    error: Option<CallError>,
    /// The intent of the step, if it was fresh: no other step used it.
    fresh_intent: Option<Intent>,
}

/// A call that has ended.
struct Answered<K: KindCore> {
    lane: String,
    learned: Learned<K>,
    performed: Option<Performed<K::Intent>>,
}

/// The calls of one pass that are in flight.
struct InFlight<'a, K: KindCore> {
    calls: FuturesUnordered<BoxFuture<'a, Answered<K>>>,
    /// Each busy lane, and whether its call leaves the cluster.
    lanes: HashMap<String, bool>,
    made: HashMap<String, usize>,
}

impl<'a, K: KindCore> InFlight<'a, K> {
    fn has_room(&self, lane: &str) -> bool {
        !self.lanes.contains_key(lane) && self.calls.len() < IN_FLIGHT
    }

    fn start(&mut self, lane: String, leaves_cluster: bool, call: BoxFuture<'a, Answered<K>>) {
        *self.made.entry(lane.clone()).or_default() += 1;
        self.lanes.insert(lane, leaves_cluster);
        self.calls.push(call);
    }

    /// A lane with too many calls: `next` ignores its answers.
    fn endless_lane(&self) -> Option<&str> {
        let mut lanes = self.made.iter();
        let endless = lanes.find(|(_, made)| **made > CALLS_PER_LANE)?;
        Some(endless.0)
    }
}

/// Calls `next` and makes its calls, until it names none and none is in flight.
async fn make_calls<K: KindCore, E: Effects<K>>(
    kind: &K,
    world: &mut World<K>,
    remembered: &mut Remembered<K>,
    effects: &E,
) -> Result<Ended<K::Intent>, CallError> {
    let is_preview = effects.mode() == Mode::Preview || kind.is_dry_run(&world.object);
    let saved = kind.saved_intents(&world.object.status);
    let mut metadata = NamedWrite::default();
    let mut previewed: Vec<K::Step> = Vec::new();
    let mut in_flight = InFlight {
        calls: FuturesUnordered::new(),
        lanes: HashMap::new(),
        made: HashMap::new(),
    };
    loop {
        (world.now, world.elapsed) = (effects.now(), effects.elapsed());
        let next = kind.next(world);
        if reach_points(|| kind.points_reached(world), remembered, effects).await {
            continue; // a test may have made it wait: times have passed
        }
        let (reads, steps) = match &next {
            Ok(Next::Calls { reads, steps }) => (&reads[..], &steps[..]),
            Ok(Next::Done { .. }) | Err(_) => (&[][..], &[][..]),
        };
        let is_decided = !steps.is_empty() || !matches!(next, Ok(Next::Calls { .. }));
        if is_decided && in_flight.calls.is_empty() && previewed.is_empty() {
            let named = kind.metadata(world).filter(|_| world.object.exists);
            match metadata.update(named, effects).await {
                Err(error) if is_refusal(&error) => return Ok(Ended::Stopped(refused(&error))),
                compared => compared?,
            }
        }
        if is_preview && !steps.is_empty() || !previewed.is_empty() {
            if extend_preview(kind, world, steps, &mut previewed) {
                continue;
            }
            return Ok(Ended::Previewed(metadata.preview(&previewed)));
        }
        if !is_preview && metadata.needed.is_some() {
            return Ok(Ended::Announcing(Vec::new()));
        }
        start_reads(reads, &mut in_flight, effects);
        let unsaved = start_steps(
            kind,
            steps,
            world,
            &saved,
            remembered,
            &mut in_flight,
            effects,
        );
        if let Some(lane) = in_flight.endless_lane() {
            let message = format!("one pass made more than {CALLS_PER_LANE} calls: {lane}");
            return Ok(Ended::Stopped(defect(&message)));
        }
        if in_flight.calls.is_empty() {
            return Ok(match next {
                Ok(Next::Calls { steps, .. }) if steps.is_empty() => {
                    Ended::Stopped(defect("the plan continues but names no call"))
                }
                Ok(Next::Calls { .. }) => Ended::Announcing(unsaved),
                Ok(Next::Done { .. }) if is_preview && metadata.is_previewed() => {
                    Ended::Previewed(metadata.preview(&previewed))
                }
                Ok(Next::Done { recheck }) => Ended::Done { recheck },
                Err(stop) => Ended::Stopped(stop),
            });
        }
        let answered = first_answer(&mut in_flight, effects).await;
        in_flight.lanes.remove(&answered.lane);
        if let Some(performed) = answered.performed {
            record(kind, performed, world, remembered)?;
        }
        kind.learn(world, answered.learned);
        world.fresh_intents.clone_from(&remembered.fresh_intents);
    }
}

/// The write of metadata that a kind names.
#[derive(Default)]
struct NamedWrite<'k> {
    needed: Option<ObjectWrite<'k>>,
    /// It changes nothing.
    unneeded: Option<ObjectWrite<'k>>,
}

impl<'k> NamedWrite<'k> {
    async fn update<K: KindCore, E: Effects<K>>(
        &mut self,
        named: Option<ObjectWrite<'k>>,
        effects: &E,
    ) -> Result<(), CallError> {
        if named == self.needed || named.is_some() && named == self.unneeded {
            return Ok(());
        }
        (self.needed, self.unneeded) = match named {
            Some(write) if effects.is_needed(&write).await? => (Some(write), None),
            unneeded => (None, unneeded),
        };
        Ok(())
    }

    fn is_previewed(&self) -> bool {
        self.needed.as_ref().is_some_and(ObjectWrite::is_previewed)
    }

    /// The phrases of a preview: this write, then the steps.
    fn preview<S: ToString>(&self, steps: &[S]) -> Vec<String> {
        let write = self.needed.iter().filter(|write| write.is_previewed());
        let steps = steps.iter().map(ToString::to_string);
        write.map(ToString::to_string).chain(steps).collect()
    }
}

/// The stop after a defect in the code of a kind.
fn defect(message: &str) -> Stop {
    let message = format!("{message}; this is a defect of the operator, please report it");
    Stop::Failed {
        reason: Reason::new("OperatorDefect", message),
        class: Class::Transient,
    }
}

/// Whether a write of the object fails again until a person changes something.
fn is_refusal(error: &CallError) -> bool {
    matches!(error.class, Class::Conflict | Class::Invalid)
}

/// The stop after a refused write of metadata.
fn refused(error: &CallError) -> Stop {
    Stop::Failed {
        reason: Reason::new("MetadataRefused", error.message.clone()),
        class: error.class,
    }
}

fn start_reads<'a, K: KindCore, E: Effects<K>>(
    reads: &[K::Read],
    in_flight: &mut InFlight<'a, K>,
    effects: &'a E,
) {
    for read in reads.iter().cloned() {
        let lane = format!("read {read}");
        if !in_flight.has_room(&lane) {
            continue;
        }
        let leaves_cluster = read.leaves_cluster();
        let answered = lane.clone();
        let began = effects.now();
        let call = async move {
            let answer = effects.read(&read).await;
            Answered {
                lane: answered,
                learned: Learned::Answer {
                    read,
                    began,
                    answer,
                },
                performed: None,
            }
        };
        in_flight.start(lane, leaves_cluster, call.boxed());
    }
}

/// Starts the steps that may run, and returns the intents that must be saved before the others.
fn start_steps<'a, K: KindCore, E: Effects<K>>(
    kind: &K,
    steps: &[K::Step],
    world: &World<K>,
    saved: &[K::Intent],
    remembered: &mut Remembered<K>,
    in_flight: &mut InFlight<'a, K>,
    effects: &'a E,
) -> Vec<K::Intent> {
    let object = &world.object;
    let has_finalizer = !object.exists || object.has_finalizer(kind.finalizer());
    let (mut unsaved, mut waiting) = (Vec::new(), Vec::new());
    for step in steps.iter().cloned() {
        let lane = format!("step {}", step.lane());
        if waiting.contains(&lane) || !in_flight.has_room(&lane) {
            continue;
        }
        let concern = step.concern();
        let hold_off = &remembered.hold_off;
        let refusal = hold_off.refusal(&concern, object.generation(), world.elapsed);
        let intent = kind.intent_for(&step).filter(|_| object.exists);
        let is_saved = intent.as_ref().is_none_or(|intent| saved.contains(intent));
        // Check the hold-off before intents: otherwise a held-off step renews its intent forever.
        if let Some(error) = refusal {
            let answered = Answered {
                lane: lane.clone(),
                learned: Learned::Outcome {
                    step,
                    outcome: Err(error),
                },
                performed: None,
            };
            in_flight.start(lane, false, std::future::ready(answered).boxed());
            continue;
        }
        if !(is_saved && (has_finalizer || !step.needs_finalizer())) {
            unsaved.extend(intent.filter(|_| !is_saved));
            waiting.push(lane); // later steps of this lane wait for it
            continue;
        }
        // Remove the intent before the call: if the pass is dropped, the step may have run.
        let fresh = &mut remembered.fresh_intents;
        let before = fresh.len();
        fresh.retain(|fresh| Some(fresh) != intent.as_ref());
        let was_fresh = fresh.len() < before;
        let point = format!("{}.{}", kind.name(), step.name());
        let leaves_cluster = step.leaves_cluster();
        let answered = lane.clone();
        let call = async move {
            effects.kill_point(&format!("{point}.before")).await;
            let outcome = effects.apply(&step).await;
            if outcome.is_ok() && effects.has_kill_points() {
                for point in step.points_after() {
                    effects.kill_point(&point).await;
                }
            }
            effects.kill_point(&format!("{point}.after")).await;
            let performed = Performed {
                concern,
                error: outcome.as_ref().err().cloned(),
                fresh_intent: intent.filter(|_| was_fresh),
            };
            Answered {
                lane: answered,
                learned: Learned::Outcome { step, outcome },
                performed: Some(performed),
            }
        };
        in_flight.start(lane, leaves_cluster, call.boxed());
    }
    unsaved
}

/// Waits for the first answer. The pass gives its slot back meanwhile if all calls leave the cluster.
async fn first_answer<K: KindCore, E: Effects<K>>(
    in_flight: &mut InFlight<'_, K>,
    effects: &E,
) -> Answered<K> {
    let is_outside = in_flight
        .lanes
        .values()
        .all(|leaves_cluster| *leaves_cluster);
    let answered = in_flight.calls.next();
    let answered = if is_outside {
        effects.wait_outside(answered).await
    } else {
        answered.await
    };
    answered.expect("the caller has checked that a call is in flight")
}

/// Records a performed step: its hold-off, and whether its intent is fresh again.
fn record<K: KindCore>(
    kind: &K,
    performed: Performed<K::Intent>,
    world: &World<K>,
    remembered: &mut Remembered<K>,
) -> Result<(), CallError> {
    let Performed {
        concern,
        error,
        fresh_intent,
    } = performed;
    if let Some(error) = error.as_ref().filter(|error| error.class == Class::Deposed) {
        return Err(error.clone());
    }
    let pace = |error: &CallError, count| kind.hold_off(error, count);
    let generation = world.object.generation();
    let hold_off = &mut remembered.hold_off;
    hold_off.record(concern, generation, world.elapsed, error.as_ref(), pace);
    // The step had no effect, so its intent is fresh again.
    let had_no_effect = error.is_some_and(|error| !error.may_have_happened);
    remembered
        .fresh_intents
        .extend(fresh_intent.filter(|_| had_no_effect));
    Ok(())
}

/// Adds the next step to a preview. Returns false if the preview is complete or cannot continue.
fn extend_preview<K: KindCore>(
    kind: &K,
    world: &mut World<K>,
    steps: &[K::Step],
    previewed: &mut Vec<K::Step>,
) -> bool {
    let Some(step) = steps.iter().find(|step| !previewed.contains(step)) else {
        return false;
    };
    previewed.push(step.clone());
    match kind.assumed_outcome(world, step) {
        Some(outcome) => {
            let (step, outcome) = (step.clone(), Ok(outcome));
            kind.learn(world, Learned::Outcome { step, outcome });
        }
        None if steps.len() > 1 => {}
        None => return false,
    }
    true
}

/// Ends a pass: writes metadata and status at most once each, then emits events. If the API server refuses
/// the metadata, the pass ends as stopped, and status names the error.
async fn conclude<K: KindCore, E: Effects<K>>(
    kind: &K,
    world: &World<K>,
    ended: &mut Ended<K::Intent>,
    remembered: &mut Remembered<K>,
    effects: &E,
) -> Result<Progress, CallError> {
    let object = &world.object;
    let (mut status, mut report) = kind.status(world, ended);
    let emitted = report.events();
    for note in &emitted {
        effects.event(note.clone()); // it has happened, even if the status write fails
    }
    if !object.exists {
        return progress(kind, &status, ended, remembered);
    }
    if object.is_deleting() && matches!(ended, Ended::Done { .. }) {
        let release = ObjectWrite::RemoveFinalizer(kind.finalizer());
        write(kind, release, object.version(), effects).await?;
        return Ok(Progress::done());
    }
    let mut version = object.version().to_owned();
    if matches!(ended, Ended::Announcing(_)) {
        match announce(kind, world, effects).await {
            Ok(newer) => version = newer,
            Err(error) if is_refusal(&error) => {
                *ended = Ended::Stopped(refused(&error));
                (status, report) = kind.status(world, ended);
                let events = report.events().into_iter();
                for note in events.filter(|note| !emitted.contains(note)) {
                    effects.event(note);
                }
            }
            Err(error) => return Err(error),
        }
    }
    let unstamped = status.clone();
    save(kind, world, ended, unstamped, &report, &version, effects).await?;
    remembered.is_unsaved = false;
    for note in report.transitions(&object.conditions) {
        effects.event(note);
    }
    progress(kind, &status, ended, remembered)
}

/// What the queue does next with the object, from how the pass ended.
fn progress<K: KindCore>(
    kind: &K,
    status: &K::Status,
    ended: &Ended<K::Intent>,
    remembered: &mut Remembered<K>,
) -> Result<Progress, CallError> {
    match ended {
        Ended::Announcing(intents) => {
            let saved = kind.saved_intents(status);
            if let Some(intent) = intents.iter().find(|intent| !saved.contains(intent)) {
                let name = kind.name();
                let message = format!("{name}: status() does not name the intent {intent:?}");
                return Err(CallError::new(Class::Transient, message));
            }
            let fresh = &mut remembered.fresh_intents;
            fresh.retain(|intent| saved.contains(intent) && !intents.contains(intent));
            fresh.extend(intents.iter().cloned());
            Ok(Progress::Again)
        }
        Ended::Done { recheck } => Ok(Progress::Done { recheck: *recheck }),
        Ended::Previewed(_) => Ok(Progress::done()),
        Ended::Stopped(Stop::Waiting { reason, after }) => Ok(Progress::Waiting {
            reason: reason.clone(),
            after: *after,
        }),
        Ended::Stopped(Stop::Blocked { reason }) => Ok(Progress::Blocked {
            reason: reason.clone(),
        }),
        Ended::Stopped(Stop::Failed { reason, class }) => {
            Err(CallError::new(*class, reason.message.clone()))
        }
    }
}

/// Writes the metadata that a pass announces. Returns the version after it.
async fn announce<K: KindCore, E: Effects<K>>(
    kind: &K,
    world: &World<K>,
    effects: &E,
) -> Result<String, CallError> {
    let object = &world.object;
    let mut metadata = NamedWrite::default();
    metadata.update(kind.metadata(world), effects).await?;
    let needs_finalizer = !object.has_finalizer(kind.finalizer());
    let finalizer = needs_finalizer.then(|| ObjectWrite::AddFinalizer(kind.finalizer()));
    match metadata.needed.or(finalizer) {
        Some(metadata) => write(kind, metadata, object.version(), effects).await,
        None => Ok(object.version().to_owned()),
    }
}

/// Writes the status if it differs, bound to `version`.
async fn save<K: KindCore, E: Effects<K>>(
    kind: &K,
    world: &World<K>,
    ended: &Ended<K::Intent>,
    mut status: K::Status,
    report: &Report,
    version: &str,
    effects: &E,
) -> Result<(), CallError> {
    let object = &world.object;
    let conditions = report.conditions(&object.conditions, object.generation(), world.now);
    if kind.replaces_status() {
        let named: Vec<_> = conditions
            .into_iter()
            .filter(|one| report.get(&one.type_).is_some())
            .collect();
        let after = whole(as_value(&status)?, as_value(&named)?);
        if effects
            .is_needed(&ObjectWrite::ReplaceStatus(after.as_ref()))
            .await?
        {
            kind.stamp(&mut status, world, ended);
            let after = whole(as_value(&status)?, as_value(&named)?);
            let replace = ObjectWrite::ReplaceStatus(after.as_ref());
            write(kind, replace, version, effects).await?;
        }
        return Ok(());
    }
    let before = as_json(&object.status, &object.conditions)?;
    if as_json(&status, &conditions)? == before {
        return Ok(());
    }
    kind.stamp(&mut status, world, ended);
    let after = &as_json(&status, &conditions)?;
    let before = &before;
    // Bound to the version read: a pass from an old cache must not erase what a later pass saved.
    write(
        kind,
        ObjectWrite::Status { before, after },
        version,
        effects,
    )
    .await?;
    Ok(())
}

/// A whole status with the conditions that the engine owns; none if the kind has no status.
fn whole(mut status: Value, owned: Value) -> Option<Value> {
    let Some(fields) = status.as_object_mut() else {
        return Some(status).filter(|status| !status.is_null());
    };
    let Value::Array(owned) = owned else {
        return Some(status);
    };
    if !owned.is_empty() {
        let others = fields.remove("conditions").unwrap_or_default();
        let mut conditions: Vec<Value> = others.as_array().cloned().unwrap_or_default();
        conditions.retain(|one| owned.iter().all(|owned| owned["type"] != one["type"]));
        conditions.extend(owned);
        fields.insert("conditions".to_owned(), conditions.into());
    }
    Some(status)
}

fn as_value(value: &impl serde::Serialize) -> Result<Value, CallError> {
    let unreadable = |error: serde_json::Error| CallError::new(Class::Transient, error.to_string());
    serde_json::to_value(value).map_err(unreadable)
}

/// A status with its conditions, as the API server stores it.
fn as_json<S: serde::Serialize>(
    status: &S,
    conditions: &[k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition],
) -> Result<Value, CallError> {
    let mut status = as_value(status)?;
    if let Value::Object(fields) = &mut status {
        if conditions.is_empty() {
            fields.remove("conditions");
        } else {
            fields.insert("conditions".to_owned(), as_value(&conditions)?);
        }
    }
    Ok(status)
}

async fn write<K: KindCore, E: Effects<K>>(
    kind: &K,
    write: ObjectWrite<'_>,
    version: &str,
    effects: &E,
) -> Result<String, CallError> {
    let point = format!("{}.{}", kind.name(), write.name());
    effects.kill_point(&format!("{point}.before")).await;
    let version = effects.write(write, version).await?;
    effects.kill_point(&format!("{point}.after")).await;
    Ok(version)
}

#[cfg(test)]
mod tests;
