//! Route 53, version 2013-04-01 (REST-XML, us-east-1).
//!
//! ChangeResourceRecordSets, ListResourceRecordSets, GetChange, ListHostedZones, GetHostedZone.
//! Record sets are plain, aliases, or weighted; other routing policies are refused. A batch has its
//! zone to itself from its arrival to its answer; under a `delay` fault others get
//! `PriorRequestNotComplete`. A zone of another account is `AccessDenied`.
//!
//! Switches: `insyncDelay` (a change is PENDING that long; 0: it is answered INSYNC), `readLag`, `pageSize`.
//!
//! `mutate`, each form alone:
//! - `{"service": "route53", "zone": {"id", "name", "account"?, "private"?}}`
//! - `"deleteZone": "<id>"`
//! - `"records": {"zone", "put"?: [{"name", "type", "ttl"?, "values" | "alias", "set"?,
//!   "weight"?}], "delete"?: [{"name", "type", "set"?}]}`: console edits, known at once;
//! - `"settle": true`: every change is INSYNC now;
//! - `"forgetChanges": true`: every change id is NoSuchChange.
//!
//! Verb: `GET /_emu/route53/records/<zone>`.
//!
//! The oracle tells on
//! - `foreignChanged`, `foreignDeleted`: an UPSERT or DELETE of a record that is there without an
//!   ownership TXT of ours beside it (or being one), unless its name was declared `owned`;
//! - `foreignClaimed`: an ownership TXT beside a record that control put there and nobody declared;
//! - `batchesAtOnce`: a batch for a zone whose last one was not answered yet.
//!
//! Leaks: an `ownerRecord` or `record` whose object does not live, and a `record` written by a call
//! with no ownership TXT.

mod batch;
mod control;
mod judge;
mod list;
mod name;
mod record;
#[cfg(test)]
pub(crate) mod tests;
mod zones;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use http::Method;
use jiff::Timestamp;
use parking_lot::Mutex;
use serde::Serialize;
use serde_json::{Value, json};

pub use record::{Data, RecordSet};
pub use zones::{Pointing, Zone, Zones};

use crate::accounts::Caller;
use crate::oracle::{Declared, Living};
use crate::protocol::{ApiError, Protocol};
use crate::service::{Call, ControlError, Leak, Moment, Operation, Service, Verb, Violation};
use crate::shelf::View;
use crate::switches::{Accepts, Switch};
use crate::wire::{Request, Response};
use crate::xml::Element;
use crate::xml::read;

const NAMESPACE: &str = "https://route53.amazonaws.com/doc/2013-04-01/";
const VERSION: &str = "2013-04-01";
const SWITCHES: &[Switch] = &[
    Switch {
        name: "insyncDelay",
        accepts: Accepts::Span(Duration::from_secs(5)),
    },
    Switch {
        name: "readLag",
        accepts: Accepts::Span(Duration::ZERO),
    },
    Switch {
        name: "pageSize",
        accepts: Accepts::Count(300),
    },
];

/// The emulated Route 53.
#[derive(Debug)]
pub struct Route53 {
    zones: Arc<Mutex<Zones>>,
    changes: BTreeMap<String, Submitted>,
    made: u64,
    violations: Vec<Violation>,
}

/// A batch that was accepted.
#[derive(Debug, Clone, Serialize)]
struct Submitted {
    account: String,
    zone: String,
    comment: Option<String>,
    since: Timestamp,
    settles: Timestamp,
}

impl Route53 {
    /// A Route 53 over zones that others see too.
    pub fn new(zones: Arc<Mutex<Zones>>) -> Self {
        Self {
            zones,
            changes: BTreeMap::new(),
            made: 0,
            violations: Vec::new(),
        }
    }

