//! `status`: how tenants are, as the operator last said.

mod watch;

use api::tenants::{DistributionTenant, conditions};
use clap::ArgMatches;
use engine::{Answer, Finding};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kernel::{ObjectKey, find};
use serde_json::{Value, json};

use super::site::Site;
use super::{Failure, outcome};

const COLUMNS: [&str; 8] = [
    "namespace",
    "name",
    "ready",
    "synced",
    "dns",
    "certificate",
    "id",
    "message",
];

pub(super) async fn status(site: &Site, args: &ArgMatches) -> Result<Answer, Failure> {
    if args.get_flag("watch") {
        return watch::watch(site, watch::Form::of(args)).await;
    }
    let lines = lines(site)?;
    let ready = lines.iter().filter(|line| line.ready).count();
    Ok(Answer {
        columns: &COLUMNS,
        outcome: outcome(ready == lines.len()),
        documents: false,
        remark: Some(remark(site, ready, lines.len())),
        findings: lines.into_iter().map(Line::finding).collect(),
    })
}

fn remark(site: &Site, ready: usize, all: usize) -> String {
    match (all, site.everywhere) {
        (0, true) => "There is no DistributionTenant.".to_owned(),
        (0, false) => format!(
            "There is no DistributionTenant in namespace {}; -n names another, -A shows all.",
            site.namespace()
        ),
        (all, _) => format!("{ready} of {all} tenants are Ready."),
    }
}

fn lines(site: &Site) -> Result<Vec<Line>, Failure> {
    let held = site.tenants()?;
    let lines = held.iter().map(|one| Line::of(one.key(), &one.object));
    Ok(lines.collect())
}

/// How one tenant is.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Line {
    key: ObjectKey,
    ready: bool,
    /// What Ready says.
    message: String,
    /// The reasons of its conditions.
    reasons: [String; 4],
    id: Option<String>,
    target: Option<String>,
}

impl Line {
    fn of(key: &ObjectKey, object: &DistributionTenant) -> Self {
        let status = object.status.clone().unwrap_or_default();
        let condition = |kind: &str| {
            let condition = find(&status.conditions, kind);
            condition.map_or_else(String::new, |one| one.reason.clone())
        };
        let ready = find(&status.conditions, conditions::READY);
        Self {
            key: key.clone(),
            ready: ready
                .filter(|ready| is_current(object, ready))
                .is_some_and(|ready| ready.status == "True"),
            message: ready.map_or_else(
                || "the operator has not looked at it yet; is it running?".to_owned(),
                |ready| ready.message.clone(),
            ),
            reasons: [
                Some(condition(conditions::READY))
                    .filter(|reason| !reason.is_empty())
                    .unwrap_or_else(|| "NotLookedAt".to_owned()),
                condition(conditions::SYNCED),
                condition(conditions::DNS_READY),
                condition(conditions::CERTIFICATE_READY),
            ],
            id: status.id,
            target: status.dns_target,
        }
    }

    fn cells(&self) -> Vec<String> {
        let namespace = self.key.namespace.as_deref().unwrap_or_default();
        let head = [namespace.to_owned(), self.key.name.to_string()];
        let id = self.id.clone().unwrap_or_default();
        // Of one that is ready there is no more to say.
        let message = Some(self.message.clone()).filter(|_| !self.ready);
        head.into_iter()
            .chain(self.reasons.iter().cloned())
            .chain([id, message.unwrap_or_default()])
            .collect()
    }

    fn full(&self) -> Value {
        let [ready, synced, dns, certificate] = &self.reasons;
        json!({
            "namespace": self.key.namespace.as_deref(),
            "name": &*self.key.name,
            "ready": self.ready,
            "reason": ready,
            "message": self.message,
            "synced": synced,
            "dns": dns,
            "certificate": certificate,
            "id": self.id,
            "dnsTarget": self.target,
        })
    }

    fn finding(self) -> Finding {
        Finding {
            name: format!("DistributionTenant/{}", self.key),
            cells: self.cells(),
            full: self.full(),
        }
    }
}

/// Whether a condition speaks of the spec as it is now.
fn is_current(object: &DistributionTenant, condition: &Condition) -> bool {
    condition.observed_generation.is_none()
        || condition.observed_generation == object.metadata.generation
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(generation: i64, conditions: &Value) -> Line {
        let object = serde_json::from_value(json!({
            "apiVersion": "cloudfront-tenant-operator.io/v1alpha1",
            "kind": "DistributionTenant",
            "metadata": {"name": "acme", "namespace": "web", "generation": generation},
            "spec": {"distributionId": "E1", "domains": [{"domain": "a.example.com"}]},
            "status": {"id": "dt_1", "conditions": conditions},
        }));
        Line::of(&ObjectKey::namespaced("web", "acme"), &object.unwrap())
    }

    fn ready() -> Value {
        json!([{
            "type": "Ready", "status": "True", "reason": "Deployed", "message": "x",
            "lastTransitionTime": "2026-01-01T00:00:00Z", "observedGeneration": 2,
        }])
    }

    #[test]
    fn a_tenant_is_a_line_of_reasons() {
        let line = line(2, &ready());
        assert!(line.ready);
        assert_eq!(
            line.cells(),
            ["web", "acme", "Deployed", "", "", "", "dt_1", ""]
        );
    }

    #[test]
    fn one_that_is_not_ready_says_why() {
        let mut conditions = ready();
        conditions[0]["status"] = json!("False");
        conditions[0]["message"] = json!("it is not there");
        let line = line(2, &conditions);
        assert_eq!(line.cells().last().unwrap(), "it is not there");
    }

    #[test]
    fn what_is_said_of_an_older_spec_is_not_ready() {
        assert!(!line(3, &ready()).ready);
    }

    #[test]
    fn one_that_nobody_looked_at_says_so() {
        let line = line(1, &json!([]));
        assert!(!line.ready);
        assert_eq!(line.reasons[0], "NotLookedAt");
    }
}
