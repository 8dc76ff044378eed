//! The command line kit: what the verbs of all features have in common.
//!
//! ```text
//! arguments ─▶ Session::open ─▶ Kinds::select ─▶ the feature's preview ─▶ PlanTable   ─▶ Answer
//!                            ╰▶ the feature's rows ────────────────────▶ StatusTable ─▶ stdout, exit code
//! ```
//! # Promises
//! - A flag means the same in every feature: `-n -A -o -f --watch --yes`.
//! - A verb has the rights of its user, and writes nothing before [`Session::allow_writes`].
//! - Results go to stdout, everything else to stderr.
//! - Exit 0: it holds; 1: it does not, differences included; 2: wrong usage, or not determined.

mod consent;
mod files;
pub mod flags;
mod kinds;
mod output;
mod plan;
mod session;
mod status;

use std::error::Error;

use clap::{ArgMatches, Command};
use futures::future::LocalBoxFuture;

pub use consent::confirm;
pub use files::as_applied;
pub use kinds::{Kinds, ObjectKind, ObjectRef, Selected};
pub use output::{Answer, Finding, Format, Outcome, counted};
pub use plan::{PlanRow, PlanTable};
pub use session::{Scope, Session};
pub use status::{OBJECT_COLUMNS, ReadyCondition, StatusRow, StatusTable};

/// Why a verb could not answer, and what to do about it.
pub type Failure = Box<dyn Error>;

/// The verbs of a feature: `pontoon <feature> <verb>`.
pub struct Verbs {
    /// The feature's name with the verbs below it; begin with [`flags::command`]. Each verb gets `-o`
    /// beside its own flags, unless it has one with formats of its own: those print names.
    pub command: Command,
    /// Runs the verb that `command` has parsed.
    pub run: for<'a> fn(&'a ArgMatches) -> LocalBoxFuture<'a, Result<Answer, Failure>>,
}
