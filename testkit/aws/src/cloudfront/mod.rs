//! CloudFront's tenants, version 2020-05-31 (REST-XML, us-east-1): distribution tenants, connection
//! groups, managed certificates, invalidations, domain conflicts, tags, and GetDistribution.
//!
//! Domains are unique over all accounts. A write makes a new ETag and is InProgress until
//! `deployDelay` is over. A domain must be covered by the certificate, asked for with
//! `self-hosted`, or (asked for with `cloudfront`) lead to the group in the emulated Route 53.
//!
//! | switch | meaning |
//! |---|---|
//! | `writeAnswers` InProgress, Deployed | what a write answers; Deployed: it is so at once |
//! | `update` replace, merge, deepMerge | what an Update does to members it leaves out |
//! | `autoAttach` off, on | an issued managed certificate attaches itself |
//! | `certResend` ignore, new | the same certificate request again |
//! | `certOmit` keep, cancel | an Update without the request, while nothing is attached |
//! | `deleteNeedsDeployed` true | Delete while InProgress is ResourceNotDisabled |
//! | `conflictOrder` name, domain | which conflict a Create tells first |
//! | `readLag` | reads are that far behind |
//! | `defaultGroup` withDistribution, withTenant | what the default group comes with |
//! | `tagsEchoed` true | answers carry tags |
//! | `etagOnCertificate` false | a certificate's change is a new ETag |
//! | `pageSize` 100 | the longest page of any list |
//! | `deployDelay` 10 s | how long a write is InProgress, an invalidation too |
//! | `issueDelay` 0 | when managed certificates are issued by themselves; 0 is never |
//! | `tenantLimit` 20000 | EntityLimitExceeded beyond it |
//!
//! `mutate`, each form alone, all with `"account"?`:
//! - `"distribution": {"id", "mode"?: "tenant-only" | "direct", "certificate"?, "parameters"?:
//!   [{"name", "required"?, "default"?}], "aliases"?}`, `"deleteDistribution": "<id>"`
//! - `"group": {"name", "id"?, "endpoint"?, "default"?, "ipv6"?, "enabled"?, "tags"?}`, puts one
//! - `"tenant": {"name", "distribution", "domains", …}` makes one, `"edit": {"tenant", …}` changes
//!   one as the console does: `domains`, `enabled`, `group`, `parameters` {name: value},
//!   `certificate` (empty detaches), `webAcl` {action, arn?}, `geo` {type, locations}, `tags`
//!   {key: value}, `request` {host, primary?}; `"id"?` for a tenant
//! - `"delete": "<tenant>"`, `"deleteGroup": "<group>"`
//! - `"state": {"tenant" | "group", "status": "Deployed" | "InProgress"}`
//! - `"managed": {"tenant", "status": "issued", … or "none"}`: how its certificate stands
//!
//! Verb: `GET /_emu/cloudfront/tenants/<account>`.
//!
//! The oracle tells on `foreignChanged`, `foreignDeleted` (no `pontoon.io/cluster` and `/object`
//! tags of ours, not declared `owned`; the first tags of an adoption, too), `twoForOneObject`,
//! `updateEqualsLive`, `deletedTooEarly` (before disabled and Deployed), `writeAfterStale`.
//! Leaks: a `distributionTenant` or `connectionGroup` whose object does not live.

mod body;
mod config;
mod conflicts;
mod control;
mod distributions;
mod error;
mod groups;
mod in_memory;
mod invalidations;
mod judge;
mod managed;
mod route;
mod rules;
mod store;
mod tagging;
mod tenants;
#[cfg(test)]
mod tests;
mod told;

use std::sync::Arc;
use std::time::Duration;

use http::Method;
use jiff::Timestamp;
use parking_lot::Mutex;
use serde_json::{Map, Value, json};

pub use in_memory::{ConnectionGroups, GroupConfig, GroupState};

use error::invalid;
use judge::Judge;
use store::Store;

use crate::acm::Certificates;
use crate::oracle::{Declared, Living};
use crate::protocol::{ApiError, Protocol};
use crate::route53::Zones;
use crate::service::{
    Call, ControlError, Leak, Moment, Operation, Outcome, Service, Verb, Violation,
};
use crate::shelf::View;
use crate::switches::{Accepts, Switch};
use crate::wire::{Request, Response};
use crate::xml::Element;

