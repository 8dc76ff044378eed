//! Control under `/_emu`: clock, switches, faults, direct edits, log, state, oracle, reset.
//!
//! | request | body or query | answer |
//! |---|---|---|
//! | `POST clock` | `{"advance": span}`, `{"factor": number}` or both | `{"now", "factor"}` |
//! | `GET clock` | | the same |
//! | `PUT switches` | `{"<service>": {"<switch>": value}}` | all switches |
//! | `GET switches` | | all switches |
//! | `POST faults` | a [`crate::faults::Rule`] | `{"id"}` |
//! | `GET faults` | | active rules |
//! | `DELETE faults` | `?id=`, or the parts that the rules have; without both, all | `{}` |
//! | `POST mutate` | `{"service", …}`, the rest is defined by the service | defined by the service |
//! | `GET log` | `?since=<seq>` | `{"entries", "last", "dropped"}` |
//! | `GET state` | | `{"<service>": …}` |
//! | `GET violations` | | `{"violations": [{"service", "rule", "detail", "time"}]}` |
//! | `PUT oracle` | what is ours or steady, see [`crate::oracle`] | all declarations |
//! | `GET oracle` | | the same, `violations` and `timeline` |
//! | `POST oracle` | what an observer saw, see [`crate::oracle`] | `{}` |
//! | `POST leaks` | a [`crate::oracle::Living`] | `{"leaks": [{"service", "kind", "detail"}]}` |
//! | `POST reset` | | `{}` |
//! | any `<service>/…` | the service's own verbs | defined by the service |
//!
//! A span is a number of seconds or text such as `"250ms"`. Invalid requests are answered 400, 404
//! or 405 with `{"error"}`, which says what is valid.

use std::time::Duration;

use http::Method;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use crate::faults::Rule;
use crate::oracle::Living;
use crate::router::{Mounted, World};
use crate::service::{ControlError, Leak, Moment, Verb};
use crate::span;
use crate::switches::Switches;

/// Names that a service cannot have.
pub(crate) const RESERVED: &[&str] = &[
    "clock",
    "switches",
    "faults",
    "mutate",
    "log",
    "state",
    "violations",
    "oracle",
    "leaks",
    "reset",
];

/// A parsed control request.
pub(crate) struct Control {
    pub(crate) method: Method,
    /// Path below `/_emu/`, in segments.
    pub(crate) path: Vec<String>,
    pub(crate) query: Vec<(String, String)>,
    /// `Null` when there is none.
    pub(crate) body: Value,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ClockChange {
    #[serde(default, deserialize_with = "span::deserialize_some")]
    advance: Option<Duration>,
    factor: Option<f64>,
}

type Answer = Result<Value, ControlError>;

impl World {
    /// Carries out a control request.
    pub(crate) fn control(&mut self, control: Control) -> Answer {
        let path: Vec<_> = control.path.iter().map(String::as_str).collect();
        let (first, rest) = path.split_first().ok_or_else(|| self.unknown_path(""))?;
        if !RESERVED.contains(first) {
            let at = self
                .service_named(first)
                .ok_or_else(|| self.unknown_path(first))?;
            return self.verb(at, control);
        }
        if !rest.is_empty() {
            return Err(ControlError::unknown(format!(
                "nothing is below /_emu/{first}"
            )));
        }
        match (*first, control.method.as_str()) {
            ("clock", "GET") => Ok(self.shown_clock()),
            ("clock", "POST") => self.change_clock(control.body),
            ("switches", "GET") => Ok(self.shown_switches()),
            ("switches", "PUT") => self.switch(control.body),
            ("faults", "GET") => Ok(json!({ "faults": self.faults.shown() })),
            ("faults", "POST") => self.add_fault(control.body),
            ("faults", "DELETE") => self.delete_faults(&control),
            ("mutate", "POST") => self.mutate(control.body),
            ("log", "GET") => Ok(self
                .log
                .since(number(&control, "since")?.unwrap_or_default())),
            ("state", "GET") => Ok(self.state()),
            ("violations", "GET") => Ok(self.violations()),
            ("oracle", "GET") => Ok(self.shown_oracle()),
            ("oracle", "POST") => {
                let now = self.now();
                self.oracle.add(read("oracle", control.body)?, now);
                Ok(json!({}))
            }
            ("oracle", "PUT") => {
                self.oracle.declare(read("oracle", control.body)?);
                Ok(json!(self.oracle.declared))
            }
            ("leaks", "POST") => self.leaks(control.body),
            ("reset", "POST") => Ok(self.reset()),
            (first, method) => Err(ControlError {
                status: 405,
                message: format!("/_emu/{first} does not take {method}"),
            }),
        }
    }

