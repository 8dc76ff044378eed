//! AWS: accounts and roles, limits, error classes, one module a service. The only crate that knows
//! the SDK; what it takes and gives are values of its own.
//!
//! ```text
//! Aws ──▶ Account (own, or a role) ──▶ turn (bucket, order) ──▶ keys ──▶ guards ──▶ SDK
//!            └─ cloudfront · route53 · acm · sts · dynamodb
//! ```
//! # Promises
//! - All workers share one adaptive token bucket per account and service; Route 53 has one per
//!   action. Deletes go before edits, these before polls and sweeps; none of them starves, and
//!   namespaces take turns.
//! - The SDK repeats nothing. A call ends within its time-out, and one without an answer is told as
//!   [`Error::NoAnswer`]: it may have had its effect.
//! - Credentials are fetched once for all who need them and renewed five minutes before they end.
//!   When AWS does not accept them they are fetched once more and the call repeated once.
//! - Nothing is written while one of the [guards](kernel::Guard) is closed.
//! - Every error has a [class](Error::class) and a [fault](Error::fault), given here by AWS's code
//!   and nowhere else, and holds no secret.
//! - CloudFront, Route 53 and ACM are signed for us-east-1 whatever the region.
//!   `AWS_ENDPOINT_URL` and `AWS_ENDPOINT_URL_<SERVICE>` lead elsewhere.
//!
//! # When not to use it
//! To keep what AWS answered: caches belong to who knows how old an answer may be.

mod account;
pub mod acm;
mod call;
mod client;
pub mod cloudfront;
mod connector;
pub mod dynamodb;
mod error;
mod fault;
mod keyring;
mod moment;
mod observer;
mod operation;
mod role;
pub mod route53;
mod settings;
pub mod sts;
mod turn;

pub use account::Account;
pub use client::{Aws, Gauge, Parts};
pub use error::{Error, Refusal};
pub use fault::Fault;
pub use observer::{Observer, Unobserved};
pub use operation::{Operation, Service};
pub use role::{InvalidRole, Role};
pub use settings::{CALL_TIMEOUT, CONNECT_TIMEOUT, Keys, Secret, Settings};
pub use turn::{Asker, Later, Priority, Ticket};

/// A part of a list, and where the next part begins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page<T, M = String> {
    /// What this part holds.
    pub items: Vec<T>,
    /// What to ask the next part with; `None` after the last.
    pub next: Option<M>,
}
