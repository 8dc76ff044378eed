//! What a simulated pass does to the model.

use std::future::pending;
use std::time::Duration;

use engine::{Effects, KindCore, Object, ObjectWrite, Remembered, merged};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kernel::{CallError, Class};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::model_object::{self, generation, ready_generation};
use crate::own_apply;
use crate::schedule::Happening;
use crate::simulation::{Pause, Simulation, State};
use crate::{DEADLINE, LAG, Model};

/// How long one call takes.
const CALL: Duration = Duration::from_secs(1);
/// Passes of a second operator while the first is frozen.
const PASSES_OF_SUCCESSOR: usize = 3;
/// Operators that are frozen at once: each one's pass waits on the stack for its successor.
const FROZEN: usize = 2;

pub(crate) struct SimulatedEffects<'s, 'k, K, M> {
    pub(crate) simulation: &'s Simulation<'k, K, M>,
    /// The operator that runs this pass.
    pub(crate) operator: u32,
    pub(crate) began: Duration,
    /// The object as this pass read it.
    pub(crate) object: Value,
}

impl<K: KindCore, M: Model<K>> SimulatedEffects<'_, '_, K, M> {
    /// Lets the next entry of the tape happen while `call` is under way, before its effect.
    async fn before(&self, call: &str, is_write: bool) -> Result<Happening, CallError> {
        match self.begin(call, is_write) {
            Some(begun) => begun,
            None => pending().await, // the pass ends here and is dropped
        }
    }

    /// None: the process crashes, or the pass is past its deadline.
    fn begin(&self, call: &str, is_write: bool) -> Option<Result<Happening, CallError>> {
        let operator = self.operator;
        let happening = {
            let mut state = self.simulation.state();
            if state.has_crashed {
                return None; // the other calls of this pass end with the process
            }
            state.advance(CALL);
            state.take()
        };
        if happening == Happening::TakeOver {
            self.take_over(call);
        }
        let mut state = self.simulation.state();
        state.meanwhile(happening);
        let is_deposed = state.leader != operator;
        if is_deposed && is_write && self.simulation.is_guarded {
            state.note(|| format!("operator {operator}: the guard refuses: {call}"));
            let error = CallError::new(Class::Deposed, "another operator leads");
            return Some(Err(error));
        }
        if is_deposed && is_write {
            state.broken(format!("one writer: operator {operator} performs: {call}"));
        }
        let is_late = !is_deposed && state.elapsed > self.began + DEADLINE;
        if happening == Happening::CrashBefore || is_late {
            state.has_crashed = happening == Happening::CrashBefore;
            state.note(|| format!("operator {operator} stops before: {call}"));
            return None;
        }
        if let Happening::FailureBefore(class) = happening {
            state.note(|| format!("operator {operator}: {call}: {class:?}"));
            return Some(Err(CallError::new(class, format!("{class:?}"))));
        }
        Some(Ok(happening))
    }

    /// This operator freezes, and another one leads and works meanwhile.
    fn take_over(&self, call: &str) {
        {
            let mut state = self.simulation.state();
            if state.frozen == FROZEN {
                return;
            }
            state.frozen += 1;
            state.leader += 1;
            let (operator, leader) = (self.operator, state.leader);
            state.note(|| {
                format!("operator {operator} freezes before: {call}; operator {leader} leads")
            });
        }
        let mut remembered = Remembered::default();
        for _ in 0..PASSES_OF_SUCCESSOR {
            let Pause(pause) = self.simulation.one_pass(&mut remembered, false, false);
            let pause = pause.min(Duration::from_secs(5));
            self.simulation.state().advance(pause);
        }
        self.simulation.state().frozen -= 1;
    }

    fn crash(&self, call: &str) {
        let mut state = self.simulation.state();
        state.note(|| format!("operator {} crashes after: {call}", self.operator));
        state.has_crashed = true;
    }

    async fn after<T>(
        &self,
        happening: Happening,
        call: &str,
        answer: Result<T, CallError>,
    ) -> Result<T, CallError> {
        let operator = self.operator;
        let error = answer.as_ref().err();
        let error = error.map(|error| format!(": {error}")).unwrap_or_default();
        self.simulation
            .state()
            .note(|| format!("operator {operator}: {call}{error}"));
        match happening {
            Happening::CrashAfter => {
                self.crash(call);
                pending().await
            }
            Happening::LostAnswer => {
                self.simulation
                    .state()
                    .note(|| "the answer is lost".to_owned());
                let error = CallError::new(Class::Unreachable, "no answer");
                Err(error.with_unknown_effect())
            }
            Happening::SlowAnswer => {
                yield_once().await;
                answer
            }
            Happening::Nothing
            | Happening::CrashBefore
            | Happening::FailureBefore(_)
            | Happening::StaleRead
            | Happening::StaleCache
            | Happening::TakeOver
            | Happening::UserEdit(_)
            | Happening::UserDelete
            | Happening::OutsiderActs(_)
            | Happening::TimePasses(_)
            | Happening::WakesEarly => answer,
        }
    }
}

/// Lets the calls beside this one come first.
async fn yield_once() {
    let mut has_yielded = false;
    std::future::poll_fn(|context| {
        if std::mem::replace(&mut has_yielded, true) {
            std::task::Poll::Ready(())
        } else {
            context.waker().wake_by_ref();
            std::task::Poll::Pending
        }
    })
    .await;
}