    fn change_clock(&mut self, body: Value) -> Answer {
        let change: ClockChange = read("clock", body)?;
        if change.advance.is_none() && change.factor.is_none() {
            return Err(ControlError::invalid(
                "clock: give advance (a span), factor (a number) or both",
            ));
        }
        if let Some(factor) = change.factor {
            self.clock.run(factor).map_err(ControlError::invalid)?;
        }
        if let Some(by) = change.advance {
            self.clock.advance(by).map_err(ControlError::invalid)?;
        }
        Ok(self.shown_clock())
    }

    fn shown_clock(&self) -> Value {
        json!({ "now": self.now(), "factor": self.clock.factor() })
    }

    /// Sets all switches or none: each service's switches are set on a copy first.
    fn switch(&mut self, body: Value) -> Answer {
        let wanted: Map<String, Value> = read("switches", body)?;
        let mut turned = Vec::new();
        for (service, settings) in wanted {
            let at = self
                .service_named(&service)
                .ok_or_else(|| self.unknown_service(&service))?;
            let settings: Map<String, Value> = read(&format!("switches of {service}"), settings)?;
            let mut switches = self.services[at].switches.clone();
            switches
                .set(&service, &settings)
                .map_err(ControlError::invalid)?;
            turned.push((at, switches));
        }
        for (at, switches) in turned {
            self.services[at].switches = switches;
        }
        self.oracle.disturb();
        Ok(self.shown_switches())
    }

    fn shown_switches(&self) -> Value {
        let shown = self
            .services
            .iter()
            .map(|one| (one.service.name().to_owned(), one.switches.shown()));
        Value::Object(shown.collect())
    }

    fn add_fault(&mut self, body: Value) -> Answer {
        let rule: Rule = read("faults", body)?;
        if let Some(service) = &rule.service
            && self.service_named(service).is_none()
        {
            return Err(self.unknown_service(service));
        }
        let id = self
            .faults
            .add(rule)
            .map_err(|wrong| ControlError::invalid(format!("faults: {wrong}")))?;
        self.oracle.disturb();
        Ok(json!({ "id": id }))
    }

    fn delete_faults(&mut self, control: &Control) -> Answer {
        self.oracle.disturb();
        match number(control, "id")? {
            None if control.body.is_null() => self.faults.clear(),
            None => {
                let pattern = read("faults", control.body.clone())?;
                self.faults.delete_like(&pattern);
            }
            Some(id) if self.faults.delete(id) => {}
            Some(id) => {
                return Err(ControlError::unknown(format!(
                    "no fault rule {id} is in force; it may be used up"
                )));
            }
        }
        Ok(json!({}))
    }

    fn mutate(&mut self, body: Value) -> Answer {
        let mut change: Map<String, Value> = read("mutate", body)?;
        let Some(Value::String(service)) = change.remove("service") else {
            return Err(ControlError::invalid(format!(
                "mutate: name the service; {}",
                self.service_names()
            )));
        };
        let at = self
            .service_named(&service)
            .ok_or_else(|| self.unknown_service(&service))?;
        let now = self.now();
        self.oracle.disturb();
        let Mounted { service, switches } = &mut self.services[at];
        let moment = Moment {
            now,
            switches,
            declared: &self.oracle.declared,
        };
        service.mutate(&moment, Value::Object(change))
    }

    fn verb(&mut self, at: usize, control: Control) -> Answer {
        let now = self.now();
        if control.method != Method::GET {
            self.oracle.disturb();
        }
        let Mounted { service, switches } = &mut self.services[at];
        let Control {
            method, path, body, ..
        } = control;
        let verb = Verb {
            method,
            path: path.into_iter().skip(1).collect(),
            body,
        };
        let moment = Moment {
            now,
            switches,
            declared: &self.oracle.declared,
        };
        service.verb(&moment, &verb).unwrap_or_else(|| {
            let name = service.name();
            let verbs = if service.verbs().is_empty() {
                "none".to_owned()
            } else {
                service.verbs().join(", ")
            };
            let requested = format!("{} {}", verb.method, verb.path.join("/"));
            Err(ControlError::unknown(format!(
                "{name} has no verb {requested:?} under /_emu/{name}/; it has: {verbs}"
            )))
        })
    }

