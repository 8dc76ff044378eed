//! The trait of an emulated service, and the context of its calls.

use http::Method;
use jiff::Timestamp;
use serde::Serialize;
use serde_json::{Map, Value};

use crate::accounts::Caller;
use crate::oracle::{Declared, Living};
use crate::protocol::{ApiError, Protocol};
use crate::shelf::View;
use crate::switches::{Switch, Switches};
use crate::wire::{Request, Response};

/// An emulated AWS service.
///
/// One request runs at a time over all services, so a service needs no locks, and the order of the
/// log is the order of effects. It owns its state: store what belongs to an account under
/// `call.caller.account`, and what is unique over all accounts beside it. Two services with shared
/// state get the same `Arc<Mutex<_>>`.
///
/// Use only [`Moment::now`] for time; compute the state of a long operation from its start time, not
/// with a timer.
pub trait Service: Send {
    /// The name in control requests and in the log.
    fn name(&self) -> &'static str;

    /// The name requests are signed for, where it differs from [`Service::name`].
    fn signing_name(&self) -> &'static str {
        self.name()
    }

    /// The format of its errors.
    fn protocol(&self) -> Protocol;

    /// The regions it has; `None` is any.
    fn regions(&self) -> Option<&'static [&'static str]> {
        None
    }

    /// The operation and the resource of `request`; `None` if it is not for this service. Must not
    /// depend on state: it also decides the protocol of an unsigned request.
    fn operation(&self, request: &Request) -> Option<Operation>;

    /// Whether `operation` may be unsigned.
    fn is_anonymous(&self, _operation: &str) -> bool {
        false
    }

    /// Whether `operation` changes anything. Names that begin like those of reads are reads.
    fn is_write(&self, operation: &str) -> bool {
        const READS: &[&str] = &["Get", "List", "Describe", "Scan", "Verify", "Assume"];
        !READS.iter().any(|read| operation.starts_with(read))
    }

    /// Whether `request` only asks if it would be allowed: then it is no write, whatever its
    /// operation, and [`Service::seen`] is not called.
    fn is_dry_run(&self, _request: &Request) -> bool {
        false
    }

    /// Whether credentials from AssumeRole may be used here; if not, the oracle reports them.
    fn is_for_roles(&self) -> bool {
        true
    }

    /// The resource, such as a zone, that `operation` uses exclusively until it is answered.
    fn exclusive(&self, _operation: &Operation) -> Option<String> {
        None
    }

    /// The answer to a request while another one uses its exclusive resource.
    fn overlapped(&mut self, _moment: &Moment<'_>, what: &str) -> ApiError {
        ApiError::new(409, "Conflict", &format!("Another request has {what}."))
    }

    /// Executes `request`. A rejected one changes nothing. Reads use `call.view`.
    fn call(&mut self, call: &Call<'_>, request: &Request) -> Result<Response, ApiError>;

    /// Is called with the outcome of each request, also if a fault prevented [`Service::call`].
    fn seen(&mut self, _moment: &Moment<'_>, _outcome: &Outcome<'_>) {}

    /// Its switches.
    fn switches(&self) -> &'static [Switch] {
        &[]
    }

    /// Direct edits: seeds, manual edits, forced states. `change` is the control request without its
    /// `service`. What it creates is foreign to the operator under test.
    fn mutate(&mut self, moment: &Moment<'_>, change: Value) -> Result<Value, ControlError>;

    /// The service's own control verbs, as `METHOD path` lines for error messages.
    fn verbs(&self) -> &'static [&'static str] {
        &[]
    }

    /// Runs a verb under `/_emu/<name>/`; `None` if there is no such verb.
    fn verb(&mut self, _moment: &Moment<'_>, _verb: &Verb) -> Option<Result<Value, ControlError>> {
        None
    }

    /// Its whole state, for tests.
    fn state(&self, moment: &Moment<'_>) -> Value;

    /// The violations that its oracle found since the last reset.
    fn violations(&self) -> Vec<Violation>;

    /// Its entries of the oracle's timeline.
    fn timeline(&mut self, _moment: &Moment<'_>) -> Vec<TimelineEntry> {
        Vec::new()
    }

    /// The resources with a marker of ours and without an object among the `living`.
    fn leaks(&self, _declared: &Declared, _living: &Living) -> Vec<Leak> {
        Vec::new()
    }

    /// Clears its state.
    fn reset(&mut self);
}

/// The operation of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Operation {
    /// Name as in AWS's reference.
    pub name: String,
    /// The resource as the caller named it (id, name or ARN); several are separated by commas.
    pub resource: Option<String>,
}

/// The current time, switches and declarations for a service.
#[derive(Debug, Clone, Copy)]
pub struct Moment<'a> {
    /// The emulator's time.
    pub now: Timestamp,
    /// This service's switches.
    pub switches: &'a Switches,
    /// What tests have declared to the oracle.
    pub declared: &'a Declared,
}

/// The outcome of a request.
#[derive(Debug, Clone, Copy)]
pub struct Outcome<'a> {
    /// The operation.
    pub operation: &'a Operation,
    /// The caller.
    pub caller: Option<&'a Caller>,
    /// The status of the answer; `None` if the connection was cut.
    pub status: Option<u16>,
    /// The error code, also of an answer that was cut off.
    pub code: Option<&'a str>,
}

/// The context of a call besides the request.
#[derive(Debug, Clone, Copy)]
pub struct Call<'a> {
    /// Time and switches.
    pub moment: Moment<'a>,
    /// The operation as [`Service::operation`] named it.
    pub operation: &'a str,
    /// The caller; `None` only for anonymous operations.
    pub caller: Option<&'a Caller>,
    /// Region of the credential scope; empty for anonymous operations.
    pub region: &'a str,
    /// Which version reads return: `Previous` under a `stale` fault.
    pub view: View,
    /// The request id of the answer.
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

/// A rule that a caller broke. The call was executed: the oracle only reports it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Violation {
    /// When, on the emulator's clock.
    pub time: Timestamp,
    /// The name of the rule.
    pub rule: &'static str,
    /// What was done to which resource, and by which caller.
    pub detail: String,
}

/// When something happened, for tests that compare durations.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TimelineEntry {
    /// When, on the emulator's clock.
    pub time: Timestamp,
    /// What happened.
    pub event: String,
    /// To which resource, and by which caller.
    #[serde(flatten)]
    pub about: Map<String, Value>,
}

/// A resource of ours whose object no longer exists.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Leak {
    /// The kind of the resource.
    pub kind: &'static str,
    /// The resource and its former owner.
    pub detail: String,
}

/// Why a control request failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ControlError {
    /// HTTP status.
    pub status: u16,
    /// What is wrong and what is valid.
    pub message: String,
}

impl ControlError {
    /// The request is not valid.
    pub fn invalid(message: impl Into<String>) -> Self {
        Self {
            status: 400,
            message: message.into(),
        }
    }

    /// The target of the request does not exist.
    pub fn unknown(message: impl Into<String>) -> Self {
        Self {
            status: 404,
            message: message.into(),
        }
    }
}
