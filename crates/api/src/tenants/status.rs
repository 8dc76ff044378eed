//! What is known of a DistributionTenant.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::schema::{never_null, none_required};
use super::{DnsRecord, DriftedField, RequiredRecord, TenantBody, ValidationToken};
use crate::stored::{lenient, understood};

/// What is known of a tenant.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = never_null)]
pub struct DistributionTenantStatus {
    /// The last generation of the spec that CloudFront accepted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Its id in CloudFront.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// Its ARN.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub arn: Option<String>,
    /// Its version in CloudFront.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub e_tag: Option<String>,
    /// How far its deployment is: InProgress or Deployed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub distribution_tenant_status: Option<String>,
    /// When it was made.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub created_time: Option<Time>,
    /// When it was last changed in CloudFront.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_modified_time: Option<Time>,
    /// Whether each domain is served.
    #[serde(
        default,
        deserialize_with = "understood",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub domain_results: Vec<DomainResult>,
    /// The certificate in use, given or managed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub certificate_arn: Option<String>,
    /// How far the managed certificate is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub managed_certificate_status: Option<String>,
    /// When `driftDetected` last changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_drift_check_time: Option<Time>,
    /// Whether others changed it in AWS.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub drift_detected: Option<bool>,
    /// A change of DNS records that is still to reach all name servers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dns_change_id: Option<String>,
    /// Where its DNS records point.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dns_target: Option<String>,
    /// Standard conditions.
    #[serde(
        default,
        deserialize_with = "understood",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub conditions: Vec<Condition>,
    /// Its name in CloudFront.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tenant_name: Option<String>,
    /// When CloudFront was first about to be asked for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub create_requested_at: Option<Time>,
    /// The connection group it is in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub connection_group_id: Option<String>,
    /// What CloudFront last accepted from us.
    #[serde(
        default,
        deserialize_with = "lenient",
        skip_serializing_if = "Option::is_none"
    )]
    pub last_applied: Option<TenantBody>,
    /// What others changed, at most 20 fields.
    #[serde(
        default,
        deserialize_with = "understood",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub drift: Vec<DriftedField>,
    /// The DNS records that are ours.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub dns_records: Vec<DnsRecord>,
    /// The DNS records that you have to make.
    #[serde(
        default,
        deserialize_with = "understood",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub required_records: Vec<RequiredRecord>,
    /// The redirects that your server has to answer with until the certificate is issued.
    #[serde(
        default,
        deserialize_with = "understood",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub validation_tokens: Vec<ValidationToken>,
}

/// Whether a domain is served.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(transform = never_null, transform = none_required)]
pub struct DomainResult {
    /// The domain.
    pub domain: String,
    /// Active or inactive, in CloudFront's word.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_is_not_understood_reads_as_absent() {
        let status: DistributionTenantStatus = serde_json::from_value(json!({
            "lastApplied": {"distributionId": 7},
            "domainResults": [{"status": "active"}, {"domain": "a.example.com"}],
            "conditions": ["Ready", {"type": "Synced", "status": "True", "reason": "InSync",
                "message": "", "lastTransitionTime": "2026-01-02T03:04:05Z"}],
            "fieldOfANewerRelease": 1,
        }))
        .unwrap();
        assert_eq!(status.last_applied, None);
        let domains: Vec<_> = status
            .domain_results
            .iter()
            .map(|one| &*one.domain)
            .collect();
        assert_eq!(domains, ["a.example.com"]);
        let kinds: Vec<_> = status.conditions.iter().map(|one| &*one.type_).collect();
        assert_eq!(kinds, ["Synced"]);
    }

    #[test]
    fn a_record_that_is_not_understood_is_not_skipped() {
        let record = json!({"zoneId": "Z1", "name": "a.example.com", "type": "CNAME",
            "target": "d0.cloudfront.net", "state": "Dreaming"});
        let status = json!({"dnsRecords": [record]});
        assert!(serde_json::from_value::<DistributionTenantStatus>(status).is_err());
    }

    #[test]
    fn an_empty_status_serialises_to_nothing() {
        let empty = DistributionTenantStatus::default();
        assert_eq!(serde_json::to_value(empty).unwrap(), json!({}));
    }
}
