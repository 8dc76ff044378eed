//! AWS from behind: what there is, what others do to it, and what goes wrong.

use std::collections::BTreeMap;

use http::Method;
use jiff::Timestamp;
use serde_json::{Value, json};
use testkit::{Aws, Result, eventually};

use super::Site;

/// The account of the operator's keys, and another one.
pub(crate) const ACCOUNT: &str = "000000000000";
pub(crate) const OTHER_ACCOUNT: &str = "222222222222";
/// The certificate of E1.
pub(crate) const CERTIFICATE: &str = "arn:aws:acm:us-east-1:000000000000:certificate/base";
/// The endpoint of cg0, the default group.
pub(crate) const D0: &str = "d0.cloudfront.net";
/// Longer than any story, in seconds.
const FOREVER: u64 = 3_600_000;

/// Makes the base of all stories.
pub(super) fn furnish(aws: &Aws) -> Result<()> {
    let seeds = [
        json!({"service": "acm", "certificate": {"arn": CERTIFICATE, "names": ["*.example.com"]}}),
        json!({"service": "cloudfront", "group": {
            "name": "cg0", "id": "cg0", "endpoint": D0, "default": true,
        }}),
        json!({"service": "cloudfront", "distribution": {"id": "E1", "certificate": CERTIFICATE}}),
        json!({"service": "route53", "zone": {"id": "Z1", "name": "example.com"}}),
    ];
    for seed in seeds {
        aws.control(Method::POST, "mutate", seed)?;
    }
    Ok(())
}

/// What happens to a call that goes wrong.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Fault {
    /// It is refused with this status and code.
    Refused(u16, &'static str),
    /// The same in these words.
    Told(u16, &'static str, &'static str),
    /// It never arrives.
    CutBefore,
    /// It is done, and nobody hears of it.
    CutAfter,
    /// It is done after so many seconds of real time.
    Late(u32),
}

impl Fault {
    fn effect(self) -> Value {
        let error = |status: u16, code: &str, message: &str| json!({"error": {"status": status, "code": code, "message": message}});
        match self {
            Self::Refused(status, code) => error(status, code, code),
            Self::Told(status, code, message) => error(status, code, message),
            Self::CutBefore => json!("cutBefore"),
            Self::CutAfter => json!("cutAfter"),
            Self::Late(seconds) => json!({"delay": seconds}),
        }
    }
}

pub(crate) const DENIED: Fault = Fault::Told(403, "AccessDenied", "User is not authorized");
pub(crate) const THROTTLED: Fault = Fault::Told(400, "Throttling", "Rate exceeded");
pub(crate) const BROKEN: Fault = Fault::Told(500, "InternalError", "We are broken");
pub(crate) const STALE: Fault = Fault::Refused(412, "PreconditionFailed");

impl Site {
    fn control(&self, method: Method, path: &str, body: Value) -> Result<Value> {
        Ok(self.aws.control(method, path, body)?)
    }

    /// Changes something of a service as a person at its console does.
    pub(crate) fn console(&self, service: &str, mut change: Value) -> Result<Value> {
        change["service"] = json!(service);
        self.control(Method::POST, "mutate", change)
    }

    /// Changes a tenant as a person at the console does.
    pub(crate) fn edits_tenant(&self, tenant: &str, mut change: Value) -> Result<()> {
        change["tenant"] = json!(tenant);
        self.console("cloudfront", json!({"edit": change}))
            .map(drop)
    }

    /// Makes a tenant that is nobody's.
    pub(crate) fn seeds_tenant(&self, tenant: Value) -> Result<Value> {
        self.console("cloudfront", json!({"tenant": tenant}))
    }

    /// Makes a connection group with an endpoint of its own.
    pub(crate) fn seeds_group(&self, id: &str, endpoint: &str) -> Result<()> {
        let group = json!({"name": id, "id": id, "endpoint": endpoint});
        self.console("cloudfront", json!({"group": group}))
            .map(drop)
    }

