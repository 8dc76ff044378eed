//! The websites of the tenants example. There is no browser here, so we follow a domain as one would:
//! DNS points to an endpoint of CloudFront, and a tenant behind it serves the domain.

use std::time::Duration;

use serde_json::Value;

use super::cloud::ACCOUNT;
use super::examples::ExampleState;
use crate::verdict::{Error, While};

/// One declared website, and one of each tenant that the table creates.
const DOMAINS: [&str; 3] = [
    "bakery.sites.example.com",
    "roses.sites.example.com",
    "garage.sites.example.com",
];

const PATIENCE: Duration = Duration::from_secs(10);

/// A website of the examples.
pub(crate) struct Website {
    domain: &'static str,
    http: reqwest::Client,
    /// The URL of the emulator's state.
    state_url: String,
}

/// All websites, in the AWS emulator at `url`.
pub(crate) fn all(url: &str) -> Result<Vec<Website>, Error> {
    let http = reqwest::Client::builder().timeout(PATIENCE).build();
    let http = http.doing("making an HTTP client")?;
    let website = |domain| Website {
        domain,
        http: http.clone(),
        state_url: format!("{url}/_emu/state"),
    };
    Ok(DOMAINS.into_iter().map(website).collect())
}

impl Website {
    pub(crate) fn name(&self) -> &'static str {
        self.domain
    }

    /// Whether the website is served yet.
    pub(crate) async fn state(&self) -> ExampleState {
        match self.visit().await {
            Ok(()) => ExampleState::Ready {
                reason: "Served".to_owned(),
            },
            Err(error) => ExampleState::NotReady {
                reason: "NotServed".to_owned(),
                message: error.to_string(),
            },
        }
    }

    async fn visit(&self) -> Result<(), Error> {
        let answer = self.http.get(&self.state_url).send().await;
        let state = answer.doing("asking the AWS emulator")?.json().await;
        let state: Value = state.doing("reading what the AWS emulator holds")?;
        served(&state, self.domain).map_err(Error::new)
    }
}

/// Follows `domain` through the state of AWS.
///
/// # Errors
/// Why it is not served.
fn served(state: &Value, domain: &str) -> Result<(), String> {
    let name = format!("{domain}.");
    let mut records = list(&state["route53"]["zones"]).flat_map(|zone| list(&zone["records"]));
    let record = records.find(|record| record["name"] == name && record["type"] == "CNAME");
    let record = record.ok_or("DNS does not know it")?;
    let target = record["values"][0].as_str().unwrap_or_default();
    let target = target.trim_end_matches('.');

    let cloudfront = &state["cloudfront"][ACCOUNT];
    let mut groups = list(&cloudfront["groups"]);
    let group = groups.find(|group| group["endpoint"] == target && group["enabled"] == true);
    let group = group.ok_or_else(|| format!("nothing answers at {target}"))?;
    let mut tenants = list(&cloudfront["tenants"]);
    let tenant = tenants.find(|tenant| {
        tenant["group"] == group["id"] && list(&tenant["domains"]).any(|one| one == domain)
    });
    let tenant = tenant.ok_or_else(|| format!("no tenant at {target} has it"))?;
    match (tenant["enabled"] == true, tenant["status"] == "Deployed") {
        (true, true) => Ok(()),
        (true, false) => Err(format!("tenant {} is being deployed", tenant["name"])),
        (false, _) => Err(format!("tenant {} is switched off", tenant["name"])),
    }
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{ACCOUNT, served};

    fn state() -> Value {
        let records = json!([{"name": "a.example.com.", "type": "CNAME", "values": ["d1."]}]);
        let group = json!({"id": "cg1", "endpoint": "d1", "enabled": true});
        let tenant = json!({
            "name": "a", "group": "cg1", "domains": ["a.example.com"], "enabled": true,
            "status": "Deployed",
        });
        json!({
            "route53": {"zones": [{"records": records}]},
            "cloudfront": {ACCOUNT: {"groups": [group], "tenants": [tenant]}},
        })
    }

    fn ends(change: impl FnOnce(&mut Value)) -> String {
        let mut state = state();
        change(&mut state);
        served(&state, "a.example.com").unwrap_err()
    }

    #[test]
    fn a_domain_of_a_deployed_tenant_is_served() {
        assert_eq!(served(&state(), "a.example.com"), Ok(()));
    }

    #[test]
    fn the_error_names_the_obstacle() {
        let of = |state: &mut Value, kind: &str, field: &str, value: Value| {
            state["cloudfront"][ACCOUNT][kind][0][field] = value;
        };
        let error = ends(|state| state["route53"] = Value::Null);
        assert_eq!(error, "DNS does not know it");
        let error = ends(|state| of(state, "groups", "enabled", json!(false)));
        assert_eq!(error, "nothing answers at d1");
        let error = ends(|state| of(state, "tenants", "domains", json!([])));
        assert_eq!(error, "no tenant at d1 has it");
        let error = ends(|state| of(state, "tenants", "status", json!("InProgress")));
        assert_eq!(error, "tenant \"a\" is being deployed");
        let error = ends(|state| of(state, "tenants", "enabled", json!(false)));
        assert_eq!(error, "tenant \"a\" is switched off");
    }
}
