//! The sites of the tenants example. Nobody browses here, so we follow a name as a browser would:
//! DNS leads to an entrance of CloudFront, and a tenant behind it answers to the name.

use std::time::Duration;

use serde_json::Value;

use super::cloud::ACCOUNT;
use super::examples::Standing;
use crate::verdict::{Error, While};

/// One site that is declared, and one of each tenant that the table makes.
const DOMAINS: [&str; 3] = [
    "bakery.sites.example.com",
    "roses.sites.example.com",
    "garage.sites.example.com",
];

const PATIENCE: Duration = Duration::from_secs(10);

/// A name that somebody might visit.
pub(crate) struct Site {
    domain: &'static str,
    http: reqwest::Client,
    /// What the emulator holds is told here.
    state: String,
}

/// All of them, in the AWS at `url`.
pub(crate) fn all(url: &str) -> Result<Vec<Site>, Error> {
    let http = reqwest::Client::builder().timeout(PATIENCE).build();
    let http = http.doing("making an HTTP client")?;
    let site = |domain| Site {
        domain,
        http: http.clone(),
        state: format!("{url}/_emu/state"),
    };
    Ok(DOMAINS.into_iter().map(site).collect())
}

impl Site {
    pub(crate) fn name(&self) -> &'static str {
        self.domain
    }

    /// Whether a visitor would be served by now.
    pub(crate) async fn standing(&self) -> Standing {
        match self.visit().await {
            Ok(()) => Standing::Ready {
                reason: "Served".to_owned(),
            },
            Err(error) => Standing::NotReady {
                reason: "NotServed".to_owned(),
                message: error.to_string(),
            },
        }
    }

    async fn visit(&self) -> Result<(), Error> {
        let told = self.http.get(&self.state).send().await;
        let state = told.doing("asking the AWS emulator")?.json().await;
        let state: Value = state.doing("reading what the AWS emulator holds")?;
        served(&state, self.domain).map_err(Error::new)
    }
}

/// Follows `domain` through what AWS holds.
///
/// # Errors
/// Where the way ends.
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
    fn a_name_that_leads_to_a_deployed_tenant_is_served() {
        assert_eq!(served(&state(), "a.example.com"), Ok(()));
    }

    #[test]
    fn where_the_way_ends_is_told() {
        let of = |state: &mut Value, kind: &str, field: &str, value: Value| {
            state["cloudfront"][ACCOUNT][kind][0][field] = value;
        };
        let told = ends(|state| state["route53"] = Value::Null);
        assert_eq!(told, "DNS does not know it");
        let told = ends(|state| of(state, "groups", "enabled", json!(false)));
        assert_eq!(told, "nothing answers at d1");
        let told = ends(|state| of(state, "tenants", "domains", json!([])));
        assert_eq!(told, "no tenant at d1 has it");
        let told = ends(|state| of(state, "tenants", "status", json!("InProgress")));
        assert_eq!(told, "tenant \"a\" is being deployed");
        let told = ends(|state| of(state, "tenants", "enabled", json!(false)));
        assert_eq!(told, "tenant \"a\" is switched off");
    }
}
