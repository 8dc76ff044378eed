//! The shared part of the oracle: what tests declare, and the rules for every service.
//!
//! `PUT /_emu/oracle` declares, each part optional; omitted parts stay:
//! - `steady`: from now on any write is a violation, `writeWhileSteady`;
//! - `clusters`: the cluster ids whose markers are ours; none means all of them;
//! - `owned`: names that are ours without a marker (an id in an object's status, a requested
//!   adoption); `*` stands for any characters;
//! - `operators`: the callers that are the operator under test, by access key, account, ARN or role;
//!   none means every caller. The rules below and those of a service about what an operator may do
//!   concern only them.
//!
//! Every declaration also clears the requests that the oracle remembers, so a test that restarts its
//! operator declares again, if only `{}`.
//!
//! For every service it reports
//! - `writeWhileSteady`: a write, refused or not, while `steady` is declared;
//! - `roleElsewhere`: credentials of AssumeRole at a service that does not expect them;
//! - `resentUnchanged`: a write with a permanent refusal, sent again unchanged within four minutes
//!   while no write succeeded, or an update sent twice in a row. After a fault, a switch or a direct
//!   edit, earlier requests do not count.
//!
//! `GET /_emu/oracle` shows the declarations, all violations and the timeline. `POST /_emu/oracle` adds
//! what only an observer outside of the emulator sees: `{"violations"?: [{"rule", "detail"}],
//! "timeline"?: [{"event", …}]}`.
//!
//! `POST /_emu/leaks` takes the [`Living`] and returns the resources without an object.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::accounts::Caller;
use crate::faults::glob;
use crate::service::{TimelineEntry, Violation};

/// The shortest time after which a refused request may be repeated: five minutes less a fifth.
const SOON: SignedDuration = SignedDuration::from_mins(4);
/// Refusals after which the same request is valid at once or after a read.
const PASSING: &[&str] = &[
    "Throttling",
    "ThrottlingException",
    "TooManyRequestsException",
    "RequestLimitExceeded",
    "PriorRequestNotComplete",
    "PreconditionFailed",
    "InvalidIfMatchVersion",
    "ResourceNotDisabled",
];

/// What tests have declared to the oracle.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Declared {
    /// Whether every write is a violation.
    pub steady: bool,
    /// Cluster ids whose markers are ours; empty means all.
    pub clusters: Vec<String>,
    /// What is ours without a marker.
    pub owned: Vec<String>,
    /// The callers that are the operator; empty means all.
    pub operators: Vec<String>,
}

/// A declaration: the parts that change.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Declaring {
    steady: Option<bool>,
    clusters: Option<Vec<String>>,
    owned: Option<Vec<String>>,
    operators: Option<Vec<String>>,
}

/// What an observer outside of the emulator saw.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Report {
    violations: Vec<ReportedViolation>,
    timeline: Vec<ReportedEvent>,
}

/// A rule that was broken outside of the emulator.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ReportedViolation {
    pub(crate) rule: String,
    pub(crate) detail: String,
}

#[derive(Debug, Deserialize)]
struct ReportedEvent {
    event: String,
    #[serde(flatten)]
    about: Map<String, Value>,
}

impl Declared {
    /// Whether the caller is the operator under test.
    pub fn is_operator(&self, caller: Option<&Caller>) -> bool {
        let is = |named: &String| caller.is_some_and(|caller| caller.is(named));
        self.operators.is_empty() || self.operators.iter().any(is)
    }

    /// Whether a marker of this cluster is ours.
    pub fn is_ours(&self, cluster: &str) -> bool {
        self.clusters.is_empty() || self.clusters.iter().any(|own| own == cluster)
    }

    /// Whether one of a resource's names was declared ours.
    pub fn owns(&self, names: &[&str]) -> bool {
        let named = |pattern: &String| names.iter().any(|name| glob(pattern, name));
        self.owned.iter().any(named)
    }
}

/// The objects that exist, to find leaked resources.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Living {
    /// `<namespace>/<name>`, or `<cluster>/<namespace>/<name>` where clusters share an account.
    pub objects: Vec<String>,
    /// Connection groups: `<name>` or `<cluster>/<name>`.
    pub groups: Vec<String>,
    /// Ids, names and record names that were left intentionally; `*` as in `owned`.
    pub retained: Vec<String>,
}

impl Living {
    /// Whether the object of a marker exists.
    pub fn has(&self, cluster: &str, object: &str) -> bool {
        lives(&self.objects, cluster, object)
    }

