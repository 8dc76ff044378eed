//! What the command line verbs of all features share.
//!
//! ```text
//! arguments ─▶ Session::open ─▶ Kinds::select ─▶ the feature's preview ─▶ PlanTable   ─▶ Answer
//!                            ╰▶ the feature's rows ────────────────────▶ StatusTable ─▶ stdout, exit code
//! ```
//! # Promises
//! - A flag means the same in every feature: `-n -A -o -f --watch --yes`.
//! - A verb has the permissions of its user. It writes nothing before [`Session::allow_writes`].
//! - Results go to stdout, everything else to stderr.
//! - Exit 0: it holds; 1: it does not, or there are differences; 2: wrong usage, or not determined.
//!   Verbs that wait have two more, 3: not decided within the time limit; 4: a person has to act first.

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
    /// The command of the feature with its verbs; begin with [`flags::command`]. Each verb gets `-o`,
    /// unless it has its own `-o`. Formats that only the verb has print names.
    pub command: Command,
    /// Runs the verb of the parsed arguments.
    pub run: for<'a> fn(&'a ArgMatches) -> LocalBoxFuture<'a, Result<Answer, Failure>>,
}
