//! What an emulated service is to the rest: one trait, and what it is told on each call.

use http::Method;
use jiff::Timestamp;
use serde::Serialize;
use serde_json::Value;

use crate::accounts::Caller;
use crate::oracle::{Declared, Living};
use crate::protocol::{ApiError, Protocol};
use crate::shelf::View;
use crate::switches::{Switch, Switches};
use crate::wire::{Request, Response};

/// An emulated AWS service.
///
/// One request runs at a time over all services, so a service needs no locks of its own, and the
/// log's order is the order of effects. It owns its state: keep what belongs to an account under
/// `call.caller.account`, and what is unique over all accounts beside it. Two services that see
/// each other's things share an `Arc<Mutex<_>>` given to both.
///
/// Time enters through [`Moment::now`] only; a state that takes time is computed from when it
/// began, not by a timer.
pub trait Service: Send {
    /// The name in control requests and in the log.
    fn name(&self) -> &'static str;

    /// The name requests are signed for, where it differs from [`Service::name`].
    fn signing_name(&self) -> &'static str {
        self.name()
    }

    /// How its errors look on the wire.
    fn protocol(&self) -> Protocol;

    /// The regions it answers in; `None` is any.
    fn regions(&self) -> Option<&'static [&'static str]> {
        None
    }

    /// Which operation `request` asks for and on what; `None` if it is none of this service's.
    /// Must not depend on state: it also tells whose protocol an unsigned request speaks.
    fn operation(&self, request: &Request) -> Option<Operation>;

    /// Whether `operation` may come unsigned.
    fn is_anonymous(&self, _operation: &str) -> bool {
        false
    }

    /// Whether `operation` changes anything. Names that begin like a read's are reads.
    fn is_write(&self, operation: &str) -> bool {
        const READS: &[&str] = &["Get", "List", "Describe", "Scan", "Verify", "Assume"];
        !READS.iter().any(|read| operation.starts_with(read))
    }

    /// Whether credentials that AssumeRole gave belong here; the oracle tells on those elsewhere.
    fn is_for_roles(&self) -> bool {
        true
    }

    /// What `operation` must have to itself until it is answered, such as a zone.
    fn exclusive(&self, _operation: &Operation) -> Option<String> {
        None
    }

    /// The answer to a request that came while another had what both must have to themselves.
    fn overlapped(&mut self, _moment: &Moment<'_>, what: &str) -> ApiError {
        ApiError::new(409, "Conflict", &format!("Another request has {what}."))
    }

    /// Carries `request` out. A rejected one changes nothing. Reads look through `call.view`.
    fn call(&mut self, call: &Call<'_>, request: &Request) -> Result<Response, ApiError>;

    /// Hears how each of its requests ended, also those that a fault kept from [`Service::call`].
    fn seen(&mut self, _moment: &Moment<'_>, _outcome: &Outcome<'_>) {}

    /// The switches it knows.
    fn switches(&self) -> &'static [Switch] {
        &[]
    }

    /// Edits from behind: seeds, console edits, forced states. `change` is the control request
    /// without its `service`. What it makes is foreign to the operator under test.
    fn mutate(&mut self, moment: &Moment<'_>, change: Value) -> Result<Value, ControlError>;

    /// The service's own control verbs, as `METHOD path` lines for people who ask for others.
    fn verbs(&self) -> &'static [&'static str] {
        &[]
    }

    /// Runs a verb under `/_emu/<name>/`; `None` if there is no such verb.
    fn verb(&mut self, _moment: &Moment<'_>, _verb: &Verb) -> Option<Result<Value, ControlError>> {
        None
    }

    /// Everything it holds, for tests to read.
    fn state(&self, moment: &Moment<'_>) -> Value;

    /// What its oracle has seen go wrong since the last reset.
    fn violations(&self) -> Vec<Violation>;

    /// What carries a marker of ours and has no object among the `living`.
    fn leaks(&self, _declared: &Declared, _living: &Living) -> Vec<Leak> {
        Vec::new()
    }

    /// Forgets everything.
    fn reset(&mut self);
}

/// What a request asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Operation {
    /// Name as in AWS's reference.
    pub name: String,
    /// What it is about, in the caller's words (id, name or ARN), if it is about one thing.
    pub resource: Option<String>,
}

/// The time and the switches a service works under.
#[derive(Debug, Clone, Copy)]
pub struct Moment<'a> {
    /// The emulator's time.
    pub now: Timestamp,
    /// This service's switches.
    pub switches: &'a Switches,
    /// What tests have told the oracle.
    pub declared: &'a Declared,
}

/// How a request ended.
#[derive(Debug, Clone, Copy)]
pub struct Outcome<'a> {
    /// What was asked.
    pub operation: &'a Operation,
    /// By whom.
    pub caller: Option<&'a Caller>,
    /// The status answered; `None` when the connection was cut.
    pub status: Option<u16>,
    /// The error code, answered or cut off.
    pub code: Option<&'a str>,
}

/// What a service is told about a call besides the request.
#[derive(Debug, Clone, Copy)]
pub struct Call<'a> {
    /// Time and switches.
    pub moment: Moment<'a>,
    /// The operation as [`Service::operation`] named it.
    pub operation: &'a str,
    /// Who calls; `None` only for anonymous operations.
    pub caller: Option<&'a Caller>,
    /// Region of the credential scope; empty for anonymous operations.
    pub region: &'a str,
    /// How fresh reads are: `Previous` under a `stale` fault.
    pub view: View,
    /// The id this answer carries.
    pub request_id: &'a str,
}

/// A control request to a service's own verb.
#[derive(Debug, Clone)]
pub struct Verb {
    /// HTTP method.
    pub method: Method,
    /// Path below `/_emu/<service>/`, in segments.
    pub path: Vec<String>,
    /// Body; `Null` when empty.
    pub body: Value,
}

/// A rule of the outside that a caller broke. The call went through: the oracle only tells.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Violation {
    /// When, on the emulator's clock.
    pub time: Timestamp,
    /// The rule, in one word.
    pub rule: &'static str,
    /// What was done to what, and by whom.
    pub detail: String,
}

/// Something of ours that outlived its object.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Leak {
    /// What it is, in one word.
    pub kind: &'static str,
    /// Which, and whose it was.
    pub detail: String,
}

/// Why a control request was not carried out.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ControlError {
    /// HTTP status.
    pub status: u16,
    /// What is wrong and what would be right.
    pub message: String,
}

impl ControlError {
    /// The request is not understood.
    pub fn invalid(message: impl Into<String>) -> Self {
        Self {
            status: 400,
            message: message.into(),
        }
    }

    /// There is no such thing to control.
    pub fn unknown(message: impl Into<String>) -> Self {
        Self {
            status: 404,
            message: message.into(),
        }
    }
}
