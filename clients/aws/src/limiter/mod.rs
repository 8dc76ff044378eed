//! Rate limits: one token bucket and one queue per account, region and limit.
//!
//! ```text
//! bucket (how fast) ─┐
//! queue (in which order) ─┴─▶ permit queue (who may call now)   pure, time is passed in
//! limiter: a permit queue, its clock and the waiting callers    async
//! limiters: the limiter of every account, region and limit
//! ```

mod bucket;
mod caller;
mod limiters;
mod permit_queue;
mod permits;
mod queue;

pub(crate) use bucket::RateRange;
pub use caller::{Caller, Later, Priority, Ticket};
pub(crate) use limiters::{Limit, Limiters};
pub(crate) use permits::{Limiter, Permit};