    fn change_records(&mut self, call: &Call<'_>, request: &Request) -> Result<Element, ApiError> {
        let Moment {
            now,
            switches,
            declared,
        } = call.moment;
        let id = zone_id(request);
        let (comment, changes) = read::document(
            &request.body,
            "ChangeResourceRecordSetsRequest",
            NAMESPACE,
            batch::read,
        )
        .map_err(as_input)?;
        let account = account(call)?;
        let mut zones = self.zones.lock();
        own_zone(&zones, &id, call)?;
        let zone = zones.get_mut(&id).ok_or_else(|| no_zone(&id))?;
        let edits = batch::edits(zone, &changes)?;
        for (rule, told) in judge::foreign(zone, &changes, declared) {
            let detail = format!("{account} touched {told} in zone {id}");
            let time = now;
            self.violations.push(Violation { time, rule, detail });
        }
        let delay = switches.span("insyncDelay");
        for (key, edit) in edits {
            match edit {
                Some(record) => zone.put(record, now, delay),
                None => zone.records.put(&key, None, now),
            }
        }
        self.made += 1;
        let change = format!("C{:013}", self.made);
        let submitted = Submitted {
            account: account.to_owned(),
            zone: id,
            comment,
            since: now,
            settles: now.saturating_add(delay).unwrap_or(Timestamp::MAX),
        };
        let told = told(&change, &submitted, submitted.settles <= now);
        self.changes.insert(change, submitted);
        Ok(Element::new("ChangeResourceRecordSetsResponse").child(told))
    }

    fn change_info(&self, call: &Call<'_>, id: &str, view: View) -> Result<Element, ApiError> {
        let account = account(call)?;
        let at = match view {
            View::Live => call.moment.now,
            View::Previous => Timestamp::MIN,
            View::AsOf(then) => then,
        };
        let change = self
            .changes
            .get(id)
            .filter(|change| change.account == account)
            .filter(|change| view == View::Previous || change.since <= at)
            .ok_or_else(|| {
                let told = format!("Could not find resource with ID: {id}");
                ApiError::new(404, "NoSuchChange", &told)
            })?;
        let told = told(id, change, change.settles <= at);
        Ok(Element::new("GetChangeResponse").child(told))
    }
}

fn told(id: &str, change: &Submitted, settled: bool) -> Element {
    let status = if settled { "INSYNC" } else { "PENDING" };
    Element::new("ChangeInfo")
        .leaf("Id", &format!("/change/{id}"))
        .leaf("Status", status)
        .leaf("SubmittedAt", &change.since.to_string())
        .leaf_if("Comment", change.comment.as_deref())
}

/// The caller's own zone of this id.
fn own_zone<'a>(zones: &'a Zones, id: &str, call: &Call<'_>) -> Result<&'a Zone, ApiError> {
    let zone = zones.get(id).ok_or_else(|| no_zone(id))?;
    let caller = call.caller.filter(|caller| caller.account == zone.account);
    caller.map(|_| zone).ok_or_else(|| {
        let arn = call.caller.map_or("anonymous", |caller| &caller.arn);
        let told = format!(
            "User: {arn} is not authorized to perform: route53:{} on resource: arn:aws:route53:::hostedzone/{id}",
            call.operation
        );
        ApiError::new(403, "AccessDenied", &told)
    })
}

fn no_zone(id: &str) -> ApiError {
    ApiError::new(
        404,
        "NoSuchHostedZone",
        &format!("No hosted zone found with ID: {id}"),
    )
}

fn account<'a>(call: &Call<'a>) -> Result<&'a str, ApiError> {
    let account = |caller: &'a Caller| caller.account.as_str();
    let missing = ApiError::new(403, "MissingAuthenticationToken", "Sign the request.");
    call.caller.map(account).ok_or(missing)
}

/// The reader's words are CloudFront's; Route 53 has another code for them.
fn as_input(mut error: ApiError) -> ApiError {
    if error.code == "InvalidArgument" {
        "InvalidInput".clone_into(&mut error.code);
    }
    error
}

fn zone_id(request: &Request) -> String {
    let id = request.segments().get(2).cloned().unwrap_or_default();
    bare(&id, "hostedzone").to_owned()
}

fn bare<'a>(id: &'a str, kind: &str) -> &'a str {
    id.trim_start_matches('/')
        .strip_prefix(kind)
        .and_then(|rest| rest.strip_prefix('/'))
        .unwrap_or(id)
}