const NAMESPACE: &str = "http://cloudfront.amazonaws.com/doc/2020-05-31/";
const VERSION: &str = "2020-05-31";
const SWITCHES: &[Switch] = &[
    switch("writeAnswers", Accepts::OneOf(&["InProgress", "Deployed"])),
    switch("update", Accepts::OneOf(&["replace", "merge", "deepMerge"])),
    switch("autoAttach", Accepts::OneOf(&["off", "on"])),
    switch("certResend", Accepts::OneOf(&["ignore", "new"])),
    switch("certOmit", Accepts::OneOf(&["keep", "cancel"])),
    switch("deleteNeedsDeployed", Accepts::Flag(true)),
    switch("conflictOrder", Accepts::OneOf(&["name", "domain"])),
    switch("readLag", Accepts::Span(Duration::ZERO)),
    switch(
        "defaultGroup",
        Accepts::OneOf(&["withDistribution", "withTenant"]),
    ),
    switch("tagsEchoed", Accepts::Flag(true)),
    switch("etagOnCertificate", Accepts::Flag(false)),
    switch("pageSize", Accepts::Count(100)),
    switch("deployDelay", Accepts::Span(Duration::from_secs(10))),
    switch("issueDelay", Accepts::Span(Duration::ZERO)),
    switch("tenantLimit", Accepts::Count(20_000)),
];

const fn switch(name: &'static str, accepts: Accepts) -> Switch {
    Switch { name, accepts }
}

/// The emulated CloudFront. A clone has its own tenants and groups, and the same zones and certificates.
#[derive(Debug, Clone)]
pub struct CloudFront {
    store: Store,
    judge: Judge,
    zones: Arc<Mutex<Zones>>,
    certificates: Arc<Mutex<Certificates>>,
}

/// Who asks, when, and how fresh the answer is.
struct At<'a> {
    account: &'a str,
    moment: Moment<'a>,
    view: View,
}

impl At<'_> {
    /// The time at which a read sees the world.
    fn seen(&self) -> Timestamp {
        match self.view {
            View::Live | View::Previous => self.moment.now,
            View::AsOf(then) => then,
        }
    }

    /// When what is written now is deployed.
    fn deployed_at(&self) -> Timestamp {
        let Moment { now, switches, .. } = self.moment;
        if self.write_answered().is_some() {
            return now;
        }
        let delay = switches.span("deployDelay");
        now.saturating_add(delay).unwrap_or(Timestamp::MAX)
    }

    /// The time whose state a write answers; `None`: it answers InProgress, whatever the delay.
    fn write_answered(&self) -> Option<Timestamp> {
        let Moment { now, switches, .. } = self.moment;
        (switches.choice("writeAnswers") == "Deployed").then_some(now)
    }

    /// How long a page is: what was asked for, but never longer than the switch allows.
    fn page(&self, asked: Option<u64>) -> Result<usize, ApiError> {
        let longest = self.moment.switches.count("pageSize");
        match asked.unwrap_or(longest).min(longest) {
            0 => Err(invalid("MaxItems must be positive.")),
            most => Ok(usize::try_from(most).unwrap_or(usize::MAX)),
        }
    }
}

/// An answer with its root in CloudFront's namespace.
fn answered(status: u16, element: Element, etag: Option<&str>) -> Response {
    let response = Response::xml(status, element.xmlns(NAMESPACE).document());
    match etag {
        Some(etag) => response.with("etag", etag.to_owned()),
        None => response,
    }
}

impl CloudFront {
    /// A CloudFront that asks these zones and certificates.
    pub fn new(zones: Arc<Mutex<Zones>>, certificates: Arc<Mutex<Certificates>>) -> Self {
        Self {
            store: Store::default(),
            judge: Judge::default(),
            zones,
            certificates,
        }
    }

