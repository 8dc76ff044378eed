//! Whose turn it is: one bucket and one queue per account and limit.
//!
//! ```text
//! bucket (how fast) ─┐
//! queue (in which order) ─┴─▶ line (who may call now)      pure, time is passed in
//! turns: a line, its clock and those who wait              async
//! lanes: the turns of every account and limit
//! ```

mod asker;
mod bucket;
mod lanes;
mod line;
mod queue;
mod turns;

pub use asker::{Asker, Later, Priority, Ticket};
pub(crate) use bucket::Limits;
pub(crate) use lanes::{Lane, Lanes};
pub(crate) use turns::{Turn, Turns};
