//! What a pass would do now, for the `plan` and `diff` verbs. It reads, and writes nothing.

use std::time::Duration;

use jiff::Timestamp;
use kernel::{CallError, Class, SharedClock};

use super::effects::{Effects, Mode, ObjectWrite};
use super::run::{Remembered, decide};
use super::{
    AnswerOf, CallContext, Ended, FactsOf, KindCore, KindIo, Object, OutcomeOf, PassFacts, ReadOf,
    StepOf, World, production,
};
use crate::Kind;
use crate::stored::Stored;

/// The world of a pass over `stored`, and how the pass would end: its steps, or why it would stop.
///
/// # Errors
/// The object does not fit its schema, or a call failed with an error that ends a pass.
pub async fn preview<I: KindIo>(
    io: &I,
    kind: &Kind,
    stored: &Stored,
    clock: &SharedClock,
) -> Result<(World<I::Core>, Ended<<I::Core as KindCore>::Intent>), CallError> {
    let object = production::object::<I::Core>(kind, stored)
        .map_err(|malformed| CallError::new(Class::Invalid, malformed.to_string()))?;
    let effects = Preview {
        io,
        kind,
        stored,
        clock,
    };
    let pass = PassFacts {
        id: String::new(),
        random: 0.5,
        retry_in: Duration::ZERO,
        is_urgent: true,
    };
    decide(
        io.core(),
        object,
        pass,
        &mut Remembered::default(),
        &effects,
    )
    .await
}

struct Preview<'a, I> {
    io: &'a I,
    kind: &'a Kind,
    stored: &'a Stored,
    clock: &'a SharedClock,
}

impl<I: KindIo> Effects<I::Core> for Preview<'_, I> {
    fn gather(&self, object: &Object<I::Core>) -> FactsOf<I> {
        self.io.gather(object)
    }

    fn mode(&self) -> Mode {
        Mode::Preview
    }

    fn now(&self) -> Timestamp {
        self.clock.now()
    }

    fn elapsed(&self) -> Duration {
        self.clock.elapsed()
    }

    async fn read(&self, read: &ReadOf<I>) -> Result<AnswerOf<I>, CallError> {
        let context = CallContext {
            key: self.stored.key(),
            pass_id: "",
            is_urgent: true,
        };
        self.io.read(read, &context).await
    }

    async fn apply(&self, step: &StepOf<I>) -> Result<OutcomeOf<I>, CallError> {
        let message = format!("a preview does not {step}");
        Err(CallError::new(Class::Deposed, message))
    }

    async fn is_needed(&self, write: &ObjectWrite<'_>) -> Result<bool, CallError> {
        Ok(production::changes(self.kind, self.stored, write))
    }

    async fn write(&self, _write: ObjectWrite<'_>, version: &str) -> Result<String, CallError> {
        Ok(version.to_owned())
    }
}