    /// Makes or replaces a distribution; `change` is what differs from E1.
    pub(crate) fn seeds_distribution(&self, id: &str, change: &Value) -> Result<()> {
        let mut distribution = json!({"id": id, "certificate": CERTIFICATE});
        super::objects::merge(&mut distribution, change);
        let change = json!({"distribution": distribution});
        self.console("cloudfront", change).map(drop)
    }

    /// The names that E1's certificate is good for.
    pub(crate) fn certifies(&self, names: &[&str]) -> Result<()> {
        self.seeds_certificate(CERTIFICATE, names)
    }

    /// Makes or replaces a certificate.
    pub(crate) fn seeds_certificate(&self, arn: &str, names: &[&str]) -> Result<()> {
        let certificate = json!({"arn": arn, "names": names});
        self.console("acm", json!({"certificate": certificate}))
            .map(drop)
    }

    /// How a tenant's managed certificate stands.
    pub(crate) fn certificate_is(&self, tenant: &str, status: &str) -> Result<()> {
        let managed = json!({"tenant": tenant, "status": status});
        self.console("cloudfront", json!({"managed": managed}))
            .map(drop)
    }

    /// Chooses how a service behaves.
    pub(crate) fn switch(&self, service: &str, settings: Value) -> Result<()> {
        let switches = json!({service: settings});
        self.control(Method::PUT, "switches", switches).map(drop)
    }

    /// From now on nothing gets deployed unless [`Self::deploys`] says so.
    pub(crate) fn holds_deployments(&self) -> Result<()> {
        self.switch("cloudfront", json!({"deployDelay": FOREVER}))
    }

    /// From now on what is written is deployed after ten seconds.
    pub(crate) fn frees_deployments(&self) -> Result<()> {
        self.switch("cloudfront", json!({"deployDelay": 10}))
    }

    /// A tenant is deployed everywhere.
    pub(crate) fn deploys(&self, tenant: &str) -> Result<()> {
        let state = json!({"tenant": tenant, "status": "Deployed"});
        self.console("cloudfront", json!({"state": state}))
            .map(drop)
    }

    /// From now on name servers learn nothing unless [`Self::settles_dns`] says so.
    pub(crate) fn holds_dns(&self) -> Result<()> {
        self.switch("route53", json!({"insyncDelay": FOREVER}))
    }

    /// All name servers know all records.
    pub(crate) fn settles_dns(&self) -> Result<()> {
        self.console("route53", json!({"settle": true})).map(drop)
    }

    /// Every call of this operation goes wrong, until [`Self::mends`].
    pub(crate) fn breaks(&self, operation: &str, fault: Fault) -> Result<()> {
        self.fault(json!({"operation": operation}), fault)
    }

    /// The next calls of this operation go wrong.
    pub(crate) fn breaks_once(&self, operation: &str, fault: Fault) -> Result<()> {
        self.fault(json!({"operation": operation, "times": 1}), fault)
    }

    /// Calls that `rule` describes go wrong.
    pub(crate) fn fault(&self, mut rule: Value, fault: Fault) -> Result<()> {
        rule["effect"] = fault.effect();
        self.control(Method::POST, "faults", rule).map(drop)
    }

    /// Nothing goes wrong any more.
    pub(crate) fn mends(&self) -> Result<()> {
        self.control(Method::DELETE, "faults", Value::Null)
            .map(drop)
    }

    /// Tells the oracle something.
    pub(crate) fn oracle(&self, declaration: Value) -> Result<()> {
        self.control(Method::PUT, "oracle", declaration).map(drop)
    }

    /// Objects ask for these to be taken over, or have them on record: ids, names, record names.
    pub(crate) fn may_take(&self, names: &[&str]) -> Result<()> {
        self.oracle(json!({"owned": names}))
    }