impl Service for Route53 {
    fn name(&self) -> &'static str {
        "route53"
    }

    fn protocol(&self) -> Protocol {
        Protocol::RestXml {
            namespace: NAMESPACE,
        }
    }

    fn regions(&self) -> Option<&'static [&'static str]> {
        Some(&["us-east-1"])
    }

    fn operation(&self, request: &Request) -> Option<Operation> {
        let segments = request.segments();
        let segments: Vec<_> = segments.iter().map(String::as_str).collect();
        let [VERSION, rest @ ..] = segments.as_slice() else {
            return None;
        };
        let (name, resource) = match (&request.method, rest) {
            (&Method::GET, ["hostedzone"]) => ("ListHostedZones", None),
            (&Method::GET, ["hostedzone", id]) => ("GetHostedZone", Some(bare(id, "hostedzone"))),
            (&Method::GET, ["hostedzone", id, "rrset"]) => {
                ("ListResourceRecordSets", Some(bare(id, "hostedzone")))
            }
            (&Method::POST, ["hostedzone", id, "rrset"]) => {
                ("ChangeResourceRecordSets", Some(bare(id, "hostedzone")))
            }
            (&Method::GET, ["change", id]) => ("GetChange", Some(bare(id, "change"))),
            _ => return None,
        };
        Some(Operation {
            name: name.to_owned(),
            resource: resource.map(str::to_owned),
        })
    }

    fn exclusive(&self, operation: &Operation) -> Option<String> {
        let changes = operation.name == "ChangeResourceRecordSets";
        operation.resource.clone().filter(|_| changes)
    }

    fn overlapped(&mut self, moment: &Moment<'_>, zone: &str) -> ApiError {
        self.violations.push(Violation {
            time: moment.now,
            rule: "batchesAtOnce",
            detail: format!("zone {zone} got a batch before the last one was answered"),
        });
        let told =
            "The request was rejected because Route 53 was still processing a prior request.";
        ApiError::new(400, "PriorRequestNotComplete", told)
    }

    fn call(&mut self, call: &Call<'_>, request: &Request) -> Result<Response, ApiError> {
        let Moment { now, switches, .. } = call.moment;
        let view = call.view.lagged(now, switches.span("readLag"));
        let page = usize::try_from(switches.count("pageSize")).unwrap_or(usize::MAX);
        let answer = match call.operation {
            "ChangeResourceRecordSets" => self.change_records(call, request)?,
            "GetChange" => {
                let id = request.segments().pop().unwrap_or_default();
                self.change_info(call, bare(&id, "change"), view)?
            }
            "ListHostedZones" => list::zones(&self.zones.lock(), account(call)?, request, page)?,
            "GetHostedZone" => {
                let zones = self.zones.lock();
                list::zone(own_zone(&zones, &zone_id(request), call)?)
            }
            _ => {
                let zones = self.zones.lock();
                let zone = own_zone(&zones, &zone_id(request), call)?;
                list::records(zone, request, view, page)?
            }
        };
        Ok(Response::xml(200, answer.xmlns(NAMESPACE).document()))
    }

    fn switches(&self) -> &'static [Switch] {
        SWITCHES
    }

    fn mutate(&mut self, moment: &Moment<'_>, change: Value) -> Result<Value, ControlError> {
        self.change(moment, change)
    }

    fn verbs(&self) -> &'static [&'static str] {
        &["GET records/<zone>"]
    }

    fn verb(&mut self, _moment: &Moment<'_>, verb: &Verb) -> Option<Result<Value, ControlError>> {
        match (&verb.method, verb.path.as_slice()) {
            (&Method::GET, [word, id]) if word == "records" => {
                let zones = self.zones.lock();
                let unknown = || ControlError::unknown(format!("there is no zone {id:?}"));
                Some(zones.get(id).map(shown).ok_or_else(unknown))
            }
            _ => None,
        }
    }

    fn state(&self, _moment: &Moment<'_>) -> Value {
        let zones = self.zones.lock();
        let held = zones.all().map(|zone| {
            let mut held = json!(zone);
            held["records"] = shown(zone)["records"].take();
            held
        });
        json!({ "zones": held.collect::<Vec<_>>(), "changes": self.changes })
    }

    fn violations(&self) -> Vec<Violation> {
        self.violations.clone()
    }

    fn leaks(&self, declared: &Declared, living: &Living) -> Vec<Leak> {
        let zones = self.zones.lock();
        let leaks = zones
            .all()
            .flat_map(|zone| judge::leaks(zone, declared, living));
        leaks.collect()
    }

    fn reset(&mut self) {
        *self.zones.lock() = Zones::default();
        self.changes.clear();
        self.violations.clear();
    }
}

fn shown(zone: &Zone) -> Value {
    let records: Vec<_> = zone.records.list(View::Live).map(|(_, one)| one).collect();
    json!({ "records": records })
}
