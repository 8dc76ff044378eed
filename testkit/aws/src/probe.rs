//! `probe`: the smallest service, for tests of the emulator and of the feature `probe`.
//!
//! It stores named things per account. JSON 1.1: `POST /` with
//! `Content-Type: application/x-amz-json-1.1`, signed for service `probe`, any region.
//!
//! | `X-Amz-Target` | body | answer |
//! |---|---|---|
//! | `Probe.Put` | `{"name", "value", "token"?, "marker"?}` | the thing |
//! | `Probe.Get` | `{"name"}` | the thing |
//! | `Probe.Delete` | `{"name", "marker"?}` | `{}` |
//! | `Probe.List` | `{"marker"?}` | `{"things": [the thing, …]}`, by name |
//!
//! The thing: `{"name", "value", "token", "marker", "version"}`; the version counts its changes
//! from 1. `Put` creates or replaces. With a `token` it is executed once per account: the same token
//! and body again return the same answer and change nothing (also after a deletion); another body is
//! `IdempotentParameterMismatch` 400. Get and Delete of a missing thing:
//! `ResourceNotFoundException` 400.
//! Unknown or missing fields: `SerializationException` 400.
//!
//! The `marker` names the owner of a thing. The oracle reports
//! - `twoWithOneMarker`: a second thing of the same marker, over all accounts;
//! - `foreignChanged`, `foreignDeleted`: a change or deletion whose marker is not the thing's
//!   (a thing without a marker has no owner, so only a call without one may change it).
//!
//! Switch `readLag` (a span): Get and List return the state of that long ago. `mutate` edits without
//! the oracle: `{"service": "probe", "account"?, "put": {"name", "value", "marker"?}}` or
//! `"delete": "<name>"`. Verb: `GET /_emu/probe/things/<account>` lists the current things.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use http::Method;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::accounts::DEFAULT_ACCOUNT;
use crate::control::read;
use crate::protocol::{ApiError, Protocol};
use crate::service::{Call, ControlError, Moment, Operation, Service, Verb, Violation};
use crate::shelf::{Shelf, View};
use crate::switches::{Accepts, Switch};
use crate::wire::{Request, Response};

const SWITCHES: &[Switch] = &[Switch {
    name: "readLag",
    accepts: Accepts::Span(Duration::ZERO),
}];

