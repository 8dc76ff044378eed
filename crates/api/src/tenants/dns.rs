//! Who makes the DNS records of a tenant's domains, and where.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::schema::{ROLE_ARN, ZONE_ID, is_default, never_null, rule};

const ZONE_IS_TOLD: &str = "self.provider != 'route53' \
    || (has(self.hostedZoneId) && self.hostedZoneId != '') \
    || (has(self.hostedZoneIds) && self.hostedZoneIds.size() > 0) \
    || (has(self.discoverZones) && self.discoverZones)";

/// Who makes the DNS records of the domains, and where.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(
    transform = never_null,
    extend("x-kubernetes-validations" = [rule(
        ZONE_IS_TOLD,
        "hostedZoneId, hostedZoneIds or discoverZones is required when provider is route53"
    )])
)]
pub struct Dns {
    /// Who makes the records.
    pub provider: DnsProvider,
    /// The hosted zone they are made in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hosted_zone_id: Option<String>,
    /// Further hosted zones; each domain goes to the one with the longest name it ends in.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 20), inner(regex(pattern = ZONE_ID)))]
    pub hosted_zone_ids: Vec<String>,
    /// Whether every public zone of the account is such a candidate.
    #[serde(default, skip_serializing_if = "is_default")]
    #[schemars(extend("default" = false))]
    pub discover_zones: bool,
    /// How long resolvers keep a record, in seconds.
    #[serde(default = "five_minutes")]
    #[schemars(range(min = 60, max = 172_800))]
    pub ttl: i64,
    /// The IAM role that may change the zones, where they belong to another account.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = ROLE_ARN))]
    pub assume_role_arn: Option<String>,
    /// Where records are aliases of Route 53 instead of CNAMEs.
    #[serde(default, skip_serializing_if = "is_default")]
    #[schemars(extend("default" = "ApexOnly"))]
    pub alias_policy: AliasPolicy,
    /// What happens to records of these names that nobody owns.
    #[serde(default, skip_serializing_if = "is_default")]
    #[schemars(extend("default" = "Never"))]
    pub record_adoption: RecordAdoption,
}

impl Dns {
    /// The ids of the zones that are named, as Route 53 wants them, the first one first.
    pub fn zones(&self) -> impl Iterator<Item = &str> {
        let named = self.hosted_zone_id.iter().chain(&self.hosted_zone_ids);
        named.map(|id| zone_id(id)).filter(|id| !id.is_empty())
    }

    /// The role that is assumed for them, if one is named.
    pub fn role(&self) -> Option<&str> {
        let role = self.assume_role_arn.as_deref();
        role.filter(|arn| !arn.is_empty())
    }
}

/// A hosted zone's id without the `/hostedzone/` that Route 53 prints before it.
pub fn zone_id(given: &str) -> &str {
    given.strip_prefix("/hostedzone/").unwrap_or(given)
}

/// Who makes the DNS records.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum DnsProvider {
    /// Pontoon, in Route 53.
    Route53,
    /// You do; `status.requiredRecords` says which.
    None,
}

/// Where records are aliases of Route 53 instead of CNAMEs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub enum AliasPolicy {
    /// At the top of a zone, where DNS forbids CNAMEs.
    #[default]
    ApexOnly,
    /// Everywhere.
    Always,
}

/// What happens to records of a tenant's names that nobody owns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub enum RecordAdoption {
    /// They are left alone and the tenant says DNSConflict.
    #[default]
    Never,
    /// They are taken over if they point where ours would.
    Matching,
    /// They are taken over wherever they point.
    Overwrite,
}

fn five_minutes() -> i64 {
    300
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn zones_lose_their_prefix_and_empty_ones_do_not_count() {
        let dns = |spec| serde_json::from_value::<Dns>(spec).unwrap();
        let all = dns(json!({
            "provider": "route53", "hostedZoneId": "/hostedzone/Z1",
            "hostedZoneIds": ["Z2", "/hostedzone/Z3"],
        }));
        assert_eq!(all.zones().collect::<Vec<_>>(), ["Z1", "Z2", "Z3"]);
        let none = dns(json!({"provider": "none", "hostedZoneId": ""}));
        assert_eq!(none.zones().count(), 0);
    }
}
