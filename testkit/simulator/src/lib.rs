//! Runs the pure core of a kind on seeded schedules against a model of the outside.
//!
//! ```text
//! seed ─▶ Schedule ─▶ run ─▶ laws hold, or a Failure ─▶ shrink ─▶ trace in words
//! ```
//! A schedule is a tape. Each call of a pass and each gap between passes takes the next entry. An entry
//! replaced by `Nothing` leaves the others where they are, so schedules shrink by simple deletion.
//!
//! # Laws, for every kind
//! - One writer: an operator that no longer leads performs nothing.
//! - What the model sees itself: no second create, nothing foreign touched.
//! - `Ready=True` only if the outside was as desired at a moment that the pass may have seen.
//! - Nothing is leaked once the object is gone.
//! - Once faults stop it converges, and then writes nothing and does not ask without a pause.
//!
//! # When not to use it
//! For what only a real server shows, such as its answers to malformed requests: that is a contract test.

mod effects;
mod model_object;
mod own_apply;
mod schedule;
mod search;
mod simulation;

pub use schedule::{Happening, Schedule};
pub use search::{Found, Seeds, check, enumerate, search};
pub use simulation::{Failure, run};

use std::time::Duration;

use engine::{KindCore, Object};
use jiff::Timestamp;
use kernel::CallError;
use serde_json::Value;

/// A stale read usually shows the outside as it was this long ago.
pub const LAG: Duration = Duration::from_secs(10);
/// A pass is dropped after this time.
pub const DEADLINE: Duration = Duration::from_secs(60);

/// The outside of a kind as a model, with what people do to it and the laws it can see.
pub trait Model<K: KindCore>: Clone + Send {
    /// How old an answer may be. Zero for a service whose reads show every write.
    const READ_LAG: Duration = LAG;

    /// Whether such a thing happens in the schedules of this model; if not, `Nothing` does. For laws that
    /// hold only while no answer is lost.
    fn can_happen(happening: Happening) -> bool {
        let _ = happening;
        true
    }

    /// The outside and the object as they are at the beginning. The object needs `metadata.name`, a
    /// `metadata.namespace` where the kind has one, and `spec`.
    fn new(choice: u8) -> (Self, Value);

    /// A user edits the object.
    fn edit(&mut self, object: &mut Value, choice: u8);

    /// Someone else acts outside, or the cluster around the object changes; returns what, in words.
    fn meddle(&mut self, object: &Value, choice: u8) -> String;

    /// What `gather` would find in the caches.
    fn facts(&self, object: &Object<K>) -> K::Facts;

    /// Time passes outside: what is under way there goes on.
    fn passes(&mut self, now: Timestamp) {
        let _ = now;
    }

    /// Answers a read.
    fn read(&self, read: &K::Read) -> Result<K::Answer, CallError>;

    /// Performs a step.
    fn apply(&mut self, step: &K::Step) -> Result<K::Outcome, CallError>;

    /// A law that a step broke, such as a second create.
    fn broken_law(&self) -> Option<String>;

    /// Whether the outside is as this object desires.
    fn is_as_desired(&self, object: &Value) -> bool;

    /// Whether Ready=True may be said of this object. It differs from [`is_as_desired`](Self::is_as_desired)
    /// for a kind whose Ready leaves out what others changed a moment ago.
    fn allows_ready(&self, object: &Value) -> bool {
        self.is_as_desired(object)
    }

    /// Whether the kind may come to rest with Ready=False: only a person can go on.
    fn may_rest(&self, object: &Value) -> bool;

    /// What must not exist once the object is gone.
    fn leftover(&self, object: &Value) -> Option<String>;
}