    fn execute(
        &mut self,
        at: &At<'_>,
        operation: &str,
        request: &Request,
    ) -> Result<Response, ApiError> {
        let path = request.segments();
        let id = path.get(2).map_or("", String::as_str);
        let query = |name: &str| {
            let value = request.query_value(name).filter(|value| !value.is_empty());
            value.ok_or_else(|| invalid(&format!("{name} is required.")))
        };
        let ok = |element: Element| answered(200, element, None);
        match operation {
            "CreateDistributionTenant" => self.create_tenant(at, request),
            "GetDistributionTenant" => self.get_tenant(at, id),
            "UpdateDistributionTenant" => self.update_tenant(at, id, request),
            "DeleteDistributionTenant" => self.delete_tenant(at, id, request),
            "GetDistributionTenantByDomain" => self.tenant_by_domain(at, query("domain")?),
            "ListDistributionTenants" => self.list_tenants(at, request).map(ok),
            "CreateInvalidationForDistributionTenant" => self.create_invalidation(at, id, request),
            "GetInvalidationForDistributionTenant" => {
                let one = path.get(4).map_or("", String::as_str);
                self.get_invalidation(at, id, one)
            }
            "CreateConnectionGroup" => self.create_group(at, request),
            "GetConnectionGroup" => self.get_group(at, id),
            "UpdateConnectionGroup" => self.update_group(at, id, request),
            "DeleteConnectionGroup" => self.delete_group(at, id, request),
            "ListConnectionGroups" => self.list_groups(at, request).map(ok),
            "GetManagedCertificateDetails" => self.details(at.account, id, at.view).map(ok),
            "GetDistribution" => self.get_distribution(at, id),
            "ListDomainConflicts" => self.domain_conflicts(at, request).map(ok),
            "VerifyDnsConfiguration" => self.verify_dns(at, request).map(ok),
            "TagResource" => self.tag(at, query("Resource")?, request),
            "UntagResource" => self.untag(at, query("Resource")?, request),
            _ => self.list_tags(at, query("Resource")?).map(ok),
        }
    }
}

impl Service for CloudFront {
    fn name(&self) -> &'static str {
        "cloudfront"
    }

    fn protocol(&self) -> Protocol {
        Protocol::RestXml {
            namespace: NAMESPACE,
        }
    }

    fn regions(&self) -> Option<&'static [&'static str]> {
        Some(&["us-east-1"])
    }

    fn is_for_roles(&self) -> bool {
        false
    }

    fn operation(&self, request: &Request) -> Option<Operation> {
        route::operation(request)
    }

    fn call(&mut self, call: &Call<'_>, request: &Request) -> Result<Response, ApiError> {
        self.settle(&call.moment);
        let missing = || ApiError::new(403, "MissingAuthenticationToken", "Sign the request.");
        let caller = call.caller.ok_or_else(missing)?;
        let lag = call.moment.switches.span("readLag");
        let at = At {
            account: &caller.account,
            moment: call.moment,
            view: call.view.lagged(call.moment.now, lag),
        };
        self.execute(&at, call.operation, request)
    }

    fn seen(&mut self, moment: &Moment<'_>, outcome: &Outcome<'_>) {
        self.judge_stale(moment, outcome);
    }

    fn switches(&self) -> &'static [Switch] {
        SWITCHES
    }

    fn mutate(&mut self, moment: &Moment<'_>, change: Value) -> Result<Value, ControlError> {
        self.change(moment, change)
    }

    fn verbs(&self) -> &'static [&'static str] {
        &["GET tenants/<account>"]
    }

    fn verb(&mut self, moment: &Moment<'_>, verb: &Verb) -> Option<Result<Value, ControlError>> {
        self.settle(moment);
        match (&verb.method, verb.path.as_slice()) {
            (&Method::GET, [word, account]) if word == "tenants" => {
                let shown = self.shown(account, moment.now);
                Some(Ok(json!({ "tenants": shown["tenants"] })))
            }
            _ => None,
        }
    }

    fn state(&self, moment: &Moment<'_>) -> Value {
        let accounts = self.store.accounts.keys();
        let held = accounts.map(|account| (account.clone(), self.shown(account, moment.now)));
        Value::Object(held.collect::<Map<_, _>>())
    }

    fn violations(&self) -> Vec<Violation> {
        self.judge.violations.clone()
    }

    fn leaks(&self, declared: &Declared, living: &Living) -> Vec<Leak> {
        self.leaked(declared, living)
    }

    fn reset(&mut self) {
        self.store.reset();
        self.judge = Judge::default();
    }
}
