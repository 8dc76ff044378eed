//! DistributionTenant: one customer's site on a shared distribution.

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::schema::{
    AWS_NAME, DOMAIN, DOMAIN_CHARS, DOMAINS, is_default, never_null, one_group, rule, unchanging,
    yes,
};
use super::{
    Adoption, DeletionPolicy, DistributionTenantStatus, ManagedCertificateRequest, TenantSettings,
};

/// One customer's site on a shared CloudFront distribution.
#[derive(CustomResource, Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "cloudfront-tenant-operator.io",
    version = "v1alpha1",
    kind = "DistributionTenant",
    doc = "One customer's site on a shared CloudFront distribution, with its DNS and certificate.",
    plural = "distributiontenants",
    shortname = "dt",
    category = "cloudfront",
    namespaced,
    status = "DistributionTenantStatus",
    printcolumn = r#"{"name":"Status","type":"string","jsonPath":".status.distributionTenantStatus"}"#,
    printcolumn = r#"{"name":"Ready","type":"string","jsonPath":".status.conditions[?(@.type==\"Ready\")].status"}"#,
    printcolumn = r#"{"name":"Synced","type":"string","jsonPath":".status.conditions[?(@.type==\"Synced\")].status"}"#,
    printcolumn = r#"{"name":"ID","type":"string","jsonPath":".status.id"}"#,
    printcolumn = r#"{"name":"Age","type":"date","jsonPath":".metadata.creationTimestamp"}"#,
    printcolumn = r#"{"name":"Distribution","type":"string","priority":1,"jsonPath":".spec.distributionId"}"#,
    printcolumn = r#"{"name":"DNS","type":"string","priority":1,"jsonPath":".status.conditions[?(@.type==\"DNSReady\")].reason"}"#,
    printcolumn = r#"{"name":"Certificate","type":"string","priority":1,"jsonPath":".status.conditions[?(@.type==\"CertificateReady\")].reason"}"#
)]
#[serde(rename_all = "camelCase")]
#[schemars(
    transform = never_null,
    extend("x-kubernetes-validations" = [
        one_group(),
        primary_is_a_domain(),
        unchanging("tenantName", "tenantName is immutable"),
    ])
)]
pub struct DistributionTenantSpec {
    /// The distribution that serves it; one for tenants only.
    #[schemars(length(min = 1))]
    pub distribution_id: String,
    /// The domains it answers to.
    #[schemars(length(min = 1, max = DOMAINS))]
    pub domains: Vec<Domain>,
    /// Whether it serves requests.
    #[serde(default = "yes")]
    pub enabled: bool,
    /// What the template of a source can say too.
    #[serde(flatten)]
    pub settings: TenantSettings,
    /// A certificate that CloudFront requests and renews by itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub managed_certificate_request: Option<ManagedCertificateRequest>,
    /// Its name in CloudFront; unset: the object's.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 3, max = 128), regex(pattern = AWS_NAME))]
    pub tenant_name: Option<String>,
    /// Whether tenant and records go from AWS with the object.
    #[serde(default, skip_serializing_if = "is_default")]
    #[schemars(extend("default" = "Delete"))]
    pub deletion_policy: DeletionPolicy,
    /// An existing tenant that is taken over instead of making one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub adoption: Option<Adoption>,
}

/// A domain that a tenant answers to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Domain {
    /// Its name, in any case; `*.example.com` stands for every name one label below.
    #[schemars(length(max = DOMAIN_CHARS), regex(pattern = DOMAIN))]
    pub domain: String,
}

/// In any case and with a final dot or not: `A.example.com.` is `a.example.com`.
///
/// What is beyond its bound is not walked, as in the rules of lists.
fn primary_is_a_domain() -> Value {
    let primary = "self.managedCertificateRequest.primaryDomainName";
    let walk = format!(
        "self.domains.exists(one, \
         [one.domain.lowerAscii(), one.domain.lowerAscii() + '.'].exists(name, \
         name == {primary}.lowerAscii() || name == {primary}.lowerAscii() + '.'))"
    );
    rule(
        &format!(
            "!has(self.managedCertificateRequest) || self.domains.size() > {DOMAINS} \
             || {primary}.size() > {DOMAIN_CHARS} || {walk}"
        ),
        "primaryDomainName must be one of domains",
    )
}