    /// Whether the group of a marker exists.
    pub fn has_group(&self, cluster: &str, group: &str) -> bool {
        lives(&self.groups, cluster, group)
    }

    /// Whether a resource was left intentionally.
    pub fn retains(&self, names: &[&str]) -> bool {
        let named = |pattern: &String| names.iter().any(|name| glob(pattern, name));
        self.retained.iter().any(named)
    }
}

fn lives(list: &[String], cluster: &str, name: &str) -> bool {
    let full = format!("{cluster}/{name}");
    list.iter().any(|one| one == name || *one == full)
}

/// One answered or cut request, for the oracle.
pub(crate) struct Sent<'a> {
    pub(crate) service: &'static str,
    pub(crate) account: &'a str,
    pub(crate) operation: &'a str,
    pub(crate) resource: &'a str,
    pub(crate) body: &'a [u8],
    pub(crate) is_write: bool,
    /// The error code; `None` is success.
    pub(crate) code: Option<&'a str>,
    /// Whether a fault rule or the rate limit affected it.
    pub(crate) disturbed: bool,
}

#[derive(Debug)]
struct Last {
    operation: String,
    body: u64,
    time: Timestamp,
    refused: bool,
}

/// The oracle over all services.
#[derive(Debug, Default)]
pub(crate) struct Oracle {
    pub(crate) declared: Declared,
    /// The last write to each resource, by service, account and name.
    last: HashMap<(&'static str, String, String), Last>,
    violations: Vec<(&'static str, Violation)>,
    /// What observers reported, and when.
    pub(crate) reported: Vec<(Timestamp, ReportedViolation)>,
    pub(crate) timeline: Vec<TimelineEntry>,
}

impl Oracle {
    pub(crate) fn declare(&mut self, declaring: Declaring) {
        let Declaring {
            steady,
            clusters,
            owned,
            operators,
        } = declaring;
        let declared = &mut self.declared;
        declared.steady = steady.unwrap_or(declared.steady);
        declared.clusters = clusters.unwrap_or_else(|| std::mem::take(&mut declared.clusters));
        declared.owned = owned.unwrap_or_else(|| std::mem::take(&mut declared.owned));
        declared.operators = operators.unwrap_or_else(|| std::mem::take(&mut declared.operators));
        self.last.clear();
    }

    /// Adds what an observer saw just now.
    pub(crate) fn add(&mut self, report: Report, now: Timestamp) {
        let Report {
            violations,
            timeline,
        } = report;
        let violations = violations.into_iter().map(|violation| (now, violation));
        self.reported.extend(violations);
        let timeline = timeline
            .into_iter()
            .map(|ReportedEvent { event, about }| TimelineEntry {
                time: now,
                event,
                about,
            });
        self.timeline.extend(timeline);
    }

    /// Earlier requests no longer count, because a direct edit changed the state.
    pub(crate) fn disturb(&mut self) {
        self.last.clear();
    }

    pub(crate) fn report(&mut self, service: &'static str, violation: Violation) {
        self.violations.push((service, violation));
    }

    /// Checks a request against the rules for every service.
    pub(crate) fn see(&mut self, sent: &Sent<'_>, now: Timestamp) {
        if sent.disturbed {
            self.last
                .retain(|(service, ..), _| *service != sent.service);
        }
        if !sent.is_write {
            return;
        }
        if self.declared.steady {
            self.found(sent, "writeWhileSteady", "while all is steady", now);
        }
        if sent.disturbed {
            return;
        }
        let body = hash(sent.body);
        let key = (
            sent.service,
            sent.account.to_owned(),
            sent.resource.to_owned(),
        );
        if let Some(last) = self.last.get(&key)
            && last.operation == sent.operation
            && last.body == body
            && now.duration_since(last.time) < SOON
            && (last.refused || sent.operation.starts_with("Update"))
        {
            self.found(sent, "resentUnchanged", "again as it was", now);
        }
        match sent.code {
            // The same write may be valid later: a second one is checked against what comes between.
            Some(code) if PASSING.contains(&code) => {
                self.last.remove(&key);
                return;
            }
            Some(_) => {}
            None => self.last.retain(|_, last| !last.refused),
        }
        let last = Last {
            operation: sent.operation.to_owned(),
            body,
            time: now,
            refused: sent.code.is_some(),
        };
        self.last.insert(key, last);
    }

    fn found(&mut self, sent: &Sent<'_>, rule: &'static str, how: &str, now: Timestamp) {
        let Sent {
            account,
            operation,
            resource,
            ..
        } = sent;
        let detail = format!("{account} sent {operation} of {resource:?} {how}");
        let violation = Violation {
            time: now,
            rule,
            detail,
        };
        self.report(sent.service, violation);
    }

    pub(crate) fn violations(&self) -> &[(&'static str, Violation)] {
        &self.violations
    }

    pub(crate) fn reset(&mut self) {
        *self = Self::default();
    }
}

fn hash(body: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    body.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).expect("a small number")
    }

    fn sent<'a>(operation: &'a str, code: Option<&'a str>) -> Sent<'a> {
        Sent {
            service: "cdn",
            account: "1",
            operation,
            resource: "acme",
            body: b"x",
            is_write: true,
            code,
            disturbed: false,
        }
    }

    fn rules(oracle: &Oracle) -> Vec<&'static str> {
        let violations = oracle.violations().iter();
        violations.map(|(_, seen)| seen.rule).collect()
    }