    fn state(&self) -> Value {
        let now = self.now();
        let states = self.services.iter().map(|Mounted { service, switches }| {
            let moment = Moment {
                now,
                switches,
                declared: &self.oracle.declared,
            };
            (service.name().to_owned(), service.state(&moment))
        });
        Value::Object(states.collect())
    }

    fn violations(&self) -> Value {
        let own = self.services.iter().flat_map(|one| {
            let name = one.service.name();
            let seen = one.service.violations().into_iter();
            seen.map(move |seen| (name, seen))
        });
        let shared = self.oracle.violations().iter().cloned();
        let mut all: Vec<_> = own.chain(shared).collect();
        all.sort_by_key(|(_, seen)| seen.time);
        let shown = all.iter().map(|(name, seen)| {
            json!({ "service": name, "rule": seen.rule, "detail": seen.detail, "time": seen.time })
        });
        let reported = self.oracle.reported.iter().map(|(time, seen)| {
            json!({ "service": "observer", "rule": seen.rule, "detail": seen.detail, "time": time })
        });
        json!({ "violations": shown.chain(reported).collect::<Vec<_>>() })
    }

    /// The declarations, the violations and when things happened, over all services.
    fn shown_oracle(&mut self) -> Value {
        let now = self.now();
        let mut timeline = self.oracle.timeline.clone();
        for Mounted { service, switches } in &mut self.services {
            let moment = Moment {
                now,
                switches,
                declared: &self.oracle.declared,
            };
            timeline.extend(service.timeline(&moment));
        }
        timeline.sort_by_key(|entry| entry.time);
        let mut shown = json!(self.oracle.declared);
        shown["violations"] = self.violations()["violations"].take();
        shown["timeline"] = json!(timeline);
        shown
    }

    fn leaks(&self, body: Value) -> Answer {
        let living: Living = read("leaks", body)?;
        let all = self.services.iter().flat_map(|one| {
            let name = one.service.name();
            let leaks = one
                .service
                .leaks(&self.oracle.declared, &living)
                .into_iter();
            leaks.map(move |Leak { kind, detail }| {
                json!({ "service": name, "kind": kind, "detail": detail })
            })
        });
        Ok(json!({ "leaks": all.collect::<Vec<_>>() }))
    }

    fn reset(&mut self) -> Value {
        for one in &mut self.services {
            one.service.reset();
            one.switches = Switches::new(one.service.switches());
        }
        self.faults.clear();
        self.limits.reset();
        self.oracle.reset();
        self.log.reset();
        self.clock.reset();
        json!({})
    }

    fn service_named(&self, name: &str) -> Option<usize> {
        self.services
            .iter()
            .position(|one| one.service.name() == name)
    }

    fn service_names(&self) -> String {
        let names: Vec<_> = self.services.iter().map(|one| one.service.name()).collect();
        format!("services: {}", names.join(", "))
    }

    fn unknown_service(&self, name: &str) -> ControlError {
        ControlError::invalid(format!(
            "there is no service {name:?}; {}",
            self.service_names()
        ))
    }

    fn unknown_path(&self, first: &str) -> ControlError {
        let reserved = RESERVED.join(", ");
        ControlError::unknown(format!(
            "/_emu/{first} is unknown; control: {reserved}; {}",
            self.service_names()
        ))
    }
}

/// Parses a body; serde's message names the allowed fields.
pub(crate) fn read<T: DeserializeOwned>(what: &str, body: Value) -> Result<T, ControlError> {
    let body = if body.is_null() { json!({}) } else { body };
    serde_json::from_value(body).map_err(|wrong| ControlError::invalid(format!("{what}: {wrong}")))
}

fn number(control: &Control, name: &str) -> Result<Option<u64>, ControlError> {
    if let Some((other, _)) = control.query.iter().find(|(key, _)| key != name) {
        return Err(ControlError::invalid(format!(
            "query {other:?} is unknown; allowed: {name}"
        )));
    }
    let Some((_, value)) = control.query.first() else {
        return Ok(None);
    };
    let read = value
        .parse()
        .map_err(|_| ControlError::invalid(format!("{name}={value} is no whole number")));
    read.map(Some)
}
