//! Leftovers: resources that may remain outside after their object is gone. Each has a record, and a worker
//! removes it when that is possible.
//!
//! ```text
//! object past its deadline ──▶ record ──▶ ConfigMap ──▶ worker ──▶ removed outside ──▶ ConfigMap deleted
//!                                                         └─ claimed, foreign or changed: left there
//! ```
//! A feature implements [`Leftover`], which is plain data, and [`Remover`], which gathers facts and makes
//! calls. A pure function of the remover decides whether the leftover may still be removed.
//!
//! # Guarantees
//! - A record stays until its leftover is gone, belongs to an object again or is not ours. A person can also
//!   abandon it.
//! - The worker checks for claims before it reads, and again before it removes.
//! - Each write of a record is bound to the record as read.
//! - The worker never gives up: the pause between attempts doubles up to an hour. Waiting for the target
//!   does not count as an attempt.
//!
//! # When not to use it
//! Before the deadline of a deletion: until then the object itself waits, with its finalizer.

mod fields;
mod record;
mod store;
mod worker;

use std::collections::BTreeMap;
use std::fmt::{Debug, Display};
use std::time::Duration;

use kernel::Reason;
use serde::Serialize;
use serde::de::DeserializeOwned;

pub use fields::Unreadable;
pub use store::LeftoverStore;
pub use worker::controller;

use crate::Stop;

/// A resource that may remain outside, with the data to decide whether it is still ours. Messages show its
/// `Display` text.
///
/// Its record comes from Serde: each field is one key of the ConfigMap. A string is written as text, any
/// other value as JSON. Null and the empty string have no key. A field that may be missing is an `Option` or
/// has a default.
pub trait Leftover:
    Serialize + DeserializeOwned + Clone + PartialEq + Debug + Display + Send + Sync + 'static
{
    /// Key and value of the label on its records.
    const LABEL: (&'static str, &'static str);
    /// The field with its target: the connection, account or cluster through which it is removed.
    const TARGET: &'static str;
    /// The service that has it, for messages: `Vault`, `AWS`.
    const OUTSIDE: &'static str;

    /// The name of its record: the same for the same resource and target.
    fn record_name(&self) -> String;

    /// Whether a record of this leftover also covers `other`, so that `other` needs no record.
    fn covers(&self, other: &Self) -> bool {
        self == other
    }

    /// Every key that it can have in a ConfigMap, with its text if it has one.
    fn fields(&self) -> BTreeMap<String, Option<String>> {
        fields::write(self)
    }

    /// Parses a leftover from the data of a ConfigMap.
    ///
    /// # Errors
    /// A field is missing or wrong.
    fn from_fields(fields: &BTreeMap<String, String>) -> Result<Self, Unreadable> {
        fields::read(fields)
    }
}

/// Removes leftovers of one type.
///
/// A [`Stop`] ends a pass over a record. `Waiting` does not count as an attempt. `Blocked` is written to the
/// record and reported once. `Failed` is a failed attempt.
pub trait Remover: Send + Sync + 'static {
    /// What it removes.
    type Leftover: Leftover;
    /// The connection, account or cluster through which a leftover is removed, from the caches.
    type Target: Send + Sync;
    /// A client for the target.
    type Client: Send + Sync;
    /// The result of a read.
    type Evidence: Send + Sync;

    /// The pause after the first failed attempt. It doubles up to an hour.
    fn first_pause(&self) -> Duration;

    /// Fields for the log lines about this leftover.
    fn log_span(&self, leftover: &Self::Leftover) -> tracing::Span {
        let _ = leftover;
        tracing::Span::none()
    }

    /// The target, from the caches.
    ///
    /// # Errors
    /// There is no target.
    fn target(&self, leftover: &Self::Leftover) -> Result<Self::Target, Stop>;

    /// The object that claims the leftover, from the caches.
    fn claimant(&self, leftover: &Self::Leftover, target: &Self::Target) -> Claimant;

    /// A client for the leftover. This makes no call.
    ///
    /// # Errors
    /// The target cannot be used, or is not the service that has the leftover.
    fn client(
        &self,
        leftover: &Self::Leftover,
        target: &Self::Target,
    ) -> Result<Self::Client, Stop>;

    /// Reads the leftover from outside.
    fn read(
        &self,
        leftover: &Self::Leftover,
        client: &Self::Client,
    ) -> impl Future<Output = Result<Self::Evidence, Stop>> + Send;

    /// Decides whether the leftover may be removed. Pure.
    fn judge(
        &self,
        leftover: &Self::Leftover,
        target: &Self::Target,
        evidence: Self::Evidence,
    ) -> Judgement;

    /// Removes the leftover outside. It is no error if there is none.
    fn remove(
        &self,
        leftover: &Self::Leftover,
        client: &Self::Client,
    ) -> impl Future<Output = Result<(), Stop>> + Send;

    /// Counts an attempt. An attempt that found nothing outside is a success.
    fn count_attempt(&self, leftover: &Self::Leftover, is_success: bool);

    /// Sets the metric with the number of records in the cache.
    fn count_records(&self, count: usize);
}

/// Which object owns, or claims, the leftover of a record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Claimant {
    /// No object.
    Nobody,
    /// This object may claim it. Its next status decides.
    Undecided(String),
    /// This object.
    Somebody(String),
    /// The caches have not read all objects, or not recently.
    Unread,
}

/// Whether a leftover may be removed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Judgement {
    /// It is gone already.
    Gone,
    /// It is ours, and as we left it.
    Remove,
    /// It stays. The code is the reason of the event, and the message explains it.
    Leave(Reason),
}