    #[rstest]
    #[case::a_refused_create("Create", Some("InvalidArgument"), 239, true)]
    #[case::after_a_while("Create", Some("InvalidArgument"), 240, false)]
    #[case::after_throttling("Create", Some("Throttling"), 1, false)]
    #[case::after_a_stale_etag("Update", Some("PreconditionFailed"), 1, false)]
    #[case::an_accepted_create("Create", None, 1, false)]
    #[case::an_accepted_update("Update", None, 1, true)]
    fn the_same_write_again(
        #[case] operation: &str,
        #[case] code: Option<&str>,
        #[case] after: i64,
        #[case] wrong: bool,
    ) {
        let mut oracle = Oracle::default();
        oracle.see(&sent(operation, code), at(0));
        oracle.see(&sent(operation, code), at(after));
        assert_eq!(!rules(&oracle).is_empty(), wrong);
    }

    #[test]
    fn a_successful_write_in_between_allows_the_refused_one() {
        let mut oracle = Oracle::default();
        oracle.see(&sent("Create", Some("EntityNotFound")), at(0));
        let other = Sent {
            resource: "group",
            ..sent("Create", None)
        };
        oracle.see(&other, at(1));
        oracle.see(&sent("Create", None), at(2));
        assert_eq!(rules(&oracle), Vec::<&str>::new());
    }

    #[test]
    fn another_body_is_another_request() {
        let mut oracle = Oracle::default();
        oracle.see(&sent("Update", None), at(0));
        let other = Sent {
            body: b"y",
            ..sent("Update", None)
        };
        oracle.see(&other, at(1));
        oracle.see(&sent("Update", None), at(2));
        assert_eq!(rules(&oracle), Vec::<&str>::new());
    }

    #[test]
    fn after_a_fault_the_same_request_is_valid() {
        let mut oracle = Oracle::default();
        oracle.see(&sent("Create", Some("AccessDenied")), at(0));
        let read = Sent {
            is_write: false,
            disturbed: true,
            ..sent("Get", None)
        };
        oracle.see(&read, at(1));
        oracle.see(&sent("Create", Some("AccessDenied")), at(2));
        assert_eq!(rules(&oracle), Vec::<&str>::new());
    }

    #[test]
    fn every_write_is_a_violation_while_steady() {
        let mut oracle = Oracle::default();
        oracle.declare(Declaring {
            steady: Some(true),
            ..Declaring::default()
        });
        let read = Sent {
            is_write: false,
            ..sent("Get", None)
        };
        oracle.see(&read, at(0));
        oracle.see(&sent("Create", Some("InvalidArgument")), at(0));
        assert_eq!(rules(&oracle), ["writeWhileSteady"]);
    }

    #[test]
    fn a_declaration_changes_only_what_it_names() {
        let mut oracle = Oracle::default();
        let first: Declaring =
            serde_json::from_str(r#"{"clusters": ["c1"], "owned": ["*.example.com"]}"#).unwrap();
        oracle.declare(first);
        oracle.declare(Declaring {
            steady: Some(true),
            ..Declaring::default()
        });
        let Declared { steady, .. } = oracle.declared;
        assert!(steady && oracle.declared.is_ours("c1") && !oracle.declared.is_ours("c2"));
        assert!(oracle.declared.owns(&["dt_1", "a.example.com"]));
        assert!(!oracle.declared.owns(&["example.com"]));
    }

    #[test]
    fn an_object_is_found_with_or_without_its_cluster() {
        let living = Living {
            objects: vec!["web/a".to_owned(), "c1/web/b".to_owned()],
            ..Living::default()
        };
        assert!(living.has("c9", "web/a") && living.has("c1", "web/b"));
        assert!(!living.has("c2", "web/b"));
    }
}