    pub(super) fn violations(&self) -> Result<Vec<Value>> {
        let seen = self.control(Method::GET, "violations", Value::Null)?;
        Ok(seen["violations"].as_array().cloned().unwrap_or_default())
    }

    pub(super) fn left(&self, living: &Value) -> Result<Vec<Value>> {
        let left = self.control(Method::POST, "leaks", living.clone())?;
        Ok(left["leaks"].as_array().cloned().unwrap_or_default())
    }

    /// The entries of AWS's log after `last`.
    pub(super) fn entries_after(&self, last: u64) -> Result<Value> {
        let mut log = self.control(Method::GET, &format!("log?since={last}"), Value::Null)?;
        Ok(log["entries"].take())
    }

    /// Time in AWS runs so many times as fast, from now on.
    pub(super) fn runs_at(&self, pace: u32) -> Result<()> {
        let clock = json!({"factor": pace});
        self.control(Method::POST, "clock", clock).map(drop)
    }

    /// Moves AWS's time forward.
    pub(crate) fn advances(&self, seconds: u64) -> Result<()> {
        let clock = json!({"advance": seconds});
        self.control(Method::POST, "clock", clock).map(drop)
    }

    /// The time in AWS.
    pub(crate) fn time(&self) -> Result<Timestamp> {
        let mut clock = self.control(Method::GET, "clock", Value::Null)?;
        Ok(serde_json::from_value(clock["now"].take())?)
    }

    /// All that AWS holds.
    pub(crate) fn state(&self) -> Result<Value> {
        self.control(Method::GET, "state", Value::Null)
    }

    pub(super) fn held_records(&self, zone: &str) -> Result<Vec<Value>> {
        let path = format!("route53/records/{zone}");
        let held = self.control(Method::GET, &path, Value::Null)?;
        Ok(held["records"].as_array().cloned().unwrap_or_default())
    }

    /// The tenants there are, by name.
    pub(crate) fn live_tenants(&self) -> Result<BTreeMap<String, Value>> {
        let path = format!("cloudfront/tenants/{ACCOUNT}");
        let held = self.control(Method::GET, &path, Value::Null)?;
        let tenants = held["tenants"].as_array().cloned().unwrap_or_default();
        let named = |one: Value| (one["name"].as_str().unwrap_or_default().to_owned(), one);
        Ok(tenants.into_iter().map(named).collect())
    }

    /// A tenant as CloudFront has it; `Null` if it has none of this name.
    pub(crate) fn live(&self, tenant: &str) -> Result<Value> {
        Ok(self.live_tenants()?.remove(tenant).unwrap_or_default())
    }

    /// A connection group as CloudFront has it; `Null` if it has none of this name.
    pub(crate) fn live_group(&self, name: &str) -> Result<Value> {
        let mut state = self.state()?;
        let groups = state["cloudfront"][ACCOUNT]["groups"].take();
        let mut groups = groups.as_array().cloned().unwrap_or_default().into_iter();
        Ok(groups
            .find(|group| group["name"] == name)
            .unwrap_or_default())
    }

    /// Waits until a tenant is in CloudFront as `sign` has it.
    pub(crate) async fn until_live(
        &self,
        tenant: &str,
        sign: impl Fn(&Value) -> bool,
    ) -> Result<Value> {
        eventually(&format!("{tenant} in CloudFront is so"), async || {
            Ok(Some(self.live(tenant)?).filter(&sign))
        })
        .await
    }

    /// The domains of a tenant in CloudFront, in order.
    pub(crate) fn domains(&self, tenant: &str) -> Result<Vec<String>> {
        let live = self.live(tenant)?;
        let domains = live["domains"].as_array().cloned().unwrap_or_default();
        let mut domains: Vec<_> = domains
            .iter()
            .map(|one| one.as_str().unwrap_or_default().to_owned())
            .collect();
        domains.sort();
        Ok(domains)
    }
}
