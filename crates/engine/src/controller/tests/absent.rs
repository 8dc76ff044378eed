//! Passes for keys without an object.

use kernel::CallError;

use super::*;
use crate::kind_core::{
    AnswerOf, CallContext, Ended, FactsOf, KindCore, KindIo, Learned, Never, Next as NextCalls,
    Object, OutcomeOf, ReadOf, Report, StepOf, Stop, World,
};

/// A kind that waits in its first pass over a key without an object, and is done in the second.
struct LeftoverCore;

impl KindCore for LeftoverCore {
    type Resource = Value;
    type Status = Value;
    type Facts = usize;
    type Observed = ();
    type Memory = ();
    type Read = Never;
    type Answer = ();
    type Step = Never;
    type Outcome = ();
    type Intent = ();

    fn name(&self) -> &'static str {
        "leftover"
    }

    fn finalizer(&self) -> &'static str {
        "example.pontoon.io/leftover"
    }

    fn next(&self, world: &World<Self>) -> Result<NextCalls<Never, Never>, Stop> {
        assert!(!world.object.exists && world.object.is_deleting());
        if world.facts == 1 {
            let reason = Reason::new("Removing", "the leftover is being removed");
            return Err(Stop::waiting(reason, Duration::from_secs(10)));
        }
        Ok(NextCalls::done())
    }

    fn learn(&self, _world: &mut World<Self>, learned: Learned<Self>) {
        match learned {
            Learned::Answer { read, .. } => match read {},
            Learned::Outcome { step, .. } => match step {},
        }
    }

    fn status(&self, _world: &World<Self>, _ended: &Ended<()>) -> (Value, Report) {
        (Value::Null, Report::default())
    }
}

struct LeftoverIo {
    passes: Arc<Mutex<usize>>,
    gone: Arc<Mutex<Vec<String>>>,
}

impl KindIo for LeftoverIo {
    type Core = LeftoverCore;

    fn core(&self) -> &LeftoverCore {
        &LeftoverCore
    }

    fn gather(&self, _object: &Object<LeftoverCore>) -> FactsOf<Self> {
        let mut passes = self.passes.lock();
        *passes += 1;
        *passes
    }

    async fn read(
        &self,
        read: &ReadOf<Self>,
        _: &CallContext<'_>,
    ) -> Result<AnswerOf<Self>, CallError> {
        match *read {}
    }

    async fn apply(
        &self,
        step: &StepOf<Self>,
        _: &CallContext<'_>,
    ) -> Result<OutcomeOf<Self>, CallError> {
        match *step {}
    }

    fn absent(&self, _key: &ObjectKey) -> Option<Value> {
        Some(json!({}))
    }

    fn gone(&self, key: &ObjectKey) {
        self.gone.lock().push(key.name.to_string());
    }
}

#[tokio::test(start_paused = true)]
async fn a_key_without_an_object_has_passes_until_its_work_is_done() {
    let (passes, gone) = (Arc::default(), Arc::default());
    let io = LeftoverIo {
        passes: Arc::clone(&passes),
        gone: Arc::clone(&gone),
    };
    let replica = Replica::start_with(|spec| ControllerSpec::of_core(spec.key.clone(), io));
    replica.after(|replica| replica.lead(true)).await;
    let key = ObjectKey::namespaced("a", "leftover");
    replica.after(|replica| replica.controller.wake(&key)).await;
    assert_eq!(*passes.lock(), 1);
    replica.after(|_| {}).await;
    assert_eq!(*passes.lock(), 1, "it waits");
    let advance = |replica: &Replica| replica.clock.advance(Duration::from_secs(10));
    replica.after(advance).await;
    assert_eq!(*passes.lock(), 2);
    assert_eq!(*gone.lock(), ["leftover"]);
    let advance = |replica: &Replica| replica.clock.advance(Duration::from_secs(3600));
    replica.after(advance).await;
    assert_eq!(*passes.lock(), 2, "there is nothing left to do");
    replica.tasks.kill().await;
}
