//! `status`: how tenants are, as the operator last said.

use std::collections::BTreeMap;
use std::io::Write;
use std::time::Duration;

use api::tenants::{DistributionTenant, conditions};
use clap::ArgMatches;
use engine::{Answer, Finding};
use kernel::{ObjectKey, find};
use serde_json::{Value, json};

use super::site::Site;
use super::{Failure, outcome};

const COLUMNS: [&str; 7] = [
    "namespace",
    "name",
    "ready",
    "synced",
    "dns",
    "certificate",
    "id",
];
/// How often it is looked for news.
const PAUSE: Duration = Duration::from_millis(500);

pub(super) async fn status(site: &Site, args: &ArgMatches) -> Result<Answer, Failure> {
    if args.get_flag("watch") {
        return watch(site).await;
    }
    let lines = lines(site)?;
    let ready = lines.iter().filter(|line| line.ready).count();
    Ok(Answer {
        columns: &COLUMNS,
        outcome: outcome(ready == lines.len()),
        documents: false,
        remark: Some(format!("{ready} of {} tenants are Ready.", lines.len())),
        findings: lines.into_iter().map(Line::finding).collect(),
    })
}

fn lines(site: &Site) -> Result<Vec<Line>, Failure> {
    let held = site.tenants()?;
    let lines = held.iter().map(|one| Line::of(one.key(), &one.object));
    Ok(lines.collect())
}

/// Prints every tenant, and again when it changes, until somebody ends it.
async fn watch(site: &Site) -> Result<Answer, Failure> {
    let mut shown = BTreeMap::new();
    print(&COLUMNS.map(str::to_uppercase))?;
    loop {
        let lines = lines(site)?;
        let mut now = BTreeMap::new();
        for line in lines {
            let cells = line.cells();
            if shown.get(&line.key) != Some(&cells) {
                print(&cells)?;
            }
            now.insert(line.key, cells);
        }
        for (key, mut cells) in shown {
            if !now.contains_key(&key) {
                cells.truncate(2);
                cells.push("(gone)".to_owned());
                print(&cells)?;
            }
        }
        shown = now;
        tokio::time::sleep(PAUSE).await;
    }
}

/// One row; its columns are as wide as the rows to come most likely need.
fn print(cells: &[String]) -> Result<(), Failure> {
    let cells: Vec<_> = cells.iter().map(|cell| format!("{cell:<22}")).collect();
    let row = cells.join("  ");
    let mut out = std::io::stdout();
    writeln!(out, "{}", row.trim_end())?;
    out.flush()?;
    Ok(())
}

/// How one tenant is.
#[derive(Debug, PartialEq, Eq)]
struct Line {
    key: ObjectKey,
    ready: bool,
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
        head.into_iter()
            .chain(self.reasons.iter().cloned())
            .chain([id])
            .collect()
    }

    fn finding(self) -> Finding {
        let [ready, synced, dns, certificate] = &self.reasons;
        let full: Value = json!({
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
        });
        Finding {
            name: format!("DistributionTenant/{}", self.key),
            cells: self.cells(),
            full,
        }
    }
}

/// Whether a condition speaks of the spec as it is now.
fn is_current(
    object: &DistributionTenant,
    condition: &k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition,
) -> bool {
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
            ["web", "acme", "Deployed", "", "", "", "dt_1"]
        );
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