impl<K: KindCore, M: Model<K>> Effects<K> for SimulatedEffects<'_, '_, K, M>
where
    M: Send,
{
    fn now(&self) -> Timestamp {
        self.simulation.state().now()
    }

    fn elapsed(&self) -> Duration {
        self.simulation.state().elapsed
    }

    fn gather(&self, object: &Object<K>) -> K::Facts {
        self.simulation.state().outside.facts(object)
    }

    async fn kill_point(&self, name: &str) {
        self.simulation.state().points.insert(name.to_owned());
    }

    async fn read(&self, read: &K::Read) -> Result<K::Answer, CallError> {
        let call = read.to_string();
        let happening = self.before(&call, false).await?;
        let answer = {
            let mut state = self.simulation.state();
            let lag = M::READ_LAG;
            let is_stale = happening == Happening::StaleRead && !lag.is_zero();
            let then = state.elapsed.saturating_sub(lag);
            let mut older = state.snapshots.iter().rev().filter(|_| is_stale);
            let older = older.find(|(at, _)| *at <= then);
            let older = older.map(|(_, outside)| outside.read(read));
            match older {
                Some(answer) => {
                    state.note(|| format!("the next answer is {} s old", lag.as_secs()));
                    answer
                }
                None => state.outside.read(read),
            }
        };
        self.after(happening, &call, answer).await
    }

    async fn apply(&self, step: &K::Step) -> Result<K::Outcome, CallError> {
        let call = step.to_string();
        let happening = self.before(&call, true).await?;
        let answer = {
            let mut state = self.simulation.state();
            state.writes += 1;
            let answer = state.outside.apply(step);
            state.changed_outside();
            answer
        };
        self.after(happening, &call, answer).await
    }

    async fn is_needed(&self, write: &ObjectWrite<'_>) -> Result<bool, CallError> {
        let object = &self.object;
        Ok(match write {
            ObjectWrite::Edit(patch) => merged(object, patch) != *object,
            ObjectWrite::ApplyOwn { manager, body, .. } => {
                own_apply::applied(object, manager, body, true)? != *object
            }
            ObjectWrite::ReplaceStatus(status) => object.get("status") != *status,
            ObjectWrite::AddFinalizer(_)
            | ObjectWrite::RemoveFinalizer(_)
            | ObjectWrite::RemoveAnnotation(_)
            | ObjectWrite::Status { .. } => true,
        })
    }

    async fn write(&self, write: ObjectWrite<'_>, version: &str) -> Result<String, CallError> {
        let call = write.to_string();
        let happening = self.before(&call, true).await?;
        let answer = self.write_object(&write, version);
        self.after(happening, &call, answer).await
    }
}

impl<K: KindCore, M: Model<K>> SimulatedEffects<'_, '_, K, M> {
    fn write_object(&self, write: &ObjectWrite<'_>, version: &str) -> Result<String, CallError> {
        let mut state = self.simulation.state();
        state.writes += 1;
        let Some(object) = state.object.clone() else {
            return match write {
                // The API server has removed it already.
                ObjectWrite::RemoveFinalizer(_) => Ok(version.to_owned()),
                ObjectWrite::AddFinalizer(_)
                | ObjectWrite::RemoveAnnotation(_)
                | ObjectWrite::Edit(_)
                | ObjectWrite::ApplyOwn { .. }
                | ObjectWrite::Status { .. }
                | ObjectWrite::ReplaceStatus(_) => {
                    Err(CallError::new(Class::NotFound, "the object is gone"))
                }
            };
        };
        if model_object::version(&object).to_string() != version {
            return Err(CallError::new(Class::Stale, "the object has changed"));
        }
        match write {
            ObjectWrite::AddFinalizer(finalizer) => {
                state.change_object(|object| object["metadata"]["finalizers"] = json!([finalizer]));
            }
            ObjectWrite::RemoveFinalizer(_) => {
                state.change_object(|object| object["metadata"]["finalizers"] = json!([]));
            }
            ObjectWrite::RemoveAnnotation(name) => state.change_object(|object| {
                if let Some(annotations) = object["metadata"]["annotations"].as_object_mut() {
                    annotations.remove(*name);
                }
            }),
            ObjectWrite::Edit(patch) => {
                state.change_object(|object| *object = merged(object, patch));
            }
            ObjectWrite::ApplyOwn {
                manager,
                body,
                force,
            } => {
                let after = own_apply::applied(&object, manager, body, *force)?;
                state.change_object(|object| *object = after);
            }
            ObjectWrite::Status { after, .. } | ObjectWrite::ReplaceStatus(Some(after)) => {
                self.judge_ready(&mut state, &object, after);
                state.change_object(|object| object["status"] = (*after).clone());
            }
            ObjectWrite::ReplaceStatus(None) => state.change_object(|object| {
                if let Some(fields) = object.as_object_mut() {
                    fields.remove("status");
                }
            }),
        }
        let newest = state.versions.last().map_or(0, model_object::version);
        Ok(newest.to_string())
    }

    /// If a status says Ready=True of a generation, the outside was as that generation desires at some
    /// moment that a read of this pass may have shown. What someone does later is not yet known to the
    /// operator.
    fn judge_ready(&self, state: &mut State<M>, object: &Value, status: &Value) {
        let conditions = Vec::<Condition>::deserialize(&status["conditions"]).unwrap_or_default();
        let Some(ready) = ready_generation(&conditions) else {
            return;
        };
        let mut versions = state.versions.iter().rev();
        let declared = versions.find(|version| generation(version) == ready);
        let declared = declared.unwrap_or(object);
        let since = self.began.saturating_sub(LAG);
        let snapshots = &state.snapshots;
        let first = snapshots.iter().rposition(|(at, _)| *at <= since);
        let mut seen = snapshots[first.unwrap_or(0)..].iter();
        let was_ready = seen.any(|(_, outside)| outside.allows_ready(declared));
        if !was_ready && !state.outside.allows_ready(declared) {
            state.broken("Ready=True only if live equals desired");
        }
    }
}
