//! Leftovers: what may remain outside after its object is gone. Each has a record, and a worker removes it
//! when that is possible.
//!
//! ```text
//! object past its deadline ──▶ record ──▶ ConfigMap ──▶ worker ──▶ removed outside ──▶ ConfigMap deleted
//!                                                         └─ claimed, foreign or changed: left there
//! ```
//! A feature brings a [`Leftover`], which is plain data, and a [`Remover`], which gathers facts, makes calls
//! and decides by a pure function whether the leftover may still be removed.
//!
//! # Guarantees
//! - A record stays until its leftover is gone, belongs to an object again or is not ours, or until a person
//!   abandons it.
//! - The worker looks for claims before it reads, and again before it removes.
//! - Each write of a record is bound to the record as read.
//! - Tries never end: the pause between them doubles up to an hour. Waiting for the target costs no try.
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

/// One thing that may remain outside, and all that is needed to decide whether it is still ours. It prints
/// as messages name it.
///
/// Serde gives its record: each field is one key of the ConfigMap. A string is written as it is, any other
/// value as JSON; null and the empty string have no key. A field that may be missing is an `Option` or has a
/// default.
pub trait Leftover:
    Serialize + DeserializeOwned + Clone + PartialEq + Debug + Display + Send + Sync + 'static
{
    /// Key and value of the label on its records.
    const LABEL: (&'static str, &'static str);
    /// The field that names its target: the connection, account or cluster over which it is removed.
    const TARGET: &'static str;
    /// Where it remains, as messages name it: `Vault`, `AWS`.
    const OUTSIDE: &'static str;

    /// The name of its record: the same for the same thing over the same target.
    fn record_name(&self) -> String;

    /// Whether a record of this makes a record of `other` needless.
    fn covers(&self, other: &Self) -> bool {
        self == other
    }

    /// Every key that it can have in a ConfigMap, and its text if it has one.
    fn fields(&self) -> BTreeMap<String, Option<String>> {
        fields::write(self)
    }

    /// The leftover that the data of a ConfigMap describes.
    ///
    /// # Errors
    /// When a field is missing or wrong.
    fn from_fields(fields: &BTreeMap<String, String>) -> Result<Self, Unreadable> {
        fields::read(fields)
    }
}

/// Removes leftovers of one type.
///
/// A [`Stop`] ends a pass over a record: `Waiting` costs no try, `Blocked` is written to the record and
/// reported once, `Failed` is a try that failed.
pub trait Remover: Send + Sync + 'static {
    /// What it removes.
    type Leftover: Leftover;
    /// The connection, account or cluster over which a leftover is removed, as the caches show it.
    type Target: Send + Sync;
    /// A client for it.
    type Client: Send + Sync;
    /// What a read shows.
    type Evidence: Send + Sync;

    /// The pause after the first try that failed. It doubles up to an hour.
    fn first_pause(&self) -> Duration;

    /// Fields for the log lines about this leftover.
    fn log_span(&self, leftover: &Self::Leftover) -> tracing::Span {
        let _ = leftover;
        tracing::Span::none()
    }

    /// The target, from the caches.
    ///
    /// # Errors
    /// When there is none.
    fn target(&self, leftover: &Self::Leftover) -> Result<Self::Target, Stop>;

    /// The object that claims the leftover, from the caches.
    fn claimant(&self, leftover: &Self::Leftover, target: &Self::Target) -> Claimant;

    /// A client for the leftover. It makes no call.
    ///
    /// # Errors
    /// When the target cannot be used, or does not lead to the leftover.
    fn client(
        &self,
        leftover: &Self::Leftover,
        target: &Self::Target,
    ) -> Result<Self::Client, Stop>;

    /// Reads what is outside.
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

    /// Removes what is outside; nothing there is fine.
    fn remove(
        &self,
        leftover: &Self::Leftover,
        client: &Self::Client,
    ) -> impl Future<Output = Result<(), Stop>> + Send;

    /// Counts a try. One that found nothing outside is a success.
    fn count_try(&self, leftover: &Self::Leftover, is_success: bool);

    /// Keeps the number of records, as last seen.
    fn count_records(&self, count: usize);
}

/// Which object has, or wants, what a record would remove.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Claimant {
    /// No object.
    Nobody,
    /// This object may; its next status decides.
    Undecided(String),
    /// This object.
    Somebody(String),
    /// Not all objects have been read, or not lately.
    Unread,
}

/// Whether a leftover may be removed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Judgement {
    /// It is gone already.
    Gone,
    /// It is ours, and as we left it.
    Remove,
    /// It stays. The code is the reason of the event, the message says why.
    Leave(Reason),
}
