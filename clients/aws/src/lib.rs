//! AWS: accounts and roles, limits, error classes, one module per service. The only crate that
//! knows the SDK; its interface uses types of its own.
//!
//! ```text
//! Aws ──▶ Account (own, or a role) ──▶ limiter (bucket, order) ──▶ keys ──▶ guards ──▶ SDK or wire
//!            └─ cloudfront · route53 · acm · sts · dynamodb · ec2
//! ```
//! # Promises
//! - All features share one adaptive token bucket per account, region and service; Route 53 and EC2 have
//!   one per action. Deletes go before edits, these before polls and sweeps; none of them starves, and
//!   namespaces are served round robin.
//! - Nothing is retried. A call ends within its time-out. Without an answer it ends with
//!   [`Error::NoAnswer`]: the call may have had its effect.
//! - Concurrent callers share one request for credentials. Credentials are renewed five minutes
//!   before they expire. If AWS does not accept them, they are fetched once more and the call is
//!   repeated once.
//! - Nothing is written while one of the [guards](kernel::Guard) is closed.
//! - Every error has a [class](Error::class) and a [fault](Error::fault) and contains no secret. Only
//!   the file of a service interprets its error codes.
//! - CloudFront, Route 53 and ACM are signed for us-east-1 whatever the region.
//!   `AWS_ENDPOINT_URL` and `AWS_ENDPOINT_URL_<SERVICE>` set other endpoints.
//!
//! # When not to use it
//! To cache answers: a cache belongs to the code that knows how old an answer may be.

mod account;
pub mod acm;
mod call;
mod client;
pub mod cloudfront;
mod connector;
pub mod dynamodb;
pub mod ec2;
mod error;
mod fault;
mod for_process;
mod keyring;
mod limiter;
mod observer;
mod operation;
mod role;
pub mod route53;
mod settings;
pub mod sts;
mod timestamp;
mod web_identity;
pub mod wire;

pub use account::Account;
pub use client::{Aws, Gauge, Parts};
pub use error::{Error, Refusal};
pub use fault::Fault;
pub use limiter::{Caller, Later, Priority, Ticket};
pub use observer::{Observer, Unobserved};
pub use operation::{Operation, Service};
pub use role::{InvalidRole, Role};
pub use settings::{CALL_TIMEOUT, CONNECT_TIMEOUT, Keys, Secret, Settings};

/// One page of a list, and where the next page begins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page<T, M = String> {
    /// The entries of this page.
    pub items: Vec<T>,
    /// The marker of the next page; `None` after the last.
    pub next: Option<M>,
}
