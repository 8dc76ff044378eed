//! Pure types and functions that all other crates use. No I/O, no client, no tasks; only
//! [`clock`](Clock) reads time.
//!
//! | to express                               | use                                              |
//! |------------------------------------------|--------------------------------------------------|
//! | how a pass ended, and why                | [`Progress`], [`Stop`], [`Reason`]               |
//! | what an error means                      | [`Class`], [`CallError`]                         |
//! | what is true of an object                | [`Conditions`]                                   |
//! | what differs, and who changed it         | [`diff3`], [`Rules`], [`Diff`]                   |
//! | when to retry, when to check again       | [`Backoff`], [`spread`], [`Clock`]               |
//! | an object, and the owner of a resource   | [`ObjectKey`], [`ClusterId`], [`Marker`]         |
//! | whether we may touch a resource          | [`Ownership`], [`may_touch`]                     |
//! | the state of an external resource        | [`Lifecycle`]                                    |
//! | a name Kubernetes accepts                | [`label`], [`subdomain`]                         |
//! | a secret, or a text that may contain one | [`Redacted`], [`redact`], [`cap`]                |
//! | whether we may write                     | [`Guard`], [`GuardedBody`]                       |
//! | when a connection counts as dead         | [`tcp`]                                          |

mod backoff;
mod call_error;
mod class;
mod clock;
mod conditions;
mod diff3;
mod guard;
mod guarded_body;
mod identity;
mod lifecycle;
mod names;
mod ownership;
mod progress;
mod redact;
mod reference;
mod schedule;
pub mod tcp;

pub use backoff::Backoff;
pub use call_error::CallError;
pub use class::Class;
pub use clock::{BootClock, Clock, RealClock, ScaledClock, SharedClock, SteppingClock, TestClock};
pub use conditions::{Conditions, find, is_true};
pub use diff3::{Change, ChangeKind, Diff, ListKey, Rules, diff3};
pub use guard::{Deposed, Guard, write_timeout};
pub use guarded_body::GuardedBody;
pub use identity::{
    APPLIED, ClusterId, InvalidClusterId, MARKER_CLUSTER, MARKER_OBJECT, Marker, PAUSED,
    RECONCILE_NOW, object_marker,
};
pub use lifecycle::{Lifecycle, Observation, Timing, ToDo, Wanted};
pub use names::{label, subdomain};
pub use ownership::{AdoptionRequest, Ownership, Touch, may_touch};
pub use progress::{Progress, Reason, Stop};
pub use redact::{Redacted, cap, redact};
pub use reference::{InvalidObjectKey, ObjectKey};
pub use schedule::spread;