/// The service; the module's documentation describes its wire format.
#[derive(Debug, Default)]
pub struct Probe {
    shelves: BTreeMap<String, Shelf<Thing>>,
    /// By account and token: the request and its answer.
    tokens: HashMap<(String, String), (Put, Thing)>,
    violations: Vec<Violation>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
struct Thing {
    name: String,
    value: Value,
    token: Option<String>,
    marker: Option<String>,
    version: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Put {
    name: String,
    value: Value,
    token: Option<String>,
    marker: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Get {
    name: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Delete {
    name: String,
    marker: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct List {
    marker: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ProbeChange {
    account: Option<String>,
    put: Option<Put>,
    delete: Option<String>,
}

impl Probe {
    /// An empty probe.
    pub fn new() -> Self {
        Self::default()
    }

    fn put(&mut self, account: &str, put: Put, now: Timestamp) -> Result<Thing, ApiError> {
        let seen = put.token.clone().map(|token| (account.to_owned(), token));
        if let Some((earlier, answered)) = seen.as_ref().and_then(|key| self.tokens.get(key)) {
            if *earlier == put {
                return Ok(answered.clone());
            }
            let message = "The token was used before with other parameters.";
            return Err(ApiError::new(400, "IdempotentParameterMismatch", message));
        }
        self.judge_put(account, &put, now);
        let thing = self.store(account, put.clone(), now);
        if let Some(key) = seen {
            self.tokens.insert(key, (put, thing.clone()));
        }
        Ok(thing)
    }

    fn store(&mut self, account: &str, put: Put, now: Timestamp) -> Thing {
        let things = self.shelves.entry(account.to_owned()).or_default();
        let version = things
            .get(&put.name, View::Live)
            .map_or(1, |thing| thing.version + 1);
        let Put {
            name,
            value,
            token,
            marker,
        } = put;
        let thing = Thing {
            name,
            value,
            token,
            marker,
            version,
        };
        things.put(&thing.name, Some(thing.clone()), now);
        thing
    }

    fn judge_put(&mut self, account: &str, put: &Put, now: Timestamp) {
        if let Some(there) = self.live(account, &put.name)
            && there.marker != put.marker
        {
            let detail = foreign("changed", account, there, put.marker.as_deref());
            self.violations.push(Violation {
                time: now,
                rule: "foreignChanged",
                detail,
            });
        }
        let Some(marker) = &put.marker else { return };
        let everywhere = self.shelves.iter().flat_map(|(owner, shelf)| {
            shelf
                .list(View::Live)
                .map(move |(name, thing)| (owner.as_str(), name, thing))
        });
        let twin = everywhere
            .filter(|(owner, name, _)| (*owner, *name) != (account, put.name.as_str()))
            .find(|(_, _, thing)| thing.marker.as_ref() == Some(marker));
        if let Some((owner, name, _)) = twin {
            let detail = format!(
                "{account}/{} and {owner}/{name} both carry marker {marker:?}",
                put.name
            );
            self.violations.push(Violation {
                time: now,
                rule: "twoWithOneMarker",
                detail,
            });
        }
    }

    fn delete(
        &mut self,
        account: &str,
        delete: &Delete,
        now: Timestamp,
    ) -> Result<Value, ApiError> {
        let there = self
            .live(account, &delete.name)
            .ok_or_else(|| not_found(&delete.name))?;
        if there.marker != delete.marker {
            let detail = foreign("deleted", account, there, delete.marker.as_deref());
            self.violations.push(Violation {
                time: now,
                rule: "foreignDeleted",
                detail,
            });
        }
        self.shelves
            .entry(account.to_owned())
            .or_default()
            .put(&delete.name, None, now);
        Ok(json!({}))
    }

    fn live(&self, account: &str, name: &str) -> Option<&Thing> {
        self.shelves.get(account)?.get(name, View::Live)
    }

    fn list(&self, account: &str, view: View) -> Vec<&Thing> {
        self.shelves
            .get(account)
            .into_iter()
            .flat_map(|shelf| shelf.list(view))
            .map(|(_, thing)| thing)
            .collect()
    }
}

impl Service for Probe {
    fn name(&self) -> &'static str {
        "probe"
    }

    fn protocol(&self) -> Protocol {
        Protocol::Json11
    }

    fn operation(&self, request: &Request) -> Option<Operation> {
        let name = request
            .target("Probe")
            .filter(|name| ["Put", "Get", "Delete", "List"].contains(name))?;
        let body: Value = request.json().unwrap_or_default();
        let resource = body["name"].as_str().map(str::to_owned);
        Some(Operation {
            name: name.to_owned(),
            resource,
        })
    }

    fn call(&mut self, call: &Call<'_>, request: &Request) -> Result<Response, ApiError> {
        let account = call
            .caller
            .map_or(DEFAULT_ACCOUNT, |caller| caller.account.as_str());
        let Moment { now, switches, .. } = call.moment;
        let view = call.view.lagged(now, switches.span("readLag"));
        let answer = match call.operation {
            "Put" => json!(self.put(account, request.json()?, now)?),
            "Delete" => self.delete(account, &request.json()?, now)?,
            "Get" => {
                let Get { name } = request.json()?;
                let thing = self
                    .shelves
                    .get(account)
                    .and_then(|shelf| shelf.get(&name, view));
                json!(thing.ok_or_else(|| not_found(&name))?)
            }
            _ => {
                let List { marker } = request.json()?;
                let mut things = self.list(account, view);
                things.retain(|thing| marker.is_none() || thing.marker == marker);
                json!({ "things": things })
            }
        };
        Ok(Response::json(200, "application/x-amz-json-1.1", &answer))
    }

    fn switches(&self) -> &'static [Switch] {
        SWITCHES
    }

    fn mutate(&mut self, moment: &Moment<'_>, change: Value) -> Result<Value, ControlError> {
        let ProbeChange {
            account,
            put,
            delete,
        } = read("mutate probe", change)?;
        let account = account.as_deref().unwrap_or(DEFAULT_ACCOUNT);
        match (put, delete) {
            (Some(put), None) => Ok(json!(self.store(account, put, moment.now))),
            (None, Some(name)) if self.live(account, &name).is_some() => {
                self.shelves
                    .entry(account.to_owned())
                    .or_default()
                    .put(&name, None, moment.now);
                Ok(json!({}))
            }
            (None, Some(name)) => Err(ControlError::unknown(format!(
                "account {account} has no thing {name:?}"
            ))),
            (Some(_), Some(_)) | (None, None) => Err(ControlError::invalid(
                "mutate probe: give either put (a thing) or delete (a name)",
            )),
        }
    }

    fn verbs(&self) -> &'static [&'static str] {
        &["GET things/<account>"]
    }

    fn verb(&mut self, _moment: &Moment<'_>, verb: &Verb) -> Option<Result<Value, ControlError>> {
        match (&verb.method, verb.path.as_slice()) {
            (&Method::GET, [first, account]) if first == "things" => {
                Some(Ok(json!({ "things": self.list(account, View::Live) })))
            }
            _ => None,
        }
    }

    fn state(&self, _moment: &Moment<'_>) -> Value {
        let accounts = self
            .shelves
            .keys()
            .map(|account| (account.clone(), json!(self.list(account, View::Live))));
        Value::Object(accounts.collect())
    }

    fn violations(&self) -> Vec<Violation> {
        self.violations.clone()
    }

    fn reset(&mut self) {
        *self = Self::default();
    }
}

fn foreign(deed: &str, account: &str, thing: &Thing, by: Option<&str>) -> String {
    let owner = thing.marker.as_deref().unwrap_or("nobody");
    format!(
        "{account}/{} of {owner:?} was {deed} by {:?}",
        thing.name,
        by.unwrap_or("nobody")
    )
}

fn not_found(name: &str) -> ApiError {
    ApiError::new(
        400,
        "ResourceNotFoundException",
        &format!("There is no thing named {name}."),
    )
}
